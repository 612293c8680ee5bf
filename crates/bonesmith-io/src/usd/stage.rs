//! Layers put together: sublayers, references, payloads, inherits and variants, strongest opinion first.
//!
//! A prim of the stage is a list of sites, each a prim of a layer. Local sites come first, then inherited ones, selected
//! variants, references, payloads, each with what they bring along. Enough for assets as tools export them; value clips
//! are refused, specializes and relocates ignored.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::{IoError, warning};

use super::blob::Blob;
use super::layer::{Arc, Layer, ValueRef};
use super::package::Package;

/// Deepest chain of references, and deepest prim.
const MAX_ARCS: usize = 24;
const MAX_DEPTH: usize = 256;
/// Most sites of one prim.
const MAX_SITES: usize = 256;
/// Most layers of one stage.
const MAX_LAYERS: usize = 1024;

/// Where a layer's own references are looked for.
#[derive(Clone)]
enum Location {
    Disk(PathBuf),
    Package(Rc<Package>, String),
}

/// One opinion about a prim.
#[derive(Clone, Copy, Debug)]
pub struct Site {
    layer: usize,
    prim: u32,
    /// Stage time = `scale` x time in the layer + `offset`.
    offset: f64,
    scale: f64,
    /// Which of `Stage::maps` takes paths of the layer to paths of the stage.
    map: usize,
}

/// A prim of the stage.
pub struct StagePrim {
    /// Own name.
    pub name: String,
    /// Full path.
    pub path: String,
    /// Prim above; prim 0, the root, has none.
    pub parent: Option<usize>,
    /// In order.
    pub children: Vec<usize>,
    /// Schema: "Mesh", "Xform"; empty without one.
    pub type_name: String,
    sites: Vec<Site>,
}

/// All layers and the prims they make.
pub struct Stage {
    layers: Vec<Layer>,
    locations: Vec<Location>,
    loaded: HashMap<String, usize>,
    /// (prefix in the layer, prefix in the stage).
    maps: Vec<(String, String)>,
    /// Parents come before their children.
    pub prims: Vec<StagePrim>,
    by_path: HashMap<String, usize>,
}

/// The opinions about one attribute that count.
pub struct Attribute<'a> {
    layer: &'a Layer,
    /// The value without time.
    pub default: Option<ValueRef>,
    /// Stage times and values, rising.
    pub samples: Vec<(f64, ValueRef)>,
    /// For messages: path and name.
    pub what: String,
}

impl Stage {
    /// Opens a file with everything it refers to.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let mut stage = Self {
            layers: Vec::new(),
            locations: Vec::new(),
            loaded: HashMap::new(),
            maps: vec![("/".into(), "/".into())],
            prims: Vec::new(),
            by_path: HashMap::new(),
        };
        let root = stage.load(Location::Disk(path.to_owned()))?;
        let mut sites = Vec::new();
        stage.layer_stack(Site { layer: root, prim: 0, offset: 0.0, scale: 1.0, map: 0 }, 0, &mut sites)?;
        stage.compose(sites)?;
        Ok(stage)
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.layers[0].blob.path()
    }

    /// This file is broken.
    pub fn malformed(&self, what: impl Into<String>) -> IoError {
        IoError::malformed(self.file(), what)
    }

    /// This file is sound, but not for us.
    pub fn unsupported(&self, what: impl Into<String>) -> IoError {
        IoError::unsupported(self.file(), what)
    }

    /// The file on disk.
    pub fn file(&self) -> &Path {
        match &self.locations[0] {
            Location::Disk(path) => path,
            Location::Package(..) => self.path(),
        }
    }

    fn load(&mut self, location: Location) -> Result<usize, IoError> {
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
    fn resolve(&self, from: usize, asset: &str) -> Location {
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

    /// Name and bytes of a file that a layer names, such as a picture, or why it cannot be read; `None` where it names none.
    pub fn asset(&self, prim: usize, attribute: &str, most: u64) -> Option<(String, Result<Vec<u8>, String>)> {
        let site = self.prims[prim].sites.iter().find(|s| self.site_field(s, attribute, "default").is_some())?;
        let value = self.site_field(site, attribute, "default")?;
        let name = self.layers[site.layer].text(value, attribute).ok()?;
        let bytes = self.asset_bytes(self.resolve(site.layer, &name), attribute, most);
        Some((name, bytes))
    }

    fn asset_bytes(&self, location: Location, what: &str, most: u64) -> Result<Vec<u8>, String> {
        let blob = match location {
            Location::Disk(path) => Blob::open(&path).map_err(|e| e.to_string())?,
            Location::Package(package, name) => {
                package.file(&name).map_err(|e| e.to_string())?.ok_or("it is not in the archive")?
            }
        };
        if blob.len() > most {
            return Err("it is very large".into());
        }
        blob.read(0, blob.len(), what).map_err(|e| e.to_string())
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
        if sites.iter().any(|s| self.layers[s.layer].prim_field(s.prim, "clips").is_some()) {
            return Err(self.unsupported(format!(
                "{path} is animated by value clips, which are not read; write the stage as one file, \
                 for example with `usdcat --flatten` after `usdstitch`"
            )));
        }
        let type_name = texts("typeName").unwrap_or_default();
        let index = self.prims.len();
        self.by_path.insert(path.clone(), index);
        self.prims[parent].children.push(index);
        self.prims.push(StagePrim { name, path, parent: Some(parent), children: Vec::new(), type_name, sites });
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
        let mut selected: HashMap<String, String> = HashMap::new();
        for site in out.iter() {
            let layer = &self.layers[site.layer];
            let Some(value) = layer.prim_field(site.prim, "variantSelection") else { continue };
            for (set, variant) in layer.dictionary(value, "variants")? {
                let variant = layer.text(variant, "variants")?;
                selected.entry(set).or_insert(variant);
            }
        }
        let mut selected: Vec<(String, String)> = selected.into_iter().collect();
        selected.sort();
        for (set, variant) in selected {
            let name = format!("{{{set}={variant}}}");
            let mut found = Vec::new();
            for site in local {
                let layer = &self.layers[site.layer];
                let own = |child: &&u32| layer.tokens.get(layer.prims[**child as usize].name) == name;
                found.extend(layer.children_of(site.prim).iter().find(own).map(|&prim| Site { prim, ..*site }));
            }
            if !found.is_empty() {
                self.expand(path, found, depth + 1, out)?;
            }
        }
        Ok(())
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
    fn find(&self, layer: usize, path: &str) -> Option<u32> {
        let layer = &self.layers[layer];
        let mut at = 0;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            let own = |child: &&u32| layer.tokens.get(layer.prims[**child as usize].name) == name;
            at = *layer.children_of(at).iter().find(own)?;
        }
        Some(at)
    }

    fn site_field(&self, site: &Site, attribute: &str, key: &str) -> Option<ValueRef> {
        self.layers[site.layer].property_field(site.prim, attribute, key)
    }

    /// An attribute with a value.
    pub fn attribute(&self, prim: usize, name: &str) -> Result<Option<Attribute<'_>>, IoError> {
        let what = format!("{}.{name}", self.prims[prim].path);
        for site in &self.prims[prim].sites {
            let layer = &self.layers[site.layer];
            let default = self.site_field(site, name, "default");
            let samples = match self.site_field(site, name, "timeSamples") {
                Some(value) => layer.samples(value, &what)?,
                None => Vec::new(),
            };
            if default.is_none() && samples.is_empty() {
                if self.site_field(site, name, "spline").is_some() {
                    let advice = "is animated by a spline, which is not read; write it with time samples";
                    return Err(self.unsupported(format!("{what} {advice}")));
                }
                continue;
            }
            let samples: Vec<_> = samples.into_iter().map(|(t, v)| (site.scale * t + site.offset, v)).collect();
            let default = default.filter(|v| !layer.is_blocked(*v));
            if default.is_none() && samples.is_empty() {
                return Ok(None); // `None` hides what weaker layers say
            }
            return Ok(Some(Attribute { layer, default, samples, what }));
        }
        Ok(None)
    }

    /// Metadata of an attribute.
    pub fn attribute_text(&self, prim: usize, name: &str, key: &str) -> Option<String> {
        self.prims[prim].sites.iter().find_map(|site| {
            let value = self.site_field(site, name, key)?;
            self.layers[site.layer].text(value, key).ok()
        })
    }

    /// A whole number in an attribute's metadata.
    pub fn attribute_int(&self, prim: usize, name: &str, key: &str) -> Option<i64> {
        self.prims[prim].sites.iter().find_map(|site| {
            let value = self.site_field(site, name, key)?;
            self.layers[site.layer].ints(value, key).ok()?.first().copied()
        })
    }

    /// A number in an attribute's metadata.
    pub fn attribute_number(&self, prim: usize, name: &str, key: &str) -> Option<f64> {
        self.prims[prim].sites.iter().find_map(|site| {
            let value = self.site_field(site, name, key)?;
            self.layers[site.layer].f64s(value, key).ok()?.first().copied()
        })
    }

    /// Names of a prim's properties, strongest sites first, without repeats.
    pub fn property_names(&self, prim: usize) -> Vec<&str> {
        let mut names = Vec::new();
        for site in &self.prims[prim].sites {
            let layer = &self.layers[site.layer];
            for property in layer.properties_of(site.prim) {
                let name = layer.tokens.get(property.name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        names
    }

    /// Prims that a relationship names; those that do not exist are left out.
    pub fn targets(&self, prim: usize, name: &str) -> Vec<usize> {
        self.linked(prim, name, "targetPaths").iter().filter_map(|path| self.by_path.get(path).copied()).collect()
    }

    /// Prim and attribute that an attribute is connected to.
    pub fn connection(&self, prim: usize, name: &str) -> Option<(usize, String)> {
        let path = self.linked(prim, name, "connectionPaths").into_iter().next()?;
        let (prim, attribute) = path.rsplit_once('.')?;
        Some((*self.by_path.get(prim)?, attribute.to_owned()))
    }

    /// Whether a relationship is there at all.
    pub fn has_targets(&self, prim: usize, name: &str) -> bool {
        self.prims[prim].sites.iter().any(|site| self.site_field(site, name, "targetPaths").is_some())
    }

    fn linked(&self, prim: usize, name: &str, key: &str) -> Vec<String> {
        for site in &self.prims[prim].sites {
            let layer = &self.layers[site.layer];
            let Some(value) = self.site_field(site, name, key) else { continue };
            let (from, to) = &self.maps[site.map];
            let own = self.layer_path(site);
            let mapped = |path: String| mapped(&absolute(&own, &without_variants(&path)), from, to);
            return layer.texts(value, name).unwrap_or_default().into_iter().map(mapped).collect();
        }
        Vec::new()
    }

    /// Path of a site's prim in its own layer.
    fn layer_path(&self, site: &Site) -> String {
        let layer = &self.layers[site.layer];
        let mut names = Vec::new();
        let mut at = site.prim;
        while let Some(prim) = layer.prims.get(at as usize).filter(|_| at != 0) {
            names.push(layer.tokens.get(prim.name));
            at = prim.parent;
        }
        names.iter().rev().filter(|n| !n.starts_with('{')).fold(String::new(), |path, name| path + "/" + name)
    }

    /// Metadata of a prim, strongest first: layer and value.
    pub fn prim_metadata(&self, prim: usize, key: &str) -> Option<(&Layer, ValueRef)> {
        self.prims[prim].sites.iter().find_map(|site| {
            let layer = &self.layers[site.layer];
            layer.prim_field(site.prim, key).map(|value| (layer, value))
        })
    }

    /// The name that users see, else the prim's own.
    pub fn display_name(&self, prim: usize) -> String {
        let shown = self.prim_metadata(prim, "displayName").and_then(|(layer, v)| layer.text(v, "displayName").ok());
        shown.filter(|name| !name.is_empty()).unwrap_or_else(|| self.prims[prim].name.clone())
    }

    /// A number in the root layer's metadata.
    pub fn number(&self, key: &str) -> Option<f64> {
        self.layer_number(0, key)
    }

    fn layer_number(&self, layer: usize, key: &str) -> Option<f64> {
        let layer = &self.layers[layer];
        layer.f64s(layer.prim_field(0, key)?, key).ok()?.first().copied()
    }

    /// How long a time code of the layer `below` lasts in those of `above`: layers keep their own clocks.
    fn code_ratio(&self, above: usize, below: usize) -> f64 {
        let rate = |layer: usize| {
            let told = ["timeCodesPerSecond", "framesPerSecond"].iter().find_map(|key| self.layer_number(layer, key));
            told.filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(24.0)
        };
        rate(above) / rate(below)
    }

    /// A name in the root layer's metadata.
    pub fn word(&self, key: &str) -> Option<String> {
        let layer = &self.layers[0];
        layer.text(layer.prim_field(0, key)?, key).ok()
    }

    /// The prim and all above it, the root last.
    pub fn ancestry(&self, prim: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(prim), |&p| self.prims[p].parent)
    }
}

impl Attribute<'_> {
    /// Numbers of the value without time, else of the first sample.
    pub fn f64s(&self) -> Result<Vec<f64>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.f64s(value, &self.what))
    }

    /// As [`Attribute::f64s`] in float32.
    pub fn f32s(&self) -> Result<Vec<f32>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.f32s(value, &self.what))
    }

    /// Whole numbers without time.
    pub fn ints(&self) -> Result<Vec<i64>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.ints(value, &self.what))
    }

    /// Names without time.
    pub fn texts(&self) -> Result<Vec<String>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.texts(value, &self.what))
    }

    /// Decodes one of its values.
    pub fn decode_f32s(&self, value: ValueRef) -> Result<Vec<f32>, IoError> {
        self.layer.f32s(value, &self.what)
    }

    /// Decodes one of its values.
    pub fn decode_f64s(&self, value: ValueRef) -> Result<Vec<f64>, IoError> {
        self.layer.f64s(value, &self.what)
    }

    fn any(&self) -> Option<ValueRef> {
        self.default.or(self.samples.first().map(|(_, value)| *value))
    }

    /// Values around `time` and how far it lies from the first to the second: held before the first and after the last.
    pub fn around(&self, time: f64) -> Option<(ValueRef, ValueRef, f64)> {
        let next = self.samples.partition_point(|(t, _)| *t <= time);
        let (Some(last), Some(&(_, first))) = (self.samples.len().checked_sub(1), self.samples.first()) else {
            return self.default.map(|value| (value, value, 0.0));
        };
        if next == 0 {
            return Some((first, first, 0.0));
        }
        let (t0, v0) = self.samples[next - 1];
        if next > last {
            return Some((v0, v0, 0.0));
        }
        let (t1, v1) = self.samples[next];
        Some((v0, v1, (time - t0) / (t1 - t0)))
    }
}

/// Detected from the first two bytes.
fn is_archive(path: &Path) -> Result<bool, IoError> {
    let mut head = Vec::new();
    let read = crate::opens::open(path).and_then(|file| file.take(2).read_to_end(&mut head));
    read.map_err(|e| IoError::os(path, e))?;
    Ok(head == b"PK")
}

/// `folder/asset` inside an archive, with `.` and `..` resolved.
fn joined(folder: &str, asset: &str) -> String {
    let mut parts: Vec<&str> = if asset.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in asset.split('/') {
        match part {
            "." | "" => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

/// `/a{set=variant}b` is `/a/b` to everybody else.
fn without_variants(path: &str) -> String {
    if !path.contains('{') {
        return path.to_owned();
    }
    let mut out = String::new();
    let mut rest = path;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        rest = after.split_once('}').map_or("", |(_, rest)| rest);
        if !rest.is_empty() && !rest.starts_with(['/', '.', '{']) {
            out.push('/');
        }
    }
    out + rest
}

/// Relative paths start at their prim.
fn absolute(own: &str, path: &str) -> String {
    if path.starts_with('/') {
        return path.to_owned();
    }
    let mut parts: Vec<&str> = own.split('/').collect();
    let mut rest = path;
    while let Some(after) = rest.strip_prefix("..") {
        parts.pop();
        rest = after.strip_prefix('/').unwrap_or(after);
    }
    let own = parts.join("/");
    if rest.is_empty() || rest.starts_with('.') { format!("{own}{rest}") } else { format!("{own}/{rest}") }
}

/// A path of a layer as one of the stage.
fn mapped(path: &str, from: &str, to: &str) -> String {
    match path.strip_prefix(from) {
        Some(_) if from == "/" => path.to_owned(),
        Some(rest) if rest.is_empty() || rest.starts_with(['/', '.']) => format!("{to}{rest}"),
        _ => path.to_owned(),
    }
}
