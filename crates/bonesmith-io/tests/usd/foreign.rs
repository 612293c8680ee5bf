//! What other writers do and we do not: references, variants, every transform operation, constant weights, in-betweens.
//! Expected numbers are worked out by hand.

use std::path::Path;

use bonesmith_core::{RawSequence, UpAxis};
use bonesmith_io::{IoError, LoadOptions, list_meshes, load_rig, load_sequence};
use glam::Vec3;

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), format!("#usda 1.0\n{text}")).unwrap();
}

fn read(folder: &Path, name: &str) -> Result<RawSequence, IoError> {
    load_sequence(&[folder.join(name)], &LoadOptions::default())
}

fn one(text: &str) -> RawSequence {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "x.usda", text);
    read(folder.path(), "x.usda").unwrap()
}

const QUAD: &str = "
        point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
        int[] faceVertexCounts = [4]
        int[] faceVertexIndices = [0, 1, 2, 3]";

fn close(found: Vec3, x: f32, y: f32, z: f32) {
    assert!(found.distance(Vec3::new(x, y, z)) < 1e-5, "{found} is not {x} {y} {z}");
}

#[test]
fn transforms_are_stacked_and_animated() {
    let found = one(&format!(
        "(
    upAxis = \"Z\"
    metersPerUnit = 0.01
    timeCodesPerSecond = 10
)
def Xform \"a\" {{
    double3 xformOp:translate.timeSamples = {{ 0: (0, 0, 0), 10: (10, 0, 0), }}
    float xformOp:rotateZ:spin = 90
    uniform token[] xformOpOrder = [\"xformOp:translate\", \"xformOp:rotateZ:spin\"]
    def Mesh \"m\" {{{QUAD}
        float3 xformOp:scale = (2, 2, 2) # twice
        quatf xformOp:orient = (1, 0, 0, 0)
        double3 xformOp:translate:pivot = (1, 0, 0)
        uniform token[] xformOpOrder = [\"xformOp:scale\", \"xformOp:orient\", \"!invert!xformOp:translate:pivot\"]
    }}
}}"
    ));
    assert_eq!(found.times_secs, [0.0, 1.0]);
    assert_eq!((found.surface.space.up, found.surface.space.metres_per_unit), (Some(UpAxis::Z), Some(0.01)));
    // (1, 1, 0) - pivot = (0, 1, 0), scaled (0, 2, 0), turned by 90 degrees (-2, 0, 0), moved.
    close(found.frames[0].positions[2], -2.0, 0.0, 0.0);
    close(found.frames[1].positions[2], 8.0, 0.0, 0.0);
    let folder = tempfile::tempdir().unwrap();
    let twice = LoadOptions { fps: Some(20.0), ..LoadOptions::default() };
    write(
        folder.path(),
        "x.usda",
        &format!(
            "def Mesh \"m\" {{{QUAD}\n matrix4d xformOp:transform.timeSamples = {{ 0: ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1)), 24: ((1,0,0,0),(0,1,0,0),(0,0,1,0),(4,0,0,1)) }}\n uniform token[] xformOpOrder = [\"xformOp:transform\"]\n}}"
        ),
    );
    let found = load_sequence(&[folder.path().join("x.usda")], &twice).unwrap();
    assert_eq!(found.frames.len(), 21);
    close(found.frames[10].positions[0], 2.0, 0.0, 0.0);
}

#[test]
fn rotations_go_by_their_names() {
    let found = one(&format!(
        "def Mesh \"m\" {{{QUAD}\n float3 xformOp:rotateXYZ = (90, 90, 0)\n uniform token[] xformOpOrder = [\"xformOp:rotateXYZ\"]\n}}"
    ));
    // About x: (0, 1, 0) to (0, 0, 1); then about y: to (1, 0, 0).
    close(found.frames[0].positions[3], 1.0, 0.0, 0.0);
    let found = one(&format!(
        "def Mesh \"m\" {{{QUAD}\n float3 xformOp:rotateZYX = (90, 90, 0)\n uniform token[] xformOpOrder = [\"xformOp:rotateZYX\"]\n}}"
    ));
    // About y: (1, 0, 0) to (0, 0, -1); then about x: to (0, 1, 0).
    close(found.frames[0].positions[1], 0.0, 1.0, 0.0);
}

/// Sublayers, references with an offset in time, payloads, variants, classes, inactive and hidden prims.
#[test]
fn layers_are_composed() {
    let folder = tempfile::tempdir().unwrap();
    let asset = format!(
        "( defaultPrim = \"asset\" )
def Xform \"asset\" (
    variants = {{ string side = \"right\" }}
    prepend variantSets = \"side\"
) {{
    def Mesh \"body\" {{{QUAD}
        rel material:binding = </asset/looks/red>
    }}
    def Scope \"looks\" {{ def Material \"red\" {{ }} }}
    variantSet \"side\" = {{
        \"left\" {{ over \"body\" {{ point3f[] points = [(9, 9, 9)] }} }}
        \"right\" {{ over \"body\" {{ double3 xformOp:translate.timeSamples = {{ 0: (0, 0, 0), 1: (0, 0, 1) }}
            uniform token[] xformOpOrder = [\"xformOp:translate\"] }} }}
    }}
}}"
    );
    write(folder.path(), "asset.usda", &asset);
    write(
        folder.path(),
        "under.usda",
        "over \"one\" { double3 xformOp:translate = (5, 0, 0)\n uniform token[] xformOpOrder = [\"xformOp:translate\"] }",
    );
    write(
        folder.path(),
        "main.usda",
        "( subLayers = [ @./under.usda@ ] )
def \"one\" ( prepend references = @asset.usda@ (offset = 24) ) { }
def \"two\" ( prepend payload = @./asset.usda@</asset> ) { }
def \"off\" ( active = false
    references = @asset.usda@ ) { }
class \"kind\" { def Mesh \"never\" { point3f[] points = [(0, 0, 0)] } }
def \"hidden\" ( references = @asset.usda@ ) { token visibility = \"invisible\" }",
    );
    let found = read(folder.path(), "main.usda").unwrap();
    assert_eq!(found.frames[0].positions.len(), 8);
    assert_eq!(found.surface.materials.len(), 2, "each copy has its own");
    assert_eq!(found.surface.materials[0].name, "red");
    // Keys of `two` at 0 and 1, of `one`, which is 24 later, at 24 and 25.
    let codes: Vec<f64> = found.times_secs.iter().map(|t| t * 24.0).collect();
    assert_eq!(codes, [0.0, 1.0, 24.0, 25.0]);
    close(found.frames[1].positions[0], 5.0, 0.0, 0.0);
    close(found.frames[1].positions[4], 0.0, 0.0, 1.0);
    close(found.frames[3].positions[0], 5.0, 0.0, 1.0);
    let names: Vec<String> =
        list_meshes(&folder.path().join("main.usda")).unwrap().into_iter().map(|m| m.name).collect();
    assert_eq!(names, ["/one/body", "/two/body"]);
    let options = LoadOptions { mesh: Some("/two/body".into()), ..LoadOptions::default() };
    let two = load_sequence(&[folder.path().join("main.usda")], &options).unwrap();
    assert_eq!(two.frames[0].positions.len(), 4);
}

#[test]
fn what_lies_on_meshes() {
    let found = one("def Mesh \"m\" {
    point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 2, 2)]
    int[] faceVertexCounts = [3, 3]
    int[] faceVertexIndices = [0, 1, 2, 0, 2, 3]
    uniform token orientation = \"leftHanded\"
    normal3f[] normals = [(0, 0, 1), (1, 0, 0)] ( interpolation = \"uniform\" )
    texCoord2f[] primvars:uv = [(0, 0), (0, 1), (1, 1), (1, 0), (2, 2)] ( interpolation = \"vertex\" )
    texCoord2f[] primvars:st = [(0.25, 0.5), (0.5, 0.75)] ( interpolation = \"faceVarying\" )
    int[] primvars:st:indices = [0, 0, 1, 0, 1, 1]
    color3f[] primvars:displayColor = [(1, 0, 0)] ( interpolation = \"constant\" )
    float[] primvars:temperature = [1, 2, 3] ( interpolation = \"constant\" )
    def GeomSubset \"part\" { int[] indices = [1]
        rel material:binding = </m/blue> }
    def Material \"blue\" ( displayName = \"Blue paint\" ) {
        token outputs:surface.connect = </m/blue/shader.outputs:surface>
        def Shader \"shader\" { color3f inputs:diffuseColor = (0, 0, 1)
            float inputs:roughness = 0.125
            float inputs:opacity = 0.5 }
    }
}");
    let surface = &found.surface;
    assert_eq!(surface.topology.face(0), [0, 2, 1], "faces turn outwards");
    let sets: Vec<&str> = surface.uv_sets.iter().map(|uv| uv.name.as_str()).collect();
    assert_eq!(sets, ["st", "uv"]);
    let uv = |set: usize, corner: usize| surface.uv_sets[set].values[surface.uv_sets[set].indices[corner] as usize];
    assert_eq!((uv(0, 1), uv(1, 1)), ([0.5, 0.75], [1.0, 1.0]), "values go along with their corners");
    let normals = surface.normals.as_ref().unwrap();
    assert_eq!(normals.values[normals.indices[5] as usize], [1.0, 0.0, 0.0]);
    assert!(surface.colors.is_none());
    let [blue, none] = surface.materials.as_slice() else { panic!("{:?}", surface.materials) };
    assert_eq!((blue.name.as_str(), blue.base_color, blue.roughness), ("Blue paint", [0.0, 0.0, 1.0, 0.5], 0.125));
    assert_eq!((none.name.as_str(), &surface.face_materials[..]), ("none", &[1, 0][..]));
    surface.check(5).unwrap();
}

const SKELETON: &str = "
    def Skeleton \"skel\" (prepend apiSchemas = [\"SkelBindingAPI\"]) {
        uniform token[] joints = [\"a\", \"a/b\", \"c\"]
        uniform matrix4d[] bindTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1)), ((1,0,0,0),(0,1,0,0),(0,0,1,0),(1,0,0,1)), ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        uniform matrix4d[] restTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1)), ((1,0,0,0),(0,1,0,0),(0,0,1,0),(1,0,0,1)), ((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        def SkelAnimation \"anim\" {
            uniform token[] joints = [\"a/b\", \"a\"]
            float3[] translations.timeSamples = { 0: [(1, 0, 0), (0, 0, 0)], 2: [(1, 0, 0), (0, 0, 4)] }
            quatf[] rotations = [(0.70710678, 0, 0, 0.70710678), (1, 0, 0, 0)]
            half3[] scales = [(1, 1, 1), (1, 1, 1)]
            uniform token[] blendShapes = [\"tall\"]
            float[] blendShapeWeights.timeSamples = { 0: [0], 1: [0.25], 2: [1] }
        }
    }";

/// Two meshes: one with weights for each vertex over its own list of joints, a bind transform and a shape with an
/// in-between; one that hangs as a whole on one joint. Bound on the root, inherited below.
#[test]
fn skeletons_are_bound_in_many_ways() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "def SkelRoot \"World\" (prepend apiSchemas = [\"SkelBindingAPI\"]) {{
    rel skel:skeleton = </World/skel>
    rel skel:animationSource = <skel/anim>
    double3 xformOp:translate = (0, 100, 0)
    uniform token[] xformOpOrder = [\"xformOp:translate\"]{SKELETON}
    def Mesh \"own\" {{{QUAD}
        matrix4d primvars:skel:geomBindTransform = ((1,0,0,0),(0,1,0,0),(0,0,1,0),(1,0,0,1))
        uniform token[] skel:joints = [\"a/b\", \"a\"]
        int[] primvars:skel:jointIndices = [0, 1, 0, 1, 1, 0, 0, 0] ( interpolation = \"vertex\"
            elementSize = 2 )
        float[] primvars:skel:jointWeights = [1, 0, 0.5, 0.5, 1, 0, 1, 0] ( interpolation = \"vertex\"
            elementSize = 2 )
        uniform token[] skel:blendShapes = [\"tall\"]
        rel skel:blendShapeTargets = <tall>
        def BlendShape \"tall\" {{
            uniform vector3f[] offsets = [(0, 0, 2)]
            uniform int[] pointIndices = [2]
            uniform vector3f[] inbetweens:half = [(0, 0, 10)] ( weight = 0.5 )
        }}
    }}
    def Mesh \"whole\" {{{QUAD}
        int[] primvars:skel:jointIndices = [1] ( interpolation = \"constant\" )
        float[] primvars:skel:jointWeights = [1] ( interpolation = \"constant\" )
    }}
}}"
    );
    write(folder.path(), "x.usda", &text);
    let found = read(folder.path(), "x.usda").unwrap();
    assert_eq!(found.frames.len(), 3);
    // Vertex 0 of `own` is bound at (1, 0, 0), where joint b sits: it does not move. At time 2 joint a has gone up by 4.
    close(found.frames[0].positions[0], 1.0, 100.0, 0.0);
    close(found.frames[2].positions[0], 1.0, 100.0, 4.0);
    // Vertex 3, at (1, 1, 0), turns about b.
    close(found.frames[0].positions[3], 0.0, 100.0, 0.0);
    // Vertex 1 at (2, 0, 0): half turned about b to (1, 1, 0), half left.
    close(found.frames[0].positions[1], 1.5, 100.5, 0.0);
    // Vertex 2 at (2, 1, 0) hangs on a; its shape is at half the in-between, then at its full height.
    close(found.frames[1].positions[2], 2.0, 101.0, 5.0 + 2.0);
    close(found.frames[2].positions[2], 2.0, 101.0, 2.0 + 4.0);
    // The other mesh: (1, 1, 0) turned about (1, 0, 0).
    close(found.frames[0].positions[6], 0.0, 100.0, 0.0);
    let rig = load_rig(&folder.path().join("x.usda")).unwrap();
    let names: Vec<(&str, Option<usize>)> = rig.bones.iter().map(|b| (b.name.as_str(), b.parent)).collect();
    assert_eq!(names, [("a", None), ("b", Some(0)), ("c", None)]);
    // The shape has a key more than the joints.
    assert_eq!((rig.clips[0].name.as_str(), rig.clips[0].times_secs.len()), ("anim", 3));
    let posed = bonesmith_core::deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(2));
    close(posed[0], 1.0, 100.0, 4.0);
    close(posed[6], 0.0, 100.0, 4.0);
}

/// A skeleton's numbers that do not fit are named.
#[test]
fn bindings_that_do_not_fit() {
    let root = |mesh: &str| {
        let folder = tempfile::tempdir().unwrap();
        write(
            folder.path(),
            "x.usda",
            &format!(
                "def SkelRoot \"World\" {{{SKELETON}\n def Mesh \"m\" {{{QUAD}\n rel skel:skeleton = </World/skel>\n{mesh}\n}} }}"
            ),
        );
        load_rig(&folder.path().join("x.usda")).map(|_| ()).unwrap_err().to_string()
    };
    let per_vertex = "( interpolation = \"vertex\"\n elementSize = 1 )";
    let message = root(&format!(
        "int[] primvars:skel:jointIndices = [0, 1, 9, 0] {per_vertex}\n float[] primvars:skel:jointWeights = [1, 1, 1, 1] {per_vertex}"
    ));
    assert!(message.contains("vertex 2 names joint 9, but there are 3"), "{message}");
    let message = root(&format!(
        "int[] primvars:skel:jointIndices = [0, 1, 1] {per_vertex}\n float[] primvars:skel:jointWeights = [1, 1, 1, 1] {per_vertex}"
    ));
    assert!(message.contains("3 joint indices and 4 weights"), "{message}");
}

/// The selection nearest to the user wins: that of the referencing prim over that of the referenced file.
#[test]
fn a_referencing_prim_selects_the_variant() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let places = |name: &str, x: f32| {
        format!(
            "\"{name}\" {{ over \"m\" {{ double3 xformOp:translate = ({x}, 0, 0)\n uniform token[] xformOpOrder = [\"xformOp:translate\"] }} }}"
        )
    };
    let (left, right) = (places("left", -5.0), places("right", 5.0));
    write(
        at,
        "a.usda",
        &format!(
            "(defaultPrim = \"P\")\ndef Xform \"P\" (variants = {{ string side = \"left\" }}\n prepend variantSets = \"side\") {{
    def Mesh \"m\" {{{QUAD}\n}}
    variantSet \"side\" = {{ {left}\n {right}\n }}
}}"
        ),
    );
    // With a space before the path, as some write it.
    let user = "def \"x\" (prepend references = @a.usda@ </P>\n variants = { string side = \"right\" }) {}";
    write(at, "x.usda", user);
    close(read(at, "a.usda").unwrap().frames[0].positions[0], -5.0, 0.0, 0.0);
    close(read(at, "x.usda").unwrap().frames[0].positions[0], 5.0, 0.0, 0.0);
}

/// What is no geometry is left out with a word: it does not refuse the stage.
#[test]
fn other_formats_in_references_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    std::fs::write(at.join("m.mtlx"), "<?xml version=\"1.0\"?><materialx version=\"1.38\"></materialx>").unwrap();
    let text = format!(
        "def Mesh \"m\" {{{QUAD}\n texCoord2f[] primvars:st = [(0, 0), (1, 0), (1, 1), (0, 1)] (interpolation = \"vertex\")
    int[] primvars:st:indices = None
}}
def Scope \"mats\" (prepend references = @m.mtlx@</MaterialX>) {{}}"
    );
    write(at, "x.usda", &text);
    let (found, warnings) = bonesmith_io::with_warnings(|| read(at, "x.usda"));
    let found = found.unwrap();
    assert_eq!((found.frames[0].positions.len(), found.surface.uv_sets.len()), (4, 1));
    assert!(warnings.iter().any(|w| w.to_string().contains("m.mtlx")), "{warnings:?}");
}

const RAISED: &str = "
    def SkelAnimation \"anim\" {
        uniform token[] joints = [\"hip\"]
        float3[] translations = [(0, 0, 0)]
        quatf[] rotations = [(1, 0, 0, 0)]
        half3[] scales = [(1, 1, 1)]
        uniform token[] blendShapes = [\"up\"]
        float[] blendShapeWeights.timeSamples = { 0: [0], 24: [0.5], 48: [1] }
    }
    def Skeleton \"skel\" (prepend apiSchemas = [\"SkelBindingAPI\"]) {
        uniform token[] joints = [\"hip\"]
        uniform matrix4d[] bindTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        uniform matrix4d[] restTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        rel skel:animationSource = </World/anim>
    }";
const UP: &str = "
        uniform token[] skel:blendShapes = [\"up\"]
        rel skel:blendShapeTargets = </World/m/up>
        rel skel:skeleton = </World/skel>
        def BlendShape \"up\" { uniform vector3f[] offsets = [(0, 0, 1), (0, 0, 1), (0, 0, 1), (0, 0, 2)] }";
const ON_HIP: &str = "
        int[] primvars:skel:jointIndices = [0, 0, 0, 0] (elementSize = 1\n interpolation = \"vertex\")
        float[] primvars:skel:jointWeights = [1, 1, 1, 1] (elementSize = 1\n interpolation = \"vertex\")";

/// Shapes that move while the joints stand still; also on a mesh that no joint moves.
#[test]
fn shapes_move_without_joints() {
    for weights in [ON_HIP, ""] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!("def SkelRoot \"World\" {{{RAISED}\n def Mesh \"m\" {{{QUAD}{UP}{weights}\n}} }}");
        write(folder.path(), "x.usda", &text);
        let found = read(folder.path(), "x.usda").unwrap();
        assert_eq!(found.frames.len(), 3, "{weights}");
        close(found.frames[1].positions[3], 0.0, 1.0, 1.0);
        let model = bonesmith_io::load_model(&[folder.path().join("x.usda")], &LoadOptions::default()).unwrap();
        assert_eq!(model.view().clips()[0].frame_count(), 3, "{weights}");
        close(model.view().posed(0, 2)[3], 0.0, 1.0, 2.0);
    }
}

/// A skeleton moves what lies below a SkelRoot, and nothing else; other blends than the linear one are reported as a warning.
#[test]
fn skinning_needs_a_skel_root_and_is_linear() {
    let moved = "def SkelAnimation \"anim\" { uniform token[] joints = [\"hip\"]\n float3[] translations = [(0, 0, 7)]
        quatf[] rotations = [(1, 0, 0, 0)]\n half3[] scales = [(1, 1, 1)] }
    def Skeleton \"skel\" { uniform token[] joints = [\"hip\"]
        uniform matrix4d[] bindTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        uniform matrix4d[] restTransforms = [((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))]
        rel skel:animationSource = </World/anim> }";
    for (kind, z) in [("SkelRoot", 7.0), ("Xform", 0.0)] {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "def {kind} \"World\" {{{moved}\n def Mesh \"m\" {{{QUAD}{ON_HIP}\n rel skel:skeleton = </World/skel>\n uniform token primvars:skel:skinningMethod = \"dualQuaternion\"\n}} }}"
        );
        write(folder.path(), "x.usda", &text);
        let (found, warnings) = bonesmith_io::with_warnings(|| read(folder.path(), "x.usda"));
        close(found.unwrap().frames[0].positions[0], 0.0, 0.0, z);
        let word = if z > 0.0 { "dual quaternion" } else { "SkelRoot" };
        assert!(warnings.iter().any(|w| w.to_string().contains(word)), "{kind}: {warnings:?}");
    }
}

/// An archive that refers to another archive inside it: what lies in the inner one is left out with a word.
#[test]
fn an_archive_within_an_archive_does_not_refuse_the_stage() {
    let folder = tempfile::tempdir().unwrap();
    let stored = |name: &str, files: &[(&str, Vec<u8>)]| {
        let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
        let options = zip::write::SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Stored)
            .with_alignment(64);
        for (inner, bytes) in files {
            archive.start_file(*inner, options).unwrap();
            std::io::Write::write_all(&mut archive, bytes).unwrap();
        }
        let bytes = archive.finish().unwrap().into_inner();
        std::fs::write(folder.path().join(name), &bytes).unwrap();
        bytes
    };
    let mesh = format!("#usda 1.0\n(defaultPrim = \"m\")\ndef Mesh \"m\" {{{QUAD}\n}}").into_bytes();
    let inner = stored("inner.usdz", &[("a.usda", mesh)]);
    let root =
        format!("#usda 1.0\ndef Mesh \"own\" {{{QUAD}\n}}\ndef \"other\" (prepend references = @inner.usdz@) {{}}");
    stored("outer.usdz", &[("root.usda", root.into_bytes()), ("inner.usdz", inner)]);
    let (found, warnings) = bonesmith_io::with_warnings(|| read(folder.path(), "outer.usdz"));
    assert_eq!(found.unwrap().frames[0].positions.len(), 4);
    assert!(warnings.iter().any(|w| w.to_string().contains("inner.usdz")), "{warnings:?}");
}

/// Clips as variants: one whose mesh changes, or is another, is left out by the names of both.
#[test]
fn clips_with_other_meshes_are_left_out() {
    let points = |count: usize, z: usize| {
        let all: Vec<String> = (0..count).map(|i| format!("({}, {}, {z})", i % 3, i / 3)).collect();
        format!("[{}]", all.join(", "))
    };
    let mesh = |name: &str, points: &str| {
        format!(
            "def Mesh \"{name}\" {{\n int[] faceVertexCounts = [3, 3]\n int[] faceVertexIndices = [0, 1, 3, 1, 2, 4]\n {points}\n}}\n"
        )
    };
    let variant = |name: &str, first: usize, second: usize| {
        let (first, second) = (points(first, 0), points(second, 1));
        format!("\"{name}\" {{ over \"hat\" {{ point3f[] points.timeSamples = {{ 0: {first}, 1: {second} }} }} }}\n")
    };
    let stage = |first: usize, second: usize| {
        let meshes = mesh("body", &format!("point3f[] points = {}", points(6, 0))) + &mesh("hat", "");
        let variants = variant("walk", 6, 6) + &variant("run", first, second);
        format!(
            "#usda 1.0\ndef Xform \"w\" (\n prepend variantSets = \"clip\"\n variants = {{ string clip = \"walk\" }}\n) {{\n\
             {meshes}variantSet \"clip\" = {{\n{variants}}}\n}}\n"
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stage.usda");
    let read = |text: String| {
        std::fs::write(&path, text).unwrap();
        bonesmith_io::load_sequence(std::slice::from_ref(&path), &bonesmith_io::LoadOptions::default())
    };
    let clips = read(stage(6, 6)).unwrap().clips;
    assert_eq!(clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>(), ["walk", "run"]);
    for (first, second, expected) in [
        (6, 7, "clip \"run\", mesh \"hat\" has 7 vertices at time code 1, but 6 at first"),
        (
            7,
            7,
            "clip \"run\" has another mesh than \"walk\": 13 and 12 vertices, 4 and 4 faces; the first difference is in mesh \"hat\"",
        ),
    ] {
        let (found, warnings) = bonesmith_io::with_warnings(|| read(stage(first, second)));
        assert_eq!(found.unwrap().clips.len(), 1, "the other is left");
        assert!(warnings.iter().any(|w| w.to_string().contains(expected)), "{warnings:?}");
    }
}

/// Two characters with sets of their own: a variant is selected where it is.
#[test]
fn prims_without_a_variant_keep_their_own() {
    let character = |name: &str, other: &str, x: usize| {
        let variant = |name: &str, z: usize| {
            format!(
                "\"{name}\" {{ over \"m\" {{ point3f[] points.timeSamples = {{ 0: [({x},0,{z}),(1,0,0),(1,1,0),(0,1,0)], 1: [({x},0,{}),(1,0,0),(1,1,0),(0,1,0)] }} }} }}\n",
                z + 1
            )
        };
        format!(
            "def Xform \"{name}\" (\n prepend variantSets = \"clip\"\n variants = {{ string clip = \"idle\" }}\n) {{\n\
             def Mesh \"m\" {{ int[] faceVertexCounts = [4]\n int[] faceVertexIndices = [0, 1, 2, 3] }}\n\
             variantSet \"clip\" = {{\n{}{}\n}}\n}}\n",
            variant("idle", 0),
            variant(other, 5)
        )
    };
    let found = one(&(character("a", "run", 3) + &character("b", "jump", 4)));
    let names: Vec<&str> = found.clips.iter().map(|clip| clip.name.as_str()).collect();
    assert_eq!(names, ["idle", "run"]);
    close(found.frames[2].positions[0], 3.0, 0.0, 5.0);
    close(found.frames[2].positions[4], 4.0, 0.0, 0.0);
}

/// Between two keys of a clip rotations take the short way, also where one is negated; a layer without samples says nothing.
#[test]
fn rotations_of_clips_take_the_short_way() {
    let folder = tempfile::tempdir().unwrap();
    // 0 and 90 degrees about z, the second negated.
    write(
        folder.path(),
        "a.usda",
        "def Mesh \"m\" { quatd xformOp:orient.timeSamples = { 0: (1, 0, 0, 0), 2: (-0.7071067811865476, 0, 0, -0.7071067811865476) } }",
    );
    write(folder.path(), "b.usda", "def Mesh \"m\" { quatd xformOp:orient.timeSamples = { } }");
    write(
        folder.path(),
        "x.usda",
        &format!(
            "def Mesh \"m\" ( clips = {{ dictionary default = {{ asset[] assetPaths = [@./a.usda@, @./b.usda@]\n string primPath = \"/m\"\n \
             double2[] active = [(0, 0), (8, 1)]\n double2[] times = [(0, 0), (1, 1), (2, 2)] }} }} ) {{{QUAD}\n uniform token[] xformOpOrder = [\"xformOp:orient\"]\n}}"
        ),
    );
    let found = read(folder.path(), "x.usda").unwrap();
    assert_eq!(found.frames.len(), 3);
    let half = 0.5f32.sqrt();
    close(found.frames[1].positions[1], half, half, 0.0);
    close(found.frames[2].positions[1], 0.0, 1.0, 0.0);
}

/// Variants of a rig with other bones are left out by the name of the first one.
#[test]
fn rigs_with_other_bones_are_left_out() {
    let variant = |clip: &str, joint: &str| {
        let joints = format!("uniform token[] joints = [\"{joint}\"]");
        format!("\"{clip}\" {{ over \"skel\" {{ {joints} }} over \"anim\" {{ {joints} }} }}\n")
    };
    let unit = "((1,0,0,0),(0,1,0,0),(0,0,1,0),(0,0,0,1))";
    let text = format!(
        "def SkelRoot \"World\" (\n prepend variantSets = \"clip\"\n variants = {{ string clip = \"walk\" }}\n) {{
    def SkelAnimation \"anim\" {{ float3[] translations.timeSamples = {{ 0: [(0, 0, 0)], 1: [(0, 0, 7)] }}
        quatf[] rotations = [(1, 0, 0, 0)]\n half3[] scales = [(1, 1, 1)] }}
    def Skeleton \"skel\" {{ uniform matrix4d[] bindTransforms = [{unit}]
        uniform matrix4d[] restTransforms = [{unit}]\n rel skel:animationSource = </World/anim> }}
    def Mesh \"m\" {{{QUAD}{ON_HIP}\n rel skel:skeleton = </World/skel>\n}}
    variantSet \"clip\" = {{\n{}{}{}}}\n}}",
        variant("walk", "hip"),
        variant("run", "hip"),
        variant("swim", "fin")
    );
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "x.usda", &text);
    let (rig, warnings) = bonesmith_io::with_warnings(|| load_rig(&folder.path().join("x.usda")).unwrap());
    assert_eq!(rig.clips.iter().map(|clip| clip.name.as_str()).collect::<Vec<_>>(), ["walk", "run"]);
    let expected = "clip \"swim\" has another rig than \"walk\": 4 and 4 vertices, 1 and 1 bones; bone \"fin\" in place of \"hip\"";
    assert!(warnings.iter().any(|w| w.to_string().contains(expected)), "{warnings:?}");
}
