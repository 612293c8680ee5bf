//! The inner loops over bones, compiled for several instruction sets and picked at run time.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use multiversion::multiversion;

/// `out += sum_c x[c] rows[c]`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(super) fn combine4(out: &mut [f64], x: [f64; 4], rows: [&[f64]; 4]) {
    let n = out.len();
    let [a, b, c, d] = rows.map(|row| &row[..n]);
    for l in 0..n {
        out[l] += x[0] * a[l] + x[1] * b[l] + (x[2] * c[l] + x[3] * d[l]);
    }
}

/// `out += x row`.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(super) fn add_scaled(out: &mut [f64], x: f64, row: &[f64]) {
    let n = out.len();
    let row = &row[..n];
    for l in 0..n {
        out[l] += x * row[l];
    }
}
