//! Tests of the compression: the maps against sampled poses, descent, and the paper's claims with numbers.

use glam::{DAffine3, DMat3, DMat4, DQuat, DVec3, DVec4};

use crate::ddm::compress::joints::{Joints, extent};
use crate::ddm::compress::layers::Layers;
use crate::ddm::compress::maps::JointMaps;
use crate::ddm::compress::*;
use crate::ddm::{DdmMaps, DdmParams, precompute};
use crate::deform::ddm_f64;
use crate::model::Clip;
use crate::observer::Silent;
use crate::solve::random::Random;
use crate::synthetic::{BarParams, bar};

/// Three bones, bent all along, softly.
fn soft_bar(seed: u64, bones: usize) -> DdmRig {
    let params = BarParams { bones, rings: 8, around: 12, bend: 1.0, frames: 7, ..BarParams::default() };
    let rig = bar(seed, &params);
    let soft = DdmParams { rotation_smooth: Some(3.0), ..DdmParams::default() };
    precompute(&rig, &soft, &DdmMaps::default(), &mut Silent).unwrap()
}

/// A motion of one joint: Euler angles and translation uniform in their ranges.
fn sampled(random: &mut Random, radians: f64, units: f64) -> DAffine3 {
    let mut angle = || random.signed() * radians;
    let (x, y, z) = (angle(), angle(), angle());
    let turn = DQuat::from_rotation_x(x) * DQuat::from_rotation_y(y) * DQuat::from_rotation_z(z);
    DAffine3::from_rotation_translation(turn, random.vector() * units)
}

#[test]
fn extents_are_the_second_moments_of_sampled_motion() {
    for (radians, units) in [(0.3, 0.0), (2.1, 0.5), (std::f64::consts::PI, 2.0)] {
        let mut random = Random::new(5);
        let count = 200_000;
        let mut sum = DMat4::ZERO;
        for _ in 0..count {
            let off = DMat4::from(sampled(&mut random, radians, units)) - DMat4::IDENTITY;
            sum += off.transpose() * off;
        }
        let mean = sum * (1.0 / f64::from(count));
        let (alpha, beta) = extent(radians, units);
        let squares = DVec4::new(alpha * alpha, alpha * alpha, alpha * alpha, beta * beta);
        let scale = squares.max_element();
        for c in 0..4 {
            for r in 0..4 {
                let expected = if r == c { squares[c] } else { 0.0 };
                // Rotation and translation are independent; the mean rotation is no identity, so blocks couple by
                // chance only.
                assert!((mean.col(c)[r] - expected).abs() < 0.012 * scale, "{radians} {units}: ({r}, {c}) {mean}");
            }
        }
    }
}

/// Mean squared error of the linearised models over sampled poses of one joint each.
fn sampled_energy(rig: &DdmRig, layers: &Layers, joints: &Joints, range: (f64, f64), count: usize) -> f64 {
    let mut random = Random::new(9);
    let b = joints.parents.len();
    let linear = |terms: &[(usize, DMat4)], pose: &[DMat4], u: DVec4| -> DVec4 {
        let total = terms.iter().fold(DMat4::ZERO, |sum, (_, m)| sum + *m);
        let lever = total.inverse() * u;
        terms.iter().map(|(j, m)| pose[*j] * (*m * lever)).sum()
    };
    let mut sum = 0.0;
    for sample in 0..count {
        let gamma = sample % b;
        let local = sampled(&mut random, range.0, range.1);
        let motion = DMat4::from(joints.binds[gamma] * local * joints.binds[gamma].inverse());
        let below = |j: usize| std::iter::successors(Some(j), |&at| joints.parents[at]).any(|at| at == gamma);
        let pose: Vec<DMat4> = (0..b).map(|j| if below(j) { motion } else { DMat4::IDENTITY }).collect();
        for i in 0..rig.vertex_count() {
            let u = layers.points[i];
            let truth = linear(&layers.multi_weights[i], &pose, u);
            let made: DVec4 =
                layers.weights[i].iter().map(|&(k, a)| linear(&layers.bones[k].terms, &pose, u) * a).sum();
            sum += (truth - made).truncate().length_squared();
        }
    }
    sum / (count * rig.vertex_count()) as f64
}

#[test]
fn the_energy_is_the_error_over_sampled_poses() {
    let rig = soft_bar(1, 3);
    let range = (1.2, 0.1);
    let params = DdmCompressParams {
        virtual_bones: 6,
        range: RangeOfMotion::Uniform { radians: range.0, units: range.1 },
        ..DdmCompressParams::default()
    };
    let mut silent = Silent;
    let stages = &mut Stages::new(&mut silent);
    let joints = Joints::new(&rig, &params.range, stages).unwrap();
    let maps = JointMaps::new(&joints, params.maps, stages).unwrap();
    let mut layers = Layers::new(&rig, maps, &params, stages).unwrap();
    layers.make_bones(6, stages).unwrap();
    for _ in 0..2 {
        layers.update_weights(stages).unwrap();
        layers.update_bones(stages).unwrap();
    }
    let sampled = sampled_energy(&rig, &layers, &joints, range, 3000);
    let off = (layers.energy() / sampled - 1.0).abs();
    assert!(off < 0.02, "E {}, sampled {sampled}", layers.energy());
}

#[test]
fn no_half_step_raises_the_energy_and_multi_weights_help() {
    let rig = soft_bar(2, 4);
    let params =
        DdmCompressParams { virtual_bones: 12, max_rounds: 10, tolerance: 0.0, ..DdmCompressParams::default() };
    let (made, info) = compress(&rig, &params, &mut Silent).unwrap();
    made.check().unwrap();
    assert!(info.history.windows(2).all(|pair| pair[1].error <= pair[0].error * (1.0 + 1e-12)), "{:?}", info.history);
    assert!(info.history.last().unwrap().error < 0.1 * info.history[0].error, "{:?}", info.history);
    let kept = DdmCompressParams { keep_multi_weights: true, ..params };
    let (_, without) = compress(&rig, &kept, &mut Silent).unwrap();
    assert!(info.rmse_fit < 0.8 * without.rmse_fit, "{} {}", info.rmse_fit, without.rmse_fit);
    // Rounds are counted, whatever the steps of each are.
    assert_eq!((info.rounds, info.stop), (10, DdmStop::MaxRounds));
    assert_eq!((without.rounds, without.stop), (10, DdmStop::MaxRounds));
    assert!(without.history.len() <= 21, "{:?}", without.history);
    // Tables: symmetric by layout, scalars sum to 1.
    for k in 0..made.weights.count() {
        let sum: f64 = made.weights.of(k).map(|(_, v)| f64::from(v[0])).sum();
        assert!((sum - 1.0).abs() < 1e-5);
    }
}

/// Root mean square distance between the models over the first clip.
fn off(full: &DdmRig, made: &DdmRig) -> f64 {
    let clip = &full.rig.clips[0];
    let squared: f64 = (0..clip.frame_count())
        .flat_map(|t| ddm_f64(full, clip.frame(t)).into_iter().zip(ddm_f64(made, clip.frame(t))))
        .map(|(a, b)| a.as_dvec3().distance_squared(b.as_dvec3()))
        .sum();
    (squared / (clip.frame_count() * full.vertex_count()) as f64).sqrt()
}

fn compressed(full: &DdmRig, change: impl FnOnce(&mut DdmCompressParams)) -> f64 {
    let mut params = DdmCompressParams { virtual_bones: 12, ..DdmCompressParams::default() };
    change(&mut params);
    off(full, &compress(full, &params, &mut Silent).unwrap().0)
}

#[test]
fn maps_and_virtual_bones_help_on_a_bar() {
    let full = soft_bar(3, 5);
    let all = compressed(&full, |_| ());
    let height = 5.0;
    assert!(all < 2e-3 * height, "{all}");
    let loose = compressed(&full, |params| params.maps.hierarchy = false);
    assert!(loose > 1.1 * all, "without hierarchy {loose}, with {all}");
    let nowhere = compressed(&full, |params| {
        params.maps.hierarchy = false;
        params.maps.coordinates = false;
    });
    assert!(nowhere > all, "without places {nowhere}, with {all}");
    let crude = compressed(&full, |params| params.maps.linearisation = false);
    assert!(crude.is_finite() && crude > all, "without linearisation {crude}, with {all}");
    let few = compressed(&full, |params| params.virtual_bones = 6);
    assert!(few > all, "6 bones {few}, 12 {all}");
    let many = compressed(&full, |params| params.virtual_bones = 40);
    assert!(many < all, "40 bones {many}, 12 {all}");
}

#[test]
fn measured_ranges_beat_uniform_ones_where_few_joints_move() {
    let mut full = soft_bar(4, 5);
    // Only the last joint turns, by a lot.
    for clip in &mut full.rig.clips {
        for frame in clip.posed_from_rest.chunks_mut(5) {
            let turn = frame[1];
            let joint = DAffine3::from_translation(DVec3::Y * 3.0);
            frame[..4].fill(DAffine3::IDENTITY);
            frame[4] = joint * turn * joint.inverse();
        }
    }
    let measured = compressed(&full, |_| ());
    let uniform = compressed(&full, |params| {
        params.range = RangeOfMotion::Uniform { radians: 2.0, units: 0.0 };
    });
    assert!(measured < 0.9 * uniform, "measured {measured}, uniform {uniform}");
}

#[test]
fn loose_bones_get_the_tree_they_move_by() {
    let mut full = soft_bar(5, 4);
    full.rig.bones.iter_mut().for_each(|bone| {
        bone.parent = None;
        bone.world_from_bind = DAffine3::IDENTITY;
    });
    let joints = Joints::new(&full, &RangeOfMotion::Measured, &mut Stages::new(&mut Silent)).unwrap();
    assert!(joints.found);
    let mut edges: Vec<(usize, usize)> =
        joints.parents.iter().enumerate().filter_map(|(j, p)| p.map(|p| (p.min(j), p.max(j)))).collect();
    edges.sort_unstable();
    assert_eq!(edges, [(0, 1), (1, 2), (2, 3)]);
    for (j, parent) in joints.parents.iter().enumerate() {
        if let Some(p) = parent {
            // Joints of a bend about x are known in y and z only.
            let place = joints.binds[j].translation + full.origin;
            let expected = f64::max(j as f64, *p as f64);
            assert!((place.y - expected).abs() < 0.05 && place.z.abs() < 0.05, "joint {j}: {place}");
        }
    }
}

/// Cancels at the report of this number.
struct CancelAt(usize);

impl Observer for CancelAt {
    fn report(&mut self, _: &crate::observer::Progress) -> std::ops::ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    }
}

#[test]
fn both_steps_can_be_cancelled() {
    let full = soft_bar(8, 4);
    let params = DdmCompressParams { virtual_bones: 12, ..DdmCompressParams::default() };
    for at in [1, 5, 20, 60] {
        let result = compress(&full, &params, &mut CancelAt(at));
        assert_eq!(result.map(|_| ()).unwrap_err(), DdmError::Cancelled(Cancelled), "{at}");
        let result = precompute(&full.rig, &DdmParams::default(), &DdmMaps::default(), &mut CancelAt(at));
        assert_eq!(result.map(|_| ()).unwrap_err(), DdmError::Cancelled(Cancelled), "{at}");
    }
}

#[test]
fn rest_and_common_motions_stay_exact_after_compression() {
    let full = soft_bar(6, 3);
    let params = DdmCompressParams { virtual_bones: 9, ..DdmCompressParams::default() };
    let (made, _) = compress(&full, &params, &mut Silent).unwrap();
    let turn = DAffine3::from_rotation_translation(DQuat::from_rotation_z(2.0), DVec3::new(3.0, 1.0, -2.0));
    for motion in [DAffine3::IDENTITY, turn] {
        let posed = ddm_f64(&made, &[motion; 3]);
        for (p, u) in posed.iter().zip(&full.rig.rest) {
            assert!(p.as_dvec3().distance(motion.transform_point3(u.as_dvec3())) < 2e-5);
        }
    }
    // The same through virtual bones as bones.
    let baked = made.bake().unwrap();
    let frame = |rig: &Rig| crate::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(4));
    let direct = ddm_f64(&made, full.rig.clips[0].frame(4));
    assert!(frame(&baked).iter().zip(&direct).all(|(a, b)| a.distance(*b) < 1e-5));
}

#[test]
fn awkward_requests_are_refused_or_served() {
    let full = soft_bar(7, 2);
    let asked = |params: DdmCompressParams| compress(&full, &params, &mut Silent).map(|(made, _)| made);
    let plain = DdmCompressParams::default();
    // More virtual bones than vertices; one only.
    for virtual_bones in [10_000, 1] {
        let made = asked(DdmCompressParams { virtual_bones, max_rounds: 2, ..plain.clone() }).unwrap();
        made.check().unwrap();
        assert!(ddm_f64(&made, full.rig.clips[0].frame(6)).iter().all(|p| p.is_finite()));
    }
    for bad in [
        DdmCompressParams { virtual_bones: 0, ..plain.clone() },
        DdmCompressParams { influences: 9, ..plain.clone() },
        DdmCompressParams { smooth: f64::NAN, ..plain.clone() },
        DdmCompressParams { range: RangeOfMotion::PerJoint(vec![(1.0, 0.0)]), ..plain.clone() },
        DdmCompressParams { range: RangeOfMotion::Uniform { radians: -1.0, units: 0.0 }, ..plain.clone() },
    ] {
        assert!(asked(bad).is_err());
    }
    // A rig that does not move.
    let mut still = full.clone();
    still.rig.clips.clear();
    compress(&still, &DdmCompressParams { virtual_bones: 5, ..plain }, &mut Silent).unwrap().0.check().unwrap();
    // An unsound one.
    let mut torn = full;
    torn.rig.clips[0].posed_from_rest.pop();
    let refused = compress(&torn, &DdmCompressParams::default(), &mut Silent).unwrap_err();
    assert!(matches!(refused, DdmError::Model(_)), "{refused}");
}

/// Layers after the linearised optimum, and examples.
fn with_examples(full: &DdmRig, params: &DdmCompressParams, use_them: impl FnOnce(&mut Layers, &examples::Examples)) {
    let mut silent = Silent;
    let stages = &mut Stages::new(&mut silent);
    let joints = Joints::new(full, &params.range, stages).unwrap();
    let maps = JointMaps::new(&joints, params.maps, stages).unwrap();
    let mut layers = Layers::new(full, maps, params, stages).unwrap();
    layers.make_bones(params.virtual_bones, stages).unwrap();
    for _ in 0..2 {
        layers.update_weights(stages).unwrap();
        layers.update_bones(stages).unwrap();
    }
    let examples = examples::Examples::new(full, &joints, &params.range, stages).unwrap();
    use_them(&mut layers, &examples);
}

#[test]
fn the_rotation_of_a_virtual_bone_turns_as_its_derivative_says() {
    let full = soft_bar(2, 4);
    let params = DdmCompressParams { virtual_bones: 8, ..DdmCompressParams::default() };
    with_examples(&full, &params, |layers, examples| {
        let bone = layers.bones.iter().find(|bone| bone.terms.len() > 2).unwrap().clone();
        let p = layers::centre(&bone.total);
        for pose in examples.poses.iter().step_by(9) {
            let (transform, s) = refine::posed(&bone, pose);
            let motions = refine::motions(&bone, pose, p, transform.matrix3, &s).unwrap();
            for (at, &(omega, dq)) in motions.iter().enumerate() {
                let h = 1e-6 * s.x_axis.x.max(1e-3);
                let moved = |h: f64| {
                    let mut changed = bone.clone();
                    let (j, (r, c)) = (1 + at / 10, refine::PAIRS[at % 10]);
                    let mut change = DMat4::ZERO;
                    change.col_mut(c)[r] = h;
                    change.col_mut(r)[c] = h;
                    let shift = DMat4::from_translation(p);
                    let change = shift * change * shift.transpose();
                    changed.terms[j].1 += change;
                    changed.terms[0].1 -= change;
                    refine::posed(&changed, pose).0
                };
                let (ahead, behind) = (moved(h), moved(-h));
                for x in [DVec3::X, DVec3::new(0.3, -0.7, 0.2)] {
                    let seen = (ahead.transform_point3(p + x) - behind.transform_point3(p + x)) / (2.0 * h);
                    let said = omega.cross(transform.matrix3 * x) + dq;
                    assert!(seen.distance(said) < 1e-4 * (1.0 + said.length()), "{at}: {seen} {said}");
                }
            }
        }
    });
}

#[test]
fn both_layers_are_better_on_the_real_bones_in_poses_not_used_for_it() {
    let full = soft_bar(3, 5);
    let (without, with) =
        without_and_with_real_poses(&full, &|clip: &Clip| (0..clip.frame_count()).step_by(2).collect());
    assert!(with < 0.85 * without, "{with} with real poses, {without} without");
}

#[test]
fn both_layers_are_better_in_poses_that_go_further_than_those_used_for_it() {
    let full = soft_bar(3, 5);
    // The third of the frames that is nearest to rest.
    let calm = |clip: &Clip| -> Vec<usize> {
        let turned =
            |t: &usize| clip.frame(*t).iter().map(|m| (m.matrix3 - DMat3::IDENTITY).x_axis.length()).sum::<f64>();
        let mut order: Vec<usize> = (0..clip.frame_count()).collect();
        order.sort_by(|a, b| turned(a).total_cmp(&turned(b)));
        order.truncate(order.len().div_ceil(3));
        order.sort_unstable();
        order
    };
    let (without, with) = without_and_with_real_poses(&full, &calm);
    assert!(with < 0.85 * without, "{with} with real poses, {without} without");
}

/// The error over all frames of a rig that was compressed with some of them, without and with real poses.
fn without_and_with_real_poses(full: &DdmRig, kept: &dyn Fn(&Clip) -> Vec<usize>) -> (f64, f64) {
    let mut some = full.clone();
    for clip in &mut some.rig.clips {
        let kept = kept(clip);
        clip.posed_from_rest = kept.iter().flat_map(|&t| clip.frame(t).to_vec()).collect();
        clip.times_secs = kept.iter().map(|&t| clip.times_secs[t]).collect();
    }
    let made = |real_poses: bool| {
        let params = DdmCompressParams { virtual_bones: 12, real_poses, ..DdmCompressParams::default() };
        let (made, info) = compress(&some, &params, &mut Silent).unwrap();
        made.check().unwrap();
        if let Some((before, after)) = info.rmse_poses {
            assert!(after < 0.9 * before, "{before} {after}");
        }
        off(full, &DdmRig { rig: Rig { clips: full.rig.clips.clone(), ..made.rig.clone() }, ..made })
    };
    (made(false), made(true))
}

#[test]
fn errors_in_real_poses_are_those_of_the_models() {
    let full = soft_bar(2, 4);
    let params = DdmCompressParams { virtual_bones: 8, ..DdmCompressParams::default() };
    with_examples(&full, &params, |layers, examples| {
        let real = refine::Real::new(layers, examples);
        let errors = layers.errors_in(&real);
        let made = finish(&full, layers);
        let (there, back) = (DAffine3::from_translation(full.origin), DAffine3::from_translation(-full.origin));
        let mut sums = vec![0.0; full.vertex_count()];
        for pose in &examples.poses {
            let world: Vec<DAffine3> = pose.iter().map(|m| there * *m * back).collect();
            let pairs = ddm_f64(&full, &world).into_iter().zip(ddm_f64(&made, &world));
            sums.iter_mut().zip(pairs).for_each(|(sum, (a, b))| *sum += a.as_dvec3().distance_squared(b.as_dvec3()));
        }
        let (found, truth): (f64, f64) = (errors.iter().sum(), sums.iter().sum());
        assert!((found - truth).abs() < 1e-3 * truth, "{found} {truth}");
    });
}
