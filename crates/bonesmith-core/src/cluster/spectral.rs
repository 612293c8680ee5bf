//! Parts that keep their distances: spectral clustering of seed vertices [Ng2001; deAguiar2008 s.4; Hasler2010].
//!
//! Seeds are spread over the rest pose (the farthest vertex again and again). Two seeds are alike if their distance
//! changes little over time; the leading eigenvectors of the normalised affinity separate groups that hardly resemble
//! each other, and k-means on their rows finds the groups. Every vertex joins the group of the seed that is nearest along
//! the surface. Deviations: patches around seeds are by distance along edges, not by curvature; with `local` scaling each
//! seed's affinity is measured by its seventh neighbour (self-tuning, as Hasler et al. use it), else by the mean.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use faer::{Mat, Side};
use glam::DVec3;

use crate::cluster::spread::{farthest_first, farthest_points};
use crate::mesh::topology::Adjacency;
use crate::observer::{Cancelled, Check};
use crate::skinning::problem::Problem;

/// Neighbour that sets the scale of a seed's affinities.
const SCALE_NEIGHBOUR: usize = 7;

/// Rounds of k-means.
const ROUNDS: usize = 30;

/// Seeds that are handled between two reports of progress.
const SEEDS_AT_ONCE: usize = 64;

/// [N] cluster of each vertex; at most `count` of them from `seeds` seeds.
pub(crate) fn cluster(
    problem: &Problem,
    adjacency: &Adjacency,
    seeds: usize,
    count: usize,
    local: bool,
    check: Check<'_>,
) -> Result<Vec<u16>, Cancelled> {
    let seeds = spread(&problem.rest, seeds.clamp(1, problem.vertices()), check)?;
    let unlike = distances(problem, &seeds, check)?;
    let groups = group(&unlike, seeds.len(), count.clamp(1, seeds.len()), local, check)?;
    Ok(nearest_seed(&problem.rest, adjacency, &seeds).into_iter().map(|s| groups[s] as u16).collect())
}

/// Farthest first, from vertex 0 on: no two seeds close together.
fn spread(rest: &[DVec3], count: usize, check: Check<'_>) -> Result<Vec<usize>, Cancelled> {
    let others = farthest_points(rest, count - 1, &rest[..1], check)?;
    Ok(std::iter::once(0).chain(others).collect())
}

/// [S, S] how unlike two seeds move: the deviation of their distance over time, and a little of the distance itself, so
/// that parts that move alike far apart stay apart.
fn distances(problem: &Problem, seeds: &[usize], check: Check<'_>) -> Result<Vec<f64>, Cancelled> {
    let (s, f) = (seeds.len(), problem.frames());
    let mut out = vec![0.0; s * s];
    for a in 0..s {
        if a.is_multiple_of(SEEDS_AT_ONCE) {
            check()?;
        }
        for b in 0..a {
            let apart: Vec<f64> =
                (0..f).map(|t| problem.position(seeds[a], t).distance(problem.position(seeds[b], t))).collect();
            let mean = apart.iter().sum::<f64>() / f as f64;
            let deviation = (apart.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / f as f64).sqrt();
            let unlike = deviation + 0.05 * mean;
            (out[a * s + b], out[b * s + a]) = (unlike, unlike);
        }
    }
    Ok(out)
}

/// [S] group of each seed [Ng2001].
fn group(unlike: &[f64], s: usize, count: usize, local: bool, check: Check<'_>) -> Result<Vec<usize>, Cancelled> {
    if count < 2 || s <= count {
        return Ok((0..s).map(|a| a.min(count - 1)).collect());
    }
    let row_scale = |a: usize| {
        let mut row = unlike[a * s..(a + 1) * s].to_vec();
        row.sort_by(f64::total_cmp);
        row[SCALE_NEIGHBOUR.min(s - 1)]
    };
    let mean = (0..s).map(row_scale).sum::<f64>() / s as f64;
    let scales: Vec<f64> = (0..s).map(|a| if local { row_scale(a) } else { mean }.max(1e-9)).collect();
    let affinity = |a: usize, b: usize| match a == b {
        true => 0.0,
        false => (-unlike[a * s + b].powi(2) / (scales[a] * scales[b])).exp(),
    };
    let degrees: Vec<f64> = (0..s).map(|a| (0..s).map(|b| affinity(a, b)).sum::<f64>().max(1e-12)).collect();
    let matrix = Mat::from_fn(s, s, |a, b| affinity(a, b) / (degrees[a] * degrees[b]).sqrt());
    let Ok(eigen) = matrix.self_adjoint_eigen(Side::Lower) else {
        // Not a matrix of finite numbers: one group is sound.
        return Ok(vec![0; s]);
    };
    // Eigenvalues rise: the last `count` columns lead.
    let vectors = eigen.U();
    let rows: Vec<Vec<f64>> = (0..s)
        .map(|a| {
            let row: Vec<f64> = (0..count).map(|c| vectors[(a, s - 1 - c)]).collect();
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            row.into_iter().map(|x| x / length).collect()
        })
        .collect();
    k_means(&rows, count, check)
}

/// K-means with a farthest-first start: nothing is random.
fn k_means(rows: &[Vec<f64>], count: usize, check: Check<'_>) -> Result<Vec<usize>, Cancelled> {
    let apart = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| (x - y).powi(2)).sum::<f64>();
    let from_first = rows.iter().map(|row| apart(row, &rows[0])).collect();
    let others = farthest_first(from_first, count - 1, |a, b| apart(&rows[a], &rows[b]), check)?;
    let mut centres: Vec<Vec<f64>> = std::iter::once(0).chain(others).map(|at| rows[at].clone()).collect();
    let mut labels = vec![0; rows.len()];
    for _ in 0..ROUNDS {
        for (at, (label, row)) in labels.iter_mut().zip(rows).enumerate() {
            if at.is_multiple_of(SEEDS_AT_ONCE) {
                check()?;
            }
            let best = (0..count).min_by(|&a, &b| apart(row, &centres[a]).total_cmp(&apart(row, &centres[b])));
            *label = best.unwrap_or(0);
        }
        for (k, centre) in centres.iter_mut().enumerate() {
            let own: Vec<&Vec<f64>> = rows.iter().zip(&labels).filter(|(_, l)| **l == k).map(|(r, _)| r).collect();
            if !own.is_empty() {
                let mean = |c: usize| own.iter().map(|row| row[c]).sum::<f64>() / own.len() as f64;
                *centre = (0..centre.len()).map(mean).collect();
            }
        }
    }
    Ok(labels)
}

/// [N] nearest seed along edges; for vertices that no seed reaches, the nearest in space.
fn nearest_seed(rest: &[DVec3], adjacency: &Adjacency, seeds: &[usize]) -> Vec<usize> {
    let (mut nearest, distance) = spread_from(rest, adjacency, seeds);
    for i in (0..rest.len()).filter(|&i| distance[i].is_infinite()) {
        let away = |s: &usize| rest[seeds[*s]].distance_squared(rest[i]);
        nearest[i] = (0..seeds.len()).min_by(|a, b| away(a).total_cmp(&away(b))).unwrap_or(0);
    }
    nearest
}

/// [N] nearest seed along edges and how far it is; infinity where none can be reached [Dijkstra1959].
fn spread_from(rest: &[DVec3], adjacency: &Adjacency, seeds: &[usize]) -> (Vec<usize>, Vec<f64>) {
    let mut nearest = vec![usize::MAX; rest.len()];
    let mut distance = vec![f64::INFINITY; rest.len()];
    let mut heap: BinaryHeap<(Reverse<u64>, Reverse<usize>)> = BinaryHeap::new();
    for (s, &i) in seeds.iter().enumerate() {
        if distance[i] > 0.0 {
            (nearest[i], distance[i]) = (s, 0.0);
            heap.push((Reverse(0), Reverse(i)));
        }
    }
    while let Some((Reverse(bits), Reverse(i))) = heap.pop() {
        if f64::from_bits(bits) > distance[i] {
            continue;
        }
        for &k in adjacency.of(i) {
            let k = k as usize;
            let through = distance[i] + rest[i].distance(rest[k]);
            if through < distance[k] {
                (nearest[k], distance[k]) = (nearest[i], through);
                heap.push((Reverse(through.to_bits()), Reverse(k)));
            }
        }
    }
    (nearest, distance)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two clumps in feature space.
    #[test]
    fn groups_that_differ_come_apart() {
        let at = [0.0, 0.1, 0.2, 0.15, 5.0, 5.1, 5.2, 5.05, 5.3];
        let unlike: Vec<f64> = at.iter().flat_map(|a| at.iter().map(move |b: &f64| (a - b).abs())).collect();
        for local in [false, true] {
            let labels = group(&unlike, at.len(), 2, local, &mut || Ok(())).unwrap();
            assert!(labels[..4].iter().all(|l| *l == labels[0]) && labels[4..].iter().all(|l| *l == labels[4]));
            assert_ne!(labels[0], labels[4]);
        }
    }

    #[test]
    fn seeds_are_apart_and_every_vertex_has_one() {
        let rest: Vec<DVec3> = (0..50).map(|k| DVec3::new(k as f64, 0.0, 0.0)).collect();
        let seeds = spread(&rest, 5, &mut || Ok(())).unwrap();
        assert_eq!(seeds[..2], [0, 49]);
        let nothing = Adjacency::new(&crate::mesh::topology::Topology::empty(), 50);
        assert!(nearest_seed(&rest, &nothing, &seeds).iter().all(|s| *s < 5));
    }
}
