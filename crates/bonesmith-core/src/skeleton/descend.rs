//! Alternating descent with the joints held: weights and rest pose, then rotations and joints.

use crate::observer::Cancelled;
use crate::skeleton::joint_step::Quadratic;
use crate::skeleton::pose::Pose;
use crate::skinning::{Moments, Momentum, Motion, Problem, Run, Skin, Smoothness, VertexParams, pass};

/// Largest momentum: how far ahead of the last step the next one starts.
const MAX_MOMENTUM: f64 = 0.95;

/// A posed skeleton and its skin.
#[derive(Clone)]
pub(crate) struct SkinnedPose {
    pub pose: Pose,
    pub skin: Skin,
}

/// Alternates on one problem, with momentum on the pose.
pub(crate) struct SkeletonDescent<'a> {
    pub problem: Problem,
    pub local: VertexParams,
    smoothness: Option<&'a Smoothness>,
    /// Squared error after the last round.
    pub squared_error: f64,
    /// Moments of the last round.
    pub moments: Moments,
    momentum: Momentum<Pose>,
    /// [B] joints that stay where they are; empty: none.
    pub held: Vec<bool>,
}

impl<'a> SkeletonDescent<'a> {
    pub fn new(problem: &Problem, local: VertexParams, smoothness: Option<&'a Smoothness>) -> Self {
        let (squared_error, moments) = (f64::INFINITY, Moments::default());
        let momentum = Momentum::new(if smoothness.is_some() { 0.0 } else { MAX_MOMENTUM });
        Self { problem: problem.clone(), local, smoothness, squared_error, moments, momentum, held: Vec::new() }
    }

    /// E_RMS after the last round.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(self.squared_error)
    }

    /// Up to `count` rounds, fewer when time is up; leaves `body` at the last error.
    pub fn rounds(&mut self, body: &mut SkinnedPose, count: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        for _ in 0..count {
            self.round(body, run)?;
            if run.is_over() {
                break;
            }
        }
        self.step_back(body);
        Ok(())
    }

    /// One round; [`SkeletonDescent::step_back`] takes the look ahead back.
    pub fn round(&mut self, body: &mut SkinnedPose, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let mut motion = body.pose.to_motion();
        run.timed("vertices", || self.solve_vertices(&motion, &mut body.skin));
        if self.momentum.is_ahead() && self.moments.squared_error > self.squared_error {
            self.momentum.step_back(&mut body.pose);
            motion = body.pose.to_motion();
            run.timed("vertices", || self.solve_vertices(&motion, &mut body.skin));
        }
        run.timed("joints", || {
            self.squared_error = Quadratic::new(&self.moments, &motion).improve(&mut body.pose, &self.held);
            self.momentum.look_ahead(&mut body.pose, |new, old, beta| new.extrapolated(&old, beta));
        });
        run.round(body.pose.bones(), self.e_rms())
    }

    fn solve_vertices(&mut self, motion: &Motion, skin: &mut Skin) {
        self.moments = pass::solve(&self.problem, motion, skin, self.local, self.smoothness);
    }

    /// Takes the look ahead back, so that `body` is what the last error belongs to.
    pub fn step_back(&mut self, body: &mut SkinnedPose) {
        self.momentum.step_back(&mut body.pose);
    }

    /// Discards the error after the tree was changed.
    pub fn restart(&mut self) {
        self.squared_error = f64::INFINITY;
        self.momentum.reset();
    }
}
