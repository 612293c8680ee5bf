//! `bonesmith fit` with a rig that is there already, with several clips, or with several subjects.

use std::path::PathBuf;
use std::time::Instant;

use bonesmith::refit::{SubjectInput, fit_clips, read_clips};
use bonesmith::{Layout, Model};
use bonesmith_core::Stage;

use super::refit_plan::Plan;
use crate::args::FitArgs;
use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::settings;

/// Whether inputs without a rig are more than one clip. Missing files are refused.
pub fn are_several_clips(inputs: &[PathBuf]) -> anyhow::Result<bool> {
    settings::input(inputs.to_vec(), Default::default())?;
    Ok(bonesmith::io::clip_sources(inputs)?.len() > 1)
}

pub fn run(args: FitArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let (plan, json) = Plan::new(args)?;
    let (outputs, reports): (Vec<_>, Vec<_>) = plan.outputs().into_iter().unzip();
    let pages = reports.iter().flatten().map(|target| target.path.clone());
    let written: Vec<_> = outputs.iter().cloned().chain(pages).collect();
    session.claim(&plan.files(), &written, json.as_ref(), None)?;
    if plan.rig.is_some() || plan.fit.reads_blocks() {
        session.read_in_blocks();
    }

    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let rig = match &plan.rig {
        Some(rig) => Some(session.take(rig.rig()?)),
        None => None,
    };
    let subjects = subjects(&plan, session)?;
    let load_secs = started.elapsed().as_secs_f64();
    session.check_outputs()?;
    for subject in &subjects {
        if let (Some(target), [first, ..]) = (plan.engine, subject.clips.as_slice()) {
            target.check_animation(&first.sequence.surface().topology, subject.clips.len())?;
        }
    }
    let mut fit = match &rig {
        Some(rig) => bonesmith::refit::refit(rig, subjects, &plan.refit, session)?,
        None => fit_clips(subjects, &plan.fit, session)?,
    };
    for (rig, output) in fit.rigs.iter_mut().zip(&outputs) {
        let mut model = Model::from(rig.clone());
        let layout = super::suit(&mut model, plan.engine, output, Layout::Skin, session)?;
        if layout != Layout::Skin {
            let message =
                format!("{} bones are too many for one skin, and several clips are written as one", rig.bone_count());
            return Err(Usage::new(message).hint("write it without --target, then use convert --target").into());
        }
        if let Model::Rig(suited) = model {
            *rig = suited;
        }
    }
    let saved = match &plan.compact {
        Some(compact) => fit.save_compact(&outputs, compact, session)?,
        None => fit.save(&outputs, session)?,
    };
    session.worker.as_ref().map(|worker| worker.draw(saved[0].model.view())).transpose()?;
    let mut summaries = fit.summaries(&saved)?;
    summaries[0].seconds.add_load(load_secs);
    // A page for each subject, named as its rig.
    let mut notes = Vec::new();
    for (((summary, saved), body), target) in summaries.iter().zip(&saved).zip(&fit.bodies).zip(reports) {
        let Some(target) = target else { continue };
        notes.extend(super::write_page(&summary.saved_scene(saved, &body.sequence), &target, session)?);
    }
    let summary = &summaries[0];
    super::report(summary, &notes, json.as_ref(), !session.quiet, session)?;
    Ok(super::outcome(summary))
}

/// The rig's own body first, then the others.
fn subjects(plan: &Plan, session: &mut Session) -> anyhow::Result<Vec<SubjectInput>> {
    let mut subjects = Vec::new();
    if !plan.inputs.is_empty() {
        subjects.push(SubjectInput::new(session.take(read_clips(&plan.inputs, &plan.input)?)));
    }
    for subject in &plan.subjects {
        let clips = session.take(read_clips(&subject.clips, &plan.input)?);
        let mut rest = bonesmith::io::load_rest(&subject.rest)?;
        rest.label = subject.rest.display().to_string();
        subjects.push(SubjectInput::with_rest(rest, clips));
    }
    Ok(subjects)
}
