//! How fast the fit's inner loops run here, against what this machine can do at best.

use std::hint::black_box;
use std::time::Instant;

use faer::traits::ComplexField;
use pulp::Arch;

use crate::solve::kernels::{AddMoments, Residuals, Spread, Term, TileBone};
use crate::solve::matrix;

/// Speed of one inner loop on one thread.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// What it computes.
    pub name: &'static str,
    /// Billions of additions and multiplications a second.
    pub gflops: f64,
    /// The most that a large matrix product of the same precision reaches in the same run.
    pub peak_gflops: f64,
}

/// A block of the size that the fit works on: a hundred and some frames, some dozen bones, four of them per vertex.
const VERTICES: usize = 64;
const LENGTH: usize = 432;
const BONES: usize = 32;
const INFLUENCES: usize = 4;

/// Seconds that each loop is run for, in parts of which the fastest counts.
const SECS: f64 = 0.3;
const PARTS: usize = 10;

/// Measures the loops that take most of a fit, one thread.
pub fn kernel_rates() -> Vec<Rate> {
    let (single, double) = (product_rate::<f32>(768, 768, 768), product_rate::<f64>(512, 512, 512));
    let rate = |name, gflops| Rate { name, gflops, peak_gflops: single };
    vec![
        rate("residuals of all vertices times all bones", product_rate::<f32>(VERTICES, 4 * BONES, LENGTH)),
        rate("residuals", residual_rate()),
        rate("moments of residuals", moment_rate()),
        Rate { name: "couplings of rigid bones", gflops: coupling_rate(), peak_gflops: double },
    ]
}

/// Billions of operations a second of something that takes `flops` of them a time.
fn measure(flops: f64, mut work: impl FnMut()) -> f64 {
    let once = Instant::now();
    work();
    let repeats = (SECS / PARTS as f64 / once.elapsed().as_secs_f64().max(1e-9)).ceil().min(1e6) as usize;
    let part = |_| {
        let start = Instant::now();
        (0..repeats).for_each(|_| work());
        start.elapsed().as_secs_f64() / repeats as f64
    };
    let least = (0..PARTS).map(part).fold(f64::INFINITY, f64::min);
    flops / least / 1e9
}

/// Numbers that are neither zero nor denormal.
fn numbers(count: usize) -> impl Iterator<Item = f32> {
    (0..count).map(|at| 0.1 + (at % 97) as f32 / 97.0)
}

/// `A B^T` of [m, k] and [n, k], as the fit multiplies.
fn product_rate<T: ComplexField + From<f32>>(m: usize, n: usize, k: usize) -> f64 {
    let filled = |count: usize| -> Vec<T> { numbers(count).map(T::from).collect() };
    let (a, b, mut out) = (filled(m * k), filled(n * k), filled(m * n));
    measure(2.0 * (m * n * k) as f64, || {
        matrix::product_into(&mut out, matrix::rows(&a, k), matrix::rows(&b, k).transpose());
        black_box(&mut out);
    })
}

/// Four bones for each vertex of a block.
fn terms() -> (Vec<Term>, Vec<usize>) {
    let bone = |i: usize, k: usize| (i / 8 + 7 * k) % BONES;
    let of = |i: usize| {
        (0..INFLUENCES)
            .flat_map(move |k| (0..4).map(move |c| Term { start: (c * BONES + bone(i, k)) * LENGTH, scale: 0.1 }))
    };
    ((0..VERTICES).flat_map(of).collect(), (1..=VERTICES).map(|i| 4 * INFLUENCES * i).collect())
}

fn residual_rate() -> f64 {
    let table: Vec<f32> = numbers(4 * BONES * LENGTH).collect();
    let trajectories: Vec<f32> = numbers(VERTICES * LENGTH).collect();
    let (mut residuals, mut errors) = (trajectories.clone(), vec![0.0; VERTICES]);
    let (terms, ends) = terms();
    measure(2.0 * (terms.len() * LENGTH) as f64, || {
        let (residuals, errors) = (&mut residuals[..], &mut errors[..]);
        let work =
            Residuals { residuals, errors, trajectories: &trajectories, table: &table, terms: &terms, ends: &ends };
        Arch::new().dispatch(work);
        black_box(&mut errors[0]);
    })
}

fn moment_rate() -> f64 {
    let mut table = vec![0f32; 4 * BONES * LENGTH];
    // Small, so that sums stay in range however often they are added.
    let residuals: Vec<f32> = numbers(VERTICES * LENGTH).map(|x| 1e-9 * x).collect();
    let (terms, ends) = terms();
    measure(2.0 * (terms.len() * LENGTH) as f64, || {
        let rows = &mut table[..];
        let work = AddMoments { table: rows, residuals: &residuals, terms: &terms, ends: &ends, coordinates: 4 };
        Arch::new().dispatch(work);
        black_box(&mut table[0]);
    })
}

fn coupling_rate() -> f64 {
    const OTHERS: usize = 12;
    let change: TileBone = [[[1e-9; 8]; 3]; 4];
    let mut out: Vec<TileBone> = vec![[[[1.0; 8]; 3]; 4]; BONES];
    let blocks: Vec<(usize, [[f64; 4]; 4])> = (0..OTHERS).map(|k| (2 * k, [[0.5; 4]; 4])).collect();
    measure((2 * 4 * 96 * OTHERS) as f64, || {
        Arch::new().dispatch(Spread { change: &change, out: &mut out, blocks: &blocks });
        black_box(&mut out[0]);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_loop_is_measured() {
        for rate in kernel_rates() {
            assert!(rate.gflops > 0.0 && rate.gflops.is_finite() && rate.peak_gflops > 0.0, "{rate:?}");
        }
    }
}
