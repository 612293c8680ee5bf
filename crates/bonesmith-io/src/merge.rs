//! Several meshes of a file as one: faces after faces, corner attributes by position, materials once each.

use std::path::Path;

use bonesmith_core::mesh::surface::{CornerAttribute, Material, Texture};
use bonesmith_core::{Part, Parts as SceneParts, Surface};
use glam::{DMat3, DVec3};

use crate::warning;

/// Normals only count where every mesh has them.
pub const SOME_NORMALS: &str = "normals, which only some of its faces have";

/// Surfaces that become one.
#[derive(Default)]
pub struct Parts {
    merged: Surface,
    vertices: usize,
    count: usize,
    some_normals: bool,
    /// [meshes] what each has, but for its node.
    records: Vec<Part>,
}

impl Parts {
    /// Appends a surface over `vertices` further vertices.
    pub fn add(&mut self, part: Surface, vertices: usize) {
        let first = self.vertices as u32;
        self.vertices += vertices;
        self.records.push(Part {
            node: self.records.len(),
            mesh: String::new(),
            vertices,
            faces: part.topology.face_count(),
            uv_sets: part.uv_sets.iter().map(|uv| uv.name.clone()).collect(),
            colors: part.colors.is_some(),
            still: false,
            instance_of: None,
        });
        self.count += 1;
        if self.count == 1 {
            self.merged = part;
            return;
        }
        let faces = self.merged.topology.face_count();
        let corners = self.merged.topology.corners().len();
        for face in part.topology.faces() {
            let moved: Vec<u32> = face.iter().map(|v| v.saturating_add(first)).collect();
            self.merged.topology.push_face(&moved);
        }
        let total = self.merged.topology.corners().len();
        let sets = self.merged.uv_sets.len().max(part.uv_sets.len());
        let mut theirs = part.uv_sets.clone().into_iter();
        for set in 0..sets {
            if set == self.merged.uv_sets.len() {
                self.merged.uv_sets.push(blank(&part.uv_sets[set].name, corners, [0.0; 2]));
            }
            append(&mut self.merged.uv_sets[set], theirs.next(), total, [0.0; 2]);
        }
        self.some_normals |= self.merged.normals.is_some() != part.normals.is_some();
        self.merged.normals = match (self.merged.normals.take(), part.normals.clone()) {
            (Some(mut own), Some(theirs)) => {
                append(&mut own, Some(theirs), total, [0.0; 3]);
                Some(own)
            }
            _ => None,
        };
        self.merged.tangents = match (self.merged.tangents.take(), part.tangents.clone()) {
            (Some(mut own), Some(theirs)) => {
                append(&mut own, Some(theirs), total, [0.0; 4]);
                Some(own)
            }
            _ => None,
        };
        if self.merged.colors.is_some() || part.colors.is_some() {
            let name = part.colors.as_ref().map_or("color", |c| &c.name).to_owned();
            let mut colors = self.merged.colors.take().unwrap_or_else(|| blank(&name, corners, [1.0; 4]));
            append(&mut colors, part.colors.clone(), total, [1.0; 4]);
            self.merged.colors = Some(colors);
        }
        self.add_materials(part, faces);
    }

    fn add_materials(&mut self, part: Surface, faces: usize) {
        if self.merged.face_materials.is_empty() && part.face_materials.is_empty() {
            return;
        }
        let images = self.merged.images.len() as u32;
        let face_count = part.topology.face_count();
        self.merged.images.extend(part.images);
        if self.merged.face_materials.is_empty() {
            let plain = self.material(plain());
            self.merged.face_materials = vec![plain; faces];
        }
        let moved = |texture: Option<Texture>| texture.map(|t| Texture { image: t.image.saturating_add(images), ..t });
        let places: Vec<u32> = part
            .materials
            .into_iter()
            .map(|mut material| {
                let t = &mut material.textures;
                for texture in
                    [&mut t.base_color, &mut t.metallic_roughness, &mut t.normal, &mut t.occlusion, &mut t.emissive]
                {
                    *texture = moved(*texture);
                }
                self.material(material)
            })
            .collect();
        if part.face_materials.is_empty() {
            let plain = self.material(plain());
            self.merged.face_materials.resize(faces + face_count, plain);
        } else {
            // A number beyond the list stays beyond it: the surface's own check refuses it.
            let place = |m: &u32| places.get(*m as usize).copied().unwrap_or(u32::MAX);
            self.merged.face_materials.extend(part.face_materials.iter().map(place));
        }
    }

    fn material(&mut self, material: Material) -> u32 {
        let list = &mut self.merged.materials;
        let at = list.iter().position(|known| *known == material).unwrap_or_else(|| {
            list.push(material);
            list.len() - 1
        });
        at as u32
    }

    /// All of them, of the file at `path`, with the scene that `of_meshes` makes of the meshes where there are several.
    pub fn finish_scene(mut self, path: &Path, of_meshes: impl FnOnce(Vec<Part>) -> SceneParts) -> Surface {
        let records = std::mem::take(&mut self.records);
        let mut surface = self.finish(path);
        if records.len() > 1 {
            surface.parts = of_meshes(records);
        }
        surface
    }

    /// All of them, of the file at `path`.
    pub fn finish(self, path: &Path) -> Surface {
        if self.some_normals {
            warning::left_out(path, SOME_NORMALS);
        }
        self.merged
    }
}

fn plain() -> Material {
    Material { name: "none".into(), ..Material::default() }
}

/// [faces] materials where some faces have none: those get a plain one, at the end of `list`. None at all where no face has any.
pub fn face_materials(of_faces: Vec<Option<u32>>, list: &mut Vec<Material>) -> Vec<u32> {
    if of_faces.iter().all(Option::is_none) {
        return Vec::new();
    }
    let end = list.len() as u32;
    if of_faces.iter().any(Option::is_none) {
        list.push(plain());
    }
    of_faces.into_iter().map(|material| material.unwrap_or(end)).collect()
}

/// A normal after `linear`; untouched bit for bit when that is the identity.
pub fn turned(normal: [f32; 3], linear: DMat3) -> [f32; 3] {
    if linear == DMat3::IDENTITY {
        return normal;
    }
    let turned = linear.inverse().transpose() * DVec3::from_array(normal.map(f64::from));
    turned.try_normalize().map_or(normal, |n| n.as_vec3().to_array())
}

/// A tangent after `linear`, which mirrors the side of the bitangent with everything else.
pub fn turned_tangent([x, y, z, sign]: [f32; 4], linear: DMat3) -> [f32; 4] {
    if linear == DMat3::IDENTITY {
        return [x, y, z, sign];
    }
    let turned = linear * DVec3::new(x.into(), y.into(), z.into());
    let [x, y, z] = turned.try_normalize().map_or([x, y, z], |t| t.as_vec3().to_array());
    [x, y, z, if linear.determinant() < 0.0 { -sign } else { sign }]
}

/// One value on all corners.
fn blank<const D: usize>(name: &str, corners: usize, value: [f32; D]) -> CornerAttribute<D> {
    CornerAttribute { name: name.to_owned(), values: vec![value], indices: vec![0; corners] }
}

fn append<const D: usize>(
    own: &mut CornerAttribute<D>,
    theirs: Option<CornerAttribute<D>>,
    total: usize,
    missing: [f32; D],
) {
    let first = own.values.len() as u32;
    match theirs {
        Some(theirs) => {
            own.values.extend(theirs.values);
            own.indices.extend(theirs.indices.iter().map(|v| v.saturating_add(first)));
        }
        None => {
            own.values.push(missing);
            own.indices.resize(total, first);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonesmith_core::Topology;

    #[test]
    fn what_one_mesh_lacks_is_filled_in() {
        let triangle = || Surface::bare(Topology::from_triangles(&[[0, 1, 2]]));
        let uv = CornerAttribute { name: "a".into(), values: vec![[0.5, 0.25]], indices: vec![0; 3] };
        let red = Material { name: "red".into(), ..Material::default() };
        let mut painted = triangle();
        painted.uv_sets = vec![uv.clone()];
        (painted.materials, painted.face_materials) = (vec![red.clone()], vec![0]);
        painted.normals = Some(CornerAttribute { name: "n".into(), values: vec![[0.0; 3]], indices: vec![0; 3] });
        for parts in [[triangle(), painted.clone(), painted.clone()], [painted.clone(), painted, triangle()]] {
            let mut merged = Parts::default();
            parts.into_iter().for_each(|part| merged.add(part, 3));
            let (surface, heard) = crate::with_warnings(|| merged.finish(Path::new("parts")));
            assert_eq!(heard.len(), 1, "{heard:?}");
            surface.check(9).unwrap();
            assert_eq!(surface.topology.face(2), [6, 7, 8]);
            assert_eq!((surface.materials.len(), surface.uv_sets.len(), surface.normals.is_none()), (2, 1, true));
        }
    }
}
