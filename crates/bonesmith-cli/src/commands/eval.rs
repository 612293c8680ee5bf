//! `bonesmith eval`: how far a rig is from an animation.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use bonesmith_core::{Basis, deform, metrics};
#[cfg(feature = "gpu")]
use bonesmith_core::{Clip, DdmRig, Rig, TwoLayerRig};
use bonesmith_report::Shape;

use crate::args::EvalArgs;
use crate::errors::{Outcome, Usage};
use crate::models::{find_clip, place};
use crate::session::Session;
use crate::settings::JsonTarget;
use crate::summary::Summary;
use crate::{load, reports, settings};

pub fn run(args: EvalArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let rig_input = settings::input(vec![args.rig], Default::default())?;
    let input = settings::input(args.inputs, args.input)?;
    let json = settings::json(args.json)?;
    let others: Vec<_> = input.paths.iter().chain(&rig_input.paths).cloned().collect();
    let report = settings::report(&args.report, &others, json.as_ref())?;

    session.stage("reading")?;
    let started = Instant::now();
    let path = &rig_input.paths[0];
    if let Some(basis) = bonesmith_io::load_basis(path)? {
        return eval_basis(&basis, path, &input, json.as_ref(), report.as_ref(), started, session);
    }
    let two = session.heed(|| bonesmith_io::load_two_layer(path))?;
    let ddm = session.heed(|| bonesmith_io::load_ddm(path))?;
    let shaped = match two.is_none() && ddm.is_none() {
        true => session.heed(|| bonesmith_io::load_shaped(path))?,
        false => None,
    };
    // Master bones carry the clips; a rig with one layer is itself.
    let rig = match (&two, &ddm, &shaped) {
        (Some(two), ..) => two.master.clone(),
        (None, Some(ddm), _) => ddm.rig.clone(),
        (None, None, Some(shaped)) => shaped.rig.clone(),
        (None, None, None) => session.heed(|| bonesmith_io::load_rig(path))?,
    };
    let clip = find_clip(&rig, args.clip.as_deref())?;
    let sequence = load::animation(&input, session)?;
    let load_secs = started.elapsed().as_secs_f64();

    session.stage("measuring")?;
    let started = Instant::now();
    let single = metrics::evaluate_clip(&rig, clip, &sequence)
        .with_context(|| format!("{} cannot be compared", path.display()))?;
    #[cfg(feature = "gpu")]
    let on_gpu = match args.gpu {
        true => Some(pose_on_gpu(&rig, two.as_ref(), ddm.as_ref(), clip)?),
        false => None,
    };
    #[cfg(not(feature = "gpu"))]
    let on_gpu: Option<(Vec<Vec<glam::Vec3>>, String)> = None;
    let metrics = match (&two, &ddm) {
        _ if let Some((posed, _)) = &on_gpu => metrics::compare(&sequence, |t| posed[t].clone()),
        (Some(two), _) => metrics::compare(&sequence, |t| deform::two_layer(two, clip.frame(t))),
        (None, Some(ddm)) => metrics::compare(&sequence, |t| bonesmith_core::deform::ddm_f64(ddm, clip.frame(t))),
        (None, None) => single,
    };
    let mut summary = Summary::new(&rig, &sequence, metrics);
    if let Some(two) = &two {
        summary.influences = two.weights.max_influences();
        let cost = crate::output::figure(two.blends_per_vertex());
        summary.layers = Some(format!("{} virtual bones, {cost} blends per vertex", two.virtual_count()));
    }
    if let Some(ddm) = &ddm {
        summary.influences = ddm.layer.as_ref().unwrap_or(&ddm.rig.weights).max_influences();
        summary.layers = Some(match ddm.virtual_count() {
            0 => format!("Direct Delta Mush, variant {}", u8::from(ddm.variant)),
            count => format!("Direct Delta Mush, {count} virtual bones"),
        });
    }
    if let Some(shaped) = &shaped {
        summary.add_shapes(shaped, place(&rig, clip), &sequence)?;
        if on_gpu.is_some() {
            return Err(Usage::new("--gpu: corrective shapes are posed by the CPU only").into());
        }
    }
    summary.gpu = on_gpu.map(|(_, name)| name);
    summary.seconds.load = load_secs;
    summary.seconds.evaluate = started.elapsed().as_secs_f64();
    summary.seconds.total = load_secs + summary.seconds.evaluate;
    session.finish_progress();
    // The table is what was asked for: --quiet only silences the progress.
    super::report(&summary, json.as_ref(), true, session)?;
    if let Some(target) = &report {
        let shape = match (&two, &ddm, &shaped) {
            (Some(two), ..) => Shape::TwoLayer(two),
            (None, Some(ddm), _) => Shape::Ddm(ddm),
            (None, None, Some(shaped)) => Shape::Shaped(shaped),
            (None, None, None) => Shape::Lbs(&rig),
        };
        // Shapes go by the clip's place in the rig that is shown.
        let clip = shaped.as_ref().map_or(clip, |shaped| &shaped.rig.clips[place(&rig, clip)]);
        let name = reports::file_name(path);
        let scene = reports::of_summary("eval", &name, &summary, shape, vec![clip], &sequence);
        reports::write_and_tell(&scene, target, json.as_ref(), session)?;
    }
    Ok(Outcome::Done)
}

/// A basis of trajectories, which has no bones.
fn eval_basis(
    basis: &Basis,
    path: &Path,
    input: &settings::Input,
    json: Option<&JsonTarget>,
    report: Option<&settings::ReportTarget>,
    started: Instant,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    let sequence = load::animation(input, session)?;
    let load_secs = started.elapsed().as_secs_f64();
    session.stage("measuring")?;
    let metrics = bonesmith_core::metrics::evaluate_basis(basis, &sequence).context("they cannot be compared")?;
    let mut summary = super::basis::summary(basis, &sequence, metrics);
    summary.seconds.load = load_secs;
    summary.seconds.total = started.elapsed().as_secs_f64();
    summary.seconds.evaluate = summary.seconds.total - load_secs;
    session.finish_progress();
    super::report(&summary, json, true, session)?;
    if let Some(target) = report {
        let name = reports::file_name(path);
        let scene = reports::of_summary("eval", &name, &summary, Shape::Basis(basis), Vec::new(), &sequence);
        reports::write_and_tell(&scene, target, json, session)?;
    }
    Ok(Outcome::Done)
}

/// [F, N] posed vertices, and who made them.
#[cfg(feature = "gpu")]
fn pose_on_gpu(
    rig: &Rig,
    two: Option<&TwoLayerRig>,
    ddm: Option<&DdmRig>,
    clip: &Clip,
) -> anyhow::Result<(Vec<Vec<glam::Vec3>>, String)> {
    let gpu = super::gpu::open(None)?;
    let model = super::gpu::upload(&gpu, rig, two, ddm)?;
    Ok((super::gpu::poses(&model, clip)?, super::gpu::name(&gpu)))
}
