//! What is not preserved is reported: by file, by name, once; and nothing is reported where nothing is lost.

use std::path::Path;
use std::sync::Arc;

use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::{BlendShape, CorrectiveRig, Model, Rig, Silent};
use bonesmith_io::{
    IoError, LoadOptions, Warning, load_model, load_rig, load_sequence, save_model, save_rig, save_sequence,
    with_warnings,
};
use glam::Vec3;
use serde_json::{Value, json};

use crate::common;

/// A rig whose pictures look like pictures.
fn pictured() -> Rig {
    let mut rig = common::rig();
    let surface = Arc::make_mut(&mut rig.surface);
    for (image, name) in surface.images.iter_mut().zip(["skin", "glow"]) {
        image.name = name.into();
        image.mime = "image/png".into();
        image.bytes = b"\x89PNG\r\n\x1a\n and the rest".to_vec();
    }
    rig
}

#[track_caller]
fn heard<T, E: std::fmt::Debug>(work: impl FnOnce() -> Result<T, E>) -> Vec<String> {
    let (done, warnings) = with_warnings(work);
    done.unwrap();
    warnings.iter().map(Warning::to_string).collect()
}

/// One warning for each of `expected`, with all its words in it.
#[track_caller]
fn assert_warnings(heard: &[String], expected: &[&[&str]]) {
    assert_eq!(heard.len(), expected.len(), "{heard:#?}");
    for words in expected {
        let found = heard.iter().any(|text| words.iter().all(|word| text.contains(word)));
        assert!(found, "{words:?} in {heard:#?}");
    }
}

fn whole(path: &Path) -> Result<Model, IoError> {
    load_model(&[path.to_owned()], &LoadOptions::default())
}

fn baked(path: &Path) -> Result<bonesmith_core::RawSequence, IoError> {
    load_sequence(&[path.to_owned()], &LoadOptions::default())
}

#[test]
fn nothing_is_reported_where_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let rig = pictured();
    for name in ["a.npz", "a.glb", "a.gltf", "a.usda", "a.usdc", "a.usdz"] {
        let path = folder.path().join(name);
        assert_warnings(&heard(|| save_rig(&rig, &path)), &[]);
        assert_warnings(&heard(|| load_rig(&path)), &[]);
        assert_warnings(&heard(|| baked(&path)), &[]);
    }
}

#[test]
fn pictures_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gltf");
    save_rig(&pictured(), &path).unwrap();
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    json["images"][0] = json!({ "uri": "gone.png" });
    json["extensionsUsed"] = json!(["KHR_materials_clearcoat", "KHR_mesh_quantization"]);
    std::fs::write(&path, json.to_string()).unwrap();
    let extension: &[&str] = &["a.gltf", "KHR_materials_clearcoat"];
    assert_warnings(&heard(|| load_rig(&path)), &[&["a.gltf", "shiny", "\"gone.png\"", "No such file"], extension]);
    json["images"][0]["uri"] = json!("data:image/webp;base64,UklGRg==");
    std::fs::write(&path, json.to_string()).unwrap();
    assert_warnings(&heard(|| baked(&path)), &[&["a.gltf", "shiny", "neither PNG nor JPEG"], extension]);

    let path = folder.path().join("a.usda");
    save_rig(&pictured(), &path).unwrap();
    std::fs::remove_file(folder.path().join("a_glow.png")).unwrap();
    assert_warnings(&heard(|| load_rig(&path)), &[&["a.usda", "shiny", "a_glow.png", "No such file"]]);
}

#[test]
fn pictures_that_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let rig = common::rig();
    for name in ["a.glb", "a.usdc"] {
        let path = folder.path().join(name);
        assert_warnings(&heard(|| save_rig(&rig, &path)), &[&[name, "shiny", "\"tex\"", "neither PNG nor JPEG"]]);
    }
    // FBX and Alembic have no place for some of it.
    let (fbx, abc) = (folder.path().join("a.fbx"), folder.path().join("a.abc"));
    assert_warnings(&heard(|| save_rig(&pictured(), &fbx)), &[&["a.fbx", "alpha cutoff 0.3", "shiny"]]);
    assert_warnings(&heard(|| load_rig(&fbx)), &[]);
    assert_warnings(
        &heard(|| save_sequence(&common::sequence(3), &abc)),
        &[&["a.abc", "normals", "colours", "materials but"]],
    );
}

#[test]
fn shapes_of_files_that_are_read_as_rigs() {
    let folder = tempfile::tempdir().unwrap();
    let rig = pictured();
    let weights = rig.clips.iter().map(|clip| (0..clip.frame_count()).map(|t| 0.1 * t as f32).collect()).collect();
    let shape = BlendShape { name: "smile".into(), offsets: vec![Vec3::X; rig.vertex_count()], weights };
    let shaped = CorrectiveRig { rig, shapes: vec![shape] };
    for name in ["a.npz", "a.glb", "a.usda"] {
        let path = folder.path().join(name);
        assert_warnings(&heard(|| save_model(&shaped, &path)), &[]);
        assert_warnings(&heard(|| load_rig(&path)), &[&[name, "shape", "bones alone"]]);
        assert_warnings(&heard(|| whole(&path)), &[]);
        assert_warnings(&heard(|| baked(&path)), &[]);
    }
    let Some(data) = common::data() else { return };
    assert_warnings(
        &heard(|| load_rig(&data.join("files/character.fbx"))),
        &[&["character.fbx", "2 shapes and their animation"]],
    );
    assert_warnings(&heard(|| baked(&data.join("files/character.fbx"))), &[]);
}

/// Morph targets that another program put beside bones, without moving them.
#[test]
fn still_morph_targets() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gltf");
    save_rig(&pictured(), &path).unwrap();
    let mut json: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for primitive in json["meshes"][0]["primitives"].as_array_mut().unwrap() {
        primitive["targets"] = json!([{ "POSITION": primitive["attributes"]["POSITION"] }]);
        primitive["attributes"]["_HEAT"] = primitive["attributes"]["TEXCOORD_0"].clone();
    }
    std::fs::write(&path, json.to_string()).unwrap();
    let heat: &[&str] = &["a rig", "_HEAT"];
    assert_warnings(&heard(|| load_rig(&path)), &[&["a.gltf", "1 shape:"], heat]);
    assert_warnings(&heard(|| baked(&path)), &[&["a.gltf", "1 morph target", "no animation moves"], heat]);
}

#[test]
fn multi_weights_of_files_that_are_read_as_plain_rigs() {
    let folder = tempfile::tempdir().unwrap();
    let ddm = precompute(&pictured(), &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
    for name in ["a.npz", "a.glb"] {
        let path = folder.path().join(name);
        save_model(&ddm, &path).unwrap();
        assert_warnings(&heard(|| load_rig(&path)), &[&[name, "Direct Delta Mush", "plain weights"]]);
        assert_warnings(&heard(|| whole(&path)), &[]);
    }
}

#[test]
fn what_obj_and_ply_files_have_besides() {
    let folder = tempfile::tempdir().unwrap();
    let obj = folder.path().join("a.obj");
    let corners = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nvt 0 0\nvn 0 0 1\n";
    let faces = "usemtl skin\nf 1/1/1 2/1/1 3/1/1\nf 1/1 2/1 4/1\nl 1 2\nl 2 3\ncurv 0 1 1 2\n";
    std::fs::write(&obj, format!("mtllib a.mtl\nmtllib none.mtl\n{corners}{faces}")).unwrap();
    std::fs::write(folder.path().join("a.mtl"), "newmtl skin\nmap_Kd -s 1 1 1 gone.png\nnorm bumps.png\n").unwrap();
    let expected: [&[&str]; 5] = [
        &["a.obj", "\"skin\"", "\"gone.png\"", "No such file"],
        &["a.obj", "\"skin\"", "\"bumps.png\"", "norm is not read"],
        &["a.obj", "none.mtl", "No such file"],
        &["a.obj", "curves, lines"],
        &["a.obj", "normals", "some of its faces"],
    ];
    assert_warnings(&heard(|| baked(&obj)), &expected);

    let ply = folder.path().join("a.ply");
    let header = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n\
                  property float quality\nelement face 1\nproperty list uchar int vertex_indices\nelement edge 1\n\
                  property int vertex1\nproperty int vertex2\nend_header\n";
    std::fs::write(&ply, format!("{header}0 0 0 1\n1 0 0 1\n0 1 0 1\n0 0 1 1\n3 0 1 2\n0 1\n")).unwrap();
    assert_warnings(&heard(|| baked(&ply)), &[&["a.ply", "vertex: quality"], &["a.ply", "edge: vertex1, vertex2"]]);
}

#[test]
fn what_usd_files_have_besides() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.usda");
    let text = r#"#usda 1.0
def Mesh "body" (prepend apiSchemas = ["MaterialBindingAPI"])
{
    point3f[] points = [(0,0,0), (1,0,0), (0,1,0), (0,0,1)]
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    float[] primvars:heat = [1, 2, 3, 4] (interpolation = "vertex")
    rel material:binding = </paint>
}
def BasisCurves "hair" {}
def Material "paint"
{
    token outputs:surface.connect = </paint/toon.outputs:out>
    def Shader "toon" { uniform token info:id = "Toon" }
}
"#;
    std::fs::write(&path, text).unwrap();
    let expected: [&[&str]; 3] =
        [&["a.usda", "/hair (BasisCurves)"], &["a.usda", "/body", "heat"], &["a.usda", "shader", "\"paint\""]];
    assert_warnings(&heard(|| baked(&path)), &expected);
}
