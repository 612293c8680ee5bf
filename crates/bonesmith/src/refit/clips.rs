//! The clips of each body, read and matched with the animations of the rig.

use std::path::PathBuf;

use bonesmith_core::mesh::sequence::{Joined, Span};
use bonesmith_core::refit::resample::{self, Timing};
use bonesmith_core::refit::{Solve, correspondence};
use bonesmith_core::{Clip, MeshSequence, Observer, Rig, Stage};
use bonesmith_io::IoError;
use glam::{DAffine3, Vec3};

use super::{RefitOptions, RigMismatch, SubjectInput, align};
use crate::error::Error;
use crate::input::Input;
use crate::matching::same_mesh;
use crate::motion::Moved;
use crate::warning::{Noted, Warning};

/// One body to fit: all its clips end to end, in the space of the rig.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Body {
    /// Its clips, joined.
    pub sequence: MeshSequence,
    /// Where each clip is in the sequence.
    pub spans: Vec<Span>,
    /// [F, B] how the rig moves in all its clips, where that is known.
    pub motion: Option<Vec<DAffine3>>,
    /// Whether its rest pose is another than the rig's.
    pub own_rest: bool,
    /// Animations of the rig that its clips replace.
    pub used: Vec<String>,
    /// The rest pose of the animation itself: its radius is the unit of figures. While a rig is fitted, the sequence may have the rig's.
    rest: Vec<Vec3>,
}

impl Body {
    /// Takes the rest pose of a rig that was fitted to it.
    pub(super) fn take_rest(&mut self, rig: &Rig) -> Result<(), Error> {
        if !self.own_rest {
            self.sequence = self.sequence.clone().with_rest(rig.rest.clone().into())?;
        }
        Ok(())
    }

    /// Takes the rest pose of the animation back, which figures are measured with.
    pub(super) fn return_rest(&mut self) -> Result<(), Error> {
        self.sequence = self.sequence.clone().with_rest(self.rest.clone().into())?;
        Ok(())
    }

    /// Becomes what the clips show after `moved`.
    pub(super) fn take_motion(&mut self, moved: &Moved) -> Result<(), Error> {
        if !moved.changes_frames() {
            return Ok(());
        }
        let frames: Vec<_> = self.spans.iter().map(|span| span.frames.clone()).collect();
        self.sequence = moved.reference(&self.sequence, &frames)?.into_owned();
        for (span, frames) in self.spans.iter_mut().zip(moved.spans(&frames)) {
            span.frames = frames;
        }
        Ok(())
    }

    /// One clip of all frames as the clips that it was joined from.
    pub(super) fn split(&self, whole: &Clip) -> Vec<Clip> {
        whole.split(&self.spans).unwrap_or_default()
    }
}

/// One clip as it was read.
#[derive(Clone, Debug)]
pub struct ClipInput {
    /// What messages call it.
    pub label: String,
    /// The animation; its name is the clip's.
    pub sequence: MeshSequence,
    /// Whether the rest pose is its own, not its first frame.
    pub own_rest: bool,
}

/// Reads each clip that `paths` name: one file each, or each animation of a file that has several, or a folder or pattern of frames. `input` has frames, rest pose and rate; its
/// own paths are not used.
pub fn read_clips(paths: &[PathBuf], input: &Input) -> Result<Noted<Vec<ClipInput>>, Error> {
    Noted::collect(|| {
        // Clips are chosen among those of all files.
        let (mut names, mut all) = (Vec::new(), Vec::new());
        let is_chosen = |name: &String| input.clips.is_empty() || input.clips.contains(name);
        for source in bonesmith_io::clip_sources(paths)? {
            let label = source.inputs.first().map(|path| path.display().to_string()).unwrap_or_default();
            let raw = bonesmith_io::load_sequence(&source.inputs, &input.load_options())?;
            let (own_rest, several) = (raw.rest.is_some(), raw.clips.len() > 1);
            let name = source.name.clone().unwrap_or_else(|| raw.name.clone());
            let own: Vec<String> = match several {
                true => raw.clips.iter().map(|clip| clip.name.clone()).collect(),
                false => vec![name.clone()],
            };
            let chosen: Vec<String> = own.iter().filter(|name| is_chosen(name)).cloned().collect();
            names.extend(own);
            if chosen.is_empty() {
                continue;
            }
            // Frames are counted in the clips that are chosen.
            let clips = if several { chosen } else { Vec::new() };
            let sequence = Input { paths: source.inputs, clips, ..input.clone() }.picked(raw)?;
            let clip = |label, sequence| ClipInput { label, sequence, own_rest };
            match several {
                true => all.extend(
                    sequence.into_clips().into_iter().map(|part| clip(format!("{label}, {:?}", part.name()), part)),
                ),
                false => all.push(clip(label, sequence.without_clips().named(name))),
            }
        }
        if input.clips.is_empty() {
            return Ok(all);
        }
        let order = input.chosen(&names)?;
        let named = |at: usize| all.iter().find(|clip: &&ClipInput| clip.sequence.name() == names[at]).cloned();
        Ok(order.into_iter().filter_map(named).collect())
    })
}

/// The clips of all subjects, in the space and the frames of the rig.
pub(super) fn bodies(
    rig: Option<(&Rig, &RefitOptions)>,
    subjects: Vec<SubjectInput>,
    warnings: &mut Vec<Warning>,
    observer: &mut dyn Observer,
) -> Result<Vec<Body>, Error> {
    let mut bodies = Vec::new();
    for SubjectInput { rest, mut clips } in subjects {
        let stage = if rig.is_some() { Stage::ComparingWithTheRig } else { Stage::Prepare };
        Error::unless_cancelled(observer, stage)?;
        let Some(rest) = rest else {
            bodies.push(match rig {
                Some((rig, options)) => with_rig(options, rig, clips, warnings)?,
                None => joined(clips, false)?,
            });
            continue;
        };
        for clip in &mut clips {
            let sequence = clip.sequence.clone().with_rest(rest.clone());
            clip.sequence = sequence.map_err(|source| of_file(&rest.label, source))?;
        }
        let own_rest = rig.is_some() || !bodies.is_empty();
        let mut body = joined(clips, own_rest)?;
        if let Some((rig, options)) = rig {
            same_mesh(rig, &body.sequence, &rest.label)?;
            let correction = options.correction();
            if !correction.keeps_space() {
                body.sequence = body.sequence.placed(correction.rig_from_sequence())?;
                body.rest = body.sequence.rest().to_vec();
            }
        }
        bodies.push(body);
    }
    Ok(bodies)
}

fn of_file(label: &str, source: bonesmith_core::SequenceError) -> Error {
    IoError::Sequence { path: label.into(), source }.into()
}

/// Refuses clips of scenes whose meshes are others than those of the first clip; the message names file, clip and mesh.
fn same_scene(clips: &[ClipInput]) -> Result<(), Error> {
    let Some((first, others)) = clips.split_first() else { return Ok(()) };
    let meshes = |clip: &ClipInput| -> Vec<(String, usize)> {
        let parts = &clip.sequence.surface().parts;
        parts.meshes.iter().map(|part| (parts.name(part).to_owned(), part.vertices)).collect()
    };
    let names = |meshes: &[(String, usize)]| match meshes {
        [] => "one mesh".to_owned(),
        several => {
            format!("the meshes {}", several.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", "))
        }
    };
    let expected = meshes(first);
    for clip in others {
        // Clips of one file are named in the label already.
        let (found, name) = (meshes(clip), format!("{:?}", clip.sequence.name()));
        let place =
            if clip.label.contains(&name) { clip.label.clone() } else { format!("{}, clip {name}", clip.label) };
        if found.len() != expected.len() {
            let (found, expected) = (names(&found), names(&expected));
            return Err(Error::unsupported(format!("{place} has {found}, but {} has {expected}", first.label)));
        }
        if let Some((own, other)) = found.iter().zip(&expected).find(|(own, other)| own.1 != other.1) {
            let ((mesh, own), other) = (own, other.1);
            let what = format!("{place}: mesh {mesh:?} has {own} vertices, but {other} in {}", first.label);
            return Err(Error::unsupported(what));
        }
    }
    Ok(())
}

fn joined(clips: Vec<ClipInput>, own_rest: bool) -> Result<Body, Error> {
    same_scene(&clips)?;
    let Joined { sequence, spans } = MeshSequence::join(clips.into_iter().map(|clip| clip.sequence).collect())?;
    let rest = sequence.rest().to_vec();
    Ok(Body { sequence, spans, motion: None, own_rest, used: Vec::new(), rest })
}

/// The rig's own body: in its space, in its rest pose, with its motion.
fn with_rig(
    options: &RefitOptions,
    rig: &Rig,
    clips: Vec<ClipInput>,
    warnings: &mut Vec<Warning>,
) -> Result<Body, Error> {
    let matched = match_clips(options, rig, &clips)?;
    let (mut sequences, mut motion, mut times) = (Vec::new(), Some(Vec::new()), Vec::new());
    for (ClipInput { label, sequence, own_rest }, clip) in clips.into_iter().zip(&matched) {
        let sequence = in_rig_order(options, rig, *clip, sequence, own_rest, &label, warnings)?;
        let correction = align::correction(options, rig, *clip, &sequence, own_rest, &label, warnings)?;
        let offset = correction.frame_offset;
        let mut sequence = match correction.keeps_space() {
            true => sequence,
            false => sequence.placed(correction.rig_from_sequence()).map_err(|source| of_file(&label, source))?,
        };
        let Some(clip) = clip else {
            motion = None;
            times.push(sequence.times_secs().to_vec());
            sequences.push(sequence);
            continue;
        };
        // The rig does not move outside its clip: a sequence that was shifted by hand or by fit is cut there.
        let shifted = options.frame_offset.is_some() || offset != 0;
        let offset = if shifted { cut(&mut sequence, clip, offset, &label, warnings)? } else { offset };
        let timing = resample::timing(clip, sequence.times_secs(), offset)
            .map_err(|source| RigMismatch::Times { input: label.clone(), source })?;
        let sampled = resample::sample(rig, clip, sequence.times_secs(), timing);
        if let Some(motion) = motion.as_mut() {
            motion.extend(sampled);
        }
        times.push(own_times(clip, &sequence, timing));
        if let Timing::Seconds { .. } = timing {
            warnings.push(Warning::Resampled { input: label, clip: clip.name.clone() });
        }
        sequences.push(sequence);
    }
    let Joined { sequence, mut spans } = MeshSequence::join(sequences)?;
    spans.iter_mut().zip(times).for_each(|(span, times)| span.times_secs = times);
    // A clip that is replaced keeps its name: other files refer to it.
    for (span, clip) in spans.iter_mut().zip(&matched) {
        let of = |clip: &Clip| matched.iter().flatten().filter(|own| own.name == clip.name).count();
        if let Some(clip) = clip.filter(|clip| of(clip) == 1) {
            span.name = clip.name.clone();
        }
    }
    let rest = sequence.rest().to_vec();
    Ok(Body {
        sequence: sequence.with_rest(rig.rest.clone().into())?,
        rest,
        spans,
        motion,
        own_rest: false,
        used: replaced(rig, &matched),
    })
}

/// Animations of the rig that the fitted ones replace: those they were matched with; where nothing was, as with motion
/// that is fitted, the only one, or all of them when there are as many.
fn replaced(rig: &Rig, matched: &[Option<&Clip>]) -> Vec<String> {
    let all = rig.clips.len() == 1 || rig.clips.len() == matched.len();
    let names = match matched.iter().all(Option::is_none) && all {
        true => rig.clips.iter().collect(),
        false => matched.iter().flatten().copied().collect::<Vec<_>>(),
    };
    names.into_iter().map(|clip| clip.name.clone()).collect()
}

/// Frames are the rig's: so are their times.
fn own_times(clip: &Clip, sequence: &MeshSequence, timing: Timing) -> Vec<f64> {
    match timing {
        Timing::Frames { offset } => {
            let start = usize::try_from(offset).unwrap_or(0);
            clip.times_secs[start..start + sequence.frame_count()].to_vec()
        }
        Timing::Seconds { .. } => sequence.times_secs().to_vec(),
    }
}

/// Keeps the frames that the clip covers; returns where they start in it.
fn cut(
    sequence: &mut MeshSequence,
    clip: &Clip,
    offset: i64,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> Result<i64, Error> {
    let frames = sequence.frame_count() as i64;
    let step =
        |times: &[f64]| times.last().zip(times.first()).map_or(0.0, |(b, a)| b - a) / (times.len().max(2) - 1) as f64;
    let (own, theirs) = (step(sequence.times_secs()), step(&clip.times_secs));
    let covered = match own > 0.0 && theirs > 0.0 && sequence.frame_count() != clip.frame_count() {
        true => ((clip.frame_count() - 1) as f64 * theirs / own + 1e-3).floor() as i64 + 1,
        false => clip.frame_count() as i64,
    };
    let (first, last) = ((-offset).max(0), (covered - offset).min(frames));
    if first >= last {
        return Err(RigMismatch::NoOverlap { offset, input: label.to_owned(), clip: clip.name.clone() }.into());
    }
    if (first, last) != (0, frames) {
        let (first, last, frames) = (first as usize, (last - 1) as usize, frames as usize);
        warnings.push(Warning::FramesCut { input: label.to_owned(), first, last, frames });
        *sequence = sequence.clone().with_frames(first..last + 1);
    }
    Ok(offset.max(0))
}

/// The rig's animation for each clip: as chosen, by name, the only one, or in order.
fn match_clips<'a>(options: &RefitOptions, rig: &'a Rig, clips: &[ClipInput]) -> Result<Vec<Option<&'a Clip>>, Error> {
    let available = || rig.clips.iter().map(|clip| clip.name.clone()).collect::<Vec<_>>();
    let chosen = &options.rig_clips;
    if !chosen.is_empty() {
        if chosen.len() != clips.len() && chosen.len() != 1 {
            return Err(RigMismatch::ClipCount { named: chosen.len(), inputs: clips.len() }.into());
        }
        let exact = |name: &String| rig.clips.iter().find(|clip| clip.name == *name);
        let alike = |name: &String| rig.clips.iter().find(|clip| clip.name.eq_ignore_ascii_case(name));
        let find = |name: &String| match exact(name).or_else(|| alike(name)) {
            Some(clip) => Ok(Some(clip)),
            None if name == "none" => Ok(None),
            None => Err(RigMismatch::NoClip { name: name.clone(), available: available() }.into()),
        };
        return (0..clips.len()).map(|at| find(&chosen[at.min(chosen.len() - 1)])).collect();
    }
    // A single frame is a pose, not an animation, unless poses are what is fitted.
    let poses = clips.iter().all(|clip| clip.sequence.frame_count() == 1);
    let moving: Vec<&Clip> = rig.clips.iter().filter(|clip| clip.frame_count() > 1 || poses).collect();
    let named = |clip: &ClipInput| {
        let name = clip.sequence.name();
        moving.iter().copied().find(|own| own.name.eq_ignore_ascii_case(name))
    };
    let by_name: Vec<Option<&Clip>> = clips.iter().map(named).collect();
    // The motion is what is fitted: an animation of another name is no evidence.
    if options.params.solve == Solve::Motion && options.lock_bones.is_empty() {
        let covers = |own: &Clip, clip: &ClipInput| resample::timing(own, clip.sequence.times_secs(), 0).is_ok();
        let pairs = by_name.into_iter().zip(clips);
        return Ok(pairs.map(|(own, clip)| own.filter(|own| covers(own, clip))).collect());
    }
    if moving.is_empty() || by_name.iter().all(Option::is_some) {
        return Ok(by_name);
    }
    match moving.as_slice() {
        [only] => Ok(vec![Some(*only); clips.len()]),
        several if several.len() == clips.len() => Ok(several.iter().copied().map(Some).collect()),
        several => {
            let first = clips.first().filter(|clip| clip.sequence.vertex_count() == rig.vertex_count());
            let best = first.and_then(|clip| align::best_clip(rig, &clip.sequence, clip.own_rest));
            let moving = several.iter().map(|clip| clip.name.clone()).collect();
            Err(RigMismatch::WhichClip { available: moving, best }.into())
        }
    }
}

/// A sequence in the vertices of the rig. Where an exporter split, merged or reordered them, they are matched by position.
fn in_rig_order(
    options: &RefitOptions,
    rig: &Rig,
    clip: Option<&Clip>,
    sequence: MeshSequence,
    own_rest: bool,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> Result<MeshSequence, Error> {
    let Err(refused) = same_mesh(rig, &sequence, label) else { return Ok(sequence) };
    // Compared in the space that the options give; the caller corrects it.
    let (given, found) = (options.correction(), sequence.vertex_count());
    let to_rig = given.rig_from_sequence();
    let placed = |sequence: MeshSequence, m| sequence.placed(m).map_err(|source| of_file(label, source));
    let sequence = if given.keeps_space() { sequence } else { placed(sequence, to_rig)? };
    let clips: Vec<&Clip> = clip.map_or_else(|| rig.clips.iter().collect(), |clip| vec![clip]);
    let Some((matched, how)) = correspondence::in_rig_order(rig, &clips, &sequence, own_rest) else {
        return Err(refused);
    };
    let (input, rig) = (label.to_owned(), rig.vertex_count());
    warnings.push(Warning::MatchedVertices { input, found, rig, unused: how.unused });
    if given.keeps_space() { Ok(matched) } else { placed(matched, to_rig.inverse()) }
}
