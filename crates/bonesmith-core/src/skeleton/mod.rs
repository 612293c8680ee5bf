//! A skeleton from a mesh animation: a tree of bones that turn about joints which stay where they are.
//!
//! The path: `params` -> one of the methods (`multipass`, or a single pass of `single`) -> `Skeleton` (a posed tree and
//! a skin, joints exact) -> root, names, directions, tips (`shape`, `names`) -> `Rig`, whose bones have one constant
//! offset to their parent in every frame.
//!
//! | paper [Le2014 ch. 3] | here |
//! |---|---|
//! | clusters, connected patches (s.3.4) | `start` |
//! | C_jk, g(j,k), S (s.3.5, 3.6) | `graph`, `tree` |
//! | weights, rigidness Laplacian (s.3.7) | the fit's own vertex solve and `fit::smooth` (`--smooth`) |
//! | transforms with joint constraint (s.3.8.3) | `solve`: the constraint holds exactly |
//! | pruning (s.3.9) | `search::prune`, `thin_out` |
//!
//! Deviations and their reasons: `solve` (no growing penalty), `search` (pruning by what a bone is worth; planting and
//! regrafting), `graph` (anchors of joints), `multipass` (several starts).

mod descend;
mod graph;
mod loose;
mod multipass;
mod names;
mod params;
mod pose;
mod rigging;
mod search;
mod shape;
mod single;
mod solve;
mod start;
#[cfg(test)]
mod tests;
mod tree;
mod worth;

pub use params::*;

use glam::{DAffine3, DVec3};

use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::model::rig::{BoneKind, Rig};
use crate::observer::Observer;
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::finish;
use crate::skinning::params::{FitError, FitInfo, FitParams, StopReason, Warning};
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::sample::Sample;
use crate::skinning::vertex_step::VertexParams;
use descend::Body;
use loose::Ground;

/// E_RMS above which a skeleton is called a poor model.
const POOR: f64 = 8.0;

/// Vertices and frames that the search sees.
const SAMPLE: (usize, usize) = (1200, 64);

/// A rig with a skeleton and how it came about.
#[derive(Clone, Debug)]
pub struct Skeletal {
    /// The rig: one root, rigid bones, one clip.
    pub rig: Rig,
    /// How the fit went.
    pub info: FitInfo,
    /// How the skeleton came about.
    pub skeleton: SkeletonInfo,
}

/// A fitted skeleton before it is named and oriented.
pub(crate) struct Skeleton {
    pub body: Body,
    pub info: SkeletonInfo,
    pub stop: StopReason,
}

/// Fits a skeleton, weights and joint rotations to a mesh animation.
pub fn skeleton(
    sequence: &MeshSequence,
    fit: &FitParams,
    params: &SkeletonParams,
    observer: &mut dyn Observer,
) -> Result<Skeletal, FitError> {
    check(fit, params)?;
    crate::skinning::params::check_bones(sequence, fit)?;
    let mut run = Run::new(fit, observer);
    run.stage("prepare", None)?;
    let problem = Problem::new(sequence);
    let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
    // A small mesh can afford more frames.
    let frames = (SAMPLE.0 * SAMPLE.1 / sequence.vertex_count()).clamp(SAMPLE.1, 2 * SAMPLE.1);
    // Leaving a few out saves little.
    let frames = if sequence.frame_count() < frames * 3 / 2 { sequence.frame_count() } else { frames };
    let sample = Sample::new(&problem, SAMPLE.0, frames, fit.seed);
    let coarse = sample.problem(&problem, sequence);
    let prepare_secs = run.seconds();
    let slots = fit.influences.unwrap_or(16).min(sequence.vertex_count());
    let local = VertexParams { slots, newcomers: 2, min_gain: 1e-2, move_rest: !fit.keep_rest, rounds: 2 };
    let ground = Ground { sequence, adjacency: &adjacency, problem: &problem, sample: &sample, coarse: &coarse, local };
    let found = match params.method {
        SkeletonMethod::Multipass => multipass::multipass(&ground, fit, params, &mut run)?,
        method => single::single_pass(&ground, fit, method, &mut run)?,
    };
    let stop = found.stop;
    let e_rms = run.history.last().map_or(0.0, |round| round.e_rms);
    let warnings = warnings(&problem, e_rms, &found);
    let (rig, skeleton, state) = dressed(&ground, params, found)?;
    let info = FitInfo {
        iterations: run.history.len(),
        stop,
        warnings,
        prepare_secs,
        jitter_ratio: finish::jitter_ratio(&problem, &state),
        fit_secs: run.seconds() - prepare_secs,
        history: run.history,
        profile: run.profile,
    };
    Ok(Skeletal { rig, info, skeleton })
}

/// Checks ranges and combinations that do not depend on the input.
pub fn check(fit: &FitParams, params: &SkeletonParams) -> Result<(), FitError> {
    fit.validate()?;
    params.validate()?;
    let refuse = |what: &str| Err(FitError::Unsupported(what.to_owned()));
    if fit.bone_kind != BoneKind::Rigid {
        return refuse("--skeleton makes bones that turn: --bone-kind is rigid there");
    }
    if fit.method != crate::skinning::params::Method::Bonesmith {
        return refuse("--method chooses among loose fits; with --skeleton use --skeleton-method");
    }
    match fit.bones {
        crate::skinning::params::BoneCount::TargetError(_) => {
            refuse("--target-error is for loose bones; with --skeleton use --detail, or --bones as an upper limit")
        }
        _ => Ok(()),
    }
}

fn warnings(problem: &Problem, e_rms: f64, found: &Skeleton) -> Vec<Warning> {
    if !problem.moves() {
        return vec![Warning::NoMotion];
    }
    let bones = found.body.pose.bones();
    let loose = found.info.loose_e_rms.map_or(String::new(), |e| format!(", {e:.2} with loose ones"));
    match e_rms > POOR {
        true => vec![Warning::Note {
            text: format!(
                "a skeleton is a poor model for this motion: E_RMS {e_rms:.2} with {bones} joined bones{loose}; \
                 cloth and soft bodies fit better without --skeleton"
            ),
        }],
        false => Vec::new(),
    }
}

/// Root, order, names, directions and tips; back to model units.
fn dressed(
    ground: &Ground<'_>,
    params: &SkeletonParams,
    found: Skeleton,
) -> Result<(Rig, SkeletonInfo, State), FitError> {
    let Skeleton { body: Body { pose, skin }, mut info, .. } = found;
    let space = &ground.problem.space;
    let centroids = shape::centroids(&skin, pose.bones());
    let middle = shape::middle(&ground.problem.rest, &ground.sequence.surface().topology);
    let plane = params.symmetry.then(|| names::symmetry(&ground.problem.rest)).flatten();
    let root = shape::root_bone(&params.root, &centroids, middle, |p| space.point(p.as_vec3()));
    let mut pose = shape::rooted(&pose, root, &centroids);
    let label = |pose: &pose::Pose| {
        let order = shape::chain_order(&pose.tree);
        let twins = plane.map_or(vec![None; order.len()], |plane| names::twins(&pose.tree, &centroids, &plane));
        let sides: Vec<f64> = centroids.iter().map(|c| plane.map_or(0.0, |plane| plane.side(*c))).collect();
        let names = names::names(&order, &twins, &sides);
        (order, names, twins.iter().flatten().count() / 2)
    };
    let (mut order, mut names, mut pairs) = label(&pose);
    if let Root::Named(wanted) = &params.root {
        let Some(root) = names.iter().position(|name| name == wanted) else {
            let listed: Vec<&str> = order.iter().map(|&j| names[j].as_str()).collect();
            let message = format!("--root names bone {wanted:?}; there are {}", listed.join(", "));
            return Err(FitError::Unsupported(message));
        };
        pose = shape::rooted(&pose, root, &centroids);
        (order, names, pairs) = label(&pose);
    }
    info.mirrored_pairs = pairs;
    Ok(rig(ground, &pose, skin, &order, &names, info))
}

fn rig(
    ground: &Ground<'_>,
    pose: &pose::Pose,
    skin: crate::skinning::skin::Skin,
    order: &[usize],
    names: &[String],
    info: SkeletonInfo,
) -> (Rig, SkeletonInfo, State) {
    let (pose, skin) = reordered(pose, skin, order);
    let centroids = shape::centroids(&skin, pose.bones());
    let tips = shape::tips(&pose.tree, &skin, &centroids);
    let axes = shape::axes(&pose.tree, &tips);
    let model = BoneModel::new(BoneKind::Rigid, pose.bones(), 1);
    let state = State { motion: pose.to_motion(), skin, model };
    let mut rig = finish::rig(ground.sequence, ground.problem, &state, String::new());
    let model_units = |p: DVec3| ground.problem.space.model_point(p);
    for (j, bone) in rig.bones.iter_mut().enumerate() {
        bone.name.clone_from(&names[order[j]]);
        bone.parent = pose.tree.parents[j];
        bone.world_from_bind = DAffine3::from_mat3_translation(axes[j], model_units(pose.tree.joints[j]));
        bone.tip = tips[j].map(model_units);
    }
    (rig, info, state)
}

/// Bones in the order given.
fn reordered(
    pose: &pose::Pose,
    mut skin: crate::skinning::skin::Skin,
    order: &[usize],
) -> (pose::Pose, crate::skinning::skin::Skin) {
    let mut renamed = vec![0; order.len()];
    order.iter().enumerate().for_each(|(to, &from)| renamed[from] = to);
    let tree = tree::Tree {
        parents: order.iter().map(|&j| pose.tree.parents[j].map(|p| renamed[p])).collect(),
        joints: order.iter().map(|&j| pose.tree.joints[j]).collect(),
        order: (0..order.len()).collect(),
    };
    let rotations = (0..pose.frames()).flat_map(|t| order.iter().map(move |&j| pose.frame(t)[j])).collect();
    skin.bones.iter_mut().for_each(|j| *j = renamed[*j as usize] as u16);
    (pose::Pose { tree, rotations, places: pose.places.clone() }, skin)
}
