//! USD in and out: round trips, real files, files of other writers, broken files, and files for the outside judges.

#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod hostile;
mod judges;
mod real;
#[path = "../gltf/rigs.rs"]
mod rigs;
mod round_trip;
