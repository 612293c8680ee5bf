//! `bonesmith bench kavan2` and `ssdr1`: every published method beside ours, and beside what its authors printed.
//!
//! Every figure is that of `bonesmith fit` in a process of its own, on the file that it wrote. A method that cannot run
//! on a sequence says why in its row, and the others go on.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use bonesmith_core::corrective;
use serde_json::{Value, json};

use super::methods_published::{KAVAN2, Published, Row, SSDR1};
use super::sheet::{Ledger, jobs, publish};
use crate::args::BenchTableArgs;
use crate::errors::Outcome;
use crate::output::{bytes, figure};
use crate::session::Session;
use crate::sheet::Sheet;
use bonesmith::MeshSequence;
use bonesmith_core::observer::Cancelled;

/// A table of methods.
struct Contest {
    name: &'static str,
    title: &'static str,
    rows: &'static [Row],
    /// What all bones are.
    kind: &'static str,
    /// Of the figures in brackets.
    correction: Correction,
    /// Whether the published methods kept the rest pose that they were given.
    keep_rest: bool,
    remark: &'static str,
}

/// What corrected a rig before its error was measured again.
#[derive(Clone, Copy)]
enum Correction {
    /// Residuals of this rank where they are seen [Kavan2010 s.2].
    Posed(usize),
    /// `--eigenskin`: shapes in the rest pose [Le2014 s.2.3.4].
    Shapes(usize),
}

/// Table 2 of Kavan et al. 2010.
pub fn kavan2(args: BenchTableArgs, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    let contest = Contest {
        name: "kavan2",
        title: "Affine bones: table 2 of Kavan, Sloan & O'Sullivan 2010",
        rows: KAVAN2,
        kind: "affine",
        correction: Correction::Posed(10),
        keep_rest: false,
        remark: "E_RMS with affine bones and at most 4 influences, in brackets with rank-10 corrections of what is left in the \
                 posed frames; published times are those of a 3 GHz Core 2 Duo. CPCA and SVD are no rigs: as many numbers in \
                 every frame, more for every vertex.",
    };
    run(&contest, &args, threads, session)
}

/// Table 1 of the course notes of 2014.
pub fn ssdr1(args: BenchTableArgs, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    let contest = Contest {
        name: "ssdr1",
        title: "Rigid bones: table 1 of the course notes of 2014",
        rows: SSDR1,
        kind: "rigid",
        correction: Correction::Shapes(5),
        keep_rest: true,
        remark: "E_RMS with rigid bones and at most 4 influences (LSSP: any number), in brackets after rank-5 EigenSkin. The \
                 published methods keep the rest pose, as they did there.",
    };
    run(&contest, &args, threads, session)
}

fn run(
    contest: &Contest,
    args: &BenchTableArgs,
    threads: Option<usize>,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    let args = &args.table;
    let jobs = jobs(args, contest.rows, |row| row.sequence, Row::label)?;
    let mut ledger = Ledger::open(args, contest.name)?;
    let scratch = tempfile::Builder::new().prefix("bonesmith-bench-").tempdir()?;
    let version = env!("CARGO_PKG_VERSION");
    let header = [
        "sequence",
        "bones",
        "method",
        "published",
        "here",
        "ratio",
        "minutes published",
        "seconds",
        "storage",
        "note",
    ];
    let mut sheet = Sheet::new(format!("Version {version}. {}", contest.remark), &header);
    let (mut values, mut won, mut rows) = (Vec::new(), 0, 0);
    for (row, path) in jobs {
        let mut of_row = Vec::new();
        for published in row.figures.iter().chain([&Published::OURS]) {
            let name = format!("{} {}", row.label(), published.method);
            let value = ledger.figures(&name, session, |session| {
                let out = scratch.path().join("out.npz");
                let mut value = fit_in_child(contest, row, published, path.as_path(), threads, &out)?;
                if let (Correction::Posed(rank), true) =
                    (contest.correction, published.is_rig() && value["note"].is_null())
                {
                    value["e_rms_corrected"] = posed_residual(&out, path.as_path(), rank, session)?.into();
                }
                Ok(value)
            })?;
            sheet.rows.push(cells(row, published, &value));
            of_row.push((published, value));
        }
        rows += 1;
        won += usize::from(ours_wins(&of_row));
        values.push(row_json(row, &of_row));
    }
    sheet.notes = format!("Ours has the lowest E_RMS of all rigs, printed and measured, in {won} of {rows} rows.");
    publish(args, session, contest.title, vec![sheet], json!(values))?;
    Ok(Outcome::Done)
}

/// Whether no rig of the row, as printed or as measured, is closer than ours.
fn ours_wins(row: &[(&Published, Value)]) -> bool {
    let Some(ours) = row.last().and_then(|(_, value)| value["e_rms"].as_f64()) else { return false };
    let others = row[..row.len() - 1].iter().filter(|(published, _)| published.is_rig());
    let figures = others.flat_map(|(published, value)| [published.e_rms, value["e_rms"].as_f64()]);
    figures.flatten().all(|other| ours < other)
}

fn cells(row: &Row, published: &Published, value: &Value) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let number = |key: &str| value[key].as_f64();
    let with_brackets = |plain: Option<f64>, corrected: Option<f64>, shown: &dyn Fn(f64) -> String| {
        let brackets = corrected.map(|c| format!(" ({})", shown(c))).unwrap_or_default();
        or_dash(plain.map(|plain| format!("{}{brackets}", shown(plain))))
    };
    let ratio = number("e_rms").zip(published.e_rms).map(|(here, printed)| format!("{:.2}", here / printed));
    vec![
        row.sequence.to_owned(),
        row.bones.to_string(),
        published.method.to_owned(),
        with_brackets(published.e_rms, published.corrected, &|x| x.to_string()),
        with_brackets(number("e_rms"), number("e_rms_corrected"), &figure),
        or_dash(ratio),
        or_dash(published.minutes.map(|m| format!("{m:.2}"))),
        or_dash(number("seconds").map(|s| format!("{s:.2}"))),
        or_dash(number("storage_bytes").map(|n| bytes(n as u64))),
        value["note"].as_str().unwrap_or_default().to_owned(),
    ]
}

fn row_json(row: &Row, figures: &[(&Published, Value)]) -> Value {
    let methods: serde_json::Map<String, Value> = figures
        .iter()
        .map(|(published, here)| {
            let printed =
                json!({ "e_rms": published.e_rms, "e_rms_corrected": published.corrected, "minutes": published.minutes });
            (published.method.to_owned(), json!({ "published": printed, "here": here }))
        })
        .collect();
    json!({ "sequence": row.sequence, "bones": row.bones, "methods": methods })
}

/// E_RMS of a rig that was written, with corrections of the posed frames.
fn posed_residual(rig: &Path, sequence: &Path, rank: usize, session: &mut Session) -> anyhow::Result<f64> {
    let sequence = MeshSequence::try_from(bonesmith_io::load_sequence(&[sequence.to_owned()], &Default::default())?)?;
    Ok(corrective::posed_residual(&bonesmith_io::load_rig(rig)?, &sequence, rank, session)?)
}

/// Runs one fit in a process of its own; why it could not, as a note.
fn fit_in_child(
    contest: &Contest,
    row: &Row,
    published: &Published,
    sequence: &Path,
    threads: Option<usize>,
    out: &Path,
) -> anyhow::Result<Value> {
    let mut child = crate::another_process()?;
    child.arg("fit").arg(sequence).arg("-o").arg(out);
    child.args(["--quiet", "--json", "-", "--bones", &row.bones.to_string(), "--method", published.method]);
    if published.is_rig() {
        child.args(["--bone-kind", contest.kind]);
        if let Correction::Shapes(rank) = contest.correction {
            child.args(["--eigenskin", &rank.to_string()]);
        }
        if contest.keep_rest && published.is_printed() {
            child.arg("--keep-rest");
        }
    }
    if let Some(threads) = threads {
        child.args(["--threads", &threads.to_string()]);
    }
    let output = child.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    match output.status.code() {
        Some(0) => {}
        Some(130) => return Err(Cancelled.into()),
        Some(2) => {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            return Ok(json!({ "note": line }));
        }
        _ => bail!("{}: {}", row.label(), String::from_utf8_lossy(&output.stderr).trim()),
    }
    let summary: Value =
        serde_json::from_slice(&output.stdout).with_context(|| format!("{}: bad summary", row.label()))?;
    let corrected = &summary["eigenskin"];
    let (plain, after) = match corrected["e_rms_without"].is_number() {
        true => (&corrected["e_rms_without"], &summary["e_rms"]),
        false => (&summary["e_rms"], &Value::Null),
    };
    let storage = summary["storage_bytes"].as_u64().unwrap_or(0) - corrected["bytes"].as_u64().unwrap_or(0);
    let seconds =
        summary["seconds"]["prepare"].as_f64().unwrap_or(0.0) + summary["seconds"]["fit"].as_f64().unwrap_or(0.0);
    Ok(json!({ "e_rms": plain, "e_rms_corrected": after, "seconds": seconds, "storage_bytes": storage }))
}
