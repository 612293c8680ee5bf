//! Whatever is wrong, the answer is exit code 2, one line that says what and where, and no output file.

use bonesmith_core::BoneKind;
use bonesmith_core::synthetic::awkward;

use crate::harness::{bonesmith, folder, known, names, obj, pc2, walk, write_npz, write_objs};

const FIVE_VERTICES: &str = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nv 1 1 1\nf 1 2 3\nf 3 4 5\n";

#[test]
fn missing_files() {
    let dir = folder();
    bonesmith(dir.path(), "fit nothing.npz -o out.glb").refused(&["nothing.npz", "no such file"]);
    bonesmith(dir.path(), "fit -q nothing/*.obj -o out.glb").refused(&["nothing/*.obj"]);
    bonesmith(dir.path(), "eval nothing.glb nothing.npz").refused(&["nothing.glb", "no such file"]);
    bonesmith(dir.path(), "info nothing.npz").refused(&["nothing.npz"]);
    bonesmith(dir.path(), "convert nothing.npz out.npz").refused(&["nothing.npz"]);
    walk(dir.path());
    bonesmith(dir.path(), "fit walk.npz --rest tpose.obj -o out.glb").refused(&["tpose.obj"]);
    bonesmith(dir.path(), "fit walk.npz -o nowhere/out.glb").refused(&["nowhere", "no such folder"]);
    bonesmith(dir.path(), "fit walk.npz -o out.glb --json nowhere/out.json").refused(&["nowhere"]);
    assert_eq!(names(dir.path()), ["walk.npz"]);
}

#[test]
fn empty_files() {
    let dir = folder();
    for name in ["a.npz", "a.glb", "a.gltf", "a.obj", "a.ply", "a.pc2", "a.mdd"] {
        std::fs::write(dir.path().join(name), "").unwrap();
        bonesmith(dir.path(), &format!("fit -q {name} -o out.npz")).refused(&[name]);
        bonesmith(dir.path(), &format!("info -q {name}")).refused(&[name]);
    }
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    bonesmith(dir.path(), "fit -q empty -o out.npz").refused(&["empty"]);
}

/// Cut anywhere, a file is refused by its name.
#[test]
fn truncated_files() {
    let dir = folder();
    let at = |name: &str| dir.path().join(name);
    walk(dir.path());
    bonesmith(dir.path(), "fit -q walk.npz --bones 3 -o rig.glb").fine();
    let ply = "ply\nformat binary_little_endian 1.0\nelement vertex 4\nproperty float x\nproperty float y\n\
               property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n";
    let mut ply = ply.as_bytes().to_vec();
    ply.extend([0f32, 0., 0., 1., 0., 0., 0., 1., 0., 0., 0., 1.].iter().flat_map(|x| x.to_le_bytes()));
    ply.push(3);
    ply.extend([0i32, 1, 2].iter().flat_map(|x| x.to_le_bytes()));
    std::fs::write(at("whole.ply"), &ply).unwrap();
    bonesmith(dir.path(), "info -q whole.ply").fine();
    for (name, whole) in [
        ("walk.npz", std::fs::read(at("walk.npz")).unwrap()),
        ("rig.glb", std::fs::read(at("rig.glb")).unwrap()),
        ("whole.ply", ply),
    ] {
        let cut_name = format!("cut_{name}");
        for share in [1, 10, 50, 90, 99] {
            let cut = (whole.len() * share / 100).max(1).min(whole.len() - 1);
            std::fs::write(at(&cut_name), &whole[..cut]).unwrap();
            bonesmith(dir.path(), &format!("fit -q {cut_name} -o out.npz")).refused(&[&cut_name]);
        }
    }
    assert!(!at("out.npz").exists());
}

#[test]
fn not_a_number_names_frame_and_vertex() {
    let dir = folder();
    let sound = vec![[0f32, 0., 0.], [1., 0., 0.], [0., 1., 0.], [0., 0., 1.], [1., 1., 1.]];
    std::fs::write(dir.path().join("mesh.obj"), FIVE_VERTICES).unwrap();
    for (value, word) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf"), (f32::NEG_INFINITY, "-inf")] {
        let mut frames = vec![sound.clone(); 4];
        frames[2][3][1] = value;
        std::fs::write(dir.path().join("cache.pc2"), pc2(&frames, 5)).unwrap();
        bonesmith(dir.path(), "fit -q cache.pc2 mesh.obj -o out.npz").refused(&[
            "cache.pc2",
            "frame 2",
            "vertex 3",
            word,
        ]);
    }
    let raw = awkward::bending_tube();
    write_objs(&raw, &dir.path().join("walk"));
    let spoiled = obj(&raw, 7).replacen("v ", "v nan 0 0\nv ", 1);
    let spoiled: Vec<&str> = spoiled.lines().enumerate().filter(|(at, _)| *at != 1).map(|(_, l)| l).collect();
    std::fs::write(dir.path().join("walk/frame_7.obj"), spoiled.join("\n")).unwrap();
    bonesmith(dir.path(), "fit -q walk -o out.npz").refused(&["frame_7.obj"]);
}

#[test]
fn frames_that_do_not_fit_together() {
    let dir = folder();
    let raw = awkward::bending_tube();
    let frame = dir.path().join("walk/frame_4.obj");
    write_objs(&raw, &dir.path().join("walk"));
    std::fs::write(&frame, obj(&raw, 4) + "v 0 0 0\n").unwrap();
    bonesmith(dir.path(), "fit -q walk -o out.npz").refused(&["frame_4.obj", "49", "48"]);
    std::fs::write(&frame, obj(&raw, 4) + "f 1 2 3\n").unwrap();
    bonesmith(dir.path(), "fit -q walk -o out.npz").refused(&["frame_4.obj", "faces"]);
    std::fs::write(&frame, obj(&raw, 4)).unwrap();
    std::fs::write(dir.path().join("tpose.obj"), obj(&awkward::smallest(), 0)).unwrap();
    bonesmith(dir.path(), "fit -q walk --rest tpose.obj -o out.npz").refused(&["tpose.obj", "4 vertices", "48"]);
}

#[test]
fn faces_and_counts_out_of_range() {
    let dir = folder();
    let raw = awkward::smallest();
    std::fs::write(dir.path().join("a.obj"), obj(&raw, 0) + "f 1 2 99\n").unwrap();
    bonesmith(dir.path(), "fit -q a.obj -o out.npz").refused(&["a.obj", "99"]);
    std::fs::write(dir.path().join("b.obj"), "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n").unwrap();
    bonesmith(dir.path(), "fit -q b.obj -o out.npz").refused(&["3 vertices", "at least 4"]);
    std::fs::write(dir.path().join("c.pc2"), pc2(&[], 5)).unwrap();
    std::fs::write(dir.path().join("mesh.obj"), FIVE_VERTICES).unwrap();
    bonesmith(dir.path(), "fit -q c.pc2 mesh.obj -o out.npz").refused(&["c.pc2", "0 frames"]);
}

#[test]
fn numbers_of_bones() {
    let dir = folder();
    write_npz(awkward::smallest(), &dir.path().join("small.npz"));
    bonesmith(dir.path(), "fit -q small.npz --bones 0 -o out.npz").refused(&["--bones is 0"]);
    bonesmith(dir.path(), "fit -q small.npz --bones 5 -o out.npz").refused(&["5 bones", "4 vertices"]);
    assert_eq!(names(dir.path()), ["small.npz"]);
}

#[test]
fn options_out_of_range_or_without_meaning() {
    let dir = folder();
    walk(dir.path());
    for (options, words) in [
        ("--bones 3 --target-error 1", &["--bones", "--target-error"][..]),
        ("--method fsd --bone-kind rigid", &["--method fsd", "affine"]),
        ("--target-error 0", &["--target-error is 0"]),
        ("--target-error -2", &["--target-error is -2"]),
        ("--influences 0", &["--influences is 0"]),
        ("--influences 99", &["--influences is 99"]),
        ("--smooth -1", &["--smooth is -1"]),
        ("--tolerance 1", &["--tolerance is 1"]),
        ("--max-iterations 0", &["--max-iterations is 0"]),
        ("--max-seconds 0", &["--max-seconds is 0"]),
        ("--fps 0", &["--fps is 0"]),
        ("--threads 0", &["--threads is 0"]),
        ("--frames 5..5", &["--frames 5..5 is empty"]),
        ("--frames 5..99", &["--frames 5..99", "12 frames (0 to 11)"]),
        ("--rest 12", &["--rest 12", "12 frames (0 to 11)"]),
    ] {
        bonesmith(dir.path(), &format!("fit -q walk.npz -o out.npz {options}")).refused(words);
    }
    bonesmith(dir.path(), "fit -q walk.npz -o walk.npz").refused(&["also the input"]);
    bonesmith(dir.path(), "fit -q walk.npz -o out.stl").refused(&[".stl", ".glb, .gltf, .usda, .usdc, .usdz, .fbx"]);
    bonesmith(dir.path(), "fit -q walk.npz -o out").refused(&["no ending"]);
    assert_eq!(names(dir.path()), ["walk.npz"]);
}

/// Options of later versions and misspelt ones are refused by name.
#[test]
fn unknown_options() {
    let dir = folder();
    for options in ["--eigenskins 5", "--bonse 3", "--method dembones"] {
        let run = bonesmith(dir.path(), &format!("fit walk.npz -o out.glb {options}"));
        assert_eq!(run.code, Some(2), "{options}");
        assert!(run.stderr.starts_with("error: ") && run.stderr.contains(options.split(' ').next().unwrap()));
    }
}

#[test]
fn rigs_and_animations_that_do_not_match() {
    let dir = folder();
    walk(dir.path());
    write_npz(awkward::bending_tube(), &dir.path().join("tube.npz"));
    bonesmith_io::save_rig(&known(BoneKind::Affine).rig, &dir.path().join("rig.npz")).unwrap();
    bonesmith(dir.path(), "eval -q rig.npz tube.npz").refused(&["rig.npz", "48"]);
    bonesmith(dir.path(), "eval -q rig.npz walk.npz --frames 0..5").refused(&["12 frames", "5"]);
    bonesmith(dir.path(), "eval -q rig.npz walk.npz --clip run").refused(&["--clip run"]);
    bonesmith(dir.path(), "eval -q walk.npz walk.npz").refused(&["walk.npz"]);
    bonesmith(dir.path(), "convert -q rig.npz out.npz --frames 0..5").refused(&["--frames"]);
}
