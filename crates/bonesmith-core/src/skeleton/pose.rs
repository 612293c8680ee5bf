//! A posed skeleton: rotations of all bones, the path of the root; joints hold by construction.
//!
//! With `R_j` the rotation of bone `j` in the world, `c_j` its joint and `p(j)` its parent, the posed joint is
//! `q_j = q_p(j) + R_p(j) (c_j - c_p(j))` and the bone moves `x -> q_j + R_j (x - c_j)`. So a posed vertex is *linear*
//! in all world rotations and the root's place `s`:
//!
//! ```text
//! v_i = s + sum_j R_j b_ij      b_ij = w_ij (u_i - c_j) + sum_(m child of j) W_im (c_m - c_j)
//! ```
//!
//! with `W_im` the sum of the weights of the subtree of `m`. `b_i` is `C x_i` with the `x_i` of the moments and a small
//! matrix `C` that depends on the joints alone, so all sums over vertices follow from the moments.

use glam::{DAffine3, DMat3, DVec3};

use crate::skeleton::tree::Tree;
use crate::skinning::Motion;
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
    /// The rotations of bones without joints, joined: the root moves as before, all others follow it.
    pub fn from_motion(tree: Tree, motion: &Motion) -> Self {
        let (b, f, root) = (tree.bones(), motion.frames(), tree.root());
        let rotation = |at: usize| nearest_rotation(&motion.transform(at % b, at / b).matrix3);
        let rotations = (0..f * b).map(rotation).collect();
        let places = (0..f).map(|t| motion.transform(root, t).transform_point3(tree.joints[root])).collect();
        Self { tree, rotations, places }
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
    fn posed_joints(&self, t: usize) -> Vec<DVec3> {
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
            for (j, &matrix3) in self.frame(t).iter().enumerate() {
                let translation = posed[j] - matrix3 * self.tree.joints[j];
                motion.set_transform(j, t, &DAffine3 { matrix3, translation });
            }
        }
        motion
    }

    /// The motion of some bones with a tree of their own; only joints that hold in both trees keep holding exactly.
    pub fn pick(&self, bones: &[usize], tree: Tree) -> Self {
        let (joint, root) = (tree.joints[tree.root()], bones[tree.root()]);
        let place = |t: usize| self.posed_joints(t)[root] + self.frame(t)[root] * (joint - self.tree.joints[root]);
        let places = (0..self.frames()).map(place).collect();
        let rotations = (0..self.frames()).flat_map(|t| bones.iter().map(move |&j| self.frame(t)[j])).collect();
        Self { tree, rotations, places }
    }

    /// The same bones with another tree; see [`Pose::pick`].
    pub fn with_tree(&self, tree: Tree) -> Self {
        self.pick(&(0..self.bones()).collect::<Vec<_>>(), tree)
    }

    /// Takes bones out; see [`Tree::without`].
    pub fn without(&self, gone: &[usize]) -> Self {
        let kept: Vec<usize> = (0..self.bones()).filter(|j| !gone.contains(j)).collect();
        self.pick(&kept, self.tree.without(gone))
    }

    /// `self + beta (self - old)`, rotations brought back to rotations.
    pub fn extrapolated(&self, old: &Self, beta: f64) -> Self {
        let ahead = |new: &DVec3, old: &DVec3| *new + beta * (*new - *old);
        let carry = |new: &DMat3, old: &DMat3| nearest_rotation(&(*new + (*new - *old) * beta));
        let joints = self.tree.joints.iter().zip(&old.tree.joints).map(|(new, old)| ahead(new, old)).collect();
        Self {
            tree: Tree { joints, ..self.tree.clone() },
            rotations: self.rotations.iter().zip(&old.rotations).map(|(new, old)| carry(new, old)).collect(),
            places: self.places.iter().zip(&old.places).map(|(new, old)| ahead(new, old)).collect(),
        }
    }
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
