//! Bones that nothing needs are removed, each on trial.
//!
//! Every bone is taken out, a few rounds of descent let the others make up for it, and it stays out unless it is needed. Estimates
//! of that cost without descent (`pass::removal_costs`) are up to a thousand times too high where others can take over. A bone is needed if
//!
//! * the error of everything rises by more than the `KeepRule` allows, or
//! * its own part is then off by more than a share of the part's size, [`LOCAL`] / detail: a finger is little beside a body, or
//! * without it one bone has to move two parts of one surface that do not touch.

use std::ops::Range;

use crate::observer::Cancelled;
use crate::skeleton::parts::{Part, apart};
use crate::skeleton::tree_search::{ROUNDS_AFTER, TreeSearch};
use crate::skinning::Run;

/// Largest error of a part that its bone is not needed for, as a share of the part's size.
const LOCAL: f64 = 0.06;

/// Rounds of descent after a removal that only ranks bones.
const TRIAL: usize = 2;

/// Bones whose cost in that trial is above so many times the limit are not tried again: more rounds lower it a little.
const SLACK: f64 = 1.5;

/// The search for bones that are not needed ends after so many that are.
const MAX_FAILURES: usize = 6;

/// What a removal did.
struct Trial {
    /// E_RMS without the bone.
    e_rms: f64,
    /// By how much its part is off, as a share of its size.
    local: f64,
    /// Whether a bone has to move parts that do not touch.
    divided: bool,
}

impl TreeSearch<'_> {
    /// Removes those of some bones that are not needed.
    pub fn weed(&mut self, bones: Range<usize>, detail: f64, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let limit = LOCAL / detail;
        let ranked = self.rank(bones, limit, run)?;
        let mut numbers: Vec<usize> = (0..self.bones()).collect();
        let mut failures = 0;
        for (cost, j) in ranked {
            if cost > SLACK || failures == MAX_FAILURES || run.is_over() {
                break;
            }
            let (e_rms, body) = (self.descent.e_rms(), self.body.clone());
            let at = numbers.iter().position(|&k| k == j).filter(|&at| body.pose.tree.parents[at].is_some());
            let Some(at) = at else { continue };
            let errors = self.descent.moments.per_vertex.clone();
            let trial = self.trial(at, &errors, ROUNDS_AFTER, run)?;
            if trial.e_rms > self.keep.limit(e_rms, 1) || trial.local > limit || trial.divided {
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
    fn rank(&mut self, bones: Range<usize>, limit: f64, run: &mut Run<'_>) -> Result<Vec<(f64, usize)>, Cancelled> {
        self.restore(self.body.clone(), run)?;
        let (e_rms, base, errors) = (self.descent.e_rms(), self.body.clone(), self.descent.moments.per_vertex.clone());
        let mut ranked: Vec<(f64, usize)> = Vec::new();
        for j in bones.filter(|&j| base.pose.tree.parents[j].is_some()) {
            if run.is_over() {
                break;
            }
            let trial = self.trial(j, &errors, TRIAL, run)?;
            self.body = base.clone();
            if !trial.divided {
                ranked.push(((trial.e_rms / self.keep.limit(e_rms, 1)).max(trial.local / limit), j));
            }
        }
        self.restore(base, run)?;
        ranked.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        Ok(ranked)
    }

    /// Takes a bone out and lets the others make up for it in some rounds; `errors` [N] are those with the bone.
    fn trial(&mut self, j: usize, errors: &[f32], rounds: usize, run: &mut Run<'_>) -> Result<Trial, Cancelled> {
        let frames = self.body.pose.frames();
        let part = Part::all(&self.body.skin, self.bones()).swap_remove(j);
        let apart_before = apart(&self.body.skin, self.near).len();
        self.without(&[j]);
        self.descend(rounds, run)?;
        let after = &self.descent.moments.per_vertex;
        let rise = |part: &Part| (part.error(after, frames) - part.error(errors, frames)).max(0.0);
        let local = part.map_or(0.0, |part| rise(&part).sqrt() / part.size);
        let divided = apart(&self.body.skin, self.near).len() > apart_before;
        Ok(Trial { e_rms: self.descent.e_rms(), local, divided })
    }
}
