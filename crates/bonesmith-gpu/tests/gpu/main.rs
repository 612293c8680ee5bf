//! Every kernel against the CPU's evaluators, on whatever adapter there is: in CI Mesa's software Vulkan.

mod agree;
mod device;
mod polar;
mod rigs;
mod shape_bones;

use std::io::Write;

use bonesmith_gpu::{Gpu, GpuError, GpuOptions};

/// The adapter, or `None` and a line that says so.
fn gpu(options: &GpuOptions) -> Option<Gpu> {
    match Gpu::new(options) {
        Ok(gpu) => Some(gpu),
        Err(GpuError::NoAdapter { detail }) => {
            // Straight to the stream: the test harness would swallow `eprintln!` of a test that passes.
            let _ = std::io::stderr().write_all(format!("SKIPPED: no GPU adapter: {detail}\n").as_bytes());
            None
        }
        Err(error) => panic!("{error}"),
    }
}
