//! The result of every command as data, with one JSON layout for all of them.

use std::path::PathBuf;

use bonesmith_core::fit::FitInfo;
use bonesmith_core::metrics::{self, Metrics, MetricsError};
use bonesmith_core::skeleton::{SkeletonInfo, SkeletonParams};
use bonesmith_core::{BoneKind, MeshSequence, ModelRef};
use serde::Serialize;
use serde_json::{Value, json};

use crate::compact::CompactPart;
use crate::memory::Memory;
use crate::motion::MotionPart;
use crate::saved::Saved;
use crate::shapes::ShapeBonesPart;
use crate::simplify::Simplification;
use crate::text::{count, figure};
use crate::warning::Warning;

/// Wall-clock seconds of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Seconds {
    /// Reading.
    pub load: f64,
    /// Preparing the fit.
    pub prepare: f64,
    /// The work itself.
    pub fit: f64,
    /// Writing.
    pub export: f64,
    /// From the first byte read to the last byte written.
    pub total: f64,
    /// Reading the file back and measuring it; not part of the total.
    pub evaluate: f64,
}

impl Seconds {
    /// Adds the time that reading took.
    pub fn add_load(&mut self, secs: f64) {
        self.load += secs;
        self.total += secs;
    }
}

/// The record of a skeleton.
#[derive(Clone, Debug, Serialize)]
pub struct SkeletonPart {
    /// Its parameters.
    pub params: SkeletonParams,
    /// The record.
    #[serde(flatten)]
    pub info: SkeletonInfo,
}

/// The record of a fit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FitPart {
    /// Its parameters.
    pub params: Value,
    /// The name of its method.
    pub method: &'static str,
    /// The record.
    pub info: FitInfo,
    /// Of the skeleton, if there is one.
    pub skeleton: Option<SkeletonPart>,
    /// After the fit, before the file is written.
    pub memory: Option<Memory>,
}

/// The effect of corrective shapes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ShapePart {
    /// Number of shapes.
    pub rank: usize,
    /// E_RMS of the bones alone.
    pub e_rms_without: f64,
    /// Size of the shapes and their weights.
    pub bytes: usize,
}

/// The figures of one of several clips.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClipPart {
    /// The clip.
    pub name: String,
    /// Its frames.
    pub frames: usize,
    /// Of all its frames.
    pub e_rms: f64,
    /// E_RMS of its worst frame.
    pub worst_frame: f64,
}

impl ClipPart {
    /// Of the E_RMS of each of its frames.
    pub(crate) fn new(name: &str, per_frame: &[f64]) -> Self {
        let mean = per_frame.iter().map(|e| e * e).sum::<f64>() / per_frame.len() as f64;
        let worst_frame = per_frame.iter().copied().fold(0.0, f64::max);
        Self { name: name.to_owned(), frames: per_frame.len(), e_rms: mean.sqrt(), worst_frame }
    }
}

/// The rig of one of several subjects in short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SubjectPart {
    /// The animation.
    pub name: String,
    /// The file.
    pub output: PathBuf,
    /// Frames of all clips.
    pub frames: usize,
    /// Of all clips.
    pub e_rms: f64,
    /// Of all clips.
    pub max_error: f64,
    /// Each clip, where there are several.
    pub clips: Vec<ClipPart>,
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq)]
pub struct OutputPart {
    /// Where.
    pub path: PathBuf,
    /// Its size, with files that belong to it.
    pub bytes: u64,
    /// What a small file leaves out.
    pub compact: Option<CompactPart>,
}

/// Everything there is to know about one model and one animation.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// What made it: "fit", "eval", "reduce"...
    pub command: &'static str,
    /// Name of the animation, or of the rig where there is none.
    pub name: String,
    /// N.
    pub vertices: usize,
    /// Faces of the mesh.
    pub faces: usize,
    /// F; 0 where nothing moves.
    pub frames: usize,
    /// B.
    pub bones: usize,
    /// Maximum number of influences of a vertex.
    pub influences: usize,
    /// Influences of a vertex in the mean; `None` where there are no weights.
    pub mean_influences: Option<f64>,
    /// Kind of the bones.
    pub bone_kind: BoneKind,
    /// Of the model against the animation; `None` where nothing moves.
    pub metrics: Option<Metrics>,
    /// Of the rig that was the input of `reduce`, `compress` or `ddm`.
    pub before: Option<Metrics>,
    /// What the figures are measured against, in words.
    pub against: &'static str,
    /// By stage.
    pub seconds: Seconds,
    /// Each once, in order.
    pub warnings: Vec<Warning>,
    /// Size of the animation's positions, the yardstick for memory.
    pub sequence_bytes: usize,
    /// Bytes at run time: rest pose, weights, transforms of all frames, shapes.
    pub storage_bytes: usize,
    /// Of a rig with corrective shapes.
    pub shapes: Option<ShapePart>,
    /// [F] names of the frames, where these are the shapes of a face.
    pub shape_names: Vec<String>,
    /// Of bones driven by shapes, measured against these.
    pub shape_bones: Option<ShapeBonesPart>,
    /// Of a fit.
    pub fit: Option<FitPart>,
    /// Of `reduce`, `compress` and `ddm`.
    pub simplification: Option<Simplification>,
    /// Parameters stored in the model, as JSON text.
    pub stored_params: String,
    /// What a model is made of beside bones and weights, in words.
    pub layers: Option<String>,
    /// The adapter that posed the rig, if not the processor.
    pub gpu: Option<String>,
    /// Each clip, where there are several.
    pub clips: Vec<ClipPart>,
    /// Each subject after the first, where there are several.
    pub subjects: Vec<SubjectPart>,
    /// What was done to the clips.
    pub motion: MotionPart,
    /// The file that was written.
    pub output: Option<OutputPart>,
}

/// Measures of what people see, under the names that all commands use.
pub(crate) fn add_measures(value: &mut Value, metrics: Option<&Metrics>) {
    value["skinned_tangents"] = json!(metrics.and_then(|m| m.skinned_tangents));
    value["p999_error"] = json!(metrics.map(|m| m.p999_error));
    value["kg_error"] = json!(metrics.and_then(|m| m.kg_error));
    value["sted"] = json!(metrics.and_then(|m| m.sted));
    value["velocity_error"] = json!(metrics.and_then(|m| m.velocity_error));
    value["contacts"] = json!(metrics.and_then(|m| m.contacts));
    value["verdict"] = json!(metrics.map(|m| &m.verdict));
}

impl Summary {
    /// Measures some clips of a model, whose frames are those of the sequence, one clip after the other; each too where there are
    /// several. A rig with corrective shapes is measured without them too.
    pub fn measured<'a>(
        model: impl Into<ModelRef<'a>>,
        clips: &[usize],
        sequence: &MeshSequence,
    ) -> Result<Self, MetricsError> {
        let model = model.into();
        if let ModelRef::ShapeBones(face) = model
            && clips == [0]
        {
            let summary = Self::of_shapes(model, face.names(), sequence)?;
            let part = ShapeBonesPart::new(face, sequence, summary.metrics.as_ref());
            return Ok(Self { shape_bones: Some(part), ..summary });
        }
        let metrics = metrics::evaluate_clips(model, clips, sequence)?;
        let parts = clip_parts(model, clips, &metrics);
        let mut summary = Self { clips: parts, ..Self::new(model, sequence, Some(metrics)) };
        if let ModelRef::Corrective(corrective) = model {
            let e_rms_without = metrics::evaluate_clips(&corrective.rig, clips, sequence)?.e_rms;
            let (rank, bytes) = (corrective.shapes.len(), corrective.shape_bytes());
            summary.shapes = Some(ShapePart { rank, e_rms_without, bytes });
        }
        Ok(summary)
    }

    /// Measures a model whose first clip has a frame for each shape of a face.
    pub(crate) fn of_shapes(
        model: ModelRef<'_>,
        names: Vec<String>,
        shapes: &MeshSequence,
    ) -> Result<Self, MetricsError> {
        let metrics = metrics::evaluate_shapes(model, &names, shapes)?;
        Ok(Self { shape_names: names, ..Self::new(model, shapes, Some(metrics)) })
    }

    /// A model, the animation it is measured against, and its figures.
    pub fn new<'a>(model: impl Into<ModelRef<'a>>, sequence: &MeshSequence, metrics: Option<Metrics>) -> Self {
        Self {
            name: sequence.name().to_owned(),
            vertices: sequence.vertex_count(),
            faces: sequence.surface().topology.face_count(),
            frames: sequence.frame_count(),
            metrics,
            sequence_bytes: sequence.position_bytes(),
            ..Self::of_model(model)
        }
    }

    /// A model alone.
    pub fn of_model<'a>(model: impl Into<ModelRef<'a>>) -> Self {
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
        let mean_influences = model.weights().map(|weights| weights.mean_influences());
        Self {
            command: "eval",
            name: model.name().to_owned(),
            vertices: model.vertex_count(),
            faces: model.surface().topology.face_count(),
            frames: 0,
            bones,
            influences,
            mean_influences,
            bone_kind,
            metrics: None,
            before: None,
            against: "the animation",
            seconds: Seconds::default(),
            warnings: Vec::new(),
            sequence_bytes: 0,
            storage_bytes: model.bytes(),
            shapes: None,
            shape_names: Vec::new(),
            shape_bones: None,
            fit: None,
            simplification: None,
            stored_params: model.params_json().to_owned(),
            layers: layers(model),
            gpu: None,
            clips: Vec::new(),
            subjects: Vec::new(),
            motion: MotionPart::default(),
            output: None,
        }
    }

    /// E_RMS, in thousandths of the radius; `None` where nothing moves.
    pub fn e_rms(&self) -> Option<f64> {
        self.metrics.as_ref().map(|metrics| metrics.e_rms)
    }

    /// Whether a quality that was requested was missed.
    pub fn missed_target(&self) -> bool {
        self.warnings.iter().any(Warning::is_missed_target)
    }

    /// Notes the file that was written.
    pub(crate) fn set_output(&mut self, saved: &Saved) {
        self.output =
            Some(OutputPart { path: saved.path.clone(), bytes: saved.file_bytes, compact: saved.compact.clone() });
    }

    /// The keys that scripts depend on, the same for every command; what a command does not have is null.
    pub fn to_json(&self) -> Value {
        let of = |get: fn(&Metrics) -> Value| self.metrics.as_ref().map(get);
        let before = |get: fn(&Metrics) -> Value| self.before.as_ref().map(get);
        let mut value = json!({
            "version": crate::VERSION,
            "command": self.command,
            "name": self.name,
            "vertices": self.vertices,
            "faces": self.faces,
            "frames": self.frames,
            "bones": self.bones,
            "bone_kind": self.bone_kind,
            "influences": self.influences,
            "mean_influences": self.mean_influences,
            "against": self.against,
            "e_rms": of(|m| json!(m.e_rms)),
            "max_error": of(|m| json!(m.max_error)),
            "max_error_model_units": of(|m| json!(m.max_error_model_units)),
            "max_error_at": of(|m| json!({ "frame": m.max_error_at.0, "vertex": m.max_error_at.1 })),
            "rmse_percent": of(|m| json!(m.rmse_percent)),
            "normal_degrees": of(|m| json!(m.normal_degrees)),
            "skinned_normals": of(|m| json!(m.skinned_normals)),
            "radius_model_units": of(|m| json!(m.radius_model_units)),
            "e_rms_per_frame": of(|m| json!(m.per_frame)),
            "error_model_units": of(|m| json!(m.spread)),
            "e_rms_before": before(|m| json!(m.e_rms)),
            "normal_degrees_before": before(|m| json!(m.normal_degrees)),
            "seconds": self.seconds,
            "sequence_bytes": self.sequence_bytes,
            "storage_bytes": self.storage_bytes,
            "eigenskin": self.shapes,
            "shape_bones": self.shape_bones,
            "shape_names": self.shape_names,
            "gpu": self.gpu,
            "clips": self.clips,
            "subjects": self.subjects,
            "root_motion": self.motion.root,
            "loops": self.motion.loops,
            "warnings": self.warnings.iter().map(Warning::to_json).collect::<Vec<_>>(),
            "params": self.params_json(),
        });
        add_measures(&mut value, self.metrics.as_ref());
        let details = self.simplification.as_ref().map(|part| part.details.to_json());
        if let Some(value) = value.as_object_mut() {
            for part in [Some(self.work_json()), details].into_iter().flatten() {
                value.extend(part.as_object().cloned().unwrap_or_default());
            }
        }
        value
    }

    /// The keys of the work itself.
    fn work_json(&self) -> Value {
        let (fit, simplified) = (self.fit.as_ref(), self.simplification.as_ref());
        let memory = fit.and_then(|fit| fit.memory);
        let part = |(name, secs): &(&str, f64)| json!({ "part": name, "seconds": secs });
        let output = self.output.as_ref();
        json!({
            "pieces": fit.map(|fit| fit.info.pieces),
            "method": fit.map(|fit| fit.method).or(simplified.map(|part| part.method)),
            "skeleton": fit.and_then(|fit| fit.skeleton.as_ref()),
            "iterations": fit.map(|fit| fit.info.iterations).or(simplified.map(|part| part.iterations)),
            "stop": fit.map(|fit| json!(fit.info.stop)).or(simplified.map(|part| json!(part.stop))),
            "history": fit.map(|fit| json!(fit.info.history)),
            "jitter_ratio": fit.and_then(|fit| fit.info.jitter_ratio),
            "profile": fit.map(|fit| fit.info.profile.iter().map(part).collect::<Vec<_>>()),
            "peak_memory_bytes": memory.map(|memory| memory.peak),
            "program_memory_bytes": memory.map(|memory| memory.program),
            "output": output.map(|output| output.path.to_string_lossy()),
            "file_bytes": output.map(|output| output.bytes),
            "compact": output.and_then(|output| output.compact.as_ref()),
        })
    }

    /// The parameters of the work, or those stored in the file.
    pub fn params_json(&self) -> Value {
        let stored = || serde_json::from_str(&self.stored_params).unwrap_or_else(|_| json!({}));
        let own = self.fit.as_ref().map(|fit| &fit.params).or(self.simplification.as_ref().map(|part| &part.params));
        own.cloned().unwrap_or_else(stored)
    }
}

/// The figures of each of several clips.
fn clip_parts(model: ModelRef<'_>, clips: &[usize], metrics: &Metrics) -> Vec<ClipPart> {
    let (all, mut rest) = (model.clips(), metrics.per_frame.as_slice());
    let part = |&clip: &usize| {
        let (own, others) = rest.split_at(all[clip].frame_count());
        rest = others;
        ClipPart::new(all[clip].name, own)
    };
    if clips.len() > 1 { clips.iter().map(part).collect() } else { Vec::new() }
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
        ModelRef::ShapeBones(face) => {
            Some(format!("{}, {}", count(face.shapes.len(), "shape"), count(face.number_count(), "number")))
        }
        ModelRef::Basis(basis) => {
            let (clusters, columns) = (count(basis.cluster_count, "cluster"), count(basis.dimension, "column"));
            Some(format!("no bones: {clusters} of {columns}"))
        }
        _ => None,
    }
}
