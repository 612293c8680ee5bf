//! Tables of a bench: printed, and kept for a report.

use bonesmith_report::{Done, Scene};

use crate::output::print;

use crate::session::Session;
use crate::settings::{JsonTarget, ReportTarget};
use crate::sheet::{self, Sheet};

/// Prints the tables of a bench, unless stdout belongs to the JSON, and keeps them for the report.
pub fn show(sheets: Vec<Sheet>, json: Option<&JsonTarget>, session: &mut Session) -> anyhow::Result<()> {
    let text = sheet::markdown(&sheets);
    session.shown.extend(sheets);
    match json {
        Some(JsonTarget::Stdout) => Ok(()),
        _ => print(&text),
    }
}

/// All tables that were shown, as a report.
pub fn write(target: &ReportTarget, session: &mut Session) -> anyhow::Result<()> {
    let words = session.shown.iter().map(Sheet::words).filter(|text| !text.is_empty());
    let text = match words.collect::<Vec<_>>().join("\n") {
        none if none.is_empty() => "Figures of this machine, measured by one bench.".to_owned(),
        words => words,
    };
    let scene = Scene {
        title: "bonesmith bench".to_owned(),
        command: "bench".to_owned(),
        done: Done { text, ..Done::default() },
        tables: session.shown.iter().map(Sheet::to_table).collect(),
        ..Scene::default()
    };
    let written = crate::commands::write_page(&scene, target, session)?;
    if let Some(written) = written.filter(|_| !session.quiet) {
        crate::output::emit(&format!("written: {written}"));
    }
    Ok(())
}
