//! Any linear model `v'_i = sum_j w_ij p_j(i)`: what reduction and compression of weights have in common.
//!
//! For a rig `p_j(i) = T_j u_i` [Course2014 eq. 32], for a cage `p_j = c_j`, the control point itself [Course2014
//! eq. 31]. A control point is a bone whose matrix has no linear part, so a cage is a rig here, and nothing else in
//! these modules knows the difference.
//!
//! | letter | meaning |
//! |---|---|
//! | `i` | vertex, of N |
//! | `j`, `k` | bone, of B |
//! | `t` | frame, of F; trajectories have L = 3 F numbers |
//! | `u_i` | homogeneous rest position |

pub(crate) mod metric;
mod poses;

pub(crate) use metric::Metric;
pub use poses::PoseError;
pub(crate) use poses::Poses;
