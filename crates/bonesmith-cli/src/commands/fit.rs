//! `bonesmith fit`: an animation goes in, a rig comes out.

use std::path::{Path, PathBuf};
use std::time::Instant;

use bonesmith::targets::Target as Engine;
use bonesmith::{BoneCount, CompactOptions, FitOptions, Input, Layout, MeshSequence, Summary};
use bonesmith_core::Stage;

use super::refit;
use crate::args::{FitArgs, OthersArg, PiecesArg};
use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::settings::{self, JsonTarget, ReportTarget};

/// Where the results go.
pub struct Target {
    pub output: PathBuf,
    /// The file whose other meshes are written too.
    pub others: Option<Input>,
    pub layout: Layout,
    pub engine: Option<&'static Engine>,
    pub compact: Option<CompactOptions>,
    pub picture: Option<PathBuf>,
    pub report: Option<ReportTarget>,
    pub json: Option<JsonTarget>,
}

pub fn run(mut args: FitArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    settings::value_of_compact(&args.inputs, args.compact.as_ref())?;
    if args.rig.is_used() || refit::are_several_clips(&args.inputs)? {
        if args.skeleton.skeleton {
            let message =
                "--skeleton finds its own bones in one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).hint("give one animation that holds all the motion").into());
        }
        if args.pieces == PiecesArg::Nodes {
            let message = "--pieces nodes writes the fit of one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).into());
        }
        if args.max_joints.is_some() {
            let message = "--max-joints divides the fit of one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).hint("convert --max-joints divides any rig").into());
        }
        if args.others == OthersArg::Keep {
            let message = "--others keep is for the fit of one file: not with --rig, nor with several animations";
            return Err(Usage::new(message).into());
        }
        if args.eigenskin.is_some() {
            let message = "--eigenskin corrects the fit of one animation: not with --rig, nor with several animations";
            return Err(Usage::new(message).into());
        }
        settings::plain_errors(&args.solver, "--rig, nor with several animations")?;
        return refit::run(args, session);
    }
    let engine = settings::engine(&args.target, &args.output, &mut args.solver)?;
    let mut options = settings::fit_options(&args.solver)?;
    let (method, makes_rigs) = (options.params.method, options.params.method.makes_rigs());
    if !makes_rigs && (args.skeleton.skeleton || args.eigenskin.is_some()) {
        let name = method.name();
        let message = format!("--method {name} makes no rig: --skeleton and --eigenskin have nothing to work on");
        return Err(Usage::new(message).into());
    }
    options.skeleton = settings::skeleton(&args.skeleton, &options.params)?;
    let picture = settings::picture(args.skeleton.picture)?;
    let mut input = settings::input(args.inputs, args.input)?;
    input.parts = settings::parts(&args.parts)?;
    options.eigenskin = settings::eigenskin(args.eigenskin)?;
    options.motion = settings::motion(&args.motion)?;
    if args.pieces == PiecesArg::Nodes && !options.motion.is_none() {
        let message = "--root-motion and --loop are for bones: not with --pieces nodes";
        return Err(Usage::new(message).into());
    }
    if let Some(target) = engine.filter(|_| options.eigenskin.is_some()) {
        let message = format!("{} takes plain rigs: not with --eigenskin", target.title);
        return Err(Usage::new(message).into());
    }
    let layout = settings::layout(args.pieces, args.max_joints, &options)?;
    let output = settings::fit_output(args.output, &options, layout);
    let output = output.map_err(|usage| match (makes_rigs, options.eigenskin, layout) {
        (false, ..) => usage.because(&format!("--method {} makes no rig", method.name())),
        (true, Some(_), _) => usage.because("--eigenskin"),
        (true, None, Layout::Nodes) => usage.because("--pieces nodes"),
        (true, None, Layout::Skins { .. }) => usage.because("--max-joints"),
        _ => usage,
    })?;
    let compact = settings::compact(args.compact, layout, &output)?;
    if compact.is_some() && !makes_rigs {
        return Err(Usage::new(format!("--compact writes rigs; --method {} makes none", method.name())).into());
    }
    if let (Some(_), Some(target), BoneCount::Exact(bones)) = (&compact, engine, options.params.bones) {
        settings::one_skin_for(target, bones, "--compact writes one skin")?;
    }
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    let outputs: Vec<_> = [&output].into_iter().chain(&picture).cloned().collect();
    let files: Vec<_> = input.files().into_iter().chain(options.importance.file()).collect();
    session.claim(&files, &outputs, json.as_ref(), report.as_ref())?;
    if options.reads_blocks() {
        session.read_in_blocks();
    }

    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let sequence = session.take(input.animation()?);
    let load_secs = started.elapsed().as_secs_f64();
    session.check_outputs()?;
    settings::faces_fit(layout, &options.params, &sequence.surface().topology)?;
    if let Some(target) = engine {
        target.check_animation(&sequence.surface().topology, sequence.clips().len().max(1))?;
    }
    let others = (args.others == OthersArg::Keep).then_some(input);
    let target = Target { output, others, layout, engine, compact, picture, report, json };
    Ok(super::outcome(&fit_and_write("fit", &sequence, load_secs, &options, &target, session)?))
}

/// Fits, writes, reads back, measures, reports: what `fit` and `demo` have in common.
pub fn fit_and_write(
    command: &'static str,
    sequence: &MeshSequence,
    load_secs: f64,
    options: &FitOptions,
    target: &Target,
    session: &mut Session,
) -> anyhow::Result<Summary> {
    let mut fit = bonesmith::fit(sequence, options, session)?;
    if let Some(input) = &target.others {
        fit.keep_others(input)?.iter().for_each(|warning| session.warn_of(warning));
    }
    let layout = super::suit(&mut fit.model, target.engine, &target.output, target.layout, session)?;
    let saved = match &target.compact {
        Some(compact) => {
            settings::one_skin(layout)?;
            fit.save_compact(&target.output, compact, sequence, session)?
        }
        None => fit.save_as(&target.output, layout, session)?,
    };
    if let (Some(path), Some(rig)) = (&target.picture, fit.model.view().rig()) {
        save_picture(rig, path)?;
    }
    session.worker.as_ref().map(|worker| worker.draw(saved.model.view())).transpose()?;
    let mut summary = fit.summary(&saved, sequence)?;
    let sequence = &*fit.reference(sequence)?;
    summary.command = command;
    summary.seconds.add_load(load_secs);
    let notes = match &target.report {
        Some(target) => super::write_page(&summary.saved_scene(&saved, sequence), target, session)?,
        None => None,
    };
    super::report(&summary, notes.as_slice(), target.json.as_ref(), !session.quiet, session)?;
    Ok(summary)
}

fn save_picture(rig: &bonesmith::Rig, path: &Path) -> anyhow::Result<()> {
    Ok(bonesmith::io::save_picture(rig, path)?)
}
