//! A skeleton from a mesh animation: a tree of bones that rotate about joints, each joint fixed in both of its bones.
//!
//! The path: `params` -> one of the methods (`multipass`, or one of `single_pass`) -> `Skeleton` (a posed tree and a skin,
//! joints exact) -> root, names, directions, tips (`layout`, `names`) -> `Rig`, whose bones have one constant offset to
//! their parent in every frame.
//!
//! | paper [Le2014 ch. 3] | here |
//! |---|---|
//! | - | `exact_start`: the bones that the animation was made with |
//! | clusters, connected patches (s.3.4), weights and bones without joints (s.3.6) | `free_bones` |
//! | C_jk, g(j,k), S (s.3.5, 3.6) | `graph`, `tree` |
//! | weights, rigidness Laplacian (s.3.7) | `skinning`'s vertex step and `skinning::smooth` (`--smooth`) |
//! | transforms with joint constraint (s.3.8.3) | `soft_joints`, then `joint_step`: the constraint holds exactly |
//! | pruning (s.3.9) | `tree_search`, `weed` |
//! | - | `detail`: bones for small parts; `small_parts`: those get a search of their own; `bounds`: joints near the surface that they split |
//!
//! A machine of rigid pieces needs none of it: its pieces are the bones (`links`).
//!
//! Deviations and their reasons: `joint_step` (no growing penalty), `tree_search` (pruning by the error that a bone takes
//! off; planting and regrafting), `graph` (anchors of joints), `multipass` (several starts).
//!
//! All of it runs in the centred unit space. Only differences of bones, residuals and rest positions decide anything, so a
//! translation of whole frames changes no skeleton.

mod bounds;
mod descend;
mod detail;
mod exact_start;
mod free_bones;
mod graph;
mod joint_step;
mod layout;
mod links;
mod multipass;
mod names;
mod params;
mod parts;
mod pose;
mod rotation_solver;
mod single_pass;
mod slides;
mod small_parts;
mod soft_joints;
#[cfg(test)]
mod tests;
mod tree;
mod tree_search;
mod weed;

pub use params::*;

use glam::{DAffine3, DVec3};

use crate::mesh::{Adjacency, MeshSequence};
use crate::model::{BoneKind, Rig};
use crate::observer::{Observer, Stage};
use crate::skinning::{
    BoneCount, BoneModel, Ending, FitError, FitInfo, FitParams, MAX_PAIRED_BONES, Method, Problem, Run, Sample, State,
    StopReason, UnitSpace, VertexParams, Warning, check_bones, finish,
};
use descend::SkinnedPose;
use pose::Pose;

/// E_RMS above which a skeleton is reported as a poor model.
const POOR: f64 = 8.0;

/// Vertices and frames of the sample that the search runs on.
const SAMPLE: (usize, usize) = (1200, 64);

/// A rig with a skeleton, and the record of its making.
#[derive(Clone, Debug)]
pub struct Skeletal {
    /// The rig: one root, rigid bones, one clip.
    pub rig: Rig,
    /// The record of the fit.
    pub info: FitInfo,
    /// The record of the skeleton.
    pub skeleton: SkeletonInfo,
}

/// The input, whole and sampled.
struct Input<'a> {
    sequence: &'a MeshSequence,
    adjacency: &'a Adjacency,
    problem: &'a Problem,
    sample: &'a Sample,
    /// The sampled problem.
    coarse: &'a Problem,
    /// Neighbours in the sample.
    near: &'a Adjacency,
    /// Vertex steps of the search.
    local: VertexParams,
    fit: &'a FitParams,
    params: &'a SkeletonParams,
}

/// What an [`Input`] refers to.
struct Prepared {
    problem: Problem,
    adjacency: Adjacency,
    sample: Sample,
    coarse: Problem,
    near: Adjacency,
}

impl Prepared {
    /// A sequence in its own unit space, and a sample of it with `frames` frames.
    fn new(sequence: &MeshSequence, frames: usize, seed: u64) -> Self {
        let problem = Problem::held_in(sequence, UnitSpace::new(sequence));
        let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
        let sample = Sample::new(&problem, SAMPLE.0, frames, seed);
        let coarse = sample.problem(&problem, sequence);
        let near = sample.neighbours(&adjacency);
        Self { problem, adjacency, sample, coarse, near }
    }

    fn input<'a>(&'a self, sequence: &'a MeshSequence, fit: &'a FitParams, params: &'a SkeletonParams) -> Input<'a> {
        let slots = fit.influences.unwrap_or(16).min(sequence.vertex_count());
        let local = VertexParams { slots, newcomers: 2, min_gain: 1e-2, move_rest: !fit.keep_rest, rounds: 2 };
        let Self { problem, adjacency, sample, coarse, near } = self;
        Input { sequence, adjacency, problem, sample, coarse, near, local, fit, params }
    }
}

impl Input<'_> {
    /// The number of bones, where it is given.
    fn bones(&self) -> Option<usize> {
        if let BoneCount::Exact(bones) = self.fit.bones { Some(bones) } else { None }
    }

    /// Vertex steps of the last rounds.
    fn last(&self) -> VertexParams {
        VertexParams { move_rest: !self.fit.keep_rest, ..self.local }
    }

    /// The same with the rest pose of the input in the search: where the animation was made with linear blend skinning, a rest pose
    /// that moves only makes up for bones that are mixtures of true ones.
    fn with_rest_held(&self) -> Self {
        Self { local: VertexParams { move_rest: false, ..self.local }, ..*self }
    }
}

/// A fitted skeleton without names and directions.
struct Skeleton {
    body: SkinnedPose,
    info: SkeletonInfo,
    stop: StopReason,
}

/// Fits a skeleton, weights and joint rotations to a mesh animation.
pub fn skeleton(
    sequence: &MeshSequence,
    fit: &FitParams,
    params: &SkeletonParams,
    observer: &mut dyn Observer,
) -> Result<Skeletal, FitError> {
    check(fit, params)?;
    check_bones(sequence, fit, MAX_PAIRED_BONES)?;
    let mut run = Run::new(fit, observer);
    run.stage(Stage::Prepare, None)?;
    // A small mesh can afford more frames.
    let frames = (SAMPLE.0 * SAMPLE.1 / sequence.vertex_count()).clamp(SAMPLE.1, 2 * SAMPLE.1);
    // Leaving a few out saves little.
    let frames = if sequence.frame_count() < frames * 3 / 2 { sequence.frame_count() } else { frames };
    let prepared = Prepared::new(sequence, frames, fit.seed);
    let input = prepared.input(sequence, fit, params);
    let (adjacency, problem) = (input.adjacency, input.problem);
    run.prepared();
    if params.method == SkeletonMethod::Schaefer {
        single_pass::check_parts(adjacency)?;
    }
    let found = match params.method {
        SkeletonMethod::Multipass => multipass::multipass(&input, &mut run)?,
        method => single_pass::single_pass(&input, method, &mut run)?,
    };
    let stop = found.stop;
    let mut warnings = warnings(problem, run.history.last().map_or(0.0, |round| round.error), &found);
    let (mut rig, skeleton, state) = rigged(&input, found, &mut warnings)?;
    if fit.shading > 0.0 {
        run.timed("normals", || finish::shade(&mut rig, sequence, None));
    }
    let jitter_ratio = finish::jitter_ratio(problem, &state);
    let info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio });
    Ok(Skeletal { rig, info, skeleton })
}

/// Checks ranges and combinations that do not depend on the input.
pub fn check(fit: &FitParams, params: &SkeletonParams) -> Result<(), FitError> {
    fit.validate()?;
    params.validate()?;
    let refuse = |what: &str| Err(FitError::Unsupported(what.to_owned()));
    if fit.bone_kind != BoneKind::Rigid {
        return refuse("a skeleton has rigid bones, not trs or affine");
    }
    if fit.method != Method::Bonesmith {
        return refuse("a skeleton has methods of its own, not those of fits without joints");
    }
    match fit.bones {
        BoneCount::TargetError(_) => refuse(
            "a target error is for bones without joints; a skeleton has a detail, or a number of bones as an upper limit",
        ),
        _ => Ok(()),
    }
}

fn warnings(problem: &Problem, e_rms: f64, found: &Skeleton) -> Vec<Warning> {
    if !problem.moves() {
        return vec![Warning::NoMotion];
    }
    if e_rms <= POOR {
        return Vec::new();
    }
    let bones = found.body.pose.bones();
    vec![Warning::PoorSkeleton { e_rms, bones, without_joints: found.info.loose_e_rms }]
}

/// Root, order, names, directions and tips; back to model units. Joints that are far away are added to the warnings.
fn rigged(
    input: &Input<'_>,
    found: Skeleton,
    warnings: &mut Vec<Warning>,
) -> Result<(Rig, SkeletonInfo, State), FitError> {
    let params = input.params;
    let Skeleton { body: SkinnedPose { pose, mut skin }, mut info, .. } = found;
    let space = &input.problem.space;
    let centroids = skin.centroids(pose.bones());
    let areas = layout::areas(&input.problem.rest, &input.sequence.surface().topology);
    let travel = (space.shift(input.problem.frames() - 1) - space.shift(0)) / space.sphere.radius;
    let plane = params.symmetry.then(|| names::symmetry(&input.problem.rest)).flatten();
    let plane = plane.map(|plane| names::oriented(plane, &areas, travel));
    let label = |pose: &Pose, root: usize| {
        let pose = layout::rooted(pose, root, &centroids);
        let order = layout::chain_order(&pose.tree);
        let twins = plane.map_or(vec![None; order.len()], |plane| names::twins(&pose.tree, &centroids, &plane));
        let sides: Vec<f64> = centroids.iter().map(|c| plane.map_or(0.0, |plane| plane.side(*c))).collect();
        let names = names::names(&order, &twins, &sides);
        (pose, order, names, twins.iter().flatten().count() / 2)
    };
    let middle = match params.root {
        Root::At(place) => space.point(DVec3::from_array(place).as_vec3()),
        Root::Centre | Root::Named(_) => layout::middle(&areas),
    };
    let mut labelled = label(&pose, layout::nearest_bone(&centroids, middle));
    if let Root::Named(wanted) = &params.root {
        let (pose, order, names, _) = &labelled;
        let Some(root) = names.iter().position(|name| name == wanted) else {
            let listed: Vec<&str> = order.iter().map(|&j| names[j].as_str()).collect();
            let message = format!("root: there is no bone {wanted:?}; there are {}", listed.join(", "));
            return Err(FitError::Unsupported(message));
        };
        labelled = label(pose, root);
    }
    let (pose, order, names, pairs) = labelled;
    info.mirrored_pairs = pairs;
    let pose = pose.pick(&order, pose.tree.renumbered(&order));
    let centroids: Vec<DVec3> = order.iter().map(|&j| centroids[j]).collect();
    skin.renumber(&order);
    let listed: Vec<&str> = order.iter().map(|&j| names[j].as_str()).collect();
    warnings.extend(bounds::warnings(&pose, &skin, &listed, space.sphere.radius));
    let tips = layout::tips(&pose.tree, &skin, &centroids);
    let axes = layout::axes(&pose.tree, &tips);
    let state = State { motion: pose.to_motion(), skin, model: BoneModel::new(BoneKind::Rigid, pose.bones(), 1) };
    let mut rig = finish::rig(input.sequence, input.problem, &state, String::new());
    for (j, bone) in rig.bones.iter_mut().enumerate() {
        bone.name.clone_from(&names[order[j]]);
        bone.parent = pose.tree.parents[j];
        bone.world_from_bind = DAffine3::from_mat3_translation(axes[j], space.model_point(pose.tree.joints[j]));
        bone.tip = tips[j].map(|tip| space.model_point(tip));
    }
    Ok((rig, info, state))
}
