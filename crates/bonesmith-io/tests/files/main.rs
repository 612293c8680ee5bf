//! Files as people have them: Alembic, FBX, made by other programs, against their truth.

#[path = "../common/mod.rs"]
mod common;

mod alembic;
mod fbx;
mod fbx_out;
mod judges;
mod truth;

#[path = "../gltf/rigs.rs"]
mod rigs;
