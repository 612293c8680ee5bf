//! Loose bones to make a tree of: an over-complete start, thinned out to the number wanted.

use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skeleton::start;
use crate::skeleton::worth::Worth;
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::{Descent, State};
use crate::skinning::params::Effort;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::sample::Sample;
use crate::skinning::search::{Explorer, SWEEPS, SearchPlan};
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;

/// Rounds with each number of influences while these grow [Le2014 s.3.6].
const ROUNDS_PER_INFLUENCE: usize = 3;

/// Vertices per cluster of the start, at least: fewer do not say how a part turns.
const LEAST_VERTICES: usize = 6;

/// The input, whole and sampled.
pub(crate) struct Ground<'a> {
    pub sequence: &'a MeshSequence,
    pub adjacency: &'a Adjacency,
    pub problem: &'a Problem,
    pub sample: &'a Sample,
    pub coarse: &'a Problem,
    pub local: VertexParams,
}

impl Ground<'_> {
    /// Rigid bones of connected patches as seen by the sample, with growing influences.
    pub fn over_complete(&self, clusters: usize, run: &mut Run<'_>) -> Result<State, Cancelled> {
        let (vertices, frames) = self.sample.picked();
        let (motion, labels) = run.observed("start", |run| {
            let all: Vec<u32> = (0..self.sequence.vertex_count() as u32).collect();
            let whole = self.problem.subset(self.sequence, &all, frames);
            start::patches(&whole, self.adjacency, clusters.min(all.len().div_ceil(LEAST_VERTICES)), run)
        })?;
        let skin = Skin::rigid(1, &labels, self.problem.rest.clone()).pick(vertices);
        let model = BoneModel::new(BoneKind::Rigid, motion.bones, SWEEPS);
        let mut state = State { motion, skin, model };
        for slots in 1..=self.local.slots {
            state.skin = with_slots(&state.skin, slots);
            let mut descent = Descent::new(self.coarse, VertexParams { slots, ..self.local });
            descent.rounds(&mut state, ROUNDS_PER_INFLUENCE, run)?;
        }
        Ok(state)
    }

    /// Thins a start out to at most `most` bones, further as long as none is missed, and looks for better ones; E_RMS
    /// beside it.
    pub fn thinned(
        &self,
        state: State,
        most: usize,
        worth: Worth,
        effort: Effort,
        run: &mut Run<'_>,
    ) -> Result<(State, f64), Cancelled> {
        let plan = SearchPlan::new(effort);
        let mut explorer = Explorer::resume(self.coarse, state, self.local, plan, 0);
        explorer.descend(1, run)?;
        explorer.thin_out(most, run)?;
        loop {
            let (before, kept, bones) = (explorer.e_rms(), explorer.state.clone(), explorer.state.bones());
            if bones < 2 {
                break;
            }
            let batch = (bones / 12).max(1);
            explorer.thin_out(bones - batch, run)?;
            if explorer.e_rms() > worth.limit(before, batch) {
                explorer = Explorer::resume(self.coarse, kept, self.local, plan, 0);
                break;
            }
        }
        explorer.search(run)?;
        let e_rms = explorer.e_rms();
        Ok((explorer.state, e_rms))
    }
}

/// The same weights in rows of more slots.
fn with_slots(skin: &Skin, slots: usize) -> Skin {
    let n = skin.rest.len();
    let mut out = Skin { slots, bones: vec![0; n * slots], weights: vec![0.0; n * slots], rest: skin.rest.clone() };
    for i in 0..n {
        for (k, (j, w)) in skin.of(i).take(slots).enumerate() {
            (out.bones[i * slots + k], out.weights[i * slots + k]) = (j as u16, w);
        }
    }
    out
}
