//! Bones that move to suit the fewer weights.
//!
//! Affine bones have their best motion for fixed weights in one linear solve [Kavan2010 s.4.2]; it alternates with sweeps over the
//! weights. Other kinds alternate between exact weights and motion, then errors are smoothed once more.

use crate::mesh::{Adjacency, MeshSequence};
use crate::model::{BoneKind, Rig, Row};
use crate::observer::Stage;
use crate::reduce::smooth_residuals::SmoothResiduals;
use crate::reduce::{ReduceError, Reduction, with_rows};
use crate::skinning::alternation::{Alternation, Bones};
use crate::skinning::{BoneModel, FitParams, Poses, Problem, Run, Skin, bone_step, pass};

/// Rounds over motion and weights: of affine bones, and of others.
const AFFINE_ROUNDS: usize = 16;
const ROUNDS: usize = 12;
/// Rounds of other bones stop when one lowers the error by less than this share.
const TOLERANCE: f64 = 1e-3;

impl Reduction<'_> {
    /// The rig with at most K influences and the motion of its clips refitted, from the weights `rows` on.
    pub fn refit_motion(&mut self, mut rows: Vec<Row>, examples: Option<&MeshSequence>) -> Result<Rig, ReduceError> {
        let (rig, k) = (self.rig, self.k);
        let mut poses = Poses::whole(rig, examples)?;
        let with_motion = |rows: &[Row], poses: &Poses| Rig { clips: poses.clips(rig), ..with_rows(rig, rows, k) };
        if rig.kind != BoneKind::Affine {
            poses = self.alternate(&mut rows, poses)?;
            let moved = with_motion(&rows, &poses);
            let rows = self.bonesmith(&moved, poses)?;
            return Ok(with_rows(&moved, &rows, k));
        }
        let Self { params, info, stages, .. } = self;
        stages.begin(Stage::WeightsAndBones, Some(AFFINE_ROUNDS))?;
        for round in 0..AFFINE_ROUNDS {
            let moments = pass::gather(&poses.problem, &poses.motion, &skin(&poses.problem, &rows, k));
            let model = BoneModel::new(BoneKind::Affine, rig.bone_count(), 1);
            bone_step::update(&mut poses.motion, &moments, &model);
            let adjacency = Adjacency::new(&rig.surface.topology, rig.vertex_count());
            let residuals = SmoothResiduals::new(poses, adjacency, params.smooth, stages)?;
            stages.at(round, Some(residuals.e_rms(&rows)))?;
            residuals.sweep(&mut rows, k, 1, stages)?;
            poses = residuals.poses;
        }
        info.iterations += AFFINE_ROUNDS;
        Ok(with_motion(&rows, &poses))
    }

    /// Rigid and trs bones: weights and motion in turn.
    fn alternate(&mut self, rows: &mut [Row], Poses { problem, motion, frames }: Poses) -> Result<Poses, ReduceError> {
        let Self { rig, k, info, stages, .. } = self;
        let skin = skin(&problem, rows, *k);
        let axes = rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect();
        let parents = rig.bones.iter().map(|bone| bone.parent).collect();
        let bones = Bones::new(rig.kind, axes, vec![true; rig.bone_count()], parents);
        let mut fitting = Alternation::new(vec![problem], vec![Some(motion)], skin, bones, *k);
        let mut run = Run::new(&FitParams::default(), stages.observer());
        run.stage(Stage::WeightsAndMotion, Some(ROUNDS))?;
        fitting.rounds(ROUNDS, TOLERANCE, &mut run)?;
        info.iterations += run.history.len();
        rows.iter_mut().enumerate().for_each(|(i, row)| *row = fitting.skin.of(i).collect());
        Ok(Poses { problem: fitting.problems.remove(0), motion: fitting.motions.remove(0), frames })
    }
}

fn skin(problem: &Problem, rows: &[Row], k: usize) -> Skin {
    let mut skin = Skin::empty(k, problem.rest.clone());
    rows.iter().enumerate().for_each(|(i, row)| skin.set(i, row.iter().copied()));
    skin
}
