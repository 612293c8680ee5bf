//! How the bones of a pose lie in memory.

use bonesmith_core::Rig;
use bonesmith_core::transform::nearest_rotation;
use glam::{DAffine3, DMat3, DQuat, DVec3};
use serde::Serialize;

/// How far M^T M may be from the square of the scale, relative to it: twice as far as M from scale times rotation. Rigs that went
/// through float32 files are off by up to 7e-6.
const SLACK: f64 = 1e-5;
/// The same for a pose to be taken, so that one like those of the rig is not refused.
const MORE_SLACK: f64 = 4e-5;

/// Form of the bones that a model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bones {
    /// Three rows of a matrix, 48 bytes: any affine map.
    Affine,
    /// A quaternion, a translation and a scale, 32 bytes: maps that turn, move and scale by the same in all directions.
    /// Linear blending of 4 influences took a sixth less time with them.
    Similar,
}

impl Bones {
    /// The smaller form that all poses of the rig's clips have; [`Bones::Affine`] for a rig without any.
    pub fn of(rig: &Rig) -> Self {
        let mut poses = rig.clips.iter().flat_map(|clip| &clip.posed_from_rest).peekable();
        let similar = poses.peek().is_some() && poses.all(|m| similarity(&m.matrix3, SLACK).is_ok());
        if similar { Self::Similar } else { Self::Affine }
    }

    /// Bytes of one.
    pub fn bytes(self) -> u64 {
        4 * self.words() as u64
    }

    fn words(self) -> usize {
        match self {
            Self::Affine => 12,
            Self::Similar => 8,
        }
    }
}

/// Bones that a kernel reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source {
    pub form: Bones,
    /// Of one instance.
    pub count: usize,
}

/// What keeps a pose from being written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BadBone {
    NotFinite { bone: usize },
    NotSimilar { bone: usize, off: f64 },
}

/// A pose about the origins, in float32: differences of far-away points are taken here, in float64.
#[derive(Clone, Debug, Default)]
pub(crate) struct PackedPose {
    /// [bone_stride, words]
    pub bones: Vec<f32>,
    /// Where bone 0 takes the origin.
    pub instance_origin: [f32; 4],
    /// [bone_stride] x y z w, if asked for.
    pub turns: Vec<[f32; 4]>,
}

impl PackedPose {
    /// `turns`: rotations of the bones as well.
    pub fn new(pose: &[DAffine3], origin: DVec3, form: Bones, stride: usize, turns: bool) -> Result<Self, BadBone> {
        let instance_origin = pose.first().map_or(origin, |m| m.transform_point3(origin));
        let mut packed = Self { instance_origin: instance_origin.as_vec3().extend(0.0).to_array(), ..Self::default() };
        for (bone, m) in pose.iter().enumerate() {
            let t = m.transform_point3(origin) - instance_origin;
            let not_finite = BadBone::NotFinite { bone };
            if !m.is_finite() || !instance_origin.as_vec3().is_finite() {
                return Err(not_finite);
            }
            let start = packed.bones.len();
            match form {
                Bones::Affine => {
                    let [x, y, z] = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis];
                    (0..3).for_each(|r| packed.bones.extend([x[r], y[r], z[r], t[r]].map(|v| v as f32)));
                }
                Bones::Similar => {
                    let (turn, scale) =
                        similarity(&m.matrix3, MORE_SLACK).map_err(|off| BadBone::NotSimilar { bone, off })?;
                    let turn = turn * (2.0 * scale).sqrt();
                    packed.bones.extend(turn.to_array().map(|v| v as f32));
                    packed.bones.extend([t.x, t.y, t.z, scale].map(|v| v as f32));
                }
            }
            if !packed.bones[start..].iter().all(|v| v.is_finite()) {
                return Err(not_finite);
            }
            if turns {
                packed.turns.push(DQuat::from_mat3(&nearest_rotation(&m.matrix3)).as_quat().to_array());
            }
        }
        packed.bones.resize(stride * form.words(), 0.0);
        packed.turns.resize(if turns { stride } else { 0 }, Default::default());
        Ok(packed)
    }
}

/// Rotation and scale of a matrix that is their product within `slack`; `Err`: how far it is from that, relative to the scale.
fn similarity(m: &DMat3, slack: f64) -> Result<(DQuat, f64), f64> {
    let largest = |m: &DMat3| m.to_cols_array().into_iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let unit = largest(m);
    if unit == 0.0 {
        return Ok((DQuat::IDENTITY, 0.0));
    }
    // Entries near 1: determinants of any scale are numbers then.
    let near = DMat3::from_cols_array(&m.to_cols_array().map(|v| v / unit));
    let scale = near.determinant().cbrt();
    // A mirror, or flat.
    if scale.is_nan() || scale <= 0.0 {
        return Err(1.0);
    }
    let r = near * (1.0 / scale);
    let off = largest(&(r.transpose() * r - DMat3::IDENTITY));
    if off > slack || off.is_nan() {
        return Err(off);
    }
    Ok((DQuat::from_mat3(&r).normalize(), scale * unit))
}

#[cfg(test)]
mod tests {
    use bonesmith_core::synthetic::{PosedRigParams, posed_rig};

    use super::*;

    /// The matrix that `bones_similar.wgsl` makes of eight numbers.
    fn unpacked(b: &[f32]) -> ([[f64; 3]; 3], DVec3) {
        let [x, y, z, w, tx, ty, tz, s] = std::array::from_fn(|n| f64::from(b[n]));
        let rows = [
            [s - y * y - z * z, x * y - z * w, x * z + y * w],
            [x * y + z * w, s - x * x - z * z, y * z - x * w],
            [x * z - y * w, y * z + x * w, s - x * x - y * y],
        ];
        (rows, DVec3::new(tx, ty, tz))
    }

    #[test]
    fn turning_scaling_and_moving_survive() {
        let origin = DVec3::new(0.3, -0.2, 5.0);
        for (n, scale) in [1.0, 0.01, 37.0, 0.0].into_iter().enumerate() {
            for angle in [0.0, 1.0, 0.999 * std::f64::consts::PI, -2.0] {
                let turn = DQuat::from_scaled_axis(DVec3::new(0.6, -0.64, 0.48) * angle);
                let m = DAffine3::from_scale_rotation_translation(DVec3::splat(scale), turn, DVec3::splat(n as f64));
                let pose = [DAffine3::IDENTITY, m];
                let packed = PackedPose::new(&pose, origin, Bones::Similar, 3, false).unwrap();
                assert_eq!(packed.bones.len(), 24);
                let (rows, t) = unpacked(&packed.bones[8..16]);
                for (r, row) in rows.iter().enumerate() {
                    (0..3).for_each(|c| assert!((row[c] - m.matrix3.col(c)[r]).abs() <= 1e-6 * scale, "{m:?}"));
                }
                assert!(t.distance(m.transform_point3(origin) - origin) < 1e-6 * (1.0 + scale));
            }
        }
    }

    #[test]
    fn the_rig_decides() {
        let params = PosedRigParams { bones: 3, frames: 2, ..PosedRigParams::default() };
        let mut rig = posed_rig(1, &params).rig;
        assert_eq!(Bones::of(&rig), Bones::Similar);
        let last = rig.clips[0].posed_from_rest.last_mut().unwrap();
        let turned = last.matrix3;
        for (noise, form) in [(0.2 * SLACK, Bones::Similar), (2.0 * SLACK, Bones::Affine), (0.1, Bones::Affine)] {
            rig.clips[0].posed_from_rest.last_mut().unwrap().matrix3 =
                turned * DMat3::from_diagonal(DVec3::new(1.0 + noise, 1.0, 1.0));
            assert_eq!(Bones::of(&rig), form, "{noise}");
        }
        rig.clips.clear();
        assert_eq!(Bones::of(&rig), Bones::Affine);
    }

    #[test]
    fn extreme_scales_are_scales() {
        for scale in [1e-300, 1e-110, 1e110, 1e300] {
            let found = similarity(&DMat3::from_diagonal(DVec3::splat(scale)), SLACK).unwrap();
            assert!((found.1 / scale - 1.0).abs() < 1e-12, "{scale}");
            let pose = [DAffine3::from_scale(DVec3::splat(scale))];
            let packed = PackedPose::new(&pose, DVec3::ZERO, Bones::Similar, 1, false);
            assert_eq!(packed.err(), (scale > 1.0).then_some(BadBone::NotFinite { bone: 0 }));
        }
    }

    #[test]
    fn what_is_no_similarity_is_named() {
        let sheared = DMat3::from_cols(DVec3::X, DVec3::new(0.1, 1.0, 0.0), DVec3::Z);
        for bad in [sheared, DMat3::from_diagonal(DVec3::new(1.0, 1.0, -1.0)), DMat3::from_diagonal(DVec3::X)] {
            let pose = [DAffine3::IDENTITY, DAffine3::from_mat3(bad)];
            let error = PackedPose::new(&pose, DVec3::ZERO, Bones::Similar, 2, false).unwrap_err();
            assert!(matches!(error, BadBone::NotSimilar { bone: 1, off } if off > 0.05), "{error:?}");
            PackedPose::new(&pose, DVec3::ZERO, Bones::Affine, 2, false).unwrap();
        }
    }
}
