//! `bonesmith convert`: the same rig or animation in another format.

use bonesmith_core::{CorrectiveRig, Model, RawSequence, Surface};
use bonesmith_io::Format;

use crate::args::ConvertArgs;
use crate::errors::{Outcome, Usage};
use crate::load;
use crate::models::find_clip;
use crate::output::{bytes, print};
use crate::session::Session;
use crate::settings::{self, Input};

pub fn run(args: ConvertArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let mut paths = args.paths;
    let output = paths.pop().ok_or_else(|| Usage::new("nothing to convert"))?;
    let changes_frames = args.input.rest.is_some() || args.input.frames.is_some();
    let input = settings::input(paths, args.input)?;
    let output = settings::output_as(output, &writable())?;
    session.claim(&input.files(), std::slice::from_ref(&output), None, None)?;

    session.stage("reading")?;
    let format = Format::from_extension(&output);
    let holds = |formats: &[Format]| format.is_some_and(|format| formats.contains(&format));
    // A format that holds no rigs can only take the poses of one.
    let bake = args.bake || !holds(Format::RIG_OUTPUTS);
    let model = session.heed(|| read(&input, bake, args.clip.as_deref()))?;
    let is_animation = matches!(model, Model::Sequence(_));
    if !is_animation && changes_frames {
        let message = "--rest and --frames are for animations; this file holds a rig";
        return Err(Usage::new(message).hint("--bake makes an animation of it first").into());
    }
    session.stage("writing")?;
    let model = match model {
        // Formats without a place for two layers get the rig that they make together.
        Model::TwoLayer(two) if !holds(Format::LAYERED_OUTPUTS) => two.bake().into(),
        Model::Corrective(CorrectiveRig { rig, shapes }) if !holds(Format::CORRECTIVE_OUTPUTS) => {
            session.warn(&format!("{} shapes are left out: this format is written without any", shapes.len()));
            rig.into()
        }
        model => model,
    };
    session.heed(|| bonesmith_io::save_model(&model, &output))?;
    session.finish_progress();
    if !session.quiet {
        let what = if is_animation { "an animation" } else { "a rig" };
        let size = bonesmith_io::file_bytes(&output);
        print(&format!("{}: {what}, {}\n", output.display(), bytes(size)))?;
    }
    Ok(Outcome::Done)
}

/// Every format that a rig or an animation can be written as.
fn writable() -> Vec<Format> {
    let more = Format::SEQUENCE_OUTPUTS.iter().filter(|format| !Format::RIG_OUTPUTS.contains(format));
    Format::RIG_OUTPUTS.iter().chain(more).copied().collect()
}

/// A rig of any kind where there is one, unless it is to be baked; else an animation. A basis is one too.
fn read(input: &Input, bake: bool, clip: Option<&str>) -> anyhow::Result<Model> {
    let path = &input.paths[0];
    // Readers know more than the rig does: shape keys, and what lies between keys.
    let knows_more = || matches!(bonesmith_io::detect(path), Ok(Format::Fbx));
    if bake && clip.is_none() && (input.load.fps.is_some() || knows_more()) {
        return Ok(load::sequence(input)?.into());
    }
    let mut model = bonesmith_io::load_model_with(&input.paths, &input.load, |raw| load::picked(raw, input, path))?;
    if clip.is_some() && model.view().rig().is_none() {
        let message = format!("--clip picks from the animations of a rig, and {} is none", path.display());
        return Err(Usage::new(message).into());
    }
    let only = clip.map(|name| find_clip(model.view(), Some(name))).transpose()?;
    match (&mut model, only) {
        (Model::Sequence(_), _) => Ok(model),
        (Model::Basis(_), _) => baked(&model, input, only),
        _ if bake => baked(&model, input, only),
        (other, Some(only)) => {
            keep_clip(other, only);
            Ok(model)
        }
        (_, None) => Ok(model),
    }
}

/// Leaves one clip of a rig of any kind.
fn keep_clip(model: &mut Model, only: usize) {
    let clips = match model {
        Model::Rig(rig) => &mut rig.clips,
        Model::TwoLayer(two) => &mut two.master.clips,
        Model::Ddm(ddm) => &mut ddm.rig.clips,
        Model::Corrective(corrective) => {
            for shape in &mut corrective.shapes {
                let weights = shape.weights.swap_remove(only);
                shape.weights = vec![weights];
            }
            &mut corrective.rig.clips
        }
        _ => return,
    };
    let clip = clips.swap_remove(only);
    *clips = vec![clip];
}

/// The animation of all clips, or of one, at their own frames; of a rig without any, the pose it stands in.
fn baked(model: &Model, input: &Input, only: Option<usize>) -> anyhow::Result<Model> {
    match bonesmith_io::baked_clips(model.view(), only) {
        Some(raw) => Ok(load::picked(raw, input, &input.paths[0])?.into()),
        None => {
            let rest = model.view().rest().to_vec();
            let raw = RawSequence {
                name: model.view().name().to_owned(),
                frames: vec![rest.into()],
                surface: Surface::clone(model.view().surface()),
                ..RawSequence::default()
            };
            Ok(load::picked(raw, input, &input.paths[0])?.into())
        }
    }
}
