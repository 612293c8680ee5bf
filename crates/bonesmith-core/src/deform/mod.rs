//! Poses of models on the CPU: what a run time shows in one frame.

mod ddm;
mod ddm_reference;
mod lbs;
mod model;
mod shading;

use glam::{DMat3, DVec3, Vec3};

pub use ddm::{DdmDeformer, ddm, lbs_f32_into};
pub use ddm_reference::{Posed, evaluate as ddm_f64, evaluate_with_normals as ddm_with_normals_f64};
pub(crate) use lbs::lbs_vertex;
pub use lbs::{lbs, lbs_into, lbs_with_normals, two_layer, two_layer_into};
pub use model::{Poser, posed};
pub(crate) use shading::solve_rest_normals_from;
pub use shading::{NormalRule, blended_matrix, solve_rest_normals, solve_rest_tangents};

/// Unit normal of a surface that `m` deforms, by the cofactors: the transposed inverse without its division. Zero where
/// the matrix leaves no direction.
fn posed_normal(m: DMat3, normal: DVec3) -> Vec3 {
    let [x, y, z] = [m.x_axis, m.y_axis, m.z_axis];
    let posed = DMat3::from_cols(y.cross(z), z.cross(x), x.cross(y)) * normal;
    posed.try_normalize().unwrap_or(DVec3::ZERO).as_vec3()
}
