//! Rigs with shapes and bases of trajectories through files.

use std::path::Path;

use bonesmith_core::corrective::eigenskin;
use bonesmith_core::fit::{BoneCount, FitParams, Method};
use bonesmith_core::methods::fit;
use bonesmith_core::model::basis::Basis;
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, CorrectiveRig, MeshSequence, Model, Silent};
use bonesmith_io::{IoError, LoadOptions, load_model, load_rig, load_sequence, save_model, save_rig};
use glam::Vec3;

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
    for name in ["a.npz", "a.glb", "a.gltf", "a.usda", "a.usdc", "a.usdz"] {
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
    let names: Vec<String> =
        load_shaped(&folder.path().join("a.glb")).unwrap().unwrap().shapes.into_iter().map(|s| s.name).collect();
    assert_eq!(names, ["eigenskin_00", "eigenskin_01", "eigenskin_02"]);
}

#[test]
fn shapes_turn_with_the_axes_of_their_rig() {
    let folder = tempfile::tempdir().unwrap();
    let mut shaped = sample();
    let space = bonesmith_core::Space { up: Some(bonesmith_core::UpAxis::Z), metres_per_unit: Some(0.01) };
    std::sync::Arc::make_mut(&mut shaped.rig.surface).space = space;
    let path = folder.path().join("z_up.glb");
    save_model(&shaped, &path).unwrap();
    let back = load_shaped(&path).unwrap().unwrap();
    assert_eq!(back.rig.surface.space, space);
    nearly(&back.posed(0, 4), &shaped.posed(0, 4), "z up");
}

#[test]
fn files_without_shapes_have_none_and_wrong_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut shaped = sample();
    for name in ["plain.npz", "plain.glb", "plain.usda"] {
        save_rig(&shaped.rig, &folder.path().join(name)).unwrap();
        assert!(load_shaped(&folder.path().join(name)).unwrap().is_none(), "{name}");
    }
    let refused = save_model(&shaped, &folder.path().join("a.fbx")).unwrap_err().to_string();
    assert!(refused.contains("a.fbx") && refused.contains(".glb"), "{refused}");
    shaped.shapes[1].weights[0].pop();
    for name in ["b.npz", "b.glb", "b.usda"] {
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
