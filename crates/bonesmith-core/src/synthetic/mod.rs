//! Animations and rigs made by arithmetic alone: the demo, and sequences for tests that need no files.
//!
//! * [`clownfish`]: a swimming fish worth looking at, with soft parts; the demo.
//! * [`posed_rig`]: a known rig and the animation it makes, for recovery tests.
//! * [`jointed_body`]: a known skeleton, for tests of skeletons.
//! * [`body_with_hand`]: a known skeleton with a small, jointed hand.
//! * [`bar`]: a bar that bends and twists, for tests of deformers.
//! * [`pieces`]: a wall that breaks, rubble, a robot arm: parts that move rigidly.
//! * [`awkward`]: small meshes with the oddities that real files have.

pub mod awkward;
mod bar;
mod fish;
mod hand;
mod jointed;
mod mesh;
pub mod pieces;
mod posed_rig;

pub use bar::{BarParams, bar};
pub use fish::{FISH_FRAMES, clownfish};
pub use hand::body_with_hand;
pub use jointed::jointed_body;
pub use posed_rig::{PosedRig, PosedRigParams, posed_rig};
