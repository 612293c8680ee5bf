//! CPU evaluators: what a run time would show for a rig in one frame.

mod lbs;

pub use lbs::{lbs, lbs_into};
