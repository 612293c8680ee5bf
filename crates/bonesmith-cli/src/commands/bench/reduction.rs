//! `bonesmith bench reduction3` and `weights4.2`: all reductions and two layers beside the published tables.
//!
//! Input rigs are those of the papers, made by our fit: affine bones, 8 influences or dense. Figures are those of the
//! stored float32 weights.

use std::path::PathBuf;

use anyhow::Context;
use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::fit::{BoneCount, FitParams};
use bonesmith_core::methods::fit;
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::reduce::{ReduceMethod, ReduceParams, reduce};
use bonesmith_core::{BoneKind, MeshSequence, Rig, SparseWeights};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::reduction_published::{ROWS, Row, Task};
use super::sheet::{self, Ledger};
use crate::args::{BenchTableArgs, TableArgs};
use crate::errors::{Outcome, Usage};
use crate::output::figure;
use crate::session::Session;
use crate::sheet::Sheet;

/// Rows whose sequences are there, and the files.
pub fn jobs(args: &TableArgs) -> anyhow::Result<Vec<(&'static Row, PathBuf)>> {
    sheet::jobs(args, ROWS, |row| row.sequence, Row::label)
}

pub fn read(path: &PathBuf) -> anyhow::Result<MeshSequence> {
    let raw = bonesmith_io::load_sequence(std::slice::from_ref(path), &Default::default())?;
    Ok(MeshSequence::try_from(raw)?)
}

/// A rig as the papers start from.
pub fn rig(
    sequence: &MeshSequence,
    bones: usize,
    influences: Option<usize>,
    session: &mut Session,
) -> anyhow::Result<Rig> {
    let bones = BoneCount::Exact(bones);
    let params = FitParams { bones, influences, bone_kind: BoneKind::Affine, ..FitParams::default() };
    Ok(fit(sequence, &params, session)?.rig)
}

/// The columns of table 3, and ours.
const COLUMNS: [&str; 9] = [
    "k-largest",
    "smooth",
    "two-layer, weights only",
    "two-layer, own motion",
    "geometric",
    "Poisson",
    "two-layer, examples",
    "ours",
    "ours, motion refitted",
];
/// The published column beside each.
const PUBLISHED: [Option<usize>; 9] = [Some(0), Some(1), Some(2), None, Some(3), Some(4), Some(5), None, None];

/// The figures of one method.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Figures {
    e_rms: f64,
    normal_degrees: Option<f64>,
}

impl From<Metrics> for Figures {
    fn from(metrics: Metrics) -> Self {
        Self { e_rms: metrics.e_rms, normal_degrees: metrics.normal_degrees }
    }
}

/// A row, what was done to its rig, the rig itself, and every method.
type Result3 = (&'static Row, Task, Figures, Vec<Figures>);

/// E_RMS and normals of every method.
pub fn table3(args: BenchTableArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let args = args.table;
    let jobs = jobs(&args)?;
    let mut ledger = Ledger::open(&args, "reduction3")?;
    let mut results: Vec<Result3> = Vec::new();
    for (row, path) in jobs {
        for task in Task::ALL {
            let name = format!("{}: {}", row.label(), task.name());
            let found = ledger.figures(&name, session, |session| {
                let sequence = read(&path)?;
                let rig = rig(&sequence, row.bones, task.given(), session)?;
                let own = Figures::from(metrics::evaluate(&rig, 0, &sequence)?);
                Ok(json!([own, methods(&rig, &sequence, task, session)?]))
            })?;
            let (own, found): (Figures, Vec<Figures>) =
                serde_json::from_value(found).with_context(|| format!("--resume: bad figures of {name}"))?;
            if found.len() != COLUMNS.len() {
                return Err(Usage::new(format!("--resume: {name} has {} methods", found.len())).into());
            }
            results.push((row, task, own, found));
        }
    }
    let sheets = vec![errors(&results), normals(&results), targets(&results)];
    sheet::publish(
        &args,
        session,
        "Weight reduction: table 3 of the course notes of 2014",
        sheets,
        rows_json(&results),
    )?;
    Ok(Outcome::Done)
}

fn methods(rig: &Rig, sequence: &MeshSequence, task: Task, session: &mut Session) -> anyhow::Result<Vec<Figures>> {
    let single = |method: ReduceMethod, refit_motion: bool, session: &mut Session| -> anyhow::Result<Figures> {
        let params = ReduceParams { influences: task.wanted(), method, refit_motion, ..ReduceParams::default() };
        Ok(metrics::evaluate(&reduce(rig, Some(sequence), &params, session)?.rig, 0, sequence)?.into())
    };
    let double = |examples: bool, weights_only: bool, session: &mut Session| -> anyhow::Result<Figures> {
        let size = TwoLayerSize::Equivalent(task.wanted() as f64);
        let params = TwoLayerParams { size, weights_only, ..TwoLayerParams::default() };
        let two = compress(rig, examples.then_some(sequence), &params, session)?.rig;
        Ok(metrics::evaluate(&two, 0, sequence)?.into())
    };
    Ok(vec![
        single(ReduceMethod::KLargest, false, session)?,
        single(ReduceMethod::Smooth, false, session)?,
        double(false, true, session)?,
        double(false, false, session)?,
        single(ReduceMethod::Geometric, false, session)?,
        single(ReduceMethod::Poisson, false, session)?,
        double(true, false, session)?,
        single(ReduceMethod::Bonesmith, false, session)?,
        single(ReduceMethod::Bonesmith, true, session)?,
    ])
}

fn rows_json(results: &[Result3]) -> Value {
    let row = |(row, task, own, found): &Result3| {
        let columns: serde_json::Map<String, Value> =
            COLUMNS.iter().zip(found).map(|(name, figures)| ((*name).to_owned(), json!(figures))).collect();
        json!({ "sequence": row.sequence, "bones": row.bones, "task": task.name(), "e_rms": own.e_rms, "methods": columns })
    };
    results.iter().map(row).collect()
}

fn header() -> Vec<&'static str> {
    ["sequence", "bones", "task", "given"].into_iter().chain(COLUMNS).collect()
}

fn labels(row: &Row, task: Task) -> [String; 3] {
    [row.sequence.to_owned(), row.bones.to_string(), task.name().to_owned()]
}

fn errors(results: &[Result3]) -> Sheet {
    let remark = format!(
        "Version {}. E_RMS on the poses; published figures in brackets: their rigs, not ours. \"Given\": the rig that \
         was reduced.",
        env!("CARGO_PKG_VERSION")
    );
    let mut sheet = Sheet::new(remark, &header());
    for (row, task, own, found) in results {
        let published = &row.errors[*task as usize];
        let cell = |(m, column): (&Figures, &Option<usize>)| match column {
            Some(c) => format!("{} ({})", figure(m.e_rms), published[*c]),
            None => figure(m.e_rms),
        };
        let own_published = row.own[usize::from(*task != Task::EightToFour)];
        let own = format!("{} ({own_published})", figure(own.e_rms));
        let cells = found.iter().zip(&PUBLISHED).map(cell);
        sheet.rows.push(labels(row, *task).into_iter().chain([own]).chain(cells).collect());
    }
    sheet
}

fn normals(results: &[Result3]) -> Sheet {
    let mut sheet = Sheet::new("Mean angle between normals, degrees.", &header());
    let cell = |m: &Figures| m.normal_degrees.map_or("-".into(), |d| format!("{d:.2}"));
    for (row, task, own, found) in results {
        sheet.rows.push(labels(row, *task).into_iter().chain([cell(own)]).chain(found.iter().map(cell)).collect());
    }
    sheet
}

/// What was aimed at, and what came out.
fn targets(results: &[Result3]) -> Sheet {
    let remark = "Ratios. Two-layer at the cost of 4 influences over the dense rig; published ones in brackets.";
    let two_layer = ["examples", "own motion", "weights only"];
    let ours = ["ours / k-largest", "refitted / k-largest", "ours / geometric"];
    let mut sheet = Sheet::new(remark, &[&["sequence", "bones"][..], &two_layer, &ours].concat());
    for (row, task, own, found) in results.iter().filter(|(_, task, ..)| *task == Task::DenseToFour) {
        let published = &row.errors[*task as usize];
        let ratio = |column: usize| found[column].e_rms / own.e_rms;
        let (with, without) = (published[5] / row.own[1], published[2] / row.own[1]);
        let over = |a: usize, b: usize| format!("{:.2}", found[a].e_rms / found[b].e_rms);
        sheet.rows.push(vec![
            row.sequence.to_owned(),
            row.bones.to_string(),
            format!("{:.2} ({with:.2})", ratio(6)),
            format!("{:.2} ({without:.2})", ratio(3)),
            format!("{:.2} ({without:.2})", ratio(2)),
            over(7, 0),
            over(8, 0),
            over(7, 4),
        ]);
    }
    sheet
}

/// Change of the weights: k-largest, smooth, two layers, none of which sees a pose.
pub fn table42(args: BenchTableArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let args = args.table;
    let jobs = jobs(&args)?;
    let mut ledger = Ledger::open(&args, "weights4.2")?;
    let version = env!("CARGO_PKG_VERSION");
    let remark = format!(
        "Version {version}. Delta_W: root mean square change of the weights, times 1000; published figures in brackets."
    );
    let mut sheet = Sheet::new(remark, &["sequence", "bones", "task", "k-largest", "smooth", "two-layer"]);
    let mut rows = Vec::new();
    for (row, path) in jobs {
        for task in Task::ALL {
            let name = format!("{}: {}", row.label(), task.name());
            let found =
                ledger.figures(&name, session, |session| Ok(json!(changes(row, task, &read(&path)?, session)?)))?;
            let found: [f64; 3] =
                serde_json::from_value(found).with_context(|| format!("--resume: bad figures of {name}"))?;
            let cells = found.iter().zip(row.changes[task as usize]).map(|(x, p)| format!("{} ({p})", figure(*x)));
            sheet.rows.push(labels(row, task).into_iter().chain(cells).collect());
            rows.push(json!({ "sequence": row.sequence, "bones": row.bones, "task": task.name(), "delta_w": found }));
        }
    }
    sheet::publish(&args, session, "Weights without examples: table 4.2 of Le's thesis", vec![sheet], json!(rows))?;
    Ok(Outcome::Done)
}

/// Delta_W of k-largest, smooth and two layers.
fn changes(row: &Row, task: Task, sequence: &MeshSequence, session: &mut Session) -> anyhow::Result<[f64; 3]> {
    let rig = rig(sequence, row.bones, task.given(), session)?;
    let single = |method: ReduceMethod, session: &mut Session| -> anyhow::Result<f64> {
        let params = ReduceParams { influences: task.wanted(), method, ..ReduceParams::default() };
        Ok(change(&rig.weights, &reduce(&rig, None, &params, session)?.rig.weights, row.bones))
    };
    let size = TwoLayerSize::Equivalent(task.wanted() as f64);
    let params = TwoLayerParams { size, weights_only: true, thorough: true, ..TwoLayerParams::default() };
    Ok([
        single(ReduceMethod::KLargest, session)?,
        single(ReduceMethod::Smooth, session)?,
        compress(&rig, None, &params, session)?.info.history.last().map_or(0.0, |round| round.error),
    ])
}

/// [Le2014 eq. 4.1a], times 1000.
fn change(before: &SparseWeights, after: &SparseWeights, bones: usize) -> f64 {
    let mut row = vec![0.0f64; bones];
    let mut sum = 0.0;
    for i in 0..before.vertex_count() {
        row.fill(0.0);
        before.of(i).for_each(|(j, w)| row[j] -= f64::from(w));
        after.of(i).for_each(|(j, w)| row[j] += f64::from(w));
        sum += row.iter().map(|x| x * x).sum::<f64>();
    }
    1000.0 * (sum / (bones * before.vertex_count()) as f64).sqrt()
}
