//! `bonesmith fit --method svd|cpca`: an animation as trajectories that vertices mix. No rig: written as .npz only.

use std::time::Instant;

use anyhow::Context;
use bonesmith_core::fit::FitParams;
use serde_json::json;

use crate::args::FitArgs;
use crate::errors::{Outcome, Usage};
use crate::memory::Memory;
use crate::session::Session;
use crate::summary::{FitPart, Seconds, Summary};
use crate::{load, pipeline, settings};

pub fn run(args: FitArgs, params: FitParams, session: &mut Session) -> anyhow::Result<Outcome> {
    let name = params.method.name();
    if args.skeleton.skeleton || args.eigenskin.is_some() {
        let message = format!("--method {name} makes no rig: --skeleton and --eigenskin have nothing to work on");
        return Err(Usage::new(message).into());
    }
    let input = settings::input(args.inputs, args.input)?;
    let output = settings::basis_output(args.output, params.method)?;
    let json_target = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    session.claim(&input.files(), std::slice::from_ref(&output), json_target.as_ref(), report.as_ref())?;

    session.stage("reading")?;
    let started = Instant::now();
    let sequence = load::animation(&input, session)?;
    let load_secs = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut found = bonesmith_core::methods::represent(&sequence, &params, session)?;
    let memory = Memory::so_far();
    let fit_wall_secs = started.elapsed().as_secs_f64();
    session.stage("writing")?;
    let started = Instant::now();
    found.basis.params_json = json!({ "version": env!("CARGO_PKG_VERSION"), "fit": params }).to_string();
    bonesmith_io::save_model(&found.basis, &output)?;
    let export = started.elapsed().as_secs_f64();

    session.stage("measuring the file")?;
    let started = Instant::now();
    let stored = bonesmith_io::load_rigged(&output).context("reading back what was written")?;
    let mut summary = Summary::measured(&stored, 0, &sequence).context("measuring what was written")?;
    summary.seconds = Seconds {
        load: load_secs,
        prepare: found.info.prepare_secs,
        fit: found.info.fit_secs,
        export,
        total: load_secs + fit_wall_secs + export,
        evaluate: started.elapsed().as_secs_f64(),
    };
    summary.warnings = found.info.warnings.clone();
    let file_bytes = bonesmith_io::file_bytes(&output);
    let (method, info, params) = (name, found.info, json!(params));
    summary.fit = Some(FitPart { params, method, info, skeleton: None, memory, output, file_bytes });
    session.finish_progress();
    let page = report.map(|target| pipeline::report("fit", &mut summary, stored.view(), &sequence, &target, session));
    super::report(&summary, json_target.as_ref(), !session.quiet, session)?;
    page.transpose()?;
    Ok(pipeline::outcome(&summary))
}
