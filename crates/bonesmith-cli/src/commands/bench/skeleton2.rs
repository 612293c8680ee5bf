//! `bonesmith bench skeleton2`: skeletons beside table 2 of the course notes [Course2014], which is table 3.1 of [Le2014].
//!
//! RMSE in percent of the rest pose's diagonal, joints held exactly, measured on the GLB that was written.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::sheet::{self, Ledger};
use crate::args::BenchSkeletonArgs;
use crate::errors::Outcome;
use crate::session::Session;
use crate::sheet::Sheet;
use bonesmith_core::observer::Cancelled;

/// A sequence and its published figures.
struct Row {
    sequence: &'static str,
    bones: usize,
    /// RMSE %: Le & Deng 2014, Schaefer & Yuksel 2007, de Aguiar et al. 2008, Hasler et al. 2010.
    published: [f64; 4],
    /// Minutes of the first on a 2 GHz Xeon.
    minutes: f64,
}

const fn row(sequence: &'static str, bones: usize, published: [f64; 4], minutes: f64) -> Row {
    Row { sequence, bones, published, minutes }
}

const ROWS: [Row; 7] = [
    row("cat-poses", 28, [0.25, 0.68, 1.04, 0.63], 5.8),
    row("horse-poses", 27, [0.21, 0.54, 1.24, 0.75], 7.7),
    row("lion-poses", 30, [0.27, 0.83, 1.62, 1.14], 4.1),
    row("horse-gallop", 27, [0.22, 0.44, 1.10, 0.88], 41.9),
    row("pdance", 16, [0.22, 0.76, 0.78, 0.53], 148.7),
    row("samba", 22, [0.56, 1.29, 1.57, 1.79], 348.2),
    row("pcow", 11, [1.52, 5.41, 5.61, 5.58], 72.3),
];

const METHODS: [&str; 4] = ["multipass", "schaefer", "deaguiar", "hasler"];

/// Rigid parts to start from, where `--starts` asks for them.
const STARTS: [usize; 4] = [24, 32, 48, 64];

/// One fit.
#[derive(Serialize, Deserialize)]
struct Figures {
    bones: u64,
    rmse: f64,
    fit_secs: f64,
}

pub fn run(args: BenchSkeletonArgs, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    let jobs = sheet::jobs(&args.table, &ROWS, |row| row.sequence, |row| format!("{} {}", row.sequence, row.bones))?;
    let mut ledger = Ledger::open(&args.table, "skeleton2")?;
    let scratch = tempfile::Builder::new().prefix("bonesmith-bench-").tempdir()?;
    let (mut table, mut starts, mut values) = (header(), start_header(), Vec::new());
    for (row, path) in &jobs {
        let mut fit = |options: &[&str], session: &mut Session| -> anyhow::Result<Figures> {
            let name = format!("{} {}", row.sequence, options.join(" "));
            let found = ledger.figures(&name, session, |_| {
                Ok(serde_json::to_value(fit_in_child(path, options, &args, threads, scratch.path())?)?)
            })?;
            serde_json::from_value(found).with_context(|| format!("--resume: bad figures of {name}"))
        };
        let bones = row.bones.to_string();
        let found: Vec<Figures> = METHODS
            .iter()
            .map(|method| fit(&["--bones", &bones, "--skeleton-method", method], session))
            .collect::<anyhow::Result<_>>()?;
        let auto = fit(&[], session)?;
        table.rows.push(table_row(row, &found, &auto));
        let mut value = row_json(row, &found, &auto);
        if args.starts {
            let found: Vec<Figures> = STARTS
                .iter()
                .map(|start| fit(&["--bones", &bones, "--skeleton-start", &start.to_string()], session))
                .collect::<anyhow::Result<_>>()?;
            starts.rows.push(start_row(row, &found));
            value["starts"] = found.iter().map(|f| f.rmse).collect();
        }
        values.push(value);
    }
    let sheets = if args.starts { vec![table, starts] } else { vec![table] };
    sheet::publish(&args.table, session, "Skeletons: table 2 of the course notes of 2014", sheets, json!(values))?;
    Ok(Outcome::Done)
}

fn header() -> Sheet {
    let remark = format!(
        "Version {}. RMSE in % of the diagonal with joints held exactly; in brackets the paper's. \
         \"Left open\": without `--bones`.",
        env!("CARGO_PKG_VERSION")
    );
    let open = ["left open: bones", "left open: RMSE %"];
    let header = [
        &["sequence", "bones", "RMSE %", "ratio"][..],
        &open,
        &["Schaefer 2007", "de Aguiar 2008", "Hasler 2010", "fit s"],
    ];
    Sheet::new(remark, &header.concat())
}

fn table_row(row: &Row, found: &[Figures], auto: &Figures) -> Vec<String> {
    let both = |k: usize| format!("{:.3} ({})", found[k].rmse, row.published[k]);
    vec![
        row.sequence.to_owned(),
        format!("{} ({})", found[0].bones, row.bones),
        both(0),
        format!("{:.2}", found[0].rmse / row.published[0]),
        auto.bones.to_string(),
        format!("{:.3}", auto.rmse),
        both(1),
        both(2),
        both(3),
        format!("{:.1} ({} min)", found[0].fit_secs, row.minutes),
    ]
}

fn start_header() -> Sheet {
    let remark = "RMSE % from different over-complete starts (`--skeleton-start`), same upper limit of bones:";
    let columns: Vec<String> = STARTS.iter().map(|start| format!("from {start}")).collect();
    let names = ["sequence"].into_iter().chain(columns.iter().map(String::as_str)).chain(["largest over least"]);
    Sheet::new(remark, &names.collect::<Vec<_>>())
}

fn start_row(row: &Row, found: &[Figures]) -> Vec<String> {
    let (least, most) =
        found.iter().fold((f64::INFINITY, 0.0f64), |(low, high), f| (low.min(f.rmse), high.max(f.rmse)));
    let cells = found.iter().map(|f| format!("{:.3}", f.rmse));
    [row.sequence.to_owned()].into_iter().chain(cells).chain([format!("{:.2}", most / least)]).collect()
}

fn row_json(row: &Row, found: &[Figures], auto: &Figures) -> Value {
    let figures = |f: &Figures| json!({ "bones": f.bones, "rmse_percent": f.rmse, "fit_secs": f.fit_secs });
    let methods: serde_json::Map<String, Value> = METHODS
        .iter()
        .zip(found)
        .zip(row.published)
        .map(|((name, f), published)| {
            let mut value = figures(f);
            value["published"] = json!(published);
            ((*name).to_owned(), value)
        })
        .collect();
    json!({ "sequence": row.sequence, "published_bones": row.bones, "methods": methods, "left_open": figures(auto) })
}

/// Runs one fit in a process of its own.
fn fit_in_child(
    sequence: &Path,
    options: &[&str],
    args: &BenchSkeletonArgs,
    threads: Option<usize>,
    scratch: &Path,
) -> anyhow::Result<Figures> {
    let mut child = crate::another_process()?;
    child.arg("fit").arg(sequence).arg("-o").arg(scratch.join("rig.glb"));
    child.args(["--quiet", "--json", "-", "--skeleton"]).args(options);
    if let Some(effort) = args.effort.to_possible_value() {
        child.args(["--effort", effort.get_name()]);
    }
    if let Some(threads) = threads {
        child.args(["--threads", &threads.to_string()]);
    }
    let output = child.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    let shown = sequence.display();
    match output.status.code() {
        Some(0) => {}
        Some(130) => return Err(Cancelled.into()),
        _ => bail!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ")),
    }
    let summary: Value = serde_json::from_slice(&output.stdout).with_context(|| format!("{shown}: bad summary"))?;
    let number = |pointer: &str| {
        summary.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("{shown}: no {pointer}"))
    };
    Ok(Figures { bones: number("/bones")? as u64, rmse: number("/rmse_percent")?, fit_secs: number("/seconds/fit")? })
}
