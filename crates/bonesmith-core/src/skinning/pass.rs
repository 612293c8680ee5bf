//! Passes over all vertices, in blocks: new weights and rest positions, and the sums that the bones need.
//!
//! Per block of vertices: residuals `r = v - pred` in float32 (small numbers, so float32 is exact enough), one
//! matrix product of residuals with all bones, the vertex steps, then residuals again and their [`Moments`].
//!
//! Vertices are dealt to a fixed number of lanes that depends on sizes only, each lane is summed in order, and lanes
//! are added in order: the result does not depend on the number of threads.

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

use crate::skinning::device::{Cpu, Device, Terms};
use crate::skinning::guess::Guess;
use crate::skinning::moments::{Moments, SecondMoments};
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::{Skin, SkinRows, SkinView};
use crate::skinning::smooth::{Means, Smoothness};
use crate::skinning::vertex_step::{BatchView, Pull, VertexParams, VertexSolver, add_removal_costs, solve_vertices};
use crate::solve::kernels::Term;
use crate::solve::lanes::{LANES, Mat4};

/// Vertices whose residuals are held at once.
const BLOCK: usize = 64;

/// Numbers that one task adds up over all lanes.
const SUMMED: usize = 4096;

/// The moments of a skin that stays.
pub(crate) fn gather(problem: &Problem, motion: &Motion, skin: &Skin) -> Moments {
    let (n, per_lane) = (problem.vertices(), lane_size(problem, motion));
    let lane = |lane: usize| {
        let (mut block, mut sums) = (Block::new(problem, motion, skin.slots), Sums::new(problem, motion));
        for range in blocks(lane * per_lane..((lane + 1) * per_lane).min(n)) {
            let rows = skin.rows(range.clone());
            block.load(range);
            block.find_residuals(&rows);
            sums.add(&block, &rows);
        }
        sums
    };
    let lanes = (0..n.div_ceil(per_lane)).into_par_iter().map(lane).collect();
    summed(problem, motion, lanes)
}

/// One vertex step for all vertices, the bones fixed; the moments of the result. With `smoothness` weights are drawn towards those of
/// the neighbours.
pub(crate) fn solve(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    params: VertexParams,
    smoothness: Option<&Smoothness>,
) -> Moments {
    let (slots, per_lane) = (skin.slots, lane_size(problem, motion));
    let smooth = smoothness.map(|smoothness| (smoothness.strength, smoothness.means(skin)));
    // Made before the lanes start: they would otherwise wait for one of them.
    let (_, _) = (motion.pairs(), motion.rows32());
    let lane = |(lane, mut rows): (usize, SkinRows<'_>)| {
        let (mut block, mut sums) = (Block::new(problem, motion, slots), Sums::new(problem, motion));
        let mut solver = VertexSolver::new(params);
        let first = lane * per_lane;
        for range in blocks(first..first + rows.rest.len()) {
            let mut rows = rows.part(range.start - first..range.end - first);
            block.load(range.clone());
            block.find_residuals(&rows.view());
            block.project();
            for part in eights(range.len()) {
                let view = block.view(part.clone(), smooth.as_ref());
                solve_vertices(&mut solver, view, rows.part(part));
            }
            block.find_residuals(&rows.view());
            sums.add(&block, &rows.view());
        }
        sums
    };
    let lanes = skin.par_chunks_mut(per_lane).enumerate().map(lane).collect();
    summed(problem, motion, lanes)
}

/// [N, K] products of each vertex's residual with the rows of its own bones.
pub(crate) fn slopes(problem: &Problem, motion: &Motion, skin: &Skin) -> Vec<[f32; 4]> {
    let (b, slots) = (motion.bones, skin.slots);
    let mut out = vec![[0.0; 4]; problem.vertices() * slots];
    out.par_chunks_mut(BLOCK * slots).enumerate().for_each_init(
        || Block::new(problem, motion, slots),
        |block, (at, out)| {
            let range = at * BLOCK..at * BLOCK + out.len() / slots;
            block.look(range.clone(), skin);
            let bones = &skin.bones[range.start * slots..range.end * slots];
            for (at, (out, &j)) in out.iter_mut().zip(bones).enumerate() {
                let along = &block.along[at / slots * 4 * b..];
                *out = std::array::from_fn(|c| along[c * b + j as usize]);
            }
        },
    );
    out
}

/// A vertex as [`revise`] shows it.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a> {
    pub vertex: usize,
    /// [4 B] products of its residual with each row of the motion.
    pub along: &'a [f32],
    /// Squared length of the residual.
    pub error: f64,
}

/// Replaces each vertex by what `choose` finds; every task has a scratch `R` of its own.
pub(crate) fn revise<R: Default>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    choose: impl Fn(&mut R, Seen<'_>) -> Guess + Sync,
) {
    let (side, slots) = (4 * motion.bones, skin.slots);
    skin.par_chunks_mut(BLOCK).enumerate().for_each_init(
        || (Block::new(problem, motion, slots), R::default()),
        |(block, scratch), (at, rows)| {
            let start = at * BLOCK;
            block.load(start..start + rows.rest.len());
            block.find_residuals(&rows.view());
            block.project();
            let vertices = rows.bones.chunks_mut(slots).zip(rows.weights.chunks_mut(slots)).zip(rows.rest);
            for (at, ((bones, weights), rest)) in vertices.enumerate() {
                let along = &block.along[at * side..(at + 1) * side];
                let found = choose(scratch, Seen { vertex: start + at, along, error: block.errors[at] });
                bones.fill(0);
                weights.fill(0.0);
                for k in 0..found.count {
                    (bones[k], weights[k]) = (found.bones[k] as u16, found.weights[k]);
                }
                *rest = DVec3::from_slice(&found.u[..3]);
            }
        },
    );
}

/// By how much the error would rise without each bone [B], others refitted vertex by vertex.
pub(crate) fn removal_costs(problem: &Problem, motion: &Motion, skin: &Skin, params: VertexParams) -> Vec<f64> {
    let parts: Vec<Vec<f64>> = blocks(0..problem.vertices())
        .collect::<Vec<_>>()
        .into_par_iter()
        .map_init(
            || Block::new(problem, motion, skin.slots),
            |block, range| {
                block.look(range.clone(), skin);
                let mut costs = vec![0.0; motion.bones];
                let mut solver = VertexSolver::new(params);
                for part in eights(range.len()) {
                    let rows = skin.rows(range.start + part.start..range.start + part.end);
                    add_removal_costs(&mut solver, block.view(part, None), &rows, &mut costs);
                }
                costs
            },
        )
        .collect();
    let mut costs = vec![0.0; motion.bones];
    for part in parts {
        costs.iter_mut().zip(part).for_each(|(sum, x)| *sum += x);
    }
    costs
}

/// Vertices per lane: as many lanes as give threads something to do without their sums outgrowing the data, or a little memory.
fn lane_size(problem: &Problem, motion: &Motion) -> usize {
    const LITTLE: usize = 1 << 18;
    let (n, bones, length) = (problem.vertices(), motion.bones, problem.length);
    let by_memory = (n * length / 8).max(LITTLE).checked_div(4 * bones * length + 16 * bones * bones).unwrap_or(1);
    let lanes = (n / 128).min(by_memory).clamp(2, 32).min(n.div_ceil(LANES)).max(1);
    // Whole blocks: a part of one costs nearly as much.
    (n / lanes / BLOCK).max(1) * BLOCK
}

/// Vertices in blocks.
fn blocks(range: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(BLOCK).map(move |start| start..(start + BLOCK).min(end))
}

/// Vertices of a block that are solved side by side.
fn eights(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(LANES).map(move |start| start..(start + LANES).min(n))
}

/// Buffers of one task, and the block of vertices in them.
struct Block<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
    device: &'static dyn Device,
    /// The vertices.
    range: Range<usize>,
    /// [n, L] trajectories that are not stored.
    read: Vec<f32>,
    /// [n, L]
    residuals: Vec<f32>,
    /// [n] squared lengths of the residuals.
    errors: Vec<f64>,
    /// [n, 4 B] products of the residuals with all bones.
    along: Vec<f32>,
    /// What the residuals were found with.
    terms: Terms,
}

impl<'a> Block<'a> {
    fn new(problem: &'a Problem, motion: &'a Motion, slots: usize) -> Self {
        Self {
            problem,
            motion,
            device: &Cpu,
            range: 0..0,
            read: Vec::new(),
            residuals: vec![0.0; BLOCK * problem.length],
            errors: vec![0.0; BLOCK],
            along: vec![0.0; BLOCK * 4 * motion.bones],
            terms: Terms { terms: Vec::with_capacity(BLOCK * 4 * slots), ends: Vec::with_capacity(BLOCK) },
        }
    }

    /// Residuals of some vertices and their products with all bones, for a skin that stays.
    fn look(&mut self, range: Range<usize>, skin: &Skin) {
        self.load(range.clone());
        self.find_residuals(&skin.rows(range));
        self.project();
    }

    /// Takes up the trajectories of some vertices.
    fn load(&mut self, range: Range<usize>) {
        self.problem.load(range.clone(), &mut self.read);
        self.range = range;
    }

    /// `r = v - sum_j w_j T_j u`, weighted by the loss.
    fn find_residuals(&mut self, rows: &SkinView<'_>) {
        let (b, n, length) = (self.motion.bones, self.range.len(), self.problem.length);
        self.terms.terms.clear();
        self.terms.ends.clear();
        for (at, u) in rows.rest.iter().enumerate() {
            for (j, w) in rows.of(at) {
                for (c, x) in [u.x, u.y, u.z, 1.0].into_iter().enumerate() {
                    self.terms.terms.push(Term { start: (c * b + j) * length, scale: (w * x) as f32 });
                }
            }
            self.terms.ends.push(self.terms.terms.len());
        }
        let (residuals, errors) = (&mut self.residuals[..n * length], &mut self.errors[..n]);
        let trajectories = self.problem.loaded(self.range.clone(), &self.read);
        self.device.residuals(residuals, errors, trajectories, self.motion.rows32(), &self.terms);
        self.problem.loss.weigh(self.range.start, residuals, errors);
    }

    /// `along = residuals * T^T`.
    fn project(&mut self) {
        let (n, side, length) = (self.range.len(), 4 * self.motion.bones, self.problem.length);
        let (along, residuals) = (&mut self.along[..n * side], &self.residuals[..n * length]);
        self.device.project(along, residuals, self.motion.rows32(), n);
    }

    /// What vertices number `part` of the block are solved from.
    fn view<'b>(&'b self, part: Range<usize>, smooth: Option<&'b (f64, Means)>) -> BatchView<'b> {
        let (side, start) = (4 * self.motion.bones, self.range.start);
        let pull = |(strength, means): &'b (f64, Means)| Pull {
            means: &means[start + part.start..start + part.end],
            strength: *strength,
        };
        BatchView {
            pairs: self.motion.pairs(),
            along: &self.along[part.start * side..part.end * side],
            errors: &self.errors[part.clone()],
            pull: smooth.map(pull),
        }
    }
}

/// What a lane adds to the [`Moments`].
struct Sums {
    /// [4 B, L]
    residual: Vec<f32>,
    /// [B (B + 1) / 2] lower triangle of `S`, a block for each pair of bones.
    second: Vec<Mat4>,
    squared_error: f64,
    /// [n]
    per_vertex: Vec<f32>,
}

impl Sums {
    fn new(problem: &Problem, motion: &Motion) -> Self {
        let b = motion.bones;
        let second = vec![Mat4::default(); b * (b + 1) / 2];
        Self { residual: vec![0.0; 4 * b * problem.length], second, squared_error: 0.0, per_vertex: Vec::new() }
    }

    fn add(&mut self, block: &Block<'_>, rows: &SkinView<'_>) {
        let n = block.range.len();
        block.device.add_moments(&mut self.residual, &block.residuals[..n * block.problem.length], &block.terms);
        for (at, u) in rows.rest.iter().enumerate() {
            self.per_vertex.push(block.errors[at] as f32);
            self.squared_error += block.errors[at];
            let u = [u.x, u.y, u.z, 1.0];
            let outer = Mat4::outer(&u, &u);
            for (k, (j, w)) in rows.of(at).enumerate() {
                for (j2, w2) in rows.of(at).take(k + 1) {
                    let (row, column) = (j.max(j2), j.min(j2));
                    self.second[row * (row + 1) / 2 + column].add_scaled(w * w2, &outer);
                }
            }
        }
    }
}

/// All lanes, in their order. Peak memory: all lanes plus their sum.
fn summed(problem: &Problem, motion: &Motion, lanes: Vec<Sums>) -> Moments {
    let b = motion.bones;
    let mut moments = Moments { residual: vec![0.0; 4 * b * problem.length], ..Moments::default() };
    let mut second = vec![Mat4::default(); b * (b + 1) / 2];
    moments.residual.par_chunks_mut(SUMMED).enumerate().for_each(|(at, sums)| {
        for lane in &lanes {
            let part = &lane.residual[at * SUMMED..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    for lane in lanes {
        second.iter_mut().zip(&lane.second).for_each(|(sum, x)| sum.add_scaled(1.0, x));
        moments.squared_error += lane.squared_error;
        moments.per_vertex.extend(lane.per_vertex);
    }
    moments.second = SecondMoments::from_triangle(b, &second);
    moments
}
