//! Rigs on the GPU, for `eval --gpu` and `bench gpu`.

use bonesmith_core::{Clip, ModelRef};
use bonesmith_gpu::{Gpu, GpuError, GpuModel, GpuOptions};
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

/// [F, N] posed vertices of a clip, and the name of the adapter; `None` for a model without bones.
pub fn poses_of(model: ModelRef<'_>, clip: usize) -> anyhow::Result<Option<(Vec<Vec<Vec3>>, String)>> {
    let Some(rig) = model.rig() else {
        return Err(Usage::new("--gpu: a model without bones is posed by the CPU only").into());
    };
    if matches!(model, ModelRef::Corrective(_)) {
        return Err(Usage::new("--gpu: corrective shapes are posed by the CPU only").into());
    }
    let gpu = open(None)?;
    let uploaded = match model {
        ModelRef::TwoLayer(two) => GpuModel::two_layer(&gpu, two)?,
        ModelRef::Ddm(ddm) => GpuModel::ddm(&gpu, ddm)?,
        _ => GpuModel::lbs(&gpu, rig)?,
    };
    Ok(Some((poses(&uploaded, &rig.clips[clip])?, name(&gpu))))
}

/// [F, N] posed vertices of a clip.
fn poses(model: &GpuModel, clip: &Clip) -> Result<Vec<Vec<Vec3>>, GpuError> {
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
