//! The products that a fit spends its time on, behind one small trait: the seam where a GPU can stand in.
//!
//! A block has n vertices and trajectories of L numbers; the table has the 4 B rows of the bones' motion in float32.

use pulp::Arch;

use crate::solve::kernels::{AddMoments, Residuals, Term};
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

    /// Adds the block to the moments [4 B, L]: `row_k += scale_k r_i`.
    fn add_moments(&self, moments: &mut [f32], residuals: &[f32], terms: &Terms);
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

    fn add_moments(&self, moments: &mut [f32], residuals: &[f32], terms: &Terms) {
        let Terms { terms, ends } = terms;
        Arch::new().dispatch(AddMoments { table: moments, residuals, terms, ends });
    }
}
