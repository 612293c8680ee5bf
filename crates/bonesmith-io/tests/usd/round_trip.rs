//! What we write, we read back.

use bonesmith_core::deform::lbs;
use bonesmith_core::{BoneKind, CorrectiveRig, MeshSequence, Model, RawFrame, RawSequence, Rig, Space, UpAxis};
use bonesmith_io::{BlendShape, LoadOptions, load_model, load_rig, load_sequence, save_model, save_rig, save_sequence};
use glam::{DVec3, Vec3};

use crate::common;
use crate::rigs::{self, Recipe};

const ENDINGS: [&str; 3] = ["usda", "usdc", "usdz"];

fn size(rest: &[Vec3]) -> f32 {
    let low = rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    let high = rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
    (high - low).length()
}

fn through(rig: &Rig, ending: &str) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("a b%.{ending}"));
    save_rig(rig, &path).unwrap();
    load_rig(&path).unwrap()
}

fn assert_same_motion(a: &Rig, b: &Rig, tolerance: f32) -> f32 {
    assert_eq!(a.clips.len(), b.clips.len());
    let mut all = 0.0f32;
    for (clip, other) in a.clips.iter().zip(&b.clips) {
        assert_eq!(clip.name, other.name);
        for (t, again) in clip.times_secs.iter().zip(&other.times_secs) {
            assert!((t - again).abs() < 1e-12, "{t} {again}");
        }
        for t in 0..clip.frame_count() {
            let posed = lbs(&a.rest, &a.weights, clip.frame(t));
            let again = lbs(&b.rest, &b.weights, other.frame(t));
            let worst = posed.iter().zip(&again).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max) / size(&a.rest);
            all = all.max(worst);
            assert!(worst <= tolerance, "{}, frame {t}: {worst}", a.name);
        }
    }
    all
}

#[test]
fn every_rig_comes_back() {
    for rig in rigs::all() {
        for ending in ENDINGS {
            let back = through(&rig, ending);
            assert_eq!(back.name, rig.name);
            assert_eq!(back.rest, rig.rest, "{}", rig.name);
            assert_eq!(back.surface, rig.surface, "{}", rig.name);
            assert_eq!((back.kind, &back.params_json), (rig.kind, &rig.params_json));
            for i in 0..rig.vertex_count() {
                assert!(back.weights.of(i).eq(rig.weights.of(i)), "{}, vertex {i}", rig.name);
            }
            for (bone, again) in rig.bones.iter().zip(&back.bones) {
                assert_eq!((&bone.name, bone.parent), (&again.name, again.parent), "{}", rig.name);
                let place = bone.world_from_bind.translation.length();
                assert!(bone.world_from_bind.abs_diff_eq(again.world_from_bind, 1e-6 * (1.0 + place)), "{}", rig.name);
            }
            // Far from the origin, the reference itself is rounded to 3e-5 of the size. Scales are two half floats.
            let tolerance = match rig.kind {
                _ if rig.name.starts_with("far") => 4e-5,
                BoneKind::Rigid => 2e-6,
                _ => 1e-5,
            };
            let error = assert_same_motion(&rig, &back, tolerance);
            println!("{} {ending}: {error:e}", rig.name);
        }
    }
}

#[test]
fn names_clips_tips_and_materials_come_back() {
    let mut rig = common::rig();
    rig.bones[2].tip = Some(DVec3::new(1.0, 2.0, 3.0));
    let surface = std::sync::Arc::make_mut(&mut rig.surface);
    surface.space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    // USD has no place for tangents. What is no picture is not written.
    surface.tangents = None;
    surface.images.clear();
    surface.materials.iter_mut().for_each(|m| m.textures = Default::default());
    for ending in ENDINGS {
        let back = through(&rig, ending);
        assert_eq!(back.surface, rig.surface);
        assert_eq!((&back.name, &back.params_json), (&rig.name, &rig.params_json));
        let names = |rig: &Rig| rig.bones.iter().map(|b| (b.name.clone(), b.parent)).collect::<Vec<_>>();
        assert_eq!(names(&back), names(&rig));
        assert!(back.bones[2].tip.unwrap().distance(DVec3::new(1.0, 2.0, 3.0)) < 1e-9);
        assert_same_motion(&rig, &back, 1e-5);
    }
}

fn sequence() -> MeshSequence {
    let rig = Recipe { seams: true, frames: 7, ..Recipe::new("a cache", BoneKind::Affine) }.build();
    let frame = |t| RawFrame { positions: lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)), ..RawFrame::default() };
    let raw = RawSequence {
        name: "a cache".into(),
        rest: Some(RawFrame { positions: rig.rest.clone(), ..RawFrame::default() }),
        frames: (0..7).map(frame).collect(),
        times_secs: (0..7).map(|t| f64::from(t) / 30.0 - 0.1).collect(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    MeshSequence::try_from(raw).unwrap()
}

#[test]
fn sequences_come_back_bit_for_bit() {
    let sequence = sequence();
    for ending in ENDINGS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("cache.{ending}"));
        save_sequence(&sequence, &path).unwrap();
        let Model::Sequence(back) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
            panic!("not a sequence")
        };
        assert_eq!(back.name(), sequence.name());
        assert_eq!(back.rest(), sequence.rest());
        assert_eq!(back.surface(), sequence.surface());
        for (a, b) in back.times_secs().iter().zip(sequence.times_secs()) {
            assert!((a - b).abs() < 1e-12, "{a} {b}");
        }
        for t in 0..7 {
            assert_eq!(back.frame(t), sequence.frame(t), "frame {t}");
        }
    }
}

/// A rig with shapes shows what the same arithmetic says, before bones move it.
#[test]
fn blend_shapes_are_added_before_skinning() {
    let rig = Recipe { frames: 5, chained: true, ..Recipe::new("shapes", BoneKind::Rigid) }.build();
    let bump =
        |i: usize, s: f32| Vec3::new(0.0, s * (i % 7) as f32 * 0.01, if i.is_multiple_of(3) { s * 0.1 } else { 0.0 });
    let shape = |name: &str, s: f32| BlendShape {
        name: name.into(),
        offsets: (0..rig.vertex_count()).map(|i| bump(i, s)).collect(),
        weights: vec![(0..5).map(|t| s * t as f32 / 4.0).collect()],
    };
    let shapes = [shape("up", 1.0), shape("dö wn", -0.5)];
    let shaped = CorrectiveRig { rig: rig.clone(), shapes: shapes.to_vec() };
    for ending in ENDINGS {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("shapes.{ending}"));
        save_model(&shaped, &path).unwrap();
        let back = load_sequence(&[path], &LoadOptions::default()).unwrap();
        assert_eq!(back.frames.len(), 5);
        for (t, frame) in back.frames.iter().enumerate() {
            let shaped =
                |i: usize| shapes.iter().fold(rig.rest[i], |p, shape| p + shape.weights[0][t] * shape.offsets[i]);
            let rest: Vec<Vec3> = (0..rig.vertex_count()).map(shaped).collect();
            let posed = lbs(&rest, &rig.weights, rig.clips[0].frame(t));
            let worst = posed.iter().zip(&frame.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
            assert!(worst < 1e-5, "{ending}, frame {t}: {worst}");
        }
    }
    let wrong = BlendShape { weights: vec![vec![0.0; 4]], ..shapes[0].clone() };
    let folder = tempfile::tempdir().unwrap();
    let wrong = CorrectiveRig { rig, shapes: vec![wrong] };
    assert!(save_model(&wrong, &folder.path().join("x.usda")).is_err());
}

/// Pictures lie beside a layer, or in the archive.
#[test]
fn pictures_travel() {
    let rig = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    for (ending, files) in [("usda", 2), ("usdc", 2), ("usdz", 1)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("textured.{ending}"));
        save_rig(&rig, &path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), files, "{ending}");
        let back = load_rig(&path).unwrap();
        assert_eq!(back.surface.images[0].bytes, rig.surface.images[0].bytes);
        assert_eq!(back.surface.materials[0].textures.normal, rig.surface.materials[0].textures.normal);
    }
}

/// Clips without a common rate: the one that plays has whole time codes, the others keep their times. Prims have names of the
/// rig.
#[test]
fn clips_of_mixed_rates_keep_their_times() {
    let mut rig = common::rig();
    let times = |fps: f64| (0..rig.clips[0].frame_count()).map(|t| t as f64 / fps).collect::<Vec<_>>();
    let (first, second) = (times(24.0), times(24.7));
    let mut other = rig.clips[0].clone();
    rig.clips.truncate(1);
    rig.clips[0].times_secs = first;
    (other.name, other.times_secs) = ("other".into(), second);
    rig.clips.push(other);
    rig.name = "walk".into();
    for ending in ENDINGS {
        assert_same_motion(&rig, &through(&rig, ending), 1e-5);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.usda");
    save_rig(&rig, &path).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    for expected in ["timeCodesPerSecond = 24\n", "def Mesh \"walk_mesh\"", "def Skeleton \"walk_skeleton\""] {
        assert!(text.contains(expected), "{expected}");
    }
}
