//! Bones without joints, to make a tree of: an over-complete start, thinned out.

use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skeleton::tree_search::KeepRule;
use crate::skeleton::{Input, patches};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::{Descent, State};
use crate::skinning::params::Effort;
use crate::skinning::run::Run;
use crate::skinning::schedule::Schedule;
use crate::skinning::search::Explorer;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::LocalParams;

/// Rounds with each number of influences while these grow [Le2014 s.3.6].
const ROUNDS_PER_INFLUENCE: usize = 3;

/// Vertices per cluster of the start, at least: fewer do not determine a rotation.
const MIN_VERTICES: usize = 6;

/// Rigid bones of connected patches, fitted to the sample with a growing number of influences.
pub(super) fn over_complete(input: &Input<'_>, clusters: usize, run: &mut Run<'_>) -> Result<State, Cancelled> {
    let (vertices, frames) = input.sample.picked();
    let all: Vec<u32> = (0..input.sequence.vertex_count() as u32).collect();
    let (motion, labels) = run.observed("start", |run| {
        let whole = input.problem.subset(input.sequence, &all, frames);
        patches::patches(&whole, input.adjacency, clusters.min(all.len().div_ceil(MIN_VERTICES)), run)
    })?;
    let skin = Skin::rigid(1, &labels, input.problem.rest.clone()).pick(vertices);
    let model = BoneModel::new(BoneKind::Rigid, motion.bones, Schedule::new(Effort::Balanced).sweeps);
    let mut state = State { motion, skin, model };
    for slots in 1..=input.local.slots {
        state.skin = state.skin.with_slots(slots);
        let mut descent = Descent::new(input.coarse, LocalParams { slots, ..input.local });
        descent.rounds(&mut state, ROUNDS_PER_INFLUENCE, run)?;
    }
    Ok(state)
}

/// Thins a start out to at most `max_bones` bones, further as long as the rule allows it, and searches for better ones;
/// returns the E_RMS too.
pub(super) fn thinned(
    input: &Input<'_>,
    state: State,
    max_bones: usize,
    keep: KeepRule,
    effort: Effort,
    run: &mut Run<'_>,
) -> Result<(State, f64), Cancelled> {
    let schedule = Schedule { cycles: Schedule::new(effort).cycles, ..Schedule::new(Effort::Balanced) };
    let resume = |state: State| Explorer::resume(input.coarse, state, input.local, schedule, 0);
    let mut explorer = resume(state);
    explorer.descend(1, run)?;
    explorer.thin_out(max_bones, run)?;
    while explorer.state.bones() > 1 {
        let (before, kept, bones) = (explorer.e_rms(), explorer.state.clone(), explorer.state.bones());
        let batch = (bones / 12).max(1);
        explorer.thin_out(bones - batch, run)?;
        if explorer.e_rms() > keep.limit(before, batch) {
            explorer = resume(kept);
            break;
        }
    }
    explorer.search(run)?;
    let e_rms = explorer.e_rms();
    Ok((explorer.state, e_rms))
}
