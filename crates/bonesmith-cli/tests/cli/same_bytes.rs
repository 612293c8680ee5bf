//! Every command writes the same bytes with one thread and with three, and again in a second run.

use std::path::Path;

use bonesmith_core::synthetic::{PosedRigParams, posed_rig};

use crate::harness::{bonesmith, folder, names, walk, write_npz};

/// Commands that write files or print results: what they write, and `-q --json -` where they print.
const COMMANDS: [&str; 51] = [
    "fit walk.npz --bones 3 -o out.glb",
    "fit walk.npz -o out.usdc",
    "fit walk.npz --bones 3 --bone-kind affine --smooth 0.3 -o out.npz",
    "fit walk.npz --bones 3 --bone-kind trs --effort best -o out.fbx",
    "fit walk.npz --target-error 5 -o out.npz",
    "fit walk.npz --bones 2 --eigenskin 2 -o out.glb",
    "fit walk.npz --method fsd --bones 3 -o out.npz",
    "fit walk.npz --method ssdr --bones 3 -o out.npz",
    "fit walk.npz --method sma --bones 3 -o out.npz",
    "fit walk.npz --method sad --bones 3 -o out.npz",
    "fit walk.npz --method lssp --bones 3 -o out.npz",
    "fit walk.npz --method cpca --bones 3 -o out.npz",
    "fit walk.npz --method svd --bones 3 -o out.npz",
    "fit walk.npz --skeleton --bones 4 -o out.glb",
    "fit walk.npz --skeleton --skeleton-method schaefer --bones 4 -o out.glb",
    "fit walk.npz --rig rig.npz --solve both -o out.glb",
    "fit wall.npz --pieces nodes -o out.glb",
    "fit wall.npz --max-joints 40 -o out.glb",
    "fit walk.npz --bones 3 --norm max -o out.npz",
    "fit walk.npz --bones 3 --area --prune 0.1 --influences all -o out.npz",
    "fit walk.npz --skeleton --skeleton-method deaguiar --bones 4 -o out.npz",
    "fit walk.npz --skeleton --skeleton-method hasler --bones 4 -o out.npz",
    "fit walk.npz walk.npz --bones 3 -o out.npz",
    "fit walk.npz --rig rig.npz --solve weights --add-bones 2 -o out.npz",
    "sweep walk.npz --counts 1,2,3 -o out.csv",
    "reduce rig.npz --influences 2 -o out.glb",
    "reduce rig.npz --influences 2 --examples walk.npz --refit-motion -o out.npz",
    "reduce rig.npz --influences 2 --method smooth -o out.npz",
    "reduce rig.npz --influences 2 --method geometric -o out.npz",
    "reduce rig.npz --influences 2 --method k-largest -o out.npz",
    "reduce rig.npz --influences 2 --method poisson -o out.npz",
    "compress rig.npz --force -o out.glb",
    "compress rig.npz --force --examples walk.npz --shape runtime -o out.glb",
    "ddm rig.npz --rigid-bind -o out.npz",
    "ddm rig.npz --rigid-bind --compress 20 -o out.glb",
    "ddm rig.npz --rigid-bind --delta-mush -o out.abc",
    "convert rig.npz out.fbx",
    "convert rig.npz out.usdz",
    "convert rig.npz out.usda",
    "convert rig.npz out.abc --bake",
    "eval rig.npz walk.npz",
    "compare rig.npz rig.npz --against walk.npz",
    "info rig.npz",
    "shapes walk.npz --bones 4 --influences 3 --numbers 60 -o out.npz",
    "lod rig.npz --bones 3,2 --influences 2,1 -o out.glb",
    "lod rig.npz --bones 3,2 --influences 2,1 --examples walk.npz --refit-motion -o out.gltf",
    "fit walk.npz --bones 3 --compact -o out.glb",
    "convert rig.npz out.glb --compact",
    "fit walk.npz --bones 3 --root-motion full --loop -o out.npz",
    "fit walk.npz --bones 3 --target unreal -o out.fbx",
    "check rig.npz",
];

/// Files and printed results of one run; seconds left out.
fn outcome(folder: &Path, line: &str, threads: usize) -> Vec<(String, Vec<u8>)> {
    let prints = !line.contains(" -o ") && !line.starts_with("convert");
    let json = if prints { " --json -" } else { "" };
    let run = bonesmith(folder, &format!("{line} -q --threads {threads}{json}"));
    assert!(matches!(run.code, Some(0 | 1)), "{line}: {}", run.stderr);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("out.") {
            found.push((name, std::fs::read(&path).unwrap()));
            std::fs::remove_file(path).unwrap();
        }
    }
    if prints {
        let mut json = run.json();
        without_seconds(&mut json);
        found.push(("json".into(), json.to_string().into_bytes()));
    }
    assert!(!found.is_empty(), "{line} wrote nothing");
    found.sort();
    found
}

fn without_seconds(json: &mut serde_json::Value) {
    match json {
        serde_json::Value::Object(members) => {
            members.retain(|key, _| !["secs", "seconds", "peak"].iter().any(|word| key.contains(word)));
            members.values_mut().for_each(without_seconds);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(without_seconds),
        _ => {}
    }
}

/// A batch: the same rigs, records and results whatever the workers and their threads.
#[test]
fn a_batch_with_any_number_of_workers() {
    let dir = folder();
    walk(dir.path());
    let run = |workers: usize, threads: usize| {
        let jobs = "[[jobs]]\ninput = 'walk.npz'\n[[jobs]]\ninput = 'walk.npz'\nname = 'two'\nbones = 2\n";
        let jobs = format!("[defaults]\nbones = 3\nthreads = {threads}\n{jobs}");
        std::fs::write(dir.path().join("jobs.toml"), jobs).unwrap();
        bonesmith(dir.path(), &format!("batch jobs.toml -q --workers {workers}")).fine();
        let batch = dir.path().join("batch");
        let rigs: Vec<(String, Vec<u8>)> = names(&batch)
            .into_iter()
            .filter(|name| name.ends_with(".glb"))
            .map(|name| (name.clone(), std::fs::read(batch.join(name)).unwrap()))
            .collect();
        let mut results = serde_json::from_slice(&std::fs::read(batch.join("results.json")).unwrap()).unwrap();
        without_seconds(&mut results);
        std::fs::remove_dir_all(batch).unwrap();
        (rigs, results)
    };
    let (rigs, results): (Vec<_>, serde_json::Value) = run(1, 1);
    assert_eq!(rigs.len(), 2);
    assert!((rigs, results) == run(2, 3));
}

#[test]
fn every_command_with_any_number_of_threads() {
    let dir = folder();
    walk(dir.path());
    let dense = posed_rig(11, &PosedRigParams { bones: 4, influences: 4, frames: 12, detail: 2, ..Default::default() });
    bonesmith_io::save_rig(&dense.rig, &dir.path().join("rig.npz")).unwrap();
    write_npz(dense.sequence, &dir.path().join("walk.npz"));
    bonesmith(dir.path(), "demo -q --scene wall -o scene").fine();
    bonesmith(dir.path(), "convert -q scene/demo.glb wall.npz --bake").fine();
    let mut differing = Vec::new();
    for line in COMMANDS {
        let one = outcome(dir.path(), line, 1);
        if one != outcome(dir.path(), line, 3) {
            differing.push(format!("{line}: 3 threads"));
        }
        if one != outcome(dir.path(), line, 1) {
            differing.push(format!("{line}: a second run"));
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

/// A text with what `cut` takes away after each `mark`.
fn without(text: &str, mark: &str, cut: impl Fn(&str) -> &str) -> String {
    let mut parts = text.split(mark);
    let first = parts.next().unwrap_or_default();
    std::iter::once(first).chain(parts.map(cut)).collect::<Vec<_>>().join(mark)
}

/// A report differs between runs in the seconds that the work took and in its command line, and in nothing else.
#[test]
fn reports_differ_in_their_seconds_only() {
    let dir = folder();
    walk(dir.path());
    let report = |threads: usize| {
        bonesmith(dir.path(), &format!("fit -q walk.npz --bones 3 -o out.glb --report out.html --threads {threads}"))
            .fine();
        let text = std::fs::read_to_string(dir.path().join("out.html")).unwrap();
        // "secs":0.0123, "seconds":{...} of the summary, and "fitted to walk in 0.01 s".
        let number = |c: char| c.is_ascii_digit() || ".e-".contains(c);
        let whole = without(&text, "\"secs\":", |rest| rest.trim_start_matches(number));
        let whole = without(&whole, "\"seconds\":{", |rest| rest.split_once('}').map_or(rest, |(_, rest)| rest));
        // The command line names the threads.
        let whole = without(&whole, "\"command_line\":\"", |rest| rest.split_once('"').map_or(rest, |(_, rest)| rest));
        let words: Vec<&str> = whole.split(' ').collect();
        let secs = |w: usize| words[w].parse::<f64>().is_ok() && words.get(w + 1) == Some(&"s");
        (0..words.len()).filter(|&w| !secs(w)).map(|w| words[w]).collect::<Vec<_>>().join(" ")
    };
    let one = report(1);
    assert!(one == report(1) && one == report(3));
}
