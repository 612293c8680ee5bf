//! Smooth skinning decomposition with rigid bones [Le2012, as Course2014 s.1.4-1.5 and Le2014 s.3.7-3.10 tell it].
//!
//! 1. K-means: vertices to the rigid motion that predicts them best, motions from their vertices [Course2014 s.1.4];
//! 2. rounds of weights (active set over all bones, the K of largest effect stay, again [eq. 13, 14]) and of bones, one
//!    after another, each exact with the others fixed [eq. 16-20, alg. 4], until a round takes less than 1 % off the
//!    squared error [Le2014 s.3.10.2]; bones on which nothing hangs start again where the error is largest;
//! 3. the rest pose is corrected once, at the end [Course2014 alg. 3, line 6].
//!
//! Left open by the paper and chosen here: K-means starts from the vertices nearest to some picked at random (`--seed`),
//! and ends after the five rounds that the thesis' clusters have (evenly spread starts are up to a third closer: not what
//! was published); bones are reinitialised at most [`MOST_NEW`] times their number; the effect of a bone
//! (eq. 14, which depends on the origin) is measured about the model's middle in each frame.

use crate::baselines::frame::{Rest, Rounds, Solved, fit_bones};
use crate::baselines::products::{Part, Quadratic, Vertex, best_rest, for_each_vertex};
use crate::cluster::region_growing::cells;
use crate::cluster::split;
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::BoneKind;
use crate::observer::Observer;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::State;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::params::{FitError, FitParams, Fitted};
use crate::skinning::pass;
use crate::skinning::plant;
use crate::skinning::problem::Problem;
use crate::skinning::products::BoneProducts;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::solve::random::Random;
use crate::solve::simplex::SimplexSolver;

/// Rounds of K-means [Le2014 s.3.4].
const MEANS_ROUNDS: usize = 5;

/// Most rounds of weights and bones.
const MOST_ROUNDS: usize = 100;

/// A round that takes less than this share off E_RMS is the last: 1 % of the squared error [Le2014 s.3.10.2].
const TOLERANCE: f64 = 0.005;

/// A bone with less squared weight than this many vertices is insignificant [Course2014 s.1.5.2].
const INSIGNIFICANT: f64 = 3.0;

/// Vertices that a reinitialised bone moves with [Course2014 s.1.5.2].
const PATCH: usize = 20;

/// Most reinitialisations, over the number of bones.
const MOST_NEW: usize = 2;

/// Fits rigid bones by the method of 2012.
pub(crate) fn ssdr(
    sequence: &MeshSequence,
    params: &FitParams,
    observer: &mut dyn Observer,
) -> Result<Fitted, FitError> {
    if params.bone_kind != BoneKind::Rigid {
        return Err(FitError::Unsupported("the method ssdr makes rigid bones only".into()));
    }
    fit_bones(sequence, params, Rest::Given, observer, |problem, count, run| decompose(problem, count, params, run))
}

/// [Course2014 alg. 3].
fn decompose(problem: &Problem, count: usize, params: &FitParams, run: &mut Run<'_>) -> Result<Solved, FitError> {
    run.stage("k-means", None)?;
    let (mut motion, labels) = run.observed("k-means", |run| means(problem, count, params.seed, run))?;
    let slots = params.influences.unwrap_or(count).min(count);
    let mut skin = Skin::rigid(slots, &labels, problem.rest.clone());
    let model = BoneModel::new(BoneKind::Rigid, count, 1);
    let mut rounds = Rounds::new(params, MOST_ROUNDS, TOLERANCE);
    let mut new_left = MOST_NEW * count;
    run.stage("weights and bones", Some(rounds.most()))?;
    loop {
        run.timed("weights", || update_weights(problem, &motion, &mut skin));
        let moments = run.timed("sums", || pass::gather(problem, &motion, &skin));
        let gain = run.timed("bones", || bone_step::update(&mut motion, &moments, &model));
        let e_rms = problem.e_rms(moments.squared_error - gain);
        run.round(count, e_rms)?;
        if let Some(stop) = rounds.ended(e_rms, run) {
            let mut solved = Solved { state: State { motion, skin, model }, stop, rounds: rounds.count, e_rms };
            if !params.keep_rest {
                solved.e_rms = run.timed("rest pose", || correct_rest(problem, &mut solved.state));
            }
            run.round(count, solved.e_rms)?;
            return Ok(solved);
        }
        new_left -= reinitialise(problem, &mut motion, &skin, &moments, new_left);
    }
}

/// Rigid clusters: motion of each and the cluster of every vertex.
fn means(problem: &Problem, count: usize, seed: u64, run: &mut Run<'_>) -> Result<(Motion, Vec<u16>), FitError> {
    let mut random = Random::new(seed);
    let mut vertices: Vec<usize> = (0..problem.vertices()).collect();
    // The first of a shuffle: all different.
    for k in 0..count {
        let left = vertices.len() - k;
        let other = k + ((random.unit() * left as f64) as usize).min(left - 1);
        vertices.swap(k, other);
    }
    let mut labels = cells(&problem.rest, &vertices[..count]);
    let mut motion = Motion::identity(count, problem.frames());
    split::refit(problem, &mut motion, &mut labels, MEANS_ROUNDS, &mut || run.step())?;
    Ok((motion, labels))
}

/// Buffers for one vertex.
struct Solver {
    simplex: SimplexSolver,
    /// [B, B] and [B]: the error as a quadratic in all weights.
    gram: Vec<f64>,
    linear: Vec<f64>,
    /// [B]
    weights: Vec<f64>,
    /// Bones by falling effect.
    order: Vec<usize>,
    part: Part,
}

impl Solver {
    fn new(bones: usize, slots: usize) -> Self {
        Self {
            simplex: SimplexSolver::new(bones),
            gram: vec![0.0; bones * bones],
            linear: vec![0.0; bones],
            weights: vec![0.0; bones],
            order: Vec::with_capacity(bones),
            part: Part::new(slots),
        }
    }

    /// All bones, then the K of largest effect [Course2014 s.1.5.1].
    fn vertex(&mut self, quadratic: &Quadratic, mut vertex: Vertex<'_>) -> f64 {
        let Self { simplex, gram, linear, weights, order, part } = self;
        let b = quadratic.bones;
        quadratic.load(vertex.y, &vertex.homogeneous(), gram, linear);
        weights.fill(0.0);
        for (&j, &w) in vertex.bones.iter().zip(vertex.weights.iter()).filter(|(_, w)| **w > 0.0) {
            weights[j as usize] = w;
        }
        simplex.solve(gram, b, linear, weights);
        order.clear();
        order.extend((0..b).filter(|&j| weights[j] > 0.0));
        // [Course2014 eq. 14] |w_j T_j u|^2 over all frames.
        let effect = |j: usize| weights[j] * weights[j] * gram[j * b + j];
        order.sort_by(|&x, &y| effect(y).total_cmp(&effect(x)).then(x.cmp(&y)));
        part.load(order.iter().copied(), gram, linear);
        let total: f64 = part.bones.iter().map(|&j| weights[j]).sum();
        part.weights.extend(part.bones.iter().map(|&j| weights[j] / total));
        if order.len() > part.bones.len() {
            simplex.solve(&part.gram, part.stride(), &part.linear, &mut part.weights);
        }
        vertex.set(part.influences());
        vertex.energy + part.value()
    }
}

fn update_weights(problem: &Problem, motion: &Motion, skin: &mut Skin) -> f64 {
    let (quadratic, slots) = (Quadratic::new(motion), skin.slots);
    let make = || Solver::new(motion.bones, slots);
    for_each_vertex(problem, motion, skin, make, |solver, vertex| solver.vertex(&quadratic, vertex))
}

/// Bones with hardly any weight move with the surroundings of the worst vertices; how many [Course2014 s.1.5.2].
fn reinitialise(problem: &Problem, motion: &mut Motion, skin: &Skin, moments: &Moments, most: usize) -> usize {
    let b = motion.bones;
    let weight = |j: usize| moments.second.mass(j);
    // Of few vertices nothing is significant by this measure: then less will do.
    let least = INSIGNIFICANT.min(0.5 * problem.vertices() as f64 / b as f64);
    let mut errors = moments.per_vertex.clone();
    let mut done = 0;
    for j in (0..b).filter(|&j| weight(j) < least) {
        let worst = (0..errors.len()).max_by(|&x, &y| errors[x].total_cmp(&errors[y]).then(y.cmp(&x)));
        let Some(worst) = worst.filter(|&i| errors[i] > 0.0 && done < most) else { break };
        let members = plant::nearest(problem, worst, PATCH);
        members.iter().for_each(|&i| errors[i] = 0.0);
        for (t, m) in plant::rigid_motion(problem, &skin.rest, &members).iter().enumerate() {
            motion.set(j, t, m);
        }
        done += 1;
    }
    done
}

/// Every rest position to where it fits best with the weights it has; the error afterwards.
fn correct_rest(problem: &Problem, state: &mut State) -> f64 {
    let State { motion, skin, .. } = state;
    let products = BoneProducts::new(motion.bones, motion.gram().to_vec());
    for_each_vertex(problem, motion, skin, Vec::new, |influences, vertex| {
        influences.clear();
        let used = vertex.bones.iter().zip(vertex.weights.iter()).take_while(|(_, w)| **w > 0.0);
        influences.extend(used.map(|(&j, &w)| (j as usize, w)));
        *vertex.rest = best_rest(&products, vertex.y, influences, *vertex.rest);
        0.0
    });
    problem.e_rms(pass::gather(problem, motion, skin).squared_error)
}
