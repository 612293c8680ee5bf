//! Bones of a level, searched for as a fit does, with those of coarser levels locked.
//!
//! The bones that removals leave are those of a fine fit: they move like small parts. A level of few bones needs others. So each level, from the
//! coarsest to the finest, plants bones in its worst regions and takes the least useful ones out again (`skinning::search`); bones that a coarser level uses
//! neither move nor go. Bones have no identity here but their number: a new one takes the place of one that went.

use crate::observer::{Cancelled, Stage};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::search::{Explorer, SearchPlan};
use crate::skinning::{Effort, Motion, Problem, Run, State, VertexParams};

use super::{Draft, NEWCOMERS, SWEEPS};

/// How a level is searched.
pub(super) struct Task<'a> {
    pub problem: &'a Problem,
    /// [bones in work] which stay.
    pub locked: &'a [bool],
    /// Rounds over bones, weights and rest pose after the search.
    pub rounds: usize,
    /// Searches of this level before: each goes elsewhere.
    pub cycle: usize,
}

/// Searches for the bones of a level that are not locked, and their motion. `model` has the axes of all bones.
pub(super) fn improve(
    motion: &mut Motion,
    model: &mut BoneModel,
    draft: &mut Draft,
    task: &Task<'_>,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    // Locked ones first.
    let mut order: Vec<usize> = (0..draft.bones.len()).collect();
    order.sort_by_key(|&at| !task.locked[draft.bones[at]]);
    let bones: Vec<usize> = order.iter().map(|&at| draft.bones[at]).collect();
    let count = bones.iter().filter(|&&j| task.locked[j]).count();
    if count == bones.len() {
        return Ok(());
    }
    draft.skin.renumber(&order);
    let axes = bones.iter().map(|&j| model.axes[j]).collect();
    let state = State {
        motion: motion.select(&bones),
        skin: draft.skin.clone(),
        model: BoneModel { kind: model.kind, axes, sweeps: SWEEPS, locked: count },
    };
    let slots = draft.influences.min(bones.len());
    let vertices = VertexParams { slots, newcomers: NEWCOMERS, min_gain: 1e-4, move_rest: true, rounds: 2 };
    let plan = SearchPlan::new(Effort::Balanced).varied(task.cycle);
    let mut explorer = Explorer::resume(task.problem, state, vertices, plan, task.cycle as u64);
    explorer.search(run)?;
    run.stage(Stage::WeightsAndMotion, Some(task.rounds))?;
    explorer.descend(task.rounds, run)?;
    draft.e_rms = explorer.e_rms();
    let State { motion: found, skin, model: own } = explorer.state;
    for (at, &j) in bones.iter().enumerate().skip(count) {
        (0..4).for_each(|c| motion.row_mut(c, j).copy_from_slice(found.row(c, at)));
        model.axes[j] = own.axes[at];
    }
    draft.skin = skin;
    draft.bones = bones;
    draft.sort();
    Ok(())
}
