//! `bonesmith compress`: weights in two layers.

use std::path::Path;
use std::time::Instant;

use bonesmith_core::compress::{CompressStop, Compressed, TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::fit::Warning;
use serde_json::{Value, json};

use super::simplify::{Report, Source};
use crate::args::{CompressArgs, ShapeArg};
use crate::errors::Outcome;
use crate::output::figure;
use crate::session::Session;
use crate::settings;

/// A target error counts as reached within this fraction: the file holds float32.
const TARGET_SLACK: f64 = 1e-3;

pub fn run(args: CompressArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let params = params(&args);
    params.validate()?;
    let json_target = settings::json(args.json)?;
    let output = settings::output(args.output)?;
    let page = settings::report(&args.report)?;
    let examples = settings::input(args.examples, args.input)?;
    let inputs: Vec<_> = examples.files().into_iter().chain([args.rig.clone()]).collect();
    session.claim(&inputs, std::slice::from_ref(&output), json_target.as_ref(), page.as_ref())?;
    let shape = args.shape.unwrap_or(if is_npz(&output) { ShapeArg::Runtime } else { ShapeArg::Baked });
    let source = Source::read(args.rig, examples, args.normalise, session)?;

    let started = Instant::now();
    let Compressed { mut rig, info } = compress(&source.rig, source.examples.as_ref(), &params, session)?;
    let fit = started.elapsed().as_secs_f64();
    session.stage("writing")?;
    let export_started = Instant::now();
    let before = serde_json::from_str::<Value>(&source.rig.params_json).unwrap_or_default();
    rig.master.params_json =
        json!({ "version": env!("CARGO_PKG_VERSION"), "compress": params, "from": before }).to_string();
    session.heed(|| match shape {
        ShapeArg::Baked => bonesmith_io::save_rig(&rig.bake(), &output),
        ShapeArg::Runtime => bonesmith_io::save_model(&rig, &output),
    })?;
    let export = export_started.elapsed().as_secs_f64();
    session.stage("measuring the file")?;
    let measured = Report::measured("compress", &source, output, [fit, export])?;
    let error = info.history.last().map_or(0.0, |(_, error)| *error);
    let poses = source.examples.is_some() || (source.own.is_some() && !params.weights_only);
    let reached = measured.metrics.as_ref().filter(|_| poses).map_or(error, |m| m.e_rms);
    let mut warnings = Vec::new();
    if let TwoLayerSize::TargetError(target) = params.size
        && reached > target * (1.0 + TARGET_SLACK)
    {
        warnings.push(Warning::TargetMissed { target, reached, bones: rig.virtual_count() });
    }
    let missed = !warnings.is_empty();
    let sizes = Sizes::new(&source.rig, &rig);
    let mut report = Report {
        method: "two-layer",
        influences: rig.weights.max_influences(),
        iterations: info.rounds,
        stop: match info.stop {
            CompressStop::Full => "full",
            CompressStop::Reached => "reached",
            CompressStop::Exact => "exact",
        },
        warnings,
        params: json!(params),
        extra: json!({
            "virtual_bones": rig.virtual_count(),
            "master_influences": rig.blends.slots(),
            "blends_per_vertex": rig.blends_per_vertex(),
            "weight_bytes": sizes,
            "history": info.history,
            "dense_optimum": info.dense_optimum,
            "weight_error": (!poses).then_some(error),
            "shape": if shape == ShapeArg::Baked { "baked" } else { "runtime" },
        }),
        rows: rows(&rig, &sizes, (!poses).then_some(error)),
        ..measured
    };
    let page = report.write_page(page.as_ref(), &rig, source.reference(), session);
    report.show(json_target.as_ref(), session)?;
    page?;
    Ok(if missed { Outcome::QualityMissed } else { Outcome::Done })
}

fn is_npz(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

fn params(args: &CompressArgs) -> TwoLayerParams {
    let defaults = TwoLayerParams::default();
    let size = match (args.virtual_bones, args.target_error, args.influences_equivalent) {
        (Some(m), ..) => TwoLayerSize::VirtualBones(m),
        (_, Some(e), _) => TwoLayerSize::TargetError(e),
        (.., Some(k)) => TwoLayerSize::Equivalent(k),
        _ => defaults.size,
    };
    TwoLayerParams {
        size,
        influences: args.layer_influences,
        master_influences: args.master_influences,
        weights_only: args.weights_only,
        thorough: args.thorough,
        ..defaults
    }
}

/// Bytes of the weights at run time: 16-bit indices, 32-bit weights.
#[derive(Clone, Copy, Debug, serde::Serialize)]
pub struct Sizes {
    pub two_layer: usize,
    pub four_influences: usize,
    /// As many slots as the vertex with most influences needs.
    pub given: usize,
    /// Transforms of virtual bones, 3x4 floats, that each frame needs room for.
    pub virtual_transforms: usize,
}

impl Sizes {
    pub fn new(given: &bonesmith_core::Rig, two: &bonesmith_core::TwoLayerRig) -> Self {
        const SLOT: usize = 2 + 4;
        let n = given.vertex_count();
        Self {
            two_layer: SLOT * (two.virtual_count() * two.blends.slots() + n * two.weights.slots()),
            four_influences: SLOT * 4 * n,
            given: SLOT * given.weights.max_influences() * n,
            virtual_transforms: 48 * two.virtual_count(),
        }
    }
}

fn rows(rig: &bonesmith_core::TwoLayerRig, sizes: &Sizes, weight_error: Option<f64>) -> Vec<(&'static str, String)> {
    let layers = format!(
        "{} virtual bones of at most {} bones; at most {} per vertex: the cost of {} influences",
        rig.virtual_count(),
        rig.blends.slots(),
        rig.weights.max_influences(),
        figure(rig.blends_per_vertex())
    );
    let share = |bytes: usize| format!("{:.0} %", 100.0 * sizes.two_layer as f64 / bytes.max(1) as f64);
    let memory = format!(
        "{}: {} of 4 influences, {} of the rig that was given",
        crate::output::bytes(sizes.two_layer as u64),
        share(sizes.four_influences),
        share(sizes.given)
    );
    let mut rows = vec![("layers", layers), ("weights", memory)];
    if let Some(error) = weight_error {
        rows.push(("change", format!("{:<9} thousandths, root mean square over all weights", figure(error))));
    }
    rows
}
