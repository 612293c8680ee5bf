//! The bones' solve: nothing nearby is better, and what is held does not move.

use glam::{DAffine3, DMat3, DQuat, DVec3};

use crate::model::rig::BoneKind;
use crate::refit::moments::Moments;
use crate::refit::motion::{Freedom, solve, start};
use crate::refit::space;
use crate::refit::tests::known;
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;

/// The error straight from the definition.
fn error(problem: &Problem, skin: &crate::skinning::skin::Skin, motion: &Motion) -> f64 {
    let f = problem.frames();
    let mut sum = 0.0;
    for i in 0..problem.vertices() {
        let v = problem.trajectory(i);
        for t in 0..f {
            let p: DVec3 =
                skin.of(i).map(|(j, w)| w * space::affine(&motion.get(j, t)).transform_point3(problem.rest[i])).sum();
            sum += p.distance_squared(DVec3::new(v[t].into(), v[f + t].into(), v[2 * f + t].into()));
        }
    }
    sum
}

#[test]
fn moments_give_the_error_and_the_solve_is_a_minimum() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        // Affine motion: neither rigid nor trs bones can reproduce it, so the least error is not zero.
        let (rig, sequence) = known(5, BoneKind::Affine);
        let problem = Problem::new(&sequence);
        let skin = space::skin(&rig.weights, rig.weights.slots(), problem.rest.clone());
        let moments = Moments::new(&problem, &skin, 7);
        let free: Vec<bool> = (0..7).map(|j| j != 3).collect();
        let axes = vec![DMat3::IDENTITY; 7];
        let freedom = Freedom { kind, free: &free, axes: &axes, steps: 100, tolerance: 1e-12 };
        let mut motion = space::motion(None, 7, problem.frames(), &problem.space);
        let held = motion.select(&[3]);
        start(&mut motion, &moments, &freedom, false);
        let told = solve(&mut motion, &moments, &freedom);
        let least = error(&problem, &skin, &motion);
        assert!((told - least).abs() < 1e-9 * least.max(1.0) + 1e-9, "{kind:?}: {told} {least}");
        assert!(motion.select(&[3]).rows() == held.rows(), "{kind:?}: a held bone moved");
        for (j, t) in (0..7).filter(|j| free[*j]).flat_map(|j| [(j, 4), (j, 11)]) {
            for nudge in nudges(kind) {
                let mut other = motion.clone();
                let m = nudge.0 * space::affine(&motion.get(j, t)) * nudge.1;
                other.set(j, t, &space::rows(&m));
                let worse = error(&problem, &skin, &other);
                assert!(worse >= least - 1e-7, "{kind:?}, bone {j}, frame {t}: {worse} {least}");
            }
        }
    }
}

/// Small steps that a bone of this kind could take: after its motion, and before it.
fn nudges(kind: BoneKind) -> Vec<(DAffine3, DAffine3)> {
    let mut nudges = Vec::new();
    let none = DAffine3::IDENTITY;
    for axis in DVec3::AXES {
        for size in [1e-3, -1e-3] {
            nudges.push((DAffine3::from_quat(DQuat::from_axis_angle(axis, size)), none));
            nudges.push((DAffine3::from_translation(axis * size), none));
            if kind != BoneKind::Rigid {
                nudges.push((none, DAffine3::from_scale(DVec3::ONE + axis * size)));
            }
            if kind == BoneKind::Affine {
                let mut shear = DMat3::IDENTITY;
                shear.x_axis += axis * size;
                nudges.push((none, DAffine3::from_mat3(shear)));
            }
        }
    }
    nudges
}

#[test]
fn bones_stay_what_their_kind_allows() {
    let (rig, sequence) = known(6, BoneKind::Affine);
    let problem = Problem::new(&sequence);
    let skin = space::skin(&rig.weights, rig.weights.slots(), problem.rest.clone());
    let moments = Moments::new(&problem, &skin, 7);
    let axes: Vec<DMat3> = rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect();
    for kind in [BoneKind::Rigid, BoneKind::Trs] {
        let freedom = Freedom { kind, free: &[true; 7], axes: &axes, steps: 30, tolerance: 1e-6 };
        let mut motion = space::motion(None, 7, problem.frames(), &problem.space);
        start(&mut motion, &moments, &freedom, false);
        solve(&mut motion, &moments, &freedom);
        for (j, t) in (0..7).flat_map(|j| (0..problem.frames()).map(move |t| (j, t))) {
            let linear = space::affine(&motion.get(j, t)).matrix3 * axes[j];
            let product = linear.transpose() * linear;
            let shear = product.x_axis.y.abs().max(product.x_axis.z.abs()).max(product.y_axis.z.abs());
            assert!(shear < 1e-9, "{kind:?}, bone {j}, frame {t}: {shear}");
            if kind == BoneKind::Rigid {
                assert!(product.abs_diff_eq(DMat3::IDENTITY, 1e-9));
            }
        }
    }
}
