//! EigenSkin: a few shapes that correct most of the error of a rig [Kry2002, as Le2014 s.2.3.4, s.3.10.2 use it].
//!
//! The residual of each frame is pulled back to the rest pose by the inverse of each vertex's blended matrix. The
//! [3 N, F] displacements are truncated to rank R by their singular value decomposition: R shapes and their weights over time.
//!
//! Deviations: where a blended matrix is nearly singular (affine bones can make it so) the pull-back is damped, because
//! displacements would be unbounded. The decomposition is only the start: it measures displacements in the rest pose, while the
//! error is that of the posed vertices, so `refine` solves weights and shapes in turn for that error. Each
//! shape is scaled to a largest weight of 1.

use std::ops::Range;
use std::sync::Arc;

use faer::Mat;
use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::corrective::refine;
use crate::mesh::{Frames, MeshSequence};
use crate::metrics::MetricsError;
use crate::model::{BlendShape, CorrectiveRig, Rig, RigError};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::solve::check::{check_memory, ensure};
use crate::solve::matrix::eigen;

/// Maximum of shapes.
pub const MAX_RANK: usize = 256;

/// Damping of the pull-back over the mean squared scale of the blended matrix.
const DAMPING: f64 = 1e-3;

/// Vertices that are read at once.
pub(super) const BLOCK: usize = 1024;

/// Why shapes could not be made.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum EigenSkinError {
    #[error("eigenskin is {rank}; it must be 1 to {MAX_RANK}")]
    Rank { rank: usize },
    #[error(transparent)]
    Rig(#[from] RigError),
    #[error(transparent)]
    Mismatch(#[from] MetricsError),
    #[error("{0}")]
    TooLarge(String),
    #[error("cancelled")]
    Cancelled(#[from] Cancelled),
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
    let residuals = Residuals::new(rig, sequence, rank)?;
    let stages = &mut Stages::new(observer);
    stages.begin(Stage::CorrectiveShapes, Some(refine::ROUNDS))?;
    let shapes = decomposed(&residuals, rank, stages)?;
    let (shapes, weights) = refine::refine(&residuals, shapes, stages)?;
    let shape = |(k, offsets): (usize, Vec<DVec3>)| shape(rig, k, offsets, weights.iter().map(|of| of[k] as f32));
    Ok(CorrectiveRig { rig: rig.clone(), shapes: shapes.into_iter().enumerate().map(shape).collect() })
}

/// The residuals of a rig's first clip.
pub(super) struct Residuals<'a> {
    rig: &'a Rig,
    frames: Arc<dyn Frames>,
}

/// The residual of one vertex in one frame.
pub(super) struct Residual {
    /// Linear part of the blended matrix.
    pub posed_from_rest: DMat3,
    /// In model units, posed.
    pub missing: DVec3,
}

impl<'a> Residuals<'a> {
    /// Refuses what does not fit together, or is too large.
    pub fn new(rig: &'a Rig, sequence: &MeshSequence, rank: usize) -> Result<Self, EigenSkinError> {
        ensure((1..=MAX_RANK).contains(&rank), || EigenSkinError::Rank { rank })?;
        rig.check()?;
        let clip = rig.clips.first().ok_or(MetricsError::NoClip)?;
        let (rig_size, size) = (rig.vertex_count(), sequence.vertex_count());
        ensure(rig_size == size, || MetricsError::VertexCount { rig: rig_size, sequence: size })?;
        let (clip, f, frames) = (|| clip.name.clone(), clip.frame_count(), sequence.frame_count());
        ensure(f == frames, || MetricsError::FrameCount { clip: clip(), rig: f, sequence: frames })?;
        check_memory("products of all pairs of frames", f, f, 8).map_err(EigenSkinError::TooLarge)?;
        Ok(Self { rig, frames: sequence.frames() })
    }

    /// N.
    pub fn vertex_count(&self) -> usize {
        self.rig.vertex_count()
    }

    /// F.
    pub fn frame_count(&self) -> usize {
        self.frames.frame_count()
    }

    /// Calls `visit` with frame, vertex and residual, frame by frame.
    pub fn read(&self, frames: Range<usize>, vertices: Range<usize>, visit: &mut dyn FnMut(usize, usize, Residual)) {
        let numbers: Vec<u32> = frames.map(|t| t as u32).collect();
        self.frames.read(&numbers, vertices.clone(), &mut |at, positions| {
            let t = numbers[at] as usize;
            let pose = self.rig.clips[0].frame(t);
            for (i, position) in vertices.clone().zip(positions) {
                let mut blended = DAffine3 { matrix3: DMat3::ZERO, translation: DVec3::ZERO };
                for (j, w) in self.rig.weights.of(i) {
                    blended.matrix3 += pose[j].matrix3 * f64::from(w);
                    blended.translation += pose[j].translation * f64::from(w);
                }
                let posed = blended.transform_point3(self.rig.rest[i].as_dvec3());
                visit(t, i, Residual { posed_from_rest: blended.matrix3, missing: position.as_dvec3() - posed });
            }
        });
    }

    /// [F][N] a vector of each residual.
    pub fn vectors(
        &self,
        vector: impl Fn(Residual) -> DVec3 + Sync,
        stages: &mut Stages<'_>,
    ) -> Result<Vec<Vec<Vec3>>, Cancelled> {
        let of_frame = |t: usize| {
            let mut all = vec![Vec3::ZERO; self.vertex_count()];
            all.par_chunks_mut(BLOCK).enumerate().for_each(|(block, out)| {
                let first = block * BLOCK;
                let vertices = first..first + out.len();
                self.read(t..t + 1, vertices, &mut |_, i, residual| out[i - first] = vector(residual).as_vec3());
            });
            all
        };
        stages.map(self.frame_count(), || (), |(), t| of_frame(t))
    }
}

impl Residual {
    /// The squared length of a displacement in the rest pose once posed, damped.
    pub fn metric(&self) -> DMat3 {
        let product = self.posed_from_rest.transpose() * self.posed_from_rest;
        let damping = DAMPING * (product.x_axis.x + product.y_axis.y + product.z_axis.z) / 3.0;
        product + DMat3::from_diagonal(DVec3::splat(damping))
    }

    /// Its part along the axes of the rest pose.
    pub fn along(&self) -> DVec3 {
        self.posed_from_rest.transpose() * self.missing
    }

    /// The displacement that corrects it.
    fn pulled_back(&self) -> DVec3 {
        let metric = self.metric();
        // A zero matrix moves nothing: no shape can help there.
        if metric.determinant() > 0.0 { metric.inverse() * self.along() } else { DVec3::ZERO }
    }
}

/// [R][N] the published form: leading left singular vectors of the displacements, as long as their singular values.
pub(super) fn decomposed(residuals: &Residuals, rank: usize, stages: &mut Stages) -> Result<refine::Shapes, Cancelled> {
    let pulled = residuals.vectors(|residual| residual.pulled_back(), stages)?;
    let f = pulled.len();
    let products = products(&pulled, stages)?;
    let Some((squares, vectors)) = stages.wait(move || eigen(&products))? else { return Ok(Vec::new()) };
    let largest = squares[f - 1];
    let shapes: Vec<usize> =
        (0..rank.min(f)).filter(|k| squares[f - 1 - k] > 1e-12 * largest && largest > 0.0).collect();
    let column = |(): &mut (), at: usize| {
        let mut sum = vec![DVec3::ZERO; pulled[0].len()];
        for (t, frame) in pulled.iter().enumerate() {
            let v = vectors[(t, f - 1 - shapes[at])];
            sum.iter_mut().zip(frame).for_each(|(s, p)| *s += v * p.as_dvec3());
        }
        sum
    };
    stages.map(shapes.len(), || (), column)
}

/// [F, F] products of all pairs of frames.
pub(super) fn products(frames: &[Vec<Vec3>], stages: &mut Stages<'_>) -> Result<Mat<f64>, Cancelled> {
    let f = frames.len();
    let dot = |a: &[Vec3], b: &[Vec3]| a.iter().zip(b).map(|(x, y)| x.as_dvec3().dot(y.as_dvec3())).sum::<f64>();
    let row = |(): &mut (), t: usize| -> Vec<f64> { (0..=t).map(|s| dot(&frames[t], &frames[s])).collect() };
    let rows = stages.map(f, || (), row)?;
    Ok(Mat::from_fn(f, f, |t, s| if s <= t { rows[t][s] } else { rows[s][t] }))
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
