//! The published methods on sequences made by arithmetic. Fsd has tests of its own.

mod basis;

use std::ops::ControlFlow;

use crate::mesh::sequence::MeshSequence;
use crate::methods::{fit, represent};
use crate::metrics::evaluate;
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Observer, Progress, Silent, Stage};
use crate::skinning::params::{BoneCount, FitError, FitParams, Fitted, Method, Warning};
use crate::synthetic::{PosedRigParams, awkward, posed_rig};

const METHODS: [Method; 4] = [Method::Ssdr, Method::Sma, Method::Sad, Method::Lssp];

fn params(method: Method, bones: usize) -> FitParams {
    let bone_kind = if matches!(method, Method::Sma | Method::Sad) { BoneKind::Affine } else { BoneKind::Rigid };
    FitParams { bones: BoneCount::Exact(bones), bone_kind, method, ..FitParams::default() }
}

fn known(shape: &PosedRigParams) -> MeshSequence {
    MeshSequence::try_from(posed_rig(11, shape).sequence).unwrap()
}

/// Six pieces that hardly blend.
fn stiff() -> MeshSequence {
    known(&PosedRigParams { softness: 0.05, influences: 2, ..PosedRigParams::default() })
}

/// A sound rig, and its measured error, which must be the one that was reported.
fn checked(sequence: &MeshSequence, params: &FitParams) -> (Fitted, f64) {
    let fitted = fit(sequence, params, &mut Silent).unwrap_or_else(|e| panic!("{:?}: {e}", params.method));
    assert_eq!(fitted.rig.check(), Ok(()));
    let e_rms = evaluate(&fitted.rig, 0, sequence).unwrap().e_rms;
    let reported = fitted.info.history.last().unwrap().error;
    assert!(
        (reported - e_rms).abs() < 1e-2 * e_rms + 1e-2,
        "{:?}: {reported} reported, {e_rms} measured",
        params.method
    );
    (fitted, e_rms)
}

#[test]
fn stiff_pieces_are_found() {
    let sequence = stiff();
    for (method, limit) in [(Method::Ssdr, 8.0), (Method::Sma, 15.0), (Method::Lssp, 15.0)] {
        let alone = checked(&sequence, &params(Method::Sad, 1)).1;
        let (fitted, e_rms) = checked(&sequence, &params(method, 6));
        assert_eq!(fitted.rig.bone_count(), 6, "{method:?}");
        assert!(e_rms < limit && alone > 3.0 * limit, "{method:?}: {e_rms}, one bone {alone}");
    }
}

#[test]
fn ssdr_never_climbs_by_much_and_bones_are_rotations() {
    let sequence = known(&PosedRigParams::default());
    let (fitted, e_rms) =
        checked(&sequence, &FitParams { max_iterations: Some(30), tolerance: Some(0.0), ..params(Method::Ssdr, 6) });
    let errors: Vec<f64> = fitted.info.history.iter().map(|round| round.error).collect();
    assert!(errors.windows(2).all(|pair| pair[1] < 1.05 * pair[0]), "{errors:?}");
    assert!(e_rms < 0.7 * errors[0], "{errors:?}");
    let turned = fitted.rig.clips[0].posed_from_rest.iter().all(|m| {
        (m.matrix3.transpose() * m.matrix3).abs_diff_eq(glam::DMat3::IDENTITY, 1e-6) && m.matrix3.determinant() > 0.0
    });
    assert!(turned);
    // The rest pose moves at the end, unless it must not.
    let kept = checked(&sequence, &FitParams { keep_rest: true, ..params(Method::Ssdr, 6) }).0;
    assert_eq!(kept.rig.rest, sequence.rest());
    assert_ne!(fitted.rig.rest, sequence.rest());
}

#[test]
fn sad_weights_are_smooth_and_more_bones_help() {
    let sequence = known(&PosedRigParams { kind: BoneKind::Affine, ..PosedRigParams::default() });
    let errors: Vec<f64> = [2, 8, 32].map(|bones| checked(&sequence, &params(Method::Sad, bones)).1).to_vec();
    assert!(errors[1] < errors[0] && errors[2] < 0.5 * errors[0], "{errors:?}");
    let (fitted, _) = checked(&sequence, &params(Method::Sad, 8));
    let adjacency = crate::mesh::topology::Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
    let weight = |i: usize, j: usize| fitted.rig.weights.of(i).find(|(bone, _)| *bone == j).map_or(0.0, |(_, w)| w);
    for i in 0..sequence.vertex_count() {
        for &k in adjacency.of(i) {
            let jump = (0..8).map(|j| (weight(i, j) - weight(k as usize, j)).abs()).fold(0.0, f32::max);
            assert!(jump < 0.5, "vertices {i} and {k} differ by {jump}");
        }
    }
}

#[test]
fn methods_that_start_from_the_first_frame_have_it_as_rest_pose() {
    let shape = PosedRigParams { kind: BoneKind::Affine, ..PosedRigParams::default() };
    let mut raw = posed_rig(11, &shape).sequence;
    // A rest pose that no frame shows.
    let mut other = raw.frames[3].clone();
    other.positions.iter_mut().for_each(|p| *p = glam::Vec3::new(0.5 * p.x, p.z, -p.y));
    raw.rest = Some(other);
    let first = raw.frames[0].positions.clone();
    let sequence = MeshSequence::try_from(raw).unwrap();
    for method in [Method::Fsd, Method::Sma, Method::Sad] {
        let asked = FitParams { bone_kind: BoneKind::Affine, ..params(method, 4) };
        let kept = checked(&sequence, &FitParams { keep_rest: true, ..asked.clone() }).0;
        assert_eq!(kept.rig.rest, sequence.rest(), "{method:?}");
        let free = checked(&sequence, &asked).0;
        let apart = |a: &[glam::Vec3], i: usize| a[i].distance(a[0]);
        let near = |i: usize| (apart(&free.rig.rest, i) - apart(&first, i)).abs() < 1e-4;
        assert!(method == Method::Fsd || (0..first.len()).all(near), "{method:?}");
    }
    // One frame: nothing is left to fit but the rest pose itself.
    let mut raw = posed_rig(11, &shape).sequence;
    raw.rest = Some(raw.frames[5].clone());
    raw.frames.truncate(1);
    raw.times_secs.truncate(1);
    let sequence = MeshSequence::try_from(raw).unwrap();
    for method in [Method::Fsd, Method::Sad] {
        let (fitted, e_rms) = checked(&sequence, &FitParams { bone_kind: BoneKind::Affine, ..params(method, 2) });
        assert!(e_rms < 0.5 && !fitted.info.warnings.contains(&Warning::NoMotion), "{method:?}: {e_rms}");
    }
}

#[test]
fn sma_finds_fewer_and_more_bones_than_its_bandwidth_gives() {
    let sequence = known(&PosedRigParams { bones: 12, softness: 0.05, influences: 2, ..PosedRigParams::default() });
    let found = [3, 12].map(|bones| checked(&sequence, &params(Method::Sma, bones)));
    assert_eq!(found.each_ref().map(|(fitted, _)| fitted.rig.bone_count()), [3, 12]);
    assert!(found[1].1 < 0.5 * found[0].1, "{} {}", found[0].1, found[1].1);
}

#[test]
fn the_bandwidth_of_sma_decides_how_many_bones() {
    let sequence = stiff();
    let with = |bandwidth: f64| {
        let asked = FitParams { bones: BoneCount::Auto, bandwidth: Some(bandwidth), ..params(Method::Sma, 1) };
        checked(&sequence, &asked).0.rig.bone_count()
    };
    let counts = [with(1.0), with(0.1)];
    assert!(counts[0] == 1 && counts[1] >= 6, "{counts:?}");
    let none = FitParams { bandwidth: Some(0.1), ..params(Method::Ssdr, 6) };
    assert!(fit(&sequence, &none, &mut Silent).unwrap_err().to_string().contains("only the method sma"));
}

#[test]
fn sma_refuses_numbers_that_it_cannot_find() {
    // All triangles of a rigid motion turn alike: one cluster, at any bandwidth.
    let sequence = known(&PosedRigParams { bones: 1, ..PosedRigParams::default() });
    let refused = fit(&sequence, &params(Method::Sma, 12), &mut Silent).unwrap_err();
    assert!(matches!(refused, FitError::Unsuited(_)) && refused.to_string().contains("no 12 bones"), "{refused}");
}

#[test]
fn lssp_has_no_limit_on_influences_unless_one_is_given() {
    let sequence = known(&PosedRigParams { bones: 8, softness: 0.5, influences: 6, ..PosedRigParams::default() });
    let (free, _) = checked(&sequence, &FitParams { influences: None, ..params(Method::Lssp, 8) });
    let (bound, _) = checked(&sequence, &FitParams { influences: Some(2), ..params(Method::Lssp, 8) });
    assert!(free.rig.weights.max_influences() > 2 && bound.rig.weights.max_influences() <= 2);
}

#[test]
fn awkward_meshes_give_sound_rigs_or_a_reason() {
    for (name, raw) in awkward::all() {
        let sequence = MeshSequence::try_from(raw).unwrap();
        for method in METHODS {
            for bones in [1, 3.min(sequence.vertex_count())] {
                match fit(&sequence, &FitParams { max_iterations: Some(3), ..params(method, bones) }, &mut Silent) {
                    Ok(fitted) => {
                        assert_eq!(fitted.rig.check(), Ok(()), "{name} {method:?}");
                        let still = fitted.info.warnings.contains(&Warning::NoMotion);
                        assert_eq!(still, matches!(name, "single-frame" | "no-motion"), "{name} {method:?}");
                    }
                    Err(FitError::Unsuited(_)) => assert_eq!(method, Method::Sma, "{name}"),
                    Err(e) => panic!("{name} {method:?}: {e}"),
                }
            }
        }
    }
}

#[test]
fn threads_do_not_change_a_bit() {
    let sequence = known(&PosedRigParams::default());
    for method in METHODS {
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                fit(&sequence, &FitParams { max_iterations: Some(3), ..params(method, 5) }, &mut Silent).unwrap().rig
            })
        };
        let (one, many) = (with(1), with(5));
        assert_eq!((one.weights, one.rest), (many.weights, many.rest), "{method:?}");
        assert_eq!(one.clips, many.clips, "{method:?}");
    }
}

/// Cancels at the report of this number.
struct CancelAt(usize);

impl Observer for CancelAt {
    fn report(&mut self, _: &Progress) -> ControlFlow<()> {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Reports, and their stages in order.
#[derive(Default)]
struct Stages(usize, Vec<Stage>);

impl Observer for Stages {
    fn report(&mut self, progress: &Progress) -> ControlFlow<()> {
        self.0 += 1;
        self.1.push(progress.stage);
        self.1.dedup();
        ControlFlow::Continue(())
    }
}

#[test]
fn reports_can_cancel() {
    let sequence = stiff();
    for method in [Method::Fsd, Method::Ssdr, Method::Sma, Method::Sad, Method::Lssp, Method::Cpca, Method::Svd] {
        let bone_kind = if method == Method::Fsd { BoneKind::Affine } else { params(method, 3).bone_kind };
        let asked = FitParams { max_iterations: Some(2), bone_kind, ..params(method, 3) };
        let run = |observer: &mut dyn Observer| match method.makes_rigs() {
            true => fit(&sequence, &asked, observer).map(|fitted| fitted.info),
            false => represent(&sequence, &asked, observer).map(|found| found.info),
        };
        let mut stages = Stages::default();
        run(&mut stages).unwrap();
        assert!(stages.0 > stages.1.len() && stages.1.len() > 1, "{method:?}: {:?}", stages.1);
        for at in (1..=stages.0).step_by(stages.0.div_ceil(6)) {
            assert_eq!(run(&mut CancelAt(at)).unwrap_err(), FitError::Cancelled(Cancelled), "{method:?} {at}");
        }
    }
}

#[test]
fn unsupported_parameters_are_refused() {
    let sequence = stiff();
    for method in METHODS {
        let smooth = FitParams { smooth: 0.5, ..params(method, 3) };
        assert!(matches!(fit(&sequence, &smooth, &mut Silent), Err(FitError::Unsupported(_))), "{method:?}");
        let none = params(method, 0);
        assert!(matches!(fit(&sequence, &none, &mut Silent), Err(FitError::BoneCount { .. })), "{method:?}");
    }
    for method in [Method::Ssdr, Method::Lssp] {
        let affine = FitParams { bone_kind: BoneKind::Affine, ..params(method, 3) };
        assert!(matches!(fit(&sequence, &affine, &mut Silent), Err(FitError::Unsupported(_))), "{method:?}");
    }
}
