//! Several clips of one mesh as one sequence, and sequences in another space.

use std::ops::Range;
use std::sync::Arc;

use glam::{DAffine3, DMat3, Vec3};

use crate::mesh::frames::FramePositions;
use crate::mesh::sequence::{DEFAULT_FPS, MeshSequence, Place, SequenceError, check_positions, same_faces};
use crate::solve::transform::nearest_rotation;

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
        let mut spans = vec![sequence.span(0, sequence.name.clone())];
        for clip in clips {
            let place = format!("clip {:?}", clip.name);
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
        self.frames.0.iter_mut().flat_map(FramePositions::make_mut).for_each(place);
        let turn = nearest_rotation(&target_from_source.matrix3);
        if self.surface.has_directions() && turn != DMat3::IDENTITY {
            Arc::make_mut(&mut self.surface).turn(turn);
        }
        check_positions(&self.rest, &Place::rest())?;
        for (t, frame) in self.frames.0.iter().enumerate() {
            check_positions(frame, &Place::frame(t))?;
        }
        Ok(self)
    }
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
    fn placing_moves_rest_and_frames() {
        let placed = clip("a", 2, 4).placed(DAffine3::from_scale(glam::DVec3::splat(100.0))).unwrap();
        assert_eq!((placed.rest()[0].x, placed.frame(1)[3].y), (0.0, 100.0));
        assert!(clip("a", 2, 4).placed(DAffine3::from_scale(glam::DVec3::splat(1e20))).is_err());
    }
}
