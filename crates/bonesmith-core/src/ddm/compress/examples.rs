//! Poses that the real, non-linear model is compared in: frames of the animation, and poses sampled in the joints' ranges.
//!
//! Poses are taken about the rig's origin, which bone 0 leaves where it is: where the whole model goes has no effect on the error.

use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};

use crate::ddm::compress::joints::Joints;
use crate::ddm::compress::params::RangeOfMotion;
use crate::deform::DdmDeformer;
use crate::model::{Clip, DdmRig};
use crate::observer::{Cancelled, Stages};
use crate::skinning::alternation::parents_first;
use crate::solve::random::Random;

/// Frames of the animation that are looked at, and those of them that become poses.
const MAX_FRAMES: usize = 240;
const MAX_CHOSEN: usize = 24;
/// Sampled poses beside frames of the animation, and without any.
const SAMPLES_BESIDE: usize = 40;
const SAMPLES_ALONE: usize = 48;
/// Largest factor of a joint's motion in a sampled pose: the root mean square stays about what it is in the animation.
const WIDEST: f64 = 1.75;
/// What hardly turns is turned further about its own axis: up to this angle in radians, and this factor. Joints bend about the same axis in other clips.
const MIN_WIDEST: f64 = 1.5;
const MAX_FACTOR: f64 = 6.0;
/// Turns about any axis beside that: share of a joint's range, and at least so many radians.
const ANY_AXIS: f64 = 0.3;
const MIN_ANY_AXIS: f64 = 0.6;

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
            RangeOfMotion::Measured => apart(joints, frames(rig)),
            _ => Vec::new(),
        };
        let samples = if poses.is_empty() { SAMPLES_ALONE } else { SAMPLES_BESIDE };
        let mut random = Random::new(0);
        let mixed: Vec<Vec<DAffine3>> = match poses.is_empty() {
            true => (0..samples).map(|_| sampled(joints, (1.0, 0.0), &mut random, |_, _| DAffine3::IDENTITY)).collect(),
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

/// Frames that are far apart in the turns of their joints, so that a long clip with little motion does not crowd out others.
fn apart(joints: &Joints, frames: Vec<Vec<DAffine3>>) -> Vec<Vec<DAffine3>> {
    let turns = |pose: &Vec<DAffine3>| -> Vec<DMat3> {
        let own = |(&m, parent): (&DAffine3, &Option<usize>)| parent.map_or(m, |parent| pose[parent].inverse() * m);
        pose.iter().zip(&joints.parents).map(own).map(|own| own.matrix3).collect()
    };
    let squared = |(a, b): (&DMat3, &DMat3)| (*a - *b).to_cols_array().iter().map(|x| x * x).sum::<f64>();
    let distance = |a: &[DMat3], b: &[DMat3]| a.iter().zip(b).map(squared).sum::<f64>();
    let all: Vec<Vec<DMat3>> = frames.iter().map(turns).collect();
    let rest = vec![DMat3::IDENTITY; joints.parents.len()];
    let mut nearest: Vec<f64> = all.iter().map(|own| distance(own, &rest)).collect();
    let mut chosen = Vec::new();
    for _ in 0..MAX_CHOSEN.min(frames.len()) {
        let farthest = (1..nearest.len()).fold(0, |best, t| if nearest[t] > nearest[best] { t } else { best });
        chosen.push(frames[farthest].clone());
        for (nearest, own) in nearest.iter_mut().zip(&all) {
            *nearest = nearest.min(distance(own, &all[farthest]));
        }
    }
    chosen
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
    sampled(joints, (ANY_AXIS, MIN_ANY_AXIS), random, |j, random| {
        let frame = &frames[(random.next() % frames.len() as u64) as usize];
        let own = joints.parents[j].map_or(frame[j], |parent| frame[parent].inverse() * frame[j]);
        let (_, turn, shift) = (joints.binds[j].inverse() * own * joints.binds[j]).to_scale_rotation_translation();
        let (turn, share) = (turn.to_scaled_axis(), random.unit());
        let factor = WIDEST.max((MIN_WIDEST / turn.length().max(1e-9)).min(MAX_FACTOR));
        DAffine3::from_rotation_translation(DQuat::from_scaled_axis(turn * (factor * share)), shift * (WIDEST * share))
    })
}

/// A pose in which every joint has the motion `local` and, beside it, turns and moves within a share of its range; it turns within `least` radians in any case.
fn sampled(
    joints: &Joints,
    (share, least): (f64, f64),
    random: &mut Random,
    mut local: impl FnMut(usize, &mut Random) -> DAffine3,
) -> Vec<DAffine3> {
    let mut pose = vec![DAffine3::IDENTITY; joints.parents.len()];
    for j in parents_first(&joints.parents) {
        let (alpha, beta) = joints.extents[j];
        let radians = (share * range_of(alpha)).max(least);
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
