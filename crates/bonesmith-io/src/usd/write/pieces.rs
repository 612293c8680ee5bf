//! Rigid pieces as prims: a mesh for each bone with a transform of its own, sampled over time. What is soft is a skinned mesh beside
//! them, with a skeleton of its own.

use std::borrow::Cow;
use std::path::Path;

use bonesmith_core::Rig;
use bonesmith_core::transform::Trs;

use super::doc::{Prim, Property, Value};
use super::names::Names;
use super::surface::{Normals, bind, materials, mesh_prim, pictures};
use super::{Clock, at_origin, layer, skeleton, write};
use crate::joints::{self, Joints, NodeMotion};
use crate::origin::{far_origin, moved};
use crate::pieces::{Part, Parts};
use crate::{IoError, texture, warning};

/// Writes the rigid pieces of a rig as meshes that move as they are, and the rest as a skin. A stage plays one animation: the first
/// clip.
pub fn save_pieces(rig: &Rig, path: &Path) -> Result<(), IoError> {
    let unsupported = |what: String| IoError::unsupported(path, what);
    rig.check().map_err(|e| unsupported(e.to_string()))?;
    if rig.clips.len() > 1 {
        warning::left_out(path, "all clips but the first: the nodes of a USD file have one animation");
    }
    let origin = far_origin(&rig.rest);
    let rig = &*origin.map_or(Cow::Borrowed(rig), |origin| Cow::Owned(moved(rig, -origin)));
    let clock = Clock::new(rig.clips.iter().take(1).map(|clip| clip.times_secs.as_slice()));
    texture::warn_of_unwritable(&rig.surface, path);
    let pictures = pictures(&rig.surface, path);
    let mut parts = Parts::new(rig, path)?;
    parts.flatten();
    let plan = joints::plan(&parts.rigid);
    if let Some(bone) = plan.beyond_float32() {
        return Err(unsupported(joints::too_far(&parts.rigid, bone)));
    }
    let mut names = Names::default();
    let root_name = names.unique(&rig.name, "rig");
    let root_path = format!("/{root_name}");
    let (materials, scope) = materials(&root_path, &rig.surface, &pictures);
    let mut siblings = Names::default();
    siblings.unique("materials", "materials");
    let contents: Vec<Option<Part>> = (0..parts.rigid.bone_count()).map(|j| parts.part(j, &plan)).collect();
    let mut root = Prim::new("Xform", root_name.clone());
    let codes: Vec<f64> =
        rig.clips.first().map_or(&[][..], |clip| &clip.times_secs).iter().map(|t| clock.code(*t)).collect();
    for (j, part) in contents.iter().enumerate() {
        let Some(part) = part else { continue };
        let name = siblings.unique(&parts.rigid.bones[j].name, "piece");
        let mut apis = Vec::new();
        let mut mesh = mesh_prim(name.clone(), &parts.rigid.bones[j].name, &part.surface, &part.rest, Normals::Shown)
            .with(Property::of("point3f[]", "points", Value::Points(&part.rest)));
        mesh = bind(mesh, &part.surface, &materials, &mut apis);
        if !apis.is_empty() {
            mesh = mesh.meta("apiSchemas", Value::Prepend(apis));
        }
        // One prim with every key, so that a clip in which nothing moves keeps its length.
        let all_keys = root.children.is_empty();
        let Joints { nodes, .. } = &plan;
        root.children.push(match &nodes[j].outer {
            None => placed(mesh, &nodes[j].joint, &codes, all_keys),
            Some(outer) => {
                let stretch = siblings.unique(&format!("{name}_stretch"), "stretch");
                let mut above = placed(Prim::new("Xform", stretch), outer, &codes, all_keys);
                above.children.push(placed(mesh, &nodes[j].joint, &codes, false));
                above
            }
        });
    }
    if let Some(soft) = &parts.soft {
        let name = siblings.unique(&format!("{root_name}_soft"), "soft");
        let soft = skeleton::root_prim(soft, None, &[], &clock, &root_path, name, &materials).map_err(unsupported)?;
        root.children.push(soft);
    }
    root.children.extend(scope);
    let root = at_origin(root, origin);
    let times = rig.clips.first().map(|clip| clip.times_secs.as_slice()).unwrap_or_default();
    write(&layer(root, &rig.surface.space, &clock, times.iter()), &pictures, path)
}

/// A prim with the operations of a node; what never leaves its rest has no keys.
fn placed<'a>(prim: Prim<'a>, motion: &NodeMotion, codes: &[f64], all_keys: bool) -> Prim<'a> {
    let frames = motion.clips.first().map_or(&[][..], |clip| clip);
    let double3 = |trs: &Trs| Value::Double3(trs.translation.to_array());
    let quat = |trs: &Trs| {
        let q = trs.rotation.as_quat();
        Value::Quat([q.w, q.x, q.y, q.z])
    };
    let float3 = |trs: &Trs| Value::Float3(trs.scale.as_vec3().to_array());
    type Get<'a, 'g> = &'g dyn Fn(&Trs) -> Value<'a>;
    type Same<'g> = &'g dyn Fn(&Trs, &Trs) -> bool;
    let operations: [(&str, &'static str, Get<'a, '_>, Same<'_>); 3] = [
        ("translate", "double3", &double3, &|a, b| a.translation == b.translation),
        ("orient", "quatf", &quat, &|a, b| a.rotation == b.rotation),
        ("scale", "float3", &float3, &|a, b| a.scale == b.scale),
    ];
    let (mut prim, mut order) = (prim, Vec::new());
    for (name, type_name, get, same) in operations {
        let all_keys = all_keys && name == "translate";
        let moves = all_keys || frames.iter().any(|trs| !same(trs, &motion.rest));
        if !moves && same(&motion.rest, &Trs::IDENTITY) {
            continue;
        }
        let mut property = Property::of(type_name, format!("xformOp:{name}"), get(&motion.rest));
        if moves {
            property.samples = codes.iter().zip(frames).map(|(code, trs)| (*code, get(trs))).collect();
        }
        order.push(format!("xformOp:{name}"));
        prim = prim.with(property);
    }
    prim.with(Property::uniform("token[]", "xformOpOrder", Value::Tokens(order)))
}
