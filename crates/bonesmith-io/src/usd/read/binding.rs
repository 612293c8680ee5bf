//! How a mesh hangs on a skeleton: joints, weights, bind transform, blend shapes.

use std::collections::HashMap;

use bonesmith_core::SparseWeights;
use glam::{DAffine3, DVec3, Vec3};

use crate::IoError;
use crate::skinned::pack_weights;
use crate::usd::stage::Stage;

use super::mesh::Mesh;
use super::skeleton::Skeleton;
use super::xform::to_affine;

/// Most influences of a vertex.
const MAX_SLOTS: usize = 1 << 10;

/// A mesh's binding; N vertices.
pub struct Binding {
    /// [N, K] over the joints of the skeleton.
    pub weights: SparseWeights,
    /// From the mesh's own space to the skeleton's when it was bound.
    pub skeleton_from_mesh: DAffine3,
    /// Blend shapes, in the mesh's own space.
    pub shapes: Vec<Shape>,
}

/// A blend shape.
pub struct Shape {
    name: String,
    /// Weights and offsets: in-betweens and the shape itself, which has weight 1, rising.
    levels: Vec<(f64, Vec<Vec3>)>,
    /// Vertices that the offsets are of; empty: all, in order.
    vertices: Vec<u32>,
}

/// The prim's own relationship, else that of the nearest prim above that has it.
pub fn inherited(stage: &Stage, prim: usize, name: &str) -> Option<usize> {
    let holder = stage.ancestry(prim).find(|&p| stage.has_targets(p, name))?;
    stage.targets(holder, name).first().copied()
}

impl Binding {
    /// Reads a mesh's binding; `None` for a mesh without weights.
    pub fn read(stage: &Stage, mesh: &Mesh, vertices: usize, skeleton: &Skeleton) -> Result<Option<Self>, IoError> {
        let prim = mesh.prim;
        let path = &stage.prims[prim].path;
        let (indices, weights) = ("primvars:skel:jointIndices", "primvars:skel:jointWeights");
        let (Some(index_values), Some(weight_values)) =
            (stage.attribute(prim, indices)?, stage.attribute(prim, weights)?)
        else {
            return Ok(None);
        };
        let (index_values, weight_values) = (index_values.ints()?, weight_values.f32s()?);
        let constant = stage.attribute_text(prim, indices, "interpolation").is_none_or(|i| i == "constant");
        let rows = if constant { 1 } else { vertices };
        let reported = stage.attribute_int(prim, indices, "elementSize").and_then(|s| usize::try_from(s).ok());
        let slots = if constant { index_values.len() } else { reported.unwrap_or(1) };
        let fits = index_values.len() == weight_values.len() && rows.checked_mul(slots) == Some(index_values.len());
        if !fits || slots == 0 || slots > MAX_SLOTS {
            let (i, w) = (index_values.len(), weight_values.len());
            return Err(stage.malformed(format!(
                "{path}: {i} joint indices and {w} weights do not make {slots} for each of {vertices} vertices"
            )));
        }
        let joints = own_joints(stage, prim, skeleton)?;
        let influence = |at: usize| -> Result<(usize, f64), IoError> {
            let (joint, weight) = (index_values[at], f64::from(weight_values[at]));
            let place = usize::try_from(joint).ok().and_then(|j| joints.get(j).copied());
            match place {
                Some(Some(j)) => Ok((j, weight)),
                _ if weight == 0.0 => Ok((0, 0.0)),
                _ => Err(stage.malformed(format!(
                    "{path}: vertex {} names joint {joint}, but there are {}",
                    at / slots,
                    joints.len()
                ))),
            }
        };
        let row = |i: usize| -> Result<Vec<(usize, f64)>, IoError> {
            let own: Result<Vec<_>, _> = (i * slots..(i + 1) * slots).map(influence).collect();
            let mut own = own?;
            own.retain(|(_, w)| *w != 0.0);
            let moves = own.iter().any(|(_, w)| *w > 0.0 && w.is_finite());
            Ok(if moves { own } else { vec![(0, 1.0)] })
        };
        let rows: Result<Vec<_>, IoError> = (0..rows).map(row).collect();
        let mut rows = rows?;
        if constant && !rows.is_empty() {
            rows = vec![rows.swap_remove(0); vertices];
        }
        let bind = stage.attribute(prim, "primvars:skel:geomBindTransform")?.map_or(Ok(Vec::new()), |a| a.f64s())?;
        let skeleton_from_mesh = if bind.len() == 16 { to_affine(&bind) } else { DAffine3::IDENTITY };
        let shapes = read_shapes(stage, prim, vertices)?;
        Ok(Some(Self { weights: pack_weights(stage.file(), &rows), skeleton_from_mesh, shapes }))
    }
}

/// Joint of the skeleton for each joint that the mesh counts; `None` for one that the skeleton lacks.
fn own_joints(stage: &Stage, prim: usize, skeleton: &Skeleton) -> Result<Vec<Option<usize>>, IoError> {
    let holder = stage.ancestry(prim).find_map(|p| stage.attribute(p, "skel:joints").transpose()).transpose()?;
    let own = holder.map_or(Ok(Vec::new()), |a| a.texts())?;
    if own.is_empty() {
        return Ok((0..skeleton.joints.len()).map(Some).collect());
    }
    let places: HashMap<&str, usize> = skeleton.joints.iter().enumerate().map(|(j, p)| (p.as_str(), j)).collect();
    Ok(own.iter().map(|joint| places.get(joint.as_str()).copied()).collect())
}

/// Blend shapes of a mesh, in its own space.
pub fn read_shapes(stage: &Stage, prim: usize, vertices: usize) -> Result<Vec<Shape>, IoError> {
    let names = stage.attribute(prim, "skel:blendShapes")?.map_or(Ok(Vec::new()), |a| a.texts())?;
    let targets = stage.targets(prim, "skel:blendShapeTargets");
    let mut shapes = Vec::new();
    for (name, target) in names.into_iter().zip(targets) {
        shapes.push(read_shape(stage, name, target, vertices)?);
    }
    Ok(shapes)
}

fn read_shape(stage: &Stage, name: String, prim: usize, vertices: usize) -> Result<Shape, IoError> {
    let path = &stage.prims[prim].path;
    let points =
        |flat: Vec<f32>| -> Vec<Vec3> { flat.as_chunks::<3>().0.iter().map(|p| Vec3::from_array(*p)).collect() };
    let offsets = points(stage.attribute(prim, "offsets")?.map_or(Ok(Vec::new()), |a| a.f32s())?);
    let indices = stage.attribute(prim, "pointIndices")?.map_or(Ok(Vec::new()), |a| a.ints())?;
    let vertex = |i: &i64| u32::try_from(*i).ok().filter(|i| (*i as usize) < vertices);
    let places: Option<Vec<u32>> = indices.iter().map(vertex).collect();
    let places = places.filter(|p| p.is_empty() || p.len() == offsets.len());
    let Some(places) = places.filter(|p| !p.is_empty() || offsets.len() <= vertices) else {
        let count = offsets.len();
        return Err(stage.malformed(format!("{path}: {count} offsets do not fit a mesh of {vertices} vertices")));
    };
    let mut levels = Vec::new();
    for property in stage.property_names(prim) {
        let is_level = property.starts_with("inbetweens:") && !property.ends_with(":normalOffsets");
        let Some(weight) = stage.attribute_number(prim, property, "weight").filter(|_| is_level) else { continue };
        let own = points(stage.attribute(prim, property)?.map_or(Ok(Vec::new()), |a| a.f32s())?);
        if own.len() == offsets.len() && weight.is_finite() {
            levels.push((weight, own));
        }
    }
    levels.push((1.0, offsets));
    levels.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(Shape { name, levels, vertices: places })
}

impl Shape {
    /// Name that animations call it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether there is more than the line from the rest to the shape.
    pub fn has_levels(&self) -> bool {
        self.levels.len() > 1
    }

    /// Weights of its levels, rising; the shape itself is at 1.
    pub fn levels(&self) -> impl Iterator<Item = f64> + '_ {
        self.levels.iter().map(|(weight, _)| *weight)
    }

    /// Adds the shape at `weight` to positions. In-betweens are met exactly, and lines lie between them; 0 is the rest.
    pub fn add(&self, weight: f64, positions: &mut [DVec3]) {
        if weight == 0.0 || !weight.is_finite() {
            return;
        }
        // The two levels around the weight, of which one may be the rest; beyond the ends the last line goes on.
        let mut known: Vec<(f64, Option<&[Vec3]>)> =
            self.levels.iter().map(|(w, o)| (*w, Some(o.as_slice()))).collect();
        let at = known.partition_point(|(w, _)| *w < 0.0);
        known.insert(at, (0.0, None));
        let next = known.partition_point(|(w, _)| *w < weight).clamp(1, known.len() - 1);
        let ((w0, before), (w1, after)) = (known[next - 1], known[next]);
        if w1 <= w0 {
            return;
        }
        let share = (weight - w0) / (w1 - w0);
        for (offsets, factor) in [(before, 1.0 - share), (after, share)] {
            let Some(offsets) = offsets.filter(|_| factor != 0.0) else { continue };
            for (k, offset) in offsets.iter().enumerate() {
                let vertex = if self.vertices.is_empty() { k } else { self.vertices[k] as usize };
                if let Some(p) = positions.get_mut(vertex) {
                    *p += factor * offset.as_dvec3();
                }
            }
        }
    }
}
