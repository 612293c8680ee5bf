//! The parts of the fit against naive twins: plain float64 loops over matrices, weights and vertices.
//!
//! A twin knows nothing of moments, lanes, active sets or residuals; it poses every vertex in every frame.

mod basins;
mod bone_newton;
mod bone_step;
mod descent;
mod known_motion;
mod limits;
mod loss;
mod naive;
mod near;
mod normals;
mod pass;
mod plant;
mod prune;
mod split;
mod together;
mod vertex_step;

use glam::{DMat3, DQuat, DVec3};

use crate::mesh::sphere::Sphere;
use crate::model::rig::BoneKind;
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::skinning::unit::UnitSpace;
use crate::skinning::vertex_step::VertexParams;
use crate::solve::random::Random;
use crate::solve::transform::nearest_rotation;

/// Sizes of a random case.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    vertices: usize,
    bones: usize,
    frames: usize,
    slots: usize,
}

/// A problem and a state that is near it but not at its best: something is left to gain everywhere.
struct Case {
    problem: Problem,
    state: State,
}

/// Coordinates of the noise on top of what the hidden rig makes.
const NOISE: f64 = 0.02;

/// Poses a random hidden rig, adds noise, and starts from bones and weights that are somewhat off.
fn case(seed: u64, sizes: Sizes, kind: BoneKind) -> Case {
    let Sizes { vertices, bones, frames, slots } = sizes;
    let random = &mut Random::new(seed);
    let rest: Vec<DVec3> = (0..vertices).map(|_| random.vector()).collect();
    let mut model = BoneModel::new(kind, bones, 3);
    if kind == BoneKind::Trs {
        model.axes = (0..bones).map(|_| DMat3::from_quat(random.rotation())).collect();
    }
    let truth = random_motion(random, &model, frames, 0.6);
    let skin = random_skin(random, &rest, bones, slots);
    let mut trajectories = Vec::with_capacity(vertices * 3 * frames);
    for i in 0..vertices {
        trajectories.extend(naive::posed(&truth, &skin, i).iter().map(|x| (x + NOISE * random.signed()) as f32));
    }
    let sphere = Sphere { center: DVec3::ZERO, radius: 1.0 };
    let problem = Problem::stored(3 * frames, rest.clone(), trajectories, UnitSpace::fixed(sphere));
    let mut motion = Motion::identity(bones, frames);
    let nudge = random_motion(random, &model, frames, 0.1);
    for j in 0..bones {
        for t in 0..frames {
            motion.set(j, t, &compose(&truth.get(j, t), &nudge.get(j, t), kind));
        }
    }
    let skin = random_skin(random, &rest, bones, slots);
    Case { problem, state: State { motion, skin, model } }
}

/// The second matrix turns and moves what the first one does; scale and shear stay those of the first.
fn compose(first: &[[f64; 4]; 3], second: &[[f64; 4]; 3], kind: BoneKind) -> [[f64; 4]; 3] {
    let ((a, p), (b, q)) = (naive::split(first), naive::split(second));
    let turned = match kind {
        BoneKind::Affine => b * a,
        // Only the rotation of the nudge: R2 R1 diag(s) Q^T is of the same kind again.
        _ => nearest_rotation(&b) * a,
    };
    naive::join(&turned, p + q)
}

/// Every bone in every frame: `R diag(s) Q^T` and a shift, or with shear.
fn random_motion(random: &mut Random, model: &BoneModel, frames: usize, size: f64) -> Motion {
    let bones = model.axes.len();
    let mut motion = Motion::identity(bones, frames);
    for j in 0..bones {
        for t in 0..frames {
            let rotation = DMat3::from_quat(DQuat::from_scaled_axis(random.vector() * size));
            let q = model.axes[j];
            let linear = match model.kind {
                BoneKind::Rigid => rotation,
                BoneKind::Trs => {
                    let scale = DVec3::ONE + random.vector() * 0.5 * size;
                    rotation * q * DMat3::from_diagonal(scale) * q.transpose()
                }
                BoneKind::Affine => {
                    let shear = DMat3::from_cols(random.vector(), random.vector(), random.vector());
                    rotation * (DMat3::IDENTITY + shear * (0.5 * size))
                }
            };
            motion.set(j, t, &naive::join(&linear, random.vector() * size));
        }
    }
    motion
}

/// Up to `slots` different bones for every vertex, with random weights.
fn random_skin(random: &mut Random, rest: &[DVec3], bones: usize, slots: usize) -> Skin {
    let mut skin = Skin::rigid(slots, &vec![0; rest.len()], rest.to_vec());
    for i in 0..rest.len() {
        let count = 1 + random.next() as usize % slots.min(bones);
        let mut chosen: Vec<u16> = Vec::new();
        while chosen.len() < count {
            let j = (random.next() % bones as u64) as u16;
            if !chosen.contains(&j) {
                chosen.push(j);
            }
        }
        let weights: Vec<f64> = chosen.iter().map(|_| 0.05 + random.unit()).collect();
        let total: f64 = weights.iter().sum();
        for (k, (j, w)) in chosen.iter().zip(&weights).enumerate() {
            skin.bones[i * slots + k] = *j;
            skin.weights[i * slots + k] = w / total;
        }
    }
    skin
}

/// The vertex solve as the fit uses it.
fn usual(slots: usize) -> VertexParams {
    VertexParams { slots, newcomers: 2, min_gain: 1e-2, move_rest: true, rounds: 2 }
}

/// Weights of every vertex are positive, sum to 1, name different bones, and leave unused slots empty at the end.
#[track_caller]
fn assert_convex(skin: &Skin, bones: usize) {
    for i in 0..skin.rest.len() {
        let row = i * skin.slots..(i + 1) * skin.slots;
        let used: Vec<(usize, f64)> = skin.of(i).collect();
        assert!(!used.is_empty() && used.len() <= skin.slots, "vertex {i}: {} influences", used.len());
        assert!((used.iter().map(|(_, w)| w).sum::<f64>() - 1.0).abs() < 1e-9, "vertex {i}: {used:?}");
        assert!(skin.weights[row].iter().filter(|w| **w > 0.0).count() == used.len(), "vertex {i}: a gap");
        for (at, (j, _)) in used.iter().enumerate() {
            assert!(*j < bones, "vertex {i}: bone {j} of {bones}");
            assert!(used[..at].iter().all(|(other, _)| other != j), "vertex {i}: bone {j} twice");
        }
        assert!(skin.rest[i].is_finite(), "vertex {i}: {}", skin.rest[i]);
    }
}
