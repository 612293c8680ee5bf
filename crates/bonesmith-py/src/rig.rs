//! Rigs of arrays.

use std::collections::HashMap;
use std::sync::Arc;

use bonesmith::core::mesh::sequence::DEFAULT_FPS;
use bonesmith::core::mesh::surface::CornerAttribute;
use bonesmith::core::mesh::topology::Topology;
use bonesmith::core::{Bone, BoneKind, Clip, Rig, RigError, SparseWeights, Surface};
use bonesmith::glam::{DAffine3, DMat3, DVec3};
use bonesmith::io::{BadWeights, kind_of, weights_of_rows, weights_of_tables};
use numpy::ndarray::ArrayViewD;
use numpy::{PyArray1, PyArray2, PyArrayDyn, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;

use crate::arrays::{check_fps, converted, numbers, points_of, real, topology, whole, wrong_shape};
use crate::errors;
use crate::handle::Handle;

/// The parts of a rig as Python has them.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Parts<'py> {
    name: String,
    rest: Bound<'py, PyAny>,
    faces: Option<Bound<'py, PyAny>>,
    /// [N, B]
    weights: Option<Bound<'py, PyAny>>,
    /// [N, K]
    joint_indices: Option<Bound<'py, PyAny>>,
    /// [N, K]
    joint_weights: Option<Bound<'py, PyAny>>,
    /// Name, [F, B, 4, 4] and [F] seconds of each clip.
    clips: Vec<(String, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)>,
    fps: Option<f64>,
    parents: Option<Bound<'py, PyAny>>,
    binds: Option<Bound<'py, PyAny>>,
    tips: Option<Bound<'py, PyAny>>,
    names: Option<Vec<String>>,
    bone_kind: Option<String>,
    normals: Option<Bound<'py, PyAny>>,
    uvs: Option<Bound<'py, PyAny>>,
    normalise: bool,
}

/// A rig of arrays, checked.
#[pyfunction]
pub fn rig(py: Python<'_>, parts: Parts<'_>) -> PyResult<Handle> {
    let rest = points_of(&parts.rest, "rest")?;
    let n = rest.len();
    if n == 0 {
        return Err(errors::input(py, "rest has no vertices"));
    }
    if let Some(vertex) = rest.iter().position(|p| !p.is_finite()) {
        let value = rest[vertex].to_array().into_iter().find(|x| !x.is_finite()).map_or(f64::NAN, f64::from);
        return Err(errors::input_at(
            py,
            &format!("rest, vertex {vertex}: {value} is not finite"),
            Some(vertex),
            value,
        ));
    }
    check_fps(py, parts.fps)?;
    let topology = parts.faces.as_ref().map(|faces| topology(faces)).transpose()?.unwrap_or_default();
    let mut surface = Surface::bare(topology);
    surface.topology.check(n).map_err(|error| errors::raise_rig(py, RigError::Surface(error.into())))?;
    if let Some(normals) = &parts.normals {
        surface.normals = Some(on_corners(normals, "normals", &surface.topology, n)?);
    }
    if let Some(uvs) = &parts.uvs {
        surface.uv_sets.push(on_corners(uvs, "uvs", &surface.topology, n)?);
    }
    let b = bone_count(py, &parts)?;
    let weights = weights(py, &parts, n, b)?;
    let bones = bones(py, &parts, b)?;
    let clips: Vec<Clip> = parts.clips.iter().map(|clip| one_clip(py, clip, parts.fps, b)).collect::<PyResult<_>>()?;
    let kind = kind(py, parts.bone_kind.as_deref(), &bones, &clips)?;
    let surface = Arc::new(surface);
    let rig = Rig { name: parts.name, rest, surface, weights, bones, kind, clips, params_json: String::new() };
    rig.check().map_err(|error| errors::raise_rig(py, error))?;
    Ok(Handle::new(rig))
}

/// B: of the first part that has it.
fn bone_count(py: Python<'_>, parts: &Parts<'_>) -> PyResult<usize> {
    let rows = |value: &Option<Bound<'_, PyAny>>| value.as_ref().map(|value| value.len()).transpose();
    let b = if let Some((_, transforms, _)) = parts.clips.first() {
        let array = real(transforms, "bones")?;
        let &[_, b, 4, 4] = array.shape() else { return Err(wrong_shape("bones", &array, "[F, B, 4, 4]")) };
        b
    } else if let Some(weights) = &parts.weights {
        let array = real(weights, "weights")?;
        let &[_, b] = array.shape() else { return Err(wrong_shape("weights", &array, "[N, B]")) };
        b
    } else if let Some(b) = rows(&parts.binds)?.or(rows(&parts.parents)?).or(parts.names.as_ref().map(Vec::len)) {
        b
    } else {
        return Err(errors::input(
            py,
            "nothing gives the number of bones: bones, clips, binds, parents or names are needed",
        ));
    };
    match (1..=1 << 16).contains(&b) {
        true => Ok(b),
        false => Err(errors::raise_rig(py, RigError::BoneCount { bones: b })),
    }
}

/// An array with as many rows and columns as are needed, in float64.
fn doubles<'py>(
    value: &Bound<'py, PyAny>,
    what: &str,
    shape: &[Option<usize>],
    wanted: &str,
) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
    let array = real(value, what)?;
    checked_shape(&array, what, shape, wanted)?;
    Ok(converted(&array, "float64")?.cast_into::<PyArrayDyn<f64>>()?)
}

fn checked_shape(array: &Bound<'_, PyUntypedArray>, what: &str, shape: &[Option<usize>], wanted: &str) -> PyResult<()> {
    let found = array.shape();
    let fits = found.len() == shape.len() && found.iter().zip(shape).all(|(a, b)| b.is_none_or(|b| *a == b));
    if fits { Ok(()) } else { Err(wrong_shape(what, array, wanted)) }
}

fn weights(py: Python<'_>, parts: &Parts<'_>, n: usize, b: usize) -> PyResult<SparseWeights> {
    let bad = if parts.normalise { BadWeights::Normalise } else { BadWeights::Refuse };
    let found = match (&parts.weights, &parts.joint_indices, &parts.joint_weights) {
        (Some(dense), None, None) => {
            let dense = doubles(dense, "weights", &[Some(n), Some(b)], &format!("[{n}, {b}]"))?;
            weights_of_rows(&dense.to_vec()?, b, bad)
        }
        (None, Some(indices), Some(weights)) => {
            let stored = tables(indices, weights, n, b)?;
            weights_of_tables(stored, b, bad)
        }
        _ => {
            let text = "either weights, or joint_indices and joint_weights are needed";
            return Err(errors::input(py, text));
        }
    };
    found.map_err(|error| errors::raise_rig(py, error.into()))
}

/// [N, K] bones and weights, as they are.
fn tables(indices: &Bound<'_, PyAny>, weights: &Bound<'_, PyAny>, n: usize, b: usize) -> PyResult<SparseWeights> {
    let py = indices.py();
    let array = whole(indices, "joint_indices")?;
    checked_shape(&array, "joint_indices", &[Some(n), None], &format!("[{n}, K]"))?;
    let k = array.shape()[1];
    if k == 0 {
        return Err(wrong_shape("joint_indices", &array, &format!("[{n}, K] with K of 1 or more")));
    }
    let indices = converted(&array, "int64")?.cast_into::<PyArray2<i64>>()?.to_vec()?;
    let weights = doubles(weights, "joint_weights", &[Some(n), Some(k)], &format!("[{n}, {k}]"))?.to_vec()?;
    let mut bones = Vec::with_capacity(indices.len());
    for (at, (&bone, &weight)) in indices.iter().zip(&weights).enumerate() {
        // The bone of an unused slot means nothing, and others write -1 there.
        let used = if weight == 0.0 { 0 } else { bone };
        if used < 0 || used >= b as i64 {
            let vertex = at / k;
            let text = format!("vertex {vertex} names bone {bone}, but there are {b} bones");
            return Err(errors::input_at(py, &text, Some(vertex), bone as f64));
        }
        bones.push(used as u16);
    }
    let weights = weights.iter().map(|&w| w as f32).collect();
    SparseWeights::from_tables(k, bones, weights).ok_or_else(|| errors::internal(py, "tables of weights"))
}

fn bones(py: Python<'_>, parts: &Parts<'_>, b: usize) -> PyResult<Vec<Bone>> {
    let names = match &parts.names {
        Some(names) if names.len() == b => names.clone(),
        Some(names) => return Err(errors::input(py, &format!("{} names for {b} bones", names.len()))),
        None => (0..b).map(|j| format!("bone_{j}")).collect(),
    };
    let parents = match &parts.parents {
        Some(parents) => {
            let array = whole(parents, "parents")?;
            checked_shape(&array, "parents", &[Some(b)], &format!("[{b}]"))?;
            converted(&array, "int64")?.cast_into::<PyArray1<i64>>()?.to_vec()?
        }
        None => vec![-1; b],
    };
    let binds = match &parts.binds {
        Some(binds) => {
            let array = doubles(binds, "binds", &[Some(b), Some(4), Some(4)], &format!("[{b}, 4, 4]"))?;
            transforms(py, &array.try_readonly()?.as_array(), |at| (format!("binds[{at}]"), None))?
        }
        None => vec![DAffine3::IDENTITY; b],
    };
    let tips = match &parts.tips {
        Some(tips) => doubles(tips, "tips", &[Some(b), Some(3)], &format!("[{b}, 3]"))?.to_vec()?,
        None => vec![f64::NAN; 3 * b],
    };
    let mut bones = Vec::with_capacity(b);
    for (j, ((name, parent), world_from_bind)) in names.into_iter().zip(parents).zip(binds).enumerate() {
        let tip = Some(DVec3::from_slice(&tips[3 * j..])).filter(|tip| !tip.is_nan());
        if parent < -1 || parent >= b as i64 {
            let text = format!("bone {j} ({name}) has the parent {parent}; it must be a bone, or -1 for none");
            return Err(errors::input_at(py, &text, None, parent as f64));
        }
        bones.push(Bone { name, parent: usize::try_from(parent).ok(), world_from_bind, tip });
    }
    Ok(bones)
}

/// Matrices [.., 4, 4] as transforms; `name` gives the words and the frame of each.
pub fn transforms(
    py: Python<'_>,
    array: &ArrayViewD<'_, f64>,
    name: impl Fn(usize) -> (String, Option<usize>),
) -> PyResult<Vec<DAffine3>> {
    let mut found = Vec::with_capacity(array.len() / 16);
    let mut m = [0.0; 16];
    for (at, &x) in array.iter().enumerate() {
        m[at % 16] = x;
        if at % 16 < 15 {
            continue;
        }
        let bad = m.iter().find(|x| !x.is_finite()).copied();
        if bad.is_some() || m[12..] != [0.0, 0.0, 0.0, 1.0] {
            let (name, frame) = name(at / 16);
            let text = format!("{name} is no transform: finite numbers and a last row of 0 0 0 1 are needed");
            return Err(errors::input_in(py, &text, frame, bad));
        }
        let column = |c: usize| DVec3::new(m[c], m[4 + c], m[8 + c]);
        let linear = DMat3::from_cols(column(0), column(1), column(2));
        found.push(DAffine3::from_mat3_translation(linear, column(3)));
    }
    Ok(found)
}

fn one_clip(
    py: Python<'_>,
    (name, motion, times): &(String, Bound<'_, PyAny>, Option<Bound<'_, PyAny>>),
    fps: Option<f64>,
    b: usize,
) -> PyResult<Clip> {
    let array = doubles(motion, "bones", &[None, Some(b), Some(4), Some(4)], &format!("[F, {b}, 4, 4]"))?;
    let frames = array.shape()[0];
    if frames == 0 {
        return Err(errors::input(py, &format!("clip {name:?} has no frames")));
    }
    let place = |at: usize| (format!("clip {name:?}, bones[{}, {}]", at / b, at % b), Some(at / b));
    let posed_from_rest = transforms(py, &array.try_readonly()?.as_array(), place)?;
    let times_secs = match times {
        Some(times) => numbers(times, "times")?,
        None => (0..frames).map(|t| t as f64 / fps.unwrap_or(DEFAULT_FPS)).collect(),
    };
    match times_secs.len() == frames {
        true => Ok(Clip { name: name.clone(), times_secs, posed_from_rest }),
        false => Err(errors::input(py, &format!("clip {name:?}: {} times for {frames} frames", times_secs.len()))),
    }
}

/// The kind that is named, where it holds all transforms; else the narrowest that does.
fn kind(py: Python<'_>, named: Option<&str>, bones: &[Bone], clips: &[Clip]) -> PyResult<BoneKind> {
    let needed = kind_of(bones, clips);
    let kind = match named {
        None => return Ok(needed),
        Some("rigid") => BoneKind::Rigid,
        Some("trs") => BoneKind::Trs,
        Some("affine") => BoneKind::Affine,
        Some(other) => return Err(errors::parameter(py, "bone_kind", other, "rigid, trs or affine")),
    };
    match kind >= needed {
        true => Ok(kind),
        false => {
            let range = format!("{}: the transforms need it", format!("{needed:?}").to_lowercase());
            Err(errors::parameter(py, "bone_kind", named.unwrap_or_default(), &range))
        }
    }
}

/// Numbers of vertices [N, D] or of corners [C, D]. Equal numbers of corners are one value.
fn on_corners<const D: usize>(
    value: &Bound<'_, PyAny>,
    what: &str,
    topology: &Topology,
    n: usize,
) -> PyResult<CornerAttribute<D>> {
    let py = value.py();
    let array = real(value, what)?;
    let corners = topology.corners();
    let &[rows, columns] = array.shape() else { return Err(wrong_shape(what, &array, &format!("[N, {D}]"))) };
    if columns != D || (rows != n && rows != corners.len()) {
        let wanted = format!("[{n}, {D}] for vertices or [{}, {D}] for corners of faces", corners.len());
        return Err(wrong_shape(what, &array, &wanted));
    }
    let of_corners = rows == corners.len();
    let flat = converted(&array, "float32")?.cast_into::<PyArray2<f32>>()?.to_vec()?;
    let given = flat.as_chunks::<D>().0;
    let vertex = |row: usize| if of_corners { corners[row] as usize } else { row };
    if let Some(row) = given.iter().position(|value| value.iter().any(|x| !x.is_finite())) {
        let bad = given[row].iter().find(|x| !x.is_finite()).copied().unwrap_or(f32::NAN);
        let text = format!("{what}[{row}], vertex {}: not finite", vertex(row));
        return Err(errors::input_at(py, &text, Some(vertex(row)), bad.into()));
    }
    if !of_corners {
        return Ok(CornerAttribute { name: what.to_owned(), values: given.to_vec(), indices: corners.to_vec() });
    }
    let (mut values, mut indices, mut known) = (Vec::new(), Vec::with_capacity(rows), HashMap::new());
    for value in given {
        let at = *known.entry(value.map(f32::to_bits)).or_insert_with(|| {
            values.push(*value);
            values.len() as u32 - 1
        });
        indices.push(at);
    }
    Ok(CornerAttribute { name: what.to_owned(), values, indices })
}
