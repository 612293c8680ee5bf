//! `bonesmith bench gpu`: speed of the kernels beside the device's own bandwidth, as in table 3 of Le et al. 2021.

use std::path::PathBuf;

use bonesmith_core::compress::{self, TwoLayerParams, TwoLayerSize};
use bonesmith_core::ddm::compress::DdmCompressParams;
use bonesmith_core::ddm::{self, DdmMaps, DdmParams, precompute, rigid_bind};
use bonesmith_core::mesh::sphere::unit_radius;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::shape_bones::{BoneShape, ShapeKind, ShapeNumber};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{DdmRig, Model, Rig, ShapeBones, Stage, TwoLayerRig, deform};
use bonesmith_gpu::bench::{Bandwidth, Effort, Speed, shape_speed, speed};
use bonesmith_gpu::{Bones, Gpu, GpuModel, Tuning};
use glam::{DAffine3, Vec3};
use serde_json::{Value, json};

use super::report::show;
use crate::args::BenchGpuArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{bytes, figure, write_json};
use crate::session::Session;
use crate::settings;
use crate::sheet::Sheet;
use bonesmith::gpu;

/// The built-in body.
const BODY: PosedRigParams = PosedRigParams {
    bones: 65,
    influences: 4,
    kind: bonesmith_core::BoneKind::Rigid,
    frames: 24,
    softness: 0.15,
    detail: 15,
};

/// What the two-layer model may be off, as its compression counts: about as far from the rig as a good fit is from its animation.
const TWO_LAYER_ERROR: f64 = 0.15;

/// Virtual bones that a vertex of the compressed model blends: as many as bones in the rig that it is held against.
const LAYER_INFLUENCES: usize = 4;

pub fn run(args: BenchGpuArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let json_target = settings::json(args.json.clone())?;
    if args.instances == 0 {
        return Err(Usage::new("--instances 0: at least 1 is needed").into());
    }
    let input = settings::input(args.rigs.clone(), Default::default())?;
    let given = Given::load(&input.paths)?;
    let device = gpu::open(args.adapter.as_deref())?;
    let cast = Cast::new(given, args.virtual_bones, session)?;
    session.stage(Stage::MeasuringBandwidth)?;
    let bandwidth = Bandwidth::measure(&device)?;
    // All models are posed by the rig's animation, whatever their own files hold.
    let bones = Bones::of(&cast.rig);
    let device = device.with_bones(Some(bones));
    let (heading, mut value) = heading(&device, &cast, bones, &bandwidth, args.instances);
    let (mut sheet, figures) = match args.sweep {
        true => sweep(&device, &cast, args.instances, session)?,
        false => table(&device, &cast, &bandwidth, args.instances, session)?,
    };
    sheet.remark = [heading, sheet.remark].concat().trim_end().to_owned();
    value[if args.sweep { "sweep" } else { "rows" }] = figures;
    session.finish_progress();
    if let Some(target) = &json_target {
        write_json(target, &value)?;
    }
    show(vec![sheet], json_target.as_ref(), session)?;
    Ok(Outcome::Done)
}

/// The fewest virtual bones whose result looks like the rig.
fn two_layer_params() -> TwoLayerParams {
    TwoLayerParams { size: TwoLayerSize::TargetError(TWO_LAYER_ERROR), ..TwoLayerParams::default() }
}

/// Times that bones from shape weights and bones as matrices are measured in turn.
const TURNS: usize = 5;

/// Shapes that drive the rig where no face is given, and numbers of each.
const SHAPES: usize = 52;
const NUMBERS: usize = 16;

/// A rig whose bones follow shapes: numbers spread over all bones. Only their count matters for the speed.
fn driven(rig: &Rig) -> ShapeBones {
    let bones = rig.bone_count();
    let shape = |s: usize| {
        let mut places: Vec<usize> = (0..NUMBERS).map(|k| (NUMBERS * s + k) * 7 % (12 * bones)).collect();
        places.sort_unstable();
        places.dedup();
        let number = |at: usize| ShapeNumber { bone: (at / 12) as u16, component: (at % 12) as u8, value: 0.01 };
        BoneShape {
            name: format!("shape_{s}"),
            numbers: places.into_iter().map(number).collect(),
            ..BoneShape::default()
        }
    };
    let shapes = (0..SHAPES).map(shape).collect();
    let mut face = ShapeBones { rig: rig.clone(), kind: ShapeKind::Affine, shapes };
    face.set_first_clip();
    face
}

/// What was given.
#[derive(Default)]
struct Given {
    rig: Option<Rig>,
    face: Option<ShapeBones>,
    two: Option<TwoLayerRig>,
    full: Option<DdmRig>,
    small: Option<DdmRig>,
}

impl Given {
    fn load(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut given = Self::default();
        for path in paths {
            match bonesmith_io::load_rigged(path)? {
                Model::TwoLayer(two) => given.two = Some(two),
                Model::Ddm(ddm) if ddm.layer.is_some() => given.small = Some(ddm),
                Model::Ddm(ddm) => given.full = Some(ddm),
                Model::Rig(rig) => given.rig = Some(rig),
                Model::ShapeBones(face) => {
                    given.rig = Some(face.rig.clone());
                    given.face = Some(face);
                }
                _ => given.rig = Some(bonesmith_io::load_rig(path)?),
            }
        }
        if given.rig.is_none() && !paths.is_empty() {
            return Err(Usage::new("the rig itself is missing: one with plain weights").into());
        }
        if given.full.as_ref().is_some_and(|full| full.variant != Variant::V0) {
            return Err(Usage::new("Direct Delta Mush of variant 0 is needed: the others are made from it").into());
        }
        Ok(given)
    }
}

/// All models of one character.
struct Cast {
    rig: Rig,
    face: ShapeBones,
    two: TwoLayerRig,
    full: DdmRig,
    small: DdmRig,
}

impl Cast {
    /// Makes what was not given.
    fn new(given: Given, virtual_bones: usize, session: &mut Session) -> anyhow::Result<Self> {
        let rig = given.rig.unwrap_or_else(|| posed_rig(1, &BODY).rig);
        if rig.clips.first().is_none_or(|clip| clip.frame_count() == 0) {
            return Err(Usage::new(format!("{}: the rig has no animation", rig.name)).into());
        }
        let two = match given.two {
            Some(two) => two,
            None => compress::compress(&rig, None, &two_layer_params(), session)?.rig,
        };
        let full = match given.full {
            Some(full) => full,
            None => precompute(&rigid_bind(&rig), &DdmParams::default(), &DdmMaps::default(), session)?,
        };
        let params = DdmCompressParams { virtual_bones, influences: LAYER_INFLUENCES, ..DdmCompressParams::default() };
        let small = match given.small {
            Some(small) => small,
            None => ddm::compress::compress(&full, &params, session)?.0,
        };
        let face = given.face.unwrap_or_else(|| driven(&rig));
        let cast = Self { rig, face, two, full, small };
        cast.check()?;
        Ok(cast)
    }

    /// All of one character.
    fn check(&self) -> Result<(), Usage> {
        let counts = |rig: &Rig| (rig.vertex_count(), rig.bone_count());
        let own = counts(&self.rig);
        let others = [
            ("shapes'", &self.face.rig),
            ("two-layer", &self.two.master),
            ("Direct Delta Mush", &self.full.rig),
            ("compressed", &self.small.rig),
        ];
        for (name, other) in others {
            if counts(other) != own {
                let ((n, b), (vertices, bones)) = (own, counts(other));
                let what = format!("the {name} model has {vertices} vertices and {bones} bones, the rig {n} and {b}");
                return Err(Usage::new(what));
            }
        }
        Ok(())
    }

    /// E_RMS of the two layers against the rig, and of the compressed model against variant 0, over the rig's animation.
    fn errors(&self) -> [f64; 2] {
        let frames = self.frames();
        let e_rms = |one: &dyn Fn(&[DAffine3]) -> Vec<Vec3>, other: &dyn Fn(&[DAffine3]) -> Vec<Vec3>| {
            let apart = |(a, b): (&Vec3, &Vec3)| f64::from(a.distance_squared(*b));
            let sum: f64 = frames.iter().map(|pose| one(pose).iter().zip(&other(pose)).map(apart).sum::<f64>()).sum();
            let count = 3 * frames.len() * self.rig.vertex_count();
            1000.0 / unit_radius(&self.rig.rest) * (sum / count as f64).sqrt()
        };
        [
            e_rms(&|pose| deform::two_layer(&self.two, pose), &|pose| {
                deform::lbs(&self.rig.rest, &self.rig.weights, pose)
            }),
            e_rms(&|pose| bonesmith_core::deform::ddm_f64(&self.small, pose), &|pose| {
                bonesmith_core::deform::ddm_f64(&self.full, pose)
            }),
        ]
    }

    fn frames(&self) -> Vec<&[DAffine3]> {
        let clip = &self.rig.clips[0];
        (0..clip.frame_count()).map(|t| clip.frame(t)).collect()
    }
}

fn heading(gpu: &Gpu, cast: &Cast, bones: Bones, bandwidth: &Bandwidth, instances: usize) -> (String, Value) {
    let rig = &cast.rig;
    let n = rig.vertex_count();
    let per_vertex = |count: usize| count as f64 / n as f64;
    let used: usize = (0..n).map(|i| rig.weights.of(i).count()).sum();
    let multi = per_vertex(cast.full.weights.influences());
    let [two_error, small_error] = cast.errors();
    let layer = cast.small.layer.as_ref().map_or(0, |layer| (0..n).map(|i| layer.of(i).count()).sum());
    let text = format!(
        "Version {}. {}. Positions and normals of {instances} instances.\n\
         Copies: {:.0} GB/s by the driver, {:.0} GB/s by a kernel, {} from buffer to buffer, read and written together.\n\n\
         **{}**: {n} vertices, {} bones of {} bytes, {:.2} influences per vertex; {} virtual bones in two layers, E_RMS {} against \
         the rig; {multi:.2} multi-weights per vertex; {} virtual bones of compressed Direct Delta Mush, {:.2} per vertex, E_RMS {} \
         against variant 0.\n\n",
        env!("CARGO_PKG_VERSION"),
        gpu::name(gpu),
        bandwidth.copy,
        bandwidth.kernel,
        bytes(bandwidth.bytes),
        rig.name,
        rig.bone_count(),
        bones.bytes(),
        per_vertex(used),
        cast.two.virtual_count(),
        figure(two_error),
        cast.small.virtual_count(),
        per_vertex(layer),
        figure(small_error),
    );
    let value = json!({ "version": env!("CARGO_PKG_VERSION"), "adapter": gpu::name(gpu), "instances": instances, "name": rig.name,
        "vertices": n, "bones": rig.bone_count(), "bone_form": bones, "influences_per_vertex": per_vertex(used), "multi_weights_per_vertex": multi,
        "two_layer_virtual_bones": cast.two.virtual_count(), "virtual_bones": cast.small.virtual_count(),
        "virtual_bones_per_vertex": per_vertex(layer), "two_layer_e_rms": two_error, "compressed_e_rms": small_error,
        "bandwidth": bandwidth });
    (text, value)
}

fn table(
    gpu: &Gpu,
    cast: &Cast,
    bandwidth: &Bandwidth,
    instances: usize,
    session: &mut Session,
) -> anyhow::Result<(Sheet, Value)> {
    let mut models = vec![
        ("LBS".to_owned(), GpuModel::lbs(gpu, &cast.rig)?),
        ("two-layer".to_owned(), GpuModel::two_layer(gpu, &cast.two)?),
    ];
    for variant in Variant::ALL {
        let name = format!("DDM variant {}", u8::from(variant));
        models.push((name, GpuModel::ddm(gpu, &cast.full.with_variant(variant))?));
    }
    models.push(("DDM compressed".to_owned(), GpuModel::ddm(gpu, &cast.small)?));
    if models[0].1.bones() != Bones::Affine {
        models.push((
            "LBS, bones as matrices".to_owned(),
            GpuModel::lbs(&gpu.with_bones(Some(Bones::Affine)), &cast.rig)?,
        ));
    }
    let header = [
        "model",
        "microseconds",
        "ns per vertex",
        "GB/s",
        "x time of its bytes at copy speed",
        "x LBS",
        "faster than variant 0",
    ];
    let mut sheet = Sheet::new("", &header);
    let frames = cast.frames();
    let mut speeds: Vec<(String, Speed)> = Vec::new();
    for (name, model) in &models {
        session.stage(Stage::MeasuringKernels)?;
        speeds.push((name.clone(), speed(gpu, model, &frames, instances, Effort::Full)?));
    }
    session.stage(Stage::MeasuringKernels)?;
    let shapes = shape_row(gpu, &cast.face, instances)?;
    speeds.push(("LBS, bones from shape weights".to_owned(), shapes));
    // The two are close: measured again in turn, and the least of each counts, so that what else runs meanwhile does not decide.
    let matrices = &models.iter().find(|(name, _)| name.ends_with("matrices")).unwrap_or(&models[0]).1;
    let mut least = [f64::INFINITY; 2];
    for _ in 0..TURNS {
        session.stage(Stage::MeasuringKernels)?;
        let plain = speed(gpu, matrices, &frames, instances, Effort::Full)?.timing.seconds;
        let driven = shape_row(gpu, &cast.face, instances)?.timing.seconds;
        least = [least[0].min(plain), least[1].min(driven)];
    }
    let over = least[1] / least[0];
    let (lbs, full) = (speeds[0].1.timing.seconds, speeds[2].1.timing.seconds);
    let mut rows = Vec::new();
    for (name, speed) in &speeds {
        let seconds = speed.timing.seconds;
        let over_copy = seconds * 1e9 * bandwidth.best() / speed.bytes as f64;
        let ratios = [over_copy, seconds / lbs, full / seconds].map(|ratio| format!("{ratio:.2}"));
        let speeds =
            [format!("{:.1}", 1e6 * seconds), format!("{:.4}", speed.ns_per_vertex), figure(speed.gb_per_second)];
        sheet.row(std::iter::once(name.clone()).chain(speeds).chain(ratios).collect());
        rows.push(json!({ "model": name, "speed": speed, "over_copy": over_copy, "over_lbs": seconds / lbs,
            "faster_than_v0": full / seconds }));
    }
    let (count, numbers) = (cast.face.shapes.len(), cast.face.number_count());
    let about = format!(
        " Bones from the weights of {count} shapes with {numbers} numbers: {over:.2} x LBS with bones as matrices, the least of {TURNS} turns each."
    );
    sheet.notes = method(&speeds[0].1) + &about;
    Ok((sheet, json!(rows)))
}

/// Shape weights go in, vertices come out.
fn shape_row(gpu: &Gpu, face: &ShapeBones, instances: usize) -> anyhow::Result<Speed> {
    let model = GpuModel::shape_bones(&gpu.with_bones(Some(Bones::Affine)), face)?;
    let weights: Vec<Vec<f64>> = (0..face.shapes.len())
        .map(|t| (0..face.shapes.len()).map(|s| if (s + t) % 4 == 0 { 0.5 } else { 0.1 }).collect())
        .collect();
    Ok(shape_speed(gpu, &model, &weights, instances, Effort::Full)?)
}

/// In one line, how the figures came about.
fn method(speed: &Speed) -> String {
    let clock = if speed.timing.by_device { "the device's timers" } else { "the clock around submissions" };
    format!("Median by {clock} over {} passes of {} runs.", speed.timing.passes, speed.timing.repeats)
}

/// Everything that can be tuned.
fn tunings() -> impl Iterator<Item = Tuning> {
    let shapes = [64, 128, 256].into_iter().flat_map(|workgroup| [1, 2, 4, 8, 16].map(|tile| (workgroup, tile)));
    shapes.flat_map(|(workgroup, tile)| [false, true].map(|staged| Tuning { workgroup, tile, staged }))
}

/// Nanoseconds per vertex of every tuning: first of the kernels that make vertices, then of those that make virtual bones.
fn sweep(gpu: &Gpu, cast: &Cast, instances: usize, session: &mut Session) -> anyhow::Result<(Sheet, Value)> {
    let frames = cast.frames();
    let header = ["kernels", "workgroup", "tile", "staged", "LBS", "two-layer", "DDM variant 0", "DDM compressed"];
    let mut sheet = Sheet::new("Nanoseconds per vertex.", &header);
    let mut rows = Vec::new();
    for (bones, tuning) in [false, true].into_iter().flat_map(|bones| tunings().map(move |tuning| (bones, tuning))) {
        session.stage(Stage::MeasuringKernels)?;
        let tuned = if bones { gpu.with_tuning(None, Some(tuning)) } else { gpu.with_tuning(Some(tuning), None) };
        // Nothing where no kernel of the model can be tuned so.
        let nanoseconds = |model: GpuModel| -> anyhow::Result<Option<f64>> {
            let taken = model.tunings().contains(&tuning);
            let measured = taken.then(|| speed(&tuned, &model, &frames, instances, Effort::Quick)).transpose()?;
            Ok(measured.map(|speed| speed.ns_per_vertex))
        };
        let plain = match bones {
            true => [None, None],
            false => {
                [nanoseconds(GpuModel::lbs(&tuned, &cast.rig)?)?, nanoseconds(GpuModel::ddm(&tuned, &cast.full)?)?]
            }
        };
        let two = nanoseconds(GpuModel::two_layer(&tuned, &cast.two)?)?;
        let small = nanoseconds(GpuModel::ddm(&tuned, &cast.small)?)?;
        let [lbs, full, pair, layer] =
            [plain[0], plain[1], two, small].map(|ns| ns.map_or(String::new(), |ns| format!("{ns:.4}")));
        let kernels = if bones { "virtual bones" } else { "vertices" };
        let Tuning { workgroup, tile, staged } = tuning;
        let shape = [kernels.to_owned(), workgroup.to_string(), tile.to_string(), staged.to_string()];
        sheet.row(shape.into_iter().chain([lbs, pair, full, layer]).collect());
        rows.push(json!({ "kernels": kernels, "tuning": tuning, "lbs": plain[0], "ddm": plain[1], "two_layer": two,
            "compressed": small }));
    }
    Ok((sheet, json!(rows)))
}
