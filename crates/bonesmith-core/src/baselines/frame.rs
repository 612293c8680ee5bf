//! What the published methods have in common around their own steps: how many bones, from clusters to bones, and back
//! to a rig.

use crate::mesh::sequence::MeshSequence;
use crate::model::rig::BoneKind;
use crate::observer::Observer;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::params::{
    AUTO_MAX_BONES, AUTO_TARGET, BoneCount, FitError, FitInfo, FitParams, Fitted, MAX_BONES, StopReason, Warning,
};
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::{finish, pass};

/// A result with some number of bones.
pub(crate) trait Attempt {
    fn e_rms(&self) -> f64;
    fn bones(&self) -> usize;
}

/// A fit with some number of bones.
pub(super) struct Solved {
    pub state: State,
    pub stop: StopReason,
    pub rounds: usize,
    /// Against all frames.
    pub e_rms: f64,
}

impl Attempt for Solved {
    fn e_rms(&self) -> f64 {
        self.e_rms
    }

    fn bones(&self) -> usize {
        self.state.bones()
    }
}

/// The rest pose that a method works with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Rest {
    /// Of the input.
    Given,
    /// The first frame [Kavan2010 s.4.1, s.5], unless the one of the input is to be kept.
    FirstFrame,
}

/// A sequence as a method works with it, each frame moved back to the middle of the input's rest pose.
pub(super) fn prepare(sequence: &MeshSequence, params: &FitParams, rest: Rest) -> Problem {
    let mut problem = Problem::new(sequence);
    if rest == Rest::FirstFrame && !params.keep_rest {
        problem.rest = problem.first_frame();
    }
    problem
}

/// A method that needs no more than the problem and a number of bones.
pub(super) fn fit_bones(
    sequence: &MeshSequence,
    params: &FitParams,
    rest: Rest,
    observer: &mut dyn Observer,
    mut decompose: impl FnMut(&Problem, usize, &mut Run<'_>) -> Result<Solved, FitError>,
) -> Result<Fitted, FitError> {
    refuse_smooth(params)?;
    let mut run = Run::new(params, observer);
    run.stage("prepare", None)?;
    let problem = run.timed("normalise", || prepare(sequence, params, rest));
    let prepare_secs = run.seconds();
    let mut warnings = Vec::new();
    let solved = with_bones(params.bones, sequence.vertex_count(), &mut run, &mut warnings, |count, run| {
        decompose(&problem, count, run)
    })?;
    Ok(fitted(sequence, &problem, solved, warnings, prepare_secs, run))
}

/// Fits as many bones as asked for; a target that was missed is noted.
pub(crate) fn with_bones<A: Attempt>(
    bones: BoneCount,
    vertices: usize,
    run: &mut Run<'_>,
    warnings: &mut Vec<Warning>,
    mut fit: impl FnMut(usize, &mut Run<'_>) -> Result<A, FitError>,
) -> Result<A, FitError> {
    match bones {
        BoneCount::Exact(count) => fit(count, run),
        BoneCount::TargetError(target) => {
            let attempt = search(target, vertices.min(MAX_BONES), run, &mut fit)?;
            if attempt.e_rms() > target {
                let (reached, bones) = (attempt.e_rms(), attempt.bones());
                warnings.push(Warning::TargetMissed { target, reached, bones });
            }
            Ok(attempt)
        }
        BoneCount::Auto => search(AUTO_TARGET, vertices.div_ceil(4).min(AUTO_MAX_BONES), run, &mut fit),
    }
}

/// The fewest bones that reach an error, by doubling and bisection [Kavan2010 s.5]; else the best attempt.
fn search<A: Attempt>(
    target: f64,
    limit: usize,
    run: &mut Run<'_>,
    fit: &mut impl FnMut(usize, &mut Run<'_>) -> Result<A, FitError>,
) -> Result<A, FitError> {
    let (mut too_few, mut count) = (0, 1);
    let mut best = fit(count, run)?;
    while best.e_rms() > target && count < limit && !run.is_over() {
        too_few = count;
        count = (2 * count).min(limit);
        let attempt = match fit(count, run) {
            // A method may have no answer for this many; what it found before stands.
            Err(FitError::Unsuited(_)) => break,
            attempt => attempt?,
        };
        if attempt.e_rms() < best.e_rms() {
            best = attempt;
        }
    }
    while best.e_rms() <= target && count - too_few > 1 && !run.is_over() {
        let middle = (too_few + count) / 2;
        let attempt = fit(middle, run)?;
        if attempt.e_rms() <= target {
            (best, count) = (attempt, middle);
        } else {
            too_few = middle;
        }
    }
    Ok(best)
}

/// When rounds end.
pub(crate) struct Rounds {
    most: usize,
    /// Least share that a round must take off E_RMS.
    tolerance: f64,
    last: f64,
    pub count: usize,
}

impl Rounds {
    /// As asked for, else the method's own numbers.
    pub fn new(params: &FitParams, most: usize, tolerance: f64) -> Self {
        let (most, tolerance) = (params.max_iterations.unwrap_or(most), params.tolerance.unwrap_or(tolerance));
        Self { most, tolerance, last: f64::INFINITY, count: 0 }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    /// Notes a round; why it was the last, if it was.
    pub fn ended(&mut self, e_rms: f64, run: &Run<'_>) -> Option<StopReason> {
        self.count += 1;
        let slow = self.tolerance > 0.0 && e_rms > self.last * (1.0 - self.tolerance);
        self.last = e_rms;
        match () {
            () if e_rms < 1e-6 => Some(StopReason::Exact),
            () if slow => Some(StopReason::Converged),
            () if self.count >= self.most => Some(StopReason::MaxIterations),
            () if run.is_over() => Some(StopReason::MaxSeconds),
            () => None,
        }
    }
}

/// Motion of clusters: the best rigid motion of each one's vertices, then the best of the kind asked for. Vertices
/// without a cluster have no say. A direction that the vertices tell nothing about follows the rigid motion.
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

/// The rig of a finished fit.
pub(super) fn fitted(
    sequence: &MeshSequence,
    problem: &Problem,
    solved: Solved,
    mut warnings: Vec<Warning>,
    prepare_secs: f64,
    run: Run<'_>,
) -> Fitted {
    // Against the input's rest pose, which need not be the problem's.
    if !Problem::streamed(sequence).moves() {
        warnings.push(Warning::NoMotion);
    }
    let state = &solved.state;
    let info = FitInfo {
        iterations: solved.rounds,
        stop: solved.stop,
        warnings,
        prepare_secs,
        jitter_ratio: finish::jitter_ratio(problem, state),
        fit_secs: run.seconds() - prepare_secs,
        history: run.history,
        profile: run.profile,
    };
    Fitted { rig: finish::rig(sequence, problem, state, String::new()), info }
}

/// Most that one table of a method may take: 2 GiB.
const MOST_BYTES: usize = 1 << 31;

/// Refuses tables that would not fit into memory, before they are made: `rows x columns` of `size` bytes each.
pub(crate) fn check_memory(what: &str, rows: usize, columns: usize, size: usize) -> Result<(), String> {
    let bytes = rows.saturating_mul(columns).saturating_mul(size);
    let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
    match bytes > MOST_BYTES {
        true => Err(format!(
            "{what} would be {rows} x {columns} numbers, {:.1} GiB; at most {} GiB are taken",
            gib(bytes),
            gib(MOST_BYTES)
        )),
        false => Ok(()),
    }
}

/// Refuses what a method knows nothing of.
pub(super) fn refuse_smooth(params: &FitParams) -> Result<(), FitError> {
    match params.smooth > 0.0 {
        true => {
            let name = params.method.name();
            Err(FitError::Unsupported(format!("the method {name} knows no smoothing of weights")))
        }
        false => Ok(()),
    }
}
