//! Passes over all vertices, in blocks: new weights and rest positions, and the sums that the bones need.
//!
//! Per block of vertices: residuals `r = v - pred` in float32 (small numbers, so float32 is exact enough), one
//! matrix product of residuals with all bones, the vertex steps, then residuals again and their [`Moments`].
//!
//! Vertices are dealt to a fixed number of lanes that depends on sizes only, each lane is summed in order, and lanes
//! are added in order: the result does not depend on the number of threads.
//!
//! With many bones a block works with those near it (`near`), in numbers of its own: what it adds to the sums is numbered back.

mod block;
mod sums;

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

use self::block::{Block, Onto};
use self::sums::{Sums, summed};
use crate::skinning::guess::Guess;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::near::{self, Near, NearBlock, Reach};
use crate::skinning::problem::Problem;
use crate::skinning::skin::{Skin, SkinRows, SkinView};
use crate::skinning::smooth::Smoothness;
use crate::skinning::vertex_step::{
    self, Removals, VertexParams, VertexSolver, add_removal_costs, removal_chains, solve_vertices,
};
use crate::solve::lanes::LANES;

/// Vertices whose residuals are held at once.
const BLOCK: usize = 64;

/// The moments of a skin that stays.
pub(crate) fn gather(problem: &Problem, motion: &Motion, skin: &Skin) -> Moments {
    gather_lanes(problem, motion, skin, || Sums::new(problem, motion))
}

/// As [`gather`], with the errors of frames.
pub(crate) fn gather_frames(problem: &Problem, motion: &Motion, skin: &Skin) -> Moments {
    gather_lanes(problem, motion, skin, || Sums::with_frames(problem, motion))
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

/// The best rest normals for the present weights and bones, where they are not kept, and what is left.
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
                let kept = problem.normals.as_ref().is_some_and(|normals| normals.keeps_rest());
                for part in eights(if kept { 0 } else { rows.rest.len() }) {
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
