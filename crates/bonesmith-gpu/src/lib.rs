//! Rigs at run time on the GPU: linear blend skinning, bones driven by shapes, two layers, Direct Delta Mush and its compression, in WGSL through
//! `wgpu`: Vulkan, Metal, Direct3D 12; the same text serves WebGPU.
//!
//! ```no_run
//! # fn main() -> Result<(), bonesmith_gpu::GpuError> {
//! use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
//! use bonesmith_gpu::{Gpu, GpuOptions, GpuModel};
//!
//! let rig = posed_rig(1, &PosedRigParams::default()).rig;
//! let gpu = Gpu::new(&GpuOptions::default())?;
//! let model = GpuModel::lbs(&gpu, &rig)?; // upload once
//! let batch = model.batch(300)?;
//! for t in 0..rig.clips[0].frame_count() {
//!     (0..300).try_for_each(|instance| batch.write_bones(instance, rig.clips[0].frame(t)))?;
//!     batch.submit()?; // or `encode` into a pass of one's own
//!     let _draw_from = batch.vertices(); // position and normal, 24 bytes a vertex
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Index letters as in `bonesmith-core`; in addition an instance is one of many copies of a model in poses of their own.

pub mod bench;
mod bones;
mod context;
mod error;
mod kernel;
mod layout;
mod model;
mod plan;
mod slots;

pub use bones::Bones;
pub use context::{Gpu, GpuOptions};
pub use error::GpuError;
pub use kernel::{Kernel, Setup, Tuning};
pub use model::{Batch, GpuModel, PosedMesh, SHAPE_BONES_WGSL, VERTEX_BYTES};
