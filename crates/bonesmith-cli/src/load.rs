//! Reading an animation as the settings say: frames picked, rest pose chosen, then checked.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use bonesmith_core::{MeshSequence, ModelRef, RawFrame, RawSequence};
use glam::Vec3;

use crate::args::{FramesArg, RestArg};
use crate::errors::Usage;
use crate::output::figure;
use crate::session::Session;
use crate::settings::Input;

/// Reads and checks an animation; warnings go to the session.
pub fn animation(input: &Input, session: &mut Session) -> anyhow::Result<MeshSequence> {
    let sequence = session.heed(|| sequence(input))?;
    if let Some(text) = foreign_rest(&sequence) {
        session.warn(&text);
    }
    Ok(sequence)
}

/// A rest pose of another size than the frames is likely one in other units: no bones explain that well.
fn foreign_rest(sequence: &MeshSequence) -> Option<String> {
    const FAR: f64 = 4.0;
    let size = |points: &[Vec3]| {
        let low = points.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        f64::from(points.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).distance(low))
    };
    let (rest, frame) = (size(sequence.rest()), size(sequence.frame(0)));
    let ratio = if rest > frame { rest / frame } else { frame / rest };
    let word = if rest > frame { "larger" } else { "smaller" };
    (ratio > FAR && ratio.is_finite()).then(|| {
        let times = figure(ratio);
        format!("the rest pose is {times} times {word} than the first frame; --rest first leaves it out")
    })
}

/// Reads and checks an animation.
pub fn sequence(input: &Input) -> anyhow::Result<MeshSequence> {
    let raw = bonesmith_io::load_sequence(&input.paths, &input.load)?;
    picked(raw, input, input.paths.first().map_or(Path::new(""), |path| path))
}

/// Applies `--rest` and `--frames`, and checks the result.
pub fn picked(raw: RawSequence, input: &Input, path: &Path) -> anyhow::Result<MeshSequence> {
    check(pick(raw, input)?).with_context(|| path.display().to_string())
}

/// The only check of the numbers of an animation.
pub fn check(raw: RawSequence) -> anyhow::Result<MeshSequence> {
    Ok(MeshSequence::try_from(raw)?)
}

/// The first clip of a model as an animation; `None` if it has none.
pub fn baked<'a>(model: impl Into<ModelRef<'a>>) -> anyhow::Result<Option<MeshSequence>> {
    model.into().baked().map(check).transpose()
}

/// Applies `--rest` and `--frames`.
pub fn pick(mut raw: RawSequence, input: &Input) -> anyhow::Result<RawSequence> {
    // Frame numbers count in the file, so the rest frame is taken before any are dropped.
    let chosen = match &input.rest {
        Some(RestArg::Frame(t)) => Some(rest_frame(&raw, *t)?),
        Some(RestArg::File(path)) => {
            let source = bonesmith_io::load_sequence(std::slice::from_ref(path), &input.load)?;
            Some(rest_of_file(source, &mut raw, path)?)
        }
        _ => None,
    };
    if let Some(frames) = input.frames {
        pick_frames(&mut raw, frames)?;
    }
    match (&input.rest, chosen) {
        (Some(RestArg::First), _) => raw.rest = None,
        (_, Some(rest)) => raw.rest = Some(rest),
        _ => {}
    }
    Ok(raw)
}

fn rest_frame(raw: &RawSequence, t: usize) -> Result<RawFrame, Usage> {
    raw.frames.get(t).cloned().ok_or_else(|| Usage::new(format!("--rest {t}: {}", available(raw))))
}

fn available(raw: &RawSequence) -> String {
    match raw.frames.len() {
        0 => "the animation has no frames".to_owned(),
        1 => "the animation has 1 frame (0)".to_owned(),
        n => format!("the animation has {n} frames (0 to {})", n - 1),
    }
}

/// The pose of another file; its faces too when the animation has none of its own.
fn rest_of_file(source: RawSequence, raw: &mut RawSequence, path: &Path) -> anyhow::Result<RawFrame> {
    let pose = source.rest.or_else(|| source.frames.into_iter().next());
    let mut pose = pose.ok_or_else(|| Usage::new(format!("{}: no mesh in there", path.display())))?;
    pose.label = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if raw.surface.topology.face_count() == 0 {
        raw.surface = source.surface;
    } else if source.surface.topology.face_count() > 0 {
        pose.topology = Some(source.surface.topology.into());
    }
    Ok(pose)
}

fn pick_frames(raw: &mut RawSequence, FramesArg { start, end }: FramesArg) -> Result<(), Usage> {
    let end = end.unwrap_or(raw.frames.len());
    if start >= end || end > raw.frames.len() {
        return Err(Usage::new(format!("--frames {start}..{end}: {}", available(raw))));
    }
    raw.frames.truncate(end);
    raw.frames.drain(..start);
    // A clip that starts at 0 is what engines want, whatever part of the animation it is.
    raw.times_secs = raw.times_secs.get(start..end).unwrap_or_default().to_vec();
    let first = raw.times_secs.first().copied().unwrap_or_default();
    raw.times_secs.iter_mut().for_each(|t| *t -= first);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(frames: usize) -> RawSequence {
        let frame = |t: usize| RawFrame { positions: vec![glam::Vec3::splat(t as f32); 4], ..RawFrame::default() };
        RawSequence {
            rest: Some(frame(99)),
            frames: (0..frames).map(frame).collect(),
            times_secs: (0..frames).map(|t| 0.5 * t as f64).collect(),
            ..RawSequence::default()
        }
    }

    fn input(rest: Option<RestArg>, frames: &str) -> Input {
        Input { paths: Vec::new(), load: Default::default(), rest, frames: frames.parse().ok() }
    }

    fn rest_x(raw: &RawSequence) -> Option<f32> {
        raw.rest.as_ref().map(|rest| rest.positions[0].x)
    }

    #[test]
    fn frames_are_cut_and_the_clock_starts_at_zero() {
        let cut = pick(raw(10), &input(None, "4..7")).unwrap();
        assert_eq!(cut.frames.iter().map(|f| f.positions[0].x).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
        assert_eq!(cut.times_secs, [0.0, 0.5, 1.0]);
        assert_eq!(rest_x(&cut), Some(99.0));
        let message = pick(raw(10), &input(None, "4..11")).unwrap_err().to_string();
        assert_eq!(message, "--frames 4..11: the animation has 10 frames (0 to 9)");
        assert!(pick(raw(10), &input(None, "10..")).is_err());
    }

    #[test]
    fn the_rest_pose_can_be_any_frame_of_the_file() {
        assert_eq!(rest_x(&pick(raw(10), &input(Some(RestArg::Frame(2)), "4..7")).unwrap()), Some(2.0));
        assert_eq!(rest_x(&pick(raw(10), &input(Some(RestArg::First), "4..7")).unwrap()), None);
        assert!(pick(raw(10), &input(Some(RestArg::Frame(10)), "")).is_err());
    }
}

/// [N] how much each vertex counts: the brightness of its colour, or numbers in a text file, separated by space, commas or lines.
pub fn importance(source: &Path, sequence: &MeshSequence) -> anyhow::Result<Arc<Vec<f32>>> {
    if source == Path::new("color") {
        let Some(brightness) = sequence.surface().brightness(sequence.vertex_count()) else {
            let message = "--importance color: the input has no vertex colours";
            return Err(Usage::new(message).hint("give a text file with a number for every vertex").into());
        };
        return Ok(Arc::new(brightness));
    }
    let text = std::fs::read_to_string(source).with_context(|| format!("{}: cannot be read", source.display()))?;
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let number = |(at, word): (usize, &str)| match word.parse::<f32>() {
        Ok(x) if x >= 0.0 && x.is_finite() => Ok(x),
        _ => {
            let word: String = word.chars().take(40).collect();
            let place = source.display();
            Err(Usage::new(format!("{place}: number {at} is {word:?}; the importance of a vertex is 0 or more")))
        }
    };
    let numbers: Vec<f32> = words.enumerate().map(number).collect::<Result<_, _>>()?;
    if numbers.len() != sequence.vertex_count() {
        let (place, found, n) = (source.display(), numbers.len(), sequence.vertex_count());
        return Err(Usage::new(format!("{place}: {found} numbers for {n} vertices")).into());
    }
    Ok(Arc::new(numbers))
}
