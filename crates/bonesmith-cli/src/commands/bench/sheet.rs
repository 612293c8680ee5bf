//! What all of the papers' tables share: figures kept while they are measured, and where a table goes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::report::show;
use super::sequence_folder;
use crate::args::TableArgs;
use crate::errors::Usage;
use crate::output::write_json;
use crate::session::Session;
use crate::settings::{self, JsonTarget};
use crate::sheet::{self, Sheet};

/// Figures by name, in a file where one was asked for.
pub struct Ledger {
    path: Option<PathBuf>,
    stored: Stored,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Stored {
    table: String,
    figures: BTreeMap<String, Value>,
}

impl Ledger {
    /// Takes over what an earlier run of the same table left.
    pub fn open(args: &TableArgs, name: &str) -> anyhow::Result<Self> {
        let fresh = Stored { table: name.to_owned(), figures: BTreeMap::new() };
        let Some(path) = &args.resume else { return Ok(Self { path: None, stored: fresh }) };
        if !path.exists() {
            return Ok(Self { path: Some(path.clone()), stored: fresh });
        }
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        let stored: Stored = serde_json::from_str(&text)
            .map_err(|e| Usage::new(format!("--resume {}: no figures of a table: {e}", path.display())))?;
        if stored.table != name {
            let message = format!("--resume {}: holds figures of {}, not of {name}", path.display(), stored.table);
            return Err(Usage::new(message).into());
        }
        Ok(Self { path: Some(path.clone()), stored })
    }

    /// The figures of this name: those that are there, else measured now and kept.
    pub fn figures(
        &mut self,
        name: &str,
        session: &mut Session,
        measure: impl FnOnce(&mut Session) -> anyhow::Result<Value>,
    ) -> anyhow::Result<Value> {
        session.check_cancelled()?;
        if let Some(known) = self.stored.figures.get(name) {
            return Ok(known.clone());
        }
        if !session.quiet {
            crate::output::emit(name);
        }
        let value = measure(session)?;
        self.stored.figures.insert(name.to_owned(), value.clone());
        if let Some(path) = &self.path {
            write_json(&JsonTarget::File(path.clone()), &self.stored)?;
        }
        Ok(value)
    }
}

/// Prints the sheets, and writes them as CSV, JSON and a page where asked to.
pub fn publish(
    args: &TableArgs,
    session: &mut Session,
    title: &str,
    sheets: Vec<Sheet>,
    rows: Value,
) -> anyhow::Result<()> {
    let text = sheet::markdown(&sheets);
    let json_target = settings::json(args.json.clone())?;
    if let Some(target) = &json_target {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "table": title, "rows": rows }))?;
    }
    if let Some(path) = &args.csv {
        bonesmith_io::write_whole(path, csv(&sheets).as_bytes())?;
    }
    if let Some(path) = &args.page {
        bonesmith_io::write_whole(path, format!("# {title}\n\n{text}").as_bytes())?;
    }
    show(sheets, json_target.as_ref(), session)
}

/// Every sheet with its header, an empty line between two [RFC 4180].
fn csv(sheets: &[Sheet]) -> String {
    sheets.iter().map(Sheet::csv).collect::<Vec<_>>().join("\r\n")
}

/// Rows whose sequence is there and whose label holds the pattern, with the files; checks where results go first.
pub fn jobs<'a, R>(
    args: &TableArgs,
    rows: &'a [R],
    sequence: impl Fn(&R) -> &'static str,
    label: impl Fn(&R) -> String,
) -> anyhow::Result<Vec<(&'a R, PathBuf)>> {
    for path in [&args.csv, &args.page, &args.resume].into_iter().flatten() {
        settings::writable(path)?;
    }
    settings::json(args.json.clone())?;
    let folder = sequence_folder(args.sequences.as_ref())?;
    let wanted = |row: &&R| args.only.as_ref().is_none_or(|pattern| label(row).contains(pattern.as_str()));
    let file =
        |row: &R, folder: &Path| Some(folder.join(sequence(row)).with_extension("npz")).filter(|path| path.is_file());
    let found: Vec<_> =
        rows.iter().filter(wanted).filter_map(|row| Some((row, file(row, folder.as_deref()?)?))).collect();
    match (found.is_empty(), &args.only) {
        (false, _) => Ok(found),
        (true, Some(pattern)) => Err(Usage::new(format!("--only {pattern}: no such row with a sequence to run it on"))
            .hint("rows are named like \"horse-gallop 30\"")
            .into()),
        (true, None) => {
            let names: std::collections::BTreeSet<&str> = rows.iter().map(sequence).collect();
            let names: Vec<&str> = names.into_iter().collect();
            let hint = format!("--sequences DIR with any of {}, as .npz", names.join(", "));
            Err(Usage::new("none of the published sequences was found").hint(hint).into())
        }
    }
}
