//! A rig on the GPU: uploaded once, posed by any number of batches.

mod batch;
mod build;
mod drive;

use std::sync::Arc;

use glam::DVec3;

pub use batch::{Batch, PosedMesh, VERTEX_BYTES};
pub use drive::SHAPE_BONES_WGSL;

use self::drive::Drive;
use crate::bones::{Bones, Source};
use crate::context::{Gpu, ORIGIN_BYTES};
use crate::error::GpuError;
use crate::kernel::{Kernel, Pipeline, Tuning};
use crate::layout::{SLICE, Table};

/// A rig on the GPU. Clones share it.
#[derive(Clone, Debug)]
pub struct GpuModel {
    gpu: Gpu,
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// One, or virtual bones first and then vertices.
    stages: Vec<Stage>,
    /// What makes the bones of shape weights, where they follow these.
    drive: Option<Drive>,
    origin: DVec3,
    bones: usize,
    vertices: usize,
}

/// One kernel and the tables it reads.
#[derive(Debug)]
struct Stage {
    pipeline: Pipeline,
    rows: usize,
    /// [slices + 1], here and on the device.
    starts: Vec<u32>,
    words: usize,
    starts_buffer: wgpu::Buffer,
    influences: wgpu::Buffer,
    planes: wgpu::Buffer,
    index_bits: u32,
    weight_unit: f32,
}

impl Stage {
    fn new(
        gpu: &Gpu,
        kernel: Kernel,
        source: Source,
        rows: usize,
        table: &Table,
        planes: &[f32],
    ) -> Result<Self, GpuError> {
        Ok(Self {
            pipeline: Pipeline::new(gpu, kernel, &table.starts, source)?,
            rows,
            starts: table.starts.clone(),
            words: table.words,
            starts_buffer: gpu.upload("starts of slices", &table.starts)?,
            influences: gpu.upload("influences", &table.data)?,
            planes: gpu.upload("rows", planes)?,
            index_bits: 0,
            weight_unit: 0.0,
        })
    }

    fn kernel(&self) -> Kernel {
        self.pipeline.kernel
    }

    /// Form of the bones that it reads.
    fn bones(&self) -> Bones {
        self.pipeline.setup.bones
    }

    fn needs_turns(&self) -> bool {
        self.kernel().needs_turns(self.bones())
    }

    /// Virtual bones that it makes.
    fn made(&self) -> Source {
        Source { form: self.kernel().makes().unwrap_or(Bones::Affine), count: self.rows }
    }

    /// Rows from one instance to the next: whole slices, so that offsets are multiples of 256 bytes.
    fn row_stride(&self) -> usize {
        stride(self.rows)
    }

    /// Bytes of its tables.
    fn bytes(&self) -> u64 {
        self.starts_buffer.size() + self.influences.size() + self.planes.size()
    }
}

fn stride(rows: usize) -> usize {
    rows.next_multiple_of(SLICE)
}

impl GpuModel {
    /// N.
    pub fn vertex_count(&self) -> usize {
        self.inner.vertices
    }

    /// B: transforms that a pose has.
    pub fn bone_count(&self) -> usize {
        self.inner.bones
    }

    /// S: weights that a pose has, where bones follow the weights of shapes; 0 for other models.
    pub fn shape_count(&self) -> usize {
        self.inner.drive.as_ref().map_or(0, |drive| drive.shapes)
    }

    /// Form of the bones that a pose is written in.
    pub fn bones(&self) -> Bones {
        self.inner.stages[0].bones()
    }

    /// Virtual bones between bones and vertices; 0 for models of one layer.
    pub fn virtual_count(&self) -> usize {
        let [first, _] = &self.inner.stages[..] else { return 0 };
        first.rows
    }

    /// Bytes of all its tables on the device.
    pub fn bytes(&self) -> u64 {
        let drive = self.inner.drive.as_ref().map_or(0, Drive::bytes);
        self.inner.stages.iter().map(Stage::bytes).sum::<u64>() + drive
    }

    /// Bytes that posing `instances` of it must move at least: tables and poses read, virtual bones written and read,
    /// vertices written, each once.
    pub fn traffic(&self, instances: usize) -> u64 {
        let turns = if self.needs_turns() { 16 } else { 0 };
        let pose = self.bone_count() as u64 * (self.bones().bytes() + turns) + ORIGIN_BYTES;
        let between = match &self.inner.stages[..] {
            [first, _] => 2 * first.rows as u64 * first.kernel().row_bytes(),
            _ => 0,
        };
        self.bytes() + instances as u64 * (pose + between + VERTEX_BYTES * self.vertex_count() as u64)
    }

    /// Workgroup size and tile of each of its kernels.
    pub fn tunings(&self) -> Vec<Tuning> {
        self.inner.stages.iter().map(|stage| stage.pipeline.setup.tuning).collect()
    }

    fn needs_turns(&self) -> bool {
        self.inner.stages.iter().any(Stage::needs_turns)
    }

    /// Room for `instances` poses of it and what they look like.
    pub fn batch(&self, instances: usize) -> Result<Batch, GpuError> {
        Batch::new(self, instances)
    }
}
