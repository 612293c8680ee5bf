//! What an error costs: the one place where residuals are weighted.
//!
//! With a weight `c_it` in 0..1 for each vertex and frame the cost is `E = sum_it c_it |r_it|^2`. Around the present prediction `p_it`
//! it lies below
//!
//! ```text
//! sum_it |x_it - (p_it + c_it r_it)|^2 + constant,      equal at x = p
//! ```
//!
//! (half-quadratic in its additive form [Geman1995]), so a step that lowers this plain squared error with the residuals `c r` in place
//! of `r` lowers `E`. Everything behind the residuals (moments, Gram tables, choices of influences) stays as it is and as cheap as it is,
//! whatever the weights are: importance of vertices, of frames, or weights that depend on the residual itself (other norms).

/// Weights of residuals. [`Loss::default`] is the plain squared error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    /// [N] weights of vertices, 0 to 1; none: 1.
    pub vertices: Vec<f32>,
    /// [F] weights of frames, 0 to 1; none: 1.
    pub frames: Vec<f32>,
}

impl Loss {
    /// Weighs a block: residuals [n, 3 F] of the vertices from `first` on become `c r`, errors [n] become their cost.
    pub fn weigh(&self, first: usize, residuals: &mut [f32], errors: &mut [f64]) {
        if self.vertices.is_empty() && self.frames.is_empty() {
            return;
        }
        let length = residuals.len() / errors.len();
        for (at, (row, error)) in residuals.chunks_exact_mut(length).zip(errors).enumerate() {
            let of_vertex = self.vertices.get(first + at).copied().unwrap_or(1.0);
            *error = 0.0;
            for (l, r) in row.iter_mut().enumerate() {
                let weight = of_vertex * self.frames.get(l % (length / 3)).copied().unwrap_or(1.0);
                *error += f64::from(weight) * f64::from(*r) * f64::from(*r);
                *r *= weight;
            }
        }
    }

    /// Only some vertices and frames.
    pub fn pick(&self, vertices: &[u32], frames: &[u32]) -> Self {
        let some = |all: &[f32], picked: &[u32]| match all.is_empty() {
            true => Vec::new(),
            false => picked.iter().map(|&at| all[at as usize]).collect(),
        };
        Self { vertices: some(&self.vertices, vertices), frames: some(&self.frames, frames) }
    }
}
