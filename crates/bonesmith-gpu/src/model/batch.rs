//! Many instances of a model, each with its own pose.

use std::ops::Range;

use glam::{DAffine3, Vec3};
use wgpu::BufferUsages;

use super::{GpuModel, Inner, Stage, stride};
use crate::bones::{BadBone, PackedPose};
use crate::context::ORIGIN_BYTES;
use crate::error::GpuError;
use crate::kernel::PARAMS_WORDS;
use crate::layout::SLICE;
use crate::plan::{Chunk, Demand};

/// Bytes of a posed vertex: position and unit normal, three float32 each.
pub const VERTEX_BYTES: u64 = 24;

/// Poses of many instances and what they look like, on the device.
///
/// Nothing here waits, but [`Batch::read`]: poses that are written, kernels that are encoded and whatever an engine does
/// with [`Batch::vertices`] run in the order in which they are submitted to the queue.
#[derive(Debug)]
pub struct Batch {
    model: GpuModel,
    instances: usize,
    buffers: Buffers,
    dispatches: Vec<Dispatch>,
}

#[derive(Debug)]
struct Buffers {
    /// [instances, stride(B)]
    bones: wgpu::Buffer,
    /// [instances, and as many more as a dispatch can see]
    instance_origins: wgpu::Buffer,
    /// [instances, S], where bones follow the weights of shapes.
    weights: Option<wgpu::Buffer>,
    /// [instances, stride(B)], for kernels that blend rotations.
    turns: Option<wgpu::Buffer>,
    /// [instances, stride(M)], between two layers.
    virtual_bones: Option<wgpu::Buffer>,
    /// [instances, stride(N)]
    vertices: wgpu::Buffer,
}

#[derive(Debug)]
struct Dispatch {
    pipeline: wgpu::ComputePipeline,
    bindings: wgpu::BindGroup,
    groups: [u32; 2],
}

/// One posed instance.
#[derive(Clone, Debug, PartialEq)]
pub struct PosedMesh {
    /// [N] model units.
    pub positions: Vec<Vec3>,
    /// [N] unit length; zero where no face is.
    pub normals: Vec<Vec3>,
}

impl Batch {
    pub(super) fn new(model: &GpuModel, instances: usize) -> Result<Self, GpuError> {
        let buffers = Buffers::new(model, instances)?;
        let mut batch = Self { model: model.clone(), instances, buffers, dispatches: Vec::new() };
        batch.plan_drive()?;
        for (at, stage) in model.inner.stages.iter().enumerate() {
            batch.plan(stage, at)?;
        }
        model.gpu.check()?;
        Ok(batch)
    }

    /// Instances there is room for.
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// Dispatches of one run: one per layer, more where the device's limits ask for it.
    pub fn dispatch_count(&self) -> usize {
        self.dispatches.len()
    }

    /// Posed vertices, usable as a vertex buffer: float32x3 position at offset 0, float32x3 normal at 12, stride 24. Those
    /// of instance t begin at vertex `t * vertex_stride()`.
    pub fn vertices(&self) -> &wgpu::Buffer {
        &self.buffers.vertices
    }

    /// Vertices from one instance to the next: N, and up to 31 unused ones.
    pub fn vertex_stride(&self) -> usize {
        stride(self.model.vertex_count())
    }

    /// Sets [B] `posed_from_rest` of one instance. Takes effect with the next submission.
    pub fn write_bones(&self, instance: usize, posed_from_rest: &[DAffine3]) -> Result<(), GpuError> {
        self.check_instance(instance)?;
        let Inner { origin, bones, .. } = *self.model.inner;
        if self.model.shape_count() > 0 {
            return Err(GpuError::Driven);
        }
        if posed_from_rest.len() != bones {
            return Err(GpuError::BoneCount { given: posed_from_rest.len(), bones });
        }
        let form = self.model.bones();
        let turns = self.buffers.turns.is_some();
        let packed = PackedPose::new(posed_from_rest, origin, form, stride(bones), turns).map_err(|bad| match bad {
            BadBone::NotFinite { bone } => GpuError::NotFinite { instance, bone },
            BadBone::NotSimilar { bone, off } => GpuError::NotSimilar { instance, bone, off },
        })?;
        let queue = &self.model.gpu.queue;
        let at = instance as u64 * stride(bones) as u64;
        queue.write_buffer(&self.buffers.bones, at * form.bytes(), bytemuck::cast_slice(&packed.bones));
        queue.write_buffer(
            &self.buffers.instance_origins,
            ORIGIN_BYTES * instance as u64,
            bytemuck::cast_slice(&packed.instance_origin),
        );
        if let Some(turns) = &self.buffers.turns {
            queue.write_buffer(turns, 16 * at, bytemuck::cast_slice(&packed.turns));
        }
        Ok(())
    }

    /// Sets [S] weights of shapes of one instance, of a model whose bones follow them. Takes effect with the next submission. `weights` are those of
    /// all shapes: see [`bonesmith_core::ShapeBones::driven`].
    pub fn write_shape_weights(&self, instance: usize, weights: &[f64]) -> Result<(), GpuError> {
        self.check_instance(instance)?;
        let shapes = self.model.shape_count();
        let Some(buffer) = self.buffers.weights.as_ref().filter(|_| weights.len() == shapes) else {
            return Err(GpuError::ShapeCount { given: weights.len(), shapes });
        };
        let weights: Vec<f32> = weights.iter().map(|weight| *weight as f32).collect();
        if let Some(shape) = weights.iter().position(|weight| !weight.is_finite()) {
            return Err(GpuError::WeightNotFinite { instance, shape });
        }
        let queue = &self.model.gpu.queue;
        queue.write_buffer(buffer, (4 * instance * shapes) as u64, bytemuck::cast_slice(&weights));
        Ok(())
    }

    /// Adds the kernels to a pass of the caller's.
    pub fn encode(&self, pass: &mut wgpu::ComputePass) {
        for dispatch in &self.dispatches {
            pass.set_pipeline(&dispatch.pipeline);
            pass.set_bind_group(0, &dispatch.bindings, &[]);
            pass.dispatch_workgroups(dispatch.groups[0], dispatch.groups[1], 1);
        }
    }

    /// Submits the kernels in a pass of their own; does not wait for them.
    pub fn submit(&self) -> Result<(), GpuError> {
        let gpu = &self.model.gpu;
        gpu.check()?;
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        self.encode(&mut encoder.begin_compute_pass(&Default::default()));
        gpu.queue.submit([encoder.finish()]);
        gpu.check()
    }

    /// Waits, and copies one instance back.
    pub fn read(&self, instance: usize) -> Result<PosedMesh, GpuError> {
        self.check_instance(instance)?;
        let n = self.model.vertex_count();
        let start = (instance * self.vertex_stride()) as u64 * VERTEX_BYTES;
        let range = start..start + n as u64 * VERTEX_BYTES;
        let rows: Vec<[[f32; 3]; 2]> = self.model.gpu.download(&self.buffers.vertices, range)?;
        Ok(PosedMesh {
            positions: rows.iter().map(|row| Vec3::from_array(row[0])).collect(),
            normals: rows.iter().map(|row| Vec3::from_array(row[1])).collect(),
        })
    }

    fn check_instance(&self, instance: usize) -> Result<(), GpuError> {
        match instance < self.instances {
            true => Ok(()),
            false => Err(GpuError::NoSuchInstance { instance, instances: self.instances }),
        }
    }

    /// Dispatches that make bones, and where instances are: at the model's origin.
    fn plan_drive(&mut self) -> Result<(), GpuError> {
        let (Some(drive), Some(weights)) = (&self.model.inner.drive, &self.buffers.weights) else { return Ok(()) };
        let (gpu, bone_stride) = (&self.model.gpu, stride(self.model.bone_count()));
        for (bindings, groups) in drive.dispatches(gpu, self.instances, bone_stride, weights, &self.buffers.bones)? {
            self.dispatches.push(Dispatch { pipeline: drive.pipeline.clone(), bindings, groups });
        }
        let origin = self.model.inner.origin.as_vec3().extend(0.0).to_array();
        let origins = vec![origin; self.instances];
        gpu.queue.write_buffer(&self.buffers.instance_origins, 0, bytemuck::cast_slice(&origins));
        Ok(())
    }

    /// Dispatches of one layer.
    fn plan(&mut self, stage: &Stage, at: usize) -> Result<(), GpuError> {
        let gpu = &self.model.gpu;
        let demand = Demand {
            starts: &stage.starts,
            words: stage.words,
            planes: stage.kernel().planes(),
            row_bytes: stage.kernel().row_bytes(),
            bone_bytes: self.sources(at).1 as u64 * stage.bones().bytes(),
            instances: self.instances,
            workgroup: stage.pipeline.setup.tuning.workgroup,
            tile: stage.pipeline.setup.tuning.tile,
            instance_origins: gpu.instance_origins(),
            binding_bytes: gpu.binding_bytes(),
            workgroups: gpu.workgroups(),
        };
        let (bytes, limit) = (stage.starts_buffer.size(), gpu.device.limits().max_storage_buffer_binding_size);
        if bytes > limit {
            return Err(GpuError::Limit { what: "starts of slices (bytes)".to_owned(), needs: bytes, limit });
        }
        for chunk in demand.chunks()? {
            let groups = [
                (chunk.slices.len() * SLICE).div_ceil(demand.workgroup as usize) as u32,
                chunk.instances.len().div_ceil(demand.tile as usize) as u32,
            ];
            let bindings = self.bind(stage, at, &demand, &chunk)?;
            self.dispatches.push(Dispatch { pipeline: stage.pipeline.pipeline.clone(), bindings, groups });
        }
        Ok(())
    }

    /// Bones that a layer reads, their stride, and what it writes.
    fn sources(&self, at: usize) -> (&wgpu::Buffer, usize, &wgpu::Buffer) {
        let bones = stride(self.model.bone_count());
        match (&self.buffers.virtual_bones, at) {
            (Some(between), 0) => (&self.buffers.bones, bones, between),
            (Some(between), _) => (between, stride(self.model.virtual_count()), &self.buffers.vertices),
            (None, _) => (&self.buffers.bones, bones, &self.buffers.vertices),
        }
    }

    fn bind(&self, stage: &Stage, at: usize, demand: &Demand, chunk: &Chunk) -> Result<wgpu::BindGroup, GpuError> {
        let gpu = &self.model.gpu;
        let (bones, bone_stride, target) = self.sources(at);
        let first_influence = demand.first_influence(chunk.slices.start);
        let first_origin = demand.first_origin(chunk.instances.start);
        let params: [u32; PARAMS_WORDS] = [
            chunk.slices.len() as u32,
            chunk.instances.len() as u32,
            chunk.slices.start as u32,
            (chunk.instances.start - first_origin) as u32,
            first_influence,
            bone_stride as u32,
            stage.row_stride() as u32,
            stage.index_bits,
            stage.weight_unit.to_bits(),
            0,
            0,
            0,
        ];
        let uniform =
            gpu.buffer("parameters", 4 * PARAMS_WORDS as u64, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?;
        gpu.queue.write_buffer(&uniform, 0, bytemuck::cast_slice(&params));

        let influence_bytes = (stage.words * SLICE * 4) as u64;
        let influences = u64::from(first_influence)..u64::from(stage.starts[chunk.slices.end]);
        let plane_bytes = (stage.kernel().planes() * SLICE * 4) as u64;
        let rows = chunk.slices.start as u64..chunk.slices.end as u64;
        let poses = chunk.instances.start as u64..chunk.instances.end as u64;
        let row_stride = stage.row_stride() as u64;
        // From the first row of the first instance to the last row of the last.
        let written = poses.start * row_stride + rows.start * SLICE as u64
            ..(poses.end - 1) * row_stride + rows.end * SLICE as u64;
        let mut entries = vec![
            uniform.as_entire_binding(),
            stage.starts_buffer.as_entire_binding(),
            part(&stage.influences, influences, influence_bytes),
            part(&stage.planes, rows, plane_bytes),
            part(bones, poses.clone(), bone_stride as u64 * stage.bones().bytes()),
            part(
                &self.buffers.instance_origins,
                first_origin as u64..(first_origin + demand.instance_origins) as u64,
                ORIGIN_BYTES,
            ),
            part(target, written, stage.kernel().row_bytes()),
        ];
        if let (true, Some(turns)) = (stage.needs_turns(), &self.buffers.turns) {
            entries.push(part(turns, poses, bone_stride as u64 * 16));
        }
        let numbered = entries.into_iter().enumerate();
        let entries: Vec<_> =
            numbered.map(|(n, resource)| wgpu::BindGroupEntry { binding: n as u32, resource }).collect();
        let layout = &stage.pipeline.layout;
        Ok(gpu.device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries }))
    }
}

/// Units `range` of a buffer.
fn part(buffer: &wgpu::Buffer, range: Range<u64>, unit: u64) -> wgpu::BindingResource<'_> {
    wgpu::BindingResource::Buffer(wgpu::BufferBinding {
        buffer,
        offset: range.start * unit,
        size: std::num::NonZeroU64::new((range.end - range.start) * unit),
    })
}

impl Buffers {
    fn new(model: &GpuModel, instances: usize) -> Result<Self, GpuError> {
        let poses = instances as u64;
        let bones = stride(model.bone_count()) as u64;
        let read = BufferUsages::STORAGE | BufferUsages::COPY_DST;
        let gpu = &model.gpu;
        let virtual_bones = match model.virtual_count() {
            0 => None,
            count => {
                let bytes = poses.saturating_mul(stride(count) as u64 * model.inner.stages[0].kernel().row_bytes());
                Some(gpu.buffer("virtual bones of all instances", bytes, BufferUsages::STORAGE)?)
            }
        };
        let turns = match model.needs_turns() {
            true => Some(gpu.buffer("rotations of all instances", poses.saturating_mul(bones * 16), read)?),
            false => None,
        };
        let bytes = poses.saturating_mul(stride(model.vertex_count()) as u64 * VERTEX_BYTES);
        let instance_origins = poses.saturating_add(gpu.instance_origins() as u64).saturating_mul(ORIGIN_BYTES);
        let written = BufferUsages::STORAGE | BufferUsages::VERTEX | BufferUsages::COPY_SRC;
        Ok(Self {
            bones: gpu.buffer("bones of all instances", poses.saturating_mul(bones * model.bones().bytes()), read)?,
            instance_origins: gpu.buffer(
                "origins of all instances",
                instance_origins,
                BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            )?,
            weights: model.inner.drive.as_ref().map(|drive| drive.weights(gpu, instances)).transpose()?,
            turns,
            virtual_bones,
            vertices: gpu.buffer("vertices of all instances", bytes, written)?,
        })
    }
}
