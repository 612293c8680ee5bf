//! `bonesmith bench two-layer`: what two layers cost to make, to store and to evaluate.

use std::hint::black_box;
use std::time::Instant;

use bonesmith_core::compress::{TwoLayerParams, compress};
use bonesmith_core::deform::{lbs_into, two_layer_into};
use bonesmith_core::reduce::{ReduceParams, reduce};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, Rig, TwoLayerRig};
use glam::Vec3;
use serde_json::json;

use super::reduction::{jobs, read, rig};
use super::report::show;
use crate::args::{BenchWeightsArgs, TableArgs};
use crate::errors::Outcome;
use crate::output::{bytes, write_json};
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;
use bonesmith::WeightBytes;

pub fn run(args: BenchWeightsArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json.clone())?;
    let mut speed = Sheet::new(
        format!("Version {}. Dense rigs with affine bones.", env!("CARGO_PKG_VERSION")),
        &[
            "sequence",
            "vertices",
            "bones",
            "no examples s",
            "weights only s",
            "examples s",
            "dense LBS ms",
            "4 influences ms",
            "two-layer ms",
            "faster than dense",
        ],
    );
    let mut memory = Sheet::new(
        "Weights as stored at run time (16-bit indices, 32-bit weights), and the room for virtual bones' transforms.",
        &["sequence", "bones", "dense", "4 influences", "two-layer", "virtual transforms"],
    );
    let mut rows = Vec::new();
    let table = TableArgs { sequences: args.sequences.clone(), only: args.only.clone(), ..TableArgs::default() };
    for (row, path) in jobs(&table)? {
        if !session.quiet {
            crate::output::emit(&row.label().to_string());
        }
        let sequence = read(&path)?;
        let dense = rig(&sequence, row.bones, None, session)?;
        let (two, own_secs) = timed(&dense, None, false, session)?;
        let (_, weight_secs) = timed(&dense, None, true, session)?;
        let (_, example_secs) = timed(&dense, Some(&sequence), false, session)?;
        let four = reduce(&dense, None, &ReduceParams::default(), session)?.rig;
        let speeds = [frame_ms(&dense), frame_ms(&four), two_layer_ms(&two)];
        let sizes = WeightBytes::new(&dense, &two);
        let seconds = [own_secs, weight_secs, example_secs].map(|secs| format!("{secs:.2}"));
        let mut cells = vec![row.sequence.to_owned(), dense.vertex_count().to_string(), row.bones.to_string()];
        cells.extend(seconds.into_iter().chain(speeds.map(|ms| format!("{ms:.3}"))));
        cells.push(format!("{:.1} x", speeds[0] / speeds[2]));
        speed.row(cells);
        let cells = [sizes.given, sizes.four_influences, sizes.two_layer, sizes.virtual_transforms];
        let names = [row.sequence.to_owned(), row.bones.to_string()];
        memory.row(names.into_iter().chain(cells.iter().map(|n| bytes(*n as u64))).collect());
        rows.push(json!({ "sequence": row.sequence, "bones": row.bones, "no_examples_secs": own_secs,
            "weights_only_secs": weight_secs, "examples_secs": example_secs, "dense_ms": speeds[0],
            "four_influences_ms": speeds[1], "two_layer_ms": speeds[2], "weight_bytes": sizes }));
    }
    let curve = curve(session)?;
    let mut growth = Sheet::new(
        "Time to compress against the number of vertices: the same soft rig, 16 bones, 24 frames, at four resolutions.",
        &["vertices", "no examples s", "weights only s", "examples s", "microseconds per vertex with examples"],
    );
    for (n, seconds) in &curve {
        let each = 1e6 * seconds[2] / *n as f64;
        let cells = seconds.map(|secs| format!("{secs:.2}"));
        growth.row(std::iter::once(n.to_string()).chain(cells).chain([format!("{each:.0}")]).collect());
    }
    if let Some(target) = &json_target {
        write_json(target, &json!({ "version": env!("CARGO_PKG_VERSION"), "rows": rows, "curve": curve }))?;
    }
    show(vec![speed, memory, growth], json_target.as_ref(), session)?;
    Ok(Outcome::Done)
}

fn timed(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    weights_only: bool,
    session: &mut Session,
) -> anyhow::Result<(TwoLayerRig, f64)> {
    let params = TwoLayerParams { weights_only, ..TwoLayerParams::default() };
    let started = Instant::now();
    let compressed = compress(rig, examples, &params, session)?;
    Ok((compressed.rig, started.elapsed().as_secs_f64()))
}

/// Vertices, and seconds without examples, with weights only, with examples.
fn curve(session: &mut Session) -> anyhow::Result<Vec<(usize, [f64; 3])>> {
    let mut points = Vec::new();
    for detail in [5, 10, 20, 40] {
        let params =
            PosedRigParams { bones: 16, influences: 16, kind: BoneKind::Affine, frames: 24, softness: 0.5, detail };
        let made = posed_rig(1, &params);
        let sequence = MeshSequence::try_from(made.sequence)?;
        let own = timed(&made.rig, None, false, session)?.1;
        let weights = timed(&made.rig, None, true, session)?.1;
        let examples = timed(&made.rig, Some(&sequence), false, session)?.1;
        points.push((made.rig.vertex_count(), [own, weights, examples]));
    }
    Ok(points)
}

/// Milliseconds of one frame of linear blend skinning, on all threads.
fn frame_ms(rig: &Rig) -> f64 {
    let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
    let clip = &rig.clips[0];
    best_ms(clip.frame_count(), |t| {
        lbs_into(&rig.rest, &rig.weights, clip.frame(t), &mut posed);
        black_box(&posed);
    })
}

fn two_layer_ms(rig: &TwoLayerRig) -> f64 {
    let mut posed = vec![Vec3::ZERO; rig.vertex_count()];
    let clip = &rig.master.clips[0];
    best_ms(clip.frame_count(), |t| {
        two_layer_into(rig, clip.frame(t), &mut posed);
        black_box(&posed);
    })
}

/// The best of several passes over all frames: others on the machine only ever slow one down.
fn best_ms(frames: usize, mut frame: impl FnMut(usize)) -> f64 {
    let mut best = f64::INFINITY;
    for _ in 0..7 {
        let started = Instant::now();
        (0..frames).for_each(&mut frame);
        best = best.min(1e3 * started.elapsed().as_secs_f64() / frames as f64);
    }
    best
}
