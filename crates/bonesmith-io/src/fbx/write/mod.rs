//! Rigs as skinned meshes: geometry, skeleton, clusters, shapes, bind pose, one animation stack per clip. Animations as shapes.
//!
//! What real readers insist on:
//! 1. All nodes inherit their parents' whole transform (`InheritType` 1); the default of the format drops scale.
//! 2. `Transform` of a cluster takes the mesh to the bone, `TransformLink` the bone to the world; the bind pose repeats it.
//! 3. Bones and mesh hang below one node without geometry, which Blender makes the armature. It stands where a model far from
//!    the origin is: curves are float32.
//! 4. Euler angles of neighbouring keys are near each other: readers interpolate each angle by itself.
//! 5. Rotations are in degrees, x first, then y, then z; times in ticks.

mod animation;
mod binary;
mod material;
mod mesh;
mod pieces;
mod scene;
mod sequence;
mod shapes;
mod skeleton;

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::path::Path;

use bonesmith_core::{BlendShape, BoneKind, CorrectiveRig, Rig, Space, UpAxis};
use serde::Serialize;

use self::binary::{CREATION_TIME, FILE_ID, Properties, Record};
use self::shapes::Channels;
use super::{EXTRAS, MAX_DEPTH};
use crate::compact::keys::Tolerance;
use crate::compact::rate;
use crate::joints::{self, Joints};
use crate::origin::{far_origin, moved};
use crate::shapes::within_unit_weights;
use crate::{IoError, atomic};

pub use self::pieces::save_pieces;
pub use self::sequence::save_sequence;

/// Ticks of FBX's clock in a second.
const TICKS_PER_SEC: f64 = 46_186_158_000.0;
/// Whole rates that the format knows, and their numbers.
const TIME_MODES: [(f64, i32); 8] =
    [(120.0, 1), (100.0, 2), (60.0, 3), (50.0, 4), (48.0, 5), (30.0, 6), (25.0, 10), (24.0, 11)];
/// Number of any other rate.
const CUSTOM_RATE: i32 = 14;

/// Number of the node that holds everything.
const ROOT: i64 = 0;

/// What FBX has no words for; read back by `fbx::read`.
#[derive(Serialize)]
struct RigExtras<'a> {
    kind: BoneKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<&'a serde_json::value::RawValue>,
    /// The rig's own; where it states less than the file must.
    space: Space,
    /// [B] parents, -1 for roots, where the nodes do not show it: a child of a bone that flattens space hangs on the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    parents: Option<Vec<i32>>,
    /// Number of the mesh in its scene: readers sort nodes by depth.
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<usize>,
}

/// Objects and connections of a file in the making.
struct Scene {
    objects: Vec<Record>,
    connections: Vec<Record>,
    counts: HashMap<&'static str, i32>,
    last_id: i64,
    /// Within which keys are left out.
    tolerance: Option<Tolerance>,
}

impl Scene {
    fn new() -> Self {
        Self {
            objects: Vec::new(),
            connections: Vec::new(),
            counts: HashMap::new(),
            last_id: 1_000_000,
            tolerance: None,
        }
    }

    /// A new number for an object.
    fn id(&mut self) -> i64 {
        self.last_id += 1;
        self.last_id
    }

    /// Adds an object; its type is the name of the record.
    fn object(&mut self, kind: &'static str, record: Record) {
        *self.counts.entry(kind).or_default() += 1;
        self.objects.push(record);
    }

    fn connect(&mut self, child: i64, parent: i64) {
        self.connections.push(Record::new("C").text("OO").i64(child).i64(parent));
    }

    fn connect_property(&mut self, child: i64, parent: i64, property: &str) {
        self.connections.push(Record::new("C").text("OP").i64(child).i64(parent).text(property));
    }
}

/// Writes a rig as binary FBX 7.4, or 7.5 where it is larger than that can hold.
pub fn save_rig(rig: &Rig, path: &Path, tolerance: Option<Tolerance>) -> Result<(), IoError> {
    check(rig, path)?;
    write_file(records(rig, &[], path, tolerance).map_err(|e| IoError::os(path, e))?, path)
}

/// Writes a rig with shapes, which every clip weighs.
pub fn save_corrective(corrective: &CorrectiveRig, path: &Path) -> Result<(), IoError> {
    corrective.check().map_err(|e| IoError::unsupported(path, e.to_string()))?;
    check(&corrective.rig, path)?;
    let shapes = within_unit_weights(&corrective.shapes);
    write_file(records(&corrective.rig, &shapes, path, None).map_err(|e| IoError::os(path, e))?, path)
}

/// Refuses what FBX cannot hold, and warns of what is lost.
fn check(rig: &Rig, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    if rig.rest.is_empty() {
        return Err(unsupported("the rig has no vertices".into()));
    }
    if let Some(clip) = rig.clips.iter().find(|clip| clip.times_secs.iter().any(|t| t.abs() * TICKS_PER_SEC > 9e18)) {
        return Err(unsupported(format!("clip {:?}: its times are beyond the clock of FBX", clip.name)));
    }
    material::warn_of_losses(&rig.surface, path);
    Ok(())
}

fn write_file(records: Vec<Record>, path: &Path) -> Result<(), IoError> {
    let version = binary::version(&records);
    let head = head(version);
    let all: Vec<Record> = head.into_iter().chain(records).collect();
    atomic::write_with(path, |file| binary::write(&all, version, file))
}

/// Everything that depends on the rig and on its shapes.
fn records(rig: &Rig, shapes: &[BlendShape], path: &Path, tolerance: Option<Tolerance>) -> io::Result<Vec<Record>> {
    let mut scene = Scene::new();
    scene.tolerance = tolerance.filter(|_| has_one_rate(rig));
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    if !rig.surface.parts.is_empty() {
        return scene::records(scene, rig, shapes, origin, path);
    }
    let (plan, mut channels) = (plan(rig)?, Channels::default());
    let mesh = mesh::write_skinned(&mut scene, rig, &extras(rig, &plan))?;
    material::write(&mut scene, &rig.surface, |_| vec![mesh.model]);
    channels.write(&mut scene, &mesh, shapes::of_vertices(shapes, 0..shapes.len(), 0..rig.vertex_count()))?;
    let skeleton = skeleton::write(&mut scene, rig, &plan, &mesh, ROOT, origin.unwrap_or_default())?;
    write_clips(&mut scene, rig, &[(&plan, &skeleton)], (&channels, shapes))?;
    Ok(finished(scene, rig.surface.space, first_times(rig)))
}

/// One animation stack per clip.
fn write_clips(
    scene: &mut Scene,
    rig: &Rig,
    trees: &[(&Joints, &skeleton::Skeleton)],
    (channels, shapes): (&Channels, &[BlendShape]),
) -> io::Result<()> {
    for (c, clip) in rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() > 0) {
        let weights = |s: usize| shapes[s].weights[c].iter().map(|w| f64::from(*w)).collect();
        animation::write_with(scene, c, clip, trees, channels, &weights)?;
    }
    Ok(())
}

/// Times of the first clip, for the rate of the file.
fn first_times(rig: &Rig) -> &[f64] {
    rig.clips.first().map_or(&[], |clip| &clip.times_secs)
}

/// Nodes of the bones, as deep as our own reader goes.
fn plan(rig: &Rig) -> io::Result<Joints> {
    let plan = joints::plan(rig);
    if let Some(bone) = plan.beyond_float32() {
        return Err(io::Error::other(joints::too_far(rig, bone)));
    }
    // Below the node that holds all.
    if plan.deepest() + 2 > MAX_DEPTH as usize {
        let deepest = plan.deepest();
        return Err(io::Error::other(format!(
            "a chain of {deepest} nodes is too long for FBX, {} are possible",
            MAX_DEPTH - 2
        )));
    }
    Ok(plan)
}

/// Everything but the head.
fn finished(mut scene: Scene, space: Space, first_times: &[f64]) -> Vec<Record> {
    let document = scene.id();
    let documents = Record::new("Documents")
        .child(Record::new("Count").i32(1))
        .child(Record::new("Document").i64(document).text("").text("Scene").child(Record::new("RootNode").i64(0)));
    let definitions = definitions(&scene);
    vec![
        global_settings(space, first_times),
        documents,
        Record::new("References"),
        definitions,
        Record::new("Objects").children(scene.objects),
        Record::new("Connections").children(scene.connections),
    ]
}

fn extras(rig: &Rig, plan: &Joints) -> String {
    let detached = rig.bones.iter().zip(&plan.nodes).any(|(bone, nodes)| bone.parent != nodes.parent);
    let extras = RigExtras {
        kind: rig.kind,
        params: serde_json::from_str(&rig.params_json).ok(),
        space: rig.surface.space,
        parents: detached.then(|| rig.bones.iter().map(|bone| bone.parent.map_or(-1, |p| p as i32)).collect()),
        part: (!rig.surface.parts.is_empty()).then_some(0),
    };
    serde_json::to_string(&extras).unwrap_or_default()
}

fn head(version: u32) -> Vec<Record> {
    let creator = format!("Bonesmith {}", env!("CARGO_PKG_VERSION"));
    let info = Record::new("SceneInfo").object("GlobalInfo", "SceneInfo").text("UserData").children([
        Record::new("Type").text("UserData"),
        Record::new("Version").i32(100),
        Properties::new()
            .string("Original|ApplicationVendor", "Bonesmith")
            .string("Original|ApplicationName", "Bonesmith")
            .string("Original|ApplicationVersion", env!("CARGO_PKG_VERSION"))
            .string("LastSaved|ApplicationName", "Bonesmith")
            .done(),
    ]);
    let header = Record::new("FBXHeaderExtension").children([
        Record::new("FBXHeaderVersion").i32(1003),
        Record::new("FBXVersion").i32(version as i32),
        Record::new("EncryptionType").i32(0),
        Record::new("Creator").text(&creator),
        info,
    ]);
    vec![
        header,
        Record::new("FileId").raw(&FILE_ID),
        Record::new("CreationTime").text(CREATION_TIME),
        Record::new("Creator").text(&creator),
    ]
}

/// Whether readers find all frames without keys: at the rate of the file, which is that of the first clip.
fn has_one_rate(rig: &Rig) -> bool {
    let rates: Option<Vec<f64>> = rig.clips.iter().map(|clip| rate(&clip.times_secs)).collect();
    rates.is_some_and(|rates| rates.iter().all(|own| (own - rates[0]).abs() < 1e-6))
}

/// Axes, unit, and the rate of the first clip.
fn global_settings(space: Space, times: &[f64]) -> Record {
    let z_up = space.up == Some(UpAxis::Z);
    let centimetres = 100.0 * space.metres_per_unit.unwrap_or(1.0);
    let rate = match times {
        [first, .., last] if last > first => (times.len() - 1) as f64 / (last - first),
        _ => bonesmith_core::mesh::sequence::DEFAULT_FPS,
    };
    let known = TIME_MODES.iter().find(|(fps, _)| (fps - rate).abs() < 1e-3);
    let properties = Properties::new()
        .int("UpAxis", if z_up { 2 } else { 1 })
        .int("UpAxisSign", 1)
        .int("FrontAxis", if z_up { 1 } else { 2 })
        .int("FrontAxisSign", if z_up { -1 } else { 1 })
        .int("CoordAxis", 0)
        .int("CoordAxisSign", 1)
        .int("OriginalUpAxis", if z_up { 2 } else { 1 })
        .int("OriginalUpAxisSign", 1)
        .number("UnitScaleFactor", centimetres)
        .number("OriginalUnitScaleFactor", centimetres)
        .choice("TimeMode", known.map_or(CUSTOM_RATE, |(_, mode)| *mode))
        .time("TimeSpanStart", ticks(times.first().copied().unwrap_or(0.0)))
        .time("TimeSpanStop", ticks(times.last().copied().unwrap_or(0.0)))
        .number("CustomFrameRate", rate);
    Record::new("GlobalSettings").child(Record::new("Version").i32(1000)).child(properties.done())
}

/// How many objects of each kind there are.
fn definitions(scene: &Scene) -> Record {
    let mut kinds: Vec<(&str, i32)> = scene.counts.iter().map(|(kind, count)| (*kind, *count)).collect();
    kinds.sort_unstable();
    kinds.insert(0, ("GlobalSettings", 1));
    let total = kinds.iter().map(|(_, count)| count).sum();
    let of_kind =
        |(kind, count): (&str, i32)| Record::new("ObjectType").text(kind).child(Record::new("Count").i32(count));
    Record::new("Definitions")
        .child(Record::new("Version").i32(100))
        .child(Record::new("Count").i32(total))
        .children(kinds.into_iter().map(of_kind))
}

fn ticks(secs: f64) -> i64 {
    (secs * TICKS_PER_SEC).round() as i64
}

/// A matrix as FBX stores it: column vectors, column by column.
fn matrix(m: &glam::DAffine3) -> [f64; 16] {
    glam::DMat4::from(*m).to_cols_array()
}
