//! A rig and the poses that it should make, in one unit space.

use std::ops::Range;

use glam::{DAffine3, Vec3};

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
    #[error(
        "the examples have {examples} frames, but no clip of the rig has as many, nor have all of them together: {}",
        listed(.clips)
    )]
    FrameCount { clips: Vec<(String, usize)>, examples: usize },
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

/// `walk 24, run 30`.
fn listed(clips: &[(String, usize)]) -> String {
    let all: Vec<String> = clips.iter().map(|(name, frames)| format!("{name} {frames}")).collect();
    all.join(", ")
}

/// Numbers of the trajectories at most, where they are the rig's own poses: 1 GiB of float32. Of more, frames are left out evenly.
const MAX_OWN_NUMBERS: usize = 1 << 28;

/// Bones in motion and the trajectories that vertices should follow, in the unit of the examples.
///
/// The frames are those of all clips of the rig, one clip after the other, each frame once: clips count by their length.
/// Examples replace the rig's own poses in the clips that they are of ([`example_clips`]); the others keep the rig's own.
pub(crate) struct Poses {
    /// Rest positions of the rig and the trajectories of the examples.
    pub problem: Problem,
    pub motion: Motion,
    /// [F] (clip, frame of the clip).
    pub frames: Vec<(usize, usize)>,
}

impl Poses {
    /// Poses of all clips. Frames without examples are left out evenly where there are very many.
    pub fn new(rig: &Rig, examples: Option<&MeshSequence>) -> Result<Self, PoseError> {
        let total: usize = rig.clips.iter().map(Clip::frame_count).sum();
        let numbers = total.saturating_mul(3 * rig.vertex_count());
        Self::every(rig, examples, numbers.div_ceil(MAX_OWN_NUMBERS).max(1))
    }

    /// As [`Poses::new`], of all frames.
    pub fn whole(rig: &Rig, examples: Option<&MeshSequence>) -> Result<Self, PoseError> {
        Self::every(rig, examples, 1)
    }

    /// As [`Poses::new`], of every `stride`-th frame of the clips without examples.
    fn every(rig: &Rig, examples: Option<&MeshSequence>, stride: usize) -> Result<Self, PoseError> {
        ensure(rig.clips.iter().any(|clip| clip.frame_count() > 0), || PoseError::NoClip)?;
        check_size(rig)?;
        let shown = match examples {
            Some(examples) => check(rig, examples)?,
            None => 0..0,
        };
        let frames: Vec<(usize, usize)> = rig
            .clips
            .iter()
            .enumerate()
            .flat_map(|(c, clip)| {
                let stride = if shown.contains(&c) { 1 } else { stride };
                (0..clip.frame_count()).step_by(stride).map(move |t| (c, t))
            })
            .collect();
        let first = frames.iter().position(|(c, _)| shown.contains(c)).unwrap_or(0);
        let examples = examples.map(|examples| (examples, examples.frames()));
        let source =
            PosedFrames { rig, frames: &frames, examples: examples.as_ref().map(|(_, frames)| (&**frames, first)) };
        let radius = unit_radius(examples.as_ref().map_or(&rig.rest, |(examples, _)| examples.rest()));
        let sphere = Sphere { radius, ..smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3())) };
        let space = UnitSpace::of_frames(&rig.rest, &source, sphere);
        let transforms: Vec<DAffine3> = frames.iter().flat_map(|&(c, t)| rig.clips[c].frame(t)).copied().collect();
        let motion = space.motion(&transforms, rig.bone_count());
        let problem = Problem::of_frames(&rig.rest, &source, space);
        Ok(Self { problem, motion, frames })
    }

    /// The clips of the rig with the present motion, where these are the poses of all frames.
    pub fn clips(&self, rig: &Rig) -> Vec<Clip> {
        let transforms = self.problem.space.transforms(&self.motion);
        let mut clips = rig.clips.clone();
        let mut rest = transforms.as_slice();
        for clip in &mut clips {
            let (own, others) = rest.split_at(clip.posed_from_rest.len());
            clip.posed_from_rest.copy_from_slice(own);
            rest = others;
        }
        clips
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

/// The clips that examples of so many frames are of: all, or the one with as many frames; of several such, the one of the examples'
/// name, else the first. `None` where there is no such clip.
pub fn example_clips(rig: &Rig, examples: &MeshSequence) -> Option<Range<usize>> {
    let frames = examples.frame_count();
    if rig.clips.iter().map(Clip::frame_count).sum::<usize>() == frames {
        return Some(0..rig.clips.len());
    }
    let as_long = || rig.clips.iter().enumerate().filter(|(_, clip)| clip.frame_count() == frames);
    let named = as_long().find(|(_, clip)| clip.name.eq_ignore_ascii_case(examples.name()));
    named.or_else(|| as_long().next()).map(|(c, _)| c..c + 1)
}

/// The frames of clips: examples, or posed as they are read.
struct PosedFrames<'a> {
    rig: &'a Rig,
    /// [F] (clip, frame).
    frames: &'a [(usize, usize)],
    /// Positions of some frames in a row, and the first of these.
    examples: Option<(&'a dyn Frames, usize)>,
}

impl Frames for PosedFrames<'_> {
    fn frame_count(&self) -> usize {
        self.frames.len()
    }

    fn vertex_count(&self) -> usize {
        self.rig.vertex_count()
    }

    fn read(&self, frames: &[u32], vertices: Range<usize>, visit: &mut dyn FnMut(usize, &[Vec3])) {
        let Rig { rest, weights, clips, .. } = self.rig;
        for (at, &t) in frames.iter().enumerate() {
            let shown = self.examples.and_then(|(examples, first)| {
                let own = (t as usize).checked_sub(first).filter(|own| *own < examples.frame_count())?;
                Some((examples, own as u32))
            });
            if let Some((examples, own)) = shown {
                examples.read(&[own], vertices.clone(), &mut |_, positions| visit(at, positions));
                continue;
            }
            let (c, own) = self.frames[t as usize];
            let pose = clips[c].frame(own);
            let posed: Vec<Vec3> = vertices.clone().map(|i| deform::lbs_vertex(rest, weights, pose, i)).collect();
            visit(at, &posed);
        }
    }
}

/// The clips that the examples are of.
fn check(rig: &Rig, examples: &MeshSequence) -> Result<Range<usize>, PoseError> {
    let (own, theirs) = (rig.vertex_count(), examples.vertex_count());
    ensure(own == theirs, || PoseError::VertexCount { rig: own, examples: theirs })?;
    let clips = example_clips(rig, examples).ok_or_else(|| {
        let clips = rig.clips.iter().map(|clip| (clip.name.clone(), clip.frame_count())).collect();
        PoseError::FrameCount { clips, examples: examples.frame_count() }
    })?;
    let (own, theirs) = (unit_radius(&rig.rest), unit_radius(examples.rest()));
    // Written so that a radius of 0 or NaN is refused too.
    let alike = own / theirs <= MAX_SCALE_RATIO && theirs / own <= MAX_SCALE_RATIO;
    ensure(alike, || PoseError::Scale { rig: own, examples: theirs })?;
    Ok(clips)
}
