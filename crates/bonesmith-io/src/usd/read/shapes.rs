//! Rigs with blend shapes that their animations weigh.

use bonesmith_core::{BlendShape, ShapedRig};
use glam::DVec3;

use super::model::Model;
use super::to_rig;
use crate::usd::stage::Stage;
use crate::{IoError, warning};

/// Reads a rig with shapes; `None` where there are none, or no animation.
pub fn load(stage: &Stage) -> Result<Option<ShapedRig>, IoError> {
    let model = Model::read(stage, None)?;
    let shaped =
        |model: &Model<'_>| model.parts.iter().any(|p| p.binding.as_ref().is_some_and(|b| !b.1.shapes.is_empty()));
    if !shaped(&model) || model.skeletons.iter().all(|skeleton| skeleton.animations.is_empty()) {
        return Ok(None);
    }
    // The rig takes the model's parts; shapes need them again.
    let rig = to_rig(Model::read(stage, None)?, None)?;
    let mut shapes = Vec::new();
    let mut first = 0;
    for part in &model.parts {
        let range = first..first + part.count;
        first = range.end;
        let Some((s, binding)) = &part.binding else { continue };
        let skeleton = &model.skeletons[*s];
        let world_from_mesh = skeleton.place.world(None)? * binding.skeleton_from_mesh;
        for shape in &binding.shapes {
            let mut own = vec![DVec3::ZERO; part.count];
            shape.add(1.0, &mut own);
            if shape.has_levels() {
                warning::left_out(stage.file(), format!("in-betweens of blend shape {:?}", shape.name()));
            }
            let mut offsets = vec![glam::Vec3::ZERO; rig.vertex_count()];
            offsets[range.clone()]
                .iter_mut()
                .zip(&own)
                .for_each(|(to, d)| *to = (world_from_mesh.matrix3 * *d).as_vec3());
            let mut weights = Vec::with_capacity(rig.clips.len());
            for (at, clip) in rig.clips.iter().enumerate() {
                let mut of_clip = vec![0f32; clip.frame_count()];
                if let Some(animation) = skeleton.animations.get(at) {
                    for (weight, secs) in of_clip.iter_mut().zip(&clip.times_secs) {
                        let all = animation.shape_weights(Some(secs * model.codes_per_sec))?;
                        *weight = all.get(shape.name()).copied().unwrap_or(0.0) as f32;
                    }
                }
                weights.push(of_clip);
            }
            shapes.push(BlendShape { name: shape.name().to_owned(), offsets, weights });
        }
    }
    let shaped = ShapedRig { rig, shapes };
    shaped.check().map_err(|e| stage.malformed(e.to_string()))?;
    Ok(Some(shaped))
}
