//! `bonesmith convert`: the same rig or animation in another format.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith_core::{RawFrame, RawSequence, Rig};
use bonesmith_io::{Format, IoError, LoadOptions, Loaded};

use glam::Vec3;

use crate::args::ConvertArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, print};
use crate::session::Session;
use crate::{load, pipeline, settings};

pub fn run(args: ConvertArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut paths = args.paths;
    let output = paths.pop().ok_or_else(|| Usage::new("nothing to convert"))?;
    let changes_frames = args.input.rest.is_some() || args.input.frames.is_some();
    let input = settings::input(paths, args.input)?;
    let output = settings::output_as(output, &input.paths, &writable())?;

    session.stage("reading")?;
    // A format that holds no rigs can only take what the rig does.
    let bake = args.bake || !Format::from_extension(&output).is_some_and(|f| Format::RIG_OUTPUTS.contains(&f));
    let what = match read(&input.paths, &input.load, bake)? {
        Loaded::Rig(_) if changes_frames => {
            let message = "--rest and --frames are for animations; this file holds a rig";
            return Err(Usage::new(message).hint("--bake makes an animation of it first").into());
        }
        Loaded::Rig(rig) => {
            session.stage("writing")?;
            let path = &input.paths[0];
            // Formats without a place for two layers get the rig that they make together.
            let both = matches!(Format::from_extension(&output), Some(Format::Npz | Format::Glb | Format::Gltf));
            match (bonesmith_io::load_two_layer(path)?.filter(|_| both), bonesmith_io::load_ddm(path)?) {
                (Some(two), _) => bonesmith_io::save_two_layer(&two, &output)?,
                (None, Some(ddm)) => bonesmith_io::save_ddm(&ddm, &output)?,
                (None, None) => save_plain(&rig, path, &output, session)?,
            }
            "a rig"
        }
        Loaded::Sequence(raw) => {
            let sequence =
                load::check(load::pick(raw, &input)?).with_context(|| input.paths[0].display().to_string())?;
            session.stage("writing")?;
            bonesmith_io::save_sequence(&sequence, &output)?;
            "an animation"
        }
    };
    session.finish_progress();
    if !session.quiet {
        let size = pipeline::file_bytes(&output);
        print(&format!("{}: {what}, {}\n", output.display(), bytes(size)))?;
    }
    Ok(Outcome::Done)
}

/// A rig, with its shapes where it has any and the format holds them.
fn save_plain(rig: &Rig, input: &Path, output: &Path, session: &Session) -> anyhow::Result<()> {
    let Some(shaped) = bonesmith_io::load_shaped(input)? else { return Ok(bonesmith_io::save_rig(rig, output)?) };
    if Format::from_extension(output).is_some_and(|format| Format::SHAPED_OUTPUTS.contains(&format)) {
        return Ok(bonesmith_io::save_rig_with_shapes(&shaped.rig, &shaped.shapes, output)?);
    }
    session.warn(&format!("{} shapes are left out: this format is written without any", shaped.shapes.len()));
    Ok(bonesmith_io::save_rig(rig, output)?)
}

/// Whatever a rig or an animation can be written as.
fn writable() -> Vec<Format> {
    let more = Format::SEQUENCE_OUTPUTS.iter().filter(|format| !Format::RIG_OUTPUTS.contains(format));
    Format::RIG_OUTPUTS.iter().chain(more).copied().collect()
}

/// A rig where there is one, unless it is to be baked; else an animation.
fn read(paths: &[PathBuf], options: &LoadOptions, bake: bool) -> anyhow::Result<Loaded> {
    // Readers know more than the rig does: shape keys, and what lies between keys.
    let knows_more = || matches!(bonesmith_io::detect(&paths[0]), Ok(Format::Fbx));
    if bake && (options.fps.is_some() || knows_more()) {
        return Ok(Loaded::Sequence(bonesmith_io::load_sequence(paths, options)?));
    }
    // Multi-weights are no plain skinning: whoever reads them as a rig sees less.
    if bake
        && let [path] = paths
        && let Some(ddm) = bonesmith_io::load_ddm(path)?
    {
        return Ok(Loaded::Sequence(posed(&ddm.rig, |t| {
            bonesmith_core::ddm::evaluate(&ddm, ddm.rig.clips[0].frame(t))
        })?));
    }
    if bake
        && let [path] = paths
        && let Some(shaped) = bonesmith_io::load_shaped(path)?
    {
        return Ok(Loaded::Sequence(posed(&shaped.rig, |t| shaped.posed(0, t))?));
    }
    match load_any(paths, options)? {
        Loaded::Rig(rig) if bake => Ok(Loaded::Sequence(baked(&rig)?)),
        loaded => Ok(loaded),
    }
}

/// Whatever one file holds; several files or a folder can only be an animation.
pub fn load_any(paths: &[PathBuf], options: &LoadOptions) -> Result<Loaded, IoError> {
    match paths {
        [path] if path.is_file() => bonesmith_io::load(path, options),
        paths => bonesmith_io::load_sequence(paths, options).map(Loaded::Sequence),
    }
}

/// The animation that a rig's first clip makes, at its own frames.
fn baked(rig: &Rig) -> Result<RawSequence, Usage> {
    posed(rig, |t| bonesmith_core::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)))
}

fn posed(rig: &Rig, posed: impl Fn(usize) -> Vec<Vec3>) -> Result<RawSequence, Usage> {
    let clip = rig.clips.first().ok_or_else(|| Usage::new("--bake: the rig has no animation"))?;
    let frame = |positions| RawFrame { positions, ..RawFrame::default() };
    Ok(RawSequence {
        name: rig.name.clone(),
        rest: Some(frame(rig.rest.clone())),
        frames: (0..clip.frame_count()).map(|t| frame(posed(t))).collect(),
        times_secs: clip.times_secs.clone(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    })
}
