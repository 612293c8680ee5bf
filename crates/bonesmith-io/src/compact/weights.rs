//! Weights in whole steps: of all roundings whose sum is exact, one that moves the posed vertices least; the rest pose makes up for what
//! it can of the rest.

use bonesmith_core::{Rig, SparseWeights};
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

/// Frames in which roundings are compared.
const FRAMES: usize = 12;

/// (clip, frame) of poses spread over all clips.
pub fn poses(rig: &Rig) -> Vec<(usize, usize)> {
    let all: Vec<(usize, usize)> =
        rig.clips.iter().enumerate().flat_map(|(c, clip)| (0..clip.frame_count()).map(move |t| (c, t))).collect();
    let step = all.len().div_ceil(FRAMES).max(1);
    all.into_iter().step_by(step).collect()
}

/// Weights of all vertices in whole steps.
pub struct Whole {
    /// [N] rows, in the order of the influences.
    pub rows: Vec<Vec<u32>>,
    /// [N] rest pose that goes with them.
    pub rest: Vec<Vec3>,
    /// Mean over poses of the sum of squares by which vertices move.
    pub square: f64,
}

/// Rounds all weights.
pub fn whole_rows(rig: &Rig, one: u32) -> Whole {
    let poses = poses(rig);
    let rows: Vec<(Vec<u32>, Vec3, f64)> = (0..rig.vertex_count())
        .into_par_iter()
        .map(|i| {
            let (row, square) = whole_row(rig, i, one, &poses);
            let (rest, square) = compensated(rig, i, &row, one, &poses, square);
            (row, rest, square)
        })
        .collect();
    let square = rows.iter().map(|(.., square)| square).sum::<f64>() / poses.len().max(1) as f64;
    let rest = rows.iter().map(|(_, rest, _)| *rest).collect();
    Whole { rows: rows.into_iter().map(|(row, ..)| row).collect(), rest, square }
}

/// The rest position with which a vertex of rounded weights is nearest to where it was: three normal equations.
fn compensated(rig: &Rig, i: usize, whole: &[u32], one: u32, poses: &[(usize, usize)], square: f64) -> (Vec3, f64) {
    let u = rig.rest[i];
    if whole.len() < 2 || poses.is_empty() {
        return (u, square);
    }
    let own =
        || rig.weights.of(i).zip(whole).map(|((j, w), whole)| (j, f64::from(w), f64::from(*whole) / f64::from(one)));
    let (mut normal, mut right) = (DMat3::ZERO, DVec3::ZERO);
    let mut frames = Vec::with_capacity(poses.len());
    for &(c, t) in poses {
        let bones = rig.clips[c].frame(t);
        let (mut matrix, mut off) = (DMat3::ZERO, DVec3::ZERO);
        for (j, w, stored) in own() {
            matrix += bones[j].matrix3 * stored;
            off += (stored - w) * bones[j].transform_point3(u.as_dvec3());
        }
        normal += matrix.transpose() * matrix;
        right -= matrix.transpose() * off;
        frames.push((matrix, off));
    }
    let change = normal.inverse() * right;
    if !change.is_finite() || normal.determinant().abs() < 1e-9 {
        return (u, square);
    }
    let left: f64 = frames.iter().map(|(matrix, off)| (*matrix * change + *off).length_squared()).sum();
    if left < square { ((u.as_dvec3() + change).as_vec3(), left) } else { (u, square) }
}

fn whole_row(rig: &Rig, i: usize, one: u32, poses: &[(usize, usize)]) -> (Vec<u32>, f64) {
    let (bones, row): (Vec<usize>, Vec<f32>) = rig.weights.of(i).unzip();
    let mut whole = whole_weights(&row, one);
    if row.len() < 2 {
        return (whole, 0.0);
    }
    let sum: f64 = row.iter().map(|w| f64::from(*w)).sum();
    let u = rig.rest[i].as_dvec3();
    // Where each bone takes the vertex, relative to where the first does: the weights' changes sum to 0.
    let places: Vec<Vec<DVec3>> = poses
        .iter()
        .map(|&(c, t)| {
            let bones = bones.iter().map(|&j| rig.clips[c].frame(t)[j].transform_point3(u));
            let all: Vec<DVec3> = bones.collect();
            all.iter().map(|p| *p - all[0]).collect()
        })
        .collect();
    let square = |whole: &[u32]| -> f64 {
        let change: Vec<f64> =
            whole.iter().zip(&row).map(|(w, exact)| f64::from(*w) / f64::from(one) - f64::from(*exact) / sum).collect();
        let moved = |own: &Vec<DVec3>| own.iter().zip(&change).map(|(p, d)| *p * *d).sum::<DVec3>().length_squared();
        places.iter().map(moved).sum()
    };
    let mut least = square(&whole);
    for _ in 0..4 {
        let before = least;
        for a in 0..row.len() {
            for b in (0..row.len()).filter(|&b| b != a) {
                if whole[b] == 0 {
                    continue;
                }
                (whole[a], whole[b]) = (whole[a] + 1, whole[b] - 1);
                let tried = square(&whole);
                if tried < least {
                    least = tried;
                } else {
                    (whole[a], whole[b]) = (whole[a] - 1, whole[b] + 1);
                }
            }
        }
        if least == before {
            break;
        }
    }
    (whole, least)
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
}
