//! What is fitted, from rig, subjects, locks and parameters; and the rounds over it.

use glam::DVec3;

use crate::mesh::{Adjacency, Sphere};
use crate::model::{BoneKind, Rig};
use crate::observer::{Cancelled, Stage};
use crate::refit::params::{Locks, RefitParams, Solve, Subject};
use crate::refit::space;
use crate::skinning::alternation::{Alternation, Bones};
use crate::skinning::weights::Search;
use crate::skinning::{Problem, Run, Skin, Smoothness, StopReason, Warning};

/// Passes over the vertices when weights are smoothed: each sees the neighbours' weights of the pass before.
const SMOOTH_PASSES: usize = 4;

/// Maximum number of steps of a frame's bones when only motion is fitted, and before rounds from unknown motion.
const MOTION_STEPS: usize = 60;
const START_STEPS: usize = 30;

/// A joint that moves apart by less than this, in radii, only rotates: files hold float32.
const MAX_GAP: f64 = 1e-3;

/// Bones that move freely lower the error of a rig without animation by more than this factor where its joints do not only rotate. Noise lowers it
/// by the share of the bones' parameters in the coordinates, a few percent.
const FREE_GAIN: f64 = 0.8;

/// Rounds over weights and motion when no number is given.
const ROUNDS: usize = 12;

/// Influences of fitted vertices when no number is given: those of the rig within this range, else the lower end. More mean dense
/// weights, from which none were chosen yet.
const INFLUENCES: std::ops::RangeInclusive<usize> = 4..=8;

/// The unknowns, as the rig has them.
pub(super) fn start(rig: &Rig, subjects: &[Subject], locks: &Locks, params: &RefitParams) -> Alternation {
    let problems = space::problems(subjects);
    let (b, n) = (rig.bone_count(), rig.vertex_count());
    let motion = |(s, p): (&Subject, &Problem)| Some(p.space.motion(s.motion?, b));
    let given = subjects.iter().zip(&problems).map(motion).collect();
    let own = Some(rig.weights.max_influences()).filter(|k| INFLUENCES.contains(k)).unwrap_or(*INFLUENCES.start());
    let limit = params.influences.unwrap_or(own).min(b + params.add_bones);
    let slots = limit.max(rig.weights.max_influences());
    let skin = Skin::from_weights(&rig.weights, slots, problems[0].rest.clone());
    let locked = |j: usize| locks.bones.get(j).copied().unwrap_or(false);
    let bones = Bones::new(
        params.bone_kind.unwrap_or(rig.kind),
        rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect(),
        (0..b).map(|j| params.solve != Solve::Weights && !locked(j)).collect(),
        rig.bones.iter().map(|bone| bone.parent).collect(),
    );
    let smoothness = (params.smooth > 0.0).then(|| {
        let adjacency = Adjacency::new(&subjects[0].sequence.surface().topology, n);
        Smoothness::new(&problems[0], adjacency, params.smooth)
    });
    let joints: Vec<_> = match params.solve == Solve::Motion && !params.free_translation {
        true => subjects.iter().zip(&problems).map(|(subject, problem)| joints(rig, subject, problem)).collect(),
        false => Vec::new(),
    };
    // Bones that scale would scale what hangs on them; without joints each bone is free.
    let joined = bones.model.kind == BoneKind::Rigid && joints.iter().flatten().any(Option::is_some);
    let bones = if joined { Bones { joints, ..bones } } else { bones };
    let mut fitting = Alternation::new(problems, given, skin, bones, limit);
    (fitting.weigh, fitting.smoothness) = (params.solve != Solve::Motion, smoothness);
    if !locks.vertices.is_empty() {
        fitting.mask.clone_from(&locks.vertices);
    }
    fitting
}

/// [B] the joint of each bone to its parent, at rest in the unit space, where it only rotates in all animations of the rig.
fn joints(rig: &Rig, subject: &Subject, problem: &Problem) -> Vec<Option<DVec3>> {
    let Sphere { center, radius } = problem.space.sphere;
    let joint = |j: usize| {
        let place = subject.binds.map_or(rig.bones[j].world_from_bind, |binds| binds[j]).translation;
        rig.only_rotates(j, MAX_GAP * radius).then(|| (place - center) / radius)
    };
    (0..rig.bone_count()).map(joint).collect()
}

/// Rounds over what is to be fitted, without new bones.
pub(super) fn descend(fitting: &mut Alternation, params: &RefitParams, run: &mut Run) -> Result<StopReason, Cancelled> {
    match params.solve {
        Solve::Weights => {
            let passes = if fitting.smoothness.is_some() { SMOOTH_PASSES } else { 1 };
            run.stage(Stage::Weights, Some(passes))?;
            for _ in 0..passes {
                fitting.solve_weights(Search::Whole, run)?;
                run.round(fitting.bones.count(), fitting.e_rms())?;
            }
            Ok(StopReason::Converged)
        }
        Solve::Motion => {
            run.stage(Stage::Motion, Some(2))?;
            // Again from the residuals of the first result, which are small numbers.
            move_bones(fitting, &[true, false], run)?;
            Ok(StopReason::Converged)
        }
        Solve::Both => {
            let rounds = params.max_iterations.unwrap_or(ROUNDS);
            run.stage(Stage::WeightsAndMotion, Some(rounds))?;
            if !fitting.all_known() {
                fitting.fit_motion(true, START_STEPS, run)?;
            }
            fitting.rounds(rounds, params.tolerance, run)
        }
    }
}

/// A rig without animation does not show whether its joints only rotate. Where the error says that they do not, its bones move freely.
pub(super) fn release_joints(fitting: &mut Alternation, run: &mut Run) -> Result<Option<Warning>, Cancelled> {
    let (held, joints) = (fitting.motion_state(), std::mem::take(&mut fitting.bones.joints));
    let with_joints = fitting.e_rms();
    move_bones(fitting, &[false, false], run)?;
    let without_joints = fitting.e_rms();
    if without_joints < FREE_GAIN * with_joints {
        return Ok(Some(Warning::FreeJoints { with_joints, without_joints }));
    }
    fitting.restore(held);
    fitting.bones.joints = joints;
    Ok(None)
}

fn move_bones(fitting: &mut Alternation, anew: &[bool], run: &mut Run) -> Result<(), Cancelled> {
    for anew in anew {
        fitting.fit_motion(*anew, MOTION_STEPS, run)?;
        run.round(fitting.bones.count(), fitting.e_rms())?;
    }
    Ok(())
}
