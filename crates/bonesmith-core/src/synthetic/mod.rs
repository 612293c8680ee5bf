//! Animations and rigs made by arithmetic alone: the demo, and sequences for tests that need no files.
//!
//! * [`clownfish`]: a swimming fish worth looking at, with soft parts; the demo.
//! * [`posed_rig`]: a known rig and the animation it makes, for recovery tests.
//! * [`jointed_body`]: a known skeleton, for tests of skeletons.
//! * [`awkward`]: small meshes with the oddities that real files have.

pub mod awkward;
mod fish;
mod jointed;
mod mesh;
mod posed_rig;
pub(crate) mod random;

pub use fish::{FISH_FRAMES, clownfish};
pub use jointed::jointed_body;
pub use posed_rig::{PosedRig, PosedRigParams, posed_rig};
