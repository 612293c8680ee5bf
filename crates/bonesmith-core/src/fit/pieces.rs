//! Rigid pieces first: each has one bone, and its vertices no other. What is left is fitted by itself, with the bones that are left.
//!
//! `auto` gives every piece its bone. A target error is shared: pieces are merged as far as it allows for their own vertices, soft
//! vertices have the rest. Of a given number every piece has its bone where enough are left; else they are divided where they help
//! most. What merging pieces costs is known exactly (`cluster::pieces::merge`), what fewer bones cost the soft vertices is estimated
//! from rigid clusters of a sample. Where bones without pieces are estimated to do better, there are no pieces: eyes that move with
//! a soft head.

use std::sync::Arc;

use glam::DAffine3;

use super::goal::{Goal, LocalMiss, missed};
use super::still::Still;
use super::{Fit, Refined, first_bones, problem};
use crate::cluster::pieces::merge::{Step, merge};
use crate::cluster::pieces::{self, Piece, Pieces, SOFT};
use crate::mesh::sequence::{MIN_VERTICES, MeshSequence};
use crate::model::rig::{Bone, BoneKind, Clip, Rig};
use crate::model::weights::SparseWeights;
use crate::observer::{Cancelled, Stage};
use crate::skinning::finish;
use crate::skinning::limits::{self, Beyond};
use crate::skinning::motion::to_rows;
use crate::skinning::params::{AUTO_MAX_BONES, BoneCount, FitError, FitParams, Fitted, MAX_BONES, StopReason, Warning};
use crate::skinning::problem::Problem;
use crate::skinning::run::{Ending, Run};
use crate::skinning::unit::UnitSpace;
use crate::skinning::{pass, skin::Skin};

/// Vertices and frames of the sample that soft bones are estimated from, and the most clusters of it.
const SAMPLE: (usize, usize) = (600, 40);
const MAX_CLUSTERS: usize = 32;

/// With so many bones left, or a bone per 4 soft vertices, soft vertices take none from pieces.
const SOFT_BONES: usize = 8;

/// The error with pieces over that without them, at most, as estimated; and where soft vertices have few bones. The estimate is rough:
/// it does not include what blended weights save.
const WORTH: f64 = 1.05;
const WORTH_OF_FEW: f64 = 0.5;

/// E_RMS below which a rig of pieces alone counts as exact.
const EXACT: f64 = 1e-3;

/// A mesh of pieces and soft vertices.
pub(super) struct Parts {
    pieces: Pieces,
    /// Soft vertices, ascending.
    soft: Vec<u32>,
    division: Division,
}

/// What is fitted to the parts.
struct Division {
    /// How pieces are merged.
    steps: Vec<Step>,
    soft: BoneCount,
}

/// Soft bones and what came of them.
struct SoftRig {
    rig: Rig,
    stop: StopReason,
    squared_error: f64,
    /// A region that misses the goal, its vertex counted among the soft ones.
    local: Option<LocalMiss>,
}

impl Parts {
    /// The parts of a mesh where it has pieces, at least two, or one and something soft, and they are worth their bones.
    pub fn find(
        sequence: &MeshSequence,
        space: &UnitSpace,
        params: &FitParams,
        run: &mut Run<'_>,
    ) -> Result<Option<Self>, Cancelled> {
        let find = |run: &mut Run<'_>| pieces::find(sequence, space, params.bone_kind, &mut || run.report());
        let mut pieces = run.observed("pieces", find)?;
        let mut soft: Vec<u32> =
            (0..).zip(&pieces.labels).filter(|(_, label)| **label == SOFT).map(|(i, _)| i).collect();
        if pieces.pieces.is_empty() || (pieces.pieces.len() == 1 && soft.is_empty()) {
            return Ok(None);
        }
        if soft.len() < MIN_VERTICES {
            pieces.add_points(sequence, space, &std::mem::take(&mut soft));
        }
        let division = Division { steps: Vec::new(), soft: params.bones };
        let mut parts = Self { pieces, soft, division };
        let problem = Problem::streamed_in(sequence, space.clone());
        let division = parts.divide(&Input { sequence, problem: &problem, params }, run)?;
        Ok(division.map(|division| {
            parts.division = division;
            parts
        }))
    }

    /// Fits all parts.
    pub fn fit(
        self,
        sequence: &MeshSequence,
        space: &UnitSpace,
        params: &FitParams,
        mut run: Run<'_>,
    ) -> Result<Fitted, FitError> {
        run.prepared();
        let Self { pieces, soft, division } = self;
        let found = pieces.pieces.len();
        let pieces = match division.steps.is_empty() {
            true => pieces,
            false => pieces.merged(&division.steps, params.bone_kind),
        };
        let mut squared_error: f64 = pieces.pieces.iter().map(|piece| piece.squared_error).sum();
        let mut soft_rig = None;
        if !soft.is_empty() {
            let pick = |all: &Arc<Vec<f32>>| Arc::new(soft.iter().map(|&i| all[i as usize]).collect());
            let params = FitParams { importance: params.importance.as_ref().map(pick), ..params.clone() };
            let sequence = sequence.of_vertices(&soft);
            soft_rig = Some(fit_soft(&sequence, space.sphere.radius, &params, division.soft, &mut run)?);
        }
        squared_error += soft_rig.as_ref().map_or(0.0, |soft| soft.squared_error);
        let numbers = (3 * sequence.vertex_count() * sequence.frame_count()) as f64;
        let reached = 1000.0 * (squared_error / numbers).sqrt();
        let stop = match &soft_rig {
            Some(soft) => soft.stop,
            None if reached < EXACT => StopReason::Exact,
            None => StopReason::Converged,
        };
        let count = pieces.pieces.len();
        let shaded = params.shading > 0.0 && soft_rig.is_some();
        let local = soft_rig.as_ref().and_then(|of| of.local).map(|of| (of, soft[of.vertex] as usize));
        let mut rig = assembled(sequence, space, params, pieces, soft_rig.map(|of| (of.rig, soft)));
        if shaded {
            run.timed("normals", || finish::shade(&mut rig, sequence, None));
        }
        let mut warnings: Vec<Warning> = warning(params.bones, reached, rig.bone_count(), found).into_iter().collect();
        warnings.extend(local.map(|(miss, vertex)| miss.warning(vertex, rig.bone_count())));
        if params.bone_kind == BoneKind::Affine {
            let beyond = Some(limits::beyond_of_rig(&rig)).filter(|beyond| beyond.bones > 0);
            warnings.extend(beyond.map(|Beyond { bones, frames }| Warning::Mirrored { bones, frames }));
        }
        let jitter_ratio = finish::jitter_ratio_of_rig(sequence, &rig);
        let mut info = run.finish(Ending { stop, iterations: None, warnings, jitter_ratio });
        info.pieces = count;
        Ok(Fitted { rig, info })
    }

    /// Which pieces are merged, and how many bones soft vertices have; `None` where the bones are better spent without pieces.
    fn divide(&self, input: &Input<'_>, run: &mut Run<'_>) -> Result<Option<Division>, Cancelled> {
        let params = input.params;
        match params.bones {
            BoneCount::Auto => {
                let steps = self.merge(params, run, |groups, _| groups <= MAX_BONES - AUTO_MAX_BONES)?;
                Ok(Some(Division { steps, soft: BoneCount::Auto }))
            }
            BoneCount::TargetError(target) => Ok(Some(self.divide_error(target, params, run)?)),
            BoneCount::Exact(1) if !self.soft.is_empty() => Ok(None),
            BoneCount::Exact(bones) if !self.soft.is_empty() => self.divide_bones(bones, input, run),
            BoneCount::Exact(bones) => {
                let steps = self.merge(params, run, |groups, _| groups <= bones)?;
                Ok(Some(Division { steps, soft: params.bones }))
            }
        }
    }

    /// Merges pieces until `enough`.
    fn merge(
        &self,
        params: &FitParams,
        run: &mut Run<'_>,
        mut enough: impl FnMut(usize, f64) -> bool,
    ) -> Result<Vec<Step>, Cancelled> {
        if enough(self.pieces.pieces.len(), 0.0) {
            return Ok(Vec::new());
        }
        run.stage(Stage::MergingPieces, None)?;
        run.observed("merge", |run| merge(&self.pieces.pieces, params.bone_kind, enough, &mut || run.report()))
    }

    /// Divides an error: pieces may use what their vertices stand for, soft vertices the rest.
    fn divide_error(&self, target: f64, params: &FitParams, run: &mut Run<'_>) -> Result<Division, Cancelled> {
        let frames = self.pieces.pieces[0].body.frames.len();
        let squares = |vertices: usize| (target / 1000.0).powi(2) * (3 * vertices * frames) as f64;
        let own: f64 = self.pieces.pieces.iter().map(|piece| piece.squared_error).sum();
        let (soft, vertices) = (self.soft.len(), self.pieces.labels.len());
        let budget = squares(vertices - soft);
        let steps = self.merge(params, run, |groups, cost| groups <= 1 || own + cost > budget)?;
        let used = own + steps.last().map_or(0.0, |step| step.cost);
        let left = (squares(vertices) - used).max(0.0) / squares(soft.max(1));
        Ok(Division { steps, soft: BoneCount::TargetError(target * left.sqrt().max(1e-3)) })
    }

    /// Divides bones so that the sum of the errors is estimated to be least; `None` if it is less without pieces.
    fn divide_bones(&self, bones: usize, input: &Input<'_>, run: &mut Run<'_>) -> Result<Option<Division>, Cancelled> {
        let count = self.pieces.pieces.len();
        let most = self.soft.len().min(MAX_BONES).min(bones - 1);
        let least = bones.saturating_sub(count).clamp(1, most);
        let enough = least >= SOFT_BONES.min(self.soft.len().div_ceil(4));
        let (most, worth) = if enough { (least, WORTH) } else { (most, WORTH_OF_FEW) };
        let curve = Curve::new(input, &self.soft, most, run)?;
        // More than all of the soft error is never saved.
        let (limit, fewest, must) = (curve.at(least), bones - most, bones - least);
        let enough = |groups: usize, cost: f64| groups <= fewest || (groups <= must && cost > limit);
        let steps = self.merge(input.params, run, enough)?;
        let cost = |soft: usize| match count.saturating_sub(bones - soft) {
            0 => Some(0.0),
            merged => steps.get(merged - 1).map(|step| step.cost),
        };
        let total = |soft: usize| Some((cost(soft)? + curve.at(soft), soft));
        let best = (least..=most).filter_map(total).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((error, soft)) = best else { return Ok(None) };
        let all: Vec<u32> = (0..self.pieces.labels.len() as u32).collect();
        if error > worth * Curve::new(input, &all, bones, run)?.at(bones) {
            return Ok(None);
        }
        let merged = count.saturating_sub(bones - soft).min(steps.len());
        Ok(Some(Division { steps: steps[..merged].to_vec(), soft: BoneCount::Exact(soft) }))
    }
}

/// What is to be fitted.
struct Input<'a> {
    sequence: &'a MeshSequence,
    /// All of it.
    problem: &'a Problem,
    params: &'a FitParams,
}

/// What should be known about a rig with pieces, of which `found` were found.
fn warning(bones: BoneCount, reached: f64, used: usize, found: usize) -> Option<Warning> {
    match bones {
        BoneCount::Exact(asked) if used < asked => Some(Warning::FewerBones { requested: asked, pieces: found, used }),
        _ => missed(bones, reached, used),
    }
}

/// Fits the soft vertices as a mesh of their own, in a unit of their own; `unit` is the radius that errors are counted in.
fn fit_soft(
    sequence: &MeshSequence,
    unit: f64,
    params: &FitParams,
    bones: BoneCount,
    run: &mut Run<'_>,
) -> Result<SoftRig, FitError> {
    let problem = problem(sequence, UnitSpace::new(sequence), params)?;
    let factor = unit / problem.space.sphere.radius;
    let goal = Goal::new(bones, sequence.vertex_count()).scaled(factor);
    let still = Still::find(sequence, problem.space.sphere.radius, goal);
    let goal = still.as_ref().map_or(goal, |still| still.goal(goal));
    let fit = Fit::new(sequence, &problem, params, goal);
    let (state, Refined { stop, e_rms, local, .. }) = fit.bones(goal, run)?;
    let reached = still.as_ref().map_or(e_rms, |still| still.e_rms(&problem, &state));
    let local = local.map(|of| LocalMiss { goal: of.goal / factor, reached: of.reached / factor, ..of });
    let squared_error = problem.squared_error(reached / factor);
    let mut rig = finish::rig(sequence, &problem, &state, String::new());
    if let Some(still) = still {
        still.hold(sequence, &mut rig);
    }
    Ok(SoftRig { rig, stop, squared_error, local })
}

/// Squared error of some vertices by their number of bones, estimated from rigid clusters of a sample.
struct Curve {
    /// (bones, squared error): 1, 2, 4...
    points: Vec<(f64, f64)>,
}

impl Curve {
    fn new(input: &Input<'_>, vertices: &[u32], most: usize, run: &mut Run<'_>) -> Result<Self, Cancelled> {
        let spread = |all: usize, most: usize| (0..all as u32).step_by(all.div_ceil(most).max(1));
        let picked: Vec<u32> = spread(vertices.len(), SAMPLE.0).map(|at| vertices[at as usize]).collect();
        let frames: Vec<u32> = spread(input.sequence.frame_count(), SAMPLE.1).collect();
        let coarse = input.problem.subset(input.sequence, &picked, &frames);
        let factor = (vertices.len() * input.problem.length) as f64 / (picked.len() * coarse.length) as f64;
        let (mut points, mut count) = (Vec::new(), 1);
        while count <= most.min(MAX_CLUSTERS).min(coarse.vertices()) {
            let (motion, labels) = first_bones(&coarse, count, run)?;
            let skin = Skin::rigid(1, &labels, coarse.rest.clone());
            let error = factor * pass::gather(&coarse, &motion, &skin).squared_error;
            points.push((count as f64, error.max(1e-300)));
            count *= 2;
        }
        Ok(Self { points })
    }

    /// A power law between two points, and beyond the last two.
    fn at(&self, bones: usize) -> f64 {
        let bones = bones as f64;
        let after = self.points.iter().position(|point| point.0 >= bones).unwrap_or(self.points.len() - 1).max(1);
        match (self.points.get(after - 1), self.points.get(after)) {
            (Some(a), Some(b)) => {
                let slope = ((b.1 / a.1).ln() / (b.0 / a.0).ln()).min(0.0);
                a.1 * (bones / a.0).powf(slope)
            }
            (Some(a), None) => a.1,
            _ => 0.0,
        }
    }
}

/// One rig of soft bones and pieces, in this order.
fn assembled(
    sequence: &MeshSequence,
    space: &UnitSpace,
    params: &FitParams,
    pieces: Pieces,
    soft: Option<(Rig, Vec<u32>)>,
) -> Rig {
    let first = soft.as_ref().map_or(0, |(rig, _)| rig.bone_count());
    let slots = soft.as_ref().map_or(1, |(rig, _)| rig.weights.slots());
    let (bones, frames) = (first + pieces.pieces.len(), sequence.frame_count());
    let mut weights = SparseWeights::new(sequence.vertex_count(), slots);
    for (i, &label) in pieces.labels.iter().enumerate().filter(|(_, label)| **label != SOFT) {
        weights.set(i, &[(first + label as usize, 1.0)]);
    }
    let mut posed_from_rest = vec![DAffine3::IDENTITY; frames * bones];
    // A piece that is a point in some frames has scale 0 there.
    let hidden = pieces.pieces.iter().any(Piece::is_hidden);
    let mut rig = Rig {
        name: sequence.name().to_owned(),
        rest: pieces.rest.unwrap_or_else(|| sequence.rest().to_vec()),
        surface: sequence.surface().clone(),
        bones: Vec::with_capacity(bones),
        kind: if hidden { params.bone_kind.max(BoneKind::Trs) } else { params.bone_kind },
        clips: Vec::new(),
        params_json: String::new(),
        weights,
    };
    if let Some((soft, vertices)) = soft {
        for (at, &i) in vertices.iter().enumerate() {
            let row: Vec<(usize, f64)> = soft.weights.of(at).map(|(j, w)| (j, f64::from(w))).collect();
            rig.weights.set(i as usize, &row);
            rig.rest[i as usize] = soft.rest[at];
        }
        for t in 0..frames {
            posed_from_rest[t * bones..][..first].copy_from_slice(soft.clips[0].frame(t));
        }
        rig.bones = soft.bones;
    }
    let still = UnitSpace::fixed(space.sphere);
    let digits = pieces.pieces.len().to_string().len().max(4);
    for (at, piece) in pieces.pieces.into_iter().enumerate() {
        for (t, m) in piece.transforms().into_iter().enumerate() {
            posed_from_rest[t * bones + first + at] = still.model_transform(t, &to_rows(&m));
        }
        rig.bones.push(Bone {
            name: format!("piece_{:0digits$}", at + 1),
            parent: None,
            world_from_bind: DAffine3 { matrix3: piece.axes(), translation: space.model_point(piece.body.rest) },
            tip: None,
        });
    }
    let (name, times_secs) = (sequence.name().to_owned(), sequence.times_secs().to_vec());
    rig.clips.push(Clip { name, times_secs, posed_from_rest });
    rig
}
