//! The common motion of a model, per frame, in one root bone.
//!
//! Full: the rigid motion that brings the rest pose nearest to the frame in least squares over all vertices,
//!
//! ```text
//! min_R,t  sum_i | R u_i + t - v_i |^2      R = the rotation nearest to C = sum_i v_i (u_i - mean u)^T,   t = mean v - R mean u
//! ```
//!
//! Plane: the same with R a rotation about the up axis only, and t in the ground plane. Posed vertices are linear in the bones'
//! transforms, so C and the mean are sums over bones of products with moments of the rest pose that are computed once.
//!
//! Where the poses leave a rotation undetermined (a snake about its own axis, the yaw of a somersault), R follows the frame before it: a
//! small multiple of that rotation is added to C.

use glam::{DAffine3, DMat3, DVec3};
use serde::{Deserialize, Serialize};

use crate::mesh::space::UpAxis;
use crate::model::{Bone, Rig};
use crate::solve::transform::nearest_rotation;

/// Share of the rest pose's spread by which a rotation follows that of the frame before.
const FOLLOW: f64 = 0.01;

/// What of the model's common motion goes into the root bone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RootMotion {
    /// Nothing: there is no root bone for it.
    #[default]
    None,
    /// Translation in the ground plane, and rotation about the up axis.
    Plane,
    /// Translation and rotation.
    Full,
}

/// The root bone of a rig.
#[derive(Clone, Debug, PartialEq)]
pub struct Root {
    /// Its index.
    pub bone: usize,
    /// Whether it was added; otherwise the rig had one that moves no vertex.
    pub added: bool,
}

/// Puts the common motion into one root bone that is the parent of all others. Vertices stay where they are, to the bit.
///
/// A rig whose only root moves no vertex keeps it, with the new motion; otherwise a bone is added at the end.
pub fn root_motion(rig: &mut Rig, kind: RootMotion, up: UpAxis) -> Option<Root> {
    if kind == RootMotion::None {
        return None;
    }
    let up = direction(up);
    let moments = Moments::new(rig);
    let tracks: Vec<Vec<DAffine3>> = rig
        .clips
        .iter()
        .map(|clip| {
            let mut last = DMat3::IDENTITY;
            let frames = (0..clip.frame_count()).map(|t| {
                let root = moments.common(clip.frame(t), kind, up, last);
                last = root.matrix3;
                root
            });
            frames.collect()
        })
        .collect();
    let root = match own_root(rig) {
        Some(bone) => Root { bone, added: false },
        None => Root { bone: add_bone(rig, moments.ground(rig, up)), added: true },
    };
    let bones = rig.bone_count();
    for (clip, track) in rig.clips.iter_mut().zip(tracks) {
        for (t, transform) in track.into_iter().enumerate() {
            clip.posed_from_rest[t * bones + root.bone] = transform;
        }
    }
    Some(root)
}

/// Gives the rig one root bone that does not move, where it has none: the parent of all others, at the origin or on the ground below the
/// model. With `unweighted` a root that vertices follow gets one above it. Whether one was added.
pub fn single_root(rig: &mut Rig, at_origin: bool, unweighted: bool) -> bool {
    let roots = rig.bones.iter().filter(|bone| bone.parent.is_none()).count();
    let own = own_root(rig);
    let is_placed = own.is_some_and(|root| rig.bones[root].world_from_bind == DAffine3::IDENTITY);
    if roots == 1 && (own.is_some() || !unweighted) && (is_placed || !at_origin) {
        return false;
    }
    let up = direction(rig.surface.space.up.unwrap_or(UpAxis::Y));
    let place = if at_origin { DVec3::ZERO } else { Moments::new(rig).ground(rig, up) };
    add_bone(rig, place);
    true
}

/// Takes the motion of the root bone out of all clips: the root stands at its rest place, the other bones keep their motion relative to
/// it. Returns the motion, [clips][F].
pub fn stand_still(rig: &mut Rig, root: usize) -> Vec<Vec<DAffine3>> {
    let bones = rig.bone_count();
    let still = |clip: &mut crate::model::Clip| {
        let frames = clip.posed_from_rest.chunks_exact_mut(bones).map(|pose| {
            let (removed, back) = (pose[root], pose[root].inverse());
            pose.iter_mut().for_each(|m| *m = back * *m);
            pose[root] = DAffine3::IDENTITY;
            removed
        });
        frames.collect()
    };
    rig.clips.iter_mut().map(still).collect()
}

/// Unit vector of the up axis.
fn direction(up: UpAxis) -> DVec3 {
    match up {
        UpAxis::Y => DVec3::Y,
        UpAxis::Z => DVec3::Z,
    }
}

/// The one root of the rig, if no vertex follows it.
fn own_root(rig: &Rig) -> Option<usize> {
    let mut roots = rig.bones.iter().enumerate().filter(|(_, bone)| bone.parent.is_none()).map(|(j, _)| j);
    let root = roots.next().filter(|_| roots.next().is_none() && rig.bone_count() > 1)?;
    let moves = (0..rig.vertex_count()).any(|i| rig.weights.of(i).any(|(j, w)| j == root && w > 0.0));
    (!moves).then_some(root)
}

/// Adds a root at a place, with every clip's frames at rest.
fn add_bone(rig: &mut Rig, place: DVec3) -> usize {
    let bone = rig.bone_count();
    let taken = |name: &str| rig.bones.iter().any(|bone| bone.name == name);
    let mut name = "root".to_owned();
    let mut number = 2;
    while taken(&name) {
        name = format!("root_{number}");
        number += 1;
    }
    for clip in &mut rig.clips {
        let frames = clip.posed_from_rest.chunks_exact(bone);
        clip.posed_from_rest = frames.flat_map(|pose| pose.iter().copied().chain([DAffine3::IDENTITY])).collect();
    }
    rig.bones.iter_mut().filter(|bone| bone.parent.is_none()).for_each(|own| own.parent = Some(bone));
    rig.bones.push(Bone { name, parent: None, world_from_bind: DAffine3::from_translation(place), tip: None });
    bone
}

/// Moments of the rest pose by bone, about its mean.
struct Moments {
    /// mean u.
    mean: DVec3,
    /// [B] sum w, sum w (u - mean), sum w (u - mean) (u - mean)^T.
    bones: Vec<(f64, DVec3, DMat3)>,
    /// N.
    vertices: f64,
}

impl Moments {
    fn new(rig: &Rig) -> Self {
        let vertices = rig.vertex_count().max(1) as f64;
        let mean = rig.rest.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / vertices;
        let mut bones = vec![(0.0, DVec3::ZERO, DMat3::ZERO); rig.bone_count()];
        for (i, p) in rig.rest.iter().enumerate() {
            let u = p.as_dvec3() - mean;
            for (j, w) in rig.weights.of(i) {
                let (w, sums) = (f64::from(w), &mut bones[j]);
                sums.0 += w;
                sums.1 += w * u;
                sums.2 += outer(w * u, u);
            }
        }
        Self { mean, bones, vertices }
    }

    /// The common motion of one pose.
    fn common(&self, pose: &[DAffine3], kind: RootMotion, up: DVec3, last: DMat3) -> DAffine3 {
        let (mut posed, mut cross, mut spread) = (DVec3::ZERO, DMat3::ZERO, 0.0);
        for ((weight, first, second), transform) in self.bones.iter().zip(pose) {
            let middle = transform.transform_point3(self.mean);
            posed += transform.matrix3 * *first + *weight * middle;
            cross += transform.matrix3 * *second + outer(middle, *first);
            spread += second.x_axis.x + second.y_axis.y + second.z_axis.z;
        }
        posed /= self.vertices;
        cross += last * (FOLLOW * spread / 3.0);
        match kind {
            RootMotion::None => DAffine3::IDENTITY,
            RootMotion::Full => {
                let turn = nearest_rotation(&cross);
                DAffine3::from_mat3_translation(turn, posed - turn * self.mean)
            }
            RootMotion::Plane => {
                let trace = cross.x_axis.x + cross.y_axis.y + cross.z_axis.z;
                let (along, across) = (trace - up.dot(cross * up), up.dot(axial(&cross)));
                let turn = DMat3::from_axis_angle(up, across.atan2(along));
                let shift = posed - turn * self.mean;
                DAffine3::from_mat3_translation(turn, shift - up * up.dot(shift))
            }
        }
    }

    /// The place on the ground below the middle of the rest pose; the ground is at its lowest vertex.
    fn ground(&self, rig: &Rig, up: DVec3) -> DVec3 {
        let lowest = rig.rest.iter().map(|p| up.dot(p.as_dvec3())).fold(f64::INFINITY, f64::min);
        let height = if lowest.is_finite() { lowest } else { 0.0 };
        self.mean + up * (height - up.dot(self.mean))
    }
}

/// `a b^T`.
fn outer(a: DVec3, b: DVec3) -> DMat3 {
    DMat3::from_cols(a * b.x, a * b.y, a * b.z)
}

/// The vector whose product with an axis is the sum of `C` with the cross product matrix of that axis: for `C = sum v u^T` it is
/// `sum u x v`.
fn axial(c: &DMat3) -> DVec3 {
    DVec3::new(c.y_axis.z - c.z_axis.y, c.z_axis.x - c.x_axis.z, c.x_axis.y - c.y_axis.x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deform;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// A known rig whose motion has a rigid motion on top.
    fn travelling(motion: impl Fn(usize) -> DAffine3) -> Rig {
        let mut rig = posed_rig(3, &PosedRigParams::default()).rig;
        let bones = rig.bone_count();
        for (at, m) in rig.clips[0].posed_from_rest.iter_mut().enumerate() {
            *m = motion(at / bones) * *m;
        }
        rig
    }

    fn walk(up: DVec3, forward: DVec3) -> impl Fn(usize) -> DAffine3 {
        move |t| DAffine3::from_translation(forward * t as f64) * DAffine3::from_axis_angle(up, 0.2 * t as f64)
    }

    #[test]
    fn vertices_stay_and_the_root_is_the_parent_of_all() {
        for (kind, up) in [(RootMotion::Plane, UpAxis::Y), (RootMotion::Full, UpAxis::Z)] {
            let before = travelling(walk(direction(up), DVec3::X));
            let mut rig = before.clone();
            let root = root_motion(&mut rig, kind, up).unwrap();
            assert!(root.added);
            rig.check().unwrap();
            assert_eq!(rig.bones.iter().filter(|bone| bone.parent.is_none()).count(), 1);
            for t in 0..rig.clips[0].frame_count() {
                let posed = deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
                assert_eq!(posed, deform::lbs(&before.rest, &before.weights, before.clips[0].frame(t)), "frame {t}");
            }
            // A second time, the same bone takes the motion.
            let again = root_motion(&mut rig, kind, up).unwrap();
            assert_eq!((again.bone, again.added), (root.bone, false));
        }
    }

    /// Against the minimum found by trying angles.
    #[test]
    fn the_yaw_is_the_best_there_is() {
        for (up, axis) in [(UpAxis::Y, DVec3::Y), (UpAxis::Z, DVec3::Z)] {
            let mut rig = travelling(walk(axis, DVec3::X));
            let root = root_motion(&mut rig, RootMotion::Plane, up).unwrap();
            for t in [0, 3, 7] {
                let pose = rig.clips[0].frame(t);
                let posed = deform::lbs(&rig.rest, &rig.weights, pose);
                let mean =
                    |points: &[glam::Vec3]| points.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / points.len() as f64;
                let (u, v) = (mean(&rig.rest), mean(&posed));
                let cost = |angle: f64| {
                    let turn = DMat3::from_axis_angle(axis, angle);
                    let off = |(p, q): (&glam::Vec3, &glam::Vec3)| {
                        (turn * (p.as_dvec3() - u) - (q.as_dvec3() - v)).length_squared()
                    };
                    rig.rest.iter().zip(&posed).map(off).sum::<f64>()
                };
                let best = (0..6284).map(|k| f64::from(k) * 1e-3).min_by(|a, b| cost(*a).total_cmp(&cost(*b))).unwrap();
                let found = pose[root.bone].matrix3 * DMat3::from_axis_angle(axis, best).transpose();
                let off = glam::DQuat::from_mat3(&found).to_scaled_axis().length();
                // The pull towards the frame before it is small.
                assert!(off < 0.01, "frame {t}: {off}");
                assert!(pose[root.bone].translation.dot(axis).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn a_rigid_motion_is_found_and_taken_out() {
        let mut rig = posed_rig(3, &PosedRigParams::default()).rig;
        let (bones, frames) = (rig.bone_count(), rig.clips[0].frame_count());
        let motion = walk(DVec3::new(0.6, 0.0, 0.8), DVec3::new(1.0, 2.0, 3.0));
        rig.clips[0].posed_from_rest = (0..frames * bones).map(|at| motion(at / bones)).collect();
        let root = root_motion(&mut rig, RootMotion::Full, UpAxis::Y).unwrap();
        let removed = stand_still(&mut rig, root.bone);
        for (t, found) in removed[0].iter().enumerate().take(frames) {
            // The pull towards the frame before it is all that is missing.
            assert!(found.abs_diff_eq(motion(t), 0.1), "frame {t}");
            assert_eq!(rig.clips[0].frame(t)[root.bone], DAffine3::IDENTITY);
            assert!((*found * rig.clips[0].frame(t)[0]).abs_diff_eq(motion(t), 1e-9));
        }
    }
}
