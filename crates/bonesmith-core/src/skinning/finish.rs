//! From the unknowns back to a rig in model units.

use std::sync::Arc;

use glam::{DAffine3, DVec3, Vec3};

use crate::deform::{solve_rest_normals_from, solve_rest_tangents};
use crate::mesh::MeshSequence;
use crate::model::{Bone, Clip, Rig};
use crate::skinning::normals::Normals;
use crate::skinning::{Problem, State, UnitSpace};

/// The rig of a state.
pub(crate) fn rig(sequence: &MeshSequence, problem: &Problem, state: &State, params_json: String) -> Rig {
    let space = &problem.space;
    let posed_from_rest = space.transforms(&state.motion);
    Rig {
        name: sequence.name().to_owned(),
        rest: rest(sequence, problem, state),
        surface: sequence.surface().clone(),
        weights: state.skin.to_weights(),
        bones: bones(state, space),
        kind: state.model.kind,
        clips: vec![Clip {
            name: sequence.name().to_owned(),
            times_secs: sequence.times_secs().to_vec(),
            posed_from_rest,
        }],
        params_json,
    }
}

/// Stores the rest normals that fit the motion best, where there are faces, and tangents, where there is a normal map. True normals of all
/// vertices are used where they are known.
pub(crate) fn shade(rig: &mut Rig, sequence: &MeshSequence, known: Option<&Normals>) {
    if let Some(normals) = solve_rest_normals_from(rig, &[sequence], known.map(|normals| &*normals.rows)) {
        Arc::make_mut(&mut rig.surface).normals = Some(normals);
    }
    if let Some(tangents) = solve_rest_tangents(rig, &[sequence]) {
        Arc::make_mut(&mut rig.surface).tangents = Some(tangents);
    }
}

/// Rest positions in model units; those that were not moved are the input's to the bit.
fn rest(sequence: &MeshSequence, problem: &Problem, state: &State) -> Vec<Vec3> {
    let space = &problem.space;
    let position = |(u, input): (&DVec3, &Vec3)| match *u == space.point(*input) {
        true => *input,
        false => space.model_point(*u).as_vec3(),
    };
    state.skin.rest.iter().zip(sequence.rest()).map(position).collect()
}

/// Loose bones, each bound where its vertices are, along the axes it scales in.
fn bones(state: &State, space: &UnitSpace) -> Vec<Bone> {
    let digits = (state.bones().max(2) - 1).to_string().len().max(2);
    let centroids = state.skin.centroids(state.bones());
    (centroids.into_iter().enumerate())
        .map(|(j, place)| Bone {
            name: format!("bone_{j:0digits$}"),
            parent: None,
            world_from_bind: DAffine3 { matrix3: state.model.axes[j], translation: space.model_point(place) },
            tip: None,
        })
        .collect()
}

/// Vertices that jitter is measured on, at most.
const JITTER_VERTICES: usize = 256;

/// Root mean square of second differences over time of the reconstruction, over that of the input: 1 is as smooth
/// as the input. Measured on at most 256 vertices; `None` with fewer than 3 frames or an input without any.
pub(crate) fn jitter_ratio(problem: &Problem, state: &State) -> Option<f64> {
    let f = problem.frames();
    let mut jitter = Jitter::default();
    let mut posed = vec![0.0; problem.length];
    let mut buffer = Vec::new();
    for i in (0..problem.vertices()).step_by(problem.vertices().div_ceil(JITTER_VERTICES)) {
        posed.fill(0.0);
        let u = state.skin.rest[i];
        for (j, w) in state.skin.of(i) {
            for (c, x) in [u.x, u.y, u.z, 1.0].into_iter().enumerate() {
                posed.iter_mut().zip(state.motion.row(c, j)).for_each(|(p, m)| *p += w * x * m);
            }
        }
        let truth = problem.block(i..i + 1, &mut buffer);
        jitter.add(f, |t| f64::from(truth[t]), |t| posed[t]);
    }
    jitter.ratio()
}

/// As [`jitter_ratio`], of the first clip of a rig, in model units.
pub(crate) fn jitter_ratio_of_rig(sequence: &MeshSequence, rig: &Rig) -> Option<f64> {
    let (f, n) = (sequence.frame_count(), sequence.vertex_count());
    let mut jitter = Jitter::default();
    let (source, frames) = (sequence.frames(), (0..f as u32).collect::<Vec<_>>());
    let mut positions = vec![Vec3::ZERO; f];
    for i in (0..n).step_by(n.div_ceil(JITTER_VERTICES)) {
        source.read(&frames, i..i + 1, &mut |t, row| positions[t] = row[0]);
        let u = rig.rest[i].as_dvec3();
        let pose = |t: usize| {
            let bones = rig.clips[0].frame(t);
            rig.weights.of(i).map(|(j, w)| bones[j].transform_point3(u) * f64::from(w)).sum::<DVec3>()
        };
        let posed: Vec<DVec3> = (0..f).map(pose).collect();
        let at = |l: usize| (l / f, l % f);
        let truth = |l: usize| f64::from(positions[at(l).1][at(l).0]);
        jitter.add(f, truth, |l| posed[at(l).1][at(l).0]);
    }
    jitter.ratio()
}

/// Sums of squared second differences.
#[derive(Default)]
struct Jitter {
    input: f64,
    output: f64,
}

impl Jitter {
    /// Adds a vertex: [3 F] coordinates, all x over time first.
    fn add(&mut self, frames: usize, truth: impl Fn(usize) -> f64, posed: impl Fn(usize) -> f64) {
        let bend = |v: &dyn Fn(usize) -> f64, t: usize| (v(t - 1) - 2.0 * v(t) + v(t + 1)).powi(2);
        for t in (0..3).flat_map(|a| a * frames + 1..((a + 1) * frames).saturating_sub(1)) {
            self.input += bend(&truth, t);
            self.output += bend(&posed, t);
        }
    }

    fn ratio(&self) -> Option<f64> {
        (self.input > 0.0).then(|| (self.output / self.input).sqrt())
    }
}
