//! The normal equations of all shapes' numbers for fixed weights.
//!
//! With `x_s` the numbers of shape `s`, one for each component of each bone, the squared error of the shape is
//! `x^T H x - 2 b_s^T x + constant`, and `H` is the same for all shapes:
//!
//! ```text
//! H_(ja)(kb) = sum_r C_ja,r S_jk C_kb,r^T          b_s,(ja) = sum_r C_ja,r (S N + D)_j,rs
//! ```
//!
//! with rows `r` of the components and the moments `S`, `D` of `skinning::moments`.

use faer::linalg::solvers::{Llt, Solve};
use faer::{Mat, Side};
use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::model::shape_bones::{ShapeKind, placed_component};
use crate::skinning::{Moments, Motion};

/// Ridge of the normal equations, as a share of each diagonal entry.
const RIDGE: f64 = 1e-9;

/// Which numbers of each shape are stored: [S] numbers of unknowns `j Q + a`, ascending.
pub(super) type Support = Vec<Vec<u32>>;

/// Normal equations of the numbers of all shapes.
pub(super) struct System {
    /// Q: numbers of a bone and shape.
    pub kind: ShapeKind,
    /// B Q.
    pub side: usize,
    /// S.
    pub shapes: usize,
    /// [B Q] matrices of the components.
    pub components: Vec<[[f64; 4]; 3]>,
    /// [B Q, B Q]
    pub gram: Vec<f64>,
    /// [S, B Q]
    pub right: Vec<f64>,
}

impl System {
    /// From the moments of a motion of offsets. Shapes that are `still` move nothing: their numbers are 0.
    pub fn new(motion: &Motion, moments: &Moments, places: &[DVec3], kind: ShapeKind, still: &[bool]) -> Self {
        let (b, shapes, q) = (motion.bones, motion.frames(), kind.numbers());
        let side = b * q;
        let components: Vec<_> =
            places.iter().flat_map(|place| (0..q).map(|a| placed_component(a, *place, &DMat3::IDENTITY))).collect();
        let mut gram = vec![0.0; side * side];
        gram.par_chunks_mut(q * side).enumerate().for_each(|(j, rows)| {
            for (k, block) in moments.second.blocks(j) {
                for (a, row) in rows.chunks_exact_mut(side).enumerate() {
                    let left = times(&components[j * q + a], block);
                    for (c, entry) in row[k * q..(k + 1) * q].iter_mut().enumerate() {
                        *entry = dot(&left, &components[k * q + c]);
                    }
                }
            }
        });
        conditioned(&mut gram, side);
        let target = target(motion, moments);
        let mut right = vec![0.0; shapes * side];
        right.par_chunks_mut(side).enumerate().filter(|(s, _)| !still[*s]).for_each(|(s, row)| {
            for (u, entry) in row.iter_mut().enumerate() {
                let (j, component) = (u / q, &components[u]);
                for (r, of_row) in component.iter().enumerate() {
                    for (c, x) in of_row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                        *entry += x * target[(c * b + j) * 3 * shapes + r * shapes + s];
                    }
                }
            }
        });
        Self { kind, side, shapes, components, gram, right }
    }

    /// `H` on some unknowns.
    pub fn part(&self, unknowns: &[u32]) -> Mat<f64> {
        let at = |u: usize| unknowns[u] as usize;
        Mat::from_fn(unknowns.len(), unknowns.len(), |r, c| self.gram[at(r) * self.side + at(c)])
    }

    /// The inverse of `H` on some unknowns, and their solution for a shape.
    pub fn inverse(&self, shape: usize, unknowns: &[u32]) -> Option<(Mat<f64>, Vec<f64>)> {
        let m = unknowns.len();
        let inverse = self.part(unknowns).llt(Side::Lower).ok()?.solve(Mat::<f64>::identity(m, m));
        let right = &self.right[shape * self.side..][..self.side];
        let x = (0..m).map(|r| (0..m).map(|c| inverse[(r, c)] * right[unknowns[c] as usize]).sum()).collect();
        Some((inverse, x))
    }

    /// [S] best numbers on a support.
    pub fn solve(&self, support: &Support) -> Vec<Vec<f64>> {
        // Shapes with the same numbers have the same matrix, which is factored once.
        let same = support.windows(2).all(|pair| pair[0] == pair[1]);
        let factor = support.first().filter(|_| same).map(|all| self.factor(all));
        let solve = |(s, unknowns): (usize, &Vec<u32>)| match &factor {
            Some(factor) => self.solve_with(factor.as_ref(), s, unknowns),
            None => self.solve_shape(s, unknowns),
        };
        support.par_iter().enumerate().map(solve).collect()
    }

    /// The best numbers of a shape on some unknowns.
    pub fn solve_shape(&self, shape: usize, unknowns: &[u32]) -> Vec<f64> {
        self.solve_with(self.factor(unknowns).as_ref(), shape, unknowns)
    }

    fn factor(&self, unknowns: &[u32]) -> Option<Llt<f64>> {
        self.part(unknowns).llt(Side::Lower).ok()
    }

    fn solve_with(&self, factor: Option<&Llt<f64>>, shape: usize, unknowns: &[u32]) -> Vec<f64> {
        let right = &self.right[shape * self.side..][..self.side];
        let right = Mat::from_fn(unknowns.len(), 1, |r, _| right[unknowns[r] as usize]);
        let solved = factor.map(|factor| factor.solve(&right));
        (0..unknowns.len()).map(|r| solved.as_ref().map_or(0.0, |x| x[(r, 0)])).collect()
    }

    /// The motion of offsets that numbers make.
    pub fn motion(&self, support: &Support, numbers: &[Vec<f64>]) -> Motion {
        let (q, s) = (self.kind.numbers(), self.shapes);
        let b = self.side / q;
        let mut rows = vec![0.0; 4 * b * 3 * s];
        for (shape, (unknowns, numbers)) in support.iter().zip(numbers).enumerate() {
            for (&u, x) in unknowns.iter().zip(numbers) {
                let (u, j) = (u as usize, u as usize / q);
                for (r, of_row) in self.components[u].iter().enumerate() {
                    for (c, entry) in of_row.iter().enumerate() {
                        rows[(c * b + j) * 3 * s + r * s + shape] += x * entry;
                    }
                }
            }
        }
        Motion::from_rows(b, 3 * s, rows)
    }
}

/// Adds a little to the diagonal of a `side` x `side` matrix, so that it is definite.
pub(super) fn conditioned(gram: &mut [f64], side: usize) {
    let largest = (0..side).map(|u| gram[u * side + u]).fold(0.0, f64::max);
    (0..side).for_each(|u| gram[u * side + u] = gram[u * side + u] * (1.0 + RIDGE) + 1e-12 * largest + 1e-30);
}

/// By how much the squared error falls from the motion of the moments to another one.
pub(super) fn gain(old: &Motion, new: &Motion, moments: &Moments) -> f64 {
    let step: Vec<f64> = new.rows().iter().zip(old.rows()).map(|(new, old)| new - old).collect();
    let (b, length) = (old.bones, old.length);
    let of_bone = |j: usize| {
        let mut sum = 0.0;
        for c in 0..4 {
            let row = |c: usize, j: usize| &step[(c * b + j) * length..][..length];
            let residual = &moments.residual[(c * b + j) * length..][..length];
            sum += 2.0 * row(c, j).iter().zip(residual).map(|(a, b)| a * b).sum::<f64>();
            for (k, block) in moments.second.blocks(j) {
                for (d, entry) in block[c].iter().enumerate().filter(|(_, entry)| **entry != 0.0) {
                    sum -= entry * row(c, j).iter().zip(row(d, k)).map(|(a, b)| a * b).sum::<f64>();
                }
            }
        }
        sum
    };
    let of_bones: Vec<f64> = (0..b).into_par_iter().map(of_bone).collect();
    of_bones.iter().sum()
}

/// [4 B, L] `S N + D`.
fn target(motion: &Motion, moments: &Moments) -> Vec<f64> {
    let (b, length) = (motion.bones, motion.length);
    let mut target = moments.residual.clone();
    target.par_chunks_mut(length).enumerate().for_each(|(row, sums)| {
        let (c, j) = (row / b, row % b);
        for (k, block) in moments.second.blocks(j) {
            for (d, x) in block[c].iter().enumerate().filter(|(_, x)| **x != 0.0) {
                sums.iter_mut().zip(motion.row(d, k)).for_each(|(sum, n)| *sum += x * n);
            }
        }
    });
    target
}

/// `C S`: 3x4 times 4x4.
fn times(component: &[[f64; 4]; 3], block: &[[f64; 4]; 4]) -> [[f64; 4]; 3] {
    component.map(|row| std::array::from_fn(|d| (0..4).map(|c| row[c] * block[c][d]).sum()))
}

fn dot(a: &[[f64; 4]; 3], b: &[[f64; 4]; 3]) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(x, y)| x * y).sum()
}
