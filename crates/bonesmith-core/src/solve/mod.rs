//! Small dense numerics that the solvers are made of.

// Loops over lanes, rows and columns are written with indices: that is the shape the compiler unrolls and vectorises.
#![allow(clippy::needless_range_loop)]

pub(crate) mod check;
pub(crate) mod conjugate;
pub(crate) mod definite;
pub(crate) mod kernels;
pub(crate) mod lanes;
pub(crate) mod ldl;
pub(crate) mod matrix;
pub(crate) mod nearest;
pub(crate) mod nnls;
pub(crate) mod polar;
pub(crate) mod polar32;
pub(crate) mod random;
pub(crate) mod simplex;
pub(crate) mod simplices;
pub(crate) mod sparse_spd;
pub mod transform;
