//! The meshes of a scene and the nodes above them, kept beside the merged mesh.

use std::collections::HashMap;

use bonesmith_core::{Part, PartNode, Parts};

use super::document::{Document, affine, number};
use super::extras_of;
use super::model::Instance;

/// The scene of a file: `meshes` are its instances, in order.
pub fn scene(document: &Document, instances: &[Instance], meshes: Vec<Part>) -> Parts {
    let nodes = &document.scene().nodes;
    let parent = |n: usize| nodes[n].parent.as_ref().map(|parent| number(parent)).filter(|&n| !nodes[n].is_root);
    let mut parts = Parts { meshes, ..Parts::default() };
    let mut places: HashMap<usize, usize> = HashMap::new();
    let mut place = |parts: &mut Parts, node: usize| {
        let chain = std::iter::successors(Some(node), |&n| parent(n)).enumerate();
        let own = chain.filter(|&(up, n)| up == 0 || nodes[n].bone.is_none()).map(|(_, n)| n);
        let new: Vec<usize> = own.clone().take_while(|n| !places.contains_key(n)).collect();
        let known = own.clone().find_map(|n| places.get(&n).copied());
        new.into_iter().rev().fold(known, |parent, n| {
            let world_from_node = affine(&nodes[n].node_to_world);
            parts.nodes.push(PartNode { name: nodes[n].element.name.to_string(), parent, world_from_node });
            places.insert(n, parts.nodes.len() - 1);
            Some(parts.nodes.len() - 1)
        })
    };
    let mut firsts: HashMap<(u32, Vec<u32>), usize> = HashMap::new();
    let mut armatures: Vec<Option<usize>> = Vec::new();
    for (at, instance) in instances.iter().enumerate().take(parts.meshes.len()) {
        let node = place(&mut parts, instance.node).unwrap_or_default();
        let own = &mut parts.meshes[at];
        own.node = node;
        let Some(mesh) = nodes[instance.node].mesh.as_ref() else { continue };
        own.mesh = mesh.element.name.to_string();
        // Nodes may show one mesh with other materials.
        let materials = nodes[instance.node].materials.iter().map(|material| material.element.typed_id).collect();
        let key: (u32, Vec<u32>) = (mesh.element.typed_id, materials);
        let shown = *firsts.entry(key).or_insert(at);
        // Where skins keep instances from sharing a geometry, files of our own say which they are.
        let numbered = |at: usize| extras_of(&nodes[instances[at].node]).part == Some(at);
        let stated = extras_of(&nodes[instance.node]).instance_of.filter(|&of| of < at && numbered(of) && numbered(at));
        own.instance_of = Some(shown).filter(|&first| first < at).or(stated);
        let bones = mesh.skin_deformers.iter().flat_map(|skin| &skin.clusters).filter_map(|c| c.bone_node.as_ref());
        for bone in bones {
            let mut above = std::iter::successors(Some(number(bone)), |&n| parent(n));
            let above = above.find(|&n| nodes[n].bone.is_none());
            if armatures.len() < 2 && !armatures.contains(&above) {
                armatures.push(above);
            }
        }
    }
    if let [Some(node)] = armatures[..]
        && nodes[node].mesh.is_none()
    {
        parts.skeleton = place(&mut parts, node);
    }
    parts
}
