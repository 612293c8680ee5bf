//! Fits that start from a rig: its weights, its motion or both anew, parts of it locked, helper bones added.
//!
//! Minimises the same error as [`crate::fit`], `sum_it |v_it - sum_j w_ij T_jt u_i|^2`, but the rest pose `u`, the bones,
//! their tree, names and bind poses are those of a given rig, and so are `w` or `T` where they are not to be fitted:
//!
//! 1. `space`: rig and subjects in one unit, [`Fitting`] holds the unknowns;
//! 2. `weights`, `vertex`: exact weights for known motion; `motion`: exact motion for known weights (`moments` in between);
//! 3. `helpers`: bones planted where the error is, and whom they hang on;
//! 4. `space` again: back to rigs, one per subject; what was locked is copied to the bit.
//!
//! Around it: `resample` brings clips to other times, [`align`] finds out that rig and sequence do not share units,
//! axes or frames, `subjects` moves the joints of a rig into another body.

pub mod align;
mod fitting;
mod helpers;
mod kernels;
mod moments;
mod motion;
mod params;
pub mod resample;
mod space;
pub mod subjects;
#[cfg(test)]
mod tests;
mod vertex;
mod weights;

use crate::model::rig::Rig;
use crate::observer::Observer;
use crate::skinning::params::{FitInfo, MAX_BONES, StopReason, Warning};
use crate::skinning::run::Run;

use fitting::Fitting;

pub use params::{Locks, RefitError, RefitParams, Solve, Subject};

/// A rig for each subject, with the same weights, and how they came about.
#[derive(Clone, Debug)]
pub struct Refitted {
    /// One per subject: its rest pose, its binds, one clip.
    pub rigs: Vec<Rig>,
    /// How they came about.
    pub info: FitInfo,
}

/// Fits weights, motion or both of a rig to one subject or several that share weights.
pub fn refit(
    rig: &Rig,
    subjects: &[Subject],
    locks: &Locks,
    params: &RefitParams,
    observer: &mut dyn Observer,
) -> Result<Refitted, RefitError> {
    params.validate()?;
    check(rig, subjects, locks, params)?;
    let fit_params = params.as_fit();
    let mut run = Run::new(&fit_params, observer);
    run.stage("prepare", None)?;
    let mut fitting = Fitting::new(rig, subjects, locks, params);
    let prepare_secs = run.seconds();
    let stop = fitting.descend(params, &mut run)?;
    let stop = match params.add_bones {
        0 => stop,
        count => helpers::add(&mut fitting, count, params, &mut run)?,
    };
    let rigs = space::rigs(rig, subjects, locks, &fitting);
    let mut warnings = Vec::new();
    if !fitting.problems.iter().any(|problem| problem.moves()) {
        warnings.push(Warning::NoMotion);
    }
    let info = FitInfo {
        iterations: run.history.len(),
        stop,
        warnings,
        prepare_secs,
        jitter_ratio: fitting.jitter_ratio(),
        fit_secs: run.seconds() - prepare_secs,
        history: run.history,
        profile: run.profile,
    };
    Ok(Refitted { rigs, info })
}

/// Refuses what does not belong together.
fn check(rig: &Rig, subjects: &[Subject], locks: &Locks, params: &RefitParams) -> Result<(), RefitError> {
    rig.check()?;
    let (n, b) = (rig.vertex_count(), rig.bone_count());
    let sized = |what, found, expected| match found == expected {
        true => Ok(()),
        false => Err(RefitError::Size { what, found, expected }),
    };
    if subjects.is_empty() {
        return Err(RefitError::NoSubject);
    }
    if b + params.add_bones > MAX_BONES {
        let what = format!("{b} bones and {} more; at most {MAX_BONES} can be fitted", params.add_bones);
        return Err(crate::skinning::params::FitError::Unsupported(what).into());
    }
    for Subject { sequence, motion, binds } in subjects {
        let name = || sequence.name().to_owned();
        if sequence.vertex_count() != n {
            return Err(RefitError::VertexCount { rig: n, sequence: sequence.vertex_count(), name: name() });
        }
        match motion {
            Some(motion) => sized("motion", motion.len(), b * sequence.frame_count())?,
            None if params.solve == Solve::Weights => return Err(RefitError::NoMotion { name: name() }),
            None => {}
        }
        sized("binds", binds.map_or(b, <[_]>::len), b)?;
    }
    if subjects.len() > 1 && locks.bones.contains(&true) && subjects.iter().any(|s| s.motion.is_none()) {
        let what = "bones can be locked only where their motion is known, and it is not for every subject";
        return Err(crate::skinning::params::FitError::Unsupported(what.into()).into());
    }
    sized("locked bones", if locks.bones.is_empty() { b } else { locks.bones.len() }, b)?;
    sized("vertex mask", if locks.vertices.is_empty() { n } else { locks.vertices.len() }, n)?;
    match locks.vertices.iter().position(|m| !(0.0..=1.0).contains(m)) {
        Some(vertex) => Err(RefitError::Mask { vertex, value: locks.vertices[vertex] }),
        None => Ok(()),
    }
}

/// Whether two rounds' errors differ by too little to go on.
fn converged(last: f64, now: f64, tolerance: f64) -> Option<StopReason> {
    if now < 1e-6 {
        Some(StopReason::Exact)
    } else if now > last * (1.0 - tolerance) {
        Some(StopReason::Converged)
    } else {
        None
    }
}
