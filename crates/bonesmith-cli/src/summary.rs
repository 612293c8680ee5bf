//! What `fit`, `demo` and `eval` report, once for people and once for machines.

use std::path::{Path, PathBuf};

use bonesmith_core::fit::{FitInfo, StopReason, Warning};
use bonesmith_core::metrics::{self, Metrics, MetricsError};
use bonesmith_core::skeleton::{SkeletonInfo, SkeletonParams};
use bonesmith_core::{BoneKind, MeshSequence, ModelRef, Rig};
use serde::Serialize;
use serde_json::{Value, json};

use crate::memory::Memory;
use crate::output::{Table, bytes, count, figure};

/// Influences that every engine and viewer evaluates; more need care.
pub const COMMON_INFLUENCES: usize = 4;

/// Wall-clock seconds of each stage.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Seconds {
    pub load: f64,
    pub prepare: f64,
    pub fit: f64,
    pub export: f64,
    /// From the first byte read to the last byte written.
    pub total: f64,
    /// Reading the file back and measuring it; not part of the total.
    pub evaluate: f64,
}

/// How the skeleton came about.
#[derive(Clone, Debug, Serialize)]
pub struct SkeletonPart {
    pub params: SkeletonParams,
    #[serde(flatten)]
    pub info: SkeletonInfo,
}

/// How the fit went; absent for `eval`.
#[derive(Clone, Debug)]
pub struct FitPart {
    /// What it was asked to do.
    pub params: Value,
    pub method: &'static str,
    pub info: FitInfo,
    /// With `--skeleton`.
    pub skeleton: Option<SkeletonPart>,
    /// After the fit, before the export.
    pub memory: Option<Memory>,
    pub output: PathBuf,
    pub file_bytes: u64,
}

/// Everything there is to say about one rig and one animation.
#[derive(Clone, Debug)]
pub struct Summary {
    pub name: String,
    pub vertices: usize,
    pub faces: usize,
    pub frames: usize,
    pub bones: usize,
    pub influences: usize,
    pub bone_kind: BoneKind,
    pub metrics: Metrics,
    pub seconds: Seconds,
    pub warnings: Vec<Warning>,
    /// Size of the animation's positions, the yardstick for memory.
    pub sequence_bytes: usize,
    /// What a player has to hold: rest pose, weights, transforms of all frames, shapes.
    pub storage_bytes: usize,
    /// With `--eigenskin`.
    pub shapes: Option<ShapePart>,
    pub fit: Option<FitPart>,
    /// Parameters stored in an evaluated rig, as JSON text.
    pub stored_params: String,
    /// What a two-layer rig is made of, in words.
    pub layers: Option<String>,
    /// The adapter that posed the rig, if not the processor.
    pub gpu: Option<String>,
    /// Each clip, where there are several.
    pub clips: Vec<ClipPart>,
    /// Each subject after the first, where there are several: its rig in short.
    pub subjects: Vec<Value>,
    /// The same for people, one line each.
    pub notes: Vec<String>,
}

/// What corrective shapes do.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ShapePart {
    /// How many there are.
    pub rank: usize,
    /// E_RMS of the bones alone.
    pub e_rms_without: f64,
    /// Size of the shapes and their weights.
    pub bytes: usize,
}

/// The figures of one of several clips.
#[derive(Clone, Debug, Serialize)]
pub struct ClipPart {
    pub name: String,
    pub frames: usize,
    pub e_rms: f64,
    /// E_RMS of its worst frame.
    pub worst_frame: f64,
}

impl Summary {
    /// Measures one clip of a model; a rig with corrective shapes without them too.
    pub fn measured<'a>(
        model: impl Into<ModelRef<'a>>,
        clip: usize,
        sequence: &MeshSequence,
    ) -> Result<Self, MetricsError> {
        let model = model.into();
        let mut summary = Self::new(model, sequence, metrics::evaluate(model, clip, sequence)?);
        if let ModelRef::Corrective(corrective) = model {
            let e_rms_without = metrics::evaluate(&corrective.rig, clip, sequence)?.e_rms;
            let (rank, bytes) = (corrective.shapes.len(), corrective.shape_bytes());
            summary.shapes = Some(ShapePart { rank, e_rms_without, bytes });
        }
        Ok(summary)
    }

    pub fn new<'a>(model: impl Into<ModelRef<'a>>, sequence: &MeshSequence, metrics: Metrics) -> Self {
        let model = model.into();
        let (bones, influences, bone_kind) = match model {
            // As many bones as would have its numbers in every frame.
            ModelRef::Basis(basis) => {
                ((basis.cluster_count * basis.dimension).div_ceil(4), basis.dimension, BoneKind::Affine)
            }
            _ => {
                let influences = model.weights().map_or(0, |weights| weights.max_influences());
                (model.bone_count(), influences, model.rig().map_or(BoneKind::Affine, |rig| rig.kind))
            }
        };
        Self {
            name: sequence.name().to_owned(),
            vertices: sequence.vertex_count(),
            faces: sequence.surface().topology.face_count(),
            frames: sequence.frame_count(),
            bones,
            influences,
            bone_kind,
            metrics,
            seconds: Seconds::default(),
            warnings: Vec::new(),
            sequence_bytes: sequence.position_bytes(),
            storage_bytes: model.bytes(),
            shapes: None,
            fit: None,
            stored_params: model.params_json().to_owned(),
            layers: layers(model),
            gpu: None,
            clips: Vec::new(),
            subjects: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The keys that scripts depend on, and some more.
    pub fn to_json(&self) -> Value {
        let metrics = &self.metrics;
        let (frame, vertex) = metrics.max_error_at;
        let fit = self.fit.as_ref();
        let memory = fit.and_then(|fit| fit.memory);
        let mut value = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "name": self.name,
            "vertices": self.vertices,
            "faces": self.faces,
            "frames": self.frames,
            "bones": self.bones,
            "bone_kind": self.bone_kind,
            "pieces": fit.map(|f| f.info.pieces),
            "influences": self.influences,
            "e_rms": metrics.e_rms,
            "max_error": metrics.max_error,
            "max_error_model_units": metrics.max_error_model_units,
            "max_error_at": { "frame": frame, "vertex": vertex },
            "rmse_percent": metrics.rmse_percent,
            "normal_degrees": metrics.normal_degrees,
            "skinned_normals": metrics.skinned_normals,
            "radius_model_units": metrics.radius_model_units,
            "e_rms_per_frame": metrics.per_frame,
            "error_model_units": metrics.spread,
            "method": fit.map(|f| f.method),
            "skeleton": fit.and_then(|f| f.skeleton.as_ref()),
            "iterations": fit.map(|f| f.info.iterations),
            "stop": fit.map(|f| f.info.stop),
            "history": fit.map(|f| &f.info.history),
            "jitter_ratio": fit.and_then(|f| f.info.jitter_ratio),
            "profile": fit.map(|f| f.info.profile.iter().map(|(n, s)| json!({"part": n, "seconds": s})).collect::<Vec<_>>()),
            "seconds": self.seconds,
            "sequence_bytes": self.sequence_bytes,
            "storage_bytes": self.storage_bytes,
            "eigenskin": self.shapes,
            "peak_memory_bytes": memory.map(|memory| memory.peak),
            "program_memory_bytes": memory.map(|memory| memory.program),
            "output": fit.map(|f| f.output.to_string_lossy()),
            "file_bytes": fit.map(|f| f.file_bytes),
            "gpu": self.gpu,
            "clips": self.clips,
            "subjects": self.subjects,
            "warnings": self.warnings.iter().map(warning_json).collect::<Vec<_>>(),
            "params": self.params_json(),
        });
        add_measures(&mut value, metrics);
        value
    }

    /// What it was made with, or what is stored in the file.
    pub fn params_json(&self) -> Value {
        match &self.fit {
            Some(fit) => fit.params.clone(),
            None => serde_json::from_str(&self.stored_params).unwrap_or_else(|_| json!({})),
        }
    }

    /// A compact table of the figures.
    pub fn to_table(&self, verbose: bool) -> String {
        let mesh = [count(self.vertices, "vertex"), count(self.faces, "face"), count(self.frames, "frame")];
        let mut table = Table::new(format!("{}: {}", self.name, mesh.join(", ").replace("vertexs", "vertices")));
        let kind = format!("{:?}", self.bone_kind).to_lowercase();
        let pieces = self.fit.as_ref().map_or(0, |fit| fit.info.pieces);
        let pieces = if pieces > 0 { format!("; {}", count(pieces, "rigid piece")) } else { String::new() };
        table.row("bones", format!("{} {kind}, at most {} per vertex{pieces}", self.bones, self.influences));
        if let Some(layers) = &self.layers {
            table.row("layers", layers.clone());
        }
        if let Some(ShapePart { rank, e_rms_without, bytes: size }) = self.shapes {
            let (shapes, size) = (count(rank, "corrective shape"), bytes(size as u64));
            table.row("shapes", format!("{shapes}, {size}; E_RMS without {}", figure(e_rms_without)));
        }
        if let Some(gpu) = &self.gpu {
            table.row("posed by", gpu.clone());
        }
        self.error_rows(&mut table);
        for clip in &self.clips {
            let (e_rms, frames) = (figure(clip.e_rms), count(clip.frames, "frame"));
            table.row("clip", format!("{e_rms:<9} E_RMS of {}, {frames}", clip.name));
        }
        if let Some(fit) = &self.fit {
            fit_rows(&mut table, fit, verbose);
        }
        table.row("seconds", self.seconds.to_line(self.fit.is_some()));
        if let Some(fit) = &self.fit {
            table.row("written", format!("{}, {}", fit.output.display(), bytes(fit.file_bytes)));
        }
        self.notes.iter().for_each(|note| table.row("written", note));
        table.to_string()
    }

    fn error_rows(&self, table: &mut Table) {
        let metrics = &self.metrics;
        let (frame, vertex) = metrics.max_error_at;
        table.row(
            "E_RMS",
            format!("{:<9} thousandths of the radius {}", figure(metrics.e_rms), figure(metrics.radius_model_units)),
        );
        let place = format!(
            "frame {frame}, vertex {vertex}; {} model units; 99.9 %: {}",
            figure(metrics.max_error_model_units),
            figure(metrics.p999_error)
        );
        table.row("max error", format!("{:<9} {place}", figure(metrics.max_error)));
        table.row("RMSE", format!("{:<9} of the bounding box diagonal", figure(metrics.rmse_percent) + " %"));
        if let Some(degrees) = metrics.normal_degrees {
            table.row("normals", format!("{:<9} mean angle, from posed positions", figure(degrees) + "°"));
        }
        if let Some(skinned) = metrics.skinned_normals {
            let others = format!(
                "99 %: {}°; transposed inverse: {}°",
                figure(skinned.p99_degrees),
                figure(skinned.inverse_transpose_degrees)
            );
            table.row(
                "shading",
                format!("{:<9} mean angle, as engines deform them; {others}", figure(skinned.degrees) + "°"),
            );
        }
        motion_rows(metrics, table);
        table.row("verdict", metrics.verdict.to_string());
    }
}

/// Measures of what people see, under the names that all commands use.
pub fn add_measures(value: &mut Value, metrics: &Metrics) {
    value["p999_error"] = json!(metrics.p999_error);
    value["kg_error"] = json!(metrics.kg_error);
    value["sted"] = json!(metrics.sted);
    value["velocity_error"] = json!(metrics.velocity_error);
    value["contacts"] = json!(metrics.contacts);
    value["verdict"] = json!(metrics.verdict);
}

/// What changes from frame to frame.
fn motion_rows(metrics: &Metrics, table: &mut Table) {
    if let Some(velocity) = metrics.velocity_error {
        let sted = metrics.sted.map_or(String::new(), |sted| format!("; STED {}", figure(sted.total)));
        let kg = metrics.kg_error.map_or(String::new(), |kg| format!("; KG {} %", figure(kg)));
        table.row("popping", format!("{:<9} E_RMS of the steps between frames{sted}{kg}", figure(velocity)));
    }
    if let Some(contacts) = metrics.contacts {
        let (frame, vertex) = contacts.max_at;
        let most = format!("at most {} in frame {frame}, vertex {vertex}", figure(contacts.max_drift));
        table.row("contacts", format!("{:<9} mean drift of resting vertices; {most}", figure(contacts.mean_drift)));
    }
}

fn fit_rows(table: &mut Table, fit: &FitPart, verbose: bool) {
    let stop = match fit.info.stop {
        StopReason::Converged => "converged",
        StopReason::MaxIterations => "the most allowed",
        StopReason::MaxSeconds => "time was up",
        StopReason::Exact => "exact",
    };
    if let Some(skeleton) = &fit.skeleton {
        table.row("skeleton", skeleton.to_line());
    }
    table.row("iterations", format!("{:<9} {stop}", fit.info.iterations));
    if verbose {
        // Rounds of one stage with the same bones on one line.
        for rounds in fit.info.history.chunk_by(|a, b| (a.stage, a.bones) == (b.stage, b.bones)) {
            let errors: Vec<String> = rounds.iter().map(|round| figure(round.e_rms)).collect();
            let what = format!("{}, {}", rounds[0].stage, count(rounds[0].bones, "bone"));
            table.row("rounds", format!("{what}: {}", errors.join(" ")));
        }
        let parts = fit.info.profile.iter().map(|(name, secs)| format!("{name} {secs:.3}"));
        table.row("profile", parts.collect::<Vec<_>>().join("  "));
        if let Some(Memory { peak, program }) = fit.memory {
            table.row("peak memory", format!("{}, of which the program {}", bytes(peak), bytes(program)));
        }
    }
}

impl SkeletonPart {
    fn to_line(&self) -> String {
        let SkeletonInfo { start_bones, regrafted, mirrored_pairs, .. } = self.info;
        let mut line = format!("from {}", count(start_bones, "rigid part"));
        if regrafted > 0 {
            line += &format!(", {} hung elsewhere", count(regrafted, "subtree"));
        }
        if mirrored_pairs > 0 {
            line += &format!(", {}", count(mirrored_pairs, "mirror pair"));
        }
        line
    }
}

impl Seconds {
    fn to_line(self, fitted: bool) -> String {
        let Seconds { load, prepare, fit, export, total, evaluate } = self;
        match fitted {
            true => format!("load {load:.2}  prepare {prepare:.2}  fit {fit:.2}  export {export:.2}  total {total:.2}"),
            false => format!("load {load:.2}  evaluate {evaluate:.2}"),
        }
    }
}

/// What a model is made of beside bones and weights, in words.
fn layers(model: ModelRef<'_>) -> Option<String> {
    match model {
        ModelRef::TwoLayer(two) => {
            let cost = figure(two.blends_per_vertex());
            Some(format!("{} virtual bones, {cost} blends per vertex", two.virtual_count()))
        }
        ModelRef::Ddm(ddm) => Some(match ddm.virtual_count() {
            0 => format!("Direct Delta Mush, variant {}", u8::from(ddm.variant)),
            count => format!("Direct Delta Mush, {count} virtual bones"),
        }),
        ModelRef::Basis(basis) => {
            let (clusters, columns) = (count(basis.cluster_count, "cluster"), count(basis.dimension, "column"));
            Some(format!("no bones: {clusters} of {columns}"))
        }
        _ => None,
    }
}

/// The warning's own fields, and its words.
pub fn warning_json(warning: &Warning) -> Value {
    let mut value = json!(warning);
    value["text"] = json!(warning.to_string());
    value
}

/// What to say when a rig has more influences than common run times evaluate.
pub fn influence_warning(rig: &Rig, output: &Path) -> Option<Warning> {
    let influences = rig.weights.max_influences();
    let ending = output.extension()?.to_string_lossy().to_lowercase();
    (influences > COMMON_INFLUENCES && ending.starts_with("gl")).then(|| Warning::Note {
        text: format!(
            "up to {influences} influences per vertex: three.js, Bevy and Godot 3 evaluate only the first 4; \
             use --influences 4 for them"
        ),
    })
}
