//! Faces and corner attributes of all meshes as one `Surface`.

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Surface, Topology};
use glam::DMat3;

use crate::usd::stage::Stage;
use crate::{merge, warning};

use super::material::Materials;
use super::mesh::Mesh;

/// A surface under construction.
#[derive(Default)]
pub struct SurfaceBuilder {
    sizes: Vec<u32>,
    corners: Vec<u32>,
    uv_sets: Vec<CornerAttribute<2>>,
    normals: Option<CornerAttribute<3>>,
    colors: Option<CornerAttribute<4>>,
    materials: Vec<Option<u32>>,
    /// Normals only count when every mesh with faces has them.
    lacks_normals: bool,
}

impl SurfaceBuilder {
    /// Appends a mesh whose vertices start at `first` and were moved by `linear`.
    pub fn add(&mut self, mesh: &mut Mesh, materials: Vec<Option<u32>>, first: u32, linear: DMat3) {
        mesh.face_outwards(linear.determinant() < 0.0);
        let before = self.corners.len();
        self.sizes.extend(&mesh.sizes);
        self.corners.extend(mesh.corners.iter().map(|v| v.saturating_add(first)));
        self.materials.extend(materials);
        let count = self.corners.len();
        for (set, own) in std::mem::take(&mut mesh.uv_sets).into_iter().enumerate() {
            if self.uv_sets.len() <= set {
                self.uv_sets.push(blank(&own.name, before, [0.0; 2]));
            }
            append(&mut self.uv_sets[set], own, before, [0.0; 2]);
        }
        self.uv_sets.iter_mut().for_each(|set| fill(set, count, [0.0; 2]));
        match mesh.normals.take() {
            Some(mut normals) if !mesh.corners.is_empty() => {
                normals.values.iter_mut().for_each(|n| *n = merge::turned(*n, linear));
                let all = self.normals.get_or_insert_with(|| blank(&normals.name, before, [0.0, 0.0, 1.0]));
                append(all, normals, before, [0.0, 0.0, 1.0]);
            }
            _ => self.lacks_normals |= !mesh.corners.is_empty(),
        }
        if let Some(colors) = mesh.colors.take() {
            let all = self.colors.get_or_insert_with(|| blank(&colors.name, before, [1.0; 4]));
            append(all, colors, before, [1.0; 4]);
        }
        self.colors.iter_mut().for_each(|colors| fill(colors, count, [1.0; 4]));
    }

    /// The surface.
    pub fn finish(self, stage: &Stage, materials: Materials) -> Surface {
        if self.lacks_normals && self.normals.is_some() {
            warning::left_out(stage.file(), merge::SOME_NORMALS);
        }
        let Materials { mut list, images, .. } = materials;
        let face_materials = merge::face_materials(self.materials, &mut list);
        Surface {
            topology: Topology::from_counts(&self.sizes, self.corners),
            uv_sets: self.uv_sets,
            normals: self.normals.filter(|_| !self.lacks_normals),
            tangents: None,
            colors: self.colors,
            face_materials,
            materials: list,
            images,
            ..Surface::default()
        }
    }
}

fn blank<const D: usize>(name: &str, corners: usize, value: [f32; D]) -> CornerAttribute<D> {
    let mut attribute = CornerAttribute { name: name.to_owned(), values: Vec::new(), indices: Vec::new() };
    fill(&mut attribute, corners, value);
    attribute
}

/// Corners that have no value get `value`.
fn fill<const D: usize>(attribute: &mut CornerAttribute<D>, corners: usize, value: [f32; D]) {
    if attribute.indices.len() < corners {
        attribute.values.push(value);
        attribute.indices.resize(corners, attribute.values.len() as u32 - 1);
    }
}

fn append<const D: usize>(all: &mut CornerAttribute<D>, own: CornerAttribute<D>, before: usize, value: [f32; D]) {
    fill(all, before, value);
    let offset = all.values.len() as u32;
    all.values.extend(own.values);
    all.indices.extend(own.indices.into_iter().map(|i| i + offset));
}
