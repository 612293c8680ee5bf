//! `bonesmith bench skeleton2`: skeletons beside table 2 of the course notes [Course2014], which is table 3.1 of [Le2014].
//!
//! RMSE in percent of the rest pose's diagonal, joints held exactly, measured on the GLB that was written.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::report::show;
use super::sequence_folder;
use crate::args::BenchSkeletonArgs;
use crate::errors::{Cancelled, Outcome, Usage};
use crate::output::write_json;
use crate::session::Session;
use crate::settings;

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
struct Figures {
    bones: u64,
    rmse: f64,
    fit_secs: f64,
}

pub fn run(args: BenchSkeletonArgs, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    let json = settings::json(args.json.clone())?;
    let Some(folder) = sequence_folder(args.sequences.as_ref())? else {
        return Err(Usage::new("no sequences to run on").hint("name their folder with --sequences").into());
    };
    let wanted = |row: &&Row| args.only.as_ref().is_none_or(|pattern| row.sequence.contains(pattern.as_str()));
    let file = |row: &Row| Some(folder.join(row.sequence).with_extension("npz")).filter(|path| path.is_file());
    let jobs: Vec<(&Row, PathBuf)> = ROWS.iter().filter(wanted).filter_map(|row| Some((row, file(row)?))).collect();
    if jobs.is_empty() {
        return Err(Usage::new(format!("{}: none of the sequences is there", folder.display())).into());
    }
    let scratch = tempfile::Builder::new().prefix("bonesmith-bench-").tempdir()?;
    let (mut table, mut starts, mut values) = (header(), start_header(), Vec::new());
    for (row, path) in &jobs {
        let fit = |options: &[&str]| -> anyhow::Result<Figures> {
            session.check_cancelled()?;
            if !session.quiet {
                eprintln!("{} {}", row.sequence, options.join(" "));
            }
            fit_in_child(path, options, &args, threads, scratch.path())
        };
        let bones = row.bones.to_string();
        let found: Vec<Figures> = METHODS
            .iter()
            .map(|method| fit(&["--bones", &bones, "--skeleton-method", method]))
            .collect::<anyhow::Result<_>>()?;
        let auto = fit(&[])?;
        table += &table_row(row, &found, &auto);
        let mut value = row_json(row, &found, &auto);
        if args.starts {
            let found: Vec<Figures> = STARTS
                .iter()
                .map(|start| fit(&["--bones", &bones, "--skeleton-start", &start.to_string()]))
                .collect::<anyhow::Result<_>>()?;
            starts += &start_row(row, &found);
            value["starts"] = found.iter().map(|f| f.rmse).collect();
        }
        values.push(value);
    }
    if let Some(target) = &json {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "rows": values }))?;
    }
    show(&table, json.as_ref(), session)?;
    if args.starts {
        show(&starts, json.as_ref(), session)?;
    }
    Ok(Outcome::Done)
}

fn header() -> String {
    format!(
        "Version {}. RMSE in % of the diagonal with joints held exactly; in brackets the paper's. \
         \"Left open\": without `--bones`.\n\n\
         | sequence | bones | RMSE % | ratio | left open: bones | RMSE % | Schaefer 2007 | de Aguiar 2008 | Hasler 2010 | fit s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n",
        env!("CARGO_PKG_VERSION")
    )
}

fn table_row(row: &Row, found: &[Figures], auto: &Figures) -> String {
    let both = |k: usize| format!("{:.3} ({})", found[k].rmse, row.published[k]);
    format!(
        "| {} | {} ({}) | {} | {:.2} | {} | {:.3} | {} | {} | {} | {:.1} ({} min) |\n",
        row.sequence,
        found[0].bones,
        row.bones,
        both(0),
        found[0].rmse / row.published[0],
        auto.bones,
        auto.rmse,
        both(1),
        both(2),
        both(3),
        found[0].fit_secs,
        row.minutes
    )
}

fn start_header() -> String {
    let columns: Vec<String> = STARTS.iter().map(|start| format!("from {start}")).collect();
    format!(
        "\nRMSE % from different over-complete starts (`--skeleton-start`), same upper limit of bones:\n\n\
         | sequence | {} | largest over least |\n|---|---:|---:|---:|---:|---:|\n",
        columns.join(" | ")
    )
}

fn start_row(row: &Row, found: &[Figures]) -> String {
    let (least, most) =
        found.iter().fold((f64::INFINITY, 0.0f64), |(low, high), f| (low.min(f.rmse), high.max(f.rmse)));
    let cells: Vec<String> = found.iter().map(|f| format!("{:.3}", f.rmse)).collect();
    format!("| {} | {} | {:.2} |\n", row.sequence, cells.join(" | "), most / least)
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
    let mut child = Command::new(std::env::current_exe()?);
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
