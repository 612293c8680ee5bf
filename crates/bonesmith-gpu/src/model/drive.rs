//! Bones that follow the weights of shapes: a kernel that makes the bones before others blend them.

use bonesmith_core::ShapeBones;
use glam::DVec3;
use wgpu::{BufferBindingType, BufferUsages};

use crate::context::Gpu;
use crate::error::GpuError;

/// The text of the kernel, with entry point `main`. Bindings and layouts: `docs/runtime.md`.
pub const SHAPE_BONES_WGSL: &str = include_str!("../../shaders/shape_bones.wgsl");

/// Threads of a workgroup.
const WORKGROUP: usize = 64;
/// Bindings of the kernel.
const BINDINGS: u32 = 6;

/// The numbers of all shapes on the device, by bone.
#[derive(Debug)]
pub(super) struct Drive {
    /// S.
    pub shapes: usize,
    bones: usize,
    starts: wgpu::Buffer,
    numbers: wgpu::Buffer,
    places: wgpu::Buffer,
    layout: wgpu::BindGroupLayout,
    pub pipeline: wgpu::ComputePipeline,
}

impl Drive {
    /// Uploads the numbers of a model that was checked; bones are made about `origin`.
    pub fn new(gpu: &Gpu, face: &ShapeBones, origin: DVec3) -> Result<Self, GpuError> {
        let mut by_bone = vec![Vec::new(); face.rig.bone_count()];
        for (s, shape) in face.shapes.iter().enumerate() {
            for x in &shape.numbers {
                by_bone[usize::from(x.bone)].push([12 * s as u32 + u32::from(x.component), x.value.to_bits()]);
            }
        }
        let mut starts = vec![0u32];
        starts.extend(by_bone.iter().scan(0, |end, own| {
            *end += own.len() as u32;
            Some(*end)
        }));
        let mut numbers = by_bone.concat();
        // A binding is not empty.
        numbers.resize(numbers.len().max(1), [0; 2]);
        let place = |bone: &bonesmith_core::Bone| {
            let bind = &bone.world_from_bind;
            let columns = [bind.matrix3.x_axis, bind.matrix3.y_axis, bind.matrix3.z_axis, origin - bind.translation];
            columns.map(|column| column.as_vec3().extend(0.0).to_array())
        };
        let places: Vec<[f32; 4]> = face.rig.bones.iter().flat_map(place).collect();
        let layout = bind_group_layout(&gpu.device);
        let source = wgpu::ShaderSource::Wgsl(SHAPE_BONES_WGSL.into());
        let label = Some("shape bones");
        let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor { label, source });
        let layouts = [Some(&layout)];
        let descriptor = wgpu::PipelineLayoutDescriptor { bind_group_layouts: &layouts, ..Default::default() };
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label,
            layout: Some(&gpu.device.create_pipeline_layout(&descriptor)),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions::default(),
            cache: None,
        });
        gpu.check()?;
        Ok(Self {
            shapes: face.shapes.len(),
            bones: face.rig.bone_count(),
            starts: gpu.upload("starts of bones", &starts)?,
            numbers: gpu.upload("numbers of shapes", &numbers)?,
            places: gpu.upload("places of bones", &places)?,
            layout,
            pipeline,
        })
    }

    /// Bytes of its tables.
    pub fn bytes(&self) -> u64 {
        self.starts.size() + self.numbers.size() + self.places.size()
    }

    /// Room for the weights of all instances.
    pub fn weights(&self, gpu: &Gpu, instances: usize) -> Result<wgpu::Buffer, GpuError> {
        let bytes = (instances as u64).saturating_mul(4 * self.shapes as u64);
        gpu.buffer("shape weights of all instances", bytes, BufferUsages::STORAGE | BufferUsages::COPY_DST)
    }

    /// Bindings and workgroups of the dispatches that make the bones of all instances.
    pub fn dispatches(
        &self,
        gpu: &Gpu,
        instances: usize,
        bone_stride: usize,
        weights: &wgpu::Buffer,
        bones: &wgpu::Buffer,
    ) -> Result<Vec<(wgpu::BindGroup, [u32; 2])>, GpuError> {
        let limit = gpu.binding_bytes();
        for (what, buffer) in [("shape weights", weights), ("bones of all instances", bones)] {
            if buffer.size() > limit {
                return Err(GpuError::Limit { what: format!("{what} (bytes)"), needs: buffer.size(), limit });
            }
        }
        let across = self.bones.div_ceil(WORKGROUP) as u32;
        let at_once = gpu.workgroups() as usize;
        let mut dispatches = Vec::new();
        for first in (0..instances).step_by(at_once) {
            let count = at_once.min(instances - first) as u32;
            let params =
                [self.bones as u32, instances as u32, bone_stride as u32, self.shapes as u32, first as u32, 0, 0, 0];
            let uniform = gpu.buffer("parameters", 32, BufferUsages::UNIFORM | BufferUsages::COPY_DST)?;
            gpu.queue.write_buffer(&uniform, 0, bytemuck::cast_slice(&params));
            let buffers = [&uniform, &self.starts, &self.numbers, &self.places, weights, bones];
            let numbered = buffers.into_iter().enumerate();
            let entries: Vec<_> = numbered
                .map(|(n, buffer)| wgpu::BindGroupEntry { binding: n as u32, resource: buffer.as_entire_binding() })
                .collect();
            let descriptor = wgpu::BindGroupDescriptor { label: None, layout: &self.layout, entries: &entries };
            dispatches.push((gpu.device.create_bind_group(&descriptor), [across, count]));
        }
        Ok(dispatches)
    }
}

fn bind_group_layout(device: &wgpu::Device) -> wgpu::BindGroupLayout {
    let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: match binding {
                0 => BufferBindingType::Uniform,
                _ => BufferBindingType::Storage { read_only: binding + 1 < BINDINGS },
            },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let entries: Vec<_> = (0..BINDINGS).map(entry).collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}
