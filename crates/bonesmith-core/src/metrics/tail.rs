//! The distance that 999 of 1000 vertices and frames stay below, from counts in fixed memory.
//!
//! The bars are the leading bits of the squared distance as float32: 1024 to each power of two, so that the distance is exact to 1 part in
//! 2000, at any scale, and counts do not depend on an order.

/// Bits of a float32 that choose a bar: all of the exponent and 10 of the fraction.
const DROPPED: u32 = 13;

/// Bars for all numbers that are not negative.
const BARS: usize = (f32::INFINITY.to_bits() >> DROPPED) as usize + 1;

/// Counts of squared distances.
pub(super) struct Tail {
    counts: Vec<u64>,
    total: u64,
}

impl Tail {
    pub fn new() -> Self {
        Self { counts: vec![0; BARS], total: 0 }
    }

    /// Adds squared distances. What is no number counts as infinite.
    pub fn add(&mut self, squared: &[f32]) {
        for d in squared {
            let bits = if d.is_finite() { d.to_bits() } else { f32::INFINITY.to_bits() };
            self.counts[((bits >> DROPPED) as usize).min(BARS - 1)] += 1;
        }
        self.total += squared.len() as u64;
    }

    /// The distance that at least `share` of all stay below or reach, rounded up by at most 1 part in 2000 and never above `largest`.
    pub fn quantile(&self, share: f64, largest: f64) -> f64 {
        let wanted = (share * self.total as f64).ceil() as u64;
        let mut below = 0;
        let bar = self.counts.iter().position(|&count| {
            below += count;
            below >= wanted
        });
        let Some(bar) = bar.filter(|_| self.total > 0) else { return 0.0 };
        let end = f32::from_bits(((bar as u32 + 1) << DROPPED) - 1);
        f64::from(end).sqrt().min(largest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_quantile_is_that_of_the_sorted_list(
            distances in prop::collection::vec(0f32..1e3, 1..3000),
            exponent in -40i32..20,
            share in prop::sample::select(vec![0.5, 0.9, 0.999, 1.0]),
        ) {
            let distances: Vec<f32> = distances.iter().map(|d| d * (exponent as f32).exp2()).collect();
            let mut tail = Tail::new();
            for part in distances.chunks(100) {
                tail.add(&part.iter().map(|d| d * d).collect::<Vec<_>>());
            }
            let mut sorted: Vec<f64> = distances.iter().map(|d| f64::from(d * d).sqrt()).collect();
            sorted.sort_by(f64::total_cmp);
            let truth = sorted[((share * sorted.len() as f64).ceil() as usize - 1).min(sorted.len() - 1)];
            let found = tail.quantile(share, sorted[sorted.len() - 1]);
            prop_assert!(found >= truth * (1.0 - 1e-9) && found <= truth * (1.0 + 1.0 / 2000.0) + 1e-20, "{} {}", found, truth);
        }
    }

    #[test]
    fn zeros_and_what_is_no_number() {
        let mut tail = Tail::new();
        assert_eq!(tail.quantile(0.999, 0.0), 0.0);
        tail.add(&[0.0; 10]);
        assert_eq!(tail.quantile(0.999, 0.0), 0.0);
        tail.add(&[f32::INFINITY, f32::NAN]);
        assert_eq!(tail.quantile(0.999, f64::INFINITY), f64::INFINITY);
    }
}
