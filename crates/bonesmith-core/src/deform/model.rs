//! Models of any kind: the one place that chooses how a kind is posed.

use glam::{DVec3, Vec3};

use crate::deform::{DdmDeformer, ddm_f64, lbs, two_layer};
use crate::mesh::RawSequence;
use crate::model::{Basis, CorrectiveRig, ModelRef, ShapeBones};

/// [N] positions in frame `t` of a clip, computed in float64.
///
/// # Panics
/// If there is no such clip or frame, or the model is not sound.
pub fn posed(model: ModelRef<'_>, clip: usize, t: usize) -> Vec<Vec3> {
    match model {
        ModelRef::Sequence(sequence) => sequence.frame(t).into_owned(),
        ModelRef::Rig(rig) => lbs(&rig.rest, &rig.weights, rig.clips[clip].frame(t)),
        ModelRef::TwoLayer(two) => two_layer(two, two.master.clips[clip].frame(t)),
        ModelRef::Ddm(ddm) => ddm_f64(ddm, ddm.rig.clips[clip].frame(t)),
        ModelRef::Corrective(corrective) => corrective.posed(clip, t),
        ModelRef::ShapeBones(face) => lbs(&face.rig.rest, &face.rig.weights, face.rig.clips[clip].frame(t)),
        ModelRef::Basis(basis) => basis.frame(t),
    }
}

impl ModelRef<'_> {
    /// See [`posed`].
    pub fn posed(self, clip: usize, t: usize) -> Vec<Vec3> {
        posed(self, clip, t)
    }

    /// All clips as one animation, one after the other, or one of them; `None` where nothing moves.
    pub fn baked(self, only: Option<usize>) -> Option<RawSequence> {
        self.animation(only, |clip, t| self.posed(clip, t))
    }
}

/// Poses one frame of a model after the other, in float32 where that is faster: Direct Delta Mush.
pub struct Poser<'a> {
    model: ModelRef<'a>,
    ddm: Option<DdmDeformer<'a>>,
}

impl<'a> Poser<'a> {
    /// Prepares a sound model.
    pub fn new(model: ModelRef<'a>) -> Self {
        let ddm = if let ModelRef::Ddm(ddm) = model { Some(DdmDeformer::new(ddm)) } else { None };
        Self { model, ddm }
    }

    /// As the function [`posed`].
    pub fn posed(&mut self, clip: usize, t: usize) -> Vec<Vec3> {
        let (Some(deformer), Some(rig)) = (&mut self.ddm, self.model.rig()) else { return posed(self.model, clip, t) };
        let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
        deformer.pose_into(rig.clips[clip].frame(t), &mut posed);
        posed
    }
}

impl Basis {
    /// [N] positions in frame `t`.
    pub fn frame(&self, t: usize) -> Vec<Vec3> {
        let f = self.frame_count();
        let at = |table: &[f32], row: usize| {
            let at = (row * f + t) * 3;
            DVec3::new(f64::from(table[at]), f64::from(table[at + 1]), f64::from(table[at + 2]))
        };
        let position = |(&cluster, mix): (&u16, &[f32])| {
            let c = usize::from(cluster);
            let columns =
                mix.iter().enumerate().map(|(d, x)| f64::from(*x) * at(&self.columns, c * self.dimension + d));
            (at(&self.mean, 0) + columns.sum::<DVec3>()).as_vec3()
        };
        self.clusters.iter().zip(self.coefficients.chunks_exact(self.dimension)).map(position).collect()
    }
}

impl CorrectiveRig {
    /// [N] the rest pose with the shapes of a frame.
    pub fn rest_at(&self, clip: usize, t: usize) -> Vec<Vec3> {
        let mut rest: Vec<_> = self.rig.rest.iter().map(|p| p.as_dvec3()).collect();
        for shape in &self.shapes {
            let w = f64::from(shape.weights[clip][t]);
            rest.iter_mut().zip(&shape.offsets).for_each(|(p, d)| *p += w * d.as_dvec3());
        }
        rest.into_iter().map(|p| p.as_vec3()).collect()
    }

    /// [N] positions in a frame of a clip: shapes first, bones after them.
    pub fn posed(&self, clip: usize, t: usize) -> Vec<Vec3> {
        lbs(&self.rest_at(clip, t), &self.rig.weights, self.rig.clips[clip].frame(t))
    }
}

impl ShapeBones {
    /// [N] positions for weights of shapes.
    pub fn posed(&self, weights: &[f32]) -> Vec<Vec3> {
        lbs(&self.rig.rest, &self.rig.weights, &self.transforms(weights))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddm::{DdmMaps, DdmParams, precompute};
    use crate::mesh::sequence::MeshSequence;
    use crate::model::Model;
    use crate::observer::Silent;
    use crate::synthetic::{PosedRigParams, posed_rig};

    #[test]
    fn the_fast_path_and_the_baked_animation_are_the_poses_of_the_model() {
        let made = posed_rig(3, &PosedRigParams { bones: 3, frames: 3, detail: 1, ..PosedRigParams::default() });
        let ddm = precompute(&made.rig, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        for model in [Model::from(ddm), Model::from(made.rig), Model::from(sequence)] {
            let model = model.view();
            model.check().unwrap();
            assert_eq!((model.clips().len(), model.clips()[0].frame_count()), (1, 3), "{:?}", model.kind());
            let baked = model.baked(None).unwrap();
            assert_eq!(baked.times_secs, model.clips()[0].times_secs);
            let mut poser = Poser::new(model);
            for (t, frame) in baked.frames.iter().enumerate() {
                assert_eq!(frame.positions, model.posed(0, t));
                let fast = poser.posed(0, t);
                let off = frame.positions.iter().zip(&fast).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max);
                assert!(off < 1e-4 && fast.len() == model.vertex_count(), "{:?} frame {t}: {off}", model.kind());
            }
        }
    }
}
