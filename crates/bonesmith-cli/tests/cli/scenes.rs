//! Scenes of several meshes and clips through the binary.

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::mesh::surface::Material;
use bonesmith_core::{BlendShape, Clip, CorrectiveRig, Model, ModelRef, Part, PartNode, Parts, Rig, Surface};
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

/// One mesh of one frame gets no bones.
#[test]
fn a_still_mesh_is_no_rig() {
    let dir = folder();
    let body = known(bonesmith_core::BoneKind::Rigid).sequence;
    std::fs::write(dir.path().join("floor.obj"), crate::harness::obj(&body, 0)).unwrap();
    for ending in ["fbx", "glb", "usda"] {
        bonesmith(dir.path(), &format!("convert floor.obj floor.{ending} -q")).fine();
        let info = bonesmith(dir.path(), &format!("info floor.{ending} --json -")).fine().json();
        assert_eq!((info["frames"].as_u64(), info["bones"].as_u64()), (Some(1), None), "{ending}");
    }
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

/// An animation of positions keeps meshes, names, parents and clips.
#[test]
fn baked_scenes_stay_scenes() {
    let dir = folder();
    let here = dir.path();
    write_scene(here);
    bonesmith(here, "convert scene.glb baked.glb --bake -q").fine();
    let info = bonesmith(here, "info baked.glb --json -").fine().json();
    assert_eq!(clip_names(&info), [("walk".to_owned(), 8), ("wave".to_owned(), 4)]);
    let parents =
        |info: &Value| info["meshes"].as_array().unwrap().iter().map(|m| m["parents"].clone()).collect::<Vec<_>>();
    assert_eq!(parents(&info), parents(&bonesmith(here, "info scene.glb --json -").fine().json()));
    // The mesh that stands still has no morph targets.
    let bytes = std::fs::read(here.join("baked.glb")).unwrap();
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let json: Value = serde_json::from_slice(&bytes[20..20 + length]).unwrap();
    let targets = |mesh: usize| json["meshes"][mesh]["primitives"][0]["targets"].as_array().map_or(0, Vec::len);
    assert_eq!((targets(0), targets(1)), (12, 0));
    let positions = |file: &str| {
        let options = bonesmith_io::LoadOptions::default();
        bonesmith_io::load_sequence(&[here.join(file)], &options).unwrap().frames
    };
    for (t, (found, truth)) in positions("baked.glb").iter().zip(positions("scene.glb")).enumerate() {
        let worst = found.positions.iter().zip(&truth.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
        assert!(worst < 1e-5, "frame {t}: {worst}");
    }
    bonesmith(here, "convert scene.glb baked.usdc --bake -q").fine();
    let usd = bonesmith(here, "info baked.usdc --json -").fine().json();
    assert_eq!((clip_names(&usd), parents(&usd)), (clip_names(&info), parents(&info)));
    let said = bonesmith(here, "convert scene.glb baked.abc --bake").fine().stderr;
    assert!(said.contains("meshes of the scene"), "{said}");
}

/// A scene in which nothing moves goes through every format that holds scenes.
#[test]
fn still_scenes_are_converted() {
    let dir = folder();
    let here = dir.path();
    write_scene(here);
    bonesmith(here, "convert scene.glb still.npz --bake --frames 0..1 -q").fine();
    let mut previous = "still.npz".to_owned();
    for ending in ["glb", "usda", "fbx", "glb"] {
        let next = format!("from_{}.{ending}", previous.rsplit('.').next().unwrap());
        bonesmith(here, &format!("convert {previous} {next} -q")).fine();
        let info = bonesmith(here, &format!("info {next} --json -")).fine().json();
        let meshes: Vec<&str> =
            info["meshes"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
        assert_eq!((meshes, info["frames"].as_u64()), (vec!["hero", "statue"], Some(1)), "{next}");
        previous = next;
    }
}

/// Meshes that were not picked keep their bones, weights and motion; figures are those of the mesh that was fitted.
#[test]
fn others_are_kept_as_they_are() {
    let dir = folder();
    let here = dir.path();
    let source = two_heroes(here);
    let line = "fit scene.glb --mesh hero --bones 5 --effort fast -q --json -";
    let alone = bonesmith(here, &format!("{line} -o alone.glb")).fine().json();
    for ending in ["glb", "fbx", "usda"] {
        let kept = bonesmith(here, &format!("{line} --others keep -o kept.{ending}")).fine().json();
        let e = |summary: &Value| summary["e_rms"].as_f64().unwrap();
        assert!((e(&kept) - e(&alone)).abs() < 1e-3 * e(&alone), "{ending}: {} {}", e(&kept), e(&alone));
        let info = bonesmith(here, &format!("info kept.{ending} --json -")).fine().json();
        let names: Vec<&str> = info["meshes"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["hero", "twin"], "{ending}");
        assert_eq!(clip_names(&info), [("walk".to_owned(), 8), ("wave".to_owned(), 4)]);
        let rig = load_rig(&here.join(format!("kept.{ending}"))).unwrap();
        let n = source.vertex_count() / 2;
        for (clip, truth) in rig.clips.iter().zip(&source.clips) {
            for t in 0..clip.frame_count() {
                let pose = |rig: &Rig, clip: &Clip| bonesmith_core::deform::lbs(&rig.rest, &rig.weights, clip.frame(t));
                let (found, truth) = (pose(&rig, clip), pose(&source, truth));
                let worst = found[n..].iter().zip(&truth[n..]).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
                assert!(worst < 2e-4, "{ending}, {}, frame {t}: {worst}", clip.name);
            }
        }
    }
    bonesmith(here, "fit scene.glb --mesh hero,twin --others keep -o no.glb -q").refused(&["no others"]);
    bonesmith(here, "fit scene.glb --mesh hero --others keep --loop -o no.glb -q").refused(&["--others", "loops"]);
    bonesmith(here, "convert scene.glb baked.glb --bake -q").fine();
    bonesmith(here, "fit baked.glb --mesh hero --others keep -o no.glb -q").refused(&["--others"]);
    assert!(!here.join("no.glb").exists());
}

/// Shapes of the other meshes stay, those of the fitted ones are part of its motion.
#[test]
fn others_keep_their_shapes() {
    let dir = folder();
    let here = dir.path();
    let rig = two_heroes(here);
    let n = rig.vertex_count() / 2;
    let shape = |name: &str, vertices: std::ops::Range<usize>| {
        let moved =
            |i| if vertices.contains(&i) { glam::Vec3::new(0.0, 0.1 * (i % 7) as f32, 0.0) } else { glam::Vec3::ZERO };
        let weights = |clip: &bonesmith_core::Clip| {
            let last = clip.frame_count() as f32 - 1.0;
            (0..clip.frame_count()).map(|t| t as f32 / last).collect()
        };
        BlendShape {
            name: name.to_owned(),
            offsets: (0..2 * n).map(moved).collect(),
            weights: rig.clips.iter().map(weights).collect(),
        }
    };
    let source = CorrectiveRig { shapes: vec![shape("of_hero", 0..n), shape("of_twin", n..2 * n)], rig };
    bonesmith_io::save_model(&source, &here.join("shapes.glb")).unwrap();
    for ending in ["glb", "fbx", "usda"] {
        let line = format!("fit shapes.glb --mesh hero --others keep --bones 5 --effort fast -q -o kept.{ending}");
        bonesmith(here, &line).fine();
        let kept = bonesmith_io::load_model(&[here.join(format!("kept.{ending}"))], &Default::default()).unwrap();
        let Model::Corrective(kept) = kept else { panic!("{ending}: no shapes") };
        let names: Vec<&str> = kept.shapes.iter().map(|shape| shape.name.as_str()).collect();
        assert_eq!(names, ["of_twin"], "{ending}");
        let (found, truth) = (ModelRef::from(&kept).baked(None).unwrap(), ModelRef::from(&source).baked(None).unwrap());
        assert_eq!(found.frames.len(), truth.frames.len());
        for (found, truth) in found.frames.iter().zip(&truth.frames) {
            let pairs = found.positions[n..].iter().zip(&truth.positions[n..]);
            let worst = pairs.map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
            assert!(worst < 2e-4, "{ending}: {worst}");
        }
    }
}

/// Messages name the node and its mesh, the clip and its node.
#[test]
fn broken_scenes_are_refused() {
    let dir = folder();
    let here = dir.path();
    let rig = two_heroes(here);
    save_rig(&rig, &here.join("whole.gltf")).unwrap();
    let whole: Value = serde_json::from_slice(&std::fs::read(here.join("whole.gltf")).unwrap()).unwrap();
    let broken = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut json = whole.clone();
        change(&mut json);
        std::fs::write(here.join(name), serde_json::to_vec(&json).unwrap()).unwrap();
    };
    let number = |name: &str| {
        let nodes = whole["nodes"].as_array().unwrap();
        nodes.iter().position(|node| node["name"] == name).unwrap()
    };
    let (actors, hero) = (number("actors"), number("hero"));
    broken("cycle.gltf", &|json| {
        let children = json["nodes"][actors]["children"].as_array_mut().unwrap();
        children.retain(|child| *child != hero);
        json["nodes"][hero]["children"] = vec![hero].into();
    });
    broken("twice.gltf", &|json| json["nodes"][number("twin")]["children"] = vec![hero].into());
    broken("empty.gltf", &|json| {
        let input = json["animations"][1]["samplers"][0]["input"].as_u64().unwrap() as usize;
        json["accessors"][input]["count"] = 0.into();
    });
    for command in ["fit", "convert", "info"] {
        let line = |file: &str| match command {
            "info" => format!("info {file}"),
            "convert" => format!("convert {file} no.glb -q"),
            _ => format!("{command} {file} -o no.glb -q"),
        };
        let words = ["cycle.gltf", "cycle", "\"hero\"", "mesh \"hero_mesh\""];
        bonesmith(here, &line("cycle.gltf")).refused(&words);
        bonesmith(here, &line("twice.gltf")).refused(&["twice.gltf", "\"hero\"", "with mesh \"hero_mesh\"", "both"]);
        bonesmith(here, &line("empty.gltf")).refused(&["empty.gltf", "\"wave\"", "of node \""]);
    }
    assert!(!here.join("no.glb").exists());
}

/// Meshes of one kind that move are one mesh after a fit too, each moved by one bone.
#[test]
fn instances_stay_after_a_fit() {
    let dir = folder();
    let here = dir.path();
    let mut rig = write_scene(here);
    let n = rig.vertex_count() / 2;
    // Both meshes are bodies that move as a whole, each in its own way.
    let place = DAffine3::from_rotation_translation(glam::DQuat::from_rotation_x(0.4), glam::DVec3::X * 6.0);
    let bones = rig.bone_count();
    for i in 0..n {
        rig.rest[n + i] = place.transform_point3(rig.rest[i].as_dvec3()).as_vec3();
        rig.weights.set(i, &[(0, 1.0)]);
        rig.weights.set(n + i, &[(bones - 1, 1.0)]);
    }
    for clip in &mut rig.clips {
        for (t, frame) in clip.posed_from_rest.chunks_mut(bones).enumerate() {
            let turn = DAffine3::from_rotation_y(0.1 * t as f64);
            (frame[0], frame[bones - 1]) = (turn, place * turn * turn * place.inverse());
        }
    }
    let surface = Arc::make_mut(&mut rig.surface);
    surface.parts.nodes[2].world_from_node = place;
    surface.face_materials.fill(0);
    for part in &mut surface.parts.meshes {
        (part.mesh, part.still) = ("body".into(), false);
    }
    surface.parts.meshes[1].instance_of = Some(0);
    save_rig(&rig, &here.join("bodies.glb")).unwrap();
    for ending in ["glb", "usda", "fbx"] {
        let run = bonesmith(here, &format!("fit bodies.glb --bones 2 -o fitted.{ending} --json -")).fine();
        assert!(!run.stderr.contains("instances"), "{ending}: {}", run.stderr);
        assert!(run.json()["e_rms"].as_f64().unwrap() < 0.01, "{ending}: {}", run.json()["e_rms"]);
        let back = load_rig(&here.join(format!("fitted.{ending}"))).unwrap();
        assert_eq!(back.surface.parts.meshes[1].instance_of, Some(0), "{ending}");
        assert_eq!(back.bone_count(), 2, "{ending}");
        let names: Vec<&str> = back.clips.iter().map(|clip| clip.name.as_str()).collect();
        assert_eq!(names, ["walk", "wave"], "{ending}");
    }
    // Nodes that move and nothing else: one is fitted, the other is kept.
    bonesmith(here, "convert bodies.glb nodes.glb -q").fine();
    bonesmith(here, "fit nodes.glb --mesh hero --others keep --bones 1 -q -o kept.glb").fine();
    let kept = load_rig(&here.join("kept.glb")).unwrap();
    assert_eq!((kept.surface.parts.meshes.len(), kept.clips.len(), kept.bone_count()), (2, 2, 2));
    // Below a root bone that moves, they are no nodes beside it.
    bonesmith(here, "convert bodies.glb root.glb --root-motion plane -q").fine();
    let json = std::fs::read(here.join("root.glb")).unwrap();
    assert!(json.windows(7).any(|bytes| bytes == b"\"skins\""));
}

/// As [`write_scene`], with a second body that moves by bones of its own.
fn two_heroes(here: &Path) -> Rig {
    let mut rig = write_scene(here);
    let (n, bones) = (rig.vertex_count() / 2, rig.bone_count() - 1);
    rig.bones.truncate(bones);
    for j in 0..bones {
        let bone = rig.bones[j].clone();
        rig.bones.push(bonesmith_core::Bone {
            name: format!("twin_{}", bone.name),
            parent: bone.parent.map(|parent| parent + bones),
            ..bone
        });
    }
    for i in 0..n {
        let row: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (j + bones, f64::from(w))).collect();
        rig.weights.set(n + i, &row);
    }
    // The rest of the copy is beside the first body: its bones move it there and back.
    let there = DAffine3::from_translation(glam::DVec3::X * 5.0);
    for clip in &mut rig.clips {
        let frame = |own: &[DAffine3]| -> Vec<DAffine3> {
            let own = &own[..bones];
            own.iter().copied().chain(own.iter().map(|m| there * *m * there.inverse())).collect()
        };
        clip.posed_from_rest = clip.posed_from_rest.chunks(bones + 1).flat_map(frame).collect();
    }
    for bone in &mut rig.bones[bones..] {
        bone.world_from_bind = there * bone.world_from_bind;
    }
    let surface = Arc::make_mut(&mut rig.surface);
    surface.parts.nodes[2].name = "twin".into();
    surface.parts.meshes[1].mesh = "twin_mesh".into();
    save_rig(&rig, &here.join("scene.glb")).unwrap();
    rig
}

/// Every message names the file, the clip and the mesh.
#[test]
fn clips_of_other_scenes_are_refused() {
    let dir = folder();
    let here = dir.path();
    let mut rig = two_heroes(here);
    std::fs::copy(here.join("scene.glb"), here.join("first.glb")).unwrap();
    bonesmith(here, "fit scene.glb --mesh twin --bones 3 --effort fast -o twin.glb -q").fine();
    bonesmith(here, "fit first.glb twin.glb --bones 3 -o no.glb -q").refused(&["twin.glb", "walk", "hero, twin"]);
    // The second mesh has lost a face and its last vertices.
    let surface = Arc::make_mut(&mut rig.surface);
    let n = rig.rest.len() - 1;
    let faces: Vec<Vec<u32>> =
        surface.topology.faces().filter(|f| f.iter().all(|&i| (i as usize) < n)).map(<[u32]>::to_vec).collect();
    let lost = surface.topology.face_count() - faces.len();
    let mut topology = bonesmith_core::Topology::empty();
    faces.iter().for_each(|face| topology.push_face(face));
    surface.topology = topology;
    surface.face_materials.truncate(faces.len());
    surface.parts.meshes[1].faces -= lost;
    surface.parts.meshes[1].vertices -= 1;
    rig.rest.truncate(n);
    let mut weights = bonesmith_core::SparseWeights::new(n, rig.weights.max_influences());
    for i in 0..n {
        weights.set(i, &rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect::<Vec<_>>());
    }
    rig.weights = weights;
    save_rig(&rig, &here.join("less.glb")).unwrap();
    bonesmith(here, "fit first.glb less.glb --bones 3 -o no.glb -q").refused(&["less.glb", "walk", "\"twin\" has"]);
    assert!(!here.join("no.glb").exists());
}
