//! Opens layers and composes them into prims.
//!
//! Local sites come first, then inherited ones, selected variants, references, payloads, each followed by the sites that it
//! refers to. This is enough for assets as tools export them; specializes and relocates are ignored.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use crate::usd::blob::Blob;
use crate::usd::layer::{Arc, Layer};
use crate::usd::package::Package;
use crate::{IoError, warning};

use super::paths::joined;
use super::{Location, Site, Stage, StagePrim};

/// Deepest chain of references, and deepest prim.
const MAX_ARCS: usize = 24;
const MAX_DEPTH: usize = 256;
/// Most sites of one prim.
const MAX_SITES: usize = 256;
/// Most layers of one stage.
const MAX_LAYERS: usize = 1024;
/// Names of variant sets whose variants are clips.
const CLIP_SETS: [&str; 6] = ["clip", "clips", "animation", "animations", "anim", "action"];

impl Stage {
    /// Opens a file with everything it refers to.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let mut stage = Self {
            layers: Vec::new(),
            locations: Vec::new(),
            loaded: HashMap::new(),
            maps: Vec::new(),
            prims: Vec::new(),
            by_path: HashMap::new(),
            selected: None,
            has_clips: false,
            made: Cell::new(0),
        };
        stage.load(Location::Disk(path.to_owned()))?;
        stage.compose_all()?;
        Ok(stage)
    }

    /// Composes anew with this variant of a set selected wherever a prim has it; other prims with such a set keep their own.
    pub fn select(&mut self, set: &str, variant: &str) -> Result<(), IoError> {
        self.selected = Some((set.to_owned(), variant.to_owned()));
        self.compose_all()
    }

    /// A set of variants that are clips: its prim, its name, and its variants, the selected one first.
    pub fn clip_variants(&self) -> Option<(usize, String, Vec<String>)> {
        for (at, prim) in self.prims.iter().enumerate() {
            for site in &prim.sites {
                let layer = &self.layers[site.layer];
                let names = layer.children_of(site.prim).iter();
                let names = names.map(|&child| layer.tokens.get(layer.prims[child as usize].name));
                let variants = names.filter_map(|name| name.strip_prefix('{')?.strip_suffix('}')?.split_once('='));
                let mut clips = variants.filter(|(set, name)| {
                    !name.is_empty() && CLIP_SETS.iter().any(|known| set.eq_ignore_ascii_case(known))
                });
                let Some((set, first)) = clips.next() else { continue };
                let mut all = vec![first.to_owned()];
                all.extend(clips.filter(|(own, _)| *own == set).map(|(_, name)| name.to_owned()));
                let selected = self.selections(&prim.sites).ok()?.remove(set);
                if let Some(chosen) = all.iter().position(|name| Some(name) == selected.as_ref()) {
                    all[..=chosen].rotate_right(1);
                }
                return Some((at, set.to_owned(), all));
            }
        }
        None
    }

    fn compose_all(&mut self) -> Result<(), IoError> {
        self.maps = vec![("/".into(), "/".into())];
        self.prims.clear();
        self.by_path.clear();
        self.has_clips = false;
        let mut sites = Vec::new();
        self.layer_stack(Site { layer: 0, prim: 0, offset: 0.0, scale: 1.0, map: 0 }, 0, &mut sites)?;
        self.compose(sites)
    }

    pub(super) fn load(&mut self, location: Location) -> Result<usize, IoError> {
        let key = match &location {
            Location::Disk(path) => path.to_string_lossy().into_owned(),
            Location::Package(package, name) => format!("{:p}[{name}]", Rc::as_ptr(package)),
        };
        if let Some(&layer) = self.loaded.get(&key) {
            return Ok(layer);
        }
        if self.layers.len() >= MAX_LAYERS {
            return Err(self.unsupported(format!("more than {MAX_LAYERS} layers")));
        }
        let (blob, location) = match location {
            Location::Disk(path) if is_archive(&path)? => {
                let package = Rc::new(Package::open(&path)?);
                let root = package.root().to_owned();
                (package.file(&root)?, Location::Package(package, root))
            }
            Location::Disk(path) => (Some(Blob::open(&path)?), Location::Disk(path)),
            Location::Package(package, name) => (package.file(&name)?, Location::Package(package, name)),
        };
        let Some(blob) = blob else {
            let name = if let Location::Package(_, name) = &location { name.as_str() } else { "" };
            return Err(self.malformed(format!("there is no layer {name:?} in the archive")));
        };
        self.layers.push(Layer::open(blob)?);
        self.locations.push(location);
        self.loaded.insert(key, self.layers.len() - 1);
        Ok(self.layers.len() - 1)
    }

    /// Where `asset`, as layer `from` names it, lies.
    pub(super) fn resolve(&self, from: usize, asset: &str) -> Location {
        match &self.locations[from] {
            Location::Disk(path) => {
                let folder = path.parent().unwrap_or(Path::new("."));
                Location::Disk(folder.join(asset))
            }
            Location::Package(package, name) => {
                let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
                Location::Package(Rc::clone(package), joined(folder, asset))
            }
        }
    }

    /// A layer's prim and its counterparts in sublayers, strongest first.
    fn layer_stack(&mut self, site: Site, depth: usize, out: &mut Vec<Site>) -> Result<(), IoError> {
        if depth > MAX_ARCS || out.len() > MAX_SITES {
            return Err(self.unsupported("sublayers are nested too deeply, or in a circle"));
        }
        out.push(site);
        let layer = &self.layers[site.layer];
        let Some(value) = layer.prim_field(0, "subLayers") else { return Ok(()) };
        let mut arcs = layer.arcs(value, "subLayers")?;
        if let Some(value) = layer.prim_field(0, "subLayerOffsets") {
            let offsets = layer.f64s(value, "subLayerOffsets").unwrap_or_default();
            for (arc, pair) in arcs.iter_mut().zip(offsets.as_chunks::<2>().0) {
                (arc.offset, arc.scale) = (pair[0], pair[1]);
            }
        }
        for arc in arcs {
            let below =
                self.load(self.resolve(site.layer, &arc.asset)).map_err(|e| self.arc_error(site.layer, &arc, e))?;
            let scale = site.scale * arc.scale * self.code_ratio(site.layer, below);
            let offset = site.offset + site.scale * arc.offset;
            self.layer_stack(Site { layer: below, offset, scale, ..site }, depth + 1, out)?;
        }
        Ok(())
    }

    fn arc_error(&self, layer: usize, arc: &Arc, error: IoError) -> IoError {
        let path = self.layers[layer].blob.path();
        IoError::unsupported(path, format!("names the layer {:?}, which cannot be read: {error}", arc.asset))
    }

    fn compose(&mut self, sites: Vec<Site>) -> Result<(), IoError> {
        let root = StagePrim {
            name: String::new(),
            path: "/".into(),
            parent: None,
            children: Vec::new(),
            type_name: String::new(),
            sites,
            clips: Vec::new(),
        };
        self.prims.push(root);
        let mut at = 0;
        // Breadth first, so that parents come before children and no recursion is as deep as a file wants.
        while at < self.prims.len() {
            let layer_prims: usize = self.layers.iter().map(|layer| layer.prims.len()).sum();
            for (name, sites) in self.child_sites(at) {
                if self.prims.len() > 1024 + 256 * layer_prims {
                    return Err(self.unsupported("its references make too many prims"));
                }
                self.add_child(at, name, sites)?;
            }
            at += 1;
        }
        Ok(())
    }

    /// Names of children in order, each with the sites below those of the parent.
    fn child_sites(&self, prim: usize) -> Vec<(String, Vec<Site>)> {
        let mut names: Vec<(String, Vec<Site>)> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for site in &self.prims[prim].sites {
            let layer = &self.layers[site.layer];
            for &child in layer.children_of(site.prim) {
                let name = layer.tokens.get(layer.prims[child as usize].name);
                if name.is_empty() || name.starts_with('{') {
                    continue;
                }
                let at = *known.entry(name).or_insert_with(|| {
                    names.push((name.to_owned(), Vec::new()));
                    names.len() - 1
                });
                names[at].1.push(Site { prim: child, ..*site });
            }
        }
        names
    }

    fn add_child(&mut self, parent: usize, name: String, local: Vec<Site>) -> Result<(), IoError> {
        let above = &self.prims[parent].path;
        let path = if above == "/" { format!("/{name}") } else { format!("{above}/{name}") };
        if path.matches('/').count() > MAX_DEPTH {
            return Err(self.unsupported(format!("prims are nested more than {MAX_DEPTH} deep")));
        }
        let mut sites = Vec::new();
        self.expand(&path, local, 0, &mut sites)?;
        let texts = |key: &str| self.first_text(&sites, key);
        let specifiers: Vec<String> = sites.iter().filter_map(|s| self.specifier(s)).collect();
        let is_class = specifiers.first().is_some_and(|s| s == "class");
        let defined = !is_class && specifiers.iter().any(|s| s == "def");
        let active = sites.iter().find_map(|s| {
            let layer = &self.layers[s.layer];
            layer.prim_field(s.prim, "active").and_then(|v| layer.ints(v, "active").ok())
        });
        if !defined || active.is_some_and(|a| a.first() == Some(&0)) {
            return Ok(());
        }
        let type_name = texts("typeName").unwrap_or_default();
        let clips = self.read_clips(&path, &sites)?;
        self.has_clips |= !clips.is_empty();
        let index = self.prims.len();
        self.by_path.insert(path.clone(), index);
        self.prims[parent].children.push(index);
        self.prims.push(StagePrim { name, path, parent: Some(parent), children: Vec::new(), type_name, sites, clips });
        Ok(())
    }

    fn specifier(&self, site: &Site) -> Option<String> {
        let layer = &self.layers[site.layer];
        let value = layer.prim_field(site.prim, "specifier")?;
        if let Ok(text) = layer.text(value, "specifier") {
            return Some(text);
        }
        let number = layer.ints(value, "specifier").ok()?.first().copied()?;
        Some(["def", "over", "class"].get(usize::try_from(number).ok()?)?.to_string())
    }

    fn first_text(&self, sites: &[Site], key: &str) -> Option<String> {
        sites.iter().find_map(|s| {
            let layer = &self.layers[s.layer];
            layer.prim_field(s.prim, key).and_then(|value| layer.text(value, key).ok())
        })
    }

    /// Appends `local` and all that they bring along, strongest first.
    fn expand(&mut self, path: &str, local: Vec<Site>, depth: usize, out: &mut Vec<Site>) -> Result<(), IoError> {
        if depth > MAX_ARCS || out.len() + local.len() > MAX_SITES {
            return Err(self.unsupported(format!("{path}: references are nested too deeply, or in a circle")));
        }
        out.extend(&local);
        self.inherits(path, &local, depth, out)?;
        self.variants(path, &local, depth, out)?;
        for key in ["references", "payload"] {
            for site in &local {
                let layer = &self.layers[site.layer];
                let Some(value) = layer.prim_field(site.prim, key) else { continue };
                for arc in layer.arcs(value, key)? {
                    self.follow(path, site, &arc, depth, out)?;
                }
            }
        }
        Ok(())
    }

    fn inherits(&mut self, path: &str, local: &[Site], depth: usize, out: &mut Vec<Site>) -> Result<(), IoError> {
        for site in local {
            let layer = &self.layers[site.layer];
            let Some(value) = layer.prim_field(site.prim, "inheritPaths") else { continue };
            for target in layer.texts(value, "inheritPaths")? {
                let arc = Arc { asset: String::new(), prim: target, offset: 0.0, scale: 1.0 };
                self.follow(path, site, &arc, depth, out)?;
            }
        }
        Ok(())
    }

    /// The selected variants of the sets that the local sites have. All sites so far may select, the strongest first: those
    /// of a referencing prim come before those of the file it refers to.
    fn variants(&mut self, path: &str, local: &[Site], depth: usize, out: &mut Vec<Site>) -> Result<(), IoError> {
        let mut selected = self.selections(out)?;
        if let Some((set, variant)) = self.selected.clone()
            && !self.variant_sites(local, &set, &variant).is_empty()
        {
            selected.insert(set, variant);
        }
        let mut selected: Vec<(String, String)> = selected.into_iter().collect();
        selected.sort();
        for (set, variant) in selected {
            let found = self.variant_sites(local, &set, &variant);
            if !found.is_empty() {
                self.expand(path, found, depth + 1, out)?;
            }
        }
        Ok(())
    }

    /// What the sites have of a variant.
    fn variant_sites(&self, local: &[Site], set: &str, variant: &str) -> Vec<Site> {
        let name = format!("{{{set}={variant}}}");
        let of = |site: &Site| {
            let layer = &self.layers[site.layer];
            let own = |child: &&u32| layer.tokens.get(layer.prims[**child as usize].name) == name;
            layer.children_of(site.prim).iter().find(own).map(|&prim| Site { prim, ..*site })
        };
        local.iter().filter_map(of).collect()
    }

    /// Selected variants by set, the strongest first.
    fn selections(&self, sites: &[Site]) -> Result<HashMap<String, String>, IoError> {
        let mut selected = HashMap::new();
        for site in sites {
            let layer = &self.layers[site.layer];
            let Some(value) = layer.prim_field(site.prim, "variantSelection") else { continue };
            for (set, variant) in layer.dictionary(value, "variants")? {
                let variant = layer.text(variant, "variants")?;
                selected.entry(set).or_insert(variant);
            }
        }
        Ok(selected)
    }

    /// Appends the sites that a reference, payload or inherit of `site` leads to.
    fn follow(&mut self, path: &str, site: &Site, arc: &Arc, depth: usize, out: &mut Vec<Site>) -> Result<(), IoError> {
        if self.is_foreign(site.layer, &arc.asset) {
            let from = self.layers[site.layer].blob.path();
            warning::left_out(from, format!("what {path} refers to in {:?}", arc.asset));
            return Ok(());
        }
        let target = match arc.asset.as_str() {
            "" => site.layer,
            asset => {
                let place = self.resolve(site.layer, asset);
                self.load(place).map_err(|e| self.arc_error(site.layer, arc, e))?
            }
        };
        let prim_path = match arc.prim.as_str() {
            "" => self.default_prim(target).ok_or_else(|| {
                let from = self.layers[site.layer].blob.path();
                IoError::unsupported(from, format!("{path} refers to {:?}, which has no default prim", arc.asset))
            })?,
            prim => prim.to_owned(),
        };
        self.maps.push((prim_path.clone(), path.to_owned()));
        if self.maps.len() > 1 << 18 {
            return Err(self.unsupported("too many references"));
        }
        let start = Site {
            layer: target,
            prim: 0,
            offset: site.offset + site.scale * arc.offset,
            scale: site.scale * arc.scale * self.code_ratio(site.layer, target),
            map: self.maps.len() - 1,
        };
        let mut stack = Vec::new();
        self.layer_stack(start, 0, &mut stack)?;
        let sites =
            stack.into_iter().filter_map(|s| Some(Site { prim: self.find(s.layer, &prim_path)?, ..s })).collect();
        self.expand(path, sites, depth + 1, out)
    }

    /// Files that are no layers to us: MaterialX, and an archive within an archive.
    fn is_foreign(&self, from: usize, asset: &str) -> bool {
        let ending = Path::new(asset).extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
        let packed = matches!(self.locations[from], Location::Package(..));
        ending == "mtlx" || (ending == "usdz" && packed)
    }

    fn default_prim(&self, layer: usize) -> Option<String> {
        let layer = &self.layers[layer];
        let name = layer.text(layer.prim_field(0, "defaultPrim")?, "defaultPrim").ok()?;
        Some(if name.starts_with('/') { name } else { format!("/{name}") })
    }

    /// A prim of a layer by its path.
    pub(super) fn find(&self, layer: usize, path: &str) -> Option<u32> {
        let layer = &self.layers[layer];
        let mut at = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let own = |child: &&u32| layer.tokens.get(layer.prims[**child as usize].name) == name;
            at = *layer.children_of(at).iter().find(own)?;
        }
        Some(at)
    }

    /// How long a time code of the layer `below` lasts in those of `above`: layers keep their own clocks.
    fn code_ratio(&self, above: usize, below: usize) -> f64 {
        let rate = |layer: usize| {
            let stated = ["timeCodesPerSecond", "framesPerSecond"].iter().find_map(|key| self.layer_number(layer, key));
            stated.filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(24.0)
        };
        rate(above) / rate(below)
    }
}

/// Detected from the first two bytes.
fn is_archive(path: &Path) -> Result<bool, IoError> {
    let mut head = Vec::new();
    let read = crate::opens::open(path).and_then(|file| file.take(2).read_to_end(&mut head));
    read.map_err(|e| IoError::os(path, e))?;
    Ok(head == b"PK")
}
