//! The single-pass methods, for comparison [Course2014 s.2.1, 2.2]: clusters, weights, tree, joints, each once.
//!
//! | method | clusters | before the tree |
//! |---|---|---|
//! | Schaefer & Yuksel 2007 | faces merged by rigid error (`cluster::edge_collapse`) | weights |
//! | de Aguiar et al. 2008 | spectral, few seeds (`cluster::spectral`) | weights |
//! | Hasler et al. 2010 | spectral with local scales, more seeds | ten rounds over weights and bones |
//!
//! Joints are by plain distance with the ridge of [Le2014 eq. 3.4]; nothing after them is optimised again, as in the
//! papers: rotations stay, and joints that do not fit carry their error down to the leaves. That is what the multi-pass
//! method is measured against. The rest pose stays as it is. Without a number of bones, [`DEFAULT_BONES`].

use glam::DVec3;

use crate::cluster::{edge_collapse, spectral};
use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skeleton::Skeleton;
use crate::skeleton::descend::Body;
use crate::skeleton::graph::Graph;
use crate::skeleton::loose::Ground;
use crate::skeleton::params::{SkeletonInfo, SkeletonMethod};
use crate::skeleton::pose::Pose;
use crate::skeleton::tree::Tree;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::{Descent, State};
use crate::skinning::motion::Motion;
use crate::skinning::params::{BoneCount, FitError, FitParams, StopReason};
use crate::skinning::pass;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;

/// Bones where their number is left open: these methods do not find it.
const DEFAULT_BONES: usize = 24;

/// Rounds of skinning in [Hasler2010].
const HASLER_ROUNDS: usize = 10;

/// Passes over the vertices to find weights for given bones: each lets in two more candidates.
const WEIGHT_PASSES: usize = 4;

/// Finds a skeleton in one pass.
pub(crate) fn single_pass(
    ground: &Ground<'_>,
    fit: &FitParams,
    method: SkeletonMethod,
    run: &mut Run<'_>,
) -> Result<Skeleton, FitError> {
    let n = ground.problem.vertices();
    let count = match fit.bones {
        BoneCount::Exact(bones) => bones,
        _ => DEFAULT_BONES.min(n.div_ceil(6)),
    };
    run.stage("clusters", None)?;
    let labels = run.observed("clusters", |run| clusters(ground, method, count, run))?;
    let mut state = rigid_bones(ground, &labels);
    let start_bones = state.bones();
    let local = VertexParams { move_rest: false, ..ground.local };
    run.stage("weights", None)?;
    if method == SkeletonMethod::Hasler {
        for _ in 0..HASLER_ROUNDS {
            // One at a time: no momentum, which the paper has not.
            Descent::new(ground.problem, local).rounds(&mut state, 1, run)?;
        }
    }
    for _ in 0..WEIGHT_PASSES {
        let moments = pass::solve(ground.problem, &state.motion, &mut state.skin, local, None);
        run.round(state.bones(), ground.problem.e_rms(moments.squared_error))?;
    }
    let loose = run.history.last().map(|round| round.e_rms);
    run.stage("tree", None)?;
    let mut body = joined(ground, state);
    centre(ground, &mut body);
    let motion = body.pose.to_motion();
    for _ in 0..WEIGHT_PASSES {
        let moments = pass::solve(ground.problem, &motion, &mut body.skin, local, None);
        run.round(motion.bones, ground.problem.e_rms(moments.squared_error))?;
    }
    let info = SkeletonInfo { loose_e_rms: loose, ..SkeletonInfo::new(start_bones) };
    Ok(Skeleton { body, info, stop: StopReason::MaxIterations })
}

/// [N] cluster of each vertex.
fn clusters(
    ground: &Ground<'_>,
    method: SkeletonMethod,
    count: usize,
    run: &mut Run<'_>,
) -> Result<Vec<Option<u16>>, Cancelled> {
    let n = ground.problem.vertices();
    let (share, local) = match method {
        // Between 0.3 % and 1 % of the vertices [Course2014 s.2.2].
        SkeletonMethod::Deaguiar => (0.01, false),
        SkeletonMethod::Hasler => (0.05, true),
        SkeletonMethod::Schaefer | SkeletonMethod::Multipass => {
            let topology = &ground.sequence.surface().topology;
            return edge_collapse::collapse(ground.problem, topology, count, &mut || run.step());
        }
    };
    let seeds = ((share * n as f64) as usize).max(4 * count).min(n);
    let labels = spectral::cluster(ground.problem, ground.adjacency, seeds, count, local, &mut || run.step())?;
    Ok(labels.into_iter().map(Some).collect())
}

/// Rigid motions of clusters; vertices without one go where they are predicted best, empty numbers are closed up.
fn rigid_bones(ground: &Ground<'_>, labels: &[Option<u16>]) -> State {
    let problem = ground.problem;
    let mut used: Vec<u16> = labels.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let number = |j: u16| used.binary_search(&j).unwrap_or(0) as u16;
    let count = used.len().max(1);
    let first: Vec<u16> = labels.iter().map(|label| label.map_or(0, number)).collect();
    let mut skin = Skin::rigid(1, &first, problem.rest.clone());
    // Until bones are known, vertices without a cluster hang on none and do not count.
    for (weight, label) in skin.weights.iter_mut().zip(labels) {
        if label.is_none() && !used.is_empty() {
            *weight = 0.0;
        }
    }
    let model = BoneModel::new(BoneKind::Rigid, count, 2);
    let mut motion = Motion::identity(count, problem.frames());
    let moments = pass::gather(problem, &motion, &skin);
    bone_step::update(&mut motion, &moments, &model);
    let mut full = Skin::rigid(ground.local.slots, &first, problem.rest.clone());
    for (row, label) in full.weights.chunks_exact_mut(ground.local.slots).zip(labels) {
        if label.is_none() && !used.is_empty() {
            row[0] = 0.0;
        }
    }
    State { motion, skin: full, model }
}

/// Puts the root where the mean error of every frame is zero.
fn centre(ground: &Ground<'_>, body: &mut Body) {
    let motion = body.pose.to_motion();
    let moments = pass::gather(ground.problem, &motion, &body.skin);
    let (b, f) = (motion.bones, motion.frames());
    // Weights of a vertex sum to 1, so the bones' rows of w r sum to its residual.
    for (t, place) in body.pose.places.iter_mut().enumerate() {
        let sum = |a: usize| (0..b).map(|j| moments.residual[(3 * b + j) * 3 * f + a * f + t]).sum::<f64>();
        *place += DVec3::new(sum(0), sum(1), sum(2)) / ground.problem.vertices() as f64;
    }
}

/// Tree and joints by plain distance; rotations stay.
fn joined(ground: &Ground<'_>, state: State) -> Body {
    let State { motion, mut skin, .. } = state;
    let moments = pass::gather(ground.problem, &motion, &skin);
    let graph = Graph::plain(&motion, &moments);
    let middle = ground.problem.rest.iter().sum::<DVec3>() / ground.problem.vertices() as f64;
    let away = |j: &usize| graph.centroid(*j).distance_squared(middle);
    let root = (0..motion.bones).min_by(|x, y| away(x).total_cmp(&away(y))).unwrap_or(0);
    let tree = Tree::new(motion.bones, &graph.spanning_tree(), root, graph.centroid(root));
    Body { pose: Pose::from_motion(tree, &motion), skin }
}
