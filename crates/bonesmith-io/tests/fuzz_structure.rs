//! Files that are whole as containers and wrong inside: the whole path from reading to writing.
//!
//! `common/mutate.rs` changes values and members of JSON, arrays and headers in a zip, sections of a USD crate, groups of
//! Ogawa, records of FBX, words of a text. Each changed file is read; what is read is checked, fitted for a few rounds where
//! it is a sequence, reduced where it is a rig, written in every format, and read back. No panic, no execution over
//! [`HANG_SECS`], no more memory than [`MAX_GROWTH`] times the file and [`MAX_BESIDES`]; and what is written can be read.
//!
//! Deterministic: a failure names the file, the seed and the number of the change. `BONESMITH_FUZZ=N` changes each file N
//! times, `BONESMITH_FUZZ_SEED` draws other changes; `scripts/fuzz` does both for hours.

mod common;
#[path = "common/counted.rs"]
mod counted;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use bonesmith_core::compress::{TwoLayerParams, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::fit::{BoneCount, FitParams, fit};
use bonesmith_core::reduce::{ReduceParams, reduce};
use bonesmith_core::synthetic::{BarParams, PosedRigParams, bar, posed_rig};
use bonesmith_core::{Model, ModelKind, Rig, Silent};
use bonesmith_io::{Format, LoadOptions, list_meshes, load_model, load_rig_normalised, save_model};

use common::mutate::mutate;
use common::random::Random;

/// Changes of each file in the short run of every day.
const TIMES: usize = 100;
/// Most that a reader may hold: this many times the file, and this much besides.
const MAX_GROWTH: usize = 10;
const MAX_BESIDES: usize = 16 << 20;
/// An execution of more processor time than this hangs.
const HANG_SECS: f64 = 10.0;
/// Models with more vertices or frames than this are not fitted: a changed number can make a large one of a small file.
const MAX_FITTED: usize = 500;

/// Number of the execution in progress, and what it is.
static RUNS: AtomicU64 = AtomicU64::new(0);
static NOW: Mutex<String> = Mutex::new(String::new());

fn variable(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual)
}

fn is_small(rig: &Rig) -> bool {
    let frames: usize = rig.clips.iter().map(|clip| clip.frame_count()).sum();
    rig.vertex_count().max(rig.bone_count()).max(frames) <= MAX_FITTED
}

/// What a stage makes of a model: a rig of a sequence, fewer influences of a rig.
fn derived(model: &Model) -> Option<Rig> {
    match model {
        Model::Sequence(sequence) if sequence.vertex_count().max(sequence.frame_count()) <= MAX_FITTED => {
            let params = FitParams { bones: BoneCount::Exact(2), max_iterations: Some(3), ..FitParams::default() };
            fit(sequence, &params, &mut Silent).ok().map(|fitted| fitted.rig)
        }
        Model::Rig(rig) if is_small(rig) => {
            let params = ReduceParams { influences: 1, ..ReduceParams::default() };
            reduce(rig, None, &params, &mut Silent).ok().map(|reduced| reduced.rig)
        }
        _ => None,
    }
}

/// Writes a model in every format that takes it, and reads it back.
fn written(model: &Model, folder: &Path) {
    let kind = if matches!(model, Model::Sequence(_)) { ModelKind::Sequence } else { ModelKind::Rig };
    for format in Format::writing(kind) {
        let out = folder.join(format!("out.{}", format.ending()));
        if save_model(model, &out).is_ok()
            && let Err(error) = load_model(&[out], &LoadOptions::default())
        {
            panic!("what was written as {} cannot be read: {error}", format.ending());
        }
    }
}

/// Reads a file; whatever it is then goes the whole path. Whether it was read, and the bytes that reading held.
fn whole_path(path: &Path, folder: &Path) -> (bool, usize) {
    // As `compress --normalise` does.
    if let Ok(rig) = load_rig_normalised(path)
        && is_small(&rig)
    {
        let params = TwoLayerParams { max_rounds: Some(2), ..TwoLayerParams::default() };
        if let Ok(compressed) = compress(&rig, None, &params, &mut Silent) {
            compressed.rig.check().expect("a stage gives sound rigs");
        }
    }
    let read = || {
        let _ = list_meshes(path);
        load_model(&[path.to_owned()], &LoadOptions::default())
    };
    let (model, held) = counted::most_during(read);
    let model = match model {
        Ok(model) => model,
        Err(error) => {
            let text = error.to_string();
            assert!(text.lines().count() == 1 && text.len() < 4096, "{text:?}");
            return (false, held);
        }
    };
    model.view().check().expect("a reader gives sound models");
    written(&model, folder);
    if let Some(rig) = derived(&model) {
        rig.check().expect("a stage gives sound rigs");
        written(&Model::Rig(rig), folder);
    }
    (true, held)
}

/// One of each kind of model in every format that holds it, and the formats that we only read.
fn corpus(folder: &Path) -> Vec<PathBuf> {
    let posed = posed_rig(2, &PosedRigParams { bones: 5, influences: 5, frames: 4, detail: 1, ..Default::default() });
    let two_layers = compress(&posed.rig, None, &TwoLayerParams::default(), &mut Silent).unwrap().rig;
    let bones = bar(1, &BarParams { bones: 3, rings: 4, ..BarParams::default() });
    let ddm = precompute(&bones, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
    let sequence = common::sequence(3);
    let models: [(&str, Model, Vec<Format>); 4] = [
        ("rig", Model::Rig(common::rig()), Format::writing(ModelKind::Rig)),
        ("sequence", Model::Sequence(sequence.clone()), Format::writing(ModelKind::Sequence)),
        ("two_layer", Model::TwoLayer(two_layers), Format::writing(ModelKind::TwoLayer)),
        ("ddm", Model::Ddm(ddm), Format::writing(ModelKind::Ddm)),
    ];
    let mut files = Vec::new();
    for (name, model, formats) in &models {
        for format in formats {
            files.push(folder.join(format!("{name}.{}", format.ending())));
            save_model(model, files.last().unwrap()).unwrap();
        }
    }
    let (mut obj, mut pc2) = (String::from("mtllib a.mtl\no thing\n"), b"POINTCACHE2\0\x01\0\0\0".to_vec());
    let mut ply = String::from("ply\nformat ascii 1.0\nelement vertex 8\nproperty float x\nproperty float y\n");
    ply += "property float z\nelement face 2\nproperty list uchar int vertex_indices\nend_header\n";
    let n = sequence.vertex_count();
    pc2.extend([n as u32, 0, 1f32.to_bits(), 1].iter().flat_map(|word| word.to_le_bytes()));
    for p in sequence.frame(0) {
        obj += &format!("v {} {} {}\nvt {} {}\n", p.x, p.y, p.z, p.x, p.y);
        ply += &format!("{} {} {}\n", p.x, p.y, p.z);
        pc2.extend(p.to_array().iter().flat_map(|x| x.to_le_bytes()));
    }
    obj += "usemtl a\nf 1/1 2/2 3/3\nf 4 5 6 7\n";
    ply += "3 0 1 2\n4 3 4 5 6\n";
    let mut mdd: Vec<u8> = [1u32, n as u32, 0f32.to_bits()].iter().flat_map(|word| word.to_be_bytes()).collect();
    mdd.extend(sequence.frame(0).iter().flat_map(|p| p.to_array()).flat_map(f32::to_be_bytes));
    for (name, bytes) in [("a.obj", obj.into_bytes()), ("a.ply", ply.into_bytes()), ("a.pc2", pc2), ("a.mdd", mdd)] {
        files.push(folder.join(name));
        std::fs::write(files.last().unwrap(), bytes).unwrap();
    }
    files
}

#[test]
fn files_that_are_wrong_inside() {
    let (times, seed) = (variable("BONESMITH_FUZZ", TIMES as u64), variable("BONESMITH_FUZZ_SEED", 1));
    let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::thread::spawn(watch);
    let (mut failures, mut total, started) = (Vec::new(), 0, Instant::now());
    for file in corpus(own.path()) {
        let (bytes, name) = (std::fs::read(&file).unwrap(), file.file_name().unwrap().to_string_lossy());
        let ending = file.extension().unwrap().to_str().unwrap();
        let path = folder.path().join(&*name);
        // The buffer of a .gltf stays as it is, beside the changed file.
        let buffer = file.with_extension("bin");
        if ending == "gltf" {
            std::fs::copy(&buffer, folder.path().join(buffer.file_name().unwrap())).unwrap();
        }
        let (begun, mut sound, mut most, mut slowest) = (Instant::now(), 0, 0, 0.0f64);
        for n in 0..times {
            let changed =
                mutate(ending, &bytes, &mut Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed) ^ ((n + 1) << 20)));
            let limit = MAX_GROWTH * changed.len().max(bytes.len()) + MAX_BESIDES;
            std::fs::write(&path, changed).unwrap();
            let what = format!("{name}, seed {seed}, change {n}");
            *NOW.lock().unwrap() = what.clone();
            RUNS.fetch_add(1, Ordering::Relaxed);
            let before = processor_secs();
            match catch_unwind(AssertUnwindSafe(|| whole_path(&path, folder.path()))) {
                Ok((read, held)) => {
                    sound += usize::from(read);
                    most = most.max(held);
                    if held > limit {
                        failures.push(format!("{what}: {held} bytes held, {limit} are allowed"));
                    }
                }
                Err(_) => {
                    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{seed}-{n}-{name}"));
                    std::fs::copy(&path, &kept).unwrap();
                    failures.push(format!("{what}, kept as {}", kept.display()));
                }
            }
            slowest = slowest.max(processor_secs() - before);
        }
        total += times;
        let rate = times as f64 / begun.elapsed().as_secs_f64();
        println!(
            "{name}: {times} changed copies, {sound} still read, at most {most} bytes held, {rate:.0} per second, at most {slowest:.1} s"
        );
    }
    println!("{total} executions in {:.0} s, seed {seed}", started.elapsed().as_secs_f64());
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Ends the run, with the name of the change, where one takes far too long.
fn watch() {
    let (mut last, mut since) = (0, 0.0);
    loop {
        std::thread::sleep(Duration::from_millis(500));
        let now = RUNS.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, processor_secs());
        } else if now > 0 && processor_secs() - since > HANG_SECS {
            let what = NOW.lock().map(|what| what.clone()).unwrap_or_default();
            let _ = std::io::stderr().write_all(format!("HANG: {what}\n").as_bytes());
            std::process::exit(101);
        }
    }
}

/// Processor time of this process, which other programs of a busy machine do not lengthen; where it is not known, time.
fn processor_secs() -> f64 {
    static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);
    // proc(5): user and system time are fields 14 and 15, in hundredths; the second field ends with the last bracket.
    let stat = std::fs::read_to_string("/proc/self/stat").ok();
    let ticks = stat.as_deref().and_then(|stat| {
        let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
        Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
    });
    ticks.map_or_else(|| STARTED.elapsed().as_secs_f64(), |ticks| ticks / 100.0)
}
