//! Rigs as skeletons with a skinned mesh, sequences as points with time samples.
//!
//! What real readers insist on, each point seen to break one of them otherwise:
//! 1. Joint indices and weights state `interpolation` and `elementSize` (Blender).
//! 2. Joints are listed parents first, all three parts of their animation are there (UsdSkel).
//! 3. Scales are half floats: a bone that scales is written as nested joints whose half floats multiply to its scale.
//! 4. Files in an archive lie at multiples of 64 bytes and are not compressed (USDZ).

pub mod doc;
mod names;
mod pieces;
mod scene;
mod sequence;
mod skeleton;
mod surface;

use std::borrow::Cow;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use bonesmith_core::{Rig, Space, UpAxis};
use glam::{DVec3, Vec3};

use self::doc::{Doc, Prim, Property, Value};
use self::names::Names;
use self::surface::{Picture, materials, pictures};
use super::{usda, usdc};
use crate::compact::keys::Tolerance;
use crate::origin::{far_origin, moved};
use crate::parts::without_still_bones;
use crate::{BlendShape, IoError, atomic, scratch, texture, warning};

pub use self::pieces::save_pieces;
pub use self::sequence::save_sequence;

/// Rates that times are likely to come from, most likely first; then any whole number is tried.
const USUAL_RATES: [f64; 9] = [24.0, 30.0, 25.0, 60.0, 50.0, 48.0, 120.0, 24000.0 / 1001.0, 30000.0 / 1001.0];

/// Name of the variant set whose variants are clips.
const CLIP_SET: &str = "clip";

/// Time codes closer than this to a whole number are one.
const NEAR_WHOLE: f64 = 1e-6;

/// Bytes of a layer in an archive that are held in memory.
const MAX_HELD: usize = 1 << 24;

/// Writes a rig as a skeleton with one animation per clip; several are variants, of which the first is selected.
pub fn save_rig(rig: &Rig, shapes: &[BlendShape], path: &Path, tolerance: Option<Tolerance>) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    if rig.rest.is_empty() {
        return Err(unsupported("the rig has no vertices".into()));
    }
    skeleton::check_shapes(rig, shapes).map_err(unsupported)?;
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let is_scene = !rig.surface.parts.is_empty();
    let rig = &*if is_scene { without_still_bones(rig, shapes) } else { Cow::Borrowed(rig) };
    let clock = Clock::new(rig.clips.iter().map(|clip| clip.times_secs.as_slice())).reduced(tolerance);
    texture::warn_of_unwritable(&rig.surface, path);
    let pictures = pictures(&rig.surface, path);
    let meshes = is_scene.then(|| scene::Meshes::new(rig, shapes, origin));
    warning::instances(path, meshes.as_ref().map_or(Vec::new(), |meshes| meshes.apart(&rig.surface.parts)));
    let root_name = Names::default().unique(&rig.name, "rig");
    let (materials, scope) = materials(&format!("/{root_name}"), &rig.surface, &pictures);
    let mut root =
        skeleton::root_prim(rig, meshes.as_ref(), shapes, &clock, "", root_name, &materials).map_err(unsupported)?;
    root.children.extend(scope);
    let root = at_origin(root, origin);
    let times = rig.clips.iter().flat_map(|clip| &clip.times_secs);
    let doc = layer(root, &rig.surface.space, &clock, times);
    write(&doc, &pictures, path)
}

/// A prim whose children are relative to `origin`.
fn at_origin(root: Prim<'_>, origin: Option<DVec3>) -> Prim<'_> {
    let Some(origin) = origin else { return root };
    root.with(Property::of("double3", "xformOp:translate", Value::Double3(origin.to_array()))).with(Property::uniform(
        "token[]",
        "xformOpOrder",
        Value::Tokens(vec!["xformOp:translate".into()]),
    ))
}

/// How seconds become time codes.
pub struct Clock {
    codes_per_sec: f64,
    /// Within which keys are left out.
    pub tolerance: Option<Tolerance>,
}

impl Clock {
    /// The rate at which the times of all clips are whole numbers; where there is none, that of the first clip, which is
    /// the one that plays; or 24.
    fn new<'a>(mut clips: impl Iterator<Item = &'a [f64]> + Clone) -> Self {
        let common = Self::rate(clips.clone().flatten().copied());
        let rate = common.or_else(|| Self::rate(clips.next()?.iter().copied()));
        Self { codes_per_sec: rate.unwrap_or(24.0), tolerance: None }
    }

    /// With fewer keys.
    fn reduced(self, tolerance: Option<Tolerance>) -> Self {
        Self { tolerance, ..self }
    }

    fn rate(times_secs: impl Iterator<Item = f64> + Clone) -> Option<f64> {
        let whole = |rate: f64| times_secs.clone().all(|t| (t * rate - (t * rate).round()).abs() < NEAR_WHOLE);
        let any = (1..=240).map(f64::from);
        // Rates like 29.97: from the first step, without the rounding of its division.
        let mut first = times_secs.clone().take(2);
        let step = first.next().zip(first.next()).map(|(a, b)| (1e6 / (b - a)).round() / 1e6);
        let own = step.filter(|rate| rate.is_finite() && *rate > 0.0);
        USUAL_RATES.into_iter().chain(any).chain(own).find(|rate| whole(*rate))
    }

    /// The time code of a time.
    pub fn code(&self, secs: f64) -> f64 {
        let code = secs * self.codes_per_sec;
        if (code - code.round()).abs() < NEAR_WHOLE { code.round() } else { code }
    }
}

/// A layer of one prim, from the first to the last of all times.
fn layer<'a, 't>(
    root: Prim<'a>,
    space: &Space,
    clock: &Clock,
    times_secs: impl Iterator<Item = &'t f64> + Clone,
) -> Doc<'a> {
    let up = if space.up == Some(UpAxis::Z) { "Z" } else { "Y" };
    let generator = format!("Bonesmith {}", env!("CARGO_PKG_VERSION"));
    let mut metadata = vec![
        ("defaultPrim", Value::Token(root.name.clone())),
        ("documentation", Value::Text(generator)),
        ("metersPerUnit", Value::Double(space.metres_per_unit.unwrap_or(1.0))),
        ("upAxis", Value::Token(up.into())),
    ];
    let earliest = times_secs.clone().copied().reduce(f64::min);
    if let (Some(first), Some(last)) = (earliest, times_secs.copied().reduce(f64::max)) {
        metadata.push(("startTimeCode", Value::Double(clock.code(first))));
        metadata.push(("endTimeCode", Value::Double(clock.code(last))));
    }
    metadata.push(("timeCodesPerSecond", Value::Double(clock.codes_per_sec)));
    metadata.push(("framesPerSecond", Value::Double(clock.codes_per_sec)));
    metadata.sort_by_key(|(key, _)| *key);
    Doc { metadata, prims: vec![root] }
}

/// The layer as the ending says, and its pictures: inside an archive, or beside the layer and before it.
fn write(doc: &Doc, pictures: &[Option<Picture>], path: &Path) -> Result<(), IoError> {
    let ending = path.extension().and_then(|e| e.to_str()).unwrap_or_default().to_ascii_lowercase();
    if ending == "usdz" {
        return atomic::write_with(path, |file| archive(doc, pictures, path, file));
    }
    for picture in pictures.iter().flatten() {
        atomic::write(&path.with_file_name(&picture.name), picture.bytes)?;
    }
    match ending.as_str() {
        "usda" => atomic::write_with(path, |file| usda::to_text(doc, file)),
        _ => atomic::write_with(path, |file| usdc::to_bytes(doc, file)),
    }
}

fn archive(doc: &Doc, pictures: &[Option<Picture>], path: &Path, file: &mut (impl Write + io::Seek)) -> io::Result<()> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut layer = tempfile::spooled_tempfile_in(MAX_HELD, scratch::folder());
    usdc::to_bytes(doc, &mut layer)?;
    let mut zip = zip::ZipWriter::new(file);
    let options = zip::write::SimpleFileOptions::default()
        .compression_method(zip::CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default())
        .with_alignment(64);
    let large = layer.seek(SeekFrom::End(0))? >= u64::from(u32::MAX);
    zip.start_file(format!("{stem}.usdc"), options.large_file(large))?;
    layer.rewind()?;
    io::copy(&mut layer, &mut zip)?;
    for picture in pictures.iter().flatten() {
        zip.start_file(&picture.name, options)?;
        zip.write_all(picture.bytes)?;
    }
    zip.finish()?;
    Ok(())
}

/// Positions as rows.
fn rows(points: &[Vec3]) -> Vec<[f32; 3]> {
    points.iter().map(|p| p.to_array()).collect()
}
