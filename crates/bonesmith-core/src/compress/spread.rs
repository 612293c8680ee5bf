//! Coefficients from neighbour to neighbour.
//!
//! [Le2014 alg. 4] spreads recursively: when a vertex improves, its atoms become candidates of its neighbours. Here the vertices
//! that improved wait in a queue, first in first out, each once: no recursion, and a vertex that improves twice
//! before its turn passes on its latest atoms only.

use std::collections::VecDeque;

use crate::compress::coefficients::{Blend, BlendSolver, Coefficients};
use crate::compress::factorise::Factorisation;
use crate::observer::Cancelled;

/// A blend replaces another if it lowers the error of a vertex by this share; less is rounding.
const MIN_GAIN: f64 = 1e-7;
/// Vertices between two reports.
const VERTICES_PER_REPORT: usize = 256;

/// Vertices whose atoms have to be passed on.
pub(super) struct Queue {
    vertices: VecDeque<u32>,
    waiting: Vec<bool>,
    /// How many were taken from the queue.
    taken: usize,
}

impl Queue {
    pub fn new(vertices: usize) -> Self {
        Self { vertices: VecDeque::new(), waiting: vec![false; vertices], taken: 0 }
    }

    pub fn push(&mut self, i: usize) {
        if !std::mem::replace(&mut self.waiting[i], true) {
            self.vertices.push_back(i as u32);
        }
    }

    fn pop(&mut self) -> Option<usize> {
        let i = self.vertices.pop_front()? as usize;
        self.waiting[i] = false;
        self.taken += 1;
        Some(i)
    }
}

impl Factorisation<'_, '_> {
    /// Tries atoms at vertex `i`, and spreads them from there. Returns the vertices whose error changed.
    pub(super) fn seed(&mut self, i: usize, atoms: &[usize]) -> Result<Vec<usize>, Cancelled> {
        let mut changed = Vec::new();
        if self.improve(i, atoms.to_vec()) {
            changed.push(i);
            self.queue.push(i);
        }
        self.spread(&mut changed)?;
        Ok(changed)
    }

    /// Passes on atoms until no blend changes.
    pub(super) fn spread(&mut self, changed: &mut Vec<usize>) -> Result<(), Cancelled> {
        while let Some(i) = self.queue.pop() {
            if self.queue.taken.is_multiple_of(VERTICES_PER_REPORT) {
                self.stages.report(None)?;
            }
            for &n in self.graph.of(i) {
                let atoms = self.coefficients.of(i).map(|(r, _)| r).collect();
                if self.improve(n as usize, atoms) {
                    changed.push(n as usize);
                    self.queue.push(n as usize);
                }
            }
        }
        Ok(())
    }

    /// Best blend of vertex `i` from its own atoms and the candidates; true if its error falls.
    fn improve(&mut self, i: usize, mut candidates: Vec<usize>) -> bool {
        let new = candidates.len();
        for (r, _) in self.coefficients.of(i) {
            if !candidates.contains(&r) {
                candidates.push(r);
            }
        }
        // Without new candidates the present blend is the best one already.
        let known = |r: &usize| self.coefficients.of(i).any(|(s, _)| s == *r);
        if self.coefficients.errors[i].is_finite() && candidates[..new].iter().all(known) {
            return false;
        }
        let blend = self.solver.best(&self.dictionary, i, &candidates, self.coefficients.slots);
        let better = blend.1 < self.coefficients.errors[i] * (1.0 - MIN_GAIN);
        if better {
            self.coefficients.set(i, &blend);
        }
        better
    }

    /// Solves every vertex again on its own atoms, after the dictionary has changed.
    pub(super) fn refresh(&mut self) -> Result<(), Cancelled> {
        let Self { metric, dictionary, coefficients, stages, .. } = self;
        let solve = |solver: &mut BlendSolver, i: usize| {
            let own: Vec<usize> = coefficients.of(i).map(|(r, _)| r).collect();
            solver.best(dictionary, i, &own, coefficients.slots)
        };
        let blends = stages.map(metric.vertices(), BlendSolver::new, solve)?;
        blends.iter().enumerate().for_each(|(i, blend)| coefficients.set(i, blend));
        Ok(())
    }

    /// [q] by how much the error would rise without each atom.
    pub(super) fn removal_costs(&mut self) -> Result<Vec<f64>, Cancelled> {
        let coefficients = &self.coefficients;
        let all: Vec<(usize, usize)> =
            (0..coefficients.errors.len()).flat_map(|i| coefficients.of(i).map(move |(r, _)| (i, r))).collect();
        let blends = self.without(&all.iter().map(|&(i, _)| i).collect::<Vec<_>>(), |at, s| s == all[at].1)?;
        let mut costs = vec![0.0; self.dictionary.len()];
        for ((i, r), blend) in all.into_iter().zip(blends) {
            costs[r] += blend.map_or(f64::INFINITY, |(_, error)| (error - self.coefficients.errors[i]).max(0.0));
        }
        Ok(costs)
    }

    /// Replaces the `freed` atoms in the blends of all vertices that have others to choose from.
    pub(super) fn replace(&mut self, freed: &[bool]) -> Result<(), Cancelled> {
        let Coefficients { errors, .. } = &self.coefficients;
        let users: Vec<usize> = (0..errors.len()).filter(|&i| self.coefficients.of(i).any(|(r, _)| freed[r])).collect();
        let blends = self.without(&users, |_, r| freed[r])?;
        for (i, blend) in users.into_iter().zip(blends) {
            if let Some(blend) = blend {
                self.coefficients.set(i, &blend);
            }
        }
        Ok(())
    }

    /// Best blends of some vertices without the atoms `gone`, from their other atoms and their neighbours'.
    fn without(
        &mut self,
        vertices: &[usize],
        gone: impl Fn(usize, usize) -> bool + Sync,
    ) -> Result<Vec<Option<Blend>>, Cancelled> {
        let Self { dictionary, graph, coefficients, stages, .. } = self;
        stages.map(vertices.len(), BlendSolver::new, |solver, at| {
            let i = vertices[at];
            let near = graph.of(i).iter().flat_map(|&n| coefficients.of(n as usize));
            let mut candidates: Vec<usize> = Vec::new();
            for (r, _) in coefficients.of(i).chain(near) {
                if !gone(at, r) && !candidates.contains(&r) {
                    candidates.push(r);
                }
            }
            (!candidates.is_empty()).then(|| solver.best(dictionary, i, &candidates, coefficients.slots))
        })
    }
}
