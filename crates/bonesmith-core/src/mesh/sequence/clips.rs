//! Several clips of one mesh as one sequence, one sequence as its clips, and sequences in another space.

use std::ops::Range;
use std::sync::Arc;

use glam::{DAffine3, Vec3};

use crate::mesh::frames::by_frame;
use crate::mesh::sequence::{
    DEFAULT_FPS, MeshSequence, Place, SequenceError, check_positions, same_faces, times_or_fps,
};
use crate::mesh::times;

/// A mesh that moves by less than this share of the model's size does not move.
const STILL: f32 = 5e-7;

/// One clip within a joined sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// Name of the clip.
    pub name: String,
    /// Its frames in the joined sequence.
    pub frames: Range<usize>,
    /// Its own times, in seconds.
    pub times_secs: Vec<f64>,
}

/// Concatenated clips of one mesh.
#[derive(Clone, Debug)]
pub struct Joined {
    /// All frames; the rest pose and the surface are those of the first clip.
    pub sequence: MeshSequence,
    /// The place of each clip, in order.
    pub spans: Vec<Span>,
}

impl MeshSequence {
    /// Concatenates clips of one mesh, without copying frames. The rest pose is that of the first clip.
    ///
    /// Clips must have the same vertices and, where they have faces, the same faces. Names that repeat get a number.
    pub fn join(clips: Vec<Self>) -> Result<Joined, SequenceError> {
        let mut clips = clips.into_iter();
        let mut sequence = clips.next().ok_or(SequenceError::NoFrames)?;
        sequence.clips.clear();
        let mut spans = vec![sequence.span(0, sequence.name.clone())];
        for clip in clips {
            let place = format!("clip {:?}", clip.name);
            same_meshes(&sequence, &clip, &place)?;
            if clip.vertex_count() != sequence.vertex_count() {
                let (found, expected) = (clip.vertex_count(), sequence.vertex_count());
                return Err(SequenceError::VertexCount { place, frame: None, found, expected });
            }
            let (own, faces) = (&clip.surface.topology, &sequence.surface.topology);
            if own.face_count() > 0 && faces.face_count() > 0 {
                same_faces(own, faces, &Place::named(&place))?;
            }
            let name = free_name(&clip.name, &spans);
            spans.push(clip.span(sequence.frame_count(), name));
            let start = sequence.times_secs.last().copied().unwrap_or_default() + typical_step(&clip.times_secs);
            let first = clip.times_secs.first().copied().unwrap_or_default();
            sequence.times_secs.extend(clip.times_secs.iter().map(|t| start + (t - first)));
            sequence.frames.0.extend(clip.frames.0);
        }
        Ok(Joined { sequence, spans })
    }

    /// The same frames as one clip of the sequence's name.
    pub fn without_clips(mut self) -> Self {
        self.clips.clear();
        self
    }

    /// Each clip as a sequence of its own, with its own times; the sequence itself where it has no clips.
    pub fn into_clips(mut self) -> Vec<Self> {
        let spans = std::mem::take(&mut self.clips);
        if spans.is_empty() {
            return vec![self];
        }
        let of =
            |span: Span| Self { name: span.name, times_secs: span.times_secs, ..self.clone().with_frames(span.frames) };
        spans.into_iter().map(of).collect()
    }

    /// [meshes] whether each mesh of the scene is in the same place in all frames, but for rounding.
    pub fn still_meshes(&self) -> Vec<bool> {
        let low = self.rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        let size = self.rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).distance(low);
        let limit = (STILL * size).powi(2);
        let meshes: Vec<Range<usize>> = self.surface.parts.ranges().map(|(_, vertices, _)| vertices).collect();
        let (mut rest, first) = (vec![true; meshes.len()], self.frame(0));
        for t in 1..self.frame_count() {
            if !rest.contains(&true) {
                break;
            }
            let frame = self.frame(t);
            let off = |vertices: &Range<usize>| {
                let pairs = first[vertices.clone()].iter().zip(&frame[vertices.clone()]);
                pairs.into_iter().any(|(a, b)| a.distance_squared(*b) > limit)
            };
            rest.iter_mut().zip(&meshes).filter(|(rest, _)| **rest).for_each(|(rest, of)| *rest = !off(of));
        }
        rest
    }

    fn span(&self, start: usize, name: String) -> Span {
        Span { name, frames: start..start + self.frame_count(), times_secs: self.times_secs.clone() }
    }

    /// The same sequence under another name.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// All frames and the rest pose moved by `target_from_source`. Refused where that leaves the range of coordinates.
    pub fn placed(mut self, target_from_source: DAffine3) -> Result<Self, SequenceError> {
        let place = |p: &mut Vec3| *p = target_from_source.transform_point3(p.as_dvec3()).as_vec3();
        self.rest.iter_mut().for_each(place);
        let every: Vec<_> = (0..self.frame_count()).map(|t| (t, Some(target_from_source))).collect();
        self.frames = self.frames.rearranged(&every);
        if self.surface.has_places() {
            Arc::make_mut(&mut self.surface).place(target_from_source);
        }
        check_positions(&self.rest, &Place::rest())?;
        self.check_frames()?;
        Ok(self)
    }

    /// Frames of this sequence in another order, each moved where there is a transform; one clip at the usual rate. Refused where that leaves the range of coordinates.
    pub fn rearranged(&self, frames: &[(usize, Option<DAffine3>)]) -> Result<Self, SequenceError> {
        let list = self.frames.rearranged(frames);
        let times_secs = times_or_fps(Vec::new(), frames.len(), DEFAULT_FPS)?;
        let rearranged = Self { frames: list, times_secs, clips: Vec::new(), ..self.clone() };
        rearranged.check_frames()?;
        Ok(rearranged)
    }

    fn check_frames(&self) -> Result<(), SequenceError> {
        let checked = by_frame(&self.frames, 0..self.frame_count(), |t, p| check_positions(p, &Place::frame(t)));
        checked.into_iter().collect()
    }
}

/// Refuses a clip in which a mesh of a scene has another number of vertices.
fn same_meshes(first: &MeshSequence, clip: &MeshSequence, place: &str) -> Result<(), SequenceError> {
    let mut pairs = first.surface.parts.meshes.iter().zip(&clip.surface.parts.meshes);
    match pairs.find(|(a, b)| a.vertices != b.vertices) {
        Some((a, b)) => Err(SequenceError::MeshDiffers {
            place: place.to_owned(),
            mesh: clip.surface.parts.name(b).to_owned(),
            found: b.vertices,
            expected: a.vertices,
        }),
        None => Ok(()),
    }
}

/// Checks invariant 5 of a sequence of so many frames; names that repeat get a number.
pub(super) fn check(clips: &mut [Span], frames: usize) -> Result<(), SequenceError> {
    let mut start = 0;
    for at in 0..clips.len() {
        let Span { name, frames: own, times_secs } = &clips[at];
        let clip = || name.clone();
        if own.is_empty() {
            return Err(SequenceError::EmptyClip { clip: clip() });
        }
        if own.start != start || own.end > frames || times_secs.len() != own.len() {
            let (start, frames, times) = (own.start, own.len(), times_secs.len());
            return Err(SequenceError::ClipFrames { clip: clip(), start, frames, times });
        }
        if let Some(frame) = times::first_unsound(times_secs) {
            return Err(SequenceError::ClipTimes { clip: clip(), frame, secs: times_secs[frame] });
        }
        start = own.end;
        clips[at].name = free_name(name, &clips[..at]);
    }
    match clips.last() {
        Some(last) if start != frames => Err(SequenceError::ClipFrames {
            clip: last.name.clone(),
            start: last.frames.start,
            frames: last.frames.len(),
            times: last.times_secs.len(),
        }),
        _ => Ok(()),
    }
}

/// The clips of the frames `range`, which count from its start; those without any are left out.
pub fn cut(clips: &mut Vec<Span>, range: Range<usize>) {
    for clip in clips.iter_mut() {
        let kept = clip.frames.start.max(range.start)..clip.frames.end.min(range.end);
        let own = kept.start.saturating_sub(clip.frames.start)..kept.end.saturating_sub(clip.frames.start);
        clip.times_secs = clip.times_secs.get(own).unwrap_or_default().to_vec();
        clip.frames = kept.start.saturating_sub(range.start)..kept.end.saturating_sub(range.start);
    }
    clips.retain(|clip| !clip.frames.is_empty());
}

/// `name`, or `name_2`, `name_3`, ... where it is taken.
fn free_name(name: &str, spans: &[Span]) -> String {
    let taken = |candidate: &str| spans.iter().any(|span| span.name == candidate);
    let numbered = || (2..).map(|n| format!("{name}_{n}")).find(|candidate| !taken(candidate));
    if taken(name) { numbered().unwrap_or_default() } else { name.to_owned() }
}

/// Median time between frames; a 24th of a second where there is one frame only.
pub(crate) fn typical_step(times_secs: &[f64]) -> f64 {
    let mut steps: Vec<f64> = times_secs.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if steps.is_empty() {
        return 1.0 / DEFAULT_FPS;
    }
    let middle = steps.len() / 2;
    *steps.select_nth_unstable_by(middle, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::RawSequence;

    fn clip(name: &str, frames: usize, vertices: usize) -> MeshSequence {
        let frame = |t: usize| vec![Vec3::splat(t as f32); vertices].into();
        let raw = RawSequence { name: name.into(), frames: (0..frames).map(frame).collect(), ..RawSequence::default() };
        MeshSequence::try_from(RawSequence { fps: 10.0, ..raw }).unwrap()
    }

    #[test]
    fn clips_follow_each_other_and_keep_their_own_times() {
        let joined = MeshSequence::join(vec![clip("walk", 3, 4), clip("run", 2, 4), clip("walk", 1, 4)]).unwrap();
        assert_eq!(joined.sequence.frame_count(), 6);
        assert!(joined.sequence.times_secs().windows(2).all(|pair| pair[0] < pair[1]));
        let names: Vec<&str> = joined.spans.iter().map(|span| span.name.as_str()).collect();
        assert_eq!(names, ["walk", "run", "walk_2"]);
        assert_eq!(joined.spans[1].frames, 3..5);
        assert_eq!(joined.spans[1].times_secs, [0.0, 0.1]);
        let message = MeshSequence::join(vec![clip("a", 1, 4), clip("b", 1, 5)]).unwrap_err().to_string();
        assert_eq!(message, "clip \"b\" has 5 vertices, but the first frame has 4");
    }

    #[test]
    fn a_sequence_is_its_clips_and_frames_are_cut_from_them() {
        let span = |name: &str, frames: Range<usize>| Span {
            name: name.into(),
            times_secs: frames.clone().map(|t| 0.1 * (t - frames.start) as f64).collect(),
            frames,
        };
        let raw = |clips| RawSequence {
            frames: (0..6).map(|t| vec![Vec3::splat(t as f32); 4].into()).collect(),
            clips,
            ..RawSequence::default()
        };
        let sequence = MeshSequence::try_from(raw(vec![span("walk", 0..4), span("walk", 4..6)])).unwrap();
        let clips = sequence.clone().into_clips();
        assert_eq!(clips.iter().map(|clip| clip.name()).collect::<Vec<_>>(), ["walk", "walk_2"]);
        assert_eq!((clips[1].frame(0)[0].x, clips[1].times_secs()), (4.0, &[0.0, 0.1][..]));
        let cut = sequence.with_frames(3..6);
        assert_eq!(cut.clips().iter().map(|clip| clip.frames.clone()).collect::<Vec<_>>(), [0..1, 1..3]);
        for (clips, message) in [
            (vec![span("a", 0..6), span("b", 6..6)], "clip \"b\" has no frames"),
            (vec![span("a", 0..5)], "clip \"a\": 5 frames from frame 0 on"),
        ] {
            let found = MeshSequence::try_from(raw(clips)).unwrap_err().to_string();
            assert!(found.contains(message), "{found}");
        }
        let mut bad = raw(vec![span("a", 0..4), span("b", 4..6)]);
        bad.frames[5].positions[2].z = f32::NAN;
        let found = MeshSequence::try_from(bad).unwrap_err().to_string();
        assert_eq!(found, "clip \"b\", frame 1, vertex 2: z is NaN");
    }

    #[test]
    fn placing_moves_rest_and_frames() {
        let placed = clip("a", 2, 4).placed(DAffine3::from_scale(glam::DVec3::splat(100.0))).unwrap();
        assert_eq!((placed.rest()[0].x, placed.frame(1)[3].y), (0.0, 100.0));
        assert!(clip("a", 2, 4).placed(DAffine3::from_scale(glam::DVec3::splat(1e20))).is_err());
    }
}
