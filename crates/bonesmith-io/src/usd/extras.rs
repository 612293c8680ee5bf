//! What USD has no words for, as JSON text in `customData.bonesmith`, so that reading our own file gives the rig back.
//!
//! Other programs may carry it along without understanding it: readers check it against the data and do without it
//! where it does not fit.

use bonesmith_core::BoneKind;
use bonesmith_core::mesh::surface::{AlphaMode, Material};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::stage::Stage;

/// Key in `customData`.
pub const KEY: &str = "bonesmith";

/// On the skeleton.
#[derive(Debug, Serialize, Deserialize)]
pub struct SkeletonExtras {
    /// What the bones' transforms may do.
    pub kind: BoneKind,
    /// [B] joint of each bone; other joints only carry stretch.
    pub joints: Vec<u32>,
    /// [B] parent bone, -1 for none.
    pub parents: Vec<i32>,
    /// (bone, x, y, z): where leaf bones end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tips: Vec<(u32, f64, f64, f64)>,
    /// `Rig::params_json`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub params: String,
}

/// On an animation with fewer keys than frames.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct AnimationExtras {
    /// Time code of the first frame.
    pub first: f64,
    /// From one frame to the next.
    pub step: f64,
    /// Frames.
    pub count: u32,
}

/// On the prim whose variants are clips.
#[derive(Debug, Serialize, Deserialize)]
pub struct ClipExtras {
    /// Names of variants, and of their clips.
    pub clips: Vec<(String, String)>,
}

/// On the mesh.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MeshExtras {
    /// The source's own name, where the prim's is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Names of texture coordinates "st", "st1"...
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub uv_names: Vec<String>,
    /// Name of the vertex colours.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub color_name: Option<String>,
    /// Name of the normals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub normals_name: Option<String>,
    /// The source said nothing of its up axis, or of its unit.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_up: bool,
    /// See `unknown_up`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown_unit: bool,
    /// (file, name) of pictures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<(String, String)>,
    /// Materials in order, by the names of their prims.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub materials: Vec<String>,
    /// Of a mesh of a scene.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<PartExtras>,
}

/// On a mesh of a scene. The topmost prim of such a file is no node of the scene.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PartExtras {
    /// Its number: the tree has another order.
    pub number: usize,
    /// Name of the mesh, beside that of the object.
    #[serde(default)]
    pub mesh: String,
}

/// Reads the extras of a prim; `None` when they are not there or not ours.
pub fn unpack<T: DeserializeOwned>(stage: &Stage, prim: usize) -> Option<T> {
    let (layer, value) = stage.prim_metadata(prim, "customData")?;
    let entries = layer.dictionary(value, "customData").ok()?;
    let (_, value) = entries.into_iter().find(|(key, _)| key == KEY)?;
    serde_json::from_str(&layer.text(value, KEY).ok()?).ok()
}

/// On a material: what a preview surface cannot say, or says in another way.
#[derive(Debug, Serialize, Deserialize)]
pub struct MaterialExtras {
    /// Visible from behind too.
    pub double_sided: bool,
    /// Linear RGBA of the base colour beside its texture.
    pub base_color: [f32; 4],
    /// Metallic and roughness beside their texture.
    pub metallic_roughness: [f32; 2],
    /// Emission beside its texture.
    pub emissive: [f32; 3],
    /// `opaque`, `blend`, or a cut-off.
    pub alpha: Alpha,
    /// Names of its pictures.
    #[serde(default)]
    pub name: String,
}

/// See `AlphaMode`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Alpha {
    /// Alpha is ignored.
    Opaque,
    /// Blended.
    Blend,
    /// Cut out below.
    Mask(f32),
}

impl MaterialExtras {
    /// Of a material.
    pub fn new(material: &Material) -> Self {
        Self {
            double_sided: material.double_sided,
            base_color: material.base_color,
            metallic_roughness: [material.metallic, material.roughness],
            emissive: material.emissive,
            alpha: match material.alpha {
                AlphaMode::Opaque => Alpha::Opaque,
                AlphaMode::Blend => Alpha::Blend,
                AlphaMode::Mask(cutoff) => Alpha::Mask(cutoff),
            },
            name: material.name.clone(),
        }
    }

    /// Puts back what the shader could not hold.
    pub fn apply(self, material: &mut Material) {
        material.double_sided = self.double_sided;
        material.base_color = self.base_color;
        [material.metallic, material.roughness] = self.metallic_roughness;
        material.emissive = self.emissive;
        material.name = self.name;
        material.alpha = match self.alpha {
            Alpha::Opaque => AlphaMode::Opaque,
            Alpha::Blend => AlphaMode::Blend,
            Alpha::Mask(cutoff) => AlphaMode::Mask(cutoff),
        };
    }
}
