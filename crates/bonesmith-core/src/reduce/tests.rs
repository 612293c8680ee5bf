use std::sync::Arc;

use glam::{DAffine3, DMat3, Vec3};

use crate::mesh::RawSequence;
use crate::mesh::surface::Surface;
use crate::metrics;
use crate::model::Clip;
use crate::model::rig::BoneKind;
use crate::model::rig::RigError;
use crate::observer::{Progress, Silent};
use crate::reduce::*;
use crate::skinning::poses::PoseError;
use crate::synthetic::{PosedRigParams, posed_rig};

const METHODS: [ReduceMethod; 6] = [
    ReduceMethod::Bonesmith,
    ReduceMethod::KLargest,
    ReduceMethod::Smooth,
    ReduceMethod::Geometric,
    ReduceMethod::GeometricEq37,
    ReduceMethod::Poisson,
];

/// A soft rig with many influences and the animation it makes.
fn sample(kind: BoneKind) -> (Rig, MeshSequence) {
    let params = PosedRigParams { bones: 10, influences: 8, kind, frames: 12, softness: 0.5, detail: 2 };
    let made = posed_rig(3, &params);
    (made.rig, MeshSequence::try_from(made.sequence).unwrap())
}

fn params(method: ReduceMethod, influences: usize) -> ReduceParams {
    ReduceParams { method, influences, ..ReduceParams::default() }
}

/// Control points in place of bones: the first columns are nothing.
fn caged(rig: &Rig) -> Rig {
    let mut cage = rig.clone();
    cage.kind = BoneKind::Affine;
    for clip in &mut cage.clips {
        for (at, bone) in clip.posed_from_rest.iter_mut().enumerate() {
            let center = rig.bones[at % rig.bones.len()].world_from_bind.translation;
            *bone = DAffine3::from_mat3_translation(DMat3::ZERO, bone.transform_point3(center));
        }
    }
    cage
}

#[test]
fn every_method_keeps_to_the_simplex_and_to_the_number_asked_for() {
    let (rig, sequence) = sample(BoneKind::Affine);
    assert!(rig.weights.max_influences() > 4);
    for rig in [rig.clone(), caged(&rig)] {
        for method in METHODS {
            for k in [1, 3] {
                let examples = (rig.clips[0].posed_from_rest[0].matrix3 != DMat3::ZERO).then_some(&sequence);
                let reduced = reduce(&rig, examples, &params(method, k), &mut Silent).unwrap();
                reduced.rig.check().unwrap();
                assert!(reduced.rig.weights.max_influences() <= k, "{method:?}");
                assert!(reduced.info.converged && !reduced.info.nothing_to_do, "{method:?} {:?}", reduced.info);
            }
        }
    }
}

#[test]
fn bonesmith_beats_the_published_methods_on_error_and_on_normals() {
    let (rig, sequence) = sample(BoneKind::Affine);
    let measure = |params: &ReduceParams| {
        let reduced = reduce(&rig, Some(&sequence), params, &mut Silent).unwrap();
        let metrics = metrics::evaluate(&reduced.rig, 0, &sequence).unwrap();
        (metrics.e_rms, metrics.normal_degrees.unwrap())
    };
    let ours = measure(&params(ReduceMethod::Bonesmith, 3));
    for method in &METHODS[1..] {
        let theirs = measure(&params(*method, 3));
        assert!(ours.0 < theirs.0 && ours.1 < theirs.1, "{method:?}: {theirs:?}, ours {ours:?}");
    }
    // Smoothness buys normals with error; motion refitted lowers the error further.
    let rough = measure(&ReduceParams { smooth: 0.0, ..params(ReduceMethod::Bonesmith, 3) });
    assert!(rough.0 <= ours.0 && rough.1 > ours.1, "{rough:?} {ours:?}");
    let moved = measure(&ReduceParams { refit_motion: true, ..params(ReduceMethod::Bonesmith, 3) });
    assert!(moved.0 < 0.8 * ours.0, "{moved:?} {ours:?}");
}

#[test]
fn motion_of_rigid_bones_is_refitted_by_rigid_motion() {
    let (rig, sequence) = sample(BoneKind::Rigid);
    let weights_only = reduce(&rig, Some(&sequence), &params(ReduceMethod::Bonesmith, 2), &mut Silent).unwrap().rig;
    let refitting = ReduceParams { refit_motion: true, ..params(ReduceMethod::Bonesmith, 2) };
    let moved = reduce(&rig, Some(&sequence), &refitting, &mut Silent).unwrap().rig;
    let e_rms = |rig: &Rig| metrics::evaluate(rig, 0, &sequence).unwrap().e_rms;
    assert!(e_rms(&moved) < e_rms(&weights_only));
    for bone in &moved.clips[0].posed_from_rest {
        let m = bone.matrix3;
        assert!((m.transpose() * m).abs_diff_eq(DMat3::IDENTITY, 1e-6));
    }
}

#[test]
fn the_metric_is_the_distance_of_the_poses() {
    let (rig, sequence) = sample(BoneKind::Affine);
    let reduced = reduce(&rig, Some(&sequence), &params(ReduceMethod::KLargest, 2), &mut Silent).unwrap().rig;
    let metric = Metric::of_poses(&Poses::new(&rig, Some(&sequence)).unwrap(), &mut Stages::new(&mut Silent)).unwrap();
    let rows = reduced.weights.rows();
    let sum: f64 = (0..rig.vertex_count()).map(|i| metric.error(i, rows[i].iter().copied())).sum();
    let truth = metrics::evaluate(&reduced, 0, &sequence).unwrap().e_rms;
    assert!((metric.rms(sum) - truth).abs() < 1e-4 * truth, "{} {truth}", metric.rms(sum));
}

#[test]
fn sweeps_never_raise_the_objective() {
    let (rig, sequence) = sample(BoneKind::Affine);
    let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
    let mut silent = Silent;
    let stages = &mut Stages::new(&mut silent);
    let poses = Poses::new(&rig, Some(&sequence)).unwrap();
    let residuals = SmoothResiduals::new(poses, adjacency, 4.0, stages).unwrap();
    let mut rows = residuals.choose(&rig.weights.largest(3), 3, stages).unwrap();
    let mut last = residuals.objective(&rows);
    let first = last;
    for _ in 0..4 {
        residuals.sweep(&mut rows, 3, 1, stages).unwrap();
        let now = residuals.objective(&rows);
        assert!(now <= last * (1.0 + 1e-5), "{last} {now}");
        last = now;
    }
    assert!(last < 0.95 * first);
}

#[test]
fn one_bone_and_two_are_chosen_as_brute_force_would() {
    let (rig, sequence) = sample(BoneKind::Affine);
    let metric = Metric::of_poses(&Poses::new(&rig, Some(&sequence)).unwrap(), &mut Stages::new(&mut Silent)).unwrap();
    let mut solver = InfluenceSolver::dense_form();
    let (mut lost, mut found) = (0, 0.0);
    for i in (0..rig.vertex_count()).step_by(7) {
        solver.load_vertex(&metric, i);
        let mut best = f64::INFINITY;
        for j in 0..metric.bones {
            for k in 0..j {
                let mut row = vec![(j, 0.5), (k, 0.5)];
                solver.reweigh(&mut row);
                best = best.min(solver.value(&row));
            }
        }
        let mut row = solver.dense(&vec![(0, 1.0)]);
        solver.choose(2, &mut row);
        let value = solver.value(&row);
        assert!(value >= best - 1e-9 * best.abs());
        lost += usize::from(value > best + 1e-7 * best.abs());
        found += 1.0;
    }
    assert!((lost as f64) < 0.05 * found, "{lost} of {found} vertices are not at the best pair");
}

#[test]
fn no_fewer_influences_than_there_are_change_nothing() {
    let (rig, sequence) = sample(BoneKind::Rigid);
    for method in METHODS {
        let reduced = reduce(&rig, Some(&sequence), &params(method, 20), &mut Silent).unwrap();
        assert!(reduced.info.nothing_to_do);
        assert_eq!(reduced.rig.weights, rig.weights);
    }
}

#[test]
fn what_does_not_fit_is_refused_with_both_numbers() {
    let (rig, sequence) = sample(BoneKind::Rigid);
    let refuse = |rig: &Rig, sequence: &MeshSequence| {
        let error = reduce(rig, Some(sequence), &params(ReduceMethod::KLargest, 4), &mut Silent).unwrap_err();
        match error {
            ReduceError::Poses(error) => error,
            error => panic!("{error}"),
        }
    };
    let (other, other_sequence) = {
        let made =
            posed_rig(3, &PosedRigParams { bones: 10, influences: 8, frames: 5, detail: 3, ..Default::default() });
        (made.rig, MeshSequence::try_from(made.sequence).unwrap())
    };
    let vertices = PoseError::VertexCount { rig: rig.vertex_count(), examples: other.vertex_count() };
    assert_eq!(refuse(&rig, &other_sequence), vertices);
    let mut short = rig.clone();
    short.clips[0].times_secs.truncate(5);
    short.clips[0].posed_from_rest.truncate(5 * rig.bone_count());
    assert!(matches!(refuse(&short, &sequence), PoseError::FrameCount { examples: 12, .. }));
    let mut large = rig.clone();
    large.rest.iter_mut().for_each(|p| *p *= 100.0);
    let message = refuse(&large, &sequence).to_string();
    assert!(message.contains("differ in scale"), "{message}");
    let mut still = rig.clone();
    still.clips.clear();
    assert_eq!(refuse(&still, &sequence), PoseError::NoClip);
    assert!(reduce(&still, None, &params(ReduceMethod::Smooth, 3), &mut Silent).is_ok());
    assert!(reduce(&still, None, &params(ReduceMethod::Poisson, 3), &mut Silent).is_err());
    assert!(reduce(&rig, None, &params(ReduceMethod::Poisson, 0), &mut Silent).is_err());
}

#[test]
fn points_without_faces_are_reduced_too() {
    let (mut rig, _) = sample(BoneKind::Rigid);
    rig.surface = Arc::new(Surface::default());
    for method in METHODS {
        let reduced = reduce(&rig, None, &params(method, 2), &mut Silent).unwrap();
        reduced.rig.check().unwrap();
    }
}

#[test]
fn unsound_rigs_are_refused() {
    let (rig, sequence) = sample(BoneKind::Rigid);
    let (n, bones) = (rig.vertex_count(), rig.weights.bone_table().to_vec());
    let weights = |bones: Vec<u16>, weights: Vec<f32>| SparseWeights::from_tables(8, bones, weights).unwrap();
    let mut not_a_number = rig.weights.weight_table().to_vec();
    not_a_number[8] = f32::NAN;
    let mut beyond = bones.clone();
    beyond[0] = 10;
    let mut broken = vec![rig.clone(); 5];
    broken[0].weights = weights(bones.clone(), not_a_number);
    broken[1].weights = weights(beyond, rig.weights.weight_table().to_vec());
    broken[2].clips[0].posed_from_rest.pop();
    broken[3].weights = SparseWeights::new(n - 1, 8);
    broken[4].rest[0].x = f32::INFINITY;
    for rig in &broken {
        for method in METHODS {
            for examples in [None, Some(&sequence)] {
                let refused = reduce(rig, examples, &params(method, 3), &mut Silent).unwrap_err();
                assert!(matches!(refused, ReduceError::Rig(_)), "{method:?}: {refused}");
            }
        }
    }
    assert!(matches!(broken[2].check(), Err(RigError::ClipSize { .. })));
    // A clip without frames shows no poses.
    let mut empty = rig.clone();
    empty.clips[0].times_secs.clear();
    empty.clips[0].posed_from_rest.clear();
    let refused = reduce(&empty, None, &params(ReduceMethod::Geometric, 3), &mut Silent).unwrap_err();
    assert_eq!(refused, ReduceError::Poses(PoseError::NoClip));
}

/// Cancels at a report of this number; counts them.
struct CancelAt(usize, usize);

impl Observer for CancelAt {
    fn report(&mut self, _: &Progress) -> std::ops::ControlFlow<()> {
        self.1 += 1;
        if self.1 == self.0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    }
}

#[test]
fn every_report_can_cancel() {
    let (rig, sequence) = sample(BoneKind::Affine);
    for method in METHODS {
        let mut all = CancelAt(0, 0);
        reduce(&rig, Some(&sequence), &params(method, 3), &mut all).unwrap();
        assert!(all.1 >= 1);
        // How many reports there are depends on the time that blocks take.
        for at in [1, all.1.div_ceil(4), all.1.div_ceil(2)] {
            let result = reduce(&rig, Some(&sequence), &params(method, 3), &mut CancelAt(at, 0));
            assert_eq!(result.unwrap_err(), ReduceError::Cancelled(Cancelled), "{method:?} at {at} of {}", all.1);
        }
    }
}

/// A rig and its motion moved by `offset`.
fn moved(rig: &Rig, offset: Vec3) -> Rig {
    let mut far = rig.clone();
    far.rest.iter_mut().for_each(|p| *p += offset);
    let there = DAffine3::from_translation(offset.as_dvec3());
    for bone in &mut far.clips[0].posed_from_rest {
        *bone = there * *bone * there.inverse();
    }
    far
}

#[test]
fn a_model_far_away_gives_the_same_weights() {
    let (mut rig, _) = sample(BoneKind::Rigid);
    // Coordinates that float32 holds out there too.
    rig.rest.iter_mut().for_each(|p| *p = (*p * 1024.0).round() / 1024.0);
    let far = moved(&rig, Vec3::new(1024.0, -512.0, 0.0));
    for method in METHODS {
        let near = reduce(&rig, None, &params(method, 3), &mut Silent).unwrap().rig;
        let far = reduce(&far, None, &params(method, 3), &mut Silent).unwrap().rig;
        let differ = (0..rig.vertex_count()).filter(|&i| {
            let bones = |rig: &Rig| rig.weights.of(i).map(|(j, _)| j).collect::<Vec<_>>();
            bones(&near) != bones(&far)
        });
        // Posed positions out there have 4 digits less.
        let differ = differ.count();
        assert!(differ < rig.vertex_count() / 10, "{method:?}: {differ} of {}", rig.vertex_count());
    }
}

#[test]
fn threads_make_no_difference() {
    let (rig, sequence) = sample(BoneKind::Affine);
    for method in METHODS {
        let run = || reduce(&rig, Some(&sequence), &params(method, 3), &mut Silent).unwrap().rig.weights;
        let pool = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool(1).install(run), pool(3).install(run), "{method:?}");
    }
}

/// A vertex with 20,000 neighbours: its squared Laplacian has 400 million entries. Methods that square it are refused.
#[test]
fn a_fan_too_large_for_a_squared_laplacian_is_refused() {
    let n = 20_000u32;
    let mut topology = crate::mesh::Topology::empty();
    (1..n).for_each(|i| topology.push_face(&[0, i, i + 1]));
    let around = (0..n).map(|i| glam::Vec2::from_angle(std::f32::consts::TAU * i as f32 / n as f32).extend(0.0));
    let (small, _) = sample(BoneKind::Rigid);
    let rows: Vec<Row> = (0..=n).map(|_| (0..6).map(|j| (j, 1.0 / 6.0)).collect()).collect();
    let rig = Rig {
        rest: std::iter::once(Vec3::ZERO).chain(around).collect(),
        surface: Arc::new(Surface { topology, ..Surface::default() }),
        weights: SparseWeights::from_rows(6, &rows),
        ..small
    };
    for method in [ReduceMethod::Smooth, ReduceMethod::Poisson] {
        let error = reduce(&rig, None, &params(method, 4), &mut Silent).unwrap_err();
        assert!(matches!(error, ReduceError::TooLarge { vertex: 0, neighbours: 20_000, .. }), "{error}");
    }
    reduce(&rig, None, &params(ReduceMethod::KLargest, 4), &mut Silent).unwrap();
}

/// 5,000 bones: the products of all pairs do not fit into memory.
#[test]
fn too_many_bones_are_refused() {
    let (mut rig, _) = sample(BoneKind::Rigid);
    let (bone, pose) = (rig.bones[0].clone(), rig.clips[0].posed_from_rest[0]);
    rig.bones = (0..5000).map(|j| crate::model::Bone { name: format!("bone{j}"), ..bone.clone() }).collect();
    for clip in &mut rig.clips {
        clip.posed_from_rest = vec![pose; 5000 * clip.frame_count()];
    }
    rig.check().unwrap();
    let error = reduce(&rig, None, &params(ReduceMethod::Bonesmith, 4), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("5000 bones") && error.contains("GiB"), "{error}");
    let error = crate::compress::compress(&rig, None, &Default::default(), &mut Silent).unwrap_err().to_string();
    assert!(error.contains("5000 bones") && error.contains("GiB"), "{error}");
}

/// A rig with a clip that stands still before the one that moves.
fn with_still_clip(mut rig: Rig) -> Rig {
    let mut still = Clip { name: "still".into(), ..rig.clips[0].clone() };
    still.posed_from_rest.fill(DAffine3::IDENTITY);
    rig.clips.insert(0, still);
    rig
}

#[test]
fn all_clips_count_and_examples_replace_those_that_they_are_of() {
    let (single, sequence) = sample(BoneKind::Affine);
    let rig = with_still_clip(single.clone());
    let moving = |rig: &Rig| metrics::evaluate(rig, rig.clips.len() - 1, &sequence).unwrap().e_rms;
    let asked = params(ReduceMethod::Bonesmith, 2);
    let alone = reduce(&single, None, &asked, &mut Silent).unwrap().rig;
    let both = reduce(&rig, None, &asked, &mut Silent).unwrap().rig;
    // A clip in which nothing moves weighs all weights alike: the other one decides.
    assert!(moving(&both) < 1.02 * moving(&alone), "{} {}", moving(&both), moving(&alone));
    let first_only = Rig { clips: rig.clips[..1].to_vec(), ..rig.clone() };
    let blind = reduce(&first_only, None, &asked, &mut Silent).unwrap().rig;
    let blind = Rig { clips: rig.clips.clone(), ..blind };
    assert!(moving(&both) < 0.8 * moving(&blind), "{} {}", moving(&both), moving(&blind));
    // The metric of all clips is the mean over their frames, examples in place of the rig's own poses.
    let pushed = |p: &Vec3| *p + Vec3::X * 0.1;
    let frames = (0..12).map(|t| sequence.frame(t).iter().map(pushed).collect::<Vec<_>>().into()).collect();
    let raw = RawSequence { frames, rest: Some(rig.rest.clone().into()), name: "moving".into(), ..Default::default() };
    let examples = MeshSequence::try_from(raw).unwrap();
    let named = Clip { name: "moving".into(), ..rig.clips[1].clone() };
    let rig = Rig { clips: vec![rig.clips[0].clone(), named], ..rig };
    assert_eq!(crate::example_clips(&rig, &examples), Some(1..2));
    let poses = Poses::new(&rig, Some(&examples)).unwrap();
    let metric = Metric::of_poses(&poses, &mut Stages::new(&mut Silent)).unwrap();
    let rows = both.weights.rows();
    let sum: f64 = (0..rig.vertex_count()).map(|i| metric.error(i, rows[i].iter().copied())).sum();
    let mean = |clip: usize, sequence: &MeshSequence| {
        metrics::evaluate(&Rig { clips: rig.clips.clone(), ..both.clone() }, clip, sequence).unwrap().e_rms.powi(2)
    };
    let own = MeshSequence::try_from(crate::ModelRef::from(&rig).baked(Some(0)).unwrap()).unwrap();
    let truth = (0.5 * (mean(0, &own) + mean(1, &examples))).sqrt();
    assert!((metric.rms(sum) - truth).abs() < 1e-3 * truth, "{} {truth}", metric.rms(sum));
    // Examples of no clip.
    let short = examples.clone().with_frames(0..5);
    let refused = reduce(&rig, Some(&short), &asked, &mut Silent).unwrap_err();
    assert!(refused.to_string().contains("still 12, moving 12"), "{refused}");
}

#[test]
fn motion_of_all_clips_is_refitted() {
    let (single, _) = sample(BoneKind::Affine);
    let rig = with_still_clip(single);
    let asked = ReduceParams { refit_motion: true, ..params(ReduceMethod::Bonesmith, 2) };
    let plain = reduce(&rig, None, &params(ReduceMethod::Bonesmith, 2), &mut Silent).unwrap().rig;
    let moved = reduce(&rig, None, &asked, &mut Silent).unwrap().rig;
    let own = MeshSequence::try_from(crate::ModelRef::from(&rig).baked(None).unwrap()).unwrap();
    let error = |rig: &Rig| metrics::evaluate_clips(rig, &[0, 1], &own).unwrap().e_rms;
    assert!(error(&moved) < 0.9 * error(&plain), "{} {}", error(&moved), error(&plain));
    assert_eq!(moved.clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>(), ["still", &rig.clips[1].name]);
}

/// The bones of largest effect, term by term; Poisson reduction has the same.
#[test]
fn geometric_bones_are_those_of_largest_effect_and_poisson_uses_them_all() {
    let (rig, sequence) = sample(BoneKind::Affine);
    let k = 3;
    let poses = Poses::new(&rig, Some(&sequence)).unwrap();
    let metric = Metric::of_poses(&poses, &mut Stages::new(&mut Silent)).unwrap();
    let mut silent = Silent;
    let asked = params(ReduceMethod::Geometric, k);
    let info = ReduceInfo { iterations: 0, converged: true, influences_before: 8, nothing_to_do: false };
    let mut this = Reduction { rig: &rig, params: &asked, k, info, stages: Stages::new(&mut silent) };
    let rows = this.geometric(&metric).unwrap();
    let frames = poses.motion.frames();
    for (i, row) in rows.iter().enumerate() {
        let effect = |j: usize, w: f64| -> f64 {
            let place = |t: usize| poses.motion.transform(j, t).transform_point3(poses.problem.rest[i]);
            (0..frames).map(|t| w * w * place(t).length_squared()).sum()
        };
        let mut effects: Vec<(f64, usize)> = rig.weights.of(i).map(|(j, w)| (effect(j, w.into()), j)).collect();
        effects.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut expected: Vec<usize> = effects.iter().take(k).map(|(_, j)| *j).collect();
        let mut found: Vec<usize> = row.iter().map(|(j, _)| *j).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected, "vertex {i}");
    }
    // Weights of 0 stay in the rows that Poisson reduction starts from, so that all K bones are unknowns of its program.
    let poisson = this.poisson(&poses).unwrap();
    assert!(poisson.iter().zip(&rows).all(|(a, b)| a.len() == b.len()));
}
