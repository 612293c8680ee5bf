//! What commands found out, as a report.

use std::path::Path;

use bonesmith_core::{MeshSequence, ModelRef, Rig};
use bonesmith_io::file_bytes;
use bonesmith_report::{
    ClipSpan, Done, Figure, Iteration, ReportError, Scene, StorageRow, Subject, Timing, explain, params, render,
};
use serde_json::{Value, json};

use crate::commands::simplify;
use crate::errors::Usage;
use crate::output::{bytes, count, figure, print};
use crate::session::Session;
use crate::settings::{JsonTarget, ReportTarget};
use crate::summary::{Seconds, Summary};

/// Writes the report, and says in words what was written.
pub fn write(scene: &Scene, target: &ReportTarget) -> anyhow::Result<String> {
    let scene = Scene { command_line: Some(command_line()), ..scene.clone() };
    let page = render(&scene, target.max_bytes).map_err(|error| match error {
        ReportError::TooLarge { needed, .. } => Usage::new(format!("{}: {error}", target.path.display()))
            .hint(format!("--report-max-mb {} is enough for one frame", (needed as f64 / 1e6).ceil())),
    })?;
    bonesmith_io::write_whole(&target.path, page.html.as_bytes())?;
    let left_out = match page.kept_every {
        1 => String::new(),
        every => format!(", one frame in {every}"),
    };
    Ok(format!("{}, {}{left_out}", target.path.display(), bytes(page.html.len() as u64)))
}

/// The command as it was typed, its words quoted where a shell needs that.
fn command_line() -> String {
    let quoted = |word: String| match word.is_empty()
        || word.contains(|c: char| !(c.is_alphanumeric() || "-_./=:,+@%".contains(c)))
    {
        true => format!("'{}'", word.replace('\'', "'\\''")),
        false => word,
    };
    let words = std::env::args_os().skip(1).map(|word| quoted(word.to_string_lossy().into_owned()));
    std::iter::once("bonesmith".to_owned()).chain(words).collect::<Vec<_>>().join(" ")
}

/// Writes the report and prints what was written, unless that would be in the way.
pub fn write_and_tell(
    scene: &Scene,
    target: &ReportTarget,
    json: Option<&JsonTarget>,
    session: &Session,
) -> anyhow::Result<()> {
    let written = write(scene, target)?;
    match session.quiet || json == Some(&JsonTarget::Stdout) {
        true => Ok(()),
        false => print(&format!("  written  {written}\n")),
    }
}

/// The report of a fit of one clip or several, or of a measurement, on the file `name`.
pub fn of_summary<'a>(
    command: &str,
    name: &str,
    summary: &'a Summary,
    model: ModelRef<'a>,
    clips: Vec<usize>,
    sequence: &'a MeshSequence,
) -> Scene<'a> {
    let fit = summary.fit.as_ref();
    let mut subject = Subject { metrics: Some(&summary.metrics), ..Subject::new(name, model, clips) };
    subject.timings = timings(&summary.seconds);
    subject.warnings = summary.warnings.iter().map(explain).collect();
    if let Some(fit) = fit {
        subject.timings.extend(fit.info.profile.iter().map(|(part, secs)| timing(&format!("fit: {part}"), *secs)));
        let round = |(at, round): (usize, &bonesmith_core::fit::Round)| Iteration {
            iteration: at + 1,
            error: round.e_rms,
            stage: format!("{}, {}", round.stage, count(round.bones, "bone")),
        };
        subject.iterations = Some(fit.info.history.iter().enumerate().map(round).collect());
        subject.storage.push(StorageRow::new(format!("file {name}"), fit.file_bytes));
        if let Some(ratio) = fit.info.jitter_ratio {
            let meaning = "Mean second difference of the model over that of the original: 1 is as smooth in time.";
            subject.figures.push(Figure::new("jitter", ratio, "", meaning));
        }
    }
    let clips = summary.clips.iter().map(|clip| ClipSpan { name: clip.name.clone(), count: clip.frames }).collect();
    Scene {
        title: match fit {
            Some(_) => format!("{} → {name}", summary.name),
            None => format!("{name} against {}", summary.name),
        },
        command: command.to_owned(),
        original: Some(sequence),
        subjects: vec![subject],
        clips,
        done: Done {
            text: done(summary, model),
            params: params(&summary.params_json()),
            seconds: json!(summary.seconds),
        },
        ..Scene::default()
    }
}

/// The clips of a fitted model that its summary is about.
pub fn fitted_clips(model: ModelRef<'_>, summary: &Summary) -> Vec<usize> {
    (0..model.clips().len()).take(summary.clips.len().max(1)).collect()
}

fn done(summary: &Summary, model: ModelRef<'_>) -> String {
    let Summary { name, vertices, frames, bones, influences, .. } = summary;
    let kind = format!("{:?}", summary.bone_kind).to_lowercase();
    let mesh = format!("{name} ({vertices} vertices, {})", count(*frames, "frame"));
    let rig = match model {
        ModelRef::Basis(basis) => {
            format!("{} of {}", count(basis.cluster_count, "cluster"), count(basis.dimension, "column"))
        }
        _ => {
            let shapes = if let ModelRef::Corrective(corrective) = model { corrective.shapes.len() } else { 0 };
            let more = if shapes > 0 { format!("{} and ", count(shapes, "corrective shape")) } else { String::new() };
            format!(
                "{more}{} with at most {} per vertex",
                count(*bones, &format!("{kind} bone")),
                count(*influences, "influence")
            )
        }
    };
    match &summary.fit {
        Some(fit) => {
            let secs = figure(summary.seconds.prepare + summary.seconds.fit);
            let what = if fit.skeleton.is_some() { "A skeleton of " } else { "" };
            format!("{what}{rig} fitted to {mesh} in {secs} s and {}.", count(fit.info.iterations, "round"))
        }
        None => format!("A model of {rig}, measured against {mesh}."),
    }
}

/// The report of `reduce`, `compress` and `ddm`.
pub fn of_simplified<'a>(
    report: &'a simplify::Report,
    model: ModelRef<'a>,
    reference: Option<&'a MeshSequence>,
) -> Scene<'a> {
    let clips = (0..model.clips().len()).take(1).collect();
    let name = file_name(&report.output);
    let mut subject = Subject { metrics: report.metrics.as_ref(), ..Subject::new(name.clone(), model, clips) };
    subject.iterations = history(&report.extra["history"]);
    subject.timings = timings(&report.seconds);
    subject.storage.push(StorageRow::new(format!("file {name}"), file_bytes(&report.output)));
    subject.warnings = report.warnings.iter().map(explain).collect();
    if let Some(before) = report.before.as_ref().filter(|_| report.examples) {
        let meaning = "E_RMS of the rig that was given, against the same animation.";
        subject.figures.push(Figure::new("E_RMS before", before.e_rms, "‰ of the radius", meaning));
    }
    let against = match (report.metrics.is_some(), report.extra["against"].as_str()) {
        (false, _) => String::new(),
        (true, Some(what)) => format!(", held against {what}"),
        (true, None) if report.examples => ", held against the examples".to_owned(),
        (true, None) => ", held against the rig that was given".to_owned(),
    };
    let secs = figure(report.seconds.prepare + report.seconds.fit);
    let rows: Vec<String> = report.rows.iter().map(|(name, value)| format!("{name}: {}", squeezed(value))).collect();
    let text = format!(
        "{} of {} by {} in {secs} s{against}. {}.",
        report.command,
        report.name,
        report.method,
        rows.join("; ")
    );
    Scene {
        title: format!("{} → {name}", report.name),
        command: report.command.to_owned(),
        original: reference.filter(|_| report.metrics.is_some()),
        subjects: vec![subject],
        done: Done { text, params: params(&report.params), seconds: json!(report.seconds) },
        ..Scene::default()
    }
}

/// The report of positions that were computed from a rig.
pub fn of_frames<'a>(command: &str, output: &Path, rig: &Rig, frames: &'a MeshSequence) -> Scene<'a> {
    let name = file_name(output);
    let mut subject = Subject::new(name.clone(), frames, vec![0]);
    subject.storage.push(StorageRow::new(format!("file {name}"), file_bytes(output)));
    Scene {
        title: format!("{} → {name}", rig.name),
        command: command.to_owned(),
        subjects: vec![subject],
        done: Done { text: format!("Classic Delta Mush of every frame of {}.", rig.name), ..Done::default() },
        ..Scene::default()
    }
}

/// Columns of a terminal's table are padded; sentences are not.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Errors by round, as numbers or as (size, error).
fn history(value: &Value) -> Option<Vec<Iteration>> {
    let one = |(at, entry): (usize, &Value)| {
        let (stage, error) = match entry.as_array() {
            Some(pair) => (format!("{} virtual bones", pair.first()?), pair.get(1)?.as_f64()?),
            None => ("round".to_owned(), entry.as_f64()?),
        };
        Some(Iteration { iteration: at + 1, error, stage })
    };
    let rounds: Vec<Iteration> = value.as_array()?.iter().enumerate().filter_map(one).collect();
    (!rounds.is_empty()).then_some(rounds)
}

fn timing(stage: &str, secs: f64) -> Timing {
    Timing { stage: stage.to_owned(), secs }
}

fn timings(seconds: &Seconds) -> Vec<Timing> {
    let Seconds { load, prepare, fit, export, evaluate, total: _ } = *seconds;
    let stages = [("load", load), ("prepare", prepare), ("fit", fit), ("export", export), ("evaluate", evaluate)];
    stages.into_iter().filter(|(_, secs)| *secs > 0.0).map(|(stage, secs)| timing(stage, secs)).collect()
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
