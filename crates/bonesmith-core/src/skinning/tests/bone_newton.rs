//! All free bones of a frame at once: nothing nearby is better, bones that are not free do not move, and the moments of frames are
//! those of the definition.

use glam::{DAffine3, DMat3, DQuat, DVec3};

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{BoneKind, Rig};
use crate::observer::Silent;
use crate::skinning::bone_newton::{Freedom, guess, solve};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::params::FitParams;
use crate::skinning::pass::gather_frames;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::synthetic::{PosedRigParams, posed_rig};

const BONES: usize = 7;

/// Affine motion: neither rigid nor trs bones can reproduce it, so the least error is not zero.
fn case(seed: u64) -> (Rig, Problem, Skin) {
    let params =
        PosedRigParams { kind: BoneKind::Affine, bones: BONES, frames: 20, detail: 2, ..PosedRigParams::default() };
    let known = posed_rig(seed, &params);
    let problem = Problem::new(&MeshSequence::try_from(known.sequence).unwrap());
    let skin = Skin::from_weights(&known.rig.weights, known.rig.weights.slots(), problem.rest.clone());
    (known.rig, problem, skin)
}

/// A guess, then steps from its residuals and again from those of the result; the squared error that is left.
fn solved(problem: &Problem, skin: &Skin, motion: &mut Motion, freedom: &Freedom) -> f64 {
    let (params, mut silent) = (FitParams::default(), Silent);
    let mut run = Run::new(&params, &mut silent);
    guess(motion, &gather_frames(problem, motion, skin), freedom.free, false);
    let mut left = 0.0;
    for _ in 0..2 {
        let moments = gather_frames(problem, motion, skin);
        left = moments.squared_error - solve(motion, &moments, freedom, &mut run).unwrap();
    }
    left
}

/// [F] errors straight from the definition.
fn errors(problem: &Problem, skin: &Skin, motion: &Motion) -> Vec<f64> {
    let f = problem.frames();
    let mut sums = vec![0.0; f];
    for i in 0..problem.vertices() {
        let v = problem.trajectory(i);
        for (t, sum) in sums.iter_mut().enumerate() {
            let p: DVec3 = skin.of(i).map(|(j, w)| w * motion.transform(j, t).transform_point3(problem.rest[i])).sum();
            *sum += p.distance_squared(DVec3::new(v[t].into(), v[f + t].into(), v[2 * f + t].into()));
        }
    }
    sums
}

#[test]
fn frames_have_the_errors_of_the_definition() {
    let (rig, problem, skin) = case(3);
    let motion = Motion::identity(rig.bone_count(), problem.frames());
    let Moments { per_frame, squared_error, second, .. } = gather_frames(&problem, &motion, &skin);
    for (found, truth) in per_frame.iter().zip(errors(&problem, &skin, &motion)) {
        assert!((found - truth).abs() < 1e-5 * truth + 1e-9, "{found} {truth}");
    }
    assert!((per_frame.iter().sum::<f64>() - squared_error).abs() < 1e-5 * squared_error);
    for j in 0..BONES {
        let mut first = [0.0; 4];
        for (i, u) in skin.rest.iter().enumerate() {
            let w = skin.of(i).filter(|(k, _)| *k == j).map(|(_, w)| w).sum::<f64>();
            [u.x, u.y, u.z, 1.0].iter().zip(&mut first).for_each(|(u, sum)| *sum += w * u);
        }
        assert!(
            first.iter().zip(second.first(j)).all(|(a, b)| (a - b).abs() < 1e-4),
            "{first:?} {:?}",
            second.first(j)
        );
    }
}

#[test]
fn the_solve_is_a_minimum() {
    for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
        let (_, problem, skin) = case(5);
        let free: Vec<bool> = (0..BONES).map(|j| j != 3).collect();
        let model = BoneModel::new(kind, BONES, 1);
        let freedom = Freedom { model: &model, free: &free, steps: 100, tolerance: 1e-12 };
        let mut motion = Motion::identity(BONES, problem.frames());
        let held = motion.select(&[3]);
        let left = solved(&problem, &skin, &mut motion, &freedom);
        let least: f64 = errors(&problem, &skin, &motion).iter().sum();
        assert!((left - least).abs() < 1e-5 * least, "{kind:?}: {left} {least}");
        assert!(motion.select(&[3]).rows() == held.rows(), "{kind:?}: a bone that is not free moved");
        for (j, t) in (0..BONES).filter(|j| free[*j]).flat_map(|j| [(j, 4), (j, 11)]) {
            for nudge in nudges(kind) {
                let mut other = motion.clone();
                other.set_transform(j, t, &(nudge.0 * motion.transform(j, t) * nudge.1));
                let worse: f64 = errors(&problem, &skin, &other).iter().sum();
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
    let (rig, problem, skin) = case(6);
    let axes: Vec<DMat3> = rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect();
    for kind in [BoneKind::Rigid, BoneKind::Trs] {
        let model = BoneModel { axes: axes.clone(), ..BoneModel::new(kind, BONES, 1) };
        let freedom = Freedom { model: &model, free: &[true; BONES], steps: 30, tolerance: 1e-6 };
        let mut motion = Motion::identity(BONES, problem.frames());
        solved(&problem, &skin, &mut motion, &freedom);
        for (j, t) in (0..BONES).flat_map(|j| (0..problem.frames()).map(move |t| (j, t))) {
            let linear = motion.transform(j, t).matrix3 * axes[j];
            let product = linear.transpose() * linear;
            let shear = product.x_axis.y.abs().max(product.x_axis.z.abs()).max(product.y_axis.z.abs());
            assert!(shear < 1e-9, "{kind:?}, bone {j}, frame {t}: {shear}");
            if kind == BoneKind::Rigid {
                assert!(product.abs_diff_eq(DMat3::IDENTITY, 1e-9));
            }
        }
    }
}

/// One bone at a time and all at once end at the same error.
#[test]
fn sweeps_and_steps_over_all_bones_agree() {
    for kind in [BoneKind::Rigid, BoneKind::Trs] {
        let (_, problem, skin) = case(8);
        let model = BoneModel::new(kind, BONES, 20);
        let freedom = Freedom { model: &model, free: &[true; BONES], steps: 100, tolerance: 1e-12 };
        let mut all = Motion::identity(BONES, problem.frames());
        let left = solved(&problem, &skin, &mut all, &freedom);
        let mut one = Motion::identity(BONES, problem.frames());
        let moments = gather_frames(&problem, &one, &skin);
        guess(&mut one, &moments, freedom.free, false);
        for _ in 0..40 {
            let moments = gather_frames(&problem, &one, &skin);
            crate::skinning::bone_step::update(&mut one, &moments, &model);
        }
        let swept: f64 = errors(&problem, &skin, &one).iter().sum();
        assert!((left / swept - 1.0).abs() < 0.02, "{kind:?}: {left} {swept}");
    }
}
