//! Machines: a mesh of nothing but rigid pieces with joints between them. Its pieces are the bones, and every vertex has one.

use crate::cluster::pieces::{self, Piece};
use crate::cluster::split;
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Stage};
use crate::skeleton::descend::SkeletonDescent;
use crate::skeleton::graph::Gap;
use crate::skeleton::multipass::joined;
use crate::skeleton::{Input, Skeleton, SkeletonInfo, bounds};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::params::StopReason;
use crate::skinning::run::Run;
use crate::skinning::search::SWEEPS;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;

/// E_RMS up to which joints between pieces hold.
const HOLDS: f64 = 0.1;

/// Rounds over joints and rotations.
const ROUNDS: usize = 4;

/// The skeleton whose bones are the pieces of the mesh, at most `max_bones`, if joints between them hold.
pub(super) fn links(input: &Input<'_>, max_bones: usize, run: &mut Run<'_>) -> Result<Option<Skeleton>, Cancelled> {
    let problem = input.problem;
    let find = |run: &mut Run<'_>| pieces::find(input.sequence, &problem.space, BoneKind::Rigid, &mut || run.report());
    let found = run.observed("pieces", find)?;
    let bones = found.pieces.len();
    let hidden = found.rest.is_some() || found.pieces.iter().any(Piece::is_hidden);
    if !(2..=max_bones).contains(&bones) || found.labels.contains(&pieces::SOFT) || hidden {
        return Ok(None);
    }
    run.stage(Stage::Links, Some(ROUNDS))?;
    let mut labels: Vec<u16> = found.labels.iter().map(|&label| label as u16).collect();
    let mut motion = Motion::identity(bones, problem.frames());
    split::refit(problem, &mut motion, &mut labels, 0, &mut || run.report())?;
    let model = BoneModel::new(BoneKind::Rigid, bones, SWEEPS);
    let state = State { motion, skin: Skin::rigid(1, &labels, problem.rest.clone()), model };
    let mut body = joined(problem, state, Gap::Stiffness, run)?;
    let local = VertexParams { slots: 1, newcomers: 0, min_gain: 0.0, move_rest: false, rounds: 0 };
    let mut descent = SkeletonDescent::new(problem, local, None);
    descent.rounds(&mut body, ROUNDS, run)?;
    bounds::draw_in(&mut descent, &mut body, run)?;
    let holds = descent.e_rms() <= HOLDS;
    Ok(holds.then(|| Skeleton { body, info: SkeletonInfo::new(bones), stop: StopReason::Converged }))
}
