//! NumPy arrays as animations. A float32 array that is contiguous in memory is read in place; all others are converted, frame by frame.

use std::sync::Arc;

use bonesmith::MeshSequence;
use bonesmith::core::mesh::topology::Topology;
use bonesmith::core::{RawFrame, RawSequence, Surface};
use bonesmith::glam::Vec3;
use numpy::ndarray::ArrayView2;
use numpy::{Element, PyArray1, PyArray2, PyArray3, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::errors;
use crate::handle::Handle;

/// Positions in the memory of an array of NumPy, which stays alive as long as this does.
struct ArrayPositions {
    /// Keeps the memory.
    _owner: Py<PyArray3<f32>>,
    start: *const f32,
    len: usize,
}

// SAFETY: the memory is only read, and belongs to `_owner`, which NumPy neither frees nor moves while there are references to it. A caller who
// writes to the array meanwhile gets a result of mixed numbers; the documentation says so.
unsafe impl Send for ArrayPositions {}
// SAFETY: as above.
unsafe impl Sync for ArrayPositions {}

impl AsRef<[Vec3]> for ArrayPositions {
    fn as_ref(&self) -> &[Vec3] {
        // SAFETY: `start` and `len` are those of a contiguous, aligned float32 array that `_owner` keeps; see `in_place`.
        bytemuck::cast_slice(unsafe { std::slice::from_raw_parts(self.start, self.len) })
    }
}

/// An animation of arrays. With `copy` float32 arrays are copied, too.
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "the arguments of a function of Python")]
pub fn animation(
    py: Python<'_>,
    verts: &Bound<'_, PyAny>,
    faces: Option<&Bound<'_, PyAny>>,
    rest: Option<&Bound<'_, PyAny>>,
    times: Option<&Bound<'_, PyAny>>,
    fps: Option<f64>,
    name: &str,
    copy: bool,
) -> PyResult<Handle> {
    check_fps(py, fps)?;
    let verts = real(verts, "verts")?;
    let &[frames, _, 3] = verts.shape() else { return Err(wrong_shape("verts", &verts, "[F, N, 3]")) };
    let raw = RawSequence {
        name: name.to_owned(),
        rest: rest.map(|rest| points_of(rest, "rest")).transpose()?.map(RawFrame::from),
        times_secs: times.map(|times| numbers(times, "times")).transpose()?.unwrap_or_default(),
        fps: fps.unwrap_or_default(),
        surface: Surface::bare(faces.map(|faces| topology(faces)).transpose()?.unwrap_or_default()),
        ..RawSequence::default()
    };
    let buffer = if copy { None } else { in_place(&verts)? };
    let is_shared = buffer.is_some();
    let sequence = match buffer {
        Some(buffer) => MeshSequence::shared(raw, frames, Arc::new(buffer)),
        None => {
            let frames = positions(&verts)?.into_iter().map(RawFrame::from).collect();
            MeshSequence::try_from(RawSequence { frames, ..raw })
        }
    };
    let sequence = sequence.map_err(|error| errors::raise(py, error.into()))?;
    Ok(Handle::of_animation(sequence, is_shared))
}

/// Refuses frames per second that make no times.
pub fn check_fps(py: Python<'_>, fps: Option<f64>) -> PyResult<()> {
    match fps.filter(|fps| !(*fps > 0.0 && *fps <= 100_000.0)) {
        Some(fps) => Err(errors::parameter(py, "fps", &fps.to_string(), "above 0 and at most 100000")),
        None => Ok(()),
    }
}

/// An array of real numbers; lists become arrays.
pub fn real<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = value.py().import("numpy")?.call_method1("asarray", (value,))?.cast_into::<PyUntypedArray>()?;
    of_kind(&array, "fiu", what, "real numbers, such as float32")?;
    Ok(array)
}

/// Refuses arrays whose elements are of another kind than those that NumPy's letters name.
fn of_kind(array: &Bound<'_, PyUntypedArray>, kinds: &str, what: &str, wanted: &str) -> PyResult<()> {
    let dtype = array.getattr("dtype")?;
    let kind: String = dtype.getattr("kind")?.extract()?;
    if kinds.contains(&kind) {
        return Ok(());
    }
    Err(errors::dtype(array.py(), &format!("{what} has the dtype {dtype}, but {wanted} are needed")))
}

/// An array of another shape than the one that is needed.
pub fn wrong_shape(what: &str, array: &Bound<'_, PyUntypedArray>, wanted: &str) -> PyErr {
    errors::input(array.py(), &format!("{what} has the shape {:?}, but {wanted} is needed", array.shape()))
}

/// The array's own memory, where it holds float32 as the library has them.
fn in_place(array: &Bound<'_, PyUntypedArray>) -> PyResult<Option<ArrayPositions>> {
    let Ok(typed) = array.cast::<PyArray3<f32>>() else { return Ok(None) };
    if !is_aligned(array)? || !array.is_c_contiguous() {
        return Ok(None);
    }
    let (start, len) = (typed.data().cast_const(), typed.len());
    // An empty array has no memory to speak of.
    Ok((len > 0).then(|| ArrayPositions { _owner: typed.clone().unbind(), start, len }))
}

fn is_aligned(array: &Bound<'_, PyUntypedArray>) -> PyResult<bool> {
    array.getattr("flags")?.getattr("aligned")?.extract()
}

/// [F, N] positions of an array [F, N, 3] of any real numbers.
fn positions(array: &Bound<'_, PyUntypedArray>) -> PyResult<Vec<Vec<Vec3>>> {
    if is_aligned(array)? {
        if let Ok(typed) = array.cast::<PyArray3<f32>>() {
            return Ok(typed.try_readonly()?.as_array().outer_iter().map(|frame| points(frame, |x| x)).collect());
        }
        if let Ok(typed) = array.cast::<PyArray3<f64>>() {
            let typed = typed.try_readonly()?;
            return Ok(typed.as_array().outer_iter().map(|frame| points(frame, |x| x as f32)).collect());
        }
    }
    let typed = converted(array, "float32")?.cast_into::<PyArray3<f32>>()?;
    Ok(typed.try_readonly()?.as_array().outer_iter().map(|frame| points(frame, |x| x)).collect())
}

/// [N] points of an array [N, 3].
fn points<T: Copy>(array: ArrayView2<'_, T>, to: impl Fn(T) -> f32) -> Vec<Vec3> {
    array.outer_iter().map(|p| Vec3::new(to(p[0]), to(p[1]), to(p[2]))).collect()
}

/// A copy in another type, in this machine's byte order.
pub fn converted<'py>(array: &Bound<'py, PyUntypedArray>, dtype: &str) -> PyResult<Bound<'py, PyAny>> {
    array.call_method1("astype", (dtype,))
}

/// [N] points of an array [N, 3] of any real numbers.
pub fn points_of(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Vec3>> {
    let array = real(value, what)?;
    let &[_, 3] = array.shape() else { return Err(wrong_shape(what, &array, "[N, 3]")) };
    let typed = converted(&array, "float32")?.cast_into::<PyArray2<f32>>()?;
    Ok(points(typed.try_readonly()?.as_array(), |x| x))
}

/// An array of whole numbers; lists become arrays.
pub fn whole<'py>(value: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyUntypedArray>> {
    let array = value.py().import("numpy")?.call_method1("asarray", (value,))?.cast_into::<PyUntypedArray>()?;
    of_kind(&array, "iu", what, "whole numbers")?;
    Ok(array)
}

/// Real numbers in one row.
pub fn numbers(value: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<f64>> {
    let array = real(value, what)?;
    let &[_] = array.shape() else { return Err(wrong_shape(what, &array, "[F]")) };
    Ok(converted(&array, "float64")?.cast_into::<PyArray1<f64>>()?.to_vec()?)
}

/// Faces: an array [M, corners], or lists of any numbers of corners.
pub fn topology(value: &Bound<'_, PyAny>) -> PyResult<Topology> {
    let py = value.py();
    let mut topology = Topology::empty();
    let mut push = |row: &[i64]| -> PyResult<()> {
        let mut face = Vec::with_capacity(row.len());
        for &vertex in row {
            let wrong = || {
                let text = format!("face {} names vertex {vertex}", topology.face_count());
                errors::input_at(py, &text, None, vertex as f64)
            };
            face.push(u32::try_from(vertex).map_err(|_| wrong())?);
        }
        topology.push_face(&face);
        Ok(())
    };
    match py.import("numpy")?.call_method1("asarray", (value,)) {
        Ok(array) if array.getattr("ndim")?.extract::<usize>()? == 2 => {
            let array = array.cast_into::<PyUntypedArray>()?;
            of_kind(&array, "iu", "faces", "whole numbers")?;
            let typed = converted(&array, "int64")?.cast_into::<PyArray2<i64>>()?;
            typed.try_readonly()?.as_array().outer_iter().try_for_each(|row| push(&row.to_vec()))?;
        }
        Ok(array) if value.cast::<PyUntypedArray>().is_ok() && array.len()? > 0 => {
            let array = array.cast_into::<PyUntypedArray>()?;
            of_kind(&array, "iu", "faces", "whole numbers")?;
            return Err(wrong_shape("faces", &array, "[M, 3] or [M, corners]"));
        }
        // Faces with different numbers of corners are lists in a list.
        _ => {
            for face in value.try_iter()? {
                let face = face?;
                let row = face.extract::<Vec<i64>>();
                let row =
                    row.map_err(|_| errors::dtype(py, &format!("a face is {face}, not a list of whole numbers")))?;
                push(&row)?;
            }
        }
    }
    Ok(topology)
}

/// A view of memory that `owner` keeps, as an array that cannot be written to.
pub fn view<'py, T: Element>(
    owner: &Bound<'py, Handle>,
    memory: &[T],
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArray2<T>>> {
    let shaped = ArrayView2::from_shape((rows, columns), memory);
    let shaped = shaped.map_err(|error| errors::internal(owner.py(), &error.to_string()))?;
    // SAFETY: the memory belongs to the model of `owner`, which is never changed and lives as long as the array, whose base is `owner`.
    let array = unsafe { PyArray2::borrow_from_array(&shaped, owner.clone().into_any()) };
    array.getattr("flags")?.setattr("writeable", false)?;
    Ok(array)
}
