//! A file for each body, read back and measured.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use bonesmith_core::fit::{FitInfo, Warning};
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{Clip, Rig};
use bonesmith_io::file_bytes;
use serde_json::{Value, json};

use super::clips::Body;
use super::plan::Plan;
use crate::memory::Memory;
use crate::pipeline;
use crate::session::Session;
use crate::settings::ReportTarget;
use crate::summary::{ClipPart, FitPart, Seconds, Summary, influence_warning};

/// What the stages before took.
pub struct Timed {
    pub load: f64,
    pub fit_wall: f64,
    pub memory: Option<Memory>,
}

/// Writes all rigs; the summary is that of the first, with the others in short. Beside it: whether reports could be written.
#[allow(clippy::too_many_arguments, reason = "called once, and each is plain")]
pub fn export(
    plan: &Plan,
    given: Option<&Rig>,
    rigs: Vec<Rig>,
    bodies: &[Body],
    info: FitInfo,
    timed: Timed,
    mut warnings: Vec<Warning>,
    session: &mut Session,
) -> anyhow::Result<(Summary, anyhow::Result<()>)> {
    session.stage("writing")?;
    let started = Instant::now();
    let params = match given {
        Some(_) => json!(plan.refit),
        None => json!(plan.fit),
    };
    let (mut outputs, targets): (Vec<_>, Vec<_>) = plan.outputs().into_iter().unzip();
    for ((mut rig, body), output) in rigs.into_iter().zip(bodies).zip(&outputs) {
        let clip = rig.clips.remove(0);
        rig.clips = split(&clip, body, rig.bone_count());
        carry_over(&mut rig, given.filter(|_| !body.own_rest), body);
        rig.params_json = json!({ "version": env!("CARGO_PKG_VERSION"), "fit": params }).to_string();
        session.heed(|| bonesmith_io::save_rig(&rig, output))?;
        warnings.extend(influence_warning(&rig, output));
    }
    let export = started.elapsed().as_secs_f64();
    session.stage("measuring the file")?;
    let started = Instant::now();
    let measured = outputs.iter().zip(bodies).map(|(output, body)| measure(output, body));
    let (mut summaries, exported): (Vec<Summary>, Vec<Rig>) =
        measured.collect::<anyhow::Result<Vec<_>>>()?.into_iter().unzip();
    let subjects: Vec<Value> = summaries.iter().zip(&outputs).skip(1).map(|(s, output)| in_short(s, output)).collect();
    let mut summary = summaries.remove(0);
    summary.subjects = subjects;
    summary.seconds = Seconds {
        load: timed.load,
        prepare: info.prepare_secs,
        fit: info.fit_secs,
        export,
        total: timed.load + timed.fit_wall + export,
        evaluate: started.elapsed().as_secs_f64(),
    };
    for (shown, output) in summary.subjects.iter().zip(&outputs[1..]) {
        let text = format!("{}: E_RMS {}", output.display(), shown["e_rms"]);
        summary.notes.push(text);
    }
    summary.warnings = warnings;
    let output = outputs.swap_remove(0);
    let file_bytes = file_bytes(&output);
    let method = plan.fit.method.name();
    let memory = timed.memory;
    summary.fit = Some(FitPart { params, method, info, skeleton: None, memory, output, file_bytes });
    let all = std::iter::once(&mut summary).chain(&mut summaries).zip(&exported).zip(bodies);
    let pages = write_reports(targets, all, session).map(|written| summary.notes.extend(written));
    session.finish_progress();
    Ok((summary, pages))
}

/// A report for each body, named as its rig.
fn write_reports<'a>(
    targets: Vec<Option<ReportTarget>>,
    all: impl Iterator<Item = ((&'a mut Summary, &'a Rig), &'a Body)>,
    session: &mut Session,
) -> anyhow::Result<Vec<String>> {
    let mut written = Vec::new();
    for (((summary, rig), body), target) in all.zip(targets) {
        let Some(target) = target else { continue };
        pipeline::report("fit", summary, rig.into(), &body.sequence, &target, session)?;
        written.extend(summary.notes.pop());
    }
    Ok(written)
}

/// One clip of all frames as the clips that it was joined from.
fn split(whole: &Clip, body: &Body, bones: usize) -> Vec<Clip> {
    let part = |span: &bonesmith_core::mesh::sequence::Span| Clip {
        name: span.name.clone(),
        times_secs: span.times_secs.clone(),
        posed_from_rest: whole.posed_from_rest[span.frames.start * bones..span.frames.end * bones].to_vec(),
    };
    body.spans.iter().map(part).collect()
}

/// Animations of the rig that were not fitted stay, so that the file can replace the old one; helpers go with their
/// parents there. A single frame is a pose, not an animation.
fn carry_over(rig: &mut Rig, given: Option<&Rig>, body: &Body) {
    let Some(given) = given else { return };
    let before = given.bone_count();
    for clip in given.clips.iter().filter(|clip| clip.frame_count() > 1 && !body.used.contains(&clip.name)) {
        if rig.clips.iter().any(|fitted| fitted.name == clip.name) {
            continue;
        }
        let frame = |t: usize| {
            let pose = clip.frame(t);
            let helper = |j: usize| pose[rig.bones[j].parent.filter(|p| *p < before).unwrap_or(0)];
            (0..rig.bone_count()).map(move |j| if j < before { pose[j] } else { helper(j) }).collect::<Vec<_>>()
        };
        let posed_from_rest = (0..clip.frame_count()).flat_map(frame).collect();
        let times_secs = clip.times_secs.clone();
        rig.clips.push(Clip { name: clip.name.clone(), times_secs, posed_from_rest });
    }
}

/// The figures of a file over all clips, and of each where there are several.
fn measure(output: &Path, body: &Body) -> anyhow::Result<(Summary, Rig)> {
    let exported = bonesmith_io::load_rig(output).context("reading back what was written")?;
    let lengths = body.spans.iter().map(|span| span.frames.len());
    if !exported.clips.iter().map(Clip::frame_count).take(body.spans.len()).eq(lengths) {
        anyhow::bail!("{}: the clips that were written are not those that are read back", output.display());
    }
    let spans: Vec<usize> = (0..body.spans.len()).collect();
    let metrics = metrics::evaluate_clips(&exported, &spans, &body.sequence).context("measuring what was written")?;
    let clips = if body.spans.len() > 1 { clip_parts(&metrics, body) } else { Vec::new() };
    let mut summary = Summary::new(&exported, &body.sequence, metrics);
    summary.clips = clips;
    Ok((summary, exported))
}

fn clip_parts(metrics: &Metrics, body: &Body) -> Vec<ClipPart> {
    let part = |span: &bonesmith_core::mesh::sequence::Span| {
        let frames = &metrics.per_frame[span.frames.clone()];
        let mean = frames.iter().map(|e| e * e).sum::<f64>() / frames.len() as f64;
        let worst = frames.iter().copied().fold(0.0, f64::max);
        ClipPart { name: span.name.clone(), frames: frames.len(), e_rms: mean.sqrt(), worst_frame: worst }
    };
    body.spans.iter().map(part).collect()
}

fn in_short(summary: &Summary, output: &Path) -> Value {
    json!({
        "name": summary.name,
        "output": output.to_string_lossy(),
        "frames": summary.frames,
        "e_rms": summary.metrics.e_rms,
        "max_error": summary.metrics.max_error,
        "clips": summary.clips,
    })
}
