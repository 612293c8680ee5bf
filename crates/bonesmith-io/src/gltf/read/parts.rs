//! The meshes of a scene and the nodes above them, kept beside the merged mesh.

use std::collections::HashMap;

use bonesmith_core::{Part, PartNode, Parts};
use glam::DAffine3;

use super::document::Document;
use super::model::{Instance, names};
use super::scene::Scene;

/// The scene of a file in the making.
pub struct PartsBuilder<'a> {
    document: &'a Document,
    scene: &'a Scene,
    worlds: &'a [DAffine3],
    parts: Parts,
    /// Place of the file's nodes in `parts`.
    places: HashMap<usize, usize>,
    /// First part of the file's meshes.
    firsts: HashMap<usize, usize>,
    /// [nodes] whether a skin has it as a joint: the bones of the file, which are no part of the scene.
    is_joint: Vec<bool>,
    /// [nodes] the topmost bone above it, or itself.
    top_bones: Vec<Option<usize>>,
    /// Nodes above the joints of the skins in use; two of them are as good as many.
    armatures: Vec<Option<usize>>,
}

impl<'a> PartsBuilder<'a> {
    /// `worlds` are the places of all nodes at rest.
    pub fn new(document: &'a Document, scene: &'a Scene, worlds: &'a [DAffine3]) -> Self {
        let mut is_joint = vec![false; document.root.nodes.len()];
        for joint in document.root.skins.iter().flat_map(|skin| &skin.joints) {
            if let Some(is_joint) = is_joint.get_mut(joint.value()) {
                *is_joint = true;
            }
        }
        let mut top_bones: Vec<Option<usize>> = vec![None; is_joint.len()];
        for &n in &scene.order {
            let above = scene.parents[n].and_then(|parent| top_bones[parent]);
            top_bones[n] = above.or(is_joint[n].then_some(n));
        }
        let (places, firsts) = (HashMap::new(), HashMap::new());
        let (parts, armatures) = (Parts::default(), Vec::new());
        Self { document, scene, worlds, parts, places, firsts, is_joint, top_bones, armatures }
    }

    /// Adds a mesh.
    pub fn add(&mut self, instance: &Instance) {
        let Instance { node, index, mesh, joints, skinned } = instance;
        let at = self.parts.meshes.len();
        let first = *self.firsts.entry(*index).or_insert(at);
        let is_unnamed = self.document.root.nodes[*node].name.as_deref().unwrap_or_default().is_empty();
        let node = self.place(*node).unwrap_or_default();
        // Where neither has a name, both are called by the number of the mesh.
        let own = if is_unnamed { &self.parts.nodes[node].name } else { &mesh.name };
        self.parts.meshes.push(Part {
            node,
            mesh: own.clone(),
            vertices: mesh.positions.len(),
            faces: mesh.face_sizes.len(),
            uv_sets: (0..mesh.uvs.len()).map(|set| format!("TEXCOORD_{set}")).collect(),
            colors: mesh.colors.is_some(),
            still: false,
            instance_of: (first < at).then_some(first),
        });
        if *skinned {
            for (joint, _) in joints {
                let above = self.above_bones(*joint);
                if self.armatures.len() < 2 && !self.armatures.contains(&above) {
                    self.armatures.push(above);
                }
            }
        }
    }

    /// The node above all bones above a joint; one that only stretches the topmost of them is part of it.
    fn above_bones(&self, joint: usize) -> Option<usize> {
        let top = self.top_bones[joint]?;
        let name = |n: usize| self.document.root.nodes[n].name.as_deref().unwrap_or_default();
        let stretches = |n: usize| name(n).strip_suffix("_stretch").is_some_and(|bone| bone == name(top));
        self.scene.ancestry(top).skip(1).find(|&n| !stretches(n))
    }

    /// A node with all above it that are no bones.
    fn place(&mut self, node: usize) -> Option<usize> {
        let above = self.scene.ancestry(node).enumerate().filter(|&(up, n)| up == 0 || !self.is_joint[n]);
        let new: Vec<usize> = above.map(|(_, n)| n).take_while(|n| !self.places.contains_key(n)).collect();
        let known = self.scene.ancestry(node).find_map(|n| self.places.get(&n).copied());
        new.into_iter().rev().fold(known, |parent, n| {
            let own = &self.document.root.nodes[n];
            let unnamed = || own.mesh.and_then(|_| names(self.document, own).pop()).unwrap_or_default();
            let name = own.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(unnamed);
            self.parts.nodes.push(PartNode { name, parent, world_from_node: self.worlds[n] });
            self.places.insert(n, self.parts.nodes.len() - 1);
            Some(self.parts.nodes.len() - 1)
        })
    }

    /// All of it; nothing where the file has one mesh only.
    pub fn finish(mut self) -> Parts {
        if self.parts.meshes.len() < 2 {
            return Parts::default();
        }
        // The node that holds the bones, if it is one for all.
        if let [Some(node)] = self.armatures[..]
            && self.document.root.nodes[node].mesh.is_none()
        {
            self.parts.skeleton = self.place(node);
        }
        self.parts
    }
}
