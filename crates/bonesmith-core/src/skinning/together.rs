//! Weights, rest positions and affine bones moved together.
//!
//! Rounds over vertices and bones in turn creep where both have to move at once. Here the bones are eliminated: for
//! any `X` (rows `x_i`, see `fit`) the best motion is `T = S^-1 X^T V`, so what is left is a least squares problem in
//! weights and rest positions alone, and Gauss-Newton steps on it see how the bones will follow. With the
//! projection `P = I - X S^-1 X^T` and the change `dX` that a change `d` of the unknowns makes
//!
//! ```text
//! minimise |R - P dX T|^2 + damping d^T diag d           R = V - X T
//! ```
//!
//! (variable projection [Golub1973] with the simplification of [Kaufman1975]). Its normal equations need frames only in `K = T T^T` and
//! in `T r_i`: solved by conjugate gradients, preconditioned with each vertex's own block, a step costs vertices
//! times `(4 K)^2` whatever the number of frames. Bones of a vertex stay those it has; `vertices` changes them.
//! A step is taken only if the true error falls. Steps need not be exact, so all that is kept for each vertex is float32; sums are float64.

use std::ops::Range;

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat, MatMut, MatRef, Par};
use glam::DVec3;
use multiversion::multiversion;
use rayon::prelude::*;

use crate::model::rig::BoneKind;
use crate::skinning::bone_step;
use crate::skinning::descent::State;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
use crate::skinning::skin::Skin;
use crate::skinning::vertex_step::VertexParams;
use crate::solve::definite;
use crate::solve::lanes::Mat4;

/// Maximum steps of conjugate gradients.
const MAX_INNER: usize = 20;

/// Conjugate gradients end at this share of the first residual.
const INNER_TOLERANCE: f64 = 0.03;

/// Maximum influences of a vertex.
pub(crate) const MAX_SLOTS: usize = 16;

/// Maximum number of bones: a step costs its cube.
pub(crate) const MAX_BONES: usize = 128;

/// Maximum unknowns of a vertex: weights but for one, and the rest position.
const MAX_UNKNOWNS: usize = MAX_SLOTS + 2;

/// Vertices that one task works on.
const CHUNK: usize = 256;

/// First, least and largest damping.
const DAMPING: (f64, f64, f64) = (1e-2, 1e-7, 1e3);

/// A number for each unknown of a vertex; 0 beyond those it has.
type Unknowns = [f64; MAX_UNKNOWNS];

/// Four numbers for each bone of a vertex.
type Rows = [[f64; 4]; MAX_SLOTS];

/// Steps over vertices and bones, with the damping that worked last.
pub(crate) struct Together {
    damping: f64,
    move_rest: bool,
}

impl Together {
    /// Steps for such a state, if they can be made.
    pub fn new(state: &State, params: &VertexParams) -> Option<Self> {
        let possible = state.model.kind == BoneKind::Affine && params.slots <= MAX_SLOTS && state.bones() <= MAX_BONES;
        possible.then_some(Self { damping: DAMPING.0, move_rest: params.move_rest })
    }

    /// One step from a state whose bones are the best for its vertices; `moments` and `squared_error` are those of the
    /// state. Returns the new ones if there is a better state.
    pub fn step(
        &mut self,
        problem: &Problem,
        state: &mut State,
        moments: &Moments,
        squared_error: f64,
    ) -> Option<(f64, Moments)> {
        let skin = System::new(problem, state, moments, self.damping, self.move_rest)?.solved();
        let before = (std::mem::replace(&mut state.skin, skin), state.motion.clone());
        let after = pass::gather(problem, &state.motion, &state.skin);
        let gain = bone_step::update(&mut state.motion, &after, &state.model);
        let reached = (after.squared_error - gain).max(0.0);
        if reached < squared_error {
            self.damping = (self.damping / 4.0).max(DAMPING.1);
            return Some((reached, after));
        }
        (state.skin, state.motion) = before;
        self.damping = (self.damping * 16.0).min(DAMPING.2);
        None
    }
}

/// The normal equations of one step.
pub(super) struct System<'a> {
    skin: &'a Skin,
    /// Its Gram table is `K`.
    motion: &'a Motion,
    pairs: &'a BonePairs,
    /// [4 B, 4 B] `S^-1`.
    inverse: Mat<f64>,
    /// Room for the unknowns of a vertex: weights of all slots but the pivot, then the rest position.
    stride: usize,
    move_rest: bool,
    /// [N, stride] right side: slopes of the error.
    pub(super) right: Vec<f32>,
    /// [N, stride] damping of each unknown.
    pub(super) damping: Vec<f32>,
    /// [N, stride (stride + 1) / 2] Cholesky factors of the vertices' own blocks.
    factors: Vec<f32>,
}

impl<'a> System<'a> {
    pub(super) fn new(
        problem: &Problem,
        state: &'a State,
        moments: &Moments,
        damping: f64,
        move_rest: bool,
    ) -> Option<Self> {
        let (skin, side) = (&state.skin, 4 * state.bones());
        let stride = skin.slots + 2;
        let mut system = Self {
            skin,
            motion: &state.motion,
            pairs: state.motion.pairs(),
            inverse: bone_step::regular(&moments.second.dense(), side)?.0.solve(Mat::<f64>::identity(side, side)),
            stride,
            move_rest,
            right: Vec::new(),
            damping: Vec::new(),
            factors: Vec::new(),
        };
        let n = skin.rest.len();
        let (mut right, mut dampings) = (vec![0.0; n * stride], vec![0.0; n * stride]);
        let mut factors = vec![0.0; n * system.triangle()];
        let slopes = pass::slopes(problem, &state.motion, skin);
        let unknowns = right.par_chunks_mut(stride).zip(dampings.par_chunks_mut(stride));
        let vertices = unknowns.zip(factors.par_chunks_mut(system.triangle())).zip(slopes.par_chunks(skin.slots));
        vertices.enumerate().for_each(|(i, (((right, dampings), factor), slopes))| {
            let vertex = system.vertex(i);
            let mut rows: Rows = [[0.0; 4]; MAX_SLOTS];
            rows.iter_mut().zip(slopes).for_each(|(row, slope)| *row = slope.map(f64::from));
            narrow(&vertex.gather(&rows), right);
            system.prepare(&vertex, damping, dampings, factor);
        });
        (system.right, system.damping, system.factors) = (right, dampings, factors);
        Some(system)
    }

    fn triangle(&self) -> usize {
        definite::triangle(self.stride)
    }

    #[inline(always)]
    fn vertex(&self, i: usize) -> Vertex<'_> {
        let slots = self.skin.slots;
        let weights = &self.skin.weights[i * slots..(i + 1) * slots];
        let count = weights.iter().take_while(|w| **w > 0.0).count();
        let weights = &weights[..count];
        let pivot = (0..count).fold(0, |best, a| if weights[a] > weights[best] { a } else { best });
        let u = self.skin.rest[i];
        let bones = &self.skin.bones[i * slots..][..count];
        Vertex { bones, weights, pivot, u: [u.x, u.y, u.z, 1.0], move_rest: self.move_rest }
    }

    /// Damping and factor of a vertex's own block.
    fn prepare(&self, vertex: &Vertex<'_>, damping: f64, dampings: &mut [f32], factor: &mut [f32]) {
        let d = vertex.unknowns();
        let mut block = [[0.0; MAX_UNKNOWNS]; MAX_UNKNOWNS];
        for q in 0..d {
            let mut unit = [0.0; MAX_UNKNOWNS];
            unit[q] = 1.0;
            // The block is symmetric: its column is its row.
            block[q] = vertex.gather(&self.along(vertex, &vertex.changes(&unit)));
        }
        let trace: f64 = (0..d).map(|q| block[q][q]).sum();
        for q in 0..d {
            dampings[q] = (damping * block[q][q] + 1e-9 * trace) as f32 + f32::MIN_POSITIVE;
            block[q][q] += f64::from(dampings[q]);
        }
        definite::factor(&block, d, factor);
    }

    /// `sum_b K_ab e_b` for each bone `a` of a vertex.
    #[inline(always)]
    fn along(&self, vertex: &Vertex<'_>, changes: &Rows) -> Rows {
        let mut out = [[0.0; 4]; MAX_SLOTS];
        for (&j, out) in vertex.bones.iter().zip(&mut out) {
            for (&k, e) in vertex.bones.iter().zip(changes) {
                let part = self.pairs.block(j as usize, k as usize).times(e);
                (0..4).for_each(|c| out[c] += part[c]);
            }
        }
        out
    }

    /// The normal equations' matrix times `d`.
    pub(super) fn apply(&self, d: &[f32], out: &mut [f32]) {
        let follow = self.follow(d);
        out.par_chunks_mut(CHUNK * self.stride).enumerate().for_each(|(at, out)| {
            apply_to(self, &follow, at * CHUNK, d, out);
        });
    }

    /// [B, B] blocks of `(S^-1 X^T dX K)^T`: how the bones follow.
    fn follow(&self, d: &[f32]) -> Vec<Mat4> {
        let (b, n) = (self.motion.bones, self.skin.rest.len());
        // Their number depends on sizes only, and they are added in order.
        let lanes = (n / CHUNK).clamp(1, 8);
        let per_lane = n.div_ceil(lanes);
        let lane = |lane: usize| cross_moments(self, lane * per_lane..((lane + 1) * per_lane).min(n), d);
        let parts: Vec<Vec<Mat4>> = (0..lanes).into_par_iter().map(lane).collect();
        let side = 4 * b;
        let mut cross = vec![0.0; side * side];
        for (at, block) in parts.iter().flat_map(|part| part.iter().enumerate()) {
            for (c, e) in (0..4).flat_map(|c| (0..4).map(move |e| (c, e))) {
                cross[(c * b + at / b) * side + e * b + at % b] += block.get(c, e);
            }
        }
        let gram = MatRef::from_row_major_slice(self.motion.gram(), side, side);
        let mut seen = vec![0.0; side * side];
        let to = MatMut::from_row_major_slice_mut(&mut seen, side, side);
        matmul(to, Accum::Replace, MatRef::from_row_major_slice(&cross, side, side), gram, 1.0, Par::Seq);
        let to = MatMut::from_row_major_slice_mut(&mut cross, side, side);
        let seen = MatRef::from_row_major_slice(&seen, side, side);
        matmul(to, Accum::Replace, self.inverse.as_ref(), seen, 1.0, Par::Seq);
        let mut out = vec![Mat4::default(); b * b];
        for (at, block) in out.iter_mut().enumerate() {
            for (c, e) in (0..4).flat_map(|c| (0..4).map(move |e| (c, e))) {
                *block.get_mut(e, c) = cross[(c * b + at % b) * side + e * b + at / b];
            }
        }
        out
    }

    /// The skin after the step that conjugate gradients find from zero.
    fn solved(mut self) -> Skin {
        let mut residual = std::mem::take(&mut self.right);
        let mut x = vec![0.0; residual.len()];
        let mut direction = vec![0.0; x.len()];
        self.precondition(&residual, &mut direction);
        // The matrix times the direction, then the residual preconditioned.
        let mut product = vec![0.0; x.len()];
        let mut energy = dot(&residual, &direction);
        let enough = energy * INNER_TOLERANCE * INNER_TOLERANCE;
        for _ in 0..MAX_INNER {
            if energy <= enough {
                break;
            }
            self.apply(&direction, &mut product);
            let curvature = dot(&direction, &product);
            if curvature <= 0.0 {
                break;
            }
            let length = (energy / curvature) as f32;
            x.iter_mut().zip(&direction).for_each(|(x, d)| *x += length * d);
            residual.iter_mut().zip(&product).for_each(|(r, p)| *r -= length * p);
            self.precondition(&residual, &mut product);
            let next = dot(&residual, &product);
            let carried = (next / energy) as f32;
            direction.iter_mut().zip(&product).for_each(|(d, z)| *d = z + carried * *d);
            energy = next;
        }
        (self.factors, self.damping) = (Vec::new(), Vec::new());
        drop((residual, direction, product));
        self.moved(&x)
    }

    /// Solves with each vertex's own block.
    fn precondition(&self, right: &[f32], out: &mut [f32]) {
        let rows = out.par_chunks_mut(self.stride).zip(right.par_chunks(self.stride));
        rows.zip(self.factors.par_chunks(self.triangle())).enumerate().for_each(|(i, ((out, right), factor))| {
            let mut x = widen(right);
            definite::solve_factored(factor, &mut x[..self.vertex(i).unknowns()]);
            narrow(&x, out);
        });
    }

    /// The skin after a step, its weights made convex again.
    pub(super) fn moved(&self, step: &[f32]) -> Skin {
        let slots = self.skin.slots;
        let mut out = self.skin.clone();
        for (i, own) in step.chunks_exact(self.stride).enumerate() {
            let (vertex, own) = (self.vertex(i), widen(own));
            let count = vertex.bones.len();
            let changes = vertex.weight_changes(&own);
            let mut influences: Vec<(u16, f64)> = (0..count)
                .map(|a| (vertex.bones[a], vertex.weights[a] + changes[a]))
                .filter(|(_, w)| *w > 0.0)
                .collect();
            let total: f64 = influences.iter().map(|(_, w)| w).sum();
            influences.iter_mut().for_each(|(_, w)| *w /= total);
            influences.resize(slots, (0, 0.0));
            for (a, (bone, weight)) in influences.into_iter().enumerate() {
                (out.bones[i * slots + a], out.weights[i * slots + a]) = (bone, weight);
            }
            if self.move_rest {
                out.rest[i] += DVec3::from_slice(&own[count - 1..]);
            }
        }
        out
    }
}

/// `sum_i x_i dx_i^T` over some vertices, a block for each pair of bones.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn cross_moments(system: &System<'_>, vertices: Range<usize>, d: &[f32]) -> Vec<Mat4> {
    let b = system.motion.bones;
    let mut sums = vec![Mat4::default(); b * b];
    for i in vertices {
        let vertex = system.vertex(i);
        let changes = vertex.changes(&widen(&d[i * system.stride..(i + 1) * system.stride]));
        for (&k, e) in vertex.bones.iter().zip(&changes) {
            let outer = Mat4::outer(&vertex.u, e);
            for (&j, &w) in vertex.bones.iter().zip(vertex.weights) {
                sums[j as usize * b + k as usize].add_scaled(w, &outer);
            }
        }
    }
    sums
}

/// Rows of the normal equations' matrix times `d`, from vertex `first` on.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn apply_to(system: &System<'_>, follow: &[Mat4], first: usize, d: &[f32], out: &mut [f32]) {
    let (b, stride) = (system.motion.bones, system.stride);
    for (at, out) in out.chunks_exact_mut(stride).enumerate() {
        let unknowns = (first + at) * stride..(first + at + 1) * stride;
        let (own, damping) = (widen(&d[unknowns.clone()]), widen(&system.damping[unknowns]));
        let vertex = system.vertex(first + at);
        let mut rows = system.along(&vertex, &vertex.changes(&own));
        for (&j, row) in vertex.bones.iter().zip(&mut rows) {
            let mut mixed = Mat4::default();
            for (&k, &w) in vertex.bones.iter().zip(vertex.weights) {
                mixed.add_scaled(w, &follow[j as usize * b + k as usize]);
            }
            let taken = mixed.times(&vertex.u);
            (0..4).for_each(|c| row[c] -= taken[c]);
        }
        let mut product = vertex.gather(&rows);
        (0..vertex.unknowns()).for_each(|q| product[q] += damping[q] * own[q]);
        narrow(&product, out);
    }
}

/// A vertex and its unknowns.
struct Vertex<'a> {
    bones: &'a [u16],
    weights: &'a [f64],
    /// The bone whose weight follows from the others.
    pivot: usize,
    u: [f64; 4],
    move_rest: bool,
}

impl Vertex<'_> {
    #[inline(always)]
    fn unknowns(&self) -> usize {
        self.bones.len() - 1 + if self.move_rest { 3 } else { 0 }
    }

    /// Changes of all weights; they sum to 0.
    #[inline(always)]
    fn weight_changes(&self, d: &[f64]) -> [f64; MAX_SLOTS] {
        let mut out = [0.0; MAX_SLOTS];
        let others = (0..self.bones.len()).filter(|&a| a != self.pivot);
        for (a, d) in others.zip(d) {
            out[a] = *d;
            out[self.pivot] -= d;
        }
        out
    }

    /// `e_a`: changes of `w_a u` for each bone.
    #[inline(always)]
    fn changes(&self, d: &[f64]) -> Rows {
        let from = self.bones.len() - 1;
        let rest = if self.move_rest { [d[from], d[from + 1], d[from + 2], 0.0] } else { [0.0; 4] };
        let weights = self.weight_changes(d);
        let mut out = [[0.0; 4]; MAX_SLOTS];
        for (a, w) in self.weights.iter().enumerate() {
            (0..4).for_each(|c| out[a][c] = weights[a] * self.u[c] + w * rest[c]);
        }
        out
    }

    /// The transpose of [`Vertex::changes`].
    #[inline(always)]
    fn gather(&self, rows: &Rows) -> Unknowns {
        let mut out = [0.0; MAX_UNKNOWNS];
        let slope = |a: usize| (0..4).map(|c| self.u[c] * rows[a][c]).sum::<f64>();
        let own = slope(self.pivot);
        let others = (0..self.bones.len()).filter(|&a| a != self.pivot);
        out.iter_mut().zip(others).for_each(|(out, a)| *out = slope(a) - own);
        if self.move_rest {
            let from = self.bones.len() - 1;
            for c in 0..3 {
                out[from + c] = self.weights.iter().zip(rows).map(|(w, row)| w * row[c]).sum();
            }
        }
        out
    }
}

/// A vertex's numbers as they are computed with.
#[inline(always)]
fn widen(stored: &[f32]) -> Unknowns {
    let mut out = [0.0; MAX_UNKNOWNS];
    out.iter_mut().zip(stored).for_each(|(out, x)| *out = f64::from(*x));
    out
}

/// A vertex's numbers as they are stored.
#[inline(always)]
fn narrow(computed: &[f64], stored: &mut [f32]) {
    stored.iter_mut().zip(computed).for_each(|(out, x)| *out = *x as f32);
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
