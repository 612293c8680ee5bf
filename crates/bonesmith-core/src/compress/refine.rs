//! Rest positions, both layers and master bones in turn, once the virtual bones are there.
//!
//! A compressed rig has the bones and the rest pose of a rig that was good with other weights. With `V_rt = sum_j d_rj T_jt` the
//! motion of virtual bone r, and `x_it = sum_r a_ir V_rt` that of vertex i, the sum
//!
//! ```text
//! E = sum_(i, t) |x_it (u_i, 1) - v_it|^2
//! ```
//!
//! is quadratic in each rest position `u_i`, in the atoms, in the coefficients, and in all affine bones together. A round is the
//! minimum over each with the others fixed: bones (`bone_newton`, from moments with the weights of both layers multiplied), rest positions
//! (three unknowns a vertex), then one round of `Factorisation::optimise` in the metric of the new poses. The model costs
//! the same at run time. A round that does not lower E is undone, so E never rises.
//!
//! Rest positions and layers read no frames: both need the products of targets and bones, `T^T v_i`, and of pairs of bones. For the bones
//! frames are read in blocks: the motion of all virtual bones in all frames would be the largest table by far.

use std::ops::Range;

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::compress::coefficients::Coefficients;
use crate::model::{Rig, Row};
use crate::observer::{Cancelled, Stages};
use crate::skinning::bone_newton::{self, Freedom};
use crate::skinning::moments::{Block, SecondMoments};
use crate::skinning::{BoneModel, FitParams, Moments, Motion, Poses, Run, bone_step};

/// Frames whose virtual bones are computed at once.
const FRAMES: usize = 32;
/// Bones whose squared weights have a smaller sum keep their motion.
const MIN_MASS: f64 = 0.02;
/// Steps of a frame's bones in a round, where bones are not affine.
const STEPS: usize = 4;

/// What may change, and how far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freedoms {
    pub rest: bool,
    pub bones: bool,
    /// Pull of a rest position to where it was at the start, over the mean of its normal equations' diagonal.
    pub pull: f64,
}

/// What changes beside the layers.
pub(super) struct Refinement<'a> {
    pub rig: &'a Rig,
    pub freedoms: Freedoms,
    /// [N] at the start.
    pub start: Vec<DVec3>,
}

/// Both layers: [q] atoms as rows of master bones, and the coefficients.
pub(super) struct Layers<'a> {
    pub atoms: &'a [Row],
    pub coefficients: &'a Coefficients,
}

impl Refinement<'_> {
    /// The motion, carried on in the direction it moved.
    pub fn extrapolated(&self, new: &Motion, old: Motion, beta: f64) -> Motion {
        bone_step::extrapolate(new, old, beta, &self.model())
    }

    fn model(&self) -> BoneModel {
        let axes = self.rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect();
        BoneModel { axes, ..BoneModel::new(self.rig.kind, self.rig.bone_count(), 1) }
    }

    /// Moves rest positions. `projections`: those of the present motion, [N, 4 B].
    pub fn move_rest(&self, poses: &mut Poses, layers: &Layers<'_>, projections: &[f64]) {
        let (side, pairs) = (4 * poses.motion.bones, AtomPairs::new(poses.motion.gram(), poses.motion.bones, layers));
        let moved = |(i, (&u, &start)): (usize, (&DVec3, &DVec3))| {
            let form = RestForm::new(layers, &pairs, i, &projections[i * side..(i + 1) * side]);
            form.solve(u, start, self.freedoms.pull)
        };
        poses.problem.rest = poses.problem.rest.par_iter().zip(&self.start).enumerate().map(moved).collect();
    }

    /// Moves bones.
    pub fn move_bones(&self, poses: &mut Poses, layers: &Layers<'_>, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let rig = self.rig;
        let moments = moments(poses, layers, stages)?;
        let model = self.model();
        let free: Vec<bool> = (0..rig.bone_count()).map(|j| moments.second.mass(j) >= MIN_MASS).collect();
        let freedom = Freedom { model: &model, free: &free, steps: STEPS, tolerance: 1e-4 };
        let mut run = Run::new(&FitParams::default(), stages.observer());
        bone_newton::solve(&mut poses.motion, &moments, &freedom, &mut run)?;
        Ok(())
    }
}

/// `K_rs = V_r^T V_s`, 4x4, of the virtual bones that some vertex mixes.
struct AtomPairs {
    /// [q] (other virtual bone s >= r, ascending; the block).
    of: Vec<Vec<(usize, Block)>>,
}

impl AtomPairs {
    /// From the [4 B, 4 B] products of the bones.
    fn new(gram: &[f64], bones: usize, layers: &Layers<'_>) -> Self {
        let mut partners: Vec<Vec<usize>> = (0..layers.atoms.len()).map(|r| vec![r]).collect();
        for i in 0..layers.coefficients.errors.len() {
            for (r, _) in layers.coefficients.of(i) {
                partners[r].extend(layers.coefficients.of(i).map(|(s, _)| s).filter(|s| *s > r));
            }
        }
        let side = 4 * bones;
        let of_atom = |(atom, mut partners): (&Row, Vec<usize>)| {
            partners.sort_unstable();
            partners.dedup();
            // [4, 4 B] `V_r^T T`.
            let mut rows = vec![0.0; 4 * side];
            for (c, row) in rows.chunks_exact_mut(side).enumerate() {
                for &(j, d) in atom {
                    let of_bone = &gram[(c * bones + j) * side..][..side];
                    row.iter_mut().zip(of_bone).for_each(|(sum, x)| *sum += d * x);
                }
            }
            let block = |s: usize| -> Block {
                let entry =
                    |c: usize, d: usize| layers.atoms[s].iter().map(|&(k, e)| e * rows[c * side + d * bones + k]).sum();
                std::array::from_fn(|c| std::array::from_fn(|d| entry(c, d)))
            };
            partners.into_iter().map(|s| (s, block(s))).collect()
        };
        Self { of: layers.atoms.par_iter().zip(partners).map(of_atom).collect() }
    }

    /// Of two that a vertex mixes, r <= s.
    fn of(&self, r: usize, s: usize) -> &Block {
        let at = self.of[r].binary_search_by_key(&s, |(s, _)| *s).expect("a pair that a vertex mixes");
        &self.of[r][at].1
    }
}

/// Blocks of frames.
fn blocks(poses: &Poses) -> impl Iterator<Item = Range<usize>> + use<> {
    let frames = poses.motion.frames();
    (0..frames).step_by(FRAMES).map(move |first| first..frames.min(first + FRAMES))
}

/// Motion of the virtual bones in some frames.
struct View {
    frames: Range<usize>,
    /// 3 times the number of frames: x of all, y of all, z of all.
    columns: usize,
    /// [q, 4, columns].
    rows: Vec<f64>,
}

impl View {
    fn new(poses: &Poses, layers: &Layers<'_>, frames: Range<usize>) -> Self {
        let columns = 3 * frames.len();
        let mut rows = vec![0.0; layers.atoms.len() * 4 * columns];
        rows.par_chunks_mut(4 * columns).zip(layers.atoms).for_each(|(rows, atom)| {
            for (c, row) in rows.chunks_exact_mut(columns).enumerate() {
                for &(j, d) in atom {
                    let parts = axes(&poses.motion, poses.motion.row(c, j), &frames);
                    row.iter_mut().zip(parts).for_each(|(sum, x)| *sum += d * x);
                }
            }
        });
        Self { frames, columns, rows }
    }

    /// [5, columns]: the four columns of a vertex's motion, and its residual.
    fn buffer(&self) -> Vec<f64> {
        vec![0.0; 5 * self.columns]
    }

    /// Motion of vertex `i`.
    fn blend(&self, layers: &Layers<'_>, i: usize, buffer: &mut [f64]) {
        buffer.fill(0.0);
        for (r, a) in layers.coefficients.of(i) {
            let rows = &self.rows[r * 4 * self.columns..(r + 1) * 4 * self.columns];
            buffer.iter_mut().zip(rows).for_each(|(sum, x)| *sum += a * x);
        }
    }

    /// The residual of vertex `i`, in the last of the rows.
    fn residual(&self, poses: &Poses, i: usize, buffer: &mut [f64]) {
        let (motion, out) = buffer.split_at_mut(4 * self.columns);
        let (f, target) = (poses.problem.frames(), poses.problem.trajectory(i));
        for (a, out) in out.chunks_exact_mut(self.frames.len()).enumerate() {
            let target = &target[a * f + self.frames.start..a * f + self.frames.end];
            out.iter_mut().zip(target).for_each(|(out, v)| *out = f64::from(*v));
        }
        for (u, row) in poses.rest(i).into_iter().zip(motion.chunks_exact(self.columns)) {
            out.iter_mut().zip(row).for_each(|(out, x)| *out -= u * x);
        }
    }
}

/// The numbers of a row in some frames: x, then y, then z.
fn axes<'a>(motion: &Motion, row: &'a [f64], frames: &Range<usize>) -> impl Iterator<Item = &'a f64> {
    let (f, frames) = (motion.frames(), frames.clone());
    (0..3).flat_map(move |a| &row[a * f + frames.start..a * f + frames.end])
}

/// Normal equations of a rest position.
struct RestForm {
    /// `sum x^T x`.
    left: DMat3,
    right: DVec3,
}

impl RestForm {
    /// Of vertex `i`, with the products of its target with the bones.
    fn new(layers: &Layers<'_>, pairs: &AtomPairs, i: usize, along: &[f64]) -> Self {
        let b = along.len() / 4;
        let (mut left, mut right) = ([[0.0; 3]; 3], [0.0; 3]);
        for (r, a) in layers.coefficients.of(i) {
            for &(j, d) in &layers.atoms[r] {
                right.iter_mut().enumerate().for_each(|(c, sum)| *sum += a * d * along[c * b + j]);
            }
            for (s, other) in layers.coefficients.of(i) {
                let block = pairs.of(r.min(s), r.max(s));
                // `K_sr` is the transpose of `K_rs`.
                let entry = |c: usize, d: usize| a * other * if r <= s { block[c][d] } else { block[d][c] };
                for c in 0..3 {
                    (0..3).for_each(|d| left[d][c] += entry(c, d));
                    right[c] -= entry(c, 3);
                }
            }
        }
        Self { left: DMat3::from_cols_array_2d(&left), right: DVec3::from_array(right) }
    }

    /// `E` up to a constant.
    fn value(&self, u: DVec3) -> f64 {
        u.dot(self.left * u - 2.0 * self.right)
    }

    /// The minimum with a pull to `start`; the present position where that is no better.
    fn solve(&self, u: DVec3, start: DVec3, pull: f64) -> DVec3 {
        let trace = self.left.x_axis.x + self.left.y_axis.y + self.left.z_axis.z;
        let pull = pull * trace / 3.0;
        let found = (self.left + DMat3::from_diagonal(DVec3::splat(pull))).inverse() * (self.right + pull * start);
        if found.is_finite() && self.value(found) < self.value(u) { found } else { u }
    }
}

/// Moments of the master bones: those of the virtual bones, mixed by the atoms.
fn moments(poses: &Poses, layers: &Layers<'_>, stages: &mut Stages<'_>) -> Result<Moments, Cancelled> {
    let (b, length, f) = (poses.motion.bones, poses.motion.length, poses.motion.frames());
    let n = poses.problem.vertices();
    let users = layers.coefficients.users(layers.atoms.len());
    let mut residual = vec![0.0; 4 * b * length];
    let mut per_frame = vec![0.0; f];
    for frames in blocks(poses) {
        stages.report(None)?;
        let view = View::new(poses, layers, frames.clone());
        let columns = view.columns;
        let mut residuals = vec![0f32; n * columns];
        residuals.par_chunks_mut(columns).enumerate().for_each_init(
            || view.buffer(),
            |buffer, (i, out)| {
                view.blend(layers, i, buffer);
                view.residual(poses, i, buffer);
                out.iter_mut().zip(&buffer[4 * columns..]).for_each(|(out, x)| *out = *x as f32);
            },
        );
        for out in residuals.chunks_exact(frames.len()) {
            let sums = per_frame[frames.clone()].iter_mut();
            sums.zip(out).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
        }
        let of_atom = |(r, users): (usize, &Vec<u32>)| {
            let mut sums = vec![0.0; 4 * columns];
            for &i in users {
                let i = i as usize;
                let a = layers.coefficients.of(i).find(|&(s, _)| s == r).map_or(0.0, |(_, a)| a);
                let own = &residuals[i * columns..(i + 1) * columns];
                for (sums, u) in sums.chunks_exact_mut(columns).zip(poses.rest(i)) {
                    sums.iter_mut().zip(own).for_each(|(sum, x)| *sum += a * u * f64::from(*x));
                }
            }
            sums
        };
        let of_atoms: Vec<Vec<f64>> = users.par_iter().enumerate().map(of_atom).collect();
        for (atom, sums) in layers.atoms.iter().zip(&of_atoms) {
            for &(j, d) in atom {
                for (c, sums) in sums.chunks_exact(columns).enumerate() {
                    for (a, sums) in sums.chunks_exact(frames.len()).enumerate() {
                        let to = &mut residual[(c * b + j) * length + a * f + frames.start..][..frames.len()];
                        to.iter_mut().zip(sums).for_each(|(to, x)| *to += d * x);
                    }
                }
            }
        }
    }
    let squared_error = per_frame.iter().sum();
    Ok(Moments { residual, second: second(poses, layers), squared_error, per_frame, ..Moments::default() })
}

/// `S_jk = sum_(r, s) d_rj d_sk sum_i a_ir a_is u_i u_i^T`.
fn second(poses: &Poses, layers: &Layers<'_>) -> SecondMoments {
    let mut pairs: Vec<Vec<(usize, Block)>> = vec![Vec::new(); layers.atoms.len()];
    for i in 0..poses.problem.vertices() {
        let u = poses.rest(i);
        for (r, a) in layers.coefficients.of(i) {
            for (s, other) in layers.coefficients.of(i) {
                let block: Block = std::array::from_fn(|c| std::array::from_fn(|d| a * other * u[c] * u[d]));
                add_block(&mut pairs[r], s, &block);
            }
        }
    }
    let b = poses.motion.bones;
    let of_bone = |j: usize| {
        let mut row: Vec<Block> = vec![Block::default(); b];
        for (atom, partners) in layers.atoms.iter().zip(&pairs) {
            let Some(&(_, d)) = atom.iter().find(|(k, _)| *k == j) else { continue };
            for (s, block) in partners {
                for &(k, e) in &layers.atoms[*s] {
                    let to = row[k].as_flattened_mut().iter_mut();
                    to.zip(block.as_flattened()).for_each(|(to, x)| *to += d * e * x);
                }
            }
        }
        row
    };
    let rows: Vec<Vec<Block>> = (0..b).into_par_iter().map(of_bone).collect();
    let mut second = SecondMoments::of_none(b);
    for (j, row) in rows.iter().enumerate() {
        let shares = |block: &Block| block.as_flattened().iter().any(|x| *x != 0.0);
        row.iter().enumerate().filter(|(_, block)| shares(block)).for_each(|(k, block)| second.add(j, k, block));
    }
    second
}

fn add_block(row: &mut Vec<(usize, Block)>, s: usize, block: &Block) {
    let at = match row.iter().position(|(k, _)| *k == s) {
        Some(at) => at,
        None => {
            row.push((s, Block::default()));
            row.len() - 1
        }
    };
    let to = row[at].1.as_flattened_mut().iter_mut();
    to.zip(block.as_flattened()).for_each(|(to, x)| *to += x);
}
