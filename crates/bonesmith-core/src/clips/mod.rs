//! What is done to the clips of a finished rig: the common motion of the model in one root bone ([`root_motion`], [`stand_still`]), and
//! clips that loop ([`close_loop`]).
//!
//! None of it reads the animation: poses come from the rig itself. A clip holds the transform of every bone from the rest
//! pose to the posed one in model space, so a root bone that moves no vertex changes no vertex.

mod root;
mod seam;

pub use root::{Root, RootMotion, root_motion, single_root, stand_still};
pub use seam::{Seam, close_loop, seam_error};
