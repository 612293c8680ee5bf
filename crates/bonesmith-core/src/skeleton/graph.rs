//! From loose bones to a tree: joint positions between pairs, the joint graph, its minimum spanning tree.
//!
//! For bones `j`, `k` with matrices `T_jt` the joint error at rest point `c` is `sum_t |(T_jt - T_kt) [c; 1]|^2 =
//! c^T (K_jj + K_kk - K_jk - K_kj) c` with `K = T^T T` [Le2014 eq. 3.3], so after one product of the motion with itself
//! a pair costs a 3x3 solve, whatever the number of frames. A small weight `g` means a likely joint [Le2014 eq. 3.5; the
//! sentence there has it backwards], so the tree is the *minimum* spanning tree. Bones that share no vertex are joined
//! last, nearest first in motion: several components hang under one root.

use glam::{DMat3, DVec3};

use super::tree::Edge;
use crate::fit::model::Motion;
use crate::fit::vertices::{Moments, gram};

/// Pull of a joint towards its anchor per frame [Le2014 eq. 3.4: mu, spread over the frames of a short sequence].
const PULL: f64 = 1e-3;

/// What decides about joints: products of motions, and what bones share.
pub(crate) struct Graph {
    bones: usize,
    frames: f64,
    /// [4 B, 4 B] `T T^T`.
    gram: Vec<f64>,
    /// [4 B, 4 B] `sum_i x_i x_i^T`.
    second: Vec<f64>,
}

/// A possible joint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Joint {
    pub place: DVec3,
    /// `sum_t |(T_j - T_k) [place; 1]|^2`.
    pub error: f64,
    /// `sum_i w_ij w_ik`.
    pub blending: f64,
}

impl Graph {
    pub fn new(motion: &Motion, moments: &Moments) -> Self {
        Self { bones: motion.bones, frames: motion.frames() as f64, gram: gram(motion), second: moments.second.clone() }
    }

    /// `sum_i w_ij w_ik [u_i; 1]`.
    fn shared(&self, j: usize, k: usize) -> (DVec3, f64) {
        let (b, side) = (self.bones, 4 * self.bones);
        let entry = |c: usize| self.second[(c * b + j) * side + 3 * b + k];
        (DVec3::new(entry(0), entry(1), entry(2)), entry(3))
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
        let q = self.difference(j, k);
        let anchor = self.anchor(j, k);
        let ridge = PULL * self.frames + 1e-12;
        let matrix = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|r| q[r][c])));
        let right = DVec3::new(q[0][3], q[1][3], q[2][3]);
        let place = (matrix + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * (ridge * anchor - right);
        let place = if place.is_finite() { place } else { anchor };
        let error = place.dot(matrix * place) + 2.0 * right.dot(place) + q[3][3];
        Joint { place, error: error.max(0.0), blending: self.shared(j, k).1 }
    }

    /// `K_jj + K_kk - K_jk - K_kj`.
    fn difference(&self, j: usize, k: usize) -> [[f64; 4]; 4] {
        let (b, side) = (self.bones, 4 * self.bones);
        let entry = |r: usize, x: usize, c: usize, y: usize| self.gram[(r * b + x) * side + c * b + y];
        std::array::from_fn(|r| {
            std::array::from_fn(|c| entry(r, j, c, j) + entry(r, k, c, k) - entry(r, j, c, k) - entry(r, k, c, j))
        })
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
                // Without shared vertices: by motion and by distance, so that a still model gives near neighbours.
                let apart = 1e-6 * self.frames * self.centroid(j).distance_squared(self.centroid(k));
                let weight = if blends { (joint.error + apart) / joint.blending } else { joint.error + apart };
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
