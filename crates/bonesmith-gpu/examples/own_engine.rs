//! The WGSL alone, with tables written by hand: what an engine in any language does. `docs/runtime.md` has the layouts.
//!
//! A strip of 40 vertices between two bones; the second turns about z, each instance further. 40 rows are two slices of 32.
//!
//! `cargo run -p bonesmith-gpu --example own_engine`

use bonesmith_gpu::{Bones, Gpu, GpuError, GpuOptions, Kernel, Setup, Tuning};
use wgpu::BufferUsages;

const VERTICES: usize = 40;
const SLICES: usize = 2;
const INSTANCES: usize = 3;
const TUNING: Tuning = Tuning { workgroup: 64, tile: 1, staged: false };
/// Matrices, both of which workgroup memory holds; two influences everywhere.
const SETUP: Setup = Setup {
    tuning: TUNING,
    bones: Bones::Affine,
    bone_cache: 2,
    kept: 2,
    equal: true,
    instance_origins: INSTANCES as u32,
};
/// One bit is enough for two bones; 31 are left for the weight.
const INDEX_BITS: u32 = 1;
const STEPS: u32 = u32::MAX >> INDEX_BITS;

/// Binding 2: [slices, 2 influences, 32], the weight of bone 1 rising along the strip.
fn influences() -> Vec<u32> {
    let mut table = vec![0; SLICES * 2 * 32];
    for i in 0..VERTICES {
        let second = (f64::from(STEPS) * i as f64 / (VERTICES - 1) as f64) as u32;
        let (slice, lane) = (i / 32, i % 32);
        table[(slice * 2) * 32 + lane] = (STEPS - second) << INDEX_BITS;
        table[(slice * 2 + 1) * 32 + lane] = second << INDEX_BITS | 1;
    }
    table
}

/// Binding 3: [slices, 6, 32], point and normal at rest: a strip along x that faces z.
fn rows() -> Vec<f32> {
    let mut table = vec![0.0; SLICES * 6 * 32];
    for i in 0..VERTICES {
        let numbers = [i as f32 / 10.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        numbers.iter().enumerate().for_each(|(n, v)| table[(i / 32 * 6 + n) * 32 + i % 32] = *v);
    }
    table
}

/// Binding 4: [instances, 2 bones, 3 rows, 4].
fn bones() -> Vec<[[f32; 4]; 3]> {
    let still = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]];
    let turned = |angle: f32| {
        let (s, c) = angle.sin_cos();
        [[c, -s, 0.0, 0.0], [s, c, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]
    };
    (0..INSTANCES).flat_map(|t| [still, turned(0.5 * t as f32)]).collect()
}

fn main() -> Result<(), GpuError> {
    let gpu = Gpu::new(&GpuOptions::default())?;
    let device = &gpu.device;
    let buffer = |usage: BufferUsages, bytes: &[u8]| {
        let size = bytes.len() as u64;
        let buffer =
            device.create_buffer(&wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false });
        gpu.queue.write_buffer(&buffer, 0, bytes);
        buffer
    };
    let uniform = BufferUsages::UNIFORM | BufferUsages::COPY_DST;
    let storage = |bytes: &[u8]| buffer(BufferUsages::STORAGE | BufferUsages::COPY_DST, bytes);

    // slices, instances, three firsts, bone_stride, row_stride, index_bits, weight_unit, padding
    let unit = (1.0 / f64::from(STEPS)) as f32;
    let params: [u32; 12] =
        [SLICES as u32, INSTANCES as u32, 0, 0, 0, 2, 32 * SLICES as u32, INDEX_BITS, unit.to_bits(), 0, 0, 0];
    let results_bytes = vec![0u8; INSTANCES * 32 * SLICES * 24];
    let results = buffer(BufferUsages::STORAGE | BufferUsages::COPY_SRC | BufferUsages::COPY_DST, &results_bytes);
    let buffers = [
        buffer(uniform, bytemuck::cast_slice(&params)),
        storage(bytemuck::cast_slice(&[0u32, 2, 4])),
        storage(bytemuck::cast_slice(&influences())),
        storage(bytemuck::cast_slice(&rows())),
        storage(bytemuck::cast_slice(&bones())),
        buffer(uniform, bytemuck::cast_slice(&[[0.0f32; 4]; INSTANCES])),
        results.clone(),
    ];

    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some("linear blend skinning"),
        source: wgpu::ShaderSource::Wgsl(Kernel::Lbs.wgsl(&SETUP).into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("main"),
        compilation_options: Default::default(),
        cache: None,
    });
    let entries: Vec<_> = (0u32..)
        .zip(&buffers)
        .map(|(binding, buffer)| wgpu::BindGroupEntry { binding, resource: buffer.as_entire_binding() })
        .collect();
    let layout = &pipeline.get_bind_group_layout(0);
    let bindings = device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries });

    let landing_usage = BufferUsages::MAP_READ | BufferUsages::COPY_DST;
    let landing = buffer(landing_usage, &results_bytes);
    let mut encoder = device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(&pipeline);
    pass.set_bind_group(0, &bindings, &[]);
    pass.dispatch_workgroups(
        (32 * SLICES as u32).div_ceil(TUNING.workgroup),
        (INSTANCES as u32).div_ceil(TUNING.tile),
        1,
    );
    drop(pass);
    encoder.copy_buffer_to_buffer(&results, 0, &landing, 0, results.size());
    gpu.queue.submit([encoder.finish()]);
    landing.map_async(wgpu::MapMode::Read, .., |_| ());
    gpu.wait()?;

    let view = landing.get_mapped_range(..).map_err(|e| GpuError::Refused { detail: e.to_string() })?;
    let vertices: Vec<[[f32; 3]; 2]> = bytemuck::pod_collect_to_vec(&view[..]);
    for t in 0..INSTANCES {
        // The last vertex hangs on bone 1 alone: it has turned about the origin.
        let [point, normal] = vertices[t * 32 * SLICES + VERTICES - 1];
        let (s, c) = (0.5 * t as f32).sin_cos();
        println!("instance {t}: {point:?}, normal {normal:?}; expected about [{}, {}, 0]", 3.9 * c, 3.9 * s);
        assert!((point[0] - 3.9 * c).abs() < 1e-5 && (point[1] - 3.9 * s).abs() < 1e-5);
    }
    Ok(())
}
