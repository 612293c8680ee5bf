//! Kernels: which parts of WGSL each is put together from, and with which constants.

use bonesmith_core::ddm::Variant;
use serde::Serialize;

use crate::context::Gpu;
use crate::error::GpuError;

/// How a kernel is spread over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Threads of a workgroup, a multiple of 32 up to 256.
    pub workgroup: u32,
    /// Instances that one thread poses, one after the other, 1 to 16. More: the model is read less often; fewer threads run side by side.
    pub tile: u32,
    /// Whether results leave through workgroup memory, so that whole cache lines are written: pays unless loads of bones are
    /// what takes the time.
    pub staged: bool,
}

/// What a thread makes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Vertices that blend bones with packed weights.
    Lbs,
    /// Virtual bones that blend bones with weights of any sign.
    Blend,
    /// Vertices of Direct Delta Mush.
    Ddm(Variant),
    /// Virtual bones of compressed Direct Delta Mush.
    DdmBones,
}

/// Influences of linear blending that a thread keeps for all its instances.
const MOST_HELD: u32 = 4;

/// Words of the struct `Params` in `common.wgsl`.
pub(crate) const PARAMS_WORDS: usize = 12;

impl Kernel {
    /// Workgroup size and tile unless told otherwise: the best of `bonesmith bench gpu --sweep` on an H200.
    pub fn tuning(self) -> Tuning {
        match self {
            Self::Lbs | Self::Ddm(Variant::V5) => Tuning { workgroup: 128, tile: 4, staged: false },
            Self::Blend => Tuning { workgroup: 256, tile: 4, staged: true },
            Self::Ddm(Variant::V0 | Variant::V1) => Tuning { workgroup: 128, tile: 2, staged: false },
            Self::Ddm(_) => Tuning { workgroup: 128, tile: 1, staged: false },
            Self::DdmBones => Tuning { workgroup: 128, tile: 1, staged: true },
        }
    }

    /// The whole WGSL text, with entry point `main`. Bindings and layouts: `docs/runtime.md`. `influences`: how many every row
    /// has, if all have as many; 0: as many as `starts` says.
    pub fn wgsl(self, tuning: Tuning, influences: u32) -> String {
        let constants = [
            ("WORKGROUP", tuning.workgroup),
            ("TILE", tuning.tile),
            ("PLANES", self.planes() as u32),
            ("CENTRE", if self.makes_bones() { 0 } else { 6 }),
            ("VARIANT", self.variant().map_or(0, |v| u32::from(u8::from(v)))),
            ("WIDTH", self.width() as u32),
            ("COUNT", influences),
            ("STAGE", if tuning.staged { 3 * tuning.workgroup } else { 1 }),
        ];
        let mut text: String = constants.iter().map(|(name, value)| format!("const {name} = {value}u;\n")).collect();
        text += &format!("const RIGID = {};\nconst STAGED = {};\n\n", self.makes_rotations(), tuning.staged);
        text + &self.parts().join("\n")
    }

    fn parts(self) -> Vec<&'static str> {
        let target = if self.makes_bones() {
            include_str!("../shaders/to_bone.wgsl")
        } else {
            include_str!("../shaders/to_vertex.wgsl")
        };
        let mut parts = vec![target, include_str!("../shaders/common.wgsl")];
        let lbs = include_str!("../shaders/lbs.wgsl");
        let multi = include_str!("../shaders/multi_weight.wgsl");
        parts.extend(match self {
            Self::Lbs => vec![include_str!("../shaders/influence_packed.wgsl"), lbs],
            Self::Blend | Self::Ddm(Variant::V5) => vec![include_str!("../shaders/influence_plain.wgsl"), lbs],
            Self::DdmBones | Self::Ddm(Variant::V0 | Variant::V1) => {
                vec![multi, include_str!("../shaders/polar.wgsl"), include_str!("../shaders/ddm_moments.wgsl")]
            }
            Self::Ddm(Variant::V3) => vec![multi, include_str!("../shaders/ddm_matrices.wgsl")],
            Self::Ddm(Variant::V2 | Variant::V4) => vec![multi, include_str!("../shaders/ddm_blended.wgsl")],
        });
        parts
    }

    fn variant(self) -> Option<Variant> {
        match self {
            Self::Ddm(variant) => Some(variant),
            Self::DdmBones => Some(Variant::V0),
            Self::Lbs | Self::Blend => None,
        }
    }

    pub(crate) fn makes_bones(self) -> bool {
        matches!(self, Self::Blend | Self::DdmBones)
    }

    fn makes_rotations(self) -> bool {
        matches!(self.variant(), Some(Variant::V0 | Variant::V2 | Variant::V4))
    }

    /// Whether it reads the rotations of the bones.
    pub(crate) fn needs_turns(self) -> bool {
        matches!(self, Self::Ddm(Variant::V2 | Variant::V4))
    }

    /// Numbers of each influence after the bone; those of packed ones are in the same word.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Lbs => 0,
            Self::Blend => 1,
            Self::Ddm(_) | Self::DdmBones => self.variant().map_or(0, Variant::width),
        }
    }

    /// Numbers of each row: point and normal, centre, inverse of the moments at rest.
    pub(crate) fn planes(self) -> usize {
        match self {
            Self::Lbs | Self::Ddm(Variant::V5) => 6,
            Self::Blend => 1,
            Self::DdmBones => 3,
            Self::Ddm(Variant::V1) => 15,
            Self::Ddm(_) => 9,
        }
    }

    /// Bytes that it writes per row.
    pub(crate) fn row_bytes(self) -> u64 {
        if self.makes_bones() { 48 } else { 24 }
    }
}

/// A kernel ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub kernel: Kernel,
    pub tuning: Tuning,
    pub layout: wgpu::BindGroupLayout,
    pub pipeline: wgpu::ComputePipeline,
}

impl Pipeline {
    /// `starts` of the table that it will read.
    pub fn new(gpu: &Gpu, kernel: Kernel, starts: &[u32]) -> Result<Self, GpuError> {
        let tuning = possible(gpu, gpu.tuning(kernel));
        let source = wgpu::ShaderSource::Wgsl(kernel.wgsl(tuning, common_count(starts)).into());
        let label = format!("{kernel:?}");
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(&label), source };
        // SAFETY: loops end, by constants or by tables made in `layout.rs`; indices into buffers come from those tables, whose
        // bones were checked to exist, and from counts that `plan.rs` takes from the sizes of the same buffers.
        let module =
            unsafe { gpu.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) };
        let layout = bind_group_layout(&gpu.device, kernel);
        let layouts = [Some(&layout)];
        let descriptor = wgpu::PipelineLayoutDescriptor { bind_group_layouts: &layouts, ..Default::default() };
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&label),
            layout: Some(&gpu.device.create_pipeline_layout(&descriptor)),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // What is staged is written before it is read.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        gpu.check()?;
        Ok(Self { kernel, tuning, layout, pipeline })
    }
}

/// How many influences all slices have, if those are few enough to stay in registers; 0 if not.
fn common_count(starts: &[u32]) -> u32 {
    let mut counts = starts.windows(2).map(|pair| pair[1] - pair[0]);
    let first = counts.next().unwrap_or(0);
    if first <= MOST_HELD && counts.all(|count| count == first) { first } else { 0 }
}

/// What the device can do of what was asked for.
fn possible(gpu: &Gpu, asked: Tuning) -> Tuning {
    let limits = gpu.device.limits();
    let most = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x).min(256);
    Tuning { workgroup: (asked.workgroup.min(most) & !31).max(32), tile: asked.tile.clamp(1, 16), ..asked }
}

fn bind_group_layout(device: &wgpu::Device, kernel: Kernel) -> wgpu::BindGroupLayout {
    let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: match binding {
                0 => wgpu::BufferBindingType::Uniform,
                _ => wgpu::BufferBindingType::Storage { read_only: binding != 6 },
            },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let count = if kernel.needs_turns() { 8 } else { 7 };
    let entries: Vec<_> = (0..count).map(entry).collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}
