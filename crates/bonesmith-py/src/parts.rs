//! Parts of a model as arrays, and its poses.

use std::borrow::Cow;

use bonesmith::core::ShapeBones;
use bonesmith::core::deform;
use bonesmith::core::mesh::surface::CornerAttribute;
use bonesmith::glam::{DAffine3, DMat4, DVec3, Vec3};
use bonesmith::{Model, ModelRef, Rig};
use numpy::ndarray::Array4;
use numpy::{IntoPyArray, PyArray1, PyArray2, PyArray3, PyArray4, PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use rayon::prelude::*;

use crate::arrays::{converted, real, view, wrong_shape};
use crate::errors;
use crate::handle::Handle;
use crate::rig::transforms;
use crate::run::quickly;
use crate::values::to_python;

/// Rows and columns of a 4x4 matrix, row by row.
fn matrix(m: &DAffine3) -> [f64; 16] {
    let (c, t) = (&m.matrix3, m.translation);
    let row = |r: usize| [c.x_axis[r], c.y_axis[r], c.z_axis[r], t[r]];
    let mut all = [0.0; 16];
    (0..3).for_each(|r| all[4 * r..4 * r + 4].copy_from_slice(&row(r)));
    all[15] = 1.0;
    all
}

/// [K, 4, 4] matrices as an array [rows, columns, 4, 4].
fn matrices<'py>(
    py: Python<'py>,
    transforms: &[DAffine3],
    rows: usize,
    columns: usize,
) -> PyResult<Bound<'py, PyArray4<f64>>> {
    let numbers: Vec<f64> = transforms.iter().flat_map(matrix).collect();
    let shaped = Array4::from_shape_vec((rows, columns, 4, 4), numbers);
    Ok(shaped.map_err(|error| errors::internal(py, &error.to_string()))?.into_pyarray(py))
}

impl Handle {
    fn bones(&self) -> PyResult<&Rig> {
        let view = self.model.view();
        view.rig().ok_or_else(|| errors::kind(format!("{} has no bones", view.kind().text())))
    }
}

/// Positions as an array of as many rows.
fn positions<'py>(py: Python<'py>, poses: Vec<Vec<Vec3>>, n: usize) -> PyResult<Bound<'py, PyArray3<f32>>> {
    let k = poses.len();
    let mut numbers: Vec<f32> = Vec::with_capacity(3 * k * n);
    poses.iter().for_each(|pose| numbers.extend_from_slice(bytemuck::cast_slice(pose)));
    numbers.into_pyarray(py).reshape([k, n, 3])
}

/// [C, D] values of all corners.
fn on_corners<'py, const D: usize>(
    py: Python<'py>,
    attribute: &CornerAttribute<D>,
) -> PyResult<Bound<'py, PyArray2<f32>>> {
    let numbers: Vec<f32> = attribute.indices.iter().flat_map(|&at| attribute.values[at as usize]).collect();
    numbers.into_pyarray(py).reshape([attribute.indices.len(), D])
}

#[pymethods]
impl Handle {
    /// The kind, as files name it.
    fn kind(&self) -> &'static str {
        self.view().kind().id()
    }

    /// The kind in words.
    fn kind_text(&self) -> &'static str {
        self.view().kind().text()
    }

    fn name(&self) -> &str {
        self.view().name()
    }

    fn vertex_count(&self) -> usize {
        self.view().vertex_count()
    }

    fn face_count(&self) -> usize {
        self.view().surface().topology.face_count()
    }

    fn bone_count(&self) -> usize {
        self.view().bone_count()
    }

    fn virtual_bone_count(&self) -> usize {
        self.view().virtual_bone_count()
    }

    fn max_influences(&self) -> usize {
        self.view().max_influences()
    }

    /// Bytes at run time, with the motion of all clips.
    fn nbytes(&self) -> usize {
        self.view().bytes()
    }

    fn bone_kind(&self) -> PyResult<String> {
        Ok(format!("{:?}", self.bones()?.kind).to_lowercase())
    }

    /// The parameters that made it; `None` where they are not known.
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &serde_json::from_str(self.view().params_json()).unwrap_or_default())
    }

    /// How it was made; `None` where that is not known.
    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.record)
    }

    /// Name and frames of each clip.
    fn clips(&self) -> Vec<(String, usize)> {
        self.view().clips().iter().map(|clip| (clip.name.to_owned(), clip.frame_count())).collect()
    }

    /// [F] seconds of a clip's frames.
    fn times<'py>(&self, py: Python<'py>, clip: usize) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let clips = self.view().clips();
        let clip = clips.get(clip).ok_or_else(|| PyIndexError::new_err(format!("there is no clip {clip}")))?;
        Ok(PyArray1::from_slice(py, clip.times_secs))
    }

    /// [N, 3] rest pose: a view.
    fn rest<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let rest = slf.get().view().rest();
        view(slf, bytemuck::cast_slice(rest), rest.len(), 3)
    }

    /// [N, 3] positions of a frame of an animation: a view.
    fn frame<'py>(slf: &Bound<'py, Self>, t: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
        match &*slf.get().model {
            Model::Sequence(sequence) if t < sequence.frame_count() => match sequence.frame(t) {
                Cow::Borrowed(frame) => view(slf, bytemuck::cast_slice(frame), frame.len(), 3),
                Cow::Owned(frame) => {
                    let numbers: Vec<f32> = frame.iter().flat_map(|p| p.to_array()).collect();
                    numbers.into_pyarray(slf.py()).reshape([frame.len(), 3])
                }
            },
            other => Err(PyIndexError::new_err(format!("{} has no frame {t}", other.view().kind().text()))),
        }
    }

    /// Corners of all faces, and how many each face has.
    fn faces<'py>(&self, py: Python<'py>) -> (Bound<'py, PyArray1<u32>>, Bound<'py, PyArray1<u32>>) {
        let topology = &self.view().surface().topology;
        let counts: Vec<u32> = topology.faces().map(|face| face.len() as u32).collect();
        (PyArray1::from_slice(py, topology.corners()), counts.into_pyarray(py))
    }

    /// [T, 3] triangles of all faces.
    fn triangles<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<u32>>> {
        let triangles = self.view().surface().topology.vertex_triangles();
        triangles.as_flattened().to_vec().into_pyarray(py).reshape([triangles.len(), 3])
    }

    /// [C, 3] stored normals of the corners of all faces; `None` where there are none.
    fn normals<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyArray2<f32>>>> {
        self.view().surface().normals.as_ref().map(|normals| on_corners(py, normals)).transpose()
    }

    /// [C, 2] texture coordinates of the corners, of each set.
    fn uv_sets<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyArray2<f32>>>> {
        self.view().surface().uv_sets.iter().map(|set| on_corners(py, set)).collect()
    }

    fn names(&self) -> PyResult<Vec<String>> {
        Ok(self.bones()?.bones.iter().map(|bone| bone.name.clone()).collect())
    }

    /// [B] parents; -1 for roots.
    fn parents<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<i32>>> {
        let parent = |bone: &bonesmith::core::Bone| bone.parent.map_or(-1, |j| j as i32);
        Ok(self.bones()?.bones.iter().map(parent).collect::<Vec<_>>().into_pyarray(py))
    }

    /// [B, 4, 4] place and orientation of the bones in the rest pose.
    fn binds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let binds: Vec<f64> = self.bones()?.bones.iter().flat_map(|bone| matrix(&bone.world_from_bind)).collect();
        binds.into_pyarray(py).reshape([self.bones()?.bone_count(), 4, 4])
    }

    /// [B, 3] ends of leaf bones in the rest pose; NaN where a bone has none.
    fn tips<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f64>>> {
        let rig = self.bones()?;
        let tips: Vec<f64> = rig.bones.iter().flat_map(|bone| bone.tip.unwrap_or(DVec3::NAN).to_array()).collect();
        tips.into_pyarray(py).reshape([rig.bone_count(), 3])
    }

    /// [F, B, 4, 4] transforms of a clip.
    fn transforms<'py>(&self, py: Python<'py>, clip: usize) -> PyResult<Bound<'py, PyArray4<f64>>> {
        let rig = self.bones()?;
        let clip = rig.clips.get(clip).ok_or_else(|| PyIndexError::new_err(format!("there is no clip {clip}")))?;
        matrices(py, &clip.posed_from_rest, clip.frame_count(), rig.bone_count())
    }

    /// [N, B] weights through all layers.
    fn dense_weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let (model, n, b) = (self.view(), self.view().vertex_count(), self.bones()?.bone_count());
        let mut dense = vec![0.0f32; n * b];
        for i in 0..n {
            model.weights_on_bones(i).into_iter().for_each(|(j, w)| dense[i * b + j] = w as f32);
        }
        dense.into_pyarray(py).reshape([n, b])
    }

    /// Rows, columns and values of the weights through all layers: starts [N + 1], bones, weights.
    #[allow(clippy::type_complexity, reason = "three arrays of Python")]
    fn sparse_weights<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyArray1<i64>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f32>>)> {
        self.bones()?;
        let (mut starts, mut bones, mut weights) = (vec![0i64], Vec::new(), Vec::new());
        for i in 0..self.view().vertex_count() {
            let mut row = self.view().weights_on_bones(i);
            row.sort_by_key(|(j, _)| *j);
            for (j, w) in row {
                bones.push(j as i32);
                weights.push(w as f32);
            }
            starts.push(bones.len() as i64);
        }
        Ok((starts.into_pyarray(py), bones.into_pyarray(py), weights.into_pyarray(py)))
    }

    /// [N, K] bones, or virtual bones, of each vertex: a view.
    fn joint_indices<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<u16>>> {
        slf.get().bones()?;
        let handle = slf.get();
        let weights = handle.view().weights().ok_or_else(|| errors::kind("the model has no weights".to_owned()))?;
        view(slf, weights.bone_table(), weights.vertex_count(), weights.slots())
    }

    /// [N, K] weights of each vertex: a view.
    fn joint_weights<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArray2<f32>>> {
        slf.get().bones()?;
        let handle = slf.get();
        let weights = handle.view().weights().ok_or_else(|| errors::kind("the model has no weights".to_owned()))?;
        view(slf, weights.weight_table(), weights.vertex_count(), weights.slots())
    }

    /// [M, c] bones and weights of the virtual bones of a two-layer rig: views.
    #[allow(clippy::type_complexity, reason = "two arrays of Python")]
    fn blends<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyArray2<u16>>, Bound<'py, PyArray2<f32>>)> {
        let Model::TwoLayer(two) = &*slf.get().model else {
            return Err(errors::kind("only a rig with two layers blends bones".to_owned()));
        };
        let (count, slots) = (two.blends.count(), two.blends.slots());
        Ok((view(slf, two.blends.bone_table(), count, slots)?, view(slf, two.blends.weight_table(), count, slots)?))
    }

    /// Variant of Direct Delta Mush.
    fn variant(&self) -> PyResult<u8> {
        let Model::Ddm(ddm) = &*self.model else { return Err(errors::kind("no Direct Delta Mush rig".to_owned())) };
        Ok(ddm.variant.into())
    }

    /// Corrective shapes [R, N, 3].
    fn shapes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray3<f32>>> {
        let Model::Corrective(corrective) = &*self.model else {
            return Err(errors::kind("the rig has no corrective shapes".to_owned()));
        };
        let shapes = corrective.shapes.iter().map(|shape| shape.offsets.clone()).collect();
        positions(py, shapes, corrective.rig.vertex_count())
    }

    /// [F, R] weights of the corrective shapes in a clip.
    fn shape_weights<'py>(&self, py: Python<'py>, clip: usize) -> PyResult<Bound<'py, PyArray2<f32>>> {
        let Model::Corrective(corrective) = &*self.model else {
            return Err(errors::kind("the rig has no corrective shapes".to_owned()));
        };
        let frames = self.view().clips().get(clip).map_or(0, |clip| clip.frame_count());
        let weights = (0..frames).flat_map(|t| corrective.shapes.iter().map(move |shape| shape.weights[clip][t]));
        let weights: Vec<f32> = weights.collect();
        weights.into_pyarray(py).reshape([frames, corrective.shapes.len()])
    }

    /// Names of the shapes that drive the bones.
    fn shape_names(&self) -> PyResult<Vec<String>> {
        Ok(self.face()?.shapes.iter().map(|shape| shape.name.clone()).collect())
    }

    /// Stored numbers of all shapes.
    fn number_count(&self) -> PyResult<usize> {
        Ok(self.face()?.number_count())
    }

    /// [B, 4, 4] transforms of the bones for weights of the shapes.
    fn shape_transforms<'py>(&self, py: Python<'py>, weights: Vec<f32>) -> PyResult<Bound<'py, PyArray3<f64>>> {
        let transforms = self.checked_face(py, &weights)?.transforms(&weights);
        let matrices: Vec<f64> = transforms.iter().flat_map(|m| DMat4::from(*m).transpose().to_cols_array()).collect();
        matrices.into_pyarray(py).reshape([transforms.len(), 4, 4])
    }

    /// [1, N, 3] positions for weights of the shapes.
    fn pose_shapes<'py>(&self, py: Python<'py>, weights: Vec<f32>) -> PyResult<Bound<'py, PyArray3<f32>>> {
        let face = self.checked_face(py, &weights)?;
        positions(py, vec![face.posed(&weights)], face.rig.vertex_count())
    }

    /// Drops the animation that it is measured against.
    fn drop_animation(&self) {
        self.drop_reference();
    }

    /// All clips, or one, as an animation.
    #[pyo3(signature = (clip = None))]
    fn bake(&self, py: Python<'_>, clip: Option<usize>) -> PyResult<Self> {
        let baked = quickly(py, || Ok(self.view().baked(clip)))?;
        let baked = baked.ok_or_else(|| errors::input(py, "the model has no animation"))?;
        let sequence = bonesmith::MeshSequence::try_from(baked).map_err(|error| errors::raise(py, error.into()))?;
        Ok(Self::of_animation(sequence, false))
    }
}

impl Handle {
    /// The bones driven by shapes.
    fn face(&self) -> PyResult<&ShapeBones> {
        let Model::ShapeBones(face) = &*self.model else {
            return Err(errors::kind("the bones are not driven by shapes".to_owned()));
        };
        Ok(face)
    }

    /// The same, if there is a weight for each shape.
    fn checked_face(&self, py: Python<'_>, weights: &[f32]) -> PyResult<&ShapeBones> {
        let face = self.face()?;
        let (given, shapes) = (weights.len(), face.shapes.len());
        match given == shapes && weights.iter().all(|weight| weight.is_finite()) {
            true => Ok(face),
            false => Err(errors::input(
                py,
                &format!("{given} weights; a finite number for each of {shapes} shapes is needed"),
            )),
        }
    }
}

/// [K, N, 3] positions in frames of a clip.
#[pyfunction]
pub fn pose<'py>(
    py: Python<'py>,
    model: &Handle,
    frames: Vec<usize>,
    clip: usize,
) -> PyResult<Bound<'py, PyArray3<f32>>> {
    let view = model.view();
    let clips = view.clips();
    let count = clips.get(clip).ok_or_else(|| PyIndexError::new_err(format!("there is no clip {clip}")))?.frame_count();
    if let Some(t) = frames.iter().find(|t| **t >= count) {
        return Err(PyIndexError::new_err(format!("frame {t} of {count} (0 to {})", count.saturating_sub(1))));
    }
    let poses = quickly(py, || Ok(frames.par_iter().map(|&t| view.posed(clip, t)).collect::<Vec<_>>()))?;
    positions(py, poses, view.vertex_count())
}

/// [K, N, 3] positions with bones at [K, B, 4, 4].
#[pyfunction]
pub fn pose_matrices<'py>(
    py: Python<'py>,
    model: &Handle,
    matrices: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArray3<f32>>> {
    let (view, rig) = (model.view(), model.bones()?);
    let array = real(matrices, "matrices")?;
    let b = rig.bone_count();
    let &[_, bones, 4, 4] = array.shape() else { return Err(wrong_shape("matrices", &array, "[K, B, 4, 4]")) };
    if bones != b {
        return Err(wrong_shape("matrices", &array, &format!("[K, {b}, 4, 4]")));
    }
    let typed = converted(&array, "float64")?.cast_into::<PyArrayDyn<f64>>()?;
    let name = |at: usize| (format!("matrices[{}, {}]", at / b, at % b), None);
    let transforms = transforms(py, &typed.try_readonly()?.as_array(), name)?;
    let poses: Vec<&[DAffine3]> = transforms.chunks_exact(b).collect();
    let posed = |pose: &&[DAffine3]| match view {
        ModelRef::TwoLayer(two) => deform::two_layer(two, pose),
        ModelRef::Ddm(ddm) => deform::ddm_f64(ddm, pose),
        _ => deform::lbs(&rig.rest, &rig.weights, pose),
    };
    let posed = quickly(py, || Ok(poses.par_iter().map(posed).collect::<Vec<_>>()))?;
    positions(py, posed, view.vertex_count())
}
