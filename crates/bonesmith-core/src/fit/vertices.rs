//! One pass over all vertices: new weights and rest positions, and the sums that the bones need.
//!
//! Per block of vertices: residuals `r = v - pred` in float32 (small numbers, so float32 is exact enough), one
//! matrix product of residuals with all bones, the vertex solves, then residuals again and their moments
//! `D = sum_i x_i r_i^T`, `S = sum_i x_i x_i^T` with `x_i[c B + j] = w_ij u_ic`.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

use super::local::{
    BoneProducts, Influences, LocalParams, LocalSolver, VertexView, Wish, add_removal_costs, solve_vertex,
};
use super::model::{Motion, Skin};
use super::problem::Problem;
use super::smooth::{Means, Smoothness};
use crate::solve::kernels::{accumulate4, squared, subtract4};

/// Vertices whose residuals are held at once.
const BLOCK: usize = 64;

/// What the bones need to know about all vertices.
#[derive(Default)]
pub(crate) struct Moments {
    /// [4 B, L] `D = sum_i x_i r_i^T` with the residuals of the present motion.
    pub residual: Vec<f64>,
    /// [4 B, 4 B] `S = sum_i x_i x_i^T`.
    pub second: Vec<f64>,
    /// `sum_i |r_i|^2`.
    pub squared_error: f64,
    /// [N] `|r_i|^2`.
    pub per_vertex: Vec<f32>,
}

/// Bones' motion in the forms that the pass reads.
struct Shared<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
    /// [4 B, L] in float32.
    rows: Vec<f32>,
    products: BoneProducts,
    params: Option<LocalParams>,
    /// Price of disagreeing with neighbours, and what they have.
    smooth: Option<(f64, Means)>,
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
    let (b, length) = (motion.bones, problem.length);
    let products = BoneProducts::new(b, if params.is_some() { gram(motion) } else { vec![0.0; 16 * b * b] });
    let rows = motion.rows.iter().map(|&x| x as f32).collect();
    let smooth = smoothness.map(|smoothness| (smoothness.strength, smoothness.means(skin)));
    let shared = Shared { problem, motion, rows, products, params, smooth };
    let n = problem.vertices();
    let lanes = lane_count(n, b, length);
    let per_lane = n.div_ceil(lanes).next_multiple_of(BLOCK);
    let slots = skin.slots;
    let mut per_vertex = vec![0f32; n];
    let results: Vec<Lane> = skin
        .bones
        .par_chunks_mut(per_lane * slots)
        .zip(skin.weights.par_chunks_mut(per_lane * slots))
        .zip(skin.rest.par_chunks_mut(per_lane))
        .zip(per_vertex.par_chunks_mut(per_lane))
        .enumerate()
        .map(|(lane, (((bones, weights), rest), errors))| {
            let mut out = Lane::new(&shared, slots);
            let mut start = lane * per_lane;
            let blocks = bones.chunks_mut(BLOCK * slots).zip(weights.chunks_mut(BLOCK * slots));
            for ((bones, weights), (rest, errors)) in blocks.zip(rest.chunks_mut(BLOCK).zip(errors.chunks_mut(BLOCK))) {
                out.block(&shared, start, bones, weights, rest, errors);
                start += rest.len();
            }
            out
        })
        .collect();
    let mut moments =
        Moments { residual: vec![0.0; 4 * b * length], second: vec![0.0; 16 * b * b], squared_error: 0.0, per_vertex };
    for lane in results {
        moments.residual.iter_mut().zip(&lane.residual_moments).for_each(|(sum, x)| *sum += f64::from(*x));
        moments.second.iter_mut().zip(&lane.second).for_each(|(sum, x)| *sum += x);
        moments.squared_error += lane.squared_error;
    }
    mirror(&mut moments.second, 4 * b);
    moments
}

/// By how much the error would rise without each bone [B], others refitted vertex by vertex.
pub(crate) fn removal_costs(problem: &Problem, motion: &Motion, skin: &Skin, params: LocalParams) -> Vec<f64> {
    let b = motion.bones;
    let products = BoneProducts::new(b, gram(motion));
    let rows = motion.rows.iter().map(|&x| x as f32).collect();
    let shared = Shared { problem, motion, rows, products, params: Some(params), smooth: None };
    let (n, slots) = (problem.vertices(), skin.slots);
    let blocks: Vec<Vec<f64>> = (0..n.div_ceil(BLOCK))
        .into_par_iter()
        .map_init(
            || Lane::new(&shared, slots),
            |lane, block| {
                let range = block * BLOCK..((block + 1) * BLOCK).min(n);
                let slot_range = range.start * slots..range.end * slots;
                let (bones, weights) = (&skin.bones[slot_range.clone()], &skin.weights[slot_range]);
                lane.find_residuals(&shared, range.start, bones, weights, &skin.rest[range.clone()]);
                lane.find_along(&shared, range.len());
                let mut costs = vec![0.0; b];
                let mut influences = Influences::default();
                let mut solver = LocalSolver::new(params);
                for (at, i) in range.enumerate() {
                    let slots = at * slots..(at + 1) * slots;
                    load(&mut influences, &bones[slots.clone()], &weights[slots]);
                    let view = lane.view(&shared, at, i);
                    add_removal_costs(&mut solver, view, &mut influences, skin.rest[i], &mut costs);
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

/// As many lanes as give threads something to do without their sums outgrowing the data.
fn lane_count(n: usize, bones: usize, length: usize) -> usize {
    let by_memory = (n * length / 4).checked_div(4 * bones * length + 8 * bones * bones).unwrap_or(1);
    (n / 256).min(by_memory).clamp(2, 32).min(n.div_ceil(BLOCK)).max(1)
}

/// [4 B, 4 B] `T T^T`.
pub(crate) fn gram(motion: &Motion) -> Vec<f64> {
    let (side, length) = (4 * motion.bones, motion.length);
    let mut out = vec![0.0; side * side];
    let rows = MatRef::from_row_major_slice(&motion.rows, side, length);
    matmul(
        MatMut::from_row_major_slice_mut(&mut out, side, side),
        Accum::Replace,
        rows,
        rows.transpose(),
        1.0,
        Par::Seq,
    );
    out
}

/// Copies the lower triangle onto the upper.
fn mirror(matrix: &mut [f64], side: usize) {
    for r in 0..side {
        for c in 0..r {
            matrix[c * side + r] = matrix[r * side + c];
        }
    }
}

/// One lane's buffers and sums.
struct Lane {
    slots: usize,
    solver: Option<LocalSolver>,
    influences: Influences,
    residuals: Vec<f32>,
    along: Vec<f32>,
    residual_moments: Vec<f32>,
    second: Vec<f64>,
    squared_error: f64,
}

impl Lane {
    fn new(shared: &Shared, slots: usize) -> Self {
        let (side, length) = (4 * shared.motion.bones, shared.problem.length);
        Self {
            slots,
            solver: shared.params.map(LocalSolver::new),
            influences: Influences::default(),
            residuals: vec![0.0; BLOCK * length],
            along: vec![0.0; BLOCK * side],
            residual_moments: vec![0.0; side * length],
            second: vec![0.0; side * side],
            squared_error: 0.0,
        }
    }

    fn block(
        &mut self,
        shared: &Shared,
        start: usize,
        bones: &mut [u16],
        weights: &mut [f64],
        rest: &mut [glam::DVec3],
        errors: &mut [f32],
    ) {
        let n = rest.len();
        if let Some(mut solver) = self.solver.take() {
            self.find_residuals(shared, start, bones, weights, rest);
            self.find_along(shared, n);
            let mut influences = std::mem::take(&mut self.influences);
            for (at, rest) in rest.iter_mut().enumerate() {
                let slots = at * self.slots..(at + 1) * self.slots;
                load(&mut influences, &bones[slots.clone()], &weights[slots.clone()]);
                let view = self.view(shared, at, start + at);
                solve_vertex(&mut solver, view, &mut influences, rest);
                store(&influences, &mut bones[slots.clone()], &mut weights[slots]);
            }
            self.solver = Some(solver);
            self.influences = influences;
        }
        self.find_residuals(shared, start, bones, weights, rest);
        self.add_moments(shared, bones, weights, rest, errors);
    }

    /// What vertex `i`, number `at` of the block, is solved from.
    fn view<'a>(&'a self, shared: &'a Shared<'_>, at: usize, i: usize) -> VertexView<'a> {
        let (side, length) = (4 * shared.motion.bones, shared.problem.length);
        VertexView {
            products: &shared.products,
            along: &self.along[at * side..(at + 1) * side],
            error: squared(&self.residuals[at * length..(at + 1) * length]),
            wish: shared.smooth.as_ref().map(|(strength, means)| Wish { mean: &means[i], strength: *strength }),
        }
    }

    /// `r = v - sum_j w_j T_j u` for a block of vertices.
    fn find_residuals(&mut self, shared: &Shared, start: usize, bones: &[u16], weights: &[f64], rest: &[glam::DVec3]) {
        let length = shared.problem.length;
        for (at, u) in rest.iter().enumerate() {
            let r = &mut self.residuals[at * length..(at + 1) * length];
            r.copy_from_slice(shared.problem.trajectory(start + at));
            for k in at * self.slots..(at + 1) * self.slots {
                if weights[k] > 0.0 {
                    let x = [u.x, u.y, u.z, 1.0].map(|c| (weights[k] * c) as f32);
                    subtract4(r, x, shared.rows_of(bones[k] as usize));
                }
            }
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

    fn add_moments(
        &mut self,
        shared: &Shared,
        bones: &[u16],
        weights: &[f64],
        rest: &[glam::DVec3],
        errors: &mut [f32],
    ) {
        let (b, length) = (shared.motion.bones, shared.problem.length);
        let side = 4 * b;
        for (at, u) in rest.iter().enumerate() {
            let r = &self.residuals[at * length..(at + 1) * length];
            let error = squared(r);
            errors[at] = error as f32;
            self.squared_error += error;
            let u = [u.x, u.y, u.z, 1.0];
            let used = (at * self.slots..(at + 1) * self.slots).filter(|&k| weights[k] > 0.0);
            for k in used.clone() {
                let (j, wj) = (bones[k] as usize, weights[k]);
                accumulate4(bone_rows_mut(&mut self.residual_moments, j, b, length), u.map(|c| (wj * c) as f32), r);
                for k2 in used.clone() {
                    let (j2, ww) = (bones[k2] as usize, wj * weights[k2]);
                    for c in 0..4 {
                        for d in 0..=c {
                            // Lower triangle of the whole matrix: all of row c B + j left of the diagonal.
                            self.second[(c * b + j) * side + d * b + j2] += ww * u[c] * u[d];
                        }
                    }
                }
            }
        }
    }
}

impl Shared<'_> {
    fn rows_of(&self, j: usize) -> [&[f32]; 4] {
        let length = self.problem.length;
        std::array::from_fn(|c| &self.rows[(c * self.motion.bones + j) * length..][..length])
    }
}

/// The four rows of bone `j` in a [4 B, L] matrix.
fn bone_rows_mut(matrix: &mut [f32], j: usize, bones: usize, length: usize) -> [&mut [f32]; 4] {
    let mut planes = matrix.chunks_exact_mut(bones * length);
    std::array::from_fn(|_| match planes.next() {
        Some(plane) => &mut plane[j * length..(j + 1) * length],
        None => unreachable!("a motion has four planes"),
    })
}

fn load(influences: &mut Influences, bones: &[u16], weights: &[f64]) {
    influences.bones.clear();
    influences.weights.clear();
    for (&j, &w) in bones.iter().zip(weights).take_while(|(_, w)| **w > 0.0) {
        influences.bones.push(j as usize);
        influences.weights.push(w);
    }
}

fn store(influences: &Influences, bones: &mut [u16], weights: &mut [f64]) {
    bones.fill(0);
    weights.fill(0.0);
    for (k, (&j, &w)) in influences.bones.iter().zip(&influences.weights).enumerate() {
        bones[k] = j as u16;
        weights[k] = w;
    }
}
