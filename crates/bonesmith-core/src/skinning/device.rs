//! The products that a fit spends its time on, behind one small trait: the seam where a GPU can stand in.
//!
//! A block has n vertices and trajectories of L numbers; the table has the 4 B rows of the bones' motion in float32.

use pulp::Arch;

use crate::solve::kernels::{AddMoments, OwnProducts, Residuals, Term};
use crate::solve::matrix;

/// A block of vertices as sparse rows over the table: row of a bone times `w_ij u_ic`.
#[derive(Default)]
pub(crate) struct Terms {
    /// Those of one vertex after those of the other.
    pub terms: Vec<Term>,
    /// [n] where the terms of each vertex end.
    pub ends: Vec<usize>,
}

/// Dense and sparse products of one block.
pub(crate) trait Device: Sync {
    /// `r_i = v_i - sum_k scale_k row_k` [n, L] and `|r_i|^2` [n].
    fn residuals(&self, residuals: &mut [f32], errors: &mut [f64], trajectories: &[f32], table: &[f32], terms: &Terms);

    /// [n, 4 B] `along = residuals table^T`.
    fn project(&self, along: &mut [f32], residuals: &[f32], table: &[f32], n: usize);

    /// The entries of [`Device::project`] in the rows of each vertex's terms; others stay as they are. `along` is [n, side], rows from number
    /// `side` on are left out.
    fn project_own(&self, along: &mut [f32], residuals: &[f32], table: &[f32], terms: &Terms);

    /// Adds the block to the moments [4 B, L]: `row_k += scale_k r_i`. Every bone of a vertex has a term for each of the `coordinates`, 3 or 4.
    fn add_moments(&self, moments: &mut [f32], residuals: &[f32], terms: &Terms, coordinates: usize);
}

/// The processor, with the widest instructions that it has.
pub(crate) struct Cpu;

impl Device for Cpu {
    fn residuals(&self, residuals: &mut [f32], errors: &mut [f64], trajectories: &[f32], table: &[f32], terms: &Terms) {
        let Terms { terms, ends } = terms;
        Arch::new().dispatch(Residuals { residuals, errors, trajectories, table, terms, ends });
    }

    fn project(&self, along: &mut [f32], residuals: &[f32], table: &[f32], n: usize) {
        let length = residuals.len() / n;
        matrix::product_into(along, matrix::rows(residuals, length), matrix::rows(table, length).transpose());
    }

    fn project_own(&self, along: &mut [f32], residuals: &[f32], table: &[f32], terms: &Terms) {
        let Terms { terms, ends } = terms;
        let side = along.len() / ends.len();
        Arch::new().dispatch(OwnProducts { along, side, residuals, table, terms, ends });
    }

    fn add_moments(&self, moments: &mut [f32], residuals: &[f32], terms: &Terms, coordinates: usize) {
        let Terms { terms, ends } = terms;
        Arch::new().dispatch(AddMoments { table: moments, residuals, terms, ends, coordinates });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    /// The sparse product has the entries of the dense one where there are terms, and leaves the others.
    #[test]
    fn own_products_are_entries_of_all_products() {
        let random = &mut Random::new(3);
        let (n, bones) = (5, 3);
        for length in [1, 7, 16, 45, 64] {
            let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.vector().x as f32).collect() };
            let (residuals, table) = (numbers(n * length), numbers(4 * bones * length));
            let mut terms = Terms::default();
            for i in 0..n {
                // One bone, two bones, none...
                for j in 0..i % 3 {
                    let start = |c: usize| (c * bones + (i + j) % bones) * length;
                    terms.terms.extend((0..4).map(|c| Term { start: start(c), scale: 1.0 }));
                }
                terms.ends.push(terms.terms.len());
            }
            for side in [4 * bones, 3 * bones] {
                let mut all = vec![0.0; n * side];
                Cpu.project(&mut all, &residuals, &table[..side * length], n);
                let mut own = vec![9.0; n * side];
                Cpu.project_own(&mut own, &residuals, &table, &terms);
                for i in 0..n {
                    let of_vertex = &terms.terms[if i == 0 { 0 } else { terms.ends[i - 1] }..terms.ends[i]];
                    for row in 0..side {
                        let is_own = of_vertex.iter().any(|term| term.start == row * length);
                        let expected = if is_own { all[i * side + row] } else { 9.0 };
                        assert!((own[i * side + row] - expected).abs() < 1e-5, "{length} {side} {i} {row}");
                    }
                }
            }
        }
    }
    /// Moments are sums over the vertices of each bone, in any of both forms.
    #[test]
    fn moments_are_plain_sums() {
        let random = &mut Random::new(5);
        let (n, bones) = (7, 4);
        for (length, coordinates) in [(1, 4), (7, 3), (16, 4), (45, 3), (64, 4), (83, 4)] {
            let mut numbers = |count: usize| -> Vec<f32> { (0..count).map(|_| random.vector().x as f32).collect() };
            let (residuals, start) = (numbers(n * length), numbers(4 * bones * length));
            let mut terms = Terms::default();
            for i in 0..n {
                // None, one, two...; bones in any order.
                for j in (0..i % 4).rev() {
                    let row = |c: usize| (c * bones + (3 * i + j) % bones) * length;
                    terms.terms.extend((0..coordinates).map(|c| Term { start: row(c), scale: numbers(1)[0] }));
                }
                terms.ends.push(terms.terms.len());
            }
            let mut expected: Vec<f64> = start.iter().map(|x| f64::from(*x)).collect();
            for i in 0..n {
                for term in &terms.terms[if i == 0 { 0 } else { terms.ends[i - 1] }..terms.ends[i]] {
                    for l in 0..length {
                        expected[term.start + l] += f64::from(term.scale) * f64::from(residuals[i * length + l]);
                    }
                }
            }
            let mut found = start.clone();
            Cpu.add_moments(&mut found, &residuals, &terms, coordinates);
            let off = found.iter().zip(&expected).map(|(a, b)| (f64::from(*a) - b).abs()).fold(0.0, f64::max);
            assert!(off < 1e-5, "{length} {coordinates}: {off}");
        }
    }
}
