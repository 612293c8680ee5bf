//! Bones that move to suit the fewer weights.
//!
//! Affine bones have their best motion for fixed weights in one linear solve [Kavan2010 s.4.2]; it alternates with sweeps over the
//! weights. Other kinds alternate between exact weights and motion, then errors are smoothed once more.

use glam::DVec3;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::Sphere;
use crate::mesh::topology::Adjacency;
use crate::model::rig::{BoneKind, Rig};
use crate::reduce::ours::Ours;
use crate::reduce::{ReduceError, ReduceInfo, ReduceParams, Stage, with_rows};
use crate::skinning::alternation::{Alternation, Bones};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::choice::Row;
use crate::skinning::motion::Motion;
use crate::skinning::params::FitParams;
use crate::skinning::pass;
use crate::skinning::poses::Poses;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::unit::UnitSpace;

/// Rounds over motion and weights: of affine bones, and of others.
const AFFINE_ROUNDS: usize = 16;
const ROUNDS: usize = 12;
/// Rounds of other bones stop when one lowers the error by less than this share.
const TOLERANCE: f64 = 1e-3;

/// `rig` with at most `k` influences and the motion of its first clip refitted, from the weights `rows` on.
pub(crate) fn refit_motion(
    rig: &Rig,
    mut rows: Vec<Row>,
    examples: Option<&MeshSequence>,
    k: usize,
    params: &ReduceParams,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<Rig, ReduceError> {
    let mut poses = Poses::new(rig, examples)?;
    let with_motion = |rows: &[Row], poses: &Poses| {
        let mut moved = with_rows(rig, rows, k);
        moved.clips.iter_mut().take(1).for_each(|clip| clip.posed_from_rest = poses.posed_from_rest());
        moved
    };
    if rig.kind != BoneKind::Affine {
        alternate(rig, &mut rows, &mut poses, k, info, stage)?;
        let moved = with_motion(&rows, &poses);
        let rows = crate::reduce::bonesmith(&moved, poses, k, params, info, stage)?;
        return Ok(with_rows(&moved, &rows, k));
    }
    stage.name = "weights and bones";
    for round in 0..AFFINE_ROUNDS {
        solve(&mut poses, &rows, k);
        let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
        let ours = Ours::new(poses, adjacency, params.smooth);
        stage.report(round, Some(AFFINE_ROUNDS), Some(ours.e_rms(&rows)))?;
        ours.together(&mut rows, k, 1, |_, _| Ok::<(), ReduceError>(()))?;
        poses = ours.into_poses();
    }
    info.iterations += AFFINE_ROUNDS;
    Ok(with_motion(&rows, &poses))
}

/// Best motion of affine bones for fixed weights.
fn solve(poses: &mut Poses, rows: &[Row], k: usize) {
    let (problem, mut motion) = take(poses);
    let moments = pass::gather(&problem, &motion, &skin(&problem, rows, k));
    bone_step::update(&mut motion, &moments, &BoneModel::new(BoneKind::Affine, poses.bones, 1));
    (poses.targets, poses.rows) = (problem.trajectories, motion.rows().to_vec());
}

/// Rigid and trs bones: weights and motion in turn.
fn alternate(
    rig: &Rig,
    rows: &mut [Row],
    poses: &mut Poses,
    k: usize,
    info: &mut ReduceInfo,
    stage: &mut Stage<'_>,
) -> Result<(), ReduceError> {
    let (problem, motion) = take(poses);
    let skin = skin(&problem, rows, k);
    let axes = rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect();
    let parents = rig.bones.iter().map(|bone| bone.parent).collect();
    let bones = Bones::new(rig.kind, axes, vec![true; poses.bones], parents);
    let mut fitting = Alternation::new(vec![problem], vec![Some(motion)], skin, bones, k);
    let mut run = Run::new(&FitParams::default(), stage.observer);
    run.stage("weights and motion", Some(ROUNDS))?;
    fitting.rounds(ROUNDS, TOLERANCE, &mut run)?;
    info.iterations += run.history.len();
    rows.iter_mut().enumerate().for_each(|(i, row)| *row = fitting.skin.of(i).collect());
    (poses.targets, poses.rows) = (fitting.problems.remove(0).trajectories, fitting.motions[0].rows().to_vec());
    Ok(())
}

/// Targets and bones as a problem and a motion; the poses are left without them.
fn take(poses: &mut Poses) -> (Problem, Motion) {
    let rest = poses.rest.iter().map(|u| DVec3::from_slice(&u[..3])).collect();
    // Nothing leaves the unit of the poses here.
    let unit = UnitSpace::fixed(Sphere { center: DVec3::ZERO, radius: 1.0 });
    let problem = Problem::stored(poses.length, rest, std::mem::take(&mut poses.targets), unit);
    (problem, Motion::from_rows(poses.bones, poses.length, std::mem::take(&mut poses.rows)))
}

fn skin(problem: &Problem, rows: &[Row], k: usize) -> Skin {
    let mut skin = Skin::empty(k, problem.rest.clone());
    rows.iter().enumerate().for_each(|(i, row)| skin.set(i, row.iter().copied()));
    skin
}
