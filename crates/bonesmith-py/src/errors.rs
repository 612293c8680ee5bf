//! Errors of the library as exceptions of `bonesmith._errors`, and its warnings as Python's.

use std::path::Path;

use bonesmith::core::compress::CompressError;
use bonesmith::core::ddm::DdmError;
use bonesmith::core::fit::FitError;
use bonesmith::core::lod::LodError;
use bonesmith::core::mesh::surface::SurfaceError;
use bonesmith::core::mesh::topology::TopologyError;
use bonesmith::core::model::weights::WeightError;
use bonesmith::core::reduce::ReduceError;
use bonesmith::core::refit::RefitError;
use bonesmith::core::{RigError, SequenceError};
use bonesmith::io::IoError;
use bonesmith::{Error, PickError, Warning};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::values::to_python;

/// What an exception carries beside its words.
#[derive(Default)]
struct Facts {
    frame: Option<usize>,
    vertex: Option<usize>,
    path: Option<String>,
    value: Option<String>,
    number: Option<f64>,
    option: Option<&'static str>,
}

impl Facts {
    fn of_path(path: &Path) -> Self {
        Self { path: Some(path.to_string_lossy().into_owned()), ..Self::default() }
    }
}

/// The exception for an error.
pub fn raise(py: Python<'_>, error: Error) -> PyErr {
    let option = error.option();
    let text = error.to_string();
    let (class, facts) = match &error {
        Error::Cancelled(_) => ("Cancelled", Facts::default()),
        Error::Io(IoError::Os { path, source }) => return of_system(py, path, source),
        Error::Io(error) => of_file(error),
        Error::Pick(error) => of_choice(error),
        Error::Sequence(error) => ("InputError", of_sequence(error)),
        Error::Fit(FitError::OutOfRange { value, .. }) => {
            ("ParameterError", Facts { value: Some(value.clone()), ..Facts::default() })
        }
        Error::Fit(FitError::BoneCount { bones, .. }) => {
            ("ParameterError", Facts { number: Some(*bones as f64), option: Some("bones"), ..Facts::default() })
        }
        Error::Batch { path, .. } => ("ParameterError", Facts::of_path(path)),
        Error::Fit(_) | Error::EigenSkin(_) | Error::Unsupported(_) => ("ParameterError", Facts::default()),
        Error::Reduce(ReduceError::BadParameter { .. } | ReduceError::Skeleton { .. })
        | Error::Compress(CompressError::BadParameter { .. })
        | Error::Lod(LodError::Params(_) | LodError::Skeleton { .. }) => ("ParameterError", Facts::default()),
        Error::Ddm(DdmError::MapValue { vertex, value, .. }) => {
            let facts = Facts { vertex: Some(*vertex), number: Some(f64::from(*value)), ..Facts::default() };
            ("ParameterError", facts)
        }
        Error::Ddm(DdmError::BadParameter { .. } | DdmError::MapLength { .. }) => ("ParameterError", Facts::default()),
        Error::Reduce(ReduceError::Poses(_))
        | Error::Compress(CompressError::Poses(_))
        | Error::Lod(LodError::Poses(_)) => ("MismatchError", Facts::default()),
        Error::Refit(RefitError::VertexCount { .. } | RefitError::NoMotion { .. }) => {
            ("MismatchError", Facts::default())
        }
        Error::Reduce(_) | Error::Compress(_) | Error::Ddm(_) | Error::Refit(_) | Error::Lod(_) => {
            ("SolveError", Facts::default())
        }
        Error::Mismatch(_) => ("MismatchError", Facts::default()),
        Error::Metrics { .. } => ("MismatchError", Facts::default()),
        Error::Report { path, .. } => ("ReportError", Facts::of_path(path)),
        _ => ("BonesmithError", Facts::default()),
    };
    exception(py, class, &text, Facts { option: facts.option.or(option), ..facts })
}

fn of_sequence(error: &SequenceError) -> Facts {
    match error {
        SequenceError::NotFinite { frame, vertex, value, .. }
        | SequenceError::TooLarge { frame, vertex, value, .. } => {
            Facts { frame: *frame, vertex: Some(*vertex), number: Some(f64::from(*value)), ..Facts::default() }
        }
        SequenceError::VertexCount { frame, found, .. } => {
            Facts { frame: *frame, number: Some(*found as f64), ..Facts::default() }
        }
        SequenceError::FacesDiffer { frame, .. } => Facts { frame: *frame, ..Facts::default() },
        SequenceError::TooFewVertices { vertices, .. } => Facts { number: Some(*vertices as f64), ..Facts::default() },
        SequenceError::TimesNotRising { frame, secs } => {
            Facts { frame: Some(*frame), number: Some(*secs), ..Facts::default() }
        }
        SequenceError::Surface(error) => of_surface(error),
        _ => Facts::default(),
    }
}

fn of_file(error: &IoError) -> (&'static str, Facts) {
    match error {
        IoError::Sequence { path, source } => {
            ("InputError", Facts { path: Facts::of_path(path).path, ..of_sequence(source) })
        }
        IoError::Unsupported { path, .. } => ("UnsupportedError", Facts::of_path(path)),
        IoError::Malformed { path, .. } | IoError::Weights { path, .. } => ("FormatError", Facts::of_path(path)),
        _ => ("FormatError", Facts::default()),
    }
}

fn of_choice(error: &PickError) -> (&'static str, Facts) {
    let facts = match error {
        PickError::MaskValue { vertex, value } => {
            Facts { vertex: Some(*vertex), number: Some(f64::from(*value)), ..Facts::default() }
        }
        PickError::RestFrame { frame, .. } => Facts { frame: Some(*frame), ..Facts::default() },
        PickError::Clip { name, .. } | PickError::Bone { name, .. } => {
            Facts { value: Some(name.clone()), ..Facts::default() }
        }
        PickError::NoRest { path } => Facts::of_path(path),
        _ => Facts::default(),
    };
    ("ParameterError", facts)
}

/// An error of the system: Python chooses the class by its number (`FileNotFoundError`, `IsADirectoryError`, ...).
fn of_system(py: Python<'_>, path: &Path, source: &std::io::Error) -> PyErr {
    use std::io::ErrorKind;
    let number = source.raw_os_error().or(match source.kind() {
        ErrorKind::NotFound => Some(2),
        ErrorKind::PermissionDenied => Some(13),
        ErrorKind::AlreadyExists => Some(17),
        ErrorKind::NotADirectory => Some(20),
        ErrorKind::IsADirectory => Some(21),
        _ => None,
    });
    match number {
        Some(number) => PyOSError::new_err((number, words(py, number, source), path.as_os_str().to_owned())),
        None => PyOSError::new_err(format!("{}: {source}", path.display())),
    }
}

/// The system's own words for a number, as Python has them.
fn words(py: Python<'_>, number: i32, source: &std::io::Error) -> String {
    let python = || py.import("os")?.call_method1("strerror", (number,))?.extract::<String>();
    python().unwrap_or_else(|_| source.to_string())
}

/// An exception of the package.
fn exception(py: Python<'_>, class: &str, text: &str, facts: Facts) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let class = py.import("bonesmith._errors")?.getattr(class)?;
        let named = PyDict::new(py);
        named.set_item("frame", facts.frame)?;
        named.set_item("vertex", facts.vertex)?;
        named.set_item("path", facts.path)?;
        match (facts.number, facts.value) {
            (Some(number), _) => named.set_item("value", number)?,
            (None, value) => named.set_item("value", value)?,
        }
        named.set_item("option", facts.option)?;
        Ok(PyErr::from_value(class.call((text,), Some(&named))?))
    };
    build().unwrap_or_else(|error| error)
}

/// A bug: the exception asks for a report.
pub fn internal(py: Python<'_>, text: &str) -> PyErr {
    let text = format!("bonesmith {} has a bug, please report it with the input: {text}", bonesmith::VERSION);
    match py.import("bonesmith._errors").and_then(|errors| errors.getattr("InternalError")?.call1((&text,))) {
        Ok(exception) => PyErr::from_value(exception),
        Err(_) => PyRuntimeError::new_err(text),
    }
}

/// An argument with a value that it cannot have.
pub fn parameter(py: Python<'_>, option: &'static str, value: &str, range: &str) -> PyErr {
    let facts = Facts { option: Some(option), value: Some(value.to_owned()), ..Facts::default() };
    exception(py, "ParameterError", &format!("{option} is {value}; it must be {range}"), facts)
}

/// An array of a wrong shape or with wrong numbers.
pub fn input(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "InputError", text, Facts::default())
}

/// An array whose element cannot be used.
pub fn input_at(py: Python<'_>, text: &str, vertex: Option<usize>, value: f64) -> PyErr {
    exception(py, "InputError", text, Facts { vertex, number: Some(value), ..Facts::default() })
}

/// An array with a frame that cannot be used.
pub fn input_in(py: Python<'_>, text: &str, frame: Option<usize>, value: Option<f64>) -> PyErr {
    exception(py, "InputError", text, Facts { frame, number: value, ..Facts::default() })
}

/// Arrays that are no rig.
pub fn raise_rig(py: Python<'_>, error: RigError) -> PyErr {
    let facts = match &error {
        RigError::Weights(error) => of_weights(error),
        RigError::BoneCount { bones } => Facts { number: Some(*bones as f64), ..Facts::default() },
        RigError::RepeatedName { name } => Facts { value: Some(name.clone()), ..Facts::default() },
        RigError::BadParent { bone, .. } => Facts { number: Some(*bone as f64), ..Facts::default() },
        RigError::ClipTime { frame, secs, .. } => {
            Facts { frame: Some(*frame), number: Some(*secs), ..Facts::default() }
        }
        RigError::NotFinite { frame, .. } => Facts { frame: Some(*frame), ..Facts::default() },
        RigError::RestNotFinite { vertex } => Facts { vertex: Some(*vertex), ..Facts::default() },
        RigError::Surface(error) => of_surface(error),
        _ => Facts::default(),
    };
    exception(py, "InputError", &error.to_string(), facts)
}

fn of_weights(error: &WeightError) -> Facts {
    match error {
        WeightError::BadWeight { vertex, weight, .. } => {
            Facts { vertex: Some(*vertex), number: Some(f64::from(*weight)), ..Facts::default() }
        }
        WeightError::BadSum { vertex, sum } => Facts { vertex: Some(*vertex), number: Some(*sum), ..Facts::default() },
        WeightError::NoSuchBone { vertex, bone, .. } | WeightError::Repeated { vertex, bone } => {
            Facts { vertex: Some(*vertex), number: Some(*bone as f64), ..Facts::default() }
        }
        WeightError::NotSorted { vertex } => Facts { vertex: Some(*vertex), ..Facts::default() },
        _ => Facts::default(),
    }
}

fn of_surface(error: &SurfaceError) -> Facts {
    match error {
        SurfaceError::Topology(TopologyError::IndexOutOfRange { vertex, .. }) => {
            Facts { vertex: Some(*vertex), number: Some(*vertex as f64), ..Facts::default() }
        }
        _ => Facts::default(),
    }
}

/// An array of things that are no numbers.
pub fn dtype(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "DtypeError", text, Facts::default())
}

/// A model of the wrong kind.
pub fn kind(text: String) -> PyErr {
    PyTypeError::new_err(text)
}

/// Shows warnings by Python's `warnings`, at the line of the caller's code, which is `level` functions up. A filter may make them
/// exceptions.
pub fn warn(py: Python<'_>, warnings: &[Warning], level: usize) -> PyResult<()> {
    if warnings.is_empty() {
        return Ok(());
    }
    let class = py.import("bonesmith._errors")?.getattr("BonesmithWarning")?;
    let show = py.import("warnings")?.getattr("warn")?;
    for warning in warnings {
        let data = warning.to_json();
        let shown = class.call1((PyString::new(py, &warning.to_string()),))?;
        shown.setattr("kind", data["kind"].as_str().unwrap_or("file"))?;
        shown.setattr("data", to_python(py, &data)?)?;
        let named = PyDict::new(py);
        named.set_item("stacklevel", level + 1)?;
        show.call((shown,), Some(&named))?;
    }
    Ok(())
}
