//! Points gathered where they are dense [Cheng1995; Course2014 eq. 12]: each climbs to the mean of what lies within the
//! bandwidth, again and again; those that end in one place are a cluster.
//!
//! Left open by the paper and chosen here: a flat kernel, with which every climb ends after finitely many steps.

use faer::linalg::matmul::matmul;
use faer::{Accum, MatMut, MatRef, Par};
use rayon::prelude::*;

/// Most steps of a climb.
const MOST_STEPS: usize = 60;

/// Points that climb side by side.
const BLOCK: usize = 64;

/// Modes closer than this share of the bandwidth are one.
const SAME_MODE: f64 = 0.5;

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
    let norms: Vec<f32> = points.chunks_exact(dimension).map(|p| p.iter().map(|x| x * x).sum()).collect();
    places.par_chunks_mut(BLOCK * dimension).for_each(|block| climb(block, points, &norms, dimension, bandwidth));
    merge(&places, dimension, bandwidth)
}

/// Moves a block of places to the modes above them.
fn climb(block: &mut [f32], points: &[f32], norms: &[f32], d: usize, bandwidth: f64) {
    let (count, n) = (block.len() / d, norms.len());
    let all = MatRef::from_row_major_slice(points, n, d);
    let mut near = vec![0f32; count * n];
    let mut means = vec![0f32; count * d];
    for _ in 0..MOST_STEPS {
        let from = MatRef::from_row_major_slice(block, count, d);
        matmul(
            MatMut::from_row_major_slice_mut(&mut near, count, n),
            Accum::Replace,
            from,
            all.transpose(),
            1.0,
            Par::Seq,
        );
        let mut sums = vec![0f32; count];
        for ((row, place), sum) in near.chunks_exact_mut(n).zip(block.chunks_exact(d)).zip(&mut sums) {
            let own: f32 = place.iter().map(|x| x * x).sum();
            let reach = (bandwidth * bandwidth) as f32;
            for (product, norm) in row.iter_mut().zip(norms) {
                *product = if own + norm - 2.0 * *product <= reach { 1.0 } else { 0.0 };
                *sum += *product;
            }
        }
        let weights = MatRef::from_row_major_slice(&near, count, n);
        matmul(MatMut::from_row_major_slice_mut(&mut means, count, d), Accum::Replace, weights, all, 1.0, Par::Seq);
        let mut moved = 0f32;
        for ((place, mean), sum) in block.chunks_exact_mut(d).zip(means.chunks_exact(d)).zip(&sums) {
            // A place that lost all its neighbours to rounding stays.
            if *sum > 0.0 {
                let step = |(x, m): (&mut f32, &f32)| {
                    let to = m / sum;
                    let by = (to - *x) * (to - *x);
                    *x = to;
                    by
                };
                moved = moved.max(place.iter_mut().zip(mean).map(step).sum());
            }
        }
        if f64::from(moved).sqrt() < 1e-2 * bandwidth {
            break;
        }
    }
}

/// Places that are one mode get one number, the largest cluster the first.
fn merge(places: &[f32], d: usize, bandwidth: f64) -> Clusters {
    let close = (SAME_MODE * bandwidth).powi(2) as f32;
    let apart = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| (x - y) * (x - y)).sum::<f32>();
    let mut modes: Vec<&[f32]> = Vec::new();
    let mut labels = Vec::with_capacity(places.len() / d);
    for place in places.chunks_exact(d) {
        let known = modes.iter().position(|mode| apart(mode, place) <= close);
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
    fn the_bandwidth_decides_how_many() {
        assert_eq!(mean_shift(&clumps(), 2, 10.0).sizes, [90]);
        assert!(mean_shift(&clumps(), 2, 1e-4).sizes.len() > 60);
    }
}
