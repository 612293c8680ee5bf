//! The twins.

use glam::{DMat3, DVec3};

use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;

/// Linear part and translation of a 3x4 matrix.
pub fn split(m: &[[f64; 4]; 3]) -> (DMat3, DVec3) {
    let column = |c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
    (DMat3::from_cols(column(0), column(1), column(2)), column(3))
}

/// A 3x4 matrix from its parts.
pub fn join(linear: &DMat3, shift: DVec3) -> [[f64; 4]; 3] {
    std::array::from_fn(|a| [linear.x_axis[a], linear.y_axis[a], linear.z_axis[a], shift[a]])
}

/// Where bone `j` alone takes point `u`: [3 F], all x, then all y, then all z.
pub fn carried(motion: &Motion, j: usize, u: DVec3) -> Vec<f64> {
    let frames = motion.frames();
    let mut out = vec![0.0; 3 * frames];
    for t in 0..frames {
        let (linear, shift) = split(&motion.get(j, t));
        let p = linear * u + shift;
        (0..3).for_each(|a| out[a * frames + t] = p[a]);
    }
    out
}

/// Trajectory that the rig gives vertex `i`.
pub fn posed(motion: &Motion, skin: &Skin, i: usize) -> Vec<f64> {
    let mut out = vec![0.0; motion.length];
    for (j, w) in skin.of(i) {
        out.iter_mut().zip(carried(motion, j, skin.rest[i])).for_each(|(x, p)| *x += w * p);
    }
    out
}

/// What is left of vertex `i`'s trajectory.
pub fn residual(problem: &Problem, motion: &Motion, skin: &Skin, i: usize) -> Vec<f64> {
    let truth = problem.trajectory(i);
    posed(motion, skin, i).iter().zip(truth).map(|(p, v)| f64::from(*v) - p).collect()
}

/// Squared error of vertex `i`.
pub fn vertex_error(problem: &Problem, motion: &Motion, skin: &Skin, i: usize) -> f64 {
    residual(problem, motion, skin, i).iter().map(|r| r * r).sum()
}

/// Squared error of everything.
pub fn squared_error(problem: &Problem, motion: &Motion, skin: &Skin) -> f64 {
    (0..problem.vertices()).map(|i| vertex_error(problem, motion, skin, i)).sum()
}

/// `x_i[c B + j] = w_ij u_ic` written out, mostly zeros.
pub fn blend_row(skin: &Skin, i: usize, bones: usize) -> Vec<f64> {
    let mut x = vec![0.0; 4 * bones];
    let u = skin.rest[i].extend(1.0);
    for (j, w) in skin.of(i) {
        (0..4).for_each(|c| x[c * bones + j] = w * u[c]);
    }
    x
}

/// Least squared error of a vertex at rest position `u` over convex weights of at most `most` of the `allowed` bones.
///
/// The optimum lies inside some face of the simplex, where it is an ordinary least-squares problem with one equality:
/// so all faces are tried, and of those whose solution has no negative weight the best is taken.
pub fn best_weights(problem: &Problem, motion: &Motion, i: usize, u: DVec3, allowed: &[usize], most: usize) -> f64 {
    let columns: Vec<Vec<f64>> = allowed.iter().map(|&j| carried(motion, j, u)).collect();
    let truth: Vec<f64> = problem.trajectory(i).iter().map(|v| f64::from(*v)).collect();
    let mut best = f64::INFINITY;
    for face in 1u32..1 << allowed.len() {
        if face.count_ones() as usize > most {
            continue;
        }
        let chosen: Vec<&Vec<f64>> =
            columns.iter().enumerate().filter(|(p, _)| face >> p & 1 == 1).map(|(_, column)| column).collect();
        if let Some(weights) = on_face(&chosen, &truth)
            && weights.iter().all(|w| *w >= 0.0)
        {
            let left = |l: usize| truth[l] - chosen.iter().zip(&weights).map(|(c, w)| w * c[l]).sum::<f64>();
            best = best.min((0..truth.len()).map(|l| left(l).powi(2)).sum());
        }
    }
    best
}

/// Least squares with weights that sum to 1, signs free: `[G 1; 1^T 0] [w; m] = [q; 1]`; `None` where singular.
fn on_face(columns: &[&Vec<f64>], truth: &[f64]) -> Option<Vec<f64>> {
    let m = columns.len();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut system = vec![vec![0.0; m + 2]; m + 1];
    for p in 0..m {
        for q in 0..m {
            system[p][q] = dot(columns[p], columns[q]);
        }
        system[p][m] = 1.0;
        system[m][p] = 1.0;
        system[p][m + 1] = dot(columns[p], truth);
    }
    system[m][m + 1] = 1.0;
    let solution = eliminate(system)?;
    Some(solution[..m].to_vec())
}

/// Gauss with pivoting on an augmented matrix.
fn eliminate(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for p in 0..n {
        let pivot = (p..n).max_by(|&a, &b| rows[a][p].abs().total_cmp(&rows[b][p].abs()))?;
        rows.swap(p, pivot);
        if rows[p][p].abs() < 1e-10 {
            return None;
        }
        for r in (0..n).filter(|&r| r != p) {
            let factor = rows[r][p] / rows[p][p];
            let source = rows[p].clone();
            rows[r].iter_mut().zip(&source).for_each(|(x, s)| *x -= factor * s);
        }
    }
    Some((0..n).map(|p| rows[p][n] / rows[p][p]).collect())
}
