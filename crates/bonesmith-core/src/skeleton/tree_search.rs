//! The search for a better skeleton, with the joints held: planting, thinning out, and moving subtrees to other parents.
//!
//! Descent ends in the nearest local minimum, and the bones and their parents are decided early: the joint graph of an
//! over-complete start is full of bones that are no limbs. Three moves repair that, each judged by the true error with
//! all joints held:
//!
//! * *thin out*: bones without which the error rises least are removed [in place of Le2014 s.3.9, which waits until
//!   smoothness has driven their weights to zero];
//! * *plant*: bones in the worst regions, joined where they fit best;
//! * *regraft*: where a joint strains, the subtree below it is released for a moment; its free motion then shows which
//!   pair of bones should share the joint.

use crate::mesh::Adjacency;
use crate::observer::{Cancelled, Stage};
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::graph::{Gap, JointGraph};
use crate::skeleton::joint_step::Quadratic;
use crate::skeleton::params::SkeletonInfo;
use crate::skeleton::pose::Pose;
use crate::skeleton::tree::{Edge, Tree};
use crate::skinning::{Motion, Run, pass, plant};

/// Rounds after a change of the tree.
pub(crate) const ROUNDS_AFTER: usize = 4;

/// Joints whose strain is below this share of the error are left alone.
const MIN_STRAIN: f64 = 0.01;

/// A new place in the tree must lower the error by this share.
const MIN_GAIN: f64 = 0.003;

/// A bone whose estimated cost is above so many times the limit of the [`KeepRule`] is not tried: estimates leave out that
/// other bones make up for it.
const MAX_COST: f64 = 8.0;

/// Joints that one regrafting looks at.
const MAX_STRAINED: usize = 3;

/// E_RMS below which there is nothing left to search for.
const EXACT: f64 = 1e-3;

/// Bones planted in a cycle, as a share of the present ones; by the number of cycles that failed before it.
const EXTRA: [f64; 3] = [0.2, 0.4, 0.1];

/// A cycle of the search must bring the price below this share of the best.
const MIN_PROGRESS: f64 = 0.9995;

/// A bone is kept if the error would rise by more than `share` without it, and above `floor`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct KeepRule {
    /// Share of the error.
    pub share: f64,
    /// E_RMS that is good enough: bones that only lower less are not needed.
    pub floor: f64,
}

impl KeepRule {
    /// With a number of bones given: only bones that change next to nothing are removed.
    pub const GIVEN_COUNT: Self = Self { share: 0.004, floor: 0.1 };

    /// With the number left open.
    pub fn of_detail(detail: f64) -> Self {
        Self { share: 0.05 / detail, floor: 0.5 / detail }
    }

    /// Half as demanding: joints cost error, so free bones are thinned out less than the skeleton will be.
    pub fn half(self) -> Self {
        Self { share: 0.5 * self.share, floor: 0.5 * self.floor }
    }

    /// Largest E_RMS at which `bones` bones fewer are no loss.
    pub fn limit(&self, e_rms: f64, bones: usize) -> f64 {
        e_rms.max(self.floor) * (1.0 + self.share).powi(bones as i32)
    }
}

/// A search in progress.
pub(crate) struct TreeSearch<'a> {
    pub descent: SkeletonDescent<'a>,
    pub body: SkinnedPose,
    pub info: SkeletonInfo,
    /// Largest number of bones.
    pub max_bones: usize,
    pub keep: KeepRule,
    /// Neighbours in the sample.
    pub near: &'a Adjacency,
}

impl<'a> TreeSearch<'a> {
    /// B.
    pub fn bones(&self) -> usize {
        self.body.pose.bones()
    }

    /// Error and number of bones in one figure: the E_RMS that no bones at all could have. Lower is better.
    pub fn price(&self) -> f64 {
        self.keep.limit(self.descent.e_rms(), self.bones())
    }

    /// Rounds of descent.
    pub fn descend(&mut self, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.descent.rounds(&mut self.body, rounds, run)
    }

    /// Plants, regrafts, thins out to at most `max_bones` bones that pass the rule; keeps the best. Bones may become more: a
    /// start that was thinned out too far would lack them for good.
    pub fn run(&mut self, cycles: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.stage(Stage::Search, Some(cycles))?;
        let mut best = (self.price(), self.body.clone());
        let mut failures = 0;
        for _ in 0..cycles {
            let count = self.bones();
            if run.is_over() || count < 2 || self.descent.e_rms() < EXACT || failures == EXTRA.len() {
                break;
            }
            // The same cycle from the same state would fail again: plant more, then fewer.
            self.plant((count as f64 * EXTRA[failures]).ceil() as usize, run)?;
            self.regraft(run)?;
            self.thin_out(run)?;
            self.prune(run)?;
            self.regraft(run)?;
            let price = self.price();
            if price < best.0 * MIN_PROGRESS {
                best = (price, self.body.clone());
                failures = 0;
            } else {
                failures += 1;
                self.restore(best.1.clone(), run)?;
            }
        }
        self.body = best.1;
        Ok(())
    }

    /// Goes back to an earlier state.
    pub(super) fn restore(&mut self, body: SkinnedPose, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.body = body;
        self.descent.restart();
        self.descend(1, run)
    }

    /// Removes the least useful bones, a share of the excess at a time, until `max_bones` are left.
    pub fn thin_out(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        while self.bones() > self.max_bones {
            let batch = (self.bones() - self.max_bones).div_ceil(3);
            let (gone, _) = run.timed("removal costs", || self.least_useful(batch));
            self.remove(&gone, run)?;
        }
        Ok(())
    }

    /// Removes bones one at a time, as long as the rule allows it.
    pub fn prune(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let bones = self.bones();
        while self.bones() > 1 && !run.is_over() {
            let (e_rms, body) = (self.descent.e_rms(), self.body.clone());
            let (gone, cost) = run.timed("removal costs", || self.least_useful(1));
            // The descent is still under way and hides what a bone gains: its estimated cost must be small too.
            let floor = self.descent.problem.squared_error(self.keep.floor);
            if cost > MAX_COST * self.keep.share * self.descent.squared_error.max(floor) {
                break;
            }
            self.remove(&gone, run)?;
            if self.descent.e_rms() > self.keep.limit(e_rms, 1) {
                self.restore(body, run)?;
                break;
            }
        }
        self.info.pruned += bones - self.bones();
        Ok(())
    }

    /// At most `count` bones without which the squared error rises least, and by how much, estimated vertex by vertex.
    fn least_useful(&self, count: usize) -> (Vec<usize>, f64) {
        let SkeletonDescent { problem, local, moments, .. } = &self.descent;
        let costs = pass::removal_costs(problem, &self.body.pose.to_motion(), &self.body.skin, *local);
        let gone = plant::least_useful(&costs, &moments.second, 0, count);
        let cost = gone.iter().map(|&j| costs[j]).sum();
        (gone, cost)
    }

    pub(super) fn remove(&mut self, gone: &[usize], run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.without(gone);
        self.descend(ROUNDS_AFTER, run)
    }

    /// Takes bones out, without a round of descent.
    pub(super) fn without(&mut self, gone: &[usize]) {
        self.body.skin.remove(self.bones(), gone);
        self.body.pose = self.body.pose.without(gone);
        self.descent.restart();
    }

    /// Plants bones in the worst regions.
    fn plant(&mut self, extra: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.timed("plant", || self.plant_bones(extra));
        self.descent.restart();
        self.descend(ROUNDS_AFTER, run)
    }

    fn plant_bones(&mut self, extra: usize) {
        let (problem, before) = (&self.descent.problem, self.bones());
        let patch = ((problem.vertices() as f64 / (before + extra) as f64 * 0.35) as usize).max(4);
        let SkinnedPose { pose, skin } = &mut self.body;
        let errors = &self.descent.moments.per_vertex;
        let (motion, _) = plant::plant(problem, &pose.to_motion(), &skin.rest, errors, extra, patch);
        self.join_planted(&motion);
    }

    /// Joins the bones of a motion that the tree does not have yet, in order, each to the bone that fits best.
    pub(super) fn join_planted(&mut self, motion: &Motion) {
        let (problem, before) = (&self.descent.problem, self.bones());
        let SkinnedPose { pose, skin } = &mut self.body;
        let local = self.descent.local;
        // Twice: newcomers are let in two at a time.
        pass::solve(problem, motion, skin, local, None);
        let moments = pass::solve(problem, motion, skin, local, None);
        let graph = JointGraph::new(motion, &moments.second, Gap::Stiffness);
        let mut tree = pose.tree.clone();
        for k in before..motion.bones {
            let parent = (0..k).min_by(|&x, &y| graph.tension(x, k).total_cmp(&graph.tension(y, k))).unwrap_or(0);
            tree.push(parent, graph.joint(parent, k).place);
        }
        let places = std::mem::take(&mut pose.places);
        *pose = Pose { places, ..Pose::from_motion(tree, motion) };
    }

    /// Moves subtrees to other parents where that lowers the error, then descends.
    pub fn regraft(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let changed = run.observed("regraft", |run| self.try_regrafts(run))?;
        if changed > 0 {
            self.descent.restart();
        }
        self.info.regrafted += changed;
        self.descend(ROUNDS_AFTER, run)
    }

    /// How many subtrees were moved.
    fn try_regrafts(&mut self, run: &mut Run<'_>) -> Result<usize, Cancelled> {
        let SkinnedPose { pose, skin } = &mut self.body;
        let motion = pose.to_motion();
        let moments = pass::gather(&self.descent.problem, &motion, skin);
        let quadratic = Quadratic::new(&moments, &motion);
        let mut error = quadratic.clone().improve(pose, &[]);
        let mut changed = 0;
        for j in quadratic.strained(pose, MIN_STRAIN, MAX_STRAINED) {
            for edge in other_joints(pose, j, &quadratic) {
                run.step()?;
                let mut other = pose.with_tree(regrafted(&pose.tree, j, edge));
                let after = quadratic.clone().improve(&mut other, &[]);
                if after < error * (1.0 - MIN_GAIN) {
                    (*pose, error) = (other, after);
                    changed += 1;
                    break;
                }
            }
        }
        Ok(changed)
    }
}

/// Other joints for the subtree of `j`, best first, if it were free to move.
fn other_joints(pose: &Pose, j: usize, quadratic: &Quadratic<'_>) -> Vec<Edge> {
    let inside = subtree(&pose.tree, j);
    let graph = quadratic.released(pose, j, &inside);
    let Some(parent) = pose.tree.parents[j] else { return Vec::new() };
    let mut found: Vec<(f64, Edge)> = Vec::new();
    for a in (0..pose.bones()).filter(|&a| inside[a]) {
        for b in (0..pose.bones()).filter(|&b| !inside[b]) {
            if (a, b) != (j, parent) && graph.blending(a, b) > 1e-6 {
                let joint = graph.joint(a, b);
                found.push((joint.error / joint.blending, Edge { bones: (b, a), joint: joint.place }));
            }
        }
    }
    // Only pairs that look better than the present one once the subtree is free.
    let present = graph.joint(j, parent);
    let limit = present.error / present.blending.max(1e-6);
    found.retain(|(weight, _)| *weight < limit);
    found.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.bones.cmp(&y.1.bones)));
    found.into_iter().take(2).map(|(_, edge)| edge).collect()
}

/// The tree with the edge above `j` replaced.
fn regrafted(tree: &Tree, j: usize, edge: Edge) -> Tree {
    let mut edges = tree.edges();
    edges.iter_mut().filter(|e| e.bones.1 == j).for_each(|old| *old = edge);
    Tree::new(tree.bones(), &edges, tree.root(), tree.joints[tree.root()])
}

/// [B] whether a bone is `j` or below it.
pub(super) fn subtree(tree: &Tree, j: usize) -> Vec<bool> {
    let mut inside = vec![false; tree.bones()];
    for &k in &tree.order {
        inside[k] = k == j || tree.parents[k].is_some_and(|p| inside[p]);
    }
    inside
}
