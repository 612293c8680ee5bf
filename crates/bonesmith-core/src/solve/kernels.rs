//! The inner loops over trajectories, compiled for several instruction sets and picked at run time.
//!
//! Plain loops: the compiler vectorises them. Kept together so that dispatch happens in one place.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use multiversion::multiversion;

/// `r -= sum_c x[c] rows[c]`: takes one bone's share off a residual.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn subtract4(r: &mut [f32], x: [f32; 4], rows: [&[f32]; 4]) {
    let n = r.len();
    let [a, b, c, d] = rows.map(|row| &row[..n]);
    for l in 0..n {
        r[l] -= x[0] * a[l] + x[1] * b[l] + (x[2] * c[l] + x[3] * d[l]);
    }
}

/// `rows[c] += x[c] r`: adds a residual to one bone's moments.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn accumulate4(rows: [&mut [f32]; 4], x: [f32; 4], r: &[f32]) {
    let n = r.len();
    let [a, b, c, d] = rows.map(|row| &mut row[..n]);
    for l in 0..n {
        a[l] += x[0] * r[l];
        b[l] += x[1] * r[l];
        c[l] += x[2] * r[l];
        d[l] += x[3] * r[l];
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
