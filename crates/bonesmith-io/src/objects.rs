//! Objects that have a cache each, as one scene.

use std::path::PathBuf;

use bonesmith_core::{Part, PartNode, Parts, RawSequence};
use glam::DAffine3;

use crate::sink::Sink;
use crate::{IoError, LoadOptions, load_sequence, merge};

/// Times of two objects that differ by less than this are the same.
const SAME_SECS: f64 = 1e-4;

/// One object: its name and its files, as [`load_sequence`] takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInput {
    /// Its name in the scene.
    pub name: String,
    /// One file, or several of one animation.
    pub paths: Vec<PathBuf>,
}

/// Reads all objects as one animation, whose surface keeps them apart. Objects of one frame stand still; all others have the same frames.
pub fn load_parts(parts: &[PartInput], options: &LoadOptions) -> Result<RawSequence, IoError> {
    let mut read: Vec<(&PartInput, RawSequence)> = Vec::new();
    for part in parts {
        let raw = load_sequence(&part.paths, options)?;
        if raw.frames.is_empty() {
            let what = format!("{:?} has no frames", part.name);
            return Err(IoError::unsupported(part.paths.first().cloned().unwrap_or_default(), what));
        }
        read.push((part, raw));
    }
    // The one with the most frames is the clock.
    let Some((clock, frames)) = read.iter().map(|(part, raw)| (*part, raw.frames.len())).max_by_key(|(_, f)| *f) else {
        return Err(IoError::unsupported("", "a scene without objects"));
    };
    for (part, raw) in &read {
        let found = raw.frames.len();
        if found != frames && found != 1 {
            let what = format!("{:?} has {found} frames, but {:?} has {frames}", part.name, clock.name);
            return Err(IoError::unsupported(part.paths.first().cloned().unwrap_or_default(), what));
        }
    }
    let timed = read.iter().find(|(_, raw)| raw.frames.len() == frames && !raw.times_secs.is_empty());
    let times_secs = timed.map(|(_, raw)| raw.times_secs.clone()).unwrap_or_default();
    for (part, raw) in read.iter().filter(|(_, raw)| raw.frames.len() == frames && !raw.times_secs.is_empty()) {
        let apart = |(a, b): (&f64, &f64)| (a - b).abs() > SAME_SECS;
        if let Some(t) = raw.times_secs.iter().zip(&times_secs).position(apart) {
            let what = format!(
                "{:?}: frame {t} is at {} s, but at {} s in the others",
                part.name, raw.times_secs[t], times_secs[t]
            );
            return Err(IoError::unsupported(part.paths.first().cloned().unwrap_or_default(), what));
        }
    }
    joined(read, frames, times_secs)
}

fn joined(read: Vec<(&PartInput, RawSequence)>, frames: usize, times_secs: Vec<f64>) -> Result<RawSequence, IoError> {
    let names: Vec<String> = read.iter().map(|(part, _)| part.name.clone()).collect();
    let has_rest = read.iter().any(|(_, raw)| raw.rest.is_some());
    let space = read.iter().map(|(_, raw)| raw.surface.space).find(|space| !space.is_unknown()).unwrap_or_default();
    let mut scene = RawSequence { name: "scene".to_owned(), times_secs, ..RawSequence::default() };
    let (mut rest, mut all, mut surfaces) = (Vec::new(), Vec::new(), merge::Parts::default());
    let path = read.first().and_then(|(part, _)| part.paths.first().cloned()).unwrap_or_default();
    for (_, raw) in read {
        scene.fps = scene.fps.max(raw.fps);
        let own = raw.rest.as_ref().unwrap_or(&raw.frames[0]);
        rest.extend_from_slice(&own.all_positions());
        surfaces.add(raw.surface, own.count());
        all.push(raw.frames);
    }
    let mut sink = Sink::new(&path, frames);
    for t in 0..frames {
        sink.push(all.iter().flat_map(|of| of[t.min(of.len() - 1)].all_positions().into_owned()).collect::<Vec<_>>())?;
    }
    scene.frames = sink.finish()?;
    scene.rest = has_rest.then(|| rest.into());
    let node = |name: &String| PartNode { name: name.clone(), parent: None, world_from_node: DAffine3::IDENTITY };
    scene.surface = surfaces.finish_scene(&path, |meshes| Parts {
        nodes: names.iter().map(node).collect(),
        meshes: meshes.into_iter().zip(&names).map(|(part, name)| Part { mesh: name.clone(), ..part }).collect(),
        skeleton: None,
    });
    scene.surface.space = space;
    Ok(scene)
}
