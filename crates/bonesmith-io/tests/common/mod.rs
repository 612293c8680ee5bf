//! Shared by the integration tests.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod mutate;
pub mod random;
pub mod truth;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bonesmith_core::mesh::surface::{AlphaMode, CornerAttribute, Image, Material, Texture, Wrap};
use bonesmith_core::{
    Bone, BoneKind, Clip, MeshSequence, RawFrame, RawSequence, Rig, Space, SparseWeights, Surface, Topology, UpAxis,
};
use glam::{DAffine3, DQuat, DVec3, Vec3};

/// Folder of the third-party data, if it is there: `$BONESMITH_DATA` or `../shared/data` beside the repository.
pub fn data() -> Option<PathBuf> {
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let folder = std::env::var_os("BONESMITH_DATA").map_or_else(beside, PathBuf::from);
    if folder.join("sequences").is_dir() {
        return Some(folder);
    }
    // Straight to the stream: the test harness would swallow `eprintln!` of a test that passes.
    let line = format!("SKIPPED: no test data at {} (set BONESMITH_DATA)\n", folder.display());
    let _ = std::io::stderr().write_all(line.as_bytes());
    None
}

/// A pentagon, a quad and a triangle over 8 vertices, one of them isolated; everything that can lie on a mesh.
pub fn surface() -> Surface {
    let mut topology = Topology::empty();
    topology.push_face(&[0, 1, 2, 3, 4]);
    topology.push_face(&[0, 4, 5, 6]);
    topology.push_face(&[6, 5, 4]);
    let corners = topology.corners().len() as u32;
    let uv = |name: &str, n: u32| CornerAttribute {
        name: name.into(),
        values: (0..n).map(|v| [v as f32 / 7.0, 1.0 - v as f32 / 3.0]).collect(),
        indices: (0..corners).map(|c| c % n).collect(),
    };
    let image = |mime: &str| Image { name: "tex".into(), mime: mime.into(), bytes: vec![1, 2, 3, 0] };
    let mut shiny = Material { name: "shiny \"é\"".into(), metallic: 0.1, roughness: 0.3, ..Material::default() };
    (shiny.base_color, shiny.emissive) = ([0.1, 0.2, 0.3, 0.7], [0.0, 1.0 / 3.0, 5.0]);
    (shiny.alpha, shiny.double_sided) = (AlphaMode::Mask(0.3), true);
    shiny.textures.base_color = Some(Texture { image: 0, uv_set: 1, wrap: [Wrap::Clamp, Wrap::Repeat] });
    shiny.textures.emissive = Some(Texture { image: 1, uv_set: 0, wrap: Default::default() });
    Surface {
        uv_sets: vec![uv("map1", 5), uv("", corners)],
        normals: Some(CornerAttribute { name: "n".into(), values: vec![[0.0, 0.0, 1.0]], indices: vec![0; 12] }),
        tangents: Some(CornerAttribute {
            name: "t".into(),
            values: vec![[1.0, 0.0, 0.0, 1.0], [0.0, 1.0, 0.0, -1.0]],
            indices: (0..corners).map(|c| u32::from(c >= 9)).collect(),
        }),
        colors: Some(CornerAttribute { name: "c".into(), values: vec![[0.5; 4], [1.0; 4]], indices: vec![1; 12] }),
        face_materials: vec![1, 0, 1],
        materials: vec![Material::default(), shiny],
        images: vec![image("image/png"), image("image/jpeg")],
        space: Space { up: Some(UpAxis::Y), metres_per_unit: Some(1.0) },
        topology,
    }
}

/// [8] a pose that depends on `t`.
pub fn pose(t: usize) -> Vec<Vec3> {
    (0..8).map(|i| Vec3::new(i as f32 * 0.1, (i * i % 5) as f32 / 3.0, (t * i) as f32 * 1e-3 - 2.5)).collect()
}

/// `frames` poses over [`surface`].
pub fn sequence(frames: usize) -> MeshSequence {
    let frame = |t| RawFrame { positions: pose(t), ..RawFrame::default() };
    MeshSequence::try_from(RawSequence {
        name: "a sequence".into(),
        rest: Some(frame(77)),
        frames: (0..frames).map(frame).collect(),
        times_secs: (0..frames).map(|t| 0.1 + t as f64 / 30.0).collect(),
        fps: 0.0,
        surface: surface(),
    })
    .unwrap()
}

/// Three bones in a row, two clips.
pub fn rig() -> Rig {
    let mut weights = SparseWeights::new(8, 3);
    for i in 0..8 {
        weights.set(i, &[(0, 0.3 + i as f64 * 0.1), (2, 1.0 / 3.0), (1, 0.01 * i as f64)]);
    }
    let affine = |s: f64| {
        let turned = DQuat::from_scaled_axis(DVec3::new(s, 0.3 * s, 1.0));
        DAffine3::from_scale_rotation_translation(DVec3::new(1.0, 1.1, 0.9), turned, DVec3::new(s, 1.0 / 3.0, -s))
    };
    let bone = |name: &str, parent, s: f64| Bone {
        name: name.into(),
        parent,
        world_from_bind: DAffine3::from_rotation_translation(DQuat::from_rotation_x(s), DVec3::new(s, 2.0 * s, 0.1)),
        tip: None,
    };
    let clip = |name: &str, frames: usize| Clip {
        name: name.into(),
        times_secs: (0..frames).map(|t| t as f64 / 29.97).collect(),
        posed_from_rest: (0..3 * frames).map(|at| affine(at as f64 / 7.0)).collect(),
    };
    Rig {
        name: "a rig".into(),
        rest: pose(0),
        surface: Arc::new(surface()),
        weights,
        bones: vec![bone("hüfte", None, 0.1), bone("knie", Some(0), 0.7), bone("fuß", Some(1), 1.3)],
        kind: BoneKind::Trs,
        clips: vec![clip("walk", 4), clip("", 2)],
        params_json: "{\"bones\": 3, \"name\": \"é\"}".into(),
    }
}

/// Every field, exactly.
pub fn assert_same_rig(a: &Rig, b: &Rig) {
    assert_eq!(a.name, b.name);
    assert_eq!(a.rest, b.rest);
    assert_eq!(a.surface, b.surface);
    assert_eq!(a.weights, b.weights);
    assert_eq!(a.bones, b.bones);
    assert_eq!(a.kind, b.kind);
    assert_eq!(a.clips, b.clips);
    assert_eq!(a.params_json, b.params_json);
}
