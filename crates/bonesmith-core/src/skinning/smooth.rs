//! Smooth weights: the rigidness Laplacian [Le2014 s.3.7.2].
//!
//! Adds `s |w_i - w^_i|^2` to the error of each vertex, with `w^_i` the mean of its neighbours' weights, each counted
//! by how rigidly the edge moves: `d_ik = 1 / rms_t(|v_i - v_k| - |u_i - u_k|)` [Le2014 eq. 3.11]. Deviations: the
//! deviation is bounded from below (the printed `d` is infinite along every rigid edge); the penalty is written as
//! the square it is meant to be (the printed off-diagonal entries are negative); neighbours keep the weights of the
//! round before, so vertices stay independent and the order does not matter.

use glam::Vec3;
use rayon::prelude::*;

use crate::mesh::Adjacency;
use crate::model::add_to;
use crate::skinning::{Problem, Skin};

/// Least deviation of an edge, in units of the sphere: below it an edge counts as rigid.
const RIGID: f64 = 1e-3;

/// Error of a vertex, in squared sphere units per frame, that `smooth = 1` charges for wholly different neighbours.
const UNIT: f64 = 1e-2;

/// Mean weights of every vertex's neighbours, as (bone, weight).
pub(crate) type Means = Vec<MeanWeights>;

/// Mean weights of one vertex's neighbours, as (bone, weight).
pub(crate) type MeanWeights = Vec<(u16, f32)>;

/// Neighbours of every vertex and their shares.
pub(crate) struct Smoothness {
    adjacency: Adjacency,
    /// Shares of the neighbours, in the order of `adjacency`; those of a vertex sum to 1.
    shares: Vec<Vec<f32>>,
    /// Factor of `|w_i - w^_i|^2`.
    pub strength: f64,
}

impl Smoothness {
    pub fn new(problem: &Problem, adjacency: Adjacency, smooth: f64) -> Self {
        let shares = deviations(problem, &adjacency)
            .into_par_iter()
            .map(|deviations| {
                let rigidness: Vec<f64> = deviations.iter().map(|deviation| 1.0 / deviation.max(RIGID)).collect();
                let total: f64 = rigidness.iter().sum();
                rigidness.iter().map(|d| (d / total) as f32).collect()
            })
            .collect();
        Self { adjacency, shares, strength: smooth * UNIT * problem.frames() as f64 }
    }

    /// `s sum_i |w_i - w^_i|^2` of present weights.
    pub fn penalty(&self, skin: &Skin) -> f64 {
        let distance = |(i, mean): (usize, &Vec<(u16, f32)>)| {
            let of = |j: usize| mean.iter().find(|(bone, _)| *bone as usize == j).map_or(0.0, |(_, w)| f64::from(*w));
            let total: f64 = mean.iter().map(|(_, w)| f64::from(*w).powi(2)).sum();
            // |w - m|^2 = |m|^2 + sum over the few bones that w has.
            skin.of(i).fold(total, |sum, (j, w)| sum + w * (w - 2.0 * of(j)))
        };
        self.strength * self.means(skin).iter().enumerate().map(distance).sum::<f64>()
    }

    /// Mean weights of every vertex's neighbours, as (bone, weight).
    pub fn means(&self, skin: &Skin) -> Means {
        (0..self.adjacency.len())
            .into_par_iter()
            .map(|i| {
                let mut mean: Vec<(u16, f32)> = Vec::new();
                for (&k, &share) in self.adjacency.of(i).iter().zip(&self.shares[i]) {
                    for (j, w) in skin.of(k as usize) {
                        add_to(&mut mean, j as u16, share * w as f32);
                    }
                }
                mean
            })
            .collect()
    }
}

/// [N][neighbours] root mean square change of each edge's length against the rest pose [Le2014 eq. 3.11b].
fn deviations(problem: &Problem, adjacency: &Adjacency) -> Vec<Vec<f64>> {
    let f = problem.frames();
    let rest = |i: usize, k: usize| problem.rest[i].distance(problem.rest[k]);
    let change = |squared: f32, rest: f64| (f64::from(squared).sqrt() - rest).powi(2);
    // Where trajectories are not in memory, neighbours are in one place in a frame only: sums grow from frame to frame.
    let mut sums: Vec<Vec<f64>> = (0..adjacency.len()).map(|i| vec![0.0; adjacency.of(i).len()]).collect();
    let add = |positions: &[Vec3]| {
        sums.par_iter_mut().enumerate().for_each(|(i, sums)| {
            for (sum, &k) in sums.iter_mut().zip(adjacency.of(i)) {
                let [x, y, z] = (positions[i] - positions[k as usize]).to_array().map(|d| d.powi(2));
                *sum += change(x + y + z, rest(i, k as usize));
            }
        });
    };
    if !problem.visit_source(add) {
        sums.par_iter_mut().enumerate().for_each(|(i, sums)| {
            for (sum, &k) in sums.iter_mut().zip(adjacency.of(i)) {
                let (a, b) = (problem.trajectory(i), problem.trajectory(k as usize));
                let rest = rest(i, k as usize);
                let squared = |t: usize| (0..3).map(|axis| (a[axis * f + t] - b[axis * f + t]).powi(2)).sum::<f32>();
                *sum = (0..f).map(|t| change(squared(t), rest)).sum();
            }
        });
    }
    sums.iter_mut().flatten().for_each(|sum| *sum = (*sum / f as f64).sqrt());
    sums
}
