//! A bar with a chain of bones: the usual subject for comparing deformers.

use std::f64::consts::TAU;

use glam::{DAffine3, DQuat, DVec3, Vec3};

use crate::mesh::topology::Topology;
use crate::model::rig::{Bone, Clip, Rig};
use crate::model::weights::SparseWeights;
use crate::solve::random::Random;
use crate::synthetic::mesh::tube;
use crate::synthetic::posed_rig;

/// Parameters of [`bar`]. It stands on the origin, `bones` units tall and `2 width` wide.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BarParams {
    /// B: one unit of height each, each the child of the one below.
    pub bones: usize,
    /// Rings of vertices per unit of height.
    pub rings: usize,
    /// Vertices around, at least 3; 4 k makes it square.
    pub around: usize,
    /// Half the width of the cross-section.
    pub width: f64,
    /// How far vertices are moved along the surface, as a share of an edge: above about 0.3 there are obtuse triangles.
    pub jitter: f64,
    /// Both ends closed, or open borders.
    pub closed: bool,
    /// Largest angle of each joint in the first clip (bend) and the second (twist), in radians.
    pub bend: f64,
    /// See `bend`.
    pub twist: f64,
    /// F of each clip.
    pub frames: usize,
}

impl Default for BarParams {
    fn default() -> Self {
        Self {
            bones: 2,
            rings: 12,
            around: 16,
            width: 0.2,
            jitter: 0.0,
            closed: true,
            bend: TAU / 4.0,
            twist: TAU / 4.0,
            frames: 5,
        }
    }
}

/// A bar with a rigid bind and two clips, `bend` and `twist`, that go from rest to the largest angles.
pub fn bar(seed: u64, params: &BarParams) -> Rig {
    let mut random = Random::new(seed);
    let (rings, around) = (params.rings * params.bones + 1, params.around.max(3));
    let step = DVec3::new(TAU / around as f64, 1.0 / params.rings as f64, 0.0);
    let mut rest = Vec::new();
    for ring in 0..rings {
        for at in 0..around {
            let border = ring == 0 || ring + 1 == rings;
            let shift = if border { DVec3::ZERO } else { random.vector() * params.jitter };
            let angle = (at as f64 + shift.x) * step.x;
            // A rounded square.
            let (sin, cos) = angle.sin_cos();
            let radius = params.width / (cos.powi(4) + sin.powi(4)).powf(0.25);
            rest.push(DVec3::new(radius * cos, (ring as f64 + shift.y) * step.y, radius * sin).as_vec3());
        }
    }
    let mut topology = Topology::empty();
    for [low, low_next, high_next, high] in tube(rings, around) {
        topology.push_face(&[low, high, high_next]);
        topology.push_face(&[low, high_next, low_next]);
    }
    if params.closed {
        for (ring, height) in [(0, 0.0), (rings - 1, params.bones as f32)] {
            let middle = rest.len() as u32;
            rest.push(Vec3::new(0.0, height, 0.0));
            for at in 0..around {
                let [a, b] = [at, at + 1].map(|at| (ring * around + at % around) as u32);
                topology.push_face(&if ring == 0 { [middle, a, b] } else { [middle, b, a] });
            }
        }
    }
    let mut weights = SparseWeights::new(rest.len(), 1);
    for (i, p) in rest.iter().enumerate() {
        weights.set(i, &[((p.y.max(0.0) as usize).min(params.bones - 1), 1.0)]);
    }
    let bone = |j: usize| Bone {
        name: format!("bone_{j}"),
        parent: j.checked_sub(1),
        world_from_bind: DAffine3::from_translation(DVec3::Y * j as f64),
        tip: None,
    };
    let clips = vec![
        clip("bend", params, |share| DQuat::from_rotation_x(share * params.bend)),
        clip("twist", params, |share| DQuat::from_rotation_y(share * params.twist)),
    ];
    posed_rig::rig("bar", (rest, topology), weights, (0..params.bones).map(bone).collect(), clips)
}

/// Every joint but the lowest rotates by `turn(share)`, share from 0 to 1 over the frames.
fn clip(name: &str, params: &BarParams, turn: impl Fn(f64) -> DQuat) -> Clip {
    let mut posed_from_rest = Vec::new();
    for t in 0..params.frames {
        let share = t as f64 / (params.frames - 1).max(1) as f64;
        let mut pose = DAffine3::IDENTITY;
        for j in 0..params.bones {
            if j > 0 {
                let joint = DAffine3::from_translation(DVec3::Y * j as f64);
                pose = pose * joint * DAffine3::from_quat(turn(share)) * joint.inverse();
            }
            posed_from_rest.push(pose);
        }
    }
    posed_rig::clip(name, 24.0, params.frames, posed_from_rest)
}
