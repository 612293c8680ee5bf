//! Direct Delta Mush: the smooth skin of Delta Mush, evaluated directly from the bones [LeLewis2019], and its
//! compression into a small model of the same kind below a sparse linear one [Le2021].
//!
//! With rest points `u_k` (homogeneous), scalar weights `w_kj`, and the smoothing `B = (I + lambda L)^-p`:
//!
//! | paper | meaning | here |
//! |---|---|---|
//! | `Psi_ij = sum_k b_ik w_kj u_k u_k^T` | moments of bone j around vertex i | `precompute` |
//! | `p_i = sum_k b_ik u_k` | smoothed rest position, the centre of rotation | [`MultiWeights::centre`] |
//! | `w'_ij` | weights after the weaker smoothing with kappa | `precompute` |
//! | `Omega_ij = (1 - alpha) Psi_ij + alpha w'_ij [p_i;1][p_i;1]^T` | multi-weight | [`MultiWeights`], centred |
//! | `Q_i, q_i` from `sum_j M_j Omega_ij` | | [`Posed`], `deform::ddm` |
//! | `R_i`, `t_i = q_i - R_i p_i` | rotation: polar factor of `Q_i - q_i p_i^T` | `deform::ddm` |
//! | `Delta_jk`, `a_ki` | multi-weights of virtual bones, weights on them | [`DdmRig::layer`], [`compress`] |
//!
//! Deviations. All multi-weights are stored about their own centre `p_i`, as [Le2021 s.5] does for virtual bones, and
//! everything about one origin in the model: float32 loses nothing to cancellation, wherever the model stands. Each
//! gets a small isotropic part (see `precompute`), so that rotations are defined for flat, straight and
//! lone vertices too. Negligible influences are dropped and their share given to the others.

mod bind;
pub mod compress;
mod delta_mush;
mod params;
mod precompute;
mod smooth;
#[cfg(test)]
mod tests;
mod weld;

pub use bind::rigid_bind;
pub use delta_mush::{DeltaMush, Frames};
pub use params::{DdmError, DdmMaps, DdmParams};
pub use precompute::precompute;
