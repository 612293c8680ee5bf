//! Models through files: each kind in each format, real files, known truths and published figures. One binary, because each links everything.

#[path = "../common/mod.rs"]
mod common;

mod ddm;
mod ddm_real;
mod formats;
mod given;
mod golden_fit;
mod golden_skeleton;
mod numpy;
mod published_figures;
mod real_data;
mod round_trip;
mod shape_bones;
mod shapes;
mod two_layer;
mod warnings;
