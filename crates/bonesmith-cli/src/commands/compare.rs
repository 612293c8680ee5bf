//! `bonesmith compare`: several models of one mesh against one animation.

use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{MeshSequence, ModelRef};
use bonesmith_io::file_bytes;
use bonesmith_report::{Column, Done, Scene, StorageRow, Subject, Table, Timing};
use serde_json::{Value, json};

use super::bench::table::lines;
use crate::args::CompareArgs;
use crate::errors::Outcome;
use crate::load;
use crate::models::{self, find_clip};
use crate::output::{bytes, count, figure, print, write_json};
use crate::reports::{self, file_name};
use crate::session::Session;
use crate::settings::{self, JsonTarget};
use crate::summary::add_measures;

/// Columns: name, unit, what it means.
const COLUMNS: [(&str, &str, &str); 15] = [
    ("model", "", "The file."),
    (
        "E_RMS",
        "‰ of the radius",
        "Root mean square error per coordinate, in thousandths of the radius; below about 2 it is hard to see.",
    ),
    ("max error", "‰ of the radius", "The largest distance of any vertex in any frame."),
    ("RMSE %", "% of the diagonal", "Root mean square distance in percent of the diagonal of the bounding box."),
    ("normals °", "°", "Mean angle between the normals of original and model."),
    ("shading °", "°", "Mean angle of the stored normals, deformed by the bones as engines do."),
    ("99.9 %", "‰ of the radius", "The distance that 999 of 1000 vertices and frames stay below."),
    ("KG %", "%", "Error over the extent of the frames [Karni2004]."),
    ("STED", "", "Relative differences of edge lengths in space and time [Vasa2011]."),
    ("popping", "‰ of the radius per frame", "Root mean square error of the steps between frames, per coordinate."),
    ("drift", "‰ of the radius", "Mean distance that vertices move which rest in the original."),
    ("bones", "", "Bones that carry the motion."),
    ("influences", "", "Bones, or virtual bones, that a vertex blends at most."),
    ("run time", "bytes", "Rest pose, weights and motion as a run time holds them."),
    ("file", "bytes", "Size of the file."),
];

/// One model with its figures.
struct Entry<'a> {
    path: &'a Path,
    model: ModelRef<'a>,
    clip: usize,
    metrics: Metrics,
    secs: f64,
}

pub fn run(args: CompareArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let files = settings::input(args.files, Default::default())?;
    let input = settings::input(args.against, args.input)?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    session.claim(&[files.files(), input.files()].concat(), &[], json.as_ref(), report.as_ref())?;

    session.stage("reading")?;
    let sequence = load::animation(&input, session)?;
    let read = || files.paths.iter().map(|path| models::read(path, &input)).collect::<anyhow::Result<Vec<_>>>();
    let models = session.heed(read)?;
    let mut entries = Vec::new();
    for (path, model) in files.paths.iter().zip(&models) {
        session.stage("measuring")?;
        entries.push(
            Entry::new(path, model.view(), &sequence)
                .with_context(|| format!("{} cannot be compared", path.display()))?,
        );
    }
    session.finish_progress();
    if let Some(target) = &json {
        write_json(target, &session.with_losses(to_json(&entries, &sequence)))?;
    }
    if json != Some(JsonTarget::Stdout) {
        let header = COLUMNS.map(|(name, ..)| name);
        let rows: Vec<Vec<String>> = entries.iter().map(Entry::shown).collect();
        print(&lines(&header, &rows))?;
    }
    if let Some(target) = &report {
        reports::write_and_tell(&scene(&entries, &sequence), target, json.as_ref(), session)?;
    }
    Ok(Outcome::Done)
}

impl<'a> Entry<'a> {
    fn new(path: &'a Path, model: ModelRef<'a>, sequence: &MeshSequence) -> anyhow::Result<Self> {
        let started = Instant::now();
        let clip = fitting_clip(model, sequence)?;
        let metrics = metrics::evaluate(model, clip, sequence)?;
        Ok(Self { path, model, clip, metrics, secs: started.elapsed().as_secs_f64() })
    }

    fn bones(&self) -> Option<usize> {
        self.model.rig().map(|rig| rig.bone_count())
    }

    fn run_time_bytes(&self) -> u64 {
        let frames = self.metrics.per_frame.len();
        self.model.storage(frames).iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// Cells for the terminal.
    fn shown(&self) -> Vec<String> {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let metrics = &self.metrics;
        vec![
            self.path.display().to_string(),
            figure(metrics.e_rms),
            figure(metrics.max_error),
            figure(metrics.rmse_percent),
            or_dash(metrics.normal_degrees.map(figure)),
            or_dash(metrics.skinned_normals.map(|skinned| figure(skinned.degrees))),
            figure(metrics.p999_error),
            or_dash(metrics.kg_error.map(figure)),
            or_dash(metrics.sted.map(|sted| figure(sted.total))),
            or_dash(metrics.velocity_error.map(figure)),
            or_dash(metrics.contacts.map(|contacts| figure(contacts.mean_drift))),
            or_dash(self.bones().map(|n| n.to_string())),
            or_dash(self.bones().map(|_| self.model.max_influences().to_string())),
            bytes(self.run_time_bytes()),
            bytes(file_bytes(self.path)),
        ]
    }

    /// Cells for the page: numbers stay numbers.
    fn cells(&self) -> Vec<Value> {
        let metrics = &self.metrics;
        vec![
            json!(file_name(self.path)),
            json!(metrics.e_rms),
            json!(metrics.max_error),
            json!(metrics.rmse_percent),
            json!(metrics.normal_degrees),
            json!(metrics.skinned_normals.map(|skinned| skinned.degrees)),
            json!(metrics.p999_error),
            json!(metrics.kg_error),
            json!(metrics.sted.map(|sted| sted.total)),
            json!(metrics.velocity_error),
            json!(metrics.contacts.map(|contacts| contacts.mean_drift)),
            json!(self.bones()),
            json!(self.bones().map(|_| self.model.max_influences())),
            json!(self.run_time_bytes()),
            json!(file_bytes(self.path)),
        ]
    }

    fn to_json(&self) -> Value {
        let metrics = &self.metrics;
        let (frame, vertex) = metrics.max_error_at;
        let mut value = json!({
            "file": self.path.to_string_lossy(),
            "kind": self.model.kind().id(),
            "clip": self.model.rig().map(|rig| &rig.clips[self.clip].name),
            "bones": self.bones(),
            "influences": self.model.max_influences(),
            "e_rms": metrics.e_rms,
            "max_error": metrics.max_error,
            "max_error_model_units": metrics.max_error_model_units,
            "max_error_at": { "frame": frame, "vertex": vertex },
            "rmse_percent": metrics.rmse_percent,
            "normal_degrees": metrics.normal_degrees,
            "skinned_normals": metrics.skinned_normals,
            "run_time_bytes": self.run_time_bytes(),
            "file_bytes": file_bytes(self.path),
        });
        add_measures(&mut value, metrics);
        value
    }
}

/// The first clip with as many frames as the animation, else the first.
fn fitting_clip(model: ModelRef<'_>, sequence: &MeshSequence) -> anyhow::Result<usize> {
    let found = model.clips().iter().position(|clip| clip.frame_count() == sequence.frame_count());
    found.map_or_else(|| find_clip(model, None), Ok)
}

fn to_json(entries: &[Entry], sequence: &MeshSequence) -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "against": sequence.name(),
        "vertices": sequence.vertex_count(),
        "frames": sequence.frame_count(),
        "models": entries.iter().map(Entry::to_json).collect::<Vec<_>>(),
    })
}

fn scene<'a>(entries: &'a [Entry<'a>], sequence: &'a MeshSequence) -> Scene<'a> {
    let subject = |entry: &'a Entry<'a>| {
        let mut subject = Subject::new(file_name(entry.path), entry.model, vec![entry.clip]);
        subject.metrics = Some(&entry.metrics);
        subject.storage.push(StorageRow::new(format!("file {}", file_name(entry.path)), file_bytes(entry.path)));
        subject.timings.push(Timing { stage: "evaluate".to_owned(), secs: entry.secs });
        subject
    };
    let column = |(name, unit, meaning): (&str, &str, &str)| Column {
        name: name.into(),
        unit: unit.into(),
        meaning: meaning.into(),
    };
    let columns = COLUMNS.map(column).into();
    let rows = entries.iter().map(Entry::cells).collect();
    let (models, frames) = (count(entries.len(), "model"), count(sequence.frame_count(), "frame"));
    Scene {
        title: format!("{models} of {}", sequence.name()),
        command: "compare".to_owned(),
        original: Some(sequence),
        subjects: entries.iter().map(subject).collect(),
        done: Done {
            text: format!(
                "{models} measured against {} ({} vertices, {frames}).",
                sequence.name(),
                sequence.vertex_count()
            ),
            ..Done::default()
        },
        table: Some(Table { title: "Models side by side".to_owned(), columns, rows }),
        ..Scene::default()
    }
}
