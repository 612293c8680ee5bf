//! Poses that the real, non-linear model is compared in: frames of the animation, and poses sampled in the joints' ranges.
//!
//! Poses are taken about the rig's origin, which bone 0 leaves where it is: where the whole model goes has no effect on the error.

use glam::{DAffine3, DQuat, DVec3, Vec3};

use crate::ddm::compress::joints::Joints;
use crate::ddm::compress::params::RangeOfMotion;
use crate::deform::DdmDeformer;
use crate::model::{Clip, DdmRig};
use crate::observer::{Cancelled, Stages};
use crate::skinning::alternation::parents_first;
use crate::solve::random::Random;

/// Maximum of frames of the animation.
const MAX_FRAMES: usize = 40;
/// Sampled poses beside frames of the animation, and without any.
const SAMPLES_BESIDE: usize = 24;
const SAMPLES_ALONE: usize = 48;
/// Largest factor of a joint's motion in a sampled pose: the root mean square stays about what it is in the animation.
const WIDEST: f64 = 1.75;
/// Share of a joint's range by which it turns about any axis beside that.
const ANY_AXIS: f64 = 0.3;

/// Poses, and where the full model puts the vertices.
pub(super) struct Examples {
    /// [P][B] posed_from_rest about the origin.
    pub poses: Vec<Vec<DAffine3>>,
    /// [N, 3 P] positions about the origin: x of all poses, y of all, z of all.
    targets: Vec<f32>,
}

impl Examples {
    pub fn new(
        rig: &DdmRig,
        joints: &Joints,
        range: &RangeOfMotion,
        stages: &mut Stages<'_>,
    ) -> Result<Self, Cancelled> {
        let mut poses = match range {
            RangeOfMotion::Measured => frames(rig),
            _ => Vec::new(),
        };
        let samples = if poses.is_empty() { SAMPLES_ALONE } else { SAMPLES_BESIDE };
        let mut random = Random::new(0);
        let mixed: Vec<Vec<DAffine3>> = match poses.is_empty() {
            true => (0..samples).map(|_| sampled(joints, 1.0, &mut random, |_, _| DAffine3::IDENTITY)).collect(),
            false => (0..samples).map(|_| mixed(joints, &poses, &mut random)).collect(),
        };
        poses.extend(mixed);
        let (n, length) = (rig.vertex_count(), 3 * poses.len());
        let mut targets = vec![0f32; n * length];
        let mut deformer = DdmDeformer::new(rig);
        let mut posed = vec![Vec3::ZERO; n];
        let (there, back) = (DAffine3::from_translation(rig.origin), DAffine3::from_translation(-rig.origin));
        for (t, pose) in poses.iter().enumerate() {
            stages.report(None)?;
            let world: Vec<DAffine3> = pose.iter().map(|m| there * *m * back).collect();
            deformer.pose_into(&world, &mut posed);
            for (row, p) in targets.chunks_exact_mut(length).zip(&posed) {
                let p = (p.as_dvec3() - rig.origin).as_vec3();
                [row[t], row[poses.len() + t], row[2 * poses.len() + t]] = p.to_array();
            }
        }
        Ok(Self { poses, targets })
    }

    /// 3 P.
    pub fn length(&self) -> usize {
        3 * self.poses.len()
    }

    /// [3 P] positions of vertex `i`.
    pub fn target(&self, i: usize) -> &[f32] {
        &self.targets[i * self.length()..(i + 1) * self.length()]
    }
}

/// Frames of all clips, evenly.
fn frames(rig: &DdmRig) -> Vec<Vec<DAffine3>> {
    let total: usize = rig.rig.clips.iter().map(Clip::frame_count).sum();
    let stride = total.div_ceil(MAX_FRAMES).max(1);
    let (there, back) = (DAffine3::from_translation(rig.origin), DAffine3::from_translation(-rig.origin));
    let all = rig.rig.clips.iter().flat_map(|clip| (0..clip.frame_count()).map(move |t| clip.frame(t)));
    let about = |frame: &[DAffine3]| {
        let moved: Vec<DAffine3> = frame.iter().map(|m| back * *m * there).collect();
        let shift = moved.first().map_or(DVec3::ZERO, |m| m.translation);
        moved.into_iter().map(|m| DAffine3 { translation: m.translation - shift, ..m }).collect()
    };
    all.step_by(stride).map(about).collect()
}

/// A pose in which every joint has its motion from a frame of its own, more or less of it: what the frames hold, combined anew and wider.
fn mixed(joints: &Joints, frames: &[Vec<DAffine3>], random: &mut Random) -> Vec<DAffine3> {
    sampled(joints, ANY_AXIS, random, |j, random| {
        let frame = &frames[(random.next() % frames.len() as u64) as usize];
        let own = joints.parents[j].map_or(frame[j], |parent| frame[parent].inverse() * frame[j]);
        let (_, turn, shift) = (joints.binds[j].inverse() * own * joints.binds[j]).to_scale_rotation_translation();
        let share = WIDEST * random.unit();
        DAffine3::from_rotation_translation(DQuat::from_scaled_axis(turn.to_scaled_axis() * share), shift * share)
    })
}

/// A pose in which every joint has the motion `local` and, beside it, turns and moves within a share of its range.
fn sampled(
    joints: &Joints,
    share: f64,
    random: &mut Random,
    mut local: impl FnMut(usize, &mut Random) -> DAffine3,
) -> Vec<DAffine3> {
    let mut pose = vec![DAffine3::IDENTITY; joints.parents.len()];
    for j in parents_first(&joints.parents) {
        let (alpha, beta) = joints.extents[j];
        let radians = share * range_of(alpha);
        let mut angle = || random.signed() * radians;
        let (x, y, z) = (angle(), angle(), angle());
        let turn = DQuat::from_rotation_x(x) * DQuat::from_rotation_y(y) * DQuat::from_rotation_z(z);
        let beside = DAffine3::from_rotation_translation(turn, random.vector() * (share * beta));
        let own = joints.binds[j] * local(j, random) * beside * joints.binds[j].inverse();
        pose[j] = joints.parents[j].map_or(own, |parent| pose[parent] * own);
    }
    pose
}

/// The range of Euler angles, in radians, whose root mean square is `alpha` (`joints::extent`).
fn range_of(alpha: f64) -> f64 {
    let sinc = (1.0 - 0.5 * alpha * alpha).max(0.0).sqrt();
    let (mut low, mut high) = (0.0f64, std::f64::consts::PI);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if middle.sin() / middle > sinc { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddm::compress::joints::extent;

    #[test]
    fn ranges_come_back_from_their_root_mean_square() {
        for radians in [0.05, 0.6, 1.5, 3.0] {
            assert!((range_of(extent(radians, 0.0).0) - radians).abs() < 1e-6, "{radians}");
        }
    }
}
