//! Motion of bones for fixed weights and rest pose, frame by frame, with some bones held.
//!
//! Rigid and trs bones: Levenberg-Marquardt on all free bones of a frame at once. A bone has 6 (or 9) parameters: a turn
//! about where its vertices are, a shift, and scales along its own axes. With `M_p` the 3x4 derivative of its matrix by
//! parameter `p`, the normal equations are `<M_p S_jk, M_q>` and the gradient `<M_p, D_j>`: moments only. They are
//! solved by conjugate gradients, preconditioned by the blocks of single bones; a step is taken if the error, which
//! the moments give exactly, falls. One bone at a time [Le2014 eq. 3.18-3.30] creeps where bones overlap; all at once
//! it takes a handful of steps.
//!
//! Affine bones: one linear system for all frames, `S d = D` [Kavan2010 s.4.2].

use faer::linalg::solvers::Solve;
use faer::{Mat, Side};
use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;

use crate::model::rig::BoneKind;
use crate::refit::moments::{Block, Columns, Moments, inner, subtract_product};
use crate::skinning::motion::Motion;
use crate::solve::transform::nearest_rotation;

/// Squared weight below which a bone has nothing to be fitted to; it follows its parent instead.
pub(super) const EMPTY: f64 = 0.02;

/// Smallest and largest scale of a trs bone along an axis.
const SCALE_RANGE: (f64, f64) = (0.02, 50.0);

/// Most parameters of a bone.
const MOST: usize = 9;

/// What is solved for, and how hard.
pub(super) struct Freedom<'a> {
    pub kind: BoneKind,
    /// [B] whether the bone may move.
    pub free: &'a [bool],
    /// [B] axes of a trs bone's scale in the rest pose.
    pub axes: &'a [DMat3],
    /// Most steps in a frame.
    pub steps: usize,
    /// A frame is done when a step takes less than this share off its error.
    pub tolerance: f64,
}

/// Moves the free bones to where the error is least; returns the squared error left.
pub(super) fn solve(motion: &mut Motion, moments: &Moments, freedom: &Freedom) -> f64 {
    if freedom.kind == BoneKind::Affine {
        solve_affine(motion, moments, freedom.free);
    }
    let frames: Vec<Frame> = (0..moments.frames)
        .into_par_iter()
        .map(|t| {
            let mut frame = Frame::new(moments, moments.pose(motion, t), t);
            if freedom.kind != BoneKind::Affine {
                frame.descend(moments, freedom);
            }
            frame
        })
        .collect();
    for (t, frame) in frames.iter().enumerate() {
        for (j, pose) in frame.pose.iter().enumerate().filter(|(j, _)| freedom.free[*j]) {
            motion.set(j, t, &std::array::from_fn(|a| std::array::from_fn(|c| pose[c][a])));
        }
    }
    frames.iter().map(|frame| frame.error).sum()
}

/// A first guess: each free bone moves as its vertices do, whatever else pulls at them. Where a bone given in `known`
/// already explains a frame better, that frame stays as it is.
pub(super) fn start(motion: &mut Motion, moments: &Moments, freedom: &Freedom, known: bool) {
    let guesses: Vec<Option<Vec<Columns>>> = (0..moments.frames)
        .into_par_iter()
        .map(|t| {
            let given = moments.pose(motion, t);
            let mut guess = given.clone();
            for j in (0..moments.bones).filter(|&j| freedom.free[j]) {
                guess[j] = rigid_guess(moments, j, t);
            }
            let error = |pose: Vec<Columns>| Frame::new(moments, pose, t).error;
            (!known || error(guess.clone()) < error(given)).then_some(guess)
        })
        .collect();
    for (t, guess) in guesses.into_iter().enumerate() {
        for (j, pose) in guess.into_iter().flatten().enumerate().filter(|(j, _)| freedom.free[*j]) {
            motion.set(j, t, &std::array::from_fn(|a| std::array::from_fn(|c| pose[c][a])));
        }
    }
}

/// Best rigid motion of a bone's vertices alone, counted by weight.
fn rigid_guess(moments: &Moments, j: usize, t: usize) -> Columns {
    let [x, y, z, mass] = moments.first[j];
    let target = moments.target_of(j, t).map(DVec3::from_array);
    let (from, to) = (DVec3::new(x, y, z) / mass.max(1e-300), target[3] / mass.max(1e-300));
    let covariance = DMat3::from_cols(
        target[0] - to * from.x * mass,
        target[1] - to * from.y * mass,
        target[2] - to * from.z * mass,
    );
    let rotation = nearest_rotation(&covariance);
    columns(&rotation, to - rotation * from)
}

fn columns(linear: &DMat3, translation: DVec3) -> Columns {
    [linear.x_axis.to_array(), linear.y_axis.to_array(), linear.z_axis.to_array(), translation.to_array()]
}

fn linear_part(pose: &Columns) -> DMat3 {
    DMat3::from_cols(pose[0].into(), pose[1].into(), pose[2].into())
}

/// One frame while it is being solved.
struct Frame {
    pose: Vec<Columns>,
    /// `D = P - T S`.
    residual: Vec<Columns>,
    error: f64,
}

impl Frame {
    fn new(moments: &Moments, pose: Vec<Columns>, t: usize) -> Self {
        let residual = moments.residual(&pose, t);
        let error = moments.error(&pose, &residual, t);
        Self { pose, residual, error }
    }

    fn descend(&mut self, moments: &Moments, freedom: &Freedom) {
        let bones: Vec<usize> = (0..moments.bones).filter(|&j| freedom.free[j]).collect();
        if bones.is_empty() {
            return;
        }
        let mut damping = 1e-6;
        for _ in 0..freedom.steps {
            let system = System::new(self, moments, freedom, &bones);
            let mut gain = 0.0;
            for _ in 0..8 {
                let step = system.solve(damping);
                let moved: Vec<(usize, Columns)> =
                    bones.iter().enumerate().map(|(at, &j)| (j, system.moved(at, &self.pose[j], &step[at]))).collect();
                gain = self.try_step(moments, &moved);
                if gain > 0.0 {
                    damping = (damping * 0.1).max(1e-9);
                    break;
                }
                damping = (damping * 20.0).max(1e-4);
            }
            if gain <= freedom.tolerance * self.error || self.error <= 0.0 {
                break;
            }
        }
    }

    /// Takes a step if the error falls; returns by how much: `<d, D + D'>`.
    fn try_step(&mut self, moments: &Moments, moved: &[(usize, Columns)]) -> f64 {
        let mut residual = self.residual.clone();
        for (j, pose) in moved {
            let step = difference(pose, &self.pose[*j]);
            moments.second[*j].iter().for_each(|(k, block)| subtract_product(&mut residual[*k], &step, block));
        }
        let gain: f64 = moved
            .iter()
            .map(|(j, pose)| {
                let step = difference(pose, &self.pose[*j]);
                inner(&step, &self.residual[*j]) + inner(&step, &residual[*j])
            })
            .sum();
        if gain > 0.0 {
            moved.iter().for_each(|(j, pose)| self.pose[*j] = *pose);
            self.residual = residual;
            self.error = (self.error - gain).max(0.0);
        }
        gain
    }
}

fn difference(a: &Columns, b: &Columns) -> Columns {
    std::array::from_fn(|c| std::array::from_fn(|axis| a[c][axis] - b[c][axis]))
}

/// A step of all free bones, or anything of that shape.
type Steps = Vec<[f64; MOST]>;

/// Normal equations of one frame about its present pose.
struct System<'a> {
    freedom: &'a Freedom<'a>,
    bones: &'a [usize],
    /// Parameters of a bone.
    count: usize,
    centers: Vec<DVec3>,
    /// [free] (position in `bones`, block of the normal matrix).
    blocks: Vec<Vec<(usize, [[f64; MOST]; MOST])>>,
    gradient: Steps,
}

impl<'a> System<'a> {
    fn new(frame: &Frame, moments: &Moments, freedom: &'a Freedom, bones: &'a [usize]) -> Self {
        let count = if freedom.kind == BoneKind::Trs { 9 } else { 6 };
        let centers: Vec<DVec3> = bones.iter().map(|&j| moments.center(j)).collect();
        let derivatives: Vec<[Columns; MOST]> = bones
            .iter()
            .zip(&centers)
            .map(|(&j, center)| derivatives(&frame.pose[j], *center, &freedom.axes[j], count))
            .collect();
        let mut place = vec![usize::MAX; moments.bones];
        bones.iter().enumerate().for_each(|(at, &j)| place[j] = at);
        let blocks = bones
            .iter()
            .enumerate()
            .map(|(at, &j)| {
                let others = moments.second[j].iter().filter(|(k, _)| place[*k] != usize::MAX);
                let block = |second: &Block, k: usize| normal_block(&derivatives[at], second, &derivatives[k], count);
                others.map(|(k, second)| (place[*k], block(second, place[*k]))).collect()
            })
            .collect();
        let gradient = bones
            .iter()
            .zip(&derivatives)
            .map(|(&j, m)| std::array::from_fn(|p| if p < count { inner(&m[p], &frame.residual[j]) } else { 0.0 }))
            .collect();
        Self { freedom, bones, count, centers, blocks, gradient }
    }

    /// Damped step by preconditioned conjugate gradients, to a hundredth of the gradient.
    fn solve(&self, damping: f64) -> Steps {
        const ROUNDS: usize = 60;
        let factors: Vec<Cholesky> = (0..self.bones.len()).map(|at| self.preconditioner(at, damping)).collect();
        let mut step: Steps = vec![[0.0; MOST]; self.bones.len()];
        let mut residual = self.gradient.clone();
        let precondition =
            |r: &Steps| -> Steps { r.iter().zip(&factors).map(|(r, f)| f.solve(r, self.count)).collect() };
        let mut direction = precondition(&residual);
        let mut rho = dot(&residual, &direction);
        let goal = 1e-6 * rho;
        for _ in 0..ROUNDS {
            if rho <= goal || rho <= 0.0 {
                break;
            }
            let product = self.times(&direction, &factors);
            let curvature = dot(&direction, &product);
            if curvature <= 0.0 {
                break;
            }
            let alpha = rho / curvature;
            add(&mut step, alpha, &direction);
            add(&mut residual, -alpha, &product);
            let preconditioned = precondition(&residual);
            let next = dot(&residual, &preconditioned);
            let beta = next / rho;
            rho = next;
            direction.iter_mut().zip(&preconditioned).for_each(|(d, z)| {
                d.iter_mut().zip(z).for_each(|(d, z)| *d = z + beta * *d);
            });
        }
        step
    }

    fn times(&self, x: &Steps, factors: &[Cholesky]) -> Steps {
        let rows = self.blocks.iter().zip(factors).enumerate();
        rows.map(|(at, (row, factor))| {
            let mut out: [f64; MOST] = std::array::from_fn(|p| factor.damping[p] * x[at][p]);
            for (k, block) in row {
                for (out, line) in out.iter_mut().zip(block).take(self.count) {
                    *out += line.iter().zip(&x[*k]).map(|(a, b)| a * b).sum::<f64>();
                }
            }
            out
        })
        .collect()
    }

    fn preconditioner(&self, at: usize, damping: f64) -> Cholesky {
        let own = self.blocks[at].iter().find(|(k, _)| *k == at).map_or([[0.0; MOST]; MOST], |(_, block)| *block);
        Cholesky::new(own, damping, self.count)
    }

    /// The bone's matrix after a step.
    fn moved(&self, at: usize, pose: &Columns, step: &[f64; MOST]) -> Columns {
        let j = self.bones[at];
        let mut linear = linear_part(pose);
        let center = self.centers[at];
        let place = linear * center + DVec3::from_array(pose[3]) + DVec3::new(step[3], step[4], step[5]);
        if self.freedom.kind == BoneKind::Trs {
            let axes = self.freedom.axes[j];
            let mut along = linear * axes;
            for (a, s) in step[6..9].iter().enumerate() {
                let length = along.col(a).length().max(1e-12);
                *along.col_mut(a) *= (length * s.clamp(-1.0, 1.0).exp()).clamp(SCALE_RANGE.0, SCALE_RANGE.1) / length;
            }
            linear = along * axes.transpose();
        }
        let linear = DMat3::from_quat(DQuat::from_scaled_axis(DVec3::new(step[0], step[1], step[2]))) * linear;
        columns(&linear, place - linear * center)
    }
}

/// `dT/dp`: turns about `center`, shifts, and (trs) relative scales along the bone's axes.
fn derivatives(pose: &Columns, center: DVec3, axes: &DMat3, count: usize) -> [Columns; MOST] {
    let linear = linear_part(pose);
    let about_center = |m: DMat3| columns(&m, -(m * center));
    std::array::from_fn(|p| match p {
        0..3 => {
            let axis = DVec3::AXES[p];
            let turned = |v: DVec3| axis.cross(v);
            about_center(DMat3::from_cols(turned(linear.x_axis), turned(linear.y_axis), turned(linear.z_axis)))
        }
        3..6 => columns(&DMat3::ZERO, DVec3::AXES[p - 3]),
        _ if p < count => {
            let axis = axes.col(p - 6);
            let stretched = linear * axis;
            about_center(DMat3::from_cols(stretched * axis.x, stretched * axis.y, stretched * axis.z))
        }
        _ => [[0.0; 3]; 4],
    })
}

/// `<M_p S_jk, M_q>`.
fn normal_block(m: &[Columns; MOST], second: &Block, other: &[Columns; MOST], count: usize) -> [[f64; MOST]; MOST] {
    let mut block = [[0.0; MOST]; MOST];
    for p in 0..count {
        let mut product = [[0.0; 3]; 4];
        subtract_product(&mut product, &m[p], second);
        for q in 0..count {
            block[p][q] = -inner(&product, &other[q]);
        }
    }
    block
}

/// Factor of a bone's own block, damped.
struct Cholesky {
    factor: [[f64; MOST]; MOST],
    /// What was added to the diagonal.
    damping: [f64; MOST],
}

impl Cholesky {
    fn new(block: [[f64; MOST]; MOST], damping: f64, count: usize) -> Self {
        let largest = (0..count).map(|p| block[p][p]).fold(0.0, f64::max);
        // A bone on a line of vertices says nothing about the turn around it: what is added then leaves it alone.
        let damping: [f64; MOST] = std::array::from_fn(|p| damping * block[p][p] + 1e-7 * largest + 1e-14);
        let mut factor = block;
        for p in 0..count {
            factor[p][p] += damping[p];
            for q in 0..=p {
                let sum = (0..q).fold(factor[p][q], |sum, r| sum - factor[p][r] * factor[q][r]);
                factor[p][q] = if q == p { sum.max(1e-14).sqrt() } else { sum / factor[q][q] };
            }
        }
        Self { factor, damping }
    }

    fn solve(&self, right: &[f64; MOST], count: usize) -> [f64; MOST] {
        let mut x = *right;
        for p in 0..count {
            x[p] = (0..p).fold(x[p], |sum, r| sum - self.factor[p][r] * x[r]) / self.factor[p][p];
        }
        for p in (0..count).rev() {
            x[p] = (p + 1..count).fold(x[p], |sum, r| sum - self.factor[r][p] * x[r]) / self.factor[p][p];
        }
        x
    }
}

fn dot(a: &Steps, b: &Steps) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(x, y)| x * y).sum()
}

fn add(x: &mut Steps, factor: f64, y: &Steps) {
    x.as_flattened_mut().iter_mut().zip(y.as_flattened()).for_each(|(x, y)| *x += factor * y);
}

/// `S d = D` over the free bones, all frames at once; a ridge leaves alone what the vertices do not determine.
fn solve_affine(motion: &mut Motion, moments: &Moments, free: &[bool]) {
    let bones: Vec<usize> = (0..moments.bones).filter(|&j| free[j]).collect();
    let side = 4 * bones.len();
    if side == 0 {
        return;
    }
    let mut place = vec![usize::MAX; moments.bones];
    bones.iter().enumerate().for_each(|(at, &j)| place[j] = at);
    let mut second = Mat::<f64>::zeros(side, side);
    for (at, &j) in bones.iter().enumerate() {
        for (k, block) in moments.second[j].iter().filter(|(k, _)| place[*k] != usize::MAX) {
            for c in 0..4 {
                for d in 0..4 {
                    second[(4 * at + c, 4 * place[*k] + d)] = block[c][d];
                }
            }
        }
    }
    let mut right = Mat::<f64>::zeros(side, 3 * moments.frames);
    for t in 0..moments.frames {
        let residual = moments.residual(&moments.pose(motion, t), t);
        for (at, &j) in bones.iter().enumerate() {
            for c in 0..4 {
                (0..3).for_each(|a| right[(4 * at + c, a * moments.frames + t)] = residual[j][c][a]);
            }
        }
    }
    let largest = (0..side).map(|r| second[(r, r)]).fold(0.0, f64::max);
    let mut ridge = 1e-9 * largest + 1e-12;
    for _ in 0..8 {
        let mut system = second.clone();
        (0..side).for_each(|r| system[(r, r)] += ridge);
        if let Ok(factor) = system.llt(Side::Lower) {
            let step = factor.solve(&right);
            for (at, &j) in bones.iter().enumerate() {
                for c in 0..4 {
                    let row = motion.row_mut(c, j);
                    row.iter_mut().enumerate().for_each(|(l, x)| *x += step[(4 * at + c, l)]);
                }
            }
            return;
        }
        ridge *= 100.0;
    }
}
