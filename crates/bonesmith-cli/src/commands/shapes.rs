//! `bonesmith shapes`: the shapes of a face go in, bones that they drive come out.

use std::time::Instant;

use bonesmith::core::shapes::{Numbers, ShapesParams};
use bonesmith::io::{Format, Needs};
use bonesmith::{DriverRule, ModelKind, ShapesOptions};
use bonesmith_core::Stage;

use crate::args::{ShapesArgs, TargetArg};
use crate::errors::Outcome;
use crate::session::Session;
use crate::settings;

pub fn run(args: ShapesArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let options = options(&args)?;
    let input = settings::input(args.inputs, args.input)?;
    // A format that holds no bones driven by shapes holds their rig.
    let holds = Format::from_extension(&args.output).is_some_and(|format| format.writes(ModelKind::ShapeBones));
    let needs = Needs::of(if holds { ModelKind::ShapeBones } else { ModelKind::Rig });
    let output = settings::output(args.output, needs.influences(Some(options.params.influences)))?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    let files: Vec<_> = input.files().into_iter().chain(options.importance.file()).chain(args.drivers).collect();
    session.claim(&files, std::slice::from_ref(&output), json.as_ref(), report.as_ref())?;

    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let face = session.take(input.face()?);
    let load_secs = started.elapsed().as_secs_f64();
    session.check_outputs()?;
    let fit = bonesmith::shapes(&face, &options, session)?;
    let saved = fit.save(&output, session)?;
    let mut summary = fit.summary(&saved, &face)?;
    summary.seconds.add_load(load_secs);
    let notes = match &report {
        Some(target) => super::write_page(&summary.saved_scene(&saved, &face.shapes), target, session)?,
        None => None,
    };
    super::report(&summary, notes.as_slice(), json.as_ref(), !session.quiet, session)?;
    Ok(super::outcome(&summary))
}

fn options(args: &ShapesArgs) -> anyhow::Result<ShapesOptions> {
    let defaults = ShapesParams::default();
    let mut options = ShapesOptions::default();
    options.params = ShapesParams {
        bones: args.bones.unwrap_or(defaults.bones),
        influences: args.influences.unwrap_or(defaults.influences),
        kind: args.kind.into(),
        numbers: match (args.numbers, args.target_error) {
            (Some(count), _) => Numbers::Count(count),
            (None, Some(TargetArg::Error(e_rms))) => Numbers::TargetError(e_rms),
            _ => Numbers::All,
        },
        mirror: args.mirror.map(Into::into),
        pieces: args.pieces,
        shading: args.shading.unwrap_or(defaults.shading),
        norm: args.norm.unwrap_or_default(),
        area: args.area,
        seed: args.seed,
        max_seconds: args.max_seconds,
        ..defaults
    };
    if let Some(TargetArg::Distance(distance)) = args.target_error {
        options.target_distance = Some(distance);
    }
    options.importance = settings::mask(args.importance.as_deref());
    options.drivers = args.drivers.as_deref().map(DriverRule::read).transpose()?.unwrap_or_default();
    options.params.validate().map_err(bonesmith::Error::from)?;
    Ok(options)
}
