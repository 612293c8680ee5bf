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
use crate::skinning::vertex_step::{
    self, BatchView, Pull, VertexParams, VertexSolver, add_removal_costs, solve_vertices,
};
use crate::solve::kernels::Term;
use crate::solve::lanes::{LANES, Mat4};

/// Vertices whose residuals are held at once.
const BLOCK: usize = 64;

/// Numbers that one task adds up over all lanes.
const SUMMED: usize = 4096;

/// The moments of a skin that stays.
pub(crate) fn gather(problem: &Problem, motion: &Motion, skin: &Skin) -> Moments {
    gather_lanes(problem, motion, skin, || Sums::new(problem, motion))
}

/// As [`gather`], with the errors of frames.
pub(crate) fn gather_frames(problem: &Problem, motion: &Motion, skin: &Skin) -> Moments {
    let squares = || vec![0.0; problem.length];
    gather_lanes(problem, motion, skin, || Sums { squares: squares(), ..Sums::new(problem, motion) })
}

fn gather_lanes(problem: &Problem, motion: &Motion, skin: &Skin, sums: impl Fn() -> Sums + Sync) -> Moments {
    let (n, per_lane) = (problem.vertices(), lane_size(problem, motion));
    let lane = |lane: usize| {
        let (mut block, mut sums) = (Block::new(problem, motion, skin.slots), sums());
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

/// The best rest normals for the present weights and bones.
pub(crate) fn solve_normals(problem: &Problem, motion: &Motion, skin: &mut Skin, params: VertexParams) {
    let slots = skin.slots;
    skin.par_chunks_mut(BLOCK).enumerate().for_each_init(
        || (Block::new(problem, motion, slots), VertexSolver::new(params)),
        |(block, solver), (at, mut rows)| {
            block.load(at * BLOCK..at * BLOCK + rows.rest.len());
            for part in eights(rows.rest.len()) {
                vertex_step::solve_normals(solver, block.view(part.clone(), None), rows.part(part));
            }
        },
    );
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

/// [N, K] products of each vertex's true normal with the rows of its own bones; none where normals do not count.
pub(crate) fn normal_slopes(problem: &Problem, motion: &Motion, skin: &Skin) -> Vec<[f32; 3]> {
    if problem.normals.is_none() {
        return Vec::new();
    }
    let (b, slots) = (motion.bones, skin.slots);
    let mut out = vec![[0.0; 3]; problem.vertices() * slots];
    out.par_chunks_mut(BLOCK * slots).enumerate().for_each_init(
        || Block::new(problem, motion, slots),
        |block, (at, out)| {
            let range = at * BLOCK..at * BLOCK + out.len() / slots;
            block.load(range.clone());
            let bones = &skin.bones[range.start * slots..range.end * slots];
            for (at, (out, &j)) in out.iter_mut().zip(bones).enumerate() {
                let along = &block.normals_along[at / slots * 3 * b..];
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

/// What `of_block` finds from the residuals [n, L] of the vertices from `first` on, block by block, in order.
pub(crate) fn survey<R: Send>(
    problem: &Problem,
    motion: &Motion,
    skin: &Skin,
    of_block: impl Fn(usize, &[f32]) -> R + Sync,
) -> Vec<R> {
    let all: Vec<Range<usize>> = blocks(0..problem.vertices()).collect();
    let found = all.into_par_iter().map_init(
        || Block::new(problem, motion, skin.slots),
        |block, range| {
            let (first, n) = (range.start, range.len());
            block.load(range.clone());
            block.find_residuals(&skin.rows(range));
            of_block(first, &block.residuals[..n * problem.length])
        },
    );
    found.collect()
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
                    let importance = |l: usize| problem.loss.of(range.start + part.start + l);
                    add_removal_costs(&mut solver, block.view(part.clone(), None), &rows, &importance, &mut costs);
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
    /// [n, L] true normals, where they count.
    normals: Vec<f32>,
    /// [n, 3 B] their products with all bones.
    normals_along: Vec<f32>,
}

impl<'a> Block<'a> {
    fn new(problem: &'a Problem, motion: &'a Motion, slots: usize) -> Self {
        let shaded = if problem.normals.is_some() { BLOCK } else { 0 };
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
            normals: vec![0.0; shaded * problem.length],
            normals_along: vec![0.0; shaded * 3 * motion.bones],
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
        if let Some(normals) = &self.problem.normals {
            let (n, side, length) = (range.len(), 3 * self.motion.bones, self.problem.length);
            let (rows, along) = (&mut self.normals[..n * length], &mut self.normals_along[..n * side]);
            normals.load(range.start, rows);
            self.device.project(along, rows, &self.motion.rows32()[..side * length], n);
        }
        self.range = range;
    }

    /// `r = v - sum_j w_j T_j u`, weighed by the frames' shares.
    fn find_residuals(&mut self, rows: &SkinView<'_>) {
        let (n, length) = (self.range.len(), self.problem.length);
        let (residuals, errors) = (&mut self.residuals[..n * length], &mut self.errors[..n]);
        set_terms(&mut self.terms, self.motion, rows, |at| rows.rest[at].extend(1.0).to_array());
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
        let of_normals = |side: usize| &self.normals_along[part.start * side..part.end * side];
        BatchView {
            pairs: self.motion.pairs(),
            along: &self.along[part.start * side..part.end * side],
            normals: self.problem.normals.is_some().then(|| of_normals(3 * self.motion.bones)),
            errors: &self.errors[part.clone()],
            pull: smooth.map(pull),
        }
    }
}

/// Sparse rows of the present prediction of vertices with these rest vectors: three or four numbers.
fn set_terms<const C: usize>(to: &mut Terms, motion: &Motion, rows: &SkinView<'_>, rest: impl Fn(usize) -> [f64; C]) {
    to.terms.clear();
    to.ends.clear();
    for at in 0..rows.rest.len() {
        let rest = rest(at);
        for (j, w) in rows.of(at) {
            for (c, x) in rest.into_iter().enumerate() {
                to.terms.push(Term { start: (c * motion.bones + j) * motion.length, scale: (w * x) as f32 });
            }
        }
        to.ends.push(to.terms.len());
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
    /// What the residuals are added with, where vertices have an importance.
    terms: Terms,
    normals: NormalSums,
    /// [L] squares of the residuals, where the errors of frames are wanted.
    squares: Vec<f64>,
}

impl Sums {
    fn new(problem: &Problem, motion: &Motion) -> Self {
        let b = motion.bones;
        let second = vec![Mat4::default(); b * (b + 1) / 2];
        let residual = vec![0.0; 4 * b * problem.length];
        Self {
            residual,
            second,
            squared_error: 0.0,
            per_vertex: Vec::new(),
            terms: Terms::default(),
            normals: NormalSums::new(problem, motion),
            squares: Vec::new(),
        }
    }

    fn add(&mut self, block: &Block<'_>, rows: &SkinView<'_>) {
        let n = block.range.len();
        let residuals = &block.residuals[..n * block.problem.length];
        let importance = |at: usize| block.problem.loss.of(block.range.start + at);
        let terms = match block.problem.loss.vertices.is_empty() {
            true => &block.terms,
            false => {
                let rest = |at: usize| (rows.rest[at] * importance(at)).extend(importance(at)).to_array();
                set_terms(&mut self.terms, block.motion, rows, rest);
                &self.terms
            }
        };
        block.device.add_moments(&mut self.residual, residuals, terms);
        self.normals.add(&mut self.residual, block, rows);
        if !self.squares.is_empty() {
            for row in residuals.chunks_exact(block.problem.length) {
                self.squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            }
        }
        for (at, u) in rows.rest.iter().enumerate() {
            let (error, weight) = (importance(at) * block.errors[at], importance(at));
            self.per_vertex.push(error as f32);
            self.squared_error += error;
            let (u, weighed) = (u.extend(1.0).to_array(), (*u * weight).extend(weight).to_array());
            add_outer(&mut self.second, rows.of(at), &Mat4::outer(&weighed, &u));
        }
    }
}

/// What a lane adds for the normals. Their moments are sums of the normals themselves, not of residuals: `D_n = sum_i x_i m_i^T - S_n T`.
#[derive(Default)]
struct NormalSums {
    /// [B (B + 1) / 2] lower triangle of `S_n`; none where normals do not count.
    second: Vec<Mat4>,
    squared_error: f64,
    terms: Terms,
}

impl NormalSums {
    fn new(problem: &Problem, motion: &Motion) -> Self {
        let pairs = if problem.normals.is_some() { motion.bones * (motion.bones + 1) / 2 } else { 0 };
        Self { second: vec![Mat4::default(); pairs], ..Self::default() }
    }

    /// Adds `x_i m_i^T` to the lane's moments.
    fn add(&mut self, moments: &mut [f32], block: &Block<'_>, rows: &SkinView<'_>) {
        if self.second.is_empty() {
            return;
        }
        let (n, length, side) = (block.range.len(), block.problem.length, 3 * block.motion.bones);
        let importance = |at: usize| block.problem.loss.of(block.range.start + at);
        set_terms(&mut self.terms, block.motion, rows, |at| (rows.normals[at] * importance(at)).to_array());
        block.device.add_moments(moments, &block.normals[..n * length], &self.terms);
        for (at, normal) in rows.normals.iter().enumerate() {
            let normal = normal.extend(0.0).to_array();
            let truth = block.normals[at * length..(at + 1) * length].iter().map(|m| m * m).sum::<f32>();
            let along = &block.normals_along[at * side..(at + 1) * side];
            let error = f64::from(truth) + normal_cost(block.motion, rows.of(at), along, &normal);
            self.squared_error += importance(at) * error;
            let weighed = normal.map(|x| x * importance(at));
            add_outer(&mut self.second, rows.of(at), &Mat4::outer(&weighed, &normal));
        }
    }
}

/// `|m - M n|^2 - |m|^2` from the products of the normals with all bones.
fn normal_cost(
    motion: &Motion,
    influences: impl Iterator<Item = (usize, f64)> + Clone,
    along: &[f32],
    n: &[f64; 4],
) -> f64 {
    let (b, pairs) = (motion.bones, motion.pairs());
    let (mut mixed, mut linear) = (Mat4::default(), 0.0);
    for (j, w) in influences.clone() {
        linear += w * (0..3).map(|c| n[c] * f64::from(along[c * b + j])).sum::<f64>();
        influences.clone().for_each(|(k, w2)| mixed.add_scaled(w * w2, pairs.block(j, k)));
    }
    mixed.dot(&Mat4::outer(n, n)) - 2.0 * linear
}

/// Adds `w_j w_k` times a matrix to the blocks of all pairs of bones of a vertex.
#[inline(always)]
fn add_outer(second: &mut [Mat4], influences: impl Iterator<Item = (usize, f64)> + Clone, outer: &Mat4) {
    for (k, (j, w)) in influences.clone().enumerate() {
        for (j2, w2) in influences.clone().take(k + 1) {
            let (row, column) = (j.max(j2), j.min(j2));
            second[row * (row + 1) / 2 + column].add_scaled(w * w2, outer);
        }
    }
}

/// Takes the prediction out of the moments of normals: `D -= S_n T`.
fn take_prediction(residual: &mut [f64], second: &SecondMoments, motion: &Motion) {
    let (b, length) = (motion.bones, motion.length);
    residual.par_chunks_mut(length).enumerate().for_each(|(row, sums)| {
        let (c, j) = (row / b, row % b);
        for (k, block) in second.blocks(j) {
            for d in (0..3).filter(|&d| block[c][d] != 0.0) {
                sums.iter_mut().zip(motion.row(d, k)).for_each(|(sum, x)| *sum -= block[c][d] * x);
            }
        }
    });
}

/// All lanes, in their order. Peak memory: all lanes plus their sum.
fn summed(problem: &Problem, motion: &Motion, lanes: Vec<Sums>) -> Moments {
    let b = motion.bones;
    let mut moments = Moments { residual: vec![0.0; 4 * b * problem.length], ..Moments::default() };
    let mut second = vec![Mat4::default(); b * (b + 1) / 2];
    let mut of_normals = NormalSums::new(problem, motion).second;
    moments.residual.par_chunks_mut(SUMMED).enumerate().for_each(|(at, sums)| {
        for lane in &lanes {
            let part = &lane.residual[at * SUMMED..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    for lane in lanes {
        second.iter_mut().zip(&lane.second).for_each(|(sum, x)| sum.add_scaled(1.0, x));
        of_normals.iter_mut().zip(&lane.normals.second).for_each(|(sum, x)| sum.add_scaled(1.0, x));
        moments.squared_error += lane.squared_error;
        moments.normal_error += lane.normals.squared_error;
        moments.per_vertex.extend(lane.per_vertex);
        moments.per_frame.resize(lane.squares.len() / 3, 0.0);
        for axis in lane.squares.chunks_exact(moments.per_frame.len().max(1)) {
            moments.per_frame.iter_mut().zip(axis).for_each(|(sum, x)| *sum += x);
        }
    }
    if problem.normals.is_some() {
        moments.squared_error += moments.normal_error;
        second.iter_mut().zip(&of_normals).for_each(|(sum, x)| sum.add_scaled(1.0, x));
        take_prediction(&mut moments.residual, &SecondMoments::from_triangle(b, &of_normals), motion);
    }
    moments.second = SecondMoments::from_triangle(b, &second);
    moments
}
