//! Many passes: start, tree, descent with joints, pruning, again [Le2014 ch. 3].
//!
//! Free bones, soft joints, a tree (`free_bones`, `soft_joints`, `graph`) and its search (`tree_search`) on the sample, then
//! rounds on all vertices and frames with the joints held.
//!
//! A single start decides too much, so trees are made from several, the best two of them are searched, and the better one
//! goes on. Most starts are the same for any `--skeleton-start`, so that the result depends little on it.

use glam::DVec3;

use crate::cluster::split;
use crate::model::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::graph::{Gap, JointGraph};
use crate::skeleton::joint_step::Quadratic;
use crate::skeleton::layout::nearest_bone;
use crate::skeleton::params::SkeletonInfo;
use crate::skeleton::pose::Pose;
use crate::skeleton::tree::Tree;
use crate::skeleton::tree_search::{KeepRule, ROUNDS_AFTER, TreeSearch};
use crate::skeleton::{Input, Skeleton, bounds, exact_start, free_bones, links, small_parts, soft_joints};
use crate::skinning::{BoneModel, Effort, Problem, Run, Sample, Skin, Smoothness, State, StopRule, pass};

/// Largest number of bones when it is left open.
pub(super) const MAX_BONES: usize = 64;

/// Clusters that are enough unless many bones are wanted.
const USUAL_CLUSTERS: usize = 48;

/// Rounds end where two in a row lower the error by less than this fraction, unless a tolerance is given.
const TOLERANCE: f64 = 1e-3;

/// Rounds of rotations for frames outside the sample.
const FIRST_ROTATIONS: usize = 20;

/// Frames that are rotated at once.
const FRAMES_AT_ONCE: usize = 128;

/// E_RMS of a first tree below which an animation counts as made with linear blend skinning.
const SKINNED: f64 = 1.0;

/// With the number open the search has so many times the bones that the rule allows.
const MARGIN: f64 = 1.25;

/// How much work an effort stands for.
pub(super) struct Budget {
    /// Clusters to start from besides `--skeleton-start`.
    starts: &'static [usize],
    /// Starts that get a first few cycles of the search.
    finalists: usize,
    /// Those cycles.
    first_cycles: usize,
    /// Cycles of the one that goes on, with a number of bones given.
    cycles: usize,
    /// The same with the number open: weeding and small parts come after it.
    open_cycles: usize,
    /// Rounds of finding bones for small parts.
    refinements: usize,
    /// Whether small parts get a search of their own.
    small_parts: bool,
    /// Rounds on everything.
    rounds: usize,
}

impl Budget {
    fn new(effort: Effort) -> Self {
        let starts: &'static [usize] = &[64, 48, 32, 90, 42, 77];
        let fast = Self {
            starts: &[],
            finalists: 1,
            first_cycles: 0,
            cycles: 2,
            open_cycles: 1,
            refinements: 0,
            small_parts: false,
            rounds: 10,
        };
        match effort {
            Effort::Fast => fast,
            Effort::Balanced => Self {
                starts: &starts[..3],
                finalists: 2,
                first_cycles: 2,
                cycles: 4,
                open_cycles: 2,
                refinements: 2,
                small_parts: true,
                rounds: 20,
            },
            Effort::Best => Self {
                starts,
                finalists: 3,
                first_cycles: 4,
                cycles: 12,
                open_cycles: 12,
                refinements: 4,
                small_parts: true,
                rounds: 60,
            },
        }
    }

    /// For a small part: one start.
    pub fn of_part(&self) -> Self {
        Self { starts: &[], finalists: 1, ..*self }
    }
}

/// Finds a skeleton.
pub(super) fn multipass(input: &Input<'_>, run: &mut Run<'_>) -> Result<Skeleton, Cancelled> {
    let budget = Budget::new(input.fit.effort);
    if let Some(body) = one_bone(input, run)? {
        return finish_sampled(input, input.sample, body, SkeletonInfo::new(1), run);
    }
    let most = input.bones().unwrap_or(MAX_BONES).min(input.sequence.vertex_count());
    if let Some(found) = links::links(input, most, run)? {
        return Ok(found);
    }
    let held = input.with_rest_held();
    let exact = if budget.small_parts { exact_start::find(&held, most, &budget, run)? } else { None };
    if let Some(exact) = exact.as_ref().filter(|exact| exact.holds()) {
        return finish_sampled(input, &exact.sample, exact.body.clone(), exact.info.clone(), run);
    }
    let first = first_tree(&held, starts(input, &budget)[0], run)?;
    let is_skinned = input.fit.keep_rest || first.descent.e_rms() < SKINNED;
    let (input, first) = if is_skinned { (&held, Some(first)) } else { (input, None) };
    let mut best = searched(input, first, &budget, run)?;
    // Both errors are of samples, which have more vertices where parts are small.
    if let Some(exact) = exact
        && best.keep.limit(exact.e_rms, exact.body.pose.bones()) < best.price()
    {
        return finish_sampled(input, &exact.sample, exact.body, exact.info, run);
    }
    if budget.small_parts
        && input.bones().is_none()
        && let Some((sample, body)) = small_parts::search(input, &mut best, &budget, run)?
    {
        return finish_sampled(input, &sample, body, best.info, run);
    }
    finish_sampled(input, input.sample, best.body, best.info, run)
}

/// The best tree of several starts, searched, on the sample; `first` is that of the first start, if it is there already.
pub(super) fn searched<'a>(
    input: &Input<'a>,
    first: Option<TreeSearch<'a>>,
    budget: &Budget,
    run: &mut Run<'_>,
) -> Result<TreeSearch<'a>, Cancelled> {
    let mut tried: Vec<TreeSearch<'_>> = first.into_iter().collect();
    for clusters in starts(input, budget).split_off(tried.len()) {
        if !tried.is_empty() && run.is_over() {
            break;
        }
        tried.push(first_tree(input, clusters, run)?);
    }
    keep_best(&mut tried, budget.finalists);
    if tried.len() > 1 {
        for search in &mut tried {
            search.run(budget.first_cycles, run)?;
        }
        keep_best(&mut tried, 1);
    }
    let mut best = tried.swap_remove(0);
    match input.bones() {
        Some(_) => best.run(budget.cycles, run)?,
        None => open_search(&mut best, input, budget, run)?,
    }
    Ok(best)
}

/// Keeps the trees of the lowest price, in order.
fn keep_best(tried: &mut Vec<TreeSearch<'_>>, count: usize) {
    tried.sort_by(|a, b| a.price().total_cmp(&b.price()));
    tried.truncate(count);
}

/// The search with the number open: more bones than the rule allows, as if their number were given, and those that are not needed
/// removed. Where errors are low a bone that is a mixture of others costs little, and one of the truth much.
fn open_search(
    search: &mut TreeSearch<'_>,
    input: &Input<'_>,
    budget: &Budget,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    let (detail, keep, max_bones) = (input.params.detail, search.keep, search.max_bones);
    search.max_bones = ((search.bones() as f64 * MARGIN).ceil() as usize).min(max_bones);
    search.keep = KeepRule::GIVEN_COUNT;
    search.run(budget.open_cycles, run)?;
    (search.keep, search.max_bones) = (keep, max_bones);
    search.weed(0..search.bones(), detail, &[], run)?;
    search.refine(budget.refinements, detail, run)?;
    search.weed(0..search.bones(), detail, &[], run)?;
    search.regraft(run)
}

/// Clusters to start from: `--skeleton-start`, then the fixed ones; over-complete for any number of bones.
fn starts(input: &Input<'_>, budget: &Budget) -> Vec<usize> {
    let least = (input.bones().unwrap_or(0) * 3).div_ceil(2);
    let mut starts = vec![input.params.start.max(least).max(2)];
    for &clusters in budget.starts {
        // Many bones need as many more clusters.
        let clusters = clusters * least.max(USUAL_CLUSTERS) / USUAL_CLUSTERS;
        if !starts.contains(&clusters) {
            starts.push(clusters);
        }
    }
    starts
}

/// One bone for everything, if that is enough.
fn one_bone(input: &Input<'_>, run: &mut Run<'_>) -> Result<Option<SkinnedPose>, Cancelled> {
    run.stage(Stage::OneBone, None)?;
    let (motion, labels) = split::split(input.coarse, 1, &mut || run.step())?;
    let skin = Skin::rigid(input.local.slots, &labels, input.coarse.rest.clone());
    let state = State { motion, skin, model: BoneModel::new(BoneKind::Rigid, 1, 1) };
    let mut body = joined(input.coarse, state, Gap::Stiffness, run)?;
    let mut descent = SkeletonDescent::new(input.coarse, input.local, None);
    descent.rounds(&mut body, 1, run)?;
    Ok((descent.e_rms() < KeepRule::GIVEN_COUNT.floor).then_some(body))
}

/// From an over-complete start to a first skeleton with joints that hold.
fn first_tree<'a>(input: &Input<'a>, clusters: usize, run: &mut Run<'_>) -> Result<TreeSearch<'a>, Cancelled> {
    let given = input.bones();
    let keep = if given.is_some() { KeepRule::GIVEN_COUNT } else { KeepRule::of_detail(input.params.detail) };
    let max_bones = given.unwrap_or(MAX_BONES).min(input.sequence.vertex_count());
    run.stage(Stage::FreeBones, None)?;
    let state = free_bones::over_complete(input, clusters, run)?;
    let mut info = SkeletonInfo::new(state.bones());
    let (mut state, e_rms) = free_bones::thinned(input, state, max_bones, keep.half(), run)?;
    info.loose_e_rms = Some(e_rms);
    soft_joints::draw_together(input.coarse, &mut state, input.local, run)?;
    run.stage(Stage::Tree, None)?;
    let body = joined(input.coarse, state, Gap::Stiffness, run)?;
    let descent = SkeletonDescent::new(input.coarse, input.local, None);
    let mut search = TreeSearch { descent, body, info, max_bones, keep, near: input.near };
    search.descend(1, run)?;
    search.info.joined_e_rms = Some(search.descent.e_rms());
    search.descend(ROUNDS_AFTER, run)?;
    search.regraft(run)?;
    search.prune(run)?;
    search.regraft(run)?;
    Ok(search)
}

/// A tree of free bones: minimum spanning tree of a joint graph, root in the middle for now; rotations stay.
pub(super) fn joined(problem: &Problem, state: State, gap: Gap, run: &mut Run<'_>) -> Result<SkinnedPose, Cancelled> {
    let State { motion, skin, .. } = state;
    let second = pass::gather(problem, &motion, &skin).second;
    let centroids: Vec<DVec3> = second.of.iter().map(|coupling| coupling.centre()).collect();
    let root = nearest_bone(&centroids, problem.rest.iter().sum::<DVec3>() / problem.vertices() as f64);
    let edges = JointGraph::new(&motion, &second, gap).spanning_tree(run)?;
    let tree = Tree::new(motion.bones, &edges, root, centroids[root]);
    Ok(SkinnedPose { pose: Pose::from_motion(tree, &motion), skin })
}

/// The pose in all frames: those outside the sample start like the nearest one in it. Joints hold everywhere, so rotations
/// alone bring them to their places.
fn all_frames(input: &Input<'_>, sample: &Sample, body: &SkinnedPose, run: &mut Run<'_>) -> Result<Pose, Cancelled> {
    let (vertices, picked) = sample.picked();
    let nearest = |t: &u32| (0..picked.len()).min_by_key(|&k| picked[k].abs_diff(*t)).unwrap_or(0);
    let every: Vec<u32> = (0..input.problem.frames() as u32).collect();
    let mut full = Pose { rotations: Vec::new(), places: Vec::new(), tree: body.pose.tree.clone() };
    run.stage(Stage::AllFrames, Some(every.len().div_ceil(FRAMES_AT_ONCE)))?;
    for frames in every.chunks(FRAMES_AT_ONCE) {
        let from: Vec<usize> = frames.iter().map(nearest).collect();
        let mut part = Pose {
            rotations: from.iter().flat_map(|&k| body.pose.frame(k)).copied().collect(),
            places: from.iter().map(|&k| body.pose.places[k]).collect(),
            tree: body.pose.tree.clone(),
        };
        if every.len() > picked.len() {
            let dense = input.problem.subset(input.sequence, vertices, frames);
            let motion = part.to_motion();
            let moments = pass::gather(&dense, &motion, &body.skin);
            Quadratic::new(&moments, &motion).rotate(&mut part, FIRST_ROTATIONS);
        }
        full.rotations.append(&mut part.rotations);
        full.places.append(&mut part.places);
        run.step()?;
    }
    Ok(full)
}

/// From a sample to all vertices and frames, and [`finish`].
fn finish_sampled(
    input: &Input<'_>,
    sample: &Sample,
    body: SkinnedPose,
    info: SkeletonInfo,
    run: &mut Run<'_>,
) -> Result<Skeleton, Cancelled> {
    let pose = run.observed("lift", |run| all_frames(input, sample, &body, run))?;
    finish(input, SkinnedPose { pose, skin: sample.all_vertices(input.problem, &body.skin) }, info, run)
}

/// All vertices and frames, joints held, until the stop rule ends the rounds.
fn finish(input: &Input, mut body: SkinnedPose, info: SkeletonInfo, run: &mut Run) -> Result<Skeleton, Cancelled> {
    let fit = input.fit;
    let rounds = fit.max_iterations.unwrap_or(Budget::new(fit.effort).rounds);
    run.stage(Stage::WeightsAndJoints, Some(rounds))?;
    let smoothness = (fit.smooth > 0.0).then(|| Smoothness::new(input.problem, input.adjacency.clone(), fit.smooth));
    let mut descent = SkeletonDescent::new(input.problem, input.last(), smoothness.as_ref());
    let mut rule = StopRule::new(rounds, fit.tolerance.unwrap_or(TOLERANCE), 2);
    let stop = loop {
        descent.round(&mut body, run)?;
        if let Some(stop) = rule.after(descent.e_rms(), run) {
            break stop;
        }
    };
    descent.step_back(&mut body);
    bounds::draw_in(&mut descent, &mut body, run)?;
    Ok(Skeleton { body, info, stop })
}
