//! What comes out: rigs and other representations of an animation.

pub mod basis;
pub mod corrective;
pub mod ddm;
pub mod multi_weights;
pub mod rig;
pub mod two_layer;
pub mod weights;
