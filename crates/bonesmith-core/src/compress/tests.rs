use std::sync::Arc;

use crate::compress::*;
use crate::mesh::surface::Surface;
use crate::model::rig::BoneKind;
use crate::observer::{Progress, Silent, Stage};
use crate::reduce::{ReduceParams, reduce};
use crate::synthetic::{PosedRigParams, posed_rig};
use crate::{deform, metrics};

fn sample() -> (Rig, MeshSequence) {
    let params =
        PosedRigParams { bones: 10, influences: 10, kind: BoneKind::Affine, frames: 12, softness: 0.5, detail: 3 };
    let made = posed_rig(5, &params);
    (made.rig, MeshSequence::try_from(made.sequence).unwrap())
}

fn e_rms(rig: &TwoLayerRig, sequence: &MeshSequence) -> f64 {
    metrics::compare(sequence, |t| deform::two_layer(rig, rig.master.clips[0].frame(t))).e_rms
}

fn run(rig: &Rig, examples: Option<&MeshSequence>, params: TwoLayerParams) -> Compressed {
    let compressed = compress(rig, examples, &TwoLayerParams { allow_larger: true, ..params }, &mut Silent).unwrap();
    compressed.rig.check().unwrap();
    compressed
}

/// The bones and the rest pose as they were.
fn kept(params: TwoLayerParams) -> TwoLayerParams {
    TwoLayerParams { keep_motion: true, keep_rest: true, ..params }
}

#[test]
fn four_influences_worth_of_two_layers_beat_four_influences() {
    let (rig, sequence) = sample();
    let reduced = reduce(&rig, Some(&sequence), &ReduceParams::default(), &mut Silent).unwrap().rig;
    let single = metrics::evaluate(&reduced, 0, &sequence).unwrap().e_rms;
    let with = run(&rig, Some(&sequence), TwoLayerParams::default());
    let without = run(&rig, None, TwoLayerParams::default());
    let weights = run(&rig, None, TwoLayerParams { weights_only: true, ..TwoLayerParams::default() });
    for (compressed, factor) in [(&with, 0.35), (&without, 0.4), (&weights, 0.8)] {
        assert!(e_rms(&compressed.rig, &sequence) < factor * single, "{} {single}", e_rms(&compressed.rig, &sequence));
        assert!(compressed.rig.blends_per_vertex() <= 4.0);
        assert_eq!(compressed.info.stop, CompressStop::Full);
    }
    // What it minimised is what is measured.
    let reported = with.info.history.last().unwrap().error;
    let seen = e_rms(&with.rig, &sequence);
    assert!((reported - seen).abs() < 1e-2 * seen + 1e-3, "{reported} {seen}");
    // Single-layer weights beside it are those of the reduction without smoothness, or the largest.
    let rough = ReduceParams { smooth: 0.0, ..ReduceParams::default() };
    let plain = run(&rig, Some(&sequence), kept(TwoLayerParams::default())).rig;
    assert_eq!(plain.master.weights, reduce(&rig, Some(&sequence), &rough, &mut Silent).unwrap().rig.weights);
    assert_eq!(without.rig.master.weights, SparseWeights::from_rows(4, &rig.weights.largest(4)));
    assert!(metrics::evaluate(&plain.master, 0, &sequence).unwrap().e_rms < 1.05 * single);
}

#[test]
fn bones_and_rest_pose_move_to_suit_the_layers_unless_they_are_kept() {
    let (rig, sequence) = sample();
    for kind in [BoneKind::Affine, BoneKind::Rigid] {
        let rig = Rig { kind, ..rig.clone() };
        let error = |params: TwoLayerParams| {
            let made = run(&rig, Some(&sequence), params).rig;
            let same = (made.master.rest == rig.rest, made.master.clips == rig.clips);
            (e_rms(&made, &sequence), same)
        };
        let plain = TwoLayerParams { size: TwoLayerSize::VirtualBones(24), ..TwoLayerParams::default() };
        let (before, same) = error(kept(plain.clone()));
        assert_eq!(same, (true, true));
        let (rest_only, same) = error(TwoLayerParams { keep_motion: true, ..plain.clone() });
        assert_eq!(same, (false, true));
        let (bones_only, same) = error(TwoLayerParams { keep_rest: true, ..plain.clone() });
        assert_eq!(same, (true, false));
        let (both, same) = error(plain);
        assert_eq!(same, (false, false));
        assert!(rest_only < before && bones_only < before, "{kind:?}: {rest_only} {bones_only} {before}");
        assert!(both < 0.97 * before, "{kind:?}: {both} {before}");
    }
    // The joints of a skeleton would come apart.
    let mut skeleton = rig.clone();
    skeleton.bones[3].parent = Some(1);
    assert!(run(&skeleton, None, TwoLayerParams::default()).rig.master.clips == skeleton.clips);
}

/// One step of the refinement against sums over all vertices and frames, one term after the other.
#[test]
fn a_refinement_solves_the_normal_equations_of_all_terms() {
    let (rig, sequence) = sample();
    let layers = run(&rig, Some(&sequence), kept(TwoLayerParams::default())).rig;
    let mut poses = Poses::new(&rig, Some(&sequence)).unwrap();
    let atoms: Vec<Row> =
        (0..layers.virtual_count()).map(|m| layers.blends.of(m).map(|(j, d)| (j, f64::from(d))).collect()).collect();
    let mut coefficients = coefficients::Coefficients::new(rig.vertex_count(), 2);
    for i in 0..rig.vertex_count() {
        coefficients.set(i, &(layers.weights.of(i).map(|(m, a)| (m, f64::from(a))).collect(), 0.0));
    }
    let both = refine::Layers { atoms: &atoms, coefficients: &coefficients };
    let weights: Vec<Row> = (0..rig.vertex_count())
        .map(|i| {
            let mut row = vec![0.0; rig.bone_count()];
            coefficients.of(i).for_each(|(m, a)| atoms[m].iter().for_each(|&(j, d)| row[j] += a * d));
            row.into_iter().enumerate().collect()
        })
        .collect();
    let squared = |poses: &Poses| -> f64 {
        let (f, mut sum) = (poses.motion.frames(), 0.0);
        for (i, row) in weights.iter().enumerate() {
            for t in 0..f {
                let moved =
                    |&(j, w): &(usize, f64)| w * poses.motion.transform(j, t).transform_point3(poses.problem.rest[i]);
                sum += row.iter().map(moved).sum::<glam::DVec3>().distance_squared(poses.problem.position(i, t));
            }
        }
        sum
    };
    let step = |poses: &mut Poses, rest: bool, bones: bool| {
        let freedoms = Freedoms { rest, bones, pull: 0.0 };
        let refinement = Refinement { rig: &rig, freedoms, start: poses.problem.rest.clone() };
        let mut silent = Silent;
        let mut stages = Stages::new(&mut silent);
        if rest {
            let projections = quadratic::project(poses, &mut stages).unwrap();
            refinement.move_rest(poses, &both, &projections);
        }
        if bones {
            refinement.move_bones(poses, &both, &mut stages).unwrap();
        }
        squared(poses)
    };
    let before = squared(&poses);
    let rest = step(&mut poses, true, false);
    // No rest position can be moved to lower the error further.
    for (i, axis) in [(3, glam::DVec3::X), (40, glam::DVec3::Y), (77, glam::DVec3::Z)] {
        for sign in [-1.0, 1.0] {
            poses.problem.rest[i] += sign * 1e-3 * axis;
            assert!(squared(&poses) > rest, "vertex {i}");
            poses.problem.rest[i] -= sign * 1e-3 * axis;
        }
    }
    let bones = step(&mut poses, false, true);
    // Nor can an affine bone.
    for (c, j, l) in [(0, 2, 5), (3, 7, 20), (2, 0, 33)] {
        for sign in [-1.0, 1.0] {
            let kept = poses.motion.row(c, j)[l];
            poses.motion.row_mut(c, j)[l] = kept + sign * 1e-3;
            assert!(squared(&poses) > bones * (1.0 - 1e-9), "bone {j}");
            poses.motion.row_mut(c, j)[l] = kept;
        }
    }
    assert!(rest < before && bones < rest, "{before} {rest} {bones}");
}

#[test]
fn a_rig_that_two_layers_would_not_make_smaller_is_refused() {
    let (rig, sequence) = sample();
    let reduced = reduce(&rig, None, &ReduceParams::default(), &mut Silent).unwrap().rig;
    for examples in [None, Some(&sequence)] {
        let refused = compress(&reduced, examples, &TwoLayerParams::default(), &mut Silent).unwrap_err();
        assert!(matches!(refused, CompressError::NothingToGain { influences: 4, .. }), "{refused}");
    }
    // Few virtual bones are smaller.
    let few = TwoLayerParams { size: TwoLayerSize::VirtualBones(12), ..TwoLayerParams::default() };
    compress(&reduced, None, &few, &mut Silent).unwrap();
    run(&reduced, None, TwoLayerParams::default());
}

#[test]
fn all_clips_count() {
    let (mut rig, _) = sample();
    let mut still = rig.clips[0].clone();
    still.posed_from_rest.fill(glam::DAffine3::IDENTITY);
    still.name = "still".into();
    rig.clips.insert(0, still);
    let two = run(&rig, None, TwoLayerParams::default()).rig;
    let alone = run(&Rig { clips: rig.clips[..1].to_vec(), ..rig.clone() }, None, TwoLayerParams::default()).rig;
    let moving = MeshSequence::try_from(crate::ModelRef::from(&rig).baked(Some(1)).unwrap()).unwrap();
    let error = |two: &TwoLayerRig| metrics::compare(&moving, |t| deform::two_layer(two, rig.clips[1].frame(t))).e_rms;
    let kept_bones = run(&rig, None, kept(TwoLayerParams::default())).rig;
    assert!(error(&kept_bones) < 0.9 * error(&alone), "{} {}", error(&kept_bones), error(&alone));
    assert_eq!(two.master.clips.len(), 2);
}

#[test]
fn the_error_never_rises() {
    let (rig, sequence) = sample();
    for examples in [Some(&sequence), None] {
        let params = TwoLayerParams {
            master_influences: Some(6),
            thorough: true,
            weights_only: examples.is_none(),
            ..TwoLayerParams::default()
        };
        let history = run(&rig, examples, params).info.history;
        assert!(history.len() > 10);
        for pair in history.windows(2) {
            assert!(pair[1].bones >= pair[0].bones && pair[1].error <= pair[0].error * (1.0 + 1e-6), "{history:?}");
        }
    }
}

/// With as many virtual bones in the end.
#[test]
fn overshooting_pays() {
    let (rig, sequence) = sample();
    let params = TwoLayerParams { size: TwoLayerSize::VirtualBones(20), thorough: true, ..TwoLayerParams::default() };
    let poses = Poses::new(&rig, Some(&sequence)).unwrap();
    let metric = Metric::of_poses(&poses, &mut Stages::new(&mut Silent)).unwrap();
    let ideal = Ideal::new(&rig, &metric, true, &mut Stages::new(&mut Silent)).unwrap();
    let graph = Graph::new(&rig.surface.topology, rig.vertex_count(), |a, b| a.cmp(&b));
    let error = |overshoots: usize| {
        let growth = Growth { overshoots, ..Growth::new(&rig, &metric, &ideal, &params, 10, true) };
        let mut silent = Silent;
        let mut layers = Factorisation::new(&metric, 0.0, &ideal, &graph, growth, Stages::new(&mut silent)).unwrap();
        layers.grow().unwrap();
        assert_eq!(layers.dictionary.len(), 20);
        layers.error()
    };
    let (without, with) = (error(0), error(3));
    assert!(with < 0.999 * without, "{with} with, {without} without");
}

#[test]
fn sizes_are_what_was_asked_for() {
    let (rig, sequence) = sample();
    for (c, k, m) in [(3, 1, 20), (5, 2, 31), (10, 3, 16), (10, 4, 16)] {
        let size = TwoLayerSize::VirtualBones(m);
        let params = TwoLayerParams { size, influences: k, master_influences: Some(c), ..TwoLayerParams::default() };
        let found = run(&rig, Some(&sequence), params).rig;
        assert!(found.blends.slots() <= c && found.weights.max_influences() <= k && found.virtual_count() <= m);
    }
    // More virtual bones per vertex, less error.
    let error = |influences: usize| {
        let size = TwoLayerSize::VirtualBones(24);
        let params = TwoLayerParams { size, influences, ..TwoLayerParams::default() };
        e_rms(&run(&rig, Some(&sequence), params).rig, &sequence)
    };
    let errors: Vec<f64> = (1..=4).map(error).collect();
    assert!(errors.windows(2).all(|pair| pair[1] < pair[0]), "{errors:?}");
}

#[test]
fn a_target_is_reached_or_reported() {
    let (rig, sequence) = sample();
    let target = |e: f64| TwoLayerParams { size: TwoLayerSize::TargetError(e), ..TwoLayerParams::default() };
    let reached = run(&rig, Some(&sequence), target(3.0));
    assert_eq!((reached.info.stop, reached.info.missed), (CompressStop::Reached, None));
    assert!(e_rms(&reached.rig, &sequence) <= 3.0 * 1.001);
    let closer = run(&rig, Some(&sequence), target(1.0));
    assert!(closer.rig.virtual_count() > reached.rig.virtual_count());
    let missed = run(&rig, Some(&sequence), target(1e-7));
    assert_eq!(missed.info.missed, Some(1e-7));
    let by_weights = TwoLayerParams { weights_only: true, ..target(5.0) };
    let compressed = run(&rig, None, by_weights);
    assert!(compressed.info.stop == CompressStop::Reached && compressed.info.history.last().unwrap().error <= 5.0);
}

/// Neither more virtual bones than it takes nor a worse use of them: what `--virtual-bones` makes of a tenth fewer falls short, with the
/// bones and the rest pose as they were.
#[test]
fn a_target_takes_the_fewest_virtual_bones() {
    let (rig, sequence) = sample();
    for (examples, weights_only, target) in [
        (Some(&sequence), false, 3.0),
        (Some(&sequence), false, 1.0),
        (None, false, 2.0),
        (None, false, 1.0),
        (None, true, 5.0),
    ] {
        let of_size = |size| TwoLayerParams { size, weights_only, ..TwoLayerParams::default() };
        let error = |found: &Compressed| match weights_only {
            true => found.info.history.last().unwrap().error,
            false => e_rms(&found.rig, &sequence),
        };
        let found = run(&rig, examples, of_size(TwoLayerSize::TargetError(target)));
        let (reached, count) = (error(&found), found.rig.virtual_count());
        assert_eq!(found.info.stop, CompressStop::Reached);
        assert!(reached <= 1.001 * target && reached > 0.8 * target, "{reached} for {target} with {count}");
        let fewer = run(&rig, examples, kept(of_size(TwoLayerSize::VirtualBones(count * 9 / 10))));
        assert!(error(&fewer) > target, "{count} virtual bones, but {} have {}", count * 9 / 10, error(&fewer));
    }
}

#[test]
fn a_few_kinds_of_weights_need_few_virtual_bones_and_no_error() {
    let (mut rig, _) = sample();
    let n = rig.vertex_count();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| rig.rest[a].y.total_cmp(&rig.rest[b].y));
    for (at, i) in order.into_iter().enumerate() {
        let kind = 5 * at / n;
        rig.weights.set(i, &[(kind, 0.7), (kind + 5, 0.3)]);
    }
    let size = TwoLayerSize::VirtualBones(50);
    let params = TwoLayerParams { size, weights_only: true, ..TwoLayerParams::default() };
    let compressed = run(&rig, None, params);
    assert_eq!(compressed.info.stop, CompressStop::Exact);
    assert!(compressed.rig.virtual_count() < 30 && compressed.info.history.last().unwrap().error < 1e-3);
}

/// Parts that fly apart by a thousand times their size: what is left of large energies is rounding.
#[test]
fn errors_next_to_nothing_beside_the_motion_are_no_rise() {
    let (mut rig, _) = sample();
    let n = rig.vertex_count();
    (0..n).for_each(|i| rig.weights.set(i, &[(7 * i / n, 0.7), (7 * i / n + 3, 0.3)]));
    let bones = rig.bone_count();
    for (at, bone) in rig.clips[0].posed_from_rest.iter_mut().enumerate() {
        bone.translation *= 1000.0 * (at % bones) as f64;
    }
    for influences in [1, 2, 3] {
        let params = TwoLayerParams { size: TwoLayerSize::VirtualBones(40), influences, ..Default::default() };
        let compressed = run(&rig, None, params);
        assert!(compressed.info.history.iter().all(|round| round.error.is_finite()));
    }
}

#[test]
fn baked_is_the_same_deformation() {
    let (rig, sequence) = sample();
    let compressed = run(&rig, Some(&sequence), TwoLayerParams::default()).rig;
    let baked = compressed.bake();
    baked.check().unwrap();
    assert!(baked.weights.max_influences() <= 2);
    for t in [0, 7] {
        let two = deform::two_layer(&compressed, compressed.master.clips[0].frame(t));
        let one = deform::lbs(&baked.rest, &baked.weights, baked.clips[0].frame(t));
        assert_eq!(one, two);
        // And by hand, from the tables.
        let (i, pose) = (11, compressed.master.clips[0].frame(t));
        let u = compressed.master.rest[i].as_dvec3();
        let by_hand: glam::DVec3 = compressed
            .weights
            .of(i)
            .flat_map(|(m, a)| compressed.blends.of(m).map(move |(j, d)| (j, f64::from(a) * f64::from(d))))
            .map(|(j, w)| w * pose[j].transform_point3(u))
            .sum();
        assert!(by_hand.distance(two[i].as_dvec3()) < 1e-5);
    }
}

#[test]
fn still_rigs_points_and_lonely_parts_are_compressed() {
    let (mut rig, _) = sample();
    rig.clips.clear();
    run(&rig, None, TwoLayerParams::default());
    rig.surface = Arc::new(Surface::default());
    let compressed = run(&rig, None, TwoLayerParams::default());
    assert!(compressed.info.history.last().unwrap().error.is_finite());
    // One kind of weights only, fewer vertices than atoms asked for.
    (0..rig.vertex_count()).for_each(|i| rig.weights.set(i, &[(0, 1.0)]));
    let compressed = run(&rig, None, TwoLayerParams { size: TwoLayerSize::VirtualBones(5000), ..Default::default() });
    assert_eq!(compressed.info.stop, CompressStop::Exact);
}

#[test]
fn bad_parameters_name_the_number() {
    let (rig, _) = sample();
    let bad = |params: TwoLayerParams, number: &str| {
        let message = compress(&rig, None, &params, &mut Silent).unwrap_err().to_string();
        assert!(message.contains(number), "{message}");
    };
    bad(TwoLayerParams { influences: 5, ..Default::default() }, "5");
    bad(TwoLayerParams { size: TwoLayerSize::Equivalent(2.0), ..Default::default() }, "2");
    bad(TwoLayerParams { size: TwoLayerSize::VirtualBones(1), ..Default::default() }, "1");
    bad(TwoLayerParams { size: TwoLayerSize::TargetError(f64::NAN), ..Default::default() }, "NaN");
    bad(TwoLayerParams { master_influences: Some(0), ..Default::default() }, "at least 1");
}

#[test]
fn unsound_rigs_are_refused() {
    let (rig, sequence) = sample();
    let (n, slots) = (rig.vertex_count(), rig.weights.slots());
    let (bones, weights) = (rig.weights.bone_table().to_vec(), rig.weights.weight_table().to_vec());
    let of = |bones, weights| SparseWeights::from_tables(slots, bones, weights).unwrap();
    let (mut not_a_number, mut beyond) = (weights.clone(), bones.clone());
    not_a_number[3] = f32::NAN;
    beyond[0] = 10;
    let mut broken = vec![rig.clone(); 4];
    broken[0].weights = of(bones, not_a_number);
    broken[1].weights = of(beyond, weights);
    broken[2].clips[0].posed_from_rest.pop();
    broken[3].weights = SparseWeights::new(n - 1, slots);
    for rig in &broken {
        for examples in [None, Some(&sequence)] {
            let refused = compress(rig, examples, &TwoLayerParams::default(), &mut Silent).unwrap_err();
            assert!(matches!(refused, CompressError::Rig(_)), "{refused}");
        }
    }
    let nothing = Rig { rest: vec![], surface: Arc::default(), weights: SparseWeights::new(0, 1), ..rig.clone() };
    let refused = compress(&nothing, None, &TwoLayerParams::default(), &mut Silent).unwrap_err();
    assert_eq!(refused, CompressError::Empty);
    // Examples of another length; a clip without frames is no animation.
    let mut short = rig.clone();
    short.clips[0].times_secs.truncate(5);
    short.clips[0].posed_from_rest.truncate(5 * rig.bone_count());
    let refused = compress(&short, Some(&sequence), &TwoLayerParams::default(), &mut Silent).unwrap_err();
    assert!(matches!(refused, CompressError::Poses(_)), "{refused}");
    short.clips[0].times_secs.clear();
    short.clips[0].posed_from_rest.clear();
    run(&short, None, TwoLayerParams::default());
}

/// Cancels at a report of this number; collects the stages.
struct CancelAt(usize, Vec<Stage>);

impl Observer for CancelAt {
    fn report(&mut self, progress: &Progress) -> std::ops::ControlFlow<()> {
        self.1.push(progress.stage);
        if self.1.len() == self.0 { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    }
}

#[test]
fn every_stage_reports_and_can_be_cancelled() {
    let (rig, sequence) = sample();
    let params = TwoLayerParams { size: TwoLayerSize::TargetError(3.0), ..TwoLayerParams::default() };
    let mut all = CancelAt(0, Vec::new());
    compress(&rig, Some(&sequence), &params, &mut all).unwrap();
    let mut stages = all.1.clone();
    stages.dedup();
    assert_eq!(stages, [Stage::Prepare, Stage::VirtualBones, Stage::FewestVirtualBones, Stage::SingleLayerWeights]);
    for at in [1, all.1.len() / 4, all.1.len() / 2] {
        let result = compress(&rig, Some(&sequence), &params, &mut CancelAt(at, Vec::new()));
        assert_eq!(result.unwrap_err(), CompressError::Cancelled(Cancelled));
    }
}

#[test]
fn threads_make_no_difference() {
    let (rig, sequence) = sample();
    let tables = || {
        let rig = run(&rig, Some(&sequence), TwoLayerParams::default()).rig;
        (rig.blends, rig.weights)
    };
    let pool = |threads: usize| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    assert!(pool(1).install(tables) == pool(3).install(tables));
}
