//! Alembic caches in Ogawa containers.
//!
//! Alembic has a C++ library and no Rust crate that reads animated data right; what of it a mesh animation needs is
//! small and is here. Layout and what is read: docs/formats/alembic.md.
//!
//! | ours | Alembic |
//! |---|---|
//! | frames, in world space | `P` of polygon meshes and subdivision meshes, through the transforms above them |
//! | times | those of `P` and of transforms that move; in between, neighbours are mixed |
//! | faces, counterclockwise | `.faceCounts`, `.faceIndices`, clockwise |
//! | texture coordinates, normals, colours | `uv`, `N`, `.arbGeomParams` of the first sample |
//! | materials | face sets, by name |

mod archive;
mod mesh;
mod murmur;
mod ogawa;
mod read;
mod write;
mod xform;

pub use read::{list_meshes, load};
pub use write::save_sequence;
