//! Several models of one mesh against one animation.

use std::path::PathBuf;
use std::time::Instant;

use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{MeshSequence, Model};
use bonesmith_io::file_bytes;
use bonesmith_report::{Column, Done, Scene, ShapeRow, StorageRow, Subject, Table, Timing};
use serde_json::{Value, json};

use crate::error::Error;
use crate::input::measured_clips;
use crate::matching::in_order_of;
use crate::summary::add_measures;
use crate::text::{bytes, count, figure, file_name};

/// Columns: name, unit, what it means.
pub const COLUMNS: [(&str, &str, &str); 15] = [
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
    ("KG %", "%", "Error over the extent of the frames, as papers on compression give it."),
    ("STED", "", "How unevenly edges change their lengths, in space and in time."),
    ("popping", "‰ of the radius per frame", "Root mean square error of the steps between frames, per coordinate."),
    ("drift", "‰ of the radius", "Mean distance that vertices move which rest in the original."),
    ("bones", "", "Bones that carry the motion."),
    ("influences", "", "Bones, or virtual bones, that a vertex blends at most."),
    ("run time", "bytes", "Rest pose, weights and motion as a run time holds them."),
    ("file", "bytes", "Size of the file."),
];

/// A model with its figures.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Compared {
    /// The file.
    pub path: PathBuf,
    /// The model.
    pub model: Model,
    /// The clips that were measured, one after the other.
    pub clips: Vec<usize>,
    /// Against the animation.
    pub metrics: Metrics,
    /// Seconds that measuring took.
    pub secs: f64,
}

impl Compared {
    /// Measures the clips of a model that the animation shows ([`measured_clips`]).
    pub fn new(path: PathBuf, model: Model, sequence: &MeshSequence) -> Result<Self, Error> {
        let started = Instant::now();
        // What was matched is seen in the figures: it adds no warning.
        let model = in_order_of(model, sequence, &path)?.value;
        let clips = measured_clips(&model, None, sequence)?;
        let metrics = metrics::evaluate_clips(&model, &clips, sequence);
        let metrics = metrics.map_err(|source| Error::Metrics { file: path.clone(), source })?;
        Ok(Self { path, model, clips, metrics, secs: started.elapsed().as_secs_f64() })
    }

    fn bones(&self) -> Option<usize> {
        self.model.view().rig().map(|rig| rig.bone_count())
    }

    fn run_time_bytes(&self) -> u64 {
        let frames = self.metrics.per_frame.len();
        self.model.view().storage(frames).iter().map(|(_, bytes)| *bytes as u64).sum()
    }

    /// Cells of [`COLUMNS`] as text.
    pub fn shown(&self) -> Vec<String> {
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
            or_dash(self.bones().map(|_| self.model.view().max_influences().to_string())),
            bytes(self.run_time_bytes()),
            bytes(file_bytes(&self.path)),
        ]
    }

    /// Cells of [`COLUMNS`] for the page: numbers stay numbers.
    fn cells(&self) -> Vec<Value> {
        let metrics = &self.metrics;
        vec![
            json!(file_name(&self.path)),
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
            json!(self.bones().map(|_| self.model.view().max_influences())),
            json!(self.run_time_bytes()),
            json!(file_bytes(&self.path)),
        ]
    }

    fn to_json(&self) -> Value {
        let (metrics, model) = (&self.metrics, self.model.view());
        let (frame, vertex) = metrics.max_error_at;
        let name = |&at: &usize| model.rig().map(|rig| &rig.clips[at].name);
        let names: Vec<&String> = self.clips.iter().filter_map(name).collect();
        let mut value = json!({
            "file": self.path.to_string_lossy(),
            "kind": model.kind().id(),
            "clip": names.first(),
            "clips": names,
            "bones": self.bones(),
            "influences": model.max_influences(),
            "e_rms": metrics.e_rms,
            "max_error": metrics.max_error,
            "max_error_model_units": metrics.max_error_model_units,
            "max_error_at": { "frame": frame, "vertex": vertex },
            "rmse_percent": metrics.rmse_percent,
            "normal_degrees": metrics.normal_degrees,
            "skinned_normals": metrics.skinned_normals,
            "run_time_bytes": self.run_time_bytes(),
            "file_bytes": file_bytes(&self.path),
        });
        add_measures(&mut value, Some(metrics));
        value
    }
}

/// All models as JSON.
pub fn comparison_json(models: &[Compared], sequence: &MeshSequence) -> Value {
    json!({
        "version": crate::VERSION,
        "command": "compare",
        "against": sequence.name(),
        "vertices": sequence.vertex_count(),
        "frames": sequence.frame_count(),
        "models": models.iter().map(Compared::to_json).collect::<Vec<_>>(),
        "warnings": [],
    })
}

/// All models as a report.
pub fn comparison_scene<'a>(models: &'a [Compared], sequence: &'a MeshSequence) -> Scene<'a> {
    let subject = |entry: &'a Compared| {
        let mut subject = Subject::new(file_name(&entry.path), &entry.model, entry.clips.clone());
        subject.metrics = Some(&entry.metrics);
        subject.storage.push(StorageRow::new(format!("file {}", file_name(&entry.path)), file_bytes(&entry.path)));
        subject.timings.push(Timing { stage: "evaluate".to_owned(), secs: entry.secs });
        subject
    };
    let column = |(name, unit, meaning): (&str, &str, &str)| Column {
        name: name.into(),
        unit: unit.into(),
        meaning: meaning.into(),
    };
    let columns = COLUMNS.map(column).into();
    let rows = models.iter().map(Compared::cells).collect();
    let face = models.iter().find_map(|entry| match &entry.model {
        Model::ShapeBones(face) if entry.clips == [0] => Some(face),
        _ => None,
    });
    let unit = if face.is_some() { "shape" } else { "frame" };
    let (counted, frames) = (count(models.len(), "model"), count(sequence.frame_count(), unit));
    let (name, vertices) = (sequence.name(), sequence.vertex_count());
    Scene {
        title: format!("{counted} of {name}"),
        command: "compare".to_owned(),
        original: Some(sequence),
        subjects: models.iter().map(subject).collect(),
        shapes: face.map_or_else(Vec::new, |face| face.shapes.iter().map(ShapeRow::from).collect()),
        done: Done {
            text: format!("{counted} measured against {name} ({vertices} vertices, {frames})."),
            ..Done::default()
        },
        table: Some(Table { title: "Models side by side".to_owned(), columns, rows }),
        ..Scene::default()
    }
}
