//! Seconds of kernels and of other commands.

use std::time::{Duration, Instant};

use serde::Serialize;
use wgpu::Features;

use crate::context::Gpu;
use crate::error::GpuError;

/// How much time a figure may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effort {
    /// About a second.
    Full,
    /// A tenth of it, for sweeps.
    Quick,
}

impl Effort {
    fn warm_up(self) -> Duration {
        Duration::from_millis(if self == Self::Full { 300 } else { 30 })
    }

    /// Seconds that all passes together should take.
    fn budget(self) -> f64 {
        if self == Self::Full { 1.0 } else { 0.1 }
    }
}

/// Seconds of one run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timing {
    /// Median over the passes.
    pub seconds: f64,
    /// Least of them.
    pub least: f64,
    /// How many there were.
    pub passes: usize,
    /// Runs of each pass.
    pub repeats: usize,
    /// Timed by the device, not by the clock around a submission.
    pub by_device: bool,
}

const MAX_PASSES: usize = 101;
/// A pass should last this long, so that what surrounds it does not count.
const PASS_SECS: f64 = 1e-3;
/// The same by the clock: a submission takes its time.
const CLOCK_PASS_SECS: f64 = 2e-2;

/// Runs kernels in compute passes.
pub(super) fn kernels(gpu: &Gpu, effort: Effort, encode: impl Fn(&mut wgpu::ComputePass)) -> Result<Timing, GpuError> {
    let once = |encoder: &mut wgpu::CommandEncoder, times: usize, timer: Option<(&wgpu::QuerySet, u32)>| {
        let timestamp_writes = timer.map(|(query_set, first)| wgpu::ComputePassTimestampWrites {
            query_set,
            beginning_of_pass_write_index: Some(first),
            end_of_pass_write_index: Some(first + 1),
        });
        let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor { label: None, timestamp_writes });
        (0..times).for_each(|_| encode(&mut pass));
    };
    measure(gpu, effort, gpu.has_timestamps(), once)
}

/// Runs commands outside of passes.
pub(super) fn commands(gpu: &Gpu, encode: impl Fn(&mut wgpu::CommandEncoder)) -> Result<Timing, GpuError> {
    let once = |encoder: &mut wgpu::CommandEncoder, times: usize, timer: Option<(&wgpu::QuerySet, u32)>| {
        if let Some((queries, first)) = timer {
            encoder.write_timestamp(queries, first);
        }
        (0..times).for_each(|_| encode(encoder));
        if let Some((queries, first)) = timer {
            encoder.write_timestamp(queries, first + 1);
        }
    };
    let timers = gpu.has_timestamps() && gpu.device.features().contains(Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
    measure(gpu, Effort::Full, timers, once)
}

/// `once` encodes a pass of so many runs, with a timer at both ends if there is one.
fn measure(
    gpu: &Gpu,
    effort: Effort,
    by_device: bool,
    once: impl Fn(&mut wgpu::CommandEncoder, usize, Option<(&wgpu::QuerySet, u32)>),
) -> Result<Timing, GpuError> {
    let run = |times: usize| -> Result<f64, GpuError> {
        let started = Instant::now();
        let mut encoder = gpu.device.create_command_encoder(&Default::default());
        once(&mut encoder, times, None);
        gpu.queue.submit([encoder.finish()]);
        gpu.wait()?;
        Ok(started.elapsed().as_secs_f64())
    };
    let started = Instant::now();
    run(1)?;
    let mut estimate = run(1)?;
    while started.elapsed() < effort.warm_up() {
        estimate = estimate.min(run(10)? / 10.0);
    }
    let pass_secs = if by_device { PASS_SECS } else { CLOCK_PASS_SECS };
    let repeats = (pass_secs / estimate).ceil().clamp(1.0, 1000.0) as usize;
    let passes = (effort.budget() / (estimate * repeats as f64)).clamp(3.0, MAX_PASSES as f64) as usize;
    let mut seconds = match by_device {
        true => by_timers(gpu, passes, |encoder, timer| once(encoder, repeats, Some(timer)))?,
        false => (0..passes).map(|_| run(repeats)).collect::<Result<_, _>>()?,
    };
    seconds.iter_mut().for_each(|s| *s /= repeats as f64);
    seconds.sort_by(f64::total_cmp);
    Ok(Timing { seconds: seconds[passes / 2], least: seconds[0], passes, repeats, by_device })
}

/// Seconds of each pass by the device's own clock.
fn by_timers(
    gpu: &Gpu,
    passes: usize,
    once: impl Fn(&mut wgpu::CommandEncoder, (&wgpu::QuerySet, u32)),
) -> Result<Vec<f64>, GpuError> {
    let count = 2 * passes as u32;
    let queries = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
        label: Some("timers"),
        ty: wgpu::QueryType::Timestamp,
        count,
    });
    let bytes = 8 * u64::from(count);
    let ticks = gpu.buffer("timers", bytes, wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC)?;
    let mut encoder = gpu.device.create_command_encoder(&Default::default());
    for pass in 0..passes as u32 {
        once(&mut encoder, (&queries, 2 * pass));
    }
    encoder.resolve_query_set(&queries, 0..count, &ticks, 0);
    gpu.queue.submit([encoder.finish()]);
    gpu.wait()?;
    let ticks: Vec<u64> = gpu.download(&ticks, 0..bytes)?;
    let unit = 1e-9 * f64::from(gpu.queue.get_timestamp_period());
    Ok(ticks.chunks_exact(2).map(|pair| pair[1].saturating_sub(pair[0]) as f64 * unit).collect())
}
