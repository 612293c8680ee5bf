//! Parts that slide along an axis: pistons, telescopes, drawers. Joints of a skeleton only rotate, so such a part gets a joint far away.

use glam::{DMat3, DVec3};

use crate::skeleton::pose::Pose;
use crate::skinning::{Motion, Skin};
use crate::solve::transform::rotation_svd;

/// A path whose RMS distance from a line is above this share of its length is not straight.
const STRAIGHT: f64 = 0.05;

/// The turns of a part that slides move its surface by less than this share of the way.
const TURNS: f64 = 0.2;

/// Shares of a bone's largest weight: vertices with more are the part, vertices with less are not.
const PART: f64 = 0.5;
const REST: f64 = 0.1;

/// The motion of a part along a line, beside that of its parent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slide {
    /// Unit length, in the rest pose.
    pub axis: DVec3,
    /// Between the two farthest frames, in units of the sphere.
    pub travel: f64,
}

impl Slide {
    /// How bone `j` slides, if it does. The bone is judged; what is reported is the way of the surface, which a bone that shares its
    /// vertices with others moves by less than it moves itself.
    pub fn of(pose: &Pose, skin: &Skin, j: usize) -> Option<Self> {
        let parent = pose.tree.parents[j]?;
        let (middle, size) = middle(skin, j);
        let motion = pose.to_motion();
        let frames = pose.frames();
        let beside = |t: usize| motion.transform(parent, t).inverse() * motion.transform(j, t);
        let own = Line::along(&(0..frames).map(|t| beside(t).transform_point3(middle)).collect::<Vec<DVec3>>());
        // By how much the matrix of a rotation changes: twice the sine of half the angle, times the root of two.
        let first = beside(0).matrix3;
        let change = |t: usize| (beside(t).matrix3 - first).to_cols_array().iter().map(|x| x * x).sum::<f64>();
        let turn = ((0..frames).map(change).fold(0.0, f64::max) / 2.0).sqrt();
        let slides = own.length > 0.0 && own.off < STRAIGHT * own.length && turn * size < TURNS * own.length;
        // A bone may have less than half of the weight of all that it moves.
        let weight = |i: usize, bone: usize| skin.of(i).filter(|(k, _)| *k == bone).map(|(_, w)| w).sum::<f64>();
        let most = (0..skin.rest.len()).map(|i| weight(i, j)).fold(0.0, f64::max);
        let part = places(&motion, skin, |i| weight(i, j) > most * PART);
        let rest = places(&motion, skin, |i| weight(i, j) < most * REST && weight(i, parent) > 0.0);
        let places = part.into_iter().zip(rest).enumerate();
        let back = |t: usize| motion.transform(parent, t).matrix3.transpose();
        let surface = || Line::along(&places.map(|(t, (own, other))| back(t) * (own - other)).collect::<Vec<DVec3>>());
        slides.then(surface).map(|Line { axis, length, .. }| Self { axis, travel: length })
    }
}

/// The line that is nearest to a path.
struct Line {
    axis: DVec3,
    /// Of the path, along the line.
    length: f64,
    /// RMS distance of the path from the line.
    off: f64,
}

impl Line {
    fn along(path: &[DVec3]) -> Self {
        let count = path.len().max(1) as f64;
        let mean = path.iter().sum::<DVec3>() / count;
        let outer = |p: DVec3| DMat3::from_cols(p * p.x, p * p.y, p * p.z);
        let axis = rotation_svd(&path.iter().map(|&p| outer(p - mean)).sum()).v.x_axis;
        let along = path.iter().map(|p| (*p - mean).dot(axis));
        let (low, high) = along.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
        let off = path.iter().map(|p| (*p - mean).reject_from(axis).length_squared()).sum::<f64>();
        Self { axis, length: high - low, off: (off / count).sqrt() }
    }
}

/// [F] the mean of some vertices, where all bones put them.
fn places(motion: &Motion, skin: &Skin, is_one: impl Fn(usize) -> bool) -> Vec<DVec3> {
    let mut sums = vec![(DVec3::ZERO, 0.0); motion.bones];
    for i in (0..skin.rest.len()).filter(|&i| is_one(i)) {
        for (k, w) in skin.of(i) {
            sums[k].0 += w * skin.rest[i];
            sums[k].1 += w;
        }
    }
    let mass = sums.iter().map(|(_, w)| w).sum::<f64>().max(1e-9);
    let put = |t: usize, k: usize| {
        let (transform, (place, weight)) = (motion.transform(k, t), sums[k]);
        transform.matrix3 * place + transform.translation * weight
    };
    (0..motion.frames()).map(|t| (0..motion.bones).map(|k| put(t, k)).sum::<DVec3>() / mass).collect()
}

/// The middle of what a bone moves, and the RMS distance from it.
fn middle(skin: &Skin, j: usize) -> (DVec3, f64) {
    let own = || (0..skin.rest.len()).flat_map(|i| skin.of(i).filter(|(k, _)| *k == j).map(move |(_, w)| (i, w)));
    let mass = own().map(|(_, w)| w).sum::<f64>().max(1e-9);
    let middle = own().map(|(i, w)| w * skin.rest[i]).sum::<DVec3>() / mass;
    let spread = own().map(|(i, w)| w * skin.rest[i].distance_squared(middle)).sum::<f64>();
    (middle, (spread / mass).sqrt())
}
