//! Motion of all bones over all frames.

use glam::DAffine3;

use crate::skinning::unit::UnitSpace;

/// Bones' motion over all frames as one matrix, so that blending a vertex is one sparse product.
///
/// Row `c B + j` holds coordinate `c` (0..3, 3 = translation) of bone `j`; column `a F + t` holds axis `a` in
/// frame `t`. With `x_i[c B + j] = w_ij u_ic` (homogeneous u) the posed trajectory is `sum_r x_i[r] row_r`
/// [Kavan2010 eq. 2, transposed].
#[derive(Clone)]
pub(crate) struct Motion {
    /// B.
    pub bones: usize,
    /// L: 3 F, or the dimension of the subspace.
    pub length: usize,
    /// [4 B, L].
    pub rows: Vec<f64>,
}

impl Motion {
    /// All bones at rest in all frames.
    pub fn identity(bones: usize, frames: usize) -> Self {
        let mut motion = Self { bones, length: 3 * frames, rows: vec![0.0; 4 * bones * 3 * frames] };
        for j in 0..bones {
            for a in 0..3 {
                motion.row_mut(a, j)[a * frames..(a + 1) * frames].fill(1.0);
            }
        }
        motion
    }

    /// [F, B] transforms in model units as a motion in `space`; bones without a transform are at rest.
    pub fn of_transforms(transforms: &[DAffine3], bones: usize, frames: usize, space: &UnitSpace) -> Self {
        let mut motion = Self::identity(bones, frames);
        for (at, m) in transforms.iter().enumerate() {
            motion.set(at % bones, at / bones, &space.matrix(at / bones, m));
        }
        motion
    }

    /// [F, B] transforms in model units: the way back.
    pub fn transforms(&self, space: &UnitSpace) -> Vec<DAffine3> {
        let bone = |t: usize, j: usize| space.model_transform(t, &self.get(j, t));
        (0..self.frames()).flat_map(|t| (0..self.bones).map(move |j| (t, j))).map(|(t, j)| bone(t, j)).collect()
    }

    /// F, where trajectories are not reduced.
    pub fn frames(&self) -> usize {
        self.length / 3
    }

    /// [L] coordinate `c` of bone `j`.
    pub fn row(&self, c: usize, j: usize) -> &[f64] {
        let at = (c * self.bones + j) * self.length;
        &self.rows[at..at + self.length]
    }

    /// [L] coordinate `c` of bone `j`.
    pub fn row_mut(&mut self, c: usize, j: usize) -> &mut [f64] {
        let (length, at) = (self.length, (c * self.bones + j) * self.length);
        &mut self.rows[at..at + length]
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

    /// A copy with bones picked from this one, in the order given.
    pub fn select(&self, picked: &[usize]) -> Self {
        let mut out =
            Self { bones: picked.len(), length: self.length, rows: Vec::with_capacity(4 * picked.len() * self.length) };
        for c in 0..4 {
            for &j in picked {
                out.rows.extend_from_slice(self.row(c, j));
            }
        }
        out
    }
}
