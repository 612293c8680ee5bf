//! Rotations, root and joints for fixed weights, with the joints held exactly; from moments alone.
//!
//! Given world rotations the posed vertices are linear in the joints, given the joints they are linear in world
//! rotations (`pose`), so two alternating steps do:
//!
//! * *turn*: all rotations and the root's place of a frame at once, by Gauss-Newton in the tangent space
//!   `R_j <- exp(w_j) R_j`. With `p = R_j b_ij` the normal matrix has blocks `tr(A) I - A^T`, `A = sum_i p_ij p_ik^T =
//!   R_j M_jk R_k^T`, and the right side `sum_i p_ij x r_i`. The true error is a quadratic in the *matrices*, so a step
//!   is judged exactly and damped until it lowers the error.
//! * *place*: all joints at once, a linear least squares problem; the root's place is eliminated. A hinge leaves its
//!   joint free along the axis: a ridge keeps it near an anchor [Le2014 eq. 3.4].
//!
//! | paper | here |
//! |---|---|
//! | C_jk [Le2014 eq. 3.3] | `Tree::joints` of the child |
//! | mu, (G_j + G_k) / 2 [Le2014 eq. 3.4] | `JOINT_RIDGE`, `anchors` (deviation: the middle of the region that both move) |
//!
//! Deviation: the paper pulls joints together with a growing weight and converts to rotations at the end; here the
//! constraint holds in every step of the final descent, so what is minimised is what is exported.

use glam::{DMat3, DQuat, DVec3};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::skeleton::graph::Graph;
use crate::skeleton::pose::{Pose, joint_map, product};
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;

/// Pull of a joint towards its anchor, in squared radians: a joint that turns by less than the root of this is placed
/// by its anchor more than by its motion.
const JOINT_RIDGE: f64 = 1e-4;

/// A turn that gains less than this share of the error is the last.
const SMALL_GAIN: f64 = 1e-5;

/// The error around a pose as a quadratic in the bones' matrices.
pub(crate) struct Quadratic<'a> {
    moments: &'a Moments,
    /// [4 B, 4 B] `S`.
    second: Vec<f64>,
    motion: Motion,
    /// [4 B, L] residual moments of `motion`.
    residual: Vec<f64>,
    /// Squared error of `motion`.
    pub squared_error: f64,
}

impl<'a> Quadratic<'a> {
    /// `motion` is what the moments were gathered with; it need not be joined.
    pub fn new(moments: &'a Moments, motion: &Motion) -> Self {
        Self {
            moments,
            second: moments.second.dense(),
            motion: motion.clone(),
            residual: moments.residual.clone(),
            squared_error: moments.squared_error,
        }
    }

    /// Moves to another motion: `D' = D - S d`, `E' = E - <d, 2 D - S d>`.
    pub fn move_to(&mut self, motion: Motion) {
        if motion.rows() == self.motion.rows() {
            return;
        }
        let side = 4 * motion.bones;
        let step: Vec<f64> = motion.rows().iter().zip(self.motion.rows()).map(|(new, old)| new - old).collect();
        let explained = product(&self.second, side, side, &step, motion.length, false);
        let mut gain = 0.0;
        for ((d, r), s) in step.iter().zip(&mut self.residual).zip(&explained) {
            gain += d * (2.0 * *r - s);
            *r -= s;
        }
        self.squared_error -= gain;
        self.motion = motion;
    }

    /// Turns all bones in all frames; returns the squared error.
    pub fn turn(&mut self, pose: &mut Pose, rounds: usize) -> f64 {
        self.move_to(pose.to_motion());
        let (b, f) = (pose.bones(), pose.frames());
        let (side, rows) = (4 * b, 3 * b + 1);
        let map = joint_map(&pose.tree);
        // M = C S C^T and G = C D.
        let half = product(&map, rows, side, &self.second, side, false);
        let second = product(&half, rows, side, &map, rows, true);
        let along = product(&map, rows, side, &self.residual, 3 * f, false);
        let level = self.squared_error / f as f64;
        pose.rotations.par_chunks_mut(b).zip(pose.places.par_iter_mut()).enumerate().for_each_init(
            || Turner::new(b),
            |turner, (t, (rotations, place))| {
                for (g, row) in turner.gradient.iter_mut().zip(along.chunks_exact(3 * f)) {
                    *g = DVec3::new(row[t], row[f + t], row[2 * f + t]);
                }
                turn_frame(turner, &second, rotations, place, rounds, SMALL_GAIN * level);
            },
        );
        self.move_to(pose.to_motion());
        self.squared_error
    }

    /// Moves all joints; returns the squared error. `anchors` [B]: where a joint goes that the motion does not place.
    pub fn place(&mut self, pose: &mut Pose, anchors: &[DVec3]) -> f64 {
        let before = (self.squared_error, pose.tree.joints.clone(), pose.places.clone());
        self.place_joints(pose, anchors);
        self.move_to(pose.to_motion());
        // The ridge is no part of the error: a step towards the anchors may raise it, but not by much.
        if self.squared_error > before.0 * (1.0 + 1e-4) {
            (_, pose.tree.joints, pose.places) = before;
            self.move_to(pose.to_motion());
        }
        self.squared_error
    }

    /// Joints that hold bones back: by how much the error would fall, at first order, if the subtree could shift
    /// freely. Those above `least` of the error, at most `most`, worst first.
    pub fn strained(&self, pose: &Pose, least: f64, most: usize) -> Vec<usize> {
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        let (b, f) = (pose.bones(), pose.frames());
        let strain = |j: usize| {
            let pull: f64 = subtrees.residual[j * f..(j + 1) * f].iter().map(|r| r.length_squared()).sum();
            pull / subtrees.overlap[j * b + j].max(1e-9)
        };
        let mut joints: Vec<(f64, usize)> = pose.tree.order[1..].iter().map(|&j| (strain(j), j)).collect();
        joints.retain(|(strain, _)| *strain > least * self.squared_error);
        joints.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        joints.into_iter().take(most).map(|(_, j)| j).collect()
    }

    /// The joint graph if the subtree of `j` (`inside`) shifted freely.
    pub fn released(&self, pose: &Pose, j: usize, inside: &[bool]) -> Graph {
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        let (b, f) = (pose.bones(), pose.frames());
        let mut motion = self.motion.clone();
        for t in 0..f {
            let shift = subtrees.residual[j * f + t] / subtrees.overlap[j * b + j].max(1e-9);
            for k in (0..b).filter(|&k| inside[k]) {
                let row = motion.row_mut(3, k);
                (0..3).for_each(|a| row[a * f + t] += shift[a]);
            }
        }
        Graph::new(&motion, self.moments)
    }

    fn place_joints(&self, pose: &mut Pose, anchors: &[DVec3]) {
        let (b, f) = (pose.bones(), pose.frames());
        let moving: Vec<usize> = pose.tree.order[1..].to_vec();
        if moving.is_empty() {
            return;
        }
        let subtree = Subtrees::new(pose, self.moments, &self.residual);
        let side = 3 * moving.len();
        // Spread of a joint's reach: R_p - R_j per frame.
        let lever = |t: usize, j: usize| match pose.tree.parents[j] {
            Some(p) => pose.frame(t)[p] - pose.frame(t)[j],
            None => DMat3::ZERO,
        };
        let levers: Vec<DMat3> = moving.iter().flat_map(|&j| (0..f).map(move |t| lever(t, j))).collect();
        let mut right = vec![DVec3::ZERO; moving.len()];
        let mut normal = vec![0.0; side * side];
        let columns: Vec<(Vec<DMat3>, DVec3)> = (0..moving.len())
            .into_par_iter()
            .map(|k| {
                let row = &levers[k * f..(k + 1) * f];
                let block = |l: usize| {
                    let common = subtree.overlap[moving[k] * b + moving[l]];
                    let other = &levers[l * f..(l + 1) * f];
                    row.iter().zip(other).fold(DMat3::ZERO, |sum, (x, y)| sum + x.transpose() * *y) * common
                };
                let blocks = (0..=k).map(block).collect();
                let along = |t: usize| row[t].transpose() * subtree.residual[moving[k] * f + t];
                (blocks, (0..f).fold(DVec3::ZERO, |sum, t| sum + along(t)))
            })
            .collect();
        for (k, (blocks, along)) in columns.into_iter().enumerate() {
            right[k] = along;
            for (l, block) in blocks.iter().enumerate() {
                for a in 0..3 {
                    for c in 0..3 {
                        normal[(3 * k + a) * side + 3 * l + c] = block.col(c)[a];
                    }
                }
            }
            let j = moving[k];
            let ridge = (JOINT_RIDGE * subtree.overlap[j * b + j]).max(1e-9 * subtree.vertices) * f as f64 + 1e-12;
            right[k] += ridge * (anchors[j] - pose.tree.joints[j]);
            (0..3).for_each(|a| normal[(3 * k + a) * (side + 1)] += ridge);
        }
        let mut step: Vec<f64> = right.iter().flat_map(|r| r.to_array()).collect();
        if !solve_spd(&mut normal, side, &mut step) {
            return;
        }
        // The root's place takes the mean of what is left [normal equations of s].
        for t in 0..f {
            let mut shift = subtree.mean_residual[t];
            for (k, &j) in moving.iter().enumerate() {
                let d = DVec3::from_slice(&step[3 * k..]);
                shift -= levers[k * f + t] * d * (subtree.mass[j] / subtree.vertices);
            }
            pose.places[t] += shift;
        }
        // The root's own joint keeps its place: a step there would only rename `places`.
        for (k, &j) in moving.iter().enumerate() {
            pose.tree.joints[j] += DVec3::from_slice(&step[3 * k..]);
        }
    }
}

/// Sums over the subtrees of bones, with the mean over vertices taken out.
struct Subtrees {
    /// [B, B] `sum_i W_ij W_ik - mass_j mass_k / N`.
    overlap: Vec<f64>,
    /// [B] `sum_i W_ij`.
    mass: Vec<f64>,
    /// [B, F] `sum_i W_ij r_it`, less the share of the mean.
    residual: Vec<DVec3>,
    /// [F] mean residual.
    mean_residual: Vec<DVec3>,
    /// N.
    vertices: f64,
}

impl Subtrees {
    fn new(pose: &Pose, moments: &Moments, residual: &[f64]) -> Self {
        let (b, f) = (pose.bones(), pose.frames());
        let length = 3 * f;
        let mut overlap: Vec<f64> = (0..b * b).map(|at| moments.second.shared_mass(at / b, at % b)).collect();
        let mut sums: Vec<DVec3> = (0..b * f)
            .map(|at| {
                let row = &residual[(3 * b + at / f) * length..][..length];
                let t = at % f;
                DVec3::new(row[t], row[f + t], row[2 * f + t])
            })
            .collect();
        for &j in pose.tree.order.iter().rev() {
            let Some(p) = pose.tree.parents[j] else { continue };
            for k in 0..b {
                overlap[p * b + k] += overlap[j * b + k];
            }
            for t in 0..f {
                let below = sums[j * f + t];
                sums[p * f + t] += below;
            }
        }
        for &j in pose.tree.order.iter().rev() {
            let Some(p) = pose.tree.parents[j] else { continue };
            for k in 0..b {
                overlap[k * b + p] += overlap[k * b + j];
            }
        }
        // The root's subtree is everything: W = 1 for every vertex.
        let root = pose.tree.root();
        let vertices = overlap[root * b + root].max(1e-300);
        let mass: Vec<f64> = (0..b).map(|j| overlap[j * b + root]).collect();
        for j in 0..b {
            for k in 0..b {
                overlap[j * b + k] -= mass[j] * mass[k] / vertices;
            }
        }
        let mean_residual: Vec<DVec3> = (0..f).map(|t| sums[root * f + t] / vertices).collect();
        for j in 0..b {
            for t in 0..f {
                sums[j * f + t] -= mass[j] * mean_residual[t];
            }
        }
        Self { overlap, mass, residual: sums, mean_residual, vertices }
    }
}

/// Gauss-Newton on one frame.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn turn_frame(
    turner: &mut Turner,
    second: &[f64],
    rotations: &mut [DMat3],
    place: &mut DVec3,
    rounds: usize,
    enough: f64,
) {
    turner.run(second, rotations, place, rounds, enough);
}

/// Buffers of [`turn_frame`].
struct Turner {
    b: usize,
    /// [3 B + 1] rows of `sum_i z_i r_i^T`.
    gradient: Vec<DVec3>,
    /// [3 B + 3, 3 B + 3] lower triangle.
    normal: Vec<f64>,
    damped: Vec<f64>,
    step: Vec<f64>,
    turned: Vec<DMat3>,
    /// [3 B + 1] change of the rows of `(R_0^T .. s^T)`.
    change: Vec<DVec3>,
    /// [3 B + 1] what the change takes off the gradient.
    explained: Vec<DVec3>,
}

impl Turner {
    fn new(b: usize) -> Self {
        let side = 3 * b + 3;
        Self {
            b,
            gradient: vec![DVec3::ZERO; 3 * b + 1],
            normal: vec![0.0; side * side],
            damped: vec![0.0; side * side],
            step: vec![0.0; side],
            turned: vec![DMat3::IDENTITY; b],
            change: vec![DVec3::ZERO; 3 * b + 1],
            explained: vec![DVec3::ZERO; 3 * b + 1],
        }
    }

    #[inline(always)]
    fn run(&mut self, second: &[f64], rotations: &mut [DMat3], place: &mut DVec3, rounds: usize, enough: f64) {
        let side = 3 * self.b + 3;
        let mut damping = 1e-7;
        for _ in 0..rounds {
            self.load(second, rotations);
            let mean: f64 = (0..side).map(|r| self.normal[r * side + r]).sum::<f64>() / side as f64;
            let mut gain = 0.0;
            for _ in 0..6 {
                self.damped.copy_from_slice(&self.normal);
                for r in 0..side {
                    self.damped[r * (side + 1)] += damping * (self.normal[r * (side + 1)] + 1e-3 * mean) + 1e-14;
                }
                self.load_right(rotations);
                if solve_spd(&mut self.damped, side, &mut self.step) {
                    gain = self.try_step(second, rotations);
                    if gain >= 0.0 {
                        break;
                    }
                }
                damping = (damping * 100.0).max(1e-5);
            }
            if gain <= 0.0 {
                break;
            }
            rotations.copy_from_slice(&self.turned);
            *place += DVec3::from_slice(&self.step[side - 3..]);
            self.gradient.iter_mut().zip(&self.explained).for_each(|(g, e)| *g -= *e);
            damping = (damping * 0.1).max(1e-9);
            if gain < enough {
                break;
            }
        }
    }

    /// Normal matrix at the present rotations.
    #[inline(always)]
    fn load(&mut self, second: &[f64], rotations: &[DMat3]) {
        let (b, rows, side) = (self.b, 3 * self.b + 1, 3 * self.b + 3);
        for j in 0..b {
            for k in 0..=j {
                let m = DMat3::from_cols_array_2d(&std::array::from_fn(|c| {
                    std::array::from_fn(|a| second[(3 * j + a) * rows + 3 * k + c])
                }));
                let moved = rotations[j] * m * rotations[k].transpose();
                let trace = moved.x_axis.x + moved.y_axis.y + moved.z_axis.z;
                let block = DMat3::from_diagonal(DVec3::splat(trace)) - moved.transpose();
                for a in 0..3 {
                    for c in 0..3 {
                        self.normal[(3 * j + a) * side + 3 * k + c] = block.col(c)[a];
                    }
                }
            }
            // Root's place against bone j: [p]x transposed, with p the moved sum of b_ij.
            let p = rotations[j] * DVec3::from_array(std::array::from_fn(|a| second[(3 * j + a) * rows + 3 * b]));
            let cross = [[0.0, p.z, -p.y], [-p.z, 0.0, p.x], [p.y, -p.x, 0.0]];
            for (a, row) in cross.iter().enumerate() {
                self.normal[(3 * b + a) * side + 3 * j..][..3].copy_from_slice(row);
            }
        }
        let vertices = second[3 * b * rows + 3 * b];
        for a in 0..3 {
            for c in 0..=a {
                self.normal[(3 * b + a) * side + 3 * b + c] = if a == c { vertices } else { 0.0 };
            }
        }
    }

    /// `sum_i p_ij x r_i`, and `sum_i r_i`.
    #[inline(always)]
    fn load_right(&mut self, rotations: &[DMat3]) {
        for (j, r) in rotations.iter().enumerate() {
            let g = &self.gradient[3 * j..3 * j + 3];
            // p = sum_a (column a of R) b_a, so p x r sums to (column a) x (row a of the gradient).
            let torque = r.x_axis.cross(g[0]) + r.y_axis.cross(g[1]) + r.z_axis.cross(g[2]);
            self.step[3 * j..3 * j + 3].copy_from_slice(&torque.to_array());
        }
        let last = 3 * self.b;
        self.step[last..].copy_from_slice(&self.gradient[last].to_array());
    }

    /// Turned rotations, and by how much the squared error falls.
    #[inline(always)]
    fn try_step(&mut self, second: &[f64], rotations: &[DMat3]) -> f64 {
        let rows = 3 * self.b + 1;
        for (j, r) in rotations.iter().enumerate() {
            let turn = DVec3::from_slice(&self.step[3 * j..]);
            self.turned[j] = rotated(r, turn);
            let delta = self.turned[j] - *r;
            [delta.x_axis, delta.y_axis, delta.z_axis]
                .iter()
                .enumerate()
                .for_each(|(a, column)| self.change[3 * j + a] = *column);
        }
        self.change[rows - 1] = DVec3::from_slice(&self.step[3 * self.b..]);
        let mut gain = 0.0;
        for (r, d) in self.change.iter().enumerate() {
            self.explained[r] = moved(&second[r * rows..(r + 1) * rows], &self.change);
            gain += d.dot(2.0 * self.gradient[r] - self.explained[r]);
        }
        gain
    }
}

#[inline(always)]
fn moved(row: &[f64], change: &[DVec3]) -> DVec3 {
    row.iter().zip(change).fold(DVec3::ZERO, |sum, (m, d)| sum + *m * *d)
}

/// `exp(turn) r`, brought back to a rotation.
fn rotated(r: &DMat3, turn: DVec3) -> DMat3 {
    let q = DQuat::from_scaled_axis(turn) * DQuat::from_mat3(r);
    DMat3::from_quat(q.normalize())
}

/// Solves `A x = b` in place for symmetric positive definite `A` (lower triangle, row by row); false if it is not.
#[inline(always)]
fn solve_spd(a: &mut [f64], n: usize, x: &mut [f64]) -> bool {
    for r in 0..n {
        for c in 0..=r {
            let (upper, lower) = a.split_at(r * n);
            let row = &lower[..c];
            let other = if c == r { row } else { &upper[c * n..c * n + c] };
            let dot = dot(row, other);
            let value = a[r * n + c] - dot;
            if c < r {
                a[r * n + c] = value / a[c * n + c];
            } else if value > 0.0 && value.is_finite() {
                a[r * n + r] = value.sqrt();
            } else {
                return false;
            }
        }
    }
    for r in 0..n {
        x[r] = (x[r] - dot(&a[r * n..r * n + r], &x[..r])) / a[r * n + r];
    }
    for r in (0..n).rev() {
        x[r] /= a[r * n + r];
        let value = x[r];
        for c in 0..r {
            x[c] -= a[r * n + c] * value;
        }
    }
    true
}

/// Four sums side by side, in a fixed order: what the compiler turns into vectors.
#[inline(always)]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a8, a_rest) = a.as_chunks::<8>();
    let (b8, b_rest) = b.as_chunks::<8>();
    for (x, y) in a8.iter().zip(b8) {
        for l in 0..8 {
            sums[l] += x[l] * y[l];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}
