//! Which errors count: norms, importance, regions; affine bones within limits.

use std::sync::Arc;

use bonesmith_core::fit::{BoneCount, FitParams, Norm, Warning};
use bonesmith_core::synthetic::PosedRigParams;
use bonesmith_core::synthetic::pieces::cloth;
use bonesmith_core::{BoneKind, MeshSequence, RawSequence, Silent};
use glam::DMat3;

use crate::harness::{bones, known, measured, sequence};

/// Fewer bones than the animation was made with.
fn hard() -> MeshSequence {
    known(4, PosedRigParams { bones: 12, frames: 20, detail: 3, ..PosedRigParams::default() })
}

#[test]
fn other_norms_lower_large_errors() {
    let sequence = hard();
    let (_, plain) = measured(&sequence, &bones(5));
    let mut last = 0.97 * plain.max_error;
    for norm in [Norm::P(6.0), Norm::Max] {
        let (_, found) = measured(&sequence, &FitParams { norm, ..bones(5) });
        assert!(found.max_error <= last, "{norm}: {} after {last}", found.max_error);
        assert!(found.e_rms < 1.27 * plain.e_rms, "{norm}: {} of {}", found.e_rms, plain.e_rms);
        last = found.max_error;
    }
}

#[test]
fn important_vertices_have_smaller_errors() {
    let sequence = hard();
    let n = sequence.vertex_count();
    let is_important = |i: usize| sequence.rest()[i].x > 0.0;
    let importance = (0..n).map(|i| if is_important(i) { 25.0 } else { 1.0 }).collect();
    let params = FitParams { importance: Some(Arc::new(importance)), ..bones(5) };
    let (_, plain) = measured(&sequence, &bones(5));
    let (_, weighed) = measured(&sequence, &params);
    let error = |per_vertex: &[f64], important: bool| {
        let of = (0..n).filter(|&i| is_important(i) == important).map(|i| per_vertex[i].powi(2));
        of.sum::<f64>().sqrt()
    };
    let (before, after) = (error(&plain.per_vertex, true), error(&weighed.per_vertex, true));
    assert!(after < 0.9 * before, "{before} to {after}");
    assert!(weighed.e_rms >= 0.98 * plain.e_rms);
}

#[test]
fn importance_of_all_alike_changes_nothing() {
    let sequence = hard();
    let alike = FitParams { importance: Some(Arc::new(vec![3.0; sequence.vertex_count()])), ..bones(5) };
    let (_, plain) = measured(&sequence, &bones(5));
    let (_, weighed) = measured(&sequence, &alike);
    assert!((weighed.e_rms / plain.e_rms - 1.0).abs() < 0.02, "{} {}", weighed.e_rms, plain.e_rms);
    let refused = |importance: Vec<f32>| {
        let params = FitParams { importance: Some(Arc::new(importance)), ..bones(5) };
        bonesmith_core::fit::fit(&sequence, &params, &mut Silent).expect_err("refused").to_string()
    };
    assert!(refused(vec![1.0; 3]).contains("3 numbers"));
    assert!(refused(vec![0.0; sequence.vertex_count()]).contains("0"));
    assert!(refused(vec![f32::NAN; sequence.vertex_count()]).contains("NaN"));
    // Without faces there is no area: all count alike.
    let raw = bonesmith_core::synthetic::awkward::point_cloud();
    let (_, of_points) = measured(&crate::harness::sequence(raw), &FitParams { area: true, ..bones(2) });
    assert!(of_points.e_rms.is_finite());
}

/// A cloth with a bump of a few vertices in a few frames: too little for the mean.
fn blink() -> RawSequence {
    let mut raw = cloth(20);
    let first: Vec<glam::Vec3> = raw.frames[0].positions.clone();
    let middle = first[first.len() / 2];
    let near = |i: usize| first[i].distance(middle) < 0.7;
    for t in 8..11 {
        for i in (0..first.len()).filter(|&i| near(i)) {
            raw.frames[t].positions[i].z += 0.25;
        }
    }
    raw
}

#[test]
fn a_blink_counts() {
    let sequence = sequence(blink());
    let auto = FitParams { bones: BoneCount::Auto, ..FitParams::default() };
    let (fitted, metrics) = measured(&sequence, &auto);
    let misses = fitted.info.warnings.iter().any(|w| matches!(w, Warning::LocalMissed { .. }));
    // Distances in thousandths of the radius; the bump is far higher than the goal of 20.
    assert!(metrics.p999_error < 20.0 || misses, "{} {:?}", metrics.p999_error, fitted.info.warnings);
    assert!(metrics.e_rms <= 2.001, "{} {:?}", metrics.e_rms, fitted.info.warnings);
}

#[test]
fn affine_bones_never_mirror() {
    for (name, sequence) in [("cloth", sequence(cloth(24))), ("body", hard())] {
        let (fitted, _) = measured(&sequence, &FitParams { bone_kind: BoneKind::Affine, ..bones(12) });
        assert!(!fitted.info.warnings.iter().any(|w| matches!(w, Warning::Mirrored { .. })), "{name}");
        for (t, frame) in (0..sequence.frame_count()).map(|t| (t, fitted.rig.clips[0].frame(t))) {
            for (j, bone) in frame.iter().enumerate() {
                let m: DMat3 = bone.matrix3;
                assert!(m.determinant() > 0.0, "{name}: bone {j}, frame {t}: {m}");
            }
        }
    }
}
