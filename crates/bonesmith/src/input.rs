//! From files to values: which files, which frames, which rest pose.

use std::ops::{Bound, RangeBounds};
use std::path::{Path, PathBuf};

use bonesmith_core::mesh::sequence::{Span, cut_clips};
use bonesmith_core::mesh::symmetry::most_symmetric;
use bonesmith_core::{MeshSequence, Model, ModelRef, RawFrame, RawSequence, Rig};
use bonesmith_io::{IoError, LoadOptions, PartInput};
use glam::Vec3;

use crate::error::{Error, PickError};
use crate::warning::{Noted, Warning};

/// Sizes that differ by more than this factor are likely in different units.
const FOREIGN_RATIO: f64 = 4.0;

/// What to read, and which part of it.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Input {
    /// One file; a folder, a pattern or a list of OBJ or PLY files; a point cache and its OBJ.
    pub paths: Vec<PathBuf>,
    /// Frames per second: of files without times, and to bake skinned or morph animation at. `None`: the file's own, else 24.
    pub fps: Option<f64>,
    /// Only the mesh of this name, or those of these names between commas, where a file holds several. `None`: all.
    pub mesh: Option<String>,
    /// The rest pose. `None`: the file's own, else the first frame.
    pub rest: Option<Rest>,
    /// Which frames, counted over all clips that are chosen. `None`: all.
    pub frames: Option<FrameRange>,
    /// Which clips, by name, in this order. Empty: all.
    pub clips: Vec<String>,
    /// Objects of a scene that has files for each, in place of `paths`.
    pub parts: Vec<PartInput>,
}

/// Which pose is the rest pose.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rest {
    /// The first of the frames picked.
    First,
    /// A frame, counted from 0 in the file.
    Frame(usize),
    /// The frame whose pose is most nearly its own mirror image: a T-pose rather than a step.
    Symmetric,
    /// The pose of another file.
    File(PathBuf),
}

/// Frames `start .. end`, counted from 0; `end` is exclusive, `None`: to the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameRange {
    /// The first frame.
    pub start: usize,
    /// The frame after the last.
    pub end: Option<usize>,
}

impl FrameRange {
    /// Of a range such as `4..7`, `..=48` or `10..`.
    pub fn new(range: impl RangeBounds<usize>) -> Self {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => Some(last.saturating_add(1)),
            Bound::Excluded(end) => Some(*end),
            Bound::Unbounded => None,
        };
        Self { start, end }
    }
}

impl Input {
    /// One file or folder.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self::from_paths(vec![path.into()])
    }

    /// Several files of one animation.
    pub fn from_paths(paths: Vec<PathBuf>) -> Self {
        Self { paths, ..Self::default() }
    }

    /// With only these frames.
    pub fn frames(mut self, range: impl RangeBounds<usize>) -> Self {
        self.frames = Some(FrameRange::new(range));
        self
    }

    /// With this rest pose.
    pub fn rest(mut self, rest: Rest) -> Self {
        self.rest = Some(rest);
        self
    }

    /// With so many frames per second.
    pub fn fps(mut self, fps: f64) -> Self {
        self.fps = Some(fps);
        self
    }

    /// With only the mesh of this name.
    pub fn mesh(mut self, name: impl Into<String>) -> Self {
        self.mesh = Some(name.into());
        self
    }

    /// With only the clips of these names, in this order.
    pub fn clips<S: Into<String>>(mut self, names: impl IntoIterator<Item = S>) -> Self {
        self.clips = names.into_iter().map(Into::into).collect();
        self
    }

    /// All files that are named here.
    pub fn files(&self) -> Vec<PathBuf> {
        let rest = if let Some(Rest::File(path)) = &self.rest { Some(path.clone()) } else { None };
        let of_parts = self.parts.iter().flat_map(|part| &part.paths);
        self.paths.iter().chain(of_parts).cloned().chain(rest).collect()
    }

    /// The part that readers need.
    pub fn load_options(&self) -> LoadOptions {
        LoadOptions { fps: self.fps, mesh: self.mesh.clone(), ..LoadOptions::default() }
    }

    /// The file that messages name.
    pub(crate) fn first_path(&self) -> &Path {
        let mut all = self.paths.iter().chain(self.parts.iter().flat_map(|part| &part.paths));
        all.next().map_or(Path::new(""), |path| path)
    }

    /// Reads and checks an animation; rigs and morph targets are baked.
    pub fn animation(&self) -> Result<Noted<MeshSequence>, Error> {
        let mut read = Noted::collect(|| {
            let raw = match self.parts.is_empty() {
                true => bonesmith_io::load_sequence(&self.paths, &self.load_options())?,
                false => bonesmith_io::load_parts(&self.parts, &self.load_options())?,
            };
            self.picked(raw)
        })?;
        read.warnings.extend(foreign_rest(&read.value));
        Ok(read)
    }

    /// Reads whatever is there, opened and parsed once: a rig of any kind, a basis, else an animation. Frames and rest pose are picked of an
    /// animation; with a rig they are refused.
    pub fn model(&self) -> Result<Noted<Model>, Error> {
        let read = self.model_to_compare()?;
        let given = [("frames", self.frames.is_some()), ("rest", self.rest.is_some())];
        match given.into_iter().find(|(_, given)| *given && read.value.view().rig().is_some()) {
            Some((option, _)) => Err(PickError::OfAnimation { option, path: self.first_path().to_owned() }.into()),
            None => Ok(read),
        }
    }

    /// As [`Input::model`] for a model that is compared with the same frames of an animation: a rig is read whole.
    pub fn model_to_compare(&self) -> Result<Noted<Model>, Error> {
        Noted::collect(|| {
            let read = |raw| self.picked(raw);
            let mut model = bonesmith_io::load_model_with(&self.paths, &self.load_options(), read)?;
            self.keep_clips(&mut model)?;
            Ok(model)
        })
    }

    /// Reads a rig of any kind, or a basis; other files are refused.
    pub fn rigged(&self) -> Result<Noted<Model>, Error> {
        self.refuse_choices()?;
        Noted::collect(|| Ok(bonesmith_io::load_rigged(self.first_path())?))
    }

    /// Reads a plain rig; see [`bonesmith_io::load_rig`] for what becomes of other kinds.
    pub fn rig(&self) -> Result<Noted<Rig>, Error> {
        self.refuse_choices()?;
        Noted::collect(|| Ok(bonesmith_io::load_rig(self.first_path())?))
    }

    /// As [`Input::rig`]; negative weights become 0, and the weights of each vertex are scaled to 1.
    pub fn rig_normalised(&self) -> Result<Noted<Rig>, Error> {
        self.refuse_choices()?;
        Noted::collect(|| Ok(bonesmith_io::load_rig_normalised(self.first_path())?))
    }

    /// Fails if a part of the file is chosen: the whole rig is read.
    fn refuse_choices(&self) -> Result<(), Error> {
        let given = [("rest", self.rest.is_some()), ("frames", self.frames.is_some())];
        let given = given.into_iter().chain([("mesh", self.mesh.is_some()), ("clips", !self.clips.is_empty())]);
        match given.into_iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(PickError::WholeRig { option, path: self.first_path().to_owned() }.into()),
            None => Ok(()),
        }
    }

    /// Picks frames and rest pose, and checks the result.
    pub(crate) fn picked(&self, raw: RawSequence) -> Result<MeshSequence, Error> {
        let sequence = MeshSequence::try_from(self.pick(raw)?);
        Ok(sequence.map_err(|source| IoError::Sequence { path: self.first_path().to_owned(), source })?)
    }

    /// Picks frames and rest pose.
    pub(crate) fn pick(&self, mut raw: RawSequence) -> Result<RawSequence, Error> {
        // Frame numbers count in the file, so the rest frame is taken before any are dropped.
        let chosen = match &self.rest {
            Some(Rest::Frame(frame)) => {
                let frames = raw.frames.len();
                let pose = raw.frames.get(*frame).cloned().map(RawFrame::loaded);
                Some(pose.ok_or(PickError::RestFrame { frame: *frame, frames })?)
            }
            Some(Rest::Symmetric) => {
                let frame = most_symmetric(&raw.frames).ok_or(PickError::NoSymmetry)?;
                Some(raw.frames[frame].clone().loaded())
            }
            Some(Rest::File(path)) => {
                let source = bonesmith_io::load_sequence(std::slice::from_ref(path), &self.load_options())?;
                Some(rest_of_file(source, &mut raw, path)?)
            }
            _ => None,
        };
        self.pick_clips(&mut raw)?;
        if let Some(frames) = self.frames {
            pick_frames(&mut raw, frames)?;
        }
        match (&self.rest, chosen) {
            (Some(Rest::First), _) => raw.rest = None,
            (_, Some(rest)) => raw.rest = Some(rest),
            _ => {}
        }
        Ok(raw)
    }
}

impl Input {
    /// Leaves the frames of the clips that are chosen.
    fn pick_clips(&self, raw: &mut RawSequence) -> Result<(), Error> {
        if self.clips.is_empty() {
            return Ok(());
        }
        let available: Vec<String> = match raw.clips.is_empty() {
            true => vec![raw.name.clone()],
            false => raw.clips.iter().map(|clip| clip.name.clone()).collect(),
        };
        let numbers = self.chosen(&available)?;
        if raw.clips.is_empty() {
            return Ok(());
        }
        let (frames, all) = (std::mem::take(&mut raw.frames), std::mem::take(&mut raw.clips));
        raw.times_secs.clear();
        for span in numbers.into_iter().map(|at| &all[at]) {
            let (start, step) = (raw.frames.len(), step_of(&span.times_secs));
            let offset = raw.times_secs.last().map_or(0.0, |last| last + step - span.times_secs[0]);
            raw.frames.extend_from_slice(&frames[span.frames.clone()]);
            raw.times_secs.extend(span.times_secs.iter().map(|t| t + offset));
            raw.clips.push(Span { frames: start..raw.frames.len(), ..span.clone() });
        }
        Ok(())
    }

    /// Leaves the clips of a rig of any kind that are chosen.
    pub(crate) fn keep_clips(&self, model: &mut Model) -> Result<(), Error> {
        let names: Vec<String> = model.view().clips().iter().map(|clip| clip.name.to_owned()).collect();
        if self.clips.is_empty() || model.view().rig().is_none() {
            return Ok(());
        }
        if let Model::ShapeBones(_) = model {
            return Err(PickError::ClipsOfShapes.into());
        }
        model.keep_clips(&self.chosen(&names)?);
        Ok(())
    }

    /// Numbers of the clips that are chosen, each once.
    pub(crate) fn chosen(&self, available: &[String]) -> Result<Vec<usize>, PickError> {
        let mut numbers: Vec<usize> = Vec::new();
        for name in &self.clips {
            let found = available.iter().position(|own| own == name);
            let missing = || PickError::Clips { name: name.clone(), available: available.to_vec() };
            let at = found.ok_or_else(missing)?;
            if !numbers.contains(&at) {
                numbers.push(at);
            }
        }
        Ok(numbers)
    }
}

/// The last time between two frames; a 24th of a second where there is one frame only.
fn step_of(times_secs: &[f64]) -> f64 {
    times_secs.windows(2).last().map_or(1.0 / 24.0, |pair| pair[1] - pair[0])
}

/// A rest pose of another size than the frames.
fn foreign_rest(sequence: &MeshSequence) -> Option<Warning> {
    let size = |points: &[Vec3]| {
        let low = points.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        f64::from(points.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).distance(low))
    };
    let (rest, frame) = (size(sequence.rest()), size(&sequence.frame(0)));
    let larger = rest > frame;
    let ratio = if larger { rest / frame } else { frame / rest };
    (ratio > FOREIGN_RATIO && ratio.is_finite()).then_some(Warning::ForeignRest { ratio, larger })
}

/// The pose of another file; its faces too when the animation has none of its own.
fn rest_of_file(source: RawSequence, raw: &mut RawSequence, path: &Path) -> Result<RawFrame, PickError> {
    let pose = source.rest.or_else(|| source.frames.into_iter().next()).map(RawFrame::loaded);
    let mut pose = pose.ok_or_else(|| PickError::NoRest { path: path.to_owned() })?;
    pose.label = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if raw.surface.topology.face_count() == 0 {
        raw.surface = source.surface;
    } else if source.surface.topology.face_count() > 0 {
        pose.topology = Some(source.surface.topology.into());
    }
    Ok(pose)
}

fn pick_frames(raw: &mut RawSequence, FrameRange { start, end }: FrameRange) -> Result<(), PickError> {
    let frames = raw.frames.len();
    let end = end.unwrap_or(frames);
    if start >= end || end > frames {
        return Err(PickError::Frames { start, end, frames });
    }
    raw.frames.truncate(end);
    raw.frames.drain(..start);
    // A clip that starts at 0 is what engines want, whatever part of the animation it is.
    raw.times_secs = raw.times_secs.get(start..end).unwrap_or_default().to_vec();
    let first = raw.times_secs.first().copied().unwrap_or_default();
    raw.times_secs.iter_mut().for_each(|t| *t -= first);
    cut_clips(&mut raw.clips, start..end);
    for clip in &mut raw.clips {
        let first = clip.times_secs.first().copied().unwrap_or_default();
        clip.times_secs.iter_mut().for_each(|t| *t -= first);
    }
    Ok(())
}

/// All clips of a model as one animation, one after the other; `None` if nothing moves.
pub fn baked<'a>(model: impl Into<ModelRef<'a>>) -> Result<Option<MeshSequence>, Error> {
    Ok(model.into().baked(None).map(MeshSequence::try_from).transpose()?)
}

/// The number of the clip of this name, else of the first. A model without bones has one clip, whatever its name.
pub fn find_clip<'a>(model: impl Into<ModelRef<'a>>, name: Option<&str>) -> Result<usize, Error> {
    let model = model.into();
    let clips = model.clips();
    match name.filter(|_| model.rig().is_some()) {
        None if clips.is_empty() => Err(bonesmith_core::metrics::MetricsError::NoClip.into()),
        None => Ok(0),
        Some(name) => clips.iter().position(|clip| clip.name == name).ok_or_else(|| {
            let available = clips.iter().map(|clip| clip.name.to_owned()).collect();
            PickError::Clip { name: name.to_owned(), available }.into()
        }),
    }
}

/// The clips of a model whose frames are those of an animation, one clip after the other: the one of this name; else those with the
/// names and lengths of the animation's clips; else the first that is as long as the animation; else all, where they are together;
/// else the first.
pub fn measured_clips<'a>(
    model: impl Into<ModelRef<'a>>,
    name: Option<&str>,
    sequence: &MeshSequence,
) -> Result<Vec<usize>, Error> {
    let model = model.into();
    if name.is_some() {
        return Ok(vec![find_clip(model, name)?]);
    }
    let (clips, frames) = (model.clips(), sequence.frame_count());
    let same =
        |span: &Span| clips.iter().position(|clip| clip.name == span.name && clip.frame_count() == span.frames.len());
    let named: Option<Vec<usize>> = sequence.clips().iter().map(same).collect();
    if let Some(named) = named.filter(|named| !named.is_empty()) {
        return Ok(named);
    }
    if let Some(as_long) = clips.iter().position(|clip| clip.frame_count() == frames) {
        return Ok(vec![as_long]);
    }
    match clips.iter().map(|clip| clip.frame_count()).sum::<usize>() == frames {
        true => Ok((0..clips.len()).collect()),
        false => Ok(vec![find_clip(model, None)?]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(frames: usize) -> RawSequence {
        let frame = |t: usize| RawFrame { positions: vec![Vec3::splat(t as f32); 4], ..RawFrame::default() };
        RawSequence {
            rest: Some(frame(99)),
            frames: (0..frames).map(frame).collect(),
            times_secs: (0..frames).map(|t| 0.5 * t as f64).collect(),
            ..RawSequence::default()
        }
    }

    fn rest_x(raw: &RawSequence) -> Option<f32> {
        raw.rest.as_ref().map(|rest| rest.positions[0].x)
    }

    #[test]
    fn frames_are_cut_and_the_clock_starts_at_zero() {
        let cut = Input::default().frames(4..7).pick(raw(10)).unwrap();
        assert_eq!(cut.frames.iter().map(|f| f.positions[0].x).collect::<Vec<_>>(), [4.0, 5.0, 6.0]);
        assert_eq!(cut.times_secs, [0.0, 0.5, 1.0]);
        assert_eq!(rest_x(&cut), Some(99.0));
        let error = Input::default().frames(4..=10).pick(raw(10)).unwrap_err();
        assert_eq!(error.to_string(), "frames 4..11: the animation has 10 frames (0 to 9)");
        assert!(Input::default().frames(10..).pick(raw(10)).is_err());
        assert_eq!(Input::default().frames(..).pick(raw(10)).unwrap().frames.len(), 10);
    }

    #[test]
    fn clips_are_picked_by_name_in_the_order_asked_for() {
        let span = |name: &str, frames: std::ops::Range<usize>| Span {
            name: name.into(),
            times_secs: frames.clone().map(|t| t as f64).collect(),
            frames,
        };
        let raw = || RawSequence { clips: vec![span("walk", 0..4), span("run", 4..7), span("sit", 7..10)], ..raw(10) };
        let picked = Input::default().clips(["sit", "walk"]).pick(raw()).unwrap();
        let x: Vec<f32> = picked.frames.iter().map(|f| f.positions[0].x).collect();
        assert_eq!(x, [7.0, 8.0, 9.0, 0.0, 1.0, 2.0, 3.0]);
        let clips: Vec<(&str, std::ops::Range<usize>)> =
            picked.clips.iter().map(|clip| (clip.name.as_str(), clip.frames.clone())).collect();
        assert_eq!(clips, [("sit", 0..3), ("walk", 3..7)]);
        assert_eq!(picked.clips[0].times_secs, [7.0, 8.0, 9.0]);
        assert!(picked.times_secs.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", picked.times_secs);
        let error = Input::default().clips(["fly"]).pick(raw()).unwrap_err();
        assert_eq!((error.option(), error.to_string().contains("walk, run, sit")), (Some("clips"), true), "{error}");
        let cut = Input::default().clips(["run", "sit"]).frames(2..5).pick(raw()).unwrap();
        assert_eq!(cut.clips.iter().map(|clip| clip.frames.clone()).collect::<Vec<_>>(), [0..1, 1..3]);
        assert_eq!(cut.clips[1].times_secs, [0.0, 1.0]);
    }

    #[test]
    fn the_rest_pose_can_be_any_frame_of_the_file() {
        let with = |rest: Rest| Input::default().rest(rest).frames(4..7).pick(raw(10));
        assert_eq!(rest_x(&with(Rest::Frame(2)).unwrap()), Some(2.0));
        assert_eq!(rest_x(&with(Rest::First).unwrap()), None);
        assert_eq!(with(Rest::Frame(10)).unwrap_err().option(), Some("rest"));
        assert_eq!(with(Rest::Symmetric).unwrap_err().option(), Some("rest"), "one point has no mirror image");
    }
}
