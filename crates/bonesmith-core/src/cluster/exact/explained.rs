//! Which vertices the known bones explain, and with which weights.

use std::cell::RefCell;

use glam::{DAffine3, DVec3};
use rayon::prelude::*;

use crate::cluster::exact::{Path, Points};
use crate::observer::{Cancelled, Check};
use crate::solve::simplex::SimplexSolver;

/// Known bones whose weights a vertex tries: those that move it nearest to where it is.
const NEAREST: usize = 8;

/// Weights below this are treated as zero.
const LEAST: f64 = 1e-5;

/// Frames of a first look, and the factor of the limit there.
const FEW: usize = 8;
const FEW_LIMIT: f64 = 2.0;

thread_local! {
    static SOLVER: RefCell<SimplexSolver> = RefCell::new(SimplexSolver::new(NEAREST + 1));
}

/// Known bones, and what they explain.
pub(super) struct Explained<'a> {
    points: &'a Points,
    /// Largest RMS error per coordinate.
    limit: f64,
    /// [B]
    pub bones: Vec<Path>,
    /// [N] bones and weights of each vertex, largest first; empty: not explained.
    pub weights: Vec<Vec<(usize, f64)>>,
    /// [N] the nearest bones of vertices, with their mean squared errors, nearest first.
    near: Vec<Vec<(f64, usize)>>,
}

impl<'a> Explained<'a> {
    pub fn new(points: &'a Points, limit: f64) -> Self {
        let n = points.len();
        Self { points, limit, bones: Vec::new(), weights: vec![Vec::new(); n], near: vec![Vec::new(); n] }
    }

    /// Whether the known bones explain a vertex.
    pub fn has(&self, i: usize) -> bool {
        !self.weights[i].is_empty()
    }

    /// The share of the vertices which no single bone moves that are explained.
    pub fn share(&self) -> f64 {
        let blended = self.weights.iter().filter(|row| row.len() != 1);
        let (all, open) =
            blended.fold((0usize, 0usize), |(all, open), row| (all + 1, open + usize::from(row.is_empty())));
        if all == 0 { 1.0 } else { 1.0 - open as f64 / all as f64 }
    }

    /// One more bone, and its number; vertices that are explained with it are.
    pub fn add(&mut self, path: Path) -> usize {
        let j = self.bones.len();
        self.bones.push(path);
        let (points, path) = (self.points, &self.bones[j]);
        self.near.par_iter_mut().enumerate().for_each(|(i, near)| {
            let error = points.error(path, i);
            let at = near.partition_point(|(other, _)| *other <= error);
            near.insert(at, (error, j));
            near.truncate(NEAREST);
        });
        self.explain(j);
        j
    }

    /// A better motion of a bone, and vertices that are explained with it.
    pub fn replace(&mut self, j: usize, path: Path) {
        self.bones[j] = path;
        self.explain(j);
    }

    /// Those of some vertices that bone `j` moves, with their weights: those that are explained, and those that are within `times` the limit.
    pub fn loose(&self, of: &[usize], j: usize, times: f64) -> Vec<(usize, Vec<(usize, f64)>)> {
        let row = |i: usize| {
            if self.has(i) {
                return Some((i, self.weights[i].clone()));
            }
            if !self.near[i].iter().any(|(_, k)| *k == j) {
                return None;
            }
            let near = || self.near[i].iter().map(|(_, k)| *k);
            let weights = self.solve(i, near().map(|k| &self.bones[k][..]), times * self.limit)?;
            Some((i, near().zip(weights).collect()))
        };
        let is_own = |(_, row): &(usize, Vec<(usize, f64)>)| row.iter().any(|(k, w)| *k == j && *w > LEAST);
        of.par_iter().filter_map(|&i| row(i)).filter(is_own).collect()
    }

    /// Explains vertices with a larger limit.
    pub fn relax(&mut self, limit: f64, check: Check<'_>) -> Result<(), Cancelled> {
        self.limit = limit;
        for j in 0..self.bones.len() {
            check()?;
            self.explain(j);
        }
        Ok(())
    }

    /// Explains vertices with the help of a bone.
    fn explain(&mut self, j: usize) {
        let with = |i: usize| {
            let is_open = !self.has(i) && self.near[i].iter().any(|(_, k)| *k == j);
            is_open.then(|| self.row(i, |_| true)).flatten()
        };
        let found: Vec<Option<Vec<(usize, f64)>>> = (0..self.points.len()).into_par_iter().map(with).collect();
        for (row, found) in self.weights.iter_mut().zip(found) {
            found.into_iter().for_each(|found| *row = found);
        }
    }

    /// Weights of the bones nearest to a vertex of those that `counts` holds for, if they explain it.
    fn row(&self, i: usize, counts: impl Fn(usize) -> bool) -> Option<Vec<(usize, f64)>> {
        let near: Vec<usize> = self.near[i].iter().map(|(_, k)| *k).filter(|&k| counts(k)).collect();
        let weights = self.solve(i, near.iter().map(|&k| &self.bones[k][..]), self.limit)?;
        let mut row: Vec<(usize, f64)> = near.into_iter().zip(weights).filter(|(_, w)| *w > LEAST).collect();
        row.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
        Some(row)
    }

    /// The weights of one more bone and of known ones at a vertex that they explain within `times` the limit; the new bone has number B.
    pub fn with(&self, path: &Path, i: usize, times: f64) -> Option<Vec<(usize, f64)>> {
        let near = || self.near[i].iter().map(|(_, k)| *k);
        let bones = std::iter::once(&path[..]).chain(near().map(|k| &self.bones[k][..]));
        let weights = self.solve(i, bones, times * self.limit)?;
        Some(std::iter::once(self.bones.len()).chain(near()).zip(weights).collect())
    }

    /// Convex weights of some bones that move a vertex to where it is, down to a limit.
    fn solve<'b>(&self, i: usize, bones: impl Iterator<Item = &'b [DAffine3]> + Clone, limit: f64) -> Option<Vec<f64>> {
        // Most vertices fail in a few frames already.
        let stride = (self.points.frames() / FEW).max(1);
        if stride > 1 {
            self.solve_in(i, bones.clone(), stride, FEW_LIMIT * limit)?;
        }
        self.solve_in(i, bones, 1, limit)
    }

    /// As [`Explained::solve`], in every `stride`-th frame.
    fn solve_in<'b>(
        &self,
        i: usize,
        bones: impl Iterator<Item = &'b [DAffine3]>,
        stride: usize,
        limit: f64,
    ) -> Option<Vec<f64>> {
        let (u, posed) = (self.points.rest[i], self.points.posed(i));
        let gap =
            |path: &'b [DAffine3]| path.iter().zip(posed).step_by(stride).map(move |(m, p)| m.transform_point3(u) - *p);
        let gaps: Vec<DVec3> = bones.flat_map(gap).collect();
        if gaps.is_empty() {
            return None;
        }
        let frames = posed.len().div_ceil(stride);
        let weights = SOLVER.with_borrow_mut(|solver| convex(&gaps, frames, solver));
        let gap = |t: usize| gaps.iter().skip(t).step_by(frames);
        let left = |t: usize| gap(t).zip(&weights).map(|(gap, w)| *gap * *w).sum::<DVec3>();
        let error = (0..frames).map(|t| left(t).length_squared()).sum::<f64>() / (3 * frames) as f64;
        (error < limit * limit).then_some(weights)
    }

    /// The known bones that move some vertices nearest to where they are, `count` at most.
    pub fn nearest(&self, members: &[usize], count: usize) -> Vec<usize> {
        let mut candidates: Vec<usize> = members.iter().flat_map(|&i| self.near[i].iter().map(|(_, k)| *k)).collect();
        candidates.sort_unstable();
        candidates.dedup();
        let error = |j: usize| members.iter().map(|&i| self.points.error(&self.bones[j], i)).sum::<f64>();
        let mut ranked: Vec<(f64, usize)> = candidates.into_iter().map(|j| (error(j), j)).collect();
        ranked.sort_by(|x, y| x.0.total_cmp(&y.0).then(x.1.cmp(&y.1)));
        ranked.into_iter().take(count).map(|(_, j)| j).collect()
    }

    /// Removes bones that explain hardly a vertex which the others do not explain, those of the least weight first: mixtures of bones that were found later.
    pub fn without_needless(mut self, few: usize) -> Self {
        let b = self.bones.len();
        let mut sums = vec![0.0; b];
        self.weights.iter().flatten().for_each(|(j, w)| sums[*j] += w);
        let mut order: Vec<usize> = (0..b).collect();
        order.sort_by(|&x, &y| sums[x].total_cmp(&sums[y]).then(x.cmp(&y)));
        let mut kept = vec![true; b];
        for j in order {
            kept[j] = false;
            let own: Vec<usize> =
                (0..self.points.len()).filter(|&i| self.weights[i].iter().any(|(k, _)| *k == j)).collect();
            let rows: Vec<Option<Vec<(usize, f64)>>> = own.par_iter().map(|&i| self.row(i, |k| kept[k])).collect();
            if rows.iter().filter(|row| row.is_none()).count() > few {
                kept[j] = true;
                continue;
            }
            own.into_iter().zip(rows).for_each(|(i, row)| self.weights[i] = row.unwrap_or_default());
        }
        let number: Vec<usize> = (0..b).map(|j| kept[..j].iter().filter(|kept| **kept).count()).collect();
        self.weights.iter_mut().flatten().for_each(|(j, _)| *j = number[*j]);
        let mut kept = kept.into_iter();
        self.bones.retain(|_| kept.next().unwrap_or(true));
        self.near.clear();
        self
    }
}

/// Convex weights of bones that leave the least error, given [B, F] by how much each misses a vertex.
pub(super) fn convex(gaps: &[DVec3], frames: usize, solver: &mut SimplexSolver) -> Vec<f64> {
    let m = gaps.len() / frames;
    let of = |j: usize| &gaps[j * frames..(j + 1) * frames];
    let dot = |a: usize, b: usize| of(a).iter().zip(of(b)).map(|(a, b)| a.dot(*b)).sum::<f64>();
    let mut gram = vec![0.0; m * m];
    for a in 0..m {
        for b in 0..=a {
            gram[a * m + b] = dot(a, b);
            gram[b * m + a] = gram[a * m + b];
        }
    }
    let best = (0..m).min_by(|&a, &b| gram[a * m + a].total_cmp(&gram[b * m + b])).unwrap_or(0);
    let mut weights = vec![0.0; m];
    weights[best] = 1.0;
    solver.solve(&gram, m, &vec![0.0; m], &mut weights);
    weights
}
