//! Weights on virtual bones: each vertex on the simplex, with at most z of them [Le2021 s.4.2].
//!
//! Each vertex minimises its own part of E plus `s |a - mean of its neighbours|^2`; the result is accepted only if its part of
//! E does not rise, so that E itself falls in every step, which the regularised sum alone does not guarantee. Neighbours have
//! their weights from before the step, so that vertices can be solved side by side.

use glam::DVec3;

use crate::ddm::compress::first_bones::nearest;
use crate::ddm::compress::layers::Layers;
use crate::model::Row;
use crate::observer::{Cancelled, Stages};
use crate::skinning::{DenseForm, InfluenceSolver};

/// Candidates by place, and in all.
const NEAREST: usize = 10;
const CANDIDATES: usize = 16;
/// Weights that change a vertex's error by less than this share are dropped.
const MIN_EFFECT: f64 = 0.004;

struct Scratch {
    choice: InfluenceSolver<DenseForm>,
    /// [candidates, rows].
    residuals: Vec<f64>,
    out: Vec<f64>,
}

impl Layers<'_> {
    /// One step over all vertices.
    pub fn update_weights(&mut self, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let places: Vec<DVec3> = self.bones.iter().map(|bone| bone.place).collect();
        let mean = self.errors.iter().sum::<f64>() / self.errors.len() as f64;
        let (smooth, size) = (self.params.smooth * mean, self.maps.size);
        let scratch = || Scratch {
            choice: InfluenceSolver::dense_form(),
            residuals: vec![0.0; CANDIDATES * size],
            out: vec![0.0; size],
        };
        let solve = |scratch: &mut Scratch, i: usize| self.solve_vertex(i, &places, smooth, scratch);
        let solved = stages.map(self.points.len(), scratch, solve)?;
        (self.weights, self.errors) = solved.into_iter().unzip();
        Ok(())
    }

    fn solve_vertex(&self, i: usize, places: &[DVec3], smooth: f64, scratch: &mut Scratch) -> (Row, f64) {
        let Scratch { choice, residuals, out } = scratch;
        let candidates = self.candidates(i, places);
        let (c, size) = (candidates.len(), self.maps.size);
        for (&k, residual) in candidates.iter().zip(residuals.chunks_exact_mut(size.max(1))) {
            self.residual_of_bone(k, i, residual);
        }
        let linear: Vec<f64> = self.neighbour_mean(i, &candidates).iter().map(|a| smooth * a).collect();
        choice.load(&linear, |gram| {
            for p in 0..c {
                for q in 0..=p {
                    let (a, b) = (&residuals[p * size..(p + 1) * size], &residuals[q * size..(q + 1) * size]);
                    let dot: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
                    (gram[p * c + q], gram[q * c + p]) = (dot, dot);
                }
                gram[p * c + p] += smooth;
            }
        });
        let at = |k: &usize| candidates.iter().position(|other| other == k);
        let present = self.weights[i].iter().filter_map(|(k, a)| Some((at(k)?, *a))).collect();
        let mut row = choice.dense(&present);
        choice.shrink(self.params.influences, &mut row);
        let squared = |choice: &mut InfluenceSolver<_>, row: &Row| {
            choice.value(row) + 2.0 * row.iter().map(|&(p, a)| a * linear[p]).sum::<f64>()
        };
        while row.len() > 1 && choice.least_cost() <= MIN_EFFECT * squared(choice, &row) {
            choice.shrink(row.len() - 1, &mut row);
        }
        row.iter_mut().for_each(|(p, _)| *p = candidates[*p]);
        let error = self.error(&row, i, out);
        if error <= self.errors[i] { (row, error) } else { (self.weights[i].clone(), self.errors[i]) }
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
