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
//! Where motions are offsets from a rest pose that is kept (`shapes`), so is its normal: rows are `m_it - n_i` with the unit normal `n_i` of the rest
//! pose, and the normal is not solved for.
//!
//! True normals are smooth over hard edges here: they stand for the rotation of the surface.

use std::sync::Arc;

use glam::{DVec3, Vec3};
use multiversion::multiversion;

use crate::mesh::normal_rows::{self, NormalRows, RowBuffer};
use crate::mesh::normals::vertex_normals;
use crate::mesh::sequence::MeshSequence;
use crate::skinning::loss::Loss;
use crate::skinning::pass::BothErrors;

/// Distances between unit normals below this count alike.
const LEAST_DISTANCE: f32 = 0.05;

/// Largest ratio of both errors that counts: where normals fit exactly, as on a flat mesh, they do not outweigh positions.
const MAX_RATIO: f64 = 0.5;

/// What normals may cost, as a share of E_RMS for each unit of `shading`: 1 % by default.
pub(crate) const COST: f64 = 0.025;

/// With fewer vertices per bone, normals do not count in the fit.
pub(crate) const FEW_VERTICES: usize = 4;

/// True normals of all vertices in all frames, and their weight. Copies share them.
#[derive(Clone)]
pub(crate) struct Normals {
    /// `h`, in units of the sphere: an angle of one radian counts like this distance.
    pub weight: f64,
    /// [N] factors of the weight; `None`: 1.
    pub shares: Option<Arc<[f32]>>,
    /// [N, F]
    pub rows: Arc<NormalRows>,
    /// Of a rest pose that is kept.
    kept: Option<Kept>,
}

/// Normals of a rest pose that is kept: rows are differences from them.
#[derive(Clone)]
struct Kept {
    /// [N] unit normals; zero where there are none.
    rest: Arc<[Vec3]>,
    /// [N] squared differences, summed over the frames.
    squared: Arc<[f32]>,
}

impl Kept {
    fn new(rows: &NormalRows, mut rest: Vec<Vec3>) -> Self {
        let (f, mut buffer) = (rows.frames(), RowBuffer::default());
        let (mut x, mut y, mut z) = (vec![0.0; f], vec![0.0; f], vec![0.0; f]);
        let mut squared = Vec::with_capacity(rest.len());
        for (i, n) in rest.iter_mut().enumerate() {
            if !rows.is_known(i) {
                *n = Vec3::ZERO;
            }
            if *n == Vec3::ZERO {
                squared.push(0.0);
                continue;
            }
            rows.load(i, 1.0, [&mut x, &mut y, &mut z], &mut buffer);
            squared.push((0..f).map(|t| Vec3::new(x[t], y[t], z[t]).distance_squared(*n)).sum());
        }
        Self { rest: rest.into(), squared: squared.into() }
    }
}

impl Normals {
    /// Of a sequence with faces.
    pub fn new(sequence: &MeshSequence) -> Option<Self> {
        let triangles = sequence.surface().topology.vertex_triangles();
        let n = sequence.vertex_count();
        let vertices: Vec<u32> = (0..n as u32).collect();
        let rows = || Arc::new(NormalRows::new(sequence, &vertices, &triangles, 0..n));
        (!triangles.is_empty()).then(|| Self { weight: 1.0, shares: None, rows: rows(), kept: None })
    }

    /// As differences from the normals of the rest pose, which are kept.
    pub fn from_rest(sequence: &MeshSequence) -> Option<Self> {
        let own = Self::new(sequence)?;
        // Rounded like the rows: what does not turn has no difference.
        let rest = vertex_normals(sequence.rest(), &sequence.surface().topology.vertex_triangles());
        let kept = Kept::new(&own.rows, rest.into_iter().map(normal_rows::rounded).collect());
        Some(Self { kept: Some(kept), ..own })
    }

    /// Whether rest normals stay as they are.
    pub fn keeps_rest(&self) -> bool {
        self.kept.is_some()
    }

    /// [N] rest normals that are kept, times their weight: those of the skin.
    pub fn rest_normals(&self) -> Vec<DVec3> {
        let rest = self.kept.iter().flat_map(|kept| kept.rest.iter());
        rest.enumerate().map(|(i, n)| n.as_dvec3() * self.factor(i)).collect()
    }

    /// Known ones: [N, F].
    #[cfg(test)]
    pub fn known(frames: usize, normals: &[glam::DVec3], weight: f64) -> Self {
        Self { weight, shares: None, rows: Arc::new(NormalRows::known(frames, normals)), kept: None }
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

    /// Weighing so much that positions and normals, with the errors that they have now, count in a ratio of 1 to `share`, each vertex with
    /// its own factor: the weight depends neither on the size of the faces nor on how well the bones fit. Or with a weight that is known.
    pub fn balanced(self, loss: &Loss, errors: &BothErrors, share: f64, weight: Option<f64>) -> Self {
        let normals = self.weighing(1.0).shared(&errors.normals);
        let squared = |(i, error): (usize, &f32)| loss.of(i) * normals.factor(i).powi(2) * f64::from(*error);
        let of_normals: f64 = errors.normals.iter().enumerate().map(squared).sum();
        let ratio = (errors.positions / of_normals.max(1e-30)).sqrt();
        normals.weighing(weight.unwrap_or(share * ratio.min(MAX_RATIO)))
    }

    /// Factor of vertex `i`.
    pub fn factor(&self, i: usize) -> f64 {
        self.weight * self.shares.as_ref().map_or(1.0, |shares| f64::from(shares[i]))
    }

    /// Squared length of what [`Normals::load`] makes of vertex `i`.
    pub fn squared(&self, i: usize) -> f64 {
        if let Some(kept) = &self.kept {
            return self.factor(i).powi(2) * f64::from(kept.squared[i]);
        }
        if self.rows.is_known(i) { self.factor(i).powi(2) * self.rows.frames() as f64 } else { 0.0 }
    }

    /// Only some vertices and frames.
    pub fn pick(&self, vertices: &[u32], frames: &[u32]) -> Self {
        let shares = self.shares.as_ref().map(|shares| vertices.iter().map(|&i| shares[i as usize]).collect());
        let rows = self.rows.pick(vertices, frames);
        let rest = |kept: &Kept| vertices.iter().map(|&i| kept.rest[i as usize]).collect();
        let kept = self.kept.as_ref().map(|kept| Kept::new(&rows, rest(kept)));
        Self { weight: self.weight, shares, rows: Arc::new(rows), kept }
    }

    /// [n, 3 F] `h m` of the vertices from `first` on, as many as `rows` has room for; `h (m - n)` where rest normals are kept.
    pub fn load(&self, first: usize, rows: &mut [f32]) {
        load(&self.rows, self.weight as f32, self.shares.as_deref(), first, rows);
        let Some(kept) = &self.kept else { return };
        let frames = self.rows.frames();
        for (at, row) in rows.chunks_exact_mut(3 * frames).enumerate() {
            let rest = kept.rest[first + at];
            if rest == Vec3::ZERO {
                row.fill(0.0);
                continue;
            }
            let factor = self.weight as f32 * self.shares.as_ref().map_or(1.0, |shares| shares[first + at]);
            for (axis, row) in row.chunks_exact_mut(frames).enumerate() {
                row.iter_mut().for_each(|x| *x -= factor * rest[axis]);
            }
        }
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
