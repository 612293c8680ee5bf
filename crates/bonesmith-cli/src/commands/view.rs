//! `bonesmith view`: a rig or an animation in the browser.

use std::path::{Path, PathBuf};

use anyhow::Context;
use bonesmith::core::metrics;
use bonesmith::report::Scene;
use bonesmith::text::file_name;
use bonesmith::{Error, find_clip, measured_clips, model_scene, write_report};
use bonesmith_core::Stage;

use crate::args::ViewArgs;
use crate::errors::Outcome;
use crate::output::print;
use crate::session::Session;
use crate::settings;

pub fn run(args: ViewArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let file = settings::input(vec![args.file], Default::default())?;
    let against = settings::input(args.against, args.input)?;
    let max_bytes = settings::report_bytes(args.report_max_mb)?;
    let chosen = args.output.map(settings::report_path).transpose()?;
    session.claim(&[file.files(), against.files()].concat(), chosen.as_slice(), None, None)?;
    session.read_in_blocks();

    session.stage(Stage::Reading)?;
    let path = &file.paths[0];
    let shown = settings::with_paths(&against, vec![path.clone()]);
    let model = session.take(if against.paths.is_empty() { shown.model()? } else { shown.model_to_compare()? });
    let model = model.view();
    let sequence = match against.paths.is_empty() {
        true => None,
        false => Some(session.take(against.reference(model, args.clip.as_deref())?)),
    };
    let wanted = args.clip.as_deref();
    let clips = match (&sequence, wanted) {
        (Some(sequence), _) => Some(measured_clips(model, wanted, sequence)?),
        (None, Some(_)) => Some(vec![find_clip(model, wanted)?]),
        (None, None) => None,
    };
    session.stage(Stage::Measuring)?;
    let pair = sequence.as_ref().zip(clips.as_ref());
    let measured = pair.map(|(sequence, clips)| metrics::evaluate_clips(model, clips, sequence));
    let metrics = measured.transpose().map_err(|source| Error::Metrics { file: path.clone(), source })?;

    session.stage(Stage::Writing)?;
    let mut scene = model_scene(path, model, clips, metrics.as_ref(), sequence.as_ref());
    scene.command_line = Some(super::command_line());
    if let Some(original) = against.paths.first() {
        scene.title += &format!(" against {}", file_name(original));
    }
    let page = match chosen {
        Some(path) => {
            write_report(&scene, &path, max_bytes)?;
            path
        }
        None => write_temporary(&scene, path, max_bytes)?,
    };
    session.finish_progress();
    session.commit()?;
    show(&page, args.no_open, session)?;
    Ok(Outcome::Done)
}

/// A file that stays after the program has ended, for the browser to read; none if it cannot be made.
fn write_temporary(scene: &Scene, shown: &Path, max_bytes: u64) -> anyhow::Result<PathBuf> {
    let stem = shown.file_stem().unwrap_or_default().to_string_lossy();
    let prefix = format!("bonesmith-{stem}-");
    let file = tempfile::Builder::new().prefix(&prefix).suffix(".html").tempfile().context("a temporary file")?;
    // Closed, so that it can be replaced on every system.
    let place = file.into_temp_path();
    write_report(scene, &place, max_bytes)?;
    place.keep().context("the temporary file")
}

/// In the browser, unless asked not to; where there is none, the path is printed.
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
