//! `bonesmith bench reduction3` and `weights4.2`: all reductions and two layers beside the published tables.
//!
//! Input rigs are those of the papers, made by our fit: affine bones, 8 influences or dense. Figures are those of the
//! stored float32 weights.

use std::path::PathBuf;

use bonesmith_core::compress::{TwoLayerParams, TwoLayerSize, compress};
use bonesmith_core::fit::{BoneCount, FitParams, fit};
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::reduce::{ReduceMethod, ReduceParams, reduce};
use bonesmith_core::{BoneKind, MeshSequence, Rig, SparseWeights, deform};
use serde_json::{Value, json};

use super::reduction_published::{ROWS, Row, Task};
use super::report::show;
use crate::args::BenchWeightsArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{figure, write_json};
use crate::session::Session;
use crate::{load, settings};

/// Rows whose sequences are there, and the files.
pub fn jobs(args: &BenchWeightsArgs) -> anyhow::Result<Vec<(&'static Row, PathBuf)>> {
    let folder = super::sequence_folder(args.sequences.as_ref())?;
    let wanted = |row: &&Row| args.only.as_ref().is_none_or(|pattern| row.label().contains(pattern.as_str()));
    let file = |row: &'static Row| {
        let path = folder.as_ref()?.join(row.sequence).with_extension("npz");
        path.is_file().then_some((row, path))
    };
    let jobs: Vec<_> = ROWS.iter().filter(wanted).filter_map(file).collect();
    match jobs.is_empty() {
        true => Err(Usage::new("none of the published sequences was found")
            .hint("--sequences DIR with samba.npz, horse-gallop.npz, horse-collapse.npz")
            .into()),
        false => Ok(jobs),
    }
}

pub fn read(path: &PathBuf) -> anyhow::Result<MeshSequence> {
    load::check(bonesmith_io::load_sequence(std::slice::from_ref(path), &Default::default())?)
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

/// E_RMS and normals of every method.
pub fn table3(args: BenchWeightsArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json.clone())?;
    let mut results: Vec<(&Row, Task, Metrics, Vec<Metrics>)> = Vec::new();
    for (row, path) in jobs(&args)? {
        let sequence = read(&path)?;
        for task in Task::ALL {
            if !session.quiet {
                eprintln!("{}: {}", row.label(), task.name());
            }
            let rig = rig(&sequence, row.bones, task.given(), session)?;
            let own = metrics::evaluate(&rig, &sequence)?;
            results.push((row, task, own, methods(&rig, &sequence, task, session)?));
        }
    }
    if let Some(target) = &json_target {
        write_json(target, &rows_json(&results))?;
    }
    show(&markdown(&results), json_target.as_ref(), session)?;
    Ok(Outcome::Done)
}

fn methods(rig: &Rig, sequence: &MeshSequence, task: Task, session: &mut Session) -> anyhow::Result<Vec<Metrics>> {
    let single = |method: ReduceMethod, refit_motion: bool, session: &mut Session| -> anyhow::Result<Metrics> {
        let params = ReduceParams { influences: task.wanted(), method, refit_motion, ..ReduceParams::default() };
        Ok(metrics::evaluate(&reduce(rig, Some(sequence), &params, session)?.rig, sequence)?)
    };
    let double = |examples: bool, weights_only: bool, session: &mut Session| -> anyhow::Result<Metrics> {
        let size = TwoLayerSize::Equivalent(task.wanted() as f64);
        let params = TwoLayerParams { size, weights_only, ..TwoLayerParams::default() };
        let two = compress(rig, examples.then_some(sequence), &params, session)?.rig;
        Ok(metrics::compare(sequence, |t| deform::two_layer(&two, two.master.clips[0].frame(t))))
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

fn rows_json(results: &[(&Row, Task, Metrics, Vec<Metrics>)]) -> Value {
    let row = |(row, task, own, found): &(&Row, Task, Metrics, Vec<Metrics>)| {
        let columns: serde_json::Map<String, Value> = COLUMNS
            .iter()
            .zip(found)
            .map(|(name, m)| ((*name).to_owned(), json!({ "e_rms": m.e_rms, "normal_degrees": m.normal_degrees })))
            .collect();
        json!({ "sequence": row.sequence, "bones": row.bones, "task": task.name(), "e_rms": own.e_rms, "methods": columns })
    };
    json!({ "version": env!("CARGO_PKG_VERSION"), "rows": results.iter().map(row).collect::<Vec<_>>() })
}

fn markdown(results: &[(&Row, Task, Metrics, Vec<Metrics>)]) -> String {
    let mut text = format!(
        "Version {}. E_RMS on the poses; published figures in brackets: their rigs, not ours. First column: the rig that \
         was reduced.\n\n",
        env!("CARGO_PKG_VERSION")
    );
    let header = |what: &str| {
        format!(
            "| sequence | bones | task | {what} | {} |\n|---|---:|---|{}\n",
            COLUMNS.join(" | "),
            "---:|".repeat(10)
        )
    };
    text += &header("given");
    for (row, task, own, found) in results {
        let published = &row.errors[*task as usize];
        let cell = |(m, column): (&Metrics, &Option<usize>)| match column {
            Some(c) => format!("{} ({})", figure(m.e_rms), published[*c]),
            None => figure(m.e_rms),
        };
        let cells: Vec<String> = found.iter().zip(&PUBLISHED).map(cell).collect();
        let own_published = row.own[usize::from(*task != Task::EightToFour)];
        let own = format!("{} ({own_published})", figure(own.e_rms));
        text += &format!("| {} | {} | {} | {own} | {} |\n", row.sequence, row.bones, task.name(), cells.join(" | "));
    }
    text += "\nMean angle between normals, degrees.\n\n";
    text += &header("given");
    for (row, task, own, found) in results {
        let cell = |m: &Metrics| m.normal_degrees.map_or("-".into(), |d| format!("{d:.2}"));
        let cells: Vec<String> = found.iter().map(cell).collect();
        let own = cell(own);
        text += &format!("| {} | {} | {} | {own} | {} |\n", row.sequence, row.bones, task.name(), cells.join(" | "));
    }
    text + "\n" + &targets(results)
}

/// What was aimed at, and what came out.
fn targets(results: &[(&Row, Task, Metrics, Vec<Metrics>)]) -> String {
    let mut text = String::from(
        "Ratios. Two-layer at the cost of 4 influences over the dense rig; published ones in brackets.\n\n\
         | sequence | bones | examples | own motion | weights only | ours / k-largest | refitted / k-largest | ours / geometric |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for (row, task, own, found) in results.iter().filter(|(_, task, ..)| *task == Task::DenseToFour) {
        let published = &row.errors[*task as usize];
        let ratio = |column: usize| found[column].e_rms / own.e_rms;
        let (with, without) = (published[5] / row.own[1], published[2] / row.own[1]);
        text += &format!(
            "| {} | {} | {:.2} ({with:.2}) | {:.2} ({without:.2}) | {:.2} ({without:.2}) | {:.2} | {:.2} | {:.2} |\n",
            row.sequence,
            row.bones,
            ratio(6),
            ratio(3),
            ratio(2),
            found[7].e_rms / found[0].e_rms,
            found[8].e_rms / found[0].e_rms,
            found[7].e_rms / found[4].e_rms,
        );
    }
    text
}

/// Change of the weights: k-largest, smooth, two layers, none of which sees a pose.
pub fn table42(args: BenchWeightsArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json.clone())?;
    let mut text = format!(
        "Version {}. Delta_W: root mean square change of the weights, times 1000; published figures in brackets.\n\n\
         | sequence | bones | task | k-largest | smooth | two-layer |\n|---|---:|---|---:|---:|---:|\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut rows = Vec::new();
    for (row, path) in jobs(&args)? {
        let sequence = read(&path)?;
        for task in Task::ALL {
            if !session.quiet {
                eprintln!("{}: {}", row.label(), task.name());
            }
            let rig = rig(&sequence, row.bones, task.given(), session)?;
            let single = |method: ReduceMethod, session: &mut Session| -> anyhow::Result<f64> {
                let params = ReduceParams { influences: task.wanted(), method, ..ReduceParams::default() };
                Ok(change(&rig.weights, &reduce(&rig, None, &params, session)?.rig.weights, row.bones))
            };
            let size = TwoLayerSize::Equivalent(task.wanted() as f64);
            let params = TwoLayerParams { size, weights_only: true, thorough: true, ..TwoLayerParams::default() };
            let found = [
                single(ReduceMethod::KLargest, session)?,
                single(ReduceMethod::Smooth, session)?,
                compress(&rig, None, &params, session)?.info.history.last().map_or(0.0, |(_, error)| *error),
            ];
            let cells: Vec<String> =
                found.iter().zip(row.changes[task as usize]).map(|(x, p)| format!("{} ({p})", figure(*x))).collect();
            text += &format!("| {} | {} | {} | {} |\n", row.sequence, row.bones, task.name(), cells.join(" | "));
            rows.push(json!({ "sequence": row.sequence, "bones": row.bones, "task": task.name(), "delta_w": found }));
        }
    }
    if let Some(target) = &json_target {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "rows": rows }))?;
    }
    show(&text, json_target.as_ref(), session)?;
    Ok(Outcome::Done)
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
