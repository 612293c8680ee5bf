//! `bonesmith view`: a rig or an animation in the browser.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith_core::ModelRef;
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_io::file_bytes;
use bonesmith_report::{Done, Scene, StorageRow, Subject};

use crate::args::ViewArgs;
use crate::errors::{Outcome, Usage};
use crate::load;
use crate::models::{self, find_clip};
use crate::output::print;
use crate::reports::{self, file_name};
use crate::session::Session;
use crate::settings::{self, ReportTarget};

pub fn run(args: ViewArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let file = settings::input(vec![args.file], Default::default())?;
    let against = settings::input(args.against, args.input)?;
    let max_bytes = settings::report_bytes(args.report_max_mb)?;
    let chosen = args.output.map(settings::report_path).transpose()?;
    session.claim(&[file.files(), against.files()].concat(), chosen.as_slice(), None, None)?;

    session.stage("reading")?;
    let path = &file.paths[0];
    let model = session.heed(|| models::read(path, &against))?;
    let model = model.view();
    if against.paths.is_empty() && (against.frames.is_some() || against.rest.is_some()) && model.rig().is_some() {
        let message = format!("--frames and --rest pick from an animation, and {} is a rig", path.display());
        return Err(Usage::new(message).hint("--clip picks one of its animations").into());
    }
    let sequence = (!against.paths.is_empty()).then(|| load::animation(&against, session)).transpose()?;
    let wanted = args.clip.as_deref();
    let clip = (sequence.is_some() || wanted.is_some()).then(|| find_clip(model, wanted)).transpose()?;
    session.stage("measuring")?;
    let metrics =
        sequence.as_ref().zip(clip).map(|(sequence, clip)| metrics::evaluate(model, clip, sequence)).transpose();
    let metrics = metrics.with_context(|| format!("{} cannot be compared", path.display()))?;

    session.stage("writing")?;
    let mut scene = scene(path, model, clip, metrics.as_ref());
    scene.original = sequence.as_ref();
    if let Some(original) = against.paths.first() {
        scene.title += &format!(" against {}", file_name(original));
    }
    let page = match chosen {
        Some(path) => {
            reports::write(&scene, &ReportTarget { path: path.clone(), max_bytes })?;
            path
        }
        None => write_temporary(&scene, path, max_bytes)?,
    };
    session.finish_progress();
    session.commit()?;
    show(&page, args.no_open, session)?;
    Ok(Outcome::Done)
}

/// The model alone: one clip, or all it has.
fn scene<'a>(path: &Path, model: ModelRef<'a>, clip: Option<usize>, metrics: Option<&'a Metrics>) -> Scene<'a> {
    let clips = clip.map_or_else(|| (0..model.clips().len()).collect(), |clip| vec![clip]);
    let name = file_name(path);
    let mut subject = Subject { metrics, ..Subject::new(name.clone(), model, clips) };
    if path.is_file() {
        subject.storage.push(StorageRow::new(format!("file {name}"), file_bytes(path)));
    }
    Scene {
        title: name,
        command: "view".to_owned(),
        subjects: vec![subject],
        done: Done { text: done(path, model, metrics), params: stored_params(model), ..Done::default() },
        ..Scene::default()
    }
}

fn done(path: &Path, model: ModelRef<'_>, metrics: Option<&Metrics>) -> String {
    let (what, vertices) = (model.kind().text(), model.vertex_count());
    let measured = if metrics.is_some() { ", measured against an animation" } else { "" };
    format!("{} is {what} of {vertices} vertices{measured}.", file_name(path))
}

/// What the file itself says it was made with.
fn stored_params(model: ModelRef<'_>) -> Vec<bonesmith_report::Param> {
    bonesmith_report::params(&serde_json::from_str(model.params_json()).unwrap_or_default())
}

/// A file that stays after the program has gone, for the browser to read; none if it cannot be made.
fn write_temporary(scene: &Scene, shown: &Path, max_bytes: u64) -> anyhow::Result<PathBuf> {
    let stem = shown.file_stem().unwrap_or_default().to_string_lossy();
    let prefix = format!("bonesmith-{stem}-");
    let file = tempfile::Builder::new().prefix(&prefix).suffix(".html").tempfile().context("a temporary file")?;
    // Closed, so that it can be replaced on every system.
    let place = file.into_temp_path();
    reports::write(scene, &ReportTarget { path: place.to_path_buf(), max_bytes })?;
    place.keep().context("the temporary file")
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
