//! Root motion, loops, engine targets and levels of detail.

use std::path::Path;
use std::sync::Arc;

use bonesmith::targets::{Rule, Severity, TARGETS};
use bonesmith_core::{BoneKind, Model, Rig, SparseWeights, Surface, Topology};
use bonesmith_io::{load_rig, save_rig};
use glam::DAffine3;

use crate::harness::{bonesmith, folder, known, names, write_npz};

/// A walk: the known animation, moved along x, swinging once.
fn travelling(folder: &Path, frames: usize) {
    let mut rig = known(BoneKind::Rigid).rig;
    let bones = rig.bone_count();
    let rest = rig.clips[0].frame(3).to_vec();
    let clip = &mut rig.clips[0];
    clip.times_secs = (0..frames).map(|t| t as f64 / 30.0).collect();
    clip.posed_from_rest = (0..frames * bones)
        .map(|at| {
            let (t, j) = (at / bones, at % bones);
            let phase = std::f64::consts::TAU * t as f64 / (frames - 1) as f64;
            let swing = DAffine3::from_rotation_z(0.2 * phase.sin() * (1.0 + j as f64 / 4.0));
            let drift = DAffine3::from_rotation_y(1e-3 * t as f64);
            DAffine3::from_translation(glam::DVec3::X * 0.05 * t as f64) * drift * swing * rest[j]
        })
        .collect();
    save_rig(&rig, &folder.join("walk_rig.npz")).unwrap();
    let raw = Model::from(rig).view().baked(None).unwrap();
    write_npz(raw, &folder.join("travel.npz"));
}

fn root_of(rig: &Rig) -> usize {
    let roots: Vec<usize> = (0..rig.bone_count()).filter(|&j| rig.bones[j].parent.is_none()).collect();
    assert_eq!(roots.len(), 1);
    roots[0]
}

#[test]
fn the_root_takes_the_common_motion_and_vertices_stay() {
    let dir = folder();
    travelling(dir.path(), 25);
    let plain = bonesmith(dir.path(), "fit travel.npz --bones 4 -q --json - -o plain.glb").fine().json();
    let rooted =
        bonesmith(dir.path(), "fit travel.npz --bones 4 --root-motion plane -q --json - -o root.glb").fine().json();
    let (before, after) = (plain["e_rms"].as_f64().unwrap(), rooted["e_rms"].as_f64().unwrap());
    assert!((before - after).abs() < 1e-3 * before + 1e-3, "{before} {after}");
    let root = &rooted["root_motion"];
    assert_eq!((root["bone"].as_str(), root["in_place"].as_bool()), (Some("root"), Some(false)));
    assert!((root["clips"][0]["distance"].as_f64().unwrap() - 1.2).abs() < 0.1, "{root}");
    let rig = load_rig(&dir.path().join("root.glb")).unwrap();
    assert_eq!(rig.bones[root_of(&rig)].name, "root");
    let [first, last] = [0, 24].map(|t| rig.clips[0].frame(t)[root_of(&rig)].translation);
    assert!((last.x - first.x - 1.2).abs() < 0.1 && first.y == 0.0 && last.y == 0.0);

    let line = "fit travel.npz --bones 4 --root-motion plane --in-place -q --json - -o place.glb";
    let placed = bonesmith(dir.path(), line).fine().json();
    let error = placed["e_rms"].as_f64().unwrap();
    assert!((error - before).abs() < 1e-2 * before + 1e-3, "{before} {error}");
    let rig = load_rig(&dir.path().join("place.glb")).unwrap();
    let root = root_of(&rig);
    assert!((0..25).all(|t| rig.clips[0].frame(t)[root].abs_diff_eq(DAffine3::IDENTITY, 1e-6)));

    bonesmith(dir.path(), "fit travel.npz --in-place -o x.glb").refused(&["--in-place", "--root-motion"]);
    bonesmith(dir.path(), "convert travel.npz x.glb --root-motion full -q").refused(&["--root-motion", "animation"]);
    bonesmith(dir.path(), "fit travel.npz --loop-clips a -o x.glb").refused(&["--loop-clips", "--loop"]);
}

#[test]
fn loops_have_equal_ends() {
    let dir = folder();
    travelling(dir.path(), 41);
    let line = "fit travel.npz --bones 4 --root-motion plane --loop -q --json - -o loop.glb";
    let summary = bonesmith(dir.path(), line).fine().json();
    let seam = &summary["loops"][0];
    assert!(seam["before"].as_f64().unwrap() > 0.1, "{seam}");
    assert!(seam["after"].as_f64().unwrap() < 1e-2, "{seam}");
    assert_eq!((seam["loops"].as_bool(), seam["closing_frame"].as_bool()), (Some(true), Some(false)), "{seam}");
    let rig = load_rig(&dir.path().join("loop.glb")).unwrap();
    let (root, last) = (root_of(&rig), rig.clips[0].frame_count() - 1);
    for j in 0..rig.bone_count() {
        let own = |t: usize| rig.clips[0].frame(t)[root].inverse() * rig.clips[0].frame(t)[j];
        assert!(own(0).abs_diff_eq(own(last), 1e-5), "bone {j}");
    }
    // Without the root the model ends elsewhere.
    let away = bonesmith(dir.path(), "convert walk_rig.npz away.glb --loop").fine();
    assert!(away.stderr.contains("does not loop"), "{}", away.stderr);
    bonesmith(dir.path(), "convert walk_rig.npz x.glb --loop --loop-clips none -q").refused(&["none"]);
}

/// A rig with many of everything.
fn exceeding(folder: &Path) -> Rig {
    let mut rig = known(BoneKind::Trs).rig;
    let vertices = rig.vertex_count();
    let mut extra = Vec::new();
    for k in 0..300 {
        let mut bone = rig.bones[k % 4].clone();
        bone.name = format!("extra_{k}");
        extra.push(bone);
    }
    extra[0].name = rig.bones[0].name.to_uppercase();
    extra[1].name = "left:arm/1".to_owned();
    let before = rig.bone_count();
    rig.bones.extend(extra);
    let bones = rig.bone_count();
    let clip = &mut rig.clips[0];
    let frames = clip.posed_from_rest.chunks_exact(before);
    clip.posed_from_rest = frames.flat_map(|pose| (0..bones).map(|j| pose[j % before])).collect();
    for (t, secs) in clip.times_secs.iter_mut().enumerate() {
        *secs = (t * t) as f64 / 30.0;
    }
    let mut second = clip.clone();
    second.name = "second".to_owned();
    rig.clips.push(second);
    let mut weights = SparseWeights::new(vertices, 10);
    for i in 0..vertices {
        let row: Vec<(usize, f64)> =
            (0..10).map(|k| ((i * 7 + k * 31) % bones, 1.0 + 0.37 * ((i + k * k) % 5) as f64)).collect();
        weights.set(i, &row);
    }
    rig.weights = weights;
    rig.check().unwrap();
    save_rig(&rig, &folder.join("much.npz")).unwrap();
    rig
}

/// More triangles than any engine that counts them takes.
fn many_triangles(folder: &Path) {
    let mut rig = known(BoneKind::Rigid).rig;
    let faces: Vec<[u32; 3]> = (0..20_001).map(|f| [f % 7, 7 + f % 5, 12 + f % 3]).collect();
    rig.surface = Arc::new(Surface { topology: Topology::from_triangles(&faces), ..Surface::default() });
    save_rig(&rig, &folder.join("triangles.npz")).unwrap();
}

/// A mesh with the name of a bone.
fn one_name(folder: &Path) {
    let mut rig = known(BoneKind::Rigid).rig;
    rig.name.clone_from(&rig.bones[1].name);
    save_rig(&rig, &folder.join("names.fbx")).unwrap();
}

/// A file that exceeds a limit, and words of the limit as `check` states it.
fn exceeded(rule: Rule) -> (&'static str, String) {
    let much = |words: String| ("much.npz", words);
    match rule {
        Rule::Influences(most) => much(format!("at most {most} influences per vertex")),
        Rule::Joints(most) => much(format!("at most {most} joints")),
        Rule::Triangles(most) => ("triangles.npz", format!("at most {most} triangles")),
        Rule::WeightBits(bits) => much(format!("weights of {bits} bits")),
        Rule::WeightSums => ("bytes.gltf", "stored weights of 8 bits sum to 255".to_owned()),
        Rule::OneRoot => much("one root bone".to_owned()),
        Rule::RootAtOrigin => much("the root bone at the origin".to_owned()),
        Rule::FreeRoot => much("no vertex follows the root bone".to_owned()),
        Rule::NoScale => much("bones without scale".to_owned()),
        Rule::NamesIgnoreCase => much("names of bones that differ in more than case".to_owned()),
        Rule::NoCharacters(set) => much(format!("names of bones without {}", &set[..1])),
        Rule::OwnNames(_) => ("names.fbx", "no bone with the name of a mesh".to_owned()),
        Rule::Clips(most) => much(format!("at most {most} animation")),
        Rule::EvenFrames => much("evenly spaced frames".to_owned()),
        Rule::Files(_) => much("files ".to_owned()),
        other => panic!("no file exceeds {other:?}"),
    }
}

/// Every limit of every engine, each in a file that exceeds it: it is found, with its severity, its effect and its source.
#[test]
fn check_finds_each_limit() {
    let dir = folder();
    exceeding(dir.path());
    many_triangles(dir.path());
    one_name(dir.path());
    bytes_that_do_not_sum(dir.path());
    for target in TARGETS {
        for limit in target.limits {
            let (file, words) = exceeded(limit.rule);
            // An engine that does not import the file objects to that too.
            let run = bonesmith(dir.path(), &format!("check {file} --target {} --json -", target.name));
            assert_eq!(run.code, Some(1), "{} {file}: {}", target.name, run.stderr);
            let findings = run.json()["findings"].clone();
            let found = findings.as_array().unwrap().iter();
            let mut found = found.filter(|f| f["limit"].as_str().unwrap().contains(&words));
            let finding = found.next().unwrap_or_else(|| panic!("{} {file}: {words}\n{findings:#}", target.name));
            let severity = if limit.severity == Severity::Limit { "limit" } else { "advice" };
            assert_eq!(finding["severity"], severity, "{finding:#}");
            assert_eq!(finding["effect"], limit.effect);
            assert_eq!((&finding["source"], &finding["url"]), (&limit.source.title.into(), &limit.source.url.into()));
            assert_eq!(finding["target"], target.name);
        }
    }
    let run = bonesmith(dir.path(), "check much.npz --json -");
    assert_eq!((run.code, &run.json()["exceeded"]), (Some(1), &true.into()), "{}", run.stderr);
    let table = bonesmith(dir.path(), "check much.npz --target bevy,three");
    assert_eq!(table.code, Some(1));
    assert!(
        table.stdout.contains("helps: bonesmith reduce much.npz -o much_bevy.glb --influences 4"),
        "{}",
        table.stdout
    );
    assert!(table.stdout.contains("https://docs.rs/bevy_pbr"), "{}", table.stdout);
    bonesmith(dir.path(), "check no.glb").refused(&["no.glb"]);
}

/// three.js finds what curves of an FBX file move by name: bones get other names than meshes where that is asked for.
#[test]
fn bones_get_names_of_their_own() {
    let dir = folder();
    one_name(dir.path());
    let run = bonesmith(dir.path(), "check names.fbx --target three");
    assert_eq!(run.code, Some(1), "{}", run.stdout);
    let name = known(BoneKind::Rigid).rig.bones[1].name.clone();
    assert!(run.stdout.contains(&format!("{name:?}")) && run.stdout.contains("--target three"), "{}", run.stdout);
    let run = bonesmith(dir.path(), "convert names.fbx own.fbx --target three").fine();
    assert!(run.stderr.contains("1 bones renamed"), "{}", run.stderr);
    bonesmith(dir.path(), "check own.fbx --target three").fine();
    // glTF binds curves to nodes by number.
    bonesmith(dir.path(), "convert names.fbx same.glb --target three -q").fine();
    assert_eq!(load_rig(&dir.path().join("same.glb")).unwrap().bones[1].name, name);
}

/// A .gltf whose weights have 8 bits and do not sum to 255.
fn bytes_that_do_not_sum(folder: &Path) {
    let mut rig = known(BoneKind::Rigid).rig;
    let mut weights = SparseWeights::new(rig.vertex_count(), 2);
    (0..rig.vertex_count()).for_each(|i| weights.set(i, &[(0, 0.5), (1, 0.5)]));
    rig.weights = weights;
    let path = folder.join("bytes.gltf");
    save_rig(&rig, &path).unwrap();
    assert_eq!(bonesmith(folder, "check bytes.gltf --target gltf-strict").code, Some(0));
    // Floats become bytes: 127 + 127 are 254.
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let accessor = json["meshes"][0]["primitives"][0]["attributes"]["WEIGHTS_0"].as_u64().unwrap() as usize;
    let count = json["accessors"][accessor]["count"].as_u64().unwrap() as usize;
    let view = json["accessors"][accessor]["bufferView"].as_u64().unwrap() as usize;
    let start = json["bufferViews"][view]["byteOffset"].as_u64().unwrap_or(0) as usize;
    let bin = folder.join(json["buffers"][0]["uri"].as_str().unwrap());
    let mut bytes = std::fs::read(&bin).unwrap();
    (0..count).for_each(|i| bytes[start + 4 * i..start + 4 * i + 4].copy_from_slice(&[127, 127, 0, 0]));
    std::fs::write(&bin, bytes).unwrap();
    json["accessors"][accessor]["componentType"] = 5121.into();
    json["accessors"][accessor]["normalized"] = true.into();
    json["bufferViews"][view]["byteLength"] = (4 * count).into();
    json["bufferViews"][view].as_object_mut().unwrap().remove("byteStride");
    std::fs::write(&path, serde_json::to_vec(&json).unwrap()).unwrap();
}

#[test]
fn stored_weights_that_do_not_sum_to_one_are_found() {
    let dir = folder();
    bytes_that_do_not_sum(dir.path());
    let run = bonesmith(dir.path(), "check bytes.gltf --target gltf-strict --json -");
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let finding = &run.json()["findings"][0];
    assert_eq!(finding["value"], "254", "{finding}");
}

#[test]
fn targets_are_met_by_what_is_written() {
    let dir = folder();
    travelling(dir.path(), 13);
    for target in ["unreal", "godot", "three", "bevy", "roblox", "gltf-strict"] {
        let line = format!("fit travel.npz --bones 4 --target {target} -q -o {target}.glb");
        bonesmith(dir.path(), &line).fine();
        let run = bonesmith(dir.path(), &format!("check {target}.glb --target {target} --json -")).fine();
        let findings = run.json()["findings"].clone();
        assert_eq!(findings.as_array().unwrap().len(), 0, "{target}: {findings:#}");
    }
    // Stored as the engine stores them.
    for (target, bits) in [("unreal", 8), ("godot", 16), ("roblox", 8), ("bevy", 32)] {
        let stored = bonesmith_io::stored_skins(&dir.path().join(format!("{target}.glb"))).unwrap();
        assert!(stored.weights.iter().all(|weights| weights.bits == bits && weights.off == 0), "{target}: {stored:?}");
    }
    bonesmith(dir.path(), "convert walk_rig.npz unity.fbx --target unity -q").fine();
    bonesmith(dir.path(), "check unity.fbx --target unity").fine();
    bonesmith(dir.path(), "convert walk_rig.npz x.glb --target unity -q").refused(&["Unity", "GLB"]);
    bonesmith(dir.path(), "fit travel.npz --influences 8 --target bevy -o x.glb").refused(&["Bevy", "4 influences"]);
    bonesmith(dir.path(), "fit travel.npz --bone-kind affine --target roblox -o x.glb").refused(&["Roblox", "scale"]);
    let rig = exceeding(dir.path());
    bonesmith(dir.path(), "convert much.npz x.glb --target bevy -q").refused(&["influences"]);
    // Skins of the joints that are used, several where one would have too many.
    let line = "reduce much.npz --influences 4 -q -o four.npz";
    bonesmith(dir.path(), line).fine();
    bonesmith(dir.path(), "convert four.npz skins.glb --target bevy -q").fine();
    let stored = bonesmith_io::stored_skins(&dir.path().join("skins.glb")).unwrap();
    assert!(stored.skins.iter().all(|(_, joints)| *joints <= 256), "{:?}", stored.skins);
    bonesmith(dir.path(), "check skins.glb --target bevy").fine();
    assert!(rig.bone_count() > 256);
}

#[test]
fn info_lists_what_engines_object_to() {
    let dir = folder();
    let here = dir.path();
    exceeding(here);
    let engines = bonesmith(here, "info much.npz --json -").fine().json()["engines"].clone();
    let engines = engines.as_array().unwrap();
    assert_eq!(engines.len(), 7);
    for engine in engines {
        let name = engine["name"].as_str().unwrap();
        let line = format!("check much.npz --target {name} --json -");
        assert_eq!(engine["findings"], bonesmith(here, &line).json()["findings"], "{name}");
    }
    let table = bonesmith(here, "info much.npz").fine().stdout;
    assert!(table.contains("bevy: at most 256 joints per skin:"), "{table}");
    travelling(here, 13);
    assert!(bonesmith(here, "info travel.npz --json -").fine().json()["engines"].is_null());
}

#[test]
fn levels_share_one_animation() {
    let dir = folder();
    travelling(dir.path(), 13);
    let line = "lod walk_rig.npz --bones 4,3,2 --influences 4,2,1 --json - -q -o lods.glb";
    let summary = bonesmith(dir.path(), line).fine().json();
    let levels = summary["levels"].as_array().unwrap();
    assert_eq!(levels.iter().map(|level| level["bones"].as_u64().unwrap()).collect::<Vec<_>>(), [4, 3, 2]);
    let bytes = std::fs::read(dir.path().join("lods.glb")).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let json: serde_json::Value = serde_json::from_slice(&bytes[20..20 + length]).unwrap();
    assert_eq!(json["extensionsUsed"][0], "MSFT_lod");
    let finest = json["nodes"].as_array().unwrap().iter().find(|node| node["extensions"].is_object()).unwrap();
    let ids = finest["extensions"]["MSFT_lod"]["ids"].as_array().unwrap();
    assert_eq!(
        (ids.len(), json["skins"].as_array().unwrap().len(), json["animations"].as_array().unwrap().len()),
        (2, 1, 1)
    );
    assert!(ids.iter().all(|id| json["nodes"][id.as_u64().unwrap() as usize]["mesh"].is_number()));
    // Readers without the extension see the finest level.
    assert_eq!(load_rig(&dir.path().join("lods.glb")).unwrap().weights.max_influences(), 4);

    let line = "lod walk_rig.npz --bones 4,2 --influences 3,1 --separate --refit-motion --json - -q -o each.fbx";
    let each = bonesmith(dir.path(), line).fine().json();
    assert!(names(dir.path()).contains(&"each_lod1.fbx".to_owned()));
    for level in each["levels"].as_array().unwrap() {
        let (own, file) = (level["e_rms"].as_f64().unwrap(), level["file_e_rms"].as_f64().unwrap());
        assert!((own - file).abs() < 0.02 * own + 0.05, "{level}");
    }
    bonesmith(dir.path(), "lod walk_rig.npz --bones 2,4 -o x.glb").refused(&["--bones", "falling"]);
    bonesmith(dir.path(), "lod travel.npz -q -o x.glb").refused(&["travel.npz"]);
}

/// The mesh of the rig itself, as the mesh of a level: weights and errors are those of the level.
#[test]
fn a_mesh_of_its_own_gets_weights_from_the_surface() {
    let dir = folder();
    travelling(dir.path(), 13);
    let rig = load_rig(&dir.path().join("walk_rig.npz")).unwrap();
    let mut obj = String::new();
    for p in &rig.rest {
        obj += &format!("v {} {} {}\n", p.x, p.y, p.z);
    }
    for face in rig.surface.topology.faces() {
        let corners: Vec<String> = face.iter().map(|v| (v + 1).to_string()).collect();
        obj += &format!("f {}\n", corners.join(" "));
    }
    std::fs::write(dir.path().join("low.obj"), obj).unwrap();
    let line = "lod walk_rig.npz --bones 4,3 --influences 4,2 --json - -q";
    let same = bonesmith(dir.path(), &format!("{line} -o a.glb")).fine().json();
    let own = bonesmith(dir.path(), &format!("{line} --mesh-lod low.obj -o b.glb")).fine().json();
    let of = |summary: &serde_json::Value| summary["levels"][1]["e_rms"].as_f64().unwrap();
    assert!((of(&same) - of(&own)).abs() < 0.05 * of(&same) + 0.05, "{} {}", of(&same), of(&own));
    assert_eq!(own["levels"][1]["vertices"].as_u64().unwrap() as usize, rig.vertex_count());
}
