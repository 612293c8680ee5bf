//! A body with a known skeleton: what a skeleton fit should find again.

use std::f64::consts::TAU;

use glam::{DAffine3, DQuat, DVec3};

use crate::model::rig::Bone;
use crate::model::weights::SparseWeights;
use crate::solve::random::Random;
use crate::synthetic::posed_rig::{PosedRig, branching_body, clip, rig};

/// (name, parent, joint): a trunk of three bones with an arm of two on each side.
const BONES: [(&str, Option<usize>, [f64; 3]); 7] = [
    ("hip", None, [0.5, 1.0, 0.5]),
    ("chest", Some(0), [0.55, 3.0, 0.6]),
    ("head", Some(1), [0.4, 6.4, 0.5]),
    ("upper_arm_l", Some(1), [1.3, 5.5, 0.6]),
    ("lower_arm_l", Some(3), [3.1, 5.4, 0.5]),
    ("upper_arm_r", Some(1), [-0.3, 5.6, 0.4]),
    ("lower_arm_r", Some(5), [-2.1, 5.6, 0.4]),
];

/// Half width of the region around a joint where two bones blend, in model units.
const BLEND: f64 = 0.35;

/// A trunk with two arms that bend at six joints while the hip wanders; `detail` as in `PosedRigParams`.
pub fn jointed_body(seed: u64, frames: usize, detail: usize) -> PosedRig {
    let mut random = Random::new(seed);
    let (rest, topology) = branching_body(detail.max(1));
    let mut weights = SparseWeights::new(rest.len(), 4);
    for (i, p) in rest.iter().enumerate() {
        weights.set(i, &influences(p.as_dvec3()));
    }
    let bones = BONES.map(|(name, parent, joint)| Bone {
        name: name.into(),
        parent,
        world_from_bind: DAffine3::from_translation(DVec3::from_array(joint)),
        tip: None,
    });
    let waves: Vec<[(DVec3, f64); 2]> =
        BONES.map(|_| std::array::from_fn(|k| (random.vector() * [0.6, 0.3][k], random.unit() * TAU))).to_vec();
    let mut posed_from_rest = Vec::with_capacity(frames * bones.len());
    for t in 0..frames {
        let phase = TAU * t as f64 / frames as f64;
        let first = posed_from_rest.len();
        for (j, (_, parent, joint)) in BONES.iter().enumerate() {
            let turn = waves[j].iter().enumerate().map(|(k, (axis, at))| *axis * ((k + 1) as f64 * phase + at).sin());
            let rotation = DQuat::from_scaled_axis(turn.sum());
            let joint = DVec3::from_array(*joint);
            let local =
                DAffine3::from_translation(joint) * DAffine3::from_quat(rotation) * DAffine3::from_translation(-joint);
            let above = match parent {
                Some(p) => posed_from_rest[first + p],
                None => DAffine3::from_translation(DVec3::new(phase.sin(), 0.2 * (2.0 * phase).cos(), 0.0)),
            };
            posed_from_rest.push(above * local);
        }
    }
    let clip = clip("known", 24.0, frames, posed_from_rest);
    PosedRig::new(rig("jointed_body", (rest, topology), weights, bones.to_vec(), vec![clip]))
}

/// Weights by where a point is along the trunk and the arms.
fn influences(p: DVec3) -> Vec<(usize, f64)> {
    // How far a point is past a joint, as a share from 0 (the bone above) to 1 (the bone below).
    let past = |along: f64, joint: f64| {
        let x = ((along - joint) / (2.0 * BLEND) + 0.5).clamp(0.0, 1.0);
        x * x * (3.0 - 2.0 * x)
    };
    let (chest, head) = (past(p.y, BONES[1].2[1]), past(p.y, BONES[2].2[1]));
    let (upper_l, lower_l) = (past(p.x, BONES[3].2[0]), past(p.x, BONES[4].2[0]));
    let (upper_r, lower_r) = (past(-p.x, -BONES[5].2[0]), past(-p.x, -BONES[6].2[0]));
    // Arms end at the joint with the chest; the trunk is cut into three.
    let trunk = (1.0 - upper_l) * (1.0 - upper_r);
    vec![
        (0, trunk * (1.0 - chest)),
        (1, trunk * chest * (1.0 - head)),
        (2, trunk * head),
        (3, upper_l * (1.0 - lower_l)),
        (4, upper_l * lower_l),
        (5, upper_r * (1.0 - lower_r)),
        (6, upper_r * lower_r),
    ]
}
