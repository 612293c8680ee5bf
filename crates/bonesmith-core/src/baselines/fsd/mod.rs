//! Fast skinning decomposition: affine bones fitted in a reduced space [Kavan2010].
//!
//! 1. `prepare::subspace`: trajectories `A ~ B C` to half a thousandth of the model's radius [s.3, s.5];
//! 2. `cluster::region_growing`: one bone a vertex to start with, the first frame as rest pose [s.4.1];
//! 3. rounds of transformations (`fit::bones`, [s.4.2]), rest pose and weights (`vertices`, [s.4.3, s.4.4]);
//! 4. back to all frames: `T = B T_r` [s.2.1].
//!
//! Deviations: directions that the vertices of a bone say nothing about (a flat cluster's normal) follow the seed
//! triangle instead of vanishing, by a small ridge in place of the pseudoinverse; more or fewer than 4 influences are
//! chosen by the same rule, and solved by an active set instead of the nearest point of a tetrahedron; more in the
//! stages' own pages. `--keep-rest` starts and stays with the sequence's rest pose.

#[cfg(test)]
mod tests;
mod vertices;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};

use crate::baselines::frame::{Solved, refuse_smooth, with_bones};
use crate::baselines::subspace::{self, Subspace};
use crate::cluster::region_growing;
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::BoneKind;
use crate::observer::Observer;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::State;
use crate::skinning::finish;
use crate::skinning::motion::Motion;
use crate::skinning::params::{BoneCount, FitError, FitInfo, FitParams, Fitted, StopReason, Warning};
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;

/// Error of the reduction for each coordinate of a frame, in radii of the model [Kavan2010 s.5]: half a pixel.
const TOLERANCE: f64 = 0.0005;

/// Share of an error asked for that the reduction may use up.
const TOLERANCE_SHARE: f64 = 0.25;

/// Rounds unless asked for otherwise [Kavan2010 s.5].
const ITERATIONS: usize = 15;

/// Directions between two reports while the subspace grows.
const REPORT_EVERY: usize = 8;

/// Fits affine bones by the method of 2010.
///
/// `params` and the number of bones are in range; combinations that the method does not know are refused.
pub(crate) fn fsd(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    refuse_unknown(params)?;
    let mut run = Run::new(params, observer);
    let reduced = Reduced::new(sequence, params, &mut run)?;
    let prepare_secs = run.seconds();
    let mut warnings = Vec::new();
    let attempt = with_bones(params.bones, sequence.vertex_count(), &mut run, &mut warnings, |count, run| {
        reduced.fit(sequence, count, params, run)
    })?;
    if !reduced.moves {
        warnings.push(Warning::NoMotion);
    }
    let state = reduced.in_all_frames(attempt.state);
    let info = FitInfo {
        iterations: attempt.rounds,
        stop: attempt.stop,
        warnings,
        prepare_secs,
        jitter_ratio: finish::jitter_ratio(&reduced.full, &state),
        fit_secs: run.seconds() - prepare_secs,
        history: run.history,
        profile: run.profile,
    };
    Ok(Fitted { rig: finish::rig(sequence, &reduced.full, &state, String::new()), info })
}

fn refuse_unknown(params: &FitParams) -> Result<(), FitError> {
    if params.bone_kind != BoneKind::Affine {
        return Err(FitError::Unsupported("the method fsd makes affine bones only".into()));
    }
    refuse_smooth(params)
}

/// A sequence in its subspace.
struct Reduced {
    /// All frames; its rest pose is where the fit starts.
    full: Problem,
    /// Whether anything leaves the sequence's rest pose.
    moves: bool,
    /// Trajectories are coordinates in the subspace.
    problem: Problem,
    subspace: Subspace,
}

impl Reduced {
    fn new(sequence: &MeshSequence, params: &FitParams, run: &mut Run<'_>) -> Result<Self, FitError> {
        run.stage("prepare", None)?;
        let mut full = run.timed("normalise", || Problem::new(sequence));
        let moves = full.moves();
        if !params.keep_rest {
            full.rest = full.first_frame();
        }
        let tolerance = match params.bones {
            BoneCount::TargetError(target) => TOLERANCE.min(TOLERANCE_SHARE * target / 1000.0),
            _ => TOLERANCE,
        };
        let epsilon = tolerance * (full.trajectories.len() as f64).sqrt();
        let start = run.seconds();
        let mut subspace = subspace::reduce(&full.trajectories, full.length, epsilon, |directions| {
            if directions % REPORT_EVERY == 0 { run.stage("prepare", None) } else { Ok(()) }
        })?;
        run.profile.push(("subspace", run.seconds() - start));
        let coordinates = std::mem::take(&mut subspace.coordinates);
        let problem = Problem::stored(subspace.dimension, full.rest.clone(), coordinates, full.space.clone());
        Ok(Self { full, moves, problem, subspace })
    }

    /// Rounds with `count` bones [Kavan2010 s.4].
    fn fit(
        &self,
        sequence: &MeshSequence,
        count: usize,
        params: &FitParams,
        run: &mut Run<'_>,
    ) -> Result<Solved, FitError> {
        let problem = &self.problem;
        let most_rounds = params.max_iterations.unwrap_or(ITERATIONS);
        run.stage("weights and bones", Some(most_rounds))?;
        let mut state = run.timed("region growing", || self.start(sequence, count, params));
        let tolerance = params.tolerance.unwrap_or(0.0);
        let mut last = f64::INFINITY;
        let mut rounds = 0;
        loop {
            run.timed("bones", || {
                let moments = crate::skinning::pass::gather(problem, &state.motion, &state.skin);
                bone_step::update(&mut state.motion, &moments, &state.model);
            });
            let squared_error =
                run.timed("vertices", || vertices::solve(problem, &state.motion, &mut state.skin, !params.keep_rest));
            // B is orthonormal, so the errors inside and outside of the subspace add up like the sides of a triangle.
            let e_rms = self.full.e_rms(squared_error + self.subspace.squared_error);
            rounds += 1;
            run.round(count, e_rms)?;
            let stop = match () {
                () if problem.e_rms(squared_error) < 1e-6 => Some(StopReason::Exact),
                () if tolerance > 0.0 && e_rms > last * (1.0 - tolerance) => Some(StopReason::Converged),
                () if rounds >= most_rounds => Some(StopReason::MaxIterations),
                () if run.is_over() => Some(StopReason::MaxSeconds),
                () => None,
            };
            if let Some(stop) = stop {
                return Ok(Solved { state, stop, rounds, e_rms });
            }
            last = e_rms;
        }
    }

    /// Every vertex on the bone of its region; bones move like the seeds of the regions.
    fn start(&self, sequence: &MeshSequence, count: usize, params: &FitParams) -> State {
        let regions = region_growing::grow(&self.full, &sequence.surface().topology, count);
        let slots = params.influences.unwrap_or(count).min(count);
        State {
            motion: self.in_subspace(&regions.motion),
            skin: Skin::rigid(slots, &regions.labels, self.full.rest.clone()),
            model: BoneModel::new(BoneKind::Affine, count, 1),
        }
    }

    /// `T_r = B^T T`.
    fn in_subspace(&self, motion: &Motion) -> Motion {
        let Subspace { dimension, length, basis, .. } = &self.subspace;
        let basis = MatRef::from_row_major_slice(basis, *dimension, *length);
        times(motion, basis.transpose(), *dimension)
    }

    /// `T = B T_r`.
    fn in_all_frames(&self, state: State) -> State {
        let Subspace { dimension, length, basis, .. } = &self.subspace;
        let basis = MatRef::from_row_major_slice(basis, *dimension, *length);
        State { motion: times(&state.motion, basis, *length), ..state }
    }
}

/// A motion in other coordinates of time.
fn times(motion: &Motion, change: MatRef<'_, f64>, length: usize) -> Motion {
    let side = 4 * motion.bones;
    let mut rows = vec![0.0; side * length];
    matmul(
        MatMut::from_row_major_slice_mut(&mut rows, side, length),
        Accum::Replace,
        MatRef::from_row_major_slice(motion.rows(), side, motion.length),
        change,
        1.0,
        Par::Seq,
    );
    Motion::from_rows(motion.bones, length, rows)
}
