//! glTF 2.0, as `.glb` or as `.gltf` with a `.bin` beside it.
//!
//! Both directions use `gltf-json` for the schema only. Bytes are read and written here, so that every bound is
//! checked in one place (`read::accessor`) and files that need quantisation open like any other.
//!
//! | ours | glTF |
//! |---|---|
//! | rest pose | POSITION, in the space that the inverse bind matrices expect |
//! | `world_from_bind` | inverse of the inverse bind matrix, and rest transform of the joint's node |
//! | `posed_from_rest` | world transform of the joint's node x inverse bind matrix |
//! | texture coordinates, origin lower left | origin upper left: v turned into 1 - v |
//! | polygons | triangles (fans), with the polygons' sizes in extras |

mod bytes;
mod container;
mod extras;
pub(crate) mod meshopt;
mod read;
mod write;

/// Ending of the name of a node that marks where a leaf bone ends.
const TIP: &str = "_tip";

pub use bytes::{by_part, is_compressed};
pub use read::{StoredSkins, StoredWeights, list_meshes, load, load_face, load_sequence, stored_skins};
pub use write::{
    LodMesh, MAX_INFLUENCES, save_corrective, save_ddm, save_lods, save_pieces, save_rig, save_sequence,
    save_shape_bones, save_skins, save_two_layer,
};
