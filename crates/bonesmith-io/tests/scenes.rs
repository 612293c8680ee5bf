//! Scenes of several meshes and clips: what is written is what comes back, in every format that holds them.

mod common;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Bone, MeshSequence, Model, ModelRef, Rig};
use bonesmith_io::{
    Compact, LoadOptions, Packing, load_model, load_rig, load_sequence, save_compact, save_rig, save_sequence,
};
use common::{farthest, outline, scene};
use glam::{DAffine3, DQuat, DVec3};

fn written(rig: &Rig, name: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    save_rig(rig, &path).unwrap();
    (folder, path)
}

#[test]
fn meshes_nodes_materials_and_clips_come_back() {
    let rig = scene();
    for name in ["scene.glb", "scene.gltf", "scene.npz", "scene.fbx", "scene.usda", "scene.usdc", "scene.usdz"] {
        let (_folder, path) = written(&rig, name);
        let back = load_rig(&path).unwrap();
        assert_eq!(outline(&back.surface), outline(&rig.surface), "{name}");
        assert!(farthest(&rig, &back) < 1e-5, "{name}: {}", farthest(&rig, &back));
        let skeleton = back.surface.parts.skeleton.map(|node| back.surface.parts.nodes[node].name.as_str());
        assert_eq!(skeleton, Some("actor"), "{name}");
        let floor = back.surface.parts.nodes.iter().find(|node| node.name == "floor").unwrap();
        assert!(floor.world_from_node.abs_diff_eq(rig.surface.parts.nodes[5].world_from_node, 1e-6), "{name}");
        // Once more changes nothing.
        let (_folder, again) = written(&back, name);
        let again = load_rig(&again).unwrap();
        assert_eq!(outline(&again.surface), outline(&rig.surface), "{name}");
        assert_eq!(again.bone_count(), back.bone_count(), "{name}");
    }
}

#[test]
fn a_mesh_that_stands_still_has_no_skin() {
    let (_folder, path) = written(&scene(), "scene.gltf");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let node = |name: &str| json["nodes"].as_array().unwrap().iter().find(|node| node["name"] == name).unwrap();
    assert!(node("body")["skin"].is_u64() && node("hat")["skin"].is_u64());
    assert!(node("floor")["skin"].is_null() && node("floor")["mesh"].is_u64());
    let mesh = &json["meshes"][node("floor")["mesh"].as_u64().unwrap() as usize];
    assert_eq!(mesh["name"], "floor_mesh");
    assert!(mesh["primitives"][0]["attributes"]["TEXCOORD_0"].is_null());
    // A skin for each mesh that bones move.
    assert_eq!(json["skins"].as_array().unwrap().len(), 2);
}

/// Two nodes that show one mesh and stand still do so again.
#[test]
fn instances_stay_instances() {
    let mut rig = scene();
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    for part in &mut surface.parts.meshes[..2] {
        (part.still, part.mesh, part.uv_sets, part.colors) = (true, "one".into(), Vec::new(), false);
    }
    surface.parts.meshes[1].instance_of = Some(0);
    let (_folder, path) = written(&rig, "scene.gltf");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(json["meshes"].as_array().unwrap().len(), 2);
    // These two hang on a bone that does not move, the third mesh on one that does.
    (8..12).for_each(|i| rig.weights.set(i, &[(0, 1.0)]));
    std::sync::Arc::make_mut(&mut rig.surface).face_materials.fill(0);
    (0..8).for_each(|i| rig.weights.set(i, &[(2, 1.0)]));
    (0..4).for_each(|i| rig.rest[4 + i] = rig.rest[i] + glam::Vec3::Y);
    let up = DAffine3::from_translation(DVec3::Y);
    std::sync::Arc::make_mut(&mut rig.surface).parts.nodes[3].world_from_node = up;
    let (_folder, path) = written(&rig, "scene.fbx");
    let back = load_rig(&path).unwrap();
    assert_eq!(back.surface.parts.meshes[1].instance_of, Some(0));
    assert!(back.rest.iter().zip(&rig.rest).all(|(p, q)| p.distance(*q) < 1e-5), "{:?}", back.rest);
}

/// A scene whose second mesh is an instance of the first, elsewhere, on bones of its own: `rows` are the weights of each of four vertices of the first.
fn twins(rows: &[&[(usize, f64)]; 4], bones: [usize; 2]) -> Rig {
    let mut rig = scene();
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    let place = DAffine3::from_scale_rotation_translation(
        DVec3::splat(1.5),
        DQuat::from_rotation_z(0.7),
        DVec3::new(1.0, 4.0, 0.5),
    );
    surface.face_materials.fill(0);
    for part in &mut surface.parts.meshes[..2] {
        (part.mesh, part.uv_sets, part.colors) = ("one".into(), Vec::new(), false);
    }
    surface.parts.meshes[1].instance_of = Some(0);
    surface.parts.nodes[3].world_from_node = place;
    for (i, row) in rows.iter().enumerate() {
        rig.rest[4 + i] = place.transform_point3(rig.rest[i].as_dvec3()).as_vec3();
        rig.weights.set(i, row);
        let own: Vec<(usize, f64)> = row.iter().map(|(j, w)| (bones[*j], *w)).collect();
        rig.weights.set(4 + i, &own);
    }
    // The third mesh stands still on a bone of its own; a fourth bone moves as the second.
    rig.bones.push(Bone { name: "fourth".into(), ..rig.bones[1].clone() });
    for clip in &mut rig.clips {
        let frames = clip.posed_from_rest.chunks_exact(3);
        clip.posed_from_rest = frames.flat_map(|pose| [pose[0], pose[1], pose[2], pose[1]]).collect();
    }
    rig.check().unwrap();
    rig
}

/// How many meshes and how many skins a .gltf stores.
fn stored(rig: &Rig) -> (usize, usize) {
    let (_folder, path) = written(rig, "scene.gltf");
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    (json["meshes"].as_array().unwrap().len(), json["skins"].as_array().map_or(0, Vec::len))
}

/// Two nodes that show one mesh and each follow one bone: one mesh in every format, and nodes that move. Weights that differ make two meshes.
#[test]
fn instances_that_move_stay_instances() {
    let mut rig = twins(&[&[(0, 1.0)]; 4], [1, 1]);
    // On a skeleton they have skins.
    assert_eq!(stored(&rig), (2, 2));
    (rig.bones[1].parent, rig.bones[3].parent) = (None, None);
    assert_eq!(stored(&rig), (2, 0));
    for name in ["scene.gltf", "scene.glb", "scene.usda", "scene.usdc", "scene.usdz", "scene.fbx"] {
        let (_folder, path) = written(&rig, name);
        let bytes = std::fs::read(&path).unwrap();
        let count = |what: &[u8]| bytes.windows(what.len()).filter(|own| *own == what).count();
        match name {
            // One of the instances, and the mesh that stands still.
            "scene.usda" => assert_eq!([count(b"point3f[] points"), count(b"prepend references")], [2, 1]),
            "scene.fbx" => assert_eq!([count(b"\0\x01Geometry"), count(b"\0\x01SubDeformer")], [2, 0]),
            _ => {}
        }
        let back = load_rig(&path).unwrap();
        assert!(farthest(&rig, &back) < 1e-5, "{name}: {}", farthest(&rig, &back));
        assert_eq!(back.surface.parts.meshes[1].instance_of, Some(0), "{name}");
        assert!(back.rest.iter().zip(&rig.rest).all(|(p, q)| p.distance(*q) < 1e-5), "{name}: {:?}", back.rest);
        assert_eq!((back.kind, &back.params_json), (rig.kind, &rig.params_json), "{name}");
    }
    rig.weights.set(5, &[(1, 0.5), (0, 0.5)]);
    assert_eq!(stored(&rig).0, 3);
    for name in ["scene.gltf", "scene.usda", "scene.fbx"] {
        let (_folder, path) = written(&rig, name);
        assert!(farthest(&rig, &load_rig(&path).unwrap()) < 1e-5, "{name}");
    }
}

/// Instances that bend: one mesh and two skins in glTF, one prim and what refers to it in USD. In FBX a geometry has one skin: two of them, which are read as one.
#[test]
fn instances_that_bend_stay_instances() {
    let rig = twins(&[&[(0, 1.0)], &[(0, 0.5), (1, 0.5)], &[(1, 1.0)], &[(1, 0.75), (0, 0.25)]], [0, 3]);
    assert_eq!(stored(&rig), (2, 2));
    for name in ["scene.gltf", "scene.usda", "scene.usdc", "scene.fbx"] {
        let (_folder, path) = written(&rig, name);
        if name == "scene.usda" {
            assert_eq!(std::fs::read_to_string(&path).unwrap().matches("prepend references").count(), 1);
        }
        let back = load_rig(&path).unwrap();
        assert!(farthest(&rig, &back) < 1e-5, "{name}: {}", farthest(&rig, &back));
        assert_eq!(back.surface.parts.meshes[1].instance_of, Some(0), "{name}");
        assert_eq!(stored(&back), (2, 2), "{name}");
    }
}

/// Meshes whose bones are their own nodes have no skins and no bones beside them; `convert` reads nodes that move, not positions.
#[test]
fn nodes_that_move_stay_nodes() {
    let mut rig = twins(&[&[(0, 1.0)]; 4], [1, 1]);
    std::sync::Arc::make_mut(&mut rig.surface).parts.meshes[1].instance_of = None;
    (rig.bones[0].name, rig.bones[1].name) = ("body".into(), "hat".into());
    (rig.bones[1].parent, rig.bones[3].parent) = (None, None);
    assert_eq!(stored(&rig), (3, 0));
    let options = LoadOptions { keep_shapes: true, ..LoadOptions::default() };
    for name in ["scene.glb", "scene.fbx"] {
        let (_folder, path) = written(&rig, name);
        let Model::Rig(back) = load_model(&[path], &options).unwrap() else { panic!("{name}: no rig") };
        assert!(farthest(&rig, &back) < 1e-5, "{name}: {}", farthest(&rig, &back));
        let clips: Vec<&str> = back.clips.iter().map(|clip| clip.name.as_str()).collect();
        assert_eq!(clips, ["walk", "wave"], "{name}");
        assert!(["body", "hat"].iter().all(|name| back.bones.iter().any(|bone| bone.name == *name)), "{name}");
        assert_eq!(outline(&back.surface), outline(&rig.surface), "{name}");
    }
    // A bone below another one is no node of a mesh: its skin stays.
    rig.bones[1].parent = Some(0);
    assert_eq!(stored(&rig).1, 2);
}

/// Prims of a stage of another program that move, and refer to one prim.
#[test]
fn prims_that_move_stay_prims() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prims.usda");
    let text = r#"#usda 1.0
(
    timeCodesPerSecond = 24
)
def Xform "stage" {
    def Mesh "one" {
        int[] faceVertexCounts = [3]
        int[] faceVertexIndices = [0, 1, 2]
        point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
        double3 xformOp:translate.timeSamples = { 0: (0, 0, 0), 1: (1, 0, 0), 2: (2, 0, 0) }
        uniform token[] xformOpOrder = ["xformOp:translate"]
    }
    def Mesh "two" ( prepend references = </stage/one> ) {
        double3 xformOp:translate.timeSamples = { 0: (0, 5, 0), 2: (0, 5, 4) }
    }
}
"#;
    std::fs::write(&path, text).unwrap();
    let options = LoadOptions { keep_shapes: true, ..LoadOptions::default() };
    let Model::Rig(rig) = load_model(std::slice::from_ref(&path), &options).unwrap() else { panic!("no rig") };
    assert_eq!(rig.surface.parts.meshes[1].instance_of, Some(0));
    let Model::Sequence(sequence) = load_model(&[path], &LoadOptions::default()).unwrap() else {
        panic!("no sequence")
    };
    let posed = ModelRef::from(&rig).baked(None).unwrap();
    assert_eq!((posed.frames.len(), sequence.frame_count()), (3, 3));
    for t in 0..3 {
        let frame = sequence.frame(t);
        assert!(posed.frames[t].positions.iter().zip(frame.iter()).all(|(p, q)| p.distance(*q) < 1e-6), "frame {t}");
    }
    assert_eq!(stored(&rig), (1, 0));
}

/// An instance of an instance has a mesh of its own; so have those whose tangents differ.
#[test]
fn instances_of_instances_and_other_tangents() {
    let mut rig = scene();
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    let turn = |angle, x| DAffine3::from_rotation_translation(DQuat::from_rotation_z(angle), DVec3::new(x, 4.0, 0.5));
    let places = [DAffine3::IDENTITY, turn(0.7, 1.0), turn(1.9, -3.0)];
    surface.face_materials.fill(0);
    for (at, place) in places.iter().enumerate() {
        let part = &mut surface.parts.meshes[at];
        (part.mesh, part.uv_sets, part.colors) = ("one".into(), Vec::new(), false);
        part.instance_of = at.checked_sub(1);
        surface.parts.nodes[part.node].world_from_node = *place;
        for i in 0..4 {
            rig.rest[4 * at + i] = place.transform_point3(rig.rest[i].as_dvec3()).as_vec3();
            rig.weights.set(4 * at + i, &[(at, 1.0)]);
        }
    }
    for frame in rig.clips.iter_mut().flat_map(|clip| clip.posed_from_rest.chunks_mut(3)) {
        frame[2] = frame[1];
    }
    let meshes = |rig: &Rig| {
        let (_folder, path) = written(rig, "scene.gltf");
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(farthest(rig, &load_rig(&path).unwrap()) < 1e-5);
        json["meshes"].as_array().unwrap().len()
    };
    assert_eq!(meshes(&rig), 2);
    // The same direction on all: turned ones would be the same.
    let tangents = CornerAttribute { name: "TANGENT".into(), values: vec![[1.0, 0.0, 0.0, 1.0]], indices: vec![0; 36] };
    std::sync::Arc::make_mut(&mut rig.surface).tangents = Some(tangents);
    assert_eq!(meshes(&rig), 3);
}

/// The times of a stage are those of all its clips.
#[test]
fn a_stage_lasts_as_long_as_its_longest_clip() {
    let mut rig = scene();
    rig.clips.reverse();
    let (folder, path) = written(&rig, "scene.usda");
    let sequence = MeshSequence::try_from(load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap());
    let baked = folder.path().join("baked.usda");
    save_sequence(&sequence.unwrap(), &baked).unwrap();
    let last = rig.clips.iter().flat_map(|clip| &clip.times_secs).copied().fold(0.0, f64::max);
    for path in [path, baked] {
        let text = std::fs::read_to_string(&path).unwrap();
        let number = |key: &str| -> f64 {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(key)).unwrap();
            line.trim_start_matches([' ', '=']).parse().unwrap()
        };
        let found = number("endTimeCode") / number("timeCodesPerSecond");
        assert!((found - last).abs() < 1e-6 && number("startTimeCode") == 0.0, "{}: {found}", path.display());
    }
}

/// Several clips of positions are variants of a USD file; meshes that do not move are plain, in their places.
#[test]
fn baked_scenes_come_back_from_usd() {
    let (folder, path) = written(&scene(), "scene.glb");
    let sequence = MeshSequence::try_from(load_sequence(&[path], &LoadOptions::default()).unwrap()).unwrap();
    for name in ["baked.usda", "baked.usdc", "baked.usdz"] {
        let copy = folder.path().join(name);
        save_sequence(&sequence, &copy).unwrap();
        let Model::Sequence(back) = load_model(std::slice::from_ref(&copy), &LoadOptions::default()).unwrap() else {
            panic!("{name}: no sequence")
        };
        assert_eq!(back.clips(), sequence.clips(), "{name}");
        assert_eq!(outline(back.surface()), outline(sequence.surface()), "{name}");
        for t in 0..sequence.frame_count() {
            let (a, b) = (sequence.frame(t), back.frame(t));
            assert!(a.iter().zip(b.iter()).all(|(p, q)| p.distance(*q) < 1e-5), "{name}, frame {t}");
        }
        assert_eq!(back.still_meshes(), [false, false, true], "{name}");
        // The bake of a file of variants is the same.
        let again = MeshSequence::try_from(load_sequence(&[copy], &LoadOptions::default()).unwrap()).unwrap();
        assert_eq!(again.clips(), sequence.clips(), "{name}");
    }
}

#[test]
fn baked_clips_keep_names_and_times() {
    let (folder, path) = written(&scene(), "scene.glb");
    let raw = load_sequence(&[path], &LoadOptions::default()).unwrap();
    let clips: Vec<_> = raw.clips.iter().map(|clip| (clip.name.as_str(), clip.frames.clone())).collect();
    assert_eq!(clips, [("walk", 0..4), ("wave", 4..7)]);
    assert_eq!(raw.clips[1].times_secs, [0.0, 1.0 / 30.0, 2.0 / 30.0]);
    let sequence = MeshSequence::try_from(raw).unwrap();
    assert_eq!(sequence.still_meshes(), [false, false, true]);
    let copy = folder.path().join("copy.npz");
    save_sequence(&sequence, &copy).unwrap();
    let Model::Sequence(back) = load_model(&[copy], &LoadOptions::default()).unwrap() else { panic!("no sequence") };
    assert_eq!(back.clips(), sequence.clips());
    assert_eq!(outline(back.surface()), outline(sequence.surface()));
}

/// Every mesh of a scene has weights of its own.
#[test]
fn small_files_of_scenes_are_within_their_bound() {
    let (rig, folder) = (scene(), tempfile::tempdir().unwrap());
    let path = folder.path().join("scene.glb");
    for packing in [Packing::Ext, Packing::Plain] {
        let compact = Compact { rms: 1e-3, packing, numbered: true };
        save_compact(&rig, &path, &compact).unwrap();
        let back = load_rig(&path).unwrap();
        assert_eq!(back.surface.parts.meshes.len(), rig.surface.parts.meshes.len());
        assert!(farthest(&rig, &back) < 2e-2, "{packing:?}: {}", farthest(&rig, &back));
    }
}
