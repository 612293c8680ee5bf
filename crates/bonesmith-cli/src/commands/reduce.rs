//! `bonesmith reduce`: fewer influences per vertex, the same bones.

use std::time::Instant;

use bonesmith_core::fit::Warning;
use bonesmith_core::mesh::laplacian::Laplacian;
use bonesmith_core::reduce::{ReduceMethod, ReduceParams, reduce};
use serde_json::json;

use super::simplify::{Report, Source};
use crate::args::ReduceArgs;
use crate::errors::Outcome;
use crate::session::Session;
use crate::settings;
use crate::summary::influence_warning;

pub fn run(args: ReduceArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let defaults = ReduceParams::default();
    let params = ReduceParams {
        influences: args.influences,
        method: args.method.into(),
        laplacian: Laplacian::from(args.laplacian),
        smooth: args.smooth.unwrap_or(defaults.smooth),
        refit_motion: args.refit_motion,
        ..defaults
    };
    params.validate()?;
    let json_target = settings::json(args.json)?;
    let output = settings::output(args.output)?;
    let page = settings::report(&args.report)?;
    let examples = settings::input(args.examples, args.input)?;
    let inputs: Vec<_> = examples.files().into_iter().chain([args.rig.clone()]).collect();
    session.claim(&inputs, std::slice::from_ref(&output), json_target.as_ref(), page.as_ref())?;
    let source = Source::read(args.rig, examples, args.normalise, session)?;

    let started = Instant::now();
    let mut reduced = reduce(&source.rig, source.examples.as_ref(), &params, session)?;
    let fit = started.elapsed().as_secs_f64();
    let mut warnings = Vec::new();
    if reduced.info.nothing_to_do {
        let (most, asked) = (reduced.info.influences_before, params.influences);
        let text = format!("no vertex has more than {most} influences, {asked} were asked for: nothing to take away");
        warnings.push(Warning::Note { text });
    }
    if !reduced.info.converged {
        let text = format!("stopped after {} iterations, still improving", reduced.info.iterations);
        warnings.push(Warning::Note { text });
    }
    session.stage("writing")?;
    let export_started = Instant::now();
    let before = serde_json::from_str::<serde_json::Value>(&source.rig.params_json).unwrap_or_default();
    reduced.rig.params_json =
        json!({ "version": env!("CARGO_PKG_VERSION"), "reduce": params, "from": before }).to_string();
    session.heed(|| bonesmith_io::save_rig(&reduced.rig, &output))?;
    let export = export_started.elapsed().as_secs_f64();
    warnings.extend(influence_warning(&reduced.rig, &output));
    session.stage("measuring the file")?;
    let mut report = Report {
        method: method_name(params.method),
        influences: reduced.rig.weights.max_influences(),
        iterations: reduced.info.iterations,
        stop: if reduced.info.converged { "converged" } else { "max-iterations" },
        warnings,
        params: json!(params),
        extra: json!({ "influences_before": reduced.info.influences_before }),
        rows: vec![(
            "influences",
            format!(
                "at most {} of {} bones per vertex, {} before; {}",
                reduced.rig.weights.max_influences(),
                source.rig.bone_count(),
                reduced.info.influences_before,
                method_name(params.method)
            ),
        )],
        ..Report::measured("reduce", &source, output, [fit, export])?
    };
    let page = report.write_page(page.as_ref(), &reduced.rig, source.reference(), session);
    report.show(json_target.as_ref(), session)?;
    page?;
    Ok(Outcome::Done)
}

pub fn method_name(method: ReduceMethod) -> &'static str {
    match method {
        ReduceMethod::Bonesmith => "bonesmith",
        ReduceMethod::KLargest => "k-largest",
        ReduceMethod::Smooth => "smooth",
        ReduceMethod::Geometric => "geometric",
        ReduceMethod::Poisson => "poisson",
    }
}
