//! CPU evaluators: what a run time would show for a rig in one frame.

mod ddm;
mod lbs;
mod two_layer;

pub use ddm::{DdmDeformer, ddm, lbs_f32_into};
pub use lbs::{lbs, lbs_into, lbs_with_normals};
pub use two_layer::{two_layer, two_layer_into};
