//! Passes over all vertices, in blocks: new weights and rest positions, and the sums that the bones need.
//!
//! Per block of vertices: residuals `r = v - pred` in float32 (small numbers, so float32 is exact enough), one
//! matrix product of residuals with all bones, the vertex steps, then residuals again and their [`Moments`].
//!
//! Vertices are dealt to a fixed number of lanes that depends on sizes only, each lane is summed in order, and lanes
//! are added in order: the result does not depend on the number of threads.
//!
//! With many bones a block works with those near it (`near`), in numbers of its own: what it adds to the sums is numbered back.

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

use crate::skinning::device::{Cpu, Device, Terms};
use crate::skinning::guess::Guess;
use crate::skinning::moments::{Moments, SecondMoments};
use crate::skinning::motion::Motion;
use crate::skinning::near::{self, BlockBones, Near, NearBlock, Reach};
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
use crate::skinning::skin::{Skin, SkinRows, SkinView};
use crate::skinning::smooth::{MeanWeights, Smoothness};
use crate::skinning::vertex_step::{
    self, BatchView, Pull, Removals, VertexParams, VertexSolver, add_removal_costs, removal_chains, solve_vertices,
};
use crate::solve::kernels::{Term, add_scaled};
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
    let near = Near::new(motion, skin, BLOCK, Reach::Own, problem.normals.is_some());
    let lane = |lane: usize| {
        let (mut block, mut sums, mut numbers) =
            (Block::new(problem, motion, near.as_ref(), skin.slots), sums(), Vec::new());
        for (range, near) in blocks(near.as_ref(), lane * per_lane..((lane + 1) * per_lane).min(n)) {
            let rows = local(near, skin.rows(range.clone()), &mut numbers);
            block.load(range, near);
            block.find_residuals(&rows);
            block.project_normals(Onto::Own);
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
    // Vertices that try no other bones need no products with them.
    let alone = params.newcomers == 0 && slots > 1 && skin.weights.chunks_exact(slots).all(|row| row[0] > 0.0);
    let (reach, onto) = if alone { (Reach::Own, Onto::Own) } else { (Reach::Around, Onto::All) };
    let near = Near::new(motion, skin, BLOCK, reach, true);
    // Made before the lanes start: they would otherwise wait for one of them.
    if near.is_none() {
        let (_, _) = (motion.pairs(), motion.rows32());
    }
    let lane = |(lane, mut rows): (usize, SkinRows<'_>)| {
        let (mut block, mut sums) = (Block::new(problem, motion, near.as_ref(), slots), Sums::new(problem, motion));
        let mut solver = VertexSolver::new(params);
        let first = lane * per_lane;
        for (range, near) in blocks(near.as_ref(), first..first + rows.rest.len()) {
            let mut rows = rows.part(range.start - first..range.end - first);
            if let Some(near) = near {
                near.enter(rows.bones, rows.weights);
            }
            block.load(range.clone(), near);
            block.find_residuals(&rows.view());
            block.project(onto);
            let means = smooth.as_ref().map(|(strength, means)| (*strength, &means[range.clone()]));
            let numbered = near.zip(means).map(|(near, (_, means))| near.local_means(means));
            let means = means.map(|(strength, means)| (strength, numbered.as_deref().unwrap_or(means)));
            for part in eights(range.len()) {
                let view = block.view(part.clone(), means);
                solve_vertices(&mut solver, view, rows.part(part));
            }
            block.find_residuals(&rows.view());
            sums.add(&block, &rows.view());
            if let Some(near) = near {
                near.leave(rows.bones, rows.weights);
            }
        }
        sums
    };
    let lanes = skin.par_chunks_mut(per_lane).enumerate().map(lane).collect();
    summed(problem, motion, lanes)
}

/// What positions and normals of a skin are off.
pub(crate) struct BothErrors {
    /// Squared error of all positions.
    pub positions: f64,
    /// [N] squared errors of the normals.
    pub normals: Vec<f32>,
}

/// The best rest normals for the present weights and bones, and what is left.
pub(crate) fn solve_normals(problem: &Problem, motion: &Motion, skin: &mut Skin, params: VertexParams) -> BothErrors {
    let slots = skin.slots;
    let near = Near::new(motion, skin, BLOCK, Reach::Own, true);
    let parts = skin.par_chunks_mut(BLOCK).enumerate().map_init(
        || (Block::new(problem, motion, near.as_ref(), slots), VertexSolver::new(params)),
        |(block, solver), (at, mut rows)| {
            let first = at * BLOCK;
            let mut errors = BothErrors { positions: 0.0, normals: Vec::with_capacity(rows.rest.len()) };
            for (range, near) in blocks(near.as_ref(), first..first + rows.rest.len()) {
                let mut rows = rows.part(range.start - first..range.end - first);
                if let Some(near) = near {
                    near.enter(rows.bones, rows.weights);
                }
                block.load(range.clone(), near);
                block.find_residuals(&rows.view());
                block.project_normals(Onto::Own);
                for part in eights(rows.rest.len()) {
                    vertex_step::solve_normals(solver, block.view(part.clone(), None), rows.part(part));
                }
                errors.positions +=
                    (range.zip(&block.errors)).map(|(i, error)| problem.loss.of(i) * error).sum::<f64>();
                errors.normals.extend((0..rows.rest.len()).map(|at| block.normal_error(&rows.view(), at) as f32));
                if let Some(near) = near {
                    near.leave(rows.bones, rows.weights);
                }
            }
            errors
        },
    );
    let parts: Vec<BothErrors> = parts.collect();
    BothErrors {
        positions: parts.iter().map(|part| part.positions).sum(),
        normals: parts.into_iter().flat_map(|part| part.normals).collect(),
    }
}

/// [N, K] products of each vertex's residual with the rows of its own bones.
pub(crate) fn slopes(problem: &Problem, motion: &Motion, skin: &Skin) -> Vec<[f32; 4]> {
    let all = |_: &mut (), block: &Block<'_>, rows: &SkinView<'_>| {
        let b = block.bones.count();
        let slope = |(at, &j): (usize, &u16)| {
            std::array::from_fn(|c| block.along[at / rows.slots * 4 * b + c * b + j as usize])
        };
        rows.bones.iter().enumerate().map(slope).collect()
    };
    each_block(problem, motion, skin, || (), all)
}

/// What each vertex becomes with fewer influences, and what it is off now.
pub(crate) fn removals(problem: &Problem, motion: &Motion, skin: &Skin, params: VertexParams) -> Vec<Removals> {
    let all = |solver: &mut VertexSolver, block: &Block<'_>, rows: &SkinView<'_>| {
        let mut found = Vec::with_capacity(rows.rest.len());
        for part in eights(rows.rest.len()) {
            found.append(&mut removal_chains(solver, block.view(part.clone(), None), &rows.part(part)));
        }
        for (at, removals) in found.iter_mut().enumerate() {
            let importance = problem.loss.of(block.range.start + at);
            removals.fewer.iter_mut().for_each(|fewer| fewer.rise *= importance);
            removals.position_error = importance * block.errors[at];
            if problem.normals.is_some() {
                removals.normal_error = importance * block.normal_error(rows, at);
            }
            if let Some(bones) = block.bones.numbers() {
                let slots = removals.fewer.iter_mut().flat_map(|fewer| &mut fewer.row);
                slots.for_each(|slot| slot.0 = bones[slot.0] as usize);
            }
        }
        found
    };
    each_block(problem, motion, skin, || VertexSolver::new(params), all)
}

/// What `found` makes of all vertices, block by block with their residuals and products with their own bones, in their order. Every task has
/// a scratch `R` of its own.
fn each_block<R, T: Send>(
    problem: &Problem,
    motion: &Motion,
    skin: &Skin,
    scratch: impl Fn() -> R + Sync,
    found: impl Fn(&mut R, &Block<'_>, &SkinView<'_>) -> Vec<T> + Sync,
) -> Vec<T> {
    let near = Near::new(motion, skin, BLOCK, Reach::Own, true);
    let all: Vec<_> = blocks(near.as_ref(), 0..problem.vertices()).collect();
    let parts: Vec<Vec<T>> = all
        .into_par_iter()
        .map_init(
            || (Block::new(problem, motion, near.as_ref(), skin.slots), scratch(), Vec::new()),
            |(block, scratch, numbers), (range, near)| {
                let rows = local(near, skin.rows(range.clone()), numbers);
                block.look(range, near, &rows, Onto::Own);
                found(scratch, block, &rows)
            },
        )
        .collect();
    parts.into_iter().flatten().collect()
}

/// Squared error of all positions, each vertex times its importance.
pub(crate) fn squared_error(problem: &Problem, motion: &Motion, skin: &Skin) -> f64 {
    let plain = problem.with_normals(None);
    let of_block = |first: usize, residuals: &[f32]| -> f64 {
        let rows = residuals.chunks_exact(problem.length).enumerate();
        rows.map(|(at, row)| problem.loss.of(first + at) * f64::from(row.iter().map(|r| r * r).sum::<f32>())).sum()
    };
    survey(&plain, motion, skin, of_block).into_iter().sum()
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
        || (Block::new(problem, motion, None, slots), R::default()),
        |(block, scratch), (at, rows)| {
            let start = at * BLOCK;
            block.load(start..start + rows.rest.len(), None);
            block.find_residuals(&rows.view());
            block.project(Onto::All);
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
    let near = Near::new(motion, skin, BLOCK, Reach::Own, false);
    let all: Vec<_> = blocks(near.as_ref(), 0..problem.vertices()).collect();
    let found = all.into_par_iter().map_init(
        || (Block::new(problem, motion, near.as_ref(), skin.slots), Vec::new()),
        |(block, numbers), (range, near)| {
            let (first, n) = (range.start, range.len());
            let rows = local(near, skin.rows(range.clone()), numbers);
            block.load(range, near);
            block.find_residuals(&rows);
            of_block(first, &block.residuals[..n * problem.length])
        },
    );
    found.collect()
}

/// By how much the error would rise without each bone [B], others refitted vertex by vertex.
pub(crate) fn removal_costs(problem: &Problem, motion: &Motion, skin: &Skin, params: VertexParams) -> Vec<f64> {
    let near = Near::new(motion, skin, BLOCK, Reach::Around, true);
    let all: Vec<_> = blocks(near.as_ref(), 0..problem.vertices()).collect();
    let parts: Vec<(Option<&NearBlock>, Vec<f64>)> = all
        .into_par_iter()
        .map_init(
            || (Block::new(problem, motion, near.as_ref(), skin.slots), Vec::new()),
            |(block, numbers), (range, near)| {
                let rows = local(near, skin.rows(range.clone()), numbers);
                block.look(range.clone(), near, &rows, Onto::All);
                let mut costs = vec![0.0; block.bones.count()];
                let mut solver = VertexSolver::new(params);
                for part in eights(range.len()) {
                    let importance = |l: usize| problem.loss.of(range.start + part.start + l);
                    let view = block.view(part.clone(), None);
                    add_removal_costs(&mut solver, view, &rows.part(part.clone()), &importance, &mut costs);
                }
                (near, costs)
            },
        )
        .collect();
    let mut costs = vec![0.0; motion.bones];
    for (near, part) in parts {
        match near {
            Some(near) => near.bones.iter().zip(part).for_each(|(&j, x)| costs[j as usize] += x),
            None => costs.iter_mut().zip(part).for_each(|(sum, x)| *sum += x),
        }
    }
    costs
}

/// Vertices per lane: as many lanes as give threads something to do without their sums outgrowing the data, or a little memory.
fn lane_size(problem: &Problem, motion: &Motion) -> usize {
    const LITTLE: usize = 1 << 18;
    let (n, bones, length) = (problem.vertices(), motion.bones, problem.length);
    let pairs = if bones > near::MANY_BONES { 0 } else { bones * bones };
    let by_memory = (n * length / 8).max(LITTLE).checked_div(4 * bones * length + 16 * pairs).unwrap_or(1);
    let lanes = (n / 128).min(by_memory).clamp(2, 32).min(n.div_ceil(LANES)).max(1);
    // Whole blocks: a part of one costs nearly as much.
    (n / lanes / BLOCK).max(1) * BLOCK
}

/// Vertices in blocks, each with the bones that it works with, where that is not all of them. `range` begins with a block.
fn blocks(near: Option<&Near>, range: Range<usize>) -> impl Iterator<Item = (Range<usize>, Option<&NearBlock>)> {
    let end = range.end;
    let near = near.map(|near| {
        let at = |i: usize| near.blocks.partition_point(|block| block.vertices.start < i);
        &near.blocks[at(range.start)..at(end)]
    });
    let count = near.map_or(range.len().div_ceil(BLOCK), <[NearBlock]>::len);
    (0..count).map(move |at| match near {
        Some(near) => (near[at].vertices.clone(), Some(&near[at])),
        None => {
            let start = range.start + at * BLOCK;
            (start..(start + BLOCK).min(end), None)
        }
    })
}

/// Rows of a block with bones in the block's numbers.
fn local<'a>(near: Option<&NearBlock>, rows: SkinView<'a>, numbers: &'a mut Vec<u16>) -> SkinView<'a> {
    match near {
        Some(near) => near.local(rows, numbers),
        None => rows,
    }
}

/// Vertices of a block that are solved side by side.
fn eights(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(LANES).map(move |start| start..(start + LANES).min(n))
}

/// Which bones residuals are multiplied with.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Onto {
    /// All that the block works with.
    All,
    /// Those that each vertex has.
    Own,
}

/// Buffers of one task, and the block of vertices in them.
struct Block<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
    /// The blocks, where they do not work with all bones.
    near: Option<&'a Near>,
    bones: BlockBones<'a>,
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
    fn new(problem: &'a Problem, motion: &'a Motion, near: Option<&'a Near>, slots: usize) -> Self {
        let shaded = if problem.normals.is_some() { BLOCK } else { 0 };
        let bones = if near.is_some() { 0 } else { motion.bones };
        Self {
            problem,
            motion,
            near,
            bones: BlockBones::All(motion),
            device: &Cpu,
            range: 0..0,
            read: Vec::new(),
            residuals: vec![0.0; BLOCK * problem.length],
            errors: vec![0.0; BLOCK],
            along: vec![0.0; BLOCK * 4 * bones],
            terms: Terms { terms: Vec::with_capacity(BLOCK * 4 * slots), ends: Vec::with_capacity(BLOCK) },
            normals: vec![0.0; shaded * problem.length],
            normals_along: vec![0.0; shaded * 3 * bones],
        }
    }

    /// Residuals of some vertices and their products with bones, for rows that stay.
    fn look(&mut self, range: Range<usize>, near: Option<&'a NearBlock>, rows: &SkinView<'_>, onto: Onto) {
        self.load(range, near);
        self.find_residuals(rows);
        self.project(onto);
    }

    /// Takes up the trajectories of some vertices, and the bones that they work with.
    fn load(&mut self, range: Range<usize>, near: Option<&'a NearBlock>) {
        if let (Some(all), Some(block)) = (self.near, near) {
            self.bones = all.bones(self.motion, block);
        }
        self.problem.load(range.clone(), &mut self.read);
        let (n, bones) = (range.len(), self.bones.count());
        self.along.resize(self.along.len().max(n * 4 * bones), 0.0);
        if let Some(normals) = &self.problem.normals {
            self.normals_along.resize(self.normals_along.len().max(n * 3 * bones), 0.0);
            normals.load(range.start, &mut self.normals[..n * self.problem.length]);
        }
        self.range = range;
    }

    /// `r = v - sum_j w_j T_j u`, weighed by the frames' shares.
    fn find_residuals(&mut self, rows: &SkinView<'_>) {
        let (n, length) = (self.range.len(), self.problem.length);
        let (residuals, errors) = (&mut self.residuals[..n * length], &mut self.errors[..n]);
        set_terms(&mut self.terms, &self.bones, rows, |at| rows.rest[at].extend(1.0).to_array());
        let trajectories = self.problem.loaded(self.range.clone(), &self.read);
        self.device.residuals(residuals, errors, trajectories, self.bones.rows32(), &self.terms);
        self.problem.loss.weigh(self.range.start, residuals, errors);
    }

    /// `along = residuals * T^T`, and the same of the normals, where they count.
    fn project(&mut self, onto: Onto) {
        let (n, side, length) = (self.range.len(), 4 * self.bones.count(), self.problem.length);
        let (along, residuals) = (&mut self.along[..n * side], &self.residuals[..n * length]);
        match onto {
            Onto::All => self.device.project(along, residuals, self.bones.rows32(), n),
            Onto::Own => self.device.project_own(along, residuals, self.bones.rows32(), &self.terms),
        }
        self.project_normals(onto);
    }

    /// Products of the normals with the bones, where normals count.
    fn project_normals(&mut self, onto: Onto) {
        if self.problem.normals.is_none() {
            return;
        }
        let (n, side, length) = (self.range.len(), 3 * self.bones.count(), self.problem.length);
        let (along, normals) = (&mut self.normals_along[..n * side], &self.normals[..n * length]);
        match onto {
            Onto::All => self.device.project(along, normals, &self.bones.rows32()[..side * length], n),
            Onto::Own => self.device.project_own(along, normals, self.bones.rows32(), &self.terms),
        }
    }

    /// Squared error of the normals of vertex number `at`.
    fn normal_error(&self, rows: &SkinView<'_>, at: usize) -> f64 {
        let side = 3 * self.bones.count();
        let truth = self.problem.normals.as_ref().map_or(0.0, |normals| normals.squared(self.range.start + at));
        let along = &self.normals_along[at * side..(at + 1) * side];
        let normal = rows.normals[at].extend(0.0).to_array();
        (truth + normal_cost(self.bones.pairs(), rows.of(at), along, &normal)).max(0.0)
    }

    /// What vertices number `part` of the block are solved from.
    ///
    /// `smooth`: strength, and the neighbours' mean weights of the block's vertices in the block's numbers.
    fn view<'b>(&'b self, part: Range<usize>, smooth: Option<(f64, &'b [MeanWeights])>) -> BatchView<'b> {
        let side = 4 * self.bones.count();
        let pull = |(strength, means): (f64, &'b [MeanWeights])| Pull { means: &means[part.clone()], strength };
        let of_normals = |side: usize| &self.normals_along[part.start * side..part.end * side];
        BatchView {
            pairs: self.bones.pairs(),
            along: &self.along[part.start * side..part.end * side],
            normals: self.problem.normals.is_some().then(|| of_normals(3 * self.bones.count())),
            errors: &self.errors[part.clone()],
            pull: smooth.map(pull),
        }
    }
}

impl Block<'_> {
    /// Terms with the rows of all bones; `buffer` holds them where the block does not work with all.
    fn numbered_back<'b>(&self, terms: &'b Terms, buffer: &'b mut Terms) -> &'b Terms {
        let Some(bones) = self.bones.numbers() else { return terms };
        let (b, length) = (self.motion.bones, self.motion.length);
        let start = |start: usize| {
            let row = start / length;
            (row / bones.len() * b + bones[row % bones.len()] as usize) * length
        };
        buffer.terms.clear();
        buffer.terms.extend(terms.terms.iter().map(|term| Term { start: start(term.start), ..*term }));
        buffer.ends.clone_from(&terms.ends);
        buffer
    }
}

/// Sparse rows of the present prediction of vertices with these rest vectors: three or four numbers.
fn set_terms<const C: usize>(
    to: &mut Terms,
    bones: &BlockBones<'_>,
    rows: &SkinView<'_>,
    rest: impl Fn(usize) -> [f64; C],
) {
    let (count, length) = (bones.count(), bones.length());
    to.terms.clear();
    to.ends.clear();
    for at in 0..rows.rest.len() {
        let rest = rest(at);
        for (j, w) in rows.of(at) {
            for (c, x) in rest.into_iter().enumerate() {
                to.terms.push(Term { start: (c * count + j) * length, scale: (w * x) as f32 });
            }
        }
        to.ends.push(to.terms.len());
    }
}

/// What a lane adds to the [`Moments`].
struct Sums {
    /// [4 B, L]
    residual: Vec<f32>,
    second: PairSums,
    squared_error: f64,
    /// [n]
    per_vertex: Vec<f32>,
    normals: Option<NormalSums>,
    /// [L] squares of the residuals, where the errors of frames are wanted.
    squares: Vec<f64>,
    /// Terms of a block in the numbers of all bones.
    terms: Terms,
    /// Terms of a block times the importance of its vertices.
    weighed: Terms,
}

impl Sums {
    fn new(problem: &Problem, motion: &Motion) -> Self {
        Self {
            residual: vec![0.0; 4 * motion.bones * problem.length],
            second: PairSums::new(motion.bones),
            squared_error: 0.0,
            per_vertex: Vec::new(),
            normals: problem.normals.is_some().then(|| NormalSums::new(motion)),
            squares: Vec::new(),
            terms: Terms::default(),
            weighed: Terms::default(),
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
                set_terms(&mut self.weighed, &block.bones, rows, rest);
                &self.weighed
            }
        };
        let terms = block.numbered_back(terms, &mut self.terms);
        block.device.add_moments(&mut self.residual, residuals, terms);
        if let Some(normals) = &mut self.normals {
            normals.add(&mut self.residual, block, rows, &mut self.terms);
        }
        if !self.squares.is_empty() {
            for row in residuals.chunks_exact(block.problem.length) {
                self.squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            }
        }
        self.second.begin(block);
        for (at, u) in rows.rest.iter().enumerate() {
            let (error, weight) = (importance(at) * block.errors[at], importance(at));
            self.per_vertex.push(error as f32);
            self.squared_error += error;
            let (u, weighed) = (u.extend(1.0).to_array(), (*u * weight).extend(weight).to_array());
            self.second.add(rows.of(at), &Mat4::outer(&weighed, &u));
        }
        self.second.end(block);
    }
}

/// What a lane adds for the normals. Their moments are sums of the normals themselves, not of residuals: `D_n = sum_i x_i m_i^T - S_n T`.
struct NormalSums {
    /// `S_n`.
    second: PairSums,
    squared_error: f64,
    terms: Terms,
}

impl NormalSums {
    fn new(motion: &Motion) -> Self {
        Self { second: PairSums::new(motion.bones), squared_error: 0.0, terms: Terms::default() }
    }

    /// Adds `x_i m_i^T` to the lane's moments.
    fn add(&mut self, moments: &mut [f32], block: &Block<'_>, rows: &SkinView<'_>, buffer: &mut Terms) {
        let bones = &block.bones;
        let (n, length) = (block.range.len(), block.problem.length);
        let importance = |at: usize| block.problem.loss.of(block.range.start + at);
        set_terms(&mut self.terms, bones, rows, |at| (rows.normals[at] * importance(at)).to_array());
        block.device.add_moments(moments, &block.normals[..n * length], block.numbered_back(&self.terms, buffer));
        self.second.begin(block);
        for (at, normal) in rows.normals.iter().enumerate() {
            let normal = normal.extend(0.0).to_array();
            self.squared_error += importance(at) * block.normal_error(rows, at);
            let weighed = normal.map(|x| x * importance(at));
            self.second.add(rows.of(at), &Mat4::outer(&weighed, &normal));
        }
        self.second.end(block);
    }
}

/// `|m - M n|^2 - |m|^2` from the products of the normals with all bones.
fn normal_cost(
    pairs: &BonePairs,
    influences: impl Iterator<Item = (usize, f64)> + Clone,
    along: &[f32],
    n: &[f64; 4],
) -> f64 {
    let b = pairs.bones;
    let (mut mixed, mut linear) = (Mat4::default(), 0.0);
    for (j, w) in influences.clone() {
        linear += w * (0..3).map(|c| n[c] * f64::from(along[c * b + j])).sum::<f64>();
        influences.clone().for_each(|(k, w2)| mixed.add_scaled(w * w2, pairs.block(j, k)));
    }
    mixed.dot(&Mat4::outer(n, n)) - 2.0 * linear
}

/// Sums of 4x4 matrices over pairs of bones that share vertices.
struct PairSums {
    /// Lower triangle, a matrix for each pair: of all bones, or of those that the block works with.
    triangle: Vec<Mat4>,
    /// The sums of the blocks so far, where they do not work with all bones.
    sums: Option<SecondMoments>,
}

impl PairSums {
    fn new(bones: usize) -> Self {
        match bones > near::MANY_BONES {
            true => Self { triangle: Vec::new(), sums: Some(SecondMoments::of_none(bones)) },
            false => Self { triangle: vec![Mat4::default(); bones * (bones + 1) / 2], sums: None },
        }
    }

    fn begin(&mut self, block: &Block<'_>) {
        if let Some(bones) = block.bones.numbers() {
            self.triangle.clear();
            self.triangle.resize(bones.len() * (bones.len() + 1) / 2, Mat4::default());
        }
    }

    /// Adds `w_j w_k` times a matrix for all pairs of bones of a vertex.
    #[inline(always)]
    fn add(&mut self, influences: impl Iterator<Item = (usize, f64)> + Clone, outer: &Mat4) {
        for (k, (j, w)) in influences.clone().enumerate() {
            for (j2, w2) in influences.clone().take(k + 1) {
                let (row, column) = (j.max(j2), j.min(j2));
                self.triangle[row * (row + 1) / 2 + column].add_scaled(w * w2, outer);
            }
        }
    }

    fn end(&mut self, block: &Block<'_>) {
        if let (Some(bones), Some(sums)) = (block.bones.numbers(), &mut self.sums) {
            sums.add_triangle(bones, &self.triangle);
        }
    }

    fn merge(&mut self, other: &Self) {
        match (&mut self.sums, &other.sums) {
            (Some(sums), Some(other)) => sums.merge(other),
            _ => self.triangle.iter_mut().zip(&other.triangle).for_each(|(sum, x)| sum.add_scaled(1.0, x)),
        }
    }

    fn finish(self, bones: usize) -> SecondMoments {
        self.sums.unwrap_or_else(|| SecondMoments::from_triangle(bones, &self.triangle))
    }
}

/// Takes the prediction out of the moments of normals: `D -= S_n T`.
fn take_prediction(residual: &mut [f64], second: &SecondMoments, motion: &Motion) {
    let (b, length) = (motion.bones, motion.length);
    residual.par_chunks_mut(length).enumerate().for_each(|(row, sums)| {
        let (c, j) = (row / b, row % b);
        for (k, block) in second.blocks(j) {
            for d in (0..3).filter(|&d| block[c][d] != 0.0) {
                add_scaled(sums, -block[c][d], motion.row(d, k));
            }
        }
    });
}

/// All lanes, in their order. Peak memory: all lanes plus their sum.
fn summed(problem: &Problem, motion: &Motion, lanes: Vec<Sums>) -> Moments {
    let b = motion.bones;
    let mut moments = Moments { residual: vec![0.0; 4 * b * problem.length], ..Moments::default() };
    let mut second = PairSums::new(b);
    let mut of_normals = problem.normals.is_some().then(|| PairSums::new(b));
    moments.residual.par_chunks_mut(SUMMED).enumerate().for_each(|(at, sums)| {
        for lane in &lanes {
            let part = &lane.residual[at * SUMMED..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    for lane in lanes {
        second.merge(&lane.second);
        moments.squared_error += lane.squared_error;
        if let (Some(sums), Some(lane)) = (&mut of_normals, &lane.normals) {
            sums.merge(&lane.second);
            moments.normal_error += lane.squared_error;
        }
        moments.per_vertex.extend(lane.per_vertex);
        moments.per_frame.resize(lane.squares.len() / 3, 0.0);
        for axis in lane.squares.chunks_exact(moments.per_frame.len().max(1)) {
            moments.per_frame.iter_mut().zip(axis).for_each(|(sum, x)| *sum += x);
        }
    }
    if let Some(of_normals) = of_normals {
        moments.squared_error += moments.normal_error;
        second.merge(&of_normals);
        take_prediction(&mut moments.residual, &of_normals.finish(b), motion);
    }
    moments.second = second.finish(b);
    moments
}
