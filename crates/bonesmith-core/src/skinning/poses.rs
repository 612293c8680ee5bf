//! A rig and the poses that it should make, in one unit space.

use std::ops::Range;
use std::sync::Arc;

use glam::Vec3;

use crate::deform;
use crate::mesh::{Frames, MeshSequence, Sphere, smallest_enclosing_sphere, unit_radius};
use crate::model::{Clip, Rig};
use crate::skinning::{Motion, Problem, UnitSpace};
use crate::solve::check::{check_memory, ensure};

/// Rest poses of rig and examples may differ in size by this factor; more is a mistake in units.
pub const MAX_SCALE_RATIO: f64 = 2.0;

/// Why a rig and examples do not fit together.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum PoseError {
    #[error("the rig has {rig} vertices, the examples {examples}")]
    VertexCount { rig: usize, examples: usize },
    #[error("clip {clip:?} of the rig has bone transforms for {rig} frames, the examples have {examples} frames")]
    FrameCount { clip: String, rig: usize, examples: usize },
    #[error(
        "the rig's rest pose has the radius {rig:.4}, that of the examples {examples:.4}: they differ in scale by more \
         than {MAX_SCALE_RATIO}"
    )]
    Scale { rig: f64, examples: f64 },
    #[error("the rig has no animation: bone transforms are needed for the poses to learn from")]
    NoClip,
    #[error("the rig has {bones} bones: {what}")]
    TooLarge { bones: usize, what: String },
}

/// Bones in motion and the trajectories that vertices should follow, in the unit of the examples.
pub(crate) struct Poses {
    /// Rest positions of the rig and the trajectories of the examples.
    pub problem: Problem,
    pub motion: Motion,
}

impl Poses {
    /// Poses of the first clip; without examples the rig's own animation is the target.
    pub fn new(rig: &Rig, examples: Option<&MeshSequence>) -> Result<Self, PoseError> {
        let clip = rig.clips.first().filter(|clip| clip.frame_count() > 0).ok_or(PoseError::NoClip)?;
        check_size(rig)?;
        let source: Arc<dyn Frames + '_> = match examples {
            Some(examples) => {
                check(rig, clip, examples)?;
                examples.frames()
            }
            None => Arc::new(PosedFrames { rig, clip }),
        };
        let radius = unit_radius(examples.map_or(&rig.rest, |examples| examples.rest()));
        let sphere = Sphere { radius, ..smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3())) };
        let space = UnitSpace::of_frames(&rig.rest, &*source, sphere);
        let motion = space.motion(&clip.posed_from_rest, rig.bone_count());
        Ok(Self { problem: Problem::of_frames(&rig.rest, &*source, space), motion })
    }

    /// Homogeneous rest position of vertex `i`.
    pub fn rest(&self, i: usize) -> [f64; 4] {
        self.problem.rest[i].extend(1.0).to_array()
    }
}

/// Refuses rigs whose products would not fit into memory: of all pairs of bones, and of vertices with bones.
pub(crate) fn check_size(rig: &Rig) -> Result<(), PoseError> {
    let (bones, side) = (rig.bone_count(), 4 * rig.bone_count());
    let refused = |what: String| PoseError::TooLarge { bones, what };
    check_memory("the products of all pairs of bones", side, side, size_of::<f64>()).map_err(refused)?;
    check_memory("the products of vertices and bones", rig.vertex_count(), side, size_of::<f64>()).map_err(refused)
}

/// The frames of a clip, posed as they are read.
struct PosedFrames<'a> {
    rig: &'a Rig,
    clip: &'a Clip,
}

impl Frames for PosedFrames<'_> {
    fn frame_count(&self) -> usize {
        self.clip.frame_count()
    }

    fn vertex_count(&self) -> usize {
        self.rig.vertex_count()
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        let Rig { rest, weights, .. } = self.rig;
        for (at, &t) in frames.iter().enumerate() {
            let pose = self.clip.frame(t as usize);
            let posed: Vec<Vec3> = vertices.clone().map(|i| deform::lbs_vertex(rest, weights, pose, i)).collect();
            visit(at, &posed);
        }
    }
}

fn check(rig: &Rig, clip: &Clip, examples: &MeshSequence) -> Result<(), PoseError> {
    let (own, theirs) = (rig.vertex_count(), examples.vertex_count());
    ensure(own == theirs, || PoseError::VertexCount { rig: own, examples: theirs })?;
    let (own, theirs) = (clip.frame_count(), examples.frame_count());
    ensure(own == theirs, || PoseError::FrameCount { clip: clip.name.clone(), rig: own, examples: theirs })?;
    let (own, theirs) = (unit_radius(&rig.rest), unit_radius(examples.rest()));
    // Written so that a radius of 0 or NaN is refused too.
    let alike = own / theirs <= MAX_SCALE_RATIO && theirs / own <= MAX_SCALE_RATIO;
    ensure(alike, || PoseError::Scale { rig: own, examples: theirs })
}
