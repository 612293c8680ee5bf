//! Rigs with corrective shapes: shapes first, bones after them.

use glam::Vec3;

use crate::deform;
use crate::model::corrective::ShapedRig;

impl ShapedRig {
    /// [N] the rest pose with the shapes of a frame.
    pub fn rest_at(&self, clip: usize, t: usize) -> Vec<Vec3> {
        let mut rest: Vec<_> = self.rig.rest.iter().map(|p| p.as_dvec3()).collect();
        for shape in &self.shapes {
            let w = f64::from(shape.weights[clip][t]);
            rest.iter_mut().zip(&shape.offsets).for_each(|(p, d)| *p += w * d.as_dvec3());
        }
        rest.into_iter().map(|p| p.as_vec3()).collect()
    }

    /// [N] positions in a frame of a clip.
    pub fn posed(&self, clip: usize, t: usize) -> Vec<Vec3> {
        deform::lbs(&self.rest_at(clip, t), &self.rig.weights, self.rig.clips[clip].frame(t))
    }
}
