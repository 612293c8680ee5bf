//! Results as tables on a terminal.

use bonesmith::core::fit::StopReason;
use bonesmith::core::skeleton::SkeletonInfo;
use bonesmith::{
    FitPart, Memory, Metrics, MotionPart, Seconds, ShapeBonesPart, ShapeFigures, ShapePart, SkeletonPart, Summary,
};

use crate::output::{Table, bytes, count, figure};

/// A compact table of the figures; `notes` are further files that were written.
pub fn summary(summary: &Summary, notes: &[String], verbose: bool) -> String {
    match summary.simplification {
        Some(_) => simplified(summary, notes),
        None => fitted(summary, notes, verbose),
    }
}

fn title(summary: &Summary) -> String {
    let frames = if summary.shape_names.is_empty() { "frame" } else { "shape" };
    let mesh = [count(summary.vertices, "vertex"), count(summary.faces, "face"), count(summary.frames, frames)];
    format!("{}: {}", summary.name, mesh.join(", "))
}

/// Of `fit`, `demo` and `eval`.
fn fitted(summary: &Summary, notes: &[String], verbose: bool) -> String {
    let mut table = Table::new(title(summary));
    let kind = format!("{:?}", summary.bone_kind).to_lowercase();
    let pieces = summary.fit.as_ref().map_or(0, |fit| fit.info.pieces);
    let pieces = if pieces > 0 { format!("; {}", count(pieces, "rigid piece")) } else { String::new() };
    table.row("bones", format!("{} {kind}, at most {} per vertex{pieces}", summary.bones, summary.influences));
    if let Some(layers) = &summary.layers {
        table.row("layers", layers.clone());
    }
    if let Some(ShapePart { rank, e_rms_without, bytes: size }) = summary.shapes {
        let (shapes, size) = (count(rank, "corrective shape"), bytes(size as u64));
        table.row("shapes", format!("{shapes}, {size}; E_RMS without {}", figure(e_rms_without)));
    }
    if let Some(part) = &summary.shape_bones {
        shape_rows(&mut table, part);
    }
    if let Some(gpu) = &summary.gpu {
        table.row("posed by", gpu.clone());
    }
    if let Some(metrics) = &summary.metrics {
        error_rows(&mut table, metrics, &summary.shape_names);
    }
    clip_rows(&mut table, summary);
    clip_motion_rows(&mut table, &summary.motion);
    if let Some(fit) = &summary.fit {
        fit_rows(&mut table, fit, verbose);
    }
    table.row("seconds", seconds_line(summary.seconds, summary.fit.is_some()));
    if let Some(output) = &summary.output {
        table.row("written", format!("{}, {}", output.path.display(), bytes(output.bytes)));
        if let Some(compact) = &output.compact {
            table.row("compact", compact.text());
            compact.details().iter().filter(|_| verbose).for_each(|line| table.row("", line));
        }
    }
    for subject in &summary.subjects {
        table.row("written", format!("{}: E_RMS {}", subject.output.display(), subject.e_rms));
    }
    notes.iter().for_each(|note| table.row("written", note));
    table.to_string()
}

/// Shapes of largest error that are listed.
const SHOWN_SHAPES: usize = 5;

/// Of bones driven by shapes.
fn shape_rows(table: &mut Table, part: &ShapeBonesPart) {
    let ShapeBonesPart { shapes, numbers, all_numbers, .. } = *part;
    let mut worst: Vec<&ShapeFigures> = part.per_shape.iter().collect();
    worst.sort_by(|a, b| b.rms_distance.total_cmp(&a.rms_distance));
    let share = 100.0 * numbers as f64 / all_numbers.max(1) as f64;
    table.row("numbers", format!("{numbers:<9} of {all_numbers} ({share:.1} %) for {}", count(shapes, "shape")));
    let errors = [part.mean_absolute_error, part.rms_distance, part.max_distance].map(figure);
    table.row(
        "error",
        format!("{:<9} mean absolute, model units; RMS distance {}, maximum {}", errors[0], errors[1], errors[2]),
    );
    let sizes = [part.bytes, part.dense_bytes, part.sparse_bytes].map(|size| bytes(size as u64));
    table.row(
        "memory",
        format!(
            "{:<9} weights and numbers; shapes as offsets {}, moved vertices alone {}",
            sizes[0], sizes[1], sizes[2]
        ),
    );
    for shape in worst.iter().take(SHOWN_SHAPES) {
        let [rms, most] = [shape.rms_distance, shape.max_distance].map(figure);
        let angle = shape.shading_degrees.map_or(String::new(), |degrees| format!(", shading {}°", figure(degrees)));
        let numbers = count(shape.numbers, "number");
        table.row("shape", format!("{rms:<9} RMS distance, maximum {most}{angle}, {numbers}: {}", shape.name));
    }
    if worst.len() > SHOWN_SHAPES {
        table.row("", format!("{} have smaller errors: --json, --report", count(worst.len() - SHOWN_SHAPES, "shape")));
    }
}

fn clip_rows(table: &mut Table, summary: &Summary) {
    for clip in &summary.clips {
        let (e_rms, frames) = (figure(clip.e_rms), count(clip.frames, "frame"));
        table.row("clip", format!("{e_rms:<9} E_RMS of {}, {frames}", clip.name));
    }
}

/// Root bone and loops.
fn clip_motion_rows(table: &mut Table, motion: &MotionPart) {
    if let Some(root) = &motion.root {
        let left = if root.in_place { " taken out of" } else { " in" };
        for clip in &root.clips {
            let (distance, path, degrees) = (figure(clip.distance), figure(clip.path), figure(clip.degrees));
            let what =
                format!("{distance} model units{left} {:?} on a path of {path}, {degrees}°: {}", root.bone, clip.name);
            table.row("root", what);
        }
    }
    for part in &motion.loops {
        let how = match (part.seam.closing_frame, part.seam.window) {
            (true, _) => "closing frame added".to_owned(),
            (false, window) => format!("spread over {} at each end, no other changes", count(window, "frame")),
        };
        let error = part.e_rms_before.map_or(String::new(), |e| format!("; E_RMS {} without it", figure(e)));
        let (before, after) = (figure(part.seam.before), figure(part.after));
        table.row("loop", format!("seam {before} before, {after} now, {how}{error}: {}", part.seam.clip));
    }
}

/// The same as lines.
pub fn motion_lines(motion: &MotionPart) -> String {
    let mut table = Table::new(String::new());
    clip_motion_rows(&mut table, motion);
    let lines = table.to_string();
    lines.strip_prefix('\n').unwrap_or(&lines).to_owned()
}

/// Frames of a face have names: those of `shapes`.
fn error_rows(table: &mut Table, metrics: &Metrics, shapes: &[String]) {
    let (frame, vertex) = metrics.max_error_at;
    let frame = shapes.get(frame).map_or_else(|| format!("frame {frame}"), Clone::clone);
    table.row(
        "E_RMS",
        format!("{:<9} thousandths of the radius {}", figure(metrics.e_rms), figure(metrics.radius_model_units)),
    );
    let place = format!(
        "{frame}, vertex {vertex}; {} model units; 99.9 %: {}",
        figure(metrics.max_error_model_units),
        figure(metrics.p999_error)
    );
    table.row("max error", format!("{:<9} {place}", figure(metrics.max_error)));
    table.row("RMSE", format!("{:<9} of the bounding box diagonal", figure(metrics.rmse_percent) + " %"));
    match metrics.normal_degrees {
        Some(degrees) => {
            table.row("normals", format!("{:<9} mean angle, from posed positions", figure(degrees) + "°"));
        }
        None => table.row("normals", "none: no face of the mesh has an area"),
    }
    if let Some(skinned) = metrics.skinned_normals {
        let others = format!(
            "99 %: {}°; transposed inverse: {}°",
            figure(skinned.p99_degrees),
            figure(skinned.inverse_transpose_degrees)
        );
        let degrees = figure(skinned.degrees) + "°";
        table.row("shading", format!("{degrees:<9} mean angle, as engines deform them; {others}"));
    }
    if let Some(tangents) = metrics.skinned_tangents {
        let degrees = figure(tangents.degrees) + "°";
        table.row(
            "tangents",
            format!("{degrees:<9} mean angle, as engines deform them; 99 %: {}°", figure(tangents.p99_degrees)),
        );
    }
    motion_rows(table, metrics);
    table.row("verdict", metrics.verdict.to_string());
}

/// What changes from frame to frame.
fn motion_rows(table: &mut Table, metrics: &Metrics) {
    if let Some(velocity) = metrics.velocity_error {
        let sted = metrics.sted.map_or(String::new(), |sted| format!("; STED {}", figure(sted.total)));
        let kg = metrics.kg_error.map_or(String::new(), |kg| format!("; KG {} %", figure(kg)));
        table.row("popping", format!("{:<9} E_RMS of the steps between frames{sted}{kg}", figure(velocity)));
    }
    if let Some(contacts) = metrics.contacts {
        let (frame, vertex) = contacts.max_at;
        let most = format!("at most {} in frame {frame}, vertex {vertex}", figure(contacts.max_drift));
        table.row("contacts", format!("{:<9} mean drift of resting vertices; {most}", figure(contacts.mean_drift)));
    }
}

fn fit_rows(table: &mut Table, fit: &FitPart, verbose: bool) {
    let stop = match fit.info.stop {
        StopReason::Converged => "converged",
        StopReason::MaxIterations => "the maximum",
        StopReason::MaxSeconds => "time was up",
        StopReason::Exact => "exact",
        _ => "stopped",
    };
    if let Some(skeleton) = &fit.skeleton {
        table.row("skeleton", skeleton_line(skeleton));
    }
    table.row("iterations", format!("{:<9} {stop}", fit.info.iterations));
    if verbose {
        // Rounds of one stage with the same bones on one line.
        for rounds in fit.info.history.chunk_by(|a, b| (a.stage, a.bones) == (b.stage, b.bones)) {
            let errors: Vec<String> = rounds.iter().map(|round| figure(round.error)).collect();
            let what = format!("{}, {}", rounds[0].stage, count(rounds[0].bones, "bone"));
            table.row("rounds", format!("{what}: {}", errors.join(" ")));
        }
        let parts = fit.info.profile.iter().map(|(name, secs)| format!("{name} {secs:.3}"));
        table.row("profile", parts.collect::<Vec<_>>().join("  "));
        if let Some(Memory { peak, program, .. }) = fit.memory {
            table.row("peak memory", format!("{}, of which the program {}", bytes(peak), bytes(program)));
        }
    }
}

fn skeleton_line(part: &SkeletonPart) -> String {
    let SkeletonInfo { start_bones, regrafted, mirrored_pairs, .. } = part.info;
    let mut line = format!("from {}", count(start_bones, "rigid part"));
    if regrafted > 0 {
        line += &format!(", {} moved to another parent", count(regrafted, "subtree"));
    }
    if mirrored_pairs > 0 {
        line += &format!(", {}", count(mirrored_pairs, "mirror pair"));
    }
    line
}

fn seconds_line(seconds: Seconds, fitted: bool) -> String {
    let Seconds { load, prepare, fit, export, total, evaluate } = seconds;
    match fitted {
        true => format!("load {load:.2}  prepare {prepare:.2}  fit {fit:.2}  export {export:.2}  total {total:.2}"),
        false => format!("load {load:.2}  evaluate {evaluate:.2}"),
    }
}

/// Of `reduce`, `compress` and `ddm`.
fn simplified(summary: &Summary, notes: &[String]) -> String {
    let mut table = Table::new(title(summary));
    let facts = summary.simplification.as_ref().map(|part| part.details.facts()).unwrap_or_default();
    facts.into_iter().for_each(|(name, value)| table.row(name, value));
    if let Some(metrics) = &summary.metrics {
        let (radius, against) =
            (figure(metrics.radius_model_units), summary.against.replace("examples", "the examples"));
        let e_rms = figure(metrics.e_rms);
        table.row("E_RMS", format!("{e_rms:<9} thousandths of the radius {radius}, against {against}"));
        if let Some(before) = summary.before.as_ref().filter(|_| summary.against == "examples") {
            table.row("before", format!("{:<9} E_RMS of the input", figure(before.e_rms)));
        }
        let (frame, vertex) = metrics.max_error_at;
        table.row("max error", format!("{:<9} frame {frame}, vertex {vertex}", figure(metrics.max_error)));
        if let Some(degrees) = metrics.normal_degrees {
            table.row("normals", format!("{:<9} mean angle", figure(degrees) + "°"));
        }
        table.row("verdict", metrics.verdict.to_string());
    }
    clip_rows(&mut table, summary);
    let Seconds { load, fit, export, total, .. } = summary.seconds;
    let command = summary.command;
    table.row("seconds", format!("load {load:.2}  {command} {fit:.2}  export {export:.2}  total {total:.2}"));
    if let Some(output) = &summary.output {
        table.row("written", format!("{}, {}", output.path.display(), bytes(output.bytes)));
        if let Some(compact) = &output.compact {
            table.row("compact", compact.text());
        }
    }
    notes.iter().for_each(|note| table.row("report", note));
    table.to_string()
}
