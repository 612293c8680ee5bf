//! An FBX file as ufbx sees it, within bounds.

use std::path::{Path, PathBuf};

use bonesmith_core::{Space, UpAxis};
use glam::{DAffine3, DMat3, DVec3};
use ufbx::{AllocatorOpts, CoordinateAxes, CoordinateAxis, EvaluateOpts, LoadOpts, Node, Scene, SceneRoot};

use crate::IoError;
use crate::fbx::MAX_DEPTH;

/// Arrays in a file may be compressed, a thousand times at most; real ones are far from that. What ufbx may hold for the scene,
/// and once more while it reads: this many times the file, or this many bytes if that is more.
const MAX_HELD: usize = 48;
const MAX_BYTES: usize = 6 << 20;

/// A scene and where it came from.
pub struct Document {
    path: PathBuf,
    scene: SceneRoot,
    /// Axes and unit of all positions.
    pub space: Space,
    memory_limit: usize,
}

impl Document {
    /// Reads a file.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let bytes = crate::opens::read(path).map_err(|e| IoError::os(path, e))?;
        crate::opens::count();
        let memory_limit = bytes.len().saturating_mul(MAX_HELD).max(MAX_BYTES);
        let mut scene = parse(path, &bytes, memory_limit, None)?;
        let up = match up_axis(&scene.settings.axes) {
            Axes::Known(up) => Some(up),
            Axes::Unknown => None,
            Axes::Odd => {
                scene = parse(path, &bytes, memory_limit, Some(CoordinateAxes::right_handed_y_up()))?;
                Some(UpAxis::Y)
            }
        };
        let unit = scene.settings.unit_meters;
        let metres_per_unit = (unit.is_normal() && unit > 0.0).then_some(unit);
        Ok(Self { path: path.to_owned(), scene, space: Space { up, metres_per_unit }, memory_limit })
    }

    /// The file as it stands, without any animation.
    pub fn scene(&self) -> &Scene {
        &self.scene
    }

    /// The scene at a time of an animation; with `deform`, vertices too.
    pub fn at(&self, anim: &ufbx::Anim, secs: f64, deform: bool) -> Result<SceneRoot, IoError> {
        let options = EvaluateOpts {
            temp_allocator: allocator(self.memory_limit),
            result_allocator: allocator(self.memory_limit),
            evaluate_skinning: deform,
            evaluate_caches: deform,
            load_external_files: deform,
            ..EvaluateOpts::default()
        };
        ufbx::evaluate_scene(&self.scene, anim, secs, options)
            .map_err(|e| self.malformed(format!("at {secs} s: {}", describe(&e))))
    }

    /// Name of the file without its ending.
    pub fn stem(&self) -> String {
        self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// An error about this file.
    pub fn malformed(&self, what: impl Into<String>) -> IoError {
        IoError::malformed(&self.path, what)
    }

    /// An error about something sound that we do not read.
    pub fn unsupported(&self, what: impl Into<String>) -> IoError {
        IoError::unsupported(&self.path, what)
    }
}

fn allocator(memory_limit: usize) -> AllocatorOpts {
    AllocatorOpts { memory_limit, ..AllocatorOpts::default() }
}

/// From memory: knowing the end of the file, ufbx asks for nothing that is not in it.
fn parse(path: &Path, bytes: &[u8], memory_limit: usize, axes: Option<CoordinateAxes>) -> Result<SceneRoot, IoError> {
    let name = path.to_string_lossy();
    let mut options = LoadOpts {
        temp_allocator: allocator(memory_limit),
        result_allocator: allocator(memory_limit),
        filename: name.as_ref().into(),
        load_external_files: true,
        ignore_missing_external_files: true,
        node_depth_limit: MAX_DEPTH,
        skip_mesh_parts: true,
        ..LoadOpts::default()
    };
    if let Some(axes) = axes {
        options.target_axes = axes;
    }
    ufbx::load_memory(bytes, options).map_err(|e| IoError::malformed(path, describe(&e)))
}

fn describe(error: &ufbx::Error) -> String {
    match error.info() {
        "" => error.description.to_string(),
        info => format!("{} ({info})", error.description),
    }
}

enum Axes {
    Known(UpAxis),
    Unknown,
    /// x up, upside down, or left-handed.
    Odd,
}

fn up_axis(axes: &CoordinateAxes) -> Axes {
    let direction = |axis: CoordinateAxis| match axis {
        CoordinateAxis::PositiveX => Some(DVec3::X),
        CoordinateAxis::NegativeX => Some(DVec3::NEG_X),
        CoordinateAxis::PositiveY => Some(DVec3::Y),
        CoordinateAxis::NegativeY => Some(DVec3::NEG_Y),
        CoordinateAxis::PositiveZ => Some(DVec3::Z),
        CoordinateAxis::NegativeZ => Some(DVec3::NEG_Z),
        CoordinateAxis::Unknown => None,
    };
    let (Some(right), Some(up), Some(front)) = (direction(axes.right), direction(axes.up), direction(axes.front))
    else {
        return Axes::Unknown;
    };
    let right_handed = right.cross(up).dot(front) > 0.0;
    match axes.up {
        CoordinateAxis::PositiveY if right_handed => Axes::Known(UpAxis::Y),
        CoordinateAxis::PositiveZ if right_handed => Axes::Known(UpAxis::Z),
        _ => Axes::Odd,
    }
}

/// A matrix of ours.
pub fn affine(m: &ufbx::Matrix) -> DAffine3 {
    let matrix3 = DMat3::from_cols(
        DVec3::new(m.m00, m.m10, m.m20),
        DVec3::new(m.m01, m.m11, m.m21),
        DVec3::new(m.m02, m.m12, m.m22),
    );
    DAffine3 { matrix3, translation: DVec3::new(m.m03, m.m13, m.m23) }
}

/// A point of ours.
pub fn point(v: &ufbx::Vec3) -> DVec3 {
    DVec3::new(v.x, v.y, v.z)
}

/// Number of a node in its scene, the same in every evaluation.
pub fn number(node: &Node) -> usize {
    node.element.typed_id as usize
}
