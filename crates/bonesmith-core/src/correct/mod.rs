//! Shapes that correct what bones cannot do.

mod eigenskin;
mod shaped;

pub use eigenskin::{EigenSkinError, MAX_RANK, eigenskin};
pub use shaped::{BlendShape, ShapeError, ShapedRig, evaluate};
