//! Half floats: how USD stores the scales of animated joints.

/// A half float, exactly.
pub fn half_to_f32(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1.0 + mantissa / 1024.0) * 2f32.powi(exponent - 15),
    }
}

/// A half float as bits, rounded to nearest, ties to even; beyond its range the largest finite one.
pub fn half_bits(x: f32) -> u16 {
    let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
    let size = x.abs();
    if size.is_nan() {
        return 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7bff;
    }
    if size < 2f32.powi(-14) {
        // Steps of 2^-24.
        return sign | (size * 2f32.powi(24)).round_ties_even() as u16;
    }
    let bits = size.to_bits();
    let (exponent, mantissa) = ((bits >> 23) as i32 - 127 + 15, bits & 0x7f_ffff);
    let kept = (exponent as u32) << 10 | mantissa >> 13;
    let rest = mantissa & 0x1fff;
    // A mantissa that overflows goes into the exponent, as it should.
    let up = rest > 0x1000 || (rest == 0x1000 && kept & 1 == 1);
    sign | (kept + u32::from(up)) as u16
}

/// Two half floats whose product is `value` within the precision of readers, for a scale in two nested joints; the second
/// is near 1 and near `last`, so that blends between frames stay true.
///
/// One half float is off by up to 1/4096. Products of two lie denser: among those whose second factor is within an
/// eighth of 1, the first that is off by less than [`PAIR_ERROR`], nearest to `last`, is taken.
pub fn half_pair(value: f64, last: f64) -> (f64, f64) {
    let half = |x: f64| f64::from(half_to_f32(half_bits(x as f32)));
    let alone = half(value);
    if alone == value || !value.is_finite() {
        return (alone, 1.0);
    }
    let mut best = (alone, 1.0, f64::INFINITY);
    // 1 is 0x3c00; below it half floats are 1/2048 apart, above 1/1024.
    let middle = i32::from(half_bits(last as f32)).clamp(PAIR_RANGE.0, PAIR_RANGE.1);
    for step in 0..=PAIR_RANGE.1 - PAIR_RANGE.0 {
        for at in [middle - step, middle + step] {
            if at < PAIR_RANGE.0 || at > PAIR_RANGE.1 {
                continue;
            }
            let second = f64::from(half_to_f32(at as u16));
            let first = half(value / second);
            let error = (first * second - value).abs();
            if error < best.2 {
                best = (first, second, error);
            }
            if error <= PAIR_ERROR * value.abs() {
                return (first, second);
            }
        }
    }
    (best.0, best.1)
}

/// Largest relative error of a pair that is good enough.
const PAIR_ERROR: f64 = 4e-6;
/// Bits of the second factors: 7/8 to 9/8.
const PAIR_RANGE: (i32, i32) = (0x3c00 - 256, 0x3c00 + 128);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_round_trip_and_round_to_nearest() {
        for bits in 0..0x7c00u16 {
            assert_eq!(half_bits(half_to_f32(bits)), bits);
            assert_eq!(half_bits(-half_to_f32(bits)), bits | 0x8000);
        }
        for x in [1.0003, 0.3333, 1e-6, 3e-8, 1000.7, 65519.0] {
            let found = half_to_f32(half_bits(x));
            let (below, above) = (half_to_f32(half_bits(x) - 1), half_to_f32(half_bits(x) + 1));
            assert!((found - x).abs() <= (below - x).abs() && (found - x).abs() <= (above - x).abs(), "{x} {found}");
        }
    }

    #[test]
    fn pairs_are_far_better_than_one_half() {
        let (mut worst, mut last, mut jump) = (0.0f64, 1.0, 0.0f64);
        for k in 0..5000 {
            let value = 0.4 + 1.7 * f64::from(k) / 5000.0;
            let (a, b) = half_pair(value, last);
            for x in [a, b] {
                assert_eq!(f64::from(half_to_f32(half_bits(x as f32))), x, "a half float");
            }
            worst = worst.max((a * b / value - 1.0).abs());
            jump = jump.max((b - last).abs());
            last = b;
        }
        assert!(worst < 2e-5, "{worst}");
        assert!(jump < 0.26, "{jump}");
        assert_eq!(half_pair(1.0, 1.02), (1.0, 1.0));
        assert_eq!(half_pair(0.0, 1.0), (0.0, 1.0));
        assert!((half_pair(-1.3, 1.0).0 * half_pair(-1.3, 1.0).1 + 1.3).abs() < 1e-5);
    }
}
