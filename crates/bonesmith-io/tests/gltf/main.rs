//! glTF in and out: round trips, real files, broken files, and files for the outside judges.

#[path = "../common/mod.rs"]
mod common;
mod compact;
mod draco;
mod foreign;
mod hostile;
mod judges;
mod pieces;
mod real;
mod rigs;
mod round_trip;
mod skins;
