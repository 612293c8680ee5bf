//! CPU evaluators: what a run time would show for a rig in one frame.

mod basis;
mod corrective;
mod ddm;
mod ddm_reference;
mod lbs;
mod two_layer;

pub use ddm::{DdmDeformer, ddm, lbs_f32_into};
pub use ddm_reference::{Posed, evaluate as ddm_f64, evaluate_with_normals as ddm_with_normals_f64};
pub(crate) use lbs::lbs_vertex;
pub use lbs::{lbs, lbs_into, lbs_with_normals};
pub use two_layer::{two_layer, two_layer_into};
