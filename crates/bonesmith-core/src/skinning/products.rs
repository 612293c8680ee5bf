//! Products of the bones' motions, shared by all vertices: `K_jk = T_j^T T_k`, 4x4 for each pair of bones.

use pulp::Arch;
use rayon::prelude::*;

use crate::observer::{Cancelled, Check};
use crate::skinning::motion::Motion;
use crate::solve::kernels::Products;
use crate::solve::lanes::{Floats, LANES, Mat4};
use crate::solve::matrix;

/// Pairs (c, d), c <= d, of coordinates: the ten monomials of a quadratic form in a homogeneous vector.
pub(crate) const PAIRS: [(usize, usize); 10] =
    [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

/// Multiplications between two looks at whether the work was cancelled: a small part of a second.
pub(crate) const WORK_BETWEEN_CHECKS: usize = 1 << 29;

/// `u^T K_jk v` for homogeneous vectors, from [4 B, 4 B] `gram`.
#[inline(always)]
pub(crate) fn form(bones: usize, gram: &[f64], (j, u): (usize, &[f64; 4]), (k, v): (usize, &[f64; 4])) -> f64 {
    let (b, side) = (bones, 4 * bones);
    let mut sum = 0.0;
    for (c, uc) in u.iter().enumerate() {
        let row = &gram[(c * b + j) * side..][..side];
        sum += uc * (v[0] * row[k] + v[1] * row[b + k] + v[2] * row[2 * b + k] + v[3] * row[3 * b + k]);
    }
    sum
}

/// `Y_j . u` from [4 B] `y`.
#[inline]
pub(crate) fn along(y: &[f64], j: usize, u: &[f64; 4]) -> f64 {
    let b = y.len() / 4;
    u[0] * y[j] + u[1] * y[b + j] + u[2] * y[2 * b + j] + u[3] * y[3 * b + j]
}

/// [10, B] monomial coefficients of `u^T K_jj u`.
pub(crate) fn monomials(bones: usize, gram: &[f64]) -> Vec<f64> {
    let mut own = vec![0.0; 10 * bones];
    for (p, &(c, d)) in PAIRS.iter().enumerate() {
        for j in 0..bones {
            let entry = gram[(c * bones + j) * 4 * bones + d * bones + j];
            own[p * bones + j] = if c == d { entry } else { 2.0 * entry };
        }
    }
    own
}

/// [4 B, 4 B] `T T^T` of rows [4 B, L].
pub(crate) fn gram(rows: &[f64], length: usize) -> Vec<f64> {
    gram_checked(rows, length, &mut || Ok(())).unwrap_or_default()
}

/// As [`gram`]; `check` is called every [`WORK_BETWEEN_CHECKS`].
pub(crate) fn gram_checked(rows: &[f64], length: usize, check: Check<'_>) -> Result<Vec<f64>, Cancelled> {
    let side = rows.len() / length;
    let mut out = vec![0.0; side * side];
    let rows = matrix::rows(rows, length);
    // A few rows a task: the same numbers whatever the number of threads.
    const TASK: usize = 32;
    let tasks = (WORK_BETWEEN_CHECKS / (TASK * side * length).max(1)).max(1);
    for (first, parts) in out.chunks_mut(tasks * TASK * side).enumerate() {
        check()?;
        parts.par_chunks_mut(TASK * side).enumerate().for_each(|(at, part)| {
            let start = (first * tasks + at) * TASK;
            matrix::product_into(part, rows.subrows(start, part.len() / side), rows.transpose());
        });
    }
    Ok(out)
}

/// `Y = T^T v` [n, 4 B]: products of some trajectories [n, L] with the bones' rows [4 B, L]; `wide` is a buffer.
pub(crate) fn project(rows: &[f64], length: usize, trajectories: &[f32], wide: &mut Vec<f64>, out: &mut [f64]) {
    wide.clear();
    wide.extend(trajectories.iter().map(|&x| f64::from(x)));
    matrix::product_into(out, matrix::rows(wide, length), matrix::rows(rows, length).transpose());
}

/// Ten monomial coefficients of a quadratic form, for eight bones.
pub(crate) type Forms = [Floats; 10];

/// Coefficients of `u^T K u`.
#[inline(always)]
fn coefficients(block: &Mat4) -> [f32; 10] {
    PAIRS.map(|(c, d)| match c == d {
        true => block.get(c, c) as f32,
        false => (block.get(c, d) + block.get(d, c)) as f32,
    })
}

/// Bones `k` up to `j`, ascending; `K_jk` of each.
type PairsOf = (Vec<u16>, Vec<[[f64; 4]; 4]>);

/// `K_jk` of the pairs of many bones that some block of vertices works with.
pub(crate) struct SomePairs {
    /// [B]
    of: Vec<PairsOf>,
}

impl SomePairs {
    /// For lists of bones, each ascending: all pairs within a list.
    pub fn new<'a>(motion: &Motion, lists: impl Iterator<Item = &'a [u16]>) -> Self {
        let mut partners: Vec<Vec<u16>> = vec![Vec::new(); motion.bones];
        for list in lists {
            for (at, &j) in list.iter().enumerate() {
                let own = &mut partners[j as usize];
                own.extend(&list[..=at]);
                // Once in a while, so that few are held.
                if own.len() > MAX_PARTNERS {
                    own.sort_unstable();
                    own.dedup();
                }
            }
        }
        let rows = |j: usize| std::array::from_fn(|c| motion.row(c, j));
        let of_bone = |(j, mut partners): (usize, Vec<u16>)| {
            partners.sort_unstable();
            partners.dedup();
            let mut out = Vec::with_capacity(partners.len());
            let others = &mut partners.iter().map(|&k| rows(k as usize));
            Arch::new().dispatch(Products { rows: rows(j), others, out: &mut out });
            (partners, out)
        };
        Self { of: partners.into_par_iter().enumerate().map(of_bone).collect() }
    }

    /// The pairs of one of the lists, bones by their place in it.
    pub fn within(&self, list: &[u16]) -> BonePairs {
        let mut at = 0;
        BonePairs::from_lower(list.len(), |j, k| {
            let (partners, blocks) = &self.of[list[j] as usize];
            if k == 0 {
                at = 0;
            }
            while partners[at] < list[k] {
                at += 1;
            }
            Mat4::from_rows(&blocks[at])
        })
    }
}

/// Bones that a list of partners may have before repeated ones are removed.
const MAX_PARTNERS: usize = 1024;

/// As one block for each pair of bones, for solves with a few bones at a time.
#[derive(Default)]
pub(crate) struct BonePairs {
    /// B.
    pub bones: usize,
    /// [B, B] `K_jk`.
    blocks: Vec<Mat4>,
    /// [B, B / LANES] `u^T K_jk u` over `j`, for each `k`; to rank bones, so float32 will do.
    forms: Vec<Forms>,
    /// [B / LANES] `u^T K_jj u`.
    own: Vec<Forms>,
}

impl BonePairs {
    /// From the gram matrix of a motion's rows.
    pub fn new(bones: usize, gram: &[f64]) -> Self {
        let (side, groups) = (4 * bones, bones.div_ceil(LANES));
        let mut blocks = vec![Mat4::default(); bones * bones];
        blocks.par_chunks_mut(bones).enumerate().for_each(|(j, blocks)| {
            for (c, d) in (0..4).flat_map(|c| (0..4).map(move |d| (c, d))) {
                let row = &gram[(c * bones + j) * side + d * bones..][..bones];
                blocks.iter_mut().zip(row).for_each(|(block, entry)| *block.get_mut(c, d) = *entry);
            }
        });
        let mut forms = vec![[Floats::ZERO; 10]; bones * groups];
        let mut own = vec![[Floats::ZERO; 10]; groups];
        forms.par_chunks_mut(groups).zip(blocks.par_chunks(bones)).for_each(|(forms, blocks)| {
            for (j, block) in blocks.iter().enumerate() {
                for (p, x) in coefficients(block).into_iter().enumerate() {
                    forms[j / LANES][p].0[j % LANES] = x;
                }
            }
        });
        for k in 0..bones {
            for (p, x) in coefficients(&blocks[k * bones + k]).into_iter().enumerate() {
                own[k / LANES][p].0[k % LANES] = x;
            }
        }
        Self { bones, blocks, forms, own }
    }

    /// From `K_jk` of some bones, `k` up to `j`.
    fn from_lower(bones: usize, mut block: impl FnMut(usize, usize) -> Mat4) -> Self {
        let groups = bones.div_ceil(LANES);
        let mut blocks = vec![Mat4::default(); bones * bones];
        let mut forms = vec![[Floats::ZERO; 10]; bones * groups];
        let mut own = vec![[Floats::ZERO; 10]; groups];
        for j in 0..bones {
            for k in 0..=j {
                let found = block(j, k);
                for (p, x) in coefficients(&found).into_iter().enumerate() {
                    forms[k * groups + j / LANES][p].0[j % LANES] = x;
                    forms[j * groups + k / LANES][p].0[k % LANES] = x;
                    if j == k {
                        own[k / LANES][p].0[k % LANES] = x;
                    }
                }
                blocks[k * bones + j] = found.transposed();
                blocks[j * bones + k] = found;
            }
        }
        Self { bones, blocks, forms, own }
    }

    /// `K_jk`.
    #[inline(always)]
    pub fn block(&self, j: usize, k: usize) -> &Mat4 {
        &self.blocks[j * self.bones + k]
    }

    /// [B / LANES] `u^T K_jk u` over `j`.
    #[inline(always)]
    pub fn forms(&self, k: usize) -> &[Forms] {
        &self.forms[k * self.own.len()..(k + 1) * self.own.len()]
    }

    /// [B / LANES] `u^T K_jj u` over `j`.
    #[inline(always)]
    pub fn own(&self) -> &[Forms] {
        &self.own
    }
}
