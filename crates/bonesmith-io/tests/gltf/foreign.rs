//! Files as other programs write them, made by hand: quantised, sparse, stripped, scaled.

use std::path::PathBuf;

use base64::Engine;
use bonesmith_core::deform::lbs;
use bonesmith_core::{Model, RawSequence};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence};
use glam::Vec3;
use serde_json::{Value, json};

/// A document with one growing buffer.
struct Draft {
    json: Value,
    bin: Vec<u8>,
    folder: tempfile::TempDir,
}

impl Draft {
    fn new(json: Value) -> Self {
        Self { json, bin: Vec::new(), folder: tempfile::tempdir().unwrap() }
    }

    fn view(&mut self, bytes: &[u8]) -> usize {
        self.bin.resize(self.bin.len().next_multiple_of(4), 0);
        let view = json!({ "buffer": 0, "byteOffset": self.bin.len(), "byteLength": bytes.len() });
        self.bin.extend_from_slice(bytes);
        push(&mut self.json["bufferViews"], view)
    }

    fn accessor(&mut self, bytes: &[u8], component: u32, kind: &str, count: usize, normalized: bool) -> usize {
        let view = self.view(bytes);
        let accessor = json!({
            "bufferView": view, "componentType": component, "type": kind, "count": count, "normalized": normalized,
        });
        push(&mut self.json["accessors"], accessor)
    }

    fn floats(&mut self, values: &[f32], kind: &str) -> usize {
        let width = match kind {
            "SCALAR" => 1,
            "VEC3" => 3,
            "VEC4" => 4,
            _ => 16,
        };
        let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.accessor(&bytes, 5126, kind, values.len() / width, false)
    }

    fn write(&mut self) -> PathBuf {
        let data = base64::engine::general_purpose::STANDARD.encode(&self.bin);
        self.json["asset"] = json!({ "version": "2.0" });
        let uri = format!("data:application/octet-stream;base64,{data}");
        self.json["buffers"] = json!([{ "byteLength": self.bin.len(), "uri": uri }]);
        let path = self.folder.path().join("foreign.gltf");
        std::fs::write(&path, self.json.to_string()).unwrap();
        path
    }
}

fn push(list: &mut Value, item: Value) -> usize {
    if list.is_null() {
        *list = json!([]);
    }
    let list = list.as_array_mut().unwrap();
    list.push(item);
    list.len() - 1
}

fn baked(path: PathBuf) -> RawSequence {
    load_sequence(&[path], &LoadOptions::default()).unwrap()
}

/// A strip of four quantised vertices, moved by a stepped animation of a sparse morph target and by their node.
#[test]
fn quantised_sparse_and_stepped() {
    let mut draft = Draft::new(json!({
        "extensionsRequired": ["KHR_mesh_quantization"],
        "scenes": [{ "nodes": [0] }],
        "nodes": [{ "children": [1], "translation": [0, 0, 5] }, { "mesh": 0, "scale": [-2, 2, 2] }],
    }));
    let corners: [[i16; 4]; 4] = [[0, 0, 0, 0], [32767, 0, 0, 0], [0, 32767, 0, 0], [32767, 32767, -32768, 0]];
    let bytes: Vec<u8> = corners.as_flattened().iter().flat_map(|x| x.to_le_bytes()).collect();
    let position = draft.accessor(&bytes, 5122, "VEC3", 4, true);
    draft.json["bufferViews"][0]["byteStride"] = json!(8);
    let indices = draft.accessor(&[0, 1, 2, 2, 3], 5121, "SCALAR", 5, false);
    let (which, values) = (draft.view(&[2, 0]), draft.view(&[0.0f32, 0.0, 3.0].map(f32::to_le_bytes).concat()));
    let target = push(
        &mut draft.json["accessors"],
        json!({
            "componentType": 5126, "type": "VEC3", "count": 4,
            "sparse": {
                "count": 1,
                "indices": { "bufferView": which, "componentType": 5123 },
                "values": { "bufferView": values },
            },
        }),
    );
    let times = draft.floats(&[0.0, 0.5, 1.0], "SCALAR");
    let weights = draft.accessor(&[0, 255, 51], 5121, "SCALAR", 3, true);
    draft.json["meshes"] = json!([{ "primitives": [{
        "attributes": { "POSITION": position }, "indices": indices, "mode": 5, "targets": [{ "POSITION": target }],
    }] }]);
    draft.json["animations"] = json!([{
        "samplers": [{ "input": times, "output": weights, "interpolation": "STEP" }],
        "channels": [{ "sampler": 0, "target": { "node": 1, "path": "weights" } }],
    }]);
    let sequence = baked(draft.write());
    assert_eq!(sequence.times_secs, [0.0, 0.5, 1.0]);
    let frame = |t: usize| &sequence.frames[t].positions;
    assert_eq!(
        frame(0)[..],
        [(0, 0, 5), (-2, 0, 5), (0, 2, 5), (-2, 2, 3)].map(|(x, y, z)| Vec3::new(x as f32, y as f32, z as f32))
    );
    assert!(frame(1)[2].distance(Vec3::new(0.0, 2.0, 11.0)) < 1e-6);
    assert!(frame(2)[2].distance(Vec3::new(0.0, 2.0, 6.2)) < 1e-6);
    // Two empty triangles dropped, one real; and the mirror turns it over: 0 1 2 becomes 0 2 1.
    assert_eq!(sequence.surface.topology.corners(), [0, 2, 1]);
    // Held between its keys.
    let options = LoadOptions { fps: Some(8.0), ..LoadOptions::default() };
    let path = draft.write();
    let fine = load_sequence(&[path], &options).unwrap();
    assert_eq!(fine.frames.len(), 9);
    assert_eq!(fine.frames[3].positions, *frame(0));
}

/// Centimetres in the mesh, metres in the scene, as armatures with a scale of 0.01 give; bytes for weights.
fn centimetres() -> Draft {
    let mut draft = Draft::new(json!({
        "scenes": [{ "nodes": [0, 4] }],
        "nodes": [
            { "name": "armature", "scale": [0.01, 0.01, 0.01], "rotation": [-1, 0, 0, 1], "children": [1] },
            { "name": "hip", "children": [2] },
            { "name": "spacer", "children": [3], "translation": [0, 50, 0] },
            { "name": "knee", "translation": [0, 50, 0] },
            { "name": "body", "mesh": 0, "skin": 0, "translation": [77, 77, 77] },
        ],
    }));
    // Vertices 0 and 4 are one, split at a seam of the normals.
    let rest: [[f32; 3]; 5] =
        [[0.0, 0.0, 0.0], [10.0, 0.0, 0.0], [0.0, 200.0, 0.0], [0.0, 100.0, 10.0], [0.0, 0.0, 0.0]];
    let position = draft.floats(rest.as_flattened(), "VEC3");
    let normals = [[0.0f32, 0.0, 1.0]; 4].into_iter().chain([[1.0, 0.0, 0.0]]).collect::<Vec<_>>();
    let normal = draft.floats(normals.as_flattened(), "VEC3");
    let joints = draft.accessor(&[[0u8, 1, 0, 0]; 5].concat(), 5121, "VEC4", 5, false);
    let rows: [[u8; 4]; 5] = [[255, 0, 0, 0], [255, 0, 0, 0], [0, 255, 0, 0], [127, 128, 0, 0], [255, 0, 0, 0]];
    let weights = draft.accessor(rows.as_flattened(), 5121, "VEC4", 5, true);
    let indices = draft.accessor(&[0, 1, 2, 4, 2, 3], 5121, "SCALAR", 6, false);
    let mut inverse_binds = [0.0f32; 32];
    for m in 0..2 {
        (0..4).for_each(|d| inverse_binds[16 * m + 5 * d] = 1.0);
    }
    inverse_binds[16 + 13] = -100.0;
    let inverse_binds = draft.floats(&inverse_binds, "MAT4");
    let times = draft.floats(&[0.0, 1.0], "SCALAR");
    let quarter = std::f32::consts::FRAC_1_SQRT_2;
    let turn = draft.floats(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, -quarter, -quarter], "VEC4");
    draft.json["meshes"] = json!([{ "name": "body", "primitives": [{
        "attributes": { "POSITION": position, "NORMAL": normal, "JOINTS_0": joints, "WEIGHTS_0": weights },
        "indices": indices,
    }] }]);
    draft.json["skins"] = json!([{ "joints": [1, 3], "inverseBindMatrices": inverse_binds }]);
    draft.json["animations"] = json!([{
        "name": "bend",
        "samplers": [{ "input": times, "output": turn }],
        "channels": [{ "sampler": 0, "target": { "node": 3, "path": "rotation" } }],
    }]);
    draft
}

#[test]
fn scaled_armatures_and_split_vertices() {
    let mut draft = centimetres();
    let path = draft.write();
    let rig = load_rig(&path).unwrap();
    let near = |p: Vec3, q: [f32; 3]| assert!(p.distance(Vec3::from_array(q)) < 1e-5, "{p} {q:?}");
    // Rest pose in metres, y up turned to -z by the armature; the seam merged, its corners still distinct.
    assert_eq!(rig.rest.len(), 4);
    near(rig.rest[1], [0.1, 0.0, 0.0]);
    near(rig.rest[2], [0.0, 0.0, -2.0]);
    assert_eq!(rig.surface.topology.corners(), [0, 1, 2, 0, 2, 3]);
    let normals = rig.surface.normals.as_ref().unwrap();
    assert_ne!(normals.indices[0], normals.indices[3]);
    // Hierarchy over the node that is no joint; the mesh's own node does not count.
    assert_eq!((rig.bones[1].name.as_str(), rig.bones[1].parent), ("knee", Some(0)));
    near(rig.bones[1].world_from_bind.translation.as_vec3(), [0.0, 0.0, -1.0]);
    assert_eq!(rig.kind, bonesmith_core::BoneKind::Rigid);
    // A quarter turn about the knee, the short way, halfway through: 45 degrees about z of the armature, y of the world.
    let options = LoadOptions { fps: Some(2.0), ..LoadOptions::default() };
    let Model::Rig(fine) = load_model(std::slice::from_ref(&path), &options).unwrap() else { panic!("not a rig") };
    assert_eq!(fine.clips[0].times_secs, [0.0, 0.5, 1.0]);
    let posed = |t: usize| lbs(&fine.rest, &fine.weights, fine.clips[0].frame(t));
    near(posed(2)[2], [-1.0, 0.0, -1.0]);
    let half = std::f32::consts::FRAC_1_SQRT_2;
    near(posed(1)[2], [-half, 0.0, -1.0 - half]);
    let sequence = baked(path);
    near(sequence.frames[1].positions[2], [-1.0, 0.0, -1.0]);
}

#[test]
fn several_meshes_are_merged_or_picked() {
    let mut draft = centimetres();
    draft.json["scenes"][0]["nodes"] = json!([0, 4, 5]);
    let position = draft.floats(&[0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 0.0], "VEC3");
    push(
        &mut draft.json["meshes"],
        json!({ "name": "hat", "primitives": [{ "attributes": { "POSITION": position } }] }),
    );
    push(&mut draft.json["nodes"], json!({ "mesh": 1, "translation": [0, 9, 0] }));
    let path = draft.write();
    let rig = load_rig(&path).unwrap();
    assert_eq!((rig.rest.len(), rig.bone_count()), (7, 3));
    assert_eq!(rig.rest[4], Vec3::new(0.0, 9.0, 0.0));
    let pick = |name: &str| LoadOptions { mesh: Some(name.into()), ..LoadOptions::default() };
    let hat = load_sequence(std::slice::from_ref(&path), &pick("hat")).unwrap();
    assert_eq!((hat.frames.len(), hat.frames[0].positions.len()), (1, 3));
    let message = load_sequence(&[path], &pick("shoe")).unwrap_err().to_string();
    assert!(message.contains("shoe") && message.contains("hat") && message.contains("body"), "{message}");
}

#[test]
fn influences_that_name_no_joint_are_reported() {
    let mut draft = centimetres();
    draft.json["skins"][0]["joints"] = json!([1]);
    let message = load_rig(&draft.write()).unwrap_err().to_string();
    assert!(message.contains("vertex 2") && message.contains("joint 1"), "{message}");
}

/// A tetrahedron that node 0 shows; node 0 moves from the origin to (0, 1, 0) in a second.
fn moving() -> Draft {
    let mut draft = Draft::new(json!({ "nodes": [{ "mesh": 0 }] }));
    let corners = draft.floats(&[0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 0., 1.], "VEC3");
    let times = draft.floats(&[0., 1.], "SCALAR");
    let places = draft.floats(&[0., 0., 0., 0., 1., 0.], "VEC3");
    draft.json["meshes"] = json!([{ "primitives": [{ "attributes": { "POSITION": corners } }] }]);
    draft.json["animations"] = json!([{
        "samplers": [{ "input": times, "output": places }],
        "channels": [{ "sampler": 0, "target": { "node": 0, "path": "translation" } }],
    }]);
    draft
}

/// Channels that move no node (KHR_animation_pointer) are left out with a word; the others are read.
#[test]
fn channels_without_a_node_are_left_out() {
    let mut draft = moving();
    draft.json["extensionsUsed"] = json!(["KHR_animation_pointer"]);
    let pointer = json!({ "path": "pointer", "extensions": {
        "KHR_animation_pointer": { "pointer": "/materials/0/pbrMetallicRoughness/baseColorFactor" } } });
    let channels = draft.json["animations"][0]["channels"].as_array_mut().unwrap();
    channels.insert(0, json!({ "sampler": 0, "target": pointer }));
    channels.push(json!({ "sampler": 0, "target": { "path": "translation" } }));
    let path = draft.write();
    let (read, warnings) = bonesmith_io::with_warnings(|| load_sequence(&[path], &LoadOptions::default()));
    let read = read.unwrap();
    assert_eq!((read.frames.len(), read.frames[1].positions[0]), (2, Vec3::Y));
    let texts: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert!(texts.iter().any(|text| text.contains("2 channels") && text.contains("no node")), "{texts:?}");
}

#[test]
fn version_1_is_called_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.gltf");
    let json = json!({
        "asset": { "version": "1.0" }, "scene": "main", "scenes": { "main": { "nodes": ["a"] } },
        "nodes": { "a": { "meshes": ["m"] } }, "meshes": { "m": { "primitives": [] } }, "buffers": {},
    });
    std::fs::write(&path, json.to_string()).unwrap();
    let message = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("glTF 1.0"), "{message}");
    let path = folder.path().join("old.glb");
    std::fs::write(&path, [&b"glTF"[..], &1u32.to_le_bytes(), &20u32.to_le_bytes(), &[0; 8]].concat()).unwrap();
    let message = load_sequence(&[path], &LoadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("glTF 1.0"), "{message}");
}

/// Names relative to the file are read, also from the folder above; others are refused in true words.
#[test]
fn files_are_named_relative_to_the_file() {
    let mut draft = moving();
    let path = draft.write();
    let below = path.parent().unwrap().join("below");
    std::fs::create_dir(&below).unwrap();
    let above = path.with_file_name("up.bin");
    std::fs::write(&above, &draft.bin).unwrap();
    std::fs::write(below.join("own.bin"), &draft.bin).unwrap();
    let absolute = above.to_str().unwrap();
    for (uri, read) in
        [("own.bin", true), ("./own.bin", true), ("../up.bin", true), (absolute, false), ("x://y", false)]
    {
        let mut json = draft.json.clone();
        json["buffers"][0]["uri"] = json!(uri);
        let path = below.join("a.gltf");
        std::fs::write(&path, json.to_string()).unwrap();
        let found = load_sequence(&[path], &LoadOptions::default()).map_err(|e| e.to_string());
        assert_eq!(found.is_ok(), read, "{uri}: {:?}", found.err());
        assert!(found.err().is_none_or(|message| message.contains("relative")), "{uri}");
    }
}

/// Two skins of one skeleton, in centimetres, whose inverse binds differ by the rounding of float32.
#[test]
fn skins_that_share_joints_share_bones() {
    let mut draft = Draft::new(json!({ "nodes": [
        { "mesh": 0, "skin": 0 }, { "mesh": 0, "skin": 1 },
        { "name": "hips", "translation": [0, 100, 0], "children": [3] }, { "name": "neck", "translation": [0, 57.3, 0] },
    ] }));
    let corners = draft.floats(&[0., 0., 0., 100., 0., 0., 0., 150., 0., 0., 0., 100.], "VEC3");
    let joints = draft.accessor(&[0u8, 1, 0, 0].repeat(4), 5121, "VEC4", 4, false);
    let weights = draft.floats(&[0.5, 0.5, 0., 0.].repeat(4), "VEC4");
    let bind = |y: f32, off: f32| [1., 0., 0., 0., 0., 1., 0., 0., 0., 0., 1., 0., off, -y + off, 0., 1.];
    let skins = [0.0, 4e-5].map(|off| {
        let matrices = draft.floats(&[bind(100.0, off), bind(157.3, off)].concat(), "MAT4");
        json!({ "joints": [2, 3], "inverseBindMatrices": matrices })
    });
    draft.json["skins"] = json!(skins);
    let attributes = json!({ "POSITION": corners, "JOINTS_0": joints, "WEIGHTS_0": weights });
    draft.json["meshes"] = json!([{ "primitives": [{ "attributes": attributes }] }]);
    let rig = load_rig(&draft.write()).unwrap();
    let names: Vec<&str> = rig.bones.iter().map(|bone| bone.name.as_str()).collect();
    assert_eq!(names, ["hips", "neck"]);
}

/// Weights that are negative or no numbers are corrected, with a warning.
#[test]
fn unsound_weights_are_reported() {
    for (weight, warned) in [(0.5f32, 0), (-0.5, 1), (f32::NAN, 1)] {
        let mut draft = Draft::new(json!({ "nodes": [{ "mesh": 0, "skin": 0 }, {}, {}] }));
        let corners = draft.floats(&[0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 0., 1.], "VEC3");
        let joints = draft.accessor(&[0u8, 1, 0, 0].repeat(4), 5121, "VEC4", 4, false);
        let mut values = [0.5, 0.5, 0., 0.].repeat(4);
        values[5] = weight;
        let weights = draft.floats(&values, "VEC4");
        draft.json["skins"] = json!([{ "joints": [1, 2] }]);
        let attributes = json!({ "POSITION": corners, "JOINTS_0": joints, "WEIGHTS_0": weights });
        draft.json["meshes"] = json!([{ "primitives": [{ "attributes": attributes }] }]);
        let path = draft.write();
        let (rig, warnings) = bonesmith_io::with_warnings(|| load_rig(&path));
        assert_eq!((rig.unwrap().vertex_count(), warnings.len()), (4, warned), "{weight}: {warnings:?}");
    }
}

/// A skin whose joints stand in another pose than the bind pose, beside a mesh on one of its joints: the skin stays in its bind
/// pose, the mesh is where its node shows it, and every pose is as the nodes have it.
#[test]
fn joints_that_do_not_stand_in_the_bind_pose() {
    let half = std::f32::consts::FRAC_1_SQRT_2;
    let mut draft = Draft::new(json!({
        "scenes": [{ "nodes": [0, 3] }],
        "nodes": [
            { "name": "arm", "translation": [5, 0, 0], "children": [1, 2] },
            { "name": "finger", "translation": [1, 0, 0], "rotation": [0, 0, half, half] },
            { "name": "sleeve", "mesh": 1 },
            { "name": "hand", "mesh": 0, "skin": 0 },
        ],
    }));
    let hand = draft.floats(&[0., 0., 0., 1., 0., 0., 2., 0., 0., 1., 1., 0.], "VEC3");
    let joints = draft.accessor(&[[0u8, 1, 0, 0]; 4].concat(), 5121, "VEC4", 4, false);
    let weights = draft.floats(&[1., 0., 0., 0., 0.5, 0.5, 0., 0., 0., 1., 0., 0., 0., 1., 0., 0.], "VEC4");
    let sleeve = draft.floats(&[0., 0., 0., 0., 1., 0., 0., 0., 1.], "VEC3");
    let mut binds = [0.0f32; 32];
    (0..8).for_each(|d| binds[16 * (d / 4) + 5 * (d % 4)] = 1.0);
    binds[16 + 12] = -1.0;
    let binds = draft.floats(&binds, "MAT4");
    let times = draft.floats(&[0.0, 1.0], "SCALAR");
    let still = draft.floats(&[0., 0., half, half, 0., 0., 0., 1.], "VEC4");
    draft.json["meshes"] = json!([
        { "primitives": [{ "attributes": { "POSITION": hand, "JOINTS_0": joints, "WEIGHTS_0": weights } }] },
        { "primitives": [{ "attributes": { "POSITION": sleeve } }] },
    ]);
    draft.json["skins"] = json!([{ "joints": [0, 1], "inverseBindMatrices": binds }]);
    draft.json["animations"] = json!([{
        "samplers": [{ "input": times, "output": still }],
        "channels": [{ "sampler": 0, "target": { "node": 1, "path": "rotation" } }],
    }]);
    let path = draft.write();
    let near = |p: Vec3, q: [f32; 3]| assert!(p.distance(Vec3::from_array(q)) < 1e-5, "{p} {q:?}");
    let rig = load_rig(&path).unwrap();
    let sorted = |mut points: Vec<Vec3>| {
        points.sort_by(|a, b| (a.x, a.y, a.z).partial_cmp(&(b.x, b.y, b.z)).unwrap());
        points
    };
    let rest = sorted(rig.rest.clone());
    [[0., 0., 0.], [1., 0., 0.], [1., 1., 0.], [2., 0., 0.], [5., 0., 0.], [5., 0., 1.], [5., 1., 0.]]
        .into_iter()
        .zip(&rest)
        .for_each(|(q, p)| near(*p, q));
    // In the first frame the finger stands up from (6, 0, 0); in the last one it is straight again.
    let frames = baked(path).frames;
    let first = sorted(frames[0].positions.clone());
    for q in [[5., 0., 0.], [5., 0., 0.], [5., 0., 1.], [5., 0., 0.], [5., 1., 0.], [6., 0., 0.], [6., 1., 0.]] {
        assert!(first.iter().any(|p| p.distance(Vec3::from_array(q)) < 1e-5), "{q:?} in {first:?}");
    }
    let last = &frames.last().unwrap().positions;
    assert!(last.iter().any(|p| p.distance(Vec3::new(7., 0., 0.)) < 1e-5), "{last:?}");
}
