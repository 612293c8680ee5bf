//! Fit, refit, reduce, compress, Direct Delta Mush and sweep.

use std::sync::Arc;

use bonesmith::core::fit::{FitInfo, SWEEP_COUNTS};
use bonesmith::options::{COMPRESS, DDM, FIT, LOD, REDUCE, REFIT, SHAPES};
use bonesmith::refit::{ClipInput, Refit, RefitOptions, SubjectInput};
use bonesmith::{
    DdmOptions, Error, Face, FitOptions, MeshSequence, Model, PickError, ShapesOptions, Simplified, SourceRig, Warning,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::{Value, json};

use crate::errors;
use crate::handle::Handle;
use crate::run::{How, quickly, run};
use crate::values::{to_python, values};

/// The record of a fit.
fn record(command: &str, info: &FitInfo, wall_secs: f64) -> Value {
    json!({
        "command": command,
        "iterations": info.iterations,
        "stop": info.stop,
        "history": info.history,
        "prepare_seconds": info.prepare_secs,
        "fit_seconds": info.fit_secs,
        "seconds": wall_secs,
        "pieces": info.pieces,
        "profile": info.profile,
    })
}

/// Fits bones, weights and motion to an animation.
#[pyfunction]
pub fn fit(py: Python<'_>, animation: &Handle, given: &Bound<'_, PyDict>, how: How) -> PyResult<Handle> {
    let values = values(py, FIT, given)?;
    let options = FitOptions::from_values(&values).map_err(|error| errors::raise(py, error))?;
    let picked = animation.source.as_ref().filter(|input| input.mesh.is_some());
    let others = match (values.keep_others().map_err(|error| errors::raise(py, error))?, picked) {
        (false, _) => None,
        (true, Some(input)) => Some(input),
        (true, None) => {
            let what = "they are those of a file: load the animation with mesh".to_owned();
            return Err(errors::raise(py, PickError::Others { what }.into()));
        }
    };
    let sequence = animation.animation(py)?;
    let (fit, reference, mut found) = run(py, &how, |observer| {
        let clips = if options.params.method.makes_rigs() { sequence.clips().len().max(1) } else { 1 };
        let mut fit = bonesmith::fit(&sequence, &options, observer)?;
        let mut reference = animation.reference(&*fit.reference(&sequence)?, (0..clips).collect());
        let mut found = Vec::new();
        if let Some(input) = others {
            reference.fitted = Some(Arc::new(fit.model.clone()));
            found = fit.keep_others(input)?;
        }
        Ok((fit, reference, found))
    })?;
    found.extend(fit.info.warnings.iter().cloned().map(Warning::from));
    found.extend(fit.moved.warnings.iter().cloned());
    let mut record = record("fit", &fit.info, fit.wall_secs);
    (record["root_motion"], record["loops"]) = (json!(fit.moved.part.root), json!(fit.moved.part.loops));
    record["skeleton"] = json!(fit.skeleton);
    errors::warn(py, &found, 1)?;
    Ok(Handle::made(fit.model, Some(reference), record))
}

/// Fits bones to the shapes of a face.
#[pyfunction]
pub fn shapes(
    py: Python<'_>,
    face: &Handle,
    names: Option<Vec<String>>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Handle> {
    let options = ShapesOptions::from_values(&values(py, SHAPES, given)?).map_err(|error| errors::raise(py, error))?;
    let sequence = face.animation(py)?;
    let names = names.unwrap_or_else(|| (0..sequence.frame_count()).map(|s| format!("shape_{s}")).collect());
    let (fit, reference) = run(py, &how, |observer| {
        let reference = face.reference(&sequence, vec![0]);
        Ok((bonesmith::shapes(&Face::new(sequence.clone(), names), &options, observer)?, reference))
    })?;
    let found: Vec<Warning> = fit.info.warnings.iter().cloned().map(Warning::from).collect();
    let record = record("shapes", &fit.info, fit.wall_secs);
    errors::warn(py, &found, 1)?;
    Ok(Handle::made(fit.model, Some(reference), record))
}

/// Clips of one mesh, as the library takes them.
fn clips(py: Python<'_>, animations: &[PyRef<'_, Handle>]) -> PyResult<Vec<ClipInput>> {
    let mut clips = Vec::new();
    for handle in animations {
        let sequence = handle.animation(py)?;
        let own_rest = sequence.rest() != &*sequence.frame(0);
        let several = sequence.clips().len() > 1;
        let parts = if several { sequence.into_clips() } else { vec![sequence.without_clips()] };
        clips.extend(parts.into_iter().map(|part| ClipInput {
            label: part.name().to_owned(),
            sequence: part,
            own_rest,
        }));
    }
    Ok(clips)
}

/// The first rig of a refit, to be measured against its clips.
fn refitted(py: Python<'_>, animations: &[PyRef<'_, Handle>], command: &str, fit: Refit) -> PyResult<Handle> {
    let record = record(command, &fit.info, fit.wall_secs);
    let (rig, body) = (fit.rigs.into_iter().next(), fit.bodies.into_iter().next());
    let Some((rig, body)) = rig.zip(body) else { return Err(errors::internal(py, "a fit without a rig")) };
    let spans = (0..body.spans.len()).collect();
    let shared = animations.iter().find(|handle| handle.is_shared());
    let reference = shared.unwrap_or(&animations[0]).reference(&body.sequence, spans);
    let found: Vec<Warning> =
        fit.warnings.into_iter().chain(fit.info.warnings.into_iter().map(Warning::from)).collect();
    errors::warn(py, &found, 1)?;
    Ok(Handle::made(rig, Some(reference), record))
}

/// One set of bones for several clips.
#[pyfunction]
pub fn fit_clips(
    py: Python<'_>,
    animations: Vec<PyRef<'_, Handle>>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Handle> {
    let values = values(py, FIT, given)?;
    let options = FitOptions::from_values(&values).map_err(|error| errors::raise(py, error))?;
    let one = ["skeleton", "eigenskin", "importance", "norm", "area", "others"];
    if let Some(name) = one.iter().find(|name| values.is_given(name)) {
        let what = format!("{name} is an option of a fit of one animation, not of several clips");
        return Err(errors::raise(py, Error::Unsupported(what)));
    }
    let subject = SubjectInput::new(clips(py, &animations)?);
    let fit = run(py, &how, |observer| bonesmith::refit::fit_clips(vec![subject], &options, observer))?;
    refitted(py, &animations, "fit", fit)
}

/// Fits weights, motion or both of a rig.
#[pyfunction]
pub fn refit(
    py: Python<'_>,
    rig: &Handle,
    animations: Vec<PyRef<'_, Handle>>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Handle> {
    let options = RefitOptions::from_values(&values(py, REFIT, given)?).map_err(|error| errors::raise(py, error))?;
    let mut found = Vec::new();
    let rig = rig.rig(&mut found)?;
    let subject = SubjectInput::new(clips(py, &animations)?);
    errors::warn(py, &found, 1)?;
    let fit = run(py, &how, |observer| bonesmith::refit::refit(&rig, vec![subject], &options, observer))?;
    refitted(py, &animations, "refit", fit)
}

/// A rig and its examples.
fn source(py: Python<'_>, rig: &Handle, examples: Option<&Handle>) -> PyResult<SourceRig> {
    let mut found = Vec::new();
    let rig = rig.rig(&mut found)?;
    let examples = examples.map(|examples| examples.animation(py)).transpose()?;
    errors::warn(py, &found, 1)?;
    quickly(py, || SourceRig::new(rig, examples))
}

/// The model of a simplification, to be measured against examples, the rig's own motion or variant 0.
fn simplified(py: Python<'_>, made: Simplified, source: &SourceRig, examples: Option<&Handle>) -> PyResult<Handle> {
    let [prepare, work] = made.secs;
    let mut record = json!({
        "command": made.command,
        "method": made.record.method,
        "iterations": made.record.iterations,
        "stop": made.record.stop,
        "prepare_seconds": prepare,
        "fit_seconds": work,
        "seconds": prepare + work,
    });
    record["details"] = made.record.details.to_json();
    let clips = || source.clips().collect();
    let reference = made.reference(source).map(|sequence| match examples {
        Some(examples) => examples.reference(sequence, clips()),
        None => Handle::of_animation(sequence.clone(), false).reference(sequence, clips()),
    });
    errors::warn(py, &made.warnings, 1)?;
    Ok(Handle::made(made.model, reference, record))
}

/// Fewer influences.
#[pyfunction]
pub fn reduce(
    py: Python<'_>,
    rig: &Handle,
    examples: Option<&Handle>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Handle> {
    let params = values(py, REDUCE, given)?.reduce().map_err(|error| errors::raise(py, error))?;
    let source = source(py, rig, examples)?;
    let made = run(py, &how, |observer| bonesmith::reduce(&source, &params, observer))?;
    simplified(py, made, &source, examples)
}

/// Levels of detail, finest first; the second is the record of each.
#[pyfunction]
pub fn lod(
    py: Python<'_>,
    rig: &Handle,
    examples: Option<&Handle>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Vec<Handle>> {
    let params = values(py, LOD, given)?.lod().map_err(|error| errors::raise(py, error))?;
    let source = source(py, rig, examples)?;
    let levels = run(py, &how, |observer| bonesmith::lod(&source, &params, &[], observer))?;
    let made = |level: usize| {
        let mut record = json!(levels.parts[level]);
        (record["command"], record["seconds"]) = (json!("lod"), json!(levels.wall_secs));
        let clips = source.clips().collect();
        let reference = source.reference().map(|sequence| match examples {
            Some(examples) => examples.reference(sequence, clips),
            None => Handle::of_animation(sequence.clone(), false).reference(sequence, clips),
        });
        Handle::made(levels.model(level), reference, record)
    };
    Ok((0..levels.parts.len()).map(made).collect())
}

/// Two layers.
#[pyfunction]
pub fn compress(
    py: Python<'_>,
    rig: &Handle,
    examples: Option<&Handle>,
    given: &Bound<'_, PyDict>,
    how: How,
) -> PyResult<Handle> {
    let params = values(py, COMPRESS, given)?.compress().map_err(|error| errors::raise(py, error))?;
    let source = source(py, rig, examples)?;
    let made = run(py, &how, |observer| bonesmith::compress(&source, &params, observer))?;
    simplified(py, made, &source, examples)
}

/// Direct Delta Mush.
#[pyfunction]
pub fn ddm(py: Python<'_>, rig: &Handle, given: &Bound<'_, PyDict>, how: How) -> PyResult<Handle> {
    let options = DdmOptions::from_values(&values(py, DDM, given)?).map_err(|error| errors::raise(py, error))?;
    let mut found = Vec::new();
    let rig = options.bound(rig.rig(&mut found)?);
    errors::warn(py, &found, 1)?;
    let made = run(py, &how, |observer| bonesmith::ddm(&rig, &options, observer))?;
    simplified(py, made, &SourceRig::without_poses(rig), None)
}

/// Classic Delta Mush of every frame.
#[pyfunction]
pub fn delta_mush(py: Python<'_>, rig: &Handle, given: &Bound<'_, PyDict>, how: How) -> PyResult<Handle> {
    let options = DdmOptions::from_values(&values(py, DDM, given)?).map_err(|error| errors::raise(py, error))?;
    let mut found = Vec::new();
    let rig = options.bound(rig.rig(&mut found)?);
    errors::warn(py, &found, 1)?;
    let frames: MeshSequence = run(py, &how, |observer| bonesmith::delta_mush(&rig, &options, observer))?;
    Ok(Handle::new(Model::from(frames)))
}

/// Errors against numbers of bones: points, the knee, a table, a page.
#[pyfunction]
pub fn sweep<'py>(
    py: Python<'py>,
    animation: &Handle,
    counts: Vec<usize>,
    given: &Bound<'py, PyDict>,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let options = FitOptions::from_values(&values(py, FIT, given)?).map_err(|error| errors::raise(py, error))?;
    let sequence = animation.animation(py)?;
    let counts = if counts.is_empty() { SWEEP_COUNTS.to_vec() } else { counts };
    let swept = run(py, &how, |observer| bonesmith::sweep(&sequence, &options, &counts, observer))?;
    let point = |point: &bonesmith::core::fit::SweepPoint| json!([point.bones, point.e_rms, point.max_error]);
    let found = json!({
        "name": swept.name,
        "points": swept.sweep.points.iter().map(point).collect::<Vec<_>>(),
        "knee": swept.knee().map(|knee| knee.bones),
        "csv": swept.csv(),
        "page": swept.page(),
    });
    to_python(py, &found)
}
