//! `--memory`: positions that do not fit are read in blocks, or refused; the limit is kept, with both numbers.

use bonesmith_core::synthetic::{PosedRigParams, clownfish, posed_rig};

use crate::harness::{bonesmith, command, folder, names, obj, pc2, walk, write_npz};

#[test]
fn positions_beyond_the_limit_are_refused_before_they_are_read() {
    let dir = folder();
    // The header of 500 frames of 40,000 points, and a file of that size with nothing in it.
    let mut header = pc2(&[], 40_000);
    header[28..32].copy_from_slice(&500i32.to_le_bytes());
    let path = dir.path().join("big.pc2");
    std::fs::write(&path, header).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_len(32 + 500 * 40_000 * 12).unwrap();
    let points: String = (0..40_000).map(|i| format!("v {i} 0 0\n")).collect();
    std::fs::write(dir.path().join("big.obj"), points).unwrap();
    for line in
        ["fit big.pc2 --eigenskin 2", "fit big.pc2 --method ssdr", "fit big.pc2 --skeleton --skeleton-method hasler"]
    {
        bonesmith(dir.path(), &format!("{line} --memory 150M -q -o big.glb")).refused(&["240.00 MB", "150.00 MB"]);
    }
    walk(dir.path());
    bonesmith(dir.path(), "fit walk.npz --bones 4 -q -o rig.glb").fine();
    for line in ["lod rig.glb --bones 4,2", "reduce rig.glb --influences 2", "compress rig.glb"] {
        let line = format!("{line} --examples big.pc2 --memory 150M -q -o big.glb");
        bonesmith(dir.path(), &line).refused(&["240.00 MB", "150.00 MB"]);
    }
    assert_eq!(names(dir.path()), ["big.obj", "big.pc2", "rig.glb", "walk.npz"]);
}

/// 30 MB of positions in 70 MB, of which they may take 28.
#[test]
#[cfg(target_os = "linux")]
fn positions_that_do_not_fit_are_read_in_blocks() {
    let (dir, scratch) = (folder(), folder());
    let raw = posed_rig(3, &PosedRigParams { detail: 14, frames: 200, ..PosedRigParams::default() }).sequence;
    let bytes = 12 * raw.frames.len() * raw.frames[0].positions.len();
    assert!(bytes > 28_000_000, "{bytes}");
    std::fs::write(dir.path().join("rest.obj"), obj(&raw, 0)).unwrap();
    let points = raw.frames.iter().map(|frame| frame.positions.iter().map(|p| p.to_array()).collect());
    std::fs::write(dir.path().join("walk.pc2"), pc2(&points.collect::<Vec<_>>(), raw.frames[0].positions.len()))
        .unwrap();
    write_npz(raw, &dir.path().join("walk.npz"));
    let run = |line: &str| {
        let words = line.split_whitespace();
        let output = command().current_dir(dir.path()).args(words).env("TMPDIR", scratch.path()).output().unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(names(scratch.path()), [""; 0], "{line}");
        String::from_utf8(output.stdout).unwrap()
    };
    let peak =
        |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap()["peak_memory_bytes"].as_u64().unwrap();
    let fit = "--bones 6 --effort fast -q --json -";
    for input in ["walk.npz", "walk.pc2 rest.obj"] {
        let whole = peak(&run(&format!("fit {input} {fit} -o whole.glb")));
        let blocks = peak(&run(&format!("fit {input} {fit} --memory 70M -o blocks.glb")));
        let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
        assert!(read("whole.glb") == read("blocks.glb"), "{input}");
        assert!(blocks < 70_000_000 && blocks + 10_000_000 < whole, "{input}: {blocks} in blocks, {whole} at once");
    }
    let figures = |text: String| {
        let mut figures: serde_json::Value = serde_json::from_str(&text).unwrap();
        ["seconds", "peak_memory_bytes", "program_memory_bytes"].iter().for_each(|key| figures[key] = 0.into());
        figures
    };
    let eval = "eval whole.glb walk.npz --json - -q";
    assert_eq!(figures(run(eval)), figures(run(&format!("{eval} --memory 70M"))));
    for name in ["x.npz", "x.abc", "x.glb", "x.gltf", "x.usda", "x.usdc", "x.usdz"] {
        let [a, b] = ["70M", "8G"].map(|memory| {
            std::fs::create_dir(dir.path().join(memory)).unwrap();
            run(&format!("convert walk.npz {memory}/{name} -q --memory {memory}"));
            let made = names(&dir.path().join(memory));
            let read = |name: &String| std::fs::read(dir.path().join(memory).join(name)).unwrap();
            let bytes: Vec<_> = made.iter().map(read).collect();
            std::fs::remove_dir_all(dir.path().join(memory)).unwrap();
            (made, bytes)
        });
        assert!(a == b, "{name}");
    }
}

/// Every kind of fit, from positions of 46 MB in 110 MB: `walk.npz` alone, or two halves of it, of which the second one does not fit beside the first.
#[test]
#[cfg(target_os = "linux")]
fn fits_in_blocks_have_the_same_bytes() {
    let (dir, scratch) = (folder(), folder());
    let params = PosedRigParams { detail: 14, frames: 300, bones: 4, ..PosedRigParams::default() };
    let known = posed_rig(3, &params);
    let mut half = known.sequence.clone();
    assert!(12 * half.frames.len() * half.frames[0].positions.len() > 44_000_000);
    half.frames.truncate(150);
    half.times_secs.truncate(150);
    write_npz(half.clone(), &dir.path().join("first.npz"));
    half.frames.clone_from_slice(&known.sequence.frames[150..]);
    write_npz(half, &dir.path().join("second.npz"));
    write_npz(known.sequence, &dir.path().join("walk.npz"));
    let run = |line: &str| {
        let output = command()
            .current_dir(dir.path())
            .args(line.split_whitespace())
            .env("TMPDIR", scratch.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}\n{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(names(scratch.path()), [""; 0], "{line}");
        output.stdout
    };
    run("fit walk.npz --bones 4 --effort fast -q -o rig.glb");
    for (line, output) in [
        ("fit walk.npz --skeleton --effort fast", "glb"),
        ("fit walk.npz --bones 3 --effort fast --smooth 0.5", "npz"),
        (
            "fit walk.npz --bones 3 --effort fast --root-motion full --in-place --loop --report fit.html --report-max-mb 4",
            "glb",
        ),
        ("fit walk.npz --bones 3 --effort fast --compact", "glb"),
        ("fit walk.npz --rig rig.glb --solve weights", "glb"),
        ("fit walk.npz --rig rig.glb --solve motion --report refit.html --report-max-mb 4", "glb"),
        ("fit first.npz second.npz --bones 3 --effort fast --compact", "glb"),
        ("fit first.npz second.npz --rig rig.glb --rig-clip none --max-iterations 1", "glb"),
    ] {
        run(&format!("{line} -q -o whole.{output}"));
        let stored = run(&format!("{line} -q -o blocks.{output} --memory 110M --json -"));
        let peak = serde_json::from_slice::<serde_json::Value>(&stored).unwrap()["peak_memory_bytes"].as_u64().unwrap();
        assert!(peak < 110_000_000, "{line}: {peak}");
        let read = |name: &str| std::fs::read(dir.path().join(format!("{name}.{output}"))).unwrap();
        assert!(read("whole") == read("blocks"), "{line}");
    }
    let sweep = "sweep walk.npz --counts 1,2 --effort fast -q --json -";
    assert!(run(sweep) == run(&format!("{sweep} --memory 110M")));
}

/// A scratch file that cannot grow is an error, and nothing is written.
#[test]
#[cfg(target_os = "linux")]
fn a_scratch_file_that_cannot_be_written_is_an_error() {
    let dir = folder();
    let raw = posed_rig(3, &PosedRigParams { detail: 14, frames: 200, ..PosedRigParams::default() }).sequence;
    write_npz(raw, &dir.path().join("walk.npz"));
    // In blocks of 1024 bytes.
    let line =
        format!("ulimit -f 4000; exec {} fit walk.npz --memory 70M -q -o x.glb", env!("CARGO_BIN_EXE_bonesmith"));
    let output = std::process::Command::new("bash").current_dir(dir.path()).args(["-c", &line]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.starts_with("error: ") && text.contains("scratch file"), "{text}");
    assert_eq!(names(dir.path()), ["walk.npz"]);
}

#[test]
#[cfg(target_os = "linux")]
fn work_beyond_the_limit_ends_with_nothing_written() {
    let dir = folder();
    write_npz(clownfish(), &dir.path().join("fish.npz"));
    let run = bonesmith(dir.path(), "fit fish.npz --memory 9M -o fish.glb");
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("the limit is 9.00 MB"), "{}", run.stderr);
    assert_eq!(names(dir.path()), ["fish.npz"]);
}

#[test]
fn enough_memory_changes_nothing() {
    let dir = folder();
    walk(dir.path());
    bonesmith(dir.path(), "fit walk.npz --bones 3 -q -o a.glb").fine();
    bonesmith(dir.path(), "fit walk.npz --bones 3 -q --memory 2GiB -o b.glb").fine();
    let read = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    assert_eq!(read("a.glb"), read("b.glb"));
    let wrong = bonesmith(dir.path(), "fit walk.npz --memory lots -o c.glb");
    assert!(wrong.code == Some(2) && wrong.stderr.contains("it must be a size such as 500M"), "{}", wrong.stderr);
}
