//! `bonesmith ddm`: Direct Delta Mush, classic Delta Mush, and the compression.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bonesmith::core::ddm::DdmParams;
use bonesmith::core::ddm::compress::{DdmCompressParams, RangeOfMotion};
use bonesmith::core::model::ddm::Variant;
use bonesmith::io::Needs;
use bonesmith::{DdmOptions, Layout, ModelKind, Rig, Saved, Shape, SourceRig, Summary};
use bonesmith_core::Stage;

use super::simplify::{self, Target};
use crate::args::{DdmArgs, DdmCompressArgs, MapArg};
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};

pub fn run(args: DdmArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut options = DdmOptions::default();
    options.params = params(&args);
    options.params.validate()?;
    options.rigid_bind = args.rigid_bind;
    options.variant = Variant::try_from(args.variant).map_err(|e| Usage::new(format!("--variant: {e}")))?;
    let json = settings::json(args.json.clone())?;
    let range = args.compress.range_of_motion.as_deref().filter(|text| text.parse::<f64>().is_err());
    let inputs: Vec<PathBuf> =
        [&args.rig].into_iter().chain(&args.maps).cloned().chain(range.map(PathBuf::from)).collect();
    settings::input(inputs.clone(), Default::default())?;
    let shape = args.shape.map_or(Shape::Runtime, Shape::from);
    let output = settings::output(args.output.clone(), Needs::of(written_kind(&args, shape)))?;
    let compact = settings::compact(args.compact, Layout::Skin, &output)?;
    let report = settings::report(&args.report)?;
    session.claim(&inputs, std::slice::from_ref(&output), json.as_ref(), report.as_ref())?;
    if let Some(path) = &args.maps {
        options.maps = bonesmith::io::load_ddm_maps(path)?;
    }
    options.compress = compression(&args.compress)?;
    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let given = session.take(settings::input(vec![args.rig], Default::default())?.rig()?);
    let rig = options.bound(given);
    let load_secs = started.elapsed().as_secs_f64();
    session.check_outputs()?;
    let target = Target { output, shape, compact, report, json };
    if args.delta_mush {
        return delta_mush(&rig, &options, load_secs, &target, session);
    }
    let made = bonesmith::ddm(&rig, &options, session)?;
    simplify::finish(made, &SourceRig::without_poses(rig), load_secs, &target, session)
}

/// The kind of the file: baked frames where nothing is compressed.
fn written_kind(args: &DdmArgs, shape: Shape) -> ModelKind {
    match (args.delta_mush, shape, args.compress.compress) {
        (true, ..) | (false, Shape::Baked, None) => ModelKind::Sequence,
        (false, Shape::Baked, Some(_)) => ModelKind::Rig,
        (false, _, None) => ModelKind::Ddm,
        (false, _, Some(_)) => ModelKind::CompressedDdm,
    }
}

fn params(args: &DdmArgs) -> DdmParams {
    let defaults = DdmParams::default();
    DdmParams {
        rotation_smooth: args.rotation_smooth,
        translation_smooth: args.translation_smooth,
        alpha: args.alpha.unwrap_or(defaults.alpha),
        steps: args.steps.unwrap_or(defaults.steps),
        laplacian: args.laplacian.into(),
        threshold: args.threshold.unwrap_or(defaults.threshold),
        max_influences: args.max_influences.unwrap_or(defaults.max_influences),
        weld: !args.no_weld,
    }
}

fn compression(args: &DdmCompressArgs) -> anyhow::Result<Option<DdmCompressParams>> {
    let Some(virtual_bones) = args.compress else { return Ok(None) };
    let defaults = DdmCompressParams::default();
    let mut maps = defaults.maps;
    for map in &args.without {
        match map {
            MapArg::Linearisation => maps.linearisation = false,
            MapArg::Hierarchy => maps.hierarchy = false,
            MapArg::Coordinates => maps.coordinates = false,
            MapArg::Sampling => maps.sampling = false,
            MapArg::MultiWeights => {}
        }
    }
    let range = match args.range_of_motion.as_deref() {
        None => RangeOfMotion::Measured,
        Some(text) => match text.parse::<f64>() {
            Ok(degrees) => {
                RangeOfMotion::Uniform { radians: degrees.to_radians(), units: args.translation_range.unwrap_or(0.0) }
            }
            Err(_) => RangeOfMotion::PerJoint(bonesmith::io::load_ranges(Path::new(text))?),
        },
    };
    let params = DdmCompressParams {
        virtual_bones,
        influences: args.layer_influences.unwrap_or(defaults.influences),
        master_influences: args.master_influences.unwrap_or(defaults.master_influences),
        range,
        maps,
        smooth: args.smooth.unwrap_or(defaults.smooth),
        max_rounds: args.max_rounds.unwrap_or(defaults.max_rounds),
        keep_multi_weights: args.without.contains(&MapArg::MultiWeights),
        ..defaults
    };
    params.validate()?;
    Ok(Some(params))
}

/// Classic Delta Mush: the animation, smoothed frame by frame.
fn delta_mush(
    rig: &Rig,
    options: &DdmOptions,
    load_secs: f64,
    target: &Target,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    let started = Instant::now();
    let frames = bonesmith::delta_mush(rig, options, session)?;
    let fit_secs = started.elapsed().as_secs_f64();
    let saved = Saved::write(&frames, &target.output, Layout::Skin, session)?;
    let mut summary = Summary::of_delta_mush(rig, &frames, &saved, options);
    summary.seconds.fit = fit_secs;
    summary.seconds.total += fit_secs;
    summary.seconds.add_load(load_secs);
    let text = format!("Classic Delta Mush of every frame of {}.", rig.name);
    let scene = bonesmith::frames_scene("ddm", &saved, rig, text);
    let page = target.report.as_ref().map(|target| super::write_page(&scene, target, session)).transpose()?.flatten();
    session.finish_progress();
    summary.warnings.iter().for_each(|warning| session.warn_of(warning));
    if let Some(json) = &target.json {
        write_json(json, &session.with_losses(summary.to_json()))?;
    }
    if !session.quiet && target.json != Some(JsonTarget::Stdout) {
        let (path, frames, size) = (saved.path.display(), frames.frame_count(), bytes(saved.file_bytes));
        print(&format!("{path}: {frames} frames, {size}\n"))?;
        page.map(|written| print(&format!("{written}\n"))).transpose()?;
    }
    Ok(Outcome::Done)
}
