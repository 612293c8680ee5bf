//! Tiny positive definite systems on the stack.

/// Solves `A x = r` for the first `d` unknowns; `matrix` holds the lower triangle of `A` and is overwritten, `right`
/// holds `r` and becomes `x`. Returns `r^T x`: what a quadratic `x^T A x - 2 r^T x` falls by.
#[inline(always)]
pub(crate) fn solve<const D: usize>(matrix: &mut [[f64; D]; D], right: &mut [f64; D], d: usize) -> f64 {
    let mut gain = 0.0;
    for i in 0..d {
        for j in 0..=i {
            let mut left = matrix[i][j];
            for k in 0..j {
                left -= matrix[i][k] * matrix[j][k];
            }
            matrix[i][j] = if i == j { left.max(f64::MIN_POSITIVE).sqrt() } else { left / matrix[j][j] };
        }
        let mut left = right[i];
        for k in 0..i {
            left -= matrix[i][k] * right[k];
        }
        right[i] = left / matrix[i][i];
        gain += right[i] * right[i];
    }
    for i in (0..d).rev() {
        let mut left = right[i];
        for k in i + 1..d {
            left -= matrix[k][i] * right[k];
        }
        right[i] = left / matrix[i][i];
    }
    gain
}

/// Numbers of a lower triangle.
pub(crate) const fn triangle(side: usize) -> usize {
    side * (side + 1) / 2
}

/// Where an entry of a lower triangle is, row by row.
#[inline(always)]
fn entry(row: usize, column: usize) -> usize {
    triangle(row) + column
}

/// Lower factor of the first `d` rows of a matrix, to be kept: float32, row by row.
pub(crate) fn factor<const D: usize>(matrix: &[[f64; D]; D], d: usize, kept: &mut [f32]) {
    let mut done = [[0.0; D]; D];
    for r in 0..d {
        for c in 0..=r {
            let known: f64 = (0..c).map(|k| done[r][k] * done[c][k]).sum();
            let left = matrix[r][c] - known;
            done[r][c] = if r == c { left.max(f64::MIN_POSITIVE).sqrt() } else { left / done[c][c] };
            kept[entry(r, c)] = done[r][c] as f32;
        }
    }
}

/// `x = (L L^T)^-1 x` with what [`factor`] kept.
pub(crate) fn solve_factored(kept: &[f32], x: &mut [f64]) {
    let factor = |r: usize, c: usize| f64::from(kept[entry(r, c)]);
    for r in 0..x.len() {
        let known: f64 = (0..r).map(|k| factor(r, k) * x[k]).sum();
        x[r] = (x[r] - known) / factor(r, r);
    }
    for r in (0..x.len()).rev() {
        let known: f64 = (r + 1..x.len()).map(|k| factor(k, r) * x[k]).sum();
        x[r] = (x[r] - known) / factor(r, r);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    #[test]
    fn solutions_satisfy_the_system() {
        let random = &mut Random::new(4);
        for d in 1..=5 {
            let b: [[f64; 5]; 5] = std::array::from_fn(|_| std::array::from_fn(|_| random.signed()));
            let entry = |i: usize, j: usize| (0..5).map(|k| b[i][k] * b[j][k]).sum::<f64>() + f64::from(i == j);
            let r: [f64; 5] = std::array::from_fn(|_| random.signed());
            let matrix: [[f64; 5]; 5] = std::array::from_fn(|i| std::array::from_fn(|j| entry(i, j)));
            let mut x = r;
            let gain = solve(&mut matrix.clone(), &mut x, d);
            let (mut kept, mut same) = ([0.0; triangle(5)], r);
            factor(&matrix, d, &mut kept);
            solve_factored(&kept, &mut same[..d]);
            assert!((0..d).all(|i| (x[i] - same[i]).abs() < 1e-5), "{x:?} {same:?}");
            for i in 0..d {
                let left: f64 = (0..d).map(|j| entry(i, j) * x[j]).sum();
                assert!((left - r[i]).abs() < 1e-12, "{left} {}", r[i]);
            }
            assert!((gain - (0..d).map(|i| r[i] * x[i]).sum::<f64>()).abs() < 1e-12);
        }
    }
}
