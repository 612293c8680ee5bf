//! The loop of [Le2014 alg. 3]: atoms are added where the error is largest, dictionary and coefficients optimised in turn.
//!
//! Beyond the paper: atoms are planted where a neighbourhood errs most, not a single vertex; when all are there, those that
//! would be missed least are moved to where they promise most, as long as that pays (`trade`), and more are added than
//! there may be and taken away again (`overshoot`). Every step lowers the error or is undone.

use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::compress::coefficients::{Coefficients, Spreader};
use crate::compress::dictionary::Dictionary;
use crate::compress::fewest::PROMISE;
use crate::compress::graph::Graph;
use crate::compress::params::{CompressError, CompressStop, TwoLayerParams};
use crate::compress::{Growth, Ideal, Stage};
use crate::skinning::choice::{InfluenceSolver, Row as DenseRow};
use crate::skinning::quadratic::Metric;

/// Rounds after each batch but the last.
const BATCH_ROUNDS: usize = 2;
/// Which bones an atom blends is chosen anew every so many rounds; in between their weights are.
const CHOOSE_EVERY: usize = 4;
/// One atom in so many is moved in a trade.
const TRADE_SHARE: usize = 10;
/// One atom for so many is added beyond what there may be, and taken away again.
const OVERSHOOT_SHARE: usize = 5;
/// Rounds after a trade, before it is judged.
const TRADE_ROUNDS: usize = 3;

/// The factorisation under way.
pub(super) struct Solver<'a> {
    pub metric: &'a Metric,
    /// What a squared distance of the weights counts in the metric beside poses, and not in the error; 0 where it does not.
    own_weights: f64,
    ideal: &'a Ideal,
    pub graph: &'a Graph,
    pub dictionary: Dictionary,
    pub coefficients: Coefficients,
    spreader: Spreader<'a>,
    /// (atoms, error) after each round.
    pub history: Vec<(usize, f64)>,
}

/// A vertex and its excess error, largest first, lower index first among equals.
#[derive(PartialEq)]
struct Candidate(f64, u32);

impl Eq for Candidate {}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(other.1.cmp(&self.1))
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Solver<'a> {
    /// Two atoms: the most decided weights there are, and those that share least with them.
    pub fn new(
        metric: &'a Metric,
        own_weights: f64,
        ideal: &'a Ideal,
        graph: &'a Graph,
        slots: usize,
        influences: usize,
    ) -> Self {
        let mut solver = Self {
            metric,
            own_weights,
            ideal,
            graph,
            dictionary: Dictionary::new(metric, slots),
            coefficients: Coefficients::new(metric.vertices(), influences),
            spreader: Spreader::new(metric, graph),
            history: Vec::new(),
        };
        let norm = |row: &DenseRow| row.iter().map(|(_, w)| w * w).sum::<f64>();
        let most = |of: &dyn Fn(&DenseRow) -> f64| {
            let better = |best: usize, i: usize| if of(&ideal.rows[i]) > of(&ideal.rows[best]) { i } else { best };
            (1..ideal.rows.len()).fold(0, better)
        };
        let first = most(&norm);
        let shared = |row: &DenseRow| {
            let other = |j: usize| ideal.rows[first].iter().find(|(k, _)| *k == j).map_or(0.0, |(_, w)| *w);
            row.iter().map(|&(j, w)| w * other(j)).sum::<f64>()
        };
        let second = most(&|row| -shared(row));
        for i in [first, second] {
            let atom = solver.ideal_atom(i);
            solver.dictionary.push(metric, &atom);
        }
        for i in 0..metric.vertices() {
            solver.spreader.seed(&solver.dictionary, &mut solver.coefficients, i, &[0, 1]);
        }
        solver
    }

    /// Weights of vertex `i` as an atom, cut down to c bones.
    fn ideal_atom(&self, i: usize) -> Vec<f64> {
        let mut row = self.ideal.rows[i].clone();
        if row.len() > self.dictionary.slots {
            let mut solver = InfluenceSolver::dense_form();
            solver.load_vertex(self.metric, i);
            solver.shrink(self.dictionary.slots, &mut row);
        }
        let mut atom = vec![0.0; self.metric.bones];
        row.iter().for_each(|&(j, w)| atom[j] = w);
        atom
    }

    /// Root mean square error, times 1000: of the poses, or of the weights where no poses are known.
    pub fn error(&self) -> f64 {
        self.metric.rms(self.squared_error())
    }

    /// The part of the error that better layers could take away, as [`Self::error`].
    pub fn excess(&self) -> f64 {
        self.metric.rms(self.squared_error() - self.ideal.errors.iter().sum::<f64>())
    }

    fn squared_error(&self) -> f64 {
        let total = self.coefficients.total();
        if self.own_weights == 0.0 {
            return total;
        }
        let of_vertex = |row: &mut Vec<f64>, i: usize| {
            row.clear();
            row.resize(self.metric.bones, 0.0);
            self.ideal.rows[i].iter().for_each(|&(j, w)| row[j] = -w);
            for (r, a) in self.coefficients.of(i) {
                row.iter_mut().zip(self.dictionary.atom(r)).for_each(|(x, d)| *x += a * d);
            }
            row.iter().map(|x| x * x).sum::<f64>()
        };
        let apart: Vec<f64> = (0..self.metric.vertices()).into_par_iter().map_init(Vec::new, of_vertex).collect();
        total - self.own_weights * apart.iter().sum::<f64>()
    }

    /// What an atom planted at vertex `i` could win: the excess error of the vertex, and half that of its neighbours.
    ///
    /// The paper takes the vertex alone (eq. 4.2), which chases single vertices; an error in a neighbourhood is worth more.
    fn promise(&self, i: usize) -> f64 {
        let excess = |i: usize| self.coefficients.errors[i] - self.ideal.errors[i];
        excess(i) + 0.5 * self.graph.of(i).iter().map(|&n| excess(n as usize)).sum::<f64>()
    }

    /// [Le2014 alg. 3] from line 3 on.
    pub fn grow(
        &mut self,
        growth: &Growth,
        params: &TwoLayerParams,
        stage: &mut Stage<'_>,
    ) -> Result<CompressStop, CompressError> {
        stage.name = "virtual bones";
        loop {
            let atoms = self.dictionary.len();
            stage.report(atoms, Some(growth.limit), Some(self.error()))?;
            let excess = self.excess();
            let batch = growth.batch(excess, atoms);
            if growth.target > 0.0 && (batch == 0 || excess <= growth.target * (1.0 + PROMISE)) {
                return self.fewest(growth, params, stage);
            }
            if batch == 0 {
                self.finish(growth, params, stage)?;
                let mut overshoots = growth.overshoots;
                while overshoots > 0 && self.overshoot(growth, params, stage)? {
                    overshoots -= 1;
                }
                return Ok(CompressStop::Full);
            }
            if self.add(batch) < batch {
                self.optimise(growth.rounds, params.tolerance, growth, stage)?;
                return if growth.target > 0.0 { self.fewest(growth, params, stage) } else { Ok(CompressStop::Exact) };
            }
            if self.dictionary.len() < growth.limit {
                self.optimise(BATCH_ROUNDS.min(growth.rounds), params.tolerance, growth, stage)?;
            }
        }
    }

    /// All that can be done with the atoms there are.
    pub fn finish(
        &mut self,
        growth: &Growth,
        params: &TwoLayerParams,
        stage: &mut Stage<'_>,
    ) -> Result<(), CompressError> {
        self.optimise(growth.rounds, params.tolerance, growth, stage)?;
        let mut trades = growth.trades;
        while trades > 0 && self.trade(growth, params.tolerance, stage)? {
            trades -= 1;
        }
        Ok(())
    }

    /// Adds atoms where the error is largest; fewer when no vertex has any left.
    pub fn add(&mut self, count: usize) -> usize {
        let mut heap = self.heap();
        for added in 0..count {
            let Some(i) = self.worst(&mut heap) else { return added };
            let atom = self.ideal_atom(i);
            self.dictionary.push(self.metric, &atom);
            self.plant(&mut heap, i, self.dictionary.len() - 1);
        }
        count
    }

    /// The vertex of largest excess error, if it is one worth an atom.
    fn worst(&self, heap: &mut BinaryHeap<Candidate>) -> Option<usize> {
        while let Some(Candidate(excess, i)) = heap.pop() {
            let i = i as usize;
            // Entries from before the vertex improved are stale.
            if excess == self.promise(i) {
                return (excess > 1e-12 * self.metric.energy[i]).then_some(i);
            }
        }
        None
    }

    /// Spreads atom `r` from vertex `i`.
    fn plant(&mut self, heap: &mut BinaryHeap<Candidate>, i: usize, r: usize) {
        self.spreader.changed.clear();
        self.spreader.seed(&self.dictionary, &mut self.coefficients, i, &[r]);
        for &i in &self.spreader.changed {
            for &n in self.graph.of(i as usize).iter().chain([&i]) {
                heap.push(Candidate(self.promise(n as usize), n));
            }
        }
    }

    /// Alternates dictionary and coefficients until that no longer pays.
    fn optimise(
        &mut self,
        rounds: usize,
        tolerance: f64,
        growth: &Growth,
        stage: &mut Stage<'_>,
    ) -> Result<(), CompressError> {
        for round in 0..rounds {
            let before = self.coefficients.total();
            self.dictionary.update(self.metric, &self.coefficients, round % CHOOSE_EVERY == 0);
            self.coefficients.refresh(self.metric, &self.dictionary);
            self.spreader.spread_all(&self.dictionary, &mut self.coefficients);
            self.replant();
            let after = self.coefficients.total();
            debug_assert!(after <= before * (1.0 + 1e-6) + 1e-12, "{before} {after}");
            self.history.push((self.dictionary.len(), self.error()));
            stage.report(self.dictionary.len(), Some(growth.limit), Some(self.error()))?;
            if after >= before * (1.0 - tolerance) {
                break;
            }
        }
        Ok(())
    }

    /// Atoms that no vertex uses start anew where the error is largest.
    fn replant(&mut self) {
        let users = self.coefficients.users(self.dictionary.len());
        let idle: Vec<usize> = (0..self.dictionary.len()).filter(|&r| users.of(r).is_empty()).collect();
        self.move_atoms(&idle);
    }

    /// Atoms start anew where the error is largest.
    fn move_atoms(&mut self, atoms: &[usize]) {
        if atoms.is_empty() {
            return;
        }
        let mut heap = self.heap();
        for &r in atoms {
            let Some(i) = self.worst(&mut heap) else { return };
            let atom = self.ideal_atom(i);
            self.dictionary.set(self.metric, r, &atom);
            self.plant(&mut heap, i, r);
        }
    }

    fn heap(&self) -> BinaryHeap<Candidate> {
        (0..self.metric.vertices()).map(|i| Candidate(self.promise(i), i as u32)).collect()
    }

    /// Takes a step and undoes it if the error is higher then, or the step says that it failed. Whether it paid.
    fn attempt(
        &mut self,
        tolerance: f64,
        step: impl FnOnce(&mut Self) -> Result<bool, CompressError>,
    ) -> Result<bool, CompressError> {
        let (before, told) = (self.coefficients.total(), self.history.len());
        let saved = (self.dictionary.clone(), self.coefficients.clone());
        let done = step(self)?;
        // What happened in between is not over: the history has the outcome only.
        self.history.truncate(told);
        let after = self.coefficients.total();
        if !done || after > before {
            (self.dictionary, self.coefficients) = saved;
        }
        self.history.push((self.dictionary.len(), self.error()));
        Ok(done && after < before * (1.0 - tolerance))
    }

    /// Moves the atoms that would be missed least to where they promise most, and optimises. False if that does not pay.
    fn trade(&mut self, growth: &Growth, tolerance: f64, stage: &mut Stage<'_>) -> Result<bool, CompressError> {
        self.attempt(tolerance, |solver| {
            let idle = solver.dispensable(solver.dictionary.len() / TRADE_SHARE);
            let mut freed = vec![false; solver.dictionary.len()];
            idle.iter().for_each(|&r| freed[r] = true);
            solver.coefficients.release(solver.metric, &solver.dictionary, solver.graph, &freed);
            solver.move_atoms(&idle);
            solver.optimise(TRADE_ROUNDS, tolerance, growth, stage)?;
            Ok(true)
        })
    }

    /// Adds more atoms than there may be, optimises, and takes away those that would be missed least: a choice among more, and
    /// among atoms that know each other. False if that does not pay.
    fn overshoot(
        &mut self,
        growth: &Growth,
        params: &TwoLayerParams,
        stage: &mut Stage<'_>,
    ) -> Result<bool, CompressError> {
        self.attempt(params.tolerance, |solver| {
            let added = solver.add((solver.dictionary.len() / OVERSHOOT_SHARE).max(1));
            solver.optimise(BATCH_ROUNDS, params.tolerance, growth, stage)?;
            if solver.take_away(added) < added {
                return Ok(false);
            }
            solver.finish(growth, params, stage)?;
            Ok(true)
        })
    }

    /// Takes away the atoms that would be missed least; how many it could.
    pub fn take_away(&mut self, count: usize) -> usize {
        let mut gone = 0;
        while gone < count {
            let idle = self.dispensable(count - gone);
            if idle.is_empty() {
                break;
            }
            let mut freed = vec![false; self.dictionary.len()];
            idle.iter().for_each(|&r| freed[r] = true);
            self.coefficients.release(self.metric, &self.dictionary, self.graph, &freed);
            // A vertex that knows no other atom keeps its own.
            let users = self.coefficients.users(freed.len());
            freed.iter_mut().enumerate().for_each(|(r, freed)| *freed &= users.of(r).is_empty());
            let now = freed.iter().filter(|freed| **freed).count();
            if now == 0 {
                break;
            }
            self.dictionary.drop(&freed);
            self.coefficients.renumber(&freed);
            gone += now;
        }
        gone
    }

    /// At most `most` atoms whose removal would raise the error least, no two of them near each other.
    pub fn dispensable(&self, most: usize) -> Vec<usize> {
        let atoms = self.dictionary.len();
        let costs = self.coefficients.removal_costs(self.metric, &self.dictionary, self.graph);
        let mut order: Vec<usize> = (0..atoms).collect();
        order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]).then(a.cmp(&b)));
        let users = self.coefficients.users(atoms);
        let mut touched = vec![false; self.metric.vertices()];
        let mut chosen = Vec::new();
        for r in order {
            if chosen.len() >= most {
                break;
            }
            // Its vertices turn to their neighbours' atoms, which must stay.
            if costs[r].is_finite() && users.of(r).iter().all(|&i| !touched[i as usize]) {
                for &i in users.of(r) {
                    self.graph.of(i as usize).iter().chain([&i]).for_each(|&n| touched[n as usize] = true);
                }
                chosen.push(r);
            }
        }
        chosen
    }
}
