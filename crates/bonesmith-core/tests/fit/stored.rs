//! Positions that are not in memory give the same bytes as those that are.

use std::ops::Range;
use std::sync::Arc;

use bonesmith_core::fit::{BoneCount, Effort, FitParams, fit};
use bonesmith_core::mesh::frames::Frames;
use bonesmith_core::mesh::sequence::{StoredFrame, first_unsound};
use bonesmith_core::mesh::stored::{Scratch, StoredFrames, Table, TableWriter};
use bonesmith_core::mesh::surface::Surface;
use bonesmith_core::mesh::topology::Topology;
use bonesmith_core::observer::Silent;
use bonesmith_core::refit::{Locks, RefitParams, Solve, Subject, correspondence, refit};
use bonesmith_core::skeleton::{SkeletonParams, skeleton};
use bonesmith_core::synthetic::{self, PosedRigParams, awkward, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, RawFrame, RawSequence, metrics};
use glam::{DAffine3, DVec3, Vec3};

/// Tables by arithmetic.
struct Plain;

struct PlainTable {
    points: usize,
    words: usize,
    cells: Vec<u32>,
}

impl Scratch for Plain {
    fn table(&self, points: usize, _frames: usize, words: usize) -> Box<dyn TableWriter> {
        Box::new(PlainTable { points, words, cells: Vec::new() })
    }
}

impl TableWriter for PlainTable {
    fn push(&mut self, cells: &[u32]) {
        assert_eq!(cells.len(), self.points * self.words);
        self.cells.extend_from_slice(cells);
    }

    fn finish(self: Box<Self>) -> Arc<dyn Table> {
        Arc::new(*self)
    }
}

impl Table for PlainTable {
    fn read(&self, frames: Range<usize>, points: Range<usize>, cells: &mut Vec<u32>) {
        cells.clear();
        for t in frames {
            let row = t * self.points * self.words;
            cells.extend_from_slice(&self.cells[row + points.start * self.words..row + points.end * self.words]);
        }
    }
}

/// The same sequence with its frames in a table, but for every `here`-th.
fn stored(mut raw: RawSequence, here: usize) -> RawSequence {
    let n = raw.frames[0].positions.len();
    let mut writer = Plain.table(n, raw.frames.len(), 3);
    for frame in &raw.frames {
        let cells: Vec<u32> = frame.positions.iter().flat_map(|p| p.to_array().map(f32::to_bits)).collect();
        writer.push(&cells);
    }
    let source: Arc<dyn Frames> = Arc::new(StoredFrames::new(writer.finish(), Arc::new(Plain), raw.frames.len(), n));
    for (t, frame) in raw.frames.iter_mut().enumerate().filter(|(t, _)| t % here != here - 1) {
        let unsound = first_unsound(&frame.positions);
        let stored = Some(StoredFrame { source: source.clone(), frame: t as u32, unsound });
        *frame =
            RawFrame { label: frame.label.clone(), topology: frame.topology.clone(), stored, ..RawFrame::default() };
    }
    raw
}

fn sequence(raw: RawSequence) -> MeshSequence {
    MeshSequence::try_from(raw).unwrap()
}

fn assert_same(name: &str, raw: &RawSequence, params: &FitParams) {
    let [here, there] = [raw.clone(), stored(raw.clone(), usize::MAX)].map(sequence);
    assert!(there.is_stored() && !here.is_stored());
    let [a, b] = [&here, &there].map(|sequence| fit(sequence, params, &mut Silent).unwrap());
    assert_eq!(format!("{:?}", a.rig), format!("{:?}", b.rig), "{name}: rigs differ");
    let [a, b] = [(&a, &here), (&b, &there)].map(|(of, sequence)| metrics::evaluate(&of.rig, 0, sequence).unwrap());
    assert_eq!(format!("{a:?}"), format!("{b:?}"), "{name}: figures differ");
}

#[test]
fn fits_are_the_same() {
    let params = |bones: usize| FitParams { bones: BoneCount::Exact(bones), ..FitParams::default() };
    let known = posed_rig(3, &PosedRigParams::default()).sequence;
    assert_same("rig", &known, &params(5));
    assert_same("rig, auto", &known, &FitParams::default());
    assert_same("rig, best", &known, &FitParams { effort: Effort::Best, ..params(4) });
    assert_same("rig, affine", &known, &FitParams { bone_kind: BoneKind::Affine, keep_rest: true, ..params(4) });
    assert_same("rig, without normals", &known, &FitParams { shading: 0.0, ..params(4) });
    assert_same("rig, smooth", &known, &FitParams { smooth: 0.5, ..params(4) });
    for (name, raw) in awkward::all() {
        assert_same(name, &raw, &FitParams { effort: Effort::Fast, ..params(3) });
    }
}

/// Large enough for samples, and for trajectories that are not copied.
#[test]
fn a_large_fit_is_the_same() {
    let raw = posed_rig(5, &PosedRigParams { detail: 11, frames: 60, ..PosedRigParams::default() }).sequence;
    assert!(raw.frames.len() * raw.frames[0].positions.len() * 12 > 5 << 20);
    let params = FitParams { bones: BoneCount::Exact(8), effort: Effort::Fast, ..FitParams::default() };
    assert_same("large", &raw, &params);
}

/// Soft vertices beside pieces are a sequence of their own.
#[test]
fn pieces_are_the_same() {
    let params = FitParams { bones: BoneCount::Exact(12), effort: Effort::Fast, ..FitParams::default() };
    assert_same("mixed", &synthetic::pieces::mixed(24), &params);
}

/// Large enough for small parts and for frames outside the sample.
#[test]
fn skeletons_are_the_same() {
    let raw = synthetic::jointed_body(7, 110, 4).sequence;
    let [here, there] = [raw.clone(), stored(raw, 50)].map(sequence);
    for (smooth, effort) in [(0.3, Effort::Fast), (0.0, Effort::Balanced)] {
        let fit = FitParams { smooth, effort, ..FitParams::default() };
        let find = |of: &MeshSequence| skeleton(of, &fit, &SkeletonParams::default(), &mut Silent).unwrap();
        let [a, b] = [&here, &there].map(find);
        assert_eq!(format!("{:?}", a.rig), format!("{:?}", b.rig), "{effort:?}");
        assert_eq!(format!("{:?}", a.skeleton), format!("{:?}", b.skeleton), "{effort:?}");
    }
}

#[test]
fn refits_are_the_same() {
    let known = posed_rig(3, &PosedRigParams::default());
    let [here, there] = [known.sequence.clone(), stored(known.sequence, 5)].map(sequence);
    let params = RefitParams::default();
    for (name, params) in [
        ("weights", RefitParams { solve: Solve::Weights, ..params.clone() }),
        ("motion", RefitParams { solve: Solve::Motion, ..params.clone() }),
        ("both, more bones", RefitParams { add_bones: 2, max_iterations: Some(3), ..params.clone() }),
        ("smooth", RefitParams { smooth: 0.5, max_iterations: Some(2), ..params }),
    ] {
        let [a, b] = [&here, &there].map(|sequence| {
            let motion = Some(known.rig.clips[0].posed_from_rest.as_slice());
            let subjects = [Subject { sequence, motion, binds: None }; 2];
            refit(&known.rig, &subjects, &Locks::default(), &params, &mut Silent).unwrap().rigs
        });
        assert_eq!(format!("{a:?}"), format!("{b:?}"), "{name}");
    }
}

/// Vertices in another order, some of them twice.
#[test]
fn another_order_is_the_same() {
    let known = posed_rig(3, &PosedRigParams::default());
    let (n, faces) = (known.rig.vertex_count(), known.rig.surface.topology.clone());
    let order: Vec<usize> = (0..n).rev().chain(0..40).collect();
    let mut raw = known.sequence;
    for frame in &mut raw.frames {
        frame.positions = order.iter().map(|&i| frame.positions[i]).collect();
    }
    raw.rest = None;
    let mut topology = Topology::empty();
    faces.faces().for_each(|face| topology.push_face(&face.iter().map(|i| n as u32 - 1 - i).collect::<Vec<_>>()));
    raw.surface = Surface { topology, ..Surface::default() };
    let [here, there] = [raw.clone(), stored(raw, 5)].map(sequence);
    let clips: Vec<_> = known.rig.clips.iter().collect();
    let [a, b] = [&here, &there].map(|of| correspondence::in_rig_order(&known.rig, &clips, of, false).unwrap());
    assert!(b.0.is_stored() && a.1 == b.1);
    (0..a.0.frame_count()).for_each(|t| assert_eq!(a.0.frame(t), b.0.frame(t), "frame {t}"));
}

#[test]
fn rearranged_frames_are_the_same() {
    let raw = posed_rig(3, &PosedRigParams::default()).sequence;
    let place = |t: usize| DAffine3::from_rotation_y(0.1 * t as f64) * DAffine3::from_translation(DVec3::X);
    let order: Vec<_> = [5, 6, 6, 2, 23, 0].map(|t| (t, (t != 6).then(|| place(t)))).into();
    let [a, b] = [raw.clone(), stored(raw.clone(), 6)].map(|raw| sequence(raw).rearranged(&order).unwrap());
    for (t, (from, place)) in order.iter().enumerate() {
        let moved = |p: &Vec3| place.map_or(*p, |place| place.transform_point3(p.as_dvec3()).as_vec3());
        let expected: Vec<Vec3> = raw.frames[*from].positions.iter().map(moved).collect();
        assert!(*a.frame(t) == *expected && *b.frame(t) == *expected, "frame {t}");
    }
}

#[test]
fn frames_are_read_wherever_they_are() {
    let raw = posed_rig(3, &PosedRigParams::default()).sequence;
    let n = raw.frames[0].positions.len();
    for here in [1, 3, usize::MAX] {
        let [a, b] = [raw.clone(), stored(raw.clone(), here)].map(sequence);
        let move_by = DAffine3::from_translation(DVec3::new(1.0, 2.0, 3.0)) * DAffine3::from_rotation_x(0.3);
        for [a, b] in [[a.clone(), b.clone()], [a, b].map(|s| s.placed(move_by).unwrap().with_frames(3..17))] {
            let (f, frames) = (a.frame_count(), [a.frames(), b.frames()]);
            assert_eq!((0..f).find(|&t| a.frame(t) != b.frame(t)), None);
            let numbers: Vec<u32> = (0..f as u32).rev().step_by(3).chain(0..f as u32).collect();
            let picked: Vec<u32> = (0..n as u32).filter(|i| i % 7 == 2 || i % 64 == 63).collect();
            let found = frames.map(|source| {
                let mut found = Vec::new();
                source.read(&numbers, 5..n - 3, &mut |at, positions| found.push((at, positions.to_vec())));
                source.pick(&numbers, &picked, &mut |at, positions| found.push((at, positions.to_vec())));
                found
            });
            assert_eq!(found[0].len(), 2 * numbers.len());
            assert!(found[0] == found[1]);
        }
    }
}

#[test]
fn what_is_wrong_is_reported_alike() {
    for bad in [Vec3::new(0.0, f32::NAN, 1.0), Vec3::new(1e16, 0.0, 0.0)] {
        let mut raw = posed_rig(3, &PosedRigParams::default()).sequence;
        raw.frames[7].positions[9] = bad;
        let [a, b] = [raw.clone(), stored(raw, usize::MAX)].map(|raw| MeshSequence::try_from(raw).unwrap_err());
        assert_eq!(a.to_string(), b.to_string());
        assert!(a.to_string().contains("frame 7"), "{a}");
    }
}
