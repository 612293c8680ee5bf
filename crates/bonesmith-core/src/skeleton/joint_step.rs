//! Rotations, root and joints for fixed weights, with the joints held exactly; from moments alone.
//!
//! Given world rotations the posed vertices are linear in the joints, given the joints they are linear in world
//! rotations (`pose`), so two alternating steps are enough:
//!
//! * *rotate*: all rotations and the root's place of a frame at once (`rotation_solver`);
//! * *place*: all joints at once, a linear least squares problem; the root's place is eliminated. A hinge leaves its
//!   joint free along the axis: a ridge keeps it near an anchor [Le2014 eq. 3.4].
//!
//! | paper | here |
//! |---|---|
//! | C_jk [Le2014 eq. 3.3] | `Tree::joints` of the child |
//! | mu, (G_j + G_k) / 2 [Le2014 eq. 3.4] | `JOINT_RIDGE`, `graph::anchor` (deviation: the middle of the region that both move) |
//!
//! Deviation: the paper pulls joints together with a growing weight and converts to rotations at the end; here the
//! constraint holds in every step of the final descent, so what is minimised is what is exported.

use std::rc::Rc;

use faer::Mat;
use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::skeleton::graph::{Gap, JointGraph, anchor};
use crate::skeleton::pose::{Pose, joint_map};
use crate::skeleton::rotation_solver::{RotationSolver, solve_definite};
use crate::skinning::{Moments, Motion};
use crate::solve::matrix::{product, rows};

/// Pull of a joint towards its anchor, in squared radians: a joint that turns by less than the root of this is placed
/// by its anchor more than by its motion.
const JOINT_RIDGE: f64 = 1e-4;

/// Rotations that gain less than this share of the error are the last.
const SMALL_GAIN: f64 = 1e-5;

/// The error around a motion as a quadratic in the bones' matrices.
#[derive(Clone)]
pub(crate) struct Quadratic<'a> {
    moments: &'a Moments,
    /// [4 B, 4 B] `S`.
    second: Rc<[f64]>,
    motion: Motion,
    /// [4 B, L] residual moments of `motion`.
    residual: Vec<f64>,
    /// Squared error of `motion`.
    pub squared_error: f64,
}

impl<'a> Quadratic<'a> {
    /// `motion` is what the moments were gathered with; its joints need not hold.
    pub fn new(moments: &'a Moments, motion: &Motion) -> Self {
        Self {
            moments,
            second: moments.second.dense().into(),
            motion: motion.clone(),
            residual: moments.residual.clone(),
            squared_error: moments.squared_error,
        }
    }

    /// Rotations, root and joints of a pose, but for those that are `held` (none where it is empty); returns the squared error.
    pub fn improve(mut self, pose: &mut Pose, held: &[bool]) -> f64 {
        self.rotate(pose, 1);
        self.place(pose, held);
        self.rotate(pose, 1)
    }

    /// Moves to another motion: `D' = D - S d`, `E' = E - <d, 2 D - S d>`.
    pub fn move_to(&mut self, motion: Motion) {
        if motion.rows() == self.motion.rows() {
            return;
        }
        let side = 4 * motion.bones;
        let step: Vec<f64> = motion.rows().iter().zip(self.motion.rows()).map(|(new, old)| new - old).collect();
        let explained = product(rows(&self.second, side), rows(&step, motion.length));
        let mut gain = 0.0;
        for ((d, r), s) in step.iter().zip(&mut self.residual).zip(&explained) {
            gain += d * (2.0 * *r - s);
            *r -= s;
        }
        self.squared_error -= gain;
        self.motion = motion;
    }

    /// Rotates all bones in all frames, `rounds` times at most; returns the squared error.
    pub fn rotate(&mut self, pose: &mut Pose, rounds: usize) -> f64 {
        self.move_to(pose.to_motion());
        let (b, f) = (pose.bones(), pose.frames());
        let map = joint_map(&pose.tree);
        let map = rows(&map, 4 * b);
        // M = C S C^T and G = C D.
        let half = product(map, rows(&self.second, 4 * b));
        let second = product(rows(&half, 4 * b), map.transpose());
        let along = product(map, rows(&self.residual, 3 * f));
        let enough = SMALL_GAIN * self.squared_error / f as f64;
        pose.rotations.par_chunks_mut(b).zip(pose.places.par_iter_mut()).enumerate().for_each_init(
            || RotationSolver::new(b),
            |solver, (t, (rotations, place))| {
                for (g, row) in solver.gradient.iter_mut().zip(along.chunks_exact(3 * f)) {
                    *g = DVec3::new(row[t], row[f + t], row[2 * f + t]);
                }
                solver.run(&second, rotations, place, rounds, enough);
            },
        );
        self.move_to(pose.to_motion());
        self.squared_error
    }

    /// Moves all joints but the `held` ones of the pose that the last motion belongs to; returns the squared error.
    pub fn place(&mut self, pose: &mut Pose, held: &[bool]) -> f64 {
        let before = (self.squared_error, pose.tree.joints.clone(), pose.places.clone());
        self.place_joints(pose, held);
        self.move_to(pose.to_motion());
        // The ridge is no part of the error: a step towards the anchors may raise it, but not by much.
        if self.squared_error > before.0 * (1.0 + 1e-4) {
            (_, pose.tree.joints, pose.places) = before;
            self.move_to(pose.to_motion());
        }
        self.squared_error
    }

    /// Joints that hold bones back: by how much the error would fall, at first order, if the subtree could shift
    /// freely. Those above `least` of the error, at most `count`, worst first.
    pub fn strained(&self, pose: &Pose, least: f64, count: usize) -> Vec<usize> {
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        let strain = |j: usize| {
            subtrees.residual(j).iter().map(|r| r.length_squared()).sum::<f64>() / subtrees.overlap(j, j).max(1e-9)
        };
        let mut joints: Vec<(f64, usize)> = pose.tree.order[1..].iter().map(|&j| (strain(j), j)).collect();
        joints.retain(|(strain, _)| *strain > least * self.squared_error);
        joints.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        joints.into_iter().take(count).map(|(_, j)| j).collect()
    }

    /// The joint graph if the subtree of `j` (`inside`) shifted freely.
    pub fn released(&self, pose: &Pose, j: usize, inside: &[bool]) -> JointGraph<'a> {
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        let (f, overlap) = (pose.frames(), subtrees.overlap(j, j).max(1e-9));
        let mut motion = self.motion.clone();
        for k in (0..pose.bones()).filter(|&k| inside[k]) {
            for (at, x) in motion.row_mut(3, k).iter_mut().enumerate() {
                *x += subtrees.residual(j)[at % f][at / f] / overlap;
            }
        }
        JointGraph::new(&motion, &self.moments.second, Gap::Stiffness)
    }

    /// Moves the root of the pose that the moments belong to, to where the mean error of every frame is zero.
    pub fn centre(&self, pose: &mut Pose) {
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        pose.places.iter_mut().zip(subtrees.mean_residual).for_each(|(place, mean)| *place += mean);
    }

    fn place_joints(&self, pose: &mut Pose, held: &[bool]) {
        let f = pose.frames();
        let is_held = |j: &usize| held.get(*j).copied().unwrap_or(false);
        let moving: Vec<usize> = pose.tree.order[1..].iter().copied().filter(|j| !is_held(j)).collect();
        if moving.is_empty() {
            return;
        }
        let subtrees = Subtrees::new(pose, self.moments, &self.residual);
        // What a step of the joint does to its subtree: R_p - R_j per frame.
        let lever = |t: usize, j: usize| match pose.tree.parents[j] {
            Some(p) => pose.frame(t)[p] - pose.frame(t)[j],
            None => DMat3::ZERO,
        };
        let levers: Vec<DMat3> = moving.iter().flat_map(|&j| (0..f).map(move |t| lever(t, j))).collect();
        let levers: Vec<&[DMat3]> = levers.chunks_exact(f).collect();
        let column = |k: usize| {
            let block = |l: usize| {
                let sum = levers[k].iter().zip(levers[l]).fold(DMat3::ZERO, |sum, (x, y)| sum + x.transpose() * *y);
                sum * subtrees.overlap(moving[k], moving[l])
            };
            let pairs = levers[k].iter().zip(subtrees.residual(moving[k]));
            let right = pairs.fold(DVec3::ZERO, |sum, (lever, r)| sum + lever.transpose() * *r);
            ((0..=k).map(block).collect(), right)
        };
        let columns: Vec<(Vec<DMat3>, DVec3)> = (0..moving.len()).into_par_iter().map(column).collect();
        let mut normal = Mat::zeros(3 * moving.len(), 3 * moving.len());
        let mut step = Vec::with_capacity(3 * moving.len());
        for (k, (blocks, right)) in columns.into_iter().enumerate() {
            for (l, block) in blocks.iter().enumerate() {
                (0..9).for_each(|at| normal[(3 * k + at % 3, 3 * l + at / 3)] = block.col(at / 3)[at % 3]);
            }
            let (j, own) = (moving[k], subtrees.overlap(moving[k], moving[k]));
            let ridge = (JOINT_RIDGE * own).max(1e-9 * subtrees.vertices) * f as f64 + 1e-12;
            (0..3).for_each(|a| normal[(3 * k + a, 3 * k + a)] += ridge);
            let anchor = pose.tree.parents[j].map_or(pose.tree.joints[j], |p| anchor(&self.moments.second, j, p));
            step.extend((right + ridge * (anchor - pose.tree.joints[j])).to_array());
        }
        if !solve_definite(normal.as_mut(), &mut step) {
            return;
        }
        let step: Vec<DVec3> = step.chunks_exact(3).map(DVec3::from_slice).collect();
        // The root's place takes the mean of what is left [normal equations of s].
        for (t, place) in pose.places.iter_mut().enumerate() {
            *place += subtrees.mean_residual[t];
            for (k, &j) in moving.iter().enumerate() {
                *place -= levers[k][t] * step[k] * (subtrees.mass[j] / subtrees.vertices);
            }
        }
        // The root's own joint keeps its place: a step there would only rename `places`.
        moving.iter().zip(step).for_each(|(&j, step)| pose.tree.joints[j] += step);
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
        let mut overlap: Vec<f64> = (0..b * b).map(|at| moments.second.shared_mass(at / b, at % b)).collect();
        let translations = residual[3 * b * 3 * f..].chunks_exact(3 * f);
        let mut sums: Vec<DVec3> =
            translations.flat_map(|row| (0..f).map(|t| DVec3::new(row[t], row[f + t], row[2 * f + t]))).collect();
        let upwards = || pose.tree.order.iter().rev().filter_map(|&j| pose.tree.parents[j].map(|p| (j, p)));
        for (j, p) in upwards() {
            (0..b).for_each(|k| overlap[p * b + k] += overlap[j * b + k]);
            for t in 0..f {
                let below = sums[j * f + t];
                sums[p * f + t] += below;
            }
        }
        for (j, p) in upwards() {
            (0..b).for_each(|k| overlap[k * b + p] += overlap[k * b + j]);
        }
        // The root's subtree is everything: W = 1 for every vertex.
        let root = pose.tree.root();
        let vertices = overlap[root * b + root].max(1e-300);
        let mass: Vec<f64> = (0..b).map(|j| overlap[j * b + root]).collect();
        overlap.iter_mut().enumerate().for_each(|(at, x)| *x -= mass[at / b] * mass[at % b] / vertices);
        let mean_residual: Vec<DVec3> = (0..f).map(|t| sums[root * f + t] / vertices).collect();
        sums.iter_mut().enumerate().for_each(|(at, sum)| *sum -= mass[at / f] * mean_residual[at % f]);
        Self { overlap, mass, residual: sums, mean_residual, vertices }
    }

    fn overlap(&self, j: usize, k: usize) -> f64 {
        self.overlap[j * self.mass.len() + k]
    }

    /// [F] of bone `j`.
    fn residual(&self, j: usize) -> &[DVec3] {
        let f = self.mean_residual.len();
        &self.residual[j * f..(j + 1) * f]
    }
}
