//! Rest positions, then weights, of all vertices for fixed bones [Kavan2010 s.4.3, s.4.4].
//!
//! Deviations: a vertex keeps its bones where they serve it better than those that alone predict best, which need not
//! be a good set together, so no step raises the error; rest position and weights are solved twice, being cheap beside
//! the sums that the transformations need.
//!
//! With `Y_j = T_j^T v` and `K_jk = T_j^T T_k` (see `fit::local`) both are arithmetic on tiny matrices. All in
//! float64: sums are of the size of the trajectories, differences of the size of the error.

use glam::DVec3;

use crate::baselines::products::{Part, best_rest, for_each_vertex};
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::products::{BoneProducts, PAIRS};
use crate::skinning::skin::Skin;
use crate::solve::simplex::SimplexSolver;

/// A bone is redundant for a vertex when less than this squared share of the way to its prediction leads out of the
/// span of the bones chosen before. The paper says "close to linearly dependent".
const REDUNDANT: f64 = 1e-6;

/// Alternations of rest position and weights.
const ROUNDS: usize = 2;

/// Moves rest positions (if asked to) and finds new weights; the squared error afterwards.
///
/// Vertices are independent and errors are added in their order: the result does not depend on threads.
pub(super) fn solve(problem: &Problem, motion: &Motion, skin: &mut Skin, move_rest: bool) -> f64 {
    let products = BoneProducts::new(motion.bones, motion.gram().to_vec());
    let slots = skin.slots;
    for_each_vertex(
        problem,
        motion,
        skin,
        || Solver::new(motion.bones, slots),
        |solver, mut vertex| {
            solver.present.read(vertex.bones, vertex.weights);
            let value = solver.vertex(&products, vertex.y, vertex.rest, move_rest);
            vertex.set(solver.present.influences());
            vertex.energy + value
        },
    )
}

/// Chosen one by one, where [`Part::load`] takes all at once out of a quadratic in all bones.
impl Part {
    /// Takes a vertex's slots over.
    fn read(&mut self, bones: &[u16], weights: &[f64]) {
        self.clear();
        for (&j, &w) in bones.iter().zip(weights).take_while(|(_, w)| **w > 0.0) {
            self.bones.push(j as usize);
            self.weights.push(w);
        }
    }

    fn clear(&mut self) {
        self.bones.clear();
        self.weights.clear();
    }

    /// Fills row and column `p` of the quadratic: `G = u^T K_jk u`, `q = Y_j . u`.
    fn load_row(&mut self, products: &BoneProducts, y: &[f64], u: &[f64; 4], p: usize) {
        let (b, j, stride) = (products.bones, self.bones[p], self.stride());
        self.linear[p] = (0..4).map(|c| u[c] * y[c * b + j]).sum();
        for q in 0..=p {
            let form = products.form(j, self.bones[q], u);
            self.gram[p * stride + q] = form;
            self.gram[q * stride + p] = form;
        }
    }

    /// `(a_p - a_0) . (a_q - a_0)` with `a` the bones' predictions.
    fn product(&self, p: usize, q: usize) -> f64 {
        let g = |a: usize, b: usize| self.gram[a * self.stride() + b];
        g(p, q) - g(p, 0) - g(0, q) + g(0, 0)
    }
}

/// Buffers for one vertex.
struct Solver {
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

impl Solver {
    fn new(bones: usize, slots: usize) -> Self {
        Self {
            simplex: SimplexSolver::new(slots),
            present: Part::new(slots),
            candidate: Part::new(slots),
            distances: vec![0.0; bones],
            factor: vec![0.0; slots * slots],
        }
    }

    /// Solves a vertex from its projections; the squared error less `|v|^2`.
    fn vertex(&mut self, products: &BoneProducts, y: &[f64], rest: &mut DVec3, move_rest: bool) -> f64 {
        let mut value = 0.0;
        for _ in 0..if move_rest { ROUNDS } else { 1 } {
            if move_rest {
                let influences: Vec<_> = self.present.influences().collect();
                *rest = best_rest(products, y, &influences, *rest);
            }
            value = self.reweigh(products, y, &[rest.x, rest.y, rest.z, 1.0]);
        }
        value
    }

    /// New weights for a rest position.
    fn reweigh(&mut self, products: &BoneProducts, y: &[f64], u: &[f64; 4]) -> f64 {
        self.find_distances(products, y, u);
        self.choose(products, y, u);
        (0..self.present.bones.len()).for_each(|p| self.present.load_row(products, y, u, p));
        let Self { simplex, present, candidate, .. } = self;
        let slots = present.stride();
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
    fn find_distances(&mut self, products: &BoneProducts, y: &[f64], u: &[f64; 4]) {
        let b = products.bones;
        self.distances.fill(0.0);
        for (p, (c, d)) in PAIRS.into_iter().enumerate() {
            let own = &products.own[p * b..(p + 1) * b];
            self.distances.iter_mut().zip(own).for_each(|(sum, own)| *sum += u[c] * u[d] * own);
        }
        for (c, x) in u.iter().enumerate() {
            self.distances.iter_mut().zip(&y[c * b..(c + 1) * b]).for_each(|(sum, y)| *sum -= 2.0 * x * y);
        }
    }

    /// The bones that alone predict best, without those that add nothing to better ones; all weight on the first.
    fn choose(&mut self, products: &BoneProducts, y: &[f64], u: &[f64; 4]) {
        self.candidate.clear();
        for _ in 0..products.bones {
            let mut nearest = 0;
            for (j, &distance) in self.distances.iter().enumerate() {
                if distance < self.distances[nearest] {
                    nearest = j;
                }
            }
            self.distances[nearest] = f64::INFINITY;
            let p = self.candidate.bones.len();
            self.candidate.bones.push(nearest);
            self.candidate.load_row(products, y, u, p);
            if self.is_redundant(p) {
                self.candidate.bones.pop();
            } else {
                self.candidate.weights.push(if p == 0 { 1.0 } else { 0.0 });
            }
            if self.candidate.bones.len() == self.candidate.stride() {
                break;
            }
        }
    }

    /// Whether the candidate's last bone predicts an affine mix of what those before it predict [Kavan2010 s.4.4].
    fn is_redundant(&mut self, p: usize) -> bool {
        if p == 0 {
            return false;
        }
        let (mix, stride) = (&self.candidate, self.candidate.stride());
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
    use crate::synthetic::{PosedRigParams, posed_rig};

    fn start(slots: usize) -> (Problem, Motion, Skin) {
        let raw = posed_rig(5, &PosedRigParams { bones: 7, ..PosedRigParams::default() }).sequence;
        let sequence = MeshSequence::try_from(raw).unwrap();
        let problem = Problem::new(&sequence);
        let regions = grow(&problem, &sequence.surface().topology, 9);
        let skin = Skin::rigid(slots, &regions.labels, problem.rest.clone());
        (problem, regions.motion, skin)
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
        let products = BoneProducts::new(motion.bones, motion.gram().to_vec());
        let mut moved = 0.0f64;
        for i in 0..problem.vertices() {
            let v = problem.trajectory(i);
            let along = |row: &[f64]| row.iter().zip(v).map(|(a, v)| a * f64::from(*v)).sum::<f64>();
            let y: Vec<f64> = motion.rows().chunks(motion.length).map(along).collect();
            let mut mix = Part::new(4);
            mix.read(&skin.bones[i * 4..(i + 1) * 4], &skin.weights[i * 4..(i + 1) * 4]);
            let best = best_rest(&products, &y, &mix.influences().collect::<Vec<_>>(), skin.rest[i]);
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
    fn a_vertex_that_no_frame_tells_about_stays() {
        let motion = Motion::from_rows(1, 3, vec![0.0; 12]);
        let products = BoneProducts::new(1, motion.gram().to_vec());
        let rest = DVec3::new(0.1, 0.2, 0.3);
        let mut mix = Part::new(1);
        mix.read(&[0], &[1.0]);
        assert_eq!(best_rest(&products, &[0.0; 4], &mix.influences().collect::<Vec<_>>(), rest), rest);
    }
}
