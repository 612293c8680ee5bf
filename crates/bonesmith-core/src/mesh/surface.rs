//! Corner attributes and materials of a mesh, passed through unchanged.

use glam::{DAffine3, DMat3, DVec3};
use serde::{Deserialize, Serialize};

use crate::mesh::parts::Parts;
use crate::mesh::space::Space;
use crate::mesh::topology::{Topology, TopologyError};
use crate::solve::transform::nearest_rotation;

/// Topology, and everything that a renderer needs in the output.
///
/// Invariants, checked by [`Surface::check`]:
/// 1. Each corner attribute has one index per corner of `topology`, each below its value count.
/// 2. `face_materials` is empty or has one entry per face, each below `materials.len()`.
/// 3. Textures name images that exist.
/// 4. `parts` fits vertices and faces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Surface {
    /// Polygons.
    pub topology: Topology,
    /// Texture coordinates, any number of sets. The origin is the lower left corner, as in OBJ.
    pub uv_sets: Vec<CornerAttribute<2>>,
    /// Shading normals of the rest pose.
    pub normals: Option<CornerAttribute<3>>,
    /// Tangents of the rest pose for normal maps: direction in which the first set of texture coordinates rises along u, and 1 or -1 for the
    /// side on which the cross product of normal and tangent shows where it rises along v.
    pub tangents: Option<CornerAttribute<4>>,
    /// Linear RGBA vertex colours.
    pub colors: Option<CornerAttribute<4>>,
    /// [faces] material of each face, or empty when there are no materials.
    pub face_materials: Vec<u32>,
    /// Materials that `face_materials` names.
    pub materials: Vec<Material>,
    /// Encoded images that materials name.
    pub images: Vec<Image>,
    /// Axes and unit of all positions over this surface.
    pub space: Space,
    /// The meshes that this was merged from.
    pub parts: Parts,
}

/// Values on face corners, shared through indices so that seams stay visible.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CornerAttribute<const D: usize> {
    /// Name in the source ("map1", "TEXCOORD_0").
    pub name: String,
    /// [values] distinct values.
    pub values: Vec<[f32; D]>,
    /// [corners] value of each corner.
    pub indices: Vec<u32>,
}

/// A metallic-roughness material, the common ground of glTF, USD and OBJ.
#[derive(Clone, Debug, PartialEq)]
pub struct Material {
    /// Name in the source.
    pub name: String,
    /// Linear RGBA.
    pub base_color: [f32; 4],
    /// 0 dielectric to 1 metal.
    pub metallic: f32,
    /// 0 mirror to 1 diffuse.
    pub roughness: f32,
    /// Linear RGB.
    pub emissive: [f32; 3],
    /// Visible from behind too.
    pub double_sided: bool,
    /// How base colour's alpha is used.
    pub alpha: AlphaMode,
    /// Image of each role, if any.
    pub textures: Textures,
}

impl Default for Material {
    fn default() -> Self {
        Self {
            name: String::new(),
            base_color: [0.8, 0.8, 0.8, 1.0],
            metallic: 0.0,
            roughness: 0.7,
            emissive: [0.0; 3],
            double_sided: false,
            alpha: AlphaMode::Opaque,
            textures: Textures::default(),
        }
    }
}

/// How a material's alpha is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum AlphaMode {
    /// Alpha is ignored.
    #[default]
    Opaque,
    /// Cut out below the given alpha.
    Mask(f32),
    /// Blended.
    Blend,
}

/// Textures of a material.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Textures {
    /// sRGB base colour.
    pub base_color: Option<Texture>,
    /// Roughness in green, metallic in blue.
    pub metallic_roughness: Option<Texture>,
    /// Tangent-space normals.
    pub normal: Option<Texture>,
    /// Occlusion in red.
    pub occlusion: Option<Texture>,
    /// sRGB emission.
    pub emissive: Option<Texture>,
}

impl Textures {
    /// All roles in a fixed order.
    pub fn all(&self) -> [Option<Texture>; 5] {
        [self.base_color, self.metallic_roughness, self.normal, self.occlusion, self.emissive]
    }
}

/// An image on a UV set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Texture {
    /// Index into `Surface::images`.
    pub image: u32,
    /// Index into `Surface::uv_sets`.
    pub uv_set: u32,
    /// What is outside the image, along u and v.
    pub wrap: [Wrap; 2],
}

/// What a texture shows outside its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wrap {
    /// The image again.
    #[default]
    Repeat,
    /// Its border.
    Clamp,
    /// The image mirrored.
    Mirror,
}

/// An encoded image, passed through as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    /// Name in the source.
    pub name: String,
    /// "image/png" or "image/jpeg".
    pub mime: String,
    /// Encoded bytes.
    pub bytes: Vec<u8>,
}

/// Why a surface was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum SurfaceError {
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("{attribute} has {indices} corner indices for {corners} corners")]
    CornerCount { attribute: String, indices: usize, corners: usize },
    #[error("{attribute}: corner {corner} names value {index}, but there are {values}")]
    CornerIndex { attribute: String, corner: usize, index: usize, values: usize },
    #[error("{0}")]
    Materials(String),
    #[error("{0}")]
    Parts(String),
}

impl Surface {
    /// Only faces, nothing on them.
    pub fn bare(topology: Topology) -> Self {
        Self { topology, ..Self::default() }
    }

    /// Rotates normals and tangents.
    pub fn turn(&mut self, rotation: DMat3) {
        let turned = |v: [f32; 3]| (rotation * DVec3::from_array(v.map(f64::from))).as_vec3().to_array();
        for normal in self.normals.iter_mut().flat_map(|normals| &mut normals.values) {
            *normal = turned(*normal);
        }
        for [x, y, z, _] in self.tangents.iter_mut().flat_map(|tangents| &mut tangents.values) {
            [*x, *y, *z] = turned([*x, *y, *z]);
        }
    }

    /// In another space: `target_from_source` rotates, scales uniformly and moves.
    pub fn place(&mut self, target_from_source: DAffine3) {
        let turn = nearest_rotation(&target_from_source.matrix3);
        if self.has_directions() && turn != DMat3::IDENTITY {
            self.turn(turn);
        }
        self.parts.place(target_from_source);
    }

    /// Whether [`Surface::place`] changes anything.
    pub(crate) fn has_places(&self) -> bool {
        self.has_directions() || !self.parts.is_empty()
    }

    /// Whether there is something for [`Surface::turn`] to rotate.
    pub fn has_directions(&self) -> bool {
        self.normals.is_some() || self.tangents.is_some()
    }

    /// Whether tangents count: the source has them, or a normal map that is painted along them.
    pub fn needs_tangents(&self) -> bool {
        self.tangents.is_some() || self.materials.iter().any(|material| material.textures.normal.is_some())
    }

    /// Checks the topology and invariants 1 to 4.
    pub fn check(&self, vertices: usize) -> Result<(), SurfaceError> {
        self.topology.check(vertices)?;
        let (corners, faces) = (self.topology.corners().len(), self.topology.face_count());
        self.uv_sets.iter().try_for_each(|uv| uv.check(corners))?;
        self.normals.iter().try_for_each(|normals| normals.check(corners))?;
        self.tangents.iter().try_for_each(|tangents| tangents.check(corners))?;
        self.colors.iter().try_for_each(|colors| colors.check(corners))?;
        let (of_faces, materials, images) = (self.face_materials.len(), self.materials.len(), self.images.len());
        if of_faces != 0 && of_faces != faces {
            return Err(SurfaceError::Materials(format!("{of_faces} face materials for {faces} faces")));
        }
        if let Some(m) = self.face_materials.iter().find(|&&m| m as usize >= materials) {
            return Err(SurfaceError::Materials(format!("a face names material {m}, but there are {materials}")));
        }
        let mut textures = self.materials.iter().flat_map(|m| m.textures.all()).flatten();
        if let Some(Texture { image, .. }) = textures.find(|texture| texture.image as usize >= images) {
            return Err(SurfaceError::Materials(format!("a texture names image {image}, but there are {images}")));
        }
        self.parts.check(vertices, &self.topology).map_err(SurfaceError::Parts)
    }
}

impl<const D: usize> CornerAttribute<D> {
    /// [vertices] mean of one channel over the corners of each vertex; 0 where a vertex has none.
    pub fn on_vertices(&self, topology: &Topology, vertices: usize, channel: usize) -> Vec<f32> {
        let mut sums = vec![(0.0f64, 0u32); vertices];
        for (&v, &at) in topology.corners().iter().zip(&self.indices) {
            if let (Some(sum), Some(value)) = (sums.get_mut(v as usize), self.values.get(at as usize)) {
                *sum = (sum.0 + f64::from(value[channel.min(D - 1)]), sum.1 + 1);
            }
        }
        sums.iter().map(|&(sum, count)| if count > 0 { (sum / f64::from(count)) as f32 } else { 0.0 }).collect()
    }

    fn check(&self, corners: usize) -> Result<(), SurfaceError> {
        let (attribute, indices, values) = (|| self.name.clone(), self.indices.len(), self.values.len());
        if indices != corners {
            return Err(SurfaceError::CornerCount { attribute: attribute(), indices, corners });
        }
        match self.indices.iter().position(|&v| v as usize >= values) {
            Some(corner) => {
                let index = self.indices[corner] as usize;
                Err(SurfaceError::CornerIndex { attribute: attribute(), corner, index, values })
            }
            None => Ok(()),
        }
    }
}
