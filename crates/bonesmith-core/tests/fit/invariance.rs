//! What must not matter: place, orientation and size of the model, order of its vertices, number of threads.

use bonesmith_core::fit::{Effort, FitParams, Fitted};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, RawSequence, Rig, Topology};
use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};

use crate::harness::{bones, fitted, known, measured, sequence};

fn small_raw(seed: u64) -> RawSequence {
    posed_rig(seed, &PosedRigParams { bones: 4, frames: 12, detail: 2, ..PosedRigParams::default() }).sequence
}

/// Every position of a sequence through one map.
fn mapped(mut raw: RawSequence, map: impl Fn(Vec3) -> Vec3) -> MeshSequence {
    for frame in raw.frames.iter_mut().chain(&mut raw.rest) {
        frame.positions.iter_mut().for_each(|p| *p = map(*p));
    }
    sequence(raw)
}

fn kinds() -> [BoneKind; 3] {
    [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine]
}

/// The same rig up to rounding: float32 input is rounded anew after every map, and sums are of other numbers.
#[track_caller]
fn assert_moved_with(plain: &Fitted, moved: &Fitted, world: DAffine3, size: f64, tolerance: f64) {
    let (a, b) = (&plain.rig, &moved.rig);
    assert_eq!(a.bone_count(), b.bone_count());
    for i in 0..a.vertex_count() {
        let expected = world.transform_point3(a.rest[i].as_dvec3());
        let off = expected.distance(b.rest[i].as_dvec3());
        assert!(off < tolerance * size, "rest of vertex {i} is off by {off}");
    }
    // Where vertices go says more than matrices: a bone that few vertices follow is known less well.
    for (t, frame) in posed(a).iter().zip(posed(b)).enumerate() {
        for (i, (p, q)) in frame.0.iter().zip(frame.1).enumerate() {
            let off = world.transform_point3(p.as_dvec3()).distance(q.as_dvec3());
            assert!(off < tolerance * size, "frame {t}, vertex {i} is off by {off}");
        }
    }
}

fn posed(rig: &Rig) -> Vec<Vec<Vec3>> {
    let clip = &rig.clips[0];
    (0..clip.frame_count()).map(|t| bonesmith_core::deform::lbs(&rig.rest, &rig.weights, clip.frame(t))).collect()
}

#[test]
fn size_and_place_do_not_matter() {
    for kind in kinds() {
        let params = FitParams { bone_kind: kind, ..bones(4) };
        let (plain, metrics) = measured(&sequence(small_raw(1)), &params);
        // A power of two changes no digit; other sizes and places round the input anew.
        for (scale, shift, tolerance) in [(0.25, Vec3::ZERO, 1e-6), (1000.0, Vec3::new(300.0, -2e3, 10.0), 2e-3)] {
            let moved = mapped(small_raw(1), |p| p * scale + shift);
            let (other, moved_metrics) = measured(&moved, &params);
            assert!((moved_metrics.e_rms / metrics.e_rms - 1.0).abs() < tolerance * 10.0);
            let world = DAffine3::from_scale_rotation_translation(
                DVec3::splat(scale.into()),
                DQuat::IDENTITY,
                shift.as_dvec3(),
            );
            assert_moved_with(&plain, &other, world, f64::from(scale) * 5.0, tolerance);
        }
    }
}

/// Every number is rounded anew, and ties may break another way: the error is compared, not the rig.
#[test]
fn orientation_does_not_matter() {
    for kind in kinds() {
        for seed in 1..4 {
            let params = FitParams { bone_kind: kind, max_iterations: Some(60), ..bones(4) };
            let turn = DQuat::from_scaled_axis(DVec3::new(0.3, -1.1, 0.7));
            let (_, metrics) = measured(&sequence(small_raw(seed)), &params);
            let moved = mapped(small_raw(seed), |p| (turn * p.as_dvec3()).as_vec3());
            let (_, turned) = measured(&moved, &params);
            let ratio = turned.e_rms / metrics.e_rms;
            assert!((ratio - 1.0).abs() < 0.02, "{kind:?} {seed}: {} {}", metrics.e_rms, turned.e_rms);
        }
    }
}

/// A turn by a right angle swaps axes and signs and rounds nothing.
#[test]
fn right_angles_move_the_bones_with_them() {
    let turn = DMat3::from_cols(DVec3::Y, -DVec3::X, DVec3::Z);
    for kind in kinds() {
        let params = FitParams { bone_kind: kind, ..bones(4) };
        let (plain, metrics) = measured(&sequence(small_raw(2)), &params);
        let (other, turned) = measured(&mapped(small_raw(2), |p| Vec3::new(-p.y, p.x, p.z)), &params);
        assert!((turned.e_rms / metrics.e_rms - 1.0).abs() < 0.02, "{kind:?}: {} {}", metrics.e_rms, turned.e_rms);
        assert_moved_with(&plain, &other, DAffine3::from_mat3(turn), 5.0, 5e-3);
    }
}

/// Vertices in another order: the search sees the same points, sums differ in rounding only.
#[test]
fn the_order_of_vertices_does_not_matter() {
    let raw = small_raw(3);
    let n = raw.frames[0].positions.len();
    // A permutation with no fixed pattern: multiples of a number prime to n.
    let step = (n / 3..).find(|s| gcd(*s, n) == 1).expect("there is one");
    let from: Vec<usize> = (0..n).map(|i| i * step % n).collect();
    let mut to = vec![0u32; n];
    from.iter().enumerate().for_each(|(i, &old)| to[old] = i as u32);
    let mut shuffled = raw.clone();
    for frame in shuffled.frames.iter_mut().chain(&mut shuffled.rest) {
        frame.positions = from.iter().map(|&old| frame.positions[old]).collect();
    }
    let mut topology = Topology::empty();
    for face in raw.surface.topology.faces() {
        topology.push_face(&face.iter().map(|&v| to[v as usize]).collect::<Vec<_>>());
    }
    shuffled.surface.topology = topology;
    let (plain, metrics) = measured(&sequence(raw), &bones(4));
    let (other, shuffled) = measured(&sequence(shuffled), &bones(4));
    assert!((shuffled.e_rms / metrics.e_rms - 1.0).abs() < 1e-3, "{} {}", metrics.e_rms, shuffled.e_rms);
    for (i, &old) in from.iter().enumerate() {
        let off = plain.rig.rest[old].distance(other.rig.rest[i]);
        assert!(off < 1e-3, "vertex {old}, now {i}: rest off by {off}");
        let (mut a, mut b): (Vec<_>, Vec<_>) = (plain.rig.weights.of(old).collect(), other.rig.weights.of(i).collect());
        a.sort_by_key(|x| x.0);
        b.sort_by_key(|x| x.0);
        assert!(
            a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() < 1e-2),
            "{a:?} {b:?}"
        );
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Large enough to be sampled and shared out among threads.
#[test]
fn threads_do_not_change_a_bit() {
    let sequence = known(4, PosedRigParams { bones: 8, frames: 20, detail: 7, ..PosedRigParams::default() });
    for kind in kinds() {
        // Smooth weights, and steps over everything at once, where the kind allows for them.
        let smooth = if kind == BoneKind::Trs { 0.1 } else { 0.0 };
        let effort = if kind == BoneKind::Affine { Effort::Best } else { Effort::Balanced };
        let params = FitParams { bone_kind: kind, smooth, effort, ..bones(8) };
        let run = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
            let rig = pool.install(|| fitted(&sequence, &params)).rig;
            (rig.rest, rig.weights, rig.bones, rig.clips)
        };
        let single = run(1);
        assert!(single == run(2), "{kind:?}: 2 threads");
        assert!(single == run(3), "{kind:?}: 3 threads");
    }
}

#[test]
fn the_seed_is_the_only_chance() {
    let sequence = known(5, PosedRigParams { bones: 6, frames: 12, detail: 8, ..PosedRigParams::default() });
    let rig = |seed| fitted(&sequence, &FitParams { seed, ..bones(6) }).rig.clips;
    let first = rig(0);
    assert!(first == rig(0));
    assert!(first != rig(1));
}
