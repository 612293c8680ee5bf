//! What the bones need to know about all vertices, for fixed weights and rest positions.
//!
//! With homogeneous rest positions `u_i` (4), `x_i[c B + j] = w_ij u_ic` and residuals `r_i` of the present motion, a change `d` of
//! the bones' matrices changes the squared error by `-2 <d, D> + <d S, d>` with
//!
//! ```text
//! D = sum_i x_i r_i^T  [4 B, L]      S = sum_i x_i x_i^T  [4 B, 4 B],  S_jk = sum_i w_ij w_ik u_i u_i^T (4x4, shared by all frames)
//! ```
//!
//! summed over positions and, with the homogeneous coordinate 0, over normals where they count (`normals`).
//!
//! [Kavan2010 s.4.2] with residuals in place of positions: small numbers. Most pairs of bones share no vertex, so `S` is kept as
//! the blocks of those that do.

use glam::{DMat3, DVec3};

use crate::solve::kernels::add_scaled;
use crate::solve::lanes::Mat4;

/// A 4x4 second moment.
pub(crate) type Block = [[f64; 4]; 4];

/// Sums over all vertices.
#[derive(Default)]
pub(crate) struct Moments {
    /// [4 B, L] `D`, of the motion that the sums were made with.
    pub residual: Vec<f64>,
    /// `S`.
    pub second: SecondMoments,
    /// `sum_i |r_i|^2`, that of the normals included.
    pub squared_error: f64,
    /// The part of it that is the normals'.
    pub normal_error: f64,
    /// [N] `|r_i|^2`, of the positions alone.
    pub per_vertex: Vec<f32>,
    /// [F] squared error of each frame; only [`crate::skinning::pass::gather_frames`] finds it.
    pub per_frame: Vec<f64>,
}

/// `S` as blocks.
#[derive(Clone, Default)]
pub(crate) struct SecondMoments {
    /// [B]
    pub of: Vec<Coupling>,
}

/// The blocks of one bone `j`.
#[derive(Clone, Default)]
pub(crate) struct Coupling {
    /// `S_jj`; zero where no vertex has the bone.
    pub own: Block,
    /// `(k, S_jk)` of every bone that shares vertices with it, ascending.
    pub others: Vec<(usize, Block)>,
}

impl Moments {
    /// Of bones without vertices; errors are none.
    pub fn of_none(bones: usize, length: usize) -> Self {
        let second = SecondMoments::of_none(bones);
        Self { residual: vec![0.0; 4 * bones * length], second, ..Self::default() }
    }

    /// Adds the moments of some of the bones, `bones[j]` for bone j of the part, times `share`. Errors are left alone.
    pub fn add_part(&mut self, part: &Self, bones: &[usize], share: f64) {
        let all = self.second.bones();
        let length = self.residual.len() / (4 * all).max(1);
        for (row, residual) in part.residual.chunks_exact(length.max(1)).enumerate() {
            let to = row / bones.len() * all + bones[row % bones.len()];
            add_scaled(&mut self.residual[to * length..(to + 1) * length], share, residual);
        }
        for (j, &to) in bones.iter().enumerate() {
            for (k, block) in part.second.blocks(j) {
                self.second.add(to, bones[k], &block.map(|row| row.map(|x| share * x)));
            }
        }
    }
}

impl SecondMoments {
    /// From [B (B + 1) / 2] blocks of the lower triangle. Blocks without any shared weight are left out.
    pub fn from_triangle(bones: usize, triangle: &[Mat4]) -> Self {
        let block = |j: usize, k: usize| -> Block {
            let (row, column) = (j.max(k), j.min(k));
            let found = &triangle[row * (row + 1) / 2 + column];
            std::array::from_fn(|c| std::array::from_fn(|d| if j >= k { found.get(c, d) } else { found.get(d, c) }))
        };
        let shares = |j: usize, k: usize| {
            let (row, column) = (j.max(k), j.min(k));
            let shared = &triangle[row * (row + 1) / 2 + column];
            j != k && (0..4).any(|c| shared.get(c, c) != 0.0)
        };
        let coupling = |j: usize| Coupling {
            own: block(j, j),
            others: (0..bones).filter(|&k| shares(j, k)).map(|k| (k, block(j, k))).collect(),
        };
        Self { of: (0..bones).map(coupling).collect() }
    }

    /// Of bones without vertices.
    pub fn of_none(bones: usize) -> Self {
        Self { of: vec![Coupling::default(); bones] }
    }

    /// Adds the blocks of the lower triangle of some bones, whose numbers ascend. Blocks without any shared weight are left out.
    pub fn add_triangle(&mut self, bones: &[u16], triangle: &[Mat4]) {
        let mut at = 0;
        for (row, &j) in bones.iter().enumerate() {
            for &k in &bones[..=row] {
                let found = &triangle[at];
                at += 1;
                if (0..4).any(|c| found.get(c, c) != 0.0) {
                    let entry = |c: usize, d: usize| found.get(c, d);
                    self.add(j as usize, k as usize, &std::array::from_fn(|c| std::array::from_fn(|d| entry(c, d))));
                    if j != k {
                        self.add(
                            k as usize,
                            j as usize,
                            &std::array::from_fn(|c| std::array::from_fn(|d| entry(d, c))),
                        );
                    }
                }
            }
        }
    }

    /// Adds the blocks of other sums over the same bones.
    pub fn merge(&mut self, other: &Self) {
        for j in 0..other.bones() {
            other.blocks(j).for_each(|(k, block)| self.add(j, k, block));
        }
    }

    /// B.
    pub fn bones(&self) -> usize {
        self.of.len()
    }

    /// `(k, S_jk)` of bone `j` itself and of every bone that shares vertices with it.
    pub fn blocks(&self, j: usize) -> impl Iterator<Item = (usize, &Block)> {
        let Coupling { own, others } = &self.of[j];
        std::iter::once((j, own)).chain(others.iter().map(|(k, block)| (*k, block)))
    }

    /// `sum_i w_ij (u_i, 1)`: weights of a vertex sum to 1, so that it is the last column of `sum_k S_jk`.
    pub fn first(&self, j: usize) -> [f64; 4] {
        let mut sum = [0.0; 4];
        self.blocks(j).for_each(|(_, block)| (0..4).for_each(|c| sum[c] += block[c][3]));
        sum
    }

    /// Sum of the squared weights of bone `j`.
    pub fn mass(&self, j: usize) -> f64 {
        self.of[j].own[3][3]
    }

    /// `sum_i w_ij w_ik`.
    pub fn shared_mass(&self, j: usize, k: usize) -> f64 {
        if j == k { self.mass(j) } else { self.of[j].get(k).map_or(0.0, |block| block[3][3]) }
    }

    /// Adds to `S_jk`; with `j != k` the caller adds the transpose to `S_kj`.
    pub fn add(&mut self, j: usize, k: usize, block: &Block) {
        let Coupling { own, others } = &mut self.of[j];
        let to = if j == k {
            own
        } else {
            let at = match others.binary_search_by_key(&k, |(k, _)| *k) {
                Ok(at) => at,
                Err(at) => {
                    others.insert(at, (k, Block::default()));
                    at
                }
            };
            &mut others[at].1
        };
        to.as_flattened_mut().iter_mut().zip(block.as_flattened()).for_each(|(sum, x)| *sum += x);
    }

    /// [4 B, 4 B] as one matrix; entry (c B + j, d B + k) is entry (c, d) of `S_jk`.
    pub fn dense(&self) -> Vec<f64> {
        let (b, side) = (self.bones(), 4 * self.bones());
        let mut matrix = vec![0.0; side * side];
        for j in 0..b {
            for (k, block) in self.blocks(j) {
                for (c, row) in block.iter().enumerate() {
                    for (d, entry) in row.iter().enumerate() {
                        matrix[(c * b + j) * side + d * b + k] = *entry;
                    }
                }
            }
        }
        matrix
    }
}

impl Coupling {
    /// `S_jk` of another bone, where there is one.
    pub fn get(&self, k: usize) -> Option<&Block> {
        self.others.binary_search_by_key(&k, |(k, _)| *k).ok().map(|at| &self.others[at].1)
    }

    /// Where the vertices of the bone are, counted by squared weight [Le2014 eq. 3.21].
    pub fn centre(&self) -> DVec3 {
        DVec3::new(self.own[0][3], self.own[1][3], self.own[2][3]) / self.own[3][3].max(1e-300)
    }

    /// Second moment about the centre.
    pub fn covariance(&self) -> DMat3 {
        let own = &self.own;
        let entry = |r: usize, c: usize| own[c][r] - own[3][r] * own[c][3] / own[3][3].max(1e-300);
        DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|r| entry(r, c))))
    }
}
