//! Alternating descent with the joints held: weights and rest pose, then rotations and joints.

use glam::{DMat3, DVec3};

use crate::observer::Cancelled;
use crate::skeleton::graph::Graph;
use crate::skeleton::pose::Pose;
use crate::skeleton::solve::Quadratic;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::Smoothness;
use crate::skinning::vertex_step::VertexParams;
use crate::solve::transform::nearest_rotation;

/// Largest momentum: how far ahead of the last step the next one starts.
const MAX_MOMENTUM: f64 = 0.95;

/// A skinned skeleton while it is being fitted.
#[derive(Clone)]
pub(crate) struct Body {
    pub pose: Pose,
    pub skin: Skin,
}

/// Alternates on one problem, with momentum as in the loose fit (`fit::descend`): vertices are optimal for *any* bones,
/// so the skeleton is first carried on in the direction it moved; where the error rises, that is taken back.
pub(crate) struct JointDescent<'a> {
    pub problem: &'a Problem,
    pub local: VertexParams,
    pub smoothness: Option<&'a Smoothness>,
    /// Squared error after the last round.
    pub squared_error: f64,
    /// What the last round left.
    pub moments: Moments,
    last: Option<Pose>,
    plain: Option<Pose>,
    age: f64,
}

impl<'a> JointDescent<'a> {
    pub fn new(problem: &'a Problem, local: VertexParams, smoothness: Option<&'a Smoothness>) -> Self {
        let (squared_error, moments) = (f64::INFINITY, Moments::default());
        Self { problem, local, smoothness, squared_error, moments, last: None, plain: None, age: 0.0 }
    }

    /// E_RMS after the last round.
    pub fn e_rms(&self) -> f64 {
        self.problem.e_rms(self.squared_error)
    }

    /// Up to `count` rounds, fewer when time is up.
    pub fn rounds(&mut self, body: &mut Body, count: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        for _ in 0..count {
            self.round(body, run)?;
            if run.is_over() {
                break;
            }
        }
        self.settle(body);
        Ok(())
    }

    /// One round; [`JointDescent::settle`] takes the look ahead back.
    pub fn round(&mut self, body: &mut Body, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let mut motion = body.pose.to_motion();
        self.moments = run.timed("vertices", || self.solve_vertices(&motion, &mut body.skin));
        if self.moments.squared_error > self.squared_error
            && let Some(plain) = self.plain.take()
        {
            body.pose = plain;
            self.forget_momentum();
            motion = body.pose.to_motion();
            self.moments = run.timed("vertices", || self.solve_vertices(&motion, &mut body.skin));
        }
        run.timed("joints", || {
            self.squared_error = improve(&mut body.pose, &self.moments, &motion);
            self.look_ahead(&mut body.pose);
        });
        run.round(body.pose.bones(), self.e_rms())
    }

    fn solve_vertices(&self, motion: &Motion, skin: &mut Skin) -> Moments {
        pass::solve(self.problem, motion, skin, self.local, self.smoothness)
    }

    fn look_ahead(&mut self, pose: &mut Pose) {
        self.age += 1.0;
        let momentum = ((self.age - 1.0) / (self.age + 2.0)).min(MAX_MOMENTUM);
        let now = pose.clone();
        if let Some(last) = &self.last
            && momentum > 0.0
            && self.smoothness.is_none()
        {
            *pose = extrapolate(&now, last, momentum);
            self.plain = Some(now.clone());
        }
        self.last = Some(now);
    }

    /// Takes the look-ahead back, so that `body` is what the last error belongs to.
    pub fn settle(&mut self, body: &mut Body) {
        if let Some(plain) = self.plain.take() {
            body.pose = plain;
        }
        self.forget_momentum();
    }

    fn forget_momentum(&mut self) {
        self.last = None;
        self.age = 0.0;
    }

    /// Forgets the error after the tree was changed.
    pub fn restart(&mut self) {
        self.squared_error = f64::INFINITY;
        self.plain = None;
        self.forget_momentum();
    }
}

/// Rotations, root and joints for fixed weights; returns the squared error.
pub(crate) fn improve(pose: &mut Pose, moments: &Moments, motion: &Motion) -> f64 {
    let anchors = anchors(pose, &Graph::new(motion, moments));
    let mut quadratic = Quadratic::new(moments, motion);
    quadratic.turn(pose, 1);
    quadratic.place(pose, &anchors);
    quadratic.turn(pose, 1);
    quadratic.squared_error
}

/// [B] where joints belong that the motion does not place: in the middle of what both bones move.
pub(crate) fn anchors(pose: &Pose, graph: &Graph) -> Vec<DVec3> {
    let anchor = |j: usize| match pose.tree.parents[j] {
        Some(p) => graph.anchor(j, p),
        None => pose.tree.joints[j],
    };
    (0..pose.bones()).map(anchor).collect()
}

/// `new + beta (new - old)`, rotations brought back to rotations.
fn extrapolate(new: &Pose, old: &Pose, beta: f64) -> Pose {
    let ahead = |new: DVec3, old: DVec3| new + beta * (new - old);
    let mut pose = new.clone();
    for (j, joint) in pose.tree.joints.iter_mut().enumerate() {
        *joint = ahead(*joint, old.tree.joints[j]);
    }
    pose.places.iter_mut().zip(&old.places).for_each(|(place, old)| *place = ahead(*place, *old));
    let carry = |new: &DMat3, old: &DMat3| nearest_rotation(&(*new + (*new - *old) * beta));
    pose.rotations.iter_mut().zip(&old.rotations).for_each(|(r, old)| *r = carry(r, old));
    pose
}
