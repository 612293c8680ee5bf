//! Curves with fewer keys: the piecewise linear curve nearest to the values of all frames.

use glam::DQuat;

/// Instead of frames between keys: one key for all frames.
pub const ONE_KEY: usize = usize::MAX;

/// Instead of frames between keys: no key, the node stays at rest.
pub const NO_KEY: usize = usize::MAX - 1;

/// Frames that are keys: every `stride`-th and the last; the first alone with [`ONE_KEY`].
pub fn key_frames(frames: usize, stride: usize) -> Vec<usize> {
    match stride {
        ONE_KEY => return vec![0],
        NO_KEY => return Vec::new(),
        _ => {}
    }
    let mut keys: Vec<usize> = (0..frames).step_by(stride.max(1)).collect();
    if keys.last().is_some_and(|last| *last + 1 < frames) {
        keys.push(frames - 1);
    }
    keys
}

/// Frame, segment and place in the segment, in order.
fn places<'a>(times: &'a [f64], keys: &'a [usize]) -> impl Iterator<Item = (usize, usize, f64)> + 'a {
    let mut segment = 0;
    (0..times.len()).map(move |t| {
        while segment + 2 < keys.len() && keys[segment + 1] <= t {
            segment += 1;
        }
        let last = keys[(segment + 1).min(keys.len() - 1)];
        let length = times[last] - times[keys[segment]];
        (t, segment, if length > 0.0 { (times[t] - times[keys[segment]]) / length } else { 0.0 })
    })
}

/// Values at the keys with the least sum of squared differences from all frames, between keys linear.
///
/// The normal equations are tridiagonal, and positive definite because every key is a frame.
pub fn fit<const D: usize>(values: &[[f64; D]], times: &[f64], keys: &[usize]) -> Vec<[f64; D]> {
    let count = keys.len();
    if count >= values.len() {
        return values.to_vec();
    }
    if values.iter().all(|value| *value == values[0]) {
        return vec![values[0]; count];
    }
    if count == 1 {
        return vec![std::array::from_fn(|d| values.iter().map(|v| v[d]).sum::<f64>() / values.len() as f64)];
    }
    let (mut diagonal, mut beside, mut right) = (vec![0.0; count], vec![0.0; count], vec![[0.0; D]; count]);
    for (t, k, u) in places(times, keys) {
        let v = 1.0 - u;
        diagonal[k] += v * v;
        for d in 0..D {
            right[k][d] += v * values[t][d];
        }
        if k + 1 < count {
            diagonal[k + 1] += u * u;
            beside[k] += u * v;
            for d in 0..D {
                right[k + 1][d] += u * values[t][d];
            }
        }
    }
    for k in 1..count {
        let factor = beside[k - 1] / diagonal[k - 1];
        diagonal[k] -= factor * beside[k - 1];
        let before = right[k - 1];
        right[k].iter_mut().zip(before).for_each(|(own, before)| *own -= factor * before);
    }
    for k in (0..count).rev() {
        let after = if k + 1 < count { right[k + 1] } else { [0.0; D] };
        let own = right[k].iter_mut().zip(after);
        own.for_each(|(own, after)| *own = (*own - beside[k] * after) / diagonal[k]);
    }
    right
}

/// [F] values of a curve through the keys.
pub fn sample<const D: usize>(values: &[[f64; D]], times: &[f64], keys: &[usize]) -> Vec<[f64; D]> {
    if keys.len() == 1 {
        return vec![values[0]; times.len()];
    }
    let at = |(_, k, u): (usize, usize, f64)| {
        let (a, b) = (values[k], values[(k + 1).min(values.len() - 1)]);
        std::array::from_fn(|d| a[d] + u * (b[d] - a[d]))
    };
    places(times, keys).map(at).collect()
}

/// As [`sample`], of rotations, as readers interpolate them.
pub fn sample_rotations(values: &[DQuat], times: &[f64], keys: &[usize]) -> Vec<DQuat> {
    let at = |(_, k, u): (usize, usize, f64)| {
        let (a, b) = (values[k], values[(k + 1).min(values.len() - 1)]);
        if u == 0.0 { a } else { a.slerp(b, u) }
    };
    places(times, keys).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_every_so_many_frames_and_the_last() {
        assert_eq!(key_frames(7, 3), [0, 3, 6]);
        assert_eq!(key_frames(6, 4), [0, 4, 5]);
        assert_eq!(key_frames(1, 8), [0]);
        assert_eq!(key_frames(5, ONE_KEY), [0]);
        let values = [[1.0], [2.0], [6.0]];
        assert_eq!(fit(&values, &[0.0, 1.0, 2.0], &[0]), [[3.0]]);
        assert_eq!(sample(&[[3.0]], &[0.0, 1.0, 2.0], &[0]), [[3.0]; 3]);
    }

    #[test]
    fn the_fit_is_the_best_there_is() {
        let times: Vec<f64> = (0..23).map(|t| f64::from(t) / 24.0).collect();
        let values: Vec<[f64; 1]> = times.iter().map(|t| [(7.0 * t).sin() + (31.0 * t).cos() * 0.1]).collect();
        let keys = key_frames(23, 4);
        let best = fit(&values, &times, &keys);
        let error = |keyed: &[[f64; 1]]| {
            sample(keyed, &times, &keys).iter().zip(&values).map(|(a, b)| (a[0] - b[0]).powi(2)).sum::<f64>()
        };
        let least = error(&best);
        for k in 0..keys.len() {
            for step in [1e-3, -1e-3] {
                let mut other = best.clone();
                other[k][0] += step;
                assert!(error(&other) > least);
            }
        }
        // What is linear between keys is kept.
        let line: Vec<[f64; 1]> = times.iter().map(|t| [3.0 * t - 1.0]).collect();
        let kept = sample(&fit(&line, &times, &keys), &times, &keys);
        assert!(kept.iter().zip(&line).all(|(a, b)| (a[0] - b[0]).abs() < 1e-12));
    }
}
