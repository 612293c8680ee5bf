//! Weights of all vertices for bones whose motion is known: exact, vertex by vertex, in float64.
//!
//! The error of vertex `i` is a quadratic on the simplex, `w^T G w - 2 q^T w + |v|^2`, `G_jk = u^T K_jk u`, `q_j = Y_j . u`
//! (`K = T^T T`, `Y = T^T v`; several subjects add up), and a small pull towards weights that are known already, `e |w - w0|^2`:
//! it decides between bones that move alike. `choice` solves it. Rows of `G` are found when a bone first becomes a candidate, so
//! the cost grows with B, not with its square.

use std::ops::Range;

use rayon::prelude::*;

use crate::model::{Row, keep_largest, normalise};
use crate::skinning::products::{self, PAIRS, monomials};
use crate::skinning::{Form, InfluenceSolver, Motion, Problem, Skin};
use crate::solve::kernels::{add_scaled, combine4, squared};

/// Vertices whose products with the motion are found at once.
const BLOCK: usize = 64;

/// A sparser set of bones that costs less than this, per coordinate and frame in squared sphere units, is as good: a
/// thousandth of an E_RMS unit.
const AS_GOOD: f64 = 1e-12;

/// Which bones are tried at a vertex.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Search {
    /// From all bones down, from one bone up, and from the present ones: the best of them.
    Whole,
    /// From the present bones, with swaps: between rounds that change the bones a little.
    Nearby,
}

/// Weights that vertices are pulled to, and the price of the distance to them.
#[derive(Clone, Copy)]
pub(crate) struct Prior<'a> {
    /// [N] (bone, weight).
    pub weights: &'a [Vec<(u16, f32)>],
    pub strength: f64,
}

/// What is solved for.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    /// K.
    pub limit: usize,
    pub search: Search,
    pub prior: Prior<'a>,
    /// [N] whether the vertex gets new weights.
    pub free: &'a [bool],
}

/// One subject, and what all its vertices share.
pub(crate) struct Subject<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
    /// [10, B] coefficients of `u^T K_jj u` by monomial.
    own: Vec<f64>,
}

impl<'a> Subject<'a> {
    pub fn new(problem: &'a Problem, motion: &'a Motion) -> Self {
        Self { problem, motion, own: monomials(motion.bones, motion.gram()) }
    }

    /// B.
    pub fn bones(&self) -> usize {
        self.motion.bones
    }
}

/// Solves the free vertices of a range, each to at most K bones; returns the squared error of each vertex of it.
///
/// Vertices do not depend on each other, so the result is the same with any number of threads.
pub(crate) fn solve(subjects: &[Subject], skin: &mut Skin, range: Range<usize>, task: &Task) -> Vec<f64> {
    let slots = skin.slots;
    let mut errors = vec![0.0; range.len()];
    let row = range.start * slots..range.end * slots;
    skin.bones[row.clone()]
        .par_chunks_mut(BLOCK * slots)
        .zip(skin.weights[row].par_chunks_mut(BLOCK * slots))
        .zip(errors.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each_init(
            || VertexSolver::new(subjects),
            |solver, (block, ((bones, weights), errors))| {
                let start = range.start + block * BLOCK;
                solver.project(start..start + errors.len());
                let rows = bones.chunks_mut(slots).zip(weights.chunks_mut(slots)).zip(errors);
                for (at, ((bones, weights), error)) in rows.enumerate() {
                    *error = solver.vertex(start + at, at, bones, weights, task);
                }
            },
        );
    errors
}

/// Rows of `G + e I`, found when they are needed.
struct GramRows<'a> {
    subjects: &'a [Subject<'a>],
    /// [subjects] homogeneous rest position.
    rest: Vec<[f64; 4]>,
    /// e.
    strength: f64,
    /// [B] `G_jj + e`.
    diagonal: Vec<f64>,
    /// Rows found so far, the number of each bone's, and whose they are.
    rows: Vec<f64>,
    row_of: Vec<Option<u32>>,
    found: Vec<usize>,
}

impl Form for GramRows<'_> {
    fn bones(&self) -> usize {
        self.diagonal.len()
    }

    fn row(&mut self, j: usize) -> &[f64] {
        let b = self.bones();
        let at = match self.row_of[j] {
            Some(at) => at as usize * b,
            None => self.find_row(j),
        };
        &self.rows[at..at + b]
    }

    fn diagonal(&self, j: usize) -> f64 {
        self.diagonal[j]
    }
}

impl GramRows<'_> {
    /// Where the new row begins.
    fn find_row(&mut self, j: usize) -> usize {
        let (b, side, at) = (self.bones(), 4 * self.bones(), self.rows.len());
        self.row_of[j] = Some(self.found.len() as u32);
        self.found.push(j);
        self.rows.resize(at + b, 0.0);
        let row = &mut self.rows[at..];
        for (subject, u) in self.subjects.iter().zip(&self.rest) {
            for (c, uc) in u.iter().enumerate() {
                let source = &subject.motion.gram()[(c * b + j) * side..][..side];
                combine4(row, u.map(|ud| uc * ud), std::array::from_fn(|d| &source[d * b..(d + 1) * b]));
            }
        }
        row[j] += self.strength;
        at
    }
}

/// Buffers, and the vertex being solved.
struct VertexSolver<'a> {
    solver: InfluenceSolver<GramRows<'a>>,
    /// [subjects][BLOCK, 4 B] `Y`.
    along: Vec<Vec<f64>>,
    /// [BLOCK] `|v|^2` over all subjects.
    energies: [f64; BLOCK],
    wide: Vec<f64>,
    /// Trajectories that are not in memory.
    read: Vec<f32>,
    /// Errors that differ by less are equal.
    slack: f64,
}

impl<'a> VertexSolver<'a> {
    fn new(subjects: &'a [Subject<'a>]) -> Self {
        let bones = subjects.first().map_or(0, |s| s.motion.bones);
        let form = GramRows {
            subjects,
            rest: vec![[0.0; 4]; subjects.len()],
            strength: 0.0,
            diagonal: vec![0.0; bones],
            rows: Vec::new(),
            row_of: vec![None; bones],
            found: Vec::new(),
        };
        let mut solver = InfluenceSolver::new(form);
        solver.linear = vec![0.0; bones];
        let samples: usize = subjects.iter().map(|s| s.problem.length).sum();
        let along = subjects.iter().map(|_| vec![0.0; BLOCK * 4 * bones]).collect();
        let energies = [0.0; BLOCK];
        Self { solver, along, energies, wide: Vec::new(), read: Vec::new(), slack: AS_GOOD * samples as f64 }
    }

    /// `Y = T^T v` and `|v|^2` of some vertices.
    fn project(&mut self, vertices: Range<usize>) {
        self.energies.fill(0.0);
        for (Subject { problem, motion, .. }, along) in self.solver.form.subjects.iter().zip(&mut self.along) {
            let length = problem.length;
            let source = problem.block(vertices.clone(), &mut self.read);
            let rows = source.chunks_exact(length.max(1));
            self.energies.iter_mut().zip(rows).for_each(|(energy, row)| *energy += squared(row));
            let out = &mut along[..vertices.len() * 4 * motion.bones];
            products::project(motion.rows(), length, source, &mut self.wide, out);
        }
    }

    /// Takes up vertex `i`, number `at` of those projected.
    fn load(&mut self, i: usize, at: usize, prior: Prior) {
        let InfluenceSolver { form, linear, energy, .. } = &mut self.solver;
        let b = form.diagonal.len();
        linear.fill(0.0);
        form.diagonal.fill(prior.strength);
        *energy = self.energies[at];
        for (s, (Subject { problem, own, .. }, along)) in form.subjects.iter().zip(&self.along).enumerate() {
            let p = problem.rest[i];
            let u = [p.x, p.y, p.z, 1.0];
            form.rest[s] = u;
            let y = &along[at * 4 * b..(at + 1) * 4 * b];
            (0..4).for_each(|c| add_scaled(linear, u[c], &y[c * b..(c + 1) * b]));
            for (p, (c, d)) in PAIRS.into_iter().enumerate() {
                add_scaled(&mut form.diagonal, u[c] * u[d], &own[p * b..(p + 1) * b]);
            }
        }
        form.strength = prior.strength;
        for &(j, w) in &prior.weights[i] {
            linear[j as usize] += prior.strength * f64::from(w);
        }
        form.found.drain(..).for_each(|j| form.row_of[j] = None);
        form.rows.clear();
    }

    /// New weights of vertex `i` if it is free; its squared error.
    fn vertex(&mut self, i: usize, at: usize, bones: &mut [u16], weights: &mut [f64], task: &Task) -> f64 {
        self.load(i, at, task.prior);
        let used = bones.iter().zip(&*weights).take_while(|(_, w)| **w > 0.0);
        let mut row: Row = used.map(|(&j, &w)| (j as usize, w)).collect();
        // More bones than may stay are no good start: dense weights mostly mean that none were chosen yet.
        if task.free[i] && row.len() > task.limit {
            row.clear();
        }
        let fresh = row.is_empty();
        if fresh {
            row = self.solver.single();
        }
        normalise(&mut row);
        if task.free[i] {
            match task.search {
                Search::Nearby if !fresh => self.solver.nearby(task.limit, self.slack, &mut row),
                _ => self.solver.whole(task.limit, self.slack, &mut row),
            }
            keep_largest(&mut row, task.limit);
            bones.fill(0);
            weights.fill(0.0);
            for ((bone, weight), &(j, w)) in bones.iter_mut().zip(weights).zip(&row) {
                (*bone, *weight) = (j as u16, w);
            }
        }
        self.squared_error(&row, &task.prior.weights[i])
    }

    /// Of the vertex, without the pull.
    fn squared_error(&mut self, row: &Row, prior: &[(u16, f32)]) -> f64 {
        let known = |j: usize| prior.iter().filter(|(k, _)| *k as usize == j).map(|(_, w)| f64::from(*w)).sum::<f64>();
        let pull: f64 = row.iter().map(|&(j, w)| w * (w - 2.0 * known(j))).sum();
        (self.solver.energy + self.solver.value(row) - self.solver.form.strength * pull).max(0.0)
    }
}
