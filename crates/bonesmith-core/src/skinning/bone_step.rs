//! Bones for fixed weights and rest positions, from moments alone: no pass over vertices.
//!
//! In frame `t` the error is a quadratic in all bones' 3x4 matrices; with `S_jk = sum_i w_ij w_ik u_i u_i^T` (4x4)
//! and the residual's moments `D_j = sum_i w_ij r_i u_i^T` (3x4) a change of bone `j` by `d` changes the error by
//! `-2 <d, D_j> + <d S_jj, d>` and every other `D_k` by `-d S_jk`. So
//!
//! * affine bones: all at once, `S d = D`, Cholesky with a small ridge [Kavan2010 s.4.2], sparse where there are many;
//! * rigid bones: one after another, each the exact optimum with the others fixed [Le2014 eq. 3.18-3.30], the sums
//!   over vertices replaced by moments; several sweeps, eight frames side by side;
//! * trs bones: as rigid, alternating rotation and scale along the bone's own axes, which `axes` finds.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, MatRef, Side};
use glam::{DMat3, DVec3};
use multiversion::multiversion;
use pulp::Arch;
use rayon::prelude::*;

use crate::model::rig::BoneKind;
use crate::skinning::moments::{Coupling, Moments, SecondMoments};
use crate::skinning::motion::Motion;
use crate::skinning::near::MANY_BONES;
use crate::solve::kernels::{Spread, TileBone, mix4};
use crate::solve::polar::{LANES, Lane, LaneMat, nearest_rotations};
use crate::solve::sparse_spd::{Factor, Lower};
use crate::solve::transform::rotation_svd;

/// Smallest and largest scale of a trs bone along an axis.
pub(crate) const SCALE_RANGE: (f64, f64) = (0.02, 50.0);

/// What kind of bones, and their own axes where the kind needs them.
#[derive(Clone)]
pub(crate) struct BoneModel {
    pub kind: BoneKind,
    /// [B] rest_from_bone rotation: the axes of a trs bone's scale; identity beyond its end and for other kinds.
    pub axes: Vec<DMat3>,
    /// Sweeps over all bones per update (rigid and trs).
    pub sweeps: usize,
    /// The first so many bones stay as they are: this step does not move them, and searches do not remove them. Other steps (`together`, `limits`) do not know them.
    pub locked: usize,
}

impl BoneModel {
    pub fn new(kind: BoneKind, bones: usize, sweeps: usize) -> Self {
        Self { kind, axes: vec![DMat3::IDENTITY; bones], sweeps, locked: 0 }
    }
}

/// Moves the bones to lower the error; returns by how much (never negative but for rounding).
pub(crate) fn update(motion: &mut Motion, moments: &Moments, model: &BoneModel) -> f64 {
    match model.kind {
        BoneKind::Affine => update_affine(motion, moments, |j| j >= model.locked),
        BoneKind::Rigid | BoneKind::Trs => update_one_by_one(motion, moments, model),
    }
}

/// Columns of the motion that affine bones are solved for at once: the step is as large as the motion itself.
const COLUMNS: usize = 192;

/// Solves `S d = D` for all free bones and all frames at once; the gain.
pub(super) fn update_affine(motion: &mut Motion, moments: &Moments, is_free: impl Fn(usize) -> bool) -> f64 {
    let (b, length) = (motion.bones, motion.length);
    if b > MANY_BONES {
        return update_many_affine(motion, moments, is_free);
    }
    let free: Vec<usize> = (0..4 * b).filter(|r| is_free(r % b)).collect();
    let (side, second) = (free.len(), moments.second.dense());
    let system = match side == 4 * b {
        true => second,
        false => free.iter().flat_map(|&r| free.iter().map(move |&q| r * 4 * b + q)).map(|at| second[at]).collect(),
    };
    let Some((factor, ridge)) = regular(&system, side) else { return 0.0 };
    let mut gain = 0.0;
    for first in (0..length).step_by(COLUMNS) {
        let columns = first..length.min(first + COLUMNS);
        let right = Mat::from_fn(side, columns.len(), |r, l| moments.residual[free[r] * length + first + l]);
        let step: Mat<f64> = factor.solve(&right);
        // `<d, 2 D - S d> = <d, D + ridge d>`.
        let mut part = 0.0;
        for (at, &r) in free.iter().enumerate() {
            for (l, x) in motion.rows_mut()[r * length..][columns.clone()].iter_mut().enumerate() {
                let d = step[(at, l)];
                part += d * (right[(at, l)] + ridge * d);
                *x += d;
            }
        }
        gain += part;
    }
    gain
}

/// As [`update_affine`] with the sparse factor of `S`.
pub(super) fn update_many_affine(motion: &mut Motion, moments: &Moments, is_free: impl Fn(usize) -> bool) -> f64 {
    let (b, length) = (motion.bones, motion.length);
    let free: Vec<usize> = (0..b).filter(|&j| is_free(j)).collect();
    let Some((factor, ridge)) = regular_sparse(&moments.second, &free) else { return 0.0 };
    let side = 4 * free.len();
    let row = |at: usize| (at % 4 * b + free[at / 4]) * length;
    let (mut gain, mut step) = (0.0, Vec::new());
    for first in (0..length).step_by(COLUMNS) {
        let columns = COLUMNS.min(length - first);
        step.clear();
        step.extend((0..columns * side).map(|at| moments.residual[row(at % side) + first + at / side]));
        if !factor.solve(&mut step, columns) {
            return gain;
        }
        let mut part = 0.0;
        for at in 0..side {
            let right = &moments.residual[row(at) + first..][..columns];
            for (l, x) in motion.rows_mut()[row(at) + first..][..columns].iter_mut().enumerate() {
                let d = step[l * side + at];
                part += d * (right[l] + ridge * d);
                *x += d;
            }
        }
        gain += part;
    }
    gain
}

/// As [`regular`] for the blocks of some bones, ascending; entry 4 j + c is coordinate c of bone number j.
fn regular_sparse(second: &SecondMoments, bones: &[usize]) -> Option<(Factor, f64)> {
    let mut numbers = vec![usize::MAX; second.bones()];
    bones.iter().enumerate().for_each(|(at, &j)| numbers[j] = at);
    let (mut starts, mut rows, mut values, mut diagonal) = (vec![0], Vec::new(), Vec::new(), Vec::new());
    for (at, &j) in bones.iter().enumerate() {
        let below = || second.of[j].others.iter().filter(|(k, _)| *k > j && numbers[*k] != usize::MAX);
        for c in 0..4 {
            diagonal.push(values.len());
            rows.extend((c..4).map(|d| 4 * at + d));
            values.extend((c..4).map(|d| second.of[j].own[c][d]));
            for (k, block) in below() {
                rows.extend((0..4).map(|d| 4 * numbers[*k] + d));
                values.extend(block[c]);
            }
            starts.push(rows.len());
        }
    }
    let largest = diagonal.iter().map(|&at| values[at]).fold(0.0, f64::max);
    let first = 1e-9 * largest + 1e-12;
    let mut lower = Lower { starts, rows, values };
    let mut symbolic = lower.analyse()?;
    let mut ridge = 0.0;
    for raised in 0..8 {
        let next = first * 100f64.powi(raised);
        diagonal.iter().for_each(|&at| lower.values[at] += next - ridge);
        ridge = next;
        match lower.factor(symbolic) {
            Ok(factor) => return Some((factor, ridge)),
            Err(same) => symbolic = same,
        }
    }
    None
}

/// Cholesky factor of `S` with a ridge, and the ridge. `S` is singular where a bone has too few vertices or they lie in a
/// plane: the ridge then leaves it as it is.
pub(crate) fn regular(second: &[f64], side: usize) -> Option<(Llt<f64>, f64)> {
    let second = MatRef::from_row_major_slice(second, side, side);
    let largest = (0..side).map(|r| second[(r, r)]).fold(0.0, f64::max);
    let first = 1e-9 * largest + 1e-12;
    (0..8).find_map(|raised| {
        let ridge = first * 100f64.powi(raised);
        let mut system = second.to_owned();
        (0..side).for_each(|r| system[(r, r)] += ridge);
        system.llt(Side::Lower).ok().map(|factor| (factor, ridge))
    })
}

/// The twelve lanes of a bone end to end.
#[inline(always)]
fn flat(bone: &TileBone) -> &[f64] {
    bone.as_flattened().as_flattened()
}

/// The twelve lanes of a bone end to end.
#[inline(always)]
fn flat_mut(bone: &mut TileBone) -> &mut [f64] {
    bone.as_flattened_mut().as_flattened_mut()
}

/// Matrices and residual moments of all bones in eight frames.
struct Tile {
    motion: Vec<TileBone>,
    residual: Vec<TileBone>,
    /// [B] scale along the bone's axes (trs only).
    scale: Vec<[Lane; 3]>,
    /// Lanes that are frames.
    used: usize,
    arch: Arch,
}

fn update_one_by_one(motion: &mut Motion, moments: &Moments, model: &BoneModel) -> f64 {
    let couplings = &moments.second.of;
    let (bones, frames) = (motion.bones, motion.frames());
    let tiles: Vec<(Tile, f64)> = (0..frames.div_ceil(LANES))
        .into_par_iter()
        .map(|at| {
            let mut tile = Tile::gather(motion, moments, at * LANES);
            let mut gain = 0.0;
            for _ in 0..model.sweeps {
                gain += match model.kind {
                    BoneKind::Trs => sweep_trs(&mut tile, couplings, &model.axes, model.locked),
                    _ => sweep_rigid(&mut tile, couplings, model.locked),
                };
            }
            (tile, gain)
        })
        .collect();
    let mut gain = 0.0;
    for (at, (tile, g)) in tiles.into_iter().enumerate() {
        gain += g;
        for j in 0..bones {
            for (c, rows) in tile.motion[j].iter().enumerate() {
                let row = motion.row_mut(c, j);
                for (a, lane) in rows.iter().enumerate() {
                    let start = a * frames + at * LANES;
                    let count = LANES.min(frames - at * LANES);
                    row[start..start + count].copy_from_slice(&lane[..count]);
                }
            }
        }
    }
    gain
}

impl Tile {
    /// Frames `start..start + LANES`; lanes beyond the last frame repeat it and do not count.
    fn gather(motion: &Motion, moments: &Moments, start: usize) -> Self {
        let (bones, frames, length) = (motion.bones, motion.frames(), motion.length);
        let cut = |row: &[f64], outside_is_zero: bool| -> [Lane; 3] {
            std::array::from_fn(|a| {
                std::array::from_fn(|l| match start + l < frames {
                    true => row[a * frames + start + l],
                    false if outside_is_zero => 0.0,
                    false => row[a * frames + frames - 1],
                })
            })
        };
        let moment_row = |c: usize, j: usize| &moments.residual[(c * bones + j) * length..][..length];
        let of = |j: usize| std::array::from_fn(|c| cut(motion.row(c, j), false));
        let residual_of = |j: usize| std::array::from_fn(|c| cut(moment_row(c, j), true));
        Self {
            motion: (0..bones).map(of).collect(),
            residual: (0..bones).map(residual_of).collect(),
            scale: Vec::new(),
            used: LANES.min(frames - start),
            arch: Arch::new(),
        }
    }
}

/// `P = D_j + T_j S_jj`: what bone `j` should reproduce with the others fixed.
#[inline(always)]
fn target(motion: &TileBone, residual: &TileBone, own: &[[f64; 4]; 4]) -> TileBone {
    let mut p = *residual;
    mix4(flat_mut(&mut p), flat(motion), own, 1.0);
    p
}

/// Linear part of the target about the weighted centre: `H = P_linear - p b^T / s` [Le2014 eq. 3.21-3.29].
#[inline(always)]
fn centred(p: &TileBone, own: &[[f64; 4]; 4]) -> LaneMat {
    let mut h: LaneMat = [p[0], p[1], p[2]];
    for c in 0..3 {
        let ratio = own[c][3] / own[3][3];
        for a in 0..3 {
            for l in 0..LANES {
                h[c][a][l] -= p[3][a][l] * ratio;
            }
        }
    }
    h
}

/// Sets a new matrix, updates the residual moments of the overlapping bones, returns the gain.
#[inline(always)]
fn replace(tile: &mut Tile, j: usize, linear: &LaneMat, p: &TileBone, coupling: &Coupling) -> f64 {
    let own = &coupling.own;
    let mut delta: TileBone = [linear[0], linear[1], linear[2], p[3]];
    for a in 0..3 {
        for l in 0..LANES {
            // [Le2014 eq. 3.27] translation of the weighted centre.
            let turned = linear[0][a][l] * own[0][3] + linear[1][a][l] * own[1][3] + linear[2][a][l] * own[2][3];
            delta[3][a][l] = (delta[3][a][l] - turned) / own[3][3];
        }
    }
    let (motion, residual) = (flat_mut(&mut tile.motion[j]), &mut tile.residual[j]);
    flat_mut(&mut delta).iter_mut().zip(motion.iter()).for_each(|(d, m)| *d -= m);
    let change = &delta;
    let delta = flat(&delta);
    let mut moved = [0.0; 12 * LANES];
    mix4(&mut moved, delta, own, 1.0);
    let mut gain = [0.0; LANES];
    for at in 0..12 {
        for l in 0..LANES {
            let x = at * LANES + l;
            gain[l] += delta[x] * (2.0 * flat(residual)[x] - moved[x]);
        }
    }
    flat_mut(residual).iter_mut().zip(&moved).for_each(|(r, m)| *r -= m);
    motion.iter_mut().zip(delta).for_each(|(m, d)| *m += d);
    tile.arch.dispatch(Spread { change, out: &mut tile.residual, blocks: &coupling.others });
    gain[..tile.used].iter().sum()
}

/// Squared weight below which a bone is left alone: no vertex has it.
pub(crate) const EMPTY: f64 = 1e-9;

/// One Gauss-Seidel sweep over rigid bones.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn sweep_rigid(tile: &mut Tile, couplings: &[Coupling], locked: usize) -> f64 {
    let mut gain = 0.0;
    for (j, coupling) in couplings.iter().enumerate().skip(locked) {
        if coupling.own[3][3] < EMPTY {
            continue;
        }
        let p = target(&tile.motion[j], &tile.residual[j], &coupling.own);
        let h = centred(&p, &coupling.own);
        let mut rotation: LaneMat = [tile.motion[j][0], tile.motion[j][1], tile.motion[j][2]];
        nearest_rotations(&h, &mut rotation);
        gain += replace(tile, j, &rotation, &p, coupling);
    }
    gain
}

/// One Gauss-Seidel sweep over bones with rotation and scale: `linear = R diag(s) Q^T`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn sweep_trs(tile: &mut Tile, couplings: &[Coupling], axes: &[DMat3], locked: usize) -> f64 {
    let mut gain = 0.0;
    if tile.scale.is_empty() {
        tile.scale = tile.motion.iter().zip(axes).map(|(m, q)| lengths(&times(&[m[0], m[1], m[2]], q))).collect();
    }
    for (j, coupling) in couplings.iter().enumerate().skip(locked) {
        if coupling.own[3][3] < EMPTY {
            continue;
        }
        let q = &axes[j];
        let p = target(&tile.motion[j], &tile.residual[j], &coupling.own);
        let h = times(&centred(&p, &coupling.own), q);
        let spread = spread_along(coupling, q);
        let mut scale = tile.scale[j];
        let mut rotation = times(&[tile.motion[j][0], tile.motion[j][1], tile.motion[j][2]], q);
        orthonormalise(&mut rotation);
        for _ in 0..2 {
            let mut scaled = h;
            for c in 0..3 {
                for a in 0..3 {
                    for l in 0..LANES {
                        scaled[c][a][l] *= scale[c][l];
                    }
                }
            }
            nearest_rotations(&scaled, &mut rotation);
            for c in 0..3 {
                for l in 0..LANES {
                    let along = rotation[c][0][l] * h[c][0][l]
                        + rotation[c][1][l] * h[c][1][l]
                        + rotation[c][2][l] * h[c][2][l];
                    // A flat bone does not determine its thin axis, a single vertex none: the ridge pulls that
                    // scale to where it was. Spread below a thousandth of the model's size counts as none.
                    let ridge = 1e-5 * (spread[0] + spread[1] + spread[2]) + 1e-6 * coupling.own[3][3];
                    let best = (along + ridge * scale[c][l]) / (spread[c] + ridge);
                    scale[c][l] = best.clamp(SCALE_RANGE.0, SCALE_RANGE.1);
                }
            }
        }
        let mut linear = rotation;
        for c in 0..3 {
            for a in 0..3 {
                for l in 0..LANES {
                    linear[c][a][l] *= scale[c][l];
                }
            }
        }
        tile.scale[j] = scale;
        gain += replace(tile, j, &times(&linear, &q.transpose()), &p, coupling);
    }
    gain
}

/// `m q` with one matrix for all lanes.
#[inline(always)]
fn times(m: &LaneMat, q: &DMat3) -> LaneMat {
    let q = [q.x_axis, q.y_axis, q.z_axis];
    let mut out = [[[0.0; LANES]; 3]; 3];
    for c in 0..3 {
        for k in 0..3 {
            for a in 0..3 {
                for l in 0..LANES {
                    out[c][a][l] += m[k][a][l] * q[c][k];
                }
            }
        }
    }
    out
}

/// Second moment about the weighted centre along the axes of `q`.
fn spread_along(coupling: &Coupling, q: &DMat3) -> [f64; 3] {
    let covariance = coupling.covariance();
    [q.x_axis, q.y_axis, q.z_axis].map(|axis| axis.dot(covariance * axis).max(0.0))
}

/// Principal axes of the vertices of each bone: the first axes of scale of trs bones.
pub(crate) fn principal_axes(moments: &Moments) -> Vec<DMat3> {
    moments.second.of.iter().map(|coupling| rotation_svd(&coupling.covariance()).v).collect()
}

/// `new + beta (new - old)`, brought back to the bones' kind: a step ahead in the direction things are moving.
pub(crate) fn extrapolate(new: &Motion, old: Motion, beta: f64, model: &BoneModel) -> Motion {
    let mut ahead = old;
    ahead.rows_mut().iter_mut().zip(new.rows()).for_each(|(x, new)| *x = new + beta * (new - *x));
    if model.kind != BoneKind::Affine {
        let frames = new.frames();
        let tiles = |j: usize| (0..frames).step_by(LANES).map(move |start| (j, start));
        let restored: Vec<Vec<LaneMat>> = (0..new.bones)
            .into_par_iter()
            .map(|j| tiles(j).map(|(j, start)| restored_kind(&ahead, new, j, start, model)).collect())
            .collect();
        for (j, restored) in restored.iter().enumerate() {
            for ((_, start), matrices) in tiles(j).zip(restored) {
                let count = LANES.min(frames - start);
                for (c, column) in matrices.iter().enumerate() {
                    let row = ahead.row_mut(c, j);
                    for (a, lane) in column.iter().enumerate() {
                        row[a * frames + start..][..count].copy_from_slice(&lane[..count]);
                    }
                }
            }
        }
    }
    ahead
}

/// The linear parts of bone `j` in eight frames made rotations (times scale along the bone's axes).
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn restored_kind(ahead: &Motion, near: &Motion, j: usize, start: usize, model: &BoneModel) -> LaneMat {
    let frames = ahead.frames();
    let cut = |motion: &Motion| -> LaneMat {
        std::array::from_fn(|c| {
            let row = motion.row(c, j);
            std::array::from_fn(|a| std::array::from_fn(|l| row[a * frames + (start + l).min(frames - 1)]))
        })
    };
    let mut linear = times(&cut(ahead), &model.axes[j]);
    let mut rotation = times(&cut(near), &model.axes[j]);
    let mut scale = [[1.0; LANES]; 3];
    if model.kind == BoneKind::Trs {
        scale = lengths(&linear);
        divide(&mut linear, &scale);
        let own = lengths(&rotation);
        divide(&mut rotation, &own);
    }
    nearest_rotations(&linear, &mut rotation);
    for c in 0..3 {
        for a in 0..3 {
            for l in 0..LANES {
                rotation[c][a][l] *= scale[c][l];
            }
        }
    }
    times(&rotation, &model.axes[j].transpose())
}

/// Column lengths within the range that scales may have.
fn lengths(m: &LaneMat) -> [Lane; 3] {
    std::array::from_fn(|c| {
        std::array::from_fn(|l| {
            let squared: f64 = (0..3).map(|a| m[c][a][l] * m[c][a][l]).sum();
            squared.sqrt().clamp(SCALE_RANGE.0, SCALE_RANGE.1)
        })
    })
}

/// Columns made a rotation: those of a trs bone's own axes are one already up to their lengths, those of new axes nearly.
#[inline(always)]
fn orthonormalise(m: &mut LaneMat) {
    for l in 0..LANES {
        let [x, y, _] = *m;
        let (x, y) = (DVec3::from_array(x.map(|a| a[l])), DVec3::from_array(y.map(|a| a[l])));
        let x = x.normalize_or(DVec3::X);
        let y = (y - y.dot(x) * x).normalize_or(x.any_orthonormal_vector());
        for (c, column) in [x, y, x.cross(y)].into_iter().enumerate() {
            for a in 0..3 {
                m[c][a][l] = column[a];
            }
        }
    }
}

fn divide(m: &mut LaneMat, scale: &[Lane; 3]) {
    for c in 0..3 {
        for a in 0..3 {
            for l in 0..LANES {
                m[c][a][l] /= scale[c][l];
            }
        }
    }
}
