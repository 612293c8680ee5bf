//! Parts that slide along an axis: pistons, telescopes, drawers. Joints of a skeleton only rotate, so such a part gets a joint far away.

use glam::{DMat3, DVec3};

use crate::skeleton::pose::Pose;
use crate::skinning::Skin;
use crate::solve::transform::rotation_svd;

/// A path whose RMS distance from a line is above this share of its length is not straight.
const STRAIGHT: f64 = 0.05;

/// The turns of a part that slides move its surface by less than this share of the way.
const TURNS: f64 = 0.2;

/// The motion of a part along a line, beside that of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slide {
    /// Unit length, in the rest pose.
    pub axis: DVec3,
    /// Between the two farthest frames, in units of the sphere.
    pub travel: f64,
}

impl Slide {
    /// How bone `j` slides, if it does.
    pub fn of(pose: &Pose, skin: &Skin, j: usize) -> Option<Self> {
        let parent = pose.tree.parents[j]?;
        let (middle, size) = middle(skin, j);
        let motion = pose.to_motion();
        let frames = pose.frames();
        let beside = |t: usize| motion.transform(parent, t).inverse() * motion.transform(j, t);
        let path: Vec<DVec3> = (0..frames).map(|t| beside(t).transform_point3(middle)).collect();
        let mean = path.iter().sum::<DVec3>() / frames as f64;
        let outer = |p: DVec3| DMat3::from_cols(p * p.x, p * p.y, p * p.z);
        let axis = rotation_svd(&path.iter().map(|&p| outer(p - mean)).sum()).v.x_axis;
        let along = path.iter().map(|p| (*p - mean).dot(axis));
        let (low, high) = along.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let travel = high - low;
        let off = |p: &DVec3| (*p - mean).reject_from(axis).length_squared();
        let off = (path.iter().map(off).sum::<f64>() / frames as f64).sqrt();
        // By how much the matrix of a rotation changes: twice the sine of half the angle, times the root of two.
        let first = beside(0).matrix3;
        let change = |t: usize| (beside(t).matrix3 - first).to_cols_array().iter().map(|x| x * x).sum::<f64>();
        let turn = ((0..frames).map(change).fold(0.0, f64::max) / 2.0).sqrt();
        (travel > 0.0 && off < STRAIGHT * travel && turn * size < TURNS * travel).then_some(Self { axis, travel })
    }
}

/// The middle of what a bone moves, and the RMS distance from it.
fn middle(skin: &Skin, j: usize) -> (DVec3, f64) {
    let own = || (0..skin.rest.len()).flat_map(|i| skin.of(i).filter(|(k, _)| *k == j).map(move |(_, w)| (i, w)));
    let mass = own().map(|(_, w)| w).sum::<f64>().max(1e-9);
    let middle = own().map(|(i, w)| w * skin.rest[i]).sum::<DVec3>() / mass;
    let spread = own().map(|(i, w)| w * skin.rest[i].distance_squared(middle)).sum::<f64>();
    (middle, (spread / mass).sqrt())
}
