//! Points spread evenly over others: farthest points [Gonzalez1985], each then moved to the middle of its cell [Lloyd1982].

use glam::DVec3;
use rayon::prelude::*;

use crate::observer::{Cancelled, Check};

/// Most rounds of moving points to the middle.
const LLOYD_ROUNDS: usize = 20;

/// Points that are picked between two reports of progress.
const PICKED_AT_ONCE: usize = 64;

/// `count` different points spread evenly (p-centers), `1 <= count <= N`.
pub(crate) fn centers(points: &[DVec3], count: usize, check: Check<'_>) -> Result<Vec<usize>, Cancelled> {
    let picked = farthest_points(points, count, &[], check)?;
    to_the_middle(points, picked, check)
}

/// [N] nearest of some different points; each of those has itself at least.
pub(crate) fn cells(points: &[DVec3], centers: &[usize]) -> Vec<u16> {
    let mut cells = nearest(points, centers);
    // Where centers coincide, each still has its own point.
    centers.iter().enumerate().for_each(|(k, &center)| cells[center] = k as u16);
    cells
}

/// Picks `count` different points, each the farthest from `present` and those picked before.
///
/// With none present the first is the nearest to the mean.
pub(crate) fn farthest_points(
    points: &[DVec3],
    count: usize,
    present: &[DVec3],
    check: Check<'_>,
) -> Result<Vec<usize>, Cancelled> {
    let mut picked = Vec::new();
    if present.is_empty() && count > 0 {
        let mean = points.iter().sum::<DVec3>() / points.len() as f64;
        picked = farthest_first(points.iter().map(|p| -p.distance_squared(mean)).collect(), 1, |_, _| 0.0, check)?;
    }
    let start: Vec<DVec3> = picked.iter().map(|&at| points[at]).chain(present.iter().copied()).collect();
    let apart = |p: &DVec3| start.iter().map(|q| p.distance_squared(*q)).fold(f64::INFINITY, f64::min);
    let mut distances: Vec<f64> = points.iter().map(apart).collect();
    picked.iter().for_each(|&at| distances[at] = PICKED);
    let left = count - picked.len();
    picked.extend(farthest_first(distances, left, |a, b| points[a].distance_squared(points[b]), check)?);
    Ok(picked)
}

/// Below every distance.
const PICKED: f64 = -1.0;

/// Picks `count` different items, each the farthest from those before; `distances` [N] are those to what is there already.
pub(crate) fn farthest_first(
    mut distances: Vec<f64>,
    count: usize,
    apart: impl Fn(usize, usize) -> f64,
    check: Check<'_>,
) -> Result<Vec<usize>, Cancelled> {
    let mut picked = Vec::with_capacity(count);
    while picked.len() < count {
        if picked.len().is_multiple_of(PICKED_AT_ONCE) {
            check()?;
        }
        let first_of_largest = |far: usize, at: usize| if distances[at] > distances[far] { at } else { far };
        let far = (0..distances.len()).fold(0, first_of_largest);
        picked.push(far);
        distances.iter_mut().enumerate().for_each(|(at, distance)| *distance = distance.min(apart(at, far)));
        distances[far] = PICKED;
    }
    Ok(picked)
}

/// Moves each picked point to the one nearest to the mean of its cell, until none moves.
pub(crate) fn to_the_middle(
    points: &[DVec3],
    mut picked: Vec<usize>,
    check: Check<'_>,
) -> Result<Vec<usize>, Cancelled> {
    for _ in 0..LLOYD_ROUNDS {
        check()?;
        let cells = nearest(points, &picked);
        let mut sums = vec![(DVec3::ZERO, 0.0); picked.len()];
        for (p, &k) in points.iter().zip(&cells) {
            sums[usize::from(k)].0 += *p;
            sums[usize::from(k)].1 += 1.0;
        }
        // A cell is empty where its point has a twin; it then keeps its place.
        let mut moved: Vec<(f64, usize)> = picked.iter().map(|&at| (f64::INFINITY, at)).collect();
        for (at, (p, &k)) in points.iter().zip(&cells).enumerate() {
            let (sum, count) = sums[usize::from(k)];
            let distance = p.distance_squared(sum / count);
            if distance < moved[usize::from(k)].0 {
                moved[usize::from(k)] = (distance, at);
            }
        }
        let moved: Vec<usize> = moved.into_iter().map(|(_, at)| at).collect();
        if moved == picked {
            break;
        }
        picked = moved;
    }
    Ok(picked)
}

/// [N] nearest of the picked points.
fn nearest(points: &[DVec3], picked: &[usize]) -> Vec<u16> {
    let places: Vec<DVec3> = picked.iter().map(|&at| points[at]).collect();
    let nearest = |p: &DVec3| {
        let mut best = (f64::INFINITY, 0);
        for (k, place) in places.iter().enumerate() {
            let distance = p.distance_squared(*place);
            if distance < best.0 {
                best = (distance, k as u16);
            }
        }
        best.1
    };
    points.par_iter().with_min_len(256).map(nearest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn farthest_points_are_different_and_spread() {
        let line: Vec<DVec3> = (0..101).map(|x| DVec3::X * f64::from(x)).collect();
        let check: Check<'_> = &mut || Ok(());
        assert_eq!(farthest_points(&line, 3, &[], check).unwrap(), [50, 0, 100]);
        assert_eq!(farthest_points(&line, 2, &[line[0]], check).unwrap(), [100, 50]);
        let middles = to_the_middle(&line, vec![0, 1], check).unwrap();
        assert!(middles[0].abs_diff(25) <= 1 && middles[1].abs_diff(75) <= 1, "{middles:?}");
        let mut same = farthest_points(&[DVec3::ONE; 5], 5, &[], check).unwrap();
        same.sort_unstable();
        assert_eq!(same, [0, 1, 2, 3, 4]);
        assert_eq!(to_the_middle(&[DVec3::ONE; 3], vec![0, 1, 2], check).unwrap().len(), 3);
        assert_eq!(cells(&[DVec3::ONE; 3], &[2, 0]), [1, 0, 0]);
    }

    #[test]
    fn a_cancelled_spread_ends() {
        let line: Vec<DVec3> = (0..101).map(|x| DVec3::X * f64::from(x)).collect();
        assert_eq!(centers(&line, 9, &mut || Err(Cancelled)), Err(Cancelled));
    }
}
