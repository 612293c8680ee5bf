//! What reaches the user: text on stdout, JSON, and numbers a person can compare.

use std::io::Write;

use anyhow::Context;
use serde::Serialize;

use crate::settings::JsonTarget;

pub use bonesmith::text::{bytes, count, figure};

/// Text to stdout. A reader that has seen enough (`| head`) is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != std::io::ErrorKind::BrokenPipe => Err(e).context("standard output"),
        _ => Ok(()),
    }
}

/// Longest line of a message, in characters: names in files may be of any length.
const LONGEST_LINE: usize = 2000;

/// A line on stderr. If nobody can read it, nothing can be done about that.
pub fn emit(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", plain(line));
}

/// Without characters that a terminal obeys, and no longer than a person reads.
fn plain(line: &str) -> String {
    let shown: String = line.chars().take(LONGEST_LINE).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match line.chars().nth(LONGEST_LINE) {
        Some(_) => format!("{shown}... ({} characters in all)", line.chars().count()),
        None => shown,
    }
}

/// A summary as JSON, to stdout or whole to a file.
pub fn write_json(target: &JsonTarget, summary: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(summary)? + "\n";
    match target {
        JsonTarget::Stdout => print(&text),
        JsonTarget::File(path) => Ok(bonesmith_io::write_whole(path, text.as_bytes())?),
    }
}

/// Rows of "name  value" with the names in one column.
#[derive(Default)]
pub struct Table {
    title: String,
    rows: Vec<(&'static str, String)>,
}

impl Table {
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new() }
    }

    pub fn row(&mut self, name: &'static str, value: impl Into<String>) {
        self.rows.push((name, value.into()));
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.title)?;
        let width = self.rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        self.rows.iter().try_for_each(|(name, value)| writeln!(f, "  {name:<width$}  {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_align() {
        let mut table = Table::new("horse");
        table.row("bones", "30");
        table.row("E_RMS", "1.3");
        table.row("max error", "20");
        assert_eq!(table.to_string(), "horse\n  bones      30\n  E_RMS      1.3\n  max error  20\n");
    }
}
