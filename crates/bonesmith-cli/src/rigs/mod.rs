//! `bonesmith fit` with a rig that is there already, with several clips, or with several subjects.
//!
//! `plan` (what was asked, checked) -> `clips` (read, matched with the rig's animations) -> `align` (do they share space
//! and time?) -> fit -> `write` (files, read back and measured).

mod align;
mod clips;
mod plan;
mod write;

use std::path::PathBuf;
use std::time::Instant;

use bonesmith_core::Rig;
use bonesmith_core::fit::{FitInfo, Warning};
use bonesmith_core::methods::fit;
use bonesmith_core::refit::subjects::transferred_binds;
use bonesmith_core::refit::{Locks, RefitError, Refitted, Solve, Subject, refit};

use crate::args::FitArgs;
use crate::commands;
use crate::errors::{Outcome, Usage};
use crate::memory::Memory;
use crate::session::Session;
use crate::{pipeline, settings};

use clips::Body;
use plan::Plan;

/// Whether inputs without a rig are more than one clip. Missing files are told by the usual path.
pub fn are_several_clips(inputs: &[PathBuf]) -> anyhow::Result<bool> {
    settings::input(inputs.to_vec(), Default::default())?;
    Ok(bonesmith_io::clip_sources(inputs)?.len() > 1)
}

pub fn run(args: FitArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let (plan, json) = Plan::new(args)?;
    let (outputs, reports): (Vec<_>, Vec<_>) = plan.outputs().into_iter().unzip();
    let outputs: Vec<_> = outputs.into_iter().chain(reports.into_iter().flatten().map(|target| target.path)).collect();
    session.claim(&plan.files(), &outputs, json.as_ref(), None)?;
    session.stage("reading")?;
    let started = Instant::now();
    let rig = plan.rig.as_ref().map(|path| session.heed(|| bonesmith_io::load_rig(path))).transpose()?;
    let mut warnings = Vec::new();
    let mut bodies = clips::read(&plan, rig.as_ref(), session, &mut warnings)?;
    let locks = match &rig {
        Some(rig) => plan.locks(rig)?,
        None => Locks::default(),
    };
    let load_secs = started.elapsed().as_secs_f64();
    let fit_started = Instant::now();
    let (rigs, info) = solve(&plan, rig.as_ref(), &mut bodies, &locks, session)?;
    let memory = Memory::so_far();
    warnings.extend(info.warnings.iter().cloned());
    let timed = write::Timed { load: load_secs, fit_wall: fit_started.elapsed().as_secs_f64(), memory };
    let (summary, pages) = write::export(&plan, rig.as_ref(), rigs, &bodies, info, timed, warnings, session)?;
    commands::report(&summary, json.as_ref(), !session.quiet, session)?;
    pages?;
    Ok(pipeline::outcome(&summary))
}

/// A rig for each body, each with one clip of all its frames.
fn solve(
    plan: &Plan,
    rig: Option<&Rig>,
    bodies: &mut [Body],
    locks: &Locks,
    session: &mut Session,
) -> anyhow::Result<(Vec<Rig>, FitInfo)> {
    session.stage("preparing")?;
    let Some(rig) = rig else {
        let fitted = fit(&bodies[0].sequence, &plan.fit, session)?;
        let [first, others @ ..] = bodies else { return Err(Usage::new("nothing to fit").into()) };
        if others.is_empty() {
            return Ok((vec![fitted.rig], fitted.info));
        }
        // The first body has found its bones; now all share weights.
        first.motion = Some(fitted.rig.clips[0].posed_from_rest.clone());
        for body in std::iter::once(&mut *first).chain(others) {
            body.at_home(&fitted.rig)?;
        }
        let Refitted { rigs, info } = share(&fitted.rig, bodies, locks, plan, session)?;
        return Ok((rigs, info));
    };
    let Refitted { rigs, mut info } = share(rig, bodies, locks, plan, session)?;
    if plan.refit.solve == Solve::Motion && rig.weights.max_influences() == 1 && rig.bone_count() > 1 {
        let text = "every vertex of the rig hangs on one bone only; --solve both fits weights too".to_owned();
        info.warnings.push(Warning::Note { text });
    }
    Ok((rigs, info))
}

fn share(rig: &Rig, bodies: &[Body], locks: &Locks, plan: &Plan, session: &mut Session) -> anyhow::Result<Refitted> {
    let binds: Vec<_> =
        bodies.iter().map(|body| body.own_rest.then(|| transferred_binds(rig, body.sequence.rest()))).collect();
    let subjects: Vec<Subject> = bodies
        .iter()
        .zip(&binds)
        .map(|(body, binds)| Subject {
            sequence: &body.sequence,
            motion: body.motion.as_deref(),
            binds: binds.as_deref(),
        })
        .collect();
    // A cancel must be seen as one, however deep it lies.
    refit(rig, &subjects, locks, &plan.refit, session).map_err(|error| match error {
        RefitError::Fit(error) => error.into(),
        error => error.into(),
    })
}
