//! Kernels: which parts of WGSL each is put together from, and with which constants.

use bonesmith_core::model::ddm::Variant;
use serde::Serialize;

use crate::bones::{Bones, Source};
use crate::context::Gpu;
use crate::error::GpuError;
use crate::layout::MAX_KEPT;

/// How a kernel is spread over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Tuning {
    /// Threads of a workgroup, a multiple of 32 up to 256.
    pub workgroup: u32,
    /// Instances that one thread poses, one after the other, 1 to 16; at most 4, side by side, for variants 0 and 1 and virtual bones of
    /// compressed Direct Delta Mush. More: the model is read less often; fewer threads run side by side.
    pub tile: u32,
    /// Whether results leave through workgroup memory, so that whole cache lines are written: pays unless loads of bones are
    /// what takes the time.
    pub staged: bool,
}

/// What a kernel is built for: constants of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setup {
    /// How it is spread over threads.
    pub tuning: Tuning,
    /// Form of the bones it reads.
    pub bones: Bones,
    /// Bones of each instance that are put into workgroup memory first, all of them; 0: none.
    pub bone_cache: u32,
    /// Most influences of linear blending that a slice has, if those are few enough to stay in registers; 0 if not, and for others.
    pub kept: u32,
    /// Whether all slices have as many.
    pub equal: bool,
    /// Instances that `instance_origins` has room for.
    pub instance_origins: u32,
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

/// Bytes of workgroup memory that bones may take: more of it, and fewer workgroups run side by side.
const BONE_CACHE_BYTES: u64 = 12 << 10;
/// Instances whose multi-weights are read once.
const MAX_MOMENTS: u32 = 4;

/// Words of the struct `Params` in `common.wgsl`.
pub(crate) const PARAMS_WORDS: usize = 12;

impl Kernel {
    /// Workgroup size and tile by default: the best of `bonesmith bench gpu --sweep` on an H200. `cached`: all
    /// bones are put into workgroup memory first.
    pub fn tuning(self, cached: bool) -> Tuning {
        match self {
            // More threads share what was put there.
            Self::Lbs | Self::Ddm(Variant::V5) if cached => Tuning { workgroup: 256, tile: 4, staged: false },
            Self::Lbs | Self::Ddm(Variant::V5) => Tuning { workgroup: 128, tile: 4, staged: false },
            Self::Blend => Tuning { workgroup: 128, tile: 2, staged: true },
            Self::Ddm(Variant::V0 | Variant::V1) => Tuning { workgroup: 128, tile: 4, staged: false },
            Self::Ddm(_) => Tuning { workgroup: 128, tile: 2, staged: false },
            Self::DdmBones => Tuning { workgroup: 128, tile: 1, staged: false },
        }
    }

    /// The whole WGSL text, with entry point `main`. Bindings and layouts: `docs/runtime.md`.
    pub fn wgsl(self, setup: &Setup) -> String {
        let Tuning { workgroup, tile, staged } = setup.tuning;
        let numbers = [
            ("WORKGROUP", workgroup),
            ("TILE", tile),
            ("PLANES", self.planes() as u32),
            ("CENTRE", if self.makes_bones() { 0 } else { 6 }),
            ("VARIANT", self.variant().map_or(0, |v| u32::from(u8::from(v)))),
            ("WIDTH", self.width() as u32),
            ("KEPT", setup.kept),
            ("BONES", setup.bone_cache.max(1)),
            ("INSTANCE_ORIGINS", setup.instance_origins),
        ];
        let switches = [
            ("RIGID", self.makes_rotations()),
            ("EQUAL", setup.equal),
            ("CACHED", setup.bone_cache > 0),
            ("STAGED", staged),
        ];
        let mut text: String = numbers.iter().map(|(name, value)| format!("const {name} = {value}u;\n")).collect();
        text.extend(switches.iter().map(|(name, value)| format!("const {name} = {value};\n")));
        text + "\n" + &self.parts(setup.bones).join("\n")
    }

    fn parts(self, bones: Bones) -> Vec<&'static str> {
        let target = match self.makes() {
            None => include_str!("../shaders/to_vertex.wgsl"),
            Some(Bones::Affine) => include_str!("../shaders/to_bone_affine.wgsl"),
            Some(Bones::Similar) => include_str!("../shaders/to_bone_similar.wgsl"),
        };
        let (source, turns) = match bones {
            Bones::Affine => {
                (include_str!("../shaders/bones_affine.wgsl"), include_str!("../shaders/turns_apart.wgsl"))
            }
            Bones::Similar => {
                (include_str!("../shaders/bones_similar.wgsl"), include_str!("../shaders/turns_within.wgsl"))
            }
        };
        let held = match self.holds(bones) {
            Bones::Affine => include_str!("../shaders/held_matrices.wgsl"),
            Bones::Similar => include_str!("../shaders/held_bones.wgsl"),
        };
        let mut parts = vec![target, source, held, include_str!("../shaders/common.wgsl")];
        let lbs = include_str!("../shaders/lbs.wgsl");
        let multi = include_str!("../shaders/multi_weight.wgsl");
        parts.extend(match self {
            Self::Lbs => vec![include_str!("../shaders/influence_packed.wgsl"), lbs],
            Self::Blend | Self::Ddm(Variant::V5) => vec![include_str!("../shaders/influence_plain.wgsl"), lbs],
            Self::DdmBones | Self::Ddm(Variant::V0 | Variant::V1) => {
                vec![multi, include_str!("../shaders/polar.wgsl"), include_str!("../shaders/ddm_moments.wgsl")]
            }
            Self::Ddm(Variant::V3) => vec![multi, include_str!("../shaders/ddm_matrices.wgsl")],
            Self::Ddm(Variant::V2 | Variant::V4) => vec![multi, turns, include_str!("../shaders/ddm_blended.wgsl")],
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

    /// Form of the virtual bones it makes, if it makes them. Blends of rotations are none; Direct Delta Mush finds rotations.
    pub(crate) fn makes(self) -> Option<Bones> {
        match self {
            Self::Blend => Some(Bones::Affine),
            Self::DdmBones => Some(Bones::Similar),
            Self::Lbs | Self::Ddm(_) => None,
        }
    }

    pub(crate) fn makes_bones(self) -> bool {
        self.makes().is_some()
    }

    /// Form of the bones that it works with: as they come where they are blended or their rotations are, matrices otherwise.
    fn holds(self, bones: Bones) -> Bones {
        match self {
            Self::Lbs | Self::Blend | Self::Ddm(Variant::V2 | Variant::V4 | Variant::V5) => bones,
            Self::Ddm(_) | Self::DdmBones => Bones::Affine,
        }
    }

    /// Whether it blends bones linearly, and does nothing else.
    fn is_linear(self) -> bool {
        matches!(self, Self::Lbs | Self::Blend | Self::Ddm(Variant::V5))
    }

    fn makes_rotations(self) -> bool {
        matches!(self.variant(), Some(Variant::V0 | Variant::V2 | Variant::V4))
    }

    /// Whether it reads the rotations of the bones, and those are not among `bones`.
    pub(crate) fn needs_turns(self, bones: Bones) -> bool {
        matches!(self, Self::Ddm(Variant::V2 | Variant::V4)) && bones == Bones::Affine
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
        self.makes().map_or(24, Bones::bytes)
    }
}

/// A kernel ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Pipeline {
    pub kernel: Kernel,
    pub setup: Setup,
    pub layout: wgpu::BindGroupLayout,
    pub pipeline: wgpu::ComputePipeline,
}

impl Pipeline {
    /// `starts` of the table that it will read.
    pub fn new(gpu: &Gpu, kernel: Kernel, starts: &[u32], source: Source) -> Result<Self, GpuError> {
        let tuned = |cached: bool| possible(gpu, kernel, gpu.tuning(kernel, cached));
        let bone_cache = bone_cache(gpu, kernel, tuned(true), source);
        let counts = || starts.windows(2).map(|pair| pair[1] - pair[0]);
        let (least, most) = (counts().min().unwrap_or(0), counts().max().unwrap_or(0));
        let kept = if kernel.is_linear() && most as usize <= MAX_KEPT { most } else { 0 };
        let setup = Setup {
            tuning: tuned(bone_cache > 0),
            bones: source.form,
            bone_cache,
            kept,
            equal: kept > 0 && least == kept,
            instance_origins: gpu.instance_origins() as u32,
        };
        let text = wgpu::ShaderSource::Wgsl(kernel.wgsl(&setup).into());
        let label = format!("{kernel:?}");
        let descriptor = wgpu::ShaderModuleDescriptor { label: Some(&label), source: text };
        // SAFETY: loops end, by constants or by tables made in `layout.rs`; indices into buffers come from those tables, whose
        // bones were checked to exist, and from counts that `plan.rs` takes from the sizes of the same buffers, instance origins included.
        // Workgroup memory holds all bones of every instance of a tile, and those are what tables were checked against.
        let module =
            unsafe { gpu.device.create_shader_module_trusted(descriptor, wgpu::ShaderRuntimeChecks::unchecked()) };
        let layout = bind_group_layout(&gpu.device, kernel, source.form);
        let layouts = [Some(&layout)];
        let descriptor = wgpu::PipelineLayoutDescriptor { bind_group_layouts: &layouts, ..Default::default() };
        let pipeline = gpu.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(&label),
            layout: Some(&gpu.device.create_pipeline_layout(&descriptor)),
            module: &module,
            entry_point: Some("main"),
            compilation_options: wgpu::PipelineCompilationOptions {
                // Bone cache and stage are written before they are read.
                zero_initialize_workgroup_memory: false,
                ..Default::default()
            },
            cache: None,
        });
        gpu.check()?;
        Ok(Self { kernel, setup, layout, pipeline })
    }
}

/// How many bones of each instance go into workgroup memory: all of them, where they fit.
fn bone_cache(gpu: &Gpu, kernel: Kernel, tuning: Tuning, source: Source) -> u32 {
    let staged = if tuning.staged { u64::from(tuning.workgroup) * kernel.row_bytes() } else { 16 };
    let room = u64::from(gpu.device.limits().max_compute_workgroup_storage_size).saturating_sub(staged);
    let bytes = (source.count as u64).saturating_mul(u64::from(tuning.tile) * kernel.holds(source.form).bytes());
    if bytes <= BONE_CACHE_BYTES.min(room) { source.count as u32 } else { 0 }
}

/// What the device and the kernel can do of what was asked for.
fn possible(gpu: &Gpu, kernel: Kernel, asked: Tuning) -> Tuning {
    let limits = gpu.device.limits();
    let most = limits.max_compute_invocations_per_workgroup.min(limits.max_compute_workgroup_size_x).min(256);
    let moments = matches!(kernel, Kernel::DdmBones | Kernel::Ddm(Variant::V0 | Variant::V1));
    let most_tile = if moments { MAX_MOMENTS } else { 16 };
    Tuning { workgroup: (asked.workgroup.min(most) & !31).max(32), tile: asked.tile.clamp(1, most_tile), ..asked }
}

fn bind_group_layout(device: &wgpu::Device, kernel: Kernel, bones: Bones) -> wgpu::BindGroupLayout {
    let entry = |binding: u32| wgpu::BindGroupLayoutEntry {
        binding,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer {
            ty: match binding {
                0 | 5 => wgpu::BufferBindingType::Uniform,
                _ => wgpu::BufferBindingType::Storage { read_only: binding != 6 },
            },
            has_dynamic_offset: false,
            min_binding_size: None,
        },
        count: None,
    };
    let count = if kernel.needs_turns(bones) { 8 } else { 7 };
    let entries: Vec<_> = (0..count).map(entry).collect();
    device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries })
}
