//! The JSON part of a report, as the page reads it. The layout is described in `docs/formats/report.md`.
//! The page's TypeScript types are generated from these types (`typescript.rs`).

use bonesmith_core::model::shape_bones::{BoneShape, Driver};
use bonesmith_core::{ModelKind, metrics};
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::data::{Buffer, Influences, Positions};
#[cfg(test)]
use crate::typescript::{Cell, Kind, SecondsByStage};

/// The number of this layout.
pub const FORMAT: u32 = 1;

/// All of it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Document {
    pub format: u32,
    pub version: &'static str,
    pub title: String,
    pub command: String,
    /// As it was typed.
    pub command_line: Option<String>,
    pub up: Up,
    pub blob: BlobInfo,
    pub file: FileInfo,
    pub mesh: Option<Mesh>,
    pub frames: Frames,
    /// What the frames of the source are, where they are the shapes of a face, each alone at weight 1.
    pub shapes: Option<Vec<ShapeRow>>,
    pub original: Option<Positions>,
    pub models: Vec<Model>,
    pub done: Done,
    pub table: Option<Table>,
    pub tables: Option<Vec<Table>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct BlobInfo {
    /// Unpacked.
    pub bytes: usize,
    pub encoding: Encoding,
}

/// How the blob is packed before base64.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    Gzip,
}

/// The axis that points up.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Up {
    Y,
    Z,
}

/// What was left out to stay within the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct FileInfo {
    pub limit_bytes: u64,
    /// 1: all frames.
    pub kept_frames_every: usize,
    pub frames_total: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Mesh {
    pub vertices: usize,
    /// [T, 3]
    pub triangles: Buffer,
    /// [E, 2] edges of polygons; `None` where all faces are triangles.
    pub edges: Option<Buffer>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ClipRow {
    pub name: String,
    pub start: usize,
    pub count: usize,
}

/// A shape of a face, and how its weight follows from others.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ShapeRow {
    /// Its name.
    pub name: String,
    /// Numbers of the shapes that drive it; empty: it has a weight of its own. Without a range the product of their weights.
    pub of: Vec<usize>,
    /// An in-between: weights of that shape where this one begins, is 1, and ends.
    pub range: Option<[f32; 3]>,
}

impl ShapeRow {
    /// A shape with a weight of its own.
    pub fn own(name: impl Into<String>) -> Self {
        Self { name: name.into(), of: Vec::new(), range: None }
    }
}

impl From<&BoneShape> for ShapeRow {
    fn from(shape: &BoneShape) -> Self {
        let (of, range) = match &shape.driver {
            Driver::Product { of } => (of.clone(), None),
            Driver::Between { of, from, peak, to } => (vec![*of], Some([*from, *peak, *to])),
            _ => (Vec::new(), None),
        };
        Self { name: shape.name.clone(), of, range }
    }
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Model {
    pub name: String,
    #[serde(serialize_with = "by_id")]
    #[cfg_attr(test, ts(as = "Kind"))]
    pub kind: ModelKind,
    /// [N, 3]
    pub rest: Buffer,
    /// [N, 3] stored unit normals, of a model that the page skins.
    pub normals: Option<Buffer>,
    pub skin: Option<Skin>,
    pub positions: Option<Positions>,
    pub bones: Vec<BoneRow>,
    /// [f, B, 12] posed_from_rest
    pub bone_matrices: Option<Buffer>,
    pub bone_weights: Option<Influences>,
    /// [J, 3]
    pub virtual_heads: Option<Buffer>,
    pub error: Option<ErrorPart>,
    pub verdict: Option<Verdict>,
    pub plots: Plots,
    pub figures: Vec<Figure>,
    pub storage: Vec<StorageRow>,
    pub warnings: Vec<Remark>,
}

/// A kind of model by its name in files.
fn by_id<S: Serializer>(kind: &ModelKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.id())
}

/// Skinned on the page itself.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Skin {
    #[serde(flatten)]
    pub influences: Influences,
    pub joints: usize,
    /// [f, J, 12] posed_from_rest
    pub matrices: Buffer,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct BoneRow {
    pub name: String,
    /// -1: none.
    pub parent: i64,
    pub kind: BoneRowKind,
    pub head: [f64; 3],
    pub tip: Option<[f64; 3]>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum BoneRowKind {
    Bone,
}

/// Distances in model units.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct ErrorPart {
    /// [N] over all frames of the source.
    pub per_vertex_rms: Buffer,
    /// [N]
    pub per_vertex_max: Buffer,
    pub max: Largest,
    /// Of `per_vertex_rms`.
    pub percentiles: Percentiles,
    /// [F] each
    pub per_frame: PerFrame,
    pub histogram: Bars,
    /// Radius of the rest pose's smallest enclosing sphere.
    pub radius: f64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Largest {
    pub value: f64,
    /// In the source.
    pub frame: usize,
    pub vertex: usize,
}

/// Values below which 50, 90, 95 and 99 percent lie.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Percentiles {
    pub p50: f64,
    pub p90: f64,
    pub p95: f64,
    pub p99: f64,
}

impl From<&metrics::Percentiles> for Percentiles {
    fn from(&metrics::Percentiles { p50, p90, p95, p99 }: &metrics::Percentiles) -> Self {
        Self { p50, p90, p95, p99 }
    }
}

/// The distances of the vertices in each frame of the source.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct PerFrame {
    pub rms: Vec<f64>,
    pub q1: Vec<f64>,
    pub median: Vec<f64>,
    pub q3: Vec<f64>,
    pub max: Vec<f64>,
}

impl From<&metrics::FrameSpreads> for PerFrame {
    fn from(spreads: &metrics::FrameSpreads) -> Self {
        let metrics::FrameSpreads { rms, q1, median, q3, max } = spreads.clone();
        Self { rms, q1, median, q3, max }
    }
}

/// What a viewer notices. Frames are those of the source.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Verdict {
    pub visibility: Visibility,
    /// One sentence.
    pub text: String,
    /// Regions above a limit, the worst first.
    pub places: Vec<Place>,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Visibility {
    HardToSee,
    Visible,
    Obvious,
}

/// A region above a limit.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Place {
    /// Bone or place.
    pub region: String,
    pub cause: Cause,
    /// First and last frame of each range.
    pub frames: Vec<(usize, usize)>,
    /// Whether these are nearly all frames.
    pub throughout: bool,
    /// How many times the limit, in the worst frame.
    pub excess: f64,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Shape,
    Shading,
}

impl From<&metrics::Verdict> for Verdict {
    fn from(verdict: &metrics::Verdict) -> Self {
        let place = |place: &metrics::VisiblePlace| Place {
            region: place.region.clone(),
            cause: match place.cause {
                metrics::Cause::Shape => Cause::Shape,
                metrics::Cause::Shading => Cause::Shading,
            },
            frames: place.frames.clone(),
            throughout: place.throughout,
            excess: place.excess,
        };
        Self {
            visibility: match verdict.visibility {
                metrics::Visibility::HardToSee => Visibility::HardToSee,
                metrics::Visibility::Visible => Visibility::Visible,
                metrics::Visibility::Obvious => Visibility::Obvious,
            },
            text: verdict.to_string(),
            places: verdict.places.iter().map(place).collect(),
        }
    }
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Bars {
    pub edges: Vec<f64>,
    pub counts: Vec<u64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Timing {
    /// What.
    pub stage: String,
    /// How long.
    pub secs: f64,
}

/// A figure and what it means.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct StorageRow {
    /// What, in words.
    pub what: String,
    /// How much.
    pub bytes: u64,
    /// Whether it is counted in the row above that is none.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[cfg_attr(test, ts(as = "Option<bool>", optional))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Remark {
    /// As on the command line.
    pub text: String,
    /// In plain words.
    pub meaning: Option<String>,
}

/// What was done.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Done {
    /// One sentence.
    pub text: String,
    /// How it was asked for.
    pub params: Vec<Param>,
    /// Seconds by stage; null where none were measured.
    #[cfg_attr(test, ts(as = "Option<SecondsByStage>"))]
    pub seconds: Value,
}

/// A parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
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
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Table {
    /// May be empty.
    pub title: String,
    /// Heads.
    pub columns: Vec<Column>,
    /// Texts, numbers or nothing.
    #[cfg_attr(test, ts(as = "Vec<Vec<Cell>>"))]
    pub rows: Vec<Vec<Value>>,
}

/// The head of a column.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Column {
    /// What stands above it.
    pub name: String,
    /// One sentence; may be empty.
    pub meaning: String,
    /// May be empty.
    pub unit: String,
}
