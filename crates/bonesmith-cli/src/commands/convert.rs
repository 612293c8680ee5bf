//! `bonesmith convert`: the same rig or animation in another format.

use std::path::Path;

use bonesmith::io::{Format, Needs};
use bonesmith::{ConvertOptions, Input, Layout, Model, ModelKind, Saved, Warning, simplified_for};
use bonesmith_core::Stage;

use crate::args::ConvertArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, print};
use crate::session::Session;
use crate::settings;

pub fn run(args: ConvertArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut paths = args.paths;
    let output = paths.pop().ok_or_else(|| Usage::new("nothing to convert"))?;
    let changes_frames = args.input.rest.is_some() || args.input.frames.is_some();
    let input = settings::input(paths, args.input)?;
    let layout = settings::skins(args.max_joints, 1)?;
    let motion = settings::motion(&args.motion)?;
    let target = args.target.target();
    let output = match layout {
        Layout::Skin => settings::any_output(output)?,
        _ => {
            let output = settings::output(output, Needs::of(ModelKind::Rig).skins());
            output.map_err(|usage| usage.because("--max-joints"))?
        }
    };
    if let Some(target) = target {
        settings::imports(target, &output)?;
    }
    let compact = settings::compact(args.compact, layout, &output)?;
    if args.curves.is_some() && args.clip.is_some() {
        let message = "--clip has no effect with --curves: the curves are the clip";
        return Err(Usage::new(message).into());
    }
    let files: Vec<_> = input.files().into_iter().chain(args.curves.clone()).collect();
    session.claim(&files, std::slice::from_ref(&output), None, None)?;
    // The writer of FBX holds all shapes.
    if !matches!(Format::from_extension(&output), Some(Format::Fbx)) {
        session.read_in_blocks();
    }

    session.stage(Stage::Reading)?;
    let mut options = ConvertOptions::default();
    // A format that holds no rigs can only take the poses of one.
    let holds_rigs = Format::from_extension(&output).is_some_and(|format| format.writes(ModelKind::Rig));
    options.bake = args.bake || !holds_rigs;
    options.clip = args.clip;
    options.plain = layout != Layout::Skin;
    let model = match &args.curves {
        None => session.take(input.convertible(&options)?),
        Some(curves) => baked(&input, curves, &options, session)?,
    };
    let is_animation = matches!(model, Model::Sequence(_));
    if !is_animation && changes_frames {
        let message = "--rest and --frames are for animations; this file holds a rig";
        return Err(Usage::new(message).hint("--bake makes an animation of it first").into());
    }
    if layout != Layout::Skin && !matches!(model, Model::Rig(_)) {
        let what = model.view().kind().text();
        return Err(Usage::new(format!("--max-joints divides a plain rig, and this file holds {what}")).into());
    }
    session.stage(Stage::Writing)?;
    let mut model = session.take(simplified_for(model, &output));
    if is_animation && !motion.is_none() {
        let message = "--root-motion and --loop change the clips of a rig; this file holds an animation";
        return Err(Usage::new(message).hint("fit makes a rig of it").into());
    }
    let moved = bonesmith::move_clips(&mut model, &motion, None)?;
    if is_animation && target.is_some() {
        return Err(Usage::new("--target is for rigs; this file holds an animation")
            .hint("fit makes a rig of it")
            .into());
    }
    if is_animation && compact.is_some() {
        let message = "--compact writes rigs; this file holds an animation";
        return Err(Usage::new(message).hint("fit makes a rig of it").into());
    }
    let layout = super::suit(&mut model, target, &output, layout, session)?;
    moved.warnings.iter().for_each(|warning| session.warn_of(warning));
    let small = match &compact {
        Some(options) => {
            settings::one_skin(layout)?;
            for file in input.files().iter().filter(|file| bonesmith::io::is_compressed(file)) {
                session.warn_of(&Warning::SmallAlready { input: file.display().to_string() });
            }
            let saved = Saved::write_compact(&model, &output, options, None, session)?;
            saved.warnings.iter().for_each(|warning| session.warn_of(warning));
            Some(saved)
        }
        None => {
            session.take(bonesmith::save_as(&model, &output, layout)?);
            None
        }
    };
    session.finish_progress();
    if !session.quiet {
        let what = if is_animation { "an animation" } else { "a rig" };
        let size = bonesmith::io::file_bytes(&output);
        print(&format!("{}: {what}, {}\n", output.display(), bytes(size)))?;
        print(&crate::tables::motion_lines(&moved.part))?;
        if let Some(part) = small.and_then(|saved| saved.compact) {
            print(&format!("{}\n", part.text()))?;
            if session.verbose {
                part.details().iter().try_for_each(|line| print(&format!("  {line}\n")))?;
            }
        }
    }
    Ok(Outcome::Done)
}

/// The rig of a face with a clip of curves, or its poses.
fn baked(input: &Input, curves: &Path, options: &ConvertOptions, session: &mut Session) -> anyhow::Result<Model> {
    let Model::ShapeBones(face) = session.take(input.rigged()?) else {
        return Err(Usage::new("--curves bakes bones driven by shapes, and this file holds none")
            .hint("bonesmith shapes makes them")
            .into());
    };
    let weights = bonesmith::io::load_curves(curves, input.fps)?;
    let rig = session.take(bonesmith::bake_curves(&face, &weights, curves)?);
    match options.bake {
        false => Ok(rig.into()),
        true => {
            let frames = bonesmith::baked(&rig)?;
            Ok(frames.ok_or_else(|| Usage::new("--curves: there are no frames"))?.into())
        }
    }
}
