//! Faces and corner attributes of all meshes of a file as one `Surface`.

use bonesmith_core::{Space, Surface, Topology};
use glam::DMat3;

use super::document::Document;
use super::material::Materials;
use super::mesh::MeshData;
use crate::classes::shared;
use crate::{merge, warning};

/// A surface under construction: everything per corner.
#[derive(Default)]
pub struct SurfaceBuilder {
    sizes: Vec<u32>,
    materials: Vec<Option<usize>>,
    corners: Vec<u32>,
    uvs: Vec<Vec<[f32; 2]>>,
    normals: Vec<[f32; 3]>,
    tangents: Vec<[f32; 4]>,
    colors: Vec<[f32; 4]>,
}

impl SurfaceBuilder {
    /// Appends a mesh whose vertices start at `first` and were moved by `linear`.
    pub fn add(&mut self, mut mesh: MeshData, first: u32, linear: DMat3) {
        if linear.determinant() < 0.0 {
            mesh.flip();
        }
        let before = self.corners.len();
        let count = mesh.corners.len();
        self.sizes.extend(&mesh.face_sizes);
        self.materials.extend(&mesh.face_materials);
        self.corners.extend(mesh.corners.iter().map(|v| v + first));
        if self.uvs.len() < mesh.uvs.len() {
            self.uvs.resize(mesh.uvs.len(), vec![[0.0; 2]; before]);
        }
        for (set, uvs) in self.uvs.iter_mut().enumerate() {
            match mesh.uvs.get(set) {
                Some(own) => uvs.extend_from_slice(own),
                None => uvs.resize(before + count, [0.0; 2]),
            }
        }
        // Normals only count when every mesh has them: a length that falls short says so in the end.
        self.normals.extend(mesh.normals.into_iter().flatten().map(|n| merge::turned(n, linear)));
        self.tangents.extend(mesh.tangents.into_iter().flatten().map(|t| merge::turned_tangent(t, linear)));
        if let Some(colors) = mesh.colors {
            self.colors.resize(before, [1.0; 4]);
            self.colors.extend(colors);
        }
    }

    /// The surface.
    pub fn finish(mut self, document: &Document, materials: Materials) -> Surface {
        let corners = self.corners.len();
        if !self.normals.is_empty() && self.normals.len() != corners {
            warning::left_out(document.path(), merge::SOME_NORMALS);
        }
        if !self.colors.is_empty() {
            self.colors.resize(corners, [1.0; 4]);
        }
        let Materials { places, mut list, images } = materials;
        let place = |m: &Option<usize>| m.and_then(|m| places.get(m).copied().flatten());
        let face_materials = merge::face_materials(self.materials.iter().map(place).collect(), &mut list);
        let uvs = self.uvs.iter().enumerate().map(|(set, uv)| shared(format!("TEXCOORD_{set}"), uv)).collect();
        Surface {
            topology: Topology::from_counts(&self.sizes, self.corners),
            uv_sets: if corners > 0 { uvs } else { Vec::new() },
            normals: (corners > 0 && self.normals.len() == corners).then(|| shared("NORMAL".into(), &self.normals)),
            tangents: (corners > 0 && self.tangents.len() == corners).then(|| shared("TANGENT".into(), &self.tangents)),
            colors: (!self.colors.is_empty()).then(|| shared("COLOR_0".into(), &self.colors)),
            face_materials,
            materials: list,
            images,
            space: Space::GLTF,
            ..Surface::default()
        }
    }
}

impl MeshData {
    /// Turns all faces over; their first corners stay.
    fn flip(&mut self) {
        let mut start = 0;
        for &size in &self.face_sizes {
            let rest = start + 1..start + size as usize;
            self.corners[rest.clone()].reverse();
            self.uvs.iter_mut().for_each(|uv| uv[rest.clone()].reverse());
            self.normals.iter_mut().for_each(|n| n[rest.clone()].reverse());
            self.tangents.iter_mut().for_each(|t| t[rest.clone()].reverse());
            self.colors.iter_mut().for_each(|c| c[rest.clone()].reverse());
            start += size as usize;
        }
    }
}
