//! The maps of [Le2021 s.3]: what bones do to a point as one vector, whose length is the error over all example poses.
//!
//! A point that bone j carries with the vector `y_j` (4) has, for each joint gamma, the four numbers
//! `S_gamma B_gamma^-1 sum_j h_gj y_j`. Rows that are always 0 are left out.

use glam::{DMat4, DVec4};

use crate::ddm::compress::joints::Joints;
use crate::ddm::compress::params::Maps;

/// A 4x4 matrix.
pub(super) type Mat = DMat4;

/// The maps after linearisation.
pub(super) struct Metric {
    /// [B].
    parents: Vec<Option<usize>>,
    /// [B] children before parents.
    upward: Vec<usize>,
    /// [B] S_gamma B_gamma^-1, by rows; rows of zeros left out.
    pub rows: Vec<Vec<DVec4>>,
    /// [B] first of the rows of a joint.
    pub starts: Vec<usize>,
    /// Rows in all.
    pub size: usize,
    /// [B, B] `W_jj' = sum_gamma h_gj h_gj' F_gamma^T F_gamma`.
    couplings: Vec<Mat>,
}

impl Metric {
    pub fn new(joints: &Joints, maps: Maps) -> Self {
        let b = joints.parents.len();
        let parents = if maps.hierarchy { joints.parents.clone() } else { vec![None; b] };
        let mut upward = joints.parents_first();
        upward.reverse();
        let mut rows = Vec::with_capacity(b);
        for joint in 0..b {
            let local = if maps.coordinates { DMat4::from(joints.binds[joint].inverse()) } else { DMat4::IDENTITY };
            let (alpha, beta) = if maps.sampling { joints.extents[joint] } else { (1.0, 1.0) };
            let scales = [alpha, alpha, alpha, beta];
            let own: Vec<DVec4> = (0..4).filter(|&r| scales[r] > 0.0).map(|r| local.row(r) * scales[r]).collect();
            rows.push(own);
        }
        let mut starts = Vec::with_capacity(b);
        let mut size = 0;
        for own in &rows {
            starts.push(size);
            size += own.len();
        }
        let mut metric = Self { parents, upward, rows, starts, size, couplings: Vec::new() };
        metric.couplings = metric.all_couplings();
        metric
    }

    pub fn bones(&self) -> usize {
        self.parents.len()
    }

    /// Joints that carry bone `j`: itself and its ancestors.
    pub fn carriers(&self, j: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(j), |&at| self.parents[at])
    }

    fn all_couplings(&self) -> Vec<Mat> {
        let b = self.bones();
        let squares: Vec<Mat> =
            self.rows.iter().map(|rows| rows.iter().fold(Mat::ZERO, |sum, r| sum + outer(*r, *r))).collect();
        let mut couplings = vec![Mat::ZERO; b * b];
        for j in 0..b {
            // Joints that carry j, summed from the root down to each of them.
            let mut own: Vec<usize> = self.carriers(j).collect();
            own.reverse();
            let mut sum = Mat::ZERO;
            let mut upto = vec![None; b];
            for &joint in &own {
                sum += squares[joint];
                upto[joint] = Some(sum);
            }
            for other in 0..b {
                let lowest = self.carriers(other).find_map(|joint| upto[joint]);
                couplings[j * b + other] = lowest.unwrap_or(Mat::ZERO);
            }
        }
        couplings
    }

    /// `W_jj'`.
    pub fn coupling(&self, j: usize, other: usize) -> &Mat {
        &self.couplings[j * self.bones() + other]
    }

    /// The mapped vector of what bones do to one point: (bone, y_j). `sums` is scratch [B].
    pub fn map_point(&self, terms: impl Iterator<Item = (usize, DVec4)>, sums: &mut [DVec4], out: &mut [f64]) {
        sums.fill(DVec4::ZERO);
        terms.for_each(|(j, y)| sums[j] += y);
        for &j in &self.upward {
            if let Some(parent) = self.parents[j] {
                let own = sums[j];
                sums[parent] += own;
            }
        }
        for ((rows, &start), sum) in self.rows.iter().zip(&self.starts).zip(sums.iter()) {
            for (at, row) in rows.iter().enumerate() {
                out[start + at] = row.dot(*sum);
            }
        }
    }

    /// The same for transforms: [size] rows of four.
    pub fn map_transform(&self, terms: impl Iterator<Item = (usize, Mat)>) -> Vec<DVec4> {
        let mut sums = vec![Mat::ZERO; self.bones()];
        terms.for_each(|(j, m)| sums[j] += m);
        for &j in &self.upward {
            if let Some(parent) = self.parents[j] {
                let own = sums[j];
                sums[parent] += own;
            }
        }
        let mut mapped = Vec::with_capacity(self.size);
        for (rows, sum) in self.rows.iter().zip(&sums) {
            let transposed = sum.transpose();
            mapped.extend(rows.iter().map(|row| transposed * *row));
        }
        mapped
    }

    /// `sum_gamma h_gj F_gamma^T r_gamma` of every bone: how a mapped vector pulls at each `y_j`. [B] out.
    pub fn pull(&self, mapped: &[f64], out: &mut [DVec4]) {
        for &j in self.upward.iter().rev() {
            let rows = self.rows[j].iter().zip(&mapped[self.starts[j]..]);
            let own = rows.fold(DVec4::ZERO, |sum, (row, r)| sum + *row * *r);
            out[j] = own + self.parents[j].map_or(DVec4::ZERO, |parent| out[parent]);
        }
    }
}

/// `a b^T`.
pub(super) fn outer(a: DVec4, b: DVec4) -> Mat {
    Mat::from_cols(a * b.x, a * b.y, a * b.z, a * b.w)
}
