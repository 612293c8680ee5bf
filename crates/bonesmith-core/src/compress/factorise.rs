//! The loop of [Le2014 alg. 3]: atoms are added where the error is largest, dictionary and coefficients optimised in turn.
//!
//! Beyond the paper: atoms are planted where the error of a neighbourhood is largest, not of a single vertex. When all are
//! there, the most dispensable ones are moved to where their gain is largest, as long as that lowers the error (`trade`), and
//! more atoms than the limit are added and removed again (`overshoot`). Every step lowers the error or is undone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rayon::prelude::*;

use crate::compress::coefficients::{BlendSolver, Coefficients};
use crate::compress::dictionary::Dictionary;
use crate::compress::graph::Graph;
use crate::compress::params::CompressStop;
use crate::compress::spread::Queue;
use crate::compress::target_error::OPTIMISATION_GAIN;
use crate::compress::{Growth, Ideal};
use crate::model::Row;
use crate::observer::{Cancelled, Measure, Round, Stage, Stages};
use crate::skinning::{InfluenceSolver, Metric};

/// Rounds after each batch but the last.
const BATCH_ROUNDS: usize = 2;
/// The bones of an atom are chosen again every so many rounds; in the others only their weights change.
const CHOOSE_EVERY: usize = 4;
/// One atom in so many is moved in a trade.
const TRADE_SHARE: usize = 10;
/// One atom for so many is added beyond the limit, and removed again.
const OVERSHOOT_SHARE: usize = 5;
/// Rounds after a trade, before its error is compared.
const TRADE_ROUNDS: usize = 3;

/// The factorisation while it is optimised.
pub(super) struct Factorisation<'a, 's> {
    pub metric: &'a Metric,
    /// Factor of the squared distance of the weights in the metric, which is no part of the error; 0 without that distance.
    own_weights: f64,
    ideal: &'a Ideal,
    pub graph: &'a Graph,
    pub growth: Growth,
    pub stages: Stages<'s>,
    pub dictionary: Dictionary<'a>,
    pub coefficients: Coefficients,
    pub solver: BlendSolver,
    pub queue: Queue,
    /// Atoms and error after each round.
    pub history: Vec<Round>,
    /// Whether the steps of the stage are virtual bones.
    counts_atoms: bool,
}

/// A factorisation without its metric.
pub(super) struct Parts<'s> {
    pub growth: Growth,
    pub stages: Stages<'s>,
    /// [q, B].
    pub atoms: Vec<f64>,
    pub coefficients: Coefficients,
    pub history: Vec<Round>,
}

/// A gain as a number in the same order, and its vertex: largest gain first, lower vertex first among equals.
type Candidate = (i64, Reverse<u32>);

fn candidate(gain: f64, vertex: u32) -> Candidate {
    let bits = gain.to_bits() as i64;
    // As in `f64::total_cmp`.
    (bits ^ ((bits >> 63) as u64 >> 1) as i64, Reverse(vertex))
}

impl<'a, 's> Factorisation<'a, 's> {
    /// Two atoms: the weights with the largest norm, and those with the smallest product with them.
    pub fn new(
        metric: &'a Metric,
        own_weights: f64,
        ideal: &'a Ideal,
        graph: &'a Graph,
        growth: Growth,
        stages: Stages<'s>,
    ) -> Result<Self, Cancelled> {
        let mut this = Self {
            metric,
            own_weights,
            ideal,
            graph,
            dictionary: Dictionary::new(metric, growth.slots),
            coefficients: Coefficients::new(metric.vertices(), growth.influences),
            growth,
            stages,
            solver: BlendSolver::new(),
            queue: Queue::new(metric.vertices()),
            history: Vec::new(),
            counts_atoms: true,
        };
        let norm = |row: &Row| row.iter().map(|(_, w)| w * w).sum::<f64>();
        let most = |of: &dyn Fn(&Row) -> f64| {
            let better = |best: usize, i: usize| if of(&ideal.rows[i]) > of(&ideal.rows[best]) { i } else { best };
            (1..ideal.rows.len()).fold(0, better)
        };
        let first = most(&norm);
        let shared = |row: &Row| {
            let other = |j: usize| ideal.rows[first].iter().find(|(k, _)| *k == j).map_or(0.0, |(_, w)| *w);
            row.iter().map(|&(j, w)| w * other(j)).sum::<f64>()
        };
        let second = most(&|row| -shared(row));
        for i in [first, second] {
            let atom = this.ideal_atom(i);
            this.dictionary.push(&atom);
        }
        for i in 0..metric.vertices() {
            this.seed(i, &[0, 1])?;
        }
        Ok(this)
    }

    /// Takes up layers that were optimised in another metric.
    pub fn resume(metric: &'a Metric, own_weights: f64, ideal: &'a Ideal, graph: &'a Graph, parts: Parts<'s>) -> Self {
        let Parts { growth, stages, atoms, coefficients, history } = parts;
        let mut dictionary = Dictionary::new(metric, growth.slots);
        atoms.chunks_exact(metric.bones).for_each(|atom| dictionary.push(atom));
        let (solver, queue) = (BlendSolver::new(), Queue::new(metric.vertices()));
        let mut this = Self {
            metric,
            own_weights,
            ideal,
            graph,
            growth,
            stages,
            dictionary,
            coefficients,
            solver,
            queue,
            history,
            counts_atoms: false,
        };
        let Self { dictionary, coefficients, .. } = &this;
        let error = |solver: &mut BlendSolver, i: usize| solver.error(dictionary, i, coefficients.of(i));
        let errors = (0..metric.vertices()).into_par_iter().map_init(BlendSolver::new, error).collect();
        this.coefficients.errors = errors;
        this
    }

    /// The layers without their metric.
    pub fn into_parts(self) -> Parts<'s> {
        let Self { growth, stages, dictionary, coefficients, history, .. } = self;
        Parts { growth, stages, atoms: dictionary.into_atoms(), coefficients, history }
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

    /// Adds a round to the history.
    pub fn record(&mut self) {
        let measure = if self.e_rms().is_some() { Measure::ERms } else { Measure::Weights };
        let (stage, bones) = (self.stages.stage, self.dictionary.len());
        self.history.push(Round { stage, bones, error: self.error(), measure });
    }

    /// Root mean square error, times 1000: of the poses, or of the weights where no poses are known.
    pub fn error(&self) -> f64 {
        self.metric.rms(self.squared_error())
    }

    /// The part of the error above that of the ideal, as [`Self::error`].
    pub fn excess(&self) -> f64 {
        self.metric.rms(self.squared_error() - self.ideal.errors.iter().sum::<f64>())
    }

    fn squared_error(&self) -> f64 {
        let total = self.coefficients.total();
        if self.own_weights == 0.0 {
            return total;
        }
        let Self { metric, ideal, coefficients, dictionary, .. } = self;
        let of_vertex = |row: &mut Vec<f64>, i: usize| {
            row.clear();
            row.resize(metric.bones, 0.0);
            ideal.rows[i].iter().for_each(|&(j, w)| row[j] = -w);
            for (r, a) in coefficients.of(i) {
                row.iter_mut().zip(dictionary.atom(r)).for_each(|(x, d)| *x += a * d);
            }
            row.iter().map(|x| x * x).sum::<f64>()
        };
        let apart: Vec<f64> = (0..metric.vertices()).into_par_iter().map_init(Vec::new, of_vertex).collect();
        total - self.own_weights * apart.iter().sum::<f64>()
    }

    /// The error for progress: E_RMS, with examples only.
    fn e_rms(&self) -> Option<f64> {
        self.growth.with_examples.then(|| self.error())
    }

    /// Estimated gain of an atom placed at vertex `i`: the excess error of the vertex, and half that of its neighbours.
    ///
    /// The paper takes the vertex alone (eq. 4.2), which favours single vertices; an error of a neighbourhood counts more.
    fn gain(&self, i: usize) -> f64 {
        let excess = |i: usize| self.coefficients.errors[i] - self.ideal.errors[i];
        excess(i) + 0.5 * self.graph.of(i).iter().map(|&n| excess(n as usize)).sum::<f64>()
    }

    /// [Le2014 alg. 3] from line 3 on.
    pub fn grow(&mut self) -> Result<CompressStop, Cancelled> {
        self.stages.begin(Stage::VirtualBones, Some(self.growth.limit))?;
        let (target, rounds) = (self.growth.target, self.growth.rounds);
        loop {
            let atoms = self.dictionary.len();
            self.stages.at(atoms, self.e_rms())?;
            let excess = self.excess();
            let batch = self.growth.batch(excess, atoms);
            if target > 0.0 && (batch == 0 || excess <= target * (1.0 + OPTIMISATION_GAIN)) {
                return self.reach_target();
            }
            if batch == 0 {
                self.finish()?;
                let mut overshoots = self.growth.overshoots;
                while overshoots > 0 && self.overshoot()? {
                    overshoots -= 1;
                }
                return Ok(CompressStop::Full);
            }
            if self.add(batch)? < batch {
                self.optimise(rounds)?;
                return if target > 0.0 { self.reach_target() } else { Ok(CompressStop::Exact) };
            }
            if self.dictionary.len() < self.growth.limit {
                self.optimise(BATCH_ROUNDS.min(rounds))?;
            }
        }
    }

    /// Optimises and trades with the present number of atoms.
    pub fn finish(&mut self) -> Result<(), Cancelled> {
        self.optimise(self.growth.rounds)?;
        let mut trades = self.growth.trades;
        while trades > 0 && self.trade()? {
            trades -= 1;
        }
        Ok(())
    }

    /// Adds atoms where the error is largest; fewer when no vertex has an error left. Returns how many.
    pub fn add(&mut self, count: usize) -> Result<usize, Cancelled> {
        let mut heap = self.heap();
        for added in 0..count {
            let Some(i) = self.worst(&mut heap) else { return Ok(added) };
            let atom = self.ideal_atom(i);
            self.dictionary.push(&atom);
            self.plant(&mut heap, i, self.dictionary.len() - 1)?;
        }
        Ok(count)
    }

    /// The vertex with the largest gain, if an atom there would help.
    fn worst(&self, heap: &mut BinaryHeap<Candidate>) -> Option<usize> {
        while let Some(top) = heap.pop() {
            let i = top.1.0 as usize;
            let gain = self.gain(i);
            // Entries from before the vertex improved are stale.
            if top == candidate(gain, i as u32) {
                return (gain > 1e-12 * self.metric.energy[i]).then_some(i);
            }
        }
        None
    }

    /// Spreads atom `r` from vertex `i`.
    fn plant(&mut self, heap: &mut BinaryHeap<Candidate>, i: usize, r: usize) -> Result<(), Cancelled> {
        self.stages.report(None)?;
        for i in self.seed(i, &[r])? {
            for &n in self.graph.of(i).iter().chain([&(i as u32)]) {
                heap.push(candidate(self.gain(n as usize), n));
            }
        }
        Ok(())
    }

    /// Alternates dictionary and coefficients until the error hardly falls.
    pub fn optimise(&mut self, rounds: usize) -> Result<(), Cancelled> {
        for round in 0..rounds {
            let before = self.coefficients.total();
            self.round(round % CHOOSE_EVERY == 0, true)?;
            if self.coefficients.total() >= before * (1.0 - self.growth.tolerance) {
                break;
            }
        }
        Ok(())
    }

    /// Dictionary, then coefficients. With `choose` atoms may take other bones, with `spread` vertices may take other atoms.
    pub fn round(&mut self, choose: bool, spread: bool) -> Result<(), Cancelled> {
        let before = self.coefficients.total();
        self.dictionary.update(&self.coefficients, choose, &mut self.stages)?;
        self.refresh()?;
        if spread {
            (0..self.metric.vertices()).for_each(|i| self.queue.push(i));
            self.spread(&mut Vec::new())?;
        }
        self.move_atoms(&self.unused())?;
        let after = self.coefficients.total();
        // Errors are differences of energies, so these are the scale of their rounding.
        let rounding = 1e-12 * self.metric.energy.iter().sum::<f64>();
        debug_assert!(after <= before * (1.0 + 1e-6) + rounding, "{before} {after}");
        self.record();
        match self.counts_atoms {
            true => self.stages.at(self.dictionary.len(), self.e_rms()),
            false => self.stages.report(self.e_rms()),
        }
    }

    /// Atoms that no vertex uses.
    fn unused(&self) -> Vec<usize> {
        let users = self.coefficients.users(self.dictionary.len());
        (0..self.dictionary.len()).filter(|&r| users[r].is_empty()).collect()
    }

    /// Moves atoms to where the error is largest.
    fn move_atoms(&mut self, atoms: &[usize]) -> Result<(), Cancelled> {
        if atoms.is_empty() {
            return Ok(());
        }
        let mut heap = self.heap();
        for &r in atoms {
            let Some(i) = self.worst(&mut heap) else { break };
            let atom = self.ideal_atom(i);
            self.dictionary.set(r, &atom);
            self.plant(&mut heap, i, r)?;
        }
        Ok(())
    }

    fn heap(&self) -> BinaryHeap<Candidate> {
        (0..self.metric.vertices()).map(|i| candidate(self.gain(i), i as u32)).collect()
    }

    /// Takes a step, and undoes it if it returns false or the error is higher. Returns whether the error fell.
    fn attempt(&mut self, step: impl FnOnce(&mut Self) -> Result<bool, Cancelled>) -> Result<bool, Cancelled> {
        let (before, rounds) = (self.coefficients.total(), self.history.len());
        let saved = (self.dictionary.clone(), self.coefficients.clone());
        let done = step(self)?;
        // The history has the outcome only.
        self.history.truncate(rounds);
        let after = self.coefficients.total();
        if !done || after > before {
            (self.dictionary, self.coefficients) = saved;
        }
        self.record();
        Ok(done && after < before * (1.0 - self.growth.tolerance))
    }

    /// Moves the most dispensable atoms to where their gain is largest, and optimises. False if the error does not fall.
    fn trade(&mut self) -> Result<bool, Cancelled> {
        self.attempt(|this| {
            let (atoms, _) = this.release(this.dictionary.len() / TRADE_SHARE)?;
            this.move_atoms(&atoms)?;
            this.optimise(TRADE_ROUNDS)?;
            Ok(true)
        })
    }

    /// Adds more atoms than the limit, optimises, and removes the most dispensable ones: a choice among more atoms that were
    /// optimised together. False if the error does not fall.
    fn overshoot(&mut self) -> Result<bool, Cancelled> {
        self.attempt(|this| {
            let added = this.add((this.dictionary.len() / OVERSHOOT_SHARE).max(1))?;
            this.optimise(BATCH_ROUNDS)?;
            if this.remove(added)? < added {
                return Ok(false);
            }
            this.finish()?;
            Ok(true)
        })
    }

    /// Removes the most dispensable atoms; returns how many could be removed.
    pub fn remove(&mut self, count: usize) -> Result<usize, Cancelled> {
        let mut removed = 0;
        while removed < count {
            let (_, mut freed) = self.release(count - removed)?;
            // A vertex without another candidate keeps its atom.
            let users = self.coefficients.users(freed.len());
            freed.iter_mut().enumerate().for_each(|(r, freed)| *freed &= users[r].is_empty());
            let now = freed.iter().filter(|freed| **freed).count();
            if now == 0 {
                break;
            }
            self.dictionary.drop(&freed);
            self.coefficients.renumber(&freed);
            removed += now;
        }
        Ok(removed)
    }

    /// Replaces at most `count` dispensable atoms in the blends of their vertices. Returns them, as a list and by atom.
    fn release(&mut self, count: usize) -> Result<(Vec<usize>, Vec<bool>), Cancelled> {
        let atoms = self.dispensable(count)?;
        let mut freed = vec![false; self.dictionary.len()];
        atoms.iter().for_each(|&r| freed[r] = true);
        self.replace(&freed)?;
        Ok((atoms, freed))
    }

    /// At most `count` atoms whose removal would raise the error least, no two of them near each other.
    fn dispensable(&mut self, count: usize) -> Result<Vec<usize>, Cancelled> {
        let atoms = self.dictionary.len();
        let costs = self.removal_costs()?;
        let mut order: Vec<usize> = (0..atoms).collect();
        order.sort_by(|&a, &b| costs[a].total_cmp(&costs[b]).then(a.cmp(&b)));
        let users = self.coefficients.users(atoms);
        let mut touched = vec![false; self.metric.vertices()];
        let mut chosen = Vec::new();
        for r in order {
            if chosen.len() >= count {
                break;
            }
            // Its vertices need the atoms of their neighbours, which must stay.
            if costs[r].is_finite() && users[r].iter().all(|&i| !touched[i as usize]) {
                for &i in &users[r] {
                    self.graph.of(i as usize).iter().chain([&i]).for_each(|&n| touched[n as usize] = true);
                }
                chosen.push(r);
            }
        }
        Ok(chosen)
    }
}
