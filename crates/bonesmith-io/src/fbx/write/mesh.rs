//! Geometry and the node that shows it.

use std::io;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::transform::Trs;
use bonesmith_core::{Rig, Surface};
use glam::Vec3;

use super::animation::degrees;
use super::binary::{Properties, Record};
use super::{EXTRAS, Scene};
use crate::classes::intern;

/// Numbers of the mesh's objects.
pub struct Mesh {
    /// Control points and faces.
    pub geometry: i64,
    /// The node.
    pub model: i64,
}

/// Writes geometry and node of a skinned mesh.
pub fn write_skinned(scene: &mut Scene, rig: &Rig, extras: &str) -> io::Result<Mesh> {
    let name = if rig.name.is_empty() { "mesh" } else { &rig.name };
    write(scene, [name, name], &rig.rest, &rig.surface, &Trs::IDENTITY, Some(extras))
}

/// Writes geometry and node, with their names.
pub fn write(
    scene: &mut Scene,
    [geometry_name, name]: [&str; 2],
    rest: &[Vec3],
    surface: &Surface,
    place: &Trs,
    extras: Option<&str>,
) -> io::Result<Mesh> {
    let id = scene.id();
    let points = rest.iter().flat_map(|p| p.to_array().map(f64::from));
    let mut geometry = Record::new("Geometry").i64(id).object(geometry_name, "Geometry").text("Mesh").children([
        Properties::new().done(),
        Record::new("GeometryVersion").i32(124),
        Record::new("Vertices").f64s(points)?,
        Record::new("PolygonVertexIndex").i32s(polygons(surface))?,
    ]);
    geometry = layers(geometry, surface)?;
    scene.object("Geometry", geometry);
    Ok(show(scene, id, name, place, extras))
}

/// Writes the node of a geometry, which may have several.
pub fn show(scene: &mut Scene, geometry: i64, name: &str, place: &Trs, extras: Option<&str>) -> Mesh {
    let mesh = Mesh { geometry, model: scene.id() };
    let mut properties = Properties::new()
        .choice("InheritType", 1)
        .local("Lcl Translation", place.translation.to_array())
        .local("Lcl Rotation", degrees(place.rotation, None))
        .local("Lcl Scaling", place.scale.to_array());
    if let Some(extras) = extras {
        properties = properties.user_string(EXTRAS, extras);
    }
    let model = Record::new("Model").i64(mesh.model).object(name, "Model").text("Mesh").children([
        Record::new("Version").i32(232),
        properties.done(),
        Record::new("Shading").bool(true),
        Record::new("Culling").text("CullingOff"),
    ]);
    scene.object("Model", model);
    scene.connect(mesh.geometry, mesh.model);
    mesh
}

/// Corners of all faces; the last of each is marked by its bits turned over.
fn polygons(surface: &Surface) -> impl Iterator<Item = i32> + '_ {
    surface.topology.faces().flat_map(|face| {
        let last = face.len() - 1;
        face.iter().enumerate().map(move |(k, v)| if k == last { !(*v as i32) } else { *v as i32 })
    })
}

/// Everything on the corners and faces.
fn layers(mut geometry: Record, surface: &Surface) -> io::Result<Record> {
    // (type, number) of each layer element; set k of texture coordinates goes to layer k.
    let mut first: Vec<(&str, i32)> = Vec::new();
    if let Some(normals) = &surface.normals {
        let record = element("LayerElementNormal", 0, "", "ByPolygonVertex", "IndexToDirect");
        geometry = geometry.child(record.child(values("Normals", normals)?).child(indices("NormalsIndex", normals)?));
        first.push(("LayerElementNormal", 0));
    }
    if let (Some(tangents), Some(normals)) = (&surface.tangents, &surface.normals) {
        let (along, across) = tangent_frames(tangents, normals);
        let record = element("LayerElementBinormal", 0, "", "ByPolygonVertex", "IndexToDirect");
        let children = [values("Binormals", &across)?, indices("BinormalsIndex", &across)?];
        geometry = geometry.child(record.children(children));
        let record = element("LayerElementTangent", 0, "", "ByPolygonVertex", "IndexToDirect");
        geometry = geometry.child(record.children([values("Tangents", &along)?, indices("TangentsIndex", &along)?]));
        first.extend([("LayerElementBinormal", 0), ("LayerElementTangent", 0)]);
    }
    if let Some(colors) = &surface.colors {
        let screen =
            CornerAttribute { values: colors.values.iter().map(|c| to_screen(*c)).collect(), ..colors.clone() };
        let record = element("LayerElementColor", 0, &colors.name, "ByPolygonVertex", "IndexToDirect");
        geometry = geometry.child(record.child(values("Colors", &screen)?).child(indices("ColorIndex", &screen)?));
        first.push(("LayerElementColor", 0));
    }
    if !surface.face_materials.is_empty() {
        let record = element("LayerElementMaterial", 0, "", "ByPolygon", "IndexToDirect");
        let of_faces = surface.face_materials.iter().map(|m| *m as i32);
        geometry = geometry.child(record.child(Record::new("Materials").i32s(of_faces)?));
        first.push(("LayerElementMaterial", 0));
    }
    for (set, uv) in surface.uv_sets.iter().enumerate() {
        let name = uv_name(surface, set);
        let record = element("LayerElementUV", set as i32, &name, "ByPolygonVertex", "IndexToDirect");
        geometry = geometry.child(record.child(values("UV", uv)?).child(indices("UVIndex", uv)?));
    }
    let count = surface.uv_sets.len().max(1);
    for layer in 0..count {
        let mut record = Record::new("Layer").i32(layer as i32).child(Record::new("Version").i32(100));
        let uv = (layer < surface.uv_sets.len()).then_some(("LayerElementUV", layer as i32));
        for (kind, number) in first.drain(..).chain(uv) {
            let typed = [Record::new("Type").text(kind), Record::new("TypedIndex").i32(number)];
            record = record.child(Record::new("LayerElement").children(typed));
        }
        geometry = geometry.child(record);
    }
    Ok(geometry)
}

/// The name of a set of texture coordinates; textures name it too.
pub fn uv_name(surface: &Surface, set: usize) -> String {
    match surface.uv_sets.get(set).map(|uv| uv.name.as_str()) {
        None | Some("") => format!("uv{set}"),
        Some(name) => name.to_owned(),
    }
}

fn element(kind: &'static str, number: i32, name: &str, mapping: &str, reference: &str) -> Record {
    Record::new(kind).i32(number).children([
        Record::new("Version").i32(101),
        Record::new("Name").text(name),
        Record::new("MappingInformationType").text(mapping),
        Record::new("ReferenceInformationType").text(reference),
    ])
}

fn values<const D: usize>(name: &'static str, attribute: &CornerAttribute<D>) -> io::Result<Record> {
    Record::new(name).f64s(attribute.values.iter().flatten().map(|x| f64::from(*x)))
}

fn indices<const D: usize>(name: &'static str, attribute: &CornerAttribute<D>) -> io::Result<Record> {
    Record::new(name).i32s(attribute.indices.iter().map(|v| *v as i32))
}

/// Tangents, and bitangents: FBX stores both instead of a sign.
fn tangent_frames(
    tangents: &CornerAttribute<4>,
    normals: &CornerAttribute<3>,
) -> (CornerAttribute<3>, CornerAttribute<3>) {
    let along = tangents.values.iter().map(|&[x, y, z, _]| [x, y, z]).collect();
    let pairs: Vec<(u32, u32)> = normals.indices.iter().copied().zip(tangents.indices.iter().copied()).collect();
    let numbers = intern(pairs.iter().map(|&(normal, tangent)| [normal, tangent]));
    let mut across: Vec<[f32; 3]> = Vec::new();
    for (&(normal, tangent), &number) in pairs.iter().zip(&numbers) {
        if number as usize == across.len() {
            let [x, y, z, sign] = tangents.values[tangent as usize];
            let bitangent = Vec3::from_array(normals.values[normal as usize]).cross(Vec3::new(x, y, z)) * sign;
            across.push(bitangent.normalize_or_zero().to_array());
        }
    }
    (
        CornerAttribute { name: tangents.name.clone(), values: along, indices: tangents.indices.clone() },
        CornerAttribute { name: String::new(), values: across, indices: numbers },
    )
}

/// Colours in FBX files are meant for the screen; ours are linear.
fn to_screen([r, g, b, a]: [f32; 4]) -> [f32; 4] {
    let screen = |x: f32| if x <= 0.003_130_8 { x * 12.92 } else { 1.055 * x.powf(1.0 / 2.4) - 0.055 };
    [screen(r), screen(g), screen(b), a]
}
