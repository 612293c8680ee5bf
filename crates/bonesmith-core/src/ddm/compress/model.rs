//! The unknowns of the compression: virtual bones, weights on them, and the error they leave.

use glam::{DMat4, DVec3, DVec4};
use rayon::prelude::*;

use crate::ddm::compress::metric::{Mat, Metric};
use crate::ddm::compress::params::DdmCompressParams;
use crate::mesh::topology::Adjacency;
use crate::model::ddm::DdmRig;
use crate::model::multi_weights::{Moments, MultiWeights};

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

/// A vertex's weights: (virtual bone, weight).
pub(super) type Row = Vec<(usize, f64)>;

/// What is known and what is sought.
pub(super) struct Model<'a> {
    pub params: &'a DdmCompressParams,
    pub metric: Metric,
    pub adjacency: Adjacency,
    /// [N] (u_i, 1), about the origin.
    pub points: Vec<DVec4>,
    /// [N] (bone, Omega_ij), about the origin.
    pub given: Vec<Vec<(usize, Mat)>>,
    /// [N, rows] Omega'''' u_i.
    pub targets: Vec<f64>,
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

/// The ten numbers about the centre `p`.
pub(super) fn recentred(m: &Mat, p: DVec3) -> Moments {
    let shift = Mat::from_translation(-p);
    let c = (shift * *m * shift.transpose()).to_cols_array();
    [c[15], c[12], c[13], c[14], c[0], c[4], c[8], c[5], c[9], c[10]]
}

/// p_k.
pub(super) fn centre(total: &Mat) -> DVec3 {
    total.w_axis.truncate() / total.w_axis.w
}

impl<'a> Model<'a> {
    pub fn new(rig: &DdmRig, metric: Metric, params: &'a DdmCompressParams) -> Self {
        let n = rig.vertex_count();
        let point = |i: usize| (rig.rig.rest[i].as_dvec3() - rig.origin).extend(1.0);
        let points: Vec<DVec4> = (0..n).map(point).collect();
        let row = |i: usize| -> Vec<(usize, Mat)> {
            let p = rig.weights.centre(i);
            rig.weights.of(i).map(|(j, v)| (j, uncentred(v, p))).collect()
        };
        let given: Vec<Vec<(usize, Mat)>> = (0..n).into_par_iter().map(row).collect();
        let size = metric.size;
        let mut targets = vec![0.0; n * size];
        targets.par_chunks_mut(size.max(1)).enumerate().for_each_init(
            || vec![DVec4::ZERO; metric.bones()],
            |sums, (i, out)| {
                let total = given[i].iter().fold(Mat::ZERO, |sum, (_, m)| sum + *m);
                let lever = linearised(&total, params) * points[i];
                metric.map_point(given[i].iter().map(|(j, m)| (*j, *m * lever)), sums, out);
            },
        );
        let adjacency = Adjacency::new(&rig.rig.surface.topology, n);
        let (weights, errors) = (vec![Vec::new(); n], vec![0.0; n]);
        Self { params, metric, adjacency, points, given, targets, bones: Vec::new(), weights, errors }
    }

    pub fn target(&self, i: usize) -> &[f64] {
        &self.targets[i * self.metric.size..(i + 1) * self.metric.size]
    }

    /// A virtual bone of given multi-weights; those too small are shared among the others.
    pub fn bone(&self, mut terms: Vec<(usize, Mat)>, place: DVec3) -> VirtualBone {
        let total = terms.iter().fold(Mat::ZERO, |sum, (_, m)| sum + *m);
        let scale = 1.0 / total.w_axis.w;
        terms.iter_mut().for_each(|(_, m)| *m *= scale);
        let total = total * scale;
        terms.sort_by(|a, b| b.1.w_axis.w.total_cmp(&a.1.w_axis.w).then(a.0.cmp(&b.0)));
        let small = terms.iter().position(|(_, m)| m.w_axis.w < LEAST_INFLUENCE).unwrap_or(terms.len());
        terms.truncate(small.clamp(1, self.params.master_influences));
        let kept = terms.iter().fold(Mat::ZERO, |sum, (_, m)| sum + *m);
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
        let mapped = self.metric.map_transform(terms.iter().map(|(j, m)| (*j, *m * inverse)));
        VirtualBone { terms, total, inverse, mapped, place }
    }

    /// A virtual bone that does what vertex `i` does.
    pub fn bone_of_vertex(&self, i: usize) -> VirtualBone {
        self.bone(self.given[i].clone(), self.points[i].truncate())
    }

    /// What virtual bone `k` alone leaves of vertex `i`: `Delta'''' u_i - Omega'''' u_i`.
    pub fn miss(&self, k: usize, i: usize, out: &mut [f64]) {
        miss(&self.bones[k].mapped, self.points[i], self.target(i), out);
    }

    /// Its squared length.
    pub fn distance(&self, bone: &VirtualBone, i: usize) -> f64 {
        distance(&bone.mapped, self.points[i], self.target(i))
    }

    /// Error of vertex `i` with some weights; `out` becomes what is missed.
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

    pub fn measure(&mut self) {
        let size = self.metric.size;
        let this = &*self;
        let errors = (0..self.points.len())
            .into_par_iter()
            .map_init(|| vec![0.0; size], |out, i| this.error(&this.weights[i], i, out))
            .collect();
        self.errors = errors;
    }

    /// E [Le2021 eq. 11a].
    pub fn energy(&self) -> f64 {
        self.errors.iter().sum::<f64>() / (self.points.len() * self.metric.bones()) as f64
    }

    /// [p] vertices of each virtual bone with their weights.
    pub fn users(&self) -> Vec<Vec<(usize, f64)>> {
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

    /// Float32 tables.
    pub fn multi_weights(&self, used: &[usize]) -> MultiWeights {
        MultiWeights::from_rows(used.iter().map(|&k| {
            let bone = &self.bones[k];
            let p = centre(&bone.total).as_vec3().as_dvec3();
            (p, bone.terms.iter().map(|(j, m)| (*j as u16, recentred(m, p))).collect())
        }))
    }
}

/// Influences of a virtual bone below this are shared among the others.
const LEAST_INFLUENCE: f64 = 2e-3;

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

fn miss(mapped: &[DVec4], u: DVec4, target: &[f64], out: &mut [f64]) {
    for ((out, row), target) in out.iter_mut().zip(mapped).zip(target) {
        *out = row.dot(u) - target;
    }
}

fn distance(mapped: &[DVec4], u: DVec4, target: &[f64]) -> f64 {
    mapped.iter().zip(target).map(|(row, target)| (row.dot(u) - target) * (row.dot(u) - target)).sum()
}
