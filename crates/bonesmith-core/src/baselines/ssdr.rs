//! Smooth skinning decomposition with rigid bones [Le2012, as described in Course2014 s.1.4-1.5 and Le2014 s.3.7-3.10].
//!
//! 1. K-means: vertices to the rigid motion that predicts them best, motions from their vertices [Course2014 s.1.4];
//! 2. rounds of weights (active set over all bones, the K of largest effect stay, again [eq. 13, 14]) and of bones, one
//!    after another, each exact with the others fixed [eq. 16-20, alg. 4], until a round takes less than 1 % off the
//!    squared error [Le2014 s.3.10.2]; bones with hardly any weight start again where the error is largest;
//! 3. the rest pose is corrected once, at the end [Course2014 alg. 3, line 6].
//!
//! Left open by the paper and chosen here: K-means starts from the vertices nearest to some picked at random (`--seed`),
//! and ends after the five rounds that the thesis' clusters have (evenly spread starts are up to a third closer: not what
//! was published); bones are reinitialised at most [`MAX_NEW`] times their number; the effect of a bone
//! (eq. 14, which depends on the origin) is measured about the model's middle in each frame.

use crate::baselines::published::{Attempt, FoundBones, Input};
use crate::baselines::vertices::{best_rest, for_each_vertex, weigh};
use crate::cluster::split;
use crate::cluster::spread::cells;
use crate::model::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skinning::{BoneModel, Form, Moments, Motion, Problem, Run, Skin, bone_step, pass, plant};
use crate::solve::random::Random;

/// Rounds of K-means [Le2014 s.3.4].
const MEANS_ROUNDS: usize = 5;

/// Most rounds of weights and bones.
const MAX_ROUNDS: usize = 100;

/// A round that takes less than this share off E_RMS is the last: 1 % of the squared error [Le2014 s.3.10.2].
const TOLERANCE: f64 = 0.005;

/// A bone with less squared weight than this many vertices is insignificant [Course2014 s.1.5.2].
const INSIGNIFICANT: f64 = 3.0;

/// Vertices that a reinitialised bone moves with [Course2014 s.1.5.2].
const PATCH: usize = 20;

/// Most reinitialisations, over the number of bones.
const MAX_NEW: usize = 2;

/// [Course2014 alg. 3].
pub(super) fn decompose(input: &Input, count: usize, run: &mut Run<'_>) -> FoundBones {
    let Input { params, problem, .. } = input;
    run.stage(Stage::KMeans, None)?;
    let (mut motion, labels) = run.observed("k-means", |run| means(problem, count, params.seed, run))?;
    let mut skin = Skin::rigid(input.slots(count), &labels, problem.rest.clone());
    let model = BoneModel::new(BoneKind::Rigid, count, 1);
    let mut rule = input.stop_rule(MAX_ROUNDS, TOLERANCE);
    let mut new_left = MAX_NEW * count;
    run.stage(Stage::WeightsAndBones, Some(rule.rounds))?;
    loop {
        run.observed("weights", |run| update_weights(problem, &motion, &mut skin, run))?;
        let moments = run.timed("sums", || pass::gather(problem, &motion, &skin));
        let gain = run.timed("bones", || bone_step::update(&mut motion, &moments, &model));
        let mut e_rms = problem.e_rms(moments.squared_error - gain);
        run.round(count, e_rms)?;
        if let Some(stop) = rule.after(e_rms, run) {
            if !params.keep_rest {
                e_rms = run.observed("rest pose", |run| correct_rest(problem, &motion, &mut skin, run))?;
            }
            run.round(count, e_rms)?;
            return Ok(Attempt::new(motion, skin, BoneKind::Rigid, stop, rule.count, e_rms));
        }
        new_left -= reinitialise(problem, &mut motion, &skin, &moments, new_left);
    }
}

/// Rigid clusters: motion of each and the cluster of every vertex.
fn means(problem: &Problem, count: usize, seed: u64, run: &mut Run<'_>) -> Result<(Motion, Vec<u16>), Cancelled> {
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
    split::refit(problem, &mut motion, &mut labels, MEANS_ROUNDS, &mut || run.report())?;
    Ok((motion, labels))
}

/// Weights on all bones, then on the K of largest effect [Course2014 s.1.5.1].
fn update_weights(problem: &Problem, motion: &Motion, skin: &mut Skin, run: &mut Run<'_>) -> Result<(), Cancelled> {
    let slots = skin.slots;
    weigh(
        problem,
        motion,
        skin,
        run,
        || (),
        |(), solver, present| {
            let mut row = solver.dense(&present);
            // [Course2014 eq. 14] |w_j T_j u|^2 over all frames.
            let effect = |&(j, w): &(usize, f64)| w * w * solver.form.diagonal(j);
            row.sort_by(|x, y| effect(y).total_cmp(&effect(x)).then(x.0.cmp(&y.0)));
            if row.len() > slots {
                row.truncate(slots);
                solver.reweigh(&mut row);
            }
            row
        },
    )
}

/// Bones with hardly any weight get the motion of the surroundings of the worst vertices, at most `limit` of them; how many
/// [Course2014 s.1.5.2].
fn reinitialise(problem: &Problem, motion: &mut Motion, skin: &Skin, moments: &Moments, limit: usize) -> usize {
    let b = motion.bones;
    // With few vertices per bone none is significant by this measure: then less is enough.
    let least = INSIGNIFICANT.min(0.5 * problem.vertices() as f64 / b as f64);
    let mut errors = moments.per_vertex.clone();
    let mut done = 0;
    for j in (0..b).filter(|&j| moments.second.mass(j) < least) {
        let worst = (0..errors.len()).max_by(|&x, &y| errors[x].total_cmp(&errors[y]).then(y.cmp(&x)));
        let Some(worst) = worst.filter(|&i| errors[i] > 0.0 && done < limit) else { break };
        let members = plant::nearest(problem, worst, PATCH);
        members.iter().for_each(|&i| errors[i] = 0.0);
        for (t, m) in plant::rigid_motion(problem, &skin.rest, &members).iter().enumerate() {
            motion.set(j, t, m);
        }
        done += 1;
    }
    done
}

/// Moves every rest position to where it fits best with its weights; the error afterwards.
fn correct_rest(problem: &Problem, motion: &Motion, skin: &mut Skin, run: &mut Run<'_>) -> Result<f64, Cancelled> {
    motion.gram();
    for_each_vertex(problem, motion, skin, run, Vec::new, |influences, mut vertex| {
        influences.clear();
        influences.extend(vertex.influences());
        *vertex.rest() = best_rest(motion, vertex.y, influences, *vertex.rest());
        0.0
    })?;
    Ok(problem.e_rms(pass::gather(problem, motion, skin).squared_error))
}
