//! Points gathered where they are dense [Cheng1995; Course2014 eq. 12]: each climbs to the weighted mean of what lies
//! within the bandwidth, again and again; those that end in one place are a cluster.
//!
//! Distances are sums of absolute differences and weights `(1 - d / h)^2`, as the bandwidth `h = 9 F e` of
//! [Le2014 s.3.10.2] and its software [Georgescu2003] have them.

use rayon::prelude::*;

/// Most steps of a climb.
const MOST_STEPS: usize = 40;

/// A step shorter than this share of the bandwidth is the last.
const SHORTEST: f32 = 1e-3;

/// Modes closer than this share of the bandwidth are one.
const SAME_MODE: f64 = 0.5;

/// Numbers that are compared before a look at whether two points are too far apart already.
const STRETCH: usize = 32;

/// Clusters of points.
pub(crate) struct Clusters {
    /// [M] cluster of each point; clusters are numbered by falling size.
    pub labels: Vec<usize>,
    /// Points of each cluster.
    pub sizes: Vec<usize>,
}

/// Clusters [M, d] points with one bandwidth.
pub(crate) fn mean_shift(points: &[f32], dimension: usize, bandwidth: f64) -> Clusters {
    let mut places = points.to_vec();
    places.par_chunks_mut(dimension).for_each(|place| climb(place, points, bandwidth as f32));
    merge(&places, dimension, bandwidth)
}

/// Moves a place to the mode above it.
fn climb(place: &mut [f32], points: &[f32], bandwidth: f32) {
    let mut mean = vec![0f32; place.len()];
    for _ in 0..MOST_STEPS {
        mean.fill(0.0);
        let mut total = 0f32;
        for point in points.chunks_exact(place.len()) {
            let share = 1.0 - apart(place, point, bandwidth) / bandwidth;
            if share > 0.0 {
                total += share * share;
                mean.iter_mut().zip(point).for_each(|(m, x)| *m += share * share * x);
            }
        }
        // A place that lost all its neighbours to rounding stays.
        if total <= 0.0 {
            break;
        }
        mean.iter_mut().for_each(|m| *m /= total);
        let moved = apart(place, &mean, f32::INFINITY);
        place.copy_from_slice(&mean);
        if moved < SHORTEST * bandwidth {
            break;
        }
    }
}

/// Sum of absolute differences, or some number above `limit` where it is larger than that.
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
        let found = mean_shift(&clumps(), 2, 0.4);
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
        climb(&mut place, &points, 2.0);
        let pull: f32 = points.iter().map(|x| (1.0 - (x - place[0]).abs() / 2.0).powi(2) * (x - place[0])).sum();
        assert!(pull.abs() < 1e-2 && (0.05..0.37).contains(&place[0]), "{place:?} {pull}");
    }

    #[test]
    fn the_bandwidth_decides_how_many() {
        assert_eq!(mean_shift(&clumps(), 2, 10.0).sizes, [90]);
        assert!(mean_shift(&clumps(), 2, 1e-4).sizes.len() > 60);
    }
}
