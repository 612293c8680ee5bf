//! What a small file may leave out: steps of positions and weights, keys and steps of every curve, so that the *posed vertices* are within
//! a bound of the model's.
//!
//! A change of a node's transform dL moves vertex i by w_ij W dL v_i, where v_i is its place in the space of the joint and W the
//! transform of the node above. Summed over vertices that is the quadratic form tr(dL M dL^T) with the moment
//! M_j = sum_i w_ij^2 v_i v_i^T: the cost of a change in one frame is a handful of products, however many vertices there are. What two bones
//! do to one vertex is taken as independent; the result is posed and measured, and the bound is corrected by what is found.
//!
//! 1. **Tables** (`tables`): for each curve, the bytes and the cost of every choice of keys (each s-th frame; the best piecewise linear curve) and
//!    step; the same for the steps of positions and weights.
//! 2. **Choice**: the least of bytes + lambda cost, for each by itself; one lambda for all is found by bisection, so that the last byte
//!    spent anywhere buys the same error. On the lower hull of the choices that is what a greedy descent by error per byte arrives at.
//! 3. **Curves** (`realise`): parents first. A child is fitted relative to its parent *as stored*, so that errors do not add up along a chain.
//!
//! Free bones get parents and origins with which their curves are short before that (`tree`), joints numbers that are short to write (`numbering`).

pub mod curve;
pub mod keys;
mod lattice;
pub mod numbering;
pub mod order;
mod pass;
mod realise;
mod tables;
pub mod tree;
pub mod weights;

use bonesmith_core::Rig;
use bonesmith_core::deform::lbs;
use glam::{DAffine3, Vec3};

pub use self::realise::{Curve, Curves, Stored, rate};
pub use self::tables::Kind;
use self::tables::{Picked, Tables};
use self::weights::{Chooser, WholeRow};
use crate::gltf::meshopt::attributes::Version;
use crate::joints::Joints;

/// How small a file may become.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compact {
    /// Root mean square per coordinate, in model units, by which posed vertices may differ from the model's.
    pub rms: f64,
    /// Whether arrays are compressed, and as what.
    pub packing: Packing,
    /// Whether a compressed file names the model's vertices, whose order it changes.
    pub numbered: bool,
}

/// How the arrays of a small file are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Packing {
    /// Quantised only.
    Plain,
    /// Compressed: `EXT_meshopt_compression`.
    #[default]
    Ext,
    /// Compressed: `KHR_meshopt_compression`, which is shorter and which fewer readers have.
    Khr,
}

impl Packing {
    /// Version of the streams of attributes; `None` where nothing is compressed.
    pub fn version(self) -> Option<Version> {
        match self {
            Self::Plain => None,
            Self::Ext => Some(Version::Zero),
            Self::Khr => Some(Version::One),
        }
    }
}

/// What became of a small file.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CompactFile {
    /// The model's vertex of each vertex of the file, where the file has them in another order and does not say in which.
    pub order: Option<Vec<u32>>,
    /// Share of the additional error, squared, of each part, as estimated.
    pub shares: Vec<(&'static str, f64)>,
}

/// Choices for one file.
pub struct Choice {
    /// Positions are multiples of 2 to this; `None`: float32.
    pub positions: Option<i32>,
    /// The sum of whole weights of most vertices.
    pub weight_one: u32,
    /// [N].
    pub weights: Vec<WholeRow>,
    /// [N] rest pose that goes with them.
    pub rest: Vec<Vec3>,
    /// Whether arrays are compressed, and as what.
    pub packing: Packing,
    /// All channels.
    pub curves: Curves,
    /// Root mean square that was found, in model units.
    pub reached: f64,
    /// Share of the squared error of each part.
    pub shares: Vec<(&'static str, f64)>,
}

/// Frames in which a choice is posed and measured.
const MAX_POSED: usize = 240;
/// Times that the bound is corrected; twice as often where nothing was within it.
const CORRECTIONS: usize = 6;

/// Chooses for a rig whose bones are these nodes and whose vertices are written in this order.
pub fn choose(rig: &Rig, plan: &Joints, order: &[u32], compact: &Compact) -> Choice {
    let chooser = Chooser::new(rig, order, compact);
    let mut tables = Tables::new(rig, plan, order, compact, &chooser);
    within(rig, plan, &mut tables, compact)
        .unwrap_or_else(|| made(rig, plan, &tables, &tables.pick(0.0, None), compact, true))
}

/// The smallest choice within the bound.
fn within(rig: &Rig, plan: &Joints, tables: &mut Tables, compact: &Compact) -> Option<Choice> {
    let (mut goal, mut best) = (compact.rms, None::<(Choice, Picked)>);
    // Once the steps of the weights below and above the bound are known, those below it stay.
    let mut sum = None;
    for turn in 0..2 * CORRECTIONS {
        if turn >= CORRECTIONS && best.is_some() {
            break;
        }
        let picked = tables.refined(goal, sum);
        let choice = made(rig, plan, tables, &picked, compact, false);
        let ratio = choice.reached / compact.rms;
        if ratio > 1.0 {
            sum = sum.or(best.as_ref().map(|(best, _)| best.weight_one));
        } else {
            if best.as_ref().is_none_or(|(_, best)| picked.bytes < best.bytes) {
                best = Some((choice, picked));
            }
            if ratio > 0.95 {
                break;
            }
        }
        // Aims a little below the bound; where the estimate is far from what is found, farther.
        let aim = if best.is_none() && turn > 1 { 0.6 } else { 0.98 };
        goal *= (aim / ratio.max(1e-3)).clamp(0.05, 4.0);
    }
    best.map(|(choice, _)| choice)
}

fn made(rig: &Rig, plan: &Joints, tables: &Tables, picked: &Picked, compact: &Compact, finest: bool) -> Choice {
    let weights = tables.weights_of(picked);
    let mut choice = Choice {
        positions: (compact.packing != Packing::Plain && !finest).then_some(picked.positions.level),
        weight_one: weights.one,
        weights: weights.rows.clone(),
        rest: weights.rest.clone(),
        packing: compact.packing,
        curves: realise::realise(rig, plan, tables, picked, compact.packing != Packing::Plain),
        reached: 0.0,
        shares: tables.shares(picked),
    };
    choice.reached = posed_rms(rig, plan, &choice);
    choice
}

/// Root mean square per coordinate between the rig and what is stored of it, in frames spread over all clips.
fn posed_rms(rig: &Rig, plan: &Joints, choice: &Choice) -> f64 {
    let rest: Vec<Vec3> = match choice.positions {
        Some(e) => choice.rest.iter().map(|p| rounded(*p, e)).collect(),
        None => choice.rest.clone(),
    };
    let weights = weights::stored(&rig.weights, &choice.weights);
    let frames: usize = rig.clips.iter().map(|clip| clip.frame_count()).sum();
    let step = frames.div_ceil(MAX_POSED).max(1);
    let (mut sum, mut count) = (0.0, 0usize);
    let squares =
        |a: &[Vec3], b: &[Vec3]| -> f64 { a.iter().zip(b).map(|(a, b)| f64::from((*a - *b).length_squared())).sum() };
    for (c, clip) in rig.clips.iter().enumerate() {
        for t in (0..clip.frame_count()).step_by(step) {
            let stored = choice.curves.pose(plan, c, t);
            sum += squares(&lbs(&rest, &weights, &stored), &lbs(&rig.rest, &rig.weights, clip.frame(t)));
            count += 3 * rest.len();
        }
    }
    if count == 0 {
        sum = squares(&rest, &rig.rest);
        count = 3 * rest.len();
    }
    (sum / count.max(1) as f64).sqrt()
}

/// The multiple of 2^e nearest to each coordinate.
pub fn rounded(p: Vec3, e: i32) -> Vec3 {
    let step = 2f64.powi(e);
    ((p.as_dvec3() / step).round() * step).as_vec3()
}

/// [B] posed_from_rest of nodes' transforms in the world.
fn posed_from_rest(plan: &Joints, worlds: &[DAffine3]) -> Vec<DAffine3> {
    let inverse = |m: &[f32; 16]| DAffine3::from_mat4(glam::DMat4::from_cols_array(&m.map(f64::from)));
    worlds.iter().zip(&plan.inverse_binds).map(|(world, m)| *world * inverse(m)).collect()
}
