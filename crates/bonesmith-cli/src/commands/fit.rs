//! `bonesmith fit`: an animation goes in, a rig comes out.

use std::path::Path;
use std::time::Instant;

use bonesmith_core::fit::Method;

use super::basis;
use crate::args::{FitArgs, PiecesArg};
use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::{load, pipeline, rigs, settings};

pub fn run(args: FitArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    if args.rig.is_used() || rigs::are_several_clips(&args.inputs)? {
        if args.skeleton.skeleton {
            let message =
                "--skeleton finds its own bones in one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).hint("give one animation that holds all the motion").into());
        }
        if args.pieces == PiecesArg::Nodes {
            let message = "--pieces nodes writes the fit of one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).into());
        }
        if args.eigenskin.is_some() {
            let message = "--eigenskin corrects the fit of one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).into());
        }
        settings::plain_errors(&args.solver, "--rig, nor with several animations")?;
        return rigs::run(args, session);
    }
    let mut params = settings::solver(&args.solver)?;
    if args.skeleton.skeleton {
        settings::plain_errors(&args.solver, "--skeleton")?;
    }
    if args.solver.importance.is_some() && params.method != Method::Bonesmith {
        settings::plain_errors(&args.solver, &format!("--method {}", params.method.name()))?;
    }
    if !params.method.makes_rigs() {
        return basis::run(args, params, session);
    }
    let skeleton = settings::skeleton(&args.skeleton, &params)?;
    let picture = settings::picture(args.skeleton.picture)?;
    let input = settings::input(args.inputs, args.input)?;
    let output = settings::output(args.output)?;
    settings::influences_fit(&output, &params)?;
    let eigenskin = settings::eigenskin(args.eigenskin, &output)?;
    let pieces = settings::pieces(args.pieces, &output, eigenskin)?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    let outputs: Vec<_> = [&output].into_iter().chain(&picture).cloned().collect();
    let of_importance = args.solver.importance.iter().filter(|source| *source != Path::new("color")).cloned();
    let files: Vec<_> = input.files().into_iter().chain(of_importance).collect();
    session.claim(&files, &outputs, json.as_ref(), report.as_ref())?;

    session.stage("reading")?;
    let started = Instant::now();
    let sequence = load::animation(&input, session)?;
    params.importance = args.solver.importance.map(|source| load::importance(&source, &sequence)).transpose()?;
    let load_secs = started.elapsed().as_secs_f64();
    let job = pipeline::Job { params, skeleton, eigenskin, pieces, output, picture };
    let (mut summary, written) = pipeline::fit_and_export(&sequence, load_secs, job, session)?;
    let page = report.map(|target| pipeline::report("fit", &mut summary, written.view(), &sequence, &target, session));
    super::report(&summary, json.as_ref(), !session.quiet, session)?;
    page.transpose()?;
    Ok(pipeline::outcome(&summary))
}
