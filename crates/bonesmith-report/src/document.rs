//! The JSON part of a report, as the page reads it. The layout is described in `docs/formats/report.md`.

use bonesmith_core::metrics::{FrameSpreads, Percentiles};
use serde::Serialize;
use serde_json::Value;

use crate::data::{Buffer, Influences, Positions};

/// The number of this layout.
pub const FORMAT: u32 = 1;

/// All of it.
#[derive(Debug, Serialize)]
pub struct Document {
    pub format: u32,
    pub version: &'static str,
    pub title: String,
    pub command: String,
    /// "y" or "z".
    pub up: &'static str,
    pub blob: BlobInfo,
    pub file: FileInfo,
    pub mesh: Option<Mesh>,
    pub frames: Frames,
    pub original: Option<Positions>,
    pub models: Vec<Model>,
    pub done: Done,
    pub table: Option<Table>,
    pub tables: Option<Vec<Table>>,
}

#[derive(Debug, Serialize)]
pub struct BlobInfo {
    /// Unpacked.
    pub bytes: usize,
    pub encoding: &'static str,
}

/// What was left out to stay within the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FileInfo {
    pub limit_bytes: u64,
    /// 1: all frames.
    pub kept_frames_every: usize,
    pub frames_total: usize,
}

#[derive(Debug, Serialize)]
pub struct Mesh {
    pub vertices: usize,
    /// [T, 3]
    pub triangles: Buffer,
    /// [E, 2] edges of polygons; `None` where all faces are triangles.
    pub edges: Option<Buffer>,
}

#[derive(Debug, Serialize)]
pub struct Frames {
    pub count: usize,
    /// Of the source, before any were left out.
    pub fps: f64,
    /// Numbers in the source.
    pub indices: Vec<usize>,
    pub clips: Vec<ClipRow>,
}

/// Kept frames `start .. start + count`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClipRow {
    pub name: String,
    pub start: usize,
    pub count: usize,
}

#[derive(Debug, Serialize)]
pub struct Model {
    pub name: String,
    pub kind: &'static str,
    /// [N, 3]
    pub rest: Buffer,
    pub skin: Option<Skin>,
    pub positions: Option<Positions>,
    pub bones: Vec<BoneRow>,
    /// [f, B, 12] posed_from_rest
    pub bone_matrices: Option<Buffer>,
    pub bone_weights: Option<Influences>,
    /// [J, 3]
    pub virtual_heads: Option<Buffer>,
    pub error: Option<ErrorPart>,
    pub plots: Plots,
    pub figures: Vec<Figure>,
    pub storage: Vec<StorageRow>,
    pub warnings: Vec<Remark>,
}

/// Skinned on the page itself.
#[derive(Debug, Serialize)]
pub struct Skin {
    #[serde(flatten)]
    pub influences: Influences,
    pub joints: usize,
    /// [f, J, 12] posed_from_rest
    pub matrices: Buffer,
}

#[derive(Debug, Serialize)]
pub struct BoneRow {
    pub name: String,
    /// -1: none.
    pub parent: i64,
    pub kind: &'static str,
    pub head: [f64; 3],
    pub tip: Option<[f64; 3]>,
}

/// Distances in model units.
#[derive(Debug, Serialize)]
pub struct ErrorPart {
    /// [N] over all frames of the source.
    pub per_vertex_rms: Buffer,
    /// [N]
    pub per_vertex_max: Buffer,
    pub max: Largest,
    /// Of `per_vertex_rms`.
    pub percentiles: Percentiles,
    /// [F] each
    pub per_frame: FrameSpreads,
    pub histogram: Bars,
}

#[derive(Debug, Serialize)]
pub struct Largest {
    pub value: f64,
    /// In the source.
    pub frame: usize,
    pub vertex: usize,
}

#[derive(Debug, Serialize)]
pub struct Bars {
    pub edges: Vec<f64>,
    pub counts: Vec<u64>,
}

#[derive(Debug, Serialize)]
pub struct Plots {
    pub iterations: Option<Vec<Iteration>>,
    /// Vertices with k influences, k from 0.
    pub influence_counts: Vec<usize>,
    /// [B] mean weight over the vertices.
    pub bone_usage: Vec<f64>,
    pub timings: Vec<Timing>,
}

/// The error after a round.
#[derive(Clone, Debug, Serialize)]
pub struct Iteration {
    /// From 1.
    pub iteration: usize,
    /// In the unit that the method itself looks at; E_RMS for fits.
    pub error: f64,
    /// What the round was part of.
    pub stage: String,
}

/// Wall-clock time of a stage.
#[derive(Clone, Debug, Serialize)]
pub struct Timing {
    /// What.
    pub stage: String,
    /// How long.
    pub secs: f64,
}

/// A figure and what it means.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Short name.
    pub name: &'static str,
    /// The number.
    pub value: f64,
    /// The number for a person.
    pub text: String,
    /// Unit; may be empty.
    pub unit: &'static str,
    /// One sentence.
    pub meaning: String,
}

/// How much room something takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StorageRow {
    /// What, in words.
    pub what: String,
    /// How much.
    pub bytes: u64,
    /// Whether it is counted in the row above that is none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub part: bool,
}

impl StorageRow {
    /// A row that stands for itself.
    pub fn new(what: impl Into<String>, bytes: u64) -> Self {
        Self { what: what.into(), bytes, part: false }
    }
}

/// A warning and what to make of it.
#[derive(Clone, Debug, Serialize)]
pub struct Remark {
    /// As on the command line.
    pub text: String,
    /// In plain words.
    pub meaning: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Done {
    /// One sentence.
    pub text: String,
    /// How it was asked for.
    pub params: Vec<Param>,
    /// Seconds by stage.
    pub seconds: Value,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Param {
    /// As stored in files.
    pub name: String,
    /// As text.
    pub value: String,
    /// One sentence, where there is one.
    pub meaning: Option<&'static str>,
}

/// Rows to compare.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Table {
    /// May be empty.
    pub title: String,
    /// Heads.
    pub columns: Vec<Column>,
    /// Texts, numbers or nothing.
    pub rows: Vec<Vec<Value>>,
}

/// The head of a column.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Column {
    /// What stands above it.
    pub name: String,
    /// One sentence; may be empty.
    pub meaning: String,
    /// May be empty.
    pub unit: String,
}
