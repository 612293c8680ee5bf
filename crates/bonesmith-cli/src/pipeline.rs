//! Fit, export, read back, measure: what `fit` and `demo` have in common.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use bonesmith_core::fit::{BoneCount, FitParams, Fitted, Warning};
use bonesmith_core::methods::fit;
use bonesmith_core::skeleton::{self, SkeletonInfo, SkeletonParams};
use bonesmith_core::{CorrectiveRig, MeshSequence, Model, ModelRef, corrective, metrics};
use bonesmith_io::LoadOptions;
use glam::Vec3;
use serde_json::json;

use crate::errors::Outcome;
use crate::load;
use crate::memory::Memory;
use crate::reports;
use crate::session::Session;
use crate::settings::ReportTarget;
use crate::summary::{FitPart, Seconds, SkeletonPart, Summary, influence_warning};

/// A target error counts as reached within this fraction: the file holds float32.
const TARGET_SLACK: f64 = 1e-3;

/// What to fit and where to put it.
pub struct Job {
    pub params: FitParams,
    /// `None`: loose bones.
    pub skeleton: Option<SkeletonParams>,
    /// Corrective shapes; `None`: none.
    pub eigenskin: Option<usize>,
    /// Pieces as nodes, no skin.
    pub pieces: bool,
    pub output: PathBuf,
    pub picture: Option<PathBuf>,
}

impl Job {
    fn fit(&self, sequence: &MeshSequence, session: &mut Session) -> anyhow::Result<(Fitted, Option<SkeletonInfo>)> {
        let Some(params) = &self.skeleton else { return Ok((fit(sequence, &self.params, session)?, None)) };
        let found = skeleton::skeleton(sequence, &self.params, params, session)?;
        Ok((Fitted { rig: found.rig, info: found.info }, Some(found.skeleton)))
    }

    /// Parameters as they are stored in the output.
    fn stored_params(&self) -> String {
        let mut params = json!({ "version": env!("CARGO_PKG_VERSION"), "fit": self.params });
        if let Some(skeleton) = &self.skeleton {
            params["skeleton"] = json!(skeleton);
        }
        if let Some(rank) = self.eigenskin {
            params["eigenskin"] = json!(rank);
        }
        params.to_string()
    }
}

/// Fits `sequence`, writes `output`, and measures what was written, which is returned. `load_secs` is what reading took.
pub fn fit_and_export(
    sequence: &MeshSequence,
    load_secs: f64,
    job: Job,
    session: &mut Session,
) -> anyhow::Result<(Summary, Model)> {
    let started = Instant::now();
    session.stage("preparing")?;
    let (mut fitted, skeleton_info) = job.fit(sequence, session)?;
    let shaped = job.eigenskin.map(|rank| corrective::eigenskin(&fitted.rig, sequence, rank, session)).transpose()?;
    let memory = Memory::so_far();
    let fit_wall_secs = started.elapsed().as_secs_f64();

    session.stage("writing")?;
    let export_started = Instant::now();
    fitted.rig.params_json = job.stored_params();
    let Job { params, skeleton, output, picture, pieces, .. } = job;
    let mut warnings = fitted.info.warnings.clone();
    warnings.extend(influence_warning(&fitted.rig, &output));
    let made = match shaped {
        Some(CorrectiveRig { shapes, .. }) => Model::from(CorrectiveRig { rig: fitted.rig, shapes }),
        None => fitted.rig.into(),
    };
    let order = match (pieces, made.view().rig()) {
        (true, Some(rig)) => {
            session.heed(|| bonesmith_io::save_pieces(rig, &output))?;
            bonesmith_io::piece_order(rig)
        }
        _ => {
            session.heed(|| bonesmith_io::save_model(&made, &output))?;
            None
        }
    };
    let export = export_started.elapsed().as_secs_f64();
    if let (Some(path), Some(rig)) = (&picture, made.view().rig()) {
        bonesmith_io::save_picture(rig, path)?;
    }

    session.stage("measuring the file")?;
    let evaluate_started = Instant::now();
    let reading = "reading back what was written";
    let (exported, mut summary) = match order {
        None => {
            drop(made);
            let exported = bonesmith_io::load_rigged(&output).context(reading)?;
            let summary = Summary::measured(&exported, 0, sequence).context("measuring what was written")?;
            (exported, summary)
        }
        // A mesh animation, its vertices piece by piece; the model is the rig that it was written from.
        Some(order) => {
            let raw = bonesmith_io::load_sequence(std::slice::from_ref(&output), &LoadOptions::default());
            let summary = measured_nodes(&load::check(raw.context(reading)?)?, &order, made.view(), sequence)?;
            (made, summary)
        }
    };
    summary.seconds = Seconds {
        load: load_secs,
        prepare: fitted.info.prepare_secs,
        fit: fitted.info.fit_secs,
        export,
        total: load_secs + fit_wall_secs + export,
        evaluate: evaluate_started.elapsed().as_secs_f64(),
    };
    summary.bone_kind = params.bone_kind;
    note_missed_target(&params, &summary, &mut warnings);
    summary.warnings = warnings;
    let file_bytes = bonesmith_io::file_bytes(&output);
    let method = params.method.name();
    let skeleton = skeleton.zip(skeleton_info).map(|(params, info)| SkeletonPart { params, info });
    let params = json!(params);
    summary.fit = Some(FitPart { params, method, info: fitted.info, skeleton, memory, output, file_bytes });
    session.finish_progress();
    Ok((summary, exported))
}

/// Writes the report of a fit, and notes so in its summary. Should it fail, the fit is to be told of all the same.
pub fn report(
    command: &str,
    summary: &mut Summary,
    model: ModelRef<'_>,
    sequence: &MeshSequence,
    target: &ReportTarget,
    session: &mut Session,
) -> anyhow::Result<()> {
    session.stage("writing the report")?;
    let clips = reports::fitted_clips(model, summary);
    let name = summary.fit.as_ref().map_or_else(|| summary.name.clone(), |fit| reports::file_name(&fit.output));
    let scene = reports::of_summary(command, &name, summary, model, clips, sequence);
    let written = reports::write(&scene, target)?;
    summary.notes.push(written);
    session.finish_progress();
    Ok(())
}

/// Measures pieces that were written as nodes; `order` says which vertices they are.
fn measured_nodes(
    read: &MeshSequence,
    order: &[u32],
    model: ModelRef<'_>,
    sequence: &MeshSequence,
) -> anyhow::Result<Summary> {
    let (vertices, frames) = (read.vertex_count(), read.frame_count());
    if (vertices, frames) != (sequence.vertex_count(), sequence.frame_count()) {
        anyhow::bail!("measuring what was written: {vertices} vertices and {frames} frames were read back");
    }
    let in_place = |t: usize| {
        let mut positions = vec![Vec3::ZERO; vertices];
        order.iter().zip(read.frame(t)).for_each(|(&i, p)| positions[i as usize] = *p);
        positions
    };
    Ok(Summary::new(model, sequence, metrics::compare(sequence, in_place)))
}

/// The fit judges its own float64 numbers; what counts is the file.
fn note_missed_target(params: &FitParams, summary: &Summary, warnings: &mut Vec<Warning>) {
    let (reached, bones) = (summary.metrics.e_rms, summary.bones);
    for warning in warnings.iter_mut() {
        if let Warning::AutoMissed { reached: of_file, .. } = warning {
            *of_file = reached;
        }
    }
    let BoneCount::TargetError(target) = params.bones else { return };
    warnings.retain(|w| !matches!(w, Warning::TargetMissed { .. }));
    if reached > target * (1.0 + TARGET_SLACK) {
        warnings.push(Warning::TargetMissed { target, reached, bones });
    }
}

/// 1 when a requested error was not reached.
pub fn outcome(summary: &Summary) -> Outcome {
    match summary.warnings.iter().any(|w| matches!(w, Warning::TargetMissed { .. })) {
        true => Outcome::QualityMissed,
        false => Outcome::Done,
    }
}
