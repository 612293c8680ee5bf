//! The meshes of a scene as they were: a prim each, below the prims they hung on; those that move are bound to one skeleton. An instance refers to the prim
//! of the first mesh of its kind, and has a place or joints of its own.

use bonesmith_core::{Part, Parts, Rig};
use glam::{DAffine3, DVec3};

use super::doc::{Prim, Property, Value};
use super::names::Names;
use super::skeleton::{BIND, hung, rows_of, shape_prim, with_shape_names};
use super::surface::{Materials, Normals, bind, mesh_prim, own_extras, set_extras};
use crate::BlendShape;
use crate::instances::{self, Twin};
use crate::parts::{PartMesh, Places, meshes_of, shapes_of, to_node};
use crate::usd::extras::{MeshExtras, PartExtras};

/// Names and paths of the prims of a scene.
pub struct Layout {
    names: Vec<String>,
    paths: Vec<String>,
    /// [nodes] mesh that it shows.
    mesh_of: Vec<Option<usize>>,
    /// The prim that holds the skeleton (a path).
    pub home: String,
}

/// Blend shapes and the names of their prims.
#[derive(Clone, Copy)]
pub struct Shapes<'a> {
    /// All of the rig.
    pub shapes: &'a [BlendShape],
    /// [shapes].
    pub names: &'a [String],
}

/// The joints of a skeleton.
#[derive(Clone, Copy)]
pub struct JointNames<'a> {
    /// [B] joint of each bone.
    pub of_bone: &'a [usize],
    /// [joints].
    pub paths: &'a [String],
}

/// What meshes hang on.
struct Hang<'a> {
    /// The skeleton (a path).
    skeleton: String,
    joints: JointNames<'a>,
    shapes: Shapes<'a>,
    /// [meshes] numbers of the shapes of each.
    of_meshes: Vec<Vec<usize>>,
    materials: &'a Materials,
}

/// The meshes of a rig's scene.
pub struct Meshes {
    meshes: Vec<PartMesh>,
    places: Places,
    /// [meshes] the earlier mesh of those that are the same but for their bones.
    twins: Vec<Option<Twin>>,
    /// [meshes] the earlier mesh to whose prim that of an instance refers.
    sources: Vec<Option<usize>>,
}

impl Meshes {
    /// Of a rig all of which was moved by the negative `origin`, and is below a prim at it.
    pub fn new(rig: &Rig, shapes: &[BlendShape], origin: Option<DVec3>) -> Self {
        let mut meshes = meshes_of(rig);
        let places = match origin {
            None => Places::new(rig, shapes, None, true),
            Some(origin) => {
                let mut moved = rig.clone();
                let surface = std::sync::Arc::make_mut(&mut moved.surface);
                let there = DAffine3::from_translation(-origin);
                surface.parts.nodes.iter_mut().for_each(|node| node.world_from_node = there * node.world_from_node);
                Places::new(&moved, shapes, None, true)
            }
        };
        let parts = &rig.surface.parts;
        let of_meshes = shapes_of(parts, shapes);
        // A reference has what is below its target too.
        let has_nodes = |at: usize| parts.nodes.iter().any(|node| node.parent == Some(parts.meshes[at].node));
        let twins = instances::twins(rig, &meshes, &places, origin, |at| of_meshes[at].is_empty());
        for (mesh, place) in meshes.iter_mut().zip(&places.still) {
            if let Some(place) = place {
                to_node(&mut mesh.rest, &mut mesh.surface, *place);
            }
        }
        let first = |of: usize| std::iter::successors(Some(of), |&of| places.instance_of[of]).last();
        let still = |at: usize| {
            places.instance_of[at].and_then(first).filter(|&of| instances::same_mesh(&meshes[of], &meshes[at]))
        };
        let source = |at: usize| still(at).or(twins[at].as_ref().map(|twin| twin.of)).filter(|&of| !has_nodes(of));
        let sources = (0..meshes.len()).map(source).collect();
        Self { meshes, places, twins, sources }
    }

    /// Names of the instances that are written as meshes of their own.
    pub fn apart(&self, parts: &Parts) -> Vec<String> {
        let apart =
            parts.meshes.iter().zip(&self.sources).filter(|(part, of)| part.instance_of.is_some() && of.is_none());
        apart.map(|(part, _)| parts.name(part).to_owned()).collect()
    }

    /// The prims of the scene; the skeleton and its animations are among them.
    #[allow(clippy::too_many_arguments, reason = "called once, and each is plain")]
    pub fn prims<'a>(
        &'a self,
        rig: &Rig,
        layout: &Layout,
        skeleton: Prim<'a>,
        animations: Vec<Prim<'a>>,
        joints: JointNames<'_>,
        shapes: Shapes<'_>,
        materials: &Materials,
    ) -> Vec<Prim<'a>> {
        let of_meshes = shapes_of(&rig.surface.parts, shapes.shapes);
        let skeleton_path = format!("{}/{}", layout.home, skeleton.name);
        let hang = Hang { skeleton: skeleton_path, joints, shapes, of_meshes, materials };
        let moving = std::iter::once(skeleton).chain(animations).collect();
        let parts = &rig.surface.parts;
        tree(parts, layout, &self.places.locals, moving, |at, name, path| match self.sources[at] {
            Some(of) => self.instance(rig, (at, of), name, layout.path(parts.meshes[of].node), &hang),
            None => self.mesh(rig, at, name, path, &hang),
        })
    }

    /// Bones of a mesh that is the source of others, which have others in their place.
    fn own_bones(&self, rig: &Rig, at: usize) -> Option<Vec<usize>> {
        let is_source = self.twins.iter().zip(&self.sources).any(|(twin, of)| twin.is_some() && *of == Some(at));
        let usage = is_source.then(|| self.meshes[at].weights.usage(rig.bone_count()))?;
        Some((0..usage.len()).filter(|&j| usage[j] > 0).collect())
    }

    /// A prim that refers to that of an earlier mesh (a path).
    fn instance<'a>(
        &'a self,
        rig: &Rig,
        (at, of): (usize, usize),
        name: &str,
        source: &str,
        hang: &Hang<'_>,
    ) -> Prim<'a> {
        let (part, own) = (&rig.surface.parts.meshes[at], &self.meshes[at]);
        let shown = rig.surface.parts.name(part);
        let whole = mesh_prim(name.to_owned(), shown, &own.surface, &own.rest, Normals::Shown);
        let whole = numbered(bind(whole, &own.surface, hang.materials, &mut Vec::new()), at, part);
        let mut prim = Prim::new("Mesh", name).meta("references", Value::Reference(source.to_owned()));
        // Also where it is the name of the prim: the source's would be in its place.
        prim = prim.meta("displayName", Value::Text(shown.to_owned()));
        prim.metadata.extend(whole.metadata.into_iter().filter(|(key, _)| *key == "customData"));
        match &self.twins[at] {
            Some(twin) => {
                let bones = self.own_bones(rig, of).unwrap_or_default();
                let joints = bones.iter().map(|&j| hang.joints.paths[hang.joints.of_bone[twin.bone(j)]].clone());
                prim.with(Property::uniform("token[]", "skel:joints", Value::Tokens(joints.collect())))
                    .with(Property::of("matrix4d", BIND, Value::Matrix(rows_of(twin.place))))
            }
            None => prim,
        }
    }

    fn mesh<'a>(&'a self, rig: &Rig, at: usize, name: &str, path: &str, hang: &Hang<'_>) -> Prim<'a> {
        let (part, own) = (&rig.surface.parts.meshes[at], &self.meshes[at]);
        let shown = rig.surface.parts.name(part);
        let mut mesh = mesh_prim(name.to_owned(), shown, &own.surface, &own.rest, Normals::Shown).with(Property::of(
            "point3f[]",
            "points",
            Value::Points(&own.rest),
        ));
        let (mut apis, mut shapes) = (Vec::new(), Vec::new());
        if self.places.still[at].is_none() {
            apis.push("SkelBindingAPI".to_owned());
            mesh = match self.own_bones(rig, at) {
                Some(bones) => {
                    let mut numbers = vec![0; rig.bone_count()];
                    bones.iter().enumerate().for_each(|(number, &j)| numbers[j] = number);
                    let joints = bones.iter().map(|&j| hang.joints.paths[hang.joints.of_bone[j]].clone()).collect();
                    hung(mesh, &own.weights, &numbers, hang.skeleton.clone()).with(Property::uniform(
                        "token[]",
                        "skel:joints",
                        Value::Tokens(joints),
                    ))
                }
                None => hung(mesh, &own.weights, hang.joints.of_bone, hang.skeleton.clone()),
            };
            let Shapes { shapes: all, names } = hang.shapes;
            let offsets = |&s: &usize| (&all[s].offsets[own.vertices.clone()], &names[s]);
            shapes = hang.of_meshes[at].iter().map(offsets).collect();
            let names: Vec<String> = shapes.iter().map(|(_, name)| (*name).clone()).collect();
            mesh = with_shape_names(mesh, path, &names);
        }
        mesh = bind(mesh, &own.surface, hang.materials, &mut apis);
        if !apis.is_empty() {
            mesh = mesh.meta("apiSchemas", Value::Prepend(apis));
        }
        mesh.children.extend(shapes.into_iter().map(|(offsets, name)| shape_prim(offsets, name)));
        numbered(mesh, at, part)
    }
}

/// A mesh with its number among those of the scene.
pub fn numbered<'a>(mesh: Prim<'a>, at: usize, part: &Part) -> Prim<'a> {
    let number = PartExtras { number: at, mesh: part.mesh.clone() };
    match own_extras(&mesh) {
        Some(extras) => set_extras(mesh, &MeshExtras { part: Some(number), ..extras }),
        None => mesh,
    }
}

impl Layout {
    /// The path of the prim of a node.
    pub fn path(&self, node: usize) -> &str {
        &self.paths[node]
    }
}

/// Names and paths of all prims below `root` (a path); `reserved` are those of the skeleton and its animations, which are beside each other.
pub fn layout<'n>(parts: &Parts, root: &str, mut top: Names, reserved: impl Iterator<Item = &'n String>) -> Layout {
    let mut below: Vec<Names> = parts.nodes.iter().map(|_| Names::default()).collect();
    if let Some(node) = parts.skeleton {
        reserved.for_each(|name| {
            below[node].unique(name, "skeleton");
        });
    }
    let mut mesh_of = vec![None; parts.nodes.len()];
    parts.meshes.iter().enumerate().for_each(|(at, part)| mesh_of[part.node] = Some(at));
    let (mut names, mut paths): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (n, node) in parts.nodes.iter().enumerate() {
        let shown = mesh_of[n].map_or(node.name.as_str(), |at| parts.name(&parts.meshes[at]));
        let name = node.parent.map_or(&mut top, |parent| &mut below[parent]).unique(shown, "node");
        let above = node.parent.map_or(root, |parent| paths[parent].as_str());
        paths.push(format!("{above}/{name}"));
        names.push(name);
    }
    let home = parts.skeleton.map_or_else(|| root.to_owned(), |node| paths[node].clone());
    Layout { names, paths, mesh_of, home }
}

/// The prims of a scene: `mesh` makes one of a number, a name and a path; `moving` are below the node of the skeleton, else on top.
pub fn tree<'a>(
    parts: &Parts,
    layout: &Layout,
    locals: &[DAffine3],
    mut moving: Vec<Prim<'a>>,
    mesh: impl Fn(usize, &str, &str) -> Prim<'a>,
) -> Vec<Prim<'a>> {
    let mut children: Vec<Vec<Prim<'a>>> = parts.nodes.iter().map(|_| Vec::new()).collect();
    let mut tops = Vec::new();
    for n in (0..parts.nodes.len()).rev() {
        let mut prim = match layout.mesh_of[n] {
            Some(at) => mesh(at, &layout.names[n], &layout.paths[n]),
            None => named(Prim::new("Xform", layout.names[n].clone()), &parts.nodes[n].name),
        };
        let refers = prim.metadata.iter().any(|(key, _)| *key == "references");
        prim = if refers { at_place(prim, locals[n]) } else { placed(prim, locals[n]) };
        if parts.skeleton == Some(n) {
            prim.children.append(&mut moving);
        }
        prim.children.extend(std::mem::take(&mut children[n]).into_iter().rev());
        parts.nodes[n].parent.map_or(&mut tops, |parent| &mut children[parent]).push(prim);
    }
    moving.into_iter().chain(tops.into_iter().rev()).collect()
}

/// With the source's own name, where the prim's is another.
fn named<'a>(prim: Prim<'a>, shown: &str) -> Prim<'a> {
    match shown.is_empty() || prim.name == shown {
        true => prim,
        false => prim.meta("displayName", Value::Text(shown.to_owned())),
    }
}

fn placed(prim: Prim<'_>, local: DAffine3) -> Prim<'_> {
    if local == DAffine3::IDENTITY { prim } else { at_place(prim, local) }
}

/// With a place that is stronger than that of a prim that it refers to.
fn at_place(prim: Prim<'_>, local: DAffine3) -> Prim<'_> {
    prim.with(Property::of("matrix4d", "xformOp:transform", Value::Matrix(rows_of(local)))).with(Property::uniform(
        "token[]",
        "xformOpOrder",
        Value::Tokens(vec!["xformOp:transform".into()]),
    ))
}
