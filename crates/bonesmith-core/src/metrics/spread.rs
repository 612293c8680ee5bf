//! How the error is spread over vertices and frames: distances in model units, for plots and colours.

use serde::Serialize;

/// Bars of a histogram; the highest error falls into the upper half of them.
const BARS: usize = 64;

/// How the error is spread. Sums and counts are over all vertices and all frames; distances in model units.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Spread {
    /// [N] root mean square distance of each vertex over the frames.
    #[serde(skip)]
    pub vertex_rms: Vec<f32>,
    /// [N] largest distance of each vertex.
    #[serde(skip)]
    pub vertex_max: Vec<f32>,
    /// Of `vertex_rms`.
    pub percentiles: Percentiles,
    /// [F] each frame.
    pub frames: FrameSpreads,
    /// Distances of all vertices in all frames.
    pub histogram: Histogram,
}

/// Values below which 50, 90, 95 and 99 percent lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 90 percent.
    pub p90: f64,
    /// 95 percent.
    pub p95: f64,
    /// 99 percent.
    pub p99: f64,
}

/// The distances of the vertices in each frame, [F] each.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FrameSpreads {
    /// Root mean square.
    pub rms: Vec<f64>,
    /// First quartile.
    pub q1: Vec<f64>,
    /// Median.
    pub median: Vec<f64>,
    /// Third quartile.
    pub q3: Vec<f64>,
    /// Largest.
    pub max: Vec<f64>,
}

/// One frame's entries of [`FrameSpreads`].
pub(super) struct FrameSpread {
    rms: f64,
    quartiles: [f64; 3],
    max: f64,
}

impl FrameSpread {
    /// Of [N] squared distances.
    pub(super) fn new(squared: &[f32], sum: f64, max: f64) -> Self {
        let mut sorted: Vec<f32> = squared.to_vec();
        // Quantiles of squares and then the root: the same order, N roots fewer; neighbours are rooted before they blend.
        let quartiles = [0.25, 0.5, 0.75].map(|q| quantile(&mut sorted, q, |x| f64::from(x).sqrt()));
        Self { rms: (sum / squared.len().max(1) as f64).sqrt(), quartiles, max: max.sqrt() }
    }
}

impl FrameSpreads {
    pub(super) fn push(&mut self, frame: &FrameSpread) {
        let [q1, median, q3] = frame.quartiles;
        let lists = [&mut self.rms, &mut self.q1, &mut self.median, &mut self.q3, &mut self.max];
        for (list, value) in lists.into_iter().zip([frame.rms, q1, median, q3, frame.max]) {
            list.push(value);
        }
    }
}

impl Percentiles {
    pub(super) fn of(values: &[f32]) -> Self {
        let mut values = values.to_vec();
        let [p50, p90, p95, p99] = [0.5, 0.9, 0.95, 0.99].map(|q| quantile(&mut values, q, f64::from));
        Self { p50, p90, p95, p99 }
    }
}

/// Quantile `q` of finite values, linear between neighbours in order; 0 of none. Reorders `values`.
fn quantile(values: &mut [f32], q: f64, of: impl Fn(f32) -> f64) -> f64 {
    let Some(last) = values.len().checked_sub(1) else { return 0.0 };
    let place = q * last as f64;
    let (_, low, above) = values.select_nth_unstable_by(place as usize, f32::total_cmp);
    let low = of(*low);
    // Nothing above: the last one.
    let high = above.iter().copied().min_by(f32::total_cmp).map_or(low, of);
    low + (high - low) * place.fract()
}

/// Counts of values in bars of one width from 0 on.
///
/// The width is the smallest power of two for which all values lie within `BARS` bars, so that the result depends neither on
/// the order of values nor on how they were grouped, and counts are exact.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Histogram {
    /// Width of a bar; 0 as long as all values are 0.
    pub width: f64,
    /// Values in `[k width, (k + 1) width)`; bars beyond the last value are left out.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// Roots of `squared`.
    pub(super) fn of_roots(squared: &[f32], largest_squared: f64) -> Self {
        // float32, as the values themselves: the largest must not round up out of the last bar. A rig may throw vertices to
        // infinity; they count as the largest number there is.
        let largest = f64::from((largest_squared as f32).min(f32::MAX)).sqrt();
        let width = bar_width(largest);
        let mut counts = vec![0; if width > 0.0 { (largest / width) as usize + 1 } else { 1 }];
        for &d in squared {
            let bar = if width > 0.0 { (f64::from(d).sqrt() / width) as usize } else { 0 };
            let last = counts.len() - 1;
            counts[bar.min(last)] += 1;
        }
        Self { width, counts }
    }

    /// Adds the counts of another one.
    pub(super) fn add(&mut self, mut other: Self) {
        let width = self.width.max(other.width);
        self.widen(width);
        other.widen(width);
        if self.counts.len() < other.counts.len() {
            std::mem::swap(&mut self.counts, &mut other.counts);
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(own, other)| *own += other);
    }

    /// Merges bars until they are `width` wide: widths are powers of two, so that edges meet.
    fn widen(&mut self, width: f64) {
        if self.width > 0.0 && self.width < width {
            // A ratio beyond any number of bars puts all into the first.
            let bars = (width / self.width).min(BARS as f64) as usize;
            self.counts = self.counts.chunks(bars).map(|pair| pair.iter().sum()).collect();
        }
        self.width = width;
    }

    /// [bars + 1] where bars begin and end.
    pub fn edges(&self) -> Vec<f64> {
        (0..=self.counts.len()).map(|k| k as f64 * self.width).collect()
    }
}

/// The smallest power of two that puts `largest` into one of `BARS` bars; 0 for 0.
fn bar_width(largest: f64) -> f64 {
    if largest <= 0.0 {
        return 0.0;
    }
    let mut width = (largest / BARS as f64).log2().floor().exp2();
    while largest / width >= BARS as f64 {
        width *= 2.0;
    }
    while largest / (width / 2.0) < BARS as f64 {
        width /= 2.0;
    }
    width
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Linear between neighbours of the sorted list.
    fn naive_quantile(values: &[f64], q: f64) -> f64 {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let place = q * (sorted.len() - 1) as f64;
        let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        low + (high - low) * place.fract()
    }

    #[test]
    fn known_quantiles() {
        let mut values = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(quantile(&mut values, 0.5, f64::from), 2.5);
        assert_eq!(quantile(&mut values, 0.25, f64::from), 1.75);
        assert_eq!(quantile(&mut values, 1.0, f64::from), 4.0);
        assert_eq!(quantile(&mut [7.0], 0.9, f64::from), 7.0);
        assert_eq!(quantile(&mut [], 0.5, f64::from), 0.0);
    }

    #[test]
    fn nothing_but_zeros_is_one_bar() {
        let mut all = Histogram::of_roots(&[0.0; 5], 0.0);
        assert_eq!((all.width, &all.counts[..]), (0.0, &[5][..]));
        all.add(Histogram::of_roots(&[0.0, 4.0], 4.0));
        assert_eq!((all.counts[0], all.counts.last()), (6, Some(&1)));
        let edges = all.edges();
        assert!(edges.len() == all.counts.len() + 1 && edges[edges.len() - 2] <= 2.0 && 2.0 < edges[edges.len() - 1]);
    }

    proptest! {
        #[test]
        fn quantiles_and_counts_are_those_of_sorted_lists(
            frames in prop::collection::vec(prop::collection::vec(0f32..1e3, 1..40), 1..6),
            exponent in -30i32..30,
        ) {
            let frames: Vec<Vec<f32>> =
                frames.iter().map(|f| f.iter().map(|d| d * (exponent as f32).exp2()).collect()).collect();
            let mut all = Histogram::default();
            for squared in &frames {
                let roots: Vec<f64> = squared.iter().map(|&d| f64::from(d).sqrt()).collect();
                let largest = squared.iter().fold(0f32, |a, &b| a.max(b));
                let sum = squared.iter().map(|&d| f64::from(d)).sum();
                let spread = FrameSpread::new(squared, sum, largest.into());
                for (q, found) in [0.25, 0.5, 0.75].iter().zip(spread.quartiles) {
                    prop_assert!((found - naive_quantile(&roots, *q)).abs() <= 1e-12 * found.abs());
                }
                all.add(Histogram::of_roots(squared, largest.into()));
            }
            let roots: Vec<f64> = frames.iter().flatten().map(|&d| f64::from(d).sqrt()).collect();
            let edges = all.edges();
            for (k, &count) in all.counts.iter().enumerate() {
                let within = roots.iter().filter(|r| all.width == 0.0 || (edges[k]..edges[k + 1]).contains(*r)).count();
                prop_assert_eq!(count, within as u64, "bar {} of {:?}", k, &all);
            }
            prop_assert!(all.counts.len() <= BARS && (all.width == 0.0 || all.counts.len() > BARS / 2));
        }
    }
}
