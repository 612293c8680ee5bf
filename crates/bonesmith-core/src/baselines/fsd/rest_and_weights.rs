//! Rest positions, then weights, of all vertices for fixed bones [Kavan2010 s.4.3, s.4.4].
//!
//! Deviations: a vertex keeps its bones where their error is lower than that of the bones that alone predict best, which need
//! not be a good set together, so no step raises the error; rest position and weights are solved twice, which costs little
//! beside the sums that the transformations need.

use crate::baselines::vertices::{Vertex, best_rest, for_each_vertex};
use crate::model::Row;
use crate::observer::Cancelled;
use crate::skinning::products::{PAIRS, along, form, monomials};
use crate::skinning::{Motion, Problem, Run, Skin};
use crate::solve::simplex::SimplexSolver;

/// A bone is redundant for a vertex when less than this squared share of the way to its prediction leads out of the
/// span of the bones chosen before. The paper says "close to linearly dependent".
const REDUNDANT: f64 = 1e-6;

/// Alternations of rest position and weights.
const ROUNDS: usize = 2;

/// Finds new weights and, with `move_rest`, rest positions; the squared error afterwards.
///
/// Vertices are independent and errors are added in their order: the result does not depend on threads.
pub(super) fn solve(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    move_rest: bool,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    let own = monomials(motion.bones, motion.gram());
    let slots = skin.slots;
    let make = || RestAndWeights::new(motion, &own, slots);
    for_each_vertex(problem, motion, skin, run, make, |solver, vertex| solver.vertex(vertex, move_rest))
}

/// A few bones of a vertex, solved apart from the others. A bone whose weight becomes 0 stays one: in the next round it may have
/// some again.
struct Part {
    /// K: also the stride of `gram`.
    slots: usize,
    bones: Vec<usize>,
    weights: Vec<f64>,
    /// [K, K]
    gram: Vec<f64>,
    /// [K]
    linear: Vec<f64>,
}

impl Part {
    fn new(slots: usize) -> Self {
        let (gram, linear) = (vec![0.0; slots * slots], vec![0.0; slots]);
        Self { slots, bones: Vec::with_capacity(slots), weights: Vec::with_capacity(slots), gram, linear }
    }

    fn read(&mut self, influences: impl Iterator<Item = (usize, f64)>) {
        self.bones.clear();
        self.weights.clear();
        for (j, w) in influences {
            self.bones.push(j);
            self.weights.push(w);
        }
    }

    /// Fills row and column `p` of the quadratic: `G = u^T K_jk u`, `q = Y_j . u`.
    fn load_row(&mut self, motion: &Motion, y: &[f64], u: &[f64; 4], p: usize) {
        let (b, j, stride) = (motion.bones, self.bones[p], self.slots);
        self.linear[p] = along(y, j, u);
        for q in 0..=p {
            let form = form(b, motion.gram(), (j, u), (self.bones[q], u));
            (self.gram[p * stride + q], self.gram[q * stride + p]) = (form, form);
        }
    }

    /// `(a_p - a_0) . (a_q - a_0)` with `a` the bones' predictions.
    fn product(&self, p: usize, q: usize) -> f64 {
        let g = |a: usize, b: usize| self.gram[a * self.slots + b];
        g(p, q) - g(p, 0) - g(0, q) + g(0, 0)
    }

    /// Squared error less `|v|^2`.
    fn value(&self) -> f64 {
        let mut sum = 0.0;
        for (p, wp) in self.weights.iter().enumerate() {
            let row = &self.gram[p * self.slots..][..self.weights.len()];
            let product: f64 = row.iter().zip(&self.weights).map(|(g, w)| g * w).sum();
            sum += wp * (product - 2.0 * self.linear[p]);
        }
        sum
    }

    /// Bones with their weights.
    fn influences(&self) -> impl Iterator<Item = (usize, f64)> {
        self.bones.iter().copied().zip(self.weights.iter().copied())
    }
}

/// Rest position and weights of one vertex after another.
struct RestAndWeights<'a> {
    motion: &'a Motion,
    /// [10, B]
    own: &'a [f64],
    simplex: SimplexSolver,
    /// What the vertex has.
    present: Part,
    /// What the paper's rule gives it: bones by how well they predict it alone.
    candidate: Part,
    /// [B] squared distance from the vertex to each bone's prediction, less `|v|^2`.
    distances: Vec<f64>,
    /// [K, K] Gram-Schmidt on the candidate, as the Cholesky factor of its differences to the first.
    factor: Vec<f64>,
}

impl<'a> RestAndWeights<'a> {
    fn new(motion: &'a Motion, own: &'a [f64], slots: usize) -> Self {
        Self {
            motion,
            own,
            simplex: SimplexSolver::new(slots),
            present: Part::new(slots),
            candidate: Part::new(slots),
            distances: vec![0.0; motion.bones],
            factor: vec![0.0; slots * slots],
        }
    }

    /// Solves a vertex; its squared error.
    fn vertex(&mut self, mut vertex: Vertex<'_>, move_rest: bool) -> f64 {
        self.present.read(vertex.influences());
        let mut value = 0.0;
        for _ in 0..if move_rest { ROUNDS } else { 1 } {
            if move_rest {
                let influences: Row = self.present.influences().collect();
                *vertex.rest() = best_rest(self.motion, vertex.y, &influences, *vertex.rest());
            }
            value = self.reweigh(vertex.y, &vertex.homogeneous());
        }
        vertex.set(self.present.influences());
        vertex.energy + value
    }

    /// New weights for a rest position; the squared error less `|v|^2`.
    fn reweigh(&mut self, y: &[f64], u: &[f64; 4]) -> f64 {
        self.find_distances(y, u);
        self.choose(y, u);
        (0..self.present.bones.len()).for_each(|p| self.present.load_row(self.motion, y, u, p));
        let Self { simplex, present, candidate, .. } = self;
        let slots = present.slots;
        simplex.solve(&candidate.gram, slots, &candidate.linear, &mut candidate.weights);
        if present.bones.is_empty() {
            std::mem::swap(present, candidate);
            return present.value();
        }
        simplex.solve(&present.gram, slots, &present.linear, &mut present.weights);
        if candidate.value() < present.value() {
            std::mem::swap(present, candidate);
        }
        present.value()
    }

    /// `|T_j u - v|^2 - |v|^2` of every bone.
    fn find_distances(&mut self, y: &[f64], u: &[f64; 4]) {
        let b = self.motion.bones;
        self.distances.fill(0.0);
        for ((c, d), own) in PAIRS.into_iter().zip(self.own.chunks_exact(b)) {
            self.distances.iter_mut().zip(own).for_each(|(sum, own)| *sum += u[c] * u[d] * own);
        }
        for (x, y) in u.iter().zip(y.chunks_exact(b)) {
            self.distances.iter_mut().zip(y).for_each(|(sum, y)| *sum -= 2.0 * x * y);
        }
    }

    /// The bones that alone predict best, without those that add nothing to better ones; all weight on the first.
    fn choose(&mut self, y: &[f64], u: &[f64; 4]) {
        self.candidate.read(std::iter::empty());
        for _ in 0..self.motion.bones {
            let nearer = |best: usize, j: usize| if self.distances[j] < self.distances[best] { j } else { best };
            let nearest = (0..self.distances.len()).fold(0, nearer);
            self.distances[nearest] = f64::INFINITY;
            let p = self.candidate.bones.len();
            self.candidate.bones.push(nearest);
            self.candidate.load_row(self.motion, y, u, p);
            if self.is_redundant(p) {
                self.candidate.bones.pop();
            } else {
                self.candidate.weights.push(if p == 0 { 1.0 } else { 0.0 });
            }
            if self.candidate.bones.len() == self.candidate.slots {
                break;
            }
        }
    }

    /// Whether the candidate's last bone predicts an affine mix of what those before it predict [Kavan2010 s.4.4].
    fn is_redundant(&mut self, p: usize) -> bool {
        if p == 0 {
            return false;
        }
        let (mix, stride) = (&self.candidate, self.candidate.slots);
        let way = mix.product(p, p);
        let mut left = way;
        for q in 1..p {
            let earlier = (1..q).map(|r| self.factor[p * stride + r] * self.factor[q * stride + r]).sum::<f64>();
            let entry = (mix.product(p, q) - earlier) / self.factor[q * stride + q];
            self.factor[p * stride + q] = entry;
            left -= entry * entry;
        }
        // The second bound is the rounding of the differences.
        let redundant = left <= REDUNDANT * way || left <= 1e-13 * mix.gram[0];
        if !redundant {
            self.factor[p * stride + p] = left.sqrt();
        }
        redundant
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::region_growing::grow;
    use crate::mesh::sequence::MeshSequence;
    use crate::observer::Silent;
    use crate::skinning::params::FitParams;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use glam::DVec3;

    fn start(slots: usize) -> (Problem, Motion, Skin) {
        let raw = posed_rig(5, &PosedRigParams { bones: 7, ..PosedRigParams::default() }).sequence;
        let sequence = MeshSequence::try_from(raw).unwrap();
        let problem = Problem::new(&sequence);
        let regions = grow(&problem, &sequence.surface().topology, 9, &mut || Ok(())).unwrap();
        let skin = Skin::rigid(slots, &regions.labels, problem.rest.clone());
        (problem, regions.motion, skin)
    }

    fn solve(problem: &Problem, motion: &Motion, skin: &mut Skin, move_rest: bool) -> f64 {
        let mut silent = Silent;
        super::solve(problem, motion, skin, move_rest, &mut Run::new(&FitParams::default(), &mut silent)).unwrap()
    }

    /// `sum_j w_j T_j u`, number by number.
    fn posed(motion: &Motion, influences: impl Iterator<Item = (usize, f64)>, rest: DVec3) -> Vec<f64> {
        let mut out = vec![0.0; motion.length];
        for (j, w) in influences {
            for (c, x) in [rest.x, rest.y, rest.z, 1.0].into_iter().enumerate() {
                out.iter_mut().zip(motion.row(c, j)).for_each(|(p, m)| *p += w * x * m);
            }
        }
        out
    }

    fn distance(problem: &Problem, i: usize, posed: &[f64]) -> f64 {
        problem.trajectory(i).iter().zip(posed).map(|(v, p)| (f64::from(*v) - p).powi(2)).sum()
    }

    fn total(problem: &Problem, motion: &Motion, skin: &Skin) -> f64 {
        (0..problem.vertices()).map(|i| distance(problem, i, &posed(motion, skin.of(i), skin.rest[i]))).sum()
    }

    #[test]
    fn no_step_raises_the_error() {
        let (problem, mut motion, mut skin) = start(2);
        let mut last = total(&problem, &motion, &skin);
        for _ in 0..3 {
            let error = solve(&problem, &motion, &mut skin, true);
            assert!(error <= last && (error - total(&problem, &motion, &skin)).abs() < 1e-9 * (1.0 + error));
            // Other bones, as after an update: what was chosen before need not be best any more.
            motion.rows_mut().iter_mut().enumerate().for_each(|(at, x)| *x *= 1.0 + 0.01 * (at as f64).sin());
            last = total(&problem, &motion, &skin);
        }
    }

    #[test]
    fn weights_are_on_the_bones_that_alone_predict_best() {
        let (problem, motion, mut skin) = start(3);
        // No bones yet: the paper's rule alone decides.
        skin.weights.fill(0.0);
        let error = solve(&problem, &motion, &mut skin, false);
        let slow = total(&problem, &motion, &skin);
        assert!((error - slow).abs() < 1e-9 * (1.0 + slow), "{error} {slow}");
        for i in 0..problem.vertices() {
            let alone = |j: usize| distance(&problem, i, &posed(&motion, std::iter::once((j, 1.0)), skin.rest[i]));
            let mut order: Vec<usize> = (0..motion.bones).collect();
            order.sort_by(|&a, &b| alone(a).total_cmp(&alone(b)));
            assert!(skin.of(i).all(|(j, _)| order[..3].contains(&j)), "vertex {i}");
            assert!((skin.of(i).map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-9);
            // No small trade of weight between two of the three is better.
            let here = distance(&problem, i, &posed(&motion, skin.of(i), skin.rest[i]));
            for (from, _) in skin.of(i) {
                for &to in &order[..3] {
                    let traded = skin.of(i).map(|(j, w)| (j, if j == from { w - 1e-4 } else { w })).chain([(to, 1e-4)]);
                    let there = distance(&problem, i, &posed(&motion, traded, skin.rest[i]));
                    assert!(there >= here - 1e-9, "vertex {i}: {here} to {there}");
                }
            }
        }
    }

    #[test]
    fn rest_positions_are_the_best_for_their_weights() {
        let (problem, motion, mut skin) = start(4);
        solve(&problem, &motion, &mut skin, false);
        let mut moved = 0.0f64;
        for i in 0..problem.vertices() {
            let v = problem.trajectory(i);
            let along = |row: &[f64]| row.iter().zip(v).map(|(a, v)| a * f64::from(*v)).sum::<f64>();
            let y: Vec<f64> = motion.rows().chunks(motion.length).map(along).collect();
            let best = best_rest(&motion, &y, &skin.of(i).collect::<Vec<_>>(), skin.rest[i]);
            let error = |rest: DVec3| distance(&problem, i, &posed(&motion, skin.of(i), rest));
            moved = moved.max(best.distance(skin.rest[i]));
            assert!(error(best) <= error(skin.rest[i]) + 1e-12);
            for step in [DVec3::X, DVec3::Y, DVec3::Z] {
                assert!(error(best + 1e-3 * step) >= error(best) && error(best - 1e-3 * step) >= error(best));
            }
        }
        assert!(moved > 1e-3);
    }

    #[test]
    fn bones_that_move_alike_are_replaced() {
        let (problem, motion, mut skin) = start(2);
        skin.weights.fill(0.0);
        // Every bone three times: of the two nearest one is redundant, and the next different one takes its place.
        let tripled = motion.select(&(0..3 * motion.bones).map(|j| j / 3).collect::<Vec<_>>());
        let mut single = skin.clone();
        let expected = solve(&problem, &motion, &mut single, false);
        let error = solve(&problem, &tripled, &mut skin, false);
        assert!((error - expected).abs() < 1e-6 * expected, "{error} {expected}");
    }

    #[test]
    fn a_vertex_that_no_frame_depends_on_stays() {
        let motion = Motion::from_rows(1, 3, vec![0.0; 12]);
        let rest = DVec3::new(0.1, 0.2, 0.3);
        assert_eq!(best_rest(&motion, &[0.0; 4], &[(0, 1.0)], rest), rest);
    }
}
