//! What a simplification is measured against, clip by clip, and the figures of the file that was written.

use std::ops::Range;
use std::time::Instant;

use bonesmith_core::metrics::{self, Metrics};
use bonesmith_core::{MeshSequence, ModelRef, Rig, example_clips};
use glam::Vec3;

use super::{Details, Simplified};
use crate::error::Error;
use crate::fit::TARGET_SLACK;
use crate::input::baked;
use crate::saved::Saved;
use crate::summary::{ClipPart, Seconds, Summary};
use crate::warning::Warning;

/// A rig, and the poses that its simplification should keep.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SourceRig {
    /// The rig.
    pub rig: Rig,
    /// Poses frame by frame as in all clips of the rig, or in one of them.
    pub examples: Option<MeshSequence>,
    /// The poses of the rig itself in all its clips, one after the other; `None` where examples show all of them, or nothing moves.
    pub own: Option<MeshSequence>,
}

impl SourceRig {
    /// A rig and examples. Clips without examples keep the poses of the rig.
    pub fn new(rig: Rig, examples: Option<MeshSequence>) -> Result<Self, Error> {
        let shown = examples.as_ref().and_then(|examples| example_clips(&rig, examples));
        let own = match shown.is_some_and(|shown| shown.len() == rig.clips.len()) {
            true => None,
            false => baked(&rig)?,
        };
        Ok(Self { rig, examples, own })
    }

    /// A rig alone, for [`super::ddm`]: its result is measured against variant 0.
    pub fn without_poses(rig: Rig) -> Self {
        Self { rig, examples: None, own: None }
    }

    /// What figures are measured against: the examples, else the rig's own poses in all clips.
    pub fn reference(&self) -> Option<&MeshSequence> {
        self.examples.as_ref().or(self.own.as_ref())
    }

    /// The clips that [`SourceRig::reference`] shows, one after the other.
    pub fn clips(&self) -> Range<usize> {
        let shown = self.examples.as_ref().and_then(|examples| example_clips(&self.rig, examples));
        shown.unwrap_or(0..self.rig.clips.len())
    }

    fn against(&self) -> &'static str {
        if self.examples.is_some() { "examples" } else { "the rig that was given" }
    }
}

impl Simplified {
    /// What figures are measured against: for `ddm` variant 0, otherwise the examples or the source.
    pub fn reference<'a>(&'a self, source: &'a SourceRig) -> Option<&'a MeshSequence> {
        match self.command {
            "ddm" => self.reference.as_ref(),
            _ => source.reference(),
        }
    }

    /// Measures the file: everything there is to know about the simplification, as data.
    pub fn summary(&self, saved: &Saved, source: &SourceRig) -> Result<Summary, Error> {
        let started = Instant::now();
        let (rig, is_ddm) = (&source.rig, self.command == "ddm");
        let reference = self.reference(source);
        let clips = source.clips();
        let measured = |sequence| match source.examples.is_some() || is_ddm {
            true => saved.measure_clips(clips.clone(), sequence),
            false => saved.measure_beside(clips.clone(), sequence, rig),
        };
        let metrics = reference.map(measured).transpose()?;
        let shown: Vec<usize> = clips.clone().collect();
        let own = reference.filter(|_| !is_ddm);
        let before = |sequence| match source.examples.is_some() {
            true => metrics::evaluate_clips(rig, &shown, sequence),
            false => metrics::evaluate_beside(rig, &shown, sequence, rig),
        };
        let mut record = self.record.clone();
        if let Details::Ddm(details) = &mut record.details {
            details.rms_percent_of_height = metrics.as_ref().map(|metrics| percent_of_height(rig, metrics));
        }
        let [prepare, fit] = self.secs;
        let export = saved.export_secs;
        let mut summary = Summary {
            command: self.command,
            name: rig.name.clone(),
            vertices: rig.vertex_count(),
            faces: rig.surface.topology.face_count(),
            frames: reference.map_or(0, MeshSequence::frame_count),
            bones: rig.bone_count(),
            influences: influences(self.model.view()),
            before: own.map(before).transpose()?,
            against: if is_ddm { "variant 0 in float64" } else { source.against() },
            seconds: Seconds { prepare, fit, export, total: prepare + fit + export, ..Seconds::default() },
            warnings: self.warnings.clone(),
            sequence_bytes: reference.map_or(0, MeshSequence::position_bytes),
            simplification: Some(record),
            ..Summary::of_model(&self.model)
        };
        summary.clips = clip_parts(saved, source, clips, metrics.as_ref())?;
        summary.warnings.extend(saved.warnings.iter().cloned());
        summary.warnings.extend(self.missed(metrics.as_ref()));
        summary.metrics = metrics;
        summary.seconds.evaluate = saved.read_secs + started.elapsed().as_secs_f64();
        summary.set_output(saved);
        Ok(summary)
    }

    /// A target error that the file misses.
    fn missed(&self, metrics: Option<&Metrics>) -> Option<Warning> {
        let (target, of_poses) = self.target?;
        let Details::Compress(details) = &self.record.details else { return None };
        let error = details.history.last().map_or(0.0, |round| round.error);
        let reached = metrics.filter(|_| of_poses).map_or(error, |metrics| metrics.e_rms);
        let bones = details.virtual_bones;
        (reached > target * (1.0 + TARGET_SLACK))
            .then(|| bonesmith_core::fit::Warning::TargetMissed { target, reached, bones }.into())
    }
}

/// The figures of each clip, where the rig has several: those that examples show against these, the others against the rig's own
/// poses.
fn clip_parts(
    saved: &Saved,
    source: &SourceRig,
    shown: Range<usize>,
    metrics: Option<&Metrics>,
) -> Result<Vec<ClipPart>, Error> {
    let Some(metrics) = metrics.filter(|_| source.rig.clips.len() > 1) else { return Ok(Vec::new()) };
    let others = match (&source.examples, &source.own) {
        (Some(_), Some(own)) => Some(saved.measure_clips(0..source.rig.clips.len(), own)?),
        _ => None,
    };
    let (mut next, mut next_own, mut parts) = (0, 0, Vec::new());
    for (c, clip) in source.rig.clips.iter().enumerate() {
        let count = clip.frame_count();
        let per_frame = match (shown.contains(&c), &others) {
            (true, _) => {
                next += count;
                &metrics.per_frame[next - count..next]
            }
            (false, Some(others)) => &others.per_frame[next_own..next_own + count],
            (false, None) => &[],
        };
        next_own += count;
        if !per_frame.is_empty() {
            parts.push(ClipPart::new(&clip.name, per_frame));
        }
    }
    Ok(parts)
}

/// Influences that a vertex blends at most, of the model that was made.
fn influences(model: ModelRef<'_>) -> usize {
    match model {
        ModelRef::Ddm(made) => {
            made.layer.as_ref().map_or(made.weights.max_influences(), |layer| layer.max_influences())
        }
        _ => model.weights().map_or(0, |weights| weights.max_influences()),
    }
}

/// Root mean square distance in percent of the largest side of the rest pose's bounding box: of a person, the height.
fn percent_of_height(rig: &Rig, metrics: &Metrics) -> f64 {
    let low = rig.rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rig.rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    let rms = metrics.e_rms / 1000.0 * metrics.radius_model_units * 3f64.sqrt();
    100.0 * rms / f64::from((high - low).max_element()).max(f64::MIN_POSITIVE)
}
