//! Weights of all vertices for bones whose motion is known: exact, vertex by vertex.
//!
//! With rest and motion fixed the error of vertex `i` is a quadratic on the simplex,
//! `w^T G w - 2 q^T w + |v|^2`, `G_jk = u^T K_jk u`, `q_j = Y_j . u` (`K = T^T T`, `Y = T^T v`; several subjects add up),
//! and a small pull towards weights that are known already, `e |w - w0|^2`: bones that move alike are told apart by
//! it, and by nothing else. Solved over *all* bones by column generation: an active set on a few candidates, then the
//! bones whose gradient says that they would help are let in, until none would. That is the optimum of the dense
//! problem [Le2014 s.3.7]. Where that has more than K influences: down to K, one at a time, the one whose loss is
//! estimated least, refitted; and up to K from the single best bone, with swaps; the better of the two.
//!
//! Rows of `G` are found when a bone first becomes a candidate, so the cost grows with B, not with its square.

use rayon::prelude::*;

use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;

use crate::refit::vertex::Solver;

/// Vertices whose products with the motion are found at once.
pub(super) const BLOCK: usize = 64;

/// How hard a vertex is looked at.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Search {
    /// From all bones down, from one bone up, and from the present ones: the best of them.
    Whole,
    /// From the present bones, with swaps: between rounds that change the bones a little.
    Nearby,
}

/// One subject: where its vertices go, and how its bones move.
#[derive(Clone, Copy)]
pub(super) struct Part<'a> {
    pub problem: &'a Problem,
    pub motion: &'a Motion,
}

/// Weights to stay near to, and the price of not doing so.
#[derive(Clone, Copy)]
pub(super) struct Prior<'a> {
    /// [N] (bone, weight).
    pub weights: &'a [Vec<(u16, f32)>],
    pub strength: f64,
}

/// Solves all vertices that `free` names, each to at most `limit` bones; returns the squared error of each vertex [N].
///
/// Vertices do not depend on each other, so the result is the same with any number of threads.
pub(super) fn solve(
    parts: &[Part],
    skin: &mut Skin,
    limit: usize,
    search: Search,
    prior: Prior,
    free: &[bool],
) -> Vec<f64> {
    let shared: Vec<Shared> = parts.iter().map(|part| Shared::new(*part)).collect();
    let (slots, n) = (skin.slots, skin.rest.len());
    let mut errors = vec![0.0; n];
    skin.bones
        .par_chunks_mut(BLOCK * slots)
        .zip(skin.weights.par_chunks_mut(BLOCK * slots))
        .zip(errors.par_chunks_mut(BLOCK))
        .enumerate()
        .for_each_init(
            || Solver::new(&shared, limit),
            |solver, (block, ((bones, weights), errors))| {
                let start = block * BLOCK;
                solver.project(start, errors.len());
                let rows = bones.chunks_mut(slots).zip(weights.chunks_mut(slots)).zip(errors);
                for (at, ((bones, weights), error)) in rows.enumerate() {
                    let i = start + at;
                    solver.load(i, at, prior);
                    let used = weights.iter().take_while(|w| **w > 0.0).count();
                    // More bones than may stay are no good start: dense weights mostly mean that nobody has chosen yet.
                    let kept = if free[i] && used > limit { 0 } else { used };
                    solver.begin(&bones[..kept], &weights[..kept]);
                    if free[i] {
                        match search {
                            Search::Nearby if kept > 0 => solver.improve(limit),
                            _ => solver.solve(limit),
                        }
                        bones.fill(0);
                        weights.fill(0.0);
                        for (k, (j, w)) in solver.sorted().into_iter().enumerate() {
                            (bones[k], weights[k]) = (j as u16, w);
                        }
                    }
                    *error = solver.squared_error();
                }
            },
        );
    errors
}

/// What all vertices of a subject share.
pub(super) struct Shared<'a> {
    pub part: Part<'a>,
    /// [4 B, 4 B] `T T^T`.
    pub gram: Vec<f64>,
    /// [10, B] coefficients of `u^T K_jj u` by monomial.
    pub own: Vec<f64>,
}

/// Pairs (c, d), c <= d, in the order of `own`.
pub(super) const PAIRS: [(usize, usize); 10] =
    [(0, 0), (1, 1), (2, 2), (3, 3), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];

impl<'a> Shared<'a> {
    fn new(part: Part<'a>) -> Self {
        let (gram, b) = (part.motion.gram().to_vec(), part.motion.bones);
        let entry = |(c, d): (usize, usize), j: usize| {
            let entry = gram[(c * b + j) * 4 * b + d * b + j];
            if c == d { entry } else { 2.0 * entry }
        };
        let own = PAIRS.into_iter().flat_map(|pair| (0..b).map(move |j| (pair, j))).map(|(p, j)| entry(p, j)).collect();
        Self { part, gram, own }
    }
}
