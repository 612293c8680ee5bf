//! Times of frames, within what files can hold.

/// Latest time in seconds, on either side of zero: three years. Formats count in ticks, which overflow soon after.
const LATEST: f64 = 1e8;

/// Least time between two frames in seconds.
const APART: f64 = 1e-7;

/// The first frame whose time is no number, does not rise, or is too far away.
pub(crate) fn first_unsound(times_secs: &[f64]) -> Option<usize> {
    let is_sound = |t: usize| {
        let secs = times_secs[t];
        secs.abs() <= LATEST && (t == 0 || secs - times_secs[t - 1] >= APART)
    };
    (0..times_secs.len()).find(|&t| !is_sound(t))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_rise_within_limits() {
        assert_eq!(first_unsound(&[]), None);
        assert_eq!(first_unsound(&[-3.0, 0.0, 1e-3, 1e7]), None);
        for (times, at) in [
            (&[0.0, f64::NAN][..], 1),
            (&[f64::INFINITY], 0),
            (&[0.0, 1e103], 1),
            (&[0.0, 0.1, 0.1], 2),
            (&[0.0, 2e-314, 1.0], 1),
        ] {
            assert_eq!(first_unsound(times), Some(at), "{times:?}");
        }
    }
}
