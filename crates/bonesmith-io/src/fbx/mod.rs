//! FBX 7.x, binary and ascii in, binary 7.4 out. What is read and written: docs/formats/fbx.md.
//!
//! Reading is ufbx's work (docs/decisions/090): nodes, curves and deformers are evaluated by it, in the file's own axes
//! and units. Files are bounded before and while they are read (`read::document`).
//!
//! | ours | FBX |
//! |---|---|
//! | rest pose | control points where the bind pose of the clusters shows them |
//! | `world_from_bind` | `TransformLink` of the cluster, without its scale |
//! | `posed_from_rest` | world transform of the bone x `Transform` of the cluster, to the rest pose |
//! | clips | animation stacks |
//! | `Space` | `UpAxis` and `UnitScaleFactor` of the settings |

mod read;
mod write;

/// Deepest nesting of nodes.
const MAX_DEPTH: u32 = 512;
/// Endings of the names of bones that only mark where their parent ends.
const TIPS: [&str; 4] = ["_tip", "_end", "_nub", "_effector"];
/// Ending of the name of the outer of two nodes that make one bone: a shear does not fit one.
const STRETCH: &str = "_stretch";
/// User property of a mesh's node in which our own files keep what FBX has no words for.
const EXTRAS: &str = "bonesmith";

pub use read::{list_meshes, load, load_face, load_sequence};
pub use write::{save_corrective, save_pieces, save_rig, save_sequence};
