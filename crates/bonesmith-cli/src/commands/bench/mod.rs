//! `bonesmith bench fit`: speed, error and memory of the fit beside published figures.
//!
//! Every row is `bonesmith fit` in a process of its own: the figures are those of the file a user would get, and
//! the peak memory is the system's own count for that one fit, untouched by the rows before it.

pub mod ddm;
pub mod files;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod limits;
pub mod methods;
mod methods_published;
mod published;
pub mod reduction;
mod reduction_published;
pub mod report;
pub mod shapes;
mod sheet;
pub mod skeleton2;
pub mod table;
pub mod two_layer;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, bail};
use bonesmith_core::synthetic;
use clap::ValueEnum;
use serde_json::{Value, json};

use self::published::{DEMO_ROWS, ROWS, Row};
use self::table::Measured;
use crate::args::{BenchFitArgs, MethodArg};
use crate::errors::{Outcome, Usage};
use crate::output::write_json;
use crate::session::Session;
use crate::settings;
use bonesmith::MeshSequence;
use bonesmith_core::observer::Cancelled;

/// A row and the file it is run on.
type Job = (Row, PathBuf);

pub fn run(args: BenchFitArgs, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    let json = settings::json(args.json.clone())?;
    let earlier = args.against.as_deref().map(table::Earlier::read).transpose()?;
    if !bonesmith_core::fit::Method::from(args.method).makes_rigs() {
        return Err(Usage::new("bench fit measures rigs").hint("bench kavan2 has the methods that make none").into());
    }
    // Holds the demo sequence and the rigs; gone when the bench ends.
    let scratch = tempfile::Builder::new().prefix("bonesmith-bench-").tempdir()?;
    let (jobs, remark) = find_jobs(&args, scratch.path())?;
    let mut rows = Vec::new();
    for (at, (row, path)) in jobs.iter().enumerate() {
        if !session.quiet {
            crate::output::emit(&format!("{}/{}: {}", at + 1, jobs.len(), row.label()));
        }
        session.check_cancelled()?;
        rows.push(Measured::new(*row, &fit_in_child(row, path, &args, threads, scratch.path())?)?);
    }
    if let Some(target) = &json {
        let rows: Vec<Value> = rows.iter().map(Measured::to_json).collect();
        let summary = json!({ "version": env!("CARGO_PKG_VERSION"), "remark": remark, "rows": rows });
        write_json(target, &summary)?;
    }
    let mut sheet = table::sheet(&rows, &remark);
    if let Some(earlier) = earlier {
        sheet.notes += &earlier.ratios(&rows);
    }
    report::show(vec![sheet], json.as_ref(), session)?;
    Ok(Outcome::Done)
}

/// Which rows can be run, and in one line what they are run on.
fn find_jobs(args: &BenchFitArgs, scratch: &Path) -> anyhow::Result<(Vec<Job>, String)> {
    let wanted = |row: &Row| {
        let affine = row.kind == bonesmith_core::BoneKind::Affine;
        let fits_method = match args.method {
            MethodArg::Fsd => affine,
            MethodArg::Ssdr | MethodArg::Lssp => !affine,
            _ => true,
        };
        fits_method && args.only.as_ref().is_none_or(|pattern| row.label().contains(pattern.as_str()))
    };
    let folder = sequence_folder(args.sequences.as_ref())?;
    let file =
        |row: &Row| Some(folder.as_ref()?.join(row.sequence).with_extension("npz")).filter(|path| path.is_file());
    let there: Vec<Job> = ROWS.iter().filter_map(|row| Some((*row, file(row)?))).collect();
    let (there, remark) = match there.is_empty() {
        false => {
            let options = match args.options.is_empty() {
                true => String::new(),
                false => format!(" With `{}`.", args.options.join(" ")),
            };
            (there, format!("Version {}, at most 4 influences per vertex.{options}", env!("CARGO_PKG_VERSION")))
        }
        true => {
            let path = scratch.join("demo.npz");
            bonesmith_io::save_sequence(&MeshSequence::try_from(synthetic::clownfish())?, &path)?;
            let remark = "No published sequences found: this is the demo animation, which has no published figures.";
            (DEMO_ROWS.iter().map(|row| (*row, path.clone())).collect(), remark.to_owned())
        }
    };
    let jobs: Vec<Job> = there.into_iter().filter(|(row, _)| wanted(row)).collect();
    match (jobs.is_empty(), &args.only) {
        (true, Some(pattern)) => Err(Usage::new(format!("--only {pattern}: no such row with a sequence to run it on"))
            .hint("rows are named like \"horse-gallop 30 affine\", those of the demo like \"demo 20 rigid\"")
            .into()),
        _ => Ok((jobs, remark)),
    }
}

/// The folder given, else the one in the environment, else the usual place beside the repository.
fn sequence_folder(given: Option<&PathBuf>) -> Result<Option<PathBuf>, Usage> {
    if let Some(folder) = given {
        return match folder.is_dir() {
            true => Ok(Some(folder.clone())),
            false => Err(Usage::new(format!("--sequences {}: no such folder", folder.display()))),
        };
    }
    let from_environment = std::env::var_os("BONESMITH_DATA").map(|data| Path::new(&data).join("sequences"));
    let candidates = from_environment.into_iter().chain([PathBuf::from("../shared/data/sequences")]);
    Ok(candidates.into_iter().find(|folder| folder.is_dir()))
}

/// Runs one fit in a process of its own and returns its JSON summary.
fn fit_in_child(
    row: &Row,
    sequence: &Path,
    args: &BenchFitArgs,
    threads: Option<usize>,
    scratch: &Path,
) -> anyhow::Result<Value> {
    let mut child = crate::another_process()?;
    child.arg("fit").arg(sequence).arg("-o").arg(scratch.join("rig.glb"));
    child.args(["--quiet", "--json", "-", "--bone-kind", row.kind_name(), "--bones", &row.bones.to_string()]);
    child.args(["--method", bonesmith_core::fit::Method::from(args.method).name()]);
    let mut option = |name: &str, value: Option<String>| {
        value.iter().for_each(|value| {
            child.args([name, value]);
        });
    };
    option("--max-iterations", args.max_iterations.map(|n| n.to_string()));
    let effort = args.effort.to_possible_value().map(|value| value.get_name().to_owned());
    option("--effort", effort);
    option("--tolerance", args.tolerance.map(|t| t.to_string()));
    option("--threads", threads.map(|n| n.to_string()));
    child.args(&args.options);
    let output = child.stdin(Stdio::null()).stderr(Stdio::piped()).output()?;
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).with_context(|| format!("{}: bad summary", row.label())),
        Some(130) => Err(Cancelled.into()),
        _ => bail!("{}: {}", row.label(), String::from_utf8_lossy(&output.stderr).trim().trim_start_matches("error: ")),
    }
}
