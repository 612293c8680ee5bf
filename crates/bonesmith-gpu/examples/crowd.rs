//! A crowd of one character, each in a pose of its own: what an engine does every frame.
//!
//! `cargo run -p bonesmith-gpu --example crowd`

use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_gpu::{Gpu, GpuError, GpuModel, GpuOptions, VERTEX_BYTES};

const CROWD: usize = 150;

/// How a render pipeline of the engine reads [`bonesmith_gpu::Batch::vertices`].
const VERTEX_LAYOUT: wgpu::VertexBufferLayout = wgpu::VertexBufferLayout {
    array_stride: VERTEX_BYTES,
    step_mode: wgpu::VertexStepMode::Vertex,
    attributes: &wgpu::vertex_attr_array![0 => Float32x3, 1 => Float32x3],
};

fn main() -> Result<(), GpuError> {
    let rig = posed_rig(1, &PosedRigParams { bones: 20, ..PosedRigParams::default() }).rig;
    let clip = &rig.clips[0];

    // Once: the device, the model, room for the crowd.
    let gpu = Gpu::new(&GpuOptions::default())?;
    let model = GpuModel::lbs(&gpu, &rig)?;
    let batch = model.batch(CROWD)?;
    println!("{}: {} vertices, {} of them", gpu.info().name, model.vertex_count(), batch.instances());

    // Every frame: poses, then our kernels in a pass of the engine's own, before the one that draws.
    for frame in 0..4 {
        for instance in 0..CROWD {
            batch.write_bones(instance, clip.frame((frame + 5 * instance) % clip.frame_count()))?;
        }
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        batch.encode(&mut encoder.begin_compute_pass(&Default::default()));
        // A render pass would now `set_vertex_buffer(0, batch.vertices().slice(..))` and draw each instance with base vertex
        // `instance * batch.vertex_stride()`.
        gpu.queue.submit([encoder.finish()]);
    }

    // Only to show something: reading back waits.
    let mesh = batch.read(CROWD - 1)?;
    println!("vertex 0 of the last one: {:?}, normal {:?}", mesh.positions[0], mesh.normals[0]);
    println!("{} bytes per vertex, {} attributes", VERTEX_LAYOUT.array_stride, VERTEX_LAYOUT.attributes.len());
    Ok(())
}
