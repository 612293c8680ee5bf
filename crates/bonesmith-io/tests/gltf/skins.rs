//! One rig as several skins of few joints: the same positions, every face once.

use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::mesh::surface::Material;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{Bone, BoneKind, Part, PartNode, Parts, Rig, SparseWeights, Surface};
use bonesmith_io::{LoadOptions, load_rig, load_sequence, save_rig, save_skins};
use glam::{DAffine3, Vec3};

use crate::judges::{folder, some_frames, write_reference};

fn rig_of(bones: usize, influences: usize) -> Rig {
    let params = PosedRigParams { bones, influences, kind: BoneKind::Rigid, frames: 6, softness: 0.3, detail: 3 };
    Rig { name: "skins".into(), ..posed_rig(9, &params).rig }
}

fn pose(rig: &Rig, t: usize) -> Vec<Vec3> {
    lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t))
}

#[test]
fn every_skin_has_few_joints_and_every_face_is_there_once() {
    let dir = tempfile::tempdir().unwrap();
    for (bones, influences, max_joints) in [(24, 4, 16), (24, 4, 20), (24, 2, 8), (40, 1, 6), (9, 3, 9)] {
        let rig = rig_of(bones, influences);
        let path = dir.path().join(format!("{bones}_{influences}_{max_joints}.gltf"));
        let order = save_skins(&rig, &path, max_joints).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let joints: Vec<usize> =
            json["skins"].as_array().unwrap().iter().map(|skin| skin["joints"].as_array().unwrap().len()).collect();
        assert!(joints.iter().all(|count| *count <= max_joints), "{joints:?}");
        assert!(joints.len() >= bones.div_ceil(max_joints) && (joints.len() > 1) == (bones > max_joints), "{joints:?}");
        let read = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap();
        assert_eq!(read.frames.len(), 6);
        for t in 0..6 {
            let posed = pose(&rig, t);
            assert_eq!(read.frames[t].positions.len(), order.len());
            let pairs = order.iter().zip(&read.frames[t].positions);
            let worst = pairs.map(|(&i, p)| p.distance(posed[i as usize])).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{bones} {max_joints}, frame {t}: {worst}");
        }
        let faces = |faces: &mut dyn Iterator<Item = Vec<u32>>| {
            let mut all: Vec<Vec<u32>> = faces.collect();
            all.sort();
            all
        };
        let original = |face: &[u32]| face.iter().map(|&i| order[i as usize]).collect::<Vec<u32>>();
        assert_eq!(
            faces(&mut read.surface.topology.faces().map(original)),
            faces(&mut rig.surface.topology.faces().map(<[u32]>::to_vec))
        );
        let mut seen = order.clone();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), rig.vertex_count());
        // Joints that skins share are one bone.
        assert!(load_rig(&path).unwrap().bone_count() <= bones);
    }
}

#[test]
fn a_skin_that_is_small_enough_stays_one() {
    let dir = tempfile::tempdir().unwrap();
    let rig = rig_of(9, 3);
    let (one, split) = (dir.path().join("one.glb"), dir.path().join("split.glb"));
    save_rig(&rig, &one).unwrap();
    let order = save_skins(&rig, &split, 9).unwrap();
    assert!(std::fs::read(one).unwrap() == std::fs::read(split).unwrap());
    assert!(order.iter().copied().eq(0..rig.vertex_count() as u32));
}

#[test]
fn points_and_materials_are_divided_too() {
    let dir = tempfile::tempdir().unwrap();
    let mut rig = rig_of(24, 2);
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    surface.materials = ["red", "blue"].map(|name| Material { name: name.into(), ..Material::default() }).to_vec();
    surface.face_materials = (0..surface.topology.face_count() as u32).map(|f| f % 2).collect();
    let mut points = rig.clone();
    points.surface = Default::default();
    for (name, rig) in [("painted.glb", rig), ("points.glb", points)] {
        let path = dir.path().join(name);
        // As few as a face needs.
        let fewest = (1..rig.bone_count()).find(|&count| save_skins(&rig, &path, count).is_ok()).unwrap();
        let order = save_skins(&rig, &path, fewest).unwrap();
        let read = load_sequence(&[path], &LoadOptions::default()).unwrap();
        let posed = pose(&rig, 2);
        let pairs = order.iter().zip(&read.frames[2].positions);
        assert!(pairs.map(|(&i, p)| p.distance(posed[i as usize])).fold(0.0, f32::max) < 1e-4, "{name}");
        assert_eq!(read.surface.materials.len(), rig.surface.materials.len(), "{name}");
    }
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.glb");
    let message = save_skins(&rig_of(24, 4), &path, 3).unwrap_err().to_string();
    assert!(
        message.contains("face") && message.contains("joints, and a skin may have 3") && !path.exists(),
        "{message}"
    );
    let message = save_skins(&rig_of(24, 4), &dir.path().join("x.usda"), 3).unwrap_err().to_string();
    assert!(message.contains("several skins can be written as .glb and .gltf"), "{message}");
}

#[test]
fn skins_for_the_judges() {
    let rig = rig_of(24, 4);
    save_skins(&rig, &folder().join("skins.glb"), 16).unwrap();
    let frames: Vec<(usize, Vec<Vec3>)> = some_frames(6).into_iter().map(|t| (t, pose(&rig, t))).collect();
    let fps = 1.0 / (rig.clips[0].times_secs[1] - rig.clips[0].times_secs[0]);
    write_reference("skins", fps, &rig.rest, &frames);
}

/// Two meshes of a scene: each has a skin of the bones that it uses, and the rig comes back as it was.
#[test]
fn meshes_of_a_scene_have_skins_of_their_own() {
    let mut rig = rig_of(12, 2);
    let (n, faces) = (rig.vertex_count(), rig.surface.topology.face_count());
    // A second body, whose bones are copies of every second one.
    let copies: Vec<Vec<u32>> =
        rig.surface.topology.faces().map(|face| face.iter().map(|i| i + n as u32).collect()).collect();
    let mut weights = SparseWeights::new(2 * n, 2);
    for i in 0..n {
        let own: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (j, f64::from(w))).collect();
        weights.set(i, &own);
        weights.set(n + i, &[(12 + own[0].0 / 2, 1.0)]);
    }
    rig.rest.extend_from_within(..);
    rig.weights = weights;
    for j in 0..6 {
        let bone = Bone { name: format!("copy_{j}"), parent: None, ..rig.bones[2 * j].clone() };
        rig.bones.push(bone);
    }
    // A bone that moves nothing, and one before the others that only the second mesh uses.
    rig.bones.push(Bone { name: "idle".into(), parent: Some(3), ..rig.bones[3].clone() });
    for clip in &mut rig.clips {
        let frame = |own: &[DAffine3]| -> Vec<DAffine3> {
            own.iter().copied().chain((0..6).map(|j| own[2 * j])).chain([own[3]]).collect()
        };
        clip.posed_from_rest = clip.posed_from_rest.chunks(12).flat_map(frame).collect();
    }
    let node = |name: &str| PartNode { name: name.into(), parent: None, world_from_node: DAffine3::IDENTITY };
    let part = |node: usize| Part {
        node,
        mesh: format!("mesh_{node}"),
        vertices: n,
        faces,
        uv_sets: Vec::new(),
        colors: false,
        still: false,
        instance_of: None,
    };
    let mut surface = Surface { topology: rig.surface.topology.clone(), ..Surface::default() };
    copies.iter().for_each(|face| surface.topology.push_face(face));
    surface.parts = Parts { nodes: vec![node("a"), node("b")], meshes: vec![part(0), part(1)], skeleton: None };
    rig.surface = Arc::new(surface);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scene.gltf");
    save_rig(&rig, &path).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let joints: Vec<usize> =
        json["skins"].as_array().unwrap().iter().map(|skin| skin["joints"].as_array().unwrap().len()).collect();
    assert_eq!(joints, [13, 6], "the first one has the bone that moves nothing");
    let back = load_rig(&path).unwrap();
    let names = |rig: &Rig| rig.bones.iter().map(|bone| (bone.name.clone(), bone.parent)).collect::<Vec<_>>();
    assert_eq!(names(&back), names(&rig));
    for t in 0..6 {
        let worst = pose(&rig, t).iter().zip(pose(&back, t)).map(|(p, q)| p.distance(q)).fold(0.0, f32::max);
        assert!(worst < 1e-5, "frame {t}: {worst}");
    }
}
