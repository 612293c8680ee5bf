//! Whole numbers near given ones, in the sense of a quadratic form.

use super::weights::MAX_SLOTS;

/// A quadratic form.
pub type Square = [[f64; MAX_SLOTS]; MAX_SLOTS];

/// Beginnings that the search for whole numbers keeps.
const BEAM: usize = 4;
/// Numbers that it tries for each.
const TRIED: usize = 3;

/// Whole numbers near `exact` with a sum of at most `most` and about the least values of a quadratic form of the differences, best first:
/// Cholesky's factor makes it a sum of squares, of which each has one number more than the one after it. Numbers are chosen from the last
/// on, the best few beginnings are kept. The factor takes the number with the least left of its square first, so that those that matter most are
/// chosen before the others, which can make up for them.
pub fn nearest_whole(
    form: &Square,
    exact: &[f64],
    most: u32,
    kept: usize,
) -> impl Iterator<Item = [i32; MAX_SLOTS]> + use<> {
    let (free, most) = (exact.len(), most as i32);
    let nothing = (f64::INFINITY, [0; MAX_SLOTS]);
    let (mut partial, mut count) = ([nothing; BEAM], 0);
    if let Some((lower, order)) = sorted_cholesky(form, free) {
        (partial[0].0, count) = (0.0, 1);
        for r in (0..free).rev() {
            let (mut next, mut found) = ([nothing; BEAM * TRIED], 0);
            for (cost, whole) in &partial[..count] {
                // Row r of the transposed factor has the columns from r on.
                let above: f64 =
                    (r + 1..free).map(|c| lower[c][r] * (f64::from(whole[order[c]]) - exact[order[c]])).sum();
                let centre = exact[order[r]] - above / lower[r][r];
                let most = most - whole.iter().sum::<i32>();
                let low = (centre.round() as i32).saturating_sub(1).clamp(0, most.max(0));
                for n in (low..low + TRIED as i32).filter(|n| *n <= most) {
                    let off = lower[r][r] * (f64::from(n) - centre);
                    next[found] = (cost + off * off, *whole);
                    next[found].1[order[r]] = n;
                    found += 1;
                }
            }
            next[..found].sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
            count = found.min(BEAM);
            partial[..count].copy_from_slice(&next[..count]);
        }
    }
    partial.into_iter().take(count.min(kept)).map(|(_, whole)| whole)
}

/// The lower factor of a form, whose rows are in an order in which the least of what is left of the diagonal comes next, and that order.
fn sorted_cholesky(form: &Square, size: usize) -> Option<(Square, [usize; MAX_SLOTS])> {
    let trace: f64 = (0..size).map(|a| form[a][a].max(0.0)).sum();
    let ridge = 1e-7 * trace + f64::MIN_POSITIVE;
    let mut order: [usize; MAX_SLOTS] = std::array::from_fn(|a| a);
    let mut lower = [[0.0; MAX_SLOTS]; MAX_SLOTS];
    for c in 0..size {
        let left = |a: usize, lower: &Square| {
            form[order[a]][order[a]] + ridge - lower[a][..c].iter().map(|x| x * x).sum::<f64>()
        };
        let next = (c..size).min_by(|&a, &b| left(a, &lower).total_cmp(&left(b, &lower)))?;
        let pivot = left(next, &lower).sqrt();
        if !pivot.is_finite() || pivot <= 0.0 {
            return None;
        }
        order.swap(c, next);
        lower.swap(c, next);
        lower[c][c] = pivot;
        for r in c + 1..size {
            let known: f64 = (0..c).map(|k| lower[r][k] * lower[c][k]).sum();
            lower[r][c] = (form[order[r]][order[c]] - known) / pivot;
        }
    }
    Some((lower, order))
}

/// The solution of a positive definite system.
pub fn solved(form: &Square, size: usize, right: &[f64; MAX_SLOTS]) -> Option<[f64; MAX_SLOTS]> {
    let trace: f64 = (0..size).map(|a| form[a][a].max(0.0)).sum();
    let lower = cholesky(form, size, 1e-9 * trace + f64::MIN_POSITIVE)?;
    let mut x = *right;
    for a in 0..size {
        let known: f64 = (0..a).map(|b| lower[a][b] * x[b]).sum();
        x[a] = (x[a] - known) / lower[a][a];
    }
    for a in (0..size).rev() {
        let known: f64 = (a + 1..size).map(|b| lower[b][a] * x[b]).sum();
        x[a] = (x[a] - known) / lower[a][a];
    }
    Some(x)
}

/// The lower factor of a positive definite form, with `ridge` added to its diagonal.
fn cholesky(form: &Square, size: usize, ridge: f64) -> Option<Square> {
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
pub fn whole_weights(row: &[f32], one: u32) -> Vec<u32> {
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
        let (mut sum, mut sum_least) = (0.0, 0.0);
        for _ in 0..400 {
            let mut form = [[0.0; MAX_SLOTS]; MAX_SLOTS];
            let points: Vec<[f64; 3]> = (0..12).map(|_| [uniform(), uniform() * 0.3, uniform() * 0.1]).collect();
            for a in 0..3 {
                for b in 0..3 {
                    form[a][b] = points.iter().map(|p| p[a] * p[b]).sum();
                }
            }
            let raw: Vec<f64> = (0..4).map(|_| uniform() + 0.01).collect();
            let exact: Vec<f64> = raw[1..].iter().map(|w| w / raw.iter().sum::<f64>() * 20.0).collect();
            let value = |whole: [u32; 3]| -> f64 {
                let d: [f64; 3] = std::array::from_fn(|a| f64::from(whole[a]) - exact[a]);
                let all = (0..3).flat_map(|a| (0..3).map(move |b| (a, b)));
                all.map(|(a, b)| form[a][b] * d[a] * d[b]).sum()
            };
            let found = nearest_whole(&form, &exact, 20, 1).next().unwrap();
            assert!(found.iter().sum::<i32>() <= 20);
            let found = [found[0], found[1], found[2]].map(|n| n as u32);
            let mut least = f64::MAX;
            for a in 0..=20u32 {
                for b in 0..=20 - a {
                    for c in 0..=20 - a - b {
                        least = least.min(value([a, b, c]));
                    }
                }
            }
            sum += value(found);
            sum_least += least;
            assert!(value(found) <= 1.5 * least + 1e-9, "{} {least}", value(found));
        }
        assert!(sum <= 1.01 * sum_least, "{sum} {sum_least}");
    }
}
