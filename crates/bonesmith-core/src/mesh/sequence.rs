//! Mesh animations: as read from a file (`RawSequence`), and checked (`MeshSequence`).
//!
//! `MeshSequence::try_from(RawSequence)` is the only check: every later stage can handle what passes it.
//!
//! Positions are in memory, or stored where a reader has put them (`stored`): stages read them through [`MeshSequence::frames`].

mod clips;

use std::borrow::Cow;
use std::sync::Arc;

use glam::Vec3;

use crate::mesh::Parts;
use crate::mesh::frames::{FrameList, FramePositions, Frames, SharedPositions};
use crate::mesh::surface::{Surface, SurfaceError};
use crate::mesh::topology::Topology;
use crate::mesh::{stored, times};

pub(crate) use clips::typical_step;
pub use clips::{Joined, Span, cut as cut_clips};

/// Minimum number of vertices that a bone can be fitted to.
pub const MIN_VERTICES: usize = 4;

/// Largest coordinate: squares stay within float32.
const MAX_COORDINATE: f32 = 1e15;

/// One frame as stored in a file.
#[derive(Clone, Debug, Default)]
pub struct RawFrame {
    /// Its source, for messages ("walk_0012.obj"). May be empty.
    pub label: String,
    /// [N] positions in model units.
    pub positions: Vec<Vec3>,
    /// Faces, when the file has them per frame. Readers share one `Arc` between equal frames.
    pub topology: Option<Arc<Topology>>,
    /// Where the positions are, if not in memory; `positions` is empty then.
    pub stored: Option<StoredFrame>,
}

/// A frame whose positions are not in memory.
#[derive(Clone)]
pub struct StoredFrame {
    /// All frames of a source.
    pub source: Arc<dyn Frames>,
    /// The number of this one.
    pub frame: u32,
    /// What [`first_unsound`] has found in it.
    pub unsound: Option<(usize, Vec3)>,
}

impl std::fmt::Debug for StoredFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "stored frame {}", self.frame)
    }
}

impl RawFrame {
    /// N.
    pub fn count(&self) -> usize {
        self.stored.as_ref().map_or(self.positions.len(), |stored| stored.source.vertex_count())
    }

    /// The positions, read where they are not in memory.
    pub fn all_positions(&self) -> Cow<'_, [Vec3]> {
        match &self.stored {
            Some(stored) => {
                Cow::Owned(FramePositions::Stored { source: stored.source.clone(), frame: stored.frame }.to_vec())
            }
            None => Cow::Borrowed(&self.positions),
        }
    }

    /// The same frame in memory.
    pub fn loaded(self) -> Self {
        Self { positions: self.all_positions().into_owned(), stored: None, ..self }
    }
}

impl From<RawFrame> for FramePositions {
    fn from(frame: RawFrame) -> Self {
        match frame.stored {
            Some(StoredFrame { source, frame, .. }) => Self::Stored { source, frame },
            None => frame.positions.into(),
        }
    }
}

impl From<Vec<Vec3>> for RawFrame {
    /// Positions alone.
    fn from(positions: Vec<Vec3>) -> Self {
        Self { positions, ..Self::default() }
    }
}

/// A mesh animation as stored in files, not checked yet.
#[derive(Clone, Debug, Default)]
pub struct RawSequence {
    /// Short name for outputs and messages (the file stem).
    pub name: String,
    /// The file's own rest pose, if it has one.
    pub rest: Option<RawFrame>,
    /// Frames in time order.
    pub frames: Vec<RawFrame>,
    /// Seconds of each frame; empty when the file has no times (then `fps` applies).
    pub times_secs: Vec<f64>,
    /// Frames per second that `times_secs` is made from when empty.
    pub fps: f64,
    /// Faces, corner attributes, materials. With no faces the sequence is a point cloud.
    pub surface: Surface,
    /// The clips that the frames are of, one after the other. Empty: one clip of the sequence's name.
    pub clips: Vec<Span>,
}

/// A checked mesh animation.
///
/// Invariants (established by `try_from`, relied on everywhere):
/// 1. N >= 4 vertices (N >= 1 by [`MeshSequence::of_any_size`]), F >= 1 frames; every frame and the rest pose have N positions.
/// 2. All positions are finite.
/// 3. Faces name existing vertices; corner attributes fit the faces.
/// 4. Times are finite and rise strictly.
/// 5. Clips, where there are any, cover all frames, one after the other; each has a frame, rising times and a name of its own.
#[derive(Clone, Debug)]
pub struct MeshSequence {
    name: String,
    rest: Vec<Vec3>,
    /// Shared, so that a copy of a sequence costs nothing.
    frames: FrameList,
    times_secs: Vec<f64>,
    surface: Arc<Surface>,
    clips: Vec<Span>,
}

/// Why a sequence was refused. Frames count from 0 in file order; a place is "frame 3 (walk_3.obj)", "the rest pose" or a clip; `frame` is
/// `None` where it is no frame.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum SequenceError {
    #[error("the sequence has no frames")]
    NoFrames,
    #[error("the mesh has {vertices} vertices, at least {least} {} needed", if *least == 1 { "is" } else { "are" })]
    TooFewVertices { vertices: usize, least: usize },
    #[error("{place} has {found} vertices, but the first frame has {expected}")]
    VertexCount { place: String, frame: Option<usize>, found: usize, expected: usize },
    /// The first face that differs; `None` when only the counts do.
    #[error("{place} has other faces than the first frame{}", .first_difference.map(|f| format!(" (first difference at face {f})")).unwrap_or_default())]
    FacesDiffer { place: String, frame: Option<usize>, first_difference: Option<usize> },
    #[error("{place}, vertex {vertex}: {axis} is {value}")]
    NotFinite { place: String, frame: Option<usize>, vertex: usize, axis: char, value: f32 },
    /// Squares would leave the range of float32.
    #[error("{place}, vertex {vertex}: coordinate {value:e} is too large (limit 1e15)")]
    TooLarge { place: String, frame: Option<usize>, vertex: usize, value: f32 },
    #[error("clip {clip:?} has no frames")]
    EmptyClip { clip: String },
    #[error("clip {clip:?}: {frames} frames from frame {start} on, and {times} times, are not those of the animation")]
    ClipFrames { clip: String, start: usize, frames: usize, times: usize },
    #[error("clip {clip:?}: frame {frame} is at {secs:?} s, not after the frame before it, or beyond 1e8 s")]
    ClipTimes { clip: String, frame: usize, secs: f64 },
    #[error("{place}: mesh {mesh:?} has {found} vertices, but {expected} in the first clip")]
    MeshDiffers { place: String, mesh: String, found: usize, expected: usize },
    #[error("{times} times for {frames} frames")]
    TimeCount { times: usize, frames: usize },
    #[error("frame {frame} is at {secs:?} s, not after the frame before it, or beyond 1e8 s")]
    TimesNotRising { frame: usize, secs: f64 },
    #[error(transparent)]
    Surface(#[from] SurfaceError),
}

impl TryFrom<RawSequence> for MeshSequence {
    type Error = SequenceError;

    fn try_from(raw: RawSequence) -> Result<Self, SequenceError> {
        Self::with_vertices(raw, MIN_VERTICES)
    }
}

impl MeshSequence {
    /// As `try_from`, for meshes that are only shown: a single triangle or point will do.
    pub fn of_any_size(raw: RawSequence) -> Result<Self, SequenceError> {
        Self::with_vertices(raw, 1)
    }

    /// Checks everything; at least `least` vertices are needed.
    fn with_vertices(mut raw: RawSequence, least: usize) -> Result<Self, SequenceError> {
        let first = raw.frames.first().ok_or(SequenceError::NoFrames)?;
        let n = first.count();
        let surface = &raw.surface;
        if n < least {
            return Err(SequenceError::TooFewVertices { vertices: n, least });
        }
        if let Some(rest) = &raw.rest {
            check_frame(rest, Place::rest(), n, surface)?;
        }
        for (t, frame) in raw.frames.iter().enumerate() {
            check_frame(frame, Place::in_clip(t, &raw.clips), n, surface)?;
        }
        let frames = std::mem::take(&mut raw.frames).into_iter().map(FramePositions::from).collect();
        Self::of_checked_frames(raw, frames)
    }

    /// A sequence whose frames stay where they are: [F, N] positions in a buffer that something else owns. `raw` has the rest; its frames
    /// are not used. The buffer must keep its values as long as the sequence or a copy of it exists.
    pub fn shared(raw: RawSequence, frames: usize, buffer: SharedPositions) -> Result<Self, SequenceError> {
        let whole = (*buffer).as_ref();
        let n = whole.len().checked_div(frames).ok_or(SequenceError::NoFrames)?;
        if n < MIN_VERTICES {
            return Err(SequenceError::TooFewVertices { vertices: n, least: MIN_VERTICES });
        }
        if let Some(rest) = &raw.rest {
            check_frame(rest, Place::rest(), n, &raw.surface)?;
        }
        for t in 0..frames {
            check_positions(&whole[t * n..(t + 1) * n], &Place::in_clip(t, &raw.clips))?;
        }
        let part = |t: usize| FramePositions::Shared { buffer: buffer.clone(), range: t * n..(t + 1) * n };
        let frames = (0..frames).map(part).collect();
        Self::of_checked_frames(raw, frames)
    }

    /// Checks the surface, the times and the clips; positions are checked already.
    fn of_checked_frames(raw: RawSequence, frames: Vec<FramePositions>) -> Result<Self, SequenceError> {
        let RawSequence { name, rest, times_secs, fps, surface, mut clips, .. } = raw;
        surface.check(frames[0].count())?;
        let times_secs = times_or_fps(times_secs, frames.len(), fps)?;
        clips::check(&mut clips, frames.len())?;
        let rest = rest.map_or_else(|| frames[0].to_vec(), |rest| rest.loaded().positions);
        Ok(Self { name, rest, frames: FrameList(frames), times_secs, surface: Arc::new(surface), clips })
    }
}

/// Where in a sequence something is, for messages.
pub(crate) struct Place<'a> {
    /// What is there in place of a frame, if it is none.
    what: &'a str,
    frame: Option<usize>,
    /// The file of the frame; may be empty.
    label: &'a str,
    /// The clip of the frame, where there are several.
    clip: Option<&'a Span>,
    /// Names of meshes.
    parts: Option<&'a Parts>,
}

impl Place<'_> {
    /// Frame `t`.
    pub fn frame(t: usize) -> Self {
        Self { frame: Some(t), ..Self::named("") }
    }

    /// The rest pose.
    pub fn rest() -> Self {
        Self::named("the rest pose")
    }
}

impl<'a> Place<'a> {
    /// Something with a name of its own.
    pub fn named(what: &'a str) -> Self {
        Self { what, frame: None, label: "", clip: None, parts: None }
    }

    /// Frame `t` of an animation of these clips.
    fn in_clip(t: usize, clips: &'a [Span]) -> Self {
        let clip = clips.iter().find(|clip| clip.frames.contains(&t));
        Self { frame: Some(t), clip, ..Self::named("") }
    }

    /// With the mesh of a vertex, where there are several.
    fn of_vertex(&self, vertex: usize) -> String {
        match self.parts.and_then(|parts| parts.of_vertex(vertex)) {
            Some(name) => format!("{self}, mesh {name:?}"),
            None => self.to_string(),
        }
    }
}

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.frame {
            Some(t) => match self.clip {
                Some(clip) => write!(f, "clip {:?}, frame {}", clip.name, t - clip.frames.start)?,
                None => write!(f, "frame {t}")?,
            },
            None => f.write_str(self.what)?,
        }
        if self.label.is_empty() { Ok(()) } else { write!(f, " ({})", self.label) }
    }
}

/// Checks one frame, or the rest pose.
fn check_frame(frame: &RawFrame, at: Place<'_>, n: usize, surface: &Surface) -> Result<(), SequenceError> {
    let place = Place { label: &frame.label, parts: Some(&surface.parts), ..at };
    let found = frame.count();
    if found != n {
        return Err(SequenceError::VertexCount { place: place.to_string(), frame: place.frame, found, expected: n });
    }
    if let Some(own) = frame.topology.as_deref() {
        same_faces(own, &surface.topology, &place)?;
    }
    match &frame.stored {
        Some(stored) => stored.unsound.map_or(Ok(()), |(vertex, p)| Err(unsound(vertex, p, &place))),
        None => check_positions(&frame.positions, &place),
    }
}

/// Refuses other faces than those of the first frame.
fn same_faces(own: &Topology, faces: &Topology, place: &Place) -> Result<(), SequenceError> {
    if own == faces {
        return Ok(());
    }
    let first_difference = own.faces().zip(faces.faces()).position(|(a, b)| a != b);
    Err(SequenceError::FacesDiffer { place: place.to_string(), frame: place.frame, first_difference })
}

/// Checks invariant 2.
fn check_positions(positions: &[Vec3], at: &Place) -> Result<(), SequenceError> {
    first_unsound(positions).map_or(Ok(()), |(vertex, p)| Err(unsound(vertex, p, at)))
}

/// The first position that is not finite or too large, and its vertex.
pub fn first_unsound(positions: &[Vec3]) -> Option<(usize, Vec3)> {
    let is_unsound = |p: &Vec3| !p.is_finite() || p.abs().max_element() > MAX_COORDINATE;
    positions.iter().position(is_unsound).map(|vertex| (vertex, positions[vertex]))
}

fn unsound(vertex: usize, p: Vec3, at: &Place) -> SequenceError {
    let (place, frame) = (at.of_vertex(vertex), at.frame);
    if p.is_finite() {
        return SequenceError::TooLarge { place, frame, vertex, value: p.abs().max_element() };
    }
    let axis = (0..3).find(|&a| !p[a].is_finite()).unwrap_or(0);
    SequenceError::NotFinite { place, frame, vertex, axis: ['x', 'y', 'z'][axis], value: p[axis] }
}

fn times_or_fps(times: Vec<f64>, frames: usize, fps: f64) -> Result<Vec<f64>, SequenceError> {
    if times.is_empty() {
        let fps = if (1e-6..=1e6).contains(&fps) { fps } else { DEFAULT_FPS };
        return Ok((0..frames).map(|t| t as f64 / fps).collect());
    }
    if times.len() != frames {
        return Err(SequenceError::TimeCount { times: times.len(), frames });
    }
    match times::first_unsound(&times) {
        Some(frame) => Err(SequenceError::TimesNotRising { frame, secs: times[frame] }),
        None => Ok(times),
    }
}

/// Frame rate of files that carry no times.
pub const DEFAULT_FPS: f64 = 24.0;

impl MeshSequence {
    /// Short name for outputs.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// N.
    pub fn vertex_count(&self) -> usize {
        self.rest.len()
    }

    /// F.
    pub fn frame_count(&self) -> usize {
        self.frames.0.len()
    }

    /// [N] rest pose in model units.
    pub fn rest(&self) -> &[Vec3] {
        &self.rest
    }

    /// [N] positions of frame `t` in model units; read where they are stored.
    pub fn frame(&self, t: usize) -> Cow<'_, [Vec3]> {
        self.frames.0[t].positions()
    }

    /// Positions of some vertices in frame `t`, in model units; read where they are stored.
    pub fn part_of_frame(&self, t: usize, vertices: std::ops::Range<usize>) -> Cow<'_, [Vec3]> {
        self.frames.0[t].of(vertices)
    }

    /// Whether positions are not in memory.
    pub fn is_stored(&self) -> bool {
        self.frames.0.iter().any(|frame| matches!(frame, FramePositions::Stored { .. }))
    }

    /// All frames as a source of positions.
    pub fn frames(&self) -> Arc<dyn Frames> {
        Arc::new(self.frames.clone())
    }

    /// [F] seconds of each frame.
    pub fn times_secs(&self) -> &[f64] {
        &self.times_secs
    }

    /// Faces, corner attributes, materials.
    pub fn surface(&self) -> &Arc<Surface> {
        &self.surface
    }

    /// The clips that the frames are of; empty where they are one clip of the sequence's name.
    pub fn clips(&self) -> &[Span] {
        &self.clips
    }

    /// Bytes of the positions of all frames: the unit of memory figures.
    pub fn position_bytes(&self) -> usize {
        self.frame_count() * self.vertex_count() * size_of::<Vec3>()
    }

    /// The same frames over another rest pose.
    pub fn with_rest(mut self, rest: RawFrame) -> Result<Self, SequenceError> {
        check_frame(&rest, Place::rest(), self.vertex_count(), &self.surface)?;
        self.rest = rest.loaded().positions;
        Ok(self)
    }

    /// Only some vertices, ascending, at least four, with the faces between them; corner attributes and materials are left out.
    pub(crate) fn of_vertices(&self, vertices: &[u32]) -> Self {
        let pick = |positions: &[Vec3]| -> Vec<Vec3> { vertices.iter().map(|&i| positions[i as usize]).collect() };
        let mut topology = Topology::empty();
        for face in self.surface.topology.faces() {
            let place = |i: &u32| vertices.binary_search(i).ok().map(|at| at as u32);
            if let Some(face) = face.iter().map(place).collect::<Option<Vec<u32>>>() {
                topology.push_face(&face);
            }
        }
        Self {
            name: self.name.clone(),
            rest: pick(&self.rest),
            frames: self.frames.of_vertices(vertices),
            times_secs: self.times_secs.clone(),
            surface: Arc::new(Surface::bare(topology)),
            clips: self.clips.clone(),
        }
    }

    /// The same animation with vertices in another order over another surface; a vertex may be there several times. `own_rest`: whether
    /// the rest pose is more than the first frame.
    pub(crate) fn in_order(&self, vertices: &[u32], surface: Surface, own_rest: bool) -> Result<Self, SequenceError> {
        let (found, least) = (vertices.len(), MIN_VERTICES);
        if found < least {
            return Err(SequenceError::TooFewVertices { vertices: found, least });
        }
        let pick = |positions: &[Vec3]| -> Vec<Vec3> { vertices.iter().map(|&i| positions[i as usize]).collect() };
        let every: Vec<u32> = (0..self.frame_count() as u32).collect();
        let raw = RawSequence {
            name: self.name.clone(),
            rest: own_rest.then(|| pick(&self.rest).into()),
            times_secs: self.times_secs.clone(),
            surface,
            ..RawSequence::default()
        };
        Self::of_checked_frames(raw, stored::rewritten(&self.frames, &every, found, pick))
    }

    /// With more frames of the same vertices after those that are there, a second apart; finite positions.
    pub(crate) fn with_more_frames(&self, frames: Vec<Vec<Vec3>>) -> Self {
        let mut more = self.clone();
        let last = more.times_secs.last().copied().unwrap_or(0.0);
        more.times_secs.extend((0..frames.len()).map(|t| last + (t + 1) as f64));
        more.frames.0.extend(frames.into_iter().map(FramePositions::from));
        more
    }

    /// Only the frames `range`; times are kept.
    ///
    /// # Panics
    /// If the range is empty or not inside.
    pub fn with_frames(mut self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= self.frame_count(), "frames {range:?}");
        self.frames.0.truncate(range.end);
        self.frames.0.drain(..range.start);
        self.times_secs = self.times_secs[range.clone()].to_vec();
        clips::cut(&mut self.clips, range);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tetrahedron(frames: usize) -> RawSequence {
        let positions = vec![Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z];
        let topology = Topology::from_triangles(&[[0, 1, 2], [0, 2, 3]]);
        RawSequence {
            name: "tet".into(),
            frames: (0..frames)
                .map(|t| RawFrame {
                    label: format!("tet_{t}.obj"),
                    positions: positions.clone(),
                    ..RawFrame::default()
                })
                .collect(),
            fps: 10.0,
            surface: Surface::bare(topology),
            ..RawSequence::default()
        }
    }

    #[test]
    fn accepts_a_sound_sequence_and_makes_times() {
        let sequence = MeshSequence::try_from(tetrahedron(3)).unwrap();
        assert_eq!(sequence.times_secs(), &[0.0, 0.1, 0.2]);
        assert_eq!(sequence.rest(), &*sequence.frame(0));
    }

    #[test]
    fn rejections_carry_frame_vertex_and_number() {
        let mut raw = tetrahedron(3);
        raw.frames[2].positions[1].y = f32::NAN;
        let message = MeshSequence::try_from(raw).unwrap_err().to_string();
        assert_eq!(message, "frame 2 (tet_2.obj), vertex 1: y is NaN");

        let mut raw = tetrahedron(2);
        raw.frames[1].positions.pop();
        let message = MeshSequence::try_from(raw).unwrap_err().to_string();
        assert_eq!(message, "frame 1 (tet_1.obj) has 3 vertices, but the first frame has 4");

        let mut raw = tetrahedron(2);
        raw.frames[1].topology = Some(Arc::new(Topology::from_triangles(&[[0, 1, 2], [0, 3, 2]])));
        let message = MeshSequence::try_from(raw).unwrap_err().to_string();
        assert_eq!(message, "frame 1 (tet_1.obj) has other faces than the first frame (first difference at face 1)");

        let mut raw = tetrahedron(2);
        raw.surface.topology = Topology::from_triangles(&[[0, 1, 7]]);
        let message = MeshSequence::try_from(raw).unwrap_err().to_string();
        assert_eq!(message, "face 0 names vertex 7, but there are 4 vertices (0 to 3)");

        assert_eq!(MeshSequence::try_from(tetrahedron(0)).unwrap_err(), SequenceError::NoFrames);
    }

    #[test]
    fn a_shared_buffer_is_read_in_place_and_checked() {
        let frame = [Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z];
        let mut buffer: Vec<Vec3> = (0..3).flat_map(|t| frame.map(|p| p * t as f32)).collect();
        let raw = || RawSequence { frames: Vec::new(), ..tetrahedron(0) };
        let place = buffer.as_ptr();
        let sequence = MeshSequence::shared(raw(), 3, Arc::new(buffer.clone())).unwrap();
        assert_eq!((sequence.frame_count(), sequence.vertex_count(), sequence.frame(2)[1].x), (3, 4, 2.0));
        let in_place = MeshSequence::shared(raw(), 3, Arc::new(std::mem::take(&mut buffer))).unwrap();
        assert_eq!(in_place.frame(1).as_ptr(), place.wrapping_add(4));
        // What moves is a copy.
        let moved = in_place.clone().placed(glam::DAffine3::from_scale(glam::DVec3::splat(2.0))).unwrap();
        assert_eq!((moved.frame(2)[1].x, in_place.frame(2)[1].x), (4.0, 2.0));

        let mut broken = in_place.frames.0.iter().flat_map(FramePositions::to_vec).collect::<Vec<_>>();
        broken[9].y = f32::INFINITY;
        let error = MeshSequence::shared(raw(), 3, Arc::new(broken)).unwrap_err();
        assert_eq!(error.to_string(), "frame 2, vertex 1: y is inf");
        assert!(matches!(error, SequenceError::NotFinite { frame: Some(2), vertex: 1, .. }));
        assert_eq!(MeshSequence::shared(raw(), 0, Arc::new(Vec::new())).unwrap_err(), SequenceError::NoFrames);
        let few = MeshSequence::shared(raw(), 2, Arc::new(vec![Vec3::ZERO; 6])).unwrap_err();
        assert_eq!(few, SequenceError::TooFewVertices { vertices: 3, least: 4 });
    }
}
