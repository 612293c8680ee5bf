//! Records of simplifications: what only `reduce`, `compress` or `ddm` has, as data and in words.

use bonesmith_core::ddm::compress::DdmCompressInfo;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::{DdmRig, Rig, Round, TwoLayerRig};
use serde::Serialize;
use serde_json::{Value, json};

use super::Shape;
use crate::text::{bytes, figure};

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
    /// Error of the compression in example poses on the real virtual bones, before and after both layers were solved in them; model units.
    pub rmse_poses: Option<(f64, f64)>,
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

impl DdmDetails {
    pub(super) fn new(full: &DdmRig, made: &DdmRig, variant: Variant, info: Option<DdmCompressInfo>) -> Self {
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
            rmse_poses: info.as_ref().and_then(|info| info.rmse_poses),
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
