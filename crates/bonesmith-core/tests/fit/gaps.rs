//! Every stage reports so often that a cancel takes effect within a second.
//!
//! What is bounded is the processor time of the working thread between two reports, on large input and one thread: other programs
//! of a busy machine do not lengthen it. `BONESMITH_GAPS=large` takes larger input; with `--nocapture` the figures are printed.
#![cfg(target_os = "linux")]

use std::ops::ControlFlow;
use std::sync::Arc;

use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::corrective::eigenskin;
use bonesmith_core::ddm::compress::{DdmCompressParams, compress as compress_ddm};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::fit::{BoneCount, Effort, FitParams, Method};
use bonesmith_core::methods::fit;
use bonesmith_core::reduce::{ReduceMethod, ReduceParams, reduce};
use bonesmith_core::refit::{Locks, RefitParams, Subject, refit};
use bonesmith_core::skeleton::{SkeletonParams, skeleton};
use bonesmith_core::{
    Bone, BoneKind, Clip, MeshSequence, Observer, Progress, RawFrame, RawSequence, Rig, SparseWeights, Stage, Surface,
    Topology, deform,
};
use glam::{DAffine3, DQuat, DVec3, Vec3};

/// Seconds of processor time between two reports.
const MAX_GAP: f64 = 1.0;

/// Processor seconds of this thread (proc(5): nanoseconds on a processor).
fn thread_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("proc(5)");
    text.split(' ').next().and_then(|nanoseconds| nanoseconds.parse::<f64>().ok()).expect("a number") * 1e-9
}

/// The longest time without a report, and the stage in which it was.
struct Gaps {
    last: f64,
    longest: (f64, Option<Stage>),
    reports: usize,
    stage: Option<Stage>,
}

impl Gaps {
    fn look(&mut self) {
        let now = thread_seconds();
        if now - self.last > self.longest.0 {
            self.longest = (now - self.last, self.stage);
        }
        self.last = now;
    }
}

impl Observer for Gaps {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.look();
        (self.stage, self.reports) = (Some(progress.stage), self.reports + 1);
        ControlFlow::Continue(())
    }
}

/// Runs `work` on one thread of its own.
#[track_caller]
fn short_gaps<T: Send>(what: &str, work: impl FnOnce(&mut Gaps) -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    let (result, gaps, total) = pool.install(|| {
        let begin = thread_seconds();
        let mut gaps = Gaps { last: begin, longest: (0.0, None), reports: 0, stage: None };
        let result = work(&mut gaps);
        gaps.look();
        (result, gaps, thread_seconds() - begin)
    });
    let (longest, stage) = gaps.longest;
    let stage = stage.map_or("the beginning", Stage::words);
    println!("{what}: {total:.1} s, {} reports, longest gap {longest:.2} s in {stage}", gaps.reports);
    assert!(longest <= MAX_GAP, "{what}: {longest:.2} s without a report after {stage}");
    result
}

fn scale() -> usize {
    if std::env::var("BONESMITH_GAPS").is_ok_and(|size| size == "large") { 3 } else { 1 }
}

/// A waving sheet of `side` x `side` vertices under `count` bones on a grid, `influences` of them for each vertex.
fn sheet(side: usize, count: usize, influences: usize, frames: usize) -> (Rig, MeshSequence) {
    let grid = (count as f64).sqrt().ceil() as usize;
    let place = |j: usize| DVec3::new((j % grid) as f64 + 0.5, (j / grid) as f64 + 0.5, 0.0) / grid as f64;
    let rest: Vec<Vec3> =
        (0..side * side).map(|i| Vec3::new((i % side) as f32, (i / side) as f32, 0.0) / (side - 1) as f32).collect();
    let mut weights = SparseWeights::new(rest.len(), influences);
    for (i, p) in rest.iter().enumerate() {
        let mut near: Vec<(usize, f64)> = (0..count)
            .map(|j| (j, (place(j) - p.as_dvec3()).length()))
            .filter(|(_, distance)| *distance * grid as f64 <= influences as f64)
            .collect();
        near.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        near.truncate(influences);
        near.iter_mut().for_each(|(_, distance)| *distance = (-(*distance * grid as f64).powi(2)).exp().max(1e-3));
        weights.set(i, &near);
    }
    let moved = |t: usize, j: usize| {
        let phase = t as f64 * 0.7 + place(j).x * 9.0 + (place(j).y * 7.0).sin();
        let turn = DAffine3::from_quat(DQuat::from_rotation_y(0.4 * phase.sin()));
        let to = DAffine3::from_translation(place(j) + DVec3::Z * 0.1 * phase.cos());
        to * turn * DAffine3::from_translation(-place(j))
    };
    let mut topology = Topology::empty();
    for y in 0..side - 1 {
        for x in 0..side - 1 {
            let v = (y * side + x) as u32;
            topology.push_face(&[v, v + 1, v + side as u32 + 1, v + side as u32]);
        }
    }
    let bone = |j: usize| Bone {
        name: format!("b{j}"),
        parent: j.checked_sub(1),
        world_from_bind: DAffine3::from_translation(place(j)),
        tip: None,
    };
    let rig = Rig {
        name: "sheet".into(),
        rest,
        surface: Arc::new(Surface { topology, ..Surface::default() }),
        weights,
        bones: (0..count).map(bone).collect(),
        kind: BoneKind::Rigid,
        clips: vec![Clip {
            name: "wave".into(),
            times_secs: (0..frames).map(|t| t as f64 / 24.0).collect(),
            posed_from_rest: (0..frames).flat_map(|t| (0..count).map(move |j| moved(t, j))).collect(),
        }],
        params_json: String::new(),
    };
    // Waves that the bones do not make: there is an error to lower.
    let ripple = |p: Vec3, t: usize| p + Vec3::Z * 0.003 * (60.0 * p.x + 50.0 * p.y + t as f32).sin();
    let frame = |t: usize| RawFrame {
        positions: deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t))
            .into_iter()
            .map(|p| ripple(p, t))
            .collect(),
        ..RawFrame::default()
    };
    let raw = RawSequence {
        name: "sheet".into(),
        rest: Some(RawFrame { positions: rig.rest.clone(), ..RawFrame::default() }),
        frames: (0..frames).map(frame).collect(),
        times_secs: rig.clips[0].times_secs.clone(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    (rig, MeshSequence::try_from(raw).expect("sound"))
}

#[test]
fn fits_of_many_bones() {
    let (_, sequence) = sheet(80 * scale(), 400, 4, 6);
    for (bones, effort, rounds) in [(2048, Effort::Fast, 2), (128, Effort::Balanced, 4), (40, Effort::Best, 4)] {
        let params =
            FitParams { bones: BoneCount::Exact(bones), effort, max_iterations: Some(rounds), ..FitParams::default() };
        short_gaps(&format!("fit, {bones} bones, {effort:?}"), |gaps| fit(&sequence, &params, gaps).unwrap());
    }
}

#[test]
fn reductions() {
    let (rig, sequence) = sheet(120 * scale(), 60, 8, 12);
    for method in [
        ReduceMethod::Bonesmith,
        ReduceMethod::KLargest,
        ReduceMethod::Smooth,
        ReduceMethod::Geometric,
        ReduceMethod::Poisson,
    ] {
        for examples in [None, Some(&sequence)] {
            let params = ReduceParams { influences: 4, method, max_sweeps: 3, ..ReduceParams::default() };
            let what = format!("reduce, {method:?}, examples: {}", examples.is_some());
            short_gaps(&what, |gaps| reduce(&rig, examples, &params, gaps).unwrap());
        }
    }
    let params = ReduceParams { influences: 4, refit_motion: true, max_sweeps: 3, ..ReduceParams::default() };
    short_gaps("reduce, motion too", |gaps| reduce(&rig, Some(&sequence), &params, gaps).unwrap());
}

#[test]
fn compressions() {
    let (rig, sequence) = sheet(70 * scale(), 60, 16, 8);
    for examples in [None, Some(&sequence)] {
        let params =
            TwoLayerParams { size: TwoLayerSize::VirtualBones(150), max_rounds: Some(2), ..TwoLayerParams::default() };
        let what = format!("compress, examples: {}", examples.is_some());
        short_gaps(&what, |gaps| compress(&rig, examples, &params, gaps).unwrap());
    }
    let ddm = short_gaps("ddm", |gaps| precompute(&rig, &DdmParams::default(), &DdmMaps::default(), gaps).unwrap());
    let params = DdmCompressParams { virtual_bones: 150, max_rounds: 2, ..DdmCompressParams::default() };
    short_gaps("ddm, compressed", |gaps| compress_ddm(&ddm, &params, gaps).unwrap());
}

#[test]
fn refits_skeletons_and_shapes() {
    let (rig, sequence) = sheet(80 * scale(), 60, 4, 12);
    let subject = Subject { sequence: &sequence, motion: Some(&rig.clips[0].posed_from_rest), binds: None };
    let params = RefitParams { max_iterations: Some(3), add_bones: 4, ..RefitParams::default() };
    short_gaps("refit", |gaps| refit(&rig, &[subject], &Locks::default(), &params, gaps).unwrap());
    let quick = FitParams { effort: Effort::Fast, max_iterations: Some(3), ..FitParams::default() };
    short_gaps("skeleton", |gaps| skeleton(&sequence, &quick, &SkeletonParams::default(), gaps).unwrap());
    short_gaps("corrective shapes", |gaps| eigenskin(&rig, &sequence, 8, gaps).unwrap());
}

/// Not lssp: the eigenvectors of its clusters are one piece of work that takes about a second, whatever the size of the mesh.
#[test]
fn published_methods() {
    let (_, sequence) = sheet(45 * scale(), 40, 4, 12);
    for method in [Method::Fsd, Method::Ssdr, Method::Sma, Method::Sad] {
        let affine = matches!(method, Method::Fsd | Method::Sma | Method::Sad);
        let bone_kind = if affine { BoneKind::Affine } else { BoneKind::Rigid };
        let bones = BoneCount::Exact(20);
        let params = FitParams { bones, bone_kind, method, max_iterations: Some(2), ..FitParams::default() };
        short_gaps(&format!("{method:?}"), |gaps| fit(&sequence, &params, gaps).unwrap());
    }
}
