//! Corrective shapes on rigs whose shapes are known, or whose bones are too few.

use std::ops::ControlFlow;

use glam::{DVec3, Vec3};

use crate::corrective::eigenskin::{EigenSkinError, Residual, Residuals};
use crate::corrective::{eigenskin, posed_residual, refine};
use crate::fit::fit;
use crate::mesh::sequence::MeshSequence;
use crate::metrics;
use crate::metrics::evaluate;
use crate::model::corrective::{BlendShape, CorrectiveRig};
use crate::model::rig::{BoneKind, Rig};
use crate::observer::{Observer, Progress, Silent, Stages};
use crate::skinning::params::{BoneCount, FitParams};
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
    let truth = CorrectiveRig { rig: rig.clone(), shapes: vec![bulge(0), bulge(1)] };
    let mut raw = posed_rig(5, &PosedRigParams::default()).sequence;
    (0..f).for_each(|t| raw.frames[t].positions = truth.posed(0, t));
    let sequence = MeshSequence::try_from(raw).unwrap();
    let bare = metrics::evaluate(&rig, 0, &sequence).unwrap().e_rms;
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
    let mut last = metrics::evaluate(&rig, 0, &sequence).unwrap().e_rms;
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
fn wrong_input_is_refused() {
    let (rig, sequence) = known();
    assert_eq!(eigenskin(&rig, &sequence, 0, &mut Silent).unwrap_err(), EigenSkinError::Rank { rank: 0 });
    let still = Rig { clips: Vec::new(), ..rig.clone() };
    assert!(matches!(eigenskin(&still, &sequence, 2, &mut Silent), Err(EigenSkinError::Mismatch(_))));
    let (mut unsound, mut torn) = (rig.clone(), rig.clone());
    unsound.rest.pop();
    torn.clips[0].posed_from_rest.pop();
    for bad in [unsound, torn] {
        assert!(matches!(eigenskin(&bad, &sequence, 2, &mut Silent), Err(EigenSkinError::Rig(_))));
    }
    struct Stop;
    impl Observer for Stop {
        fn report(&mut self, _: &Progress) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    assert_eq!(
        eigenskin(&rig, &sequence, 2, &mut Stop).unwrap_err(),
        EigenSkinError::Cancelled(crate::observer::Cancelled)
    );
}

/// A rig with too few affine bones for a sequence that is pressed flat, frame by frame.
fn flattened() -> (Rig, MeshSequence) {
    let mut raw = posed_rig(5, &PosedRigParams { bones: 8, ..PosedRigParams::default() }).sequence;
    let f = raw.frames.len();
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        let height = 1.0 - 0.98 * t as f32 / f as f32;
        frame.positions.iter_mut().for_each(|p| p.y *= height);
    }
    let sequence = MeshSequence::try_from(raw).unwrap();
    let params = FitParams { bones: BoneCount::Exact(3), bone_kind: BoneKind::Affine, ..FitParams::default() };
    (fit(&sequence, &params, &mut Silent).unwrap().rig, sequence)
}

/// Squared error of shapes [R][N] with weights [F][R], vertex by vertex; `damped`: with the cost of displacements.
fn squared(residuals: &Residuals<'_>, shapes: &[Vec<DVec3>], weights: &[Vec<f64>], damped: bool) -> f64 {
    let mut sum = 0.0;
    residuals.read(0..weights.len(), 0..shapes[0].len(), &mut |t, i, at: Residual| {
        let d: DVec3 = shapes.iter().zip(&weights[t]).map(|(shape, w)| shape[i] * *w).sum();
        let posed = at.posed_from_rest * d;
        sum += (at.missing - posed).length_squared();
        sum += if damped { d.dot(at.metric() * d) - posed.length_squared() } else { 0.0 };
    });
    sum
}

#[test]
fn each_half_of_a_round_is_the_best_there_is() {
    let (rig, sequence) = flattened();
    let residuals = Residuals::new(&rig, &sequence, 2).unwrap();
    let n = rig.vertex_count();
    let start: Vec<Vec<DVec3>> = (1..3)
        .map(|k| (0..n).map(|i| DVec3::new((i * k) as f64, (i + k) as f64, (i * i) as f64).map(f64::sin)).collect())
        .collect();
    let (mut weights, left) = refine::all_weights(&residuals, &start, &mut Stages::new(&mut Silent)).unwrap();
    let error = squared(&residuals, &start, &weights, false);
    assert!((left - error).abs() < 1e-9 * error, "{left} {error}");
    for (t, k) in [(0, 0), (3, 1), (7, 0)] {
        for step in [-1e-3, 1e-3] {
            weights[t][k] += step;
            assert!(squared(&residuals, &start, &weights, false) > error);
            weights[t][k] -= step;
        }
    }
    let mut shapes = refine::best_shapes(&residuals, &weights, &mut Stages::new(&mut Silent)).unwrap();
    let cost = squared(&residuals, &shapes, &weights, true);
    assert!(cost < squared(&residuals, &start, &weights, true));
    for (k, i, axis) in [(0, 5, DVec3::X), (1, 5, DVec3::Y), (1, n - 1, DVec3::Z)] {
        for step in [-1e-2, 1e-2] {
            shapes[k][i] += step * axis;
            assert!(squared(&residuals, &shapes, &weights, true) > cost, "shape {k}, vertex {i}");
            shapes[k][i] -= step * axis;
        }
    }
}

#[test]
fn where_matrices_are_flat_rounds_beat_the_plain_decomposition() {
    let (rig, sequence) = flattened();
    let residuals = Residuals::new(&rig, &sequence, 3).unwrap();
    let plain = crate::corrective::eigenskin::decomposed(&residuals, 3, &mut Stages::new(&mut Silent)).unwrap();
    let (_, before) = refine::all_weights(&residuals, &plain, &mut Stages::new(&mut Silent)).unwrap();
    let (shapes, weights) = refine::refine(&residuals, plain, &mut Stages::new(&mut Silent)).unwrap();
    let after = squared(&residuals, &shapes, &weights, false);
    assert!(after < 0.9 * before, "{before} to {after}");
    // What no frame shows does not grow: no displacement is longer than the model.
    let longest = (0..weights.len())
        .flat_map(|t| (0..rig.vertex_count()).map(move |i| (t, i)))
        .map(|(t, i)| shapes.iter().zip(&weights[t]).map(|(shape, w)| shape[i] * *w).sum::<DVec3>().length())
        .fold(0.0, f64::max);
    assert!(longest < 1.0, "{longest}");
}

#[test]
fn residuals_of_known_rank_are_gone_at_that_rank() {
    let (rig, _) = known();
    let mut raw = posed_rig(5, &PosedRigParams::default()).sequence;
    // Two fields added after the bones, of squared lengths 4 : 1 and at right angles in space and time.
    let field = |i: usize, k: usize| if i % 2 == k { Vec3::new(0.02, -0.01, 0.01) } else { Vec3::ZERO };
    let of_frame = |t: usize, k: usize| if t % 2 == k { 2.0 - k as f32 } else { 0.0 };
    for (t, frame) in raw.frames.iter_mut().enumerate() {
        for (i, p) in frame.positions.iter_mut().enumerate() {
            *p += of_frame(t, 0) * field(i, 0) + of_frame(t, 1) * field(i, 1);
        }
    }
    let even = |count: usize| count.div_ceil(2) as f64;
    let (n, f) = (rig.vertex_count(), raw.frames.len());
    let (first, second) = (4.0 * even(n) * even(f), (n as f64 - even(n)) * (f as f64 - even(f)));
    let sequence = MeshSequence::try_from(raw).unwrap();
    let bare = metrics::evaluate(&rig, 0, &sequence).unwrap().e_rms;
    let left = |rank: usize| posed_residual(&rig, &sequence, rank, &mut Silent).unwrap() / bare;
    assert!((left(1) - (second / (first + second)).sqrt()).abs() < 1e-3, "{}", left(1));
    assert!(left(2) < 1e-3 && left(f) < 1e-3, "{} {}", left(2), left(f));
}
