//! Alternating descent over weights, rest pose and bones, with momentum.

use super::bones::{self, BoneModel};
use super::local::LocalParams;
use super::model::{Motion, Skin};
use super::problem::Problem;
use super::vertices::{self, Moments};
use crate::rig::BoneKind;

/// All unknowns of a fit.
#[derive(Clone)]
pub(crate) struct State {
    pub motion: Motion,
    pub skin: Skin,
    pub model: BoneModel,
}

/// Largest momentum: how far ahead of the last step the next one starts.
const MAX_MOMENTUM: f64 = 0.9;

/// Alternates on one problem; knows the last two motions to look ahead.
///
/// Each round solves all vertices for the present bones, then moves the bones. Block descent creeps along curved
/// valleys, so the bones are first carried on in the direction they moved (Nesterov's schedule, brought back to
/// rotations where bones are rigid). Vertices are optimal for *any* bones, so this is safe; where the error rises,
/// the look-ahead is dropped and momentum starts again.
pub(crate) struct Descent<'a> {
    pub problem: &'a Problem,
    pub local: LocalParams,
    /// Squared error after the last round.
    pub squared_error: f64,
    /// Result of the last round: errors of vertices, second moments of bones.
    pub moments: Option<Moments>,
    /// Motion after the last round and the one before.
    last: Option<Motion>,
    /// Where to go back to if looking ahead fails: `state.motion` is then ahead of it.
    plain: Option<Motion>,
    age: f64,
}

impl<'a> Descent<'a> {
    pub fn new(problem: &'a Problem, local: LocalParams) -> Self {
        Self { problem, local, squared_error: f64::INFINITY, moments: None, last: None, plain: None, age: 0.0 }
    }

    /// E_RMS after the last round.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(self.squared_error)
    }

    /// One round: vertices, then bones; leaves `state` consistent only after [`Descent::settle`].
    pub fn round(&mut self, state: &mut State) {
        let State { motion, skin, model } = state;
        let mut moments = vertices::pass(self.problem, motion, skin, Some(self.local));
        if moments.squared_error > self.squared_error
            && let Some(plain) = self.plain.take()
        {
            *motion = plain;
            self.age = 0.0;
            self.last = None;
            moments = vertices::pass(self.problem, motion, skin, Some(self.local));
        }
        let gain = bones::update(motion, &mut moments, model);
        self.squared_error = moments.squared_error - gain;
        self.moments = Some(moments);
        self.look_ahead(motion, model);
    }

    fn look_ahead(&mut self, motion: &mut Motion, model: &BoneModel) {
        self.age += 1.0;
        let momentum = ((self.age - 1.0) / (self.age + 2.0)).min(MAX_MOMENTUM);
        let now = motion.clone();
        if let Some(last) = &self.last
            && momentum > 0.0
        {
            *motion = bones::extrapolate(&now, last, momentum, model);
            self.plain = Some(now.clone());
        }
        self.last = Some(now);
    }

    /// Takes the look-ahead back, so that `state` is what the last error belongs to.
    pub fn settle(&mut self, state: &mut State) {
        if let Some(plain) = self.plain.take() {
            state.motion = plain;
        }
        self.last = None;
        self.age = 0.0;
    }

    /// Several rounds.
    pub fn rounds(&mut self, state: &mut State, count: usize) {
        for _ in 0..count {
            self.round(state);
        }
        self.settle(state);
    }

    /// Forgets errors and momentum after bones were added or taken out.
    pub fn restart(&mut self) {
        self.squared_error = f64::INFINITY;
        self.last = None;
        self.plain = None;
        self.age = 0.0;
    }
}

impl State {
    /// Rigid clusters as a start.
    pub fn from_clusters(problem: &Problem, motion: Motion, labels: &[u16], slots: usize, kind: BoneKind) -> Self {
        let skin = Skin::rigid(slots, labels, problem.rest.clone());
        let model = BoneModel::new(kind, motion.bones, 3);
        Self { motion, skin, model }
    }
}
