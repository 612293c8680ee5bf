//! A body with a hand of five fingers: joints of very different sizes in one skeleton.

use std::f64::consts::TAU;

use glam::{DAffine3, DQuat, DVec3, Vec3};

use crate::model::rig::Bone;
use crate::model::weights::SparseWeights;
use crate::solve::random::Random;
use crate::synthetic::posed_rig::{PosedRig, clip, rig, skin_of_cubes};

/// Where cells end along x: trunk, upper arm, lower arm, palm, and three bones of each finger.
const ENDS: [i32; 7] = [0, 5, 10, 13, 16, 19, 22];

/// Fingers.
const FINGERS: i32 = 5;

/// Size of a cell of the hand; one of the trunk has 1.
const SMALL: f64 = 0.22;

/// Half width of the region around a joint where two bones blend, in cells.
const BLEND: f64 = 0.8;

/// A trunk of 18 units with an arm that ends in a hand of 2.6: 19 bones, 15 of them in the fingers. Every joint bends by itself.
pub fn body_with_hand(seed: u64, frames: usize) -> PosedRig {
    let mut random = Random::new(seed);
    let (cells, topology) =
        skin_of_cubes([-4..22, -12..6, -2..2], solid, |cell| Vec3::from_array(cell.map(|v| v as f32)));
    let rest: Vec<Vec3> = cells.iter().map(|cell| place(cell.as_dvec3()).as_vec3()).collect();
    let mut weights = SparseWeights::new(rest.len(), 4);
    cells.iter().enumerate().for_each(|(i, cell)| weights.set(i, &influences(*cell)));
    let bones: Vec<Bone> = (0..bone(FINGERS - 1, 2) + 1).map(joint).collect();
    let waves: Vec<[(DVec3, f64); 2]> = bones
        .iter()
        .map(|_| std::array::from_fn(|k| (random.vector() * [0.5, 0.25][k], random.unit() * TAU)))
        .collect();
    let mut posed_from_rest: Vec<DAffine3> = Vec::with_capacity(frames * bones.len());
    for t in 0..frames {
        let (phase, first) = (TAU * t as f64 / frames as f64, posed_from_rest.len());
        for (j, bone) in bones.iter().enumerate() {
            let turn = waves[j].iter().enumerate().map(|(k, (axis, at))| *axis * ((k + 1) as f64 * phase + at).sin());
            // The trunk only sways.
            let turn = turn.sum::<DVec3>() * if j == 0 { 0.2 } else { 1.0 };
            let to = bone.world_from_bind;
            let local = to * DAffine3::from_quat(DQuat::from_scaled_axis(turn)) * to.inverse();
            posed_from_rest.push(bone.parent.map_or(DAffine3::IDENTITY, |p| posed_from_rest[first + p]) * local);
        }
    }
    let clip = clip("known", 24.0, frames, posed_from_rest);
    PosedRig::new(rig("body_with_hand", (rest, topology), weights, bones, vec![clip]))
}

/// Whether a cell is part of the body.
fn solid([x, y, z]: [i32; 3]) -> bool {
    let trunk = (-4..ENDS[0]).contains(&x) && (-12..6).contains(&y) && (-2..2).contains(&z);
    let arm = (ENDS[0]..ENDS[2]).contains(&x) && (-1..1).contains(&y) && (-1..1).contains(&z);
    let palm = (ENDS[2]..ENDS[3]).contains(&x) && (-5..4).contains(&y) && (-1..1).contains(&z);
    let finger = (ENDS[3]..ENDS[6]).contains(&x) && (-5..4).contains(&y) && (y + 5) % 2 == 0 && (-1..1).contains(&z);
    trunk || arm || palm || finger
}

/// Where a corner of cells is: cells become small along the lower arm.
fn place(cell: DVec3) -> DVec3 {
    let (from, to) = (f64::from(ENDS[1]), f64::from(ENDS[2]));
    let share = ((cell.x - from) / (to - from)).clamp(0.0, 1.0);
    let across = 1.0 + share * (SMALL - 1.0);
    let along = cell.x.min(to) + (cell.x - to).max(0.0) * SMALL;
    DVec3::new(along, cell.y * across, cell.z * across)
}

/// The number of a finger's bone.
fn bone(finger: i32, part: i32) -> usize {
    (4 + 3 * finger + part) as usize
}

/// Bone `j`, with the joint that it turns about.
fn joint(j: usize) -> Bone {
    let (finger, part) = ((j as i32 - 4) / 3, (j as i32 - 4) % 3);
    let (name, parent, cell) = match j {
        0 => ("trunk".to_owned(), None, [-2.0, -3.0, 0.0]),
        1 => ("upper_arm".to_owned(), Some(0), [f64::from(ENDS[0]), 0.0, 0.0]),
        2 => ("lower_arm".to_owned(), Some(1), [f64::from(ENDS[1]), 0.0, 0.0]),
        3 => ("palm".to_owned(), Some(2), [f64::from(ENDS[2]), 0.0, 0.0]),
        _ => {
            let cell = [f64::from(ENDS[(3 + part) as usize]), f64::from(2 * finger) - 4.5, 0.0];
            (format!("finger_{finger}_{part}"), Some(if part == 0 { 3 } else { j - 1 }), cell)
        }
    };
    Bone { name, parent, world_from_bind: DAffine3::from_translation(place(DVec3::from_array(cell))), tip: None }
}

/// Weights of a corner of cells, by where it is along the arm and which finger it is on.
fn influences(cell: Vec3) -> Vec<(usize, f64)> {
    let past = |end: i32| {
        let x = ((f64::from(cell.x) - f64::from(end)) / (2.0 * BLEND) + 0.5).clamp(0.0, 1.0);
        x * x * (3.0 - 2.0 * x)
    };
    let finger = ((cell.y as i32 + 5) / 2).clamp(0, FINGERS - 1);
    let chain = [0, 1, 2, 3, bone(finger, 0), bone(finger, 1), bone(finger, 2)];
    let beyond: Vec<f64> = ENDS[..6].iter().map(|&end| past(end)).collect();
    let reached = |k: usize| if k == 0 { 1.0 } else { beyond[k - 1] };
    let left = |k: usize| beyond.get(k).copied().unwrap_or(0.0);
    (0..7).map(|k| (chain[k], reached(k) - left(k))).filter(|(_, w)| *w > 0.0).collect()
}
