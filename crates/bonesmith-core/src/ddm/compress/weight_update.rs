//! Weights on virtual bones: each vertex on the simplex, with at most z of them [Le2021 s.4.2].
//!
//! Each vertex minimises its own part of E plus `s |a - mean of its neighbours|^2`; the result is accepted only if its part of
//! E does not rise, so that E itself falls in every step, which the regularised sum alone does not guarantee. Neighbours have
//! their weights from before the step, so that vertices can be solved side by side.

use glam::DVec3;
use rayon::prelude::*;

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

/// Where errors are measured: as a vector for each vertex and virtual bone, of which weights make a mean.
pub(super) trait Space: Sync {
    /// Numbers of a vector.
    fn size(&self) -> usize;

    /// Residual of vertex `i` with virtual bone `k` alone.
    fn residual_of_bone(&self, layers: &Layers<'_>, k: usize, i: usize, out: &mut [f64]);
}

/// The linearised model over the joints' ranges.
struct Mapped(usize);

impl Space for Mapped {
    fn size(&self) -> usize {
        self.0
    }

    fn residual_of_bone(&self, layers: &Layers<'_>, k: usize, i: usize, out: &mut [f64]) {
        layers.residual_of_bone(k, i, out);
    }
}

/// Virtual bones that a vertex may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Those near it and its neighbours'.
    Near,
    /// Those that it has.
    Own,
}

struct Scratch {
    choice: InfluenceSolver<DenseForm>,
    /// [candidates, rows].
    residuals: Vec<f64>,
}

impl Layers<'_> {
    /// One step over all vertices.
    pub fn update_weights(&mut self, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let mut errors = std::mem::take(&mut self.errors);
        let done = self.update_weights_in(&Mapped(self.maps.size), &mut errors, Choice::Near, stages);
        self.errors = errors;
        done
    }

    /// As [`Layers::update_weights`], in another space, where vertices have these squared errors.
    pub fn update_weights_in(
        &mut self,
        space: &impl Space,
        errors: &mut Vec<f64>,
        choice: Choice,
        stages: &mut Stages<'_>,
    ) -> Result<(), Cancelled> {
        let places: Vec<DVec3> = self.bones.iter().map(|bone| bone.place).collect();
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        let smooth = self.params.smooth * mean;
        let scratch = || Scratch {
            choice: InfluenceSolver::dense_form(),
            residuals: vec![0.0; CANDIDATES.max(self.params.influences) * space.size()],
        };
        let solve = |scratch: &mut Scratch, i: usize| {
            let candidates = match choice {
                Choice::Near => self.candidates(i, &places),
                Choice::Own => self.weights[i].iter().map(|(k, _)| *k).collect(),
            };
            self.solve_vertex(space, i, errors[i], &candidates, smooth, scratch)
        };
        let solved = stages.map(self.points.len(), scratch, solve)?;
        (self.weights, *errors) = solved.into_iter().unzip();
        Ok(())
    }

    /// [N] squared errors in a space.
    pub fn errors_in(&self, space: &impl Space) -> Vec<f64> {
        let of_vertex = |(own, sum): &mut (Vec<f64>, Vec<f64>), i: usize| {
            sum.fill(0.0);
            for &(k, a) in &self.weights[i] {
                space.residual_of_bone(self, k, i, own);
                sum.iter_mut().zip(own.iter()).for_each(|(sum, x)| *sum += a * x);
            }
            sum.iter().map(|x| x * x).sum()
        };
        let scratch = || (vec![0.0; space.size()], vec![0.0; space.size()]);
        (0..self.points.len()).into_par_iter().map_init(scratch, of_vertex).collect()
    }

    fn solve_vertex(
        &self,
        space: &impl Space,
        i: usize,
        present_error: f64,
        candidates: &[usize],
        smooth: f64,
        scratch: &mut Scratch,
    ) -> (Row, f64) {
        let Scratch { choice, residuals } = scratch;
        let (c, size) = (candidates.len(), space.size());
        for (&k, residual) in candidates.iter().zip(residuals.chunks_exact_mut(size.max(1))) {
            space.residual_of_bone(self, k, i, residual);
        }
        let linear: Vec<f64> = self.neighbour_mean(i, candidates).iter().map(|a| smooth * a).collect();
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
        let component = |at: usize| row.iter().map(|&(p, a)| a * residuals[p * size + at]).sum::<f64>();
        let error: f64 = (0..size).map(component).map(|x| x * x).sum();
        if error > present_error {
            return (self.weights[i].clone(), present_error);
        }
        row.iter_mut().for_each(|(p, _)| *p = candidates[*p]);
        (row, error)
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
