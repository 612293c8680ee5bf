//! The coefficients A: which virtual bones a vertex blends, and their update from neighbour to neighbour.
//!
//! [Le2014 alg. 4] spreads recursively: a vertex that improves offers its atoms to its neighbours. Here the vertices that
//! improved wait in a queue, first come first served, and each is in it once: no recursion, and a vertex that
//! improves twice before its turn offers its latest atoms only.
//!
//! Deviation: coefficients are convex by default, not affine (eq. 4.6). What a vertex blends is then what every engine
//! and the glTF format call weights, and a virtual bone lies among its vertices; the atoms, which stay
//! affine, move outward to make up for it.

use std::collections::VecDeque;

use rayon::prelude::*;

use crate::compress::dictionary::Dictionary;
use crate::compress::graph::Graph;
use crate::skinning::choice::{DenseForm, InfluenceSolver};
use crate::skinning::quadratic::Metric;

/// An offer is taken if it lowers the error of a vertex by this share; the rest is rounding.
const LEAST_GAIN: f64 = 1e-7;

/// At most k atoms for each vertex.
#[derive(Clone)]
pub(crate) struct Coefficients {
    /// k.
    pub slots: usize,
    /// [N, k] atoms; unused slots have weight 0.
    atoms: Vec<u32>,
    /// [N, k].
    weights: Vec<f64>,
    /// [N] squared error in the metric.
    pub errors: Vec<f64>,
}

/// Vertices that use each atom, in compressed rows.
pub(crate) struct Users {
    starts: Vec<usize>,
    vertices: Vec<u32>,
}

impl Users {
    /// Vertices that use atom `r`, rising.
    pub fn of(&self, r: usize) -> &[u32] {
        &self.vertices[self.starts[r]..self.starts[r + 1]]
    }
}

impl Coefficients {
    /// Everything on atom 0, at infinite error.
    pub fn new(vertices: usize, slots: usize) -> Self {
        let mut weights = vec![0.0; vertices * slots];
        weights.iter_mut().step_by(slots).for_each(|w| *w = 1.0);
        Self { slots, atoms: vec![0; vertices * slots], weights, errors: vec![f64::INFINITY; vertices] }
    }

    /// Used slots of vertex `i`: (atom, weight).
    pub fn of(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + Clone + '_ {
        let row = i * self.slots..(i + 1) * self.slots;
        let pairs = self.atoms[row.clone()].iter().zip(&self.weights[row]);
        pairs.filter(|(_, w)| **w != 0.0).map(|(&r, &w)| (r as usize, w))
    }

    /// Sum of squared errors.
    pub fn total(&self) -> f64 {
        self.errors.iter().sum()
    }

    /// Vertices by atom.
    pub fn users(&self, atoms: usize) -> Users {
        let n = self.errors.len();
        let mut starts = vec![0usize; atoms + 1];
        (0..n).for_each(|i| self.of(i).for_each(|(r, _)| starts[r + 1] += 1));
        (0..atoms).for_each(|r| starts[r + 1] += starts[r]);
        let mut next = starts.clone();
        let mut vertices = vec![0u32; starts[atoms]];
        for i in 0..n {
            for (r, _) in self.of(i) {
                vertices[next[r]] = i as u32;
                next[r] += 1;
            }
        }
        Users { starts, vertices }
    }

    fn set(&mut self, i: usize, choice: &Choice) {
        let row = i * self.slots..(i + 1) * self.slots;
        self.atoms[row.clone()].fill(0);
        self.weights[row.clone()].fill(0.0);
        for ((atom, weight), (r, w)) in
            self.atoms[row.clone()].iter_mut().zip(&mut self.weights[row]).zip(&choice.blend)
        {
            (*atom, *weight) = (*r as u32, *w);
        }
        self.errors[i] = choice.error;
    }

    /// Best blend of vertex `i` without the atoms `gone`, from its other atoms and its neighbours'.
    fn without(
        &self,
        metric: &Metric,
        dictionary: &Dictionary,
        graph: &Graph,
        solver: &mut VertexSolver,
        i: usize,
        gone: impl Fn(usize) -> bool,
    ) -> Option<Choice> {
        let mut candidates: Vec<usize> = Vec::new();
        let near = graph.of(i).iter().flat_map(|&n| self.of(n as usize));
        for (r, _) in self.of(i).chain(near) {
            if !gone(r) && !candidates.contains(&r) {
                candidates.push(r);
            }
        }
        (!candidates.is_empty()).then(|| solver.best(metric, dictionary, i, &candidates, self.slots))
    }

    /// [q] by how much the error would rise without each atom.
    pub fn removal_costs(&self, metric: &Metric, dictionary: &Dictionary, graph: &Graph) -> Vec<f64> {
        let solver = || VertexSolver::new(metric.bones);
        let of_vertex = |solver: &mut VertexSolver, i: usize| -> Vec<(usize, f64)> {
            self.of(i)
                .map(|(r, _)| {
                    let choice = self.without(metric, dictionary, graph, solver, i, |s| s == r);
                    (r, choice.map_or(f64::INFINITY, |c| (c.error - self.errors[i]).max(0.0)))
                })
                .collect()
        };
        let all: Vec<Vec<(usize, f64)>> = (0..self.errors.len()).into_par_iter().map_init(solver, of_vertex).collect();
        let mut costs = vec![0.0; dictionary.len()];
        all.into_iter().flatten().for_each(|(r, cost)| costs[r] += cost);
        costs
    }

    /// Vertices let go of freed atoms.
    pub fn release(&mut self, metric: &Metric, dictionary: &Dictionary, graph: &Graph, freed: &[bool]) {
        let mut solver = VertexSolver::new(metric.bones);
        let held: Vec<usize> = (0..self.errors.len()).filter(|&i| self.of(i).any(|(r, _)| freed[r])).collect();
        let choices: Vec<Option<Choice>> =
            held.iter().map(|&i| self.without(metric, dictionary, graph, &mut solver, i, |r| freed[r])).collect();
        for (i, choice) in held.into_iter().zip(choices) {
            if let Some(choice) = choice {
                self.set(i, &choice);
            }
        }
    }

    /// Numbers of the atoms after those that are `freed`, which no vertex uses any more, are gone.
    pub fn renumber(&mut self, freed: &[bool]) {
        let mut left = 0;
        let mut number = |freed: &bool| {
            left += u32::from(!freed);
            left.saturating_sub(1)
        };
        let number: Vec<u32> = freed.iter().map(&mut number).collect();
        self.atoms
            .iter_mut()
            .zip(&self.weights)
            .for_each(|(r, w)| *r = if *w == 0.0 { 0 } else { number[*r as usize] });
    }

    /// Solves every vertex again on its own atoms, after the dictionary has moved.
    pub fn refresh(&mut self, metric: &Metric, dictionary: &Dictionary) {
        let this = &*self;
        let solve = |solver: &mut VertexSolver, i: usize| {
            let own: Vec<usize> = this.of(i).map(|(r, _)| r).collect();
            solver.best(metric, dictionary, i, &own, this.slots)
        };
        let solver = || VertexSolver::new(metric.bones);
        let choices: Vec<Choice> = (0..self.errors.len()).into_par_iter().map_init(solver, solve).collect();
        choices.iter().enumerate().for_each(|(i, choice)| self.set(i, choice));
    }
}

/// A way to blend one vertex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub blend: Vec<(usize, f64)>,
    pub error: f64,
}

/// Passes atoms from vertex to vertex.
pub(crate) struct Spreader<'a> {
    metric: &'a Metric,
    graph: &'a Graph,
    solver: VertexSolver,
    queue: VecDeque<u32>,
    waiting: Vec<bool>,
    /// Vertices whose error changed since it was last emptied.
    pub changed: Vec<u32>,
    offered: Vec<usize>,
}

impl<'a> Spreader<'a> {
    pub fn new(metric: &'a Metric, graph: &'a Graph) -> Self {
        Self {
            metric,
            graph,
            solver: VertexSolver::new(metric.bones),
            queue: VecDeque::new(),
            waiting: vec![false; metric.vertices()],
            changed: Vec::new(),
            offered: Vec::new(),
        }
    }

    /// Offers atoms to vertex `i`, and spreads from there.
    pub fn seed(&mut self, dictionary: &Dictionary, coefficients: &mut Coefficients, i: usize, atoms: &[usize]) {
        self.offered.clear();
        self.offered.extend_from_slice(atoms);
        if self.offer(dictionary, coefficients, i) {
            self.enqueue(i);
        }
        self.drain(dictionary, coefficients);
    }

    /// Every vertex offers its atoms to its neighbours, until nobody takes any.
    pub fn spread_all(&mut self, dictionary: &Dictionary, coefficients: &mut Coefficients) {
        (0..coefficients.errors.len()).for_each(|i| self.enqueue(i));
        self.drain(dictionary, coefficients);
    }

    fn enqueue(&mut self, i: usize) {
        if !std::mem::replace(&mut self.waiting[i], true) {
            self.queue.push_back(i as u32);
        }
    }

    fn drain(&mut self, dictionary: &Dictionary, coefficients: &mut Coefficients) {
        while let Some(i) = self.queue.pop_front() {
            self.waiting[i as usize] = false;
            for &n in self.graph.of(i as usize) {
                self.offered.clear();
                self.offered.extend(coefficients.of(i as usize).map(|(r, _)| r));
                if self.offer(dictionary, coefficients, n as usize) {
                    self.enqueue(n as usize);
                }
            }
        }
    }

    /// Lets vertex `i` choose among its own atoms and those offered; true if it is better off.
    fn offer(&mut self, dictionary: &Dictionary, coefficients: &mut Coefficients, i: usize) -> bool {
        let own = self.offered.len();
        for (r, _) in coefficients.of(i) {
            if !self.offered.contains(&r) {
                self.offered.push(r);
            }
        }
        // Nothing new among them: its own were solved when they were taken.
        if self.offered[..own].iter().all(|r| coefficients.of(i).any(|(s, _)| s == *r))
            && coefficients.errors[i].is_finite()
        {
            return false;
        }
        let choice = self.solver.best(self.metric, dictionary, i, &self.offered, coefficients.slots);
        let better = choice.error < coefficients.errors[i] * (1.0 - LEAST_GAIN);
        if better {
            coefficients.set(i, &choice);
            self.changed.push(i as u32);
        }
        better
    }
}

/// Finds the best blend of a few atoms, with shared buffers.
pub(crate) struct VertexSolver {
    /// [atoms, B] images of the atoms at the vertex.
    images: Vec<f64>,
    /// [atoms, atoms] products of the atoms, and with the target.
    gram: Vec<f64>,
    linear: Vec<f64>,
    choice: InfluenceSolver<DenseForm>,
    bones: usize,
}

impl VertexSolver {
    pub fn new(bones: usize) -> Self {
        let choice = InfluenceSolver::dense_form();
        Self { images: Vec::new(), gram: Vec::new(), linear: Vec::new(), choice, bones }
    }

    /// Best blend of at most `k` of the atoms `candidates` for vertex `i`.
    pub fn best(
        &mut self,
        metric: &Metric,
        dictionary: &Dictionary,
        i: usize,
        candidates: &[usize],
        k: usize,
    ) -> Choice {
        let (b, m) = (self.bones, candidates.len());
        let (features, q) = (metric.features(i), metric.linear(i));
        self.images.resize(m * b, 0.0);
        self.gram.resize(m * m, 0.0);
        self.linear.clear();
        for (p, &r) in candidates.iter().enumerate() {
            let image = &mut self.images[p * b..(p + 1) * b];
            dictionary.image(r, features, image);
            for (s, &other) in candidates[..=p].iter().enumerate() {
                let product = dot(dictionary.atom(other), image);
                self.gram[p * m + s] = product;
                self.gram[s * m + p] = product;
            }
            self.linear.push(dot(dictionary.atom(r), q));
        }
        let (blend, value) = match k {
            1 => self.best_single(m),
            2 => self.best_pair(m),
            _ => self.best_of_many(m, k),
        };
        let blend = blend.into_iter().filter(|(_, w)| *w != 0.0).map(|(p, w)| (candidates[p], w)).collect();
        Choice { blend, error: (metric.energy[i] + value).max(0.0) }
    }

    fn best_single(&self, m: usize) -> (Vec<(usize, f64)>, f64) {
        let value = |p: usize| self.gram[p * m + p] - 2.0 * self.linear[p];
        let best = (1..m).fold(0, |best, p| if value(p) < value(best) { p } else { best });
        (vec![(best, 1.0)], value(best))
    }

    /// [Le2014 eq. 4.6] for every pair.
    fn best_pair(&self, m: usize) -> (Vec<(usize, f64)>, f64) {
        let (mut blend, mut least) = self.best_single(m);
        for r in 0..m {
            for s in r + 1..m {
                let (rr, rs, ss) = (self.gram[r * m + r], self.gram[r * m + s], self.gram[s * m + s]);
                let distance = rr - 2.0 * rs + ss;
                // Two atoms that are one to rounding have no difference to divide by.
                if distance <= 1e-12 * (rr + ss) {
                    continue;
                }
                let a = ((ss - rs + self.linear[r] - self.linear[s]) / distance).clamp(0.0, 1.0);
                let (x, y) = (a, 1.0 - a);
                let value =
                    x * x * rr + 2.0 * x * y * rs + y * y * ss - 2.0 * (x * self.linear[r] + y * self.linear[s]);
                if value < least {
                    (blend, least) = (vec![(r, x), (s, y)], value);
                }
            }
        }
        (blend, least)
    }

    fn best_of_many(&mut self, m: usize, k: usize) -> (Vec<(usize, f64)>, f64) {
        self.choice.load(&self.linear, |gram| gram.copy_from_slice(&self.gram));
        let mut row = self.choice.dense(&self.best_single(m).0);
        self.choice.shrink(k, &mut row);
        self.choice.exchange(k, &mut row);
        let value = self.choice.value(&row);
        (row, value)
    }
}

#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
