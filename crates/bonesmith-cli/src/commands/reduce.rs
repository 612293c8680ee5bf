//! `bonesmith reduce`: fewer influences per vertex, the same bones.

use bonesmith::core::mesh::laplacian::Laplacian;
use bonesmith::core::reduce::ReduceParams;
use bonesmith::io::Needs;
use bonesmith::{Layout, ModelKind, Shape};

use super::simplify::{self, Target};
use crate::args::ReduceArgs;
use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::settings;

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
    let engine = args.target.target();
    if let Some(target) = engine {
        settings::imports(target, &args.output)?;
        settings::influences_for(target, Some(params.influences))?;
    }
    let json = settings::json(args.json)?;
    let output = settings::output(args.output, Needs::of(ModelKind::Rig).influences(Some(params.influences)))?;
    let compact = settings::compact(args.compact, Layout::Skin, &output)?;
    let report = settings::report(&args.report)?;
    let examples = settings::input(args.examples, args.input)?;
    let inputs: Vec<_> = examples.files().into_iter().chain([args.rig.clone()]).collect();
    session.claim(&inputs, std::slice::from_ref(&output), json.as_ref(), report.as_ref())?;

    let (source, load_secs) = simplify::read(args.rig, &examples, args.normalise, session)?;
    let mut made = bonesmith::reduce(&source, &params, session)?;
    if super::suit(&mut made.model, engine, &output, Layout::Skin, session)? != Layout::Skin {
        let message = format!("{} bones are too many for one skin there", source.rig.bone_count());
        return Err(Usage::new(message).hint("write it without --target, then use convert --target").into());
    }
    let target = Target { output, shape: Shape::Runtime, compact, report, json };
    simplify::finish(made, &source, load_secs, &target, session)
}
