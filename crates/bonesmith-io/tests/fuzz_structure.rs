//! Files that are whole as containers and wrong inside: read, written in every format, read back.
//!
//! Mutators know what they change: values and members of JSON, arrays and their headers in a zip, words of records, crates
//! and Ogawa groups that are copied over each other. No panic; and what is written can be read.
//!
//! `BONESMITH_FUZZ=20000 cargo test --release -p bonesmith-io --test fuzz_structure -- --nocapture` is a long run; `scripts/fuzz`.
//! Deterministic: a failure names the file and the number of the change.

mod common;

use std::io::{Cursor, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use bonesmith_core::Model;
use bonesmith_io::{Format, LoadOptions, load_model, load_rig_normalised, save_model, save_rig, save_sequence};
use serde_json::Value;

use common::random::Random;

/// Changes of each file in the short run of every day.
const TIMES: usize = 60;

/// Changes one member of a JSON tree: the way down is drawn at random.
fn change_json(value: &mut Value, random: &mut Random) {
    let down = random.below(8) > 0;
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match (down, random.below(3)) {
                (true, _) => change_json(&mut items[at], random),
                (false, 0) => _ = items.remove(at),
                (false, 1) => items.push(items[at].clone()),
                _ => items.clear(),
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
            match down {
                true => members.get_mut(&key).into_iter().for_each(|member| change_json(member, random)),
                false => _ = members.remove(&key),
            }
        }
        Value::Number(_) => {
            let numbers = ["0", "-1", "1", "3", "5", "5126", "1e39", "-1e308", "65536", "4294967295", "1e-300"];
            *value = serde_json::from_str(numbers[random.below(numbers.len())]).unwrap();
        }
        Value::String(text) => {
            let texts = ["", "pointer", "rotation", "VEC3", "MAT4", "SCALAR", "a/../b", "data:,", "\u{1b}[2J"];
            *text = texts[random.below(texts.len())].into();
        }
        other => *other = Value::Null,
    }
}

fn change_glb(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let end = 20 + word(12);
    let mut json: Value = serde_json::from_slice(&bytes[20..end]).unwrap();
    (0..1 + random.below(3)).for_each(|_| change_json(&mut json, random));
    let mut text = json.to_string().into_bytes();
    text.resize(text.len().next_multiple_of(4), b' ');
    let rest = change_words(&bytes[end..], 4, 8, random);
    let mut out = b"glTF\x02\0\0\0".to_vec();
    out.extend(((20 + text.len() + rest.len()) as u32).to_le_bytes());
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(b"JSON");
    out.extend(text);
    out.extend(rest);
    out
}

/// Copies words over others, or sets them to extremes; the first `keep` bytes stay.
fn change_words(bytes: &[u8], width: usize, keep: usize, random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let words = out.len().saturating_sub(keep) / width;
    if words < 2 {
        return out;
    }
    for _ in 0..random.below(4) {
        let [from, to] = [0; 2].map(|_| keep + width * random.below(words));
        match random.below(3) {
            0 => out.copy_within(from..from + width, to),
            1 => out[to..to + width].fill(if random.below(2) == 0 { 0xff } else { 0 }),
            _ => out[to] = out[to].wrapping_add(1),
        }
    }
    out
}

/// One member of an archive changed, and packed anew with the right checksum.
fn change_zip(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let chosen = random.below(archive.len());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).unwrap();
        let name = member.name().unwrap().into_owned();
        let mut content = Vec::new();
        member.read_to_end(&mut content).unwrap();
        if at == chosen {
            match random.below(6) {
                0 => continue,
                1 => content.truncate(random.below(content.len())),
                2 => content = change_words(&content, 1, 10, random),
                _ => content = change_words(&content, [4, 8][random.below(2)], 128.min(content.len()), random),
            }
        }
        out.start_file(name, options.with_alignment(64)).unwrap();
        out.write_all(&content).unwrap();
    }
    out.finish().unwrap().into_inner()
}

fn change(ending: &str, bytes: &[u8], random: &mut Random) -> Vec<u8> {
    match ending {
        "glb" => change_glb(bytes, random),
        "npz" | "usdz" => change_zip(bytes, random),
        "usda" => change_words(bytes, 1 + random.below(6), 10, random),
        _ => change_words(bytes, [1, 4, 8][random.below(3)], 32, random),
    }
}

/// Reads a file; whatever it is then, it can be written where that is not refused, and read back.
fn whole_path(path: &Path, folder: &Path) -> bool {
    let _ = load_rig_normalised(path);
    let Ok(model) = load_model(&[path.to_owned()], &LoadOptions::default()) else { return false };
    model.view().check().expect("a reader gives sound models");
    let outputs = if matches!(model, Model::Sequence(_)) { Format::SEQUENCE_OUTPUTS } else { Format::RIG_OUTPUTS };
    for format in outputs {
        let out = folder.join(format!("out.{}", format.ending()));
        if save_model(&model, &out).is_ok()
            && let Err(error) = load_model(&[out], &LoadOptions::default())
        {
            panic!("what was written as {} cannot be read: {error}", format.ending());
        }
    }
    true
}

#[test]
fn files_that_are_wrong_inside() {
    let times: usize = std::env::var("BONESMITH_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(TIMES);
    let (own, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut files = Vec::new();
    for format in Format::RIG_OUTPUTS.iter().filter(|format| **format != Format::Gltf) {
        files.push(own.path().join(format!("rig.{}", format.ending())));
        save_rig(&common::rig(), files.last().unwrap()).unwrap();
    }
    for format in Format::SEQUENCE_OUTPUTS.iter().filter(|format| **format != Format::Gltf) {
        files.push(own.path().join(format!("sequence.{}", format.ending())));
        save_sequence(&common::sequence(3), files.last().unwrap()).unwrap();
    }
    let mut failures = Vec::new();
    for file in &files {
        let (bytes, name) = (std::fs::read(file).unwrap(), file.file_name().unwrap().to_string_lossy());
        let ending = file.extension().unwrap().to_str().unwrap();
        let path = folder.path().join(&*name);
        let (started, mut sound) = (Instant::now(), 0);
        for n in 0..times {
            let changed = change(ending, &bytes, &mut Random(0x9e37_79b9_7f4a_7c15 ^ ((n as u64 + 1) << 20)));
            std::fs::write(&path, changed).unwrap();
            match catch_unwind(AssertUnwindSafe(|| whole_path(&path, folder.path()))) {
                Ok(read) => sound += usize::from(read),
                Err(_) => failures.push(format!("{name}, change {n}")),
            }
        }
        let rate = times as f64 / started.elapsed().as_secs_f64();
        println!("{name}: {times} changed copies, {sound} still read, {rate:.0} per second");
    }
    assert!(failures.is_empty(), "{failures:?}");
}
