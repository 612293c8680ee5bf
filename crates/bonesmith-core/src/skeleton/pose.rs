//! A posed skeleton: rotations of all bones, the place of the root; joints hold by construction.
//!
//! With `R_j` the rotation of bone `j` in the world, `c_j` its joint and `p(j)` its parent, the posed joint is
//! `q_j = q_p(j) + R_p(j) (c_j - c_p(j))` and the bone moves `x -> q_j + R_j (x - c_j)`. So a posed vertex is *linear*
//! in all world rotations and the root's place `s`:
//!
//! ```text
//! v_i = s + sum_j R_j b_ij      b_ij = w_ij (u_i - c_j) + sum_(m child of j) W_im (c_m - c_j)
//! ```
//!
//! with `W_im` the sum of the weights of the subtree of `m`. `b_i` is `C x_i` with the `x_i` of the fit and a small
//! matrix `C` that depends on the joints alone, so all sums over vertices follow from the fit's moments.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use glam::{DMat3, DVec3};

use crate::skeleton::tree::Tree;
use crate::skinning::motion::Motion;
use crate::solve::transform::nearest_rotation;

/// A tree of bones in all frames.
#[derive(Clone)]
pub(crate) struct Pose {
    pub tree: Tree,
    /// [F, B] world rotation of bone `j` in frame `t`.
    pub rotations: Vec<DMat3>,
    /// [F] posed place of the root's joint.
    pub places: Vec<DVec3>,
}

impl Pose {
    /// The rotations of a loose motion, joined: the root goes where it went, everything else follows.
    pub fn from_motion(tree: Tree, motion: &Motion) -> Self {
        let (b, f) = (tree.bones(), motion.frames());
        let (root, root_joint) = (tree.root(), tree.joints[tree.root()]);
        let mut pose = Self { tree, rotations: Vec::with_capacity(f * b), places: Vec::with_capacity(f) };
        for t in 0..f {
            for j in 0..b {
                let (linear, shift) = split(&motion.get(j, t));
                pose.rotations.push(nearest_rotation(&linear));
                if j == root {
                    pose.places.push(linear * root_joint + shift);
                }
            }
        }
        pose
    }

    /// B.
    pub fn bones(&self) -> usize {
        self.tree.bones()
    }

    /// F.
    pub fn frames(&self) -> usize {
        self.places.len()
    }

    /// [B] rotations of frame `t`.
    pub fn frame(&self, t: usize) -> &[DMat3] {
        &self.rotations[t * self.bones()..(t + 1) * self.bones()]
    }

    /// [B] posed joints of frame `t`.
    pub fn posed_joints(&self, t: usize) -> Vec<DVec3> {
        let (tree, rotations) = (&self.tree, self.frame(t));
        let mut posed = vec![self.places[t]; self.bones()];
        for &j in &tree.order[1..] {
            if let Some(p) = tree.parents[j] {
                posed[j] = posed[p] + rotations[p] * (tree.joints[j] - tree.joints[p]);
            }
        }
        posed
    }

    /// The bones' matrices.
    pub fn to_motion(&self) -> Motion {
        let mut motion = Motion::identity(self.bones(), self.frames());
        for t in 0..self.frames() {
            let posed = self.posed_joints(t);
            for (j, r) in self.frame(t).iter().enumerate() {
                let shift = posed[j] - *r * self.tree.joints[j];
                motion.set(j, t, &std::array::from_fn(|a| [r.x_axis[a], r.y_axis[a], r.z_axis[a], shift[a]]));
            }
        }
        motion
    }

    /// The same motion with another tree of the same bones; only joints that hold in both keep holding exactly.
    pub fn with_tree(&self, tree: Tree) -> Self {
        let root = tree.root();
        let places = (0..self.frames())
            .map(|t| {
                let posed = self.posed_joints(t);
                posed[root] + self.frame(t)[root] * (tree.joints[root] - self.tree.joints[root])
            })
            .collect();
        Self { tree, rotations: self.rotations.clone(), places }
    }

    /// Takes bones out; see [`Tree::without`].
    pub fn without(&self, gone: &[usize]) -> Self {
        let tree = self.tree.without(gone);
        let kept: Vec<usize> = (0..self.bones()).filter(|j| !gone.contains(j)).collect();
        let (root, old_root) = (tree.root(), kept[tree.root()]);
        let places = (0..self.frames())
            .map(|t| {
                let posed = self.posed_joints(t);
                posed[old_root] + self.frame(t)[old_root] * (tree.joints[root] - self.tree.joints[old_root])
            })
            .collect();
        let rotations = (0..self.frames()).flat_map(|t| kept.iter().map(move |&j| self.frame(t)[j])).collect();
        Self { tree, rotations, places }
    }
}

/// Linear part and translation of a bone's matrix.
pub(crate) fn split(m: &[[f64; 4]; 3]) -> (DMat3, DVec3) {
    let column = |c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
    (DMat3::from_cols(column(0), column(1), column(2)), column(3))
}

/// [3 B + 1, 4 B] the matrix `C` with `(b_i, 1) = C x_i`: row `3 j + a` is axis `a` of `b_ij`.
pub(crate) fn joint_map(tree: &Tree) -> Vec<f64> {
    let b = tree.bones();
    let side = 4 * b;
    let mut map = vec![0.0; (3 * b + 1) * side];
    for j in 0..b {
        for a in 0..3 {
            map[(3 * j + a) * side + a * b + j] = 1.0;
            map[(3 * j + a) * side + 3 * b + j] = -tree.joints[j][a];
        }
        map[3 * b * side + 3 * b + j] = 1.0;
        // Bone j is below each of its ancestors through one of their children.
        let (mut child, mut up) = (j, tree.parents[j]);
        while let Some(p) = up {
            let arm = tree.joints[child] - tree.joints[p];
            for a in 0..3 {
                map[(3 * p + a) * side + 3 * b + j] = arm[a];
            }
            (child, up) = (p, tree.parents[p]);
        }
    }
    map
}

/// Row-major product `a b` or `a b^T`; one thread, so that bits do not depend on how many there are.
pub(crate) fn product(a: &[f64], rows: usize, inner: usize, b: &[f64], columns: usize, transposed: bool) -> Vec<f64> {
    let mut out = vec![0.0; rows * columns];
    let left = MatRef::from_row_major_slice(a, rows, inner);
    let right = match transposed {
        false => MatRef::from_row_major_slice(b, inner, columns),
        true => MatRef::from_row_major_slice(b, columns, inner).transpose(),
    };
    let target = MatMut::from_row_major_slice_mut(&mut out, rows, columns);
    matmul(target, Accum::Replace, left, right, 1.0, Par::Seq);
    out
}
