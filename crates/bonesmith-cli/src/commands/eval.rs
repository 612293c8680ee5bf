//! `bonesmith eval`: how far a rig is from an animation.

use std::time::Instant;

use anyhow::Context;

use crate::args::EvalArgs;
use crate::errors::Outcome;
use crate::models::find_clip;
use crate::session::Session;
use crate::summary::Summary;
use crate::{load, reports, settings};

pub fn run(args: EvalArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let rig_input = settings::input(vec![args.rig], Default::default())?;
    let input = settings::input(args.inputs, args.input)?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    let inputs = [input.files(), rig_input.files()].concat();
    session.claim(&inputs, &[], json.as_ref(), report.as_ref())?;

    session.stage("reading")?;
    let started = Instant::now();
    let path = &rig_input.paths[0];
    let model = session.heed(|| bonesmith_io::load_rigged(path))?;
    let model = model.view();
    let clip = find_clip(model, args.clip.as_deref())?;
    let sequence = load::animation(&input, session)?;
    let load_secs = started.elapsed().as_secs_f64();

    session.stage("measuring")?;
    let started = Instant::now();
    let measured = Summary::measured(model, clip, &sequence);
    let mut summary = measured.with_context(|| format!("{} cannot be compared", path.display()))?;
    #[cfg(feature = "gpu")]
    if args.gpu
        && let Some((posed, name)) = super::gpu::poses_of(model, clip)?
    {
        summary.metrics = bonesmith_core::metrics::compare(&sequence, |t| posed[t].clone());
        summary.gpu = Some(name);
    }
    summary.seconds.load = load_secs;
    summary.seconds.evaluate = started.elapsed().as_secs_f64();
    summary.seconds.total = load_secs + summary.seconds.evaluate;
    session.finish_progress();
    // The table is the result: --quiet only silences the progress.
    super::report(&summary, json.as_ref(), true, session)?;
    if let Some(target) = &report {
        let name = reports::file_name(path);
        let scene = reports::of_summary("eval", &name, &summary, model, vec![clip], &sequence);
        reports::write_and_tell(&scene, target, json.as_ref(), session)?;
    }
    Ok(Outcome::Done)
}
