//! Rigs with blend shapes that their animations weigh.

use bonesmith_core::{BlendShape, CorrectiveRig};
use glam::DVec3;

use super::model::Model;
use super::to_rig;
use crate::shapes::{gathered, joined};
use crate::{IoError, warning};

/// Whether a mesh has blend shapes.
pub fn has_shapes(model: &Model) -> bool {
    model.parts.iter().any(|part| !part.shapes().is_empty())
}

/// Reads a rig with shapes. In-betweens are left out: shapes are linear here.
pub fn load(mut model: Model, fps: Option<f64>) -> Result<CorrectiveRig, IoError> {
    let stage = model.stage;
    let rig = to_rig(&mut model, fps, true)?;
    let mut shapes = Vec::new();
    let mut first = 0;
    for part in &model.parts {
        let range = first..first + part.count;
        first = range.end;
        let Some(s) = part.skeleton() else { continue };
        let skeleton = &model.skeletons[s];
        let world_from_mesh = match &part.binding {
            Some((_, binding)) => skeleton.place.world(None)? * binding.skeleton_from_mesh,
            None => part.mesh.place.world(None)?,
        };
        for shape in part.shapes() {
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
    let corrective = CorrectiveRig { rig, shapes: gathered(joined(shapes)) };
    corrective.check().map_err(|e| stage.malformed(e.to_string()))?;
    Ok(corrective)
}
