//! Weights on virtual bones: each vertex on the simplex, with at most z of them [Le2021 s.4.2].
//!
//! Each vertex minimises its own part of E plus `s |a - mean of its neighbours|^2`; the result is accepted only if its part of
//! E does not rise, so that E itself falls in every step, which the regularised sum alone does not guarantee. Neighbours have
//! their weights from before the step, so that vertices can be solved side by side.

use glam::DVec3;

use crate::ddm::compress::first_bones::nearest;
use crate::ddm::compress::layers::Layers;
use crate::model::weights::Row;
use crate::observer::{Cancelled, Stages};
use crate::solve::simplex::SimplexSolver;

/// Candidates by place, and in all.
const NEAREST: usize = 10;
const CANDIDATES: usize = 16;
/// Weights that change a vertex's error by less than this share are dropped.
const MIN_EFFECT: f64 = 0.004;

struct Scratch {
    solver: SimplexSolver,
    /// [candidates, rows].
    residuals: Vec<f64>,
    gram: Vec<f64>,
    linear: Vec<f64>,
    estimates: Vec<f64>,
    out: Vec<f64>,
}

impl Layers<'_> {
    /// One step over all vertices.
    pub fn update_weights(&mut self, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let places: Vec<DVec3> = self.bones.iter().map(|bone| bone.place).collect();
        let mean = self.errors.iter().sum::<f64>() / self.errors.len() as f64;
        let smooth = self.params.smooth * mean;
        let size = self.maps.size;
        let scratch = || Scratch {
            solver: SimplexSolver::new(CANDIDATES),
            residuals: vec![0.0; CANDIDATES * size],
            gram: vec![0.0; CANDIDATES * CANDIDATES],
            linear: vec![0.0; CANDIDATES],
            estimates: Vec::new(),
            out: vec![0.0; size],
        };
        let solve = |scratch: &mut Scratch, i: usize| self.solve_vertex(i, &places, smooth, scratch);
        let solved = stages.map(self.points.len(), scratch, solve)?;
        (self.weights, self.errors) = solved.into_iter().unzip();
        Ok(())
    }

    fn solve_vertex(&self, i: usize, places: &[DVec3], smooth: f64, scratch: &mut Scratch) -> (Row, f64) {
        let candidates = self.candidates(i, places);
        let (c, size) = (candidates.len(), self.maps.size);
        for (at, &k) in candidates.iter().enumerate() {
            self.residual_of_bone(k, i, &mut scratch.residuals[at * size..(at + 1) * size]);
        }
        let wanted = self.neighbour_mean(i, &candidates);
        for (p, wanted) in wanted.iter().enumerate() {
            for q in 0..=p {
                let (a, b) =
                    (&scratch.residuals[p * size..(p + 1) * size], &scratch.residuals[q * size..(q + 1) * size]);
                let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                scratch.gram[p * c + q] = dot;
                scratch.gram[q * c + p] = dot;
            }
            scratch.gram[p * c + p] += smooth;
            scratch.linear[p] = smooth * wanted;
        }
        let mut weights = vec![0.0; c];
        for &(k, a) in &self.weights[i] {
            if let Some(at) = candidates.iter().position(|other| *other == k) {
                weights[at] = a;
            }
        }
        let mut chosen: Vec<usize> = (0..c).collect();
        let weights = self.sparse(scratch, c, &mut chosen, weights);
        let row: Row =
            chosen.iter().zip(&weights).filter(|(_, a)| **a > 0.0).map(|(&at, &a)| (candidates[at], a)).collect();
        let error = self.error(&row, i, &mut scratch.out);
        if error <= self.errors[i] { (row, error) } else { (self.weights[i].clone(), self.errors[i]) }
    }

    /// Solves, and drops the weight with the least effect until at most z are left, all of them with enough effect.
    fn sparse(&self, scratch: &mut Scratch, c: usize, chosen: &mut Vec<usize>, mut weights: Vec<f64>) -> Vec<f64> {
        let Scratch { solver, gram, linear, estimates, .. } = scratch;
        loop {
            let m = chosen.len();
            let mut own_gram = vec![0.0; m * m];
            for (p, &a) in chosen.iter().enumerate() {
                for (q, &b) in chosen.iter().enumerate() {
                    own_gram[p * m + q] = gram[a * c + b];
                }
            }
            let own_linear: Vec<f64> = chosen.iter().map(|&a| linear[a]).collect();
            let sum: f64 = weights.iter().sum();
            if sum > 0.0 {
                weights.iter_mut().for_each(|w| *w /= sum);
            } else {
                weights[0] = 1.0;
            }
            solver.solve(&own_gram, m, &own_linear, &mut weights);
            let used = weights.iter().filter(|w| **w > 0.0).count();
            if used <= 1 {
                return weights;
            }
            solver.removal_estimates(&weights, estimates);
            let value: f64 =
                (0..m).map(|p| weights[p] * (0..m).map(|q| own_gram[p * m + q] * weights[q]).sum::<f64>()).sum();
            let least = (0..m).filter(|&p| weights[p] > 0.0).min_by(|&a, &b| estimates[a].total_cmp(&estimates[b]));
            let Some(least) = least else { return weights };
            if used <= self.params.influences && estimates[least] > MIN_EFFECT * value {
                return weights;
            }
            // Weights of 0 are dropped as well.
            let keep: Vec<usize> = (0..m).filter(|&p| p != least && weights[p] > 0.0).collect();
            *chosen = keep.iter().map(|&p| chosen[p]).collect();
            weights = keep.iter().map(|&p| weights[p]).collect();
        }
    }

    /// The virtual bones of vertex `i`, then the best of those near it and of its neighbours'.
    fn candidates(&self, i: usize, places: &[DVec3]) -> Vec<usize> {
        let own: Vec<usize> = self.weights[i].iter().map(|(k, _)| *k).collect();
        let mut others = nearest(places, self.points[i].truncate(), NEAREST);
        for &other in self.adjacency.of(i) {
            others.extend(self.weights[other as usize].iter().map(|(k, _)| *k));
        }
        others.sort_unstable();
        others.dedup();
        others.retain(|k| !own.contains(k));
        let room = CANDIDATES - own.len().min(CANDIDATES);
        if others.len() > room {
            let mut ranked: Vec<(f64, usize)> = others.iter().map(|&k| (self.distance(&self.bones[k], i), k)).collect();
            ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            others = ranked[..room].iter().map(|(_, k)| *k).collect();
        }
        own.into_iter().chain(others).collect()
    }

    /// Mean of the neighbours' weights on some bones.
    fn neighbour_mean(&self, i: usize, candidates: &[usize]) -> Vec<f64> {
        let neighbours = self.adjacency.of(i);
        let mut mean = vec![0.0; candidates.len()];
        for &other in neighbours {
            for &(k, a) in &self.weights[other as usize] {
                if let Some(at) = candidates.iter().position(|c| *c == k) {
                    mean[at] += a / neighbours.len() as f64;
                }
            }
        }
        mean
    }
}
