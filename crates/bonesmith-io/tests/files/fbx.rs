//! FBX files of Blender, Maya and Dem Bones.

use bonesmith_core::deform::lbs;
use bonesmith_core::{MeshSequence, Model, RawFrame, RawSequence, Rig, Space, UpAxis, metrics};
use bonesmith_io::{LoadOptions, load_model, load_rig};

use crate::truth::{BLENDER, file, sequence, worst};

/// What the rig's first clip shows.
pub fn baked(rig: &Rig) -> RawSequence {
    let clip = &rig.clips[0];
    let frame = |t| RawFrame { positions: lbs(&rig.rest, &rig.weights, clip.frame(t)), ..RawFrame::default() };
    RawSequence {
        frames: (0..clip.frame_count()).map(frame).collect(),
        times_secs: clip.times_secs.clone(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    }
}

fn rig(name: &str) -> Option<Rig> {
    let path = file(name)?;
    let Model::Rig(rig) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
        panic!("{name} is a rig")
    };
    Some(rig)
}

#[test]
fn a_skinned_character_with_shape_keys_equals_its_truth() {
    let Some(path) = file("character.fbx") else { return };
    let truth = sequence(path.with_extension("truth.npz"), None);
    let found = sequence(path, None);
    assert_eq!(found.surface.topology, truth.surface.topology);
    let off = worst(&found, &truth, &BLENDER);
    assert!(off < 1e-5, "{off:e}");
    MeshSequence::try_from(found).unwrap();
}

#[test]
fn a_character_is_a_rig_with_its_names() {
    let Some(path) = file("character.fbx") else { return };
    let Model::Corrective(found) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
        panic!("its shape keys are animated")
    };
    let rig = &found.rig;
    assert_eq!((rig.bone_count(), rig.bones.iter().filter(|bone| bone.parent.is_none()).count()), (12, 1));
    assert_eq!(rig.surface.space, Space { up: Some(UpAxis::Y), metres_per_unit: Some(0.01) });
    // Its skin and its shapes show what Blender showed.
    let truth = sequence(path.with_extension("truth.npz"), None);
    let frame = |t| RawFrame { positions: found.posed(0, t), ..RawFrame::default() };
    let posed = RawSequence { frames: (0..rig.clips[0].frame_count()).map(frame).collect(), ..baked(rig) };
    assert_eq!(posed.frames.len(), truth.frames.len());
    let off = worst(&posed, &truth, &BLENDER);
    assert!(off < 1e-5, "{off:e}");
}

/// Dem Bones' own output against the cache that it was made of: the same places, and its own error.
#[test]
fn dem_bones_files_lie_on_their_cache() {
    let Some(path) = file("dembones/Bone_Anim.abc") else { return };
    let cache = MeshSequence::try_from(sequence(path, None)).unwrap();
    for (name, bones, most) in [("Decomposition_10", 10, 12.0), ("Bone_All", 6, 120.0)] {
        let rig = rig(&format!("dembones/{name}.fbx")).unwrap();
        assert_eq!((rig.bone_count(), rig.clips[0].frame_count(), rig.vertex_count()), (bones, 400, 754), "{name}");
        assert_eq!(rig.clips[0].times_secs.len(), cache.times_secs().len());
        let off = rig.clips[0].times_secs.iter().zip(cache.times_secs()).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f64::max) < 1e-9, "{name}");
        let metrics = metrics::evaluate(&rig, 0, &cache).unwrap();
        assert!(metrics.e_rms < most, "{name}: {}", metrics.e_rms);
    }
    for name in ["Bone_Geom", "Bone_Skin", "Bone_All"] {
        let found = sequence(file(&format!("dembones/{name}.fbx")).unwrap(), None);
        assert_eq!(found.surface.topology, cache.surface().topology, "{name}");
        let rest = found.rest.map_or(found.frames[0].positions.clone(), |rest| rest.positions);
        let off = rest.iter().zip(cache.frame(0).iter()).map(|(a, b)| a.distance(*b)).fold(0.0, f32::max);
        assert!(off < 1e-3 * 4.0, "{name}: {off}");
    }
}

/// A rig without any animation can be refitted: `fit --rig`.
#[test]
fn a_skin_without_animation_is_a_rig() {
    let Some(path) = file("dembones/Bone_Skin.fbx") else { return };
    let rig = load_rig(&path).unwrap();
    assert!(rig.clips.is_empty() && rig.bone_count() > 3, "{} bones", rig.bone_count());
    let message = load_rig(&file("dembones/Bone_Geom.fbx").unwrap()).unwrap_err().to_string();
    assert!(message.contains("no skinned mesh"), "{message}");
}

/// An ascii file of another unit and up axis: a tetrahedron under a moved node, its vertices in a PC2 beside it.
const ASCII: &str = r#"; FBX 7.4.0 project file
FBXHeaderExtension:  {
    FBXHeaderVersion: 1003
    FBXVersion: 7400
}
GlobalSettings:  {
    Version: 1000
    Properties70:  {
        P: "UpAxis", "int", "Integer", "",2
        P: "UpAxisSign", "int", "Integer", "",1
        P: "FrontAxis", "int", "Integer", "",1
        P: "FrontAxisSign", "int", "Integer", "",-1
        P: "CoordAxis", "int", "Integer", "",0
        P: "CoordAxisSign", "int", "Integer", "",1
        P: "UnitScaleFactor", "double", "Number", "",100
    }
}
Objects:  {
    Geometry: 1000, "Geometry::shape", "Mesh" {
        Vertices: *12 {
            a: 0,0,0,1,0,0,0,1,0,0,0,1
        }
        PolygonVertexIndex: *12 {
            a: 0,2,-2,0,1,-4,0,3,-3,1,2,-4
        }
    }
    Model: 2000, "Model::flag", "Mesh" {
        Version: 232
        Properties70:  {
            P: "Lcl Translation", "Lcl Translation", "", "A",10,0,0
        }
    }
    Deformer: 3000, "Deformer::", "VertexCacheDeformer" {
    }
    Cache: 4000, "Cache::", "" {
        Version: 100
        Properties70:  {
            P: "CacheFileName", "KString", "XRefUrl", "", "flag.pc2"
            P: "CacheFileType", "enum", "", "",0
        }
    }
}
Connections:  {
    C: "OO",2000,0
    C: "OO",1000,2000
    C: "OO",3000,1000
    C: "OO",4000,3000
}
"#;

#[test]
fn ascii_files_and_geometry_caches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flag.fbx");
    std::fs::write(&path, ASCII).unwrap();
    let message = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap_err().to_string();
    assert!(message.contains("flag.pc2"), "{message}");

    let mut pc2 = b"POINTCACHE2\0".to_vec();
    pc2.extend([1i32, 4].iter().flat_map(|n| n.to_le_bytes()));
    pc2.extend([0.0f32, 1.0].iter().flat_map(|n| n.to_le_bytes()));
    pc2.extend(3i32.to_le_bytes());
    let point = |t: usize, i: usize| glam::Vec3::new(i as f32, t as f32, (i * t) as f32 * 0.5);
    for at in 0..12 {
        pc2.extend(point(at / 4, at % 4).to_array().iter().flat_map(|x| x.to_le_bytes()));
    }
    std::fs::write(folder.path().join("flag.pc2"), pc2).unwrap();
    let Model::Sequence(found) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
        panic!("an animation")
    };
    assert_eq!(found.surface().space, Space { up: Some(UpAxis::Z), metres_per_unit: Some(1.0) });
    assert_eq!(found.frame_count(), 3);
    for t in 0..3 {
        for (i, p) in found.frame(t).iter().enumerate() {
            assert!(p.distance(point(t, i) + glam::Vec3::X * 10.0) < 1e-6, "frame {t}, vertex {i}: {p}");
        }
    }
    let times = found.times_secs();
    assert!((times[1] - times[0] - 1.0 / 24.0).abs() < 0.02, "{times:?}");
}

/// A tetrahedron with a turn of 360 degrees about z between two keys, a second apart, at 24 frames a second, or with keys at
/// every frame; a shape that moves every vertex by 1 along z, each by its own share.
fn turning(keys: usize) -> String {
    let times: Vec<String> =
        (0..keys).map(|k| (46_186_158_000i64 * k as i64 / (keys as i64 - 1)).to_string()).collect();
    let values: Vec<String> = (0..keys).map(|k| (360.0 * k as f64 / (keys as f64 - 1.0)).to_string()).collect();
    let (times, values) = (times.join(","), values.join(","));
    format!(
        r#"; FBX 7.4.0 project file
FBXHeaderExtension:  {{
    FBXHeaderVersion: 1003
    FBXVersion: 7400
    Creator: "Blender (stable FBX IO) - 4.2.0 - 5.12.0"
}}
GlobalSettings:  {{
    Version: 1000
    Properties70:  {{
        P: "TimeMode", "enum", "", "",11
    }}
}}
Objects:  {{
    Geometry: 1000, "Geometry::solid", "Mesh" {{
        Vertices: *12 {{
            a: 0,0,0,1,0,0,0,1,0,0,0,1
        }}
        PolygonVertexIndex: *12 {{
            a: 0,2,-2,0,1,-4,0,3,-3,1,2,-4
        }}
    }}
    Geometry: 1100, "Geometry::up", "Shape" {{
        Version: 100
        Indexes: *4 {{
            a: 0,1,2,3
        }}
        Vertices: *12 {{
            a: 0,0,1,0,0,1,0,0,1,0,0,1
        }}
    }}
    Deformer: 1200, "Deformer::shapes", "BlendShape" {{
        Version: 100
    }}
    Deformer: 1300, "SubDeformer::up", "BlendShapeChannel" {{
        Version: 100
        DeformPercent: 50
        FullWeights: *4 {{
            a: 100,50,25,0
        }}
    }}
    Model: 2000, "Model::solid", "Mesh" {{
        Version: 232
    }}
    AnimationStack: 3000, "AnimStack::turn", "" {{
    }}
    AnimationLayer: 3100, "AnimLayer::base", "" {{
    }}
    AnimationCurveNode: 3200, "AnimCurveNode::R", "" {{
        Properties70:  {{
            P: "d|X", "Number", "", "A",0
            P: "d|Y", "Number", "", "A",0
            P: "d|Z", "Number", "", "A",0
        }}
    }}
    AnimationCurve: 3300, "AnimCurve::", "" {{
        Default: 0
        KeyVer: 4008
        KeyTime: *{keys} {{
            a: {times}
        }}
        KeyValueFloat: *{keys} {{
            a: {values}
        }}
        KeyAttrFlags: *1 {{
            a: 4
        }}
        KeyAttrDataFloat: *4 {{
            a: 0,0,0,0
        }}
        KeyAttrRefCount: *1 {{
            a: {keys}
        }}
    }}
}}
Connections:  {{
    C: "OO",2000,0
    C: "OO",1000,2000
    C: "OO",1200,1000
    C: "OO",1300,1200
    C: "OO",1100,1300
    C: "OO",3100,3000
    C: "OO",3200,3100
    C: "OP",3200,2000, "Lcl Rotation"
    C: "OP",3300,3200, "d|Z"
}}
"#
    )
}

#[test]
fn poses_far_apart_are_sampled_at_the_rate_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turn.fbx");
    for keys in [2, 3, 25] {
        std::fs::write(&path, turning(keys)).unwrap();
        let found = sequence(path.clone(), None);
        assert_eq!(found.frames.len(), 25, "{keys} keys");
        // Half a turn in the middle.
        let [start, middle] = [0, 12].map(|t: usize| found.frames[t].positions[1]);
        assert!(start.distance(glam::Vec3::new(1.0, 0.0, start.z)) < 1e-5, "{keys} keys: {start}");
        assert!(middle.distance(glam::Vec3::new(-1.0, 0.0, middle.z)) < 1e-5, "{keys} keys: {middle}");
    }
}

/// Full weights of a channel that are as many as its vertices are shares of each vertex.
#[test]
fn shapes_have_a_weight_for_each_vertex() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("turn.fbx");
    std::fs::write(&path, turning(25)).unwrap();
    let found = sequence(path, None);
    let rest = [0.0f32, 0.0, 0.0, 1.0];
    for (i, share) in [1.0f32, 0.5, 0.25, 0.0].into_iter().enumerate() {
        let z = found.frames[0].positions[i].z - rest[i];
        assert!((z - 0.5 * share).abs() < 1e-6, "vertex {i}: {z}");
    }
}
