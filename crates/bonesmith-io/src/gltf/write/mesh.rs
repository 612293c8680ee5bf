//! The mesh: one primitive per material, vertices split at seams.

use std::collections::BTreeMap;
use std::ops::Range;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{MeshSequence, Space, SparseWeights, Surface, Topology};
use glam::{DVec3, Vec3};
use gltf_json::mesh::{Mesh, Mode, MorphTarget, Primitive, Semantic};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index};

use super::buffer::{Builder, Purpose};
use super::compact;
use super::material::{name, write_materials};
use super::split::{Part, SplitVertex, faces_by_material, split};
use crate::gltf::extras::{
    self, MORE_VIRTUAL_JOINTS, MORE_VIRTUAL_WEIGHTS, MeshExtras, PrimitiveExtras, VERTEX_ATTRIBUTE, VIRTUAL_JOINTS,
    VIRTUAL_WEIGHTS, to_runs,
};

/// What a mesh is made from.
pub struct MeshSource<'a> {
    /// Name of the mesh.
    pub name: &'a str,
    /// [N] positions.
    pub rest: &'a [Vec3],
    /// Faces, corner attributes, materials.
    pub surface: &'a Surface,
    /// [N, K] skinning weights, K at most 8.
    pub weights: Option<(&'a SparseWeights, usize)>,
    /// [N, k] weights on virtual bones, k at most 8.
    pub virtual_weights: Option<&'a SparseWeights>,
    /// Morph targets and their names.
    pub targets: Vec<(Target<'a>, String)>,
    /// Its first vertex among those of the rig.
    pub first: usize,
}

/// A morph target.
pub enum Target<'a> {
    /// Frame of an animation, and its vertices: [N] where vertices are at weight 1, read when they are written.
    Frame(&'a MeshSequence, usize, Range<usize>),
    /// [N] how far vertices are from the rest pose at weight 1.
    Offsets(&'a [Vec3]),
}

/// Writes the mesh, and materials where none are written yet.
pub fn write_mesh(builder: &mut Builder, source: &MeshSource) -> Index<Mesh> {
    let surface = source.surface;
    if builder.root.materials.is_empty() {
        write_materials(builder, surface);
    }
    let parts = split(surface, source.rest.len(), builder.reordered);
    let computed_normals = surface.normals.is_none() && surface.topology.face_count() > 0;
    let smooth = if computed_normals { smooth_normals(source.rest, &surface.topology) } else { Vec::new() };
    let identity = parts.len() == 1 && parts[0].vertices.iter().enumerate().all(|(at, v)| at == v.vertex as usize);
    let numbered = if builder.reordered { builder.needs_numbers(source, &parts) } else { !identity };
    let primitives = parts.iter().map(|part| write_part(builder, source, part, &smooth, numbered)).collect();
    let names: Vec<String> = source.targets.iter().map(|(_, name)| name.clone()).collect();
    let mesh_extras = MeshExtras {
        vertices: source.rest.len() as u32,
        computed_normals,
        face_primitives: if builder.reordered { Vec::new() } else { face_primitives(surface) },
        space: (surface.space != Space::GLTF).then_some(surface.space),
    };
    builder.root.push(Mesh {
        extensions: None,
        extras: extras::pack_with_targets(mesh_extras, (!names.is_empty()).then_some(names)),
        name: name(source.name),
        primitives,
        weights: (!source.targets.is_empty()).then(|| vec![0.0; source.targets.len()]),
    })
}

/// Primitive of each face in face order; empty when that is simply one primitive after the other.
fn face_primitives(surface: &Surface) -> extras::Runs {
    let groups = faces_by_material(surface);
    let mut of_face = vec![0u32; surface.topology.face_count()];
    for (p, (_, faces)) in groups.iter().enumerate() {
        faces.iter().for_each(|&f| of_face[f] = p as u32);
    }
    if of_face.is_sorted() { Vec::new() } else { to_runs(of_face) }
}

fn write_part(
    builder: &mut Builder,
    source: &MeshSource,
    part: &Part,
    smooth: &[[f32; 3]],
    numbered: bool,
) -> Primitive {
    let surface = source.surface;
    let vertices = &part.vertices;
    let mut attributes = BTreeMap::new();
    let mut insert = |semantic, accessor| attributes.insert(Checked::Valid(semantic), accessor);
    let positions: Vec<[f32; 3]> = vertices.iter().map(|v| source.rest[v.vertex as usize].to_array()).collect();
    insert(Semantic::Positions, builder.positions(&positions));
    if let Some(normals) = &surface.normals {
        let normals: Vec<[f32; 3]> = gather(normals, vertices).into_iter().map(unit).collect();
        insert(Semantic::Normals, builder.normals(&normals));
    } else if !smooth.is_empty() {
        let normals: Vec<[f32; 3]> = vertices.iter().map(|v| smooth[v.vertex as usize]).collect();
        insert(Semantic::Normals, builder.normals(&normals));
    }
    if let Some(tangents) = surface.tangents.as_ref().filter(|_| !part.indices.is_empty()) {
        let tangents: Vec<[f32; 4]> = gather(tangents, vertices).into_iter().map(unit_tangent).collect();
        insert(Semantic::Tangents, builder.tangents(&tangents));
    }
    for (set, uv) in surface.uv_sets.iter().enumerate().filter(|_| !part.indices.is_empty()) {
        // glTF has no place for what is no number.
        let sound = |x: f32| if x.is_finite() { x } else { 0.0 };
        let uv: Vec<[f32; 2]> = gather(uv, vertices).into_iter().map(|[u, v]| [sound(u), 1.0 - sound(v)]).collect();
        insert(Semantic::TexCoords(set as u32), builder.uvs(&uv));
    }
    if let Some(colors) = surface.colors.as_ref().filter(|_| !part.indices.is_empty()) {
        insert(Semantic::Colors(0), builder.colors(&gather(colors, vertices)));
    }
    if let Some((weights, bones)) = source.weights {
        let sets = write_influences(builder, weights, bones, vertices, source.first);
        for (set, (joints, weights)) in sets.into_iter().enumerate() {
            insert(Semantic::Joints(set as u32), joints);
            insert(Semantic::Weights(set as u32), weights);
        }
    }
    if let Some(weights) = source.virtual_weights {
        for (set, names) in [[VIRTUAL_JOINTS, VIRTUAL_WEIGHTS], [MORE_VIRTUAL_JOINTS, MORE_VIRTUAL_WEIGHTS]]
            .into_iter()
            .enumerate()
            .take(weights.max_influences().div_ceil(4).max(1))
        {
            let (joints, values) = write_virtual(builder, weights, vertices, set);
            insert(Semantic::Extras(names[0].into()), joints);
            insert(Semantic::Extras(names[1].into()), values);
        }
    }
    if numbered {
        let halves: Vec<[u16; 2]> = vertices.iter().map(|v| [v.vertex as u16, (v.vertex >> 16) as u16]).collect();
        insert(Semantic::Extras(VERTEX_ATTRIBUTE.into()), builder.shorts(&halves));
    }
    let points = part.indices.is_empty();
    let all_triangles = part.polygons.iter().all(|(corners, _)| *corners == 3);
    Primitive {
        attributes,
        extensions: None,
        extras: if all_triangles { None } else { extras::pack(PrimitiveExtras { polygons: part.polygons.clone() }) },
        indices: (!points).then(|| builder.indices(&part.indices, vertices.len())),
        // Without materials the placeholder is the only one there is.
        material: (!points).then(|| Index::new(part.material.unwrap_or(0))),
        mode: Checked::Valid(if points { Mode::Points } else { Mode::Triangles }),
        targets: write_targets(builder, source, vertices),
    }
}

/// Values of a corner attribute at split vertices; zero where no face uses the vertex.
fn gather<const D: usize>(attribute: &CornerAttribute<D>, vertices: &[SplitVertex]) -> Vec<[f32; D]> {
    let value = |corner: u32| attribute.values[attribute.indices[corner as usize] as usize];
    vertices.iter().map(|v| v.corner.map_or([0.0; D], value)).collect()
}

/// Accessors of JOINTS_n and WEIGHTS_n for each group of four influences.
fn write_influences(
    builder: &mut Builder,
    weights: &SparseWeights,
    bones: usize,
    vertices: &[SplitVertex],
    first: usize,
) -> Vec<(Index<Accessor>, Index<Accessor>)> {
    if builder.compact.is_some() {
        return compact::write_influences(builder, weights, bones, vertices, first);
    }
    let sets = weights.max_influences().div_ceil(4).max(1);
    let bits = whole_bits(weights);
    let rows: Vec<([u16; 8], [f32; 8])> = vertices.iter().map(|v| influences(weights, v.vertex as usize)).collect();
    (0..sets)
        .map(|set| {
            let slots = [4 * set, 4 * set + 1, 4 * set + 2, 4 * set + 3];
            let joints: Vec<[u16; 4]> = rows.iter().map(|(joints, _)| slots.map(|k| joints[k])).collect();
            let values: Vec<[f32; 4]> = rows.iter().map(|(_, values)| slots.map(|k| values[k])).collect();
            let joints = if bones <= 1 << 8 {
                builder.bytes4(&joints.iter().map(|row| row.map(|j| j as u8)).collect::<Vec<_>>())
            } else {
                builder.shorts(&joints)
            };
            let values = match bits {
                Some(bits) => {
                    let levels = levels(bits);
                    let whole = |w: f32| (w * levels).round() as u32;
                    let one = levels as u32;
                    builder.weights(&values.iter().map(|row| (row.map(whole), one)).collect::<Vec<_>>(), one)
                }
                None => builder.floats(&values, Purpose::Vertex),
            };
            (joints, values)
        })
        .collect()
}

/// The largest number of `bits` bits.
fn levels(bits: u32) -> f32 {
    ((1u32 << bits) - 1) as f32
}

/// 8 or 16 where all weights are whole steps of so many bits with a sum of exactly one: then they are stored so, and read as the same floats. Engines that store
/// weights in so many bits take them as they are. Weights that are all 0 or 1 are floats.
fn whole_bits(weights: &SparseWeights) -> Option<u32> {
    let rows = || (0..weights.vertex_count()).map(|i| weights.of(i).map(|(_, w)| w));
    if rows().flatten().all(|w| w == 0.0 || w == 1.0) {
        return None;
    }
    let exact = |bits: &u32| {
        let levels = levels(*bits);
        rows().all(|mut row| {
            let mut sum = 0.0;
            row.all(|w| {
                let whole = (w * levels).round();
                sum += whole;
                whole / levels == w
            }) && sum == levels
        })
    };
    [8, 16].into_iter().find(exact)
}

/// Accessors of the virtual bones of each vertex and their weights, four to a set.
fn write_virtual(
    builder: &mut Builder,
    weights: &SparseWeights,
    vertices: &[SplitVertex],
    set: usize,
) -> (Index<Accessor>, Index<Accessor>) {
    let row = |v: &SplitVertex| {
        let (mut joints, mut values) = ([0u16; 4], [0.0f32; 4]);
        for (k, (m, w)) in weights.of(v.vertex as usize).skip(4 * set).take(4).enumerate() {
            (joints[k], values[k]) = (m as u16, w);
        }
        (joints, values)
    };
    let (joints, values): (Vec<_>, Vec<_>) = vertices.iter().map(row).unzip();
    (builder.shorts(&joints), builder.floats(&values, Purpose::Vertex))
}

/// Joints and weights of one vertex in eight slots, largest first, summing to 1 as closely as float32 can.
fn influences(weights: &SparseWeights, i: usize) -> ([u16; 8], [f32; 8]) {
    let (mut joints, mut values) = ([0u16; 8], [0.0f32; 8]);
    for (k, (j, w)) in weights.of(i).take(8).enumerate() {
        (joints[k], values[k]) = (j as u16, w);
    }
    // The validator allows 2e-7 per influence; rigs are allowed 1e-5.
    let sum: f64 = values.iter().map(|w| f64::from(*w)).sum();
    if (sum - 1.0).abs() > 1e-7 {
        for w in &mut values[1..] {
            *w = (f64::from(*w) / sum) as f32;
        }
        values[0] = (1.0 - values[1..].iter().map(|w| f64::from(*w)).sum::<f64>()) as f32;
    }
    (joints, values)
}

fn write_targets(builder: &mut Builder, source: &MeshSource, vertices: &[SplitVertex]) -> Option<Vec<MorphTarget>> {
    let mut targets = Vec::with_capacity(source.targets.len());
    for (target, _) in &source.targets {
        let of_each = |delta: &dyn Fn(usize) -> Vec3| -> Vec<[f32; 3]> {
            vertices.iter().map(|v| delta(v.vertex as usize).to_array()).collect()
        };
        let deltas = match target {
            Target::Frame(sequence, t, own) => {
                let positions = sequence.part_of_frame(*t, own.clone());
                of_each(&|i| positions[i] - source.rest[i])
            }
            Target::Offsets(offsets) => of_each(&|i| offsets[i]),
        };
        let positions = Some(builder.positions(&deltas));
        targets.push(MorphTarget { positions, normals: None, tangents: None });
    }
    (!targets.is_empty()).then_some(targets)
}

/// glTF wants unit normals; sound ones are left bit for bit.
fn unit(normal: [f32; 3]) -> [f32; 3] {
    let n = Vec3::from_array(normal);
    if (n.length() - 1.0).abs() < 1e-4 { normal } else { n.try_normalize().unwrap_or(Vec3::Z).to_array() }
}

/// A tangent as the validator asks for it: of length 1, with a sign.
fn unit_tangent([x, y, z, sign]: [f32; 4]) -> [f32; 4] {
    let t = Vec3::new(x, y, z);
    let [x, y, z] = if (t.length() - 1.0).abs() < 1e-4 { t } else { t.try_normalize().unwrap_or(Vec3::X) }.to_array();
    [x, y, z, 1f32.copysign(sign)]
}

/// [N] area-weighted vertex normals of the rest pose.
fn smooth_normals(rest: &[Vec3], topology: &Topology) -> Vec<[f32; 3]> {
    let mut sums = vec![DVec3::ZERO; rest.len()];
    for face in topology.faces() {
        // Newell: twice the polygon's vector area, about its first corner to keep far-away models precise.
        let at = |c: usize| rest[face[c] as usize].as_dvec3() - rest[face[0] as usize].as_dvec3();
        let area: DVec3 = (1..face.len() - 1).map(|c| at(c).cross(at(c + 1))).sum();
        face.iter().for_each(|&v| sums[v as usize] += area);
    }
    sums.iter().map(|n| n.try_normalize().unwrap_or(DVec3::Z).as_vec3().to_array()).collect()
}
