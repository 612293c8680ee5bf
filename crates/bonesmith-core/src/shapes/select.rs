//! Which numbers are stored: each by what it buys.
//!
//! For fixed weights shapes are independent least squares problems with the same matrix `H` (`system`). The support of a shape first grows: orthogonal least squares
//! [Chen1989] adds the number whose addition, with all others solved again, lowers the error most. Then it shrinks: of the numbers on the support the
//! one goes whose removal, with all others solved again, costs least, `x_u^2 / (H^-1)_uu`. The costs of all shapes are compared, and the `count`
//! numbers that cost most to remove are stored.

use rayon::prelude::*;

use crate::shapes::system::{Support, System};

/// A number whose own part is less than this share of its column is a mix of those on the support.
const DEPENDENT: f64 = 1e-7;

/// A first support may have so many times a shape's fair share of the numbers.
const FIRST_SHARE: usize = 3;

/// Numbers that a support may grow by in any case.
const FEW: usize = 4;

/// How many numbers are stored.
#[derive(Clone, Copy)]
pub(super) enum Budget {
    /// At most so many.
    Count(usize),
    /// The fewest that lower the squared error of a face that does not move by at least this.
    Explained(f64),
}

/// Numbers of each shape in the order in which they are removed, each with what that costs.
pub(super) struct Paths(Vec<Vec<(f64, u32)>>);

impl Paths {
    /// Starting from a support, for about as many numbers as `budget` has.
    pub fn new(system: &System, from: &Support, budget: Budget) -> Self {
        // From everything, supports are grown anew: removing nearly all numbers one by one takes longer and finds no better ones.
        let whole = from.iter().all(|own| own.len() == system.side);
        let first = match budget {
            Budget::Count(count) => FIRST_SHARE * count / system.shapes.max(1) + FEW,
            Budget::Explained(_) => system.side / 4 + FEW,
        };
        let path = |(s, own): (usize, &Vec<u32>)| {
            let mut grown = match whole {
                true => grow(system, s, &[], first),
                false => grow(system, s, own, own.len() / 2 + FEW),
            };
            grown.sort_unstable();
            removals(system, s, grown)
        };
        Self(from.par_iter().enumerate().map(path).collect())
    }

    /// Numbers on all paths.
    pub fn count(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// The numbers to store.
    pub fn cut(&self, budget: Budget) -> Support {
        let paths = &self.0;
        // The cost of a removal counts as at least that of those before it: they are all made first.
        let mut all: Vec<(f64, usize, usize)> = Vec::new();
        for (s, path) in paths.iter().enumerate() {
            let mut most = 0.0f64;
            for (at, (cost, _)) in path.iter().enumerate() {
                most = most.max(*cost);
                all.push((most, s, at));
            }
        }
        all.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        let gone = match budget {
            Budget::Count(count) => all.len().saturating_sub(count),
            Budget::Explained(least) => {
                let mut left: f64 = all.iter().map(|(_, s, at)| paths[*s][*at].0).sum();
                let fits = |(_, s, at): &&(f64, usize, usize)| {
                    left -= paths[*s][*at].0;
                    left >= least
                };
                all.iter().take_while(fits).count()
            }
        };
        let mut removed = vec![0; paths.len()];
        all[..gone].iter().for_each(|(_, s, _)| removed[*s] += 1);
        let kept = |(path, removed): (&Vec<(f64, u32)>, usize)| {
            let mut kept: Vec<u32> = path[removed..].iter().map(|(_, u)| *u).collect();
            kept.sort_unstable();
            kept
        };
        paths.iter().zip(removed).map(kept).collect()
    }
}

/// A support with the numbers that lower the error most, one after the other.
pub(super) fn grow(system: &System, shape: usize, own: &[u32], extra: usize) -> Vec<u32> {
    let side = system.side;
    let mut left: Vec<f64> = (0..side).map(|u| system.gram[u * side + u]).collect();
    let least: Vec<f64> = left.iter().map(|x| DEPENDENT * x).collect();
    let mut slope = system.right[shape * side..][..side].to_vec();
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut support = Vec::with_capacity(own.len() + extra);
    for at in 0..(own.len() + extra).min(side) {
        let u = match own.get(at) {
            Some(&u) => u as usize,
            None => {
                let gain = |u: usize| slope[u] * slope[u] / left[u];
                let best = (0..side).filter(|&u| left[u] > least[u]).max_by(|&a, &b| gain(a).total_cmp(&gain(b)));
                match best.filter(|&u| gain(u) > 0.0) {
                    Some(best) => best,
                    None => break,
                }
            }
        };
        support.push(u as u32);
        if left[u] <= least[u] {
            left[u] = 0.0;
            continue;
        }
        // The column of u without what the support explains of it.
        let mut row = system.gram[u * side..][..side].to_vec();
        for known in &rows {
            let share = known[u];
            if share != 0.0 {
                row.iter_mut().zip(known).for_each(|(x, k)| *x -= share * k);
            }
        }
        let scale = 1.0 / left[u].sqrt();
        row.iter_mut().for_each(|x| *x *= scale);
        let step = slope[u] * scale;
        for ((row, left), slope) in row.iter().zip(&mut left).zip(&mut slope) {
            *left -= row * row;
            *slope -= row * step;
        }
        left[u] = 0.0;
        rows.push(row);
    }
    support
}

/// All numbers of a support in the order in which they are removed, each with what that costs.
pub(super) fn removals(system: &System, shape: usize, mut support: Vec<u32>) -> Vec<(f64, u32)> {
    let Some((inverse, mut x)) = system.inverse(shape, &support) else {
        return support.into_iter().map(|u| (0.0, u)).collect();
    };
    let m = support.len();
    let mut inverse: Vec<Vec<f64>> = (0..m).map(|r| (0..m).map(|c| inverse[(r, c)]).collect()).collect();
    let mut path = Vec::with_capacity(m);
    for alive in (1..=m).rev() {
        let cost = |r: usize| x[r] * x[r] / inverse[r][r].max(1e-300);
        let Some(least) = (0..alive).min_by(|&a, &b| cost(a).total_cmp(&cost(b))) else { break };
        path.push((cost(least), support[least]));
        // The removed one goes last; rows and columns beyond `alive` are not used any more.
        let last = alive - 1;
        support.swap(least, last);
        x.swap(least, last);
        inverse.swap(least, last);
        inverse[..alive].iter_mut().for_each(|row| row.swap(least, last));
        let (rows, gone) = inverse.split_at_mut(last);
        let gone = &gone[0];
        for (r, row) in rows.iter_mut().enumerate() {
            let share = row[last] / gone[last];
            x[r] -= share * x[last];
            row[..last].iter_mut().zip(&gone[..last]).for_each(|(a, b)| *a -= share * b);
        }
    }
    path
}
