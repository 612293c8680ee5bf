//! Trajectories in a space of few dimensions: `A ~ B C` with orthonormal `B` [Kavan2010 s.3, alg. 1].
//!
//! | paper | here |
//! |---|---|
//! | A, column of vertex i | `trajectories`, row i (L numbers) |
//! | B, column l | `Subspace::basis`, row l |
//! | C, column of vertex i | `Subspace::coordinates`, row i (d numbers) |
//! | m_i, the column of largest norm | `direction` |
//!
//! The same numbers as algorithm 1, in another order: the paper subtracts every new direction from all columns
//! (line 7), here only the columns that are picked are ever made orthogonal. A direction `m` is orthogonal to all
//! earlier ones, so `m^T A_i = m^T A`: the data stays as it is, is read once per direction and never written, and no
//! rounding accumulates in it. Column norms follow from Pythagoras, in float64.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::observer::{Cancelled, Check};
use crate::skinning::{Problem, Run};
use crate::solve::kernels::squared;

/// An orthonormal basis and the coordinates of all trajectories in it.
pub(super) struct Subspace {
    /// d.
    pub dimension: usize,
    /// L.
    pub length: usize,
    /// [d, L] orthonormal rows.
    pub basis: Vec<f64>,
    /// [N, d] coordinates of each trajectory.
    pub coordinates: Vec<f32>,
    /// `|B C - A|_F^2`: what the subspace leaves out.
    pub squared_error: f64,
}

/// Squared share of a column below which what is left of it is rounding of float32 and no direction.
const NOISE: f64 = 1e-14;

impl Subspace {
    /// Leaves out at most `tolerance` of each coordinate, in radii of the model, in the root mean square.
    pub fn new(problem: &Problem, tolerance: f64, run: &mut Run<'_>) -> Result<Self, Cancelled> {
        let epsilon = tolerance * (problem.trajectories.len() as f64).sqrt();
        run.observed("subspace", |run| reduce(&problem.trajectories, problem.length, epsilon, &mut || run.report()))
    }

    /// [r, d] coordinates of [r, L] rows.
    pub fn reduced(&self, rows: &[f64]) -> Vec<f64> {
        let coordinates = |row| self.basis.chunks_exact(self.length).map(move |direction| dot64(direction, row));
        rows.chunks_exact(self.length).flat_map(coordinates).collect()
    }

    /// [r, L] rows with [r, d] coordinates.
    pub fn in_all_frames(&self, coordinates: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; coordinates.len() / self.dimension * self.length];
        for (out, point) in out.chunks_exact_mut(self.length).zip(coordinates.chunks_exact(self.dimension)) {
            for (x, direction) in point.iter().zip(self.basis.chunks_exact(self.length)) {
                out.iter_mut().zip(direction).for_each(|(out, b)| *out += x * b);
            }
        }
        out
    }
}

/// Finds a subspace with `|B C - A|_F <= epsilon`, or one that leaves out no more than rounding.
///
/// `trajectories` is [N, L] with N, L >= 1. The dimension is at least 1, also where none is needed.
fn reduce(trajectories: &[f32], length: usize, epsilon: f64, check: Check<'_>) -> Result<Subspace, Cancelled> {
    let n = trajectories.len() / length;
    let mut basis: Vec<f64> = Vec::new();
    // [d][N] rows of C.
    let mut rows: Vec<Vec<f32>> = Vec::new();
    let mut norms = squared_norms(trajectories, length);
    let floors: Vec<f64> = norms.iter().map(|norm| NOISE * norm).collect();
    while rows.len() < length.min(n) && norms.iter().sum::<f64>() > epsilon * epsilon {
        let picked = largest(&norms);
        let mut direction: Vec<f64> =
            trajectories[picked * length..(picked + 1) * length].iter().map(|&x| f64::from(x)).collect();
        // Twice: the first takes the place of the deflations, the second is the stabilisation of line 5.
        make_orthogonal(&mut direction, &basis);
        make_orthogonal(&mut direction, &basis);
        let norm = direction.iter().map(|x| x * x).sum::<f64>();
        if norm <= floors[picked] {
            norms[picked] = 0.0;
            continue;
        }
        direction.iter_mut().for_each(|x| *x /= norm.sqrt());
        rows.push(project(trajectories, &direction, &mut norms));
        norms[picked] = 0.0;
        basis.extend_from_slice(&direction);
        check()?;
    }
    let squared_error = norms.iter().sum();
    if rows.is_empty() {
        // Every trajectory is 0 or close to it.
        basis.resize(length, 0.0);
        basis[0] = 1.0;
        rows.push(vec![0.0; n]);
    }
    Ok(Subspace { dimension: rows.len(), length, basis, coordinates: transposed(&rows, n), squared_error })
}

/// Vertices that one thread takes at a time.
const BLOCK: usize = 64;

/// [N] `|a_i|^2`.
fn squared_norms(trajectories: &[f32], length: usize) -> Vec<f64> {
    trajectories.par_chunks(length).with_min_len(BLOCK).map(squared).collect()
}

/// The first of the largest.
fn largest(norms: &[f64]) -> usize {
    (1..norms.len()).fold(0, |best, i| if norms[i] > norms[best] { i } else { best })
}

/// Takes off the part that lies in the span of orthonormal rows (classical Gram-Schmidt).
fn make_orthogonal(direction: &mut [f64], basis: &[f64]) {
    let shares: Vec<f64> = basis.chunks_exact(direction.len()).map(|row| dot64(row, direction)).collect();
    for (row, share) in basis.chunks_exact(direction.len()).zip(shares) {
        direction.iter_mut().zip(row).for_each(|(x, b)| *x -= share * b);
    }
}

/// `m^T A`: a row of C; what it explains goes off the squared norms.
fn project(trajectories: &[f32], direction: &[f64], norms: &mut [f64]) -> Vec<f32> {
    let columns = trajectories.par_chunks(direction.len()).with_min_len(BLOCK).zip(norms.par_iter_mut());
    columns
        .map(|(column, norm)| {
            let share = dot(column, direction);
            *norm = (*norm - share * share).max(0.0);
            share as f32
        })
        .collect()
}

/// `[d][N]` to `[N, d]`, in blocks of vertices so that both sides stay in cache.
fn transposed(rows: &[Vec<f32>], n: usize) -> Vec<f32> {
    let d = rows.len();
    let mut out = vec![0f32; n * d];
    out.par_chunks_mut(BLOCK * d).enumerate().for_each(|(block, out)| {
        for (l, row) in rows.iter().enumerate() {
            for (at, &x) in row[block * BLOCK..].iter().take(BLOCK).enumerate() {
                out[at * d + l] = x;
            }
        }
    });
    out
}

/// Scalar product in eight fixed partial sums of float64.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn dot(a: &[f32], b: &[f64]) -> f64 {
    let mut sums = [0f64; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in a8.remainder().iter().zip(b8.remainder()) {
        sums[0] += f64::from(*x) * y;
    }
    for (x, y) in a8.zip(b8) {
        for l in 0..8 {
            sums[l] += f64::from(x[l]) * y[l];
        }
    }
    sums.iter().sum()
}

/// Scalar product in eight fixed partial sums.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn dot64(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0f64; 8];
    let (a8, b8) = (a.chunks_exact(8), b.chunks_exact(8));
    for (x, y) in a8.remainder().iter().zip(b8.remainder()) {
        sums[0] += x * y;
    }
    for (x, y) in a8.zip(b8) {
        for l in 0..8 {
            sums[l] += x[l] * y[l];
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::synthetic::{PosedRigParams, awkward, clownfish, posed_rig};
    use faer::MatRef;

    fn run(trajectories: &[f32], length: usize, epsilon: f64) -> Subspace {
        reduce(trajectories, length, epsilon, &mut || Ok(())).unwrap()
    }

    /// Largest entry of `B B^T - I`.
    fn skew(s: &Subspace) -> f64 {
        let row = |l: usize| &s.basis[l * s.length..(l + 1) * s.length];
        let pairs = (0..s.dimension).flat_map(|l| (0..=l).map(move |m| (l, m)));
        pairs.map(|(l, m)| (dot64(row(l), row(m)) - f64::from(u8::from(l == m))).abs()).fold(0.0, f64::max)
    }

    /// `|B C - A|_F` number by number.
    fn distance(s: &Subspace, trajectories: &[f32]) -> f64 {
        let columns = trajectories.chunks(s.length).zip(s.coordinates.chunks(s.dimension));
        let squared = |(column, shares): (&[f32], &[f32])| {
            let at =
                |l: usize| -> f64 { (0..s.dimension).map(|d| s.basis[d * s.length + l] * f64::from(shares[d])).sum() };
            (0..s.length).map(|l| (f64::from(column[l]) - at(l)).powi(2)).sum::<f64>()
        };
        columns.map(squared).sum::<f64>().sqrt()
    }

    /// Fewest dimensions that any subspace needs for this error.
    fn by_svd(trajectories: &[f32], length: usize, epsilon: f64) -> usize {
        let wide: Vec<f64> = trajectories.iter().map(|&x| f64::from(x)).collect();
        let matrix = MatRef::from_row_major_slice(&wide, wide.len() / length, length);
        let values = matrix.singular_values().unwrap();
        let mut left = 0.0;
        let dropped = values.iter().rev().take_while(|s| {
            left += *s * *s;
            left <= epsilon * epsilon
        });
        (values.len() - dropped.count()).max(1)
    }

    fn problem(raw: crate::mesh::sequence::RawSequence) -> Problem {
        Problem::new(&MeshSequence::try_from(raw).unwrap())
    }

    #[test]
    fn the_error_is_kept_with_few_dimensions() {
        let rig = posed_rig(7, &PosedRigParams { bones: 12, frames: 40, ..PosedRigParams::default() });
        for problem in [problem(rig.sequence), problem(clownfish())] {
            for tolerance in [5e-3, 5e-4] {
                let epsilon = tolerance * (problem.trajectories.len() as f64).sqrt();
                let s = run(&problem.trajectories, problem.length, epsilon);
                assert!(skew(&s) < 1e-13, "{}", skew(&s));
                let distance = distance(&s, &problem.trajectories);
                assert!(distance <= epsilon * (1.0 + 1e-6), "{distance} {epsilon}");
                assert!((distance - s.squared_error.sqrt()).abs() < 1e-3 * epsilon);
                // [Kavan2010 table 1] 101 dimensions where 69 are possible.
                let least = by_svd(&problem.trajectories, problem.length, epsilon);
                assert!(s.dimension >= least && s.dimension <= 2 * least + 2, "{} {least}", s.dimension);
            }
        }
    }

    #[test]
    fn all_dimensions_are_used_where_nothing_may_be_left_out() {
        let problem = problem(awkward::bending_tube());
        let s = run(&problem.trajectories, problem.length, 0.0);
        assert!(skew(&s) < 1e-13);
        assert!(distance(&s, &problem.trajectories) < 1e-5);
    }

    #[test]
    fn there_is_a_dimension_where_none_is_needed() {
        let s = run(&[0.0; 60], 6, 1e-3);
        assert_eq!((s.dimension, s.basis.len(), s.coordinates.as_slice()), (1, 6, [0.0; 10].as_slice()));
        assert!(skew(&s) < 1e-15);
    }

    #[test]
    fn a_cancelled_reduction_ends() {
        let (problem, mut directions) = (problem(awkward::bending_tube()), 0);
        let check: Check<'_> = &mut || {
            directions += 1;
            if directions == 3 { Err(Cancelled) } else { Ok(()) }
        };
        assert!(reduce(&problem.trajectories, problem.length, 0.0, check).is_err());
        assert_eq!(directions, 3);
    }

    #[test]
    fn rows_come_back_from_their_coordinates() {
        let problem = problem(clownfish());
        let s = run(&problem.trajectories, problem.length, 0.0);
        let rows: Vec<f64> = problem.trajectories[..5 * problem.length].iter().map(|&x| f64::from(x)).collect();
        let back = s.in_all_frames(&s.reduced(&rows));
        assert!(back.iter().zip(&rows).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}
