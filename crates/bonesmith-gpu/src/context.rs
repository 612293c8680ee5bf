//! The device, how it is found, and what it says when something goes wrong.

use std::sync::{Arc, Mutex, PoisonError};

use bonesmith_core::Rig;
use wgpu::{Adapter, Backends, DeviceType, Features};

use crate::bones::Bones;
use crate::error::GpuError;
use crate::kernel::{Kernel, Tuning};

/// Bytes of where the origin of an instance goes.
pub(crate) const ORIGIN_BYTES: u64 = 16;
/// What uniform buffers have room for almost everywhere.
const MAX_INSTANCE_ORIGINS: u64 = 4096;

/// Which device, and how it is used. `Default` is the recommended set.
#[derive(Clone, Debug, Default)]
pub struct GpuOptions {
    /// Only an adapter whose name contains this, whatever its case; `None`: the fastest kind there is.
    pub adapter: Option<String>,
    /// Workgroup size and tile of the kernels that make vertices; `None`: [`crate::Kernel::tuning`].
    pub vertex_tuning: Option<Tuning>,
    /// The same of those that make virtual bones.
    pub bone_tuning: Option<Tuning>,
    /// Form of the bones; `None`: [`Bones::of`] the rig. Poses that the rig's own clips do not have may need
    /// [`Bones::Affine`].
    pub bones: Option<Bones>,
    /// Most bytes that one binding covers, for tests of what happens beyond; never more than the device allows.
    pub binding_bytes: Option<u64>,
    /// Most workgroups of a dispatch along one axis, likewise.
    pub workgroups: Option<u32>,
}

/// A device and its queue. Clones share both.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// The device itself, for an engine's own buffers and encoders.
    pub device: wgpu::Device,
    /// Its queue.
    pub queue: wgpu::Queue,
    options: GpuOptions,
    failure: Arc<Mutex<Option<GpuError>>>,
}

impl Gpu {
    /// The best adapter that there is: discrete, integrated, virtual, software, in this order.
    pub fn new(options: &GpuOptions) -> Result<Self, GpuError> {
        pollster::block_on(Self::find(options))
    }

    async fn find(options: &GpuOptions) -> Result<Self, GpuError> {
        let backends = Backends::VULKAN | Backends::METAL | Backends::DX12;
        let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
        descriptor.backends = backends;
        descriptor.flags = wgpu::InstanceFlags::empty();
        let mut adapters = wgpu::Instance::new(descriptor).enumerate_adapters(backends).await;
        let names: Vec<String> = adapters.iter().map(|a| a.get_info().name).collect();
        if let Some(wanted) = &options.adapter {
            let wanted = wanted.to_lowercase();
            adapters.retain(|a| a.get_info().name.to_lowercase().contains(&wanted));
        }
        adapters.sort_by_key(|a| rank(a.get_info().device_type));
        let Some(adapter) = adapters.into_iter().next() else {
            return Err(GpuError::NoAdapter { detail: nothing_found(options.adapter.as_deref(), &names) });
        };
        let (device, queue) = open(&adapter).await?;
        Ok(Self::from_device(device, queue, options.clone()))
    }

    /// A device that an engine already has. Takes over its error and lost callbacks.
    pub fn from_device(device: wgpu::Device, queue: wgpu::Queue, options: GpuOptions) -> Self {
        let failure = Arc::new(Mutex::new(None));
        let note = |failure: &Arc<Mutex<Option<GpuError>>>, error: GpuError| {
            // The first one is the cause; the others follow from it.
            failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        };
        let store = Arc::clone(&failure);
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| note(&store, refused(&error))));
        let store = Arc::clone(&failure);
        device.set_device_lost_callback(move |reason, detail| {
            note(&store, GpuError::Lost { detail: format!("{reason:?}: {detail}") });
        });
        Self { device, queue, options, failure }
    }

    /// What the device has said since the last call, if anything went wrong; a lost device stays lost.
    pub fn check(&self) -> Result<(), GpuError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failure {
            None => Ok(()),
            Some(lost @ GpuError::Lost { .. }) => Err(lost.clone()),
            Some(_) => failure.take().map_or(Ok(()), Err),
        }
    }

    /// Name, kind, driver.
    pub fn info(&self) -> wgpu::AdapterInfo {
        self.device.adapter_info()
    }

    /// Whether this is a processor that stands in for a GPU.
    pub fn is_software(&self) -> bool {
        self.info().device_type == DeviceType::Cpu
    }

    /// Whether kernels can be timed by the device.
    pub fn has_timestamps(&self) -> bool {
        self.device.features().contains(Features::TIMESTAMP_QUERY)
    }

    /// Waits for all that was submitted.
    pub fn wait(&self) -> Result<(), GpuError> {
        let polled = self.device.poll(wgpu::PollType::wait_indefinitely());
        self.check()?;
        polled.map(|_| ()).map_err(|e| GpuError::Lost { detail: e.to_string() })
    }

    /// Bytes that one binding may cover.
    pub(crate) fn binding_bytes(&self) -> u64 {
        let limit = self.device.limits().max_storage_buffer_binding_size;
        // Kernels count in u32; a multiple of what offsets must be multiples of.
        self.options.binding_bytes.unwrap_or(u64::MAX).min(limit).min(1 << 32) & !255
    }

    /// Workgroups along one axis.
    pub(crate) fn workgroups(&self) -> u32 {
        let limit = self.device.limits().max_compute_workgroups_per_dimension;
        self.options.workgroups.unwrap_or(u32::MAX).min(limit).max(1)
    }

    pub(crate) fn tuning(&self, kernel: Kernel, cached: bool) -> Tuning {
        let own = if kernel.makes_bones() { self.options.bone_tuning } else { self.options.vertex_tuning };
        own.unwrap_or(kernel.tuning(cached))
    }

    /// Form of the bones of a model.
    pub(crate) fn bones(&self, rig: &Rig) -> Bones {
        self.options.bones.unwrap_or_else(|| Bones::of(rig))
    }

    /// Instances whose origins one dispatch can see.
    pub(crate) fn instance_origins(&self) -> usize {
        let limit = self.device.limits().max_uniform_buffer_binding_size;
        (limit / ORIGIN_BYTES).min(MAX_INSTANCE_ORIGINS) as usize
    }

    /// The same device for models whose bones have another form than [`Bones::of`] their rig; `None`: that one.
    pub fn with_bones(&self, bones: Option<Bones>) -> Self {
        Self { options: GpuOptions { bones, ..self.options.clone() }, ..self.clone() }
    }

    /// The same device with other workgroup sizes and tiles, of what makes vertices and of what makes virtual bones.
    pub fn with_tuning(&self, vertex_tuning: Option<Tuning>, bone_tuning: Option<Tuning>) -> Self {
        Self { options: GpuOptions { vertex_tuning, bone_tuning, ..self.options.clone() }, ..self.clone() }
    }

    /// A buffer of at least 16 bytes, or an error that says what it was for.
    pub(crate) fn buffer(&self, what: &str, bytes: u64, usage: wgpu::BufferUsages) -> Result<wgpu::Buffer, GpuError> {
        let limit = self.device.limits().max_buffer_size;
        if bytes > limit {
            return Err(GpuError::Limit { what: format!("{what} (bytes)"), needs: bytes, limit });
        }
        let scope = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let descriptor =
            wgpu::BufferDescriptor { label: Some(what), size: bytes.max(16), usage, mapped_at_creation: false };
        let buffer = self.device.create_buffer(&descriptor);
        match pollster::block_on(scope.pop()) {
            Some(_) => Err(GpuError::OutOfMemory { what: what.to_owned(), bytes }),
            None => Ok(buffer),
        }
    }

    /// A storage buffer with these contents.
    pub(crate) fn upload<T: bytemuck::NoUninit>(&self, what: &str, contents: &[T]) -> Result<wgpu::Buffer, GpuError> {
        let bytes: &[u8] = bytemuck::cast_slice(contents);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
        let buffer = self.buffer(what, bytes.len() as u64, usage)?;
        self.queue.write_buffer(&buffer, 0, bytes);
        Ok(buffer)
    }

    /// Contents of a part of a buffer; waits for it.
    pub(crate) fn download<T: bytemuck::Pod>(
        &self,
        buffer: &wgpu::Buffer,
        bytes: std::ops::Range<u64>,
    ) -> Result<Vec<T>, GpuError> {
        let size = bytes.end - bytes.start;
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let landing = self.buffer("reading back", size, usage)?;
        let mut encoder = self.device.create_command_encoder(&Default::default());
        encoder.copy_buffer_to_buffer(buffer, bytes.start, &landing, 0, size);
        self.queue.submit([encoder.finish()]);
        landing.map_async(wgpu::MapMode::Read, .., |_| ());
        self.wait()?;
        let view = landing.get_mapped_range(..).map_err(|e| GpuError::Refused { detail: e.to_string() })?;
        Ok(bytemuck::pod_collect_to_vec(&view[..size as usize]))
    }
}

async fn open(adapter: &Adapter) -> Result<(wgpu::Device, wgpu::Queue), GpuError> {
    // Timers are worth having, never needed.
    let features = adapter.features() & (Features::TIMESTAMP_QUERY | Features::TIMESTAMP_QUERY_INSIDE_ENCODERS);
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("bonesmith"),
        required_features: features,
        required_limits: adapter.limits(),
        ..Default::default()
    };
    let name = || adapter.get_info().name;
    adapter.request_device(&descriptor).await.map_err(|e| GpuError::NoDevice { adapter: name(), detail: e.to_string() })
}

fn rank(kind: DeviceType) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Cpu => 3,
        DeviceType::Other => 4,
    }
}

fn nothing_found(wanted: Option<&str>, names: &[String]) -> String {
    match wanted {
        Some(wanted) if !names.is_empty() => format!("none is called {wanted:?}; there are: {}", names.join(", ")),
        _ => "no driver for Vulkan, Metal or Direct3D 12 has one".to_owned(),
    }
}

fn refused(error: &wgpu::Error) -> GpuError {
    match error {
        wgpu::Error::OutOfMemory { .. } => GpuError::OutOfMemory { what: "what was submitted".to_owned(), bytes: 0 },
        other => GpuError::Refused { detail: other.to_string() },
    }
}
