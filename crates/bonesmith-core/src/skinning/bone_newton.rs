//! All free bones of a frame at once, for fixed weights and rest pose; other bones stay as they are.
//!
//! Rigid and trs bones: Levenberg-Marquardt. A bone has 6 (or 9) parameters: a rotation about the centre of its vertices, a
//! translation, and scales along its own axes. With `M_p` the 3x4 derivative of its matrix by parameter `p`, the normal equations are
//! `<M_p S_jk, M_q>` and the gradient `<M_p, D_j>`: moments only. They are solved by conjugate gradients, preconditioned by the
//! blocks of single bones; a step is taken if the error, which the moments give exactly, falls. One bone at a time
//! ([`bone_step`], [Le2014 eq. 3.18-3.30]) is much cheaper per step and slow where bones overlap; all at once it takes a handful
//! of steps. Affine bones have one linear system for all frames, [`bone_step::update_affine`].

use glam::{DMat3, DQuat, DVec3};
use rayon::prelude::*;

use crate::model::BoneKind;
use crate::observer::Cancelled;
use crate::skinning::bone_step::SCALE_RANGE;
use crate::skinning::moments::Block;
use crate::skinning::{BoneModel, Moments, Motion, Run, bone_step};
use crate::solve::transform::nearest_rotation;
use crate::solve::{conjugate, definite};

/// Largest number of parameters of a bone.
const MAX_PARAMETERS: usize = 9;

/// Frames times bones that are solved between two reports.
const BETWEEN_REPORTS: usize = 8192;

/// A 3x4 matrix as `[coordinate][axis]`: column `c` of the transform.
pub(super) type Columns = [[f64; 3]; 4];

/// What is solved for, and how long.
pub(crate) struct Freedom<'a> {
    pub model: &'a BoneModel,
    /// [B] whether the bone may move.
    pub free: &'a [bool],
    /// Maximum number of steps in a frame.
    pub steps: usize,
    /// A frame is done when a step takes less than this share off its error.
    pub tolerance: f64,
}

/// Moves the free bones to where the error is least; returns by how much it falls. `moments` are those of the present motion, with
/// the errors of frames.
pub(crate) fn solve(
    motion: &mut Motion,
    moments: &Moments,
    freedom: &Freedom,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    if freedom.model.kind == BoneKind::Affine {
        return Ok(run.timed("motion", || bone_step::update_affine(motion, moments, |j| freedom.free[j])));
    }
    let bones: Vec<usize> = (0..motion.bones).filter(|&j| freedom.free[j]).collect();
    let all: Vec<usize> = (0..motion.frames()).collect();
    let mut gain = 0.0;
    for part in all.chunks((BETWEEN_REPORTS / motion.bones.max(1)).clamp(32, 512)) {
        let mut frames: Vec<Frame> = part.par_iter().map(|&t| Frame::new(motion, moments, t)).collect();
        for _ in 0..if bones.is_empty() { 0 } else { freedom.steps } {
            let step = |frame: &mut Frame| frame.descend(moments, freedom, &bones);
            run.timed("motion", || frames.par_iter_mut().filter(|frame| !frame.done).for_each(step));
            run.report()?;
            if frames.iter().all(|frame| frame.done) {
                break;
            }
        }
        for frame in &frames {
            gain += moments.per_frame[frame.t] - frame.error;
            bones.iter().for_each(|&j| set(motion, j, frame.t, &frame.pose[j]));
        }
    }
    Ok(gain)
}

/// A first guess: each free bone moves as its vertices do, regardless of their other bones. With `keep_better`, a frame that
/// the present motion explains better stays as it is.
pub(crate) fn guess(motion: &mut Motion, moments: &Moments, free: &[bool], keep_better: bool) {
    let guesses: Vec<Option<Vec<(usize, Columns)>>> = (0..motion.frames())
        .into_par_iter()
        .map(|t| {
            let mut frame = Frame::new(motion, moments, t);
            let guess: Vec<_> =
                (0..motion.bones).filter(|&j| free[j]).map(|j| (j, frame.rigid_guess(moments, j))).collect();
            (!keep_better || frame.try_step(moments, &guess) > 0.0).then_some(guess)
        })
        .collect();
    for (t, guess) in guesses.into_iter().enumerate() {
        guess.into_iter().flatten().for_each(|(j, pose)| set(motion, j, t, &pose));
    }
}

pub(super) fn set(motion: &mut Motion, j: usize, t: usize, pose: &Columns) {
    motion.set(j, t, &std::array::from_fn(|a| std::array::from_fn(|c| pose[c][a])));
}

pub(super) fn columns(linear: &DMat3, translation: DVec3) -> Columns {
    [linear.x_axis.to_array(), linear.y_axis.to_array(), linear.z_axis.to_array(), translation.to_array()]
}

pub(super) fn linear_part(pose: &Columns) -> DMat3 {
    DMat3::from_cols(pose[0].into(), pose[1].into(), pose[2].into())
}

/// `d += sign m s`; each `S_jk` is a sum of `u u^T`, symmetric.
pub(super) fn add_product(d: &mut Columns, sign: f64, m: &Columns, s: &Block) {
    for (c, column) in d.iter_mut().enumerate() {
        for (a, x) in column.iter_mut().enumerate() {
            *x += sign * (m[0][a] * s[0][c] + m[1][a] * s[1][c] + (m[2][a] * s[2][c] + m[3][a] * s[3][c]));
        }
    }
}

/// Sum of products of entries.
pub(super) fn inner(a: &Columns, b: &Columns) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(x, y)| x * y).sum()
}

fn difference(a: &Columns, b: &Columns) -> Columns {
    std::array::from_fn(|c| std::array::from_fn(|axis| a[c][axis] - b[c][axis]))
}

/// One frame while it is being solved.
pub(super) struct Frame {
    pub t: usize,
    /// [B]
    pub pose: Vec<Columns>,
    /// [B] `D`.
    pub residual: Vec<Columns>,
    pub error: f64,
    pub damping: f64,
    pub done: bool,
}

impl Frame {
    pub fn new(motion: &Motion, moments: &Moments, t: usize) -> Self {
        let (b, f, length) = (motion.bones, motion.frames(), motion.length);
        let of = |rows: &[f64], j: usize| -> Columns {
            std::array::from_fn(|c| std::array::from_fn(|a| rows[(c * b + j) * length + a * f + t]))
        };
        let pose = (0..b).map(|j| of(motion.rows(), j)).collect();
        let residual = (0..b).map(|j| of(&moments.residual, j)).collect();
        Self { t, pose, residual, error: moments.per_frame[t], damping: 1e-6, done: false }
    }

    /// Best rigid motion of a bone's vertices alone, counted by weight: of `P = D + T S`.
    fn rigid_guess(&self, moments: &Moments, j: usize) -> Columns {
        let mut target = self.residual[j];
        moments.second.blocks(j).for_each(|(k, block)| add_product(&mut target, 1.0, &self.pose[k], block));
        let [x, y, z, mass] = moments.second.first(j);
        let target = target.map(DVec3::from_array);
        let (from, to) = (DVec3::new(x, y, z) / mass.max(1e-300), target[3] / mass.max(1e-300));
        let covariance = DMat3::from_cols(
            target[0] - to * from.x * mass,
            target[1] - to * from.y * mass,
            target[2] - to * from.z * mass,
        );
        let rotation = nearest_rotation(&covariance);
        columns(&rotation, to - rotation * from)
    }

    /// One step of all free bones, with as much damping as it needs.
    fn descend(&mut self, moments: &Moments, freedom: &Freedom, bones: &[usize]) {
        let system = System::new(self, moments, freedom.model, bones);
        let mut gain = 0.0;
        for _ in 0..8 {
            let step = system.solve(self.damping);
            let moved: Vec<(usize, Columns)> =
                bones.iter().enumerate().map(|(at, &j)| (j, system.moved(at, &self.pose[j], &step[at]))).collect();
            gain = self.try_step(moments, &moved);
            if gain > 0.0 {
                self.damping = (self.damping * 0.1).max(1e-9);
                break;
            }
            self.damping = (self.damping * 20.0).max(1e-4);
        }
        self.done = gain <= freedom.tolerance * self.error || self.error <= 0.0;
    }

    /// Takes a step if the error falls; returns by how much: `<d, D + D'>`.
    pub fn try_step(&mut self, moments: &Moments, moved: &[(usize, Columns)]) -> f64 {
        let mut residual = self.residual.clone();
        for (j, pose) in moved {
            let step = difference(pose, &self.pose[*j]);
            moments.second.blocks(*j).for_each(|(k, block)| add_product(&mut residual[k], -1.0, &step, block));
        }
        let gain_of = |(j, pose): &(usize, Columns)| {
            let step = difference(pose, &self.pose[*j]);
            inner(&step, &self.residual[*j]) + inner(&step, &residual[*j])
        };
        let gain: f64 = moved.iter().map(gain_of).sum();
        if gain > 0.0 {
            moved.iter().for_each(|(j, pose)| self.pose[*j] = *pose);
            self.residual = residual;
            self.error = (self.error - gain).max(0.0);
        }
        gain
    }
}

/// A step of all free bones, or anything of that shape.
type Steps = Vec<[f64; MAX_PARAMETERS]>;

/// The part of the normal matrix that two bones share.
type NormalBlock = [[f64; MAX_PARAMETERS]; MAX_PARAMETERS];

/// Normal equations of one frame about its present pose.
struct System<'a> {
    model: &'a BoneModel,
    bones: &'a [usize],
    /// Parameters of a bone.
    count: usize,
    centers: Vec<DVec3>,
    /// [free] (position in `bones`, block of the normal matrix).
    blocks: Vec<Vec<(usize, NormalBlock)>>,
    gradient: Steps,
}

impl<'a> System<'a> {
    fn new(frame: &Frame, moments: &Moments, model: &'a BoneModel, bones: &'a [usize]) -> Self {
        let count = if model.kind == BoneKind::Trs { 9 } else { 6 };
        let centers: Vec<DVec3> = bones.iter().map(|&j| moments.second.of[j].centre()).collect();
        let derivatives: Vec<[Columns; MAX_PARAMETERS]> = bones
            .iter()
            .zip(&centers)
            .map(|(&j, center)| derivatives(&frame.pose[j], *center, &model.axes[j], count))
            .collect();
        let place = |k: usize| bones.binary_search(&k).ok();
        let blocks = bones
            .iter()
            .zip(&derivatives)
            .map(|(&j, own)| {
                let others = moments.second.blocks(j).filter_map(|(k, second)| Some((place(k)?, second)));
                others.map(|(at, second)| (at, normal_block(own, second, &derivatives[at], count))).collect()
            })
            .collect();
        let gradient = bones
            .iter()
            .zip(&derivatives)
            .map(|(&j, m)| std::array::from_fn(|p| if p < count { inner(&m[p], &frame.residual[j]) } else { 0.0 }))
            .collect();
        Self { model, bones, count, centers, blocks, gradient }
    }

    /// Damped step by preconditioned conjugate gradients, to a thousandth of the gradient.
    fn solve(&self, damping: f64) -> Steps {
        const ROUNDS: usize = 60;
        let added: Steps = self.blocks.iter().map(|row| damped(&row[0].1, damping)).collect();
        let factor = |(row, added): (&Vec<(usize, NormalBlock)>, &[f64; MAX_PARAMETERS])| {
            let (mut own, mut kept) = (row[0].1, [0.0; definite::triangle(MAX_PARAMETERS)]);
            (0..self.count).for_each(|p| own[p][p] += added[p]);
            definite::factor(&own, self.count, &mut kept);
            kept
        };
        let factors: Vec<_> = self.blocks.iter().zip(&added).map(factor).collect();
        let precondition = |right: &[[f64; MAX_PARAMETERS]]| -> Steps {
            let mut steps = right.to_vec();
            steps.iter_mut().zip(&factors).for_each(|(x, kept)| definite::solve_factored(kept, &mut x[..self.count]));
            steps
        };
        conjugate::solve(&self.gradient, ROUNDS, |x| self.times(x, &added), precondition)
    }

    /// The normal matrix with `added` on its diagonal, times `x`.
    fn times(&self, x: &[[f64; MAX_PARAMETERS]], added: &Steps) -> Steps {
        let rows = self.blocks.iter().zip(added).enumerate();
        rows.map(|(at, (row, added))| {
            let mut out: [f64; MAX_PARAMETERS] = std::array::from_fn(|p| added[p] * x[at][p]);
            for (k, block) in row {
                for (out, line) in out.iter_mut().zip(block).take(self.count) {
                    *out += line.iter().zip(&x[*k]).map(|(a, b)| a * b).sum::<f64>();
                }
            }
            out
        })
        .collect()
    }

    /// The bone's matrix after a step.
    fn moved(&self, at: usize, pose: &Columns, step: &[f64; MAX_PARAMETERS]) -> Columns {
        let mut linear = linear_part(pose);
        let center = self.centers[at];
        let place = linear * center + DVec3::from_array(pose[3]) + DVec3::new(step[3], step[4], step[5]);
        if self.model.kind == BoneKind::Trs {
            let axes = self.model.axes[self.bones[at]];
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

/// `dT/dp`: rotations about `center`, translations, and (trs) relative scales along the bone's axes.
fn derivatives(pose: &Columns, center: DVec3, axes: &DMat3, count: usize) -> [Columns; MAX_PARAMETERS] {
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
fn normal_block(
    m: &[Columns; MAX_PARAMETERS],
    second: &Block,
    other: &[Columns; MAX_PARAMETERS],
    count: usize,
) -> NormalBlock {
    let mut block = NormalBlock::default();
    for p in 0..count {
        let mut product = [[0.0; 3]; 4];
        add_product(&mut product, 1.0, &m[p], second);
        (0..count).for_each(|q| block[p][q] = inner(&product, &other[q]));
    }
    block
}

/// What is added to the diagonal of a bone's own block. Vertices on a line do not determine the rotation about it: this leaves it as it
/// is.
fn damped(block: &NormalBlock, damping: f64) -> [f64; MAX_PARAMETERS] {
    let largest = (0..MAX_PARAMETERS).map(|p| block[p][p]).fold(0.0, f64::max);
    std::array::from_fn(|p| damping * block[p][p] + 1e-7 * largest + 1e-14)
}
