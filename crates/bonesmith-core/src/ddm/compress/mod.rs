//! Compression with continuous examples: a small Direct Delta Mush on virtual bones, and linear blend skinning below
//! it [Le2021].
//!
//! E (eq. 11a) is the mean squared error of the linearised model over *all* poses in which one joint turns and moves
//! within its range: four linear maps make a vector of what a vertex does, whose length is the error (`metric`).
//!
//! | paper | here |
//! |---|---|
//! | h, B_gamma, alpha, beta | `Joints` |
//! | linearisation, hierarchical, coordinate changing, continuous sampling map | `layers::linearised`, `JointMaps` |
//! | Omega'''' u_i, Delta'''' | `Layers::target`, `VirtualBone::mapped` |
//! | initialisation 4.1 | `first_bones` |
//! | a 4.2, Delta 4.3, re-initialisation 4.4 | `weight_update`, `bone_update`, [`Layers::replant`] |
//!
//! Deviations, with reasons: `beta = t`, not `2 t` (see `joints::extent`); measured ranges are second moments,
//! so that one extreme frame does not decide; the multi-weight update is an exact minimum (see `bone_update`); every
//! step is accepted only if E falls; a rig without a tree gets one from its motion.

mod bone_update;
mod examples;
mod first_bones;
mod joints;
mod layers;
mod maps;
mod params;
mod refine;
#[cfg(test)]
mod tests;
mod weight_update;

pub use params::*;

use self::examples::Examples;
use self::joints::Joints;
use self::layers::Layers;
use self::maps::JointMaps;
use crate::ddm::params::DdmError;
use crate::ddm::precompute::scalars as plain_weights;
use crate::model::{DdmRig, Rig, Row, SparseWeights, Variant, normalise};
use crate::observer::{Cancelled, Observer, Stage, Stages};
use crate::solve::check::ensure;

/// It ends after so many rounds in a row that hardly lower E.
const PATIENCE: usize = 5;
/// A virtual bone with a smaller sum of squared weights is placed again; 1 is one vertex.
const INSIGNIFICANT: f64 = 0.5;

/// Compresses a rig of variant 0.
pub fn compress(
    rig: &DdmRig,
    params: &DdmCompressParams,
    observer: &mut dyn Observer,
) -> Result<(DdmRig, DdmCompressInfo), DdmError> {
    params.validate()?;
    params.check_bones(rig.rig.bone_count())?;
    rig.check()?;
    ensure(!rig.rig.rest.is_empty(), || DdmError::Empty)?;
    if rig.layer.is_some() || rig.weights.width() < Variant::V0.width() {
        let what = "only a whole rig of variant 0 can be compressed".to_owned();
        return Err(DdmError::BadParameter { what });
    }
    let stages = &mut Stages::new(observer);
    stages.begin(Stage::VirtualBones, None)?;
    let joints = Joints::new(rig, &params.range, stages)?;
    let mut layers = Layers::new(rig, JointMaps::new(&joints, params.maps, stages)?, params, stages)?;
    layers.make_bones(params.virtual_bones, stages)?;
    let mut info = DdmCompressInfo {
        rounds: 0,
        history: vec![layers.round(stages.stage)],
        rmse_fit: 0.0,
        rmse_poses: None,
        stop: DdmStop::MaxRounds,
        replanted: 0,
        found_tree: joints.found,
    };
    optimise(&mut layers, &mut info, stages)?;
    info.rmse_fit = layers.energy().sqrt();
    if params.real_poses {
        let examples = Examples::new(rig, &joints, &params.range, stages)?;
        info.rmse_poses = Some(refine::refine(&mut layers, &examples, stages)?);
    }
    Ok((finish(rig, &layers), info))
}

/// Weights, multi-weights, insignificant bones, until E hardly falls. E never rises.
fn optimise(layers: &mut Layers<'_>, info: &mut DdmCompressInfo, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
    let mut idle = 0;
    stages.begin(Stage::BothLayers, Some(layers.params.max_rounds))?;
    while info.rounds < layers.params.max_rounds {
        let before = layers.energy();
        if before <= 0.0 {
            info.stop = DdmStop::Exact;
            return Ok(());
        }
        layers.place_bones();
        layers.update_weights(stages)?;
        info.history.push(layers.round(stages.stage));
        if !layers.params.keep_multi_weights {
            layers.update_bones(stages)?;
            info.history.push(layers.round(stages.stage));
        }
        info.replanted += layers.replant(stages)?;
        let round = layers.round(stages.stage);
        if info.history.last() != Some(&round) {
            info.history.push(round);
        }
        let after = round.error;
        info.rounds += 1;
        stages.step(None)?;
        idle = if before - after < layers.params.tolerance * before { idle + 1 } else { 0 };
        if idle >= PATIENCE {
            info.stop = DdmStop::Converged;
            return Ok(());
        }
    }
    Ok(())
}

impl Layers<'_> {
    /// Moves virtual bones with hardly any weight to the vertices with the largest error [Le2021 s.4.4]; undone unless E falls.
    /// Returns how many.
    fn replant(&mut self, stages: &mut Stages<'_>) -> Result<usize, Cancelled> {
        let mut strength = vec![0.0; self.bones.len()];
        for row in &self.weights {
            row.iter().for_each(|&(k, a)| strength[k] += a * a);
        }
        let weak: Vec<usize> = (0..self.bones.len()).filter(|&k| strength[k] < INSIGNIFICANT).collect();
        if weak.is_empty() {
            return Ok(0);
        }
        let (bones, weights, errors) = (self.bones.clone(), self.weights.clone(), self.errors.clone());
        let before = self.energy();
        let mut worst: Vec<usize> = (0..self.errors.len()).collect();
        worst.sort_by(|&a, &b| self.errors[b].total_cmp(&self.errors[a]).then(a.cmp(&b)));
        for (&k, &i) in weak.iter().zip(&worst) {
            self.bones[k] = self.bone_of_vertex(i);
            self.weights[i] = vec![(k, 1.0)];
        }
        // The other vertices drop the bones that were moved.
        for (i, row) in self.weights.iter_mut().enumerate() {
            if row.len() > 1 && row.iter().any(|(k, _)| weak.contains(k)) && !worst[..weak.len()].contains(&i) {
                row.retain(|(k, _)| !weak.contains(k));
                normalise(row);
            }
        }
        self.measure();
        self.update_weights(stages)?;
        if self.energy() < before {
            return Ok(weak.len());
        }
        (self.bones, self.weights, self.errors) = (bones, weights, errors);
        Ok(0)
    }
}

/// Float32 tables; virtual bones without vertices are left out.
fn finish(rig: &DdmRig, layers: &Layers<'_>) -> DdmRig {
    let users = layers.users();
    let used: Vec<usize> = (0..layers.bones.len()).filter(|&k| !users[k].is_empty()).collect();
    let mut number = vec![0; layers.bones.len()];
    used.iter().enumerate().for_each(|(at, &k)| number[k] = at);
    let renumbered = |row: &Row| row.iter().map(|&(k, a)| (number[k], a)).collect();
    let rows: Vec<Row> = layers.weights.iter().map(renumbered).collect();
    let slots = rows.iter().map(Vec::len).max().unwrap_or(1).max(1);
    let layer = Some(SparseWeights::from_rows(slots, &rows));
    let base = Rig { weights: plain_weights(&rig.weights), ..rig.rig.clone() };
    DdmRig { rig: base, origin: rig.origin, weights: layers.tables(&used), layer, variant: Variant::V0 }
}
