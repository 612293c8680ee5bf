//! Compression with continuous examples: a small Direct Delta Mush on virtual bones, and linear blend skinning below
//! it [Le2021].
//!
//! E (eq. 11a) is the mean squared error of the linearised model over *all* poses in which one joint turns and moves
//! within its range: four linear maps make a vector of what a vertex does, whose length is the error (`metric`).
//!
//! | paper | here |
//! |---|---|
//! | h, B_gamma, alpha, beta | `Joints` |
//! | linearisation, hierarchical, coordinate, sampling map | `model::linearised`, `Metric` |
//! | Omega'''' u_i, Delta'''' | `Model::targets`, `VirtualBone::mapped` |
//! | initialisation 4.1 | `start` |
//! | a 4.2, Delta 4.3, re-initialisation 4.4 | `scalars`, `multi`, [`replant`](Model::replant) |
//!
//! Deviations, with reasons: `beta = t`, not `2 t` (see `joints::extent`); ranges that are measured are second moments,
//! so that one extreme frame does not decide; the multi-weight update is an exact minimum (see `multi`); every
//! step is taken only if E falls; a rig without a tree gets one from its motion.

mod joints;
mod metric;
mod model;
mod multi;
mod params;
mod scalars;
mod start;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

pub use params::*;

use self::joints::Joints;
use self::metric::Metric;
use self::model::Model;
use crate::ddm::params::DdmError;
use crate::ddm::precompute::scalars as plain_weights;
use crate::model::ddm::{DdmRig, Variant};
use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;
use crate::observer::{Observer, Progress};

/// Rounds in a row that must not pay before it ends.
const PATIENCE: usize = 5;
/// A virtual bone whose squared weights sum to less than this share of what one vertex has is placed anew.
const INSIGNIFICANT: f64 = 0.5;

/// Compresses a rig of variant 0.
pub fn compress(
    rig: &DdmRig,
    params: &DdmCompressParams,
    observer: &mut dyn Observer,
) -> Result<(DdmRig, DdmCompressInfo), DdmError> {
    params.validate()?;
    params.check_bones(rig.rig.bone_count())?;
    if rig.layer.is_some() || rig.weights.width() < Variant::V0.width() {
        let what = "only a whole rig of variant 0 can be compressed".to_owned();
        return Err(DdmError::BadParameter { what });
    }
    let mut stage = Stage { observer };
    stage.report("virtual bones", 0, None)?;
    let joints = Joints::new(rig, &params.range);
    let found_tree = joints.found;
    let mut model = Model::new(rig, Metric::new(&joints, params.maps), params);
    model.start(params.virtual_bones);
    let mut history = vec![model.energy()];
    let (stop, replanted) = rounds(&mut model, &mut history, &mut stage)?;
    let info = DdmCompressInfo {
        rounds: history.len() / 2,
        rmse_fit: history.last().copied().unwrap_or(0.0).sqrt(),
        history,
        stop,
        replanted,
        found_tree,
    };
    Ok((finish(rig, &model), info))
}

/// Progress out, a wish to stop in.
struct Stage<'a> {
    observer: &'a mut dyn Observer,
}

impl Stage<'_> {
    fn report(&mut self, stage: &'static str, step: usize, steps: Option<usize>) -> Result<(), DdmError> {
        match self.observer.report(&Progress { stage, step, steps, e_rms: None }) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(crate::observer::Cancelled.into()),
        }
    }
}

/// Weights, multi-weights, insignificant bones, until it no longer pays. E never rises.
fn rounds(model: &mut Model, history: &mut Vec<f64>, stage: &mut Stage) -> Result<(DdmStop, usize), DdmError> {
    let mut idle = 0;
    let mut replanted = 0;
    for round in 0..model.params.max_rounds {
        stage.report("both layers", round, Some(model.params.max_rounds))?;
        let before = model.energy();
        if before <= 0.0 {
            return Ok((DdmStop::Exact, replanted));
        }
        model.place_bones();
        model.update_weights();
        history.push(model.energy());
        if !model.params.keep_multi_weights {
            model.update_multi_weights();
            history.push(model.energy());
        }
        replanted += model.replant();
        let after = model.energy();
        if history.last() != Some(&after) {
            history.push(after);
        }
        idle = if before - after < model.params.tolerance * before { idle + 1 } else { 0 };
        if idle >= PATIENCE {
            return Ok((DdmStop::Converged, replanted));
        }
    }
    Ok((DdmStop::MaxRounds, replanted))
}

impl Model<'_> {
    /// Virtual bones that hardly anything follows move to the worst vertices [Le2021 s.4.4]; undone unless E falls.
    fn replant(&mut self) -> usize {
        let mut strength = vec![0.0; self.bones.len()];
        for row in &self.weights {
            row.iter().for_each(|&(k, a)| strength[k] += a * a);
        }
        let weak: Vec<usize> = (0..self.bones.len()).filter(|&k| strength[k] < INSIGNIFICANT).collect();
        if weak.is_empty() {
            return 0;
        }
        let (bones, weights, errors) = (self.bones.clone(), self.weights.clone(), self.errors.clone());
        let before = self.energy();
        let mut worst: Vec<usize> = (0..self.errors.len()).collect();
        worst.sort_by(|&a, &b| self.errors[b].total_cmp(&self.errors[a]).then(a.cmp(&b)));
        for (&k, &i) in weak.iter().zip(&worst) {
            self.bones[k] = self.bone_of_vertex(i);
            self.weights[i] = vec![(k, 1.0)];
        }
        // Whoever still names a bone that has moved lets go of it.
        for (i, row) in self.weights.iter_mut().enumerate() {
            if row.len() > 1 && row.iter().any(|(k, _)| weak.contains(k)) && !worst[..weak.len()].contains(&i) {
                row.retain(|(k, _)| !weak.contains(k));
                let sum: f64 = row.iter().map(|(_, a)| a).sum();
                row.iter_mut().for_each(|(_, a)| *a /= sum);
            }
        }
        self.measure();
        self.update_weights();
        if self.energy() < before {
            return weak.len();
        }
        (self.bones, self.weights, self.errors) = (bones, weights, errors);
        0
    }
}

/// Float32 tables; virtual bones that no vertex follows are left out.
fn finish(rig: &DdmRig, model: &Model) -> DdmRig {
    let users = model.users();
    let used: Vec<usize> = (0..model.bones.len()).filter(|&k| !users[k].is_empty()).collect();
    let mut number = vec![0; model.bones.len()];
    used.iter().enumerate().for_each(|(at, &k)| number[k] = at);
    let slots = model.weights.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let mut layer = SparseWeights::new(rig.vertex_count(), slots);
    for (i, row) in model.weights.iter().enumerate() {
        let row: Vec<(usize, f64)> = row.iter().map(|&(k, a)| (number[k], a)).collect();
        layer.set(i, &row);
    }
    let weights = model.multi_weights(&used);
    let plain = plain_weights(&rig.weights);
    let base = Rig { weights: plain, ..rig.rig.clone() };
    DdmRig { rig: base, origin: rig.origin, weights, layer: Some(layer), variant: Variant::V0 }
}
