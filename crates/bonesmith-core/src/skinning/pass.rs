//! One pass over all vertices: new weights and rest positions, and the sums that the bones need.
//!
//! Per block of vertices: residuals `r = v - pred` in float32 (small numbers, so float32 is exact enough), one
//! matrix product of residuals with all bones, the vertex solves, then residuals again and their moments
//! `D = sum_i x_i r_i^T`, `S = sum_i x_i x_i^T` with `x_i[c B + j] = w_ij u_ic`.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use glam::DVec3;
use pulp::Arch;
use rayon::prelude::*;

use crate::skinning::guess::Guess;
use crate::skinning::moments::{Moments, SecondMoments};
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::{Means, Smoothness};
use crate::skinning::vertex_step::{
    BatchView, LocalParams, LocalSolver, SkinRows, Wish, add_removal_costs, solve_vertices,
};
use crate::solve::kernels::{AddMoments, Residuals, Term};
use crate::solve::lanes::{LANES, Mat4};

/// Vertices whose residuals are held at once.
const BLOCK: usize = 64;

/// Numbers that one task adds up over all lanes.
const SUMMED: usize = 4096;

/// Bones' motion in the forms that the pass reads.
struct Shared<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
    /// [4 B, L] in float32.
    rows: Vec<f32>,
    arch: Arch,
    /// Where vertices are solved.
    pairs: Option<BonePairs>,
    params: Option<LocalParams>,
    /// Price of disagreeing with neighbours, and what they have.
    smooth: Option<(f64, Means)>,
    /// Whether the errors of frames are found.
    per_frame: bool,
}

impl<'a> Shared<'a> {
    /// Without vertices to solve.
    fn new(problem: &'a Problem, motion: &'a Motion) -> Self {
        let rows = motion.rows.iter().map(|&x| x as f32).collect();
        Self { problem, motion, rows, arch: Arch::new(), pairs: None, params: None, smooth: None, per_frame: false }
    }

    fn solving(self, params: LocalParams) -> Self {
        let pairs = Some(BonePairs::new(self.motion.bones, &gram(self.motion)));
        Self { pairs, params: Some(params), ..self }
    }
}

/// The moments of a motion and a skin, with the errors of frames.
pub(crate) fn gather(problem: &Problem, motion: &Motion, skin: &mut Skin) -> Moments {
    run(Shared { per_frame: true, ..Shared::new(problem, motion) }, skin)
}

/// Solves all vertices for fixed bones (unless `params` is `None`) and gathers the moments of the result.
///
/// Vertices are dealt to a fixed number of lanes that depends on sizes only, each lane is summed in order, and lanes
/// are added in order: the result does not depend on the number of threads.
pub(crate) fn pass(problem: &Problem, motion: &Motion, skin: &mut Skin, params: Option<LocalParams>) -> Moments {
    smooth_pass(problem, motion, skin, params, None)
}

/// As [`pass`], with weights drawn towards those of the neighbours.
pub(crate) fn smooth_pass(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    params: Option<LocalParams>,
    smoothness: Option<&Smoothness>,
) -> Moments {
    let shared = Shared::new(problem, motion);
    let shared = match params {
        Some(params) => shared.solving(params),
        None => shared,
    };
    let smooth = smoothness.map(|smoothness| (smoothness.strength, smoothness.means(skin)));
    run(Shared { smooth, ..shared }, skin)
}

fn run(shared: Shared, skin: &mut Skin) -> Moments {
    let (n, b, length) = (shared.problem.vertices(), shared.motion.bones, shared.problem.length);
    let lanes = lane_count(n, b, length);
    // Whole blocks: a part of one costs nearly as much.
    let per_lane = (n / lanes / BLOCK).max(1) * BLOCK;
    let slots = skin.slots;
    let mut per_vertex = vec![0f32; n];
    let results: Vec<Sums> = skin
        .bones
        .par_chunks_mut(per_lane * slots)
        .zip(skin.weights.par_chunks_mut(per_lane * slots))
        .zip(skin.rest.par_chunks_mut(per_lane))
        .zip(per_vertex.par_chunks_mut(per_lane))
        .enumerate()
        .map(|(lane, (((bones, weights), rest), errors))| {
            let mut out = Lane { sums: Sums::new(&shared), ..Lane::new(&shared, slots) };
            let mut start = lane * per_lane;
            let blocks = bones.chunks_mut(BLOCK * slots).zip(weights.chunks_mut(BLOCK * slots));
            for ((bones, weights), (rest, errors)) in blocks.zip(rest.chunks_mut(BLOCK).zip(errors.chunks_mut(BLOCK))) {
                out.block(&shared, start, bones, weights, rest, errors);
                start += rest.len();
            }
            out.sums
        })
        .collect();
    // Lanes and their sum are the most there is at once.
    let per_frame = shared.per_frame;
    drop(shared);
    let mut moments = Moments {
        residual: vec![0.0; 4 * b * length],
        second: SecondMoments::default(),
        squared_error: 0.0,
        per_vertex,
        per_frame: vec![0.0; if per_frame { length / 3 } else { 0 }],
    };
    let mut second = vec![Mat4::default(); b * (b + 1) / 2];
    // Each number over all lanes, in their order.
    moments.residual.par_chunks_mut(SUMMED).enumerate().for_each(|(at, sums)| {
        for lane in &results {
            let part = &lane.residual[at * SUMMED..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    for lane in results {
        second.iter_mut().zip(&lane.second).for_each(|(sum, x)| sum.add_scaled(1.0, x));
        moments.squared_error += lane.squared_error;
        for squares in lane.squares.chunks_exact(length / 3) {
            moments.per_frame.iter_mut().zip(squares).for_each(|(sum, x)| *sum += x);
        }
    }
    moments.second = SecondMoments::from_triangle(b, &second);
    moments
}

/// [N, K] products of each vertex's residual with the rows of its own bones.
pub(crate) fn slopes(problem: &Problem, motion: &Motion, skin: &Skin) -> Vec<[f32; 4]> {
    let shared = Shared::new(problem, motion);
    let (b, slots) = (motion.bones, skin.slots);
    let mut out = vec![[0.0; 4]; problem.vertices() * slots];
    out.par_chunks_mut(BLOCK * slots).enumerate().for_each_init(
        || Lane::new(&shared, slots),
        |lane, (block, out)| {
            let range = block * BLOCK..block * BLOCK + out.len() / slots;
            lane.look_at(&shared, range.clone(), skin);
            let bones = &skin.bones[range.start * slots..range.end * slots];
            for (at, (out, &j)) in out.iter_mut().zip(bones).enumerate() {
                let along = &lane.along[at / slots * 4 * b..];
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

/// Puts what `choose` finds in place of each vertex; it gets room of its own for each task.
pub(crate) fn revise<R: Default>(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    choose: impl Fn(&mut R, Seen<'_>) -> Guess + Sync,
) {
    let shared = Shared::new(problem, motion);
    let (side, slots) = (4 * motion.bones, skin.slots);
    let blocks = skin.bones.par_chunks_mut(BLOCK * slots).zip(skin.weights.par_chunks_mut(BLOCK * slots));
    blocks.zip(skin.rest.par_chunks_mut(BLOCK)).enumerate().for_each_init(
        || (Lane::new(&shared, slots), R::default()),
        |(lane, room), (block, ((bones, weights), rest))| {
            lane.look(&shared, block * BLOCK, bones, weights, rest);
            let vertices = bones.chunks_mut(slots).zip(weights.chunks_mut(slots)).zip(rest);
            for (at, ((bones, weights), rest)) in vertices.enumerate() {
                let along = &lane.along[at * side..(at + 1) * side];
                let found = choose(room, Seen { vertex: block * BLOCK + at, along, error: lane.errors[at] });
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
pub(crate) fn removal_costs(problem: &Problem, motion: &Motion, skin: &Skin, params: LocalParams) -> Vec<f64> {
    let b = motion.bones;
    let shared = Shared::new(problem, motion).solving(params);
    let (n, slots) = (problem.vertices(), skin.slots);
    let blocks: Vec<Vec<f64>> = (0..n.div_ceil(BLOCK))
        .into_par_iter()
        .map_init(
            || Lane::new(&shared, slots),
            |lane, block| {
                let range = block * BLOCK..((block + 1) * BLOCK).min(n);
                let slot_range = range.start * slots..range.end * slots;
                let (bones, weights) = (&skin.bones[slot_range.clone()], &skin.weights[slot_range]);
                lane.look_at(&shared, range.clone(), skin);
                let mut costs = vec![0.0; b];
                let mut solver = LocalSolver::new(params);
                for at in (0..range.len()).step_by(LANES) {
                    let part = at..(at + LANES).min(range.len());
                    let slot_range = part.start * slots..part.end * slots;
                    let (bones, weights) = (&bones[slot_range.clone()], &weights[slot_range]);
                    let rest = &skin.rest[range.start + part.start..range.start + part.end];
                    if let Some(view) = lane.view(&shared, part, range.start) {
                        add_removal_costs(&mut solver, view, bones, weights, rest, &mut costs);
                    }
                }
                costs
            },
        )
        .collect();
    let mut costs = vec![0.0; b];
    for block in blocks {
        costs.iter_mut().zip(block).for_each(|(sum, x)| *sum += x);
    }
    costs
}

/// As many lanes as give threads something to do without their sums outgrowing the data, or a little memory.
fn lane_count(n: usize, bones: usize, length: usize) -> usize {
    const LITTLE: usize = 1 << 18;
    let by_memory = (n * length / 8).max(LITTLE).checked_div(4 * bones * length + 16 * bones * bones).unwrap_or(1);
    (n / 128).min(by_memory).clamp(2, 32).min(n.div_ceil(LANES)).max(1)
}

/// [4 B, 4 B] `T T^T`.
pub(crate) fn gram(motion: &Motion) -> Vec<f64> {
    let (side, length) = (4 * motion.bones, motion.length);
    let mut out = vec![0.0; side * side];
    let rows = MatRef::from_row_major_slice(&motion.rows, side, length);
    // A few rows a task: the same numbers whatever the number of threads.
    out.par_chunks_mut(32 * side).enumerate().for_each(|(at, part)| {
        let count = part.len() / side;
        let to = MatMut::from_row_major_slice_mut(part, count, side);
        matmul(to, Accum::Replace, rows.subrows(32 * at, count), rows.transpose(), 1.0, Par::Seq);
    });
    out
}

/// One lane's buffers and sums.
struct Lane {
    slots: usize,
    solver: Option<LocalSolver>,
    /// [BLOCK, L] trajectories that are not stored.
    read: Vec<f32>,
    residuals: Vec<f32>,
    /// [BLOCK] squared lengths of the residuals.
    errors: Vec<f64>,
    along: Vec<f32>,
    /// Terms of the block's vertices, as the residuals were found with.
    terms: Vec<Term>,
    /// [n] where those of each vertex end.
    ends: Vec<usize>,
    sums: Sums,
}

/// What a lane adds to the [`Moments`].
#[derive(Default)]
struct Sums {
    /// [4 B, L]
    residual: Vec<f32>,
    /// [B (B + 1) / 2] lower triangle of `S`, a block for each pair of bones.
    second: Vec<Mat4>,
    squared_error: f64,
    /// [L] squares of the residuals, where the errors of frames are found.
    squares: Vec<f64>,
}

impl Sums {
    fn new(shared: &Shared) -> Self {
        let (b, length) = (shared.motion.bones, shared.problem.length);
        let second = vec![Mat4::default(); b * (b + 1) / 2];
        let squares = vec![0.0; if shared.per_frame { length } else { 0 }];
        Self { residual: vec![0.0; 4 * b * length], second, squared_error: 0.0, squares }
    }
}

impl Lane {
    /// Without room for sums: not everybody adds any.
    fn new(shared: &Shared, slots: usize) -> Self {
        let (side, length) = (4 * shared.motion.bones, shared.problem.length);
        Self {
            slots,
            solver: shared.params.map(LocalSolver::new),
            read: Vec::new(),
            residuals: vec![0.0; BLOCK * length],
            errors: vec![0.0; BLOCK],
            along: vec![0.0; BLOCK * side],
            terms: Vec::with_capacity(BLOCK * 4 * slots),
            ends: Vec::with_capacity(BLOCK),
            sums: Sums::default(),
        }
    }

    /// Residuals of some vertices and their products with all bones, for a skin that stays.
    fn look_at(&mut self, shared: &Shared, range: Range<usize>, skin: &Skin) {
        let slots = range.start * self.slots..range.end * self.slots;
        self.look(shared, range.start, &skin.bones[slots.clone()], &skin.weights[slots], &skin.rest[range]);
    }

    /// As [`Lane::look_at`], from vertex `start` on.
    fn look(&mut self, shared: &Shared, start: usize, bones: &[u16], weights: &[f64], rest: &[DVec3]) {
        let mut buffer = std::mem::take(&mut self.read);
        let trajectories = shared.problem.block(start..start + rest.len(), &mut buffer);
        self.find_residuals(shared, trajectories, bones, weights, rest);
        self.read = buffer;
        self.find_along(shared, rest.len());
    }

    fn block(
        &mut self,
        shared: &Shared,
        start: usize,
        bones: &mut [u16],
        weights: &mut [f64],
        rest: &mut [DVec3],
        errors: &mut [f32],
    ) {
        let n = rest.len();
        let mut buffer = std::mem::take(&mut self.read);
        let trajectories = shared.problem.block(start..start + n, &mut buffer);
        if let Some(mut solver) = self.solver.take() {
            self.find_residuals(shared, trajectories, bones, weights, rest);
            self.find_along(shared, n);
            for at in (0..n).step_by(LANES) {
                let part = at..(at + LANES).min(n);
                let slots = part.start * self.slots..part.end * self.slots;
                if let Some(view) = self.view(shared, part.clone(), start) {
                    let skin = SkinRows {
                        bones: &mut bones[slots.clone()],
                        weights: &mut weights[slots],
                        rest: &mut rest[part],
                    };
                    solve_vertices(&mut solver, view, skin);
                }
            }
            self.solver = Some(solver);
        }
        self.find_residuals(shared, trajectories, bones, weights, rest);
        self.add_moments(shared, bones, weights, rest, errors);
        self.read = buffer;
    }

    /// What vertices number `part` of the block, which starts at vertex `start`, are solved from.
    fn view<'a>(&'a self, shared: &'a Shared<'_>, part: Range<usize>, start: usize) -> Option<BatchView<'a>> {
        let side = 4 * shared.motion.bones;
        let of = |(strength, means): &'a (f64, Means)| Wish {
            means: &means[start + part.start..start + part.end],
            strength: *strength,
        };
        Some(BatchView {
            pairs: shared.pairs.as_ref()?,
            along: &self.along[part.start * side..part.end * side],
            errors: &self.errors[part.clone()],
            wish: shared.smooth.as_ref().map(of),
        })
    }

    /// `r = v - sum_j w_j T_j u` for a block of vertices.
    fn find_residuals(
        &mut self,
        shared: &Shared,
        trajectories: &[f32],
        bones: &[u16],
        weights: &[f64],
        rest: &[DVec3],
    ) {
        let (n, length) = (rest.len(), shared.problem.length);
        self.find_terms(shared, bones, weights, rest);
        shared.arch.dispatch(Residuals {
            residuals: &mut self.residuals[..n * length],
            errors: &mut self.errors[..n],
            trajectories,
            table: &shared.rows,
            terms: &self.terms,
            ends: &self.ends,
        });
    }

    /// Rows of the vertices' bones and what they are multiplied by: `w_j u`.
    fn find_terms(&mut self, shared: &Shared, bones: &[u16], weights: &[f64], rest: &[DVec3]) {
        let (b, length) = (shared.motion.bones, shared.problem.length);
        self.terms.clear();
        self.ends.clear();
        for (u, (bones, weights)) in rest.iter().zip(bones.chunks(self.slots).zip(weights.chunks(self.slots))) {
            for (&j, &w) in bones.iter().zip(weights).take_while(|(_, w)| **w > 0.0) {
                for (c, x) in [u.x, u.y, u.z, 1.0].into_iter().enumerate() {
                    self.terms.push(Term { start: (c * b + j as usize) * length, scale: (w * x) as f32 });
                }
            }
            self.ends.push(self.terms.len());
        }
    }

    /// `along = residuals * T^T`.
    fn find_along(&mut self, shared: &Shared, n: usize) {
        let (side, length) = (4 * shared.motion.bones, shared.problem.length);
        matmul(
            MatMut::from_row_major_slice_mut(&mut self.along[..n * side], n, side),
            Accum::Replace,
            MatRef::from_row_major_slice(&self.residuals[..n * length], n, length),
            MatRef::from_row_major_slice(&shared.rows, side, length).transpose(),
            1.0,
            Par::Seq,
        );
    }

    fn add_moments(&mut self, shared: &Shared, bones: &[u16], weights: &[f64], rest: &[DVec3], errors: &mut [f32]) {
        let n = rest.len();
        let residuals = &self.residuals[..n * shared.problem.length];
        let (terms, ends) = (&self.terms, &self.ends);
        shared.arch.dispatch(AddMoments { table: &mut self.sums.residual, residuals, terms, ends });
        if shared.per_frame {
            for row in residuals.chunks_exact(shared.problem.length) {
                self.sums.squares.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(*x) * f64::from(*x));
            }
        }
        for (at, u) in rest.iter().enumerate() {
            errors[at] = self.errors[at] as f32;
            self.sums.squared_error += self.errors[at];
            let row = at * self.slots..(at + 1) * self.slots;
            let (bones, weights) = (&bones[row.clone()], &weights[row]);
            let u = [u.x, u.y, u.z, 1.0];
            let outer = Mat4::outer(&u, &u);
            for k in 0..weights.iter().take_while(|w| **w > 0.0).count() {
                for k2 in 0..=k {
                    let (j, j2) = (bones[k].max(bones[k2]) as usize, bones[k].min(bones[k2]) as usize);
                    self.sums.second[j * (j + 1) / 2 + j2].add_scaled(weights[k] * weights[k2], &outer);
                }
            }
        }
    }
}
