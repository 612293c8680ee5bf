//! Shapes that correct the residual of the bones.

mod eigenskin;
mod posed;
mod refine;
#[cfg(test)]
mod tests;

pub use eigenskin::{EigenSkinError, MAX_RANK, eigenskin};
pub use posed::posed_residual;
