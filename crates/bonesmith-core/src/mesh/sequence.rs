//! Mesh animations: as read from a file (`RawSequence`), and checked (`MeshSequence`).
//!
//! `MeshSequence::try_from(RawSequence)` is the only check: every later stage can handle what passes it.

mod clips;

use std::sync::Arc;

use glam::Vec3;

use crate::mesh::frames::{Frames, FramesInMemory};
use crate::mesh::surface::{Surface, SurfaceError};
use crate::mesh::times;
use crate::mesh::topology::Topology;

pub(crate) use clips::typical_step;
pub use clips::{Joined, Span};

/// Minimum number of vertices that a bone can be fitted to.
pub const MIN_VERTICES: usize = 4;

/// One frame as stored in a file.
#[derive(Clone, Debug, Default)]
pub struct RawFrame {
    /// Its source, for messages ("walk_0012.obj"). May be empty.
    pub label: String,
    /// [N] positions in model units.
    pub positions: Vec<Vec3>,
    /// Faces, when the file has them per frame. Readers share one `Arc` between equal frames.
    pub topology: Option<Arc<Topology>>,
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
}

/// A checked mesh animation.
///
/// Invariants (established by `try_from`, relied on everywhere):
/// 1. N >= 4 vertices (N >= 1 by [`MeshSequence::of_any_size`]), F >= 1 frames; every frame and the rest pose have N positions.
/// 2. All positions are finite.
/// 3. Faces name existing vertices; corner attributes fit the faces.
/// 4. Times are finite and rise strictly.
#[derive(Clone, Debug)]
pub struct MeshSequence {
    name: String,
    rest: Vec<Vec3>,
    /// Shared, so that a copy of a sequence costs nothing.
    frames: FramesInMemory,
    times_secs: Vec<f64>,
    surface: Arc<Surface>,
}

/// Why a sequence was refused. Frames count from 0 in file order; a place is "frame 3 (walk_3.obj)" or "the rest pose".
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum SequenceError {
    #[error("the sequence has no frames")]
    NoFrames,
    #[error("the mesh has {vertices} vertices, at least {least} {} needed", if *least == 1 { "is" } else { "are" })]
    TooFewVertices { vertices: usize, least: usize },
    #[error("{place} has {found} vertices, but the first frame has {expected}")]
    VertexCount { place: String, found: usize, expected: usize },
    /// The first face that differs; `None` when only the counts do.
    #[error("{place} has other faces than the first frame{}", .first_difference.map(|f| format!(" (first difference at face {f})")).unwrap_or_default())]
    FacesDiffer { place: String, first_difference: Option<usize> },
    #[error("{place}, vertex {vertex}: {axis} is {value}")]
    NotFinite { place: String, vertex: usize, axis: char, value: f32 },
    /// Squares would leave the range of float32.
    #[error("{place}, vertex {vertex}: coordinate {value:e} is too large (limit 1e15)")]
    TooLarge { place: String, vertex: usize, value: f32 },
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
    fn with_vertices(raw: RawSequence, least: usize) -> Result<Self, SequenceError> {
        let first = raw.frames.first().ok_or(SequenceError::NoFrames)?;
        let n = first.positions.len();
        let faces = &raw.surface.topology;
        if n < least {
            return Err(SequenceError::TooFewVertices { vertices: n, least });
        }
        if let Some(rest) = &raw.rest {
            check_frame(rest, "the rest pose", n, faces)?;
        }
        for (t, frame) in raw.frames.iter().enumerate() {
            check_frame(frame, &format!("frame {t}"), n, faces)?;
        }
        raw.surface.check(n)?;
        let times_secs = times_or_fps(raw.times_secs, raw.frames.len(), raw.fps)?;
        let frames = FramesInMemory(raw.frames.into_iter().map(|f| Arc::new(f.positions)).collect());
        let rest = match raw.rest {
            Some(rest) => rest.positions,
            None => frames.0[0].to_vec(),
        };
        Ok(Self { name: raw.name, rest, frames, times_secs, surface: Arc::new(raw.surface) })
    }
}

fn check_frame(frame: &RawFrame, place: &str, n: usize, faces: &Topology) -> Result<(), SequenceError> {
    let place = || match frame.label.as_str() {
        "" => place.to_owned(),
        label => format!("{place} ({label})"),
    };
    if frame.positions.len() != n {
        return Err(SequenceError::VertexCount { place: place(), found: frame.positions.len(), expected: n });
    }
    if let Some(own) = frame.topology.as_deref() {
        same_faces(own, faces, &place)?;
    }
    check_positions(&frame.positions, &place)
}

/// Refuses other faces than those of the first frame.
fn same_faces(own: &Topology, faces: &Topology, place: &dyn Fn() -> String) -> Result<(), SequenceError> {
    if own == faces {
        return Ok(());
    }
    let first_difference = own.faces().zip(faces.faces()).position(|(a, b)| a != b);
    Err(SequenceError::FacesDiffer { place: place(), first_difference })
}

/// Checks invariant 2.
fn check_positions(positions: &[Vec3], place: &dyn Fn() -> String) -> Result<(), SequenceError> {
    for (vertex, p) in positions.iter().enumerate() {
        if !p.is_finite() {
            let axis = (0..3).find(|&a| !p[a].is_finite()).unwrap_or(0);
            let (name, value) = (['x', 'y', 'z'][axis], p[axis]);
            return Err(SequenceError::NotFinite { place: place(), vertex, axis: name, value });
        }
        if p.abs().max_element() > 1e15 {
            return Err(SequenceError::TooLarge { place: place(), vertex, value: p.abs().max_element() });
        }
    }
    Ok(())
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

    /// [N] positions of frame `t` in model units.
    pub fn frame(&self, t: usize) -> &[Vec3] {
        &self.frames.0[t]
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

    /// Bytes of the positions of all frames: the unit of memory figures.
    pub fn position_bytes(&self) -> usize {
        self.frame_count() * self.vertex_count() * size_of::<Vec3>()
    }

    /// The same frames over another rest pose.
    pub fn with_rest(mut self, rest: RawFrame) -> Result<Self, SequenceError> {
        check_frame(&rest, "the rest pose", self.vertex_count(), &self.surface.topology)?;
        self.rest = rest.positions;
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
            frames: FramesInMemory(self.frames.0.iter().map(|frame| Arc::new(pick(frame))).collect()),
            times_secs: self.times_secs.clone(),
            surface: Arc::new(Surface::bare(topology)),
        }
    }

    /// Only the frames `range`; times are kept.
    ///
    /// # Panics
    /// If the range is empty or not inside.
    pub fn with_frames(mut self, range: std::ops::Range<usize>) -> Self {
        assert!(range.start < range.end && range.end <= self.frame_count(), "frames {range:?}");
        self.frames.0.truncate(range.end);
        self.frames.0.drain(..range.start);
        self.times_secs = self.times_secs[range].to_vec();
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
                .map(|t| RawFrame { label: format!("tet_{t}.obj"), positions: positions.clone(), topology: None })
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
        assert_eq!(sequence.rest(), sequence.frame(0));
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
}
