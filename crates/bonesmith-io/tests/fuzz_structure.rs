//! Files that are whole as containers and wrong inside: the whole path from reading to writing.
//!
//! `common/mutate.rs` changes values and members of JSON, arrays and headers in a zip, sections of a USD crate, groups of
//! Ogawa, records of FBX, words of a text. Each changed file is read; what is read is checked, fitted for a few rounds where
//! it is a sequence, reduced where it is a rig, written in every format, and read back. No panic, no execution over
//! [`HANG_SECS`], no more memory than [`MAX_GROWTH`] times the file and [`MAX_BESIDES`]; and what is written can be read.
//!
//! Another target only reads, which is a hundred times as fast.
//!
//! Deterministic: a failure names the file, the seed and the number of the change. `BONESMITH_FUZZ=N` changes each file N
//! times, `BONESMITH_FUZZ_SEED` draws other changes, `BONESMITH_FUZZ_SECONDS` goes on with the next seeds until they are over;
//! `scripts/fuzz` does it for hours. Files that failed once are in `fuzz_findings`.

mod common;
#[path = "common/counted.rs"]
mod counted;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, Once};
use std::time::{Duration, Instant};

use bonesmith_core::compress::{TwoLayerParams, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::fit::{BoneCount, FitParams, fit};
use bonesmith_core::model::corrective::BlendShape;
use bonesmith_core::model::shape_bones::Driver;
use bonesmith_core::reduce::{ReduceParams, reduce};
use bonesmith_core::shapes::{self, ShapesParams};
use bonesmith_core::synthetic::{BarParams, PosedRigParams, bar, posed_rig};
use bonesmith_core::{CorrectiveRig, MeshSequence, Model, ModelKind, Rig, ShapeBones, Silent};
use bonesmith_io::{
    Beyond, Compact, Format, IoError, LoadOptions, Packing, limit_positions, list_meshes, load_model,
    load_rig_normalised, save_compact, save_model,
};
use glam::Vec3;

use common::mutate::{any_bytes, mutate};
use common::random::Random;

/// Changes of each file in the short run of every day.
const TIMES: u64 = 100;
/// The same where files are read and nothing more.
const READ_TIMES: u64 = 400;
/// Most that a reader may hold: this many times the file, and this much besides.
const MAX_GROWTH: usize = 10;
const MAX_BESIDES: usize = 16 << 20;
/// An execution of more processor time than this hangs.
const HANG_SECS: f64 = 10.0;
/// A long run changes a file again with the same seed while it has not used this much processor time, so that readers get similar time and quick ones
/// more changes; at most this many times.
const SLICE_SECS: f64 = 0.1;
const MAX_ROUNDS: u64 = 16;
/// A long run shows its count this often.
const SHOW_AFTER: Duration = Duration::from_secs(60);
/// Models with more vertices or frames than this are not fitted: a changed number can make a large one of a small file.
const MAX_FITTED: usize = 500;

/// Number of the execution in progress, and what it is.
static RUNS: AtomicU64 = AtomicU64::new(0);
static NOW: Mutex<String> = Mutex::new(String::new());
/// Held by the test that runs: bytes are counted for the whole process.
static ALONE: Mutex<()> = Mutex::new(());

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
    // A small file too.
    if let Model::Rig(rig) = model
        && is_small(rig)
    {
        let out = folder.join("out_small.glb");
        let compact = Compact { rms: 1e-3, packing: Packing::Ext, numbered: true };
        if save_compact(rig, &out, &compact).is_ok()
            && let Err(error) = load_model(&[out], &LoadOptions::default())
        {
            panic!("what was written as a small file cannot be read: {error}");
        }
    }
}

/// Reads a file, as `info` does. Positions that were put into a scratch file are the same as in memory.
fn read_only(path: &Path, _: &Path) -> (bool, usize) {
    let read = || load_model(&[path.to_owned()], &LoadOptions::default());
    let (model, held) = counted::most_during(read);
    let model = match model {
        Ok(model) => model,
        Err(error) => {
            assert_is_one_line(&error);
            return (false, held);
        }
    };
    model.view().check().expect("a reader gives sound models");
    if let Model::Sequence(stored) = &model
        && stored.is_stored()
    {
        in_memory();
        let Ok(Model::Sequence(whole)) = read() else { panic!("read in blocks, and not in memory") };
        assert_eq!(stored.frame_count(), whole.frame_count());
        assert!((0..whole.frame_count()).all(|t| stored.frame(t) == whole.frame(t)), "positions differ");
    }
    (true, held)
}

fn in_memory() {
    limit_positions(u64::MAX, Beyond::Refuse);
}

/// Positions that are read from now on are put into scratch files.
fn in_scratch_files() {
    limit_positions(0, Beyond::Store { buffer: 1 });
}

fn assert_is_one_line(error: &IoError) {
    let text = error.to_string();
    assert!(text.lines().count() == 1 && text.len() < 4096, "{text:?}");
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
            assert_is_one_line(&error);
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

/// A rig with one blend shape.
fn corrective() -> CorrectiveRig {
    let rig = common::rig();
    let offsets = (0..rig.vertex_count()).map(|i| Vec3::splat(i as f32 * 0.01)).collect();
    let weights = rig.clips.iter().map(|clip| (0..clip.frame_count()).map(|t| t as f32 / 8.0).collect()).collect();
    CorrectiveRig { rig, shapes: vec![BlendShape { name: "smile".into(), offsets, weights }] }
}

/// Bones that two shapes drive, and a third one that follows from them.
fn face() -> ShapeBones {
    let posed = posed_rig(4, &PosedRigParams { bones: 3, frames: 3, detail: 1, ..PosedRigParams::default() });
    let sequence = MeshSequence::try_from(posed.sequence).unwrap();
    let names = ["left", "right", "both"].map(str::to_owned);
    let params = ShapesParams { bones: 3, influences: 2, ..ShapesParams::default() };
    let mut face = shapes::fit(&sequence, &names, &params, &mut Silent).unwrap().model;
    face.shapes[2].driver = Driver::Product { of: vec![0, 1] };
    face
}

/// Draco streams of each method, with their numbers of quads.
const DRACO: [(&str, &[u8], usize); 5] = [
    ("standard", include_bytes!("gltf/draco/torus_speed5_edgebreaker_14bits.drc"), 14 * 11),
    ("valence", include_bytes!("gltf/draco/torus_speed0_edgebreaker_14bits.drc"), 14 * 11),
    ("floats", include_bytes!("gltf/draco/torus_speed7_edgebreaker_floats.drc"), 14 * 11),
    ("sequential", include_bytes!("gltf/draco/torus_speed0_sequential_14bits.drc"), 14 * 11),
    ("holes", include_bytes!("gltf/draco/open_speed2_edgebreaker_14bits.drc"), 20 * 16),
];

/// One of each kind of model in every format that holds it, and the formats that we only read.
fn corpus(folder: &Path) -> Vec<PathBuf> {
    let posed = posed_rig(2, &PosedRigParams { bones: 5, influences: 5, frames: 4, detail: 1, ..Default::default() });
    let two_layers = compress(&posed.rig, None, &TwoLayerParams::default(), &mut Silent).unwrap().rig;
    let bones = bar(1, &BarParams { bones: 3, rings: 4, ..BarParams::default() });
    let ddm = precompute(&bones, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
    let sequence = common::sequence(3);
    let models: [(&str, Model, Vec<Format>); 7] = [
        ("rig", Model::Rig(common::rig()), Format::writing(ModelKind::Rig)),
        ("scene", Model::Rig(common::scene()), Format::writing(ModelKind::Rig)),
        ("corrective", Model::Corrective(corrective()), Format::writing(ModelKind::Corrective)),
        ("face", Model::ShapeBones(face()), Format::writing(ModelKind::ShapeBones)),
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
    // Quantised buffers, compressed ones too.
    for (name, rig, packing) in [
        ("small.glb", &posed.rig, Packing::Ext),
        ("small_scene.gltf", &common::scene(), Packing::Khr),
        ("quantised.glb", &posed.rig, Packing::Plain),
    ] {
        files.push(folder.join(name));
        save_compact(rig, files.last().unwrap(), &Compact { rms: 1e-3, packing, numbered: true }).unwrap();
    }
    // Streams of Google's encoder.
    for (name, stream, quads) in DRACO {
        files.push(folder.join(format!("draco_{name}.glb")));
        std::fs::write(files.last().unwrap(), common::draco::glb(stream, 6 * quads)).unwrap();
    }
    let (mut obj, mut pc2) = (String::from("mtllib a.mtl\no thing\n"), b"POINTCACHE2\0\x01\0\0\0".to_vec());
    let mut ply = String::from("ply\nformat ascii 1.0\nelement vertex 8\nproperty float x\nproperty float y\n");
    ply += "property float z\nelement face 2\nproperty list uchar int vertex_indices\nend_header\n";
    let n = sequence.vertex_count();
    pc2.extend([n as u32, 0, 1f32.to_bits(), 1].iter().flat_map(|word| word.to_le_bytes()));
    for p in sequence.frame(0).iter() {
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

/// What the executions on one file came to.
#[derive(Default)]
struct Tally {
    executions: u64,
    /// Copies that were still read.
    sound: u64,
    /// Most bytes that reading held.
    most: usize,
    /// Seconds of the slowest execution; a busy machine makes them more.
    slowest: f64,
    /// Processor seconds of all executions, with the changes and the files that they are written to.
    processor_secs: f64,
}

/// One file of the corpus, its changed copies and what came of them.
struct Subject {
    name: String,
    ending: String,
    bytes: Vec<u8>,
    /// The changed copy.
    path: PathBuf,
    /// Whether positions are put into a scratch file.
    stored: bool,
    tally: Tally,
}

impl Subject {
    fn new(file: &Path, folder: &Path, stored: bool) -> Self {
        let mut name = file.file_name().unwrap().to_string_lossy().into_owned();
        let ending = file.extension().unwrap().to_str().unwrap().to_owned();
        // A folder for each, with the buffer of a .gltf and the mesh of a cache as they were.
        let own = folder.join(if stored { format!("stored_{name}") } else { name.clone() });
        std::fs::create_dir(&own).unwrap();
        let path = own.join(&name);
        let beside = match ending.as_str() {
            "gltf" => Some(file.with_extension("bin")),
            "pc2" | "mdd" => Some(file.with_extension("obj")),
            _ => None,
        };
        if let Some(beside) = beside {
            std::fs::copy(&beside, own.join(beside.file_name().unwrap())).unwrap();
        }
        if stored {
            name = format!("stored_{name}");
        }
        Self { bytes: std::fs::read(file).unwrap(), path, ending, name, stored, tally: Tally::default() }
    }

    /// Executes `target` on one changed copy. An error names the change, which is kept.
    fn execute(&mut self, seed: u64, n: u64, bytewise: bool, target: Target) -> Result<(), String> {
        let mut random = Random(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(seed) ^ ((n + 1) << 20));
        let changed = match bytewise && n % 4 == 3 {
            true => any_bytes(&self.bytes, &mut random),
            false => mutate(&self.ending, &self.bytes, &mut random),
        };
        let limit = MAX_GROWTH * changed.len().max(self.bytes.len()) + MAX_BESIDES;
        std::fs::write(&self.path, changed).unwrap();
        let what = format!("{}, seed {seed}, change {n}", self.name);
        what.clone_into(&mut NOW.lock().unwrap());
        RUNS.fetch_add(1, Ordering::Relaxed);
        if self.stored {
            in_scratch_files()
        } else {
            in_memory()
        }
        let clock = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| target(&self.path, self.path.parent().unwrap())));
        self.tally.executions += 1;
        self.tally.slowest = self.tally.slowest.max(clock.elapsed().as_secs_f64());
        let failure = match outcome {
            Ok((read, held)) => {
                self.tally.sound += u64::from(read);
                self.tally.most = self.tally.most.max(held);
                (held > limit).then(|| format!("{held} bytes held, {limit} are allowed"))
            }
            Err(_) => Some("panic".to_owned()),
        };
        let Some(failure) = failure else { return Ok(()) };
        let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{seed}-{n}-{}", self.name));
        std::fs::copy(&self.path, &kept).unwrap();
        Err(format!("{what}: {failure}; kept as {}", kept.display()))
    }
}

/// What is done with a changed file, and a folder to write to: whether it was read, and the bytes that reading held.
type Target = fn(&Path, &Path) -> (bool, usize);

/// `times` changed copies of every file of the corpus; with `BONESMITH_FUZZ_SECONDS` again with other seeds until they are over.
fn campaign(times: u64, bytewise: bool, target: Target) {
    // The allocator counts for the whole process.
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    static WATCH: Once = Once::new();
    WATCH.call_once(|| drop(std::thread::spawn(watch)));
    let (times, first) = (variable("BONESMITH_FUZZ", times), variable("BONESMITH_FUZZ_SEED", 1));
    let duration = Duration::from_secs(variable("BONESMITH_FUZZ_SECONDS", 0));
    let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    in_memory();
    let files = corpus(own.path());
    let mut subjects: Vec<Subject> = files.iter().map(|file| Subject::new(file, folder.path(), false)).collect();
    // Animations once more, through scratch files.
    let moving = files.iter().filter(|file| file.file_stem().is_some_and(|name| name == "sequence" || name == "a"));
    subjects.extend(moving.map(|file| Subject::new(file, folder.path(), true)));
    let total = |subjects: &[Subject]| subjects.iter().map(|subject| subject.tally.executions).sum::<u64>();
    let (mut failures, started, mut shown) = (Vec::new(), Instant::now(), Duration::ZERO);
    for seed in first.. {
        for subject in &mut subjects {
            let before = processor_secs();
            let slice = |round: u64| round == 0 || (!duration.is_zero() && processor_secs() - before < SLICE_SECS);
            for round in (0..MAX_ROUNDS).take_while(|round| slice(*round)) {
                let changes = round * times..(round + 1) * times;
                failures.extend(changes.filter_map(|n| subject.execute(seed, n, bytewise, target).err()));
            }
            subject.tally.processor_secs += processor_secs() - before;
        }
        if started.elapsed() >= duration || failures.len() > 20 {
            break;
        }
        // What was done counts, however the process ends.
        if started.elapsed() >= shown + SHOW_AFTER {
            shown = started.elapsed();
            println!("{} executions so far, seeds {first} to {seed}", total(&subjects));
        }
    }
    in_memory();
    RUNS.store(0, Ordering::Relaxed);
    for Subject { name, tally: Tally { executions, sound, most, slowest, processor_secs }, .. } in &subjects {
        let rate = *executions as f64 / processor_secs.max(0.01);
        println!(
            "{name}: {executions} changed copies, {sound} still read, {rate:.0} per processor second, at most {most} bytes held, {slowest:.1} s"
        );
    }
    println!("{} executions in {:.0} s, seeds from {first}", total(&subjects), started.elapsed().as_secs_f64());
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Readers alone: fast, so that many executions are possible. Every fourth copy is changed without regard to its structure.
#[test]
fn changed_files_are_read_or_refused() {
    campaign(READ_TIMES, true, read_only);
}

/// Reading, stages, writing, reading back.
#[test]
fn files_that_are_wrong_inside() {
    campaign(TIMES, false, whole_path);
}

/// Every file that once failed, on the whole path.
#[test]
fn files_that_once_failed() {
    let _alone = ALONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    in_memory();
    let folder = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz_findings");
    let mut count = 0;
    for entry in std::fs::read_dir(kept).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending != "md") {
            let (_, held) = whole_path(&path, folder.path());
            let limit = MAX_GROWTH * std::fs::metadata(&path).unwrap().len() as usize + MAX_BESIDES;
            assert!(held <= limit, "{}: {held} bytes held", path.display());
            count += 1;
        }
    }
    assert!(count > 0);
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
