//! Preconditioned conjugate gradients for blocks of P unknowns, with the matrix as a function.

/// Solves `A x = b` to a thousandth of `b` in the norm of the preconditioner, or as far as `rounds` go. `times` multiplies with A, symmetric and
/// positive definite; `precondition` with an approximate inverse of it.
pub fn solve<const P: usize>(
    b: &[[f64; P]],
    rounds: usize,
    times: impl Fn(&[[f64; P]]) -> Vec<[f64; P]>,
    precondition: impl Fn(&[[f64; P]]) -> Vec<[f64; P]>,
) -> Vec<[f64; P]> {
    let mut x = vec![[0.0; P]; b.len()];
    let mut residual = b.to_vec();
    let mut direction = precondition(&residual);
    let mut rho = dot(&residual, &direction);
    let goal = 1e-6 * rho;
    for _ in 0..rounds {
        if rho <= goal || rho <= 0.0 {
            break;
        }
        let product = times(&direction);
        let curvature = dot(&direction, &product);
        // Rounding has made the matrix indefinite: this is as far as it goes.
        if curvature <= 0.0 {
            break;
        }
        let alpha = rho / curvature;
        add(&mut x, alpha, &direction);
        add(&mut residual, -alpha, &product);
        let preconditioned = precondition(&residual);
        let next = dot(&residual, &preconditioned);
        let beta = next / rho;
        rho = next;
        let pairs = direction.as_flattened_mut().iter_mut().zip(preconditioned.as_flattened());
        pairs.for_each(|(d, z)| *d = z + beta * *d);
    }
    x
}

fn dot<const P: usize>(a: &[[f64; P]], b: &[[f64; P]]) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(x, y)| x * y).sum()
}

fn add<const P: usize>(x: &mut [[f64; P]], factor: f64, y: &[[f64; P]]) {
    x.as_flattened_mut().iter_mut().zip(y.as_flattened()).for_each(|(x, y)| *x += factor * y);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against elimination by hand: `A = [[4, 1, 0], [1, 3, -1], [0, -1, 2]]`, with its diagonal as the preconditioner.
    #[test]
    fn three_unknowns_take_three_rounds() {
        let a = [[4.0, 1.0, 0.0], [1.0, 3.0, -1.0], [0.0, -1.0, 2.0]];
        let expected = [1.0, -2.0, 0.5];
        let product = |x: &[f64; 3]| -> [f64; 3] { std::array::from_fn(|p| (0..3).map(|q| a[p][q] * x[q]).sum()) };
        let times = |x: &[[f64; 3]]| x.iter().map(product).collect::<Vec<_>>();
        let precondition =
            |r: &[[f64; 3]]| r.iter().map(|r| std::array::from_fn(|p| r[p] / a[p][p])).collect::<Vec<_>>();
        let b = [product(&expected)];
        let found = solve(&b, 3, times, precondition);
        assert!(found[0].iter().zip(&expected).all(|(x, y)| (x - y).abs() < 1e-12), "{found:?}");
        assert_eq!(solve(&[[0.0; 3]], 3, times, precondition), [[0.0; 3]]);
    }
}
