//! From loose bones to a tree: joint positions between pairs, the joint graph, its minimum spanning tree.
//!
//! Two bones `j`, `k` that should share a joint `c` miss it by `d_t = T_jt c - T_kt c` [Le2014 eq. 3.3]. Not all of that
//! counts: the turn of a thin or small bone about its own axis is hardly known, and what it does to the gap says
//! nothing. So each bone has a *compliance* at `c`, from the second moments of what it moves: with mass `s`, centre
//! `m`, inertia `I` and `r = c - m`, a force at `c` moves it by `C = 1/s + [r]x I^-1 [r]x^T`. Closing the gap with the
//! least change of both costs `d^T (C_j + C_k)^-1 d` in squared error; over the mean stiffness that is a squared
//! distance again, which is minimised over `c` and summed over frames.
//!
//! A small weight `g` = squared gap / blending means a likely joint [Le2014 eq. 3.5; the sentence there has it backwards], so
//! the tree is the *minimum* spanning tree. Bones that share no vertex are joined last, nearest first in motion: several
//! components hang under one root. Deviations: the gap is measured by stiffness; the
//! anchor of a hinge [Le2014 eq. 3.4] is the middle of the region that both bones move.

use glam::{DMat3, DVec3};

use crate::skeleton::pose::split;
use crate::skeleton::tree::Edge;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;

/// Pull of a joint towards its anchor, in squared radians per frame [Le2014 eq. 3.4: mu].
const PULL: f64 = 1e-3;

/// Rounds of placing a joint and finding the compliances there.
const ROUNDS: usize = 2;

/// What decides about joints: motions, and what bones move.
pub(crate) struct Graph {
    bones: usize,
    frames: usize,
    /// [B, F] rotation and translation.
    motion: Vec<(DMat3, DVec3)>,
    /// [4 B, 4 B] `sum_i x_i x_i^T`.
    second: Vec<f64>,
    bodies: Vec<Inertia>,
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
pub(crate) struct Joint {
    pub place: DVec3,
    /// By how much the bones miss it, squared and summed over frames.
    pub error: f64,
    /// `sum_i w_ij w_ik`.
    pub blending: f64,
}

impl Graph {
    pub fn new(motion: &Motion, moments: &Moments) -> Self {
        let (bones, frames) = (motion.bones, motion.frames());
        let transforms = (0..bones).flat_map(|j| (0..frames).map(move |t| split(&motion.get(j, t)))).collect();
        let second = moments.second.dense();
        let mut graph = Self { bones, frames, motion: transforms, second, bodies: Vec::new() };
        graph.bodies = (0..bones).map(|j| graph.inertia(j)).collect();
        graph
    }

    /// As [`Graph::new`], with gaps measured as distances, whatever the bones move [Le2014 eq. 3.5].
    pub fn plain(motion: &Motion, moments: &Moments) -> Self {
        let mut graph = Self::new(motion, moments);
        graph.bodies = vec![Inertia { mass: 1.0, centre: DVec3::ZERO, inverse: DMat3::ZERO }; motion.bones];
        graph
    }

    fn inertia(&self, j: usize) -> Inertia {
        let (b, side) = (self.bones, 4 * self.bones);
        let (_, mass) = self.shared(j, j);
        let mass = mass.max(1e-6);
        let centre = self.centroid(j);
        let entry = |r: usize, c: usize| self.second[(r * b + j) * side + c * b + j] - mass * centre[r] * centre[c];
        let spread = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|r| entry(r, c))));
        let trace = (spread.x_axis.x + spread.y_axis.y + spread.z_axis.z).max(0.0);
        // A point has no inertia: it turns for almost nothing.
        let ridge = 1e-2 * trace + 1e-4 * mass;
        let inverse = (DMat3::from_diagonal(DVec3::splat(trace + ridge)) - spread).inverse();
        Inertia { mass, centre, inverse }
    }

    /// `sum_i w_ij w_ik [u_i; 1]`.
    fn shared(&self, j: usize, k: usize) -> (DVec3, f64) {
        let (b, side) = (self.bones, 4 * self.bones);
        let entry = |c: usize| self.second[(c * b + j) * side + 3 * b + k];
        (DVec3::new(entry(0), entry(1), entry(2)), entry(3))
    }

    /// `sum_i w_ij w_ik`.
    pub fn blending(&self, j: usize, k: usize) -> f64 {
        self.shared(j, k).1
    }

    /// Middle of what bone `j` moves.
    pub fn centroid(&self, j: usize) -> DVec3 {
        let (sum, weight) = self.shared(j, j);
        if weight > 1e-12 { sum / weight } else { DVec3::ZERO }
    }

    /// Middle of the region that both bones move; of the two bones where there is none.
    pub fn anchor(&self, j: usize, k: usize) -> DVec3 {
        let (sum, weight) = self.shared(j, k);
        let own = self.shared(j, j).1.min(self.shared(k, k).1);
        if weight > 1e-4 * own && weight > 1e-9 { sum / weight } else { 0.5 * (self.centroid(j) + self.centroid(k)) }
    }

    /// The best joint between two bones.
    pub fn joint(&self, j: usize, k: usize) -> Joint {
        let anchor = self.anchor(j, k);
        let mut place = anchor;
        for _ in 0..ROUNDS {
            let (normal, right, stiffness) = self.normal_equations(j, k, place);
            let ridge = PULL * stiffness + 1e-12;
            let next = (normal + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * (ridge * anchor - right);
            if next.is_finite() {
                place = next;
            }
        }
        Joint { place, error: self.gap(j, k, place), blending: self.shared(j, k).1 }
    }

    /// Transforms of both bones over time.
    fn pairs(&self, j: usize, k: usize) -> impl Iterator<Item = (&(DMat3, DVec3), &(DMat3, DVec3))> {
        let of = |j: usize| &self.motion[j * self.frames..(j + 1) * self.frames];
        of(j).iter().zip(of(k))
    }

    /// Inverse of both compliances at `c`, as the bones are turned.
    fn stiffness(&self, j: usize, k: usize, c: DVec3) -> impl Fn(&DMat3, &DMat3) -> DMat3 {
        let (own, other) = (self.bodies[j].compliance(c), self.bodies[k].compliance(c));
        move |a: &DMat3, b: &DMat3| (*a * own * a.transpose() + *b * other * b.transpose()).inverse()
    }

    /// `sum A^T W A`, `sum A^T W a`, and the mean eigenvalue of `sum W`, with `d = A c + a`.
    fn normal_equations(&self, j: usize, k: usize, c: DVec3) -> (DMat3, DVec3, f64) {
        let stiffness = self.stiffness(j, k, c);
        let (mut normal, mut right, mut sum) = (DMat3::ZERO, DVec3::ZERO, 0.0);
        for ((a, x), (b, y)) in self.pairs(j, k) {
            let (lever, w) = (*a - *b, stiffness(a, b));
            let weighted = lever.transpose() * w;
            normal += weighted * lever;
            right += weighted * (*x - *y);
            sum += (w.x_axis.x + w.y_axis.y + w.z_axis.z) / 3.0;
        }
        (normal, right, sum)
    }

    /// Squared gap at `c`, summed over frames: what closing it costs, over the stiffness of the two bones there.
    fn gap(&self, j: usize, k: usize, c: DVec3) -> f64 {
        let stiffness = self.stiffness(j, k, c);
        let (mut cost, mut sum) = (0.0, 0.0);
        for ((a, x), (b, y)) in self.pairs(j, k) {
            let (gap, w) = ((*a - *b) * c + *x - *y, stiffness(a, b));
            cost += gap.dot(w * gap);
            sum += (w.x_axis.x + w.y_axis.y + w.z_axis.z) / 3.0;
        }
        cost * self.frames as f64 / sum.max(1e-300)
    }

    /// Minimum spanning tree [Kruskal 1956], ties by number.
    pub fn spanning_tree(&self) -> Vec<Edge> {
        let b = self.bones;
        let mut edges: Vec<(bool, f64, usize, usize, DVec3)> = Vec::with_capacity(b * b / 2);
        // Less than this is rounding, not blending.
        let least = 1e-6 * (0..b).map(|j| self.shared(j, j).1).fold(0.0, f64::max);
        for j in 0..b {
            for k in 0..j {
                let joint = self.joint(j, k);
                let blends = joint.blending > least;
                // By distance too, so that a still model gives near neighbours.
                let apart = 1e-6 * self.frames as f64 * self.centroid(j).distance_squared(self.centroid(k));
                let weight = (joint.error + apart) / if blends { joint.blending } else { 1.0 };
                edges.push((!blends, weight, k, j, joint.place));
            }
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
        tree
    }
}
