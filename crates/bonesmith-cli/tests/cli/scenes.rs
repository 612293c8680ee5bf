//! Scenes of several meshes and clips through the binary.

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::mesh::surface::Material;
use bonesmith_core::{Clip, Part, PartNode, Parts, Rig, Surface};
use bonesmith_io::{load_rig, save_rig};
use glam::DAffine3;
use serde_json::Value;

use crate::harness::{bonesmith, folder, known};

/// `scene.glb`: the known body, twice, below one node, with a material each; the second does not move. Clips `walk` of 8 frames and `wave` of 4.
fn write_scene(here: &Path) -> Rig {
    let mut rig = known(bonesmith_core::BoneKind::Rigid).rig;
    let (n, bones) = (rig.vertex_count(), rig.bone_count());
    let mut topology = rig.surface.topology.clone();
    let copies: Vec<Vec<u32>> = topology.faces().map(|f| f.iter().map(|i| i + n as u32).collect()).collect();
    let faces = copies.len();
    copies.iter().for_each(|face| topology.push_face(face));
    rig.rest.extend_from_within(..);
    rig.rest[n..].iter_mut().for_each(|p| p.x += 5.0);
    let mut weights = bonesmith_core::SparseWeights::new(2 * n, rig.weights.max_influences());
    for i in 0..n {
        weights.set(i, &rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect::<Vec<_>>());
        weights.set(n + i, &[(bones, 1.0)]);
    }
    rig.weights = weights;
    let still = bonesmith_core::Bone { name: "still".into(), parent: None, ..rig.bones[0].clone() };
    rig.bones.push(still);
    let whole = rig.clips.remove(0);
    let clip = |name: &str, frames: std::ops::Range<usize>, fps: f64| Clip {
        name: name.into(),
        times_secs: (0..frames.len()).map(|t| t as f64 / fps).collect(),
        posed_from_rest: frames.flat_map(|t| [whole.frame(t), &[DAffine3::IDENTITY]].concat()).collect(),
    };
    rig.clips = vec![clip("walk", 0..8, 24.0), clip("wave", 8..12, 30.0)];
    let node = |name: &str, parent| PartNode { name: name.into(), parent, world_from_node: DAffine3::IDENTITY };
    let part = |node: usize, mesh: &str| Part {
        node,
        mesh: mesh.into(),
        vertices: n,
        faces,
        uv_sets: Vec::new(),
        colors: false,
        still: false,
        instance_of: None,
    };
    let material = |name: &str| Material { name: name.into(), ..Material::default() };
    rig.surface = Arc::new(Surface {
        topology,
        face_materials: [vec![0; faces], vec![1; faces]].concat(),
        materials: vec![material("skin"), material("stone")],
        parts: Parts {
            nodes: vec![node("actors", None), node("hero", Some(0)), node("statue", Some(0))],
            meshes: vec![part(1, "hero_mesh"), part(2, "statue_mesh")],
            skeleton: Some(0),
        },
        ..Surface::default()
    });
    save_rig(&rig, &here.join("scene.glb")).unwrap();
    rig
}

fn clip_names(info: &Value) -> Vec<(String, u64)> {
    let clips = info["clips"].as_array().expect("clips");
    clips.iter().map(|c| (c["name"].as_str().unwrap().to_owned(), c["frames"].as_u64().unwrap())).collect()
}

/// One set of weights for all clips; meshes, names, parents and materials as they were.
#[test]
fn a_fit_gives_the_scene_back() {
    let dir = folder();
    let here = dir.path();
    let source = write_scene(here);
    let summary = bonesmith(here, "fit scene.glb --bones 6 -o rig.glb -q --json -").fine().json();
    assert_eq!(clip_names(&summary), [("walk".to_owned(), 8), ("wave".to_owned(), 4)]);
    assert!(summary["e_rms"].as_f64().unwrap() < 1.0, "{}", summary["e_rms"]);
    let rig = load_rig(&here.join("rig.glb")).unwrap();
    let names = |rig: &Rig| rig.surface.parts.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&rig), names(&source));
    assert_eq!(
        rig.surface.parts.meshes.iter().map(|part| part.mesh.as_str()).collect::<Vec<_>>(),
        ["hero_mesh", "statue_mesh"]
    );
    let times = |rig: &Rig| rig.clips.iter().map(|clip| clip.times_secs.clone()).collect::<Vec<_>>();
    assert_eq!(times(&rig), times(&source));
    let info = bonesmith(here, "info rig.glb --json -").fine().json();
    assert_eq!(info["meshes"][1]["name"], "statue");
    assert_eq!(info["meshes"][1]["parents"][0], "actors");
    assert_eq!(info["meshes"][1]["materials"][0], "stone");
    let table = bonesmith(here, "info rig.glb").fine().stdout;
    assert!(table.contains("actors / hero: skin") && table.contains("wave: 4 frames"), "{table}");
    // What does not move has no skin, and is where it was.
    let n = source.vertex_count() / 2;
    assert_eq!(rig.rest[n..], source.rest[n..]);
    let eval = bonesmith(here, "eval rig.glb scene.glb --json -").fine().json();
    assert!((eval["e_rms"].as_f64().unwrap() - summary["e_rms"].as_f64().unwrap()).abs() < 1e-3);
}

/// Objects with a cache each; one of a single frame stands still.
#[test]
fn parts_are_one_scene() {
    let dir = folder();
    let here = dir.path();
    let body = known(bonesmith_core::BoneKind::Rigid).sequence;
    let mut hat = body.clone();
    hat.frames.iter_mut().flat_map(|frame| &mut frame.positions).for_each(|p| p.y += 3.0);
    hat.rest = None;
    let short = bonesmith_core::RawSequence {
        frames: hat.frames[..3].to_vec(),
        times_secs: hat.times_secs[..3].to_vec(),
        ..hat.clone()
    };
    crate::harness::write_npz(body.clone(), &here.join("body.npz"));
    crate::harness::write_npz(hat, &here.join("hat.npz"));
    crate::harness::write_npz(short, &here.join("short.npz"));
    std::fs::write(here.join("floor.obj"), crate::harness::obj(&body, 0)).unwrap();
    let line = "fit --part body=body.npz --part hat=hat.npz --part floor=floor.obj --bones 12 -o all.glb -q --json -";
    let summary = bonesmith(here, line).fine().json();
    assert!(summary["e_rms"].as_f64().unwrap() < 5.0, "{}", summary["e_rms"]);
    let info = bonesmith(here, "info all.glb --json -").fine().json();
    let names: Vec<&str> = info["meshes"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["body", "hat", "floor"]);
    let rig = load_rig(&here.join("all.glb")).unwrap();
    let floor = rig.vertex_count() / 3 * 2;
    assert!(rig.rest[floor..].iter().zip(&body.frames[0].positions).all(|(p, q)| p.distance(*q) < 1e-5));
    let line = "fit --part body=body.npz --part hat=short.npz -o no.glb -q";
    bonesmith(here, line).refused(&["\"hat\" has 3 frames", "\"body\" has 12"]);
    bonesmith(here, "fit --part body.npz -o no.glb -q").refused(&["--part body.npz"]);
}

#[test]
fn meshes_are_picked_by_name() {
    let dir = folder();
    let here = dir.path();
    write_scene(here);
    for ending in ["glb", "fbx", "usda"] {
        bonesmith(here, &format!("convert scene.glb all.{ending} -q")).fine();
        let meshes = |choice: &str| {
            let info = bonesmith(here, &format!("info all.{ending} --mesh {choice} --json -")).fine().json();
            info["vertices"].as_u64().unwrap()
        };
        assert_eq!(meshes("hero,statue"), 2 * meshes("statue"), "{ending}");
        bonesmith(here, &format!("info all.{ending} --mesh hero,nobody"))
            .refused(&["no mesh is named \"nobody\"", "statue"]);
    }
}

#[test]
fn clips_are_picked_by_name() {
    let dir = folder();
    let here = dir.path();
    write_scene(here);
    bonesmith(here, "fit scene.glb --bones 4 --effort fast --clips wave -o rig.glb -q").fine();
    let info = bonesmith(here, "info rig.glb --json -").fine().json();
    assert_eq!(clip_names(&info), [("wave".to_owned(), 4)]);
    bonesmith(here, "convert scene.glb both.npz --bake -q").fine();
    let info = bonesmith(here, "info both.npz --json -").fine().json();
    assert_eq!(clip_names(&info), [("walk".to_owned(), 8), ("wave".to_owned(), 4)]);
    bonesmith(here, "fit scene.glb --clips walk,fly -o no.glb -q").refused(&["--clips fly", "walk, wave"]);
    assert!(!here.join("no.glb").exists());
    // Several animations of one file are clips beside those of other files.
    bonesmith(here, "convert scene.glb jump.npz --bake --clip walk -q").fine();
    let line = "fit scene.glb jump.npz --bones 4 --effort fast -o three.glb -q --json -";
    let clips = clip_names(&bonesmith(here, line).fine().json());
    assert_eq!(clips, [("walk".to_owned(), 8), ("wave".to_owned(), 4), ("jump".to_owned(), 8)]);
}
