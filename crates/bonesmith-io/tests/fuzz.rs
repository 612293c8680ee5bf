//! Damaged copies of every sample file: no panic, no hang, no memory that the file does not warrant.
//!
//! Truncation at every 1/256th, single bits turned over, length fields set to extremes. Deterministic: a failure names the
//! file, the damage and the byte. Alone in its binary: it counts every byte that is held.
//!
//! `cargo test -p bonesmith-io --test fuzz` is the short run of every day; `BONESMITH_FUZZ=2000 cargo test --release -p
//! bonesmith-io --test fuzz -- --nocapture` damages each file 2000 times and prints a line for each.

mod common;
#[path = "common/counted.rs"]
mod counted;

use std::fs::OpenOptions;
use std::io::{Seek, SeekFrom, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use bonesmith_io::{LoadOptions, detect, list_meshes, load_model, save_rig, save_sequence};

use common::random::Random;
use counted::{HELD, MOST};

/// Endings of the files that are damaged; a new format is one more word here. Those that `detect` does not know are left
/// out. OBJ, PLY and npz have their own tests (`readers/hostile.rs`): text and checksums want other damage.
const ENDINGS: [&str; 9] = ["abc", "fbx", "glb", "mdd", "pc2", "usd", "usda", "usdc", "usdz"];
/// Most that a reader may hold: this many times the file, and this much besides.
const MAX_GROWTH: usize = 10;
const MAX_BESIDES: usize = 16 << 20;
/// A single read that takes longer hangs.
const HANG_SECS: u64 = 60;

/// Number of the read in progress, and what it is.
static READS: AtomicU64 = AtomicU64::new(0);
static NOW: Mutex<String> = Mutex::new(String::new());

/// What came of the damaged copies of one file.
#[derive(Default)]
struct Tally {
    reads: usize,
    taken_as_sound: usize,
    most_held: usize,
}

/// Reads a file all the way in, as `info` does.
fn read(path: &Path, file_bytes: usize, what: &str, tally: &mut Tally) -> bool {
    *NOW.lock().unwrap() = what.to_owned();
    READS.fetch_add(1, Ordering::Relaxed);
    let before = HELD.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _ = list_meshes(path);
        match load_model(&[path.to_owned()], &LoadOptions::default()) {
            Ok(model) => model.view().check().is_ok(),
            Err(error) => {
                let text = error.to_string();
                assert!(text.lines().count() == 1 && text.len() < 4096, "{text:?}");
                false
            }
        }
    }));
    let held = MOST.load(Ordering::Relaxed).saturating_sub(before);
    tally.reads += 1;
    tally.most_held = tally.most_held.max(held);
    let most = MAX_GROWTH * file_bytes + MAX_BESIDES;
    assert!(held <= most, "{what}: {held} bytes held, {most} are allowed for a file of {file_bytes}");
    let sound = outcome.unwrap_or_else(|_| panic!("{what}: panic in the reader"));
    tally.taken_as_sound += usize::from(sound);
    sound
}

/// Bytes at the end of a binary FBX file that hold nothing: two marks, a version and zeros.
const FBX_FOOT: usize = 160;

/// Streams in which a byte can stand for a thousand, and how much more of such files is held.
const COMPRESSED: [&[u8]; 2] = [b"meshopt_compression", b"draco_mesh_compression"];
const COMPRESSED_GROWTH: usize = 100;

/// Damages a copy of `original` in `folder` and reads it, `times` over.
fn damage(original: &Path, folder: &Path, times: usize) -> Tally {
    let bytes = std::fs::read(original).unwrap();
    let path = folder.join(original.file_name().unwrap());
    std::fs::write(&path, &bytes).unwrap();
    let name = original.file_name().unwrap().to_string_lossy();
    let mut tally = Tally::default();
    let names = |extension: &[u8]| bytes.windows(extension.len()).any(|part| part == extension);
    let file_bytes = bytes.len() * if COMPRESSED.iter().any(|own| names(own)) { COMPRESSED_GROWTH } else { 1 };
    // A file may name others beside it; here they are not.
    let sound = read(&path, file_bytes, &name, &mut tally);
    let lonely = ["pc2", "mdd"].iter().any(|ending| name.ends_with(ending));
    assert!(sound || lonely, "{name} is sound");
    let mut file = OpenOptions::new().write(true).open(&path).unwrap();
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ bytes.len() as u64);
    let mut put = |at: usize, new: &[u8]| {
        file.seek(SeekFrom::Start(at as u64)).unwrap();
        file.write_all(new).unwrap();
    };
    for _ in 0..times {
        let at = random.offset(bytes.len());
        if random.below(2) == 0 {
            let bit = random.below(8);
            put(at, &[bytes[at] ^ 1 << bit]);
            read(&path, file_bytes, &format!("{name}, bit {bit} of byte {at} turned over"), &mut tally);
            put(at, &bytes[at..=at]);
        } else {
            let extremes = [0, 1, 0x7fff_ffff, 0xffff_ffff, u64::MAX, 1 << 40, i64::MAX as u64, bytes.len() as u64];
            let (value, width) = (extremes[random.below(8)], [2, 4, 8][random.below(3)]);
            let end = (at + width).min(bytes.len());
            put(at, &value.to_le_bytes()[..end - at]);
            read(&path, file_bytes, &format!("{name}, {width} bytes from {at} on set to {value:#x}"), &mut tally);
            put(at, &bytes[at..end]);
        }
    }
    // From the end to the front, so that the copy is cut and never written again. Large files are cut less in a short run.
    let cuts = if times >= 256 || bytes.len() < 1 << 20 { 256 } else { 32 };
    for k in (0..cuts).rev() {
        let end = bytes.len() * k / cuts;
        file.set_len(end as u64).unwrap();
        let whole = read(&path, file_bytes, &format!("{name}, cut at {end}"), &mut tally);
        let is_foot = name.ends_with("fbx") && bytes.len() - end <= FBX_FOOT;
        assert!(!whole || is_foot || name.ends_with("usda"), "{name}, cut at {end}: a part was taken for the whole");
    }
    tally
}

/// Sample files: of the data folder, beside the tests, and some that we write.
fn corpus(own: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures"), own.to_owned()];
    folders.extend(common::data().map(|data| data.join("files")));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
            if path.is_dir() {
                folders.push(path);
            } else if ENDINGS.contains(&ending.as_str()) && detect(&path).is_ok() {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

#[test]
fn damaged_files() {
    let times: usize = std::env::var("BONESMITH_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for ending in bonesmith_io::Format::writing(bonesmith_core::ModelKind::Rig).iter().map(|format| format.ending()) {
        save_rig(&common::rig(), &own.path().join(format!("own_rig.{ending}"))).unwrap();
    }
    for ending in
        bonesmith_io::Format::writing(bonesmith_core::ModelKind::Sequence).iter().map(|format| format.ending())
    {
        save_sequence(&common::sequence(3), &own.path().join(format!("own_sequence.{ending}"))).unwrap();
    }
    std::thread::spawn(watch);
    let files = corpus(own.path());
    assert!(files.len() >= 6, "{files:?}");
    for file in &files {
        let bytes = std::fs::metadata(file).unwrap().len();
        let tally = damage(file, folder.path(), times);
        let growth = tally.most_held as f64 / bytes as f64;
        let (reads, sound) = (tally.reads, tally.taken_as_sound);
        let name = file.file_name().unwrap().to_string_lossy();
        println!(
            "{name}: {bytes} bytes, {reads} damaged copies read, {sound} still sound, at most {growth:.1} times its size held"
        );
    }
}

/// Ends the run, with the name of the damage, where one read takes far too long.
fn watch() {
    let mut last = 0;
    loop {
        std::thread::sleep(std::time::Duration::from_secs(HANG_SECS));
        let now = READS.load(Ordering::Relaxed);
        if now == last {
            let what = NOW.lock().map(|what| what.clone()).unwrap_or_default();
            let _ = std::io::stderr().write_all(format!("HANG: {what}\n").as_bytes());
            std::process::exit(101);
        }
        last = now;
    }
}
