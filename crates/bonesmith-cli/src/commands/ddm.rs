//! `bonesmith ddm`: Direct Delta Mush, classic Delta Mush, and the compression.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bonesmith_core::ddm::compress::{DdmCompressInfo, DdmCompressParams, DdmStop, RangeOfMotion, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, DeltaMush, Frames, precompute, rigid_bind};
use bonesmith_core::metrics::Metrics;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::{DdmRig, MeshSequence, ModelRef, Rig};
use glam::Vec3;
use serde_json::{Value, json};

use super::simplify::Report;
use crate::args::{DdmArgs, DdmCompressArgs, MapArg, ShapeArg};
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, figure};
use crate::session::Session;
use crate::summary::Seconds;
use crate::{load, models, reports, settings};

pub fn run(args: DdmArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let params = params(&args);
    params.validate()?;
    let variant = Variant::try_from(args.variant).map_err(|e| Usage::new(format!("--variant: {e}")))?;
    let json_target = settings::json(args.json.clone())?;
    let range = args.compress.range_of_motion.as_deref().filter(|text| text.parse::<f64>().is_err());
    let inputs: Vec<PathBuf> =
        [&args.rig].into_iter().chain(&args.maps).cloned().chain(range.map(PathBuf::from)).collect();
    settings::input(inputs.clone(), Default::default())?;
    let output = settings::output(args.output.clone())?;
    let page = settings::report(&args.report)?;
    session.claim(&inputs, std::slice::from_ref(&output), json_target.as_ref(), page.as_ref())?;
    let maps = args.maps.as_deref().map(bonesmith_io::load_ddm_maps).transpose()?.unwrap_or_default();
    let compression = compression(&args.compress)?;
    session.stage("reading")?;
    let started = Instant::now();
    let given = session.heed(|| bonesmith_io::load_rig(&args.rig))?;
    let rig = if args.rigid_bind { rigid_bind(&given) } else { given };
    let load = started.elapsed().as_secs_f64();
    if args.delta_mush {
        return delta_mush(&rig, &params, &maps, &output, page.as_ref(), session);
    }
    let started = Instant::now();
    let full = precompute(&rig, &params, &maps, session)?;
    let prepare = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let mut info = None;
    let mut made = match &compression {
        Some(params) => {
            let (made, how) = compress(&full, params, session)?;
            info = Some(how);
            made
        }
        None => full.with_variant(variant),
    };
    let fit = started.elapsed().as_secs_f64();
    session.stage("writing")?;
    let started = Instant::now();
    let before = serde_json::from_str::<Value>(&rig.params_json).unwrap_or_default();
    let stored = json!({ "ddm": params, "rigid_bind": args.rigid_bind, "variant": variant, "compress": compression });
    made.rig.params_json = json!({ "version": env!("CARGO_PKG_VERSION"), "ddm": stored, "from": before }).to_string();
    let shape = args.shape.unwrap_or(ShapeArg::Runtime);
    session.heed(|| save(&made, shape, &output))?;
    let export = started.elapsed().as_secs_f64();
    session.stage("measuring the file")?;
    let reference = load::baked(&full)?;
    let measured = reference.as_ref().map(|sequence| models::measure_written(&output, sequence)).transpose()?;
    let seconds = Seconds { load, prepare, fit, export, total: load + prepare + fit + export, ..Default::default() };
    let mut report = Report {
        method: if info.is_some() { "ddm-compressed" } else { "ddm" },
        influences: made.layer.as_ref().map_or(made.weights.max_influences(), |layer| layer.max_influences()),
        frames: reference.as_ref().map_or(0, MeshSequence::frame_count),
        iterations: info.as_ref().map_or(0, |info| info.rounds),
        stop: stop(info.as_ref()),
        seconds,
        params: json!(stored),
        extra: extra(&full, &made, variant, shape, info.as_ref(), measured.as_ref()),
        rows: rows(&full, &made, info.as_ref(), measured.as_ref()),
        metrics: measured,
        ..Report::new("ddm", &rig, output)
    };
    let page = report.write_page(page.as_ref(), &made, reference.as_ref(), session);
    report.show(json_target.as_ref(), session)?;
    page?;
    Ok(Outcome::Done)
}

fn stop(info: Option<&DdmCompressInfo>) -> &'static str {
    match info.map(|info| info.stop) {
        None => "done",
        Some(DdmStop::Converged) => "converged",
        Some(DdmStop::MaxRounds) => "max-rounds",
        Some(DdmStop::Exact) => "exact",
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
            Err(_) => RangeOfMotion::PerJoint(bonesmith_io::load_ranges(Path::new(text))?),
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

/// Writes the model itself, or what it does: virtual bones as joints, else frames as morph targets.
fn save(made: &DdmRig, shape: ShapeArg, output: &Path) -> anyhow::Result<()> {
    match (shape, made.bake()) {
        (ShapeArg::Runtime, _) => bonesmith_io::save_model(made, output)?,
        (ShapeArg::Baked, Some(baked)) => bonesmith_io::save_rig(&baked, output)?,
        (ShapeArg::Baked, None) => {
            let frames =
                load::baked(made)?.ok_or_else(|| Usage::new("--shape baked: the rig has no animation to bake"))?;
            bonesmith_io::save_sequence(&frames, output)?;
        }
    }
    Ok(())
}

fn delta_mush(
    rig: &Rig,
    params: &DdmParams,
    maps: &DdmMaps,
    output: &Path,
    page: Option<&settings::ReportTarget>,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    session.stage("smoothing every frame")?;
    let mush = DeltaMush::new(rig, params, maps, Frames::Tangent)?;
    let frames = ModelRef::from(rig).animation(|t| mush.pose(rig.clips[0].frame(t)));
    let frames = load::check(frames.ok_or_else(|| Usage::new("--delta-mush: the rig has no animation"))?)?;
    session.stage("writing")?;
    session.heed(|| bonesmith_io::save_sequence(&frames, output))?;
    let page =
        page.map(|target| reports::write(&reports::of_frames("ddm", output, rig, &frames), target)).transpose()?;
    session.finish_progress();
    if !session.quiet {
        let size = bonesmith_io::file_bytes(output);
        crate::output::print(&format!("{}: {} frames, {}\n", output.display(), frames.frame_count(), bytes(size)))?;
        page.map(|written| crate::output::print(&format!("{written}\n"))).transpose()?;
    }
    Ok(Outcome::Done)
}

/// Root mean square distance in percent of the largest side of the rest pose's bounding box: of a person, the height.
fn percent_of_height(rig: &Rig, metrics: &Metrics) -> f64 {
    let low = rig.rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rig.rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    let rms = metrics.e_rms / 1000.0 * metrics.radius_model_units * 3f64.sqrt();
    100.0 * rms / f64::from((high - low).max_element()).max(f64::MIN_POSITIVE)
}

fn extra(
    full: &DdmRig,
    made: &DdmRig,
    variant: Variant,
    shape: ShapeArg,
    info: Option<&DdmCompressInfo>,
    measured: Option<&Metrics>,
) -> Value {
    json!({
        "against": "variant 0 in float64",
        "variant": variant,
        "shape": if shape == ShapeArg::Baked { "baked" } else { "runtime" },
        "multi_weights": made.weights.influences(),
        "virtual_bones": made.virtual_count(),
        "model_bytes": made.bytes(),
        "full_bytes": full.bytes(),
        "rms_percent_of_height": measured.map(|m| percent_of_height(&full.rig, m)),
        "rmse_fit": info.map(|info| info.rmse_fit),
        "history": info.map(|info| &info.history),
        "found_tree": info.map(|info| info.found_tree),
        "replanted": info.map(|info| info.replanted),
    })
}

fn rows(
    full: &DdmRig,
    made: &DdmRig,
    info: Option<&DdmCompressInfo>,
    measured: Option<&Metrics>,
) -> Vec<(&'static str, String)> {
    let n = full.vertex_count().max(1) as f64;
    let mut rows = vec![(
        "multi-weights",
        format!(
            "{} bones per vertex, at most {}",
            figure(full.weights.influences() as f64 / n),
            full.weights.max_influences()
        ),
    )];
    if let Some(info) = info {
        let per_bone = made.weights.influences() as f64 / made.virtual_count().max(1) as f64;
        let layer = made.layer.as_ref().map_or(0, |layer| (0..layer.vertex_count()).map(|i| layer.of(i).count()).sum());
        rows.push((
            "layers",
            format!(
                "{} virtual bones of {} bones; {} per vertex",
                made.virtual_count(),
                figure(per_bone),
                figure(layer as f64 / n)
            ),
        ));
        rows.push((
            "fit",
            format!("{:<9} root mean square over all poses in the joints' ranges", figure(info.rmse_fit)),
        ));
    }
    let ratio = full.bytes() as f64 / made.bytes().max(1) as f64;
    rows.push(("size", format!("{}: {:.1} x smaller than variant 0", bytes(made.bytes() as u64), ratio)));
    if let Some(metrics) = measured {
        let percent = percent_of_height(&full.rig, metrics);
        rows.push(("off", format!("{:<9} % of the height, root mean square against variant 0", figure(percent))));
    }
    rows
}
