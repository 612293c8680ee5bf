//! `bonesmith convert`: the same rig or animation in another format.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith_core::{DdmRig, RawSequence, Rig, ShapedRig, TwoLayerRig, deform};
use bonesmith_io::{Format, IoError, LoadOptions, Loaded};

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
    let format = Format::from_extension(&output);
    let holds = |formats: &[Format]| format.is_some_and(|format| formats.contains(&format));
    // A format that holds no rigs can only take what the rig does.
    let bake = args.bake || !holds(Format::RIG_OUTPUTS);
    let found = session.heed(|| read(&input.paths, &input.load, bake))?;
    let is_animation = matches!(found, Found::Sequence(_));
    if !is_animation && changes_frames {
        let message = "--rest and --frames are for animations; this file holds a rig";
        return Err(Usage::new(message).hint("--bake makes an animation of it first").into());
    }
    session.stage("writing")?;
    match found {
        // Formats without a place for two layers get the rig that they make together.
        Found::TwoLayer(two) => session.heed(|| match holds(&[Format::Npz, Format::Glb, Format::Gltf]) {
            true => bonesmith_io::save_two_layer(&two, &output),
            false => bonesmith_io::save_rig(&two.bake(), &output),
        })?,
        Found::Ddm(ddm) => session.heed(|| bonesmith_io::save_ddm(&ddm, &output))?,
        Found::Shaped(ShapedRig { rig, shapes }) if holds(Format::SHAPED_OUTPUTS) => {
            session.heed(|| bonesmith_io::save_rig_with_shapes(&rig, &shapes, &output))?;
        }
        Found::Shaped(ShapedRig { rig, shapes }) => {
            session.warn(&format!("{} shapes are left out: this format is written without any", shapes.len()));
            session.heed(|| bonesmith_io::save_rig(&rig, &output))?;
        }
        Found::Rig(rig) => session.heed(|| bonesmith_io::save_rig(&rig, &output))?,
        Found::Sequence(raw) => {
            let picked = session.heed(|| load::pick(raw, &input))?;
            let sequence = load::check(picked).with_context(|| input.paths[0].display().to_string())?;
            session.heed(|| bonesmith_io::save_sequence(&sequence, &output))?;
        }
    }
    session.finish_progress();
    if !session.quiet {
        let what = if is_animation { "an animation" } else { "a rig" };
        let size = pipeline::file_bytes(&output);
        print(&format!("{}: {what}, {}\n", output.display(), bytes(size)))?;
    }
    Ok(Outcome::Done)
}

/// What a file was found to hold.
#[allow(clippy::large_enum_variant, reason = "there is one per run")]
enum Found {
    TwoLayer(TwoLayerRig),
    Ddm(DdmRig),
    Shaped(ShapedRig),
    Rig(Rig),
    Sequence(RawSequence),
}

/// Whatever a rig or an animation can be written as.
fn writable() -> Vec<Format> {
    let more = Format::SEQUENCE_OUTPUTS.iter().filter(|format| !Format::RIG_OUTPUTS.contains(format));
    Format::RIG_OUTPUTS.iter().chain(more).copied().collect()
}

/// A rig of any kind where there is one, unless it is to be baked; else an animation.
fn read(paths: &[PathBuf], options: &LoadOptions, bake: bool) -> anyhow::Result<Found> {
    // Readers know more than the rig does: shape keys, and what lies between keys.
    let knows_more = || matches!(bonesmith_io::detect(&paths[0]), Ok(Format::Fbx));
    if bake && (options.fps.is_some() || knows_more()) {
        return Ok(Found::Sequence(bonesmith_io::load_sequence(paths, options)?));
    }
    // One mesh of several is a plain rig.
    let rig = match paths {
        [path] if options.mesh.is_none() => read_whole(path)?,
        _ => None,
    };
    let rig = match rig {
        Some(rig) => rig,
        None => match load_any(paths, options)? {
            Loaded::Rig(rig) => Found::Rig(*rig),
            Loaded::Sequence(raw) => Found::Sequence(raw),
        },
    };
    Ok(if bake { Found::Sequence(baked(rig)?) } else { rig })
}

/// Rigs that are more than bones and weights: whoever reads them as plain ones sees less.
fn read_whole(path: &Path) -> anyhow::Result<Option<Found>> {
    if let Some(two) = bonesmith_io::load_two_layer(path)? {
        return Ok(Some(Found::TwoLayer(two)));
    }
    if let Some(ddm) = bonesmith_io::load_ddm(path)? {
        return Ok(Some(Found::Ddm(ddm)));
    }
    Ok(bonesmith_io::load_shaped(path)?.map(Found::Shaped))
}

/// Whatever one file holds; several files or a folder can only be an animation.
pub fn load_any(paths: &[PathBuf], options: &LoadOptions) -> Result<Loaded, IoError> {
    match paths {
        [path] if path.is_file() => bonesmith_io::load(path, options),
        paths => bonesmith_io::load_sequence(paths, options).map(Loaded::Sequence),
    }
}

/// The animation that a rig's first clip makes, at its own frames.
fn baked(found: Found) -> Result<RawSequence, Usage> {
    let baked = match found {
        Found::TwoLayer(two) => two.master.animation(|t| deform::two_layer(&two, two.master.clips[0].frame(t))),
        Found::Ddm(ddm) => ddm.rig.animation(|t| bonesmith_core::deform::ddm_f64(&ddm, ddm.rig.clips[0].frame(t))),
        Found::Shaped(shaped) => shaped.rig.animation(|t| shaped.posed(0, t)),
        Found::Rig(rig) => rig.animation(|t| deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t))),
        Found::Sequence(raw) => Some(raw),
    };
    baked.ok_or_else(|| Usage::new("--bake: the rig has no animation"))
}
