//! Rigs written as FBX: what we write, we read back; files for Blender to judge.

use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::{BoneKind, Model, Rig, Space, UpAxis};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig};
use glam::Vec3;

use crate::judges;
use crate::rigs::{self, Recipe};

fn through(rig: &Rig) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a b%.fbx");
    save_rig(rig, &path).unwrap();
    load_rig(&path).unwrap()
}

fn size(rest: &[Vec3]) -> f32 {
    let low = rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    (rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max) - low).length()
}

fn assert_same_motion(a: &Rig, b: &Rig, tolerance: f32) {
    assert_eq!(a.clips.len(), b.clips.len(), "{}", a.name);
    for (clip, other) in a.clips.iter().zip(&b.clips) {
        assert_eq!((&clip.name, clip.frame_count()), (&other.name, other.frame_count()), "{}", a.name);
        for t in 0..clip.frame_count() {
            assert!((clip.times_secs[t] - other.times_secs[t]).abs() < 1e-9, "{}", a.name);
            let posed = lbs(&a.rest, &a.weights, clip.frame(t));
            let again = lbs(&b.rest, &b.weights, other.frame(t));
            let worst = posed.iter().zip(&again).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
            assert!(worst <= tolerance * size(&a.rest), "{}, frame {t}: {worst}", a.name);
        }
    }
}

#[test]
fn every_rig_comes_back() {
    for rig in rigs::all() {
        let back = through(&rig);
        let far = rig.name.starts_with("far");
        let tolerance = if far { 4e-5 } else { 3e-6 };
        assert!(rig.rest.iter().zip(&back.rest).all(|(a, b)| a.distance(*b) <= tolerance * size(&rig.rest)));
        for i in 0..rig.vertex_count() {
            // Equal weights may change places.
            let of = |rig: &Rig| {
                let mut pairs: Vec<(usize, f32)> = rig.weights.of(i).collect();
                pairs.sort_by_key(|(j, _)| *j);
                pairs
            };
            assert_eq!(of(&back), of(&rig), "{}, vertex {i}", rig.name);
        }
        assert_eq!(back.surface.topology, rig.surface.topology, "{}", rig.name);
        assert_eq!((&back.name, back.kind, &back.params_json), (&rig.name, rig.kind, &rig.params_json));
        assert_eq!(back.surface.space, rig.surface.space, "{}", rig.name);
        assert_eq!(back.bone_count(), rig.bone_count(), "{}", rig.name);
        for (bone, again) in rig.bones.iter().zip(&back.bones) {
            assert_eq!((&bone.name, bone.parent), (&again.name, again.parent), "{}", rig.name);
            let place = bone.world_from_bind.translation.length();
            assert!(bone.world_from_bind.abs_diff_eq(again.world_from_bind, 2e-6 * (1.0 + place)), "{}", rig.name);
        }
        assert_same_motion(&rig, &back, tolerance);
    }
}

#[test]
fn everything_on_the_surface_comes_back() {
    let rig = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    let back = through(&rig);
    let (a, b) = (&*rig.surface, &*back.surface);
    assert_eq!(a.face_materials, b.face_materials);
    for (m, n) in a.materials.iter().zip(&b.materials) {
        assert_eq!((&m.name, m.textures.base_color.is_some()), (&n.name, n.textures.base_color.is_some()));
        let off = m.base_color.iter().zip(&n.base_color).map(|(x, y)| (x - y).abs()).fold(0.0, f32::max);
        assert!(off < 1e-6 && (m.roughness - n.roughness).abs() < 1e-5 && m.metallic == n.metallic, "{m:?} {n:?}");
    }
    assert_eq!(a.images[0].bytes, b.images[0].bytes);
    assert_eq!(a.uv_sets.len(), b.uv_sets.len());
    for (uv, again) in a.uv_sets.iter().zip(&b.uv_sets) {
        assert_eq!(uv.name, again.name);
        for (x, y) in uv.indices.iter().zip(&again.indices) {
            assert_eq!(uv.values[*x as usize], again.values[*y as usize]);
        }
    }
    let (normals, again) = (a.normals.as_ref().unwrap(), b.normals.as_ref().unwrap());
    for (x, y) in normals.indices.iter().zip(&again.indices) {
        let [n, m] = [normals.values[*x as usize], again.values[*y as usize]].map(Vec3::from);
        assert!(n.normalize().distance(m) < 1e-6);
    }
    let (colors, again) = (a.colors.as_ref().unwrap(), b.colors.as_ref().unwrap());
    for (x, y) in colors.indices.iter().zip(&again.indices) {
        let pairs = colors.values[*x as usize].into_iter().zip(again.values[*y as usize]);
        assert!(pairs.into_iter().all(|(p, q)| (p - q).abs() < 1e-5));
    }
}

/// Each material shows its own picture, whatever pictures are called.
#[test]
fn pictures_that_share_a_name_stay_apart() {
    let mut rig = Recipe { seams: true, ..Recipe::new("painted", BoneKind::Rigid) }.build();
    let surface = Arc::make_mut(&mut rig.surface);
    let plain = surface.images[0].clone();
    let picture = |name: &str, mark: u8| {
        let mut image = plain.clone();
        image.name = name.into();
        image.bytes.push(mark);
        image
    };
    surface.images = vec![picture("skin.png", 1), picture("skin.png", 2), picture("", 3), picture("", 4)];
    let textured = surface.materials.iter().find(|m| m.textures.base_color.is_some()).unwrap().clone();
    surface.materials = (0..4)
        .map(|image| {
            let mut material = textured.clone();
            material.name = format!("m{image}");
            material.textures.base_color.as_mut().unwrap().image = image;
            material
        })
        .collect();
    surface.face_materials = (0..surface.topology.face_count() as u32).map(|f| f % 4).collect();
    let back = through(&rig);
    for (at, material) in back.surface.materials.iter().enumerate() {
        let image = &back.surface.images[material.textures.base_color.unwrap().image as usize];
        assert_eq!(image.bytes.last(), Some(&(at as u8 + 1)), "{}", material.name);
    }
}

#[test]
fn axes_units_tips_and_several_clips() {
    let mut rig = Recipe { chained: true, ..Recipe::new("metres", BoneKind::Rigid) }.build();
    Arc::make_mut(&mut rig.surface).space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.0254) };
    rig.bones[4].tip = Some(rig.bones[4].world_from_bind.translation + glam::DVec3::new(0.1, 0.5, -0.2));
    let mut slow = rig.clips[0].clone();
    slow.name = "slow".into();
    slow.times_secs.iter_mut().for_each(|t| *t = *t * 3.0 - 1.0);
    rig.clips.push(slow);
    let back = through(&rig);
    assert_eq!(back.surface.space.up, Some(UpAxis::Z));
    assert!((back.surface.space.metres_per_unit.unwrap() - 0.0254).abs() < 1e-12);
    let (tip, again) = (rig.bones[4].tip.unwrap(), back.bones[4].tip.unwrap());
    assert!(tip.distance(again) < 1e-5, "{tip} {again}");
    assert_same_motion(&rig, &back, 3e-6);
}

/// What ufbx's own skinning makes of the file is what we mean.
#[test]
fn baked_by_another_evaluator() {
    let rig = Recipe { chained: true, ..Recipe::new("evaluated", BoneKind::Affine) }.build();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.fbx");
    save_rig(&rig, &path).unwrap();
    assert!(matches!(load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap(), Model::Rig(_)));
    let baked = load_sequence(&[path], &LoadOptions::default()).unwrap();
    assert_eq!(baked.frames.len(), 25);
    for (t, frame) in baked.frames.iter().enumerate() {
        let ours = lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
        let worst = ours.iter().zip(&frame.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
        assert!(worst < 3e-6 * size(&rig.rest), "frame {t}: {worst}");
    }
}

/// A rig of `count` bones, all children of the first, each with a vertex; two frames.
fn crowded(count: usize) -> Rig {
    let made = Recipe::new("crowded", BoneKind::Rigid).build();
    let bone = |j: usize| bonesmith_core::Bone {
        name: format!("b{j}"),
        parent: (j > 0).then_some(0),
        world_from_bind: glam::DAffine3::from_translation(glam::DVec3::new(j as f64, 0.0, 0.0)),
        tip: None,
    };
    let n = count.max(4);
    let mut weights = bonesmith_core::SparseWeights::new(n, 1);
    (0..n).for_each(|i| weights.set(i, &[(i % count, 1.0)]));
    Rig {
        name: "crowded".into(),
        rest: (0..n).map(|i| Vec3::new(i as f32, 1.0, 0.0)).collect(),
        surface: Arc::new(bonesmith_core::Surface::default()),
        weights,
        bones: (0..count).map(bone).collect(),
        clips: vec![bonesmith_core::Clip {
            name: "move".into(),
            times_secs: vec![0.0, 1.0],
            posed_from_rest: vec![glam::DAffine3::IDENTITY; 2 * count],
        }],
        ..made
    }
}

#[test]
fn as_many_bones_as_there_may_be() {
    let rig = crowded(1 << 16);
    let back = through(&rig);
    assert_eq!(back.bone_count(), rig.bone_count());
    assert_eq!(back.weights.of(65535).next(), Some((65535, 1.0)));
}

/// What is written can be read; what cannot is refused by name.
#[test]
fn chains_and_numbers_that_cannot_be_read_back_are_not_written() {
    let folder = tempfile::tempdir().unwrap();
    for (count, sound) in [(500, true), (512, false), (5000, false)] {
        let mut rig = crowded(count);
        (1..count).for_each(|j| rig.bones[j].parent = Some(j - 1));
        let path = folder.path().join("chain.fbx");
        let written = save_rig(&rig, &path).map_err(|e| e.to_string());
        assert_eq!(written.is_ok(), sound, "{count}: {written:?}");
        match written {
            Ok(()) => assert_eq!(load_rig(&path).unwrap().bone_count(), count),
            Err(message) => assert!(message.contains("too long"), "{message}"),
        }
    }
    let mut rig = crowded(3);
    rig.clips[0].posed_from_rest[4].translation.x = 1e39;
    for ending in ["fbx", "glb", "usda"] {
        let message = save_rig(&rig, &folder.path().join(format!("far.{ending}"))).unwrap_err().to_string();
        assert!(message.contains("frame 1, bone 1 (\"b1\"): the transform is not finite in float32"), "{message}");
    }
}

#[test]
fn rigs_for_the_judges() {
    for mut rig in rigs::all() {
        rig.name = format!("fbx_{}", rig.name);
        judges::write_rig(&rig, "fbx");
    }
    // In centimetres, z up: the judge sees metres, y up.
    let mut rig = Recipe::new("fbx_centimetres", BoneKind::Rigid).build();
    Arc::make_mut(&mut rig.surface).space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    judges::write_rig(&rig, "fbx");
}
