//! Fast skinning decomposition: affine bones fitted in a reduced space [Kavan2010].
//!
//! 1. [`subspace`](crate::baselines::subspace): trajectories `A ~ B C` to half a thousandth of the model's radius [s.3, s.5];
//! 2. `cluster::region_growing`: one bone a vertex to start with, the first frame as rest pose [s.4.1];
//! 3. rounds of transformations (`skinning::bone_step` [s.4.2]), rest pose and weights (`rest_and_weights` [s.4.3, s.4.4]);
//! 4. back to all frames: `T = B T_r` [s.2.1].
//!
//! Deviations: directions in which the vertices of a bone have no extent (a flat cluster's normal) follow the seed
//! triangle instead of vanishing, by a small ridge in place of the pseudoinverse; more or fewer than 4 influences are
//! chosen by the same rule, and solved by an active set instead of the nearest point of a tetrahedron; each frame is
//! centred ([`unit`](crate::skinning::unit)), so a model that walks needs no dimension for it and weights see the shape alone;
//! more in the headers of the stages. With `keep_rest` the rest pose is the input's, throughout.

mod rest_and_weights;
#[cfg(test)]
mod tests;

use crate::baselines::published::{Attempt, FoundBones, Input};
use crate::baselines::subspace::Subspace;
use crate::cluster::region_growing;
use crate::model::BoneKind;
use crate::observer::Stage;
use crate::skinning::{BoneCount, BoneModel, FitError, Motion, Problem, Run, Skin, State, bone_step, pass};

/// Error of the reduction for each coordinate of a frame, in radii of the model [Kavan2010 s.5]: half a pixel.
const TOLERANCE: f64 = 0.0005;

/// Share of a target error that the reduction may use up.
const TOLERANCE_SHARE: f64 = 0.25;

/// Rounds unless the parameters have another number [Kavan2010 s.5].
const ROUNDS: usize = 15;

/// Fits in the subspace; the result has all frames.
pub(super) fn fit(input: &Input, run: &mut Run<'_>) -> FoundBones {
    let reduced = Reduced::new(input, run)?;
    run.prepared();
    let mut attempt = input.with_bones(run, |count, run| reduced.fit(count, run))?;
    let State { motion, .. } = &mut attempt.result;
    *motion = Motion::from_rows(motion.bones, input.problem.length, reduced.subspace.in_all_frames(motion.rows()));
    Ok(attempt)
}

/// A sequence in its subspace.
struct Reduced<'a> {
    /// All frames; its rest pose is where the fit starts.
    input: &'a Input<'a>,
    /// Trajectories are coordinates in the subspace.
    problem: Problem,
    subspace: Subspace,
}

impl<'a> Reduced<'a> {
    fn new(input: &'a Input<'a>, run: &mut Run<'_>) -> Result<Self, FitError> {
        let tolerance = match input.params.bones {
            BoneCount::TargetError(target) => TOLERANCE.min(TOLERANCE_SHARE * target / 1000.0),
            _ => TOLERANCE,
        };
        let full = &input.problem;
        let mut subspace = Subspace::new(full, tolerance, run)?;
        let coordinates = std::mem::take(&mut subspace.coordinates);
        let problem = Problem::stored(subspace.dimension, full.rest.clone(), coordinates, full.space.clone());
        Ok(Self { input, problem, subspace })
    }

    /// Rounds with `count` bones [Kavan2010 s.4].
    fn fit(&self, count: usize, run: &mut Run<'_>) -> FoundBones {
        let Self { input, problem, .. } = self;
        let mut rule = input.stop_rule(ROUNDS, 0.0);
        run.stage(Stage::WeightsAndBones, Some(rule.rounds))?;
        // Every vertex on the bone of its region; bones move like the seeds of the regions.
        let regions = run.observed("region growing", |run| {
            region_growing::grow(&input.problem, input.topology(), count, &mut || run.report())
        })?;
        let mut skin = Skin::rigid(input.slots(count), &regions.labels, problem.rest.clone());
        let mut motion = Motion::from_rows(count, problem.length, self.subspace.reduced(regions.motion.rows()));
        let model = BoneModel::new(BoneKind::Affine, count, 1);
        loop {
            run.timed("bones", || {
                let moments = pass::gather(problem, &motion, &skin);
                bone_step::update(&mut motion, &moments, &model);
            });
            let squared_error = run.observed("vertices", |run| {
                rest_and_weights::solve(problem, &motion, &mut skin, !input.params.keep_rest, run)
            })?;
            // B is orthonormal, so the errors inside and outside of the subspace add up like the sides of a triangle.
            let e_rms = input.problem.e_rms(squared_error + self.subspace.squared_error);
            run.round(count, e_rms)?;
            if let Some(stop) = rule.after_round(e_rms, problem.e_rms(squared_error), run) {
                return Ok(Attempt::new(motion, skin, BoneKind::Affine, stop, rule.count, e_rms));
            }
        }
    }
}
