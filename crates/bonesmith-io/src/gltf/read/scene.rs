//! The tree of nodes and where it puts things.

use bonesmith_core::transform::Trs;
use glam::{DAffine3, DMat4, DQuat, DVec3};
use gltf_json::Node;

use super::document::Document;
use crate::IoError;

/// A node's own transform.
#[derive(Clone, Copy, Debug)]
pub enum Local {
    /// Translation, rotation, scale: can be animated.
    Trs(Trs),
    /// A matrix.
    Matrix(DAffine3),
}

/// All nodes of a file.
pub struct Scene {
    /// [nodes].
    pub parents: Vec<Option<usize>>,
    /// Nodes with every parent before its children.
    pub order: Vec<usize>,
    /// [nodes] transforms without animation.
    pub rest: Vec<Local>,
    /// [nodes] part of the scene that is shown.
    pub shown: Vec<bool>,
}

impl Local {
    fn new(node: &Node) -> Self {
        if let Some(m) = node.matrix {
            let m = DMat4::from_cols_array(&m.map(f64::from));
            return Self::Matrix(DAffine3::from_mat4(m));
        }
        let vector = |v: Option<[f32; 3]>, default| v.map_or(default, |v| DVec3::from_array(v.map(f64::from)));
        let rotation = node.rotation.map_or(DQuat::IDENTITY, |q| DQuat::from_array(q.0.map(f64::from)));
        Self::Trs(Trs {
            translation: vector(node.translation, DVec3::ZERO),
            rotation: unit(rotation),
            scale: vector(node.scale, DVec3::ONE),
        })
    }

    /// As a matrix.
    pub fn to_affine(self) -> DAffine3 {
        match self {
            Self::Trs(trs) => trs.to_affine(),
            Self::Matrix(m) => m,
        }
    }

    /// Parts to animate; shear of a matrix is lost, as animating such a node is not allowed anyway.
    pub fn to_trs(self) -> Trs {
        match self {
            Self::Trs(trs) => trs,
            Self::Matrix(m) => Trs::from_affine(m, 1.0).unwrap_or(Trs::IDENTITY),
        }
    }
}

/// Of length 1; the identity where there is no direction.
pub fn unit(q: DQuat) -> DQuat {
    if q.length_squared() > 1e-24 { q.normalize() } else { DQuat::IDENTITY }
}

/// A node, with its name and the first mesh that it or a node below it shows, for messages. Nodes may form cycles.
fn described(document: &Document, node: usize) -> String {
    let nodes = &document.root.nodes;
    let name = nodes[node].name.as_deref().unwrap_or_default();
    let (mut todo, mut seen) = (vec![node], vec![false; nodes.len()]);
    while let Some(n) = todo.pop() {
        let Some(own) = nodes.get(n).filter(|_| !std::mem::replace(&mut seen[n], true)) else { continue };
        if let Some(mesh) = own.mesh {
            let named = document.root.meshes.get(mesh.value()).and_then(|mesh| mesh.name.as_deref());
            let mesh = named.map_or_else(|| mesh.to_string(), |name| format!("{name:?}"));
            return format!("node {node} ({name:?}, {} mesh {mesh})", if n == node { "with" } else { "above" });
        }
        todo.extend(
            own.children.iter().flatten().map(|child| child.value()).filter(|&child| child < nodes.len()).rev(),
        );
    }
    format!("node {node} ({name:?})")
}

impl Scene {
    /// Checks that nodes form trees.
    pub fn new(document: &Document) -> Result<Self, IoError> {
        let nodes = &document.root.nodes;
        let mut parents: Vec<Option<usize>> = vec![None; nodes.len()];
        for (n, node) in nodes.iter().enumerate() {
            for child in node.children.iter().flatten() {
                let slot = parents.get_mut(child.value());
                let slot = slot
                    .ok_or_else(|| document.malformed(format!("node {n} has a child {child}, which does not exist")))?;
                if let Some(other) = slot.replace(n) {
                    let what = described(document, child.value());
                    return Err(document.malformed(format!("{what} is a child of both node {other} and node {n}")));
                }
            }
        }
        let children = |n: usize| nodes[n].children.iter().flatten().map(|c| c.value());
        let mut order: Vec<usize> = (0..nodes.len()).filter(|&n| parents[n].is_none()).collect();
        let mut at = 0;
        while at < order.len() {
            order.extend(children(order[at]));
            at += 1;
        }
        if order.len() != nodes.len() {
            // What no root leads to is on a cycle or below one: so many steps up end on it.
            let mut reached = vec![false; nodes.len()];
            order.iter().for_each(|&n| reached[n] = true);
            let start = reached.iter().position(|reached| !reached).unwrap_or(0);
            let on_cycle = (0..nodes.len()).fold(start, |n, _| parents[n].unwrap_or(n));
            let what = described(document, on_cycle);
            return Err(document.malformed(format!("its nodes form a cycle: {what} is above itself")));
        }
        let rest = nodes.iter().map(Local::new).collect();
        let mut scene = Self { parents, order, rest, shown: vec![false; nodes.len()] };
        scene.mark_shown(document);
        Ok(scene)
    }

    /// The default scene, else the first, else everything.
    fn mark_shown(&mut self, document: &Document) {
        let root = &document.root;
        let scene = root.scene.and_then(|scene| root.scenes.get(scene.value())).or(root.scenes.first());
        let Some(scene) = scene else {
            self.shown.fill(true);
            return;
        };
        for node in &scene.nodes {
            if let Some(shown) = self.shown.get_mut(node.value()) {
                *shown = true;
            }
        }
        for &n in &self.order {
            self.shown[n] |= self.parents[n].is_some_and(|p| self.shown[p]);
        }
    }

    /// [nodes] world_from_node for the given transforms.
    pub fn worlds(&self, locals: &[Local]) -> Vec<DAffine3> {
        let mut worlds = vec![DAffine3::IDENTITY; locals.len()];
        for &n in &self.order {
            let local = locals[n].to_affine();
            worlds[n] = self.parents[n].map_or(local, |p| worlds[p] * local);
        }
        worlds
    }

    /// A node and all above it.
    pub fn ancestry(&self, node: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(node), |&n| self.parents[n])
    }
}
