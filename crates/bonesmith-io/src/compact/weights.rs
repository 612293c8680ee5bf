//! Weights in whole steps: of all roundings whose sum is exact, one that moves the posed vertices least; the rest pose makes up for what
//! it can of the rest.

use bonesmith_core::{Rig, SparseWeights};
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

/// Poses in which roundings are compared.
const POSES: usize = 64;
/// Most influences whose roundings are compared.
const MAX_SLOTS: usize = 8;

/// (clip, frame) of poses spread over all clips.
pub fn poses(rig: &Rig) -> Vec<(usize, usize)> {
    let all: Vec<(usize, usize)> =
        rig.clips.iter().enumerate().flat_map(|(c, clip)| (0..clip.frame_count()).map(move |t| (c, t))).collect();
    let step = all.len().div_ceil(POSES).max(1);
    all.into_iter().step_by(step).collect()
}

/// Steps of weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grid {
    /// 8 bits.
    Bytes,
    /// 16 bits, of which the lower 8 are constant but in one influence of a vertex, which takes what the others leave.
    Coarse,
    /// 16 bits.
    Fine,
}

impl Grid {
    /// The sum of a row as stored, and how much of it a step is.
    fn sum_and_step(self) -> (u32, u32) {
        match self {
            Self::Bytes => (255, 1),
            Self::Coarse => (65535, 256),
            Self::Fine => (65535, 1),
        }
    }
}

/// Weights of a vertex in whole steps.
#[derive(Clone)]
pub struct WholeRow {
    /// As stored, in the order of the influences.
    pub row: Vec<u32>,
    /// The rest position that goes with them.
    pub rest: Vec3,
    /// Mean over poses of the square by which the vertex moves.
    pub square: f64,
}

/// [N] rounds all weights.
pub fn whole_rows(rig: &Rig, grid: Grid) -> Vec<WholeRow> {
    let poses = poses(rig);
    // What the others leave is taken by the bone that moves most: neighbours then agree in which it is.
    let mut masses = vec![0.0f64; rig.bone_count()];
    (0..rig.vertex_count()).flat_map(|i| rig.weights.of(i)).for_each(|(j, w)| masses[j] += f64::from(w));
    (0..rig.vertex_count()).into_par_iter().map(|i| whole_row(rig, i, grid, &poses, &masses)).collect()
}

/// With changes d_a of the weights and e of the rest position the vertex moves by sum_a d_a (p_a - p_0) + B e in a pose, where p_a is where
/// bone a takes it and B is its blended matrix. The best e is linear in d; what is left is a quadratic form of d, and the whole
/// weights with the least of it are the nearest point of a lattice.
fn whole_row(rig: &Rig, i: usize, grid: Grid, poses: &[(usize, usize)], masses: &[f64]) -> WholeRow {
    let (sum_stored, step) = grid.sum_and_step();
    let all: Vec<(usize, f32)> = rig.weights.of(i).collect();
    let weights: Vec<f32> = all.iter().map(|(_, w)| *w).collect();
    if all.len() < 2 || all.len() > MAX_SLOTS || poses.is_empty() {
        return WholeRow { row: whole_weights(&weights, sum_stored), rest: rig.rest[i], square: 0.0 };
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by(|&a, &b| masses[all[b].0].total_cmp(&masses[all[a].0]).then(all[a].0.cmp(&all[b].0)));
    let row: Vec<(usize, f64)> = order.iter().map(|&a| (all[a].0, f64::from(all[a].1))).collect();
    let (free, u) = (row.len() - 1, rig.rest[i].as_dvec3());
    let sum: f64 = row.iter().map(|(_, w)| w).sum();
    let mut form = [[0.0f64; MAX_SLOTS]; MAX_SLOTS];
    let (mut normal, mut mixed) = (DMat3::ZERO, [DVec3::ZERO; MAX_SLOTS]);
    for &(c, t) in poses {
        let frame = rig.clips[c].frame(t);
        let first = frame[row[0].0].transform_point3(u);
        let mut matrix = frame[row[0].0].matrix3 * (row[0].1 / sum);
        let mut moves = [DVec3::ZERO; MAX_SLOTS];
        for a in 0..free {
            let (j, w) = row[a + 1];
            moves[a] = frame[j].transform_point3(u) - first;
            matrix += frame[j].matrix3 * (w / sum);
        }
        let across = matrix.transpose();
        normal += across * matrix;
        for a in 0..free {
            mixed[a] += across * moves[a];
            for b in 0..=a {
                form[a][b] += moves[a].dot(moves[b]);
            }
        }
    }
    let inverse =
        Some(normal.inverse()).filter(|m| m.is_finite() && normal.determinant() > 1e-9).unwrap_or(DMat3::ZERO);
    for a in 0..free {
        for b in 0..=a {
            form[a][b] -= mixed[a].dot(inverse * mixed[b]);
        }
    }
    let steps = f64::from(sum_stored) / f64::from(step);
    let exact: Vec<f64> = row[1..].iter().map(|(_, w)| w / sum * steps).collect();
    let Some(whole) = nearest_whole(&form, &exact, sum_stored / step) else {
        return WholeRow { row: whole_weights(&weights, sum_stored), rest: rig.rest[i], square: 0.0 };
    };
    let change = |a: usize| (f64::from(whole[a]) - exact[a]) / steps;
    let (mut square, mut rest) = (0.0, u);
    for a in 0..free {
        rest -= inverse * mixed[a] * change(a);
        square += form[a][a] * change(a) * change(a);
        square += (0..a).map(|b| 2.0 * form[a][b] * change(a) * change(b)).sum::<f64>();
    }
    let mut stored = vec![0; all.len()];
    for (a, n) in whole.iter().enumerate() {
        stored[order[a + 1]] = n * step;
    }
    stored[order[0]] = sum_stored - whole.iter().sum::<u32>() * step;
    WholeRow { row: stored, rest: rest.as_vec3(), square: square.max(0.0) / poses.len() as f64 }
}

/// Whole numbers near `exact` with a sum of at most `most` and about the least value of a quadratic form (lower triangle) of the
/// differences: Cholesky's factor makes it a sum of squares, of which each has one number more than the one after it. The best few
/// beginnings are kept.
fn nearest_whole(form: &[[f64; MAX_SLOTS]; MAX_SLOTS], exact: &[f64], most: u32) -> Option<Vec<u32>> {
    const KEPT: usize = 6;
    let free = exact.len();
    let trace: f64 = (0..free).map(|a| form[a][a].max(0.0)).sum();
    let lower = cholesky(form, free, 1e-7 * trace + f64::MIN_POSITIVE)?;
    let mut partial: Vec<(f64, [i64; MAX_SLOTS])> = vec![(0.0, [0; MAX_SLOTS])];
    for r in (0..free).rev() {
        let mut next = Vec::with_capacity(4 * partial.len());
        for (cost, whole) in &partial {
            // Row r of the transposed factor has the columns from r on.
            let above: f64 = (r + 1..free).map(|c| lower[c][r] * (whole[c] as f64 - exact[c])).sum();
            let centre = exact[r] - above / lower[r][r];
            let used: i64 = whole[r + 1..free].iter().sum();
            let most = i64::from(most) - used;
            let low = (centre.floor() as i64 - 1).clamp(0, most.max(0));
            for n in (low..=low + 3).filter(|n| *n <= most) {
                let off = lower[r][r] * (n as f64 - centre);
                let mut whole = *whole;
                whole[r] = n;
                next.push((cost + off * off, whole));
            }
        }
        next.sort_by(|a, b| a.0.total_cmp(&b.0));
        next.truncate(KEPT);
        partial = next;
    }
    let (_, best) = partial.first()?;
    Some(best[..free].iter().map(|n| *n as u32).collect())
}

/// The lower factor of a positive definite form, with `ridge` added to its diagonal.
fn cholesky(form: &[[f64; MAX_SLOTS]; MAX_SLOTS], size: usize, ridge: f64) -> Option<[[f64; MAX_SLOTS]; MAX_SLOTS]> {
    let mut lower = [[0.0; MAX_SLOTS]; MAX_SLOTS];
    for a in 0..size {
        for b in 0..=a {
            let known: f64 = (0..b).map(|c| lower[a][c] * lower[b][c]).sum();
            let left = form[a][b] - known + if a == b { ridge } else { 0.0 };
            if a == b && (!left.is_finite() || left <= 0.0) {
                return None;
            }
            lower[a][b] = if a == b { left.sqrt() } else { left / lower[b][b] };
        }
    }
    Some(lower)
}

/// A row of weights in whole steps, their sum exactly `one`: the largest remainders are rounded up.
fn whole_weights(row: &[f32], one: u32) -> Vec<u32> {
    let sum: f64 = row.iter().map(|w| f64::from(*w)).sum();
    let exact: Vec<f64> = row.iter().map(|w| f64::from(*w) / sum.max(f64::MIN_POSITIVE) * f64::from(one)).collect();
    let mut whole: Vec<u32> = exact.iter().map(|w| w.floor() as u32).collect();
    let mut order: Vec<usize> = (0..row.len()).collect();
    let remainder = |k: usize| exact[k] - exact[k].floor();
    order.sort_by(|&a, &b| remainder(b).total_cmp(&remainder(a)).then(a.cmp(&b)));
    let missing = one.saturating_sub(whole.iter().sum());
    for &k in order.iter().cycle().take(if row.is_empty() { 0 } else { missing as usize }) {
        whole[k] += 1;
    }
    whole
}

/// Weights as they are stored.
pub fn stored(weights: &SparseWeights, rows: &[Vec<u32>], one: u32) -> SparseWeights {
    let mut out = SparseWeights::new(weights.vertex_count(), weights.slots());
    for (i, whole) in rows.iter().enumerate() {
        let pairs = weights.of(i).zip(whole).filter(|(_, w)| **w > 0);
        let row: Vec<(usize, f64)> = pairs.map(|((j, _), w)| (j, f64::from(*w) / f64::from(one))).collect();
        out.set(i, &row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_weights_sum_to_one_as_stored() {
        assert_eq!(whole_weights(&[1.0], 255), [255]);
        assert_eq!(whole_weights(&[0.5, 0.5], 255), [128, 127]);
        let row = [0.4, 0.3, 0.2, 0.1];
        for one in [255, 65535] {
            assert_eq!(whole_weights(&row, one).iter().sum::<u32>(), one);
        }
        assert_eq!(whole_weights(&row, 255), [102, 77, 51, 25]);
    }

    #[test]
    fn the_rounding_is_near_the_best() {
        let mut state = 3u64;
        let mut uniform = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        for _ in 0..200 {
            let mut form = [[0.0; MAX_SLOTS]; MAX_SLOTS];
            let points: Vec<[f64; 3]> = (0..12).map(|_| [uniform(), uniform() * 0.3, uniform() * 0.1]).collect();
            for a in 0..3 {
                for b in 0..=a {
                    form[a][b] = points.iter().map(|p| p[a] * p[b]).sum();
                }
            }
            let raw: Vec<f64> = (0..4).map(|_| uniform() + 0.01).collect();
            let exact: Vec<f64> = raw[1..].iter().map(|w| w / raw.iter().sum::<f64>() * 20.0).collect();
            let value = |whole: [u32; 3]| -> f64 {
                let d: [f64; 3] = std::array::from_fn(|a| f64::from(whole[a]) - exact[a]);
                let all = (0..3).flat_map(|a| (0..3).map(move |b| (a, b)));
                all.map(|(a, b)| form[a.max(b)][a.min(b)] * d[a] * d[b]).sum()
            };
            let found = nearest_whole(&form, &exact, 20).unwrap();
            assert!(found.iter().sum::<u32>() <= 20);
            let found = [found[0], found[1], found[2]];
            let mut least = f64::MAX;
            for a in 0..=20u32 {
                for b in 0..=20 - a {
                    for c in 0..=20 - a - b {
                        least = least.min(value([a, b, c]));
                    }
                }
            }
            assert!(value(found) <= 4.0 * least + 1e-9, "{} {least}", value(found));
        }
    }
}
