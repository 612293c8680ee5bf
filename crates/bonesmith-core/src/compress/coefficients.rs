//! The coefficients A: the virtual bones that each vertex blends.
//!
//! Deviation: coefficients are convex, not affine (eq. 4.6): every engine and the glTF format need such weights. A virtual
//! bone then lies among its vertices; the atoms, which stay affine, move outward to compensate.

use crate::compress::dictionary::Dictionary;
use crate::model::Row;
use crate::skinning::{DenseForm, InfluenceSolver};

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

    /// [q] vertices that use each atom, rising.
    pub fn users(&self, atoms: usize) -> Vec<Vec<u32>> {
        let mut users = vec![Vec::new(); atoms];
        (0..self.errors.len()).for_each(|i| self.of(i).for_each(|(r, _)| users[r].push(i as u32)));
        users
    }

    pub fn set(&mut self, i: usize, (blend, error): &Blend) {
        let mut blend = blend.iter();
        for at in i * self.slots..(i + 1) * self.slots {
            let (r, w) = blend.next().copied().unwrap_or((0, 0.0));
            (self.atoms[at], self.weights[at]) = (r as u32, w);
        }
        self.errors[i] = *error;
    }

    /// Renumbers the atoms after those that are `freed`, which no vertex uses any more, were removed.
    pub fn renumber(&mut self, freed: &[bool]) {
        let mut number = vec![0; freed.len()];
        (0..freed.len()).filter(|&r| !freed[r]).zip(0..).for_each(|(r, next)| number[r] = next);
        let slots = self.atoms.iter_mut().zip(&self.weights);
        slots.for_each(|(r, w)| *r = if *w == 0.0 { 0 } else { number[*r as usize] });
    }
}

/// The blend of one vertex, (atom, weight), and its squared error.
pub(crate) type Blend = (Row, f64);

/// Finds the best blend of a few atoms, with shared buffers.
pub(crate) struct BlendSolver {
    /// [B] image of one atom at the vertex.
    image: Vec<f64>,
    /// [atoms, atoms] products of the atoms, and with the target.
    gram: Vec<f64>,
    linear: Vec<f64>,
    choice: InfluenceSolver<DenseForm>,
}

impl BlendSolver {
    pub fn new() -> Self {
        Self { image: Vec::new(), gram: Vec::new(), linear: Vec::new(), choice: InfluenceSolver::dense_form() }
    }

    /// Best blend of at most `k` of the atoms `candidates` for vertex `i`.
    pub fn best(&mut self, dictionary: &Dictionary, i: usize, candidates: &[usize], k: usize) -> Blend {
        let metric = dictionary.metric;
        let m = candidates.len();
        let (features, q) = (metric.features(i), metric.linear(i));
        self.image.resize(metric.bones, 0.0);
        self.gram.resize(m * m, 0.0);
        self.linear.clear();
        for (p, &r) in candidates.iter().enumerate() {
            dictionary.image(r, features, &mut self.image);
            for (s, &other) in candidates[..=p].iter().enumerate() {
                let product = dot(dictionary.atom(other), &self.image);
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
        (blend, (metric.energy[i] + value).max(0.0))
    }

    /// Squared error of a blend.
    pub fn error(
        &mut self,
        dictionary: &Dictionary,
        i: usize,
        blend: impl Iterator<Item = (usize, f64)> + Clone,
    ) -> f64 {
        let metric = dictionary.metric;
        let (features, q) = (metric.features(i), metric.linear(i));
        self.image.resize(metric.bones, 0.0);
        let mut value = metric.energy[i];
        for (r, a) in blend.clone() {
            dictionary.image(r, features, &mut self.image);
            value -= 2.0 * a * dot(dictionary.atom(r), q);
            value += blend.clone().map(|(s, b)| a * b * dot(dictionary.atom(s), &self.image)).sum::<f64>();
        }
        value.max(0.0)
    }

    fn best_single(&self, m: usize) -> (Row, f64) {
        let value = |p: usize| self.gram[p * m + p] - 2.0 * self.linear[p];
        let best = (1..m).fold(0, |best, p| if value(p) < value(best) { p } else { best });
        (vec![(best, 1.0)], value(best))
    }

    /// [Le2014 eq. 4.6] for every pair.
    fn best_pair(&self, m: usize) -> (Row, f64) {
        let (mut blend, mut least) = self.best_single(m);
        for r in 0..m {
            for s in r + 1..m {
                let (rr, rs, ss) = (self.gram[r * m + r], self.gram[r * m + s], self.gram[s * m + s]);
                let distance = rr - 2.0 * rs + ss;
                // Two equal atoms, up to rounding: no difference to divide by.
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

    fn best_of_many(&mut self, m: usize, k: usize) -> (Row, f64) {
        self.choice.load(&self.linear, |gram| gram.copy_from_slice(&self.gram));
        let mut row = self.choice.dense(&self.best_single(m).0);
        self.choice.choose(k, &mut row);
        let value = self.choice.value(&row);
        (row, value)
    }
}

#[inline]
fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
