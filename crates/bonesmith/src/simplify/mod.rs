//! `reduce`, `compress` and `ddm`: a rig and examples in, a model that is cheaper to evaluate or has smoother joints out.
//!
//! All use every clip of the rig, each frame once, and report the figures of each clip.

mod details;
mod measure;

use std::path::Path;
use std::time::Instant;

use bonesmith_core::compress::{self as two_layer, CompressStop, Compressed, TwoLayerParams, TwoLayerSize};
use bonesmith_core::ddm::compress::{self as ddm_compress, DdmCompressParams, DdmStop};
use bonesmith_core::ddm::{DdmMaps, DdmParams, DeltaMush, Frames, precompute, rigid_bind};
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::reduce::{self as reduction, ReduceParams};
use bonesmith_core::{MeshSequence, Model, ModelRef, Observer, Rig, Stage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::compact::{Against, CompactOptions};
use crate::error::Error;
use crate::input::baked;
use crate::saved::{Layout, Saved};
use crate::summary::Summary;
use crate::warning::Warning;

pub use details::{CompressDetails, DdmDetails, Details, ReduceDetails, Simplification, WeightBytes};
pub use measure::SourceRig;

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

/// Classic Delta Mush of every frame of a rig's clips, one after the other. [`DdmOptions::bound`] is not applied here.
pub fn delta_mush(rig: &Rig, options: &DdmOptions, observer: &mut dyn Observer) -> Result<MeshSequence, Error> {
    Error::unless_cancelled(observer, Stage::SmoothingEveryFrame)?;
    let mush = DeltaMush::new(rig, &options.params, &options.maps, Frames::Tangent)?;
    let frames = ModelRef::from(rig).animation(None, |clip, t| mush.pose(rig.clips[clip].frame(t)));
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
        let plain = self.shaped(shape)?;
        Saved::write(plain.as_ref().unwrap_or(&self.model), path, Layout::Skin, observer)
    }

    /// As [`Simplified::save`], as a small file, with a bound on its additional error.
    pub fn save_compact(
        &mut self,
        path: impl AsRef<Path>,
        shape: Shape,
        options: &CompactOptions,
        source: &SourceRig,
        observer: &mut dyn Observer,
    ) -> Result<Saved, Error> {
        let plain = self.shaped(shape)?;
        let against = self.reference(source).map(|sequence| Against::new(sequence, source.clips()));
        Saved::write_compact(plain.as_ref().unwrap_or(&self.model), path, options, against, observer)
    }

    /// The plain rig with its motion, where that is what is written.
    fn shaped(&mut self, shape: Shape) -> Result<Option<Model>, Error> {
        match &mut self.record.details {
            Details::Reduce(_) | Details::DeltaMush => {}
            Details::Compress(details) => details.shape = shape,
            Details::Ddm(details) => details.shape = shape,
        }
        Ok(match (shape, &self.model) {
            (Shape::Baked, Model::TwoLayer(two)) => Some(two.bake().into()),
            (Shape::Baked, Model::Ddm(made)) => Some(match made.bake() {
                Some(rig) => rig.into(),
                None => {
                    Model::from(baked(made)?.ok_or_else(|| Error::unsupported("the rig has no animation to bake"))?)
                }
            }),
            _ => None,
        })
    }
}
