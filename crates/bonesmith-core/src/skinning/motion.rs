//! Motion of all bones over all frames, and what is derived from it.

use std::sync::OnceLock;

use glam::{DAffine3, DMat3, DVec3};

use crate::observer::{Cancelled, Check};
use crate::skinning::products::{BonePairs, gram, gram_checked};

/// Bones' motion over all frames as one matrix, so that blending a vertex is one sparse product.
///
/// Row `c B + j` holds coordinate `c` (0..3, 3 = translation) of bone `j`; column `a F + t` holds axis `a` in
/// frame `t`. With `x_i[c B + j] = w_ij u_ic` (homogeneous u) the posed trajectory is `sum_r x_i[r] row_r`
/// [Kavan2010 eq. 2, transposed].
pub(crate) struct Motion {
    /// B.
    pub bones: usize,
    /// L: 3 F, or the dimension of the subspace.
    pub length: usize,
    /// [4 B, L].
    rows: Vec<f64>,
    /// [B] the middle of the vertices that a bone was planted for; empty where none was.
    planted: Vec<Option<DVec3>>,
    derived: Derived,
}

/// What is computed from the rows once, when it is first needed. A changed motion starts without.
#[derive(Default)]
struct Derived {
    rows32: OnceLock<Vec<f32>>,
    gram: OnceLock<Vec<f64>>,
    pairs: OnceLock<BonePairs>,
}

impl Clone for Motion {
    fn clone(&self) -> Self {
        Self { planted: self.planted.clone(), ..Self::from_rows(self.bones, self.length, self.rows.clone()) }
    }
}

impl Motion {
    /// From [4 B, L] rows.
    pub fn from_rows(bones: usize, length: usize, rows: Vec<f64>) -> Self {
        debug_assert_eq!(rows.len(), 4 * bones * length);
        Self { bones, length, rows, planted: Vec::new(), derived: Derived::default() }
    }

    /// All bones at rest in all frames.
    pub fn identity(bones: usize, frames: usize) -> Self {
        let mut motion = Self::from_rows(bones, 3 * frames, vec![0.0; 4 * bones * 3 * frames]);
        for j in 0..bones {
            for a in 0..3 {
                motion.row_mut(a, j)[a * frames..(a + 1) * frames].fill(1.0);
            }
        }
        motion
    }

    /// F, where trajectories are not reduced.
    pub fn frames(&self) -> usize {
        self.length / 3
    }

    /// [4 B, L].
    pub fn rows(&self) -> &[f64] {
        &self.rows
    }

    /// [4 B, L], to be changed: nothing derived from them is kept.
    pub fn rows_mut(&mut self) -> &mut [f64] {
        self.derived = Derived::default();
        &mut self.rows
    }

    /// [4 B, L] in float32.
    pub fn rows32(&self) -> &[f32] {
        self.derived.rows32.get_or_init(|| self.rows.iter().map(|&x| x as f32).collect())
    }

    /// [4 B, 4 B] `K = T T^T`; entry (c B + j, d B + k) is entry (c, d) of `K_jk`.
    pub fn gram(&self) -> &[f64] {
        self.derived.gram.get_or_init(|| gram(&self.rows, self.length))
    }

    /// Computes [`Motion::gram`] so that it can be cancelled.
    pub fn prepare_gram(&self, check: Check<'_>) -> Result<(), Cancelled> {
        if self.derived.gram.get().is_none() {
            let gram = gram_checked(&self.rows, self.length, check)?;
            self.derived.gram.get_or_init(|| gram);
        }
        Ok(())
    }

    /// `K_jk` as blocks.
    pub fn pairs(&self) -> &BonePairs {
        self.derived.pairs.get_or_init(|| BonePairs::new(self.bones, self.gram()))
    }

    /// [L] coordinate `c` of bone `j`.
    pub fn row(&self, c: usize, j: usize) -> &[f64] {
        let at = (c * self.bones + j) * self.length;
        &self.rows[at..at + self.length]
    }

    /// [L] coordinate `c` of bone `j`.
    pub fn row_mut(&mut self, c: usize, j: usize) -> &mut [f64] {
        let (length, at) = (self.length, (c * self.bones + j) * self.length);
        &mut self.rows_mut()[at..at + length]
    }

    /// Matrix of bone `j` in frame `t`, `[a][c]`.
    pub fn get(&self, j: usize, t: usize) -> [[f64; 4]; 3] {
        std::array::from_fn(|a| std::array::from_fn(|c| self.row(c, j)[a * self.frames() + t]))
    }

    /// Sets the matrix of bone `j` in frame `t`.
    pub fn set(&mut self, j: usize, t: usize, m: &[[f64; 4]; 3]) {
        let frames = self.frames();
        for (a, row) in m.iter().enumerate() {
            for (c, &x) in row.iter().enumerate() {
                self.row_mut(c, j)[a * frames + t] = x;
            }
        }
    }

    /// As [`Motion::get`], as a transform.
    pub fn transform(&self, j: usize, t: usize) -> DAffine3 {
        to_affine(&self.get(j, t))
    }

    /// As [`Motion::set`], of a transform.
    pub fn set_transform(&mut self, j: usize, t: usize, m: &DAffine3) {
        self.set(j, t, &to_rows(m));
    }

    /// As [`Motion::set`], in all frames.
    pub fn set_bone(&mut self, j: usize, matrices: &[[[f64; 4]; 3]]) {
        matrices.iter().enumerate().for_each(|(t, m)| self.set(j, t, m));
    }

    /// A copy with bones picked from this one, in the order given.
    pub fn select(&self, picked: &[usize]) -> Self {
        let mut rows = Vec::with_capacity(4 * picked.len() * self.length);
        for c in 0..4 {
            picked.iter().for_each(|&j| rows.extend_from_slice(self.row(c, j)));
        }
        let planted = match self.planted.is_empty() {
            true => Vec::new(),
            false => picked.iter().map(|&j| self.planted[j]).collect(),
        };
        Self { planted, ..Self::from_rows(picked.len(), self.length, rows) }
    }

    /// The middle of the vertices that bone `j` was planted for, where that is known.
    pub fn planted_at(&self, j: usize) -> Option<DVec3> {
        self.planted.get(j).copied().flatten()
    }

    /// The last bones were planted there.
    pub fn set_planted(&mut self, places: &[DVec3]) {
        self.planted.resize(self.bones - places.len(), None);
        self.planted.truncate(self.bones - places.len());
        self.planted.extend(places.iter().map(|p| Some(*p)));
    }
}

/// A matrix `[a][c]` as a transform.
pub(crate) fn to_affine(m: &[[f64; 4]; 3]) -> DAffine3 {
    let column = |c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
    DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) }
}

/// A transform as a matrix `[a][c]`.
pub(crate) fn to_rows(m: &DAffine3) -> [[f64; 4]; 3] {
    let columns = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis, m.translation];
    std::array::from_fn(|a| columns.map(|c| c[a]))
}
