//! Files in and out: one module per format, detected from the content first, then from the extension.
//!
//! Readers return checked models or unchecked `RawSequence`s ([`load_model`]). Writers write to a temporary file beside
//! the target and rename it ([`save_model`]). What is not preserved is reported as a warning ([`with_warnings`]).

mod alembic;
mod atomic;
mod carried;
mod classes;
mod clips;
mod compact;
mod curves;
mod detect;
mod error;
mod faces;
mod fbx;
mod formats;
mod gltf;
mod inputs;
mod instances;
mod joints;
mod load;
mod mask;
mod merge;
mod mesh;
mod npz;
mod obj;
mod objects;
mod opens;
mod origin;
mod others;
mod parts;
mod picture;
mod pieces;
mod ply;
mod pointcache;
mod save;
mod scratch;
mod shapes;
mod sink;
mod skinned;
mod skins;
mod texture;
mod usd;
mod warning;
mod weights;

pub use atomic::{Transaction, place_of, remove_tagged, remove_temporaries, tag_temporaries, write as write_whole};
pub use bonesmith_core::BlendShape;
pub use clips::{ClipSource, clip_sources};
pub use compact::{Compact, CompactFile, Packing};
pub use curves::{Curves, load_curves};
pub use detect::{Format, detect};
pub use error::IoError;
pub use faces::{Between, RawFace, load_face};
pub use formats::{FORMATS, FormatInfo, Frames, Needs, markdown_table};
pub use gltf::{LodMesh, StoredSkins, StoredWeights, save_lods, stored_skins};
pub use gltf::{by_part as bytes_by_part, is_compressed};
pub use inputs::named_files;
pub use load::{
    Inspection, LoadOptions, MeshEntry, inspect, list_meshes, load_ddm_maps, load_model, load_model_with, load_ranges,
    load_rest, load_rig, load_rig_normalised, load_rigged, load_sequence,
};
pub use mask::{load_mask, surface_mask};
pub use objects::{PartInput, load_parts};
pub use opens::{file_bytes, files_of, files_opened};
pub use others::{only_meshes, with_others};
pub use picture::save as save_picture;
pub use pieces::piece_order;
pub use save::{check_compact, save_compact, save_model, save_pieces, save_rig, save_sequence, save_skins};
pub use sink::{Beyond, bytes_text, limit_positions};
pub use skinned::kind_of;
pub use warning::{Warning, with_warnings};
pub use weights::{BadWeights, weights_of_rows, weights_of_tables};
