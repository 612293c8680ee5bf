//! Bench rows as a Markdown table, with geometric means.

use std::path::Path;

use anyhow::Context;
use serde_json::{Value, json};

use super::published::{Row, SOURCES};
use crate::output::{bytes, figure};
use crate::sheet::Sheet;

/// One row with what was measured.
pub struct Measured {
    row: Row,
    /// The summary of the fit, as `bonesmith fit --json` gives it.
    summary: Value,
    e_rms: f64,
}

impl Measured {
    pub fn new(row: Row, summary: &Value) -> anyhow::Result<Self> {
        let e_rms = summary["e_rms"].as_f64().with_context(|| format!("{}: no e_rms", row.label()))?;
        Ok(Self { row, summary: summary.clone(), e_rms })
    }

    pub fn to_json(&self) -> Value {
        let published: serde_json::Map<String, Value> =
            SOURCES.iter().filter_map(|(name, of)| Some(((*name).to_owned(), json!(of(&self.row)?)))).collect();
        json!({ "sequence": self.row.sequence, "published": published, "summary": self.summary })
    }

    fn number(&self, pointer: &str) -> Option<f64> {
        self.summary.pointer(pointer)?.as_f64()
    }

    fn cells(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let best = self.row.best_published();
        let secs = |stage: &str| or_dash(self.number(&format!("/seconds/{stage}")).map(|s| format!("{s:.2}")));
        let (peak, size) = (self.number("/peak_memory_bytes"), self.number("/sequence_bytes"));
        let own = peak.zip(self.number("/program_memory_bytes")).map(|(peak, program)| peak - program);
        let over = |memory: Option<f64>| {
            or_dash(memory.zip(size).map(|(p, s)| format!("{} ({:.2}x)", bytes(p as u64), p / s.max(1.0))))
        };
        vec![
            self.row.sequence.to_owned(),
            self.row.bones.to_string(),
            self.row.kind_name().to_owned(),
            figure(self.e_rms),
            or_dash(best.map(|(name, e)| format!("{e} {name}"))),
            or_dash(best.map(|(_, e)| format!("{:.2}", self.e_rms / e))),
            or_dash(self.number("/normal_degrees").map(|d| format!("{d:.2}"))),
            or_dash(self.number("/skinned_normals/degrees").map(|d| format!("{d:.2}"))),
            or_dash(self.number("/p999_error").map(figure)),
            or_dash(self.number("/max_error").map(figure)),
            or_dash(self.number("/velocity_error").map(figure)),
            or_dash(self.number("/sted/total").map(figure)),
            or_dash(self.number("/mean_influences").map(|n| format!("{n:.2}"))),
            or_dash(self.number("/iterations").map(|n| n.to_string())),
            secs("load"),
            secs("prepare"),
            secs("fit"),
            over(peak),
            over(own),
        ]
    }
}

const HEADER: [&str; 19] = [
    "sequence",
    "bones",
    "kind",
    "E_RMS",
    "published",
    "ratio",
    "normals °",
    "skinned °",
    "99.9 %",
    "max",
    "popping",
    "STED",
    "influences",
    "iterations",
    "load s",
    "prepare s",
    "fit s",
    "peak memory",
    "without program",
];

/// The table, its remark, and the geometric means of E_RMS over each source's figures.
pub fn sheet(rows: &[Measured], remark: &str) -> Sheet {
    let mut sheet = Sheet::new(remark, &HEADER);
    rows.iter().for_each(|row| sheet.row(row.cells()));
    let mut text = String::new();
    text += "Published: the lowest figure for this sequence, number and kind of bones; ratio: ours to it.\n";
    text +=
        "Normals: recomputed from posed positions; skinned: stored ones deformed as three.js and most engines do.\n";
    text += "99.9 %, max: distances in thousandths of the radius; popping: E_RMS of the steps between frames; STED: edge lengths;\n\
             influences: of a vertex, in the mean.\n";
    text += "Peak memory: resident high-water mark of the process after the fit, and over the size of the positions;\n";
    text +=
        "without program: less the pages of the program file and its libraries, which the system can drop and share.\n";
    sheet.notes = text + &means(rows);
    sheet
}

fn means(rows: &[Measured]) -> String {
    let mut text = String::new();
    let mut line = |name: &str, ratios: Vec<f64>| {
        if let Some(mean) = geometric_mean(&ratios) {
            text += &format!("- {name}: {mean:.3} over {} rows\n", ratios.len());
        }
    };
    for (name, of) in SOURCES {
        for kind in ["rigid", "affine"] {
            let of_kind = rows.iter().filter(|m| m.row.kind_name() == kind);
            line(&format!("{name}, {kind}"), of_kind.filter_map(|m| of(&m.row).map(|e| m.e_rms / e)).collect());
        }
    }
    line(
        "the lowest published",
        rows.iter().filter_map(|m| m.row.best_published().map(|(_, e)| m.e_rms / e)).collect(),
    );
    match text.is_empty() {
        true => text,
        false => format!("\nGeometric mean of our E_RMS over that of\n\n{text}"),
    }
}

/// Figures of an earlier run, to compare with.
pub struct Earlier {
    rows: Vec<Value>,
}

/// What is compared with an earlier run: name, and where it is in a summary.
const COMPARED: [(&str, &str); 9] = [
    ("E_RMS", "/e_rms"),
    ("normals", "/normal_degrees"),
    ("skinned normals", "/skinned_normals/degrees"),
    ("99.9 %", "/p999_error"),
    ("max", "/max_error"),
    ("popping", "/velocity_error"),
    ("influences", "/mean_influences"),
    ("fit s", "/seconds/fit"),
    ("peak memory", "/peak_memory_bytes"),
];

impl Earlier {
    /// From what `bench fit --json` wrote.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("--against {}", path.display()))?;
        let mut value: Value =
            serde_json::from_str(&text).with_context(|| format!("--against {}: no JSON", path.display()))?;
        match value["rows"].take() {
            Value::Array(rows) => Ok(Self { rows }),
            _ => anyhow::bail!("--against {}: no rows; it has to be the JSON of a bench fit", path.display()),
        }
    }

    /// Geometric means of the ratios of `rows` to the same rows of the earlier run, and the range of each.
    pub fn ratios(&self, rows: &[Measured]) -> String {
        let same = |measured: &Measured| {
            let of = |row: &Value, key: &str| row["summary"][key].clone();
            self.rows.iter().find(|row| {
                row["sequence"] == measured.row.sequence
                    && of(row, "bones") == measured.summary["bones"]
                    && of(row, "bone_kind") == measured.summary["bone_kind"]
            })
        };
        let pairs: Vec<(&Measured, &Value)> = rows.iter().filter_map(|row| Some((row, same(row)?))).collect();
        let mut text =
            format!("\nGeometric mean (least, most) of the ratios to the earlier run, {} rows\n\n", pairs.len());
        for (name, pointer) in COMPARED {
            let before = |row: &Value| row["summary"].pointer(pointer).and_then(Value::as_f64).filter(|x| *x > 0.0);
            let ratio = |(now, row): &(&Measured, &Value)| Some(now.number(pointer)? / before(row)?);
            let ratios: Vec<f64> = pairs.iter().filter_map(ratio).collect();
            if let Some(mean) = geometric_mean(&ratios) {
                let (least, most) = ratios.iter().fold((f64::MAX, 0f64), |(a, b), r| (a.min(*r), b.max(*r)));
                text += &format!("- {name}: {mean:.3} ({least:.3}, {most:.3})\n");
            }
        }
        text
    }
}

/// `None` for no ratios. An exact fit (0) counts as 1e-6, so that the mean stays a number.
fn geometric_mean(ratios: &[f64]) -> Option<f64> {
    let log_sum: f64 = ratios.iter().map(|r| r.max(1e-6).ln()).sum();
    (!ratios.is_empty()).then(|| (log_sum / ratios.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::super::published::ROWS;
    use super::*;

    #[test]
    fn geometric_means() {
        assert_eq!(geometric_mean(&[]), None);
        assert!((geometric_mean(&[0.5, 2.0]).unwrap() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn ratios_to_an_earlier_run() {
        let row = *ROWS.iter().find(|r| r.label() == "horse-gallop 30 affine").unwrap();
        let summary = |e: f64| json!({ "e_rms": e, "max_error": 2.0 * e, "bones": 30, "bone_kind": "affine" });
        let now = [Measured::new(row, &summary(0.5)).unwrap()];
        let other = json!({ "sequence": "samba", "summary": summary(9.0) });
        let same = json!({ "sequence": "horse-gallop", "summary": summary(2.0) });
        let text = Earlier { rows: vec![other, same] }.ratios(&now);
        assert!(text.contains("1 rows") && text.contains("- E_RMS: 0.250 (0.250, 0.250)\n- max: 0.250"), "{text}");
    }

    #[test]
    fn the_table_is_aligned_and_holds_the_ratio() {
        let row = *ROWS.iter().find(|r| r.label() == "horse-gallop 30 affine").unwrap();
        let summary = json!({ "e_rms": 0.65, "iterations": 15, "seconds": { "fit": 1.234 }, "normal_degrees": 2.0,
            "peak_memory_bytes": 40_000_000, "program_memory_bytes": 10_000_000, "sequence_bytes": 10_000_000 });
        let text = sheet(&[Measured::new(row, &summary).unwrap()], "test").markdown();
        let lines: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
        assert!(lines.iter().all(|l| l.chars().count() == lines[0].chars().count()), "{text}");
        assert!(
            lines[2].contains(" 1.3 FSD |")
                && lines[2].contains("|  0.50 |")
                && lines[2].contains("(4.00x)")
                && lines[2].contains("(3.00x)"),
            "{text}"
        );
        assert!(text.contains("- FSD, affine: 0.500 over 1 rows"), "{text}");
    }
}
