//! Poses on the GPU.

use bonesmith_core::{Clip, ModelRef};
use bonesmith_gpu::{Gpu, GpuError, GpuModel, GpuOptions};
use glam::Vec3;

use crate::error::Error;

/// Frames that are posed at once.
const BATCH: usize = 16;

/// The adapter whose name contains `adapter`, or the best there is.
pub fn open(adapter: Option<&str>) -> Result<Gpu, Error> {
    let options = GpuOptions { adapter: adapter.map(str::to_owned), ..GpuOptions::default() };
    Ok(Gpu::new(&options)?)
}

/// Name and driver of the adapter.
pub fn name(gpu: &Gpu) -> String {
    let info = gpu.info();
    let driver = [info.driver, info.driver_info].join(" ");
    format!("{}, {:?} {}", info.name, info.backend, driver.trim()).trim().to_owned()
}

/// [F, N] posed vertices of a clip, and the name of the adapter. A model without bones and one with corrective shapes are refused.
pub fn poses_of(model: ModelRef<'_>, clip: usize) -> Result<(Vec<Vec<Vec3>>, String), Error> {
    let Some(rig) = model.rig() else {
        return Err(Error::unsupported("a model without bones is posed by the CPU only"));
    };
    if matches!(model, ModelRef::Corrective(_)) {
        return Err(Error::unsupported("corrective shapes are posed by the CPU only"));
    }
    let gpu = open(None)?;
    let uploaded = match model {
        ModelRef::TwoLayer(two) => GpuModel::two_layer(&gpu, two)?,
        ModelRef::Ddm(ddm) => GpuModel::ddm(&gpu, ddm)?,
        _ => GpuModel::lbs(&gpu, rig)?,
    };
    Ok((poses(&uploaded, &rig.clips[clip])?, name(&gpu)))
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
