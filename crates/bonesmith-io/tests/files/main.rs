//! Files as people have them: Alembic, FBX, made by other programs, against their truth.

#[path = "../common/mod.rs"]
mod common;

mod alembic;
mod fbx;
mod truth;
