//! How fast the kernels are, beside what the device's memory allows: the measure of `bonesmith bench gpu`.
//!
//! A pass runs the kernels several times and is timed by the device, or by the clock around its submission where the device
//! has no timers. The median of many passes counts, after a warm-up that brings clocks up.

mod timing;

use glam::DAffine3;
use serde::Serialize;

pub use timing::{Effort, Timing};

use crate::context::Gpu;
use crate::error::GpuError;
use crate::kernel::Tuning;
use crate::model::{Batch, GpuModel};

/// Bytes of each buffer that is copied: far more than any cache holds.
const COPY_BYTES: u64 = 1 << 30;
/// On a processor that stands in for a GPU.
const SOFTWARE_COPY_BYTES: u64 = 1 << 26;
/// Threads of a workgroup of `copy.wgsl`.
const COPY_WORKGROUP: u64 = 256;

/// What the memory moves, bytes read and bytes written together, in 1e9 bytes per second.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Bandwidth {
    /// By the driver's own copy of one buffer into another.
    pub copy: f64,
    /// By a kernel, 16 bytes per thread.
    pub kernel: f64,
    /// Bytes of each buffer.
    pub bytes: u64,
}

impl Bandwidth {
    /// Measures both.
    pub fn measure(gpu: &Gpu) -> Result<Self, GpuError> {
        let wanted = if gpu.is_software() { SOFTWARE_COPY_BYTES } else { COPY_BYTES };
        let bytes = wanted.min(gpu.binding_bytes());
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST;
        let source = gpu.buffer("copy from", bytes, usage)?;
        let target = gpu.buffer("copy to", bytes, usage)?;
        let rate = |timing: Timing| 2.0 * bytes as f64 / timing.seconds / 1e9;
        let copy = timing::commands(gpu, |encoder| encoder.copy_buffer_to_buffer(&source, 0, &target, 0, bytes))?;
        let kernel = copy_kernel(gpu, &source, &target)?;
        Ok(Self { copy: rate(copy), kernel: rate(kernel), bytes })
    }

    /// The faster of the two.
    pub fn best(&self) -> f64 {
        self.copy.max(self.kernel)
    }
}

fn copy_kernel(gpu: &Gpu, source: &wgpu::Buffer, target: &wgpu::Buffer) -> Result<Timing, GpuError> {
    let text = include_str!("../../shaders/copy.wgsl");
    let module = gpu.device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("copy"),
        source: wgpu::ShaderSource::Wgsl(text.into()),
    });
    let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some("copy"),
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let bindings = gpu.device.create_bind_group(&wgpu::BindGroupDescriptor {
        label: None,
        layout: &pipeline.get_bind_group_layout(0),
        entries: &[
            wgpu::BindGroupEntry { binding: 0, resource: source.as_entire_binding() },
            wgpu::BindGroupEntry { binding: 1, resource: target.as_entire_binding() },
        ],
    });
    let groups = (source.size() / 16).div_ceil(COPY_WORKGROUP);
    let across = groups.min(u64::from(gpu.workgroups()));
    let down = groups.div_ceil(across);
    timing::kernels(gpu, Effort::Full, |pass| {
        pass.set_pipeline(&pipeline);
        pass.set_bind_group(0, &bindings, &[]);
        pass.dispatch_workgroups(across as u32, down as u32, 1);
    })
}

/// A model's speed.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    /// Per run of all instances.
    pub timing: Timing,
    /// Nanoseconds per vertex and instance.
    pub ns_per_vertex: f64,
    /// Bytes that must be moved: [`GpuModel::traffic`].
    pub bytes: u64,
    /// 1e9 of them per second.
    pub gb_per_second: f64,
    /// Of each kernel.
    pub tunings: Vec<Tuning>,
    /// Dispatches of one run.
    pub dispatches: usize,
}

/// Poses `instances` of a model again and again, each in one of the frames.
pub fn speed(
    gpu: &Gpu,
    model: &GpuModel,
    frames: &[&[DAffine3]],
    instances: usize,
    effort: Effort,
) -> Result<Speed, GpuError> {
    measured(gpu, model, instances, effort, |batch, instance| {
        // Neighbours in different poses, as in a crowd.
        batch.write_bones(instance, frames[7 * instance % frames.len()])
    })
}

/// As [`speed`], of bones driven by shapes: [F][S] weights of all shapes.
pub fn shape_speed(
    gpu: &Gpu,
    model: &GpuModel,
    weights: &[Vec<f64>],
    instances: usize,
    effort: Effort,
) -> Result<Speed, GpuError> {
    measured(gpu, model, instances, effort, |batch, instance| {
        batch.write_shape_weights(instance, &weights[7 * instance % weights.len()])
    })
}

fn measured(
    gpu: &Gpu,
    model: &GpuModel,
    instances: usize,
    effort: Effort,
    write: impl Fn(&Batch, usize) -> Result<(), GpuError>,
) -> Result<Speed, GpuError> {
    let batch = model.batch(instances)?;
    for instance in 0..instances {
        write(&batch, instance)?;
    }
    let timing = timing::kernels(gpu, effort, |pass| batch.encode(pass))?;
    let bytes = model.traffic(instances);
    Ok(Speed {
        ns_per_vertex: 1e9 * timing.seconds / (instances * model.vertex_count()).max(1) as f64,
        gb_per_second: bytes as f64 / timing.seconds / 1e9,
        bytes,
        tunings: model.tunings(),
        dispatches: batch.dispatch_count(),
        timing,
    })
}
