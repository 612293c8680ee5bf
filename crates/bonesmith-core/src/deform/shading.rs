//! Normals as engines compute them, and the rest normals that make them right.
//!
//! An engine stores a normal `n` of the rest pose and multiplies it by the blended matrix `M_it = sum_j w_ij A_jt` of its vertex: `M n`
//! (three.js, most game code), or by the transposed inverse of `M` (UsdSkel). Neither sees that weights differ between the
//! vertices of a face, so the normal of the rest pose is not the best one to store. [`solve_rest_normals`] finds for each shading vertex
//!
//! ```text
//! min_n sum_t |m_t - M_t n|        m_t: true normal of frame t
//! ```
//!
//! by least squares, reweighted twice by the inverse distance [Weiszfeld1937]: a few frames that no normal fits do not decide.

use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::shading::ShadingVertices;
use crate::mesh::surface::CornerAttribute;
use crate::model::rig::Rig;
use crate::model::weights::SparseWeights;

/// Least-squares solves: plain, then reweighted.
const SOLVES: usize = 3;

/// Distances between unit normals below this weigh alike.
const NEAR: f64 = 0.05;

/// Share of the trace by which the normal of the rest pose counts: it decides where the frames do not.
const RIDGE: f64 = 1e-6;

/// Normals held at once.
const HELD: usize = 1 << 22;

/// How an engine deforms a stored normal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormalRule {
    /// `M n`, normalised.
    Matrix,
    /// `M^-T n`, normalised.
    InverseTranspose,
}

impl NormalRule {
    /// The deformed normal, not normalised.
    pub fn deform(self, m: &DMat3, n: DVec3) -> DVec3 {
        match self {
            Self::Matrix => *m * n,
            // The cofactors: no division, and a mirrored matrix turns the normal over as the inverse would.
            Self::InverseTranspose => {
                let cofactors =
                    DMat3::from_cols(m.y_axis.cross(m.z_axis), m.z_axis.cross(m.x_axis), m.x_axis.cross(m.y_axis));
                cofactors * n * m.determinant().signum()
            }
        }
    }
}

/// `M_i` of vertex `i` in a frame.
pub fn blended_matrix(weights: &SparseWeights, posed_from_rest: &[DAffine3], i: usize) -> DMat3 {
    weights.of(i).fold(DMat3::ZERO, |sum, (j, w)| sum + posed_from_rest[j].matrix3 * f64::from(w))
}

/// Rest normals for which the normals of `rig`'s clips come closest to those of the sequences, one sequence for each clip; `None` without
/// faces or frames.
pub fn solve_rest_normals(rig: &Rig, sequences: &[&MeshSequence]) -> Option<CornerAttribute<3>> {
    let shading = ShadingVertices::new(sequences.first()?.surface());
    if shading.count() == 0 {
        return None;
    }
    let own = sequences[0].surface().normals.as_ref();
    let sides = shading.sides(sequences[0].rest());
    let start: Vec<DVec3> = shading.rest_normals(&rig.rest).iter().map(|n| n.normalize_or_zero()).collect();
    let mut normals = start.clone();
    for solve in 0..SOLVES {
        let mut systems: Vec<System> = start.iter().map(|&n| System::new(n)).collect();
        for (clip, sequence) in rig.clips.iter().zip(sequences) {
            let frames: Vec<u32> = (0..sequence.frame_count().min(clip.frame_count()) as u32).collect();
            for block in frames.chunks((HELD / shading.count()).clamp(1, 16)) {
                let truth: Vec<Vec<Vec3>> =
                    block.par_iter().map(|&t| true_normals(&shading, &sides, sequence, t)).collect();
                let guess = (solve > 0).then_some(&normals);
                systems.par_iter_mut().enumerate().with_min_len(256).for_each(|(g, system)| {
                    let i = shading.vertices()[g] as usize;
                    for (&t, truth) in block.iter().zip(&truth) {
                        let m = blended_matrix(&rig.weights, clip.frame(t as usize), i);
                        system.add(&m, truth[g].as_dvec3(), guess.map(|normals| normals[g]));
                    }
                });
            }
        }
        normals.par_iter_mut().zip(systems).for_each(|(normal, system)| *normal = system.solved());
    }
    let values = normals.iter().map(|n| n.normalize_or(DVec3::Z).as_vec3().to_array()).collect();
    let name = own.map_or_else(|| "normals".to_owned(), |own| own.name.clone());
    Some(CornerAttribute { name, values, indices: shading.of_corner().to_vec() })
}

/// [G] unit normals of frame `t`; zero where there is none.
fn true_normals(shading: &ShadingVertices, sides: &[f64], sequence: &MeshSequence, t: u32) -> Vec<Vec3> {
    let mut normals = Vec::new();
    sequence.frames().read(&[t], 0..sequence.vertex_count(), &mut |_, positions| {
        let found = shading.normals(positions);
        normals = found.iter().zip(sides).map(|(n, side)| (n.normalize_or_zero() * *side).as_vec3()).collect();
    });
    normals
}

/// Normal equations of one rest normal.
struct System {
    matrix: DMat3,
    right: DVec3,
    start: DVec3,
}

impl System {
    fn new(start: DVec3) -> Self {
        Self { matrix: DMat3::ZERO, right: DVec3::ZERO, start }
    }

    fn add(&mut self, m: &DMat3, truth: DVec3, guess: Option<DVec3>) {
        if truth == DVec3::ZERO {
            return;
        }
        let weight = guess.map_or(1.0, |n| 1.0 / truth.distance(*m * n).max(NEAR));
        let transposed = m.transpose() * weight;
        self.matrix += transposed * *m;
        self.right += transposed * truth;
    }

    fn solved(&self) -> DVec3 {
        let trace = self.matrix.x_axis.x + self.matrix.y_axis.y + self.matrix.z_axis.z;
        if trace <= 0.0 || !trace.is_finite() {
            return self.start;
        }
        let ridge = RIDGE * trace;
        let solved =
            (self.matrix + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * (self.right + self.start * ridge);
        if solved.is_finite() { solved } else { self.start }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use std::sync::Arc;

    #[test]
    fn both_rules_turn_normals_of_a_rotation_and_differ_for_a_stretch() {
        let turn = DMat3::from_rotation_y(0.7);
        for rule in [NormalRule::Matrix, NormalRule::InverseTranspose] {
            assert!(rule.deform(&turn, DVec3::X).distance(turn * DVec3::X) < 1e-12);
        }
        let stretch = DMat3::from_diagonal(DVec3::new(2.0, 1.0, 1.0));
        let n = DVec3::new(1.0, 1.0, 0.0);
        assert_eq!(NormalRule::Matrix.deform(&stretch, n), DVec3::new(2.0, 1.0, 0.0));
        let inverse = stretch.inverse().transpose() * n;
        assert!(NormalRule::InverseTranspose.deform(&stretch, n).normalize().distance(inverse.normalize()) < 1e-12);
        let mirror = DMat3::from_diagonal(DVec3::new(-1.0, 1.0, 1.0));
        assert!(NormalRule::InverseTranspose.deform(&mirror, n).distance(DVec3::new(-1.0, 1.0, 0.0)) < 1e-12);
    }

    /// No other direction near a solved normal has a smaller sum of distances.
    #[test]
    fn solved_normals_are_the_best_nearby() {
        let made = posed_rig(11, &PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let mut rig = made.rig;
        let solved = solve_rest_normals(&rig, &[&sequence]).unwrap();
        let shading = ShadingVertices::new(sequence.surface());
        let cost = |g: usize, n: DVec3| -> f64 {
            let i = shading.vertices()[g] as usize;
            let one = |t: usize| {
                let m = blended_matrix(&rig.weights, rig.clips[0].frame(t), i);
                shading.normals(sequence.frame(t))[g].normalize().angle_between(m * n)
            };
            (0..sequence.frame_count()).map(one).sum()
        };
        let (mut before, mut after) = (0.0, 0.0);
        for g in (0..shading.count()).step_by(7) {
            let i = shading.vertices()[g] as usize;
            let corner = sequence.surface().topology.corners().iter().position(|&v| v as usize == i).unwrap();
            let n = Vec3::from_array(solved.values[solved.indices[corner] as usize]).as_dvec3();
            before += cost(g, shading.normals(&rig.rest)[g]);
            after += cost(g, n);
            for axis in [DVec3::X, DVec3::Y, DVec3::Z] {
                let other = DMat3::from_axis_angle(axis, 0.15) * n;
                assert!(cost(g, other) > 0.98 * cost(g, n), "shading vertex {g}");
            }
        }
        assert!(after < before, "{after} of {before}");
        Arc::make_mut(&mut rig.surface).normals = Some(solved);
        assert!(rig.check().is_ok());
    }
}
