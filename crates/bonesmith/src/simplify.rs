//! `reduce`, `compress` and `ddm`: a rig and examples in, a model that is cheaper to evaluate or has smoother joints out.

use std::path::Path;
use std::time::Instant;

use bonesmith_core::compress::{self as two_layer, CompressStop, Compressed, TwoLayerParams, TwoLayerSize};
use bonesmith_core::ddm::compress::{self as ddm_compress, DdmCompressInfo, DdmCompressParams, DdmStop};
use bonesmith_core::ddm::{DdmMaps, DdmParams, DeltaMush, Frames, precompute, rigid_bind};
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::reduce::{self as reduction, ReduceParams};
use bonesmith_core::{DdmRig, MeshSequence, Model, ModelRef, Observer, Rig, Round, Stage, TwoLayerRig};
use glam::Vec3;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Error;
use crate::fit::TARGET_SLACK;
use crate::input::baked;
use crate::saved::{Layout, Saved};
use crate::summary::{Seconds, Summary};
use crate::text::{bytes, figure};
use crate::warning::Warning;

/// A rig, and the poses that its simplification should keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceRig {
    /// The rig.
    pub rig: Rig,
    /// Poses frame by frame as in the rig's first clip.
    pub examples: Option<MeshSequence>,
    /// The poses of the rig itself, where there are no examples; `None` if it does not move.
    pub own: Option<MeshSequence>,
}

impl SourceRig {
    /// A rig and examples; without examples the poses of the rig's first clip.
    pub fn new(rig: Rig, examples: Option<MeshSequence>) -> Result<Self, Error> {
        let own = match &examples {
            Some(_) => None,
            None => baked(&rig)?,
        };
        Ok(Self { rig, examples, own })
    }

    /// A rig alone, for [`ddm`]: its result is measured against variant 0.
    pub fn without_poses(rig: Rig) -> Self {
        Self { rig, examples: None, own: None }
    }

    /// What figures are measured against.
    pub fn reference(&self) -> Option<&MeshSequence> {
        self.examples.as_ref().or(self.own.as_ref())
    }

    fn against(&self) -> &'static str {
        if self.examples.is_some() { "examples" } else { "the rig that was given" }
    }
}

/// What is written of a model with two layers or multi-weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Shape {
    /// A plain rig: virtual bones as joints with baked motion. Plays everywhere.
    Baked,
    /// The model itself.
    Runtime,
}

/// The record of a simplification.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simplification {
    /// The name of the method.
    pub method: &'static str,
    /// Rounds or iterations.
    pub iterations: usize,
    /// Why it stopped.
    pub stop: &'static str,
    /// Its parameters.
    pub params: Value,
    /// What only this command has.
    pub details: Details,
}

/// What only one of the commands has.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Details {
    /// Of `reduce`.
    Reduce(ReduceDetails),
    /// Of `compress`.
    Compress(CompressDetails),
    /// Of `ddm`.
    Ddm(Box<DdmDetails>),
    /// Of classic Delta Mush.
    DeltaMush,
}

/// Of `reduce`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ReduceDetails {
    /// Maximum number of influences of the input.
    pub influences_before: usize,
    /// Of the result.
    #[serde(skip)]
    pub influences: usize,
    /// B.
    #[serde(skip)]
    pub bones: usize,
    /// The name of the method.
    #[serde(skip)]
    pub method: &'static str,
}

/// Of `compress`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct CompressDetails {
    /// M.
    pub virtual_bones: usize,
    /// Bones that a virtual bone blends at most.
    pub master_influences: usize,
    /// Cost of a vertex in influences.
    pub blends_per_vertex: f64,
    /// At run time.
    pub weight_bytes: WeightBytes,
    /// Virtual bones and error after each round.
    pub history: Vec<Round>,
    /// Error of the best dense weights with these bones.
    pub dense_optimum: Option<f64>,
    /// Root mean square change of the weights in thousandths, where no poses counted.
    pub weight_error: Option<f64>,
    /// What was written.
    pub shape: Shape,
    /// Virtual bones that a vertex blends at most.
    #[serde(skip)]
    pub influences: usize,
}

/// Of `ddm`.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DdmDetails {
    /// What figures are measured against.
    pub against: &'static str,
    /// Which variant.
    pub variant: Variant,
    /// What was written.
    pub shape: Shape,
    /// Multi-weights of all vertices, or of all virtual bones.
    pub multi_weights: usize,
    /// 0 where it is not compressed.
    pub virtual_bones: usize,
    /// Size of the model.
    pub model_bytes: usize,
    /// Size of variant 0.
    pub full_bytes: usize,
    /// Root mean square distance in percent of the largest side of the rest pose's bounding box.
    pub rms_percent_of_height: Option<f64>,
    /// Error of the compression over the joints' ranges, in model units.
    pub rmse_fit: Option<f64>,
    /// Error of the compression by half-step.
    pub history: Option<Vec<Round>>,
    /// Whether the tree of bones was found from the motion.
    pub found_tree: Option<bool>,
    /// Virtual bones that were placed again.
    pub replanted: Option<usize>,
    /// Bones per vertex of variant 0: mean and maximum.
    #[serde(skip)]
    pub full_influences: (f64, usize),
    /// Bones per virtual bone, and virtual bones per vertex, in the mean.
    #[serde(skip)]
    pub layer_means: (f64, f64),
}

/// Bytes of the weights at run time: 16-bit indices, 32-bit weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WeightBytes {
    /// Both layers.
    pub two_layer: usize,
    /// Four influences per vertex.
    pub four_influences: usize,
    /// As many slots as the vertex with most influences needs.
    pub given: usize,
    /// Transforms of virtual bones, 3x4 floats, that each frame needs room for.
    pub virtual_transforms: usize,
}

impl WeightBytes {
    /// Of a two-layer rig, beside the rig it was made from.
    pub fn new(given: &Rig, two: &TwoLayerRig) -> Self {
        const SLOT: usize = 2 + 4;
        let n = given.vertex_count();
        Self {
            two_layer: SLOT * (two.virtual_count() * two.blends.slots() + n * two.weights.slots()),
            four_influences: SLOT * 4 * n,
            given: SLOT * given.weights.max_influences() * n,
            virtual_transforms: 48 * two.virtual_count(),
        }
    }
}

/// A model made from a rig.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Simplified {
    /// "reduce", "compress" or "ddm".
    pub command: &'static str,
    /// The model, with the parameters stored in it.
    pub model: Model,
    /// The record.
    pub record: Simplification,
    /// What should be known.
    pub warnings: Vec<Warning>,
    /// Seconds of preparation and work.
    pub secs: [f64; 2],
    /// What figures are measured against, where that is not the source.
    reference: Option<MeshSequence>,
    /// A target error, and whether it is one of poses.
    target: Option<(f64, bool)>,
}

/// Fewer influences per vertex, the same bones.
pub fn reduce(source: &SourceRig, params: &ReduceParams, observer: &mut dyn Observer) -> Result<Simplified, Error> {
    let started = Instant::now();
    let mut reduced = reduction::reduce(&source.rig, source.examples.as_ref(), params, observer)?;
    let info = &reduced.info;
    let mut warnings = Vec::new();
    if info.nothing_to_do {
        let (influences, requested) = (info.influences_before, params.influences);
        warnings.push(Warning::NothingToReduce { influences, requested });
    }
    if !info.converged {
        warnings.push(Warning::StillImproving { iterations: info.iterations });
    }
    reduced.rig.params_json = stored("reduce", json!(params), &source.rig);
    let method = params.method.name();
    let details = ReduceDetails {
        influences_before: info.influences_before,
        influences: reduced.rig.weights.max_influences(),
        bones: source.rig.bone_count(),
        method,
    };
    Ok(Simplified {
        command: "reduce",
        record: Simplification {
            method,
            iterations: info.iterations,
            stop: if info.converged { "converged" } else { "max-iterations" },
            params: json!(params),
            details: Details::Reduce(details),
        },
        model: reduced.rig.into(),
        warnings,
        secs: [0.0, started.elapsed().as_secs_f64()],
        reference: None,
        target: None,
    })
}

/// Weights in two layers: few influences with the quality of many.
pub fn compress(source: &SourceRig, params: &TwoLayerParams, observer: &mut dyn Observer) -> Result<Simplified, Error> {
    let started = Instant::now();
    let made = two_layer::compress(&source.rig, source.examples.as_ref(), params, observer)?;
    let Compressed { mut rig, info } = made;
    let secs = started.elapsed().as_secs_f64();
    rig.master.params_json = stored("compress", json!(params), &source.rig);
    let error = info.history.last().map_or(0.0, |round| round.error);
    let poses = source.examples.is_some() || (source.own.is_some() && !params.weights_only);
    let details = CompressDetails {
        virtual_bones: rig.virtual_count(),
        master_influences: rig.blends.slots(),
        blends_per_vertex: rig.blends_per_vertex(),
        weight_bytes: WeightBytes::new(&source.rig, &rig),
        history: info.history,
        dense_optimum: info.dense_optimum,
        weight_error: (!poses).then_some(error),
        shape: Shape::Runtime,
        influences: rig.weights.max_influences(),
    };
    Ok(Simplified {
        command: "compress",
        record: Simplification {
            method: "two-layer",
            iterations: info.rounds,
            stop: match info.stop {
                CompressStop::Full => "full",
                CompressStop::Reached => "reached",
                CompressStop::Exact => "exact",
                _ => "done",
            },
            params: json!(params),
            details: Details::Compress(details),
        },
        model: rig.into(),
        warnings: Vec::new(),
        secs: [0.0, secs],
        reference: None,
        target: if let TwoLayerSize::TargetError(target) = params.size { Some((target, poses)) } else { None },
    })
}

/// What [`ddm`] and [`delta_mush`] make. `Default` is the same as that of the command line.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct DdmOptions {
    /// Smoothing.
    pub params: DdmParams,
    /// Parameters per vertex.
    pub maps: DdmMaps,
    /// Bind each vertex to the bone of its largest weight first.
    pub rigid_bind: bool,
    /// How a vertex is moved; of a model that is not compressed.
    pub variant: Variant,
    /// Compress it. `None`: all multi-weights.
    pub compress: Option<DdmCompressParams>,
}

impl DdmOptions {
    /// Checks ranges that do not depend on the rig.
    pub fn validate(&self) -> Result<(), Error> {
        self.params.validate()?;
        Ok(self.compress.as_ref().map_or(Ok(()), DdmCompressParams::validate)?)
    }

    /// The rig that is smoothed.
    pub fn bound(&self, rig: Rig) -> Rig {
        if self.rigid_bind { rigid_bind(&rig) } else { rig }
    }
}

/// Direct Delta Mush of a rig, compressed where the options say so. [`DdmOptions::bound`] is not applied here.
pub fn ddm(rig: &Rig, options: &DdmOptions, observer: &mut dyn Observer) -> Result<Simplified, Error> {
    options.validate()?;
    let DdmOptions { params, variant, .. } = options;
    let started = Instant::now();
    let full = precompute(rig, params, &options.maps, observer)?;
    let prepare = started.elapsed().as_secs_f64();
    let started = Instant::now();
    let (mut made, info) = match &options.compress {
        Some(params) => {
            let (made, info) = ddm_compress::compress(&full, params, observer)?;
            (made, Some(info))
        }
        None => (full.with_variant(*variant), None),
    };
    let fit = started.elapsed().as_secs_f64();
    let stored_params = json!({
        "ddm": params, "rigid_bind": options.rigid_bind, "variant": variant, "compress": options.compress,
    });
    made.rig.params_json = stored("ddm", stored_params.clone(), rig);
    Ok(Simplified {
        command: "ddm",
        record: Simplification {
            method: if info.is_some() { "ddm-compressed" } else { "ddm" },
            iterations: info.as_ref().map_or(0, |info| info.rounds),
            stop: match info.as_ref().map(|info| info.stop) {
                Some(DdmStop::Converged) => "converged",
                Some(DdmStop::MaxRounds) => "max-rounds",
                Some(DdmStop::Exact) => "exact",
                _ => "done",
            },
            params: stored_params,
            details: Details::Ddm(Box::new(DdmDetails::new(&full, &made, *variant, info))),
        },
        warnings: Vec::new(),
        secs: [prepare, fit],
        reference: baked(&full)?,
        model: made.into(),
        target: None,
    })
}

/// Classic Delta Mush of every frame of a rig's first clip. [`DdmOptions::bound`] is not applied here.
pub fn delta_mush(rig: &Rig, options: &DdmOptions, observer: &mut dyn Observer) -> Result<MeshSequence, Error> {
    Error::unless_cancelled(observer, Stage::SmoothingEveryFrame)?;
    let mush = DeltaMush::new(rig, &options.params, &options.maps, Frames::Tangent)?;
    let frames = ModelRef::from(rig).animation(|t| mush.pose(rig.clips[0].frame(t)));
    let frames = frames.ok_or_else(|| Error::unsupported("the rig has no animation to smooth"))?;
    Ok(MeshSequence::try_from(frames)?)
}

impl Summary {
    /// Of the frames that [`delta_mush`] made: there is nothing to measure them against.
    pub fn of_delta_mush(rig: &Rig, frames: &MeshSequence, saved: &Saved, options: &DdmOptions) -> Self {
        let mut summary = Self {
            command: "ddm",
            name: rig.name.clone(),
            bones: rig.bone_count(),
            influences: rig.weights.max_influences(),
            bone_kind: rig.kind,
            against: "nothing",
            simplification: Some(Simplification {
                method: "delta-mush",
                iterations: 0,
                stop: "done",
                params: json!({ "ddm": options.params, "rigid_bind": options.rigid_bind }),
                details: Details::DeltaMush,
            }),
            warnings: saved.warnings.clone(),
            ..Self::new(frames, frames, None)
        };
        summary.seconds.export = saved.export_secs;
        summary.seconds.total = saved.export_secs;
        summary.set_output(saved);
        summary
    }
}

/// Parameters as files store them, with those of the rig that was the input.
fn stored(command: &str, params: Value, from: &Rig) -> String {
    let before = serde_json::from_str::<Value>(&from.params_json).unwrap_or_default();
    json!({ "version": crate::VERSION, command: params, "from": before }).to_string()
}

impl Simplified {
    /// Writes the model, or the plain rig with its motion; reads the file back.
    pub fn save(&mut self, path: impl AsRef<Path>, shape: Shape, observer: &mut dyn Observer) -> Result<Saved, Error> {
        match &mut self.record.details {
            Details::Reduce(_) | Details::DeltaMush => {}
            Details::Compress(details) => details.shape = shape,
            Details::Ddm(details) => details.shape = shape,
        }
        let plain = match (shape, &self.model) {
            (Shape::Baked, Model::TwoLayer(two)) => Some(two.bake().into()),
            (Shape::Baked, Model::Ddm(made)) => Some(match made.bake() {
                Some(rig) => rig.into(),
                None => {
                    Model::from(baked(made)?.ok_or_else(|| Error::unsupported("the rig has no animation to bake"))?)
                }
            }),
            _ => None,
        };
        Saved::write(plain.as_ref().unwrap_or(&self.model), path, Layout::Skin, observer)
    }

    /// What figures are measured against: for `ddm` variant 0, otherwise the examples or the source.
    pub fn reference<'a>(&'a self, source: &'a SourceRig) -> Option<&'a MeshSequence> {
        match self.command {
            "ddm" => self.reference.as_ref(),
            _ => source.reference(),
        }
    }

    /// Measures the file: everything there is to know about the simplification, as data.
    pub fn summary(&self, saved: &Saved, source: &SourceRig) -> Result<Summary, Error> {
        let started = Instant::now();
        let (rig, is_ddm) = (&source.rig, self.command == "ddm");
        let reference = self.reference(source);
        let metrics = reference.map(|sequence| saved.measure(sequence)).transpose()?;
        let own = reference.filter(|_| !is_ddm);
        let mut record = self.record.clone();
        if let Details::Ddm(details) = &mut record.details {
            details.rms_percent_of_height = metrics.as_ref().map(|metrics| percent_of_height(rig, metrics));
        }
        let [prepare, fit] = self.secs;
        let export = saved.export_secs;
        let mut summary = Summary {
            command: self.command,
            name: rig.name.clone(),
            vertices: rig.vertex_count(),
            faces: rig.surface.topology.face_count(),
            frames: reference.map_or(0, MeshSequence::frame_count),
            bones: rig.bone_count(),
            influences: influences(self.model.view()),
            before: own.map(|sequence| metrics::evaluate(rig, 0, sequence)).transpose()?,
            against: if is_ddm { "variant 0 in float64" } else { source.against() },
            seconds: Seconds { prepare, fit, export, total: prepare + fit + export, ..Seconds::default() },
            warnings: self.warnings.clone(),
            sequence_bytes: reference.map_or(0, MeshSequence::position_bytes),
            simplification: Some(record),
            ..Summary::of_model(&self.model)
        };
        summary.warnings.extend(saved.warnings.iter().cloned());
        summary.warnings.extend(self.missed(metrics.as_ref()));
        summary.metrics = metrics;
        summary.seconds.evaluate = saved.read_secs + started.elapsed().as_secs_f64();
        summary.set_output(saved);
        Ok(summary)
    }

    /// A target error that the file misses.
    fn missed(&self, metrics: Option<&Metrics>) -> Option<Warning> {
        let (target, of_poses) = self.target?;
        let Details::Compress(details) = &self.record.details else { return None };
        let error = details.history.last().map_or(0.0, |round| round.error);
        let reached = metrics.filter(|_| of_poses).map_or(error, |metrics| metrics.e_rms);
        let bones = details.virtual_bones;
        (reached > target * (1.0 + TARGET_SLACK))
            .then(|| bonesmith_core::fit::Warning::TargetMissed { target, reached, bones }.into())
    }
}

/// Influences that a vertex blends at most, of the model that was made.
fn influences(model: ModelRef<'_>) -> usize {
    match model {
        ModelRef::Ddm(made) => {
            made.layer.as_ref().map_or(made.weights.max_influences(), |layer| layer.max_influences())
        }
        _ => model.weights().map_or(0, |weights| weights.max_influences()),
    }
}

/// Root mean square distance in percent of the largest side of the rest pose's bounding box: of a person, the height.
fn percent_of_height(rig: &Rig, metrics: &Metrics) -> f64 {
    let low = rig.rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rig.rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    let rms = metrics.e_rms / 1000.0 * metrics.radius_model_units * 3f64.sqrt();
    100.0 * rms / f64::from((high - low).max_element()).max(f64::MIN_POSITIVE)
}

impl DdmDetails {
    fn new(full: &DdmRig, made: &DdmRig, variant: Variant, info: Option<DdmCompressInfo>) -> Self {
        let n = full.vertex_count().max(1) as f64;
        let layer = made.layer.as_ref().map_or(0, |layer| (0..layer.vertex_count()).map(|i| layer.of(i).count()).sum());
        Self {
            against: "variant 0 in float64",
            variant,
            shape: Shape::Runtime,
            multi_weights: made.weights.influences(),
            virtual_bones: made.virtual_count(),
            model_bytes: made.bytes(),
            full_bytes: full.bytes(),
            rms_percent_of_height: None,
            rmse_fit: info.as_ref().map(|info| info.rmse_fit),
            found_tree: info.as_ref().map(|info| info.found_tree),
            replanted: info.as_ref().map(|info| info.replanted),
            full_influences: (full.weights.influences() as f64 / n, full.weights.max_influences()),
            layer_means: (made.weights.influences() as f64 / made.virtual_count().max(1) as f64, layer as f64 / n),
            history: info.map(|info| info.history),
        }
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let (mean, most) = self.full_influences;
        let mut facts = vec![("multi-weights", format!("{} bones per vertex, at most {most}", figure(mean)))];
        if let Some(rmse_fit) = self.rmse_fit {
            let (per_bone, per_vertex) = self.layer_means;
            let (count, per_bone, per_vertex) = (self.virtual_bones, figure(per_bone), figure(per_vertex));
            facts.push(("layers", format!("{count} virtual bones of {per_bone} bones; {per_vertex} per vertex")));
            let error = figure(rmse_fit);
            facts.push(("fit", format!("{error:<9} root mean square over all poses in the joints' ranges")));
        }
        let ratio = self.full_bytes as f64 / self.model_bytes.max(1) as f64;
        facts.push(("size", format!("{}: {ratio:.1} x smaller than variant 0", bytes(self.model_bytes as u64))));
        if let Some(percent) = self.rms_percent_of_height {
            let percent = figure(percent);
            facts.push(("off", format!("{percent:<9} % of the height, root mean square against variant 0")));
        }
        facts
    }
}

impl CompressDetails {
    fn facts(&self) -> Vec<(&'static str, String)> {
        let sizes = &self.weight_bytes;
        let layers = format!(
            "{} virtual bones of at most {} bones; at most {} per vertex: the cost of {} influences",
            self.virtual_bones,
            self.master_influences,
            self.influences,
            figure(self.blends_per_vertex)
        );
        let share = |bytes: usize| format!("{:.0} %", 100.0 * sizes.two_layer as f64 / bytes.max(1) as f64);
        let memory = format!(
            "{}: {} of 4 influences, {} of the rig that was given",
            bytes(sizes.two_layer as u64),
            share(sizes.four_influences),
            share(sizes.given)
        );
        let mut facts = vec![("layers", layers), ("weights", memory)];
        if let Some(error) = self.weight_error {
            let error = figure(error);
            facts.push(("change", format!("{error:<9} thousandths, root mean square over all weights")));
        }
        facts
    }
}

impl Details {
    /// The keys of its own.
    pub fn to_json(&self) -> Value {
        json!(self)
    }

    /// In words, by name, for tables and reports.
    pub fn facts(&self) -> Vec<(&'static str, String)> {
        match self {
            Self::Reduce(ReduceDetails { influences_before, influences, bones, method }) => vec![(
                "influences",
                format!("at most {influences} of {bones} bones per vertex, {influences_before} before; {method}"),
            )],
            Self::Compress(details) => details.facts(),
            Self::Ddm(details) => details.facts(),
            Self::DeltaMush => Vec::new(),
        }
    }

    /// Error by round; empty where there are none.
    pub fn history(&self) -> &[Round] {
        match self {
            Self::Reduce(_) | Self::DeltaMush => &[],
            Self::Compress(details) => &details.history,
            Self::Ddm(details) => details.history.as_deref().unwrap_or_default(),
        }
    }
}
