//! The maps of [Le2021 s.3]: the motion of a point by all bones as one vector, whose length is the error over all example poses.
//!
//! A point that bone j moves with the vector `y_j` (4) has, for each joint gamma, the four numbers
//! `S_gamma B_gamma^-1 sum_j h_gj y_j` [Le2021 eq. 11b-11d]. Rows that are always 0 are left out.

use std::ops::AddAssign;

use glam::{DMat4, DVec4};

use crate::ddm::compress::joints::Joints;
use crate::ddm::compress::params::Maps;
use crate::observer::{Cancelled, Stages};
use crate::skinning::alternation::parents_first;

/// A 4x4 matrix.
pub(super) type Mat = DMat4;

/// The maps after linearisation.
pub(super) struct JointMaps {
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

impl JointMaps {
    pub fn new(joints: &Joints, maps: Maps, stages: &mut Stages<'_>) -> Result<Self, Cancelled> {
        let b = joints.parents.len();
        let parents = if maps.hierarchy { joints.parents.clone() } else { vec![None; b] };
        let mut upward = parents_first(&joints.parents);
        upward.reverse();
        let (mut rows, mut starts, mut size) = (Vec::with_capacity(b), Vec::with_capacity(b), 0);
        for joint in 0..b {
            let local = if maps.coordinates { DMat4::from(joints.binds[joint].inverse()) } else { DMat4::IDENTITY };
            let (alpha, beta) = if maps.sampling { joints.extents[joint] } else { (1.0, 1.0) };
            let scales = [alpha, alpha, alpha, beta];
            let own: Vec<DVec4> = (0..4).filter(|&r| scales[r] > 0.0).map(|r| local.row(r) * scales[r]).collect();
            starts.push(size);
            size += own.len();
            rows.push(own);
        }
        let mut this = Self { parents, upward, rows, starts, size, couplings: Vec::new() };
        this.couplings = this.all_couplings(stages)?;
        Ok(this)
    }

    pub fn bones(&self) -> usize {
        self.parents.len()
    }

    /// Joints that carry bone `j`: itself and its ancestors.
    pub fn carriers(&self, j: usize) -> impl Iterator<Item = usize> + '_ {
        std::iter::successors(Some(j), |&at| self.parents[at])
    }

    fn all_couplings(&self, stages: &mut Stages<'_>) -> Result<Vec<Mat>, Cancelled> {
        let b = self.bones();
        let squares: Vec<Mat> =
            self.rows.iter().map(|rows| rows.iter().fold(Mat::ZERO, |sum, r| sum + outer(*r, *r))).collect();
        let mut couplings = vec![Mat::ZERO; b * b];
        for j in 0..b {
            stages.report(None)?;
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
        Ok(couplings)
    }

    /// `W_jj'`.
    pub fn coupling(&self, j: usize, other: usize) -> &Mat {
        &self.couplings[j * self.bones() + other]
    }

    /// Adds (bone, value) to `sums` [B], and those of all bones to the joints that carry them.
    fn carry<T: Copy + AddAssign>(&self, terms: impl Iterator<Item = (usize, T)>, sums: &mut [T]) {
        terms.for_each(|(j, value)| sums[j] += value);
        for &j in &self.upward {
            if let Some(parent) = self.parents[j] {
                let own = sums[j];
                sums[parent] += own;
            }
        }
    }

    /// The mapped vector of the motion of one point: (bone, y_j). `sums` is scratch [B].
    pub fn map_point(&self, terms: impl Iterator<Item = (usize, DVec4)>, sums: &mut [DVec4], out: &mut [f64]) {
        sums.fill(DVec4::ZERO);
        self.carry(terms, sums);
        for ((rows, &start), sum) in self.rows.iter().zip(&self.starts).zip(sums.iter()) {
            for (at, row) in rows.iter().enumerate() {
                out[start + at] = row.dot(*sum);
            }
        }
    }

    /// The same for transforms: [size] rows of four.
    pub fn map_transform(&self, terms: impl Iterator<Item = (usize, Mat)>) -> Vec<DVec4> {
        let mut sums = vec![Mat::ZERO; self.bones()];
        self.carry(terms, &mut sums);
        let mut mapped = Vec::with_capacity(self.size);
        for (rows, sum) in self.rows.iter().zip(&sums) {
            let transposed = sum.transpose();
            mapped.extend(rows.iter().map(|row| transposed * *row));
        }
        mapped
    }

    /// [B] `sum_gamma h_gj F_gamma^T r_gamma`: the gradient of a mapped vector's squared length by each `y_j`, halved.
    pub fn gradient(&self, mapped: &[f64], out: &mut [DVec4]) {
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
