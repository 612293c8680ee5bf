//! From a mesh animation to bones, weights and motion.

mod bones;
mod init;
mod local;
mod model;
mod params;
mod problem;
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
    let coarse_n = env("CV", 2000.0) as usize;
    let coarse_f = env("CF", 64.0) as usize;
    let stride = (n / coarse_n).max(1);
    let fstride = sequence.frame_count().div_ceil(coarse_f);
    let cv: Vec<u32> = (0..n as u32).step_by(stride).collect();
    let cf: Vec<u32> = (0..sequence.frame_count() as u32).step_by(fstride).collect();
    let all_frames: Vec<u32> = (0..sequence.frame_count() as u32).collect();
    let coarse = problem.subset(sequence, &cv, &cf);
    tick("subset", &mut t0);
    let (mut motion, labels) = init::split(&coarse, count);
    tick("split", &mut t0);
    let slots = params.influences.unwrap_or(count);
    let local = local::LocalParams {
        slots,
        newcomers: env("NEW", 2.0) as usize,
        move_rest: !params.keep_rest,
        rounds: env("ROUNDS", 1.0) as usize,
    };
    let sweeps = env("SWEEPS", 3.0) as usize;
    let mut model = bones::BoneModel::new(params.bone_kind, count, sweeps);
    let mut skin = model::Skin::rigid(slots, &labels, coarse.rest.clone());
    let mut history = Vec::new();
    for it in 0..env("CI", 20.0) as usize {
        let mut moments = vertices::pass(&coarse, &motion, &mut skin, Some(local));
        tick("coarse vertices", &mut t0);
        if it == 0 && params.bone_kind == BoneKind::Trs {
            model.axes = bones::principal_axes(&moments, count);
        }
        let gain = bones::update(&mut motion, &mut moments, &model);
        tick("coarse bones", &mut t0);
        history.push(coarse.e_rms(moments.squared_error - gain));
    }
    if env("VERBOSE", 0.0) > 0.0 {
        eprintln!("coarse {:?}", history.iter().map(|x| (x * 1000.0).round() / 1000.0).collect::<Vec<_>>());
    }
    // all frames for coarse vertices
    if fstride > 1 {
        let mid = problem.subset(sequence, &cv, &all_frames);
        let mut wide = model::Motion::identity(count, mid.frames);
        for j in 0..count {
            for t in 0..mid.frames {
                wide.set(j, t, &motion.get(j, (t / fstride).min(cf.len() - 1)));
            }
        }
        motion = wide;
        let many = bones::BoneModel { sweeps: 10, ..model.clone() };
        let mut moments = vertices::pass(&mid, &motion, &mut skin, None);
        bones::update(&mut motion, &mut moments, &many);
        tick("all frames", &mut t0);
    }
    let mut skin = {
        let mut full = model::Skin::rigid(slots, &vec![0u16; n], problem.rest.clone());
        // vertices of the coarse set keep what they have
        for (at, &i) in cv.iter().enumerate() {
            full.rest[i as usize] = skin.rest[at];
            for k in 0..slots {
                full.bones[i as usize * slots + k] = skin.bones[at * slots + k];
                full.weights[i as usize * slots + k] = skin.weights[at * slots + k];
            }
        }
        if stride > 1 {
            let mut one = model::Skin::rigid(1, &vec![0u16; n], problem.rest.clone());
            let p1 = local::LocalParams { slots: 1, newcomers: 0, move_rest: false, rounds: 0 };
            vertices::pass(&problem, &motion, &mut one, Some(p1));
            for i in 0..n {
                if i % stride != 0 {
                    full.bones[i * slots] = one.bones[i];
                }
            }
        }
        full
    };
    tick("upsample", &mut t0);
    let mut fine_history = Vec::new();
    for it in 0..env("FI", 8.0) as usize {
        let lp = local::LocalParams { newcomers: if it == 0 { local.newcomers.max(3) } else { local.newcomers }, ..local };
        let mut moments = vertices::pass(&problem, &motion, &mut skin, Some(lp));
        tick("fine vertices", &mut t0);
        let gain = bones::update(&mut motion, &mut moments, &model);
        tick("fine bones", &mut t0);
        fine_history.push(problem.e_rms(moments.squared_error - gain));
    }
    if env("VERBOSE", 0.0) > 0.0 {
        eprintln!("fine {:?}", fine_history.iter().map(|x| (x * 1000.0).round() / 1000.0).collect::<Vec<_>>());
    }
    let mut weights = SparseWeights::new(n, slots);
    for i in 0..n {
        weights.set(i, &skin.of(i).collect::<Vec<_>>());
    }
    let sphere = problem.sphere;
    let rest = skin.rest.iter().map(|p| (*p * sphere.radius + sphere.center).as_vec3()).collect();
    let mut posed_from_rest = Vec::new();
    for t in 0..motion.frames {
        for j in 0..count {
            let m = motion.get(j, t);
            let linear = DMat3::from_cols_array_2d(&std::array::from_fn(|c| std::array::from_fn(|a| m[a][c])));
            let translation = DVec3::new(m[0][3], m[1][3], m[2][3]) * sphere.radius + sphere.center - linear * sphere.center;
            posed_from_rest.push(DAffine3 { matrix3: linear, translation });
        }
    }
    let fit_secs = start.elapsed().as_secs_f64() - prepare_secs;
    history.extend(fine_history);
    let rig = Rig {
        name: sequence.name().to_owned(),
        rest,
        surface: sequence.surface().clone(),
        weights,
        bones: (0..count)
            .map(|j| Bone { name: format!("bone_{j:03}"), parent: None, world_from_bind: DAffine3::IDENTITY })
            .collect(),
        kind: params.bone_kind,
        clips: vec![Clip { name: sequence.name().to_owned(), times_secs: sequence.times_secs().to_vec(), posed_from_rest }],
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
