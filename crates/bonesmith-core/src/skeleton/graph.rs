//! From free bones to a tree: joint positions between pairs, the joint graph, its minimum spanning tree.
//!
//! Two bones `j`, `k` that should share a joint `c` miss it by `d_t = T_jt c - T_kt c` [Le2014 eq. 3.3]. Not all of that
//! counts: the rotation of a thin or small bone about its own axis is hardly determined, and so is the gap that it makes.
//! So each bone has a *compliance* at `c`, from the second moments of what it moves: with mass `s`, centre
//! `m`, inertia `I` and `r = c - m`, a force at `c` moves it by `C = 1/s + [r]x I^-1 [r]x^T`. Closing the gap with the
//! least change of both costs `d^T (C_j + C_k)^-1 d` in squared error; over the mean stiffness that is a squared
//! distance again, which is minimised over `c` and summed over frames.
//!
//! A small weight `g` = squared gap / blending means a likely joint [Le2014 eq. 3.5; the sentence there has it backwards], so
//! the tree is the *minimum* spanning tree. Bones that share no vertex are joined last, nearest first in motion: several
//! components hang under one root. Deviations: the gap is measured by stiffness; the anchor of a hinge [Le2014 eq. 3.4] is
//! the middle of the region that both bones move; its pull grows with the frames and the stiffness, where the paper has a
//! constant mu = 0.01.

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::observer::Cancelled;
use crate::skeleton::tree::Edge;
use crate::skinning::moments::Coupling;
use crate::skinning::{Motion, Run, SecondMoments};

/// Pull of a joint towards its anchor, in squared radians per frame.
const PULL: f64 = 1e-3;

/// Rounds of placing a joint and finding the compliances there.
const ROUNDS: usize = 2;

/// Bones whose joints to all others are found between two reports of progress.
const BONES_AT_ONCE: usize = 32;

/// How the gap at a joint is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// By the stiffness of what the two bones move.
    Stiffness,
    /// As a distance [Le2014 eq. 3.5].
    Distance,
}

/// The motions of bones and the moments of what they move.
pub(crate) struct JointGraph<'a> {
    bones: usize,
    frames: usize,
    /// [B, F]
    transforms: Vec<DAffine3>,
    second: &'a SecondMoments,
    /// [B]
    inertias: Vec<Inertia>,
}

/// What a bone moves, as a rigid body.
#[derive(Clone, Copy)]
struct Inertia {
    mass: f64,
    centre: DVec3,
    /// Inverse inertia about the centre.
    inverse: DMat3,
}

impl Inertia {
    fn new(coupling: &Coupling) -> Self {
        let (mass, spread) = (coupling.own[3][3].max(1e-6), coupling.covariance());
        let trace = (spread.x_axis.x + spread.y_axis.y + spread.z_axis.z).max(0.0);
        // A point has no inertia: it turns for almost nothing.
        let ridge = 1e-2 * trace + 1e-4 * mass;
        let inverse = (DMat3::from_diagonal(DVec3::splat(trace + ridge)) - spread).inverse();
        Self { mass, centre: coupling.centre(), inverse }
    }

    /// How far a unit force at `c` moves the body there.
    fn compliance(&self, c: DVec3) -> DMat3 {
        let r = c - self.centre;
        let cross =
            DMat3::from_cols(DVec3::new(0.0, r.z, -r.y), DVec3::new(-r.z, 0.0, r.x), DVec3::new(r.y, -r.x, 0.0));
        DMat3::from_diagonal(DVec3::splat(1.0 / self.mass)) + cross * self.inverse * cross.transpose()
    }
}

/// A possible joint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JointCandidate {
    pub place: DVec3,
    /// By how much the bones miss it, squared and summed over frames.
    pub error: f64,
    /// `sum_i w_ij w_ik`.
    pub blending: f64,
}

/// `c^T N c + 2 r^T c + s` with `N = sum A^T W A`, `r = sum A^T W a`, `s = sum a^T W a` over all frames, and the mean
/// eigenvalue of `sum W`, where `W` is the inverse of both compliances as the bones are rotated.
struct ClosingCost {
    normal: DMat3,
    right: DVec3,
    constant: f64,
    stiffness: f64,
}

/// Where the joint of two bones belongs that the motion does not place: in the middle of the region that both move; between
/// the middles of the two where there is none.
pub(crate) fn anchor(second: &SecondMoments, j: usize, k: usize) -> DVec3 {
    let least = (1e-4 * second.mass(j).min(second.mass(k))).max(1e-9);
    match second.of[j].get(k) {
        Some(shared) if shared[3][3] > least => DVec3::new(shared[0][3], shared[1][3], shared[2][3]) / shared[3][3],
        _ => 0.5 * (second.of[j].centre() + second.of[k].centre()),
    }
}

impl<'a> JointGraph<'a> {
    pub fn new(motion: &Motion, second: &'a SecondMoments, gap: Gap) -> Self {
        let (bones, frames) = (motion.bones, motion.frames());
        let transforms = (0..bones * frames).map(|at| motion.transform(at / frames, at % frames)).collect();
        let inertia = |coupling: &Coupling| match gap {
            Gap::Stiffness => Inertia::new(coupling),
            Gap::Distance => Inertia { mass: 1.0, centre: DVec3::ZERO, inverse: DMat3::ZERO },
        };
        Self { bones, frames, transforms, second, inertias: second.of.iter().map(inertia).collect() }
    }

    /// `sum_i w_ij w_ik`.
    pub fn blending(&self, j: usize, k: usize) -> f64 {
        self.second.shared_mass(j, k)
    }

    /// The best joint between two bones.
    pub fn joint(&self, j: usize, k: usize) -> JointCandidate {
        let anchor = anchor(self.second, j, k);
        let (mut place, mut cost) = (anchor, self.closing_cost(j, k, anchor));
        for _ in 0..ROUNDS {
            let ridge = PULL * cost.stiffness + 1e-12;
            let normal = cost.normal + DMat3::from_diagonal(DVec3::splat(ridge));
            let next = normal.inverse() * (ridge * anchor - cost.right);
            if next.is_finite() {
                (place, cost) = (next, self.closing_cost(j, k, next));
            }
        }
        let error = place.dot(cost.normal * place + 2.0 * cost.right) + cost.constant;
        let error = error.max(0.0) * self.frames as f64 / cost.stiffness.max(1e-300);
        JointCandidate { place, error, blending: self.blending(j, k) }
    }

    /// What the best joint between two bones misses, beside what both move.
    pub fn tension(&self, j: usize, k: usize) -> f64 {
        let joint = self.joint(j, k);
        (joint.error + 1e-9) / (joint.blending + 1e-6)
    }

    /// What closing the gap `d = A c + a` at a place near `c` costs, over all frames.
    fn closing_cost(&self, j: usize, k: usize, c: DVec3) -> ClosingCost {
        let (own, other) = (self.inertias[j].compliance(c), self.inertias[k].compliance(c));
        let of = |j: usize| &self.transforms[j * self.frames..(j + 1) * self.frames];
        let mut cost = ClosingCost { normal: DMat3::ZERO, right: DVec3::ZERO, constant: 0.0, stiffness: 0.0 };
        for (x, y) in of(j).iter().zip(of(k)) {
            let (a, b) = (x.matrix3, y.matrix3);
            let w = (a * own * a.transpose() + b * other * b.transpose()).inverse();
            let (lever, offset) = (a - b, x.translation - y.translation);
            let weighted = lever.transpose() * w;
            cost.normal += weighted * lever;
            cost.right += weighted * offset;
            cost.constant += offset.dot(w * offset);
            cost.stiffness += (w.x_axis.x + w.y_axis.y + w.z_axis.z) / 3.0;
        }
        cost
    }

    /// Minimum spanning tree [Kruskal1956], ties by number.
    pub fn spanning_tree(&self, run: &mut Run<'_>) -> Result<Vec<Edge>, Cancelled> {
        let b = self.bones;
        // Less than this is rounding, not blending.
        let least = 1e-6 * (0..b).map(|j| self.second.mass(j)).fold(0.0, f64::max);
        let edge = |j: usize, k: usize| {
            let joint = self.joint(j, k);
            let blends = joint.blending > least;
            // By distance too, so that a still model gives near neighbours.
            let distance = self.second.of[j].centre().distance_squared(self.second.of[k].centre());
            let apart = 1e-6 * self.frames as f64 * distance;
            let weight = (joint.error + apart) / if blends { joint.blending } else { 1.0 };
            (!blends, weight, k, j, joint.place)
        };
        let mut edges: Vec<(bool, f64, usize, usize, DVec3)> = Vec::with_capacity(b * b / 2);
        for first in (0..b).step_by(BONES_AT_ONCE) {
            let rows = (first..b.min(first + BONES_AT_ONCE)).into_par_iter();
            edges.par_extend(rows.flat_map_iter(|j| (0..j).map(move |k| edge(j, k))));
            run.step()?;
        }
        edges.sort_by(|x, y| x.0.cmp(&y.0).then(x.1.total_cmp(&y.1)).then((x.2, x.3).cmp(&(y.2, y.3))));
        let mut group: Vec<usize> = (0..b).collect();
        let mut tree = Vec::with_capacity(b.saturating_sub(1));
        for (_, _, j, k, joint) in edges {
            let (from, to) = (group[j], group[k]);
            if from != to {
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
                tree.push(Edge { bones: (j, k), joint });
            }
        }
        Ok(tree)
    }
}
