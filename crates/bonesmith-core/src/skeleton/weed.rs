//! Bones that nothing needs are removed, each on trial.
//!
//! Every bone is taken out, a few rounds of descent let the others make up for it, and it stays out unless it is needed. Estimates
//! of that cost without descent (`pass::removal_costs`) are up to a thousand times too high where others can take over. A bone is needed if
//!
//! * the error of everything rises by more than the `KeepRule` allows, or
//! * that of a region rises by more, in the region's own unit: the parts of `small_parts`, or
//! * its own part is then off by more than a share of the part's size, [`LOCAL`] / detail: a finger is little beside a body, or
//! * without it one bone has to move two parts of one surface that do not touch, and the error rises a little.

use std::ops::Range;

use crate::observer::Cancelled;
use crate::skeleton::parts::{Part, apart};
use crate::skeleton::tree_search::{KeepRule, ROUNDS_AFTER, TreeSearch};
use crate::skinning::Run;

/// Largest error of a part that its bone is not needed for, as a share of the part's size.
const LOCAL: f64 = 0.06;

/// Rounds of descent after a removal that only ranks bones.
const TRIAL: usize = 2;

/// Bones whose cost in that trial is above so many times the limit are not tried again: more rounds lower it a little.
const SLACK: f64 = 3.0;

/// The search for bones that are not needed ends after so many that are.
const MAX_FAILURES: usize = 12;

/// Removals that cost less do no harm, whatever then moves together: shares of the `KeepRule`'s and of [`LOCAL`].
const LITTLE: (f64, f64) = (0.5, 0.25);

/// A region in which removals are judged beside the whole, in a unit of its own.
pub(super) struct Region {
    /// Vertices of the sample.
    pub vertices: Vec<usize>,
    pub radius: f64,
    pub keep: KeepRule,
}

impl Region {
    /// E_RMS of its vertices in its own unit; `errors` [N] are sums over `frames` frames.
    fn e_rms(&self, errors: &[f32], frames: usize) -> f64 {
        let sum: f64 = self.vertices.iter().map(|&i| f64::from(errors[i])).sum();
        1000.0 * (sum / (self.vertices.len() * 3 * frames) as f64).sqrt() / self.radius
    }
}

/// What a removal did.
struct Trial {
    /// The largest rise of the error, of everything or of a region, as a share of the largest that is allowed.
    rise: f64,
    /// By how much its part is off, as a share of its size.
    local: f64,
    /// Whether a bone has to move parts that do not touch.
    divided: bool,
}

impl Trial {
    /// The cost, where 1 is the limit.
    fn cost(&self, limit: f64) -> f64 {
        self.rise.max(self.local / limit)
    }
}

impl TreeSearch<'_> {
    /// Removes those of some bones that are not needed.
    pub fn weed(
        &mut self,
        bones: Range<usize>,
        detail: f64,
        regions: &[Region],
        run: &mut Run<'_>,
    ) -> Result<(), Cancelled> {
        let limit = LOCAL / detail;
        let ranked = self.rank(bones, limit, regions, run)?;
        let mut numbers: Vec<usize> = (0..self.bones()).collect();
        let mut failures = 0;
        for (cost, j) in ranked {
            if cost > SLACK || failures == MAX_FAILURES || run.is_over() {
                break;
            }
            let body = self.body.clone();
            let at = numbers.iter().position(|&k| k == j).filter(|&at| body.pose.tree.parents[at].is_some());
            let Some(at) = at else { continue };
            let errors = self.descent.moments.per_vertex.clone();
            let trial = self.trial(at, &errors, ROUNDS_AFTER, regions, run)?;
            if trial.cost(limit) > 1.0 || trial.divided {
                self.restore(body, run)?;
                failures += 1;
            } else {
                numbers.remove(at);
                self.info.pruned += 1;
            }
        }
        Ok(())
    }

    /// Bones by what their removal costs, the least first, where 1 is the limit; those that keep parts apart are left out.
    fn rank(
        &mut self,
        bones: Range<usize>,
        limit: f64,
        regions: &[Region],
        run: &mut Run<'_>,
    ) -> Result<Vec<(f64, usize)>, Cancelled> {
        self.restore(self.body.clone(), run)?;
        let (base, errors) = (self.body.clone(), self.descent.moments.per_vertex.clone());
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for j in bones.filter(|&j| base.pose.tree.parents[j].is_some()) {
            if run.is_over() {
                break;
            }
            let trial = self.trial(j, &errors, TRIAL, regions, run)?;
            self.body = base.clone();
            if !trial.divided {
                ranked.push((trial.cost(limit), j));
            }
        }
        self.restore(base, run)?;
        ranked.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        Ok(ranked)
    }

    /// Takes a bone out and lets the others make up for it in some rounds; `errors` [N] are those with the bone.
    fn trial(
        &mut self,
        j: usize,
        errors: &[f32],
        rounds: usize,
        regions: &[Region],
        run: &mut Run<'_>,
    ) -> Result<Trial, Cancelled> {
        let frames = self.body.pose.frames();
        let part = Part::all(&self.body.skin, self.bones()).swap_remove(j);
        let apart_before = apart(&self.body.skin, self.near).len();
        let before = self.descent.problem.e_rms(errors.iter().map(|&e| f64::from(e)).sum());
        self.without(&[j]);
        self.descend(rounds, run)?;
        let after = &self.descent.moments.per_vertex;
        let own = |part: &Part| (part.error(after, frames) - part.error(errors, frames)).max(0.0);
        let local = part.map_or(0.0, |part| own(&part).sqrt() / part.size);
        let rise = |region: &Region| region.e_rms(after, frames) / region.keep.limit(region.e_rms(errors, frames), 1);
        let whole = self.descent.e_rms() / self.keep.limit(before, 1);
        let rise = regions.iter().map(rise).fold(whole, f64::max);
        // Where nothing is lost it does not matter that parts move together.
        let lost = self.descent.e_rms() > before * (1.0 + LITTLE.0 * self.keep.share) || local > LITTLE.1 * LOCAL;
        let divided = lost && apart(&self.body.skin, self.near).len() > apart_before;
        Ok(Trial { rise, local, divided })
    }
}
