//! The small print of an archive: names and materials, as JSON in the array `bonesmith`.

use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture, Textures, Wrap};
use bonesmith_core::{BoneKind, Part, PartNode, Parts, Space};
use glam::DAffine3;
use serde::{Deserialize, Serialize};

/// Version of the layout; readers accept this and older ones.
pub const VERSION: u32 = 1;

/// Everything that is not an array of numbers.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Meta {
    pub version: u32,
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<BoneKind>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bone_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clip_names: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uv_names: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub normal_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tangent_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub color_name: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub materials: Vec<MaterialMeta>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ImageMeta>,
    #[serde(skip_serializing_if = "Space::is_unknown")]
    pub space: Space,
    #[serde(skip_serializing_if = "PartsMeta::is_empty")]
    pub parts: PartsMeta,
}

/// The meshes of a scene; see `bonesmith_core::mesh::parts::Parts`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PartsMeta {
    nodes: Vec<NodeMeta>,
    meshes: Vec<PartMeta>,
    #[serde(skip_serializing_if = "Option::is_none")]
    skeleton: Option<usize>,
}

#[derive(Debug, Serialize, Deserialize)]
struct NodeMeta {
    name: String,
    parent: Option<usize>,
    /// world_from_node, 3x4 by columns.
    place: [f64; 12],
}

#[derive(Debug, Serialize, Deserialize)]
struct PartMeta {
    node: usize,
    mesh: String,
    vertices: usize,
    faces: usize,
    uv_names: Vec<String>,
    colors: bool,
    still: bool,
    instance_of: Option<usize>,
}

impl PartsMeta {
    fn is_empty(&self) -> bool {
        self.meshes.is_empty()
    }
}

impl From<&Parts> for PartsMeta {
    fn from(parts: &Parts) -> Self {
        let node = |node: &PartNode| NodeMeta {
            name: node.name.clone(),
            parent: node.parent,
            place: node.world_from_node.to_cols_array(),
        };
        let mesh = |part: &Part| PartMeta {
            node: part.node,
            mesh: part.mesh.clone(),
            vertices: part.vertices,
            faces: part.faces,
            uv_names: part.uv_sets.clone(),
            colors: part.colors,
            still: part.still,
            instance_of: part.instance_of,
        };
        Self {
            nodes: parts.nodes.iter().map(node).collect(),
            meshes: parts.meshes.iter().map(mesh).collect(),
            skeleton: parts.skeleton,
        }
    }
}

impl From<PartsMeta> for Parts {
    fn from(meta: PartsMeta) -> Self {
        let node = |node: NodeMeta| PartNode {
            name: node.name,
            parent: node.parent,
            world_from_node: DAffine3::from_cols_array(&node.place),
        };
        let mesh = |part: PartMeta| Part {
            node: part.node,
            mesh: part.mesh,
            vertices: part.vertices,
            faces: part.faces,
            uv_sets: part.uv_names,
            colors: part.colors,
            still: part.still,
            instance_of: part.instance_of,
        };
        Self {
            nodes: meta.nodes.into_iter().map(node).collect(),
            meshes: meta.meshes.into_iter().map(mesh).collect(),
            skeleton: meta.skeleton,
        }
    }
}

/// A material; see `bonesmith_core::mesh::surface::Material`.
#[derive(Debug, Serialize, Deserialize)]
pub struct MaterialMeta {
    name: String,
    base_color: [f32; 4],
    metallic: f32,
    roughness: f32,
    emissive: [f32; 3],
    double_sided: bool,
    alpha: AlphaMeta,
    /// Base colour, metallic-roughness, normal, occlusion, emissive: image and UV set of each.
    textures: [Option<(u32, u32)>; 5],
    /// What each shows outside its image; left out where all repeat.
    #[serde(default, skip_serializing_if = "repeat")]
    wraps: [[Wrap; 2]; 5],
}

fn repeat(wraps: &[[Wrap; 2]; 5]) -> bool {
    wraps.as_flattened().iter().all(|wrap| *wrap == Wrap::Repeat)
}

/// How alpha is used.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum AlphaMeta {
    Opaque,
    Mask(f32),
    Blend,
}

/// An image without its bytes.
#[derive(Debug, Serialize, Deserialize)]
pub struct ImageMeta {
    pub name: String,
    pub mime: String,
}

impl From<&Material> for MaterialMeta {
    fn from(material: &Material) -> Self {
        Self {
            name: material.name.clone(),
            base_color: material.base_color,
            metallic: material.metallic,
            roughness: material.roughness,
            emissive: material.emissive,
            double_sided: material.double_sided,
            alpha: match material.alpha {
                AlphaMode::Opaque => AlphaMeta::Opaque,
                AlphaMode::Mask(cutoff) => AlphaMeta::Mask(cutoff),
                AlphaMode::Blend => AlphaMeta::Blend,
            },
            textures: material.textures.all().map(|texture| texture.map(|t| (t.image, t.uv_set))),
            wraps: material.textures.all().map(|texture| texture.map(|t| t.wrap).unwrap_or_default()),
        }
    }
}

impl From<MaterialMeta> for Material {
    fn from(meta: MaterialMeta) -> Self {
        let mut wraps = meta.wraps.into_iter();
        let textures = meta.textures.map(|t| {
            let wrap = wraps.next().unwrap_or_default();
            t.map(|(image, uv_set)| Texture { image, uv_set, wrap })
        });
        let [base_color, metallic_roughness, normal, occlusion, emissive] = textures;
        Self {
            name: meta.name,
            base_color: meta.base_color,
            metallic: meta.metallic,
            roughness: meta.roughness,
            emissive: meta.emissive,
            double_sided: meta.double_sided,
            alpha: match meta.alpha {
                AlphaMeta::Opaque => AlphaMode::Opaque,
                AlphaMeta::Mask(cutoff) => AlphaMode::Mask(cutoff),
                AlphaMeta::Blend => AlphaMode::Blend,
            },
            textures: Textures { base_color, metallic_roughness, normal, occlusion, emissive },
        }
    }
}

impl From<&Image> for ImageMeta {
    fn from(image: &Image) -> Self {
        Self { name: image.name.clone(), mime: image.mime.clone() }
    }
}
