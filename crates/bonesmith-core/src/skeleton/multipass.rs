//! Many passes: start, tree, descent with joints, pruning, again [Le2014 ch. 3].
//!
//! 1. `loose`: over-complete patches, growing influences, thinned out [s.3.4, 3.6];
//! 2. `graph`: joints and minimum spanning tree [s.3.5, 3.6];
//! 3. `rigging`: joints as a growing penalty while the tree may still change [s.3.8.3];
//! 4. `search`: descent with the joints held; pruning and restart; planting; regrafting;
//! 5. all vertices and frames, joints held, until rounds no longer pay.
//!
//! Steps 1 to 3 are run from several starts, the search on the best two of them, and the better one goes on: a single
//! start decides too much. Most of them are the same whatever start is asked for, so that the result depends little on it.

use glam::DVec3;

use crate::cluster::split;
use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skeleton::descend::{Body, JointDescent};
use crate::skeleton::graph::Graph;
use crate::skeleton::loose::Ground;
use crate::skeleton::params::{SkeletonInfo, SkeletonParams};
use crate::skeleton::pose::Pose;
use crate::skeleton::search::Search;
use crate::skeleton::solve::Quadratic;
use crate::skeleton::tree::Tree;
use crate::skeleton::worth::Worth;
use crate::skeleton::{Skeleton, rigging};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::params::{BoneCount, Effort, FitParams, StopReason};
use crate::skinning::pass;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::Smoothness;

/// Most bones when their number is left open.
const MOST_BONES: usize = 64;

/// Clusters that are enough unless many bones are asked for.
const USUAL_CLUSTERS: usize = 48;

/// E_RMS below which there is nothing left to search for.
const EXACT: f64 = 1e-3;

/// Rounds after a change of the tree.
const SETTLE: usize = 4;

/// Rounds end where they lower the error by less than this fraction, unless told otherwise.
const TOLERANCE: f64 = 1e-3;

/// Turns that bring frames home which the search has not seen.
const FIRST_TURNS: usize = 20;

/// Bones planted in a cycle, as a share of those there are; by the number of cycles that failed before it.
const EXTRA: [f64; 3] = [0.2, 0.4, 0.1];

/// A cycle of the search must bring the price below this share of the best.
const LEAST_PROGRESS: f64 = 0.9995;

/// How much work an effort stands for.
struct Work {
    /// Clusters to start from besides those asked for.
    starts: &'static [usize],
    /// Starts that get a first few cycles of the search.
    finalists: usize,
    /// Those cycles.
    heats: usize,
    /// Cycles of the one that goes on.
    cycles: usize,
    /// Rounds on everything.
    rounds: usize,
}

impl Work {
    fn new(effort: Effort) -> Self {
        match effort {
            Effort::Fast => Self { starts: &[], finalists: 1, heats: 0, cycles: 2, rounds: 10 },
            Effort::Balanced => Self { starts: &[64, 48, 32], finalists: 2, heats: 2, cycles: 4, rounds: 20 },
            Effort::Best => Self { starts: &[64, 48, 32, 90, 42, 77], finalists: 3, heats: 4, cycles: 12, rounds: 60 },
        }
    }
}

/// Finds a skeleton.
pub(crate) fn multipass(
    ground: &Ground<'_>,
    fit: &FitParams,
    params: &SkeletonParams,
    run: &mut Run<'_>,
) -> Result<Skeleton, Cancelled> {
    let asked = match fit.bones {
        BoneCount::Exact(bones) => Some(bones),
        _ => None,
    };
    let worth = if asked.is_some() { Worth::ASKED } else { Worth::of_detail(params.detail) };
    let most = asked.unwrap_or(MOST_BONES).min(ground.sequence.vertex_count());
    let work = Work::new(fit.effort);
    if let Some(body) = one_bone(ground, run)? {
        return finish(ground, fit, body, SkeletonInfo::new(1), run);
    }
    let mut tried: Vec<(Search<'_>, SkeletonInfo)> = Vec::new();
    for clusters in starts(params.start, asked.unwrap_or(0), work.starts) {
        if !tried.is_empty() && run.is_over() {
            break;
        }
        tried.push(first_tree(ground, clusters, most, worth, fit.effort, run)?);
    }
    let by_price =
        |a: &(Search<'_>, SkeletonInfo), b: &(Search<'_>, SkeletonInfo)| a.0.price(worth).total_cmp(&b.0.price(worth));
    tried.sort_by(by_price);
    tried.truncate(work.finalists);
    if tried.len() > 1 {
        for (search, info) in &mut tried {
            improve_tree(search, work.heats, most, worth, info, run)?;
        }
        tried.sort_by(by_price);
    }
    let Some((mut search, mut info)) = tried.into_iter().next() else { unreachable!("at least one start is made") };
    improve_tree(&mut search, work.cycles, most, worth, &mut info, run)?;
    finish(ground, fit, search.body, info, run)
}

/// Clusters to start from: those asked for, then the fixed ones; over-complete, however many `bones` are wanted.
fn starts(asked: usize, bones: usize, fixed: &[usize]) -> Vec<usize> {
    let least = (bones * 3).div_ceil(2);
    let mut starts = vec![asked.max(least).max(2)];
    for &clusters in fixed {
        // Many bones need as many more clusters.
        let clusters = clusters * least.max(USUAL_CLUSTERS) / USUAL_CLUSTERS;
        if !starts.contains(&clusters) {
            starts.push(clusters);
        }
    }
    starts
}

/// The whole as one rigid part, where it moves like one.
fn one_bone(ground: &Ground<'_>, run: &mut Run<'_>) -> Result<Option<Body>, Cancelled> {
    let (motion, labels) = split::split(ground.coarse, 1, &mut || run.step())?;
    let skin = Skin::rigid(ground.local.slots, &labels, ground.coarse.rest.clone());
    let body = joined(ground, State { motion, skin, model: BoneModel::new(BoneKind::Rigid, 1, 1) });
    let mut search = Search { descent: JointDescent::new(ground.coarse, ground.local, None), body };
    search.settle(1, run)?;
    Ok((search.descent.e_rms() < Worth::ASKED.floor).then_some(search.body))
}

/// From an over-complete start to a first skeleton with joints that hold.
fn first_tree<'a>(
    ground: &Ground<'a>,
    clusters: usize,
    most: usize,
    worth: Worth,
    effort: Effort,
    run: &mut Run<'_>,
) -> Result<(Search<'a>, SkeletonInfo), Cancelled> {
    run.stage("loose bones", None)?;
    let state = ground.over_complete(clusters, run)?;
    let start_bones = state.bones();
    // Joints cost error, so loose bones are thinned out less than the skeleton will be.
    let (mut state, loose) = ground.thinned(state, most, worth.half(), effort, run)?;
    run.stage("soft joints", None)?;
    rigging::rig(ground, &mut state, run)?;
    run.stage("tree", None)?;
    let body = joined(ground, state);
    let mut search = Search { descent: JointDescent::new(ground.coarse, ground.local, None), body };
    search.settle(1, run)?;
    let joined = search.descent.e_rms();
    search.settle(SETTLE, run)?;
    let mut regrafted = search.regraft(run);
    search.settle(SETTLE, run)?;
    let before = search.bones();
    search.prune(worth, SETTLE, run)?;
    regrafted += search.regraft(run);
    search.settle(SETTLE, run)?;
    let info = SkeletonInfo {
        loose_e_rms: Some(loose),
        joined_e_rms: Some(joined),
        regrafted,
        pruned: before - search.bones(),
        ..SkeletonInfo::new(start_bones)
    };
    Ok((search, info))
}

/// A tree of loose bones: minimum spanning tree, root in the middle for now.
pub(crate) fn joined(ground: &Ground<'_>, state: State) -> Body {
    let State { motion, mut skin, .. } = state;
    let moments = pass::gather(ground.coarse, &motion, &skin);
    let graph = Graph::new(&motion, &moments);
    let middle = ground.coarse.rest.iter().sum::<DVec3>() / ground.coarse.vertices() as f64;
    let away = |j: &usize| graph.centroid(*j).distance_squared(middle);
    let root = (0..motion.bones).min_by(|x, y| away(x).total_cmp(&away(y))).unwrap_or(0);
    let tree = Tree::new(motion.bones, &graph.spanning_tree(), root, graph.centroid(root));
    Body { pose: Pose::from_motion(tree, &motion), skin }
}

/// Plants, regrafts, thins out to at most `most` bones that are worth it; keeps the best. Bones may become more: a start
/// that was thinned out too far would lack them for good.
fn improve_tree(
    search: &mut Search<'_>,
    cycles: usize,
    most: usize,
    worth: Worth,
    info: &mut SkeletonInfo,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    run.stage("search", Some(cycles))?;
    let mut best = (search.price(worth), search.body.clone());
    let mut failures = 0;
    for _ in 0..cycles {
        let count = search.bones();
        if run.is_over() || count < 2 || search.descent.e_rms() < EXACT || failures == 3 {
            break;
        }
        // The same cycle from the same state would fail again: plant more, then fewer.
        let extra = (count as f64 * EXTRA[failures % EXTRA.len()]).ceil() as usize;
        search.plant(extra, SETTLE, run)?;
        info.regrafted += search.regraft(run);
        search.settle(SETTLE, run)?;
        search.thin_out(most, SETTLE, run)?;
        let before = search.bones();
        search.prune(worth, SETTLE, run)?;
        info.pruned += before - search.bones();
        info.regrafted += search.regraft(run);
        search.settle(SETTLE, run)?;
        let price = search.price(worth);
        if price < best.0 * LEAST_PROGRESS {
            best = (price, search.body.clone());
            failures = 0;
        } else {
            failures += 1;
            search.body = best.1.clone();
            search.descent.restart();
            search.settle(1, run)?;
        }
    }
    search.body = best.1;
    Ok(())
}

/// The pose in all frames: those outside the sample start like the nearest one in it. Joints hold everywhere, so the
/// turns of the first rounds bring them home.
fn all_frames(ground: &Ground<'_>, pose: &Pose, skin: &Skin) -> Pose {
    let (frames, picked) = (ground.problem.frames(), ground.sample.picked().1);
    let nearest = |t: usize| (0..picked.len()).min_by_key(|&k| picked[k].abs_diff(t as u32)).unwrap_or(0);
    let from: Vec<usize> = (0..frames).map(nearest).collect();
    let mut full = Pose {
        tree: pose.tree.clone(),
        rotations: from.iter().flat_map(|&k| pose.frame(k)).copied().collect(),
        places: from.iter().map(|&k| pose.places[k]).collect(),
    };
    if frames > picked.len() {
        let every: Vec<u32> = (0..frames as u32).collect();
        let dense = ground.problem.subset(ground.sequence, ground.sample.picked().0, &every);
        let mut skin = skin.clone();
        let motion = full.to_motion();
        let moments = pass::gather(&dense, &motion, &skin);
        Quadratic::new(&moments, &motion).turn(&mut full, FIRST_TURNS);
    }
    full
}

/// All vertices and frames, joints held, until rounds no longer pay.
pub(crate) fn finish(
    ground: &Ground<'_>,
    fit: &FitParams,
    body: Body,
    info: SkeletonInfo,
    run: &mut Run<'_>,
) -> Result<Skeleton, Cancelled> {
    let model = BoneModel::new(BoneKind::Rigid, body.pose.bones(), 3);
    let seen = body.skin.clone();
    let state = State { motion: body.pose.to_motion(), skin: body.skin, model };
    let mut body = run.timed("lift", || {
        let lifted = ground.sample.lift(ground.problem, ground.sequence, state);
        Body { pose: all_frames(ground, &body.pose, &seen), skin: lifted.skin }
    });
    let rounds = fit.max_iterations.unwrap_or(Work::new(fit.effort).rounds);
    run.stage("weights and joints", Some(rounds))?;
    let smoothness = (fit.smooth > 0.0).then(|| Smoothness::new(ground.problem, ground.adjacency.clone(), fit.smooth));
    let mut descent = JointDescent::new(ground.problem, ground.local, smoothness.as_ref());
    let (mut last, mut poor, mut stop) = (f64::INFINITY, 0, StopReason::MaxIterations);
    for _ in 0..rounds {
        descent.round(&mut body, run)?;
        let e_rms = descent.e_rms();
        poor = if e_rms > last * (1.0 - fit.tolerance.unwrap_or(TOLERANCE)) { poor + 1 } else { 0 };
        last = e_rms;
        stop = match () {
            () if e_rms < 1e-6 => StopReason::Exact,
            () if poor == 2 => StopReason::Converged,
            () if run.is_over() => StopReason::MaxSeconds,
            () => continue,
        };
        break;
    }
    descent.settle(&mut body);
    Ok(Skeleton { body, info, stop })
}
