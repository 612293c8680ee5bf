//! `bonesmith eval`: how far a rig is from an animation.

use std::time::Instant;

use bonesmith::text::file_name;
use bonesmith::{Error, Summary, in_order_of, measured_clips};
use bonesmith_core::Stage;

use crate::args::EvalArgs;
use crate::errors::Outcome;
#[cfg(feature = "gpu")]
use crate::errors::Usage;
use crate::session::Session;
use crate::settings;

pub fn run(args: EvalArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let rig_input = settings::input(vec![args.rig], Default::default())?;
    let input = settings::input(args.inputs, args.input)?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    let inputs = [input.files(), rig_input.files()].concat();
    session.claim(&inputs, &[], json.as_ref(), report.as_ref())?;
    session.read_in_blocks();

    #[cfg(not(feature = "gpu"))]
    if args.gpu {
        return Err(super::without_gpu("--gpu").into());
    }
    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let path = &rig_input.paths[0];
    let model = session.take(rig_input.rigged()?);
    let sequence = session.take(input.reference(model.view(), args.clip.as_deref())?);
    let model = session.take(in_order_of(model, &sequence, path)?);
    let model = model.view();
    let clips = measured_clips(model, args.clip.as_deref(), &sequence)?;
    let load_secs = started.elapsed().as_secs_f64();

    session.stage(Stage::Measuring)?;
    let started = Instant::now();
    let measured = Summary::measured(model, &clips, &sequence);
    let mut summary = measured.map_err(|source| Error::Metrics { file: path.clone(), source })?;
    #[cfg(feature = "gpu")]
    if args.gpu {
        let mut posed = Vec::new();
        for &clip in &clips {
            let (frames, name) = bonesmith::gpu::poses_of(model, clip).map_err(|error| match error {
                Error::Unsupported(what) => anyhow::Error::from(Usage::new(format!("--gpu: {what}"))),
                other => other.into(),
            })?;
            posed.extend(frames);
            summary.gpu = Some(name);
        }
        summary.metrics = Some(bonesmith::core::metrics::compare(&sequence, |t| posed[t].clone()));
    }
    summary.seconds.evaluate = started.elapsed().as_secs_f64();
    summary.seconds.total = summary.seconds.evaluate;
    summary.seconds.add_load(load_secs);
    let page = match &report {
        Some(target) => {
            let scene = summary.scene(&file_name(path), model, clips, &sequence);
            super::write_page(&scene, target, session)?.filter(|_| !session.quiet)
        }
        None => None,
    };
    // The table is the result: --quiet only silences the progress.
    super::report(&summary, page.as_slice(), json.as_ref(), true, session)?;
    Ok(Outcome::Done)
}
