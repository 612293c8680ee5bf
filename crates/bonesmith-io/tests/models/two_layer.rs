//! Two-layer rigs and cages through files.

use std::path::Path;

use bonesmith_core::compress::{TwoLayerParams, compress};
use bonesmith_core::reduce::{ReduceMethod, ReduceParams, reduce};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{BoneKind, Model, Silent, TwoLayerRig, deform};
use bonesmith_io::{
    IoError, LoadOptions, load_model, load_rig, load_rig_normalised, load_sequence, save_model, save_rig,
};
use glam::{DAffine3, DMat3};

use crate::common;

/// The model of a file, if it is of this kind.
fn load_two_layer(path: &Path) -> Result<Option<TwoLayerRig>, IoError> {
    Ok(match load_model(&[path.to_owned()], &LoadOptions::default())? {
        Model::TwoLayer(model) => Some(model),
        _ => None,
    })
}

fn sample() -> TwoLayerRig {
    let params =
        PosedRigParams { bones: 7, influences: 7, kind: BoneKind::Affine, frames: 6, softness: 0.5, detail: 2 };
    let rig = posed_rig(2, &params).rig;
    compress(&rig, None, &TwoLayerParams::default(), &mut Silent).unwrap().rig
}

fn posed(rig: &TwoLayerRig, t: usize) -> Vec<glam::Vec3> {
    deform::two_layer(rig, rig.master.clips[0].frame(t))
}

fn nearly(a: &[glam::Vec3], b: &[glam::Vec3]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.distance(*b) < 1e-4)
}

#[test]
fn both_layers_come_back_from_npz_and_glb() {
    let folder = tempfile::tempdir().unwrap();
    let two = sample();
    for name in ["two.npz", "two.glb", "two.gltf"] {
        let path = folder.path().join(name);
        save_model(&two, &path).unwrap();
        let back = load_two_layer(&path).unwrap().unwrap();
        assert_eq!(back.blends, two.blends, "{name}");
        for i in 0..two.vertex_count() {
            assert!(back.weights.of(i).eq(two.weights.of(i)), "{name} {i}");
            assert!(back.master.weights.of(i).eq(two.master.weights.of(i)), "{name} {i}");
        }
        assert!(nearly(&posed(&back, 3), &posed(&two, 3)), "{name}");
        // Whoever asks for a rig or an animation gets the same deformation with one layer.
        let baked = load_rig(&path).unwrap();
        assert_eq!((baked.bone_count(), baked.weights.max_influences()), (two.virtual_count(), 2));
        assert!(nearly(&deform::lbs(&baked.rest, &baked.weights, baked.clips[0].frame(3)), &posed(&two, 3)), "{name}");
        assert!(matches!(
            load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap(),
            Model::TwoLayer(_)
        ));
    }
    let frames = load_sequence(&[folder.path().join("two.npz")], &LoadOptions::default()).unwrap().frames;
    assert!(nearly(&frames[3].positions, &posed(&two, 3)));
}

#[test]
fn baked_files_play_with_two_influences() {
    let folder = tempfile::tempdir().unwrap();
    let two = sample();
    let path = folder.path().join("baked.glb");
    save_rig(&two.bake(), &path).unwrap();
    assert!(load_two_layer(&path).unwrap().is_none());
    let back = load_rig(&path).unwrap();
    assert!(nearly(&deform::lbs(&back.rest, &back.weights, back.clips[0].frame(2)), &posed(&two, 2)));
}

#[test]
fn a_reader_without_the_extension_sees_a_sound_rig() {
    let folder = tempfile::tempdir().unwrap();
    let (two, path) = (sample(), folder.path().join("two.gltf"));
    save_model(&two, &path).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(json["extensionsUsed"], serde_json::json!(["BONESMITH_two_layer"]));
    assert!(json.get("extensionsRequired").is_none());
    // Another program drops what it does not know.
    json["skins"][0].as_object_mut().unwrap().remove("extensions");
    std::fs::write(&path, json.to_string()).unwrap();
    assert!(load_two_layer(&path).unwrap().is_none());
    let plain = load_rig(&path).unwrap();
    let master = &two.master;
    let expected = deform::lbs(&master.rest, &master.weights, master.clips[0].frame(4));
    assert!(nearly(&deform::lbs(&plain.rest, &plain.weights, plain.clips[0].frame(4)), &expected));
}

#[test]
fn damaged_layers_are_refused_with_the_number() {
    let folder = tempfile::tempdir().unwrap();
    let (two, path) = (sample(), folder.path().join("two.gltf"));
    let damage = |change: &dyn Fn(&mut serde_json::Value)| {
        save_model(&two, &path).unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut json["skins"][0]["extensions"]["BONESMITH_two_layer"]);
        std::fs::write(&path, json.to_string()).unwrap();
        load_two_layer(&path).unwrap_err().to_string()
    };
    for (key, value) in [("virtualBones", 4_000_000_000u32), ("slots", 0), ("joints", 9999), ("weights", 0)] {
        let message = damage(&|extension| extension[key] = value.into());
        assert!(message.contains("BONESMITH_two_layer"), "{key}: {message}");
    }
    assert!(damage(&|extension| *extension = "nonsense".into()).contains("not as specified"));
    let mut bytes = Vec::new();
    for name in ["two.npz", "two.glb"] {
        let path = folder.path().join(name);
        save_model(&two, &path).unwrap();
        bytes.push((path.clone(), std::fs::read(&path).unwrap()));
    }
    for (path, whole) in bytes {
        for cut in (0..whole.len()).step_by(whole.len() / 60 + 1) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let _ = load_two_layer(&path);
            let mut flipped = whole.clone();
            flipped[cut] ^= 0x55;
            std::fs::write(&path, &flipped).unwrap();
            if let Ok(Some(rig)) = load_two_layer(&path) {
                rig.check().unwrap();
            }
        }
    }
}

/// An npz as NumPy would write it: `weights` and `controls` only.
fn write_cage(path: &Path, weights: &[[f32; 3]], frames: &[[[f32; 3]; 3]]) {
    let mut zip = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let mut array = |key: &str, shape: &str, values: Vec<f32>| {
        let mut text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
        while (10 + text.len() + 1) % 64 != 0 {
            text.push(' ');
        }
        text.push('\n');
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.extend(values.iter().flat_map(|v| v.to_le_bytes()));
        zip.start_file(format!("{key}.npy"), zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut zip, &bytes).unwrap();
    };
    array("weights", &format!("({}, 3)", weights.len()), weights.as_flattened().to_vec());
    array("controls", &format!("({}, 3, 3)", frames.len()), frames.as_flattened().as_flattened().to_vec());
    zip.finish().unwrap();
}

#[test]
fn cages_are_read_reduced_and_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cage.npz");
    let weights: Vec<[f32; 3]> = (0..40).map(|i| i as f32 / 40.0).map(|a| [a * 0.9, (1.0 - a) * 0.9, 0.1]).collect();
    let frames =
        [[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.2]]];
    write_cage(&path, &weights, &frames);
    let cage = load_rig(&path).unwrap();
    assert_eq!((cage.bone_count(), cage.vertex_count(), cage.kind), (3, 40, BoneKind::Affine));
    assert!(cage.clips[0].posed_from_rest.iter().all(|m: &DAffine3| m.matrix3 == DMat3::ZERO));
    // v = sum_j w_j c_j, by hand.
    let vertex = deform::lbs(&cage.rest, &cage.weights, cage.clips[0].frame(1))[10];
    let by_hand = (0..3).map(|j| weights[10][j] * glam::Vec3::from_array(frames[1][j])).sum::<glam::Vec3>();
    assert!(vertex.distance(by_hand) < 1e-6);
    for method in [ReduceMethod::Bonesmith, ReduceMethod::Smooth, ReduceMethod::Poisson] {
        let params = ReduceParams { influences: 2, method, ..ReduceParams::default() };
        let reduced = reduce(&cage, None, &params, &mut Silent).unwrap().rig;
        assert!(reduced.weights.max_influences() <= 2);
        let copy = folder.path().join("reduced.npz");
        save_rig(&reduced, &copy).unwrap();
        assert!(nearly(
            &deform::lbs(&reduced.rest, &reduced.weights, reduced.clips[0].frame(1)),
            &load_sequence(&[copy], &LoadOptions::default()).unwrap().frames[1].positions
        ));
    }
    let two = compress(&cage, None, &TwoLayerParams { allow_larger: true, ..TwoLayerParams::default() }, &mut Silent)
        .unwrap()
        .rig;
    assert!(nearly(&posed(&two, 1), &deform::lbs(&cage.rest, &cage.weights, cage.clips[0].frame(1))));
}

#[test]
fn bad_weights_are_refused_or_made_sound_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cage.npz");
    let frames = [[[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]];
    write_cage(&path, &[[0.5, 0.5, 0.0], [0.5, 0.9, -0.4], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], &frames);
    let message = load_rig(&path).unwrap_err().to_string();
    assert!(message.contains("vertex 1: weight of bone 2 is -0.4"), "{message}");
    let sound = load_rig_normalised(&path).unwrap();
    assert!(sound.weights.of(1).map(|(_, w)| w).eq([0.9 / 1.4, 0.5 / 1.4]));
    write_cage(&path, &[[0.5, 0.5, 0.0], [0.3, 0.3, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], &frames);
    let message = load_rig(&path).unwrap_err().to_string();
    assert!(message.contains("vertex 1: weights sum to 0.6"), "{message}");
    assert!(load_rig_normalised(&path).is_ok());
    write_cage(&path, &[[0.0; 3]; 4], &frames);
    assert!(load_rig_normalised(&path).unwrap_err().to_string().contains("vertex 0: weights sum to 0"));
}

/// Rigs of other programs, by each measure: no round raises the error, which a debug assertion checks.
#[test]
fn real_rigs_are_compressed() {
    let Some(data) = common::data() else { return };
    for name in
        ["dembones/Bone_All.fbx", "character.glb", "CesiumMan.glb", "scenes/Soldier.glb", "scenes/RobotExpressive.glb"]
    {
        let rig = load_rig_normalised(&data.join("files").join(name)).unwrap();
        for weights_only in [false, true] {
            let params = TwoLayerParams { weights_only, allow_larger: true, ..TwoLayerParams::default() };
            let found = compress(&rig, None, &params, &mut Silent).unwrap_or_else(|error| panic!("{name}: {error}"));
            found.rig.check().unwrap();
            println!("{name}: {} virtual bones, {} rounds", found.rig.virtual_count(), found.info.rounds);
        }
    }
}
