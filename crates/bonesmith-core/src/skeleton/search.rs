//! The search for a better skeleton, with the joints held: planting, thinning out, and hanging subtrees elsewhere.
//!
//! Descent ends in the nearest local minimum, and which bones there are and who hangs on whom is decided early: the
//! joint graph of an over-complete start is full of bones that are no limbs. Three moves repair that, each judged by
//! the true error with all joints held:
//!
//! * *thin out*: bones without which the error rises least go [in place of Le2014 s.3.9, which waits until smoothness
//!   has driven their weights to nothing];
//! * *plant*: bones in the worst regions, joined where they fit best;
//! * *regraft*: where a joint strains, the subtree below it is let loose for a moment; its motion then tells which
//!   pair of bones should share the joint.

use crate::observer::Cancelled;
use crate::skeleton::descend::{Body, JointDescent, improve};
use crate::skeleton::graph::Graph;
use crate::skeleton::pose::Pose;
use crate::skeleton::solve::Quadratic;
use crate::skeleton::tree::{Edge, Tree};
use crate::skeleton::worth::Worth;
use crate::skinning::motion::Motion;
use crate::skinning::run::Run;
use crate::skinning::{pass, plant};

/// Joints whose strain is below this share of the error are left alone.
const LEAST_STRAIN: f64 = 0.01;

/// A new place in the tree must lower the error by this share.
const LEAST_GAIN: f64 = 0.003;

/// A bone whose estimated cost is above so many times what it must be worth is not tried: estimates leave out that
/// other bones make up for it.
const MOST_COST: f64 = 8.0;

/// Most joints looked at in one regrafting.
const MOST_STRAINED: usize = 3;

/// A search in progress.
pub(crate) struct Search<'a> {
    pub descent: JointDescent<'a>,
    pub body: Body,
}

impl<'a> Search<'a> {
    /// B.
    pub fn bones(&self) -> usize {
        self.body.pose.bones()
    }

    /// What error and bones cost together: fewer bones at the same price are better, so what counts is the error that so
    /// many bones may leave.
    pub fn price(&self, worth: Worth) -> f64 {
        worth.limit(self.descent.e_rms(), self.bones())
    }

    pub fn settle(&mut self, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        self.descent.rounds(&mut self.body, rounds, run)
    }

    /// Takes out the least useful bones, a share of the excess at a time, until `count` are left.
    pub fn thin_out(&mut self, count: usize, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        while self.bones() > count {
            let batch = (self.bones() - count).div_ceil(3);
            let costs = run.timed("removal costs", || self.removal_costs());
            let gone = plant::least_useful(&costs, &self.descent.moments.second, batch);
            self.remove(&gone);
            self.settle(rounds, run)?;
        }
        Ok(())
    }

    /// Takes out bones, one at a time, as long as none is missed.
    pub fn prune(&mut self, worth: Worth, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        while self.bones() > 1 && !run.is_over() {
            let before = (self.descent.e_rms(), self.body.clone(), self.descent.squared_error);
            let costs = run.timed("removal costs", || self.removal_costs());
            let gone = plant::least_useful(&costs, &self.descent.moments.second, 1);
            // The descent is still under way and hides what a bone was worth: its estimated cost must be small too.
            let cost: f64 = gone.iter().map(|&j| costs[j]).sum();
            let floor = self.descent.problem.squared_error(worth.floor);
            if cost > MOST_COST * worth.share * self.descent.squared_error.max(floor) {
                break;
            }
            self.remove(&gone);
            self.settle(rounds, run)?;
            if self.descent.e_rms() > worth.limit(before.0, 1) {
                self.body = before.1;
                self.descent.restart();
                self.settle(1, run)?;
                break;
            }
        }
        Ok(())
    }

    /// [B] by how much the squared error would rise without each bone, estimated vertex by vertex.
    pub fn removal_costs(&self) -> Vec<f64> {
        let motion = self.body.pose.to_motion();
        pass::removal_costs(self.descent.problem, &motion, &self.body.skin, self.descent.local)
    }

    pub fn remove(&mut self, gone: &[usize]) {
        let bones = self.bones();
        self.body.pose = self.body.pose.without(gone);
        plant::remove(&Motion::identity(bones, 1), &mut self.body.skin, gone);
        self.descent.restart();
    }

    /// Plants bones in the worst regions.
    pub fn plant(&mut self, extra: usize, rounds: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        run.timed("plant", || self.plant_loose(extra));
        self.descent.restart();
        self.settle(rounds, run)
    }

    fn plant_loose(&mut self, extra: usize) {
        let (problem, before) = (self.descent.problem, self.bones());
        let patch = ((problem.vertices() as f64 / (before + extra) as f64 * 0.35) as usize).max(4);
        let motion = self.body.pose.to_motion();
        let errors = &self.descent.moments.per_vertex;
        let (motion, _) = plant::plant(problem, &motion, &self.body.skin.rest, errors, extra, patch);
        let local = self.descent.local;
        // Twice: newcomers are let in two at a time.
        pass::solve(problem, &motion, &mut self.body.skin, local, None);
        let moments = pass::solve(problem, &motion, &mut self.body.skin, local, None);
        let graph = Graph::new(&motion, &moments);
        for k in before..motion.bones {
            let tension = |j: usize| {
                let joint = graph.joint(j, k);
                (joint.error + 1e-9) / (joint.blending + 1e-6)
            };
            let parent = (0..k).min_by(|&x, &y| tension(x).total_cmp(&tension(y))).unwrap_or(0);
            self.body.pose.tree.push(parent, graph.joint(parent, k).place);
        }
        let tree = self.body.pose.tree.clone();
        let places = std::mem::take(&mut self.body.pose.places);
        self.body.pose = Pose { places, ..Pose::from_motion(tree, &motion) };
    }

    /// Hangs subtrees elsewhere where that lowers the error; returns how many.
    pub fn regraft(&mut self, run: &mut Run<'_>) -> usize {
        run.timed("regraft", || {
            let motion = self.body.pose.to_motion();
            let mut skin = self.body.skin.clone();
            let moments = pass::gather(self.descent.problem, &motion, &skin);
            let mut pose = self.body.pose.clone();
            let mut error = improve(&mut pose, &moments, &motion);
            let mut changed = 0;
            for j in Quadratic::new(&moments, &motion).strained(&pose, LEAST_STRAIN, MOST_STRAINED) {
                for edge in candidates(&pose, j, &Quadratic::new(&moments, &motion)) {
                    let mut other = pose.with_tree(regrafted(&pose.tree, j, edge));
                    let after = improve(&mut other, &moments, &motion);
                    if after < error * (1.0 - LEAST_GAIN) {
                        (pose, error) = (other, after);
                        changed += 1;
                        break;
                    }
                }
            }
            self.body.pose = pose;
            if changed > 0 {
                self.descent.restart();
            }
            changed
        })
    }
}

/// Other joints for the subtree of `j`, best first, if it were free to move.
fn candidates(pose: &Pose, j: usize, quadratic: &Quadratic<'_>) -> Vec<Edge> {
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
    let own = |e: &&mut Edge| Some(e.bones.0) == tree.parents[j] && e.bones.1 == j;
    if let Some(old) = edges.iter_mut().find(own) {
        *old = edge;
    }
    Tree::new(tree.bones(), &edges, tree.root(), tree.joints[tree.root()])
}

/// [B] whether a bone is `j` or below it.
fn subtree(tree: &Tree, j: usize) -> Vec<bool> {
    let mut inside = vec![false; tree.bones()];
    for &k in &tree.order {
        inside[k] = k == j || tree.parents[k].is_some_and(|p| inside[p]);
    }
    inside
}
