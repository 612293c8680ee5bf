//! The meshes of a scene and the prims above them, kept beside the merged mesh.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bonesmith_core::{Part, PartNode, Parts};

use crate::IoError;
use crate::usd::extras::{self, MeshExtras};
use crate::usd::stage::Stage;

use super::xform::Place;

/// One mesh as it was read: its prim, and what it has.
pub struct Found {
    pub prim: usize,
    pub part: Part,
}

/// The scene of a stage. `skeletons` are the prims of those that meshes hang on.
pub fn scene(stage: &Stage, found: Vec<Found>, skeletons: &[usize]) -> Result<Parts, IoError> {
    let mut parts = Parts::default();
    if found.len() < 2 {
        return Ok(parts);
    }
    let own: Vec<Option<MeshExtras>> = found.iter().map(|one| extras::unpack(stage, one.prim)).collect();
    let is_own = own.iter().all(|own| own.as_ref().is_some_and(|own| own.part.is_some()));
    // A prim without a parent is the stage itself; files of our own have one prim below it that holds everything.
    let is_node = |prim: usize| {
        let above = stage.prims[prim].parent;
        above.is_some() && !(is_own && above.is_some_and(|above| stage.prims[above].parent.is_none()))
    };
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut place = |parts: &mut Parts, prim: usize| -> Result<Option<usize>, IoError> {
        let chain: Vec<usize> = stage.ancestry(prim).take_while(|&p| is_node(p)).collect();
        let mut parent = None;
        for p in chain.into_iter().rev() {
            parent = Some(match places.entry(p) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    let world_from_node = Place::new(stage, p)?.world(None)?;
                    parts.nodes.push(PartNode { name: stage.display_name(p), parent, world_from_node });
                    *new.insert(parts.nodes.len() - 1)
                }
            });
        }
        Ok(parent)
    };
    for (Found { prim, mut part }, own) in found.into_iter().zip(own) {
        // Blender and others have the mesh below its object.
        let object = stage.prims[prim].parent.filter(|&p| is_node(p) && stage.prims[p].children.len() == 1);
        let object = object.filter(|&p| !is_own && stage.prims[p].type_name == "Xform");
        part.mesh = stage.display_name(prim);
        if let Some(own) = own.and_then(|own| own.part) {
            part.mesh = own.mesh;
        }
        part.node = place(&mut parts, object.unwrap_or(prim))?.unwrap_or_default();
        parts.meshes.push(part);
    }
    if let [skeleton] = skeletons
        && let Some(above) = stage.prims[*skeleton].parent.filter(|&p| is_node(p))
        && stage.prims[above].type_name != "Mesh"
    {
        parts.skeleton = place(&mut parts, above)?;
    }
    Ok(parts)
}
