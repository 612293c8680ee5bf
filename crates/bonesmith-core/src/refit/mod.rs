//! Fits that start from a rig: its weights, its motion or both anew, parts of it locked, helper bones added.
//!
//! Minimises the same error as [`crate::fit`], `sum_it |v_it - sum_j w_ij T_jt u_i|^2`, but the rest pose `u`, the bones,
//! their tree, names and bind poses are those of a given rig, and so are `w` or `T` where they are not to be fitted:
//!
//! 1. `space`: rig and subjects in one unit space; `fitting`: what is fitted;
//! 2. `skinning::alternation`: exact weights for known motion, motion of all free bones for known weights, in turn;
//! 3. `helpers`: bones planted where the error is, and their parents;
//! 4. `space` again: back to rigs, one per subject; what was locked is copied to the bit.
//!
//! Around it: `resample` brings clips to other times, [`align`] detects that rig and sequence do not share units,
//! axes or frames, `subjects` moves the joints of a rig into another body.

pub mod align;
pub mod correspondence;
mod fitting;
mod helpers;
mod params;
pub mod resample;
mod space;
pub mod subjects;
#[cfg(test)]
mod tests;

use crate::model::Rig;
use crate::observer::{Observer, Stage};
use crate::skinning::{BoneModel, Ending, FitError, FitInfo, MAX_PAIRED_BONES, Run, State, Warning, finish};
use crate::solve::check::ensure;

pub use params::{Locks, RefitError, RefitParams, Solve, Subject};

/// A rig for each subject, with the same weights, and the record of the fit.
#[derive(Clone, Debug)]
pub struct Refitted {
    /// One per subject: its rest pose, its binds, one clip.
    pub rigs: Vec<Rig>,
    /// Rounds, errors, times and warnings.
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
    run.stage(Stage::Prepare, None)?;
    let mut fitting = fitting::start(rig, subjects, locks, params);
    run.prepared();
    let stop = fitting::descend(&mut fitting, params, &mut run)?;
    let guessed = rig.clips.is_empty() && !fitting.bones.joints.is_empty();
    let released = if guessed { fitting::release_joints(&mut fitting, &mut run)? } else { None };
    let stop = match params.add_bones {
        0 => stop,
        count => helpers::add(&mut fitting, count, params, &mut run)?,
    };
    let mut rigs = space::rigs(rig, subjects, locks, &mut fitting);
    if !params.keep_normals {
        for (rig, subject) in rigs.iter_mut().zip(subjects) {
            run.timed("normals", || finish::shade(rig, subject.sequence, None));
        }
    }
    let moves = fitting.problems.iter().any(|problem| problem.moves());
    let warnings = if moves { released.into_iter().collect() } else { vec![Warning::NoMotion] };
    // As in a fit from nothing, of the first subject.
    let model = BoneModel::new(fitting.bones.model.kind, fitting.bones.count(), 1);
    let state = State { motion: fitting.motions.swap_remove(0), skin: fitting.skin, model };
    let jitter_ratio = finish::jitter_ratio(&fitting.problems[0], &state);
    Ok(Refitted { rigs, info: run.finish(Ending { stop, iterations: None, warnings, jitter_ratio }) })
}

/// Refuses what does not belong together.
fn check(rig: &Rig, subjects: &[Subject], locks: &Locks, params: &RefitParams) -> Result<(), RefitError> {
    rig.check()?;
    let (n, b) = (rig.vertex_count(), rig.bone_count());
    let sized = |what, found, expected| ensure(found == expected, || RefitError::Size { what, found, expected });
    ensure(!subjects.is_empty(), || RefitError::NoSubject)?;
    if b + params.add_bones > MAX_PAIRED_BONES {
        let what = format!("{b} bones and {} more; at most {MAX_PAIRED_BONES} can be fitted", params.add_bones);
        return Err(FitError::Unsupported(what).into());
    }
    for Subject { sequence, motion, binds } in subjects {
        let name = || sequence.name().to_owned();
        let own = sequence.vertex_count();
        ensure(own == n, || RefitError::VertexCount { rig: n, sequence: own, name: name() })?;
        match motion {
            Some(motion) => sized("motion", motion.len(), b * sequence.frame_count())?,
            None if params.solve == Solve::Weights => return Err(RefitError::NoMotion { name: name() }),
            None => {}
        }
        sized("binds", binds.map_or(b, <[_]>::len), b)?;
    }
    if subjects.len() > 1 && locks.bones.contains(&true) && subjects.iter().any(|s| s.motion.is_none()) {
        let what = "bones can be locked only where their motion is known, and it is not for every subject";
        return Err(FitError::Unsupported(what.into()).into());
    }
    sized("locked bones", if locks.bones.is_empty() { b } else { locks.bones.len() }, b)?;
    sized("vertex mask", if locks.vertices.is_empty() { n } else { locks.vertices.len() }, n)?;
    let outside = locks.vertices.iter().position(|m| !(0.0..=1.0).contains(m));
    outside.map_or(Ok(()), |vertex| Err(RefitError::Mask { vertex, value: locks.vertices[vertex] }))
}
