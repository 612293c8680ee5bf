//! Every reader on files that the tests make themselves.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod caches;
mod foreign_npz;
mod hostile;
mod npy;
mod ply;
mod sequences;
