//! One unknown bone of a patch that known bones move too.
//!
//! Minimises `sum_it |v_it - sum_k w_ik K_kt u_i - (1 - sum_k w_ik) B_t u_i|^2` over the rigid motion `B_t` of the unknown bone and the weights `w` of
//! the known bones `K`, by Gauss-Newton steps with damping [Marquardt1963]. With `p = B_t u_i`, its centre `c` over the patch, `q = p - c`
//! and `a = 1 - sum w`, the model moves by
//!
//! ```text
//! a (omega_t x q + tau_t)   with a turn omega_t about c and a shift tau_t of the bone
//! (K_kt u_i - p) dw_ik      with the weights
//! ```
//!
//! The six unknowns of a frame touch that frame only, so they are eliminated, and what is left is a dense system of all weights. What separates the bone
//! from its mixtures with known bones is that rotations do not blend to rotations; weights may be negative on the way.

use glam::{DAffine3, DMat3, DQuat, DVec3};

use crate::cluster::exact::explained::convex;
use crate::cluster::exact::{Path, Points};
use crate::solve::ldl::Ldl;
use crate::solve::simplex::SimplexSolver;
use crate::solve::transform::nearest_rotation;

/// By how many times the unknown bone may turn farther than the patch.
const FARTHER: [f64; 5] = [1.0, 1.5, 3.0, 8.0, 24.0];

/// Steps at most, and those after which an error so many times the limit is hopeless.
const STEPS: usize = 24;
const HOPELESS: [(usize, f64); 2] = [(8, 1e4), (14, 1e2)];

/// Steps that lower the squared error by less than this fraction are the last.
const MIN_GAIN: f64 = 1e-3;

/// Damping: at first, its growth after a step that failed, and its fall after one that did not.
const DAMPING: (f64, f64, f64) = (1e-3, 8.0, 0.1);

/// Failures of one step at most.
const MAX_FAILURES: usize = 6;

/// Weights outside of 0 to 1 by at most this much are rounding.
const OUTSIDE: f64 = 0.02;

/// The unknown bone has at least this weight somewhere.
const MIN_WEIGHT: f64 = 0.05;

/// Some vertices in some frames, and where known bones move them.
pub(super) struct Patch {
    /// K.
    bones: usize,
    /// F.
    frames: usize,
    /// [M]
    rest: Vec<DVec3>,
    /// [M, F]
    posed: Vec<DVec3>,
    /// [M, K, F]
    known: Vec<DVec3>,
}

impl Patch {
    /// Members in `frames`, and the paths of known bones in all frames.
    pub fn new(points: &Points, members: &[usize], known: &[&Path], frames: &[usize]) -> Self {
        let rest: Vec<DVec3> = members.iter().map(|&i| points.rest[i]).collect();
        let posed = members.iter().flat_map(|&i| frames.iter().map(move |&t| points.posed(i)[t])).collect();
        let moved =
            |u: DVec3| known.iter().flat_map(move |path| frames.iter().map(move |&t| path[t].transform_point3(u)));
        let known_at = rest.iter().flat_map(|&u| moved(u)).collect();
        Self { bones: known.len(), frames: frames.len(), rest, posed, known: known_at }
    }

    /// M.
    fn len(&self) -> usize {
        self.rest.len()
    }

    /// [F] of member `at`.
    fn posed(&self, at: usize) -> &[DVec3] {
        &self.posed[at * self.frames..(at + 1) * self.frames]
    }

    /// [F] where known bone `k` moves member `at`.
    fn known(&self, at: usize, k: usize) -> &[DVec3] {
        let first = (at * self.bones + k) * self.frames;
        &self.known[first..first + self.frames]
    }

    /// Member `at` in frame `t` without what known bones move of it, and where the unknown bone moves it.
    fn residual(&self, guess: &Guess, at: usize, t: usize) -> (DVec3, DVec3) {
        let p = guess.path[t].transform_point3(self.rest[at]);
        (self.without_known(guess, at, t) - p * guess.own(at, self.bones), p)
    }

    fn without_known(&self, guess: &Guess, at: usize, t: usize) -> DVec3 {
        let weights = &guess.weights[at * self.bones..(at + 1) * self.bones];
        weights.iter().enumerate().fold(self.posed(at)[t], |left, (k, w)| left - self.known(at, k)[t] * *w)
    }

    /// A motion of the unknown bone, and the best convex weights.
    fn guess(&self, path: Path) -> Guess {
        let (k, f) = (self.bones, self.frames);
        let mut solver = SimplexSolver::new(k + 1);
        let (mut gaps, mut weights) = (Vec::with_capacity((k + 1) * f), Vec::with_capacity(self.len() * k));
        for at in 0..self.len() {
            let posed = self.posed(at);
            gaps.clear();
            (0..k).for_each(|j| gaps.extend(self.known(at, j).iter().zip(posed).map(|(a, b)| *a - *b)));
            gaps.extend(path.iter().zip(posed).map(|(m, p)| m.transform_point3(self.rest[at]) - *p));
            weights.extend_from_slice(&convex(&gaps, f, &mut solver)[..k]);
        }
        Guess { path, weights }
    }

    fn squared_error(&self, guess: &Guess) -> f64 {
        let of_member =
            |at: usize| (0..self.frames).map(|t| self.residual(guess, at, t).0.length_squared()).sum::<f64>();
        (0..self.len()).map(of_member).sum()
    }

    /// The rigid motion that fits the weights best.
    pub fn path(&self, weights: &[f64]) -> Path {
        let guess = Guess { path: Vec::new(), weights: weights.to_vec() };
        let own: Vec<f64> = (0..self.len()).map(|at| guess.own(at, self.bones)).collect();
        let mass = own.iter().map(|a| a * a).sum::<f64>().max(1e-300);
        let centre = own.iter().zip(&self.rest).map(|(a, u)| *u * (a * a)).sum::<DVec3>() / mass;
        let of_frame = |t: usize| {
            let left: Vec<DVec3> = (0..self.len()).map(|at| self.without_known(&guess, at, t)).collect();
            let mean = own.iter().zip(&left).map(|(a, p)| *p * *a).sum::<DVec3>() / mass;
            let outer = |at: usize| {
                let (p, u) = ((left[at] - mean * own[at]) * own[at], self.rest[at] - centre);
                DMat3::from_cols(p * u.x, p * u.y, p * u.z)
            };
            let rotation = nearest_rotation(&(0..self.len()).map(outer).fold(DMat3::ZERO, |sum, m| sum + m));
            DAffine3::from_mat3_translation(rotation, mean - rotation * centre)
        };
        (0..self.frames).map(of_frame).collect()
    }
}

/// The unknowns.
#[derive(Clone)]
pub(super) struct Guess {
    /// [F]
    pub path: Path,
    /// [M, K] of the known bones.
    pub weights: Vec<f64>,
}

impl Guess {
    /// Weight of the unknown bone.
    fn own(&self, at: usize, bones: usize) -> f64 {
        1.0 - self.weights[at * bones..(at + 1) * bones].iter().sum::<f64>()
    }
}

/// The unknown bone, from a first guess, if the patch is explained within an RMS error of `limit`, with weights that are convex.
pub(super) fn unmix(patch: &Patch, start: Path, limit: f64) -> Option<Guess> {
    descend(patch, patch.guess(start), limit)
}

/// As [`unmix`], from the patch's own rigid motion. The patch blends the unknown bone with known ones, so the bone turns farther than the patch does: by
/// how many times is tried, about the place where the patch and the first known bone stay together best.
pub(super) fn unmix_rigid(patch: &Patch, rigid: &Path, known: &Path, limit: f64) -> Option<Guess> {
    let start = |times: f64| patch.guess(beyond(rigid, known, times));
    let guesses = FARTHER.iter().map(|&times| start(times)).map(|guess| (patch.squared_error(&guess), guess));
    let best = guesses.min_by(|x, y| x.0.total_cmp(&y.0))?.1;
    descend(patch, best, limit)
}

/// A motion that turns so many times as far from a known one as `path` does.
fn beyond(path: &Path, known: &Path, times: f64) -> Path {
    let apart: Vec<DAffine3> = path.iter().zip(known).map(|(m, k)| k.inverse() * *m).collect();
    let (mut normal, mut right) = (DMat3::ZERO, DVec3::ZERO);
    for m in &apart {
        let lever = DMat3::IDENTITY - m.matrix3;
        normal += lever.transpose() * lever;
        right += lever.transpose() * m.translation;
    }
    let ridge = 1e-9 * (normal.x_axis.x + normal.y_axis.y + normal.z_axis.z) + 1e-300;
    let joint = (normal + DMat3::from_diagonal(DVec3::splat(ridge))).inverse() * right;
    let farther = |(m, k): (&DAffine3, &DAffine3)| {
        let turn = DQuat::from_mat3(&m.matrix3).normalize().to_scaled_axis() * times;
        let turn = DMat3::from_quat(DQuat::from_scaled_axis(turn));
        let slide = m.translation + m.matrix3 * joint - joint;
        *k * DAffine3::from_mat3_translation(turn, joint - turn * joint + slide * times)
    };
    apart.iter().zip(known).map(farther).collect()
}

fn descend(patch: &Patch, mut guess: Guess, limit: f64) -> Option<Guess> {
    let target = limit * limit * (3 * patch.len() * patch.frames) as f64;
    let mut error = patch.squared_error(&guess);
    let mut damping = DAMPING.0;
    let mut system = System::new(patch);
    for step in 0..STEPS {
        system.gather(patch, &guess);
        let mut next = None;
        for _ in 0..MAX_FAILURES {
            let moved = system.step(&guess, damping);
            let after = patch.squared_error(&moved);
            if after < error {
                next = Some((moved, after));
                damping = (damping * DAMPING.2).max(1e-12);
                break;
            }
            damping *= DAMPING.1;
        }
        let Some((moved, after)) = next else { break };
        let gain = 1.0 - after / error;
        (guess, error) = (moved, after);
        let hopeless = HOPELESS.iter().any(|(steps, times)| step + 1 >= *steps && error > times * times * target);
        if hopeless || gain < MIN_GAIN {
            break;
        }
    }
    let own: Vec<f64> = (0..patch.len()).map(|at| guess.own(at, patch.bones)).collect();
    let is_convex = guess.weights.iter().chain(&own).all(|&w| w > -OUTSIDE);
    (error < target && is_convex && own.iter().any(|&w| w > MIN_WEIGHT)).then_some(guess)
}

/// Lower factor of the system of a frame, and what it makes of its coupling and of its right side.
struct Solved {
    lower: [[f64; 6]; 6],
    /// [6, M K]
    rows: Vec<f64>,
    right: [f64; 6],
}

/// Sums of one frame: the system of its six unknowns, and their coupling with the weights.
#[derive(Clone)]
struct Frame {
    centre: DVec3,
    /// Lower triangle.
    own: [[f64; 6]; 6],
    right: [f64; 6],
    /// [6, M K]
    coupling: Vec<f64>,
}

/// The linear system of a step.
struct System {
    /// M, K.
    size: (usize, usize),
    frames: Vec<Frame>,
    /// [M, K, K]
    weights: Vec<f64>,
    /// [M K]
    right: Vec<f64>,
    /// [M K, M K] what is left of the weights' system without the frames.
    schur: Vec<f64>,
    ldl: Ldl,
}

impl System {
    fn new(patch: &Patch) -> Self {
        let (m, k) = (patch.len(), patch.bones);
        let frame = Frame { centre: DVec3::ZERO, own: [[0.0; 6]; 6], right: [0.0; 6], coupling: vec![0.0; 6 * m * k] };
        Self {
            size: (m, k),
            frames: vec![frame; patch.frames],
            weights: vec![0.0; m * k * k],
            right: vec![0.0; m * k],
            schur: vec![0.0; m * k * m * k],
            ldl: Ldl::new(m * k),
        }
    }

    fn gather(&mut self, patch: &Patch, guess: &Guess) {
        let (m, k) = self.size;
        self.weights.fill(0.0);
        self.right.fill(0.0);
        let middle = patch.rest.iter().sum::<DVec3>() / m as f64;
        for (t, frame) in self.frames.iter_mut().enumerate() {
            frame.centre = guess.path[t].transform_point3(middle);
            (frame.own, frame.right) = ([[0.0; 6]; 6], [0.0; 6]);
            for at in 0..m {
                let a = guess.own(at, k);
                let (left, p) = patch.residual(guess, at, t);
                let q = p - frame.centre;
                frame.add(a, q, left);
                for j in 0..k {
                    let d = patch.known(at, j)[t] - p;
                    let turn = a * q.cross(d);
                    let column = [turn.x, turn.y, turn.z, a * d.x, a * d.y, a * d.z];
                    column.into_iter().enumerate().for_each(|(r, x)| frame.coupling[r * m * k + at * k + j] = x);
                    self.right[at * k + j] += d.dot(left);
                    for l in 0..=j {
                        self.weights[(at * k + j) * k + l] += d.dot(patch.known(at, l)[t] - p);
                    }
                }
            }
        }
    }

    /// The guess after a step with some damping.
    fn step(&mut self, guess: &Guess, damping: f64) -> Guess {
        let Self { size: (m, k), frames, weights, right, schur, ldl } = self;
        let (n, k) = (*m * *k, *k);
        schur.fill(0.0);
        for row in 0..n {
            for l in 0..=row % k {
                let x = weights[row * k + l];
                schur[row * n + row / k * k + l] = if l == row % k { x * (1.0 + damping) } else { x };
            }
        }
        let mut right = right.clone();
        // L^-1 (coupling, right) of each frame.
        let mut solved: Vec<Solved> = Vec::with_capacity(frames.len());
        for frame in &*frames {
            let lower = factored(&frame.own, damping);
            let rows = forward_rows(&lower, &frame.coupling, n);
            let own = forward(&lower, frame.right);
            let [y0, y1, y2, y3, y4, y5]: [&[f64]; 6] = std::array::from_fn(|r| &rows[r * n..(r + 1) * n]);
            for r in 0..n {
                let x = [y0[r], y1[r], y2[r], y3[r], y4[r], y5[r]];
                right[r] -= x.iter().zip(&own).map(|(x, y)| x * y).sum::<f64>();
                let row = &mut schur[r * n..r * n + r + 1];
                for (c, entry) in row.iter_mut().enumerate() {
                    *entry -= x[0] * y0[c] + x[1] * y1[c] + x[2] * y2[c] + x[3] * y3[c] + x[4] * y4[c] + x[5] * y5[c];
                }
            }
            solved.push(Solved { lower, rows, right: own });
        }
        ldl.solve(n, |r, c| schur[r * n + c], |r| right[r]);
        let change = &ldl.solution[..n];
        let weights = guess.weights.iter().zip(change).map(|(w, d)| w + d).collect();
        let moved = |((m, frame), solved): ((&DAffine3, &Frame), Solved)| {
            let mut left = solved.right;
            for (x, row) in left.iter_mut().zip(solved.rows.chunks_exact(n.max(1))) {
                *x -= row.iter().zip(change).map(|(y, d)| y * d).sum::<f64>();
            }
            frame.moved(m, backward(&solved.lower, left))
        };
        Guess { path: guess.path.iter().zip(&*frames).zip(solved).map(moved).collect(), weights }
    }
}

impl Frame {
    /// Adds a vertex: its weight `a` on the bone, its place `q` about the centre, what is left.
    fn add(&mut self, a: f64, q: DVec3, left: DVec3) {
        let square =
            DMat3::from_diagonal(DVec3::splat(q.length_squared())) - DMat3::from_cols(q * q.x, q * q.y, q * q.z);
        // Columns of [q]x.
        let cross = [DVec3::new(0.0, q.z, -q.y), DVec3::new(-q.z, 0.0, q.x), DVec3::new(q.y, -q.x, 0.0)];
        let turn = a * q.cross(left);
        for r in 0..3 {
            for (c, column) in cross.iter().enumerate() {
                self.own[r][c] += a * a * square.col(c)[r];
                // The shift r and the turn c: omega x q = -[q]x omega.
                self.own[3 + r][c] -= a * a * column[r];
            }
            self.own[3 + r][3 + r] += a * a;
            self.right[r] += turn[r];
            self.right[3 + r] += a * left[r];
        }
    }

    /// A bone after a turn and a shift.
    fn moved(&self, m: &DAffine3, change: [f64; 6]) -> DAffine3 {
        let [x, y, z, tau @ ..] = change;
        let turn = DQuat::from_scaled_axis(DVec3::new(x, y, z));
        let rotation = DMat3::from_quat((turn * DQuat::from_mat3(&m.matrix3)).normalize());
        let translation = turn * (m.translation - self.centre) + self.centre + DVec3::from_array(tau);
        DAffine3::from_mat3_translation(rotation, translation)
    }
}

/// Lower factor of a matrix with a damped diagonal.
fn factored(own: &[[f64; 6]; 6], damping: f64) -> [[f64; 6]; 6] {
    let least = 1e-14 * (0..6).map(|r| own[r][r]).fold(0.0, f64::max) + f64::MIN_POSITIVE;
    let mut lower = *own;
    (0..6).for_each(|r| lower[r][r] += damping * own[r][r] + least);
    for r in 0..6 {
        for c in 0..=r {
            let known: f64 = (0..c).map(|k| lower[r][k] * lower[c][k]).sum();
            let left = lower[r][c] - known;
            lower[r][c] = if r == c { left.max(least).sqrt() } else { left / lower[c][c] };
        }
    }
    lower
}

/// `L^-1 x`.
fn forward(lower: &[[f64; 6]; 6], mut x: [f64; 6]) -> [f64; 6] {
    for r in 0..6 {
        let known: f64 = (0..r).map(|k| lower[r][k] * x[k]).sum();
        x[r] = (x[r] - known) / lower[r][r];
    }
    x
}

/// `L^-1 X` of [6, n] rows.
fn forward_rows(lower: &[[f64; 6]; 6], x: &[f64], n: usize) -> Vec<f64> {
    let mut out = x.to_vec();
    for (r, factor) in lower.iter().enumerate() {
        let (done, rest) = out.split_at_mut(r * n);
        let row = &mut rest[..n];
        for (known, l) in done.chunks_exact(n.max(1)).zip(factor) {
            row.iter_mut().zip(known).for_each(|(x, y)| *x -= l * y);
        }
        row.iter_mut().for_each(|x| *x /= factor[r]);
    }
    out
}

/// `L^-T x`.
fn backward(lower: &[[f64; 6]; 6], mut x: [f64; 6]) -> [f64; 6] {
    for r in (0..6).rev() {
        let known: f64 = (r + 1..6).map(|k| lower[k][r] * x[k]).sum();
        x[r] = (x[r] - known) / lower[r][r];
    }
    x
}
