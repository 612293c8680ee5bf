//! Rigs into tables.

use std::sync::Arc;

use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use bonesmith_core::{DdmRig, Rig, ShapeBones, SparseWeights, TwoLayerRig};
use glam::DVec3;

use super::drive::Drive;
use super::{GpuModel, Inner, Stage};
use crate::bones::{Bones, Source};
use crate::context::Gpu;
use crate::error::GpuError;
use crate::kernel::Kernel;
use crate::layout::{Packing, Shape, Table, middle, planes};

impl GpuModel {
    /// Linear blend skinning, any number of influences.
    pub fn lbs(gpu: &Gpu, rig: &Rig) -> Result<Self, GpuError> {
        rig.check().map_err(bad_rig)?;
        let origin = middle(&rig.rest);
        let stage = blended(gpu, &Shape::new(rig, origin), &rig.weights, bones_of(gpu, rig))?;
        Ok(assemble(gpu, rig, origin, vec![stage]))
    }

    /// Bones that follow the weights of shapes, and linear blend skinning. Weights of driven shapes are made by
    /// [`Batch::write_shape_weights`](crate::Batch::write_shape_weights).
    pub fn shape_bones(gpu: &Gpu, face: &ShapeBones) -> Result<Self, GpuError> {
        face.check().map_err(bad_rig)?;
        let rig = &face.rig;
        let origin = middle(&rig.rest);
        let from = Source { form: Bones::Affine, count: rig.bone_count() };
        let stage = blended(gpu, &Shape::new(rig, origin), &rig.weights, from)?;
        let drive = Some(Drive::new(gpu, face, origin)?);
        let inner = Inner { stages: vec![stage], drive, origin, bones: rig.bone_count(), vertices: rig.vertex_count() };
        Ok(Self { gpu: gpu.clone(), inner: Arc::new(inner) })
    }

    /// Two layers of linear blending [Le2014 ch. 4].
    pub fn two_layer(gpu: &Gpu, rig: &TwoLayerRig) -> Result<Self, GpuError> {
        rig.check().map_err(bad_rig)?;
        let origin = middle(&rig.master.rest);
        let count = rig.virtual_count();
        let table = Table::blends(&rig.blends)?;
        let from = bones_of(gpu, &rig.master);
        let first = Stage::new(gpu, Kernel::Blend, from, count, &table, &planes(count, |_| [0.0]))?;
        let second = blended(gpu, &Shape::new(&rig.master, origin), &rig.weights, first.made())?;
        Ok(assemble(gpu, &rig.master, origin, vec![first, second]))
    }

    /// Direct Delta Mush of any variant, or compressed [LeLewis2019, Le2021].
    pub fn ddm(gpu: &Gpu, rig: &DdmRig) -> Result<Self, GpuError> {
        rig.check().map_err(bad_rig)?;
        let shape = Shape::new(&rig.rig, rig.origin);
        let stages = match &rig.layer {
            None => vec![delta_mush(gpu, rig, &shape)?],
            Some(layer) => {
                let first = virtual_bones(gpu, rig)?;
                let second = blended(gpu, &shape, layer, first.made())?;
                vec![first, second]
            }
        };
        Ok(assemble(gpu, &rig.rig, rig.origin, stages))
    }
}

fn assemble(gpu: &Gpu, rig: &Rig, origin: DVec3, stages: Vec<Stage>) -> GpuModel {
    let inner = Inner { stages, drive: None, origin, bones: rig.bone_count(), vertices: rig.vertex_count() };
    GpuModel { gpu: gpu.clone(), inner: Arc::new(inner) }
}

fn bad_rig(error: impl std::fmt::Display) -> GpuError {
    GpuError::BadRig { what: error.to_string() }
}

/// Bones of a rig as its poses allow.
fn bones_of(gpu: &Gpu, rig: &Rig) -> Source {
    Source { form: gpu.bones(rig), count: rig.bone_count() }
}

/// Vertices that blend bones.
fn blended(gpu: &Gpu, shape: &Shape, weights: &SparseWeights, from: Source) -> Result<Stage, GpuError> {
    let packing = Packing::new(from.count);
    let count = weights.vertex_count();
    let table = Table::packed(weights, &packing)?;
    let stage = Stage::new(gpu, Kernel::Lbs, from, count, &table, &planes(count, |i| shape.row(i)))?;
    Ok(Stage { index_bits: packing.index_bits, weight_unit: packing.unit(), ..stage })
}

fn delta_mush(gpu: &Gpu, rig: &DdmRig, shape: &Shape) -> Result<Stage, GpuError> {
    let (weights, kernel) = (&rig.weights, Kernel::Ddm(rig.variant));
    let count = weights.count();
    let about = |i: usize| {
        let ([px, py, pz], [x, y, z, a, b, c]) = (weights.centres()[i].to_array(), shape.row(i));
        [x, y, z, a, b, c, px, py, pz]
    };
    let (table, rows) = match rig.variant {
        Variant::V0 => (Table::multi::<11>(weights)?, planes(count, about)),
        Variant::V1 => (Table::multi::<11>(weights)?, planes(count, |i| with_inverse(about(i), weights, i))),
        Variant::V2 | Variant::V3 => (Table::multi::<5>(weights)?, planes(count, about)),
        Variant::V4 => (Table::multi::<2>(weights)?, planes(count, about)),
        Variant::V5 => (Table::multi::<2>(weights)?, planes(count, |i| shape.row(i))),
    };
    Stage::new(gpu, kernel, bones_of(gpu, &rig.rig), count, &table, &rows)
}

fn with_inverse(about: [f32; 9], weights: &MultiWeights, row: usize) -> [f32; 15] {
    let inverse = weights.rest_inverse(row);
    std::array::from_fn(|n| if n < 9 { about[n] } else { inverse[n - 9] })
}

fn virtual_bones(gpu: &Gpu, rig: &DdmRig) -> Result<Stage, GpuError> {
    let centres = rig.weights.centres();
    let rows = planes(centres.len(), |k| centres[k].to_array());
    let table = Table::multi::<11>(&rig.weights)?;
    Stage::new(gpu, Kernel::DdmBones, bones_of(gpu, &rig.rig), centres.len(), &table, &rows)
}
