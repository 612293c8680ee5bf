//! Rigs with shapes and bases of trajectories through files.

use std::path::Path;

use bonesmith_core::corrective::eigenskin;
use bonesmith_core::fit::{BoneCount, FitParams, Method};
use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::methods::fit;
use bonesmith_core::model::basis::Basis;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BlendShape, BoneKind, CorrectiveRig, MeshSequence, Model, Silent};
use bonesmith_io::{IoError, LoadOptions, load_model, load_rig, load_sequence, save_model, save_rig};
use glam::Vec3;

use crate::common;

/// The model of a file, if it is of this kind.
fn load_shaped(path: &Path) -> Result<Option<CorrectiveRig>, IoError> {
    Ok(match load_model(&[path.to_owned()], &LoadOptions::default())? {
        Model::Corrective(model) => Some(model),
        _ => None,
    })
}

/// The model of a file, if it is of this kind.
fn load_basis(path: &Path) -> Result<Option<Basis>, IoError> {
    Ok(match load_model(&[path.to_owned()], &LoadOptions::default())? {
        Model::Basis(model) => Some(model),
        _ => None,
    })
}

fn animation() -> MeshSequence {
    let shape = PosedRigParams { kind: BoneKind::Affine, frames: 10, detail: 2, ..PosedRigParams::default() };
    MeshSequence::try_from(posed_rig(4, &shape).sequence).unwrap()
}

/// Too few bones, and three shapes for what they miss.
fn sample() -> CorrectiveRig {
    let sequence = animation();
    let params = FitParams { bones: BoneCount::Exact(3), ..FitParams::default() };
    let rig = fit(&sequence, &params, &mut Silent).unwrap().rig;
    eigenskin(&rig, &sequence, 3, &mut Silent).unwrap()
}

#[track_caller]
fn nearly(a: &[Vec3], b: &[Vec3], name: &str) {
    let apart = a.iter().zip(b).map(|(a, b)| a.distance(*b)).fold(0f32, f32::max);
    assert!(a.len() == b.len() && apart < 1e-4, "{name}: {apart}");
}

#[test]
fn shapes_come_back_with_their_weights() {
    let folder = tempfile::tempdir().unwrap();
    let shaped = sample();
    let plain = bonesmith_core::deform::lbs(&shaped.rig.rest, &shaped.rig.weights, shaped.rig.clips[0].frame(4));
    let moved = shaped.posed(0, 4).iter().zip(&plain).map(|(a, b)| a.distance(*b)).fold(0f32, f32::max);
    assert!(moved > 1e-2, "shapes that do nothing test nothing: {moved}");
    for name in ["a.npz", "a.glb", "a.gltf", "a.fbx", "a.usda", "a.usdc", "a.usdz"] {
        let path = folder.path().join(name);
        save_model(&shaped, &path).unwrap();
        let back = load_shaped(&path).unwrap().unwrap_or_else(|| panic!("{name} has no shapes"));
        // Files have weights from 0 to 1 and opposite shapes for negative ones: joined again.
        assert_eq!(back.shapes.len(), shaped.shapes.len(), "{name}");
        (0..10).for_each(|t| nearly(&back.posed(0, t), &shaped.posed(0, t), name));
        // Whoever reads positions sees the shapes too; whoever reads a rig has the bones alone.
        let frames = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap().frames;
        assert_eq!(frames.len(), 10, "{name}");
        nearly(&frames[4].positions, &shaped.posed(0, 4), name);
        assert_eq!(load_rig(&path).unwrap().bone_count(), 3, "{name}");
    }
    let npz = load_shaped(&folder.path().join("a.npz")).unwrap().unwrap();
    assert_eq!(npz.shapes, shaped.shapes);
    for name in ["a.glb", "a.fbx", "a.usda"] {
        let back = load_shaped(&folder.path().join(name)).unwrap().unwrap();
        let names: Vec<String> = back.shapes.into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["eigenskin_00", "eigenskin_01", "eigenskin_02"], "{name}");
    }
}

#[test]
fn shapes_turn_with_the_axes_of_their_rig() {
    let folder = tempfile::tempdir().unwrap();
    let mut shaped = sample();
    let space = bonesmith_core::Space { up: Some(bonesmith_core::UpAxis::Z), metres_per_unit: Some(0.01) };
    std::sync::Arc::make_mut(&mut shaped.rig.surface).space = space;
    for name in ["z_up.glb", "z_up.fbx"] {
        let path = folder.path().join(name);
        save_model(&shaped, &path).unwrap();
        let back = load_shaped(&path).unwrap().unwrap();
        assert_eq!(back.rig.surface.space, space, "{name}");
        nearly(&back.posed(0, 4), &shaped.posed(0, 4), name);
    }
}

/// Two meshes that nodes move, one of which shapes move too: without a skin the shapes stay shapes where the reader is asked for them, and several meshes of
/// one shape are one.
#[test]
fn shapes_of_a_scene_go_from_format_to_format() {
    let folder = tempfile::tempdir().unwrap();
    let rig = common::scene();
    let parts = rig.surface.parts.ranges().map(|(_, vertices, _)| vertices).collect::<Vec<_>>();
    let offset = |meshes: &[usize], by: Vec3| {
        let mut offsets = vec![Vec3::ZERO; rig.vertex_count()];
        meshes.iter().flat_map(|&m| parts[m].clone()).step_by(2).for_each(|i| offsets[i] = by);
        offsets
    };
    let weights =
        |scale: f32| rig.clips.iter().map(|c| (0..c.frame_count()).map(|t| scale * t as f32).collect()).collect();
    let shape = |name: &str, offsets, weights| BlendShape { name: name.into(), offsets, weights };
    let shapes = vec![
        // The last mesh has no bones that move.
        shape("wide", offset(&[0, parts.len() - 1], Vec3::X), weights(0.1)),
        shape("idle", offset(&[0], Vec3::Y), weights(0.0)),
        // Moves no vertex; its name and its weights are kept.
        shape("none", offset(&[], Vec3::Y), weights(0.1)),
        shape("thin", offset(&[1], Vec3::Z), weights(-0.02)),
    ];
    let shaped = CorrectiveRig { rig, shapes };
    let options = LoadOptions { keep_shapes: true, ..LoadOptions::default() };
    let mut previous: Model = shaped.clone().into();
    for name in ["a.glb", "b.fbx", "c.usda", "d.fbx", "e.glb", "f.npz"] {
        let path = folder.path().join(name);
        save_model(&previous, &path).unwrap();
        let back = load_model(&[path], &options).unwrap();
        let Model::Corrective(own) = &back else { panic!("{name}: {:?}", back.view().kind()) };
        let names: Vec<&str> = own.shapes.iter().map(|s| s.name.as_str()).collect();
        assert_eq!(names, ["wide", "idle", "none", "thin"], "{name}");
        assert_eq!(common::outline(&own.rig.surface), common::outline(&shaped.rig.surface), "{name}");
        for (c, clip) in shaped.rig.clips.iter().enumerate() {
            assert_eq!((&own.rig.clips[c].name, own.rig.clips[c].frame_count()), (&clip.name, clip.frame_count()));
            (0..clip.frame_count()).for_each(|t| nearly(&own.posed(c, t), &shaped.posed(c, t), name));
        }
        previous = back;
    }
}

/// Frames as shapes: the positions come back, with their clips and times.
#[test]
fn animations_are_shapes_of_fbx() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("walk.fbx");
    let mut raw = posed_rig(4, &PosedRigParams { frames: 12, detail: 2, ..PosedRigParams::default() }).sequence;
    raw.times_secs = (0..12).map(|t| 0.3 + f64::from(t * t) / 100.0).collect();
    // The last frame of the first clip is the rest pose: a shape without offsets.
    raw.frames[6] = raw.rest.clone().unwrap_or_else(|| raw.frames[0].clone());
    let span = |name: &str, frames: std::ops::Range<usize>| Span {
        name: name.into(),
        times_secs: raw.times_secs[frames.clone()].to_vec(),
        frames,
    };
    raw.clips = vec![span("walk", 0..7), span("run", 7..12)];
    let sequence = MeshSequence::try_from(raw).unwrap();
    save_model(&sequence, &path).unwrap();
    let Model::Sequence(back) = load_model(&[path], &LoadOptions::default()).unwrap() else { panic!() };
    assert_eq!(back.frame_count(), 12);
    (0..12).for_each(|t| nearly(&back.frame(t), &sequence.frame(t), &format!("frame {t}")));
    for (clip, other) in sequence.clips().iter().zip(back.clips()) {
        assert_eq!((&clip.name, &clip.frames), (&other.name, &other.frames));
        assert!(clip.times_secs.iter().zip(&other.times_secs).all(|(a, b)| (a - b).abs() < 1e-9));
    }
}

#[test]
fn files_without_shapes_have_none_and_wrong_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut shaped = sample();
    for name in ["plain.npz", "plain.glb", "plain.fbx", "plain.usda"] {
        save_rig(&shaped.rig, &folder.path().join(name)).unwrap();
        assert!(load_shaped(&folder.path().join(name)).unwrap().is_none(), "{name}");
    }
    let refused = save_model(&shaped, &folder.path().join("a.abc")).unwrap_err().to_string();
    assert!(refused.contains("a.abc") && refused.contains(".glb"), "{refused}");
    shaped.shapes[1].weights[0].pop();
    for name in ["b.npz", "b.glb", "b.fbx", "b.usda"] {
        let refused = save_model(&shaped, &folder.path().join(name)).unwrap_err().to_string();
        assert!(refused.contains("eigenskin_01"), "{refused}");
        assert!(!folder.path().join(name).exists());
    }
}

fn represented(method: Method) -> Basis {
    let params = FitParams { bones: BoneCount::Exact(3), method, ..FitParams::default() };
    bonesmith_core::methods::represent(&animation(), &params, &mut Silent).unwrap().basis
}

#[test]
fn bases_come_back_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    for method in [Method::Svd, Method::Cpca] {
        let basis = represented(method);
        let path = folder.path().join("basis.npz");
        save_model(&basis, &path).unwrap();
        let back = load_basis(&path).unwrap().unwrap();
        assert_eq!((&back.mean, &back.columns, &back.coefficients), (&basis.mean, &basis.columns, &basis.coefficients));
        assert_eq!((&back.clusters, &back.times_secs), (&basis.clusters, &basis.times_secs));
        let frames = load_sequence(std::slice::from_ref(&path), &LoadOptions::default()).unwrap().frames;
        assert_eq!(frames[7].positions, basis.frame(7));
        assert!(load_rig(&path).is_err());
        let refused = save_model(&basis, &folder.path().join("basis.glb")).unwrap_err().to_string();
        assert!(refused.contains(".npz"), "{refused}");
    }
    save_rig(&sample().rig, &folder.path().join("rig.npz")).unwrap();
    assert!(load_basis(&folder.path().join("rig.npz")).unwrap().is_none());
}
