//! Results as scenes of a report.

use std::ops::Range;
use std::path::Path;

use bonesmith_core::metrics::Metrics;
use bonesmith_core::{Clip, MeshSequence, ModelRef, Rig, Round};
use bonesmith_report::{
    ClipSpan, Column, Done, Figure, Iteration, Page, Scene, ShapeRow, StorageRow, Subject, Table, Timing, params,
    render,
};
use serde_json::json;

use crate::error::Error;
use crate::saved::Saved;
use crate::shapes::{ShapeBonesPart, ShapeFigures};
use crate::simplify::{Simplified, SourceRig};
use crate::summary::{Seconds, Summary};
use crate::text::{count, figure, file_name};

/// Size of a report at most, in bytes, unless another one is chosen.
pub const REPORT_BYTES: u64 = 25_000_000;

/// Writes a scene as one html file of at most `max_bytes` ([`REPORT_BYTES`] is the usual); frames are left out evenly where all
/// would be too much.
pub fn write_report(scene: &Scene, path: impl AsRef<Path>, max_bytes: u64) -> Result<Page, Error> {
    let path = path.as_ref();
    let page = render(scene, max_bytes).map_err(|source| Error::Report { path: path.to_owned(), source })?;
    bonesmith_io::write_whole(path, page.html.as_bytes())?;
    Ok(page)
}

impl Summary {
    /// The report of a fit of one clip or several, or of a measurement: `model` beside the animation. `name` is what the page calls the
    /// model.
    pub fn scene<'a>(
        &'a self,
        name: &str,
        model: ModelRef<'a>,
        clips: Vec<usize>,
        sequence: &'a MeshSequence,
    ) -> Scene<'a> {
        let fit = self.fit.as_ref();
        let mut subject = Subject { metrics: self.metrics.as_ref(), ..Subject::new(name, model, clips) };
        subject.timings = timings(&self.seconds);
        subject.warnings = self.warnings.iter().map(|warning| warning.remark()).collect();
        if let Some(fit) = fit {
            subject.timings.extend(fit.info.profile.iter().map(|(part, secs)| timing(&format!("fit: {part}"), *secs)));
            subject.iterations = Some(iterations(&fit.info.history, "bone"));
            if let Some(ratio) = fit.info.jitter_ratio {
                let meaning = "Mean second difference of the model over that of the original: 1 is as smooth in time.";
                subject.figures.push(Figure::new("jitter", ratio, "", meaning));
            }
        }
        if let Some(output) = &self.output {
            subject.storage.push(StorageRow::new(format!("file {name}"), output.bytes));
        }
        let clips = self.clips.iter().map(|clip| ClipSpan { name: clip.name.clone(), count: clip.frames }).collect();
        Scene {
            title: match fit {
                Some(_) => format!("{} → {name}", self.name),
                None => format!("{name} against {}", self.name),
            },
            command: self.command.to_owned(),
            original: Some(sequence),
            subjects: vec![subject],
            clips,
            shapes: shape_rows(model, &self.shape_names),
            tables: self.shape_bones.iter().map(shape_table).collect(),
            done: Done { text: self.done(model), params: params(&self.params_json()), seconds: json!(self.seconds) },
            ..Scene::default()
        }
    }

    /// The report of a file that was written: the model as it was read back, beside the animation.
    pub fn saved_scene<'a>(&'a self, saved: &'a Saved, sequence: &'a MeshSequence) -> Scene<'a> {
        let model = saved.model.view();
        let clips = (0..model.clips().len()).take(self.clips.len().max(1)).collect();
        self.scene(&file_name(&saved.path), model, clips, sequence)
    }

    fn done(&self, model: ModelRef<'_>) -> String {
        let Self { name, vertices, frames, bones, influences, .. } = self;
        let kind = format!("{:?}", self.bone_kind).to_lowercase();
        let unit = if self.shape_names.is_empty() { "frame" } else { "shape" };
        let mesh = format!("{name} ({vertices} vertices, {})", count(*frames, unit));
        let rig = match model {
            ModelRef::Basis(basis) => {
                format!("{} of {}", count(basis.cluster_count, "cluster"), count(basis.dimension, "column"))
            }
            _ => {
                let shapes = if let ModelRef::Corrective(corrective) = model { corrective.shapes.len() } else { 0 };
                let more =
                    if shapes > 0 { format!("{} and ", count(shapes, "corrective shape")) } else { String::new() };
                format!(
                    "{more}{} with at most {} per vertex",
                    count(*bones, &format!("{kind} bone")),
                    count(*influences, "influence")
                )
            }
        };
        match &self.fit {
            Some(fit) => {
                let secs = figure(self.seconds.prepare + self.seconds.fit);
                let what = if fit.skeleton.is_some() { "A skeleton of " } else { "" };
                format!("{what}{rig} fitted to {mesh} in {secs} s and {}.", count(fit.info.iterations, "round"))
            }
            None => format!("A model of {rig}, measured against {mesh}."),
        }
    }
}

impl Simplified {
    /// The report of a simplification: the input and the file as it was read back, side by side.
    pub fn scene<'a>(&'a self, summary: &'a Summary, saved: &'a Saved, source: &'a SourceRig) -> Scene<'a> {
        let reference = self.reference(source).filter(|_| summary.metrics.is_some());
        let name = file_name(&saved.path);
        let shown = |model: ModelRef<'_>| match model.rig() {
            Some(_) => source.clips().collect(),
            None => vec![0],
        };
        let model = saved.model.view();
        let mut subject = Subject { metrics: summary.metrics.as_ref(), ..Subject::new(&name, model, shown(model)) };
        let history = self.record.details.history();
        if !history.is_empty() {
            subject.iterations = Some(iterations(history, "virtual bone"));
        }
        subject.timings = timings(&summary.seconds);
        subject.storage.push(StorageRow::new(format!("file {name}"), saved.file_bytes));
        subject.warnings = summary.warnings.iter().map(|warning| warning.remark()).collect();
        let own = ModelRef::from(&source.rig);
        let mut input = Subject::new(format!("{} (input)", source.rig.name), own, shown(own));
        if source.examples.is_some()
            && let Some(before) = &summary.before
        {
            let meaning = "E_RMS of the input, against the same animation.";
            subject.figures.push(Figure::new("E_RMS before", before.e_rms, "‰ of the radius", meaning));
            input.metrics = Some(before);
        }
        let frames = |model: ModelRef<'_>| {
            let clips = model.clips();
            shown(model).into_iter().filter_map(|clip| clips.get(clip)).map(|clip| clip.frame_count()).sum::<usize>()
        };
        let mut subjects = vec![subject];
        // Both are shown in the same frames, or the result alone.
        if frames(own) == frames(model) {
            subjects.push(input);
        }
        let against = match summary.metrics {
            Some(_) => format!(", compared with {}", summary.against.replace("examples", "the examples")),
            None => String::new(),
        };
        let secs = figure(summary.seconds.prepare + summary.seconds.fit);
        let facts = summary.simplification.as_ref().map(|part| part.details.facts()).unwrap_or_default();
        let facts: Vec<String> = facts.iter().map(|(name, value)| format!("{name}: {}", squeezed(value))).collect();
        let (command, method) = (self.command, self.record.method);
        let text = format!("{command} of {} by {method} in {secs} s{against}. {}.", summary.name, facts.join("; "));
        Scene {
            title: format!("{} → {name}", summary.name),
            command: command.to_owned(),
            original: reference,
            subjects,
            clips: spans(&source.rig, source.clips()),
            done: Done { text, params: params(&self.record.params), seconds: json!(summary.seconds) },
            ..Scene::default()
        }
    }
}

/// The frames of some clips of a rig; none where there is one clip only.
fn spans(rig: &Rig, clips: Range<usize>) -> Vec<ClipSpan> {
    let span = |clip: &Clip| ClipSpan { name: clip.name.clone(), count: clip.frame_count() };
    if clips.len() > 1 { rig.clips[clips].iter().map(span).collect() } else { Vec::new() }
}

/// The report of positions that were computed from a rig's clips: the file as it was read back, and the rig beside it.
pub fn frames_scene<'a>(command: &str, saved: &'a Saved, rig: &'a Rig, text: String) -> Scene<'a> {
    let name = file_name(&saved.path);
    let mut subject = Subject::new(name.clone(), &saved.model, vec![0]);
    subject.storage.push(StorageRow::new(format!("file {name}"), saved.file_bytes));
    let size = |model: ModelRef<'_>| {
        (model.vertex_count(), model.clips().iter().map(|clip| clip.frame_count()).sum::<usize>())
    };
    let mut subjects = vec![subject];
    // Both are shown on one mesh in the same frames, or the result alone.
    if size(rig.into()) == size(saved.model.view()) {
        subjects.push(Subject::new(format!("{} (input)", rig.name), rig, (0..rig.clips.len()).collect()));
    }
    Scene {
        title: format!("{} → {name}", rig.name),
        command: command.to_owned(),
        subjects,
        clips: spans(rig, 0..rig.clips.len()),
        done: Done { text, ..Done::default() },
        ..Scene::default()
    }
}

/// The report of a model alone: some clips, or all it has; with figures where there are any.
pub fn model_scene<'a>(
    path: &Path,
    model: ModelRef<'a>,
    clips: Option<Vec<usize>>,
    metrics: Option<&'a Metrics>,
    sequence: Option<&'a MeshSequence>,
) -> Scene<'a> {
    let all = model.clips();
    let clips = clips.unwrap_or_else(|| (0..all.len()).collect());
    let spans = clips.iter().map(|&at| ClipSpan { name: all[at].name.to_owned(), count: all[at].frame_count() });
    // One clip is the whole animation.
    let spans = if clips.len() > 1 && sequence.is_some() { spans.collect() } else { Vec::new() };
    let name = file_name(path);
    let mut subject = Subject { metrics, ..Subject::new(name.clone(), model, clips) };
    if path.is_file() {
        subject.storage.push(StorageRow::new(format!("file {name}"), bonesmith_io::file_bytes(path)));
    }
    let shapes = match model {
        ModelRef::ShapeBones(face) if subject.clips == [0] => shape_rows(model, &face.names()),
        _ => Vec::new(),
    };
    let (what, vertices) = (model.kind().text(), model.vertex_count());
    let measured = match (metrics, shapes.is_empty()) {
        (None, _) => "",
        (Some(_), true) => ", measured against an animation",
        (Some(_), false) => ", measured against the shapes",
    };
    let stored = serde_json::from_str(model.params_json()).unwrap_or_default();
    Scene {
        title: name,
        command: "view".to_owned(),
        original: sequence,
        subjects: vec![subject],
        clips: spans,
        shapes,
        done: Done {
            text: format!("{} is {what} of {vertices} vertices{measured}.", file_name(path)),
            params: params(&stored),
            ..Done::default()
        },
        ..Scene::default()
    }
}

/// The shapes of a face, by name; bones driven by shapes have drivers too.
fn shape_rows(model: ModelRef<'_>, names: &[String]) -> Vec<ShapeRow> {
    match model {
        ModelRef::ShapeBones(face) if !names.is_empty() => face.shapes.iter().map(ShapeRow::from).collect(),
        _ => names.iter().map(ShapeRow::own).collect(),
    }
}

/// Each shape of a face.
fn shape_table(part: &ShapeBonesPart) -> Table {
    let column = |(name, unit, meaning): (&str, &str, &str)| Column {
        name: name.into(),
        unit: unit.into(),
        meaning: meaning.into(),
    };
    let columns = [
        ("shape", "", ""),
        ("numbers", "", "Numbers that the shape stores."),
        ("RMS distance", "model units", "Root mean square distance of the vertices, the shape alone at weight 1."),
        ("maximum", "model units", "Largest distance of a vertex."),
        ("shading", "°", "Mean angle of the stored normals, deformed by the bones as engines do."),
    ];
    let row = |shape: &ShapeFigures| {
        let ShapeFigures { name, numbers, rms_distance, max_distance, shading_degrees } = shape;
        vec![json!(name), json!(numbers), json!(rms_distance), json!(max_distance), json!(shading_degrees)]
    };
    let rows = part.per_shape.iter().map(row).collect();
    Table { title: "Shapes".to_owned(), columns: columns.map(column).into(), rows }
}

/// Columns of a terminal's table are padded; sentences are not.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A history as the page shows it; `unit` is what its bones are called.
fn iterations(history: &[Round], unit: &str) -> Vec<Iteration> {
    let shown = |(at, round): (usize, &Round)| Iteration {
        iteration: at + 1,
        error: round.error,
        stage: format!("{}, {}", round.stage, count(round.bones, unit)),
    };
    history.iter().enumerate().map(shown).collect()
}

fn timing(stage: &str, secs: f64) -> Timing {
    Timing { stage: stage.to_owned(), secs }
}

fn timings(seconds: &Seconds) -> Vec<Timing> {
    let Seconds { load, prepare, fit, export, evaluate, total: _ } = *seconds;
    let stages = [("load", load), ("prepare", prepare), ("fit", fit), ("export", export), ("evaluate", evaluate)];
    stages.into_iter().filter(|(_, secs)| *secs > 0.0).map(|(stage, secs)| timing(stage, secs)).collect()
}
