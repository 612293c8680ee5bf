//! CPU evaluators: what a run time would show for a rig in one frame.

mod lbs;
mod two_layer;

pub use lbs::{lbs, lbs_into};
pub use two_layer::{two_layer, two_layer_into};
