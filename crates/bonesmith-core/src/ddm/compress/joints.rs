//! Joints of the example poses: tree, places, and range of motion [Le2021 s.3.1, 3.2, 3.6].

use glam::{DAffine3, DMat3, DVec3};

use crate::ddm::compress::params::RangeOfMotion;
use crate::model::{Clip, DdmRig};
use crate::observer::{Cancelled, Stages};

/// Range of joints without a measured one, in radians.
const USUAL_RANGE: f64 = std::f64::consts::FRAC_PI_3;
/// Minimum of a measured range in radians: a joint that is still in one clip may move in another.
const MIN_RANGE: f64 = 0.2;
/// Maximum of frames that are used.
const MAX_FRAMES: usize = 240;

/// The tree and the motion in it.
pub(super) struct Joints {
    /// [B].
    pub parents: Vec<Option<usize>>,
    /// [B] B_gamma: place and orientation at rest, relative to the rig's origin.
    pub binds: Vec<DAffine3>,
    /// [B] alpha and beta: root mean square of rotation and translation about the joint [eq. 11d].
    pub extents: Vec<(f64, f64)>,
    /// Found from the motion.
    pub found: bool,
}

impl Joints {
    pub fn new(rig: &DdmRig, range: &RangeOfMotion, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        let bones = &rig.rig.bones;
        let frames = frames(rig);
        let has_tree = bones.iter().any(|bone| bone.parent.is_some());
        let mut joints = match (has_tree || bones.len() == 1, frames.is_empty()) {
            (false, false) => find_tree(rig, &frames, stages)?,
            _ => Self::given(rig),
        };
        joints.extents = match range {
            RangeOfMotion::Uniform { radians, units } => vec![extent(*radians, *units); bones.len()],
            RangeOfMotion::PerJoint(ranges) => ranges.iter().map(|&(r, t)| extent(r, t)).collect(),
            RangeOfMotion::Measured if frames.is_empty() => vec![extent(USUAL_RANGE, 0.0); bones.len()],
            RangeOfMotion::Measured => joints.measured(&frames),
        };
        Ok(joints)
    }

    fn given(rig: &DdmRig) -> Self {
        let about = |m: &DAffine3| DAffine3 { translation: m.translation - rig.origin, ..*m };
        Self {
            parents: rig.rig.bones.iter().map(|bone| bone.parent).collect(),
            binds: rig.rig.bones.iter().map(|bone| about(&bone.world_from_bind)).collect(),
            extents: Vec::new(),
            found: false,
        }
    }

    /// Second moments of the motion of each joint over the frames, about its own place.
    fn measured(&self, frames: &[Vec<DAffine3>]) -> Vec<(f64, f64)> {
        let least = extent(MIN_RANGE, 0.0).0;
        let one = |j: usize| {
            let (mut turned, mut moved) = (0.0, 0.0);
            for frame in frames {
                let own = match self.parents[j] {
                    Some(parent) => frame[parent].inverse() * frame[j],
                    None => frame[j],
                };
                let local = self.binds[j].inverse() * own * self.binds[j];
                let turn = local.matrix3 - DMat3::IDENTITY;
                turned += turn.to_cols_array().iter().map(|x| x * x).sum::<f64>() / 3.0;
                moved += local.translation.length_squared();
            }
            let mean = |sum: f64| (sum / frames.len() as f64).sqrt();
            (mean(turned).max(least), mean(moved))
        };
        (0..self.parents.len()).map(one).collect()
    }
}

/// alpha and beta [Le2021 eq. 11d] of Euler angles uniform in `[-r, r]` and translations uniform in `[-t, t]`.
///
/// The printed `beta = 2 t` is not the root of the mean of `|t|^2`, which is `t` (three axes of `t^2 / 3`).
pub(crate) fn extent(radians: f64, units: f64) -> (f64, f64) {
    let sinc = if radians.abs() < 1e-4 { 1.0 - radians * radians / 6.0 } else { radians.sin() / radians };
    ((2.0 - 2.0 * sinc * sinc).max(0.0).sqrt(), units)
}

/// A selection of the frames of all clips, about the origin at rest.
fn frames(rig: &DdmRig) -> Vec<Vec<DAffine3>> {
    let total: usize = rig.rig.clips.iter().map(Clip::frame_count).sum();
    let stride = total.div_ceil(MAX_FRAMES).max(1);
    let all = rig.rig.clips.iter().flat_map(|clip| (0..clip.frame_count()).map(move |t| clip.frame(t)));
    let (there, back) = (DAffine3::from_translation(rig.origin), DAffine3::from_translation(-rig.origin));
    let frames: Vec<Vec<DAffine3>> =
        all.step_by(stride).map(|frame| frame.iter().map(|m| back * *m * there).collect()).collect();
    let moves = frames.iter().flatten().any(|m| !m.abs_diff_eq(DAffine3::IDENTITY, 1e-6));
    if moves { frames } else { Vec::new() }
}

/// A tree for bones without parents: neighbours are bones with a point that both move alike [compare Le2014 s.3.5-3.6].
fn find_tree(rig: &DdmRig, frames: &[Vec<DAffine3>], stages: &mut Stages<'_>) -> Result<Joints, Cancelled> {
    let b = rig.rig.bone_count();
    let (centres, sizes) = bone_centres(rig);
    let scale = crate::mesh::sphere::unit_radius(&rig.rig.rest);
    let cost = |a: usize, c: usize| -> (f64, DVec3) {
        let (point, off) = common_point(frames, a, c, 0.5 * (centres[a] + centres[c]), scale);
        // Among bones that move alike, near ones are neighbours.
        let apart = point.distance(centres[a]) + point.distance(centres[c]);
        (off / scale + 0.05 * apart / scale, point)
    };
    // Prim, from the bone with most vertices.
    let root = (0..b).fold(0, |best, j| if sizes[j] > sizes[best] { j } else { best });
    let mut parents: Vec<Option<usize>> = vec![None; b];
    let mut binds: Vec<DAffine3> = centres.iter().map(|c| DAffine3::from_translation(*c)).collect();
    let mut near: Vec<(f64, usize, DVec3)> = (0..b).map(|j| (f64::INFINITY, root, centres[j])).collect();
    let mut inside = vec![false; b];
    let mut newest = root;
    inside[root] = true;
    for _ in 1..b {
        stages.report(None)?;
        for j in (0..b).filter(|&j| !inside[j]) {
            let (cost, point) = cost(newest, j);
            if cost < near[j].0 {
                near[j] = (cost, newest, point);
            }
        }
        let next = (0..b).filter(|&j| !inside[j]).min_by(|&x, &y| near[x].0.total_cmp(&near[y].0).then(x.cmp(&y)));
        let Some(next) = next else { break };
        inside[next] = true;
        parents[next] = Some(near[next].1);
        binds[next] = DAffine3::from_translation(near[next].2);
        newest = next;
    }
    Ok(Joints { parents, binds, extents: Vec::new(), found: true })
}

/// [B] mean place of the vertices of each bone, about the origin, and how many there are.
fn bone_centres(rig: &DdmRig) -> (Vec<DVec3>, Vec<f64>) {
    let points = rig.rig.rest.iter().map(|p| p.as_dvec3() - rig.origin);
    let sums = rig.rig.weights.point_sums(points, rig.rig.bone_count());
    sums.into_iter().map(|(sum, size)| (if size > 0.0 { sum / size } else { DVec3::ZERO }, size)).unzip()
}

/// The point that two bones move most alike, pulled a little to `middle`, and the root mean square distance of its two images.
fn common_point(frames: &[Vec<DAffine3>], a: usize, c: usize, middle: DVec3, scale: f64) -> (DVec3, f64) {
    let ridge = 1e-4 * frames.len() as f64;
    let (mut left, mut right) = (DMat3::IDENTITY * ridge, middle * ridge);
    for frame in frames {
        let linear = frame[a].matrix3 - frame[c].matrix3;
        let shift = frame[a].translation - frame[c].translation;
        left += linear.transpose() * linear;
        right -= linear.transpose() * shift;
    }
    let point = left.inverse() * right;
    let point = if point.is_finite() && point.distance(middle) < 4.0 * scale { point } else { middle };
    let apart =
        |frame: &Vec<DAffine3>| frame[a].transform_point3(point).distance_squared(frame[c].transform_point3(point));
    (point, (frames.iter().map(apart).sum::<f64>() / frames.len() as f64).sqrt())
}
