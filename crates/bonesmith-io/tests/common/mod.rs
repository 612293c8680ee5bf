//! Shared by the integration tests.

#![allow(dead_code, reason = "each test file uses its part")]

pub mod draco;
pub mod mutate;
pub mod random;
pub mod truth;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use bonesmith_core::mesh::surface::{AlphaMode, CornerAttribute, Image, Material, Texture, Wrap};
use bonesmith_core::{
    Bone, BoneKind, Clip, MeshSequence, Part, PartNode, Parts, RawFrame, RawSequence, Rig, Space, SparseWeights,
    Surface, Topology, UpAxis,
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
        ..Surface::default()
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
        ..RawSequence::default()
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

/// A scene: a body and a hat that bones move, and a floor that stands still below a node of its own; two clips of different rates.
pub fn scene() -> Rig {
    let tetrahedron = |at: Vec3| [Vec3::ZERO, Vec3::X, Vec3::Y, Vec3::Z].map(|p| at + p);
    let place = DAffine3::from_scale_rotation_translation(
        DVec3::new(2.0, 1.0, 0.5),
        DQuat::from_rotation_y(0.5),
        DVec3::new(0.0, -1.0, 3.0),
    );
    let floor = tetrahedron(Vec3::ZERO).map(|p| place.transform_point3(p.as_dvec3()).as_vec3());
    let meshes = [tetrahedron(Vec3::ZERO), tetrahedron(Vec3::Y), floor];
    let faces = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]];
    let faces: Vec<[u32; 3]> = (0..3).flat_map(|m| faces.map(|face| face.map(|v: u32| v + 4 * m))).collect();
    let uv = |set: usize, last: u32| CornerAttribute {
        name: format!("TEXCOORD_{set}"),
        values: vec![[0.0; 2], [0.25, 0.5], [0.75, 1.0]],
        indices: (0..36).map(|corner| if corner / 12 > last { 0 } else { 1 + corner % 2 }).collect(),
    };
    let material = |name: &str, base_color| Material { name: name.into(), base_color, ..Material::default() };
    let colors = CornerAttribute {
        name: "COLOR_0".into(),
        values: vec![[1.0; 4], [0.5, 0.25, 0.0, 1.0]],
        indices: (0..36).map(|corner| u32::from(corner / 12 == 1)).collect(),
    };
    let node = |name: &str, parent, world_from_node| PartNode { name: name.into(), parent, world_from_node };
    let part = |node: usize, mesh: &str, sets: usize, colors: bool| Part {
        node,
        mesh: mesh.into(),
        vertices: 4,
        faces: 4,
        uv_sets: (0..sets).map(|set| format!("TEXCOORD_{set}")).collect(),
        colors,
        still: false,
        instance_of: None,
    };
    let parts = Parts {
        nodes: vec![
            node("stage", None, DAffine3::IDENTITY),
            node("actor", Some(0), DAffine3::IDENTITY),
            node("body", Some(1), DAffine3::IDENTITY),
            node("hat", Some(1), DAffine3::IDENTITY),
            node("props", Some(0), DAffine3::from_translation(DVec3::new(0.0, 0.0, 3.0))),
            node("floor", Some(4), place),
        ],
        meshes: vec![part(2, "body_mesh", 2, false), part(3, "hat_mesh", 1, true), part(5, "floor_mesh", 0, false)],
        skeleton: Some(1),
    };
    let surface = Surface {
        uv_sets: vec![uv(0, 1), uv(1, 0)],
        colors: Some(colors),
        face_materials: vec![0, 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0],
        materials: vec![material("red", [1.0, 0.0, 0.0, 1.0]), material("blue", [0.0, 0.0, 1.0, 1.0])],
        space: Space::GLTF,
        topology: Topology::from_triangles(&faces),
        parts,
        ..Surface::default()
    };
    let mut weights = SparseWeights::new(12, 2);
    for i in 0..12 {
        let row: &[(usize, f64)] = match i / 4 {
            0 => &[(0, 0.75), (1, 0.25)],
            1 => &[(1, 1.0)],
            _ => &[(2, 1.0)],
        };
        weights.set(i, row);
    }
    let bone = |name: &str, parent, y: f64| Bone {
        name: name.into(),
        parent,
        world_from_bind: DAffine3::from_translation(DVec3::new(0.0, y, 0.0)),
        tip: None,
    };
    let clip = |name: &str, fps: f64, frames: usize| Clip {
        name: name.into(),
        times_secs: (0..frames).map(|t| t as f64 / fps).collect(),
        posed_from_rest: (0..frames)
            .flat_map(|t| {
                let angle = fps * t as f64 / 100.0;
                [DAffine3::from_rotation_z(angle), DAffine3::from_rotation_x(2.0 * angle), DAffine3::IDENTITY]
            })
            .collect(),
    };
    Rig {
        name: "scene".into(),
        rest: meshes.concat(),
        surface: Arc::new(surface),
        weights,
        bones: vec![bone("hip", None, 0.0), bone("head", Some(0), 1.0), bone("ground", None, -1.0)],
        kind: BoneKind::Rigid,
        clips: vec![clip("walk", 24.0, 4), clip("wave", 30.0, 3)],
        params_json: String::new(),
    }
}

/// Names, parents and meshes of a scene; each mesh with its vertices, materials, sets of texture coordinates and colours.
#[allow(clippy::type_complexity, reason = "compared as a whole")]
pub fn outline(surface: &Surface) -> Vec<(String, Vec<String>, usize, Vec<String>, usize, bool)> {
    let parts = &surface.parts;
    let above = |node: usize| parts.nodes[node].parent;
    let of = |(part, _, faces): (&Part, _, std::ops::Range<usize>)| {
        let chain = std::iter::successors(above(part.node), |&node| above(node));
        let mut materials = surface.face_materials[faces].to_vec();
        materials.dedup();
        (
            parts.name(part).to_owned(),
            chain.map(|node| parts.nodes[node].name.clone()).collect(),
            part.vertices,
            materials.iter().map(|&m| surface.materials[m as usize].name.clone()).collect(),
            part.uv_sets.len(),
            part.colors,
        )
    };
    parts.ranges().map(of).collect()
}

/// Largest distance between two rigs' vertices in all frames of all clips, whose names and times are equal.
pub fn farthest(a: &Rig, b: &Rig) -> f32 {
    let heads = |rig: &Rig| rig.clips.iter().map(|clip| (clip.name.clone(), clip.frame_count())).collect::<Vec<_>>();
    assert_eq!(heads(a), heads(b));
    let mut worst = 0f32;
    for (c, (own, other)) in a.clips.iter().zip(&b.clips).enumerate() {
        for t in 0..own.frame_count() {
            assert!((own.times_secs[t] - other.times_secs[t]).abs() < 1e-6, "clip {c}, frame {t}");
            let pose = |rig: &Rig| bonesmith_core::deform::lbs(&rig.rest, &rig.weights, rig.clips[c].frame(t));
            worst = pose(a).iter().zip(pose(b)).map(|(p, q)| p.distance(q)).fold(worst, f32::max);
        }
    }
    worst
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
