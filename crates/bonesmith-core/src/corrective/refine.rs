//! Shapes and their weights, solved in turn for the error of the posed vertices.
//!
//! `min sum_ti |r_ti - M_ti sum_k c_tk d_ki|^2`: the weights `c_t` of a frame for given shapes, then the displacements `d_i`
//! of a vertex for given weights, both linear least squares. Displacements are damped like the pull-back that they start
//! from, so that those which no frame shows do not grow.

use std::ops::Range;

use faer::{Mat, MatRef};
use glam::DVec3;
use rayon::prelude::*;

use crate::corrective::eigenskin::{BLOCK, Residuals};
use crate::observer::{Cancelled, Stages};
use crate::solve::matrix::{product, rows, solve_ridged};

/// Maximum of rounds.
pub(super) const ROUNDS: usize = 8;

/// A round that lowers the error by less than this share is the last.
const TOLERANCE: f64 = 0.01;

/// Above so many shapes there is one round only: systems of three times their number for every vertex take long.
const MANY_SHAPES: usize = 64;

/// Numbers of one block's products: they stay in cache.
const BLOCK_NUMBERS: usize = 1 << 18;

/// [R][N] displacements.
pub(super) type Shapes = Vec<Vec<DVec3>>;

/// [F][R] weights of the shapes.
type Weights = Vec<Vec<f64>>;

/// The best weights of the given shapes, then better shapes, and so on.
pub(super) fn refine(
    residuals: &Residuals,
    shapes: Shapes,
    stages: &mut Stages,
) -> Result<(Shapes, Weights), Cancelled> {
    let rounds = match shapes.len() {
        0 => 0,
        1..=MANY_SHAPES => ROUNDS,
        _ => 1,
    };
    let (weights, mut error) = all_weights(residuals, &shapes, stages)?;
    let mut best = (shapes, weights);
    for _ in 0..rounds {
        stages.step(None)?;
        let shapes = best_shapes(residuals, &best.1, stages)?;
        let (weights, now) = all_weights(residuals, &shapes, stages)?;
        // The damping is no part of the error, which may rise at the end for that reason.
        let (better, enough) = (now < error, now > error * (1.0 - TOLERANCE).powi(2));
        if better {
            (best, error) = ((shapes, weights), now);
        }
        if enough {
            break;
        }
    }
    Ok(best)
}

/// [F][R] weights, and the squared error that is left.
pub(super) fn all_weights(
    residuals: &Residuals,
    shapes: &Shapes,
    stages: &mut Stages,
) -> Result<(Weights, f64), Cancelled> {
    let solved = stages.map(residuals.frame_count(), || (), |(), t| best_weights(residuals, t, shapes))?;
    let error = solved.iter().map(|(_, left)| left).sum();
    Ok((solved.into_iter().map(|(weights, _)| weights).collect(), error))
}

/// [R] weights of the shapes that bring the posed vertices of a frame closest to the truth; the squared error then.
fn best_weights(residuals: &Residuals, t: usize, shapes: &Shapes) -> (Vec<f64>, f64) {
    let (n, rank) = (residuals.vertex_count(), shapes.len());
    // Sums over fixed blocks, added in order: the same with any number of threads. The last one is the error without shapes.
    let width = rank + 1;
    let blocks: Vec<Vec<f64>> = (0..n.div_ceil(BLOCK))
        .into_par_iter()
        .map(|block| {
            let mut sums = vec![0.0; width * width];
            let mut moved = vec![DVec3::ZERO; width];
            let vertices = block * BLOCK..((block + 1) * BLOCK).min(n);
            residuals.read(t..t + 1, vertices, &mut |_, i, at| {
                moved.iter_mut().zip(shapes).for_each(|(v, shape)| *v = at.posed_from_rest * shape[i]);
                moved[rank] = at.missing;
                for (a, v) in moved.iter().enumerate() {
                    moved[..=a].iter().enumerate().for_each(|(b, w)| sums[a * width + b] += v.dot(*w));
                }
            });
            sums
        })
        .collect();
    let mut sums = vec![0.0; width * width];
    blocks.iter().for_each(|block| sums.iter_mut().zip(block).for_each(|(sum, x)| *sum += x));
    let largest = (0..rank).map(|a| sums[a * width + a]).fold(0.0, f64::max);
    let at = |a: usize, b: usize| sums[a.max(b) * width + a.min(b)];
    let weights = solve_ridged(rank, 1e-10 * largest + 1e-300, at, |a| at(rank, a)).unwrap_or(vec![0.0; rank]);
    let gain: f64 = weights.iter().enumerate().map(|(a, x)| x * at(rank, a)).sum();
    (weights, (at(rank, rank) - gain).max(0.0))
}

/// [R][N] displacements for given weights [F][R].
pub(super) fn best_shapes(residuals: &Residuals, weights: &Weights, stages: &mut Stages) -> Result<Shapes, Cancelled> {
    let (n, f, rank) = (residuals.vertex_count(), weights.len(), weights[0].len());
    let pairs: Vec<(usize, usize)> = (0..rank).flat_map(|a| (0..=a).map(move |b| (a, b))).collect();
    let products = Mat::from_fn(pairs.len(), f, |p, t| weights[t][pairs[p].0] * weights[t][pairs[p].1]);
    let factors = Mat::from_fn(rank, f, |k, t| weights[t][k]);
    let block = (BLOCK_NUMBERS / (9 * f.max(pairs.len()))).clamp(1, 64);
    let solve = |(): &mut (), at: usize| {
        let vertices = at * block..((at + 1) * block).min(n);
        displacements(residuals, vertices, products.as_ref(), factors.as_ref())
    };
    let solved = stages.map(n.div_ceil(block), || (), solve)?;
    let mut shapes = vec![Vec::with_capacity(n); rank];
    for of_vertex in solved.into_iter().flatten() {
        shapes.iter_mut().zip(of_vertex).for_each(|(shape, d)| shape.push(d));
    }
    Ok(shapes)
}

/// Entries of a symmetric 3x3 matrix.
const ENTRIES: [(usize, usize); 6] = [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2)];

/// [n][R] displacements of some vertices. `products` are [R (R + 1) / 2, F] products of weights, `factors` [R, F] weights.
fn displacements(
    residuals: &Residuals<'_>,
    vertices: Range<usize>,
    products: MatRef<'_, f64>,
    factors: MatRef<'_, f64>,
) -> Vec<Vec<DVec3>> {
    let (n, f, rank) = (vertices.len(), factors.ncols(), factors.nrows());
    let (mut metrics, mut along) = (vec![0.0; f * 6 * n], vec![0.0; f * 3 * n]);
    residuals.read(0..f, vertices.clone(), &mut |t, i, at| {
        let (metric, k) = (at.metric(), i - vertices.start);
        let entries = ENTRIES.map(|(r, c)| metric.col(c)[r]);
        metrics[(t * n + k) * 6..][..6].copy_from_slice(&entries);
        along[(t * n + k) * 3..][..3].copy_from_slice(&at.along().to_array());
    });
    let sums = product(products, rows(&metrics, 6 * n));
    let right = product(factors, rows(&along, 3 * n));
    let solve = |k: usize| {
        let entry = |r: usize, c: usize| {
            let ((a, x), (b, y)) = ((r / 3, r % 3), (c / 3, c % 3));
            let (a, b, x, y) = (a.max(b), a.min(b), x.max(y), x.min(y));
            sums[(a * (a + 1) / 2 + b) * 6 * n + 6 * k + x * (x + 1) / 2 + y]
        };
        let size = (0..3 * rank).map(|r| entry(r, r)).sum::<f64>() / (3 * rank) as f64;
        let solved = solve_ridged(3 * rank, 1e-10 * size + 1e-300, entry, |r| right[r / 3 * 3 * n + 3 * k + r % 3]);
        solved.map_or(vec![DVec3::ZERO; rank], |x| x.chunks_exact(3).map(DVec3::from_slice).collect())
    };
    (0..n).map(solve).collect()
}
