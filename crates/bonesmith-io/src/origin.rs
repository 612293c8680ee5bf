//! Models far from the origin: float32 vertices, matrices and products there lose what the model is made of.
//!
//! A model 1000 sizes away has 6e-5 sizes between neighbouring float32 numbers, and each product in a reader adds
//! its own rounding. Written about its own centre, with the centre as translation of the root node, only the very
//! last addition of a reader sees large numbers.

use bonesmith_core::Rig;
use glam::{DAffine3, DVec3, Vec3};

/// Distance of the centre, in sizes of the model, from which on it pays.
const FAR: f64 = 4.0;

/// Where to put the root; `None` for a model near the origin.
///
/// On a coarse grid of powers of two, so that subtracting it from float32 coordinates is exact.
pub fn far_origin(rest: &[Vec3]) -> Option<DVec3> {
    let low = rest.iter().copied().fold(Vec3::INFINITY, Vec3::min).as_dvec3();
    let high = rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max).as_dvec3();
    let (center, size) = ((low + high) / 2.0, (high - low).length());
    if center.length() <= FAR * size {
        return None;
    }
    // A single point has no size of its own: stay on float32 integers of its own magnitude.
    let grid = size.max(center.length() * 1e-6).log2().ceil().exp2();
    Some((center / grid).round() * grid)
}

/// The same rig elsewhere.
pub fn moved(rig: &Rig, by: DVec3) -> Rig {
    let (there, back) = (DAffine3::from_translation(by), DAffine3::from_translation(-by));
    let mut rig = rig.clone();
    rig.rest.iter_mut().for_each(|p| *p = (p.as_dvec3() + by).as_vec3());
    for bone in &mut rig.bones {
        bone.world_from_bind = there * bone.world_from_bind;
        bone.tip = bone.tip.map(|tip| tip + by);
    }
    rig.clips.iter_mut().flat_map(|clip| &mut clip.posed_from_rest).for_each(|m| *m = there * *m * back);
    rig
}
