//! Bones and vertices that stay as they are, by name and by mask.

use bonesmith_core::Rig;
use bonesmith_core::refit::{Locks, Solve};

use super::RefitOptions;
use crate::error::{Error, PickError};
use crate::mask::VertexMask;

/// Locked bones and vertices of a rig.
pub fn locks(rig: &Rig, options: &RefitOptions) -> Result<Locks, Error> {
    let mut bones = vec![false; rig.bone_count()];
    for wanted in &options.lock_bones {
        let pattern = glob::Pattern::new(wanted)
            .map_err(|error| PickError::Pattern { pattern: wanted.clone(), why: error.to_string() })?;
        let mut any = false;
        for (locked, bone) in bones.iter_mut().zip(&rig.bones) {
            if bone.name == *wanted || pattern.matches(&bone.name) {
                (*locked, any) = (true, true);
            }
        }
        if !any {
            let available = rig.bones.iter().map(|bone| bone.name.clone()).collect();
            return Err(PickError::Bone { name: wanted.clone(), available }.into());
        }
    }
    Ok(Locks { bones, vertices: mask(rig, options)? })
}

fn mask(rig: &Rig, options: &RefitOptions) -> Result<Vec<f32>, Error> {
    if options.lock_vertices != VertexMask::None && options.params.solve == Solve::Motion {
        return Err(PickError::MaskUnused.into());
    }
    let Some(mask) = options.lock_vertices.values("lock_vertices", &rig.surface, rig.vertex_count())? else {
        return Ok(Vec::new());
    };
    match mask.iter().position(|m| !(0.0..=1.0).contains(m)) {
        Some(vertex) => Err(PickError::MaskValue { vertex, value: mask[vertex] }.into()),
        None => Ok(mask),
    }
}
