//! Normals as a second set of trajectories.
//!
//! An engine multiplies the stored rest normal `n_i` by the blended matrix of the vertex, so position and normal share their weights:
//!
//! ```text
//! E = sum_it |v_it - M_it (u_i, 1)|^2 + h^2 sum_it |m_it - M_it (n_i, 0)|^2        M_it = sum_j w_ij T_jt
//! ```
//!
//! with the true unit normals `m_it`. The second sum has the shape of the first with the homogeneous coordinate 0: moments, Gram tables
//! and the choice of influences add `h^2 n n^T` to `u u^T`, and the bones' step stays as it is. The length of `n_i` is free: an
//! engine normalises the product. `h` differs between vertices: squares would let the few normals decide that no weights fit.
//!
//! True normals are smooth over hard edges here: they stand for the rotation of the surface.

use std::sync::Arc;

use multiversion::multiversion;

use crate::mesh::normal_rows::{NormalRows, RowBuffer};
use crate::mesh::sequence::MeshSequence;

/// Distances between unit normals below this count alike.
const LEAST_DISTANCE: f32 = 0.05;

/// True normals of all vertices in all frames, and their weight. Copies share them.
#[derive(Clone)]
pub(crate) struct Normals {
    /// `h`, in units of the sphere: an angle of one radian counts like this distance.
    pub weight: f64,
    /// [N] factors of the weight; `None`: 1.
    pub shares: Option<Arc<[f32]>>,
    /// [N, F]
    pub rows: Arc<NormalRows>,
}

impl Normals {
    /// Of a sequence with faces.
    pub fn new(sequence: &MeshSequence) -> Option<Self> {
        let triangles = sequence.surface().topology.vertex_triangles();
        let n = sequence.vertex_count();
        let vertices: Vec<u32> = (0..n as u32).collect();
        let rows = || Arc::new(NormalRows::new(sequence, &vertices, &triangles, 0..n));
        (!triangles.is_empty()).then(|| Self { weight: 1.0, shares: None, rows: rows() })
    }

    /// Known ones: [N, F].
    #[cfg(test)]
    pub fn known(frames: usize, normals: &[glam::DVec3], weight: f64) -> Self {
        Self { weight, shares: None, rows: Arc::new(NormalRows::known(frames, normals)) }
    }

    /// With another weight.
    pub fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// With a factor for each vertex by the squared errors [N] that normals of weight 1 have: `1 / sqrt(distance)`, so that what is summed
    /// is about the distance of each vertex, not its square. Normals that no weights fit do not decide.
    pub fn shared(self, errors: &[f32]) -> Self {
        let frames = self.rows.frames() as f32;
        let share = |error: &f32| (error.max(0.0) / frames).sqrt().max(LEAST_DISTANCE).sqrt().recip();
        Self { shares: Some(errors.iter().map(share).collect()), ..self }
    }

    /// Factor of vertex `i`.
    pub fn factor(&self, i: usize) -> f64 {
        self.weight * self.shares.as_ref().map_or(1.0, |shares| f64::from(shares[i]))
    }

    /// Squared length of what [`Normals::load`] makes of vertex `i`.
    pub fn squared(&self, i: usize) -> f64 {
        if self.rows.is_known(i) { self.factor(i).powi(2) * self.rows.frames() as f64 } else { 0.0 }
    }

    /// Only some vertices and frames.
    pub fn pick(&self, vertices: &[u32], frames: &[u32]) -> Self {
        let shares = self.shares.as_ref().map(|shares| vertices.iter().map(|&i| shares[i as usize]).collect());
        Self { weight: self.weight, shares, rows: Arc::new(self.rows.pick(vertices, frames)) }
    }

    /// [n, 3 F] `h m` of the vertices from `first` on, as many as `rows` has room for.
    pub fn load(&self, first: usize, rows: &mut [f32]) {
        load(&self.rows, self.weight as f32, self.shares.as_deref(), first, rows);
    }
}

#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn load(normals: &NormalRows, weight: f32, shares: Option<&[f32]>, first: usize, rows: &mut [f32]) {
    let (f, mut buffer) = (normals.frames(), RowBuffer::default());
    for (at, row) in rows.chunks_exact_mut(3 * f).enumerate() {
        let (x, rest) = row.split_at_mut(f);
        let (y, z) = rest.split_at_mut(f);
        let share = shares.map_or(1.0, |shares| shares[first + at]);
        normals.load(first + at, weight * share, [x, y, z], &mut buffer);
    }
}
