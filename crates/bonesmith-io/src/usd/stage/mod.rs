//! Layers put together: sublayers, references, payloads, inherits and variants, strongest opinion first.
//!
//! A prim of the stage is a list of sites, each a prim of a layer. `compose` makes the lists; the functions here answer
//! questions about prims from them.

mod attribute;
mod clips;
mod compose;
mod paths;

use std::cell::Cell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::IoError;

use super::blob::Blob;
use super::layer::{Layer, ValueRef};
use super::package::Package;
pub use attribute::{Attribute, Sample};
use clips::Clips;
use paths::{absolute, mapped, without_variants};

/// Most samples that a stage makes of splines and of value clips: more than its layers store, so a small file could ask for any number.
const MAX_MADE: usize = 1 << 20;

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

impl Site {
    /// Samples in times of the layer, rising, to those of the stage.
    fn to_stage(self, samples: &mut [(f64, Sample<'_>)]) {
        samples.iter_mut().for_each(|(time, _)| *time = self.scale * *time + self.offset);
        if self.scale < 0.0 {
            samples.reverse();
        }
    }

    /// A range of stage times in those of the layer.
    fn to_layer(self, (start, end): (f64, f64)) -> Option<(f64, f64)> {
        let [a, b] = [start, end].map(|time| (time - self.offset) / self.scale);
        (a.is_finite() && b.is_finite()).then_some((a.min(b), a.max(b)))
    }
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
    clips: Vec<Clips>,
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
    /// A variant set and the variant that is selected in it, whatever the layers select.
    selected: Option<(String, String)>,
    /// Whether a prim has value clips.
    has_clips: bool,
    /// Samples made so far.
    made: Cell<usize>,
}

impl Stage {
    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.layers[0].blob.path()
    }

    /// The variant that was selected by [`Stage::select`].
    pub fn selected(&self) -> Option<&str> {
        self.selected.as_ref().map(|(_, variant)| variant.as_str())
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

    fn site_field(&self, site: &Site, attribute: &str, key: &str) -> Option<ValueRef> {
        self.layers[site.layer].property_field(site.prim, attribute, key)
    }

    /// An attribute with a value.
    pub fn attribute(&self, prim: usize, name: &str) -> Result<Option<Attribute<'_>>, IoError> {
        let what = format!("{}.{name}", self.prims[prim].path);
        let mut clips = if self.has_clips { self.clip_samples(prim, name, &what)? } else { None };
        for site in &self.prims[prim].sites {
            // What clips have is weaker than the layers that name them only.
            if let Some((_, samples)) = clips.take_if(|(map, _)| *map < site.map) {
                return Ok(Some(Attribute { default: None, samples, what }));
            }
            let layer = &self.layers[site.layer];
            let default = self.site_field(site, name, "default");
            let mut samples = match self.site_field(site, name, "timeSamples") {
                Some(value) => samples_of(layer, value, &what)?,
                None => Vec::new(),
            };
            if let Some(value) = self.site_field(site, name, "spline").filter(|_| samples.is_empty()) {
                samples = self.spline_samples(site, value, &what)?;
            }
            if default.is_none() && samples.is_empty() {
                continue;
            }
            site.to_stage(&mut samples);
            let default = default.filter(|v| !layer.is_blocked(*v)).map(|value| Sample::Stored(layer, value));
            if default.is_none() && samples.is_empty() {
                return Ok(None); // `None` hides what weaker layers say
            }
            return Ok(Some(Attribute { default, samples, what }));
        }
        Ok(clips.map(|(_, samples)| Attribute { default: None, samples, what }))
    }

    fn spline_samples<'a>(&self, site: &Site, value: ValueRef, what: &str) -> Result<Vec<(f64, Sample<'a>)>, IoError> {
        let range = self.number("startTimeCode").zip(self.number("endTimeCode")).and_then(|range| site.to_layer(range));
        let samples = self.layers[site.layer].spline(value, what)?.samples(range);
        let samples = samples.map_err(|why| self.unsupported(format!("{what}: {why} is not read")))?;
        self.count_made(samples.len(), what)?;
        Ok(samples.into_iter().map(|(time, value)| (time, Sample::Number(value))).collect())
    }

    fn count_made(&self, samples: usize, what: &str) -> Result<(), IoError> {
        let made = self.made.get().saturating_add(samples);
        self.made.set(made);
        match made > MAX_MADE {
            true => Err(self.unsupported(format!(
                "{what}: its splines and value clips make more than {MAX_MADE} samples; write the stage with samples of its own"
            ))),
            false => Ok(()),
        }
    }

    /// The prim of a layer that has the value of an attribute: the same for prims that refer to one prim.
    pub fn source(&self, prim: usize, attribute: &str) -> Option<(usize, u32)> {
        let has =
            |site: &&Site| ["default", "timeSamples"].iter().any(|key| self.site_field(site, attribute, key).is_some());
        self.prims[prim].sites.iter().find(has).map(|site| (site.layer, site.prim))
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

fn samples_of<'a>(layer: &'a Layer, value: ValueRef, what: &str) -> Result<Vec<(f64, Sample<'a>)>, IoError> {
    Ok(layer.samples(value, what)?.into_iter().map(|(t, v)| (t, Sample::Stored(layer, v))).collect())
}
