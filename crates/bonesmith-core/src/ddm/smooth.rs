//! The implicit smoothing `B = (I + Lambda L)^-p` applied to many columns at once.
//!
//! `L` is the row-normalised Laplacian `I - D^-1 C` with symmetric edge weights `C`, `Lambda` a diagonal of lambda per
//! node. `Lambda L` is not symmetric, but similar to a symmetric matrix with its spectrum in `[0, 2 max lambda]`, so that
//! any smooth function of it is a short series of Chebyshev polynomials. That needs no factorisation, so no symmetric one
//! of an unsymmetric matrix either; rows of `B` sum to 1 by construction (`L 1 = 0`, and the series is scaled to be 1
//! at 0); and steps may differ from vertex to vertex: each row has its own coefficients of the same polynomials.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::mesh::{Laplacian, LaplacianRows, Topology};
use crate::observer::{Cancelled, Stages};

/// Terms left out are below this, relative to 1.
const TOLERANCE: f64 = 1e-12;
/// Coefficients are computed from at most this many samples.
const MAX_SAMPLES: usize = 1 << 14;
/// Nodes per task.
const CHUNK: usize = 512;

/// `D^-1 C` in compressed rows; empty where a node has no neighbours.
pub(super) struct Neighbours {
    starts: Vec<u32>,
    columns: Vec<u32>,
    weights: Vec<f64>,
}

impl Neighbours {
    pub fn new(kind: Laplacian, topology: &Topology, places: &[glam::Vec3]) -> Self {
        let mut all = Self { starts: vec![0], columns: Vec::new(), weights: Vec::new() };
        for row in LaplacianRows::new(kind, topology, places).rows {
            // Its own column comes first.
            for &(column, value) in &row[1..] {
                all.columns.push(column);
                all.weights.push(-value);
            }
            all.starts.push(all.columns.len() as u32);
        }
        all
    }

    fn row(&self, i: usize) -> std::ops::Range<usize> {
        self.starts[i] as usize..self.starts[i + 1] as usize
    }

    /// Neighbours of node `i` and their shares, which sum to 1.
    pub fn of(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        let row = self.row(i);
        self.columns[row.clone()].iter().map(|&c| c as usize).zip(self.weights[row].iter().copied())
    }
}

/// `(I + Lambda L)^-p` with lambda and p of each node.
pub(super) struct Smoother {
    /// [nodes] lambda over the largest; 0 for nodes without neighbours.
    share: Vec<f64>,
    /// [nodes] row of `series`.
    class: Vec<u32>,
    /// [classes, terms] coefficients of the Chebyshev polynomials.
    series: Vec<Vec<f64>>,
}

impl Smoother {
    /// `lambda` and `steps` of each node.
    pub fn new(neighbours: &Neighbours, lambda: &[f64], steps: &[u32]) -> Self {
        let lone = |i: usize| neighbours.row(i).is_empty();
        let largest = lambda.iter().enumerate().filter(|(i, _)| !lone(*i)).fold(0.0f64, |a, (_, &b)| a.max(b));
        let share = |(i, &l): (usize, &f64)| if lone(i) || largest == 0.0 { 0.0 } else { l / largest };
        let mut distinct = steps.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let class = steps.iter().map(|p| distinct.partition_point(|q| q < p) as u32).collect();
        let mut series: Vec<Vec<f64>> = distinct.iter().map(|&p| chebyshev(largest, p)).collect();
        let terms = series.iter().map(Vec::len).max().unwrap_or(1);
        series.iter_mut().for_each(|row| row.resize(terms, 0.0));
        Self { share: lambda.iter().enumerate().map(share).collect(), class, series }
    }

    /// Smooths [nodes] rows of `W` columns.
    pub fn apply<const W: usize>(
        &self,
        neighbours: &Neighbours,
        x: &[[f64; W]],
        stages: &mut Stages<'_>,
    ) -> Result<Vec<[f64; W]>, Cancelled> {
        let mut sum: Vec<[f64; W]> = vec![[0.0; W]; x.len()];
        self.add_term(0, 0, x, &mut sum);
        let mut before = x.to_vec();
        let mut last = vec![[0.0; W]; x.len()];
        for term in 1..self.series.first().map_or(0, Vec::len) {
            stages.report(None)?;
            // T_1 = s, with s = x - 1 on [-1, 1]: half of the recurrence's step, and no term before it.
            let (factor, keep) = if term == 1 { (1.0, 0.0) } else { (2.0, 1.0) };
            let (x, out) = if term == 1 { (&before, &mut last) } else { (&last, &mut before) };
            let chunks = out.par_chunks_mut(CHUNK).zip(sum.par_chunks_mut(CHUNK)).enumerate();
            chunks.for_each(|(chunk, (out, sum))| {
                step(&self.share, neighbours, factor, x, chunk * CHUNK, out, keep);
                self.add_term(term, chunk * CHUNK, out, sum);
            });
            if term > 1 {
                std::mem::swap(&mut before, &mut last);
            }
        }
        Ok(sum)
    }

    /// Adds a polynomial at the nodes from `first` on.
    fn add_term<const W: usize>(&self, term: usize, first: usize, x: &[[f64; W]], sum: &mut [[f64; W]]) {
        for ((sum, x), &class) in sum.iter_mut().zip(x).zip(&self.class[first..]) {
            let c = self.series[class as usize][term];
            (0..W).for_each(|a| sum[a] += c * x[a]);
        }
    }
}

/// `out <- factor (Lambda L - I) x - keep out` of the nodes from `first` on, Lambda relative to its largest.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn step<const W: usize>(
    share: &[f64],
    neighbours: &Neighbours,
    factor: f64,
    x: &[[f64; W]],
    first: usize,
    out: &mut [[f64; W]],
    keep: f64,
) {
    for (i, out) in (first..).zip(out) {
        let row = neighbours.row(i);
        let mut mean = [0.0; W];
        for (&k, &weight) in neighbours.columns[row.clone()].iter().zip(&neighbours.weights[row]) {
            let other = &x[k as usize];
            for a in 0..W {
                mean[a] += weight * other[a];
            }
        }
        for a in 0..W {
            let laplacian = share[i] * (x[i][a] - mean[a]);
            out[a] = factor * (laplacian - x[i][a]) - keep * out[a];
        }
    }
}

/// Coefficients of `(1 + lambda x)^-p`, x in [0, 2], in Chebyshev polynomials of `x - 1`; 1 at x = 0 exactly.
fn chebyshev(lambda: f64, steps: u32) -> Vec<f64> {
    let value = |x: f64| (-f64::from(steps) * (lambda * x).ln_1p()).exp();
    let mut samples = 32;
    loop {
        let angle = |m: usize| std::f64::consts::PI * (m as f64 + 0.5) / samples as f64;
        let values: Vec<f64> = (0..samples).map(|m| value(1.0 + angle(m).cos())).collect();
        let terms = samples / 2;
        let mut series: Vec<f64> = (0..terms)
            .map(|k| {
                let sum: f64 = values.iter().enumerate().map(|(m, v)| v * (k as f64 * angle(m)).cos()).sum();
                sum * if k == 0 { 1.0 } else { 2.0 } / samples as f64
            })
            .collect();
        let used = series.iter().rposition(|c| c.abs() > TOLERANCE).map_or(1, |last| last + 1);
        // The last quarter empty: what lies beyond is smaller still, the coefficients fall geometrically.
        if used <= terms * 3 / 4 || samples >= MAX_SAMPLES {
            series.truncate(used);
            let at_zero: f64 = series.iter().enumerate().map(|(k, c)| if k % 2 == 0 { *c } else { -c }).sum();
            series.iter_mut().for_each(|c| *c /= at_zero);
            return series;
        }
        samples *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observer::Silent;
    use glam::Vec3;

    /// An irregular, obtuse strip, and a vertex of no face.
    fn mesh() -> (Topology, Vec<Vec3>) {
        let places: Vec<Vec3> = (0..24)
            .map(|i| Vec3::new((i / 2) as f32 * 0.7 + (i % 3) as f32 * 0.2, (i % 2) as f32 * 0.3, (i % 5) as f32 * 0.1))
            .chain([Vec3::splat(9.0)])
            .collect();
        let triangles: Vec<[u32; 3]> = (0..22).map(|i| [i, i + 1, i + 2]).collect();
        (Topology::from_triangles(&triangles), places)
    }

    /// `(I + Lambda L)^p y - x`, which must vanish: no series, no solver.
    fn residual(neighbours: &Neighbours, lambda: &[f64], p: u32, x: &[[f64; 1]], y: &[[f64; 1]]) -> f64 {
        let mut y = y.to_vec();
        for _ in 0..p {
            let next: Vec<[f64; 1]> = (0..y.len())
                .map(|i| {
                    let mean: f64 = neighbours.of(i).map(|(k, w)| w * y[k][0]).sum();
                    let lone = neighbours.row(i).is_empty();
                    [y[i][0] + if lone { 0.0 } else { lambda[i] * (y[i][0] - mean) }]
                })
                .collect();
            y = next;
        }
        x.iter().zip(&y).map(|(a, b)| (a[0] - b[0]).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn undoing_the_steps_gives_the_input_back() {
        let (topology, places) = mesh();
        for kind in [Laplacian::Cotangent, Laplacian::Uniform] {
            let neighbours = Neighbours::new(kind, &topology, &places);
            let x: Vec<[f64; 1]> = (0..places.len()).map(|i| [(0.9 * i as f64).sin()]).collect();
            for (scale, p) in [(0.5, 1), (3.0, 3), (20.0, 2), (0.0, 4), (1000.0, 1)] {
                let lambda: Vec<f64> = (0..places.len()).map(|i| scale * (1.0 + (i % 4) as f64) / 4.0).collect();
                let smoother = Smoother::new(&neighbours, &lambda, &vec![p; places.len()]);
                let y = smoother.apply(&neighbours, &x, &mut Stages::new(&mut Silent)).unwrap();
                // Undoing a step multiplies what is off by up to 1 + 2 lambda.
                let limit = 1e-10 * (1.0 + 2.0 * scale).powi(p as i32);
                let off = residual(&neighbours, &lambda, p, &x, &y);
                assert!(off < limit, "{kind:?} {scale} {p}: {off} above {limit}");
            }
        }
    }

    #[test]
    fn rows_sum_to_one_and_steps_may_differ() {
        let (topology, places) = mesh();
        let neighbours = Neighbours::new(Laplacian::Cotangent, &topology, &places);
        let n = places.len();
        let lambda: Vec<f64> = (0..n).map(|i| 0.3 * i as f64).collect();
        let mixed: Vec<u32> = (0..n as u32).map(|i| 1 + i % 3).collect();
        let ones = vec![[1.0]; n];
        let smooth = |steps: &[u32], x: &[[f64; 1]]| {
            let smoother = Smoother::new(&neighbours, &lambda, steps);
            smoother.apply(&neighbours, x, &mut Stages::new(&mut Silent)).unwrap()
        };
        assert!(smooth(&mixed, &ones).iter().all(|y| (y[0] - 1.0).abs() < 1e-12));
        let x: Vec<[f64; 1]> = (0..n).map(|i| [(i * i % 7) as f64]).collect();
        let all: Vec<Vec<[f64; 1]>> = (1..=3).map(|p| smooth(&vec![p; n], &x)).collect();
        let own = smooth(&mixed, &x);
        assert!((0..n).all(|i| (own[i][0] - all[i % 3][i][0]).abs() < 1e-10));
        // A vertex of no face is left alone.
        assert!((own[n - 1][0] - x[n - 1][0]).abs() < 1e-12);
    }
}
