//! A merged mesh as the meshes of its scene, for formats with nodes.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::transform::Trs;
use bonesmith_core::{BlendShape, Bone, Clip, MeshSequence, Part, Parts, Rig, SparseWeights, Surface};
use glam::{DAffine3, DMat3, DVec3, Vec3};

use crate::merge::{turned, turned_tangent};
use crate::pieces::{of_faces, of_vertices};

/// A bone that moves by less than this, relative to 1 and to the model's size, does not move.
const NO_MOTION: f64 = 1e-6;

/// Where the nodes of a scene are written.
pub(crate) struct Places {
    /// [nodes] parent_from_node. The nodes above a skin do not move it: they are in no place of their own.
    pub locals: Vec<DAffine3>,
    /// [meshes] world_from_mesh of those that do not move; `None`: bones move it.
    pub still: Vec<Option<DAffine3>>,
    /// [meshes] an earlier mesh that is written for this one too.
    pub instance_of: Vec<Option<usize>>,
}

/// One mesh of a rig.
pub(crate) struct PartMesh {
    pub rest: Vec<Vec3>,
    /// Without images.
    pub surface: Surface,
    pub weights: SparseWeights,
    pub vertices: Range<usize>,
}

impl Places {
    /// Of the scene of a rig and its shapes, all of which was moved by the negative `origin`.
    /// Nodes that would shear are in no place of their own unless `shear` is possible.
    pub fn new(rig: &Rig, shapes: &[BlendShape], origin: Option<DVec3>, shear: bool) -> Self {
        let parts = &rig.surface.parts;
        Self::of(parts, still_meshes(rig, shapes), DAffine3::from_translation(origin.unwrap_or(DVec3::ZERO)), shear)
    }

    /// Of meshes of which some rest; `base` is where the skeleton is.
    pub fn of(parts: &Parts, rests: Vec<bool>, base: DAffine3, shear: bool) -> Self {
        let mut above_skins = vec![false; parts.nodes.len()];
        let moving = parts.meshes.iter().zip(&rests).filter(|(_, rests)| !**rests).map(|(part, _)| part.node);
        for start in moving.chain(parts.skeleton) {
            let mut at = Some(start);
            while let Some(node) = at.filter(|&node| !std::mem::replace(&mut above_skins[node], true)) {
                at = parts.nodes[node].parent;
            }
        }
        let (mut worlds, mut locals) = (Vec::new(), Vec::new());
        for (n, node) in parts.nodes.iter().enumerate() {
            let above = node.parent.map_or(DAffine3::IDENTITY, |parent| worlds[parent]);
            let own = node.world_from_node;
            // What is turned inside out or flat is written where it is.
            let sound = own.matrix3.determinant() > 1e-12 && own.is_finite();
            let own = if sound && (shear || to_trs(above.inverse() * own).is_some()) { own } else { base };
            let local = match (above_skins[n], parts.skeleton == Some(n)) {
                (true, true) => base,
                (true, false) => DAffine3::IDENTITY,
                _ => above.inverse() * own,
            };
            worlds.push(above * local);
            locals.push(local);
        }
        let place = |(part, rests): (&Part, &bool)| rests.then(|| base.inverse() * worlds[part.node]);
        let still: Vec<Option<DAffine3>> = parts.meshes.iter().zip(&rests).map(place).collect();
        let instance = |(at, part): (usize, &Part)| {
            part.instance_of.filter(|&of| still[at].is_some() && still[of].is_some() && alike(parts, of, at))
        };
        let instance_of = parts.meshes.iter().enumerate().map(instance).collect();
        Self { locals, still, instance_of }
    }
}

/// [meshes] whether each rests in every clip: neither bones nor shapes move it.
fn still_meshes(rig: &Rig, shapes: &[BlendShape]) -> Vec<bool> {
    let (unmoved, shapes) = (unmoved_bones(rig), shapes_of(&rig.surface.parts, shapes));
    let rests = |mut vertices: Range<usize>| vertices.all(|i| rig.weights.of(i).all(|(j, _)| unmoved[j]));
    let meshes = rig.surface.parts.ranges().zip(&shapes);
    meshes.map(|((part, vertices, _), shapes)| (part.still || rests(vertices)) && shapes.is_empty()).collect()
}

/// [meshes] numbers of the shapes of each: those that move it. Shapes that move no vertex at all belong to the first mesh that has others.
pub(crate) fn shapes_of(parts: &Parts, shapes: &[BlendShape]) -> Vec<Vec<usize>> {
    let moves =
        |vertices: &Range<usize>, s: usize| shapes[s].offsets[vertices.clone()].iter().any(|d| *d != Vec3::ZERO);
    let own = |vertices: Range<usize>| (0..shapes.len()).filter(|&s| moves(&vertices, s)).collect();
    let mut of_meshes: Vec<Vec<usize>> = parts.ranges().map(|(_, vertices, _)| own(vertices)).collect();
    if let Some(first) = of_meshes.iter().position(|own| !own.is_empty()) {
        let idle = (0..shapes.len()).filter(|s| !of_meshes.iter().any(|own| own.contains(s)));
        let idle: Vec<usize> = idle.collect();
        of_meshes[first].extend(idle);
        of_meshes[first].sort_unstable();
    }
    of_meshes
}

/// The clips of an animation; all of it where it is one.
pub(crate) fn clips_of(sequence: &MeshSequence) -> Vec<Span> {
    let all = || Span {
        name: sequence.name().to_owned(),
        frames: 0..sequence.frame_count(),
        times_secs: sequence.times_secs().to_vec(),
    };
    if sequence.clips().is_empty() { vec![all()] } else { sequence.clips().to_vec() }
}

/// [meshes] whether each is in the same place in all frames.
pub(crate) fn still_in(sequence: &MeshSequence) -> Vec<bool> {
    let rests = |vertices: Range<usize>| {
        let at = |t: usize| sequence.part_of_frame(t, vertices.clone());
        let first = at(0);
        (1..sequence.frame_count()).all(|t| at(t) == first)
    };
    sequence.surface().parts.ranges().map(|(_, vertices, _)| rests(vertices)).collect()
}

/// A scene without the bones that meshes which do not move had for themselves: those are written without a skin.
pub(crate) fn without_still_bones<'a>(rig: &'a Rig, shapes: &[BlendShape]) -> Cow<'a, Rig> {
    let still = still_meshes(rig, shapes);
    let Some(mut reduced) = without_bones_of(rig, &still).filter(|reduced| !reduced.bones.is_empty()) else {
        return Cow::Borrowed(rig);
    };
    let parts = &mut Arc::make_mut(&mut reduced.surface).parts.meshes;
    parts.iter_mut().zip(&still).filter(|(_, still)| **still).for_each(|(part, _)| part.still = true);
    Cow::Owned(reduced)
}

/// A scene without the bones that these meshes alone have; the meshes then hang on the first bone there is. `None` where all bones stay.
pub(crate) fn without_bones_of(rig: &Rig, apart: &[bool]) -> Option<Rig> {
    let kept = bones_of_others(rig, apart);
    (kept.len() < rig.bone_count()).then(|| with_bones(rig, apart, &kept))
}

/// Bones that other meshes than these follow, that no mesh follows, or that have bones below them.
fn bones_of_others(rig: &Rig, apart: &[bool]) -> Vec<usize> {
    let (mut of_others, mut of_apart) = (vec![false; rig.bone_count()], vec![false; rig.bone_count()]);
    for ((_, vertices, _), &apart) in rig.surface.parts.ranges().zip(apart) {
        let users = if apart { &mut of_apart } else { &mut of_others };
        vertices.for_each(|i| rig.weights.of(i).for_each(|(j, _)| users[j] = true));
    }
    rig.bones.iter().filter_map(|bone| bone.parent).for_each(|parent| of_others[parent] = true);
    (0..rig.bone_count()).filter(|&j| of_others[j] || !of_apart[j]).collect()
}

/// A scene with some of its bones, which these meshes do not need.
pub(crate) fn with_bones(rig: &Rig, apart: &[bool], kept: &[usize]) -> Rig {
    let mut place = vec![0; rig.bone_count()];
    kept.iter().enumerate().for_each(|(at, &j)| place[j] = at);
    let all: Vec<u32> = (0..rig.vertex_count() as u32).collect();
    let mut weights = of_vertices(&rig.weights, &all, |j| place[j]);
    let of_apart = rig.surface.parts.ranges().zip(apart).filter(|(_, apart)| **apart);
    of_apart.flat_map(|((_, vertices, _), _)| vertices).for_each(|i| weights.set(i, &[(0, 1.0)]));
    let bone = |&j: &usize| Bone { parent: rig.bones[j].parent.map(|p| place[p]), ..rig.bones[j].clone() };
    let clip = |clip: &Clip| Clip {
        name: clip.name.clone(),
        times_secs: clip.times_secs.clone(),
        posed_from_rest: (0..clip.frame_count()).flat_map(|t| kept.iter().map(move |&j| clip.frame(t)[j])).collect(),
    };
    Rig {
        name: rig.name.clone(),
        rest: rig.rest.clone(),
        surface: rig.surface.clone(),
        weights,
        bones: kept.iter().map(bone).collect(),
        kind: rig.kind,
        clips: rig.clips.iter().map(clip).collect(),
        params_json: rig.params_json.clone(),
    }
}

/// Whether two meshes have the same numbers of vertices and faces.
fn alike(parts: &Parts, a: usize, b: usize) -> bool {
    let (a, b) = (&parts.meshes[a], &parts.meshes[b]);
    (a.vertices, a.faces) == (b.vertices, b.faces)
}

/// [B] bones that do not move in any frame.
fn unmoved_bones(rig: &Rig) -> Vec<bool> {
    let size = rig.rest.iter().map(|p| p.abs().max_element()).fold(0.0f32, f32::max);
    let limit = NO_MOTION * f64::from(size);
    let rests =
        |m: &DAffine3| m.matrix3.abs_diff_eq(DMat3::IDENTITY, NO_MOTION) && m.translation.abs().max_element() <= limit;
    let frames = || rig.clips.iter().flat_map(|clip| clip.posed_from_rest.iter().enumerate());
    let mut unmoved = vec![true; rig.bone_count()];
    frames().filter(|(_, m)| !rests(m)).for_each(|(at, _)| unmoved[at % rig.bone_count()] = false);
    unmoved
}

/// The meshes of a rig's scene, in order.
pub(crate) fn meshes_of(rig: &Rig) -> Vec<PartMesh> {
    let all: Vec<u32> = (0..rig.vertex_count().max(rig.surface.topology.face_count()) as u32).collect();
    let mesh = |(part, vertices, faces): (&Part, Range<usize>, Range<usize>)| PartMesh {
        rest: rig.rest[vertices.clone()].to_vec(),
        surface: part_surface(&rig.surface, part, vertices.start as u32, &all[faces]),
        weights: of_vertices(&rig.weights, &all[vertices.clone()], |j| j),
        vertices,
    };
    rig.surface.parts.ranges().map(mesh).collect()
}

/// The faces of one mesh, with what is its own on them.
pub(crate) fn part_surface(all: &Surface, part: &Part, first: u32, faces: &[u32]) -> Surface {
    let mut surface = of_faces(all, faces, |i| i - first);
    surface.uv_sets.truncate(part.uv_sets.len());
    surface.uv_sets.iter_mut().zip(&part.uv_sets).for_each(|(uv, name)| uv.name.clone_from(name));
    surface.colors = surface.colors.filter(|_| part.colors);
    surface
}

/// Positions, normals and tangents in the space of a node: `world_from_mesh` is its place.
pub(crate) fn to_node(rest: &mut [Vec3], surface: &mut Surface, world_from_mesh: DAffine3) {
    if world_from_mesh == DAffine3::IDENTITY {
        return;
    }
    let back = world_from_mesh.inverse();
    rest.iter_mut().for_each(|p| *p = back.transform_point3(p.as_dvec3()).as_vec3());
    each(&mut surface.normals, |n| turned(n, back.matrix3));
    each(&mut surface.tangents, |t| turned_tangent(t, back.matrix3));
}

fn each<const D: usize>(attribute: &mut Option<CornerAttribute<D>>, change: impl Fn([f32; D]) -> [f32; D]) {
    attribute.iter_mut().flat_map(|attribute| &mut attribute.values).for_each(|value| *value = change(*value));
}

/// Translation, rotation and scale of a node; `None` where it shears.
pub(crate) fn to_trs(local: DAffine3) -> Option<Trs> {
    Trs::from_affine(local, 1e-5)
}
