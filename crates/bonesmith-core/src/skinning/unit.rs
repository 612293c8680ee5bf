//! The unit space: the one normalisation of all stages, and the one way back.
//!
//! ```text
//! model = centre + radius (unit + shift_t)
//! ```
//!
//! with the smallest enclosing sphere of the rest pose, and `shift_t` how far the whole model has gone in frame `t`. A walk of a
//! hundred sizes would otherwise leave float32 few digits for the shape. Every bone has the shift in its translation.

use glam::{DAffine3, DVec3, Vec3};

use crate::mesh::frames::{Frames, by_frame};
use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::{Sphere, smallest_enclosing_sphere};
use crate::skinning::motion::{Motion, to_affine, to_rows};

/// Between model units and the numbers of the solvers.
#[derive(Clone, Debug)]
pub(crate) struct UnitSpace {
    pub sphere: Sphere,
    /// [F] in units of the sphere; none where nothing is moved back.
    shifts: Vec<DVec3>,
}

impl UnitSpace {
    /// The space of a sequence, each frame moved back to the centre of the rest pose.
    pub fn new(sequence: &MeshSequence) -> Self {
        let mut sphere = smallest_enclosing_sphere(sequence.rest().iter().map(|p| p.as_dvec3()));
        // All vertices in one point, or so close that float32 cannot separate them: keep model units.
        if sphere.radius <= 1e-12 * sphere.center.abs().max_element() || sphere.radius == 0.0 {
            sphere.radius = 1.0;
        }
        Self::with_sphere(sequence, sphere)
    }

    /// As [`UnitSpace::new`], in the unit of another sequence.
    pub fn with_sphere(sequence: &MeshSequence, sphere: Sphere) -> Self {
        Self::of_frames(sequence.rest(), &*sequence.frames(), sphere)
    }

    /// As [`UnitSpace::with_sphere`], of any frames.
    pub fn of_frames(rest: &[Vec3], frames: &dyn Frames, sphere: Sphere) -> Self {
        let space = Self::fixed(sphere);
        let mean =
            |positions: &[Vec3]| positions.iter().map(|p| space.point(*p)).sum::<DVec3>() / positions.len() as f64;
        let centre = mean(rest);
        let shifts = by_frame(frames, 0..frames.frame_count(), |_, positions| mean(positions) - centre);
        Self { shifts, ..space }
    }

    /// A sphere alone: frames stay where they are.
    pub fn fixed(sphere: Sphere) -> Self {
        Self { sphere, shifts: Vec::new() }
    }

    /// Only some frames.
    pub fn pick(&self, frames: &[u32]) -> Self {
        let shifts = match self.shifts.is_empty() {
            true => Vec::new(),
            false => frames.iter().map(|&t| self.shifts[t as usize]).collect(),
        };
        Self { sphere: self.sphere, shifts }
    }

    /// How far the whole model has gone in frame `t`.
    pub fn shift(&self, t: usize) -> DVec3 {
        self.shifts.get(t).copied().unwrap_or_default()
    }

    /// A rest position in this space.
    pub fn point(&self, p: Vec3) -> DVec3 {
        (p.as_dvec3() - self.sphere.center) / self.sphere.radius
    }

    /// A rest position in model units.
    pub fn model_point(&self, u: DVec3) -> DVec3 {
        u * self.sphere.radius + self.sphere.center
    }

    /// A bone's matrix `[a][c]` of frame `t` in model units: `x' = centre + radius (T((x - centre) / radius) + shift)`.
    pub fn model_transform(&self, t: usize, m: &[[f64; 4]; 3]) -> DAffine3 {
        let Sphere { center, radius } = self.sphere;
        let DAffine3 { matrix3, translation } = to_affine(m);
        DAffine3 { matrix3, translation: (translation + self.shift(t)) * radius + center - matrix3 * center }
    }

    /// The way back: a bone's transform in model units as a matrix of frame `t`.
    pub fn matrix(&self, t: usize, m: &DAffine3) -> [[f64; 4]; 3] {
        let Sphere { center, radius } = self.sphere;
        let translation = (m.transform_point3(center) - center) / radius - self.shift(t);
        to_rows(&DAffine3 { translation, ..*m })
    }

    /// The motion of [F, B] transforms in model units.
    pub fn motion(&self, transforms: &[DAffine3], bones: usize) -> Motion {
        let mut motion = Motion::identity(bones, transforms.len() / bones);
        for (at, m) in transforms.iter().enumerate() {
            motion.set(at % bones, at / bones, &self.matrix(at / bones, m));
        }
        motion
    }

    /// [F, B] transforms of a motion in model units: the way back.
    pub fn transforms(&self, motion: &Motion) -> Vec<DAffine3> {
        let of_frame = |t: usize| (0..motion.bones).map(move |j| self.model_transform(t, &motion.get(j, t)));
        (0..motion.frames()).flat_map(of_frame).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn transforms_come_back_from_far_away() {
        let known = posed_rig(3, &PosedRigParams::default());
        let mut raw = known.sequence;
        for (t, frame) in raw.frames.iter_mut().enumerate() {
            frame.positions.iter_mut().for_each(|p| *p += Vec3::X * (1000.0 * t as f32));
        }
        let sequence = MeshSequence::try_from(raw).unwrap();
        let space = UnitSpace::new(&sequence);
        assert!(space.shift(2).distance(DVec3::X * 2000.0 / space.sphere.radius) < 1.0);
        let walk = |t: usize| DAffine3::from_translation(DVec3::X * (1000.0 * t as f64));
        for (t, m) in (0..3).map(|t| (t, walk(t) * known.rig.clips[0].frame(t)[1])) {
            let back = space.model_transform(t, &space.matrix(t, &m));
            assert!(back.abs_diff_eq(m, 1e-9), "{back:?}");
            // Small numbers inside.
            assert!(space.matrix(t, &m).iter().all(|row| row[3].abs() < 10.0));
        }
    }
}
