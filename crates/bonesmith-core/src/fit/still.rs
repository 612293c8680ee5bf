//! Vertices that do not move stay where they are: a pole with a flag on it, a plant's root, a neck below a face.
//!
//! A least-squares fit moves them a little with their neighbours, which is seen at once beside something that stands still. So where a part
//! of a mesh does not move in any frame, it has a bone that does not move either, and no other influence. Of a given number of bones it is one.
//! All other vertices stay as they were fitted.

use glam::DAffine3;

use super::goal::Goal;
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{Bone, Rig};
use crate::skinning::descent::State;
use crate::skinning::loss::Loss;
use crate::skinning::pass;
use crate::skinning::problem::Problem;

/// Vertices that move less than this do not move: the rounding of float32, as a share of the sphere's radius.
const TOLERANCE: f32 = 1e-6;

/// Fewest vertices that are worth a bone, and their least share of the mesh: a hundredth.
const MIN_VERTICES: usize = 3;
const MIN_SHARE: usize = 100;

/// Of fewer bones than this none is spent.
const MIN_BONES: usize = 4;

/// A part that does not move.
pub(super) struct Still {
    /// Its vertices, ascending.
    vertices: Vec<u32>,
}

impl Still {
    /// `None` where hardly anything stands still, where everything does, and where bones are few.
    pub fn find(sequence: &MeshSequence, radius: f64, goal: Goal) -> Option<Self> {
        if matches!(goal, Goal::Count(count) if count < MIN_BONES) {
            return None;
        }
        let (n, rest) = (sequence.vertex_count(), sequence.rest());
        let limit = (TOLERANCE * radius as f32).powi(2);
        let mut vertices: Vec<u32> = (0..n as u32).collect();
        let enough = |count: usize| count >= MIN_VERTICES && count * MIN_SHARE >= n;
        let source = sequence.frames();
        let frames: Vec<u32> = (0..sequence.frame_count() as u32).collect();
        for block in frames.chunks(source.frames_at_once()) {
            source.read(block, 0..n, &mut |_, positions| {
                vertices.retain(|&i| positions[i as usize].distance_squared(rest[i as usize]) <= limit);
            });
            if !enough(vertices.len()) {
                return None;
            }
        }
        (vertices.len() < n).then_some(Self { vertices })
    }

    /// What is left to fit.
    pub fn goal(&self, goal: Goal) -> Goal {
        match goal {
            Goal::Count(count) => Goal::Count(count - 1),
            error => error,
        }
    }

    /// E_RMS of a state whose vertices that do not move are exact, each vertex counted once.
    pub fn e_rms(&self, problem: &Problem, state: &State) -> f64 {
        let plain = problem.with_normals(None).with_loss(Loss::default());
        let mut moves = vec![true; problem.vertices()];
        self.vertices.iter().for_each(|&i| moves[i as usize] = false);
        let of_block = |first: usize, residuals: &[f32]| -> f64 {
            let rows = residuals.chunks_exact(problem.length).enumerate();
            let moving = rows.filter(|(at, _)| moves[first + at]);
            moving.map(|(_, row)| f64::from(row.iter().map(|r| r * r).sum::<f32>())).sum()
        };
        problem.e_rms(pass::survey(&plain, &state.motion, &state.skin, of_block).into_iter().sum())
    }

    /// Adds the bone that does not move, and gives it the vertices.
    pub fn hold(&self, sequence: &MeshSequence, rig: &mut Rig) {
        let (bone, rest) = (rig.bone_count(), sequence.rest());
        let sum: glam::DVec3 = self.vertices.iter().map(|&i| rest[i as usize].as_dvec3()).sum();
        let middle = sum / self.vertices.len() as f64;
        rig.bones.push(Bone {
            name: "still".to_owned(),
            parent: None,
            world_from_bind: DAffine3::from_translation(middle),
            tip: None,
        });
        for clip in &mut rig.clips {
            let frames = clip.posed_from_rest.chunks(bone.max(1));
            clip.posed_from_rest = frames.flat_map(|of| of.iter().copied().chain([DAffine3::IDENTITY])).collect();
        }
        for &i in &self.vertices {
            rig.weights.set(i as usize, &[(bone, 1.0)]);
            rig.rest[i as usize] = rest[i as usize];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{BoneCount, FitParams, fit};
    use crate::mesh::sequence::RawSequence;
    use crate::observer::Silent;
    use crate::synthetic::{PosedRigParams, posed_rig};
    use glam::Vec3;

    /// An animation whose lower half does not move.
    fn planted() -> MeshSequence {
        let mut raw: RawSequence = posed_rig(4, &PosedRigParams::default()).sequence;
        let rest = raw.frames[0].positions.clone();
        let (low, high) = rest.iter().fold((f32::MAX, f32::MIN), |(a, b), p| (a.min(p.y), b.max(p.y)));
        let share = |p: &Vec3| ((p.y - low) / (high - low) - 0.5).max(0.0);
        for frame in &mut raw.frames {
            frame.positions.iter_mut().zip(&rest).for_each(|(p, r)| *p = *r + (*p - *r) * share(r));
        }
        raw.rest = Some(raw.frames[0].clone());
        MeshSequence::try_from(raw).unwrap()
    }

    #[test]
    fn what_does_not_move_stays_to_the_bit() {
        let sequence = planted();
        let is_still = |i: usize| (0..sequence.frame_count()).all(|t| sequence.frame(t)[i] == sequence.rest()[i]);
        let still: Vec<usize> = (0..sequence.vertex_count()).filter(|&i| is_still(i)).collect();
        assert!(still.len() > 20);
        let params = FitParams { bones: BoneCount::Exact(7), ..FitParams::default() };
        let rig = fit(&sequence, &params, &mut Silent).unwrap().rig;
        assert!(rig.check().is_ok());
        assert_eq!((rig.bone_count(), rig.bones[6].name.as_str()), (7, "still"));
        for &i in &still {
            assert_eq!(rig.rest[i], sequence.rest()[i], "vertex {i}");
            assert_eq!(rig.weights.of(i).collect::<Vec<_>>(), [(6, 1.0)], "vertex {i}");
        }
        assert!(rig.clips[0].posed_from_rest.chunks(7).all(|frame| frame[6] == DAffine3::IDENTITY));
        let moving = (0..sequence.vertex_count()).filter(|i| !still.contains(i));
        assert!(moving.clone().count() > 20 && moving.clone().all(|i| rig.weights.of(i).all(|(j, _)| j != 6)));
    }

    #[test]
    fn few_bones_and_meshes_that_move_have_none() {
        let sequence = planted();
        assert!(Still::find(&sequence, 1.0, Goal::Count(3)).is_none());
        let moving = MeshSequence::try_from(posed_rig(4, &PosedRigParams::default()).sequence).unwrap();
        assert!(Still::find(&moving, 1.0, Goal::Count(9)).is_none());
        let mut raw = posed_rig(4, &PosedRigParams::default()).sequence;
        let first = raw.frames[0].clone();
        raw.frames.iter_mut().for_each(|frame| *frame = first.clone());
        raw.rest = None;
        let all = MeshSequence::try_from(raw).unwrap();
        assert!(Still::find(&all, 1.0, Goal::Count(9)).is_none());
    }
}
