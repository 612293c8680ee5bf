//! What the bones need to know about the vertices, for fixed weights and rest pose.
//!
//! With homogeneous rest positions `u_i` (4) and `x_i[c B + j] = w_ij u_ic`, the error of frame `t` is
//!
//! ```text
//! E(T) = sum_i |v_i - sum_j w_ij T_j u_i|^2 = |v|^2 - 2 <T, P> + <T S, T>
//! P_j = sum_i w_ij v_i u_i^T (3x4, each frame)      S_jk = sum_i w_ij w_ik u_i u_i^T (4x4, shared by all frames)
//! ```
//!
//! so after one pass over the vertices all that follows is arithmetic on bones. All in float64: `D = P - T S` is a
//! small difference of large numbers.

use glam::DVec3;
use rayon::prelude::*;

use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;

/// A 3x4 matrix as `[coordinate][axis]`: column `c` of the transform.
pub(super) type Columns = [[f64; 3]; 4];

/// A 4x4 second moment.
pub(super) type Block = [[f64; 4]; 4];

/// Vertices per lane: lanes depend on sizes only and are added in order, so threads do not change the result.
const LANE: usize = 2048;

/// Sums over the vertices of one subject.
pub(super) struct Moments {
    /// B.
    pub bones: usize,
    /// F.
    pub frames: usize,
    /// [4 B, 3 F] `P`, laid out as [`Motion::rows`].
    pub target: Vec<f64>,
    /// [B] (k, S_jk) of each bone with itself and every bone it shares vertices with, ascending.
    pub second: Vec<Vec<(usize, Block)>>,
    /// [B] `sum_i w_ij (u_i, 1)`.
    pub first: Vec<[f64; 4]>,
    /// [F] `sum_i |v_i|^2`.
    pub squared: Vec<f64>,
}

impl Moments {
    /// One pass over all vertices.
    pub fn new(problem: &Problem, skin: &Skin, bones: usize) -> Self {
        let (n, length) = (problem.vertices(), problem.length);
        let lanes: Vec<Self> = (0..n.div_ceil(LANE))
            .into_par_iter()
            .map(|lane| {
                let mut sums = Self::empty(bones, length / 3);
                (lane * LANE..((lane + 1) * LANE).min(n)).for_each(|i| sums.add_vertex(problem, skin, i));
                sums
            })
            .collect();
        lanes.into_iter().fold(Self::empty(bones, length / 3), Self::plus)
    }

    fn empty(bones: usize, frames: usize) -> Self {
        Self {
            bones,
            frames,
            target: vec![0.0; 12 * bones * frames],
            second: vec![Vec::new(); bones],
            first: vec![[0.0; 4]; bones],
            squared: vec![0.0; frames],
        }
    }

    fn add_vertex(&mut self, problem: &Problem, skin: &Skin, i: usize) {
        let (v, u) = (problem.trajectory(i), problem.rest[i]);
        let u = [u.x, u.y, u.z, 1.0];
        for (t, sum) in self.squared.iter_mut().enumerate() {
            *sum += (0..3).map(|a| f64::from(v[a * self.frames + t]).powi(2)).sum::<f64>();
        }
        let length = v.len();
        for (j, w) in skin.of(i) {
            for (c, uc) in u.iter().enumerate() {
                let x = w * uc;
                self.first[j][c] += x;
                let row = &mut self.target[(c * self.bones + j) * length..][..length];
                row.iter_mut().zip(v).for_each(|(sum, v)| *sum += x * f64::from(*v));
            }
            for (k, wk) in skin.of(i) {
                let block = block_mut(&mut self.second[j], k);
                for (row, uc) in block.iter_mut().zip(u) {
                    row.iter_mut().zip(u).for_each(|(sum, ud)| *sum += w * wk * uc * ud);
                }
            }
        }
    }

    fn plus(mut self, other: Self) -> Self {
        let add = |sum: &mut [f64], more: &[f64]| sum.iter_mut().zip(more).for_each(|(sum, x)| *sum += x);
        add(&mut self.target, &other.target);
        add(&mut self.squared, &other.squared);
        add(self.first.as_flattened_mut(), other.first.as_flattened());
        for (own, more) in self.second.iter_mut().zip(&other.second) {
            for (k, block) in more {
                add(block_mut(own, *k).as_flattened_mut(), block.as_flattened());
            }
        }
        self
    }

    /// `S_jj`; zero where nothing hangs on the bone.
    pub fn own(&self, j: usize) -> Block {
        match self.second[j].binary_search_by_key(&j, |(k, _)| *k) {
            Ok(at) => self.second[j][at].1,
            Err(_) => [[0.0; 4]; 4],
        }
    }

    /// Sum of squared weights of a bone.
    pub fn mass(&self, j: usize) -> f64 {
        self.own(j)[3][3]
    }

    /// Where the vertices of a bone are, counted by squared weight.
    pub fn center(&self, j: usize) -> DVec3 {
        let own = self.own(j);
        let mass = own[3][3].max(1e-300);
        DVec3::new(own[0][3], own[1][3], own[2][3]) / mass
    }

    /// `P_j` in frame `t`.
    pub fn target_of(&self, j: usize, t: usize) -> Columns {
        self.columns(&self.target, j, t)
    }

    /// Column `t` of bone `j` in a matrix laid out as [`Motion::rows`].
    pub fn columns(&self, rows: &[f64], j: usize, t: usize) -> Columns {
        let length = 3 * self.frames;
        std::array::from_fn(|c| std::array::from_fn(|a| rows[(c * self.bones + j) * length + a * self.frames + t]))
    }

    /// All bones of a motion in frame `t`.
    pub fn pose(&self, motion: &Motion, t: usize) -> Vec<Columns> {
        (0..self.bones).map(|j| self.columns(motion.rows(), j, t)).collect()
    }

    /// `D = P - T S` of all bones in frame `t`.
    pub fn residual(&self, pose: &[Columns], t: usize) -> Vec<Columns> {
        (0..self.bones)
            .map(|j| {
                let mut d = self.target_of(j, t);
                self.second[j].iter().for_each(|(k, block)| subtract_product(&mut d, &pose[*k], block));
                d
            })
            .collect()
    }

    /// Squared error of frame `t`: `|v|^2 - <T, P + D>`.
    pub fn error(&self, pose: &[Columns], residual: &[Columns], t: usize) -> f64 {
        let explained: f64 =
            (0..self.bones).map(|j| inner(&pose[j], &self.target_of(j, t)) + inner(&pose[j], &residual[j])).sum();
        (self.squared[t] - explained).max(0.0)
    }
}

/// The block of bone `k`, made where it is missing; lists stay sorted.
fn block_mut(list: &mut Vec<(usize, Block)>, k: usize) -> &mut Block {
    let at = match list.binary_search_by_key(&k, |(k, _)| *k) {
        Ok(at) => at,
        Err(at) => {
            list.insert(at, (k, [[0.0; 4]; 4]));
            at
        }
    };
    &mut list[at].1
}

/// `d -= m s`, with `s` symmetric in the sense `S_kj = S_jk^T` (each `S_jk` is a sum of `u u^T`).
pub(super) fn subtract_product(d: &mut Columns, m: &Columns, s: &Block) {
    for (c, column) in d.iter_mut().enumerate() {
        for (a, x) in column.iter_mut().enumerate() {
            *x -= m[0][a] * s[0][c] + m[1][a] * s[1][c] + (m[2][a] * s[2][c] + m[3][a] * s[3][c]);
        }
    }
}

/// Sum of products of entries.
pub(super) fn inner(a: &Columns, b: &Columns) -> f64 {
    a.as_flattened().iter().zip(b.as_flattened()).map(|(x, y)| x * y).sum()
}
