//! First bones of a symmetric face.
//!
//! Bones are found in three ways, and those with the lowest error after a few rounds are taken:
//!
//! 1. those of one half, and their images;
//! 2. the same, with one bone, its own image, for each that holds vertices on the plane, and more bones for the half in return;
//! 3. those of the whole face without the mirror: each with the bone that its image is like, or with a new one; then the least useful ones are removed.

use super::{first_bones, vertex_params, without_identity};
use crate::mesh::sequence::MeshSequence;
use crate::observer::Cancelled;
use crate::shapes::mirror::Mirror;
use crate::shapes::params::ShapesParams;
use crate::shapes::rounds::Rounds;
use crate::skinning::{Problem, Run, State, pass, plant};

/// A bone of one half straddles the plane where this share of its weights is on the plane.
const STRADDLES: f64 = 0.1;

/// Rounds that ways are compared after.
const ROUNDS: usize = 3;

/// Share of the excess bones removed at a time.
const BATCH: f64 = 0.6;

/// What first bones are found from.
pub(super) struct FirstPairs<'a> {
    /// With images of shapes that have none.
    pub shapes: &'a MeshSequence,
    pub poses: &'a Problem,
    /// Offsets, symmetric.
    pub fitted: &'a Problem,
    /// Without bones.
    pub mirror: &'a Mirror,
    /// Shapes that are the neutral, and how many are stored.
    pub still: &'a (Vec<bool>, usize),
    pub params: &'a ShapesParams,
}

impl FirstPairs<'_> {
    pub fn find(&self, run: &mut Run<'_>) -> Result<(Mirror, State), Cancelled> {
        let (mirror, state, straddling) = self.of_half(0, run)?;
        let mut ways = vec![(mirror, state)];
        if straddling > 0 && self.params.bones > 1 && !run.is_over() {
            let (mirror, state, _) = self.of_half(straddling.min(self.params.bones), run)?;
            ways.push((mirror, state));
        }
        if self.params.bones > 1 && !run.is_over() {
            ways.push(self.of_whole(run)?);
        }
        let mut best: Option<(f64, usize)> = None;
        if ways.len() > 1 {
            for (at, (mirror, state)) in ways.iter().enumerate() {
                let error = self.rounds(mirror, &mut state.clone(), ROUNDS, run)?;
                if best.is_none_or(|(least, _)| error < least) {
                    best = Some((error, at));
                }
            }
        }
        Ok(ways.swap_remove(best.map_or(0, |(_, at)| at)))
    }

    /// Bones of one half and their images; `middle` of them are their own image. Also how many straddle the plane.
    fn of_half(&self, middle: usize, run: &mut Run<'_>) -> Result<(Mirror, State, usize), Cancelled> {
        let half = self.mirror.half(self.fitted);
        let own = self.shapes.of_vertices(&half);
        let own_poses = Problem::in_space(&own, self.poses.space.clone());
        let count = ((self.params.bones + middle) / 2).max(1);
        let mut state = first_bones(&own, &own_poses, count, self.params, run)?;
        state.motion = without_identity(&state.motion);
        let shares = self.mirror.plane_shares(&half, &state);
        let mut order: Vec<usize> = (0..state.bones()).collect();
        order.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
        let in_middle: Vec<bool> = (0..state.bones()).map(|j| order[..middle.min(order.len())].contains(&j)).collect();
        let straddling = shares.iter().filter(|share| **share > STRADDLES).count();
        let mut mirror = self.mirror.clone();
        let mut state = mirror.doubled(self.fitted, &half, &state, &in_middle);
        // A half has fewer bones, and with few of them fewer influences.
        state.skin = state.skin.with_slots(self.params.influences.min(state.bones()));
        Ok((mirror, state, straddling))
    }

    /// Bones of the whole face, paired, and the least useful ones removed.
    fn of_whole(&self, run: &mut Run<'_>) -> Result<(Mirror, State), Cancelled> {
        let mut whole = first_bones(self.shapes, self.poses, self.params.bones, self.params, run)?;
        whole.motion = without_identity(&whole.motion);
        let mut mirror = self.mirror.clone();
        let mut state = mirror.paired(self.fitted, &whole);
        while state.bones() > self.params.bones {
            self.rounds(&mirror, &mut state, 1, run)?;
            let excess = (state.bones() - self.params.bones) as f64;
            let gone = run.timed("removal costs", || {
                let vertices = vertex_params(self.params, state.bones());
                let costs = pass::removal_costs(self.fitted, &state.motion, &state.skin, vertices);
                let second = pass::gather(self.fitted, &state.motion, &state.skin).second;
                let gone =
                    plant::least_useful(&mirror.shared_costs(&costs), &second, 0, (BATCH * excess).ceil() as usize);
                mirror.with_images(&gone, excess as usize)
            });
            state.remove(&gone);
            mirror.remove(&gone);
        }
        Ok((mirror, state))
    }

    /// Rounds with all numbers; the squared error after them.
    fn rounds(&self, mirror: &Mirror, state: &mut State, count: usize, run: &mut Run<'_>) -> Result<f64, Cancelled> {
        let vertices = vertex_params(self.params, state.bones());
        let (kind, still) = (self.params.kind, self.still.clone());
        let rounds = Rounds::new(self.fitted, state, vertices, kind, still, Some(mirror.clone()));
        rounds.rounds(self.fitted, state, count, run)
    }
}
