//! EigenSkin: few shapes that take back most of what a rig misses [Kry2002, as Kavan2010 s.2 and Le2014 s.3.10.2 use it].
//!
//! What the rig misses in each frame is pulled back to the rest pose by the inverse of each vertex's blended matrix; the
//! [3 N, F] displacements are cut to rank R by their singular value decomposition: R shapes and their weights over time.
//!
//! Deviations: where a blended matrix is next to singular (affine bones can make it so) the pull-back is damped, or
//! displacements would have no bound; the weights of the shapes are then solved again for the posed error, so that no
//! frame becomes worse. Each shape is scaled to a largest weight of 1.

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

use super::shaped::{BlendShape, ShapedRig};
use crate::baselines::frame::check_memory;
use crate::deform;
use crate::metrics::MetricsError;
use crate::observer::{Observer, Progress};
use crate::rig::Rig;
use crate::sequence::MeshSequence;

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
    Cancelled,
}

/// Adds at most `rank` shapes that correct the rig's first clip to the sequence.
///
/// Fewer where there are fewer frames, or nothing left to correct.
pub fn eigenskin(
    rig: &Rig,
    sequence: &MeshSequence,
    rank: usize,
    observer: &mut dyn Observer,
) -> Result<ShapedRig, EigenSkinError> {
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
    let mut tell = |step: usize| {
        let progress = Progress { stage: "corrective shapes", step, steps: Some(2 * f), e_rms: None };
        if observer.report(&progress).is_break() { Err(EigenSkinError::Cancelled) } else { Ok(()) }
    };
    let mut pulled = Vec::with_capacity(f);
    for t in 0..f {
        tell(t)?;
        pulled.push(pulled_back(rig, t, sequence));
    }
    let shapes = leading(&pulled, rank);
    drop(pulled);
    let mut weights = vec![vec![0f32; f]; shapes.len()];
    for t in 0..f {
        tell(f + t)?;
        let solved = best_weights(rig, t, sequence, &shapes);
        weights.iter_mut().zip(solved).for_each(|(row, w)| row[t] = w as f32);
    }
    let shapes = shapes.into_iter().zip(weights).enumerate();
    Ok(ShapedRig { rig: rig.clone(), shapes: shapes.map(|(k, (d, w))| shape(rig, k, d, w)).collect() })
}

/// Linear part of a vertex's blended matrix.
fn blended(rig: &Rig, t: usize, i: usize) -> DMat3 {
    let frame = rig.clips[0].frame(t);
    rig.weights.of(i).map(|(j, w)| frame[j].matrix3 * f64::from(w)).sum()
}

/// [N] what is missing in a frame, in the rest pose.
fn pulled_back(rig: &Rig, t: usize, sequence: &MeshSequence) -> Vec<Vec3> {
    let posed = deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
    let truth = sequence.frame(t);
    let back = |i: usize| {
        let missing = truth[i].as_dvec3() - posed[i].as_dvec3();
        let m = blended(rig, t, i);
        let product = m.transpose() * m;
        let damping = DAMPING * (product.x_axis.x + product.y_axis.y + product.z_axis.z) / 3.0;
        let damped = product + DMat3::from_diagonal(DVec3::splat(damping));
        // A matrix of nothing at all moves nothing: no shape can help there.
        let solution =
            if damped.determinant() > 0.0 { damped.inverse() * (m.transpose() * missing) } else { DVec3::ZERO };
        solution.as_vec3()
    };
    (0..posed.len()).into_par_iter().map(back).collect()
}

/// Leading left singular vectors of the displacements, as long as their singular values.
fn leading(pulled: &[Vec<Vec3>], rank: usize) -> Vec<Vec<DVec3>> {
    let f = pulled.len();
    let dot = |a: &[Vec3], b: &[Vec3]| a.iter().zip(b).map(|(x, y)| x.as_dvec3().dot(y.as_dvec3())).sum::<f64>();
    let rows: Vec<Vec<f64>> =
        (0..f).into_par_iter().map(|t| (0..=t).map(|s| dot(&pulled[t], &pulled[s])).collect()).collect();
    let gram = Mat::from_fn(f, f, |t, s| if s <= t { rows[t][s] } else { rows[s][t] });
    let Ok(eigen) = gram.self_adjoint_eigen(Side::Lower) else { return Vec::new() };
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

/// [R] weights of the shapes that bring the posed vertices of a frame closest to the truth.
fn best_weights(rig: &Rig, t: usize, sequence: &MeshSequence, shapes: &[Vec<DVec3>]) -> Vec<f64> {
    let (n, rank) = (rig.vertex_count(), shapes.len());
    let posed = deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
    let truth = sequence.frame(t);
    // Sums over fixed blocks, added in order: the same with any number of threads.
    const BLOCK: usize = 1024;
    let blocks: Vec<Vec<f64>> = (0..n.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut sums = vec![0.0; rank * (rank + 1)];
            let mut moved = vec![DVec3::ZERO; rank];
            for i in block * BLOCK..((block + 1) * BLOCK).min(n) {
                let (m, missing) = (blended(rig, t, i), truth[i].as_dvec3() - posed[i].as_dvec3());
                moved.iter_mut().zip(shapes).for_each(|(v, shape)| *v = m * shape[i]);
                for (a, v) in moved.iter().enumerate() {
                    moved[..=a].iter().enumerate().for_each(|(b, w)| sums[a * (rank + 1) + b] += v.dot(*w));
                    sums[a * (rank + 1) + rank] += v.dot(missing);
                }
            }
            sums
        })
        .collect();
    let mut sums = vec![0.0; rank * (rank + 1)];
    blocks.iter().for_each(|block| sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x));
    let largest = (0..rank).map(|a| sums[a * (rank + 1) + a]).fold(0.0, f64::max);
    let at = |a: usize, b: usize| sums[a.max(b) * (rank + 1) + a.min(b)];
    let system = Mat::from_fn(rank, rank, |a, b| at(a, b) + if a == b { 1e-10 * largest + 1e-300 } else { 0.0 });
    let right = Mat::from_fn(rank, 1, |a, _| sums[a * (rank + 1) + rank]);
    match system.llt(Side::Lower) {
        Ok(factor) => (0..rank).map(|a| factor.solve(&right)[(a, 0)]).collect(),
        Err(_) => vec![0.0; rank],
    }
}

/// Scales a shape so that its largest weight is 1.
fn shape(rig: &Rig, k: usize, offsets: Vec<DVec3>, weights: Vec<f32>) -> BlendShape {
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

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::correct::evaluate;
    use crate::fit::{BoneCount, FitParams, fit};
    use crate::metrics;
    use crate::observer::Silent;
    use crate::synthetic::{PosedRigParams, posed_rig};

    fn known() -> (Rig, MeshSequence) {
        let known = posed_rig(5, &PosedRigParams::default());
        (known.rig, MeshSequence::try_from(known.sequence).unwrap())
    }

    #[test]
    fn known_shapes_are_found_again() {
        let (rig, _) = known();
        let (n, f) = (rig.vertex_count(), rig.clips[0].frame_count());
        let bulge = |k: usize| BlendShape {
            name: format!("truth_{k}"),
            offsets: (0..n).map(|i| Vec3::splat(0.02 * ((i * (k + 3)) as f32).sin())).collect(),
            weights: vec![(0..f).map(|t| ((t * (k + 1)) as f32 * 0.3).cos()).collect()],
        };
        let truth = ShapedRig { rig: rig.clone(), shapes: vec![bulge(0), bulge(1)] };
        let mut raw = posed_rig(5, &PosedRigParams::default()).sequence;
        (0..f).for_each(|t| raw.frames[t].positions = truth.posed(0, t));
        let sequence = MeshSequence::try_from(raw).unwrap();
        let bare = metrics::evaluate(&rig, &sequence).unwrap().e_rms;
        let errors: Vec<f64> = [1, 2, 5]
            .into_iter()
            .map(|rank| {
                let shaped = eigenskin(&rig, &sequence, rank, &mut Silent).unwrap();
                assert_eq!(shaped.check(), Ok(()));
                evaluate(&shaped, 0, &sequence).unwrap().e_rms
            })
            .collect();
        assert!(
            bare > 2.0 && errors[0] < bare && errors[1] < 0.02 * bare && errors[2] <= errors[1] + 1e-3,
            "{bare} {errors:?}"
        );
    }

    #[test]
    fn more_shapes_are_never_worse() {
        let (_, sequence) = known();
        let params = FitParams { bones: BoneCount::Exact(3), ..FitParams::default() };
        let rig = fit(&sequence, &params, &mut Silent).unwrap().rig;
        let mut last = metrics::evaluate(&rig, &sequence).unwrap().e_rms;
        for rank in [1, 3, 8, 24] {
            let shaped = eigenskin(&rig, &sequence, rank, &mut Silent).unwrap();
            let e_rms = evaluate(&shaped, 0, &sequence).unwrap().e_rms;
            assert!(e_rms < last, "rank {rank}: {e_rms}, before {last}");
            assert!(shaped.shapes.iter().all(|s| s.weights[0].iter().all(|w| w.abs() <= 1.0)));
            last = e_rms;
        }
        // As many shapes as frames: nothing is left but rounding and damping.
        assert!(last < 0.05, "{last}");
    }

    #[test]
    fn an_exact_rig_needs_no_shapes_worth_the_name() {
        let (rig, sequence) = known();
        let shaped = eigenskin(&rig, &sequence, 4, &mut Silent).unwrap();
        let largest = shaped.shapes.iter().flat_map(|s| &s.offsets).map(|d| d.length()).fold(0f32, f32::max);
        assert!(largest < 1e-4, "{largest}");
    }

    #[test]
    fn wrong_input_is_told() {
        let (rig, sequence) = known();
        assert_eq!(eigenskin(&rig, &sequence, 0, &mut Silent).unwrap_err(), EigenSkinError::Rank { rank: 0 });
        let still = Rig { clips: Vec::new(), ..rig.clone() };
        assert!(matches!(eigenskin(&still, &sequence, 2, &mut Silent), Err(EigenSkinError::Mismatch(_))));
        struct Stop;
        impl Observer for Stop {
            fn report(&mut self, _: &Progress) -> ControlFlow<()> {
                ControlFlow::Break(())
            }
        }
        assert_eq!(eigenskin(&rig, &sequence, 2, &mut Stop).unwrap_err(), EigenSkinError::Cancelled);
    }
}
