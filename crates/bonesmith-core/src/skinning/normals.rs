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
//! engine normalises the product.
//!
//! True normals are area-weighted means over the faces of a vertex, smooth over hard edges: they stand for the rotation of the surface.
//! They are kept in octahedral coordinates of 16 bits [Meyer2010], a third of what the positions take.

use std::sync::Arc;

use glam::{DVec3, Vec3};
use rayon::prelude::*;

use crate::mesh::normals::vertex_normals;
use crate::mesh::sequence::MeshSequence;

/// Frames whose normals are found at once.
const FRAME_BLOCK: usize = 16;

/// True normals of all vertices in all frames, and their weight. Copies share them.
#[derive(Clone)]
pub(crate) struct Normals {
    /// `h`, in units of the sphere: an angle of one radian counts like this distance.
    pub weight: f64,
    frames: usize,
    /// [N, F]
    codes: Arc<Vec<[i16; 2]>>,
}

impl Normals {
    /// Of a sequence with faces. A vertex without a normal in some frame has that of the frame before; one without any counts nowhere.
    pub fn new(sequence: &MeshSequence) -> Option<Self> {
        let triangles = sequence.surface().topology.vertex_triangles();
        if triangles.is_empty() {
            return None;
        }
        let (n, frames, source) = (sequence.vertex_count(), sequence.frame_count(), sequence.frames());
        let mut codes = vec![NONE; n * frames];
        for block in (0..frames as u32).collect::<Vec<_>>().chunks(FRAME_BLOCK) {
            let of_frame = |&t: &u32| {
                let mut normals = Vec::new();
                source.read(&[t], 0..n, &mut |_, positions| normals = vertex_normals(positions, &triangles));
                normals
            };
            let normals: Vec<Vec<DVec3>> = block.par_iter().map(of_frame).collect();
            let first = block[0] as usize;
            codes.par_chunks_mut(frames).enumerate().for_each(|(i, row)| {
                for (at, normals) in normals.iter().enumerate() {
                    row[first + at] = encode(normals[i]);
                }
            });
        }
        codes.par_chunks_mut(frames).for_each(fill);
        Some(Self { weight: 1.0, frames, codes: Arc::new(codes) })
    }

    /// Known ones: [N, F].
    #[cfg(test)]
    pub fn known(frames: usize, normals: &[DVec3], weight: f64) -> Self {
        Self { weight, frames, codes: Arc::new(normals.iter().map(|n| encode(*n)).collect()) }
    }

    /// With another weight.
    pub fn weighing(self, weight: f64) -> Self {
        Self { weight, ..self }
    }

    /// Only some vertices and frames.
    pub fn pick(&self, vertices: &[u32], frames: &[u32]) -> Self {
        let row = |&i: &u32| frames.iter().map(move |&t| self.codes[i as usize * self.frames + t as usize]);
        Self { weight: self.weight, frames: frames.len(), codes: Arc::new(vertices.iter().flat_map(row).collect()) }
    }

    /// [n, 3 F] `h m` of the vertices from `first` on, as many as `rows` has room for.
    pub fn load(&self, first: usize, rows: &mut [f32]) {
        let (f, h) = (self.frames, self.weight as f32);
        for (at, row) in rows.chunks_exact_mut(3 * f).enumerate() {
            let (x, rest) = row.split_at_mut(f);
            let (y, z) = rest.split_at_mut(f);
            for (t, &code) in self.codes[(first + at) * f..][..f].iter().enumerate() {
                let n = decode(code) * h;
                (x[t], y[t], z[t]) = (n.x, n.y, n.z);
            }
        }
    }
}

/// No normal: the one value that [`encode`] does not make.
const NONE: [i16; 2] = [i16::MIN; 2];

/// Largest coordinate.
const UNIT: f32 = 32767.0;

/// On the octahedron |x| + |y| + |z| = 1, its lower half folded over the upper one.
fn encode(normal: DVec3) -> [i16; 2] {
    let sum = normal.abs().element_sum();
    if sum <= 0.0 || !sum.is_finite() {
        return NONE;
    }
    let (x, y) = (normal.x / sum, normal.y / sum);
    let fold = |a: f64, b: f64| if normal.z >= 0.0 { a } else { (1.0 - b.abs()).copysign(a) };
    [fold(x, y), fold(y, x)].map(|a| (a * f64::from(UNIT)).round() as i16)
}

/// A unit vector; zero where there is none.
#[inline(always)]
fn decode(code: [i16; 2]) -> Vec3 {
    let [x, y] = code.map(|a| f32::from(a) * (1.0 / UNIT));
    let z = 1.0 - x.abs() - y.abs();
    let over = (-z).max(0.0);
    let out = Vec3::new(x - over.copysign(x), y - over.copysign(y), z);
    if code == NONE { Vec3::ZERO } else { out * (1.0 / out.length()) }
}

/// Fills gaps with the normal before, or the first one there is.
fn fill(row: &mut [[i16; 2]]) {
    let mut last = row.iter().copied().find(|code| *code != NONE).unwrap_or(NONE);
    for code in row {
        if *code == NONE {
            *code = last;
        }
        last = *code;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    #[test]
    fn codes_keep_directions() {
        let mut random = Random::new(5);
        let mut worst: f64 = 0.0;
        for _ in 0..10_000 {
            let n = random.vector().normalize();
            worst = worst.max(n.distance(decode(encode(n * 3.0)).as_dvec3()));
        }
        assert!(worst < 1e-4, "{worst}");
        for n in [DVec3::X, -DVec3::X, DVec3::Y, -DVec3::Z, DVec3::Z, DVec3::new(-1.0, -1.0, -1.0).normalize()] {
            assert!(n.distance(decode(encode(n)).as_dvec3()) < 1e-4, "{n}");
        }
        assert_eq!(decode(encode(DVec3::ZERO)), Vec3::ZERO);
        let mut row = [NONE, encode(DVec3::X), NONE];
        fill(&mut row);
        assert_eq!(row, [encode(DVec3::X); 3]);
    }
}
