//! From models to a document: which frames are kept, and what lies in which buffer.

use std::collections::BTreeSet;

use bonesmith_core::metrics::Metrics;
use bonesmith_core::{MeshSequence, ModelKind, SparseWeights, Surface, Topology, UpAxis};
use glam::Vec3;

use crate::data::{Blob, Influences, Positions, flat, rows_of};
use crate::document::{
    Bars, BlobInfo, ClipRow, Document, Done, Encoding, ErrorPart, FORMAT, Figure, FileInfo, Frames, Largest, Mesh,
    Model, Plots, ShapeRow, Skin, StorageRow, Table, Up,
};
use crate::figures;
use crate::subject::{self, Subject};

/// Bones that colour a vertex whose own influences are not bones.
const COLOURS: usize = 4;

/// Everything that one report shows.
#[derive(Clone, Debug, Default)]
pub struct Scene<'a> {
    /// "walk.npz → walk.glb"
    pub title: String,
    /// The command that asked for it.
    pub command: String,
    /// The whole command line, if there is one.
    pub command_line: Option<String>,
    /// What the models are held against.
    pub original: Option<&'a MeshSequence>,
    /// Models of one mesh; none for a report of tables.
    pub subjects: Vec<Subject<'a>>,
    /// Clips within the frames of the scene, in order; empty: one clip of all frames.
    pub clips: Vec<ClipSpan>,
    /// What the frames are, where they are the shapes of a face; empty: frames of an animation.
    pub shapes: Vec<ShapeRow>,
    /// What was done.
    pub done: Done,
    /// Models side by side.
    pub table: Option<Table>,
    /// Tables of their own.
    pub tables: Vec<Table>,
}

/// A clip and its number of frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipSpan {
    /// Its name.
    pub name: String,
    /// Its frames.
    pub count: usize,
}

/// The frames of a scene that a report keeps.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kept {
    /// Numbers in the scene.
    pub frames: Vec<usize>,
    pub clips: Vec<ClipRow>,
    /// Every how many.
    pub every: usize,
}

impl Kept {
    /// Frame 0, `every`, 2 `every`... of each clip, and its last.
    pub fn every(clips: &[ClipSpan], every: usize) -> Self {
        let mut kept = Self { frames: Vec::new(), clips: Vec::new(), every };
        let mut first = 0;
        for clip in clips.iter().filter(|clip| clip.count > 0) {
            let start = kept.frames.len();
            kept.frames.extend((0..clip.count).step_by(every).map(|t| first + t));
            if (clip.count - 1) % every != 0 {
                kept.frames.push(first + clip.count - 1);
            }
            kept.clips.push(ClipRow { name: clip.name.clone(), start, count: kept.frames.len() - start });
            first += clip.count;
        }
        kept
    }

    /// Nothing but the first frame.
    pub fn one(clips: &[ClipSpan]) -> Self {
        let mut kept = Self::every(clips, clips.iter().map(|clip| clip.count).sum::<usize>().max(1));
        kept.frames.truncate(1);
        kept.clips.truncate(1);
        kept.clips.iter_mut().for_each(|clip| clip.count = 1);
        kept
    }
}

impl Scene<'_> {
    /// Clips with their frames: as given, else those of the original, else those of the first model.
    pub(crate) fn spans(&self) -> Vec<ClipSpan> {
        if !self.clips.is_empty() {
            return self.clips.clone();
        }
        let of_sequence = |s: &MeshSequence| vec![ClipSpan { name: s.name().to_owned(), count: s.frame_count() }];
        let of_subject = |subject: &Subject<'_>| -> Vec<ClipSpan> {
            let all = subject.model.clips();
            let spans = subject.clips.iter().filter_map(|&clip| all.get(clip));
            let spans = spans.map(|clip| ClipSpan { name: clip.name.to_owned(), count: clip.frame_count() });
            spans.filter(|clip| clip.count > 0).collect()
        };
        let found = match (self.original, self.subjects.first()) {
            (Some(original), _) => of_sequence(original),
            (None, Some(subject)) => of_subject(subject),
            (None, None) => return Vec::new(),
        };
        // A model without motion is shown at rest.
        if found.is_empty() { vec![ClipSpan { name: "rest pose".to_owned(), count: 1 }] } else { found }
    }

    fn surface(&self) -> Option<&Surface> {
        let of_subject = self.subjects.first().map(|subject| &**subject.model.surface());
        self.original.map(|original| &**original.surface()).or(of_subject)
    }

    /// Frames per second: of the typical step.
    fn fps(&self) -> f64 {
        let times = match (self.original, self.subjects.first()) {
            (Some(original), _) => original.times_secs(),
            (None, Some(subject)) => {
                let clip = subject.clips.first().and_then(|&clip| subject.model.clips().get(clip).copied());
                clip.map_or(&[][..], |clip| clip.times_secs)
            }
            (None, None) => &[],
        };
        let mut steps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0).collect();
        steps.sort_by(f64::total_cmp);
        let fps = steps.get(steps.len() / 2).map_or(bonesmith_core::mesh::sequence::DEFAULT_FPS, |step| 1.0 / step);
        // 29.999999 is a matter of rounding.
        if (fps - fps.round()).abs() < 1e-3 * fps { fps.round() } else { fps }
    }

    /// The document with the frames `kept`, and its buffers.
    pub(crate) fn build(&self, kept: &Kept, limit_bytes: u64) -> (Document, Blob) {
        let mut blob = Blob::default();
        let surface = self.surface();
        let mesh = surface.map(|surface| mesh(&surface.topology, self.vertices(), &mut blob));
        let frames_total = self.spans().iter().map(|clip| clip.count).sum();
        let original = self.original.map(|original| {
            let frames: Vec<Vec<Vec3>> = kept.frames.iter().map(|&t| original.frame(t).into_owned()).collect();
            Positions::new(&frames, &mut blob)
        });
        let shapes = if self.shapes.len() == frames_total { &self.shapes[..] } else { &[] };
        let source = Source { frames: frames_total, shapes };
        let models = self.subjects.iter().map(|subject| model(subject, kept, source, &mut blob)).collect();
        let document = Document {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION"),
            title: self.title.clone(),
            command: self.command.clone(),
            command_line: self.command_line.clone(),
            up: match surface.and_then(|surface| surface.space.up) {
                Some(UpAxis::Z) => Up::Z,
                _ => Up::Y,
            },
            blob: BlobInfo { bytes: blob.len(), encoding: Encoding::Gzip },
            file: FileInfo { limit_bytes, kept_frames_every: kept.every, frames_total },
            mesh,
            frames: Frames {
                count: kept.frames.len(),
                fps: self.fps(),
                indices: kept.frames.clone(),
                clips: kept.clips.clone(),
            },
            shapes: (!shapes.is_empty()).then(|| shapes.to_vec()),
            original,
            models,
            done: self.done.clone(),
            table: self.table.clone(),
            tables: (!self.tables.is_empty()).then(|| self.tables.clone()),
        };
        (document, blob)
    }

    fn vertices(&self) -> usize {
        let first = self.subjects.first().map(|subject| subject.model.vertex_count());
        self.original.map(|original| original.vertex_count()).or(first).unwrap_or(0)
    }
}

fn mesh(topology: &Topology, vertices: usize, blob: &mut Blob) -> Mesh {
    let triangles = topology.vertex_triangles();
    let edges = topology.faces().any(|face| face.len() > 3).then(|| blob.push(edges(topology).as_flattened()));
    Mesh { vertices, triangles: blob.push(triangles.as_flattened()), edges }
}

/// Edges of the faces, each once.
fn edges(topology: &Topology) -> Vec<[u32; 2]> {
    let around = |face: &[u32]| -> Vec<[u32; 2]> {
        let next = face.iter().cycle().skip(1);
        face.iter().zip(next).map(|(&a, &b)| [a.min(b), a.max(b)]).collect()
    };
    let all: BTreeSet<[u32; 2]> = topology.faces().flat_map(around).filter(|[a, b]| a != b).collect();
    all.into_iter().collect()
}

/// The frames of a scene before any are left out.
#[derive(Clone, Copy)]
struct Source<'a> {
    frames: usize,
    /// What they are, where they are shapes.
    shapes: &'a [ShapeRow],
}

fn model(subject: &Subject, kept: &Kept, source: Source<'_>, blob: &mut Blob) -> Model {
    let model = subject.model;
    let rest = blob.push(&flat(model.rest().iter().map(|p| p.as_dvec3())));
    let bones = subject.bone_rows();
    let skin = subject.is_skinned().then(|| skin(subject, kept, blob));
    let normals = skin.as_ref().and_then(|_| subject.normals()).map(|normals| blob.push(&flat(normals)));
    let positions = skin.is_none().then(|| Positions::new(&subject.positions(&kept.frames), blob));
    // Where joints are the bones, their motion is there already.
    let is_rig = matches!(model.kind(), ModelKind::Rig | ModelKind::ShapeBones);
    let bone_matrices = match &skin {
        Some(skin) if is_rig => Some(skin.matrices.clone()),
        _ => (!bones.is_empty()).then(|| blob.push(&rows_of(subject.bone_poses(&kept.frames)))),
    };
    let own_colours = skin.is_some() && is_rig;
    let rows = (0..model.vertex_count()).map(|i| subject::colours(model, i));
    let bone_weights = (!own_colours && !bones.is_empty()).then(|| Influences::new(COLOURS, rows, blob));
    let heads = model.virtual_bones();
    Model {
        name: subject.name.clone(),
        kind: model.kind(),
        rest,
        normals,
        skin,
        positions,
        bones,
        bone_matrices,
        bone_weights,
        virtual_heads: heads.map(|heads| blob.push(&flat(heads))),
        error: subject.metrics.map(|metrics| error(metrics, blob)),
        verdict: subject.metrics.map(|metrics| (&metrics.verdict).into()),
        plots: Plots {
            iterations: subject.iterations.clone(),
            influence_counts: model.influence_histogram(),
            bone_usage: subject::bone_usage(model),
            timings: subject.timings.clone(),
        },
        figures: figures(subject, source),
        storage: storage(subject, source),
        warnings: subject.warnings.clone(),
    }
}

/// Figures of the metrics, of the model, and those given.
fn figures(subject: &Subject, source: Source<'_>) -> Vec<Figure> {
    let measured = subject.metrics.map(|metrics| figures::of_metrics(metrics, source.shapes)).unwrap_or_default();
    let own = figures::of_model(subject.model, source.frames, source.shapes);
    measured.into_iter().chain(own).chain(subject.figures.iter().cloned()).collect()
}

/// Storage before and after, then the files.
fn storage(subject: &Subject, Source { frames, shapes }: Source<'_>) -> Vec<StorageRow> {
    let before = 12 * (subject.model.vertex_count() * frames) as u64;
    let (positions, after) = match shapes.is_empty() {
        true => ("before: positions of all frames, float32", "after: the model with its motion"),
        false => ("before: offsets of all shapes, float32", "after: the model"),
    };
    let mut rows = vec![StorageRow::new(positions, before)];
    let own = subject::storage(subject.model, frames);
    if own.len() > 1 {
        rows.push(StorageRow::new(after, own.iter().map(|row| row.bytes).sum()));
        rows.extend(own.into_iter().map(|row| StorageRow { part: true, ..row }));
    }
    rows.extend(subject.storage.iter().cloned());
    rows
}

fn skin(subject: &Subject, kept: &Kept, blob: &mut Blob) -> Skin {
    let none = SparseWeights::new(0, 1);
    let influences = Influences::of(subject.model.weights().unwrap_or(&none), blob);
    let poses = subject.joint_poses(&kept.frames);
    let joints = poses.len() / kept.frames.len().max(1);
    Skin { influences, joints, matrices: blob.push(&rows_of(poses)) }
}

fn error(metrics: &Metrics, blob: &mut Blob) -> ErrorPart {
    let spread = &metrics.spread;
    let (frame, vertex) = metrics.max_error_at;
    ErrorPart {
        per_vertex_rms: blob.push(&spread.vertex_rms),
        per_vertex_max: blob.push(&spread.vertex_max),
        max: Largest { value: metrics.max_error_model_units, frame, vertex },
        percentiles: (&spread.percentiles).into(),
        per_frame: (&spread.frames).into(),
        histogram: Bars { edges: spread.histogram.edges(), counts: spread.histogram.counts.clone() },
        radius: metrics.radius_model_units,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(name: &str, count: usize) -> ClipSpan {
        ClipSpan { name: name.into(), count }
    }

    #[test]
    fn every_clip_keeps_its_first_and_last_frame() {
        let clips = [span("walk", 5), span("pose", 1), span("run", 4)];
        let all = Kept::every(&clips, 1);
        assert_eq!(all.frames, (0..10).collect::<Vec<_>>());
        assert_eq!(all.clips.iter().map(|c| (c.start, c.count)).collect::<Vec<_>>(), [(0, 5), (5, 1), (6, 4)]);
        let half = Kept::every(&clips, 2);
        assert_eq!(half.frames, [0, 2, 4, 5, 6, 8, 9]);
        assert_eq!(half.clips.iter().map(|c| (c.start, c.count)).collect::<Vec<_>>(), [(0, 3), (3, 1), (4, 3)]);
        assert_eq!(Kept::every(&clips, 100).frames, [0, 4, 5, 6, 9]);
        let one = Kept::one(&clips);
        assert_eq!((one.frames, one.clips.len(), one.clips[0].count), (vec![0], 1, 1));
    }

    #[test]
    fn edges_of_polygons_come_once() {
        let topology = Topology::from_counts(&[4, 3], vec![0, 1, 2, 3, 3, 2, 4]);
        assert_eq!(edges(&topology), [[0, 1], [0, 3], [1, 2], [2, 3], [2, 4], [3, 4]]);
    }
}
