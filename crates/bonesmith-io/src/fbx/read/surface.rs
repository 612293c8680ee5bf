//! Faces, corner attributes and materials of one mesh.

use std::path::Path;

use bonesmith_core::mesh::surface::{AlphaMode, CornerAttribute, Image, Material, Texture, Wrap};
use bonesmith_core::{Surface, Topology};
use glam::{DMat3, DVec3};
use ufbx::{MaterialMap, Mesh, Node, ShaderType};

use crate::classes::shared;
use crate::mesh::srgb_to_linear;
use crate::texture::{self, NO_PICTURE, NO_UVS, mime_of};
use crate::{merge, warning};

/// The surface of a mesh at a node, moved by `linear`.
pub fn read(path: &Path, node: &Node, mesh: &Mesh, linear: DMat3) -> Surface {
    let corners = Corners::new(mesh, linear.determinant() < 0.0);
    let mut surface = Surface::bare(corners.topology(mesh));
    for set in mesh.uv_sets.iter().filter(|set| set.vertex_uv.exists) {
        let values = set.vertex_uv.values.iter().map(|v| [v.x as f32, v.y as f32]).collect();
        surface.uv_sets.extend(corners.attribute(&set.name, values, &set.vertex_uv.indices));
    }
    if mesh.vertex_normal.exists && !mesh.generated_normals {
        let turn = linear.inverse().transpose();
        let turned = |v: &ufbx::Vec3| {
            let normal = DVec3::new(v.x, v.y, v.z);
            (turn * normal).try_normalize().unwrap_or(normal).as_vec3().to_array()
        };
        let values = mesh.vertex_normal.values.iter().map(turned).collect();
        surface.normals = corners.attribute("normals", values, &mesh.vertex_normal.indices);
    }
    if mesh.vertex_tangent.exists && mesh.vertex_bitangent.exists {
        surface.tangents = tangents(mesh, &corners, linear);
    }
    if mesh.vertex_color.exists {
        let color = |v: &ufbx::Vec4| {
            let [r, g, b] = [v.x, v.y, v.z].map(|x| srgb_to_linear(x as f32));
            [r, g, b, v.w as f32]
        };
        let name = mesh.color_sets.first().map_or("color", |set| set.name.as_ref());
        let values = mesh.vertex_color.values.iter().map(color).collect();
        surface.colors = corners.attribute(name, values, &mesh.vertex_color.indices);
    }
    read_materials(path, node, mesh, &corners, &mut surface);
    surface
}

/// Tangents with the side of their bitangents, where the file has both, and normals of its own.
fn tangents(mesh: &Mesh, corners: &Corners, linear: DMat3) -> Option<CornerAttribute<4>> {
    if !mesh.vertex_normal.exists || mesh.generated_normals {
        return None;
    }
    let at = |attribute: &ufbx::VertexVec3, corner: u32| {
        let index = *attribute.indices.get(corner as usize)?;
        attribute.values.get(index as usize).map(|v| DVec3::new(v.x, v.y, v.z))
    };
    let of_corner = |&corner: &u32| {
        let [tangent, bitangent, normal] =
            [&mesh.vertex_tangent, &mesh.vertex_bitangent, &mesh.vertex_normal].map(|of| at(of, corner));
        let (tangent, side) = (tangent?, normal?.cross(tangent?).dot(bitangent?));
        let [x, y, z] = tangent.as_vec3().to_array();
        Some(merge::turned_tangent([x, y, z, if side < 0.0 { -1.0 } else { 1.0 }], linear))
    };
    let values = corners.places.iter().map(of_corner).collect::<Option<Vec<_>>>()?;
    Some(shared("tangents".into(), &values))
}

/// Corners that are kept, in our order.
struct Corners {
    /// [faces kept] number in the file, and corners.
    faces: Vec<(usize, u32)>,
    /// [corners kept] place in the file's lists.
    places: Vec<u32>,
}

impl Corners {
    /// Faces of fewer than three corners are points and lines: left out. With `flip`, faces are turned over; their first
    /// corners stay.
    fn new(mesh: &Mesh, flip: bool) -> Self {
        let (mut faces, mut places) = (Vec::new(), Vec::new());
        for (f, face) in mesh.faces.iter().enumerate().filter(|(_, face)| face.num_indices >= 3) {
            let range = face.index_begin..face.index_begin.saturating_add(face.num_indices);
            if range.end as usize > mesh.vertex_indices.len() {
                continue;
            }
            faces.push((f, face.num_indices));
            let first = places.len();
            places.extend(range);
            if flip {
                places[first + 1..].reverse();
            }
        }
        Self { faces, places }
    }

    fn topology(&self, mesh: &Mesh) -> Topology {
        let counts: Vec<u32> = self.faces.iter().map(|(_, count)| *count).collect();
        Topology::from_counts(&counts, self.places.iter().map(|at| mesh.vertex_indices[*at as usize]).collect())
    }

    /// `None` where the lists do not fit the mesh.
    fn attribute<const D: usize>(
        &self,
        name: &str,
        values: Vec<[f32; D]>,
        indices: &[u32],
    ) -> Option<CornerAttribute<D>> {
        let found: Option<Vec<u32>> = self.places.iter().map(|at| indices.get(*at as usize).copied()).collect();
        let indices = found.filter(|all| all.iter().all(|v| (*v as usize) < values.len()))?;
        Some(CornerAttribute { name: name.to_owned(), values, indices })
    }
}

fn read_materials(path: &Path, node: &Node, mesh: &Mesh, corners: &Corners, surface: &mut Surface) {
    let list = if node.materials.len() >= mesh.materials.len() { &node.materials } else { &mesh.materials };
    if list.is_empty() {
        return;
    }
    for material in list {
        let material = read_material(path, material, surface);
        surface.materials.push(material);
    }
    let last = surface.materials.len() as u32 - 1;
    let of_face = |(f, _): &(usize, u32)| mesh.face_material.get(*f).copied().unwrap_or(0).min(last);
    surface.face_materials = corners.faces.iter().map(of_face).collect();
}

fn read_material(path: &Path, source: &ufbx::Material, surface: &mut Surface) -> Material {
    let maps = &source.pbr;
    let number = |map: &MaterialMap, default: f32| match map.has_value && map.value_vec4.x.is_finite() {
        true => map.value_vec4.x as f32,
        false => default,
    };
    let color = |map: &MaterialMap, factor: &MaterialMap, default: [f32; 3]| {
        let v = &map.value_vec4;
        if !map.has_value || ![v.x, v.y, v.z].iter().all(|x| x.is_finite()) {
            return default;
        }
        let factor = f64::from(number(factor, 1.0));
        [v.x, v.y, v.z].map(|x| (x * factor).clamp(0.0, 1e6) as f32)
    };
    let plain = Material::default();
    // Blender and we write Phong: shininess is 100 (1 - roughness)^2, reflection is metal.
    let phong = |map: &MaterialMap| map.has_value.then_some(map.value_vec4.x.clamp(0.0, 100.0) as f32);
    let is_phong = source.element.scene.metadata.creator.starts_with("B") && source.shader_type == ShaderType::FbxPhong;
    let roughness = match phong(&source.fbx.specular_exponent).filter(|_| is_phong) {
        Some(shininess) => 1.0 - (shininess / 100.0).sqrt(),
        None => number(&maps.roughness, plain.roughness),
    };
    let metallic = match phong(&source.fbx.reflection_factor).filter(|_| is_phong) {
        Some(reflection) => reflection,
        None => number(&maps.metalness, plain.metallic),
    };
    let [r, g, b, a] = plain.base_color;
    let [r, g, b] = color(&maps.base_color, &maps.base_factor, [r, g, b]);
    let alpha = if maps.opacity.has_value { number(&maps.opacity, a).clamp(0.0, 1.0) } else { a };
    let mut material = Material {
        name: source.element.name.to_string(),
        base_color: [r.min(1.0), g.min(1.0), b.min(1.0), alpha],
        metallic: metallic.clamp(0.0, 1.0),
        roughness: roughness.clamp(0.0, 1.0),
        emissive: color(&maps.emission_color, &maps.emission_factor, plain.emissive),
        double_sided: source.features.double_sided.enabled,
        alpha: if alpha < 1.0 { AlphaMode::Blend } else { AlphaMode::Opaque },
        ..plain
    };
    let mut texture = |map: &MaterialMap| {
        let texture = map.texture.as_ref().filter(|_| map.texture_enabled)?;
        let read = read_texture(path, texture, surface);
        read.map_err(|why| warning::texture(path, &material.name, &file_of(texture), why)).ok()
    };
    let read = [&maps.base_color, &maps.normal_map, &maps.emission_color];
    [material.textures.base_color, material.textures.normal, material.textures.emissive] = read.map(&mut texture);
    let is_read = |texture: &ufbx::Texture| {
        let mut known = read.iter().filter_map(|map| map.texture.as_ref());
        known.any(|known| known.element.element_id == texture.element.element_id)
    };
    for other in source.textures.iter().filter(|other| !is_read(&other.texture)) {
        let why = format!("{} is not read", other.material_prop);
        warning::texture(path, &material.name, &file_of(&other.texture), why);
    }
    material
}

fn file_of(texture: &ufbx::Texture) -> String {
    texture.relative_filename.replace('\\', "/")
}

/// An image in the file or beside it; only what really is a PNG or JPEG is carried along.
fn read_texture(path: &Path, texture: &ufbx::Texture, surface: &mut Surface) -> Result<Texture, String> {
    let name = file_of(texture);
    let uv_set = surface.uv_sets.iter().position(|set| set.name == texture.uv_set.as_ref()).unwrap_or(0) as u32;
    let wrap = [texture.wrap_u, texture.wrap_v].map(|mode| match mode {
        ufbx::WrapMode::Repeat => Wrap::Repeat,
        ufbx::WrapMode::Clamp => Wrap::Clamp,
    });
    if surface.uv_sets.is_empty() {
        return Err(NO_UVS.into());
    }
    let bytes = match texture.content.len() {
        0 => read_beside(path, &name)?,
        _ => texture.content.to_vec(),
    };
    let mime = mime_of(&bytes).ok_or(NO_PICTURE)?.into();
    // A name alone is not enough: each machine has its own "skin.png".
    if let Some(known) = surface.images.iter().position(|image| image.name == name && image.bytes == bytes) {
        return Ok(Texture { image: known as u32, uv_set, wrap });
    }
    surface.images.push(Image { name, mime, bytes });
    Ok(Texture { image: surface.images.len() as u32 - 1, uv_set, wrap })
}

/// Where the file says it is, else right beside it: paths are those of another machine as a rule.
fn read_beside(path: &Path, name: &str) -> Result<Vec<u8>, String> {
    let last = Path::new(name).file_name().ok_or("it names no file")?;
    texture::read_file(&path.with_file_name(name)).or_else(|_| texture::read_file(&path.with_file_name(last)))
}
