//! What glTF has no words for, kept in `extras.bonesmith` so that reading our own file gives the rig back.
//!
//! Other programs may rewrite a file and carry extras along without understanding them. Nothing here is
//! therefore trusted: readers check it against the data and fall back to what the plain glTF says.

use bonesmith_core::model::shape_bones::{Driver, ShapeKind};
use bonesmith_core::{BoneKind, Space};
use gltf_json::extras::RawValue;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// Attribute that names the original vertex of each split one, as two 16-bit halves (low, high); glTF allows no
/// 32-bit integers in vertex attributes, and floats end at 2^24. Absent when nothing was split or moved.
pub const VERTEX_ATTRIBUTE: &str = "BONESMITH_VERTEX";

/// Extension on the skin of a two-layer rig: docs/formats/BONESMITH_two_layer.md.
pub const TWO_LAYER_EXTENSION: &str = "BONESMITH_two_layer";

/// Attributes of a two-layer rig: virtual bones of each vertex and their weights, four each.
pub const VIRTUAL_JOINTS: &str = "BONESMITH_JOINTS";
/// See [`VIRTUAL_JOINTS`].
pub const VIRTUAL_WEIGHTS: &str = "BONESMITH_WEIGHTS";

/// Content of [`TWO_LAYER_EXTENSION`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TwoLayerExtension {
    /// M.
    pub virtual_bones: u32,
    /// c: slots of each virtual bone.
    pub slots: u32,
    /// Accessor of M x c joints of the skin, unsigned scalars.
    pub joints: u32,
    /// Accessor of M x c weights, float scalars.
    pub weights: u32,
}

/// Second set of four, where vertices have more than four virtual bones.
pub const MORE_VIRTUAL_JOINTS: &str = "BONESMITH_JOINTS_1";
/// See [`MORE_VIRTUAL_JOINTS`].
pub const MORE_VIRTUAL_WEIGHTS: &str = "BONESMITH_WEIGHTS_1";

/// Extension on the skin of a Direct Delta Mush rig: docs/formats/BONESMITH_ddm.md.
pub const DDM_EXTENSION: &str = "BONESMITH_ddm";

/// Content of [`DDM_EXTENSION`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DdmExtension {
    /// 0 to 5.
    pub variant: u8,
    /// Rows are virtual bones, not vertices.
    pub compressed: bool,
    /// Numbers per influence: 1, 4 or 10.
    pub width: u32,
    /// What centres are relative to, in the space of POSITION.
    pub origin: [f64; 3],
    /// Accessor of rows + 1 first influences, unsigned scalars.
    pub starts: u32,
    /// Accessor of the joint of each influence, unsigned scalars.
    pub joints: u32,
    /// Accessor of width numbers per influence, float scalars.
    pub weights: u32,
    /// Accessor of the centre of each row, three floats.
    pub centers: u32,
}

/// Extension on the skin of bones driven by shapes: docs/formats/BONESMITH_shape_bones.md.
pub const SHAPE_BONES_EXTENSION: &str = "BONESMITH_shape_bones";

/// Content of [`SHAPE_BONES_EXTENSION`].
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShapeBonesExtension {
    /// Which components there may be.
    pub kind: ShapeKind,
    /// Shapes in order; numbers of the first come first.
    pub shapes: Vec<ShapeExtension>,
    /// Accessor of the joint of each number, unsigned scalars.
    pub joints: u32,
    /// Accessor of the component of each number, unsigned scalars.
    pub components: u32,
    /// Accessor of the numbers, float scalars.
    pub numbers: u32,
}

/// One shape of [`ShapeBonesExtension`].
#[derive(Debug, Serialize, Deserialize)]
pub struct ShapeExtension {
    /// Its name.
    pub name: String,
    /// How many numbers it has.
    pub count: u32,
    /// What its weight follows from.
    #[serde(default)]
    pub driver: Driver,
}

/// (value, how many times in a row).
pub type Runs = Vec<(u32, u32)>;

/// On the skin.
#[derive(Debug, Serialize, Deserialize)]
pub struct SkinExtras {
    /// What the bones' transforms may do.
    pub kind: BoneKind,
    /// `Rig::params_json`, when it is JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Box<RawValue>>,
    /// [B] parent of each bone, -1 for roots, when the nodes do not show it: a child of a bone that flattens space
    /// cannot be expressed relative to it and hangs on the root instead. Empty: all bones are roots; in small files free bones have parents,
    /// relative to which their curves are short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parents: Option<Vec<i32>>,
    /// [joints] number of each joint's bone, where meshes have skins of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bones: Option<Vec<u32>>,
}

/// On the mesh.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct MeshExtras {
    /// Number of original vertices.
    pub vertices: u32,
    /// Normals were not in the source but computed for display.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub computed_normals: bool,
    /// Primitive of each face in the original face order. Empty: primitive after primitive.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub face_primitives: Runs,
    /// Axes and unit before the file was turned to glTF's; absent where they are the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
}

/// On a primitive.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PrimitiveExtras {
    /// Corners of each polygon; absent when all are triangles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub polygons: Runs,
}

/// On a material that stands for "none": glTF's own default is a metal, which looks black without surroundings.
#[derive(Debug, Serialize, Deserialize)]
pub struct MaterialExtras {
    /// Always true.
    pub placeholder: bool,
}

/// On an animation whose times had to be moved, because glTF allows none below zero, or whose keys do not show its frames.
#[derive(Debug, Serialize, Deserialize)]
pub struct AnimationExtras {
    /// Added to the file's times gives the original ones.
    #[serde(default)]
    pub start_secs: f64,
    /// Number of frames from the first key to the last, and frames per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<(u32, f64)>,
}

#[derive(Serialize, Deserialize)]
struct Wrapper<T> {
    bonesmith: T,
    #[serde(rename = "targetNames", default, skip_serializing_if = "Option::is_none")]
    target_names: Option<Vec<String>>,
}

/// As glTF extras.
pub fn pack<T: Serialize>(value: T) -> gltf_json::Extras {
    pack_with_targets(value, None)
}

/// As mesh extras that also name the morph targets, where Blender and three.js look for them.
pub fn pack_with_targets<T: Serialize>(value: T, target_names: Option<Vec<String>>) -> gltf_json::Extras {
    serde_json::value::to_raw_value(&Wrapper { bonesmith: value, target_names }).ok()
}

/// From glTF extras; `None` when they are not ours.
pub fn unpack<T: DeserializeOwned>(extras: &gltf_json::Extras) -> Option<T> {
    let wrapper: Wrapper<T> = serde_json::from_str(extras.as_ref()?.get()).ok()?;
    Some(wrapper.bonesmith)
}

/// Run-length form.
pub fn to_runs(values: impl IntoIterator<Item = u32>) -> Runs {
    let mut runs: Runs = Vec::new();
    for value in values {
        match runs.last_mut() {
            Some((last, count)) if *last == value => *count += 1,
            _ => runs.push((value, 1)),
        }
    }
    runs
}

/// Values of a run-length form, if there are exactly `expected`: runs come from a file and may claim anything.
pub fn from_runs(runs: &[(u32, u32)], expected: usize) -> Option<Vec<u32>> {
    let total: u64 = runs.iter().map(|(_, count)| u64::from(*count)).sum();
    if total != expected as u64 {
        return None;
    }
    Some(runs.iter().flat_map(|&(value, count)| std::iter::repeat_n(value, count as usize)).collect())
}
