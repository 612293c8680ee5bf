//! The single-pass methods, for comparison [Course2014 s.2.1, 2.2]: clusters, weights, tree, joints, each once.
//!
//! | method | clusters | before the tree |
//! |---|---|---|
//! | Schaefer & Yuksel 2007 | faces merged by rigid error (`cluster::edge_collapse`) | weights |
//! | de Aguiar et al. 2008 | spectral, few seeds (`cluster::spectral`) | weights |
//! | Hasler et al. 2010 | spectral with local scales, more seeds | ten rounds over weights and bones |
//!
//! Joints are by plain distance with a ridge as in [Le2014 eq. 3.4]; nothing after them is optimised again, as in the
//! papers: rotations stay, and joints that do not fit carry their error down to the leaves. The multi-pass method is
//! measured against that. The rest pose stays as it is. Without a number of bones, [`DEFAULT_BONES`].

use crate::cluster::{edge_collapse, spectral};
use crate::mesh::Adjacency;
use crate::model::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skeleton::graph::Gap;
use crate::skeleton::joint_step::Quadratic;
use crate::skeleton::multipass::joined;
use crate::skeleton::params::{SkeletonInfo, SkeletonMethod};
use crate::skeleton::{Input, Skeleton};
use crate::skinning::{
    BoneModel, Descent, FitError, Motion, Problem, Run, Skin, State, StopReason, VertexParams, bone_step, pass,
};
use crate::solve::check::check_memory;

/// Bones where their number is left open: these methods do not find it.
const DEFAULT_BONES: usize = 24;

/// Rounds of skinning of Hasler et al. [Course2014 s.2.2].
const HASLER_ROUNDS: usize = 10;

/// Passes over the vertices to find weights for fixed bones: each lets in two more candidates.
const WEIGHT_PASSES: usize = 4;

/// Finds a skeleton in one pass.
pub(super) fn single_pass(input: &Input, method: SkeletonMethod, run: &mut Run) -> Result<Skeleton, Cancelled> {
    let problem = input.problem;
    let count = input.bones().unwrap_or(DEFAULT_BONES.min(problem.vertices().div_ceil(6)));
    run.stage(Stage::Clusters, None)?;
    let labels = run.observed("clusters", |run| clusters(input, method, count, run))?;
    let mut state = rigid_bones(input, &labels);
    let local = VertexParams { move_rest: false, ..input.local };
    let rounds = if method == SkeletonMethod::Hasler { HASLER_ROUNDS } else { 0 };
    run.stage(Stage::Weights, Some(rounds + WEIGHT_PASSES))?;
    for _ in 0..rounds {
        // One at a time: no momentum, as in the paper.
        Descent::new(problem, local).rounds(&mut state, 1, run)?;
    }
    let free = find_weights(problem, &state.motion, &mut state.skin, local, run)?;
    let info = SkeletonInfo { loose_e_rms: Some(free), ..SkeletonInfo::new(state.bones()) };
    run.stage(Stage::Tree, None)?;
    let mut body = joined(problem, state, Gap::Distance, run)?;
    let motion = body.pose.to_motion();
    let moments = pass::gather(problem, &motion, &body.skin);
    Quadratic::new(&moments, &motion).centre(&mut body.pose);
    find_weights(problem, &body.pose.to_motion(), &mut body.skin, local, run)?;
    Ok(Skeleton { body, info, stop: StopReason::MaxIterations })
}

/// Refuses a mesh of so many separate parts that bones for all of them would not fit into memory: merging never joins parts
/// that do not touch.
pub(super) fn check_parts(adjacency: &Adjacency) -> Result<(), FitError> {
    let parts = adjacency.components().1;
    let refused =
        |what| FitError::Unsuited(format!("the mesh has {parts} parts that do not touch, each is a bone: {what}"));
    check_memory("the products of all pairs of bones", 4 * parts, 4 * parts, size_of::<f64>()).map_err(refused)
}

/// Weights for fixed bones; returns E_RMS.
fn find_weights(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    local: VertexParams,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    let mut e_rms = 0.0;
    for _ in 0..WEIGHT_PASSES {
        e_rms = problem.e_rms(pass::solve(problem, motion, skin, local, None).squared_error);
        run.round(motion.bones, e_rms)?;
    }
    Ok(e_rms)
}

/// [N] cluster of each vertex.
fn clusters(input: &Input, method: SkeletonMethod, count: usize, run: &mut Run) -> Result<Vec<Option<u16>>, Cancelled> {
    let n = input.problem.vertices();
    let (share, local) = match method {
        // Between 0.3 % and 1 % of the vertices [Course2014 s.2.2].
        SkeletonMethod::Deaguiar => (0.01, false),
        SkeletonMethod::Hasler => (0.05, true),
        SkeletonMethod::Schaefer | SkeletonMethod::Multipass => {
            let topology = &input.sequence.surface().topology;
            return edge_collapse::collapse(input.problem, topology, count, &mut || run.step());
        }
    };
    let seeds = ((share * n as f64) as usize).max(4 * count).min(n);
    let labels = spectral::cluster(input.problem, input.adjacency, seeds, count, local, &mut || run.step())?;
    Ok(labels.into_iter().map(Some).collect())
}

/// Rigid motions of clusters. Vertices without one have no weights yet; numbers of empty clusters are left out.
fn rigid_bones(input: &Input<'_>, labels: &[Option<u16>]) -> State {
    let problem = input.problem;
    let mut used: Vec<u16> = labels.iter().flatten().copied().collect();
    used.sort_unstable();
    used.dedup();
    let number = |j: u16| used.binary_search(&j).unwrap_or(0) as u16;
    let numbers: Vec<u16> = labels.iter().map(|label| label.map_or(0, number)).collect();
    let mut skin = Skin::rigid(1, &numbers, problem.rest.clone());
    // Without any cluster all vertices are on one bone.
    for (weight, label) in skin.weights.iter_mut().zip(labels) {
        *weight = f64::from(label.is_some() || used.is_empty());
    }
    let count = used.len().max(1);
    let model = BoneModel::new(BoneKind::Rigid, count, 2);
    let mut motion = Motion::identity(count, problem.frames());
    let moments = pass::gather(problem, &motion, &skin);
    bone_step::update(&mut motion, &moments, &model);
    State { motion, skin: skin.with_slots(input.local.slots), model }
}
