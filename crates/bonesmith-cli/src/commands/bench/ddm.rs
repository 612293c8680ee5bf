//! `bonesmith bench ddm`: size, speed and error of Direct Delta Mush, its variants and its compression.

use std::hint::black_box;
use std::time::Instant;

use bonesmith_core::ddm::compress::{DdmCompressInfo, DdmCompressParams, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute, rigid_bind};
use bonesmith_core::deform::{DdmDeformer, lbs_f32_into};
use bonesmith_core::deform::{Posed, ddm_f64};
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::{Clip, DdmRig, Rig};
use glam::Vec3;
use serde_json::{Value, json};

use super::report::show;
use crate::args::BenchDdmArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, write_json};
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;

/// Passes over all frames; of each frame the fastest counts, since others on the machine only ever slow one down.
const PASSES: usize = 15;

pub fn run(args: BenchDdmArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json.clone())?;
    let input = settings::input(args.rigs.clone(), Default::default())?;
    let about = format!(
        "Version {}. Rigid bind, default parameters. Nanoseconds per vertex and frame, on {} thread(s).",
        env!("CARGO_PKG_VERSION"),
        rayon::current_num_threads()
    );
    let mut sheets: Vec<Sheet> = Vec::new();
    let mut all = Vec::new();
    for path in &input.paths {
        let rig = bonesmith_io::load_rig(path)?;
        if rig.clips.iter().all(|clip| clip.frame_count() == 0) {
            return Err(Usage::new(format!("{}: the rig has no animation", path.display())).into());
        }
        if !session.quiet {
            crate::output::emit(&rig.name);
        }
        let (rig, poses) = split(rig, args.hold_out.as_deref())?;
        let (mut sheet, value) = measure(&rig, &poses, &args, session)?;
        if sheets.is_empty() {
            sheet.remark = format!("{about}\n\n{}", sheet.remark);
        }
        sheets.push(sheet);
        all.push(value);
    }
    if let Some(target) = &json_target {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "rigs": all }))?;
    }
    show(sheets, json_target.as_ref(), session)?;
    Ok(Outcome::Done)
}

/// Poses of one frame: [B] posed_from_rest.
type Pose = Vec<glam::DAffine3>;

/// The rig to compress and the poses to measure it in: all clips, or the one that the rig is then without.
fn split(mut rig: Rig, hold_out: Option<&str>) -> anyhow::Result<(Rig, Vec<Pose>)> {
    let poses = |clip: &Clip| (0..clip.frame_count()).map(|t| clip.frame(t).to_vec()).collect::<Vec<_>>();
    let Some(name) = hold_out else {
        let all = rig.clips.iter().flat_map(poses).collect();
        return Ok((rig, all));
    };
    let names = || rig.clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>().join(", ");
    let at = rig.clips.iter().position(|clip| clip.name == name).ok_or_else(|| {
        Usage::new(format!("--hold-out {name}: {} has no animation of this name, but {}", rig.name, names()))
    })?;
    let held = rig.clips.remove(at);
    Ok((rig, poses(&held)))
}

fn measure(given: &Rig, poses: &[Pose], args: &BenchDdmArgs, session: &mut Session) -> anyhow::Result<(Sheet, Value)> {
    let started = Instant::now();
    let full = precompute(&rigid_bind(given), &DdmParams::default(), &DdmMaps::default(), session)?;
    let precompute_secs = started.elapsed().as_secs_f64();
    let n = full.vertex_count();
    let truth: Vec<Vec<Vec3>> = poses.iter().map(|pose| ddm_f64(&full, pose)).collect();
    let per_vertex = full.weights.influences() as f64 / n as f64;
    let remark = format!(
        "**{}**: {n} vertices, {} bones, {} frames; {per_vertex:.2} multi-weights per vertex, precomputed in {precompute_secs:.2} s.",
        given.name,
        given.bone_count(),
        truth.len()
    );
    let header = [
        "model",
        "size",
        "of variant 0",
        "ns per vertex",
        "faster than variant 0",
        "RMS % of height",
        "max %",
        "made in s",
    ];
    let mut sheet = Sheet::new(remark, &header);
    let mut rows = Vec::new();
    let base = full.bytes();
    let reference = nanoseconds(&full, poses);
    let mut row = |name: String, size: usize, speed: f64, off: (f64, f64), secs: Option<f64>| {
        let (ratio, faster) = (base as f64 / size as f64, reference / speed);
        let made = secs.map_or(String::new(), |secs| format!("{secs:.1}"));
        sheet.row(vec![
            name.clone(),
            bytes(size as u64),
            format!("{ratio:.1} x smaller"),
            format!("{speed:.1}"),
            format!("{faster:.1} x"),
            format!("{:.3}", off.0),
            format!("{:.2}", off.1),
            made,
        ]);
        rows.push(json!({ "model": name, "bytes": size, "ratio": ratio, "ns_per_vertex": speed, "faster": faster,
            "rms_percent": off.0, "max_percent": off.1, "seconds": secs }));
    };
    for variant in Variant::ALL {
        let rig = full.with_variant(variant);
        row(
            format!("variant {}", u8::from(variant)),
            rig.bytes(),
            nanoseconds(&rig, poses),
            off(&rig, poses, &truth),
            None,
        );
    }
    for &virtual_bones in &args.virtual_bones {
        let started = Instant::now();
        let params =
            DdmCompressParams { virtual_bones, real_poses: !args.no_real_poses, ..DdmCompressParams::default() };
        let (small, info) = compress(&full, &params, session)?;
        let secs = started.elapsed().as_secs_f64();
        let speed = nanoseconds(&small, poses);
        row(name(&small, &info), small.bytes(), speed, off(&small, poses, &truth), Some(secs));
    }
    let lbs = linear_blending(given, &full, poses);
    let used: usize = (0..n).map(|i| given.weights.of(i).count()).sum();
    let posed = |pose: &Pose| bonesmith_core::deform::lbs(&given.rest, &given.weights, pose);
    let plain = distance(&truth, given, poses.iter().map(posed));
    row("linear blending, given weights".into(), 4 * (n + 1) + 6 * used, lbs, plain, None);
    Ok((sheet, json!({ "name": given.name, "vertices": n, "precompute_secs": precompute_secs, "rows": rows })))
}

fn name(small: &DdmRig, info: &DdmCompressInfo) -> String {
    let falls = info.history.windows(2).all(|pair| pair[1].error <= pair[0].error);
    let layer = small.layer.as_ref();
    let used: usize = layer.map_or(0, |layer| (0..layer.vertex_count()).map(|i| layer.of(i).count()).sum());
    format!(
        "compressed, {} virtual bones, {:.1} per vertex{}",
        small.virtual_count(),
        used as f64 / small.vertex_count() as f64,
        if falls { "" } else { ", E rose" }
    )
}

/// Root mean square and largest distance in percent of the height.
fn off(rig: &DdmRig, poses: &[Pose], truth: &[Vec<Vec3>]) -> (f64, f64) {
    distance(truth, &rig.rig, poses.iter().map(|pose| bonesmith_core::deform::ddm(rig, pose)))
}

fn distance(truth: &[Vec<Vec3>], rig: &Rig, made: impl Iterator<Item = Vec<Vec3>>) -> (f64, f64) {
    let low = rig.rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rig.rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    let percent = 100.0 / f64::from((high - low).max_element());
    let (mut sum, mut most, mut count) = (0.0, 0.0f64, 0usize);
    for (truth, made) in truth.iter().zip(made) {
        for (a, b) in truth.iter().zip(&made) {
            let squared = a.as_dvec3().distance_squared(b.as_dvec3());
            sum += squared;
            most = most.max(squared);
        }
        count += truth.len();
    }
    (percent * (sum / count.max(1) as f64).sqrt(), percent * most.sqrt())
}

/// Nanoseconds per vertex and frame.
fn nanoseconds(rig: &DdmRig, poses: &[Pose]) -> f64 {
    let mut deformer = DdmDeformer::new(rig);
    let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
    best(rig, poses, |pose| {
        deformer.pose_into(pose, &mut posed);
        black_box(&posed);
    })
}

fn linear_blending(given: &Rig, full: &DdmRig, poses: &[Pose]) -> f64 {
    let rest: Vec<[f32; 3]> = given.rest.iter().map(|p| (p.as_dvec3() - full.origin).as_vec3().to_array()).collect();
    let mut posed = vec![Vec3::ZERO; given.vertex_count()];
    best(full, poses, |pose| {
        let local = Posed::new(pose, full.origin);
        lbs_f32_into(&rest, &given.weights, &local.bones, &mut posed);
        posed.iter_mut().for_each(|p| *p = (p.as_dvec3() + local.posed_origin).as_vec3());
        black_box(&posed);
    })
}

/// Sum over the frames of each one's fastest pass, per vertex and frame.
fn best(rig: &DdmRig, poses: &[Pose], mut frame: impl FnMut(&[glam::DAffine3])) -> f64 {
    let mut least = vec![f64::INFINITY; poses.len()];
    for _ in 0..PASSES {
        for (least, pose) in least.iter_mut().zip(poses) {
            let started = Instant::now();
            frame(pose);
            *least = least.min(started.elapsed().as_secs_f64());
        }
    }
    1e9 * least.iter().sum::<f64>() / (least.len() * rig.vertex_count()).max(1) as f64
}
