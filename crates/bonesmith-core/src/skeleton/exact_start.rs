//! A start from the bones that the animation was made with, where these can be found (`cluster::exact`).

use crate::cluster::exact::{self, Exact, Points};
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skeleton::Input;
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::graph::Gap;
use crate::skeleton::multipass::{Budget, MAX_BONES, joined};
use crate::skeleton::params::SkeletonInfo;
use crate::skeleton::small_parts::{Alone, alone};
use crate::skeleton::tree_search::{KeepRule, TreeSearch};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::run::Run;
use crate::skinning::sample::Sample;
use crate::skinning::skin::Skin;

/// Vertices that are looked at, at most twice as many.
const MAX_VERTICES: usize = 12_000;

/// The share of the blended vertices that bones must explain.
const MIN_SHARE: f64 = 0.6;

/// Vertices of each bone in the sample that the search goes on with, and vertices that are not explained.
const SAMPLED: (usize, usize) = (24, 600);

/// Rounds with the joints held, at first.
const ROUNDS: usize = 8;

/// Times that bones which are not needed are removed.
const WEEDS: usize = 2;

/// Fewest vertices that are not explained in a part that is searched on its own, and the edges around it that are searched with it.
const MIN_REGION: usize = 48;
const RINGS: usize = 4;

/// A bone of such a part is new if it moves at least so many vertices that are not explained, and this share of those that are.
const MIN_MASS: f64 = 3.0;
const MIN_OPEN: f64 = 0.3;

/// E_RMS that is good enough, at a detail of 1: without a bone of the truth it is higher.
const FLOOR: f64 = 0.05;

/// E_RMS up to which a skeleton of these bones needs no other to compare with.
const HOLDS: f64 = 0.2;

/// A skeleton that begins with the bones that the animation was made with, on a sample of its own.
pub(super) struct ExactStart {
    pub sample: Sample,
    pub body: SkinnedPose,
    pub info: SkeletonInfo,
    pub e_rms: f64,
}

impl ExactStart {
    /// Whether there is no need for another search.
    pub fn holds(&self) -> bool {
        self.e_rms <= HOLDS
    }
}

/// Looks for the bones that the animation was made with; `None` where they explain too little.
pub(super) fn find(
    input: &Input<'_>,
    max_bones: usize,
    budget: &Budget,
    run: &mut Run<'_>,
) -> Result<Option<ExactStart>, Cancelled> {
    run.stage(Stage::ExactBones, None)?;
    let frames = input.sample.picked().1.len();
    let dense = Sample::new(input.problem, MAX_VERTICES, frames, input.fit.seed);
    let (vertices, frames) = dense.picked();
    let near = dense.neighbours(input.adjacency);
    let points = Points::new(input.sequence, &input.problem.space, vertices, frames, near);
    let found =
        run.observed("exact bones", |run| exact::find(&points, MAX_BONES, input.fit.seed, &mut || run.step()))?;
    let Some(found) = found.filter(|found| found.share >= MIN_SHARE) else { return Ok(None) };
    let mut picked: Vec<u32> = sampled(&found).into_iter().map(|i| vertices[i]).collect();
    let regions = regions(&points, &found, vertices);
    let mut start = state(&points, found, input.local.slots);
    for region in regions {
        if run.is_over() {
            break;
        }
        let own: Vec<u32> = region.vertices.iter().map(|&i| vertices[i]).collect();
        let alone = alone(input, &own, budget, run)?;
        picked.extend(&alone.picked);
        complete(&mut start, &region, &alone);
    }
    let sample = input.sample.with_vertices(input.problem, &picked);
    let skin = dense.all_vertices(input.problem, &start.skin).pick(sample.picked().0);
    let (coarse, near) = (sample.problem(input.problem, input.sequence), sample.neighbours(input.adjacency));
    let body = joined(&coarse, State { skin, ..start }, Gap::Stiffness, run)?;
    let detail = input.params.detail;
    let keep = KeepRule { floor: FLOOR / detail, ..KeepRule::of_detail(detail) };
    let info = SkeletonInfo::new(body.pose.bones());
    let descent = SkeletonDescent::new(&coarse, input.local, None);
    let mut search = TreeSearch { descent, body, info, max_bones, keep, near: &near };
    search.descend(ROUNDS, run)?;
    search.regraft(run)?;
    for _ in 0..WEEDS {
        search.weed(0..search.bones(), detail, &[], run)?;
    }
    // Where fewer are wanted.
    search.thin_out(run)?;
    search.regraft(run)?;
    let e_rms = search.descent.e_rms();
    let TreeSearch { body, info, .. } = search;
    Ok(Some(ExactStart { sample, body, info, e_rms }))
}

/// Vertices that the sample needs: those that each bone moves most, and those that are not explained.
fn sampled(found: &Exact) -> Vec<usize> {
    let mut own: Vec<Vec<(f64, usize)>> = vec![Vec::new(); found.bones.len()];
    let mut open = Vec::new();
    for (i, row) in found.weights.iter().enumerate() {
        row.iter().for_each(|&(j, w)| own[j].push((w, i)));
        open.extend(row.is_empty().then_some(i));
    }
    let stride = open.len().div_ceil(SAMPLED.1).max(1);
    let mut picked: Vec<usize> = open.into_iter().step_by(stride).collect();
    for mut own in own {
        own.sort_by(|x, y| y.0.total_cmp(&x.0).then(x.1.cmp(&y.1)));
        picked.extend(own.into_iter().take(SAMPLED.0).map(|(_, i)| i));
    }
    picked
}

/// A part of the surface that bones do not explain.
struct Region {
    /// Vertices, and some around them.
    vertices: Vec<usize>,
    /// Which of them are not explained.
    open: Vec<bool>,
}

/// Parts that are not explained, of [`MIN_REGION`] vertices or more, with what is [`RINGS`] edges around them.
///
/// `numbers` [N] are those of the vertices in the whole mesh, which the vertices of a region are sorted by.
fn regions(points: &Points, found: &Exact, numbers: &[u32]) -> Vec<Region> {
    let is_open = |i: usize| found.weights[i].is_empty();
    let near = points.near();
    let mut wide: Vec<bool> = (0..points.len()).map(is_open).collect();
    for _ in 0..RINGS {
        let touched = |i: usize| wide[i] || near.of(i).iter().any(|&k| wide[k as usize]);
        wide = (0..points.len()).map(touched).collect();
    }
    let (labels, count) = near.components_where(|i, k| wide[i] && wide[k]);
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); count];
    (0..points.len()).filter(|&i| wide[i]).for_each(|i| members[labels[i] as usize].push(i));
    members.iter_mut().for_each(|members| members.sort_unstable_by_key(|&i| numbers[i]));
    let region = |vertices: Vec<usize>| Region { open: vertices.iter().map(|&i| is_open(i)).collect(), vertices };
    let open = |region: &Region| region.open.iter().filter(|open| **open).count();
    members.into_iter().map(region).filter(|region| open(region) >= MIN_REGION).collect()
}

/// Adds those bones of a region's own skeleton that move what was not explained, and their weights there.
fn complete(state: &mut State, region: &Region, alone: &Alone) {
    let own = alone.motion.bones;
    let mut mass = vec![[0.0; 2]; own];
    for (at, &open) in region.open.iter().enumerate() {
        alone.skin.of(at).for_each(|(k, w)| mass[k][usize::from(open)] += w);
    }
    let is_new = |k: &usize| mass[*k][1] > MIN_MASS && mass[*k][1] > MIN_OPEN * mass[*k][0];
    let new: Vec<usize> = (0..own).filter(is_new).collect();
    let first = state.motion.bones;
    let mut motion = Motion::identity(first + new.len(), state.motion.frames());
    for t in 0..motion.frames() {
        (0..first).for_each(|j| motion.set(j, t, &state.motion.get(j, t)));
        new.iter().enumerate().for_each(|(at, &k)| motion.set(first + at, t, &alone.motion.get(k, t)));
    }
    for (at, &i) in region.vertices.iter().enumerate().filter(|(at, _)| region.open[*at]) {
        let number = |(k, w): (usize, f64)| new.iter().position(|&new| new == k).map(|at| (first + at, w));
        let row: Vec<(usize, f64)> = alone.skin.of(at).filter_map(number).take(state.skin.slots).collect();
        let sum: f64 = row.iter().map(|(_, w)| w).sum();
        if sum > 0.5 {
            state.skin.set(i, row.into_iter().map(|(j, w)| (j, w / sum)));
        }
    }
    state.model = BoneModel::new(BoneKind::Rigid, motion.bones, 1);
    state.motion = motion;
}

/// Bones and weights; vertices that are not explained begin with the weights of the nearest one that is.
fn state(points: &Points, found: Exact, slots: usize) -> State {
    let mut motion = Motion::identity(found.bones.len(), points.frames());
    for (j, path) in found.bones.iter().enumerate() {
        path.iter().enumerate().for_each(|(t, m)| motion.set_transform(j, t, m));
    }
    let mut skin = Skin::empty(slots, points.rest.clone());
    for i in 0..points.len() {
        let is_explained = |k: usize| !found.weights[k].is_empty();
        let from = if is_explained(i) { Some(i) } else { points.nearest(i, is_explained) };
        let row = from.map_or(&[][..], |k| &found.weights[k][..slots.min(found.weights[k].len())]);
        let sum: f64 = row.iter().map(|(_, w)| w).sum();
        match row.is_empty() {
            true => skin.set(i, [(0, 1.0)]),
            false => skin.set(i, row.iter().map(|&(j, w)| (j, w / sum))),
        }
    }
    State { motion, skin, model: BoneModel::new(BoneKind::Rigid, found.bones.len(), 1) }
}
