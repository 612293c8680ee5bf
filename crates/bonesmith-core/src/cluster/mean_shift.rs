//! Points gathered where they are dense [Cheng1995; Course2014 eq. 12]: each climbs to the weighted mean of what lies
//! within the bandwidth, again and again; those that end in one place are a cluster.
//!
//! Distances are sums of absolute differences and weights `(1 - d / h)^2`, as the bandwidth `h = 9 F e` of
//! [Le2014 s.3.10.2] and its software [Georgescu2003] have them. Points that are out of reach by the triangle inequality
//! are skipped, which changes no sum.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::observer::{Cancelled, Check};

/// Most steps of a climb.
const MAX_STEPS: usize = 40;

/// A step shorter than this share of the bandwidth is the last.
const MIN_STEP: f32 = 1e-3;

/// Modes closer than this share of the bandwidth are one.
const SAME_MODE: f64 = 0.5;

/// Numbers that are compared before a test whether two points are too far apart already.
const STRETCH: usize = 32;

/// Distances are off by less than this share, by rounding.
const ROUNDING: f32 = 1e-4;

/// Points that climb between two reports of progress.
const POINTS_AT_ONCE: usize = 128;

/// Points and how far apart they are, for any number of bandwidths.
pub(crate) struct Points {
    /// d.
    dimension: usize,
    /// [M, d]
    values: Vec<f32>,
    /// [M, M]
    apart: Vec<f32>,
}

impl Points {
    /// Of [M, d] numbers.
    pub fn new(values: Vec<f32>, dimension: usize) -> Self {
        let row = |a: &[f32]| values.chunks_exact(dimension).map(|b| apart(a, b, f32::INFINITY)).collect::<Vec<_>>();
        let apart = values.par_chunks_exact(dimension).flat_map_iter(row).collect();
        Self { dimension, values, apart }
    }

    /// d.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    fn rows(&self) -> std::slice::ChunksExact<'_, f32> {
        self.values.chunks_exact(self.dimension)
    }

    /// [M] distances of point `i`.
    fn apart_of(&self, i: usize) -> &[f32] {
        let count = self.values.len() / self.dimension;
        &self.apart[i * count..(i + 1) * count]
    }
}

/// Clusters of points.
pub(crate) struct Clusters {
    /// [M] cluster of each point; clusters are numbered by falling size.
    pub labels: Vec<usize>,
    /// Points of each cluster.
    pub sizes: Vec<usize>,
}

/// Clusters points with one bandwidth.
pub(crate) fn mean_shift(points: &Points, bandwidth: f64, check: Check<'_>) -> Result<Clusters, Cancelled> {
    let mut places = points.values.clone();
    for (block, places) in places.chunks_mut(POINTS_AT_ONCE * points.dimension).enumerate() {
        check()?;
        let climbs = places.par_chunks_mut(points.dimension).enumerate();
        climbs.for_each(|(at, place)| climb(place, block * POINTS_AT_ONCE + at, points, bandwidth as f32));
    }
    Ok(merge(&places, points.dimension, bandwidth))
}

/// Moves the place of point `start` to the mode above it.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn climb(place: &mut [f32], start: usize, points: &Points, bandwidth: f32) {
    let mut mean = vec![0f32; place.len()];
    // A point near the place, and how near.
    let (mut anchor, mut near) = (start, 0f32);
    for _ in 0..MAX_STEPS {
        mean.fill(0.0);
        let mut total = 0f32;
        let mut nearest = (anchor, f32::INFINITY);
        let reach = (bandwidth + near) * (1.0 + ROUNDING);
        for (j, (point, from_anchor)) in points.rows().zip(points.apart_of(anchor)).enumerate() {
            if *from_anchor > reach {
                continue;
            }
            let distance = apart(place, point, bandwidth);
            let share = 1.0 - distance / bandwidth;
            if share > 0.0 {
                total += share * share;
                mean.iter_mut().zip(point).for_each(|(m, x)| *m += share * share * x);
                nearest = if distance < nearest.1 { (j, distance) } else { nearest };
            }
        }
        // A place that lost all its neighbours to rounding stays.
        if total <= 0.0 {
            break;
        }
        mean.iter_mut().for_each(|m| *m /= total);
        let moved = apart(place, &mean, f32::INFINITY);
        (anchor, near) = (nearest.0, nearest.1 + moved);
        place.copy_from_slice(&mean);
        if moved < MIN_STEP * bandwidth {
            break;
        }
    }
}

/// Sum of absolute differences, or some number above `limit` where it is larger than that.
#[inline(always)]
fn apart(a: &[f32], b: &[f32], limit: f32) -> f32 {
    let mut sum = 0.0;
    for (a, b) in a.chunks(STRETCH).zip(b.chunks(STRETCH)) {
        let mut lanes = [0f32; 8];
        let ((a, a_left), (b, b_left)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
        for (a, b) in a.iter().zip(b) {
            (0..8).for_each(|k| lanes[k] += (a[k] - b[k]).abs());
        }
        let left = a_left.iter().zip(b_left).map(|(x, y)| (x - y).abs());
        sum += lanes.into_iter().chain(left).sum::<f32>();
        if sum > limit {
            break;
        }
    }
    sum
}

/// Places that are one mode get one number, the largest cluster the first.
fn merge(places: &[f32], d: usize, bandwidth: f64) -> Clusters {
    let close = (SAME_MODE * bandwidth) as f32;
    let mut modes: Vec<&[f32]> = Vec::new();
    let mut labels = Vec::with_capacity(places.len() / d);
    for place in places.chunks_exact(d) {
        let known = modes.iter().position(|mode| apart(mode, place, close) <= close);
        labels.push(known.unwrap_or(modes.len()));
        if known.is_none() {
            modes.push(place);
        }
    }
    let mut sizes = vec![0usize; modes.len()];
    labels.iter().for_each(|&k| sizes[k] += 1);
    let mut order: Vec<usize> = (0..modes.len()).collect();
    order.sort_by(|&a, &b| sizes[b].cmp(&sizes[a]).then(a.cmp(&b)));
    let mut rank = vec![0; modes.len()];
    order.iter().enumerate().for_each(|(to, &from)| rank[from] = to);
    labels.iter_mut().for_each(|k| *k = rank[*k]);
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    Clusters { labels, sizes }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three clumps in the plane, of 40, 30 and 20 points, radius 0.1, more than 1 apart.
    fn clumps() -> Vec<f32> {
        let clump = |at: [f32; 2], count: usize| {
            (0..count).flat_map(move |k| {
                let (angle, radius) = (2.4 * k as f32, 0.1 * (k as f32 / count as f32).sqrt());
                [at[0] + radius * angle.cos(), at[1] + radius * angle.sin()]
            })
        };
        clump([0.0, 0.0], 30).chain(clump([1.5, 0.0], 40)).chain(clump([0.0, 2.0], 20)).collect()
    }

    #[test]
    fn clumps_are_clusters_and_the_largest_is_first() {
        let found = mean_shift(&Points::new(clumps(), 2), 0.4, &mut || Ok(())).unwrap();
        assert_eq!(found.sizes, [40, 30, 20]);
        assert!(found.labels[..30].iter().all(|l| *l == 1) && found.labels[30..70].iter().all(|l| *l == 0));
    }

    #[test]
    fn distances_are_exact_up_to_the_limit() {
        let row = |k: usize| (0..75).map(|i| ((i * k) as f32).sin()).collect::<Vec<f32>>();
        let slow: f32 = row(2).iter().zip(&row(3)).map(|(x, y)| (x - y).abs()).sum();
        assert!((apart(&row(2), &row(3), f32::INFINITY) - slow).abs() < 1e-4 * slow);
        assert!(apart(&row(2), &row(3), 0.3 * slow) > 0.3 * slow);
    }

    #[test]
    fn a_climb_ends_at_the_weighted_mean_of_its_surroundings() {
        // Within h = 2 of all: where sum (1 - d / h)^2 (x - m) = 0. The lone point pulls less than the pair.
        let points = [0.0f32, 0.1, 1.0];
        let mut place = [0.0f32];
        climb(&mut place, 0, &Points::new(points.to_vec(), 1), 2.0);
        let pull: f32 = points.iter().map(|x| (1.0 - (x - place[0]).abs() / 2.0).powi(2) * (x - place[0])).sum();
        assert!(pull.abs() < 1e-2 && (0.05..0.37).contains(&place[0]), "{place:?} {pull}");
    }

    #[test]
    fn the_bandwidth_decides_how_many() {
        let points = Points::new(clumps(), 2);
        let sizes = |bandwidth: f64| mean_shift(&points, bandwidth, &mut || Ok(())).unwrap().sizes;
        assert_eq!(sizes(10.0), [90]);
        assert!(sizes(1e-4).len() > 60);
    }

    /// Climbs over scattered points, with bandwidths of a few to all of them, against climbs over every point.
    #[test]
    fn points_that_are_skipped_are_out_of_reach() {
        const D: usize = 45;
        let values: Vec<f32> = (0..300 * D).map(|k| (0.37 * k as f32).sin() * (1 + k / D % 7) as f32).collect();
        let points = Points::new(values.clone(), D);
        for bandwidth in [15.0, 60.0, 250.0] {
            for start in (0..300).step_by(17) {
                let row = &values[start * D..(start + 1) * D];
                let (mut fast, mut slow) = (row.to_vec(), row.to_vec());
                climb(&mut fast, start, &points, bandwidth);
                for _ in 0..MAX_STEPS {
                    let (mut mean, mut total) = ([0f64; D], 0f64);
                    for point in values.chunks_exact(D) {
                        let distance: f32 = slow.iter().zip(point).map(|(x, y)| (x - y).abs()).sum();
                        let share = f64::from((1.0 - distance / bandwidth).max(0.0).powi(2));
                        total += share;
                        mean.iter_mut().zip(point).for_each(|(m, x)| *m += share * f64::from(*x));
                    }
                    let next: Vec<f32> = mean.iter().map(|m| (m / total) as f32).collect();
                    let moved = apart(&slow, &next, f32::INFINITY);
                    slow = next;
                    if moved < MIN_STEP * bandwidth {
                        break;
                    }
                }
                let off = apart(&fast, &slow, f32::INFINITY);
                assert!(off < 0.01 * bandwidth, "{bandwidth} from {start}: {off}");
            }
        }
    }
}
