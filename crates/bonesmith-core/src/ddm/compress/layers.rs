//! The unknowns of the compression: virtual bones, weights on them, and their error.

use glam::{DMat4, DVec3, DVec4};
use rayon::prelude::*;

use crate::ddm::compress::maps::{JointMaps, Mat};
use crate::ddm::compress::params::DdmCompressParams;
use crate::mesh::Adjacency;
use crate::model::{DdmRig, MultiWeight, MultiWeights, Row};
use crate::observer::{Cancelled, Measure, Round, Stage, Stages};

/// A virtual bone.
#[derive(Clone)]
pub(super) struct VirtualBone {
    /// (bone, Delta_jk), symmetric, about the origin.
    pub terms: Vec<(usize, Mat)>,
    /// S_k: their sum.
    pub total: Mat,
    /// Its inverse, or the identity without linearisation.
    pub inverse: Mat,
    /// [rows] Delta'''' of all joints.
    pub mapped: Vec<DVec4>,
    /// Mean place of its vertices.
    pub place: DVec3,
}

/// The knowns and the unknowns: the multi-weights of vertices, and the two layers that approximate them.
pub(super) struct Layers<'a> {
    pub params: &'a DdmCompressParams,
    pub maps: JointMaps,
    pub adjacency: Adjacency,
    /// [N] (u_i, 1), about the origin.
    pub points: Vec<DVec4>,
    /// [N] (bone, Omega_ij), about the origin.
    pub multi_weights: Vec<Vec<(usize, Mat)>>,
    /// [N][rows] Omega'''' u_i.
    targets: Vec<Vec<f64>>,
    pub bones: Vec<VirtualBone>,
    /// [N].
    pub weights: Vec<Row>,
    /// [N] squared mapped error.
    pub errors: Vec<f64>,
}

/// A multi-weight about the origin from one about the centre [Le2021 eq. 13].
pub(super) fn uncentred(v: &[f32], p: DVec3) -> Mat {
    let [w, x, y, z, xx, xy, xz, yy, yz, zz] = std::array::from_fn(|at| f64::from(v[at]));
    let m = Mat::from_cols_array(&[xx, xy, xz, x, xy, yy, yz, y, xz, yz, zz, z, x, y, z, w]);
    let shift = Mat::from_translation(p);
    shift * m * shift.transpose()
}

/// The way back: the ten numbers about the centre `p`.
pub(super) fn recentred(m: &Mat, p: DVec3) -> MultiWeight {
    let shift = Mat::from_translation(-p);
    let c = (shift * *m * shift.transpose()).to_cols_array();
    [c[15], c[12], c[13], c[14], c[0], c[4], c[8], c[5], c[9], c[10]]
}

/// p_k.
pub(super) fn centre(total: &Mat) -> DVec3 {
    total.w_axis.truncate() / total.w_axis.w
}

impl<'a> Layers<'a> {
    pub fn new(
        rig: &DdmRig,
        maps: JointMaps,
        params: &'a DdmCompressParams,
        stages: &mut Stages<'_>,
    ) -> Result<Self, Cancelled> {
        let n = rig.vertex_count();
        let point = |i: usize| (rig.rig.rest[i].as_dvec3() - rig.origin).extend(1.0);
        let points: Vec<DVec4> = (0..n).map(point).collect();
        let solve = |sums: &mut Vec<DVec4>, i: usize| {
            let p = rig.weights.centre(i);
            let terms: Vec<(usize, Mat)> = rig.weights.of(i).map(|(j, v)| (j, uncentred(v, p))).collect();
            let lever = linearised(&sum(&terms), params) * points[i];
            let mut target = vec![0.0; maps.size];
            maps.map_point(terms.iter().map(|(j, m)| (*j, *m * lever)), sums, &mut target);
            (terms, target)
        };
        let solved = stages.map(n, || vec![DVec4::ZERO; maps.bones()], solve)?;
        let (multi_weights, targets) = solved.into_iter().unzip();
        let adjacency = Adjacency::new(&rig.rig.surface.topology, n);
        let (bones, weights, errors) = (Vec::new(), vec![Vec::new(); n], vec![0.0; n]);
        Ok(Self { params, maps, adjacency, points, multi_weights, targets, bones, weights, errors })
    }

    pub fn target(&self, i: usize) -> &[f64] {
        &self.targets[i]
    }

    /// A virtual bone of given multi-weights; those too small are shared among the others.
    pub fn bone(&self, mut terms: Vec<(usize, Mat)>, place: DVec3) -> VirtualBone {
        let total = sum(&terms);
        let scale = 1.0 / total.w_axis.w;
        terms.iter_mut().for_each(|(_, m)| *m *= scale);
        let total = total * scale;
        terms.sort_by(|a, b| b.1.w_axis.w.total_cmp(&a.1.w_axis.w).then(a.0.cmp(&b.0)));
        let small = terms.iter().position(|(_, m)| m.w_axis.w < MIN_INFLUENCE).unwrap_or(terms.len());
        terms.truncate(small.clamp(1, self.params.master_influences));
        let kept = sum(&terms);
        let missing = total - kept;
        let share = 1.0 / kept.w_axis.w;
        terms.iter_mut().for_each(|(_, m)| {
            let own = m.w_axis.w * share;
            *m += missing * own;
        });
        self.finished(terms, total, place)
    }

    /// A virtual bone of these terms, whose sum is `total`.
    pub fn finished(&self, terms: Vec<(usize, Mat)>, total: Mat, place: DVec3) -> VirtualBone {
        let inverse = linearised(&total, self.params);
        let mapped = self.maps.map_transform(terms.iter().map(|(j, m)| (*j, *m * inverse)));
        VirtualBone { terms, total, inverse, mapped, place }
    }

    /// A virtual bone with the multi-weights of vertex `i`.
    pub fn bone_of_vertex(&self, i: usize) -> VirtualBone {
        self.bone(self.multi_weights[i].clone(), self.points[i].truncate())
    }

    /// Residual of vertex `i` with virtual bone `k` alone: `Delta'''' u_i - Omega'''' u_i`.
    pub fn residual_of_bone(&self, k: usize, i: usize, out: &mut [f64]) {
        let u = self.points[i];
        for ((out, row), target) in out.iter_mut().zip(&self.bones[k].mapped).zip(self.target(i)) {
            *out = row.dot(u) - target;
        }
    }

    /// The squared length of such a residual.
    pub fn distance(&self, bone: &VirtualBone, i: usize) -> f64 {
        let u = self.points[i];
        let rows = bone.mapped.iter().zip(self.target(i));
        rows.map(|(row, target)| (row.dot(u) - target) * (row.dot(u) - target)).sum()
    }

    /// Squared error of vertex `i` with some weights; `out` becomes its residual.
    pub fn error(&self, row: &[(usize, f64)], i: usize, out: &mut [f64]) -> f64 {
        let u = self.points[i];
        for (out, target) in out.iter_mut().zip(self.target(i)) {
            *out = -target;
        }
        for &(k, a) in row {
            let scaled = u * a;
            for (out, row) in out.iter_mut().zip(&self.bones[k].mapped) {
                *out += row.dot(scaled);
            }
        }
        out.iter().map(|x| x * x).sum()
    }

    /// Updates the errors of all vertices.
    pub fn measure(&mut self) {
        let of_vertex = |out: &mut Vec<f64>, i: usize| self.error(&self.weights[i], i, out);
        let all = (0..self.points.len()).into_par_iter();
        self.errors = all.map_init(|| vec![0.0; self.maps.size], of_vertex).collect();
    }

    /// E [Le2021 eq. 11a].
    pub fn energy(&self) -> f64 {
        self.errors.iter().sum::<f64>() / (self.points.len() * self.maps.bones()) as f64
    }

    /// As an entry of the history.
    pub fn round(&self, stage: Stage) -> Round {
        Round { stage, bones: self.bones.len(), error: self.energy(), measure: Measure::DdmEnergy }
    }

    /// [p] vertices of each virtual bone with their weights.
    pub fn users(&self) -> Vec<Row> {
        let mut users = vec![Vec::new(); self.bones.len()];
        for (i, row) in self.weights.iter().enumerate() {
            row.iter().for_each(|&(k, a)| users[k].push((i, a)));
        }
        users
    }

    /// Moves the places of the bones to their vertices.
    pub fn place_bones(&mut self) {
        let users = self.users();
        for (bone, users) in self.bones.iter_mut().zip(&users) {
            let (sum, mass) = users.iter().fold((DVec3::ZERO, 0.0), |(sum, mass), &(i, a)| {
                (sum + self.points[i].truncate() * a * a, mass + a * a)
            });
            if mass > 0.0 {
                bone.place = sum / mass;
            }
        }
    }

    /// Float32 tables of some virtual bones.
    pub fn tables(&self, used: &[usize]) -> MultiWeights {
        MultiWeights::from_rows(used.iter().map(|&k| {
            let bone = &self.bones[k];
            let p = centre(&bone.total).as_vec3().as_dvec3();
            (p, bone.terms.iter().map(|(j, m)| (*j as u16, recentred(m, p))).collect())
        }))
    }
}

/// Influences of a virtual bone below this are shared among the others.
const MIN_INFLUENCE: f64 = 2e-3;

/// `(sum Omega)^-1` [Le2021 eq. 3].
fn linearised(total: &Mat, params: &DdmCompressParams) -> Mat {
    if !params.maps.linearisation {
        return DMat4::IDENTITY;
    }
    // About the centre the matrix is block diagonal: its inverse is as good as that of the 3x3 part.
    let p = centre(total);
    let shift = Mat::from_translation(-p);
    let local = shift * *total * shift.transpose();
    let inverse = local.inverse();
    let inverse = if inverse.is_finite() { inverse } else { Mat::IDENTITY };
    shift.transpose() * inverse * shift
}

fn sum(terms: &[(usize, Mat)]) -> Mat {
    terms.iter().fold(Mat::ZERO, |sum, (_, m)| sum + *m)
}
