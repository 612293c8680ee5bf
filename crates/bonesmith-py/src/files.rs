//! Files, pickles, and the command line.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bonesmith::io::{Format, Transaction};
use bonesmith::options::COMPACT;
use bonesmith::{
    Against, CompactOptions, CompactPart, FrameRange, Input, Layout, Model, ModelKind, Noted, Rest, Saved, Shape,
    baked, save_as,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::arrays::check_fps;
use crate::errors;
use crate::handle::Handle;
use crate::run::{How, run};
use crate::values::{to_python, values};

/// Which pose is the rest pose.
#[derive(FromPyObject)]
pub enum RestChoice {
    Frame(usize),
    Path(PathBuf),
}

/// Reads a file, or several of one animation.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of a function of Python")]
pub fn load(
    py: Python<'_>,
    paths: Vec<PathBuf>,
    rest: Option<RestChoice>,
    fps: Option<f64>,
    frames: Option<(usize, Option<usize>)>,
    mesh: Option<String>,
    clips: Vec<String>,
    bake: bool,
    normalise: bool,
) -> PyResult<Handle> {
    check_fps(py, fps)?;
    let mut input = Input::from_paths(paths);
    (input.fps, input.mesh, input.clips) = (fps, mesh, clips);
    input.frames = frames.map(|(start, end)| FrameRange { start, end });
    input.rest = rest.map(|rest| match rest {
        RestChoice::Frame(frame) => Rest::Frame(frame),
        RestChoice::Path(path) if path == Path::new("first") => Rest::First,
        RestChoice::Path(path) if path == Path::new("symmetric") => Rest::Symmetric,
        RestChoice::Path(path) => Rest::File(path),
    });
    let read = run(py, &How::default(), |_| {
        let (mut warnings, model): (_, Model) = match (bake, normalise) {
            (true, _) => input.animation().map(|Noted { value, warnings }| (warnings, value.into()))?,
            (false, true) => input.rig_normalised().map(|Noted { value, warnings }| (warnings, value.into()))?,
            (false, false) => input.model().map(|Noted { value, warnings }| (warnings, value))?,
        };
        warnings.dedup();
        Ok((warnings, model))
    });
    let (warnings, model) = read?;
    // `load` calls `read`.
    errors::warn(py, &warnings, 2)?;
    Ok(Handle::of_file(model, input))
}

/// Writes a model; the extension chooses the format. `shape` is "baked", "runtime" or none; `max_joints` and `nodes` choose the layout; `compact`
/// are the words behind `--compact=` of the command line, for a small file.
#[pyfunction]
pub fn save(
    py: Python<'_>,
    model: &Handle,
    path: PathBuf,
    shape: Option<&str>,
    max_joints: Option<usize>,
    nodes: bool,
    compact: Option<&str>,
) -> PyResult<()> {
    let layout = match (nodes, max_joints) {
        (true, Some(_)) => return Err(errors::parameter(py, "max_joints", "set", "unset where pieces are nodes")),
        (true, None) => Layout::Nodes,
        (false, Some(0)) => return Err(errors::parameter(py, "max_joints", "0", "1 or more")),
        (false, Some(max_joints)) => Layout::Skins { max_joints },
        (false, None) => Layout::Skin,
    };
    let shape = match shape {
        None => None,
        Some("baked") => Some(Shape::Baked),
        Some("runtime") => Some(Shape::Runtime),
        Some(other) => return Err(errors::parameter(py, "shape", other, "baked or runtime")),
    };
    let compact = compact.map(str::parse::<CompactOptions>).transpose().map_err(|error| errors::raise(py, error))?;
    if let Some(options) = compact {
        if layout != Layout::Skin {
            return Err(errors::parameter(
                py,
                "compact",
                "set",
                "unset with several skins and with nodes: it writes one skin",
            ));
        }
        return small(py, model, &path, shape, &options, &How::default(), 1).map(drop);
    }
    let noted = run(py, &How::default(), |_| {
        let plain = in_shape(&model.model, &path, shape)?;
        save_as(plain.as_ref().unwrap_or(&model.model), &path, layout)
    })?;
    let mut warnings = noted.warnings;
    warnings.dedup();
    errors::warn(py, &warnings, 1)
}

/// Writes a small file; returns its figures.
#[pyfunction]
pub fn compact<'py>(
    py: Python<'py>,
    model: &Handle,
    path: PathBuf,
    given: &Bound<'py, PyDict>,
    how: How,
) -> PyResult<Bound<'py, PyAny>> {
    let options =
        CompactOptions::from_values(&values(py, COMPACT, given)?).map_err(|error| errors::raise(py, error))?;
    let part = small(py, model, &path, None, &options, &how, 1)?;
    to_python(py, &serde_json::to_value(&part).unwrap_or_default())
}

/// Writes a small file, whole or not at all. Its error is measured against the animation that the model was made from, else against the model.
fn small(
    py: Python<'_>,
    model: &Handle,
    path: &Path,
    shape: Option<Shape>,
    options: &CompactOptions,
    how: &How,
    level: usize,
) -> PyResult<Option<CompactPart>> {
    if model.keeps_others() {
        let what = "others are not written as small files".to_owned();
        return Err(errors::raise(py, bonesmith::Error::Unsupported(what)));
    }
    let mut saved = run(py, how, |observer| {
        let original = model.reference_unchanged()?;
        let plain = in_shape(&model.model, path, shape)?;
        let transaction = Transaction::begin();
        // Models are made with the clips of their animation first, in order.
        let against = original.as_ref().map(|original| Against::new(&original.sequence, 0..original.clips.len()));
        let saved = Saved::write_compact(plain.as_ref().unwrap_or(&model.model), path, options, against, observer)?;
        transaction.commit()?;
        Ok(saved)
    })?;
    saved.warnings.dedup();
    errors::warn(py, &saved.warnings, level)?;
    Ok(saved.compact)
}

/// The model that is written in place of this one: two layers as one where that was asked for, or where the file cannot hold them.
fn in_shape(model: &Model, path: &Path, shape: Option<Shape>) -> Result<Option<Model>, bonesmith::Error> {
    let own = Format::from_extension(path) == Some(Format::Npz);
    Ok(match (model, shape) {
        (Model::TwoLayer(two), Some(Shape::Baked)) => Some(two.bake().into()),
        (Model::TwoLayer(two), None) if !own => Some(two.bake().into()),
        (Model::Ddm(ddm), Some(Shape::Baked)) => match ddm.bake() {
            Some(rig) => Some(rig.into()),
            None => baked(ddm)?.map(Model::from),
        },
        _ => None,
    })
}

/// The model as the bytes of an npz, which holds all of it.
#[pyfunction]
pub fn pickled<'py>(py: Python<'py>, model: &Handle) -> PyResult<Bound<'py, PyBytes>> {
    let bytes = run(py, &How::default(), |_| {
        let folder = scratch()?;
        let path = folder.path().join("model.npz");
        // An npz preserves all of it: there is nothing to warn about.
        let Noted { .. } = bonesmith::save(&*model.model, &path)?;
        std::fs::read(&path).map_err(|source| bonesmith::io::IoError::Os { path, source }.into())
    })?;
    Ok(PyBytes::new(py, &bytes))
}

/// The model of such bytes, under its name.
#[pyfunction]
pub fn unpickled(py: Python<'_>, bytes: &[u8], kind: &str, name: String) -> PyResult<Handle> {
    let model = run(py, &How::default(), |_| {
        let folder = scratch()?;
        let path = folder.path().join("model.npz");
        bonesmith::io::write_whole(&path, bytes)?;
        let model = match kind == ModelKind::Sequence.id() {
            true => bonesmith::io::load_model(&[path], &Default::default())?,
            false => bonesmith::io::load_rigged(&path)?,
        };
        Ok(named(model, name))
    })?;
    Ok(Handle::new(model))
}

fn scratch() -> Result<tempfile::TempDir, bonesmith::Error> {
    let failed = |source| bonesmith::io::IoError::Os { path: std::env::temp_dir(), source };
    Ok(tempfile::tempdir().map_err(failed)?)
}

/// The same model under another name.
fn named(model: Model, name: String) -> Model {
    match model {
        Model::Sequence(sequence) => sequence.named(name).into(),
        Model::Basis(mut basis) => {
            basis.name = name;
            basis.into()
        }
        mut model => {
            if let Some(rig) = model.rig_mut() {
                rig.name = name;
            }
            model
        }
    }
}

/// The command line `bonesmith`; returns its exit code.
#[pyfunction]
pub fn command_line(py: Python<'_>, arguments: Vec<OsString>, program: Vec<OsString>) -> u8 {
    py.detach(|| bonesmith_cli::main(arguments, program))
}
