//! `bonesmith fit --method svd|cpca`: an animation as trajectories that vertices mix. No rig: written as .npz only.

use std::time::Instant;

use anyhow::Context;
use bonesmith_core::fit::FitParams;
use bonesmith_core::metrics::Metrics;
use bonesmith_core::model::basis::Basis;
use bonesmith_core::{BoneKind, MeshSequence};
use bonesmith_report::Shape;
use serde_json::json;

use crate::args::FitArgs;
use crate::errors::{Outcome, Usage};
use crate::memory::Memory;
use crate::output::count;
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
    let output = settings::basis_output(args.output, &input.paths, params.method)?;
    let json_target = settings::json(args.json)?;
    let others: Vec<_> = input.paths.iter().chain([&output]).cloned().collect();
    let report = settings::report(&args.report, &others, json_target.as_ref())?;

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
    bonesmith_io::save_basis(&found.basis, &output)?;
    let export = started.elapsed().as_secs_f64();

    session.stage("measuring the file")?;
    let started = Instant::now();
    let stored = bonesmith_io::load_basis(&output).context("reading back what was written")?;
    let stored = stored.context("what was written is no basis")?;
    let metrics = bonesmith_core::metrics::evaluate_basis(&stored, &sequence).context("measuring what was written")?;
    let mut summary = summary(&stored, &sequence, metrics);
    summary.seconds = Seconds {
        load: load_secs,
        prepare: found.info.prepare_secs,
        fit: found.info.fit_secs,
        export,
        total: load_secs + fit_wall_secs + export,
        evaluate: started.elapsed().as_secs_f64(),
    };
    summary.warnings = found.info.warnings.clone();
    let file_bytes = pipeline::file_bytes(&output);
    let (method, info, params) = (name, found.info, json!(params));
    summary.fit = Some(FitPart { params, method, info, skeleton: None, memory, output, file_bytes });
    session.finish_progress();
    let page =
        report.map(|target| pipeline::report("fit", &mut summary, Shape::Basis(&stored), &sequence, &target, session));
    super::report(&summary, json_target.as_ref(), !session.quiet, session)?;
    page.transpose()?;
    Ok(pipeline::outcome(&summary))
}

/// The figures of a basis: as many bones as would have its numbers in every frame.
pub fn summary(basis: &Basis, sequence: &MeshSequence, metrics: Metrics) -> Summary {
    let clusters = count(basis.cluster_count, "cluster");
    Summary {
        name: sequence.name().to_owned(),
        vertices: sequence.vertex_count(),
        faces: sequence.surface().topology.face_count(),
        frames: sequence.frame_count(),
        bones: (basis.cluster_count * basis.dimension).div_ceil(4),
        influences: basis.dimension,
        bone_kind: BoneKind::Affine,
        metrics,
        seconds: Seconds::default(),
        warnings: Vec::new(),
        sequence_bytes: sequence.position_bytes(),
        storage_bytes: basis.bytes(),
        shapes: None,
        gpu: None,
        fit: None,
        stored_params: basis.params_json.clone(),
        layers: Some(format!("no bones: {clusters} of {}", count(basis.dimension, "column"))),
        clips: Vec::new(),
        subjects: Vec::new(),
        notes: Vec::new(),
    }
}
