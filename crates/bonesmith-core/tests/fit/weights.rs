//! Options of weights and rest pose.

use bonesmith_core::fit::FitParams;
use bonesmith_core::synthetic::{PosedRigParams, clownfish};
use bonesmith_core::{Adjacency, BoneKind, MeshSequence, Rig};

use crate::harness::{bones, known, measured, sequence};

/// `sum over edges |w_i - w_k|^2`.
fn roughness(rig: &Rig) -> f64 {
    let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
    let dense = |i: usize| {
        let mut row = vec![0.0; rig.bone_count()];
        rig.weights.of(i).for_each(|(j, w)| row[j] = f64::from(w));
        row
    };
    let rows: Vec<Vec<f64>> = (0..rig.vertex_count()).map(dense).collect();
    let mut sum = 0.0;
    for i in 0..rig.vertex_count() {
        for &k in adjacency.of(i) {
            sum += rows[i].iter().zip(&rows[k as usize]).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / 2.0;
        }
    }
    sum
}

fn soft() -> MeshSequence {
    known(7, PosedRigParams { bones: 10, softness: 0.6, frames: 16, detail: 3, ..PosedRigParams::default() })
}

/// Ten times the price each: the weights of neighbours draw together, and the error pays for it by little.
#[test]
fn smooth_weights_are_smoother_and_cost_little() {
    let fish = sequence(clownfish());
    let result = |smooth: f64| {
        let (fitted, metrics) = measured(&fish, &FitParams { smooth, ..bones(6) });
        println!("smooth {smooth}: roughness {:.1}, E_RMS {:.3}", roughness(&fitted.rig), metrics.e_rms);
        (roughness(&fitted.rig), metrics.e_rms)
    };
    let [off, weak, usual, strong] = [0.0, 0.1, 1.0, 10.0].map(result);
    assert!(usual.0 < 0.8 * off.0 && usual.0 < weak.0 && strong.0 < usual.0, "{off:?} {weak:?} {usual:?} {strong:?}");
    assert!(usual.1 < 1.1 * off.1 && strong.1 < 1.2 * off.1, "{off:?} {usual:?} {strong:?}");
}

#[test]
fn a_kept_rest_pose_is_kept_to_the_bit() {
    let sequence = soft();
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let (kept, kept_metrics) = measured(&sequence, &FitParams { keep_rest: true, bone_kind: kind, ..bones(6) });
        assert!(kept.rig.rest == sequence.rest(), "{kind:?}: the rest pose moved");
        let (free, metrics) = measured(&sequence, &FitParams { bone_kind: kind, ..bones(6) });
        assert!(free.rig.rest != sequence.rest(), "{kind:?}: the rest pose is free otherwise");
        println!("{kind:?}: {} kept, {} free", kept_metrics.e_rms, metrics.e_rms);
        assert!(metrics.e_rms < 1.02 * kept_metrics.e_rms, "{kind:?}: {} {}", kept_metrics.e_rms, metrics.e_rms);
    }
}

/// Coordinates that float32 cannot normalise and restore exactly.
#[test]
fn a_kept_rest_pose_is_kept_far_from_the_origin() {
    let mut raw = bonesmith_core::synthetic::awkward::bending_tube();
    for frame in &mut raw.frames {
        frame.positions.iter_mut().for_each(|p| *p = *p * 0.37 + glam::Vec3::new(1234.567, -89.1, 3e-3));
    }
    let sequence = sequence(raw);
    let (kept, _) = measured(&sequence, &FitParams { keep_rest: true, ..bones(3) });
    assert!(kept.rig.rest == sequence.rest());
}

/// More freedom, less error, on an animation with soft parts.
#[test]
fn more_freedom_lowers_the_error() {
    let fish = sequence(clownfish());
    let e_rms = |kind, influences, count| {
        let params = FitParams { bone_kind: kind, influences: Some(influences), ..bones(count) };
        let (fitted, metrics) = measured(&fish, &params);
        assert_eq!(fitted.rig.kind, kind);
        metrics.e_rms
    };
    let plain = e_rms(BoneKind::Rigid, 4, 8);
    let figures = [
        ("one influence", e_rms(BoneKind::Rigid, 1, 8), plain),
        ("16 bones", plain, e_rms(BoneKind::Rigid, 4, 16)),
        ("affine", plain, e_rms(BoneKind::Affine, 4, 8)),
    ];
    println!("{figures:?}");
    for (what, more, less) in figures {
        assert!(less < more, "{what}: {less} not below {more}");
    }
}
