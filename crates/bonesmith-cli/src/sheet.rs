//! Tables as data: a remark, named columns, rows, notes. Rendered as Markdown, CSV, JSON, or a table of a report.

use bonesmith::report::{Column, Table};
use serde_json::{Map, Value, json};

/// Rows of a table and the words around them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Above it.
    pub remark: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// Below it.
    pub notes: String,
}

impl Sheet {
    pub fn new<T: AsRef<str>>(remark: impl Into<String>, header: &[T]) -> Self {
        let header = header.iter().map(|name| name.as_ref().to_owned()).collect();
        Self { remark: remark.into(), header, ..Self::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.header.len());
        self.rows.push(cells);
    }

    /// With the remark above and the notes below.
    pub fn markdown(&self) -> String {
        let header: Vec<&str> = self.header.iter().map(String::as_str).collect();
        let remark = if self.remark.is_empty() { String::new() } else { format!("{}\n\n", self.remark) };
        let notes = if self.notes.is_empty() { String::new() } else { format!("\n{}\n", self.notes.trim_end()) };
        format!("{remark}{}{notes}", lines(&header, &self.rows))
    }

    /// Header and rows [RFC 4180].
    pub fn csv(&self) -> String {
        let field = |text: &String| match text.contains([',', '"', '\n']) {
            true => format!("\"{}\"", text.replace('"', "\"\"")),
            false => text.clone(),
        };
        let line = |cells: &Vec<String>| cells.iter().map(field).collect::<Vec<_>>().join(",") + "\r\n";
        line(&self.header) + &self.rows.iter().map(line).collect::<String>()
    }

    /// Rows as objects by column.
    pub fn to_json(&self) -> Value {
        let row = |cells: &Vec<String>| -> Map<String, Value> {
            self.header.iter().cloned().zip(cells.iter().map(|cell| value(cell))).collect()
        };
        json!({ "remark": self.remark, "rows": self.rows.iter().map(row).collect::<Vec<_>>(), "notes": self.notes })
    }

    /// As a report shows it; its title is the last line of the remark.
    pub fn to_table(&self) -> Table {
        let column = |name: &String| Column { name: name.clone(), ..Column::default() };
        let title = self.remark.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
        Table {
            title: title.trim_matches(['#', ':', ' ', '*']).to_owned(),
            columns: self.header.iter().map(column).collect(),
            rows: self.rows.iter().map(|row| row.iter().map(|cell| value(cell)).collect()).collect(),
        }
    }

    /// The words around the table.
    pub fn words(&self) -> String {
        [self.remark.trim(), self.notes.trim()]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// All sheets as one text, an empty line between two.
pub fn markdown(sheets: &[Sheet]) -> String {
    sheets.iter().map(Sheet::markdown).collect::<Vec<_>>().join("\n")
}

/// A number where it is one.
fn value(cell: &str) -> Value {
    match (cell, cell.parse::<f64>()) {
        ("" | "-", _) => Value::Null,
        (_, Ok(number)) if number.is_finite() => json!(number),
        _ => json!(cell),
    }
}

/// A Markdown table; columns of words to the left, columns of numbers to the right.
pub fn lines(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let longest = rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        longest.max(header[column].chars().count())
    };
    let word = |cell: &str| cell.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '.');
    let words = |column: usize| rows.iter().all(|row| word(&row[column]));
    let line = |cells: &[&str]| {
        let padded = cells.iter().enumerate().map(|(column, cell)| match words(column) {
            true => format!("{cell:<w$}", w = width(column)),
            false => format!("{cell:>w$}", w = width(column)),
        });
        format!("| {} |\n", padded.collect::<Vec<_>>().join(" | "))
    };
    let rule = |column: usize| match words(column) {
        true => "-".repeat(width(column)),
        false => "-".repeat(width(column).saturating_sub(1)) + ":",
    };
    let rules: Vec<String> = (0..header.len()).map(rule).collect();
    let mut text = line(header) + &line(&rules.iter().map(String::as_str).collect::<Vec<_>>());
    rows.iter().for_each(|row| text += &line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sheet() -> Sheet {
        let mut sheet = Sheet::new("Version 1.\n\n## Speed", &["name", "s"]);
        sheet.row(vec!["a, \"b\"".into(), "1.5".into()]);
        sheet.row(vec!["c".into(), "-".into()]);
        sheet.notes = "Mean: 2".into();
        sheet
    }

    #[test]
    fn one_sheet_has_four_renderings() {
        let sheet = sheet();
        let text = sheet.markdown();
        assert!(
            text.starts_with("Version 1.\n\n## Speed\n\n| name   |   s |\n") && text.ends_with("\nMean: 2\n"),
            "{text}"
        );
        assert_eq!(sheet.csv(), "name,s\r\n\"a, \"\"b\"\"\",1.5\r\nc,-\r\n");
        assert_eq!(sheet.to_json()["rows"], json!([{ "name": "a, \"b\"", "s": 1.5 }, { "name": "c", "s": null }]));
        let table = sheet.to_table();
        assert_eq!((table.title.as_str(), table.columns[1].name.as_str()), ("Speed", "s"));
        assert_eq!(table.rows[1], [json!("c"), Value::Null]);
        assert_eq!(sheet.words(), "Version 1.\n\n## Speed\nMean: 2");
    }
}
