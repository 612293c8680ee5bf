//! USD: text (`.usda`), binary (`.usdc`) and archives (`.usdz`).
//!
//! | ours | USD |
//! |---|---|
//! | rest pose | points of the mesh, with the bind transform of the geometry |
//! | `world_from_bind` | `bindTransforms` of the skeleton |
//! | `posed_from_rest` | joint's transform in the skeleton x inverse bind transform |
//! | corner attributes | primvars, indexed, `faceVarying` |
//! | sequence | points with time samples |
//! | matrices on column vectors | on row vectors: rows are our columns |
//!
//! Both forms of a layer are read and written here, without a library: what can be had allocates whatever a file
//! claims (docs/decisions/100-own-usd.md).

mod blob;
mod extras;
pub(crate) mod half;
mod layer;
mod package;
mod read;
mod spline;
mod stage;
mod usda;
mod usdc;
mod write;

pub use read::{list_meshes, load, load_face, load_sequence};
pub use write::{save_pieces, save_rig, save_sequence};
