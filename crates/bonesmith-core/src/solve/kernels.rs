//! The inner loops over trajectories, compiled for several instruction sets and picked at run time.
//!
//! Kept together so that dispatch happens in one place.

// Loops over registers are written with indices: that is the shape the compiler keeps in registers.
#![allow(clippy::needless_range_loop)]

use multiversion::multiversion;
use pulp::{Simd, WithSimd};

use crate::solve::polar::{LANES, Lane};

/// A row of a table and what it is multiplied by.
#[derive(Clone, Copy, Default)]
pub(crate) struct Term {
    /// Where the row begins in the table.
    pub start: usize,
    pub scale: f32,
}

/// What bones leave of some trajectories: `r_i = v_i - sum_k scale_k row_k`, over the terms of vertex `i`.
pub(crate) struct Residuals<'a> {
    /// [n, L] found.
    pub residuals: &'a mut [f32],
    /// [n] found: `|r_i|^2`.
    pub errors: &'a mut [f64],
    /// [n, L]
    pub trajectories: &'a [f32],
    pub table: &'a [f32],
    /// Those of one vertex after those of the other.
    pub terms: &'a [Term],
    /// [n] where the terms of each vertex end.
    pub ends: &'a [usize],
}

impl WithSimd for Residuals<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { residuals, errors, trajectories, table, terms, ends } = self;
        let length = residuals.len() / ends.len();
        let rows = residuals.chunks_exact_mut(length).zip(trajectories.chunks_exact(length));
        let mut start = 0;
        for (((r, v), error), &end) in rows.zip(errors).zip(ends) {
            *error = residual(simd, r, v, table, &terms[start..end]);
            start = end;
        }
    }
}

/// `r = v - sum_k scale_k row_k` and `|r|^2`.
#[inline(always)]
fn residual<S: Simd>(simd: S, r: &mut [f32], v: &[f32], table: &[f32], terms: &[Term]) -> f64 {
    let n = r.len();
    let (r, r_tail) = S::as_mut_simd_f32s(r);
    let (v, v_tail) = S::as_simd_f32s(v);
    let row = |term: &Term| S::as_simd_f32s(&table[term.start..term.start + n]);
    let mut squares = simd.splat_f32s(0.0);
    // Four registers at a time: a term's factor is loaded once for them.
    let (r, r_rest) = pulp::as_arrays_mut::<4, _>(r);
    let (v, v_rest) = pulp::as_arrays::<4, _>(v);
    for (at, (r, v)) in r.iter_mut().zip(v).enumerate() {
        let mut left = *v;
        for term in terms {
            let scale = simd.splat_f32s(-term.scale);
            let row = &row(term).0[4 * at..4 * at + 4];
            for k in 0..4 {
                left[k] = simd.mul_add_f32s(scale, row[k], left[k]);
            }
        }
        *r = left;
        for left in left {
            squares = simd.mul_add_f32s(left, left, squares);
        }
    }
    let done = 4 * v.len();
    for (at, (r, v)) in r_rest.iter_mut().zip(v_rest).enumerate() {
        let mut left = *v;
        for term in terms {
            left = simd.mul_add_f32s(simd.splat_f32s(-term.scale), row(term).0[done + at], left);
        }
        *r = left;
        squares = simd.mul_add_f32s(left, left, squares);
    }
    if !v_tail.is_empty() {
        let mut left = simd.partial_load_f32s(v_tail);
        for term in terms {
            left = simd.mul_add_f32s(simd.splat_f32s(-term.scale), simd.partial_load_f32s(row(term).1), left);
        }
        simd.partial_store_f32s(r_tail, left);
        squares = simd.mul_add_f32s(left, left, squares);
    }
    f64::from(simd.reduce_sum_f32s(squares))
}

/// Products of residuals with some rows of a table each: `along[i][row_k] = r_i . row_k`, over the terms of vertex `i`.
pub(crate) struct OwnProducts<'a> {
    /// [n, side] found where there is a term, else left as it is. Rows from number `side` on are left out.
    pub along: &'a mut [f32],
    pub side: usize,
    /// [n, L]
    pub residuals: &'a [f32],
    pub table: &'a [f32],
    /// Those of one vertex after those of the other.
    pub terms: &'a [Term],
    /// [n] where the terms of each vertex end.
    pub ends: &'a [usize],
}

impl WithSimd for OwnProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { along, side, residuals, table, terms, ends } = self;
        let length = residuals.len() / ends.len();
        let mut start = 0;
        for ((r, along), &end) in residuals.chunks_exact(length).zip(along.chunks_exact_mut(side)).zip(ends) {
            // Four rows at a time: the residual is loaded once for them.
            for four in terms[start..end].chunks(4) {
                let row = |k: usize| &table[four[k.min(four.len() - 1)].start..][..length];
                let found = products4(simd, r, [row(0), row(1), row(2), row(3)]);
                for (term, x) in four.iter().zip(found) {
                    if let Some(place) = along.get_mut(term.start / length) {
                        *place = x;
                    }
                }
            }
            start = end;
        }
    }
}

/// `[r . a, r . b, r . c, r . d]`.
#[inline(always)]
fn products4<S: Simd>(simd: S, r: &[f32], rows: [&[f32]; 4]) -> [f32; 4] {
    let (r, r_tail) = S::as_simd_f32s(r);
    let n = r.len();
    let ((a, a_tail), (b, b_tail)) = (S::as_simd_f32s(rows[0]), S::as_simd_f32s(rows[1]));
    let ((c, c_tail), (d, d_tail)) = (S::as_simd_f32s(rows[2]), S::as_simd_f32s(rows[3]));
    let (a, b, c, d) = (&a[..n], &b[..n], &c[..n], &d[..n]);
    let zero = simd.splat_f32s(0.0);
    let (mut x, mut y, mut z, mut w) = (zero, zero, zero, zero);
    for at in 0..n {
        x = simd.mul_add_f32s(r[at], a[at], x);
        y = simd.mul_add_f32s(r[at], b[at], y);
        z = simd.mul_add_f32s(r[at], c[at], z);
        w = simd.mul_add_f32s(r[at], d[at], w);
    }
    if !r_tail.is_empty() {
        let r = simd.partial_load_f32s(r_tail);
        x = simd.mul_add_f32s(r, simd.partial_load_f32s(a_tail), x);
        y = simd.mul_add_f32s(r, simd.partial_load_f32s(b_tail), y);
        z = simd.mul_add_f32s(r, simd.partial_load_f32s(c_tail), z);
        w = simd.mul_add_f32s(r, simd.partial_load_f32s(d_tail), w);
    }
    [simd.reduce_sum_f32s(x), simd.reduce_sum_f32s(y), simd.reduce_sum_f32s(z), simd.reduce_sum_f32s(w)]
}

/// Adds residuals to the moments of their bones: `row_k += scale_k r_i`, over the terms of vertex `i`.
///
/// Terms come in groups, one for each coordinate of a bone. Bone by bone: the rows of one are read and written once for all vertices that
/// have it, in the order of the vertices.
pub(crate) struct AddMoments<'a> {
    pub table: &'a mut [f32],
    /// [n, L]
    pub residuals: &'a [f32],
    /// Those of one vertex after those of the other.
    pub terms: &'a [Term],
    /// [n] where the terms of each vertex end.
    pub ends: &'a [usize],
    /// Terms of a group: 3 or 4.
    pub coordinates: usize,
}

impl WithSimd for AddMoments<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        match self.coordinates {
            3 => self.add::<S, 3>(simd),
            _ => self.add::<S, 4>(simd),
        }
    }
}

/// A bone of a vertex, as it is added to the moments.
#[derive(Clone, Copy)]
struct Addend {
    /// Where the bone's first row begins.
    start: usize,
    /// Where the vertex's residual begins.
    from: usize,
    /// One for each coordinate.
    scales: [f32; 4],
}

impl AddMoments<'_> {
    #[inline(always)]
    fn add<S: Simd, const C: usize>(self, simd: S) {
        let Self { table, residuals, terms, ends, .. } = self;
        let n = residuals.len() / ends.len();
        let mut addends = Vec::with_capacity(terms.len() / C);
        // From one coordinate of a bone to the next.
        let stride = if terms.len() > 1 { terms[1].start - terms[0].start } else { n };
        let mut first = 0;
        for (vertex, &end) in ends.iter().enumerate() {
            for group in terms[first..end].chunks_exact(C) {
                let mut scales = [0.0; 4];
                for c in 0..C {
                    scales[c] = group[c].scale;
                }
                addends.push(Addend { start: group[0].start, from: vertex * n, scales });
            }
            first = end;
        }
        addends.sort_unstable_by_key(|addend| (addend.start, addend.from));
        for group in addends.chunk_by(|a, b| a.start == b.start) {
            add_bone::<S, C>(simd, table, stride, residuals, n, group);
        }
    }
}

/// Adds all vertices of a bone to its rows, of `n` numbers each.
#[inline(always)]
fn add_bone<S: Simd, const C: usize>(
    simd: S,
    table: &mut [f32],
    stride: usize,
    residuals: &[f32],
    n: usize,
    addends: &[Addend],
) {
    let (start, width) = (addends[0].start, S::F32_LANES);
    let mut at = 0;
    // Two registers at a time: a factor is loaded once for them.
    while at + 2 * width <= n {
        let mut sums = [[simd.splat_f32s(0.0); 2]; C];
        for c in 0..C {
            let row = S::as_simd_f32s(&table[start + c * stride + at..][..2 * width]).0;
            sums[c] = [row[0], row[1]];
        }
        for addend in addends {
            let r = S::as_simd_f32s(&residuals[addend.from + at..][..2 * width]).0;
            for c in 0..C {
                let scale = simd.splat_f32s(addend.scales[c]);
                sums[c][0] = simd.mul_add_f32s(scale, r[0], sums[c][0]);
                sums[c][1] = simd.mul_add_f32s(scale, r[1], sums[c][1]);
            }
        }
        for c in 0..C {
            let row = S::as_mut_simd_f32s(&mut table[start + c * stride + at..][..2 * width]).0;
            (row[0], row[1]) = (sums[c][0], sums[c][1]);
        }
        at += 2 * width;
    }
    while at < n {
        let count = width.min(n - at);
        let mut sums = [simd.splat_f32s(0.0); C];
        for c in 0..C {
            sums[c] = simd.partial_load_f32s(&table[start + c * stride + at..][..count]);
        }
        for addend in addends {
            let r = simd.partial_load_f32s(&residuals[addend.from + at..][..count]);
            for c in 0..C {
                sums[c] = simd.mul_add_f32s(simd.splat_f32s(addend.scales[c]), r, sums[c]);
            }
        }
        for c in 0..C {
            simd.partial_store_f32s(&mut table[start + c * stride + at..][..count], sums[c]);
        }
        at += count;
    }
}

/// Products of four rows with four others, for several others: `out[c][d] = a_c . b_d`.
pub(crate) struct Products<'a> {
    pub rows: [&'a [f64]; 4],
    pub others: &'a mut dyn Iterator<Item = [&'a [f64]; 4]>,
    pub out: &'a mut Vec<[[f64; 4]; 4]>,
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, others, out } = self;
        // Plain loops: what closures call is not compiled for the wide registers.
        let n = rows[0].len();
        let whole = n / S::F64_LANES;
        let [(p, p_tail), (q, q_tail), (r, r_tail), (s, s_tail)] = [
            S::as_simd_f64s(&rows[0][..n]),
            S::as_simd_f64s(&rows[1][..n]),
            S::as_simd_f64s(&rows[2][..n]),
            S::as_simd_f64s(&rows[3][..n]),
        ];
        let (p, q, r, s) = (&p[..whole], &q[..whole], &r[..whole], &s[..whole]);
        let tails = [p_tail, q_tail, r_tail, s_tail];
        for other in others {
            let mut products = [[0.0; 4]; 4];
            // Two of the others at a time: the four rows are loaded once for them.
            for d in [0, 2] {
                let (a, a_tail) = S::as_simd_f64s(&other[d][..n]);
                let (b, b_tail) = S::as_simd_f64s(&other[d + 1][..n]);
                let (a, b) = (&a[..whole], &b[..whole]);
                let zero = simd.splat_f64s(0.0);
                let (mut x, mut y, mut z, mut w) = ([zero; 2], [zero; 2], [zero; 2], [zero; 2]);
                for at in 0..whole {
                    x[0] = simd.mul_add_f64s(p[at], a[at], x[0]);
                    y[0] = simd.mul_add_f64s(q[at], a[at], y[0]);
                    z[0] = simd.mul_add_f64s(r[at], a[at], z[0]);
                    w[0] = simd.mul_add_f64s(s[at], a[at], w[0]);
                    x[1] = simd.mul_add_f64s(p[at], b[at], x[1]);
                    y[1] = simd.mul_add_f64s(q[at], b[at], y[1]);
                    z[1] = simd.mul_add_f64s(r[at], b[at], z[1]);
                    w[1] = simd.mul_add_f64s(s[at], b[at], w[1]);
                }
                let (sums, other_tails) = ([x, y, z, w], [a_tail, b_tail]);
                for c in 0..4 {
                    for e in 0..2 {
                        let mut sum = simd.reduce_sum_f64s(sums[c][e]);
                        for at in 0..other_tails[e].len() {
                            sum += tails[c][at] * other_tails[e][at];
                        }
                        products[c][d + e] = sum;
                    }
                }
            }
            out.push(products);
        }
    }
}

/// `r -= sum_c x[c] rows[c]`: takes one bone's share off a residual.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn subtract4(r: &mut [f32], x: [f32; 4], rows: [&[f32]; 4]) {
    let n = r.len();
    let [a, b, c, d] = rows.map(|row| &row[..n]);
    for l in 0..n {
        r[l] -= x[0] * a[l] + x[1] * b[l] + (x[2] * c[l] + x[3] * d[l]);
    }
}

/// `out += sum_c x[c] rows[c]`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn combine4(out: &mut [f64], x: [f64; 4], rows: [&[f64]; 4]) {
    let n = out.len();
    let [a, b, c, d] = rows.map(|row| &row[..n]);
    for l in 0..n {
        out[l] += x[0] * a[l] + x[1] * b[l] + (x[2] * c[l] + x[3] * d[l]);
    }
}

/// `out += x row`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn add_scaled(out: &mut [f64], x: f64, row: &[f64]) {
    let n = out.len();
    let row = &row[..n];
    for l in 0..n {
        out[l] += x * row[l];
    }
}

/// `sum r^2` in eight fixed partial sums.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn squared(r: &[f32]) -> f64 {
    let mut sums = [0f64; 8];
    let chunks = r.chunks_exact(8);
    for x in chunks.remainder() {
        sums[0] += f64::from(*x) * f64::from(*x);
    }
    for chunk in chunks {
        for (sum, x) in sums.iter_mut().zip(chunk) {
            *sum += f64::from(*x) * f64::from(*x);
        }
    }
    sums.iter().sum()
}

/// `out[d] += sign sum_c input[c] block[c][d]` for four rows each of `out` and `input`, laid end to end.
///
/// Row lengths are known at run time only, on purpose: with constants the compiler unrolls instead of vectorising.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn mix4(out: &mut [f64], input: &[f64], block: &[[f64; 4]; 4], sign: f64) {
    let n = input.len() / 4;
    let (a, rest) = input.split_at(n);
    let (b, rest) = rest.split_at(n);
    let (c, d) = rest.split_at(n);
    for (row, out) in out.chunks_exact_mut(n).enumerate() {
        let s = [block[0][row], block[1][row], block[2][row], block[3][row]].map(|s| sign * s);
        for l in 0..n {
            out[l] += s[0] * a[l] + s[1] * b[l] + (s[2] * c[l] + s[3] * d[l]);
        }
    }
}

/// A bone's 4x3 matrix in eight frames: `[coordinate][axis]`.
pub(crate) type TileBone = [[Lane; 3]; 4];

/// `out_k[d] -= sum_c change[c] block_k[c][d]` for some `k`: what a bone's change means to the bones it overlaps.
pub(crate) struct Spread<'a> {
    pub change: &'a TileBone,
    pub out: &'a mut [TileBone],
    /// (k, 4x4 block)
    pub blocks: &'a [(usize, [[f64; 4]; 4])],
}

impl WithSimd for Spread<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { change, out, blocks } = self;
        for part in 0..LANES / S::F64_LANES {
            let change: [[S::f64s; 3]; 4] = change.map(|row| row.map(|lane| S::as_simd_f64s(&lane).0[part]));
            for (k, block) in blocks {
                for (d, out) in out[*k].iter_mut().enumerate() {
                    let scale: [S::f64s; 4] = std::array::from_fn(|c| simd.splat_f64s(-block[c][d]));
                    for (a, out) in out.iter_mut().enumerate() {
                        let out = &mut S::as_mut_simd_f64s(out).0[part];
                        let mut sum = *out;
                        for c in 0..4 {
                            sum = simd.mul_add_f64s(scale[c], change[c][a], sum);
                        }
                        *out = sum;
                    }
                }
            }
        }
    }
}
