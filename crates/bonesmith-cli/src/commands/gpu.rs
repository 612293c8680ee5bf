//! Rigs on the GPU, for `eval --gpu` and `bench gpu`.

use bonesmith_core::{Clip, DdmRig, Rig, TwoLayerRig};
use bonesmith_gpu::{Gpu, GpuError, GpuOptions, Model};
use glam::Vec3;

use crate::errors::Usage;

/// Frames that are posed at once.
const BATCH: usize = 16;

/// The adapter, or an error that says how to get one.
pub fn open(adapter: Option<&str>) -> anyhow::Result<Gpu> {
    let options = GpuOptions { adapter: adapter.map(str::to_owned), ..GpuOptions::default() };
    Gpu::new(&options).map_err(|error| match error {
        GpuError::NoAdapter { .. } if adapter.is_none() => Usage::new(error.to_string())
            .hint("a driver for Vulkan is needed; on Debian mesa-vulkan-drivers has one that runs on the processor")
            .into(),
        other => other.into(),
    })
}

/// Name of the adapter and how it is reached.
pub fn name(gpu: &Gpu) -> String {
    let info = gpu.info();
    let driver = [info.driver, info.driver_info].join(" ");
    format!("{}, {:?} {}", info.name, info.backend, driver.trim()).trim().to_owned()
}

/// A rig of any kind, as `eval` has read it.
pub fn upload(gpu: &Gpu, rig: &Rig, two: Option<&TwoLayerRig>, ddm: Option<&DdmRig>) -> Result<Model, GpuError> {
    match (two, ddm) {
        (Some(two), _) => Model::two_layer(gpu, two),
        (None, Some(ddm)) => Model::ddm(gpu, ddm),
        (None, None) => Model::lbs(gpu, rig),
    }
}

/// [F, N] posed vertices of a clip.
pub fn poses(model: &Model, clip: &Clip) -> Result<Vec<Vec<Vec3>>, GpuError> {
    let frames = clip.frame_count();
    let batch = model.batch(frames.min(BATCH))?;
    let mut posed = Vec::with_capacity(frames);
    for first in (0..frames).step_by(BATCH) {
        let here = first..frames.min(first + BATCH);
        here.clone().try_for_each(|t| batch.write_bones(t - first, clip.frame(t)))?;
        batch.submit()?;
        for t in here {
            posed.push(batch.read(t - first)?.positions);
        }
    }
    Ok(posed)
}
