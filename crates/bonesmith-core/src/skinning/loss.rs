//! What an error costs: the one place where residuals are weighted.
//!
//! Vertex `i` has an importance `g_i`, and each frame a share `c_it` of it in 0..1. The cost is `E = sum_i g_i sum_t c_it |r_it|^2`.
//!
//! Importance is a factor of everything that a vertex adds to sums over vertices; the vertex's own step does not see it. Shares of frames would
//! change the Gram tables that all vertices have in common. Instead, around the present prediction `p_it`, the cost lies below
//!
//! ```text
//! sum_i g_i sum_t |x_it - (p_it + c_it r_it)|^2 + constant,      equal at x = p
//! ```
//!
//! (half-quadratic in its additive form [Geman1995]), so a step that lowers this plain squared error with the residuals `c r` in place
//! of `r` lowers `E`. Everything behind the residuals (moments, Gram tables, choices of influences) stays as it is and as cheap as it is.
//! Other norms are costs of this kind with weights that follow the residuals (`norm`).

use std::sync::Arc;

use crate::mesh::sequence::MeshSequence;

/// Vertices count at least like this share of the most important one.
const LEAST_IMPORTANCE: f64 = 1e-3;

/// Weights of residuals. [`Loss::default`] is the plain squared error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    /// [N] importance of vertices, 0 or more; none: 1.
    pub vertices: Arc<Vec<f32>>,
    /// [N, F] shares of frames in 255ths; none: 1.
    pub shares: Arc<Vec<u8>>,
}

impl Loss {
    /// With an importance of each vertex.
    pub fn of_vertices(importance: Vec<f32>) -> Self {
        Self { vertices: Arc::new(importance), ..Self::default() }
    }

    /// Whether it is the plain squared error.
    pub fn is_plain(&self) -> bool {
        self.vertices.is_empty() && self.shares.is_empty()
    }

    /// Importance of vertex `i`.
    #[inline(always)]
    pub fn of(&self, i: usize) -> f64 {
        self.vertices.get(i).map_or(1.0, |weight| f64::from(*weight))
    }

    /// Shares of frames for a block: residuals [n, 3 F] of the vertices from `first` on become `c r`, errors [n] become `sum_t c |r|^2`.
    pub fn weigh(&self, first: usize, residuals: &mut [f32], errors: &mut [f64]) {
        if self.shares.is_empty() {
            return;
        }
        let length = residuals.len() / errors.len();
        let frames = length / 3;
        let shares = self.shares[first * frames..].chunks_exact(frames);
        for ((row, error), shares) in residuals.chunks_exact_mut(length).zip(errors).zip(shares) {
            let mut sum = 0.0;
            for axis in row.chunks_exact_mut(frames) {
                for (r, &share) in axis.iter_mut().zip(shares) {
                    let weighed = *r * (f32::from(share) * (1.0 / 255.0));
                    sum += weighed * *r;
                    *r = weighed;
                }
            }
            *error = f64::from(sum);
        }
    }

    /// Only some vertices.
    pub fn pick(&self, vertices: &[u32]) -> Self {
        debug_assert!(self.shares.is_empty(), "shares belong to the residuals of all frames");
        let of_vertices = match self.vertices.is_empty() {
            true => Vec::new(),
            false => vertices.iter().map(|&i| self.vertices[i as usize]).collect(),
        };
        Self::of_vertices(of_vertices)
    }
}

/// [N] how much each vertex counts, 1 in the mean: a number for each, times the area of its faces where that counts. `None` where all count
/// alike.
pub(crate) fn importance(sequence: &MeshSequence, given: Option<&[f32]>, area: bool) -> Option<Vec<f32>> {
    if given.is_none() && !area {
        return None;
    }
    let n = sequence.vertex_count();
    let mut weights = vec![1.0f64; n];
    if let Some(given) = given {
        weights.iter_mut().zip(given).for_each(|(weight, x)| *weight *= f64::from(*x));
    }
    if area {
        weights.iter_mut().zip(vertex_areas(sequence)).for_each(|(weight, area)| *weight *= area);
    }
    let least = LEAST_IMPORTANCE * weights.iter().fold(0.0f64, |a, b| a.max(*b));
    weights.iter_mut().for_each(|weight| *weight = weight.max(least));
    let mean = weights.iter().sum::<f64>() / n as f64;
    // Without any area all count alike.
    (mean > 0.0 && mean.is_finite()).then(|| weights.iter().map(|weight| (weight / mean) as f32).collect())
}

/// [N] a third of the area of a vertex's faces in the rest pose.
fn vertex_areas(sequence: &MeshSequence) -> Vec<f64> {
    let mut areas = vec![0.0; sequence.vertex_count()];
    let rest = sequence.rest();
    for triangle in sequence.surface().topology.vertex_triangles() {
        let [a, b, c] = triangle.map(|v| rest[v as usize].as_dvec3());
        let area = (b - a).cross(c - a).length() / 6.0;
        triangle.iter().for_each(|&v| areas[v as usize] += area);
    }
    areas
}
