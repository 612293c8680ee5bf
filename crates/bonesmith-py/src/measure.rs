//! Metrics, comparisons and reports.

use std::path::{Path, PathBuf};

use bonesmith::core::metrics::{self as figures, Metrics};
use bonesmith::{Compared, comparison_scene, measured_clips, model_scene, write_report};
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::errors;
use crate::handle::Handle;
use crate::run::{How, run};
use crate::values::to_python;

/// A size of a report in megabytes as bytes.
fn bytes(py: Python<'_>, megabytes: f64) -> PyResult<u64> {
    match megabytes > 0.0 && megabytes <= 1e6 {
        true => Ok((megabytes * 1e6) as u64),
        false => Err(errors::parameter(py, "report_max_mb", &megabytes.to_string(), "above 0 and at most 1000000")),
    }
}

/// Figures by name; arrays are arrays.
fn to_dict<'py>(py: Python<'py>, metrics: &Metrics) -> PyResult<Bound<'py, PyDict>> {
    let mut data = json!(metrics);
    for array in ["per_frame", "per_vertex", "spread"] {
        if let Some(map) = data.as_object_mut() {
            map.remove(array);
        }
    }
    let dict = to_python(py, &data)?.cast_into::<PyDict>()?;
    dict.set_item("per_frame", PyArray1::from_slice(py, &metrics.per_frame))?;
    dict.set_item("per_vertex", PyArray1::from_slice(py, &metrics.per_vertex))?;
    Ok(dict)
}

/// Measures a clip of a model against an animation.
#[pyfunction]
pub fn evaluate<'py>(
    py: Python<'py>,
    model: &Handle,
    animation: &Handle,
    clip: Option<&str>,
    how: How,
) -> PyResult<Bound<'py, PyDict>> {
    let sequence = animation.animation(py)?;
    let view = model.view();
    let found = run(py, &how, |_| {
        let clips = measured_clips(view, clip, &sequence)?;
        Ok(figures::evaluate_clips(view, &clips, &sequence)?)
    })?;
    to_dict(py, &found)
}

/// The figures of a model against the animation that it was made from; `None` where there is none.
#[pyfunction]
pub fn metrics<'py>(py: Python<'py>, model: &Handle) -> PyResult<Option<Bound<'py, PyDict>>> {
    model.measured(py)?.map(|found| to_dict(py, &found)).transpose()
}

/// Measures several models against one animation, and writes a report where one is asked for.
#[pyfunction]
pub fn compare<'py>(
    py: Python<'py>,
    models: Vec<(String, PyRef<'py, Handle>)>,
    animation: &Handle,
    report: Option<(PathBuf, f64)>,
    how: How,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let report = report.map(|(path, max_mb)| PyResult::Ok((path, bytes(py, max_mb)?))).transpose()?;
    let sequence = animation.animation(py)?;
    let models: Vec<_> = models.iter().map(|(name, handle)| (PathBuf::from(name), handle.model.clone())).collect();
    let found = run(py, &how, |_| {
        let compared = models.into_iter().map(|(name, model)| Compared::new(name, (*model).clone(), &sequence));
        let compared: Vec<Compared> = compared.collect::<Result<_, _>>()?;
        if let Some((path, max_bytes)) = &report {
            write_report(&comparison_scene(&compared, &sequence), path, *max_bytes)?;
        }
        Ok(compared)
    })?;
    found.iter().map(|compared| to_dict(py, &compared.metrics)).collect()
}

/// The page of a model, beside an animation where there is one.
fn rendered<T: Send>(
    py: Python<'_>,
    model: &Handle,
    against: Option<&Handle>,
    make: impl FnOnce(&bonesmith::report::Scene<'_>) -> Result<T, bonesmith::Error> + Send,
) -> PyResult<T> {
    let (given, made_from, measured) = match against {
        Some(against) => (Some(against.animation(py)?), None, None),
        None => (None, model.original(), model.measured(py)?),
    };
    let name = PathBuf::from(model.view().name());
    // Beside the animation that it was made from a model shows what of it was fitted.
    let fitted = made_from.as_ref().and_then(|reference| reference.fitted.clone());
    let view = fitted.as_ref().map_or(model.view(), |fitted| fitted.view());
    let how = How::default();
    run(py, &how, |_| {
        if let Some(sequence) = &given {
            let clips = measured_clips(view, None, sequence)?;
            let own = figures::evaluate_clips(view, &clips, sequence)?;
            return make(&model_scene(&name, view, Some(clips), Some(&own), Some(sequence)));
        }
        let (original, clips) = made_from.map_or((None, None), |from| (Some(from.sequence), Some(from.clips)));
        // Figures are those of the frames that are shown.
        let shown = measured.as_deref().filter(|_| original.is_some());
        make(&model_scene(&name, view, clips, shown, original.as_ref()))
    })
}

/// Writes a report.
#[pyfunction]
pub fn report(py: Python<'_>, model: &Handle, against: Option<&Handle>, path: PathBuf, max_mb: f64) -> PyResult<()> {
    let max_bytes = bytes(py, max_mb)?;
    rendered(py, model, against, |scene| write_report(scene, &path, max_bytes).map(drop))
}

/// A report as text.
#[pyfunction]
pub fn page(py: Python<'_>, model: &Handle, against: Option<&Handle>, max_mb: f64) -> PyResult<String> {
    let max_bytes = bytes(py, max_mb)?;
    rendered(py, model, against, |scene| {
        let page = bonesmith::report::render(scene, max_bytes);
        let failed = |source| bonesmith::Error::Report { path: Path::new("report").to_owned(), source };
        Ok(page.map_err(failed)?.html)
    })
}
