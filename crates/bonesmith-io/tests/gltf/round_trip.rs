//! What we write, we read back.

use std::sync::Arc;

use bonesmith_core::deform::lbs;
use bonesmith_core::{
    BoneKind, MeshSequence, Model, RawFrame, RawSequence, Rig, Space, SparseWeights, Surface, Topology, UpAxis,
};
use bonesmith_io::{LoadOptions, load_model, load_rig, load_sequence, save_rig, save_sequence};
use glam::{DAffine3, DMat3, DVec3, Vec3};
use proptest::prelude::*;

use crate::rigs::{self, Recipe};

fn size(rest: &[Vec3]) -> f32 {
    let low = rest.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    let high = rest.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
    (high - low).length()
}

fn through(rig: &Rig, extension: &str) -> Rig {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("a b%.{extension}"));
    save_rig(rig, &path).unwrap();
    load_rig(&path).unwrap()
}

fn assert_same_motion(a: &Rig, b: &Rig, tolerance: f32) {
    assert_eq!(a.clips.len(), b.clips.len());
    for (clip, other) in a.clips.iter().zip(&b.clips) {
        assert_eq!((&clip.name, &clip.times_secs), (&other.name, &other.times_secs));
        for t in 0..clip.frame_count() {
            let posed = lbs(&a.rest, &a.weights, clip.frame(t));
            let again = lbs(&b.rest, &b.weights, other.frame(t));
            let worst = posed.iter().zip(&again).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
            assert!(worst <= tolerance * size(&a.rest), "{}, frame {t}: {worst}", a.name);
        }
    }
}

/// The file is in glTF's axes and metres; we find our own numbers again, others the right size.
#[test]
fn axes_and_units_are_gltfs_in_the_file_and_our_own_when_read_back() {
    let space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    let mut rig = Recipe { seams: true, ..Recipe::new("centimetres", BoneKind::Rigid) }.build();
    Arc::make_mut(&mut rig.surface).space = space;
    let back = through(&rig, "glb");
    assert_eq!(back.surface.space, space);
    let normals = |rig: &Rig| rig.surface.normals.clone().unwrap();
    for (a, b) in normals(&rig).values.iter().zip(&normals(&back).values) {
        assert!(Vec3::from(*a).distance(Vec3::from(*b)) < 1e-6);
    }
    assert!(rig.rest.iter().zip(&back.rest).all(|(a, b)| a.distance(*b) < 1e-6 * size(&rig.rest)));
    assert_same_motion(&rig, &back, 2e-6);

    let folder = tempfile::tempdir().unwrap();
    let (path, stranger) = (folder.path().join("a.glb"), folder.path().join("b.glb"));
    save_rig(&rig, &path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let name = b"bonesmith";
    while let Some(at) = bytes.windows(name.len()).position(|w| w == name) {
        bytes[at] = b'x'; // a program that does not know our extras
    }
    std::fs::write(&stranger, bytes).unwrap();
    let seen = load_rig(&stranger).unwrap();
    assert_eq!(seen.surface.space, Space::GLTF);
    assert!((size(&seen.rest) - 0.01 * size(&rig.rest)).abs() < 1e-6 * size(&rig.rest));
    let highest = |rest: &[Vec3], axis: usize| rest.iter().map(|p| p[axis]).fold(f32::MIN, f32::max);
    assert!((highest(&seen.rest, 1) - 0.01 * highest(&rig.rest, 2)).abs() < 1e-6);
}

#[test]
fn every_rig_comes_back() {
    for rig in rigs::all() {
        let back = through(&rig, "glb");
        assert_eq!(back.rest, rig.rest, "{}", rig.name);
        assert_eq!(back.weights, rig.weights, "{}", rig.name);
        assert_eq!(back.surface.topology, rig.surface.topology, "{}", rig.name);
        assert_eq!(back.surface.face_materials, rig.surface.face_materials);
        assert_eq!(back.surface.materials, rig.surface.materials);
        assert_eq!(back.surface.images, rig.surface.images);
        assert_eq!((back.kind, &back.params_json), (rig.kind, &rig.params_json));
        for (bone, again) in rig.bones.iter().zip(&back.bones) {
            assert_eq!((&bone.name, bone.parent), (&again.name, again.parent), "{}", rig.name);
            let place = bone.world_from_bind.translation.length();
            assert!(bone.world_from_bind.abs_diff_eq(again.world_from_bind, 1e-6 * (1.0 + place)), "{}", rig.name);
        }
        // Far from the origin, the reference itself is rounded to 3e-5 of the size.
        let tolerance = if rig.name.starts_with("far") { 4e-5 } else { 2e-6 };
        assert_same_motion(&rig, &back, tolerance);
    }
}

#[test]
fn corner_attributes_come_back() {
    let rig = Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) }.build();
    let back = through(&rig, "glb");
    let (a, b) = (&rig.surface, &back.surface);
    let corners = a.topology.corners().len();
    assert_eq!((a.uv_sets.len(), b.uv_sets.len()), (2, 2));
    for c in 0..corners {
        for (uv, again) in a.uv_sets.iter().zip(&b.uv_sets) {
            let (uv, again) = (uv.values[uv.indices[c] as usize], again.values[again.indices[c] as usize]);
            assert!((uv[0] - again[0]).abs() < 1e-7 && (uv[1] - again[1]).abs() < 1e-7, "corner {c}");
        }
    }
    let values = |s: &Surface| {
        let (n, c) = (s.normals.clone().unwrap(), s.colors.clone().unwrap());
        let normals: Vec<_> = n.indices.iter().map(|&i| n.values[i as usize]).collect();
        (normals, c.indices.iter().map(|&i| c.values[i as usize]).collect::<Vec<_>>())
    };
    assert_eq!(values(a), values(b));
}

#[test]
fn gltf_with_a_bin_beside_it() {
    let rig = Recipe { seams: true, ..Recipe::new("parts", BoneKind::Rigid) }.build();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two parts.gltf");
    save_rig(&rig, &path).unwrap();
    assert!(folder.path().join("two parts.bin").is_file());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporaries left");
    let back = load_rig(&path).unwrap();
    assert_eq!(back.rest, rig.rest);
    assert_same_motion(&rig, &back, 2e-6);
    // The .bin is named in the .gltf, and missed when it is gone.
    std::fs::remove_file(folder.path().join("two parts.bin")).unwrap();
    assert!(load_rig(&path).unwrap_err().to_string().contains("two parts.bin"));
}

#[test]
fn sequences_come_back_as_morph_targets() {
    let rig = Recipe { seams: true, frames: 7, ..Recipe::new("morph", BoneKind::Affine) }.build();
    let frame = |t| RawFrame { positions: lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t)), ..RawFrame::default() };
    let raw = RawSequence {
        name: "morph".into(),
        rest: Some(RawFrame { positions: rig.rest.clone(), ..RawFrame::default() }),
        frames: (0..7).map(frame).collect(),
        times_secs: (0..7).map(|t| f64::from(t) / 30.0 - 0.1).collect(),
        surface: (*rig.surface).clone(),
        ..RawSequence::default()
    };
    let sequence = MeshSequence::try_from(raw).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("morph.glb");
    save_sequence(&sequence, &path).unwrap();
    let Model::Sequence(back) = load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap() else {
        panic!("not a sequence")
    };
    assert_eq!(back.rest(), sequence.rest());
    assert_eq!(back.surface().topology, sequence.surface().topology);
    for (a, b) in back.times_secs().iter().zip(sequence.times_secs()) {
        assert!((a - b).abs() < 1e-7, "{a} {b}");
    }
    for t in 0..7 {
        let worst = back.frame(t).iter().zip(sequence.frame(t).iter()).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
        assert!(worst < 1e-6, "frame {t}: {worst}");
    }
}

#[test]
fn a_rig_bakes_to_what_it_shows() {
    let rig = Recipe { chained: true, ..Recipe::new("baked", BoneKind::Trs) }.build();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("baked.glb");
    save_rig(&rig, &path).unwrap();
    let sequence = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap();
    assert_eq!(sequence.frames.len(), 25);
    for (t, frame) in sequence.frames.iter().enumerate() {
        let posed = lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
        let worst = posed.iter().zip(&frame.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max);
        assert!(worst < 1e-5, "frame {t}: {worst}");
    }
    // Twice the rate: every other frame is a key.
    let options = LoadOptions { fps: Some(48.0), ..LoadOptions::default() };
    let fine = load_sequence(&[path], &options).unwrap();
    assert_eq!(fine.frames.len(), 49);
    assert!((fine.times_secs[48] - 1.0).abs() < 1e-9);
    let worst = |a: &RawFrame, b: &RawFrame| {
        a.positions.iter().zip(&b.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max)
    };
    assert!((0..25).all(|t| worst(&fine.frames[2 * t], &sequence.frames[t]) < 1e-5));
    // In between it stays between: no flipped rotation, no swapped axis.
    for t in 0..24 {
        let step = worst(&sequence.frames[t], &sequence.frames[t + 1]);
        assert!(worst(&fine.frames[2 * t + 1], &sequence.frames[t]) < 0.7 * step + 1e-3, "after frame {t}");
    }
}

/// Between keys, nested nodes move sanely too.
#[test]
fn affine_bones_interpolate_without_jumps() {
    let rig = Recipe { chained: true, ..Recipe::new("between", BoneKind::Affine) }.build();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("between.glb");
    save_rig(&rig, &path).unwrap();
    let options = LoadOptions { fps: Some(96.0), ..LoadOptions::default() };
    let fine = load_sequence(&[path], &options).unwrap();
    let worst = |a: &RawFrame, b: &RawFrame| {
        a.positions.iter().zip(&b.positions).map(|(p, q)| p.distance(*q)).fold(0.0, f32::max)
    };
    for t in 0..24 {
        let step = worst(&fine.frames[4 * t], &fine.frames[4 * t + 4]);
        for s in 0..4 {
            let small = worst(&fine.frames[4 * t + s], &fine.frames[4 * t + s + 1]);
            assert!(small < 0.5 * step + 1e-3, "after frame {t}: {small} of {step}");
        }
    }
}

#[test]
fn point_clouds_and_loose_vertices() {
    let mut rig = Recipe::new("points", BoneKind::Rigid).build();
    rig.surface = Arc::new(Surface::bare(Topology::empty()));
    // Two in one place stay two.
    rig.rest[1] = rig.rest[0];
    let back = through(&rig, "glb");
    assert_eq!((back.rest.len(), back.surface.topology.face_count()), (rig.rest.len(), 0));
    assert_same_motion(&rig, &back, 2e-6);

    rig.surface = Arc::new(Surface::bare(Topology::from_triangles(&[[9, 7, 5], [5, 7, 100]])));
    let back = through(&rig, "glb");
    assert_eq!(back.rest, rig.rest);
    assert_eq!(back.surface.topology, rig.surface.topology);
}

#[test]
fn a_bone_that_flattens_space_keeps_its_children_right() {
    let mut rig = Recipe { chained: true, ..Recipe::new("flat", BoneKind::Affine) }.build();
    let flat = DAffine3::from_mat3(DMat3::from_diagonal(DVec3::new(1.0, 1.0, 0.0)));
    rig.clips[0].posed_from_rest[5 * 10 + 1] = flat;
    rig.clips[0].posed_from_rest[5 * 11] = DAffine3::from_mat3(DMat3::ZERO);
    let back = through(&rig, "glb");
    assert_same_motion(&rig, &back, 2e-6);
    let parents = |rig: &Rig| rig.bones.iter().map(|b| b.parent).collect::<Vec<_>>();
    assert_eq!(parents(&back), parents(&rig));
}

#[test]
fn more_than_eight_influences_are_refused_with_advice() {
    let mut rig = Recipe { bones: 12, ..Recipe::new("many", BoneKind::Rigid) }.build();
    rig.weights = SparseWeights::new(rig.rest.len(), 9);
    (0..rig.rest.len()).for_each(|i| rig.weights.set(i, &(0..9).map(|j| (j, 1.0)).collect::<Vec<_>>()));
    let folder = tempfile::tempdir().unwrap();
    let message = save_rig(&rig, &folder.path().join("x.glb")).unwrap_err().to_string();
    assert!(message.contains("9 influences") && message.contains("or fewer"), "{message}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn several_clips_keep_their_names_and_times() {
    let mut rig = Recipe::new("clips", BoneKind::Rigid).build();
    let mut second = rig.clips[0].clone();
    second.name = "still".into();
    second.times_secs.iter_mut().for_each(|t| *t -= 5.0);
    second.posed_from_rest.fill(DAffine3::IDENTITY);
    rig.clips.push(second);
    let back = through(&rig, "glb");
    let names: Vec<_> = back.clips.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["wave", "still"]);
    for (clip, again) in rig.clips.iter().zip(&back.clips) {
        assert_eq!(clip.times_secs.len(), again.times_secs.len());
        assert!(clip.times_secs.iter().zip(&again.times_secs).all(|(a, b)| (a - b).abs() < 1e-6));
    }
    let moved = back.clips[1].posed_from_rest.iter().any(|m| !m.abs_diff_eq(DAffine3::IDENTITY, 1e-6));
    assert!(!moved, "the still clip must hold bones that the other moves");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any affine motion, flat and mirrored ones too, any hierarchy.
    #[test]
    fn any_motion_comes_back(
        entries in prop::collection::vec(-2.0..2.0f64, 5 * 4 * 12),
        parents in prop::collection::vec(0usize..6, 5),
        zero in 0usize..4,
    ) {
        let mut rig = Recipe { frames: 4, ..Recipe::new("any", BoneKind::Affine) }.build();
        for (j, &p) in parents.iter().enumerate() {
            rig.bones[j].parent = (p < j).then_some(p);
        }
        for (at, m) in rig.clips[0].posed_from_rest.iter_mut().enumerate() {
            let e = &entries[at * 12..at * 12 + 12];
            *m = DAffine3::from_cols_array(e.try_into().unwrap());
            if at % 7 == zero {
                m.matrix3.z_axis = m.matrix3.x_axis * 0.5;
            }
        }
        let back = through(&rig, "glb");
        assert_same_motion(&rig, &back, 2e-5);
        for (bone, again) in rig.bones.iter().zip(&back.bones) {
            prop_assert_eq!(bone.parent, again.parent);
        }
    }
}
