//! What the published methods share around their own steps: preparation, the search for a number of bones, bones from clusters, and
//! the result.

use crate::mesh::{MeshSequence, Topology};
use crate::model::BoneKind;
use crate::observer::Stage;
use crate::skinning::{
    AUTO_MAX_BONES, AUTO_TARGET, BoneCount, BoneModel, Ending, FitError, FitInfo, FitParams, Fitted, MAX_PAIRED_BONES,
    Motion, Problem, Run, Skin, State, StopReason, StopRule, Warning, bone_step, finish, pass,
};

/// A result with some number of bones.
pub(super) struct Attempt<T> {
    pub result: T,
    /// Bones; of a basis, those of a rig with as many numbers in every frame.
    pub bones: usize,
    pub stop: StopReason,
    pub rounds: usize,
    /// Against all frames.
    pub e_rms: f64,
}

/// Bones, or why there are none.
pub(super) type FoundBones = Result<Attempt<State>, FitError>;

impl Attempt<State> {
    pub fn new(motion: Motion, skin: Skin, kind: BoneKind, stop: StopReason, rounds: usize, e_rms: f64) -> Self {
        let (bones, model) = (motion.bones, BoneModel::new(kind, motion.bones, 1));
        Self { result: State { motion, skin, model }, bones, stop, rounds, e_rms }
    }
}

/// The rest pose that a method works with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rest {
    /// That of the input.
    Input,
    /// The first frame [Kavan2010 s.4.1, s.5], unless `keep_rest` is set.
    FirstFrame,
}

/// What every method starts from.
pub(super) struct Input<'a> {
    pub sequence: &'a MeshSequence,
    pub params: &'a FitParams,
    /// The sequence in the unit space, with the rest pose of the method.
    pub problem: Problem,
}

impl<'a> Input<'a> {
    pub fn new(
        sequence: &'a MeshSequence,
        params: &'a FitParams,
        rest: Rest,
        run: &mut Run<'_>,
    ) -> Result<Self, FitError> {
        run.stage(Stage::Prepare, None)?;
        let mut problem = run.timed("normalise", || Problem::new(sequence));
        if rest == Rest::FirstFrame && !params.keep_rest {
            problem.rest = problem.first_frame();
        }
        run.prepared();
        Ok(Self { sequence, params, problem })
    }

    pub fn topology(&self) -> &'a Topology {
        &self.sequence.surface().topology
    }

    /// K with `count` bones.
    pub fn slots(&self, count: usize) -> usize {
        self.params.influences.unwrap_or(count).min(count)
    }

    /// The parameters' rounds and tolerance, else the method's own. Every round counts: no patience.
    pub fn stop_rule(&self, rounds: usize, tolerance: f64) -> StopRule {
        StopRule::new(self.params.max_iterations.unwrap_or(rounds), self.params.tolerance.unwrap_or(tolerance), 1)
    }

    /// Fits the number of bones of the parameters, or searches it.
    pub fn with_bones<T>(
        &self,
        run: &mut Run<'_>,
        mut fit: impl FnMut(usize, &mut Run<'_>) -> Result<Attempt<T>, FitError>,
    ) -> Result<Attempt<T>, FitError> {
        let vertices = self.problem.vertices();
        match self.params.bones {
            BoneCount::Exact(count) => fit(count, run),
            BoneCount::TargetError(target) => search(target, vertices.min(MAX_PAIRED_BONES), run, &mut fit),
            BoneCount::Auto => search(AUTO_TARGET, vertices.div_ceil(4).min(AUTO_MAX_BONES), run, &mut fit),
        }
    }

    /// The rig of a finished fit.
    pub fn fitted(&self, attempt: Attempt<State>, run: Run<'_>) -> Fitted {
        let jitter_ratio = finish::jitter_ratio(&self.problem, &attempt.result);
        let rig = finish::rig(self.sequence, &self.problem, &attempt.result, String::new());
        Fitted { rig, info: self.record(&attempt, jitter_ratio, run) }
    }

    /// The record of a finished fit.
    pub fn record<T>(&self, attempt: &Attempt<T>, jitter_ratio: Option<f64>, run: Run<'_>) -> FitInfo {
        let mut warnings = Vec::new();
        if let BoneCount::TargetError(target) = self.params.bones
            && attempt.e_rms > target
        {
            warnings.push(Warning::TargetMissed { target, reached: attempt.e_rms, bones: attempt.bones });
        }
        // Relative to the input's rest pose, which need not be the method's.
        if !Problem::streamed(self.sequence).moves() {
            warnings.push(Warning::NoMotion);
        }
        run.finish(Ending { stop: attempt.stop, iterations: Some(attempt.rounds), warnings, jitter_ratio })
    }
}

/// The fewest bones that reach an error, by doubling and bisection [Kavan2010 s.5]; else the best attempt.
fn search<T>(
    target: f64,
    limit: usize,
    run: &mut Run<'_>,
    fit: &mut impl FnMut(usize, &mut Run<'_>) -> Result<Attempt<T>, FitError>,
) -> Result<Attempt<T>, FitError> {
    let (mut too_few, mut count) = (0, 1);
    let mut best = fit(count, run)?;
    while best.e_rms > target && count < limit && !run.is_over() {
        too_few = count;
        count = (2 * count).min(limit);
        let attempt = match fit(count, run) {
            // A method may have no answer for this many; the last one stands.
            Err(FitError::Unsuited(_)) => break,
            attempt => attempt?,
        };
        if attempt.e_rms < best.e_rms {
            best = attempt;
        }
    }
    while best.e_rms <= target && count - too_few > 1 && !run.is_over() {
        let middle = (too_few + count) / 2;
        let attempt = fit(middle, run)?;
        if attempt.e_rms <= target {
            (best, count) = (attempt, middle);
        } else {
            too_few = middle;
        }
    }
    Ok(best)
}

/// Motion of clusters: the best rigid motion of each one's vertices, then the best of this kind. Vertices without a cluster are left
/// out. A direction in which a cluster has no extent follows the rigid motion.
pub(super) fn cluster_motion(problem: &Problem, labels: &[Option<u16>], count: usize, kind: BoneKind) -> Motion {
    let numbers: Vec<u16> = labels.iter().map(|label| label.unwrap_or(0)).collect();
    let mut skin = Skin::rigid(1, &numbers, problem.rest.clone());
    skin.weights.iter_mut().zip(labels).filter(|(_, label)| label.is_none()).for_each(|(w, _)| *w = 0.0);
    let mut motion = Motion::identity(count, problem.frames());
    for kind in [BoneKind::Rigid, kind] {
        let moments = pass::gather(problem, &motion, &skin);
        bone_step::update(&mut motion, &moments, &BoneModel::new(kind, count, 1));
    }
    motion
}
