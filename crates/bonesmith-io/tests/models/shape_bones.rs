//! Bones driven by shapes, and faces, through files.

use std::path::Path;

use bonesmith_core::corrective::eigenskin;
use bonesmith_core::model::shape_bones::Driver;
use bonesmith_core::shapes::{self, Numbers, ShapesParams};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, MeshSequence, Model, RawSequence, ShapeBones, Silent, Space, UpAxis};
use bonesmith_io::{IoError, LoadOptions, load_face, load_model, save_model};
use glam::Vec3;

fn animation(space: Space) -> MeshSequence {
    let params = PosedRigParams { kind: BoneKind::Affine, bones: 5, frames: 6, detail: 2, ..PosedRigParams::default() };
    let mut raw = posed_rig(4, &params).sequence;
    raw.surface.space = space;
    MeshSequence::try_from(raw).unwrap()
}

/// Bones of a few shapes, of which two are driven.
fn sample(space: Space) -> ShapeBones {
    let names: Vec<String> = (0..6).map(|s| format!("shape {s} ä")).collect();
    let params = ShapesParams { bones: 5, influences: 3, numbers: Numbers::Count(150), ..ShapesParams::default() };
    let mut face = shapes::fit(&animation(space), &names, &params, &mut Silent).unwrap().model;
    face.shapes[4].driver = Driver::Product { of: vec![0, 2] };
    face.shapes[5].driver = Driver::Between { of: 1, from: 0.25, peak: 0.5, to: 1.0 };
    face
}

fn load(path: &Path) -> Result<ShapeBones, IoError> {
    match load_model(&[path.to_owned()], &LoadOptions::default())? {
        Model::ShapeBones(face) => Ok(face),
        other => panic!("{:?}", other.view().kind()),
    }
}

fn apart(a: &[Vec3], b: &[Vec3]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max)
}

#[test]
fn numbers_and_drivers_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let lying = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    for (space, name) in
        [Space::default(), lying].into_iter().flat_map(|s| ["a.npz", "a.glb", "a.gltf"].map(|n| (s, n)))
    {
        let face = sample(space);
        let path = folder.path().join(name);
        save_model(&face, &path).unwrap();
        let back = load(&path).unwrap();
        assert_eq!(back.kind, face.kind);
        for (own, back) in face.shapes.iter().zip(&back.shapes) {
            assert_eq!((&own.name, &own.driver, own.numbers.len()), (&back.name, &back.driver, back.numbers.len()));
        }
        let weights = [0.7, 0.4, -0.3, 1.0, 0.0, 0.0];
        let off = apart(&face.posed(&weights), &back.posed(&weights));
        assert!(off < 2e-4, "{name} {space:?}: {off}");
        assert!(apart(&face.posed(&[0.0; 6]), &face.rig.rest) < 1e-6);
    }
}

#[test]
fn damaged_numbers_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gltf");
    save_model(&sample(Space::default()), &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    for (from, to) in [
        ("{\"rule\":\"own\"}", "{\"rule\":\"odd\"}"),
        ("\"kind\":\"affine\",\"numbers\"", "\"kind\":\"translation\",\"numbers\""),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&path, text.replace(from, to)).unwrap();
        let error = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap_err().to_string();
        assert!(error.contains("BONESMITH_shape_bones"), "{error}");
    }
}

fn face(path: &Path) -> Result<RawSequence, IoError> {
    Ok(load_face(&[path.to_owned()], &LoadOptions::default())?.shapes)
}

#[test]
fn faces_are_read_from_morph_targets_and_blend_shapes() {
    let folder = tempfile::tempdir().unwrap();
    let sequence = animation(Space::default());
    let still = posed_rig(4, &PosedRigParams { bones: 3, frames: 6, detail: 2, ..PosedRigParams::default() }).rig;
    let shaped = eigenskin(&still, &sequence, 3, &mut Silent).unwrap();
    for name in ["a.glb", "a.usda", "a.usdc"] {
        let path = folder.path().join(name);
        save_model(&shaped, &path).unwrap();
        let read = face(&path).unwrap();
        assert!(read.frames.len() >= 3, "{name}: {}", read.frames.len());
        let rest = &read.rest.as_ref().unwrap().positions;
        assert!(apart(rest, &shaped.rig.rest) < 1e-4, "{name}");
        let own = read.frames.iter().find(|frame| frame.label == shaped.shapes[0].name).unwrap();
        let scale = |all: &[Vec3]| all.iter().map(|d| d.length()).fold(0.0, f32::max);
        let offsets: Vec<Vec3> = own.positions.iter().zip(rest).map(|(p, rest)| *p - *rest).collect();
        // Files have weights of at most 1: larger ones are in the offsets.
        let ratio = scale(&offsets) / scale(&shaped.shapes[0].offsets);
        let parallel =
            offsets.iter().zip(&shaped.shapes[0].offsets).map(|(a, b)| a.distance(*b * ratio)).fold(0.0, f32::max);
        assert!(ratio >= 0.999 && parallel < 1e-3 * scale(&offsets), "{name}: {ratio} {parallel}");
    }
    let path = folder.path().join("plain.glb");
    save_model(&still, &path).unwrap();
    assert!(face(&path).unwrap_err().to_string().contains("no shapes"));
}

/// A shape with two in-betweens, as text: lines between its levels come back from the shapes and what drives them.
#[test]
fn in_betweens_are_shapes_that_follow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("face.usda");
    let text = r#"#usda 1.0
( defaultPrim = "face" )
def SkelRoot "face" (prepend apiSchemas = ["SkelBindingAPI"]) {
    rel skel:skeleton = </face/bones>
    def Skeleton "bones" {
        uniform token[] joints = ["root"]
        uniform matrix4d[] bindTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        uniform matrix4d[] restTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
    }
    def Mesh "skin" (prepend apiSchemas = ["SkelBindingAPI"]) {
        int[] faceVertexCounts = [3, 3]
        int[] faceVertexIndices = [0, 1, 2, 0, 2, 3]
        point3f[] points = [(0,0,0), (1,0,0), (1,1,0), (0,1,0)]
        uniform token[] skel:blendShapes = ["blink"]
        rel skel:blendShapeTargets = </face/skin/blink>
        def BlendShape "blink" {
            uniform vector3f[] offsets = [(0,0,1), (0,0,2)]
            uniform int[] pointIndices = [2, 3]
            uniform vector3f[] inbetweens:half = [(0.5,0,0.5), (0,0,1)] ( weight = 0.5 )
            uniform vector3f[] inbetweens:most = [(0,0.5,0.8), (0,0,1.5)] ( weight = 0.75 )
        }
    }
}
"#;
    std::fs::write(&path, text).unwrap();
    check_levels(&path);
    // The same face with a shape of that name twice.
    let twice = text
        .replace("[\"blink\"]", "[\"blink\", \"blink\"]")
        .replace("</face/skin/blink>", "[</face/skin/blink>, </face/skin/blink>]");
    std::fs::write(&path, twice).unwrap();
    let error = load_face(std::slice::from_ref(&path), &LoadOptions::default()).unwrap_err().to_string();
    assert!(error.contains("face.usda") && error.contains("two shapes are called \"blink\""), "{error}");
}

/// The same shape as three levels of one channel.
#[test]
fn in_betweens_of_fbx_are_shapes_that_follow() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("face.fbx");
    let level = |number: usize, name: &str, offsets: &str| {
        format!(
            "Geometry: {number}, \"Geometry::{name}\", \"Shape\" {{\n Version: 100\n Indexes: *2 {{\n a: 2,3\n }}\n Vertices: *6 {{\n a: {offsets}\n }}\n }}\n"
        )
    };
    let shapes = level(1101, "half", "0.5,0,0.5,0,0,1")
        + &level(1102, "most", "0,0.5,0.8,0,0,1.5")
        + &level(1103, "blink", "0,0,1,0,0,2");
    let text = format!(
        r#"; FBX 7.4.0 project file
FBXHeaderExtension:  {{
    FBXHeaderVersion: 1003
    FBXVersion: 7400
}}
Objects:  {{
    Geometry: 1000, "Geometry::skin", "Mesh" {{
        Vertices: *12 {{
            a: 0,0,0,1,0,0,1,1,0,0,1,0
        }}
        PolygonVertexIndex: *6 {{
            a: 0,1,-3,0,2,-4
        }}
    }}
    {shapes}
    Deformer: 1200, "Deformer::shapes", "BlendShape" {{
        Version: 100
    }}
    Deformer: 1300, "SubDeformer::blink", "BlendShapeChannel" {{
        Version: 100
        DeformPercent: 0
        FullWeights: *3 {{
            a: 50,75,100
        }}
    }}
    Model: 2000, "Model::skin", "Mesh" {{
        Version: 232
    }}
}}
Connections:  {{
    C: "OO",2000,0
    C: "OO",1000,2000
    C: "OO",1200,1000
    C: "OO",1300,1200
    C: "OO",1101,1300
    C: "OO",1102,1300
    C: "OO",1103,1300
}}
"#
    );
    std::fs::write(&path, text).unwrap();
    check_levels(&path);
}

/// A shape with levels at 0.5, 0.75 and 1.
fn check_levels(path: &Path) {
    let read = load_face(&[path.to_owned()], &LoadOptions::default()).unwrap();
    let names: Vec<&str> = read.shapes.frames.iter().map(|frame| frame.label.as_str()).collect();
    assert_eq!(names, ["blink", "blink_50", "blink_75"]);
    let ranges: Vec<[f32; 3]> = read.betweens.iter().map(|between| between.range).collect();
    assert_eq!(ranges, [[0.0, 0.5, 0.75], [0.5, 0.75, 1.0]]);
    assert!(read.betweens.iter().all(|between| between.of == "blink"));
    let rest = &read.shapes.rest.as_ref().unwrap().positions;
    let at = |w: f32| {
        let tent = |[from, peak, to]: [f32; 3]| {
            (if w <= peak { (w - from) / (peak - from) } else { (to - w) / (to - peak) }).clamp(0.0, 1.0)
        };
        let weights = [w, tent(ranges[0]), tent(ranges[1])];
        let offset = |s: usize| (read.shapes.frames[s].positions[2] - rest[2]) * weights[s];
        (0..3).map(offset).sum::<Vec3>()
    };
    for (weight, wanted) in [
        (0.0, Vec3::ZERO),
        (0.25, Vec3::new(0.25, 0.0, 0.25)),
        (0.5, Vec3::new(0.5, 0.0, 0.5)),
        (0.625, Vec3::new(0.25, 0.25, 0.65)),
        (0.75, Vec3::new(0.0, 0.5, 0.8)),
        (1.0, Vec3::Z),
    ] {
        assert!(at(weight).distance(wanted) < 1e-6, "{weight}: {}", at(weight));
    }
}
