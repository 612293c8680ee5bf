//! All rotations and the root's place of one frame, joints held, by Gauss-Newton in the tangent space `R_j <- exp(w_j) R_j`.
//!
//! With `p = R_j b_ij` (`pose`) the normal matrix has blocks `tr(A) I - A^T`, `A = sum_i p_ij p_ik^T = R_j M_jk R_k^T`, and
//! the right side `sum_i p_ij x r_i`. The true error is a quadratic in the *matrices*, so a step is judged exactly and
//! damped until it lowers the error.

use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::cholesky::llt::{factor, solve};
use faer::{Mat, MatMut, Par};
use glam::{DMat3, DQuat, DVec3};

/// Tries to damp a step that does not lower the error.
const MAX_TRIES: usize = 6;

/// Buffers of the solver.
pub(super) struct RotationSolver {
    b: usize,
    /// [3 B + 1] rows of `sum_i z_i r_i^T`, of the present rotations; set by the caller.
    pub gradient: Vec<DVec3>,
    /// [3 B + 3, 3 B + 3] lower triangle.
    normal: Mat<f64>,
    damped: Mat<f64>,
    step: Vec<f64>,
    rotated: Vec<DMat3>,
    /// [3 B + 1] change of the rows of `(R_0^T .. s^T)`.
    change: Vec<DVec3>,
    /// [3 B + 1] what the change takes off the gradient.
    explained: Vec<DVec3>,
}

impl RotationSolver {
    pub fn new(b: usize) -> Self {
        let side = 3 * b + 3;
        Self {
            b,
            gradient: vec![DVec3::ZERO; 3 * b + 1],
            normal: Mat::zeros(side, side),
            damped: Mat::zeros(side, side),
            step: vec![0.0; side],
            rotated: vec![DMat3::IDENTITY; b],
            change: vec![DVec3::ZERO; 3 * b + 1],
            explained: vec![DVec3::ZERO; 3 * b + 1],
        }
    }

    /// Moves the rotations and the place of a frame, `rounds` times at most; steps that gain less than `enough` are the last.
    /// `second` is `M` [3 B + 1, 3 B + 1].
    pub fn run(&mut self, second: &[f64], rotations: &mut [DMat3], place: &mut DVec3, rounds: usize, enough: f64) {
        let side = 3 * self.b + 3;
        let mut damping = 1e-7;
        for _ in 0..rounds {
            self.load(second, rotations);
            let mean: f64 = (0..side).map(|r| self.normal[(r, r)]).sum::<f64>() / side as f64;
            let mut gain = 0.0;
            for _ in 0..MAX_TRIES {
                self.damped.copy_from(&self.normal);
                for r in 0..side {
                    self.damped[(r, r)] += damping * (self.normal[(r, r)] + 1e-3 * mean) + 1e-14;
                }
                self.load_right(rotations);
                if solve_definite(self.damped.as_mut(), &mut self.step) {
                    gain = self.try_step(second, rotations);
                    if gain >= 0.0 {
                        break;
                    }
                }
                damping = (damping * 100.0).max(1e-5);
            }
            if gain <= 0.0 {
                break;
            }
            rotations.copy_from_slice(&self.rotated);
            *place += DVec3::from_slice(&self.step[side - 3..]);
            self.gradient.iter_mut().zip(&self.explained).for_each(|(g, e)| *g -= *e);
            damping = (damping * 0.1).max(1e-9);
            if gain < enough {
                break;
            }
        }
    }

    /// Normal matrix at the present rotations.
    fn load(&mut self, second: &[f64], rotations: &[DMat3]) {
        let (b, rows) = (self.b, 3 * self.b + 1);
        for j in 0..b {
            for k in 0..=j {
                let m = DMat3::from_cols_array_2d(&std::array::from_fn(|c| {
                    std::array::from_fn(|a| second[(3 * j + a) * rows + 3 * k + c])
                }));
                let moved = rotations[j] * m * rotations[k].transpose();
                let trace = moved.x_axis.x + moved.y_axis.y + moved.z_axis.z;
                self.set_block(j, k, DMat3::from_diagonal(DVec3::splat(trace)) - moved.transpose());
            }
            // Root's place against bone j: [p]x transposed, with p the moved sum of b_ij.
            let p = rotations[j] * DVec3::from_array(std::array::from_fn(|a| second[(3 * j + a) * rows + 3 * b]));
            let cross =
                DMat3::from_cols(DVec3::new(0.0, -p.z, p.y), DVec3::new(p.z, 0.0, -p.x), DVec3::new(-p.y, p.x, 0.0));
            self.set_block(b, j, cross);
        }
        self.set_block(b, b, DMat3::from_diagonal(DVec3::splat(second[3 * b * rows + 3 * b])));
    }

    fn set_block(&mut self, j: usize, k: usize, block: DMat3) {
        for c in 0..3 {
            for a in 0..3 {
                self.normal[(3 * j + a, 3 * k + c)] = block.col(c)[a];
            }
        }
    }

    /// `sum_i p_ij x r_i`, and `sum_i r_i`.
    fn load_right(&mut self, rotations: &[DMat3]) {
        for (j, r) in rotations.iter().enumerate() {
            let g = &self.gradient[3 * j..3 * j + 3];
            // p = sum_a (column a of R) b_a, so p x r sums to (column a) x (row a of the gradient).
            let torque = r.x_axis.cross(g[0]) + r.y_axis.cross(g[1]) + r.z_axis.cross(g[2]);
            self.step[3 * j..3 * j + 3].copy_from_slice(&torque.to_array());
        }
        let last = 3 * self.b;
        self.step[last..].copy_from_slice(&self.gradient[last].to_array());
    }

    /// Rotations after the step, and by how much the squared error falls.
    fn try_step(&mut self, second: &[f64], rotations: &[DMat3]) -> f64 {
        let rows = 3 * self.b + 1;
        for (j, r) in rotations.iter().enumerate() {
            let turn = DQuat::from_scaled_axis(DVec3::from_slice(&self.step[3 * j..]));
            self.rotated[j] = DMat3::from_quat((turn * DQuat::from_mat3(r)).normalize());
            let delta = self.rotated[j] - *r;
            self.change[3 * j..3 * j + 3].copy_from_slice(&[delta.x_axis, delta.y_axis, delta.z_axis]);
        }
        self.change[rows - 1] = DVec3::from_slice(&self.step[3 * self.b..]);
        let mut gain = 0.0;
        for (r, d) in self.change.iter().enumerate() {
            let row = second[r * rows..(r + 1) * rows].iter();
            self.explained[r] = row.zip(&self.change).fold(DVec3::ZERO, |sum, (m, d)| sum + *m * *d);
            gain += d.dot(2.0 * self.gradient[r] - self.explained[r]);
        }
        gain
    }
}

/// Solves `A x = b` in place for symmetric positive definite `A` (lower triangle, overwritten); false if it is not. One
/// thread: the same bits always.
pub(super) fn solve_definite(mut a: MatMut<'_, f64>, x: &mut [f64]) -> bool {
    let n = x.len();
    let mut memory = MemBuffer::new(factor::cholesky_in_place_scratch::<f64>(n, Par::Seq, Default::default()));
    let stack = MemStack::new(&mut memory);
    if factor::cholesky_in_place(a.as_mut(), Default::default(), Par::Seq, stack, Default::default()).is_err() {
        return false;
    }
    solve::solve_in_place(a.as_ref(), MatMut::from_column_major_slice_mut(x, n, 1), Par::Seq, stack);
    x.iter().all(|x| x.is_finite())
}
