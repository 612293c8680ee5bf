//! Affine bones within limits: none mirrors space, none flattens or stretches it out of proportion.
//!
//! Nothing in the squared error keeps a bone from turning inside out where other bones make up for it. In an engine it does harm: the
//! normals of its vertices point inwards. So in every frame the singular values of a bone's matrix have to lie within [`STRETCH`], with a
//! positive determinant. Below a twentieth an engine's inverse of the matrix is noise, above twenty a vertex would have to be that much smaller at
//! rest than it ever is.
//!
//! Few bones in few frames are beyond the limits, so they are an active set: they take the nearest matrix within (about the centre of their
//! vertices), and all others are solved again for that, frame by frame; what is beyond the limits then joins the set. Steps for the vertices
//! follow, and so on a few times.

use faer::Mat;
use faer::linalg::solvers::Solve;
use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::model::rig::Rig;
use crate::skinning::bone_step::{EMPTY, regular};
use crate::skinning::descent::State;
use crate::skinning::moments::Moments;
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::vertex_step::VertexParams;
use crate::solve::transform::rotation_svd;

/// Smallest and largest singular value of a bone's matrix.
pub const STRETCH: (f64, f64) = (0.05, 20.0);

/// Share by which E_RMS may rise for bones that stay within their limits.
pub const MAX_COST: f64 = 0.1;

/// Matrices with all entries below this hide a bone's vertices.
const HIDDEN: f64 = 1e-4;

/// Times that bones and vertices are solved within the limits.
const ROUNDS: usize = 4;

/// Times that the active set of a frame grows.
const GROWTHS: usize = 6;

/// With more bones the others are not solved again: a dense factor for each frame would take too long.
const MAX_SOLVED: usize = 128;

/// Bones beyond the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Beyond {
    /// Bones that are so in some frame.
    pub bones: usize,
    /// Frames of all bones together.
    pub frames: usize,
}

/// Counts the bones beyond the limits. Bones without vertices do not count.
pub(crate) fn beyond(motion: &Motion, moments: &Moments) -> Beyond {
    let of = |j: usize| match moments.second.mass(j) < EMPTY {
        true => 0,
        false => (0..motion.frames()).filter(|&t| nearest_within(&motion.transform(j, t)).is_some()).count(),
    };
    let counts: Vec<usize> = (0..motion.bones).into_par_iter().map(of).collect();
    Beyond { bones: counts.iter().filter(|count| **count > 0).count(), frames: counts.iter().sum() }
}

/// As [`beyond`], of a finished rig. Bones that are scaled to nothing hide what is not there yet: they do not count.
pub(crate) fn beyond_of_rig(rig: &Rig) -> Beyond {
    let frames =
        |j: usize| rig.clips.iter().flat_map(move |clip| (0..clip.frame_count()).map(move |t| &clip.frame(t)[j]));
    let is_hidden = |m: &DAffine3| m.matrix3.to_cols_array().iter().all(|x| x.abs() < HIDDEN);
    let of = |j: usize| frames(j).filter(|m| !is_hidden(m) && nearest_within(m).is_some()).count();
    let counts: Vec<usize> = (0..rig.bone_count()).into_par_iter().map(of).collect();
    Beyond { bones: counts.iter().filter(|count| **count > 0).count(), frames: counts.iter().sum() }
}

/// As [`hold`], where a bone is beyond the limits and `accepts` takes what becomes of the present state.
pub(crate) fn keep_within(
    problem: &Problem,
    state: &mut State,
    vertices: VertexParams,
    accepts: impl FnOnce(&State, &State) -> bool,
) {
    let moments = pass::gather(problem, &state.motion, &state.skin);
    if beyond(&state.motion, &moments) == Beyond::default() {
        return;
    }
    let mut held = state.clone();
    hold(problem, &mut held, vertices);
    if accepts(state, &held) {
        *state = held;
    }
}

/// Solves bones and vertices within the limits; returns the moments at the end.
pub(crate) fn hold(problem: &Problem, state: &mut State, vertices: VertexParams) -> Moments {
    let mut moments = pass::gather(problem, &state.motion, &state.skin);
    for round in 0..ROUNDS {
        step(&mut state.motion, &moments);
        moments = match round + 1 < ROUNDS {
            // Vertices keep the bones that they have.
            true => {
                let params = VertexParams { newcomers: 0, ..vertices };
                pass::solve(problem, &state.motion, &mut state.skin, params, None)
            }
            false => pass::gather(problem, &state.motion, &state.skin),
        };
    }
    moments
}

/// The best bones within the limits, for the vertices that the moments are of.
pub(super) fn step(motion: &mut Motion, moments: &Moments) {
    let (b, frames) = (motion.bones, motion.frames());
    let second = (b <= MAX_SOLVED).then(|| moments.second.dense());
    let found: Vec<Vec<(usize, DAffine3)>> =
        (0..frames).into_par_iter().map(|t| frame(motion, moments, second.as_deref(), t)).collect();
    for (t, bones) in found.into_iter().enumerate() {
        bones.iter().for_each(|(j, m)| motion.set_transform(*j, t, m));
    }
}

/// The bones that change in frame `t`.
fn frame(motion: &Motion, moments: &Moments, second: Option<&[f64]>, t: usize) -> Vec<(usize, DAffine3)> {
    let (b, frames, length) = (motion.bones, motion.frames(), motion.length);
    let used: Vec<usize> = (0..b).filter(|&j| moments.second.mass(j) >= EMPTY).collect();
    let start: Vec<DAffine3> = (0..b).map(|j| motion.transform(j, t)).collect();
    let mut now = start.clone();
    let mut active: Vec<bool> = vec![false; b];
    for _ in 0..GROWTHS {
        let mut grown = false;
        for &j in &used {
            if let Some(linear) = nearest_within(&now[j]) {
                let centre = moments.second.of[j].centre();
                let place = now[j].transform_point3(centre);
                now[j] = DAffine3 { matrix3: linear, translation: place - linear * centre };
                (active[j], grown) = (true, true);
            }
        }
        let Some(second) = second.filter(|_| grown) else { break };
        let free: Vec<usize> = used.iter().copied().filter(|&j| !active[j]).collect();
        // Rows of coordinate c of bone j, as the moments have them.
        let rows: Vec<usize> = (0..4).flat_map(|c| free.iter().map(move |&j| c * b + j)).collect();
        let system: Vec<f64> = rows.iter().flat_map(|&r| rows.iter().map(move |&q| second[r * 4 * b + q])).collect();
        let Some((factor, _)) = regular(&system, rows.len()) else { break };
        // What the active bones have moved is no longer in the residuals.
        let moved = |j: usize, c: usize, a: usize| entry(&now[j], c, a) - entry(&start[j], c, a);
        let right = Mat::from_fn(rows.len(), 3, |r, a| {
            let of_residual = moments.residual[rows[r] * length + a * frames + t];
            let taken = (0..b).filter(|&k| active[k]).flat_map(|k| (0..4).map(move |d| (k, d)));
            of_residual - taken.map(|(k, d)| second[rows[r] * 4 * b + d * b + k] * moved(k, d, a)).sum::<f64>()
        });
        let change: Mat<f64> = factor.solve(&right);
        for (at, &j) in free.iter().enumerate() {
            let of = |c: usize, a: usize| entry(&start[j], c, a) + change[(c * free.len() + at, a)];
            let column = |c: usize| DVec3::new(of(c, 0), of(c, 1), of(c, 2));
            now[j] = DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) };
        }
    }
    // What the last solve pushed out.
    for &j in &used {
        if let Some(linear) = nearest_within(&now[j]) {
            let centre = moments.second.of[j].centre();
            let place = now[j].transform_point3(centre);
            now[j] = DAffine3 { matrix3: linear, translation: place - linear * centre };
        }
    }
    used.into_iter().filter(|&j| now[j] != start[j]).map(|j| (j, now[j])).collect()
}

/// Axis `a` of column `c` of a matrix, the translation last.
fn entry(m: &DAffine3, c: usize, a: usize) -> f64 {
    if c < 3 { m.matrix3.col(c)[a] } else { m.translation[a] }
}

/// The nearest matrix within the limits; `None` where it is within.
pub(super) fn nearest_within(m: &DAffine3) -> Option<DMat3> {
    let svd = rotation_svd(&m.matrix3);
    let within = svd.sigma.clamp(DVec3::splat(STRETCH.0), DVec3::splat(STRETCH.1));
    // Rounding of the product itself.
    let off = (svd.sigma - within).abs().max_element();
    (off > 1e-6 * within.max_element()).then(|| svd.u * DMat3::from_diagonal(within) * svd.v.transpose())
}
