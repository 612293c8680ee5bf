//! Rounds in which normals count, after those by position alone.
//!
//! An engine multiplies the stored normal `n_i` of the neutral by the blended matrix of its vertex. For shape `s` alone it should give the normal `m_si` of
//! the shape, so that to the squared error is added
//!
//! ```text
//! sum_si h_i^2 |(m_si - n_i) - sum_j w_ij N_sj (n_i, 0)|^2
//! ```
//!
//! The same weights and numbers serve both sums (`skinning::normals`), and numbers are chosen by both. The neutral is kept exactly, its normals too.

use crate::observer::{Cancelled, Stage};
use crate::shapes::rounds::Rounds;
use crate::skinning::normals::{self, Normals};
use crate::skinning::{Problem, Run, State};

/// Rounds with normals, and tries, each with half the weight of the one before. What a share costs differs between faces: the first weight is a large one.
const ROUNDS: usize = 12;
const TRIES: usize = 5;
const FIRST: f64 = 4.0;

/// What normals may cost is a share of E_RMS, or of this where it is smaller: the error of a fit that is nearly exact may rise a little as well.
const UNSEEN: f64 = 0.2;

/// Improves normals; `share` is how much they count. The squared error of positions rises by no more than the share allows, nor above `most`, where it is below.
pub(super) fn shade(
    rounds: &mut Rounds,
    problem: &Problem,
    state: &mut State,
    normals: Normals,
    (share, most): (f64, f64),
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    run.stage(Stage::Shading, Some(ROUNDS))?;
    let (start, first) = (state.clone(), rounds.clone());
    // Images that are not stored do not count, as for a target.
    let error = |state: &State| first.stored_error(problem, state) / first.stored_share();
    let before = error(state);
    let e_rms = problem.e_rms(before);
    let allowed = problem.squared_error(e_rms + normals::COST * share * e_rms.max(UNSEEN));
    let limit = if before <= most { allowed.min(most) } else { allowed };
    let normals = normals.weighing(1.0);
    state.skin.normals = normals.rest_normals();
    let of_one = problem.with_normals(Some(normals.clone()));
    let errors = run.timed("normals", || rounds.normal_errors(&of_one, state));
    let mut normals = normals.balanced(&problem.loss, &errors, FIRST * share, None);
    for _ in 0..TRIES {
        let shaded = problem.with_normals(Some(normals.clone()));
        state.skin.normals = normals.rest_normals();
        if !rounds.has_all() {
            rounds.reselect(&shaded, state, rounds.number_count(), run)?;
        }
        rounds.rounds(&shaded, state, ROUNDS, run)?;
        // Rounds by position alone may follow.
        state.skin.normals.clone_from(&start.skin.normals);
        if error(state) <= limit {
            return Ok(());
        }
        state.clone_from(&start);
        rounds.clone_from(&first);
        if run.is_over() {
            break;
        }
        let weight = 0.5 * normals.weight;
        normals = normals.weighing(weight);
    }
    run.round(state.bones(), problem.e_rms(before))
}
