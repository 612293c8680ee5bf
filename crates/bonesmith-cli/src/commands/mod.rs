//! One file per command: takes parsed arguments, resolves them, has the library do the work, and shows the result.

pub mod batch;
pub mod bench;
pub mod check;
pub mod compare;
pub mod compress;
pub mod convert;
pub mod ddm;
pub mod demo;
pub mod eval;
pub mod fit;
pub mod info;
pub mod lod;
pub mod reduce;
mod refit;
mod refit_plan;
pub mod shapes;
pub mod shell;
mod simplify;
pub mod sweep;
pub mod view;

use bonesmith::report::{ReportError, Scene};
use bonesmith::targets::{Target, suited};
use bonesmith::{Error, Layout, Model, Noted, Summary, Warning};
use bonesmith_core::Stage;

use crate::errors::Outcome;
use crate::output::{bytes, print, write_json};
use crate::session::Session;
use crate::settings::{JsonTarget, ReportTarget};
use crate::tables;

/// What `option` needs is not in this binary.
#[cfg(not(feature = "gpu"))]
pub fn without_gpu(option: &str) -> crate::errors::Usage {
    crate::errors::Usage::new(format!("{option}: this binary was built without the GPU; build it with --features gpu"))
}

/// Warnings, then the JSON if asked for, then the table unless stdout belongs to the JSON. `notes` are further files.
pub fn report(
    summary: &Summary,
    notes: &[String],
    json: Option<&JsonTarget>,
    table: bool,
    session: &mut Session,
) -> anyhow::Result<()> {
    session.finish_progress();
    summary.warnings.iter().for_each(|warning| session.warn_of(warning));
    if json.is_some() || session.worker.is_some() {
        let value = session.with_losses(summary.to_json());
        session.worker.iter_mut().for_each(|worker| worker.note(&value));
        json.map(|target| write_json(target, &value)).transpose()?;
    }
    match table && json != Some(&JsonTarget::Stdout) {
        true => print(&tables::summary(summary, notes, session.verbose)),
        false => Ok(()),
    }
}

/// Writes the page; returns in words what was written. A page that is too large is not: a warning says so, and the results of the command stay.
pub fn write_page(scene: &Scene, target: &ReportTarget, session: &mut Session) -> anyhow::Result<Option<String>> {
    session.stage(Stage::WritingTheReport)?;
    let scene = &Scene { command_line: Some(command_line()), ..scene.clone() };
    let page = match bonesmith::write_report(scene, &target.path, target.max_bytes) {
        Err(Error::Report { path, source: ReportError::TooLarge { needed, limit } }) => {
            session.finish_progress();
            let warnings = vec![Warning::ReportTooLarge { path, needed, limit }];
            session.take(Noted { value: (), warnings });
            return Ok(None);
        }
        written => written?,
    };
    session.finish_progress();
    let left_out = match page.kept_every {
        1 => String::new(),
        every => format!(", one frame in {every}"),
    };
    Ok(Some(format!("{}, {}{left_out}", target.path.display(), bytes(page.html.len() as u64))))
}

/// The command as it was typed, its words quoted where a shell needs that.
pub fn command_line() -> String {
    quoted_line(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

/// A command of this program, its words quoted where a shell needs that.
fn quoted_line(words: impl Iterator<Item = String>) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_./=:,+@%".contains(c);
    let quoted = |word: String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    std::iter::once("bonesmith".to_owned()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

/// Changes a model so that the target accepts it, and says what was changed. Returns the layout: that of the user, or what the target needs.
pub fn suit(
    model: &mut Model,
    target: Option<&'static Target>,
    output: &std::path::Path,
    layout: Layout,
    session: &mut Session,
) -> anyhow::Result<Layout> {
    let Some(target) = target else { return Ok(layout) };
    let done = suited(model, target, output)?;
    if !done.changes.is_empty() && !session.quiet {
        session.finish_progress();
        crate::output::emit(&format!("note: for {}: {}", target.title, done.changes.join("; ")));
    }
    Ok(if layout == Layout::Skin { done.layout } else { layout })
}

/// 1 when a requested error was not reached.
pub fn outcome(summary: &Summary) -> Outcome {
    if summary.missed_target() { Outcome::QualityMissed } else { Outcome::Done }
}
