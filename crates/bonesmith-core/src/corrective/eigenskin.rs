//! EigenSkin: few shapes that take back most of what a rig misses [Kry2002, as Le2014 s.2.3.4, s.3.10.2 use it].
//!
//! What the rig misses in each frame is pulled back to the rest pose by the inverse of each vertex's blended matrix; the
//! [3 N, F] displacements are cut to rank R by their singular value decomposition: R shapes and their weights over time.
//!
//! Deviations: where a blended matrix is next to singular (affine bones can make it so) the pull-back is damped, or
//! displacements would have no bound. The decomposition is where we start: a displacement counts there by its length in
//! the rest pose, while what is seen is the posed vertex, so `refine` solves weights and shapes in turn for that. Each
//! shape is scaled to a largest weight of 1.

use faer::{Mat, Side};
use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::baselines::frame::check_memory;
use crate::corrective::refine;
use crate::mesh::sequence::MeshSequence;
use crate::metrics::MetricsError;
use crate::model::corrective::{BlendShape, CorrectiveRig};
use crate::model::rig::Rig;
use crate::observer::{Observer, Progress};

/// Most shapes.
pub const MAX_RANK: usize = 256;

/// Damping of the pull-back over the mean squared scale of the blended matrix.
const DAMPING: f64 = 1e-3;

/// Why there are no shapes.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum EigenSkinError {
    /// Out of range.
    #[error("--eigenskin is {rank}; it must be 1 to {MAX_RANK}")]
    Rank {
        /// Shapes asked for.
        rank: usize,
    },
    /// Rig and sequence do not go together.
    #[error(transparent)]
    Mismatch(#[from] MetricsError),
    /// Too many frames.
    #[error("--eigenskin: {0}")]
    TooLarge(String),
    /// The observer asked to stop.
    #[error("cancelled")]
    Cancelled(#[from] crate::observer::Cancelled),
}

/// Adds at most `rank` shapes that correct the rig's first clip to the sequence.
///
/// Fewer where there are fewer frames, or nothing left to correct.
pub fn eigenskin(
    rig: &Rig,
    sequence: &MeshSequence,
    rank: usize,
    observer: &mut dyn Observer,
) -> Result<CorrectiveRig, EigenSkinError> {
    let missed = Missed::new(rig, sequence, rank)?;
    let shapes = decomposed(&missed, rank, observer)?;
    let (shapes, weights) = refine::refine(&missed, shapes, observer)?;
    let shape = |(k, offsets): (usize, Vec<DVec3>)| shape(rig, k, offsets, weights.iter().map(|of| of[k] as f32));
    Ok(CorrectiveRig { rig: rig.clone(), shapes: shapes.into_iter().enumerate().map(shape).collect() })
}

/// Says which round it is; whether to go on.
pub(super) fn tell(observer: &mut dyn Observer, round: usize) -> Result<(), EigenSkinError> {
    let progress = Progress { stage: "corrective shapes", step: round, steps: Some(refine::ROUNDS), e_rms: None };
    if observer.report(&progress).is_break() { Err(crate::observer::Cancelled.into()) } else { Ok(()) }
}

/// What the first clip of a rig misses of a sequence.
pub(super) struct Missed<'a> {
    pub rig: &'a Rig,
    pub sequence: &'a MeshSequence,
}

/// The same for one vertex in one frame.
pub(super) struct Residual {
    /// Linear part of the blended matrix.
    pub posed_from_rest: DMat3,
    /// In model units, posed.
    pub missing: DVec3,
}

impl<'a> Missed<'a> {
    /// Refuses what does not go together, or is too large.
    pub fn new(rig: &'a Rig, sequence: &'a MeshSequence, rank: usize) -> Result<Self, EigenSkinError> {
        if !(1..=MAX_RANK).contains(&rank) {
            return Err(EigenSkinError::Rank { rank });
        }
        let clip = rig.clips.first().ok_or(MetricsError::NoClip)?;
        let (n, f) = (rig.vertex_count(), clip.frame_count());
        if n != sequence.vertex_count() {
            return Err(MetricsError::VertexCount { rig: n, sequence: sequence.vertex_count() }.into());
        }
        if f != sequence.frame_count() {
            let (clip, sequence) = (clip.name.clone(), sequence.frame_count());
            return Err(MetricsError::FrameCount { clip, rig: f, sequence }.into());
        }
        check_memory("products of all pairs of frames", f, f, 8).map_err(EigenSkinError::TooLarge)?;
        Ok(Self { rig, sequence })
    }

    pub fn of(&self, t: usize, i: usize) -> Residual {
        let frame = self.rig.clips[0].frame(t);
        let mut blended = DAffine3 { matrix3: DMat3::ZERO, translation: DVec3::ZERO };
        for (j, w) in self.rig.weights.of(i) {
            blended.matrix3 += frame[j].matrix3 * f64::from(w);
            blended.translation += frame[j].translation * f64::from(w);
        }
        let posed = blended.transform_point3(self.rig.rest[i].as_dvec3());
        Residual { posed_from_rest: blended.matrix3, missing: self.sequence.frame(t)[i].as_dvec3() - posed }
    }
}

impl Residual {
    /// What a displacement in the rest pose costs: posed, and damped.
    pub fn metric(&self) -> DMat3 {
        let product = self.posed_from_rest.transpose() * self.posed_from_rest;
        let damping = DAMPING * (product.x_axis.x + product.y_axis.y + product.z_axis.z) / 3.0;
        product + DMat3::from_diagonal(DVec3::splat(damping))
    }

    /// Its part along the axes of the rest pose.
    pub fn along(&self) -> DVec3 {
        self.posed_from_rest.transpose() * self.missing
    }

    /// The displacement that takes it back.
    fn pulled_back(&self) -> DVec3 {
        let metric = self.metric();
        // A matrix of nothing at all moves nothing: no shape can help there.
        if metric.determinant() > 0.0 { metric.inverse() * self.along() } else { DVec3::ZERO }
    }
}

/// [R][N] the printed form: the leading part of what is missing in the rest pose.
pub(super) fn decomposed(
    missed: &Missed<'_>,
    rank: usize,
    observer: &mut dyn Observer,
) -> Result<Vec<Vec<DVec3>>, EigenSkinError> {
    let (n, f) = (missed.rig.vertex_count(), missed.sequence.frame_count());
    let mut pulled = Vec::with_capacity(f);
    for t in 0..f {
        tell(observer, 0)?;
        pulled.push((0..n).into_par_iter().map(|i| missed.of(t, i).pulled_back().as_vec3()).collect());
    }
    Ok(leading(&pulled, rank))
}

/// [F, F] products of all pairs of frames.
pub(super) fn products(frames: &[Vec<Vec3>]) -> Mat<f64> {
    let f = frames.len();
    let dot = |a: &[Vec3], b: &[Vec3]| a.iter().zip(b).map(|(x, y)| x.as_dvec3().dot(y.as_dvec3())).sum::<f64>();
    let rows: Vec<Vec<f64>> =
        (0..f).into_par_iter().map(|t| (0..=t).map(|s| dot(&frames[t], &frames[s])).collect()).collect();
    Mat::from_fn(f, f, |t, s| if s <= t { rows[t][s] } else { rows[s][t] })
}

/// Leading left singular vectors of the displacements, as long as their singular values.
fn leading(pulled: &[Vec<Vec3>], rank: usize) -> Vec<Vec<DVec3>> {
    let f = pulled.len();
    let Ok(eigen) = products(pulled).self_adjoint_eigen(Side::Lower) else { return Vec::new() };
    let squares = eigen.S().column_vector();
    let largest = squares[f - 1];
    let worth = |k: &usize| squares[f - 1 - k] > 1e-12 * largest && largest > 0.0;
    let column = |k: usize| {
        let mut sum = vec![DVec3::ZERO; pulled[0].len()];
        for (t, frame) in pulled.iter().enumerate() {
            let v = eigen.U()[(t, f - 1 - k)];
            sum.iter_mut().zip(frame).for_each(|(s, p)| *s += v * p.as_dvec3());
        }
        sum
    };
    (0..rank.min(f)).filter(worth).collect::<Vec<_>>().into_par_iter().map(column).collect()
}

/// Scales a shape so that its largest weight is 1.
fn shape(rig: &Rig, k: usize, offsets: Vec<DVec3>, weights: impl Iterator<Item = f32>) -> BlendShape {
    let weights: Vec<f32> = weights.collect();
    let largest = weights.iter().fold(0f32, |most, w| most.max(w.abs()));
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let mut of_clips: Vec<Vec<f32>> = rig.clips.iter().map(|clip| vec![0.0; clip.frame_count()]).collect();
    of_clips[0] = weights.iter().map(|w| w / scale).collect();
    BlendShape {
        name: format!("eigenskin_{k:02}"),
        offsets: offsets.iter().map(|d| (*d * f64::from(scale)).as_vec3()).collect(),
        weights: of_clips,
    }
}
