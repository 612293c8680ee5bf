//! What `reduce`, `compress` and `ddm` share: a rig and examples in, a rig that is cheaper to evaluate out, figures of the file.

use std::path::PathBuf;
use std::time::Instant;

use bonesmith_core::fit::Warning;
use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{MeshSequence, ModelRef, Rig};
use serde_json::{Value, json};

use crate::errors::Usage;
use crate::output::{Table, bytes, count, figure};
use crate::session::Session;
use crate::settings::{self, Input};
use crate::summary::Seconds;
use crate::{load, models, reports};

/// The rig, and what it is held against.
pub struct Source {
    pub rig: Rig,
    /// What the user gave.
    pub examples: Option<MeshSequence>,
    /// The poses that the given rig itself makes, where there are no examples; `None` if it does not move.
    pub own: Option<MeshSequence>,
    pub load_secs: f64,
}

impl Source {
    pub fn read(rig: PathBuf, input: Input, normalise: bool, session: &mut Session) -> anyhow::Result<Self> {
        let rig_input = settings::input(vec![rig], Default::default())?;
        session.stage("reading")?;
        let started = Instant::now();
        let path = &rig_input.paths[0];
        let rig = match normalise {
            true => session.heed(|| bonesmith_io::load_rig_normalised(path))?,
            false => session.heed(|| bonesmith_io::load_rig(path)).map_err(|error| hinted(error.into()))?,
        };
        let examples = (!input.paths.is_empty()).then(|| load::animation(&input, session)).transpose()?;
        let own = match &examples {
            Some(_) => None,
            None => load::baked(&rig)?,
        };
        Ok(Self { rig, examples, own, load_secs: started.elapsed().as_secs_f64() })
    }

    /// What figures are measured against.
    pub fn reference(&self) -> Option<&MeshSequence> {
        self.examples.as_ref().or(self.own.as_ref())
    }
}

/// Bad weights are refused, and the user is told what can be done.
fn hinted(error: anyhow::Error) -> anyhow::Error {
    let text = error.to_string();
    match text.contains("weight") && (text.contains("sum to") || text.contains("weight -")) {
        true => Usage::new(text).hint("--normalise sets negative weights to 0 and scales each vertex to 1").into(),
        false => error,
    }
}

/// Everything there is to say.
pub struct Report {
    pub command: &'static str,
    pub method: &'static str,
    pub name: String,
    pub vertices: usize,
    pub faces: usize,
    pub bones: usize,
    pub influences: usize,
    /// Of the written file; `None` where nothing moves.
    pub metrics: Option<Metrics>,
    /// Of the rig that was given.
    pub before: Option<Metrics>,
    /// Whether figures are against examples, or against the rig that was given.
    pub examples: bool,
    pub frames: usize,
    pub iterations: usize,
    pub stop: &'static str,
    pub seconds: Seconds,
    pub warnings: Vec<Warning>,
    pub params: Value,
    pub output: PathBuf,
    /// Keys of its own.
    pub extra: Value,
    /// Rows of its own.
    pub rows: Vec<(&'static str, String)>,
}

impl Report {
    /// Of what a command made of a rig; figures are still to come.
    pub fn new(command: &'static str, rig: &Rig, output: PathBuf) -> Self {
        Self {
            command,
            method: command,
            name: rig.name.clone(),
            vertices: rig.vertex_count(),
            faces: rig.surface.topology.face_count(),
            bones: rig.bone_count(),
            influences: 0,
            metrics: None,
            before: None,
            examples: false,
            frames: 0,
            iterations: 0,
            stop: "done",
            seconds: Seconds::default(),
            warnings: Vec::new(),
            params: Value::Null,
            output,
            extra: Value::Null,
            rows: Vec::new(),
        }
    }

    /// As [`Report::new`], with figures of the file against what the rig is held against, before and after.
    pub fn measured(
        command: &'static str,
        source: &Source,
        output: PathBuf,
        [fit, export]: [f64; 2],
    ) -> anyhow::Result<Self> {
        let reference = source.reference();
        let load = source.load_secs;
        Ok(Self {
            metrics: reference.map(|sequence| models::measure_written(&output, sequence)).transpose()?,
            before: reference.map(|sequence| metrics::evaluate(&source.rig, 0, sequence)).transpose()?,
            examples: source.examples.is_some(),
            frames: reference.map_or(0, |sequence| sequence.frame_count()),
            seconds: Seconds { load, fit, export, total: load + fit + export, ..Seconds::default() },
            ..Self::new(command, &source.rig, output)
        })
    }

    pub fn to_json(&self) -> Value {
        let of = |get: fn(&Metrics) -> Value| self.metrics.as_ref().map(get);
        let before = |get: fn(&Metrics) -> Value| self.before.as_ref().map(get);
        let mut value = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.command,
            "name": self.name,
            "vertices": self.vertices,
            "faces": self.faces,
            "frames": self.frames,
            "bones": self.bones,
            "influences": self.influences,
            "against": if self.examples { "examples" } else { "the rig that was given" },
            "e_rms": of(|m| json!(m.e_rms)),
            "max_error": of(|m| json!(m.max_error)),
            "max_error_model_units": of(|m| json!(m.max_error_model_units)),
            "rmse_percent": of(|m| json!(m.rmse_percent)),
            "normal_degrees": of(|m| json!(m.normal_degrees)),
            "radius_model_units": of(|m| json!(m.radius_model_units)),
            "error_model_units": of(|m| json!(m.spread)),
            "e_rms_before": before(|m| json!(m.e_rms)),
            "normal_degrees_before": before(|m| json!(m.normal_degrees)),
            "method": self.method,
            "iterations": self.iterations,
            "stop": self.stop,
            "seconds": self.seconds,
            "output": self.output.to_string_lossy(),
            "file_bytes": bonesmith_io::file_bytes(&self.output),
            "warnings": self.warnings.iter().map(crate::summary::warning_json).collect::<Vec<_>>(),
            "params": self.params,
        });
        if let Some(metrics) = &self.metrics {
            crate::summary::add_measures(&mut value, metrics);
        }
        if let (Some(value), Some(extra)) = (value.as_object_mut(), self.extra.as_object()) {
            value.extend(extra.clone());
        }
        value
    }

    pub fn to_table(&self) -> String {
        let mesh = [format!("{} vertices", self.vertices), count(self.faces, "face"), count(self.frames, "frame")];
        let mut table = Table::new(format!("{}: {}", self.name, mesh.join(", ")));
        self.rows.iter().for_each(|(name, value)| table.row(name, value.clone()));
        if let Some(metrics) = &self.metrics {
            let radius = figure(metrics.radius_model_units);
            let what = if self.examples { "against the examples" } else { "against the rig that was given" };
            table.row("E_RMS", format!("{:<9} thousandths of the radius {radius}, {what}", figure(metrics.e_rms)));
            if let Some(before) = self.before.as_ref().filter(|_| self.examples) {
                table.row("before", format!("{:<9} E_RMS of the rig that was given", figure(before.e_rms)));
            }
            let (frame, vertex) = metrics.max_error_at;
            table.row("max error", format!("{:<9} frame {frame}, vertex {vertex}", figure(metrics.max_error)));
            if let Some(degrees) = metrics.normal_degrees {
                table.row("normals", format!("{:<9} mean angle", figure(degrees) + "°"));
            }
            table.row("verdict", metrics.verdict.to_string());
        }
        let Seconds { load, fit, export, total, .. } = self.seconds;
        table
            .row("seconds", format!("load {load:.2}  {} {fit:.2}  export {export:.2}  total {total:.2}", self.command));
        table.row("written", format!("{}, {}", self.output.display(), bytes(bonesmith_io::file_bytes(&self.output))));
        table.to_string()
    }

    /// Writes the report, if one is asked for, of the model against what its figures were measured against.
    pub fn write_page<'a>(
        &mut self,
        target: Option<&settings::ReportTarget>,
        model: impl Into<ModelRef<'a>>,
        reference: Option<&MeshSequence>,
        session: &mut Session,
    ) -> anyhow::Result<()> {
        let Some(target) = target else { return Ok(()) };
        session.stage("writing the report")?;
        let written = reports::write(&reports::of_simplified(self, model.into(), reference), target)?;
        self.rows.push(("report", written));
        Ok(())
    }

    /// Warnings, JSON, table.
    pub fn show(&self, json: Option<&settings::JsonTarget>, session: &mut Session) -> anyhow::Result<()> {
        session.finish_progress();
        self.warnings.iter().for_each(|w| session.warn(&w.to_string()));
        if let Some(target) = json {
            crate::output::write_json(target, &session.with_losses(self.to_json()))?;
        }
        match session.quiet || json == Some(&settings::JsonTarget::Stdout) {
            true => Ok(()),
            false => crate::output::print(&self.to_table()),
        }
    }
}
