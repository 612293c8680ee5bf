//! The joints of a rig in another body of the same mesh.

use glam::{DAffine3, DMat3, DVec3, Vec3};

use crate::model::Rig;
use crate::skinning::alternation::parents_first;
use crate::solve::transform::nearest_rotation;

/// Minimum squared weight of the vertices that determine a joint.
const ENOUGH: f64 = 0.5;

/// [B] places and orientations of the joints when the rest pose is `rest` instead of the rig's own.
///
/// A joint moves, rotates and changes its distance with the vertices around it: those that it shares with its parent
/// where there are enough, else its own. A bone without vertices moves with its parent.
///
/// # Panics
/// If `rest` is not of the same mesh.
pub fn transferred_binds(rig: &Rig, rest: &[Vec3]) -> Vec<DAffine3> {
    assert_eq!(rest.len(), rig.rest.len(), "the same mesh");
    let parents: Vec<Option<usize>> = rig.bones.iter().map(|bone| bone.parent).collect();
    let mut of_bone: Vec<Vec<(usize, f64)>> = vec![Vec::new(); rig.bone_count()];
    for i in 0..rig.vertex_count() {
        rig.weights.of(i).for_each(|(j, w)| of_bone[j].push((i, f64::from(w))));
    }
    let whole: Vec<(usize, f64)> = (0..rest.len()).map(|i| (i, 1.0)).collect();
    let mut moves = vec![similarity(&rig.rest, rest, &whole); rig.bone_count()];
    for j in parents_first(&parents) {
        let shared: Vec<(usize, f64)> = parents[j].map_or_else(Vec::new, |p| {
            let with_parent = |&(i, w): &(usize, f64)| {
                let parent = rig.weights.of(i).find(|(k, _)| *k == p)?;
                Some((i, w * f64::from(parent.1)))
            };
            of_bone[j].iter().filter_map(with_parent).collect()
        });
        let mass = |vertices: &[(usize, f64)]| vertices.iter().map(|(_, w)| w * w).sum::<f64>();
        let own = (mass(&of_bone[j]) >= ENOUGH).then(|| similarity(&rig.rest, rest, &of_bone[j]));
        moves[j] = match (own, parents[j]) {
            // Shared vertices often lie in a ring: enough for a position, not for a rotation.
            (Some(own), _) if mass(&shared) >= ENOUGH => carried(own, &rig.rest, rest, &shared),
            (Some(own), _) => own,
            (None, Some(p)) => moves[p],
            (None, None) => moves[j],
        };
    }
    rig.bones.iter().zip(&moves).map(|(bone, m)| m.place(&bone.world_from_bind)).collect()
}

/// `p -> to + scale * turn * (p - from)`.
#[derive(Clone, Copy)]
struct Similarity {
    turn: DMat3,
    scale: f64,
    from: DVec3,
    to: DVec3,
}

impl Similarity {
    /// Joints stay rigid: the scale changes only their position.
    fn place(&self, bind: &DAffine3) -> DAffine3 {
        let translation = self.to + self.scale * (self.turn * (bind.translation - self.from));
        DAffine3 { matrix3: self.turn * bind.matrix3, translation }
    }
}

/// Weighted means of two poses.
fn centers(a: &[Vec3], b: &[Vec3], vertices: &[(usize, f64)]) -> (DVec3, DVec3) {
    let total: f64 = vertices.iter().map(|(_, w)| w).sum();
    let mean = |p: &[Vec3]| vertices.iter().map(|&(i, w)| p[i].as_dvec3() * w).sum::<DVec3>() / total.max(1e-300);
    (mean(a), mean(b))
}

/// The best scale, turn and shift from one pose to another, counted by weight.
fn similarity(a: &[Vec3], b: &[Vec3], vertices: &[(usize, f64)]) -> Similarity {
    let (from, to) = centers(a, b, vertices);
    let (mut covariance, mut squared) = (DMat3::ZERO, 0.0);
    for &(i, w) in vertices {
        let (p, q) = (a[i].as_dvec3() - from, b[i].as_dvec3() - to);
        covariance += DMat3::from_cols(q * p.x, q * p.y, q * p.z) * w;
        squared += w * p.length_squared();
    }
    let turn = nearest_rotation(&covariance);
    let along = turn.transpose() * covariance;
    let trace = along.x_axis.x + along.y_axis.y + along.z_axis.z;
    let scale = if squared > 0.0 { (trace / squared).max(0.0) } else { 1.0 };
    Similarity { turn, scale: if scale > 0.0 { scale } else { 1.0 }, from, to }
}

/// The same turn and scale about other vertices.
fn carried(like: Similarity, a: &[Vec3], b: &[Vec3], vertices: &[(usize, f64)]) -> Similarity {
    let (from, to) = centers(a, b, vertices);
    Similarity { from, to, ..like }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use glam::DQuat;

    #[test]
    fn joints_go_with_a_body_that_is_moved_turned_and_scaled() {
        let mut rig = posed_rig(2, &PosedRigParams::default()).rig;
        (1..rig.bones.len()).for_each(|j| rig.bones[j].parent = Some(j - 1));
        let turn = DQuat::from_rotation_y(0.4);
        let body = DAffine3::from_scale_rotation_translation(DVec3::splat(1.7), turn, DVec3::new(3.0, -1.0, 0.5));
        let rest: Vec<Vec3> = rig.rest.iter().map(|p| body.transform_point3(p.as_dvec3()).as_vec3()).collect();
        for (bone, bind) in rig.bones.iter().zip(transferred_binds(&rig, &rest)) {
            let place = body.transform_point3(bone.world_from_bind.translation);
            assert!(bind.translation.distance(place) < 1e-4, "{} {place}", bind.translation);
            assert!(bind.matrix3.abs_diff_eq(DMat3::from_quat(turn) * bone.world_from_bind.matrix3, 1e-5));
        }
        let same = transferred_binds(&rig, &rig.rest);
        assert!(rig.bones.iter().zip(same).all(|(bone, bind)| bind.abs_diff_eq(bone.world_from_bind, 1e-5)));
    }
}
