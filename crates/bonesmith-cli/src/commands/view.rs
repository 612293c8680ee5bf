//! `bonesmith view`: a rig or an animation in the browser.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith_core::metrics::Metrics;
use bonesmith_report::{Done, Scene, StorageRow, Subject};

use crate::args::ViewArgs;
use crate::errors::Outcome;
use crate::load;
use crate::models::AnyModel;
use crate::output::print;
use crate::pipeline::file_bytes;
use crate::reports::{self, file_name};
use crate::session::Session;
use crate::settings::{self, ReportTarget};

pub fn run(args: ViewArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let file = settings::input(vec![args.file], Default::default())?;
    let against = settings::input(args.against, args.input)?;
    let read: Vec<PathBuf> = file.paths.iter().chain(&against.paths).cloned().collect();
    let max_bytes = settings::report_bytes(args.report_max_mb)?;
    let chosen = args.output.map(|path| settings::report_path(path, &read)).transpose()?;

    session.stage("reading")?;
    let path = &file.paths[0];
    let model = AnyModel::read(path, &against.load)?;
    let sequence = (!against.paths.is_empty()).then(|| load::animation(&against)).transpose()?;
    let wanted = args.clip.as_deref();
    let clip = if sequence.is_some() || wanted.is_some() { model.clip(wanted)? } else { None };
    session.stage("measuring")?;
    let metrics = sequence.as_ref().map(|sequence| model.measure(clip, sequence)).transpose();
    let metrics = metrics.with_context(|| format!("{} cannot be compared", path.display()))?;
    let clips = match (clip, model.shape().rig()) {
        (Some(clip), _) => vec![clip],
        (None, Some(rig)) => rig.clips.iter().collect(),
        (None, None) => Vec::new(),
    };
    let mut subject = Subject { metrics: metrics.as_ref(), ..Subject::new(file_name(path), model.shape(), clips) };
    subject.storage.push(StorageRow { what: format!("file {}", file_name(path)), bytes: file_bytes(path) });
    let scene = Scene {
        title: title(path, &against.paths),
        command: "view".to_owned(),
        original: sequence.as_ref(),
        subjects: vec![subject],
        done: Done { text: done(path, &model, metrics.as_ref()), params: stored_params(&model), ..Done::default() },
        ..Scene::default()
    };
    session.stage("writing")?;
    let path = match chosen {
        Some(path) => path,
        None => temporary(path)?,
    };
    let target = ReportTarget { path, max_bytes };
    reports::write(&scene, &target)?;
    session.finish_progress();
    show(&target.path, args.no_open, session)?;
    Ok(Outcome::Done)
}

fn title(path: &Path, against: &[PathBuf]) -> String {
    match against.first() {
        Some(original) => format!("{} against {}", file_name(path), file_name(original)),
        None => file_name(path),
    }
}

fn done(path: &Path, model: &AnyModel, metrics: Option<&Metrics>) -> String {
    let what = match model {
        AnyModel::Lbs(_) => "a rig",
        AnyModel::TwoLayer(_) => "a rig with two layers",
        AnyModel::Ddm(ddm) if ddm.layer.is_some() => "a compressed Direct Delta Mush rig",
        AnyModel::Ddm(_) => "a Direct Delta Mush rig",
        AnyModel::Sequence(_) => "an animation",
    };
    let measured = if metrics.is_some() { ", measured against an animation" } else { "" };
    format!("{} is {what} of {} vertices{measured}.", file_name(path), model.vertex_count())
}

/// What the file itself says it was made with.
fn stored_params(model: &AnyModel) -> Vec<bonesmith_report::Param> {
    let text = model.shape().rig().map_or("", |rig| rig.params_json.as_str());
    bonesmith_report::params(&serde_json::from_str(text).unwrap_or_default())
}

/// A file that stays after the program has gone, for the browser to read.
fn temporary(shown: &Path) -> anyhow::Result<PathBuf> {
    let stem = shown.file_stem().unwrap_or_default().to_string_lossy();
    let mut builder = tempfile::Builder::new();
    let prefix = format!("bonesmith-{stem}-");
    let (_, path) = builder
        .prefix(&prefix)
        .suffix(".html")
        .tempfile()
        .and_then(|file| Ok(file.keep()?))
        .context("a temporary file")?;
    Ok(path)
}

/// In the browser, unless asked not to; where there is none, the path has to do.
fn show(page: &Path, no_open: bool, session: &Session) -> anyhow::Result<()> {
    if !no_open {
        match open::that_detached(page) {
            Ok(()) if session.quiet => return Ok(()),
            Ok(()) => {}
            Err(error) => session.warn(&format!("no browser could be opened: {error}")),
        }
    }
    print(&format!("{}\n", page.display()))
}
