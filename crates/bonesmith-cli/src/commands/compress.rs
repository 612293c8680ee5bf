//! `bonesmith compress`: weights in two layers.

use bonesmith::core::compress::{TwoLayerParams, TwoLayerSize};
use bonesmith::io::Needs;
use bonesmith::{Layout, ModelKind, Shape};

use super::simplify::{self, Target};
use crate::args::CompressArgs;
use crate::errors::Outcome;
use crate::session::Session;
use crate::settings;

pub fn run(args: CompressArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let params = params(&args);
    params.validate()?;
    let json = settings::json(args.json)?;
    let shape = settings::compressed_shape(args.shape, &args.output);
    let kind = if shape == Shape::Baked { ModelKind::Rig } else { ModelKind::TwoLayer };
    let output = settings::output(args.output, Needs::of(kind))?;
    let compact = settings::compact(args.compact, Layout::Skin, &output)?;
    let report = settings::report(&args.report)?;
    let examples = settings::input(args.examples, args.input)?;
    let inputs: Vec<_> = examples.files().into_iter().chain([args.rig.clone()]).collect();
    session.claim(&inputs, std::slice::from_ref(&output), json.as_ref(), report.as_ref())?;

    let (source, load_secs) = simplify::read(args.rig, &examples, args.normalise, session)?;
    let made = bonesmith::compress(&source, &params, session)?;
    simplify::finish(made, &source, load_secs, &Target { output, shape, compact, report, json }, session)
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
        keep_motion: args.keep_motion,
        keep_rest: args.keep_rest,
        allow_larger: args.force,
        ..defaults
    }
}
