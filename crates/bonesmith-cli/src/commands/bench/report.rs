//! Tables of a bench: printed, and kept for a report.

use bonesmith_report::{Column, Done, Scene, Table};
use serde_json::{Value, json};

use crate::output::print;

use crate::session::Session;
use crate::settings::{JsonTarget, ReportTarget};

/// Prints what a bench found, unless stdout belongs to the JSON, and keeps it for the report.
pub fn show(text: &str, json: Option<&JsonTarget>, session: &mut Session) -> anyhow::Result<()> {
    session.shown += text;
    match json {
        Some(JsonTarget::Stdout) => Ok(()),
        _ => print(text),
    }
}

/// All tables that were shown, as a report.
pub fn write(target: &ReportTarget, session: &mut Session) -> anyhow::Result<()> {
    let text = match remarks(&session.shown) {
        none if none.is_empty() => "What this machine did, measured by one bench.".to_owned(),
        remarks => remarks,
    };
    let scene = Scene {
        title: "bonesmith bench".to_owned(),
        command: "bench".to_owned(),
        done: Done { text, ..Done::default() },
        tables: tables(&session.shown),
        ..Scene::default()
    };
    let written = crate::commands::write_page(&scene, target, session)?;
    match session.quiet {
        true => Ok(()),
        false => {
            crate::output::tell(&format!("written: {written}"));
            Ok(())
        }
    }
}

/// Lines of Markdown that are no table.
fn remarks(text: &str) -> String {
    let plain = text.lines().map(str::trim).filter(|line| !line.starts_with('|') && !line.is_empty());
    plain.collect::<Vec<_>>().join("\n")
}

/// Tables of Markdown; the line before one is its title.
fn tables(text: &str) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    let mut title = "";
    let mut inside = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let Some(cells) = cells(line) else {
            (title, inside) = (line.trim_matches(['#', ':', ' ', '*']), false);
            continue;
        };
        if !inside {
            let columns = cells.iter().map(|name| Column { name: (*name).to_owned(), ..Column::default() }).collect();
            tables.push(Table { title: title.to_owned(), columns, rows: Vec::new() });
        } else if let Some(table) = tables.last_mut()
            && !cells
                .iter()
                .all(|cell| cell.trim_matches([':', '-']).is_empty() && cell.contains('-') && cell.len() > 1)
        {
            table.rows.push(cells.into_iter().map(value).collect());
        }
        inside = true;
    }
    tables
}

/// The cells of a line "| a | b |".
fn cells(line: &str) -> Option<Vec<&str>> {
    Some(line.strip_prefix('|')?.strip_suffix('|')?.split('|').map(str::trim).collect())
}

/// A number where it is one.
fn value(cell: &str) -> Value {
    match (cell, cell.parse::<f64>()) {
        ("" | "-", _) => Value::Null,
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(cell),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_tables() {
        let text = "Version 1.\n\n## Speed\n\n| name | s |\n|------|--:|\n| a | 1.5 |\n| b | - |\n\nMean: 2\n\n| x |\n|--:|\n| 2 of 3 |\n";
        let found = tables(text);
        assert_eq!(found.iter().map(|t| t.title.as_str()).collect::<Vec<_>>(), ["Speed", "Mean: 2"]);
        assert_eq!(found[0].columns[1].name, "s");
        assert_eq!(found[0].rows, [vec![json!("a"), json!(1.5)], vec![json!("b"), Value::Null]]);
        assert_eq!(found[1].rows, [[json!("2 of 3")]]);
        assert_eq!(remarks(text), "Version 1.\n## Speed\nMean: 2");
    }
}
