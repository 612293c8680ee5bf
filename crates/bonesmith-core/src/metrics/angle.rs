//! Angles between vectors, eight at once.
//!
//! `atan2` of the length of the cross product and the dot product keeps full precision near 0, where the arc cosine of a dot product loses
//! half the digits. Here the angle is quartered first, by square roots alone:
//!
//! ```text
//! tan(a/2) = s / (h + c)        s = |x cross y|, c = |x dot y|, h = sqrt(s^2 + c^2)
//! tan(a/4) = t / (1 + sqrt(1 + t^2)) <= tan(pi/8)
//! ```
//!
//! and the power series of the arc tangent is summed up to the 25th power: off by less than 1e-11 (tested against `atan2`).

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use std::f64::consts::PI;

use glam::DVec3;
use multiversion::multiversion;

use crate::solve::lanes::{LANES, Lanes};

/// Terms of the power series.
const TERMS: usize = 13;

/// Three coordinates of a vector in each lane.
pub(super) type Vectors = [Lanes; 3];

/// Vectors from `first` on; zero beyond the end.
#[inline(always)]
pub(super) fn gathered(vectors: &[DVec3], first: usize) -> Vectors {
    let at = |l: usize| vectors.get(first + l).copied().unwrap_or(DVec3::ZERO);
    [Lanes::from_fn(|l| at(l).x), Lanes::from_fn(|l| at(l).y), Lanes::from_fn(|l| at(l).z)]
}

/// Angles in radians, and 1 where both vectors have a direction; elsewhere both are 0.
#[inline(always)]
pub(super) fn angles(x: Vectors, y: Vectors) -> (Lanes, Lanes) {
    let dot = |a: Vectors, b: Vectors| a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    let cross = [x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]];
    let (s, c) = (dot(cross, cross), dot(x, y));
    let (mut angle, mut both) = (Lanes::ZERO, Lanes::ZERO);
    for l in 0..LANES {
        let h = (s.0[l] + c.0[l] * c.0[l]).sqrt();
        let half = s.0[l].sqrt() / (h + c.0[l].abs());
        let t = half / (1.0 + (1.0 + half * half).sqrt());
        let square = t * t;
        let mut sum = 0.0;
        for k in (0..TERMS).rev() {
            let term = 1.0 / (2 * k + 1) as f64;
            sum = if k % 2 == 0 { term } else { -term } + sum * square;
        }
        let small = 4.0 * t * sum;
        let whole = if c.0[l] < 0.0 { PI - small } else { small };
        // Not a number where a vector is zero, infinite or not a number.
        both.0[l] = if whole >= 0.0 { 1.0 } else { 0.0 };
        angle.0[l] = if whole >= 0.0 { whole } else { 0.0 };
    }
    (angle, both)
}

/// Sum of angles in radians between two lists, and how many pairs have a direction both.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(super) fn sum_of_angles(a: &[DVec3], b: &[DVec3]) -> (f64, usize) {
    let (mut sum, mut count) = (Lanes::ZERO, Lanes::ZERO);
    for first in (0..a.len()).step_by(LANES) {
        let (angle, both) = angles(gathered(a, first), gathered(b, first));
        sum += angle;
        count += both;
    }
    (sum.0.iter().sum(), count.0.iter().sum::<f64>() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    /// As `atan2` gives them, from nothing to half a turn, at any length.
    #[test]
    fn angles_are_those_of_atan2() {
        let mut random = Random::new(3);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for k in 0..5003 {
            let x = random.vector();
            let near = 10f64.powi(-(k % 14));
            let y = if k % 3 == 0 { x + random.vector() * near } else { -x + random.vector() * near };
            a.push(x * 10f64.powi(k % 7 - 3));
            b.push(y);
        }
        let plain = |x: DVec3, y: DVec3| x.cross(y).length().atan2(x.dot(y));
        for first in (0..a.len()).step_by(LANES) {
            let (found, both) = angles(gathered(&a, first), gathered(&b, first));
            for l in 0..LANES.min(a.len() - first) {
                let truth = plain(a[first + l], b[first + l]);
                assert!((found.0[l] - truth).abs() < 1e-11 && both.0[l] == 1.0, "{} {truth}", found.0[l]);
                assert!(truth > 0.1 || (found.0[l] - truth).abs() <= 1e-11 * truth, "{} {truth}", found.0[l]);
            }
        }
        let sum: f64 = a.iter().zip(&b).map(|(x, y)| plain(*x, *y)).sum();
        let (found, count) = sum_of_angles(&a, &b);
        assert!((found - sum).abs() < 1e-8 && count == a.len());
    }

    #[test]
    fn vectors_without_direction_do_not_count() {
        let none = [DVec3::ZERO, DVec3::X, DVec3::NAN, DVec3::X, DVec3::INFINITY];
        let other = [DVec3::X, DVec3::ZERO, DVec3::X, DVec3::X, DVec3::X];
        assert_eq!(sum_of_angles(&none, &other), (0.0, 1));
        assert_eq!(sum_of_angles(&[], &[]), (0.0, 0));
    }
}
