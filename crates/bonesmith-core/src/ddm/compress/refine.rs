//! Both layers on the real virtual bones, in example poses.
//!
//! E is that of the linearised model: it does not know that a virtual bone is rigid. Here the error is what is seen,
//!
//! ```text
//! sum_(i, t) |sum_k a_ki T_kt u_i - x_it|^2,   T_kt: x -> R_kt (x - p_k) + q_kt
//! ```
//!
//! with `R_kt` the polar factor of what the multi-weights of virtual bone k give in pose t, and `x_it` where the full model has vertex
//! i. It is quadratic in the weights a (`weight_update`, in this space). For the multi-weights, with `C = R S` the matrix about
//! the centre whose polar factor is R, a small change `dC` turns the bone by
//!
//! ```text
//! omega = R (tr(S) I - S)^-1 axial(R^T dC - dC^T R),      axial([v]_x) = v
//! ```
//!
//! so that the error has the normal equations of a Gauss-Newton step: six numbers a pose, `(omega_t, dq_t)`, linear in the changes of
//! the multi-weights, whose sum is held as in `bone_update`. A step is damped, and accepted only if the error falls.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::Solve;
use faer::{Accum, Mat as Dense, Par, Side};
use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::ddm::compress::examples::Examples;
use crate::ddm::compress::layers::{Layers, VirtualBone, centre};
use crate::ddm::compress::maps::Mat;
use crate::ddm::compress::weight_update::{Choice, Space};
use crate::model::Row;
use crate::observer::{Cancelled, Stage, Stages};
use crate::solve::matrix;
use crate::solve::transform::nearest_rotation;

/// Rounds over both layers.
const ROUNDS: usize = 2;
/// Damping of a step, over the diagonal of its normal equations, and how often it is raised.
const DAMPING: f64 = 1e-2;
const RAISES: usize = 2;

/// The virtual bones in the example poses.
pub(super) struct Real<'a> {
    pub examples: &'a Examples,
    /// [p, P] posed_from_rest about the origin.
    pub transforms: Vec<DAffine3>,
}

impl Space for Real<'_> {
    fn size(&self) -> usize {
        self.examples.length()
    }

    fn residual_of_bone(&self, layers: &Layers<'_>, k: usize, i: usize, out: &mut [f64]) {
        let count = self.examples.poses.len();
        let (u, target) = (layers.points[i].truncate(), self.examples.target(i));
        for (t, transform) in self.transforms[k * count..(k + 1) * count].iter().enumerate() {
            let p = transform.transform_point3(u);
            for (a, x) in p.to_array().into_iter().enumerate() {
                out[a * count + t] = x - f64::from(target[a * count + t]);
            }
        }
    }
}

/// Re-solves weights and multi-weights. Returns the root mean square error in the examples before and after.
pub(super) fn refine(
    layers: &mut Layers<'_>,
    examples: &Examples,
    stages: &mut Stages<'_>,
) -> Result<(f64, f64), Cancelled> {
    stages.begin(Stage::RealPoses, Some(ROUNDS))?;
    let mut real = Real::new(layers, examples);
    let samples = (layers.points.len() * examples.poses.len()).max(1) as f64;
    let rms = |errors: &[f64]| (errors.iter().sum::<f64>() / samples).sqrt();
    let mut errors = layers.errors_in(&real);
    let before = rms(&errors);
    // Virtual bones of a vertex are chosen once; then only their weights change.
    layers.update_weights_in(&real, &mut errors, Choice::Near, stages)?;
    for _ in 0..ROUNDS {
        if !layers.params.keep_multi_weights {
            real.update_bones(layers, &mut errors, stages)?;
        }
        layers.update_weights_in(&real, &mut errors, Choice::Own, stages)?;
        stages.step(None)?;
    }
    Ok((before, rms(&errors)))
}

impl<'a> Real<'a> {
    pub fn new(layers: &Layers<'_>, examples: &'a Examples) -> Self {
        let of_bone = |bone: &VirtualBone| examples.poses.iter().map(|pose| posed(bone, pose).0).collect::<Vec<_>>();
        let transforms = layers.bones.par_iter().map(of_bone).collect::<Vec<_>>().concat();
        Self { examples, transforms }
    }

    /// One step over the multi-weights of all virtual bones.
    fn update_bones(
        &mut self,
        layers: &mut Layers<'_>,
        errors: &mut [f64],
        stages: &mut Stages<'_>,
    ) -> Result<(), Cancelled> {
        let size = self.size();
        let mut residuals = vec![0.0; layers.points.len() * size];
        residuals.par_chunks_mut(size).enumerate().for_each_init(
            || vec![0.0; size],
            |own, (i, out)| {
                for &(k, a) in &layers.weights[i] {
                    self.residual_of_bone(layers, k, i, own);
                    out.iter_mut().zip(own.iter()).for_each(|(out, x)| *out += a * x);
                }
            },
        );
        for (k, users) in layers.users().iter().enumerate() {
            stages.report(None)?;
            self.improve(layers, k, users, &mut residuals, errors);
        }
        Ok(())
    }

    /// A damped step of one virtual bone.
    fn improve(&mut self, layers: &mut Layers<'_>, k: usize, users: &Row, residuals: &mut [f64], errors: &mut [f64]) {
        let Some(step) = Step::new(self.examples, layers, k, users, residuals) else { return };
        let (size, count) = (self.size(), self.examples.poses.len());
        let mut damping = DAMPING;
        for _ in 0..=RAISES {
            let Some(bone) = step.bone(layers, k, damping) else { return };
            let transforms: Vec<DAffine3> = self.examples.poses.iter().map(|pose| posed(&bone, pose).0).collect();
            let present = &self.transforms[k * count..(k + 1) * count];
            let changed = |&(i, a): &(usize, f64)| {
                let (u, mut own) = (layers.points[i].truncate(), residuals[i * size..(i + 1) * size].to_vec());
                for (t, (new, old)) in transforms.iter().zip(present).enumerate() {
                    let change = a * (new.transform_point3(u) - old.transform_point3(u));
                    (0..3).for_each(|axis| own[axis * count + t] += change[axis]);
                }
                let error = own.iter().map(|r| r * r).sum::<f64>();
                (own, error)
            };
            let found: Vec<(Vec<f64>, f64)> = users.par_iter().map(changed).collect();
            let gain: f64 = users.iter().zip(&found).map(|(&(i, _), (_, error))| errors[i] - error).sum();
            if gain > 0.0 {
                for (&(i, _), (own, error)) in users.iter().zip(found) {
                    residuals[i * size..(i + 1) * size].copy_from_slice(&own);
                    errors[i] = error;
                }
                self.transforms[k * count..(k + 1) * count].copy_from_slice(&transforms);
                layers.bones[k] = bone;
                return;
            }
            damping *= 10.0;
        }
    }
}

/// posed_from_rest of a virtual bone about the origin; its rotation, and the symmetric factor.
pub(super) fn posed(bone: &VirtualBone, pose: &[DAffine3]) -> (DAffine3, DMat3) {
    let p = centre(&bone.total);
    let sum = bone.terms.iter().fold(Mat::ZERO, |sum, (j, m)| sum + Mat::from(pose[*j]) * *m);
    let q = sum.w_axis.truncate() / bone.total.w_axis.w;
    let columns = [sum.x_axis, sum.y_axis, sum.z_axis];
    let c = DMat3::from_cols_array_2d(&std::array::from_fn(|a| (columns[a].truncate() - q * p[a]).to_array()));
    let r = nearest_rotation(&c);
    (DAffine3 { matrix3: r, translation: q - r * p }, r.transpose() * c)
}

/// (row, column) of the ten numbers of a symmetric 4x4 matrix.
pub(super) const PAIRS: [(usize, usize); 10] =
    [(0, 0), (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3)];

/// Normal equations of the multi-weights of one virtual bone about its centre, all but the first, which takes what the others give.
struct Step {
    hessian: Dense<f64>,
    gradient: Dense<f64>,
}

impl Step {
    fn new(examples: &Examples, layers: &Layers<'_>, k: usize, users: &Row, residuals: &[f64]) -> Option<Self> {
        let bone = &layers.bones[k];
        let free = bone.terms.len().checked_sub(1).filter(|free| *free > 0 && !users.is_empty())?;
        let (p, count, size) = (centre(&bone.total), examples.poses.len(), examples.length());
        // Squared weights, with the points about the centre, up to second order.
        let (mut m0, mut m1, mut m2) = (0.0, DVec3::ZERO, DMat3::ZERO);
        for &(i, a) in users {
            let x = layers.points[i].truncate() - p;
            m0 += a * a;
            m1 += a * a * x;
            m2 += DMat3::from_cols(x * x.x, x * x.y, x * x.z) * (a * a);
        }
        // Rows of the least squares problem, six a pose: the root of the quadratic form of (omega, dq), times the motions.
        let parameters = 10 * free;
        let mut rows = vec![0.0; 6 * count * parameters];
        let mut gradient = Dense::<f64>::zeros(parameters, 1);
        for (t, (pose, rows)) in examples.poses.iter().zip(rows.chunks_exact_mut(6 * parameters)).enumerate() {
            let (transform, s) = posed(bone, pose);
            let r = transform.matrix3;
            let (mut force, mut torque) = (DVec3::ZERO, DVec3::ZERO);
            for &(i, a) in users {
                let own = &residuals[i * size..(i + 1) * size];
                let residual = DVec3::new(own[t], own[count + t], own[2 * count + t]);
                force -= a * residual;
                torque -= a * (r * (layers.points[i].truncate() - p)).cross(residual);
            }
            // |omega x y + dq|^2 over all y = R x, about their mean: m0 |dq + omega x mean|^2 + omega . inertia omega.
            let mean = r * m1 / m0;
            let about = r * (m2 - DMat3::from_cols(m1 * m1.x, m1 * m1.y, m1 * m1.z) * (1.0 / m0)) * r.transpose();
            let trace = about.x_axis.x + about.y_axis.y + about.z_axis.z;
            let root = lower_root(&(DMat3::from_diagonal(DVec3::splat(trace)) - about)).transpose();
            let mass = m0.sqrt();
            for (x, (omega, dq)) in motions(bone, pose, p, r, &s)?.into_iter().enumerate() {
                gradient[(x, 0)] += omega.dot(torque) + dq.dot(force);
                let (turned, moved) = (root * omega, mass * (dq + omega.cross(mean)));
                let six = [turned.x, turned.y, turned.z, moved.x, moved.y, moved.z];
                six.into_iter().enumerate().for_each(|(at, value)| rows[at * parameters + x] = value);
            }
        }
        let rows = matrix::rows(&rows, parameters);
        let mut hessian = Dense::<f64>::zeros(parameters, parameters);
        matmul(hessian.as_mut(), Accum::Replace, rows.transpose(), rows, 1.0, Par::Seq);
        Some(Self { hessian, gradient })
    }

    /// The bone after a step.
    fn bone(&self, layers: &Layers<'_>, k: usize, damping: f64) -> Option<VirtualBone> {
        let size = self.gradient.nrows();
        let largest = (0..size).map(|x| self.hessian[(x, x)]).fold(0.0, f64::max);
        let mut damped = self.hessian.clone();
        (0..size).for_each(|x| damped[(x, x)] += damping * self.hessian[(x, x)] + 1e-12 * largest + 1e-300);
        let step = damped.llt(Side::Lower).ok()?.solve(&self.gradient);
        let bone = &layers.bones[k];
        let (mut terms, shift) = (bone.terms.clone(), Mat::from_translation(centre(&bone.total)));
        for at in 1..terms.len() {
            let mut change = Mat::ZERO;
            for (a, &(r, c)) in PAIRS.iter().enumerate() {
                let value = step[(10 * (at - 1) + a, 0)];
                change.col_mut(c)[r] = value;
                change.col_mut(r)[c] = value;
            }
            let change = shift * change * shift.transpose();
            terms[at].1 += change;
            terms[0].1 -= change;
        }
        terms.iter().all(|(_, m)| m.is_finite()).then(|| layers.finished(terms, bone.total, bone.place))
    }
}

/// L of `L L^T = m`, for a matrix that is positive semidefinite.
fn lower_root(m: &DMat3) -> DMat3 {
    let mut l = DMat3::ZERO;
    for c in 0..3 {
        let row = |l: &DMat3, r: usize| (0..c).map(|k| l.col(k)[r] * l.col(k)[c]).sum::<f64>();
        let pivot = (m.col(c)[c] - row(&l, c)).max(0.0).sqrt();
        for r in c..3 {
            let value = m.col(c)[r] - row(&l, r);
            l.col_mut(c)[r] = if pivot > 0.0 { value / pivot } else { 0.0 };
        }
    }
    l
}

/// [10 free] (omega, dq) by each number of the multi-weights but those of the first bone; `None` where rotations are not defined.
pub(super) fn motions(
    bone: &VirtualBone,
    pose: &[DAffine3],
    p: DVec3,
    r: DMat3,
    s: &DMat3,
) -> Option<Vec<(DVec3, DVec3)>> {
    let trace = s.x_axis.x + s.y_axis.y + s.z_axis.z;
    let turn = (DMat3::from_diagonal(DVec3::splat(trace)) - *s).inverse();
    if !turn.is_finite() {
        return None;
    }
    let first = pose[bone.terms[0].0];
    let mut all = Vec::with_capacity(10 * (bone.terms.len() - 1));
    for (j, _) in &bone.terms[1..] {
        let linear = pose[*j].matrix3 - first.matrix3;
        let shift = pose[*j].transform_point3(p) - first.transform_point3(p);
        // Columns of the difference of the two bones, about the centre.
        let column = |at: usize| if at == 3 { shift } else { linear.col(at) };
        for &(row, col) in &PAIRS {
            // The change `E_rc + E_cr` puts column r of the difference into column c of the sum, and column c into column r.
            let mut change = [DVec3::ZERO; 4];
            change[col] += column(row);
            if row != col {
                change[row] += column(col);
            }
            let dc = r.transpose() * DMat3::from_cols(change[0], change[1], change[2]);
            let axial = DVec3::new(dc.y_axis.z - dc.z_axis.y, dc.z_axis.x - dc.x_axis.z, dc.x_axis.y - dc.y_axis.x);
            all.push((r * (turn * axial), change[3]));
        }
    }
    Some(all)
}
