//! From a mesh animation to bones, weights and motion.

mod bones;
mod descend;
mod init;
mod levels;
mod local;
mod model;
mod params;
mod problem;
mod replant;
mod vertices;

use glam::{DAffine3, DMat3, DVec3};

use crate::observer::Observer;
use crate::rig::{Bone, BoneKind, Clip, Rig};
use crate::sequence::MeshSequence;
use crate::weights::SparseWeights;

pub use params::*;

/// A fitted rig and how it came about.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The rig.
    pub rig: Rig,
    /// How it came about.
    pub info: FitInfo,
}

fn env(name: &str, default: f64) -> f64 {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

/// Fits bones, weights and bone motion to a mesh animation.
pub fn fit(sequence: &MeshSequence, params: &FitParams, observer: &mut dyn Observer) -> Result<Fitted, FitError> {
    params.validate()?;
    let _ = observer;
    let n = sequence.vertex_count();
    let count = match params.bones {
        BoneCount::Exact(b) if (1..=n).contains(&b) => b,
        BoneCount::Exact(b) => return Err(FitError::BoneCount { bones: b, limit: n, vertices: n }),
        _ => 20.min(n),
    };
    let start = std::time::Instant::now();
    let problem = problem::Problem::new(sequence);
    let prepare_secs = start.elapsed().as_secs_f64();
    let mut prof = std::collections::BTreeMap::new();
    let mut t0 = std::time::Instant::now();
    let mut tick = |name: &'static str, t0: &mut std::time::Instant| {
        *prof.entry(name).or_insert(0.0) += t0.elapsed().as_secs_f64();
        *t0 = std::time::Instant::now();
    };
    let sample = levels::Sample::new(&problem, env("CV", 1000.0) as usize, env("CF", 64.0) as usize);
    let coarse = sample.problem(&problem, sequence);
    tick("subset", &mut t0);
    let (motion, labels) = init::split(&coarse, ((count as f64 * env("START", 1.0)) as usize).max(1).min(count));
    tick("split", &mut t0);
    let slots = params.influences.unwrap_or(count);
    let local = local::LocalParams {
        slots,
        newcomers: env("NEW", 1.0) as usize,
        min_gain: env("MG", 1e-2),
        move_rest: !params.keep_rest,
        rounds: env("ROUNDS", 2.0) as usize,
    };
    let mut state = descend::State::from_clusters(&coarse, motion, &labels, slots, params.bone_kind);
    state.model.sweeps = env("SWEEPS", 3.0) as usize;
    let mut history = Vec::new();
    let mut descent = descend::Descent::new(&coarse, local);
    descent.rounds(&mut state, env("CI", 8.0) as usize);
    history.push(descent.e_rms());
    tick("coarse descent", &mut t0);
    let cycles = env("CYCLES", 4.0) as usize;
    let settle = env("SETTLE", 3.0) as usize;
    let patch = ((coarse.vertices() as f64 / count as f64 * env("PATCH", 0.5)) as usize).max(4);
    let mut kept = (descent.squared_error, state.clone());
    for cycle in 0..cycles {
        let more = ((count as f64 * env("MORE", 0.25)).ceil() as usize).max(1);
        let errors = &descent.moments.as_ref().unwrap().per_vertex;
        state.motion = replant::plant(&coarse, &state.motion, errors, count + more - state.motion.bones, patch);
        state.model.axes.resize(state.motion.bones, DMat3::IDENTITY);
        descent.restart();
        tick("plant", &mut t0);
        descent.rounds(&mut state, settle);
        while state.motion.bones > count {
            tick("coarse descent", &mut t0);
            let costs = vertices::removal_costs(&coarse, &state.motion, &state.skin, local);
            let excess = state.motion.bones - count;
            let second = &descent.moments.as_ref().unwrap().second;
            let gone = replant::least_useful(&costs, second, ((excess as f64) * env("RB", 0.5)).ceil() as usize);
            state.motion = replant::remove(&state.motion, &mut state.skin, &gone);
            let mut at = 0;
            state.model.axes.retain(|_| {
                at += 1;
                !gone.contains(&(at - 1))
            });
            descent.restart();
            tick("remove", &mut t0);
            let rounds = if state.motion.bones > count { 1 } else { settle };
            descent.rounds(&mut state, rounds);
        }
        tick("coarse descent", &mut t0);
        history.push(descent.e_rms());
        if descent.squared_error < kept.0 {
            kept = (descent.squared_error, state.clone());
        }
        if env("VERBOSE", 0.0) > 1.0 {
            eprintln!("cycle {cycle} {:.3}", history.last().unwrap());
        }
    }
    state = kept.1;
    descent.rounds(&mut state, env("CI2", 0.0) as usize);
    tick("coarse descent", &mut t0);
    sample.all_frames(&problem, sequence, &mut state);
    tick("all frames", &mut t0);
    state.skin = sample.all_vertices(&problem, &state.skin);
    tick("upsample", &mut t0);
    let mut descent = descend::Descent::new(&problem, local::LocalParams { newcomers: 2, ..local });
    for _ in 0..env("FI", 6.0) as usize {
        descent.round(&mut state);
        history.push(descent.e_rms());
    }
    descent.settle(&mut state);
    tick("fine descent", &mut t0);
    if env("VERBOSE", 0.0) > 0.0 {
        eprintln!("{:?}", history.iter().map(|x| (x * 1000.0).round() / 1000.0).collect::<Vec<_>>());
    }
    let descend::State { motion, skin, .. } = state;
    let mut weights = SparseWeights::new(n, slots);
    for i in 0..n {
        weights.set(i, &skin.of(i).collect::<Vec<_>>());
    }
    let sphere = problem.sphere;
    let rest = skin.rest.iter().map(|p| (*p * sphere.radius + sphere.center).as_vec3()).collect();
    let mut posed_from_rest = Vec::new();
    for t in 0..motion.frames() {
        for j in 0..count {
            let m = motion.get(j, t);
            let linear = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|a| m[a][c])));
            let translation =
                DVec3::new(m[0][3], m[1][3], m[2][3]) * sphere.radius + sphere.center - linear * sphere.center;
            posed_from_rest.push(DAffine3 { matrix3: linear, translation });
        }
    }
    let fit_secs = start.elapsed().as_secs_f64() - prepare_secs;
    let rig = Rig {
        name: sequence.name().to_owned(),
        rest,
        surface: sequence.surface().clone(),
        weights,
        bones: (0..count)
            .map(|j| Bone { name: format!("bone_{j:03}"), parent: None, world_from_bind: DAffine3::IDENTITY })
            .collect(),
        kind: params.bone_kind,
        clips: vec![Clip {
            name: sequence.name().to_owned(),
            times_secs: sequence.times_secs().to_vec(),
            posed_from_rest,
        }],
        params_json: String::new(),
    };
    let info = FitInfo {
        iterations: history.len(),
        history,
        stop: StopReason::Converged,
        warnings: Vec::new(),
        prepare_secs,
        fit_secs,
        jitter_ratio: None,
        profile: prof.into_iter().collect(),
    };
    Ok(Fitted { rig, info })
}
