//! Bones for small parts.
//!
//! A finger that does not bend is off by a thousandth of a body, and by half of itself. E_RMS sees the first, an animator the second. So
//! where the number of bones is open, rounds of three moves follow the search (`tree_search`):
//!
//! * *divide*: a bone that moves two parts of one surface which do not touch, the tips of two fingers, becomes two bones;
//! * *plant*: bones where errors are largest relative to the size of the part, `|r_i| / s_i` with
//!   `s_i^2 = sum_j w_ij s_j^2` and `s_j` the RMS distance of what bone `j` and its parent move from its middle;
//! * *weed*: new bones that are not needed are removed again (`weed`).

use crate::observer::{Cancelled, Stage};
use crate::skeleton::parts::{apart, nearest_set, pieces};
use crate::skeleton::tree_search::{ROUNDS_AFTER, TreeSearch};
use crate::skinning::{Run, SecondMoments, pass, plant};

/// Bones planted in a round, as a share of the present ones.
const EXTRA: f64 = 0.4;

/// Vertices that a planted bone is fitted to.
const PATCH: usize = 6;

/// Sizes that errors are divided by are within this range, in units of the sphere.
const SIZES: (f64, f64) = (0.03, 0.3);

impl TreeSearch<'_> {
    /// Finds bones for small parts, in `rounds` rounds at most.
    pub fn refine(&mut self, rounds: usize, detail: f64, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.stage(Stage::Search, Some(rounds))?;
        for _ in 0..rounds {
            let count = self.bones();
            if run.is_over() || count >= self.max_bones || self.descent.squared_error <= 0.0 {
                break;
            }
            self.divide(run)?;
            let room = self.max_bones.saturating_sub(self.bones());
            let extra = ((count as f64 * EXTRA).ceil() as usize).min(room);
            run.timed("plant", || self.plant_small(extra));
            self.descent.restart();
            self.descend(ROUNDS_AFTER, run)?;
            self.regraft(run)?;
            self.weed(count..self.bones(), detail, &[], run)?;
            if self.bones() <= count {
                break;
            }
        }
        Ok(())
    }

    /// Divides bones that move parts of one surface which do not touch.
    fn divide(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let count = self.bones();
        let mut found = apart(&self.body.skin, self.near);
        found.truncate(self.max_bones.saturating_sub(count));
        if found.is_empty() {
            return Ok(());
        }
        let patches: Vec<Vec<usize>> = found.iter().map(|(_, members)| members.clone()).collect();
        let motion = self.body.pose.to_motion();
        let (motion, _) = plant::plant_patches(&self.descent.problem, &motion, &self.body.skin.rest, &patches);
        let whole = pieces(&self.body.skin, self.near);
        let mut bones: Vec<usize> = found.iter().map(|(j, _)| *j).collect();
        bones.dedup();
        for j in bones {
            let own: Vec<&[usize]> = whole.iter().filter(|(k, _)| *k == j).map(|(_, members)| &members[..]).collect();
            let number = |set: &&[usize]| patches.iter().position(|patch| patch == set).map(|at| count + at);
            let numbers: Vec<Option<usize>> = own.iter().map(number).collect();
            let nearest = nearest_set(&self.body.skin.rest, self.near, &own);
            let to: Vec<Option<usize>> = nearest.iter().map(|set| set.and_then(|set| numbers[set])).collect();
            self.hand_over(j, &to);
        }
        self.join_planted(&motion);
        self.descent.restart();
        self.descend(ROUNDS_AFTER, run)
    }

    /// Gives the weights of bone `j` to other bones; `to` [N], `None` where it keeps them.
    fn hand_over(&mut self, j: usize, to: &[Option<usize>]) {
        let skin = &mut self.body.skin;
        for (i, to) in to.iter().enumerate() {
            let row = i * skin.slots..(i + 1) * skin.slots;
            for (bone, weight) in skin.bones[row.clone()].iter_mut().zip(&skin.weights[row]) {
                if let Some(to) = to.filter(|_| *weight > 0.0 && usize::from(*bone) == j) {
                    *bone = to as u16;
                }
            }
        }
    }

    /// Plants bones where errors are large relative to the size of the part.
    fn plant_small(&mut self, extra: usize) {
        let problem = &self.descent.problem;
        let motion = self.body.pose.to_motion();
        let moments = pass::gather(problem, &motion, &self.body.skin);
        let sizes = self.squared_sizes(&moments.second);
        let relative = |i: usize| {
            let size: f64 = self.body.skin.of(i).map(|(j, w)| w * sizes[j]).sum();
            f64::from(moments.per_vertex[i]) / size.max(1e-9)
        };
        let errors = (0..problem.vertices()).map(relative).collect();
        let patches = plant::rigid_patches(problem, errors, extra, PATCH);
        let (motion, _) = plant::plant_patches(problem, &motion, &self.body.skin.rest, &patches);
        self.join_planted(&motion);
    }

    /// [B] mean squared distances of what bones and their parents move from its middle.
    fn squared_sizes(&self, second: &SecondMoments) -> Vec<f64> {
        let size = |j: usize| {
            let mut own = second.of[j].clone();
            if let Some(p) = self.body.pose.tree.parents[j] {
                let above = &second.of[p].own;
                (0..16).for_each(|at| own.own[at / 4][at % 4] += above[at / 4][at % 4]);
            }
            let spread = own.covariance();
            let trace = spread.x_axis.x + spread.y_axis.y + spread.z_axis.z;
            (trace / own.own[3][3].max(1e-9)).clamp(SIZES.0 * SIZES.0, SIZES.1 * SIZES.1)
        };
        (0..second.bones()).map(size).collect()
    }
}
