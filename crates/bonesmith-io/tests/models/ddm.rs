//! Direct Delta Mush rigs through files.

use std::path::Path;

use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute};
use bonesmith_core::deform::ddm_f64;
use bonesmith_core::model::ddm::Variant;
use bonesmith_core::synthetic::{BarParams, bar};
use bonesmith_core::{DdmRig, Model, Silent, SparseWeights, deform};
use bonesmith_io::{IoError, LoadOptions, load_ddm_maps, load_model, load_rig, load_sequence, save_model, save_rig};
use glam::{DAffine3, DVec3, Vec3};

/// The model of a file, if it is of this kind.
fn load_ddm(path: &Path) -> Result<Option<DdmRig>, IoError> {
    Ok(match load_model(&[path.to_owned()], &LoadOptions::default())? {
        Model::Ddm(model) => Some(model),
        _ => None,
    })
}

fn sample() -> DdmRig {
    let rig = bar(1, &BarParams { bones: 4, rings: 6, ..BarParams::default() });
    precompute(&rig, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap()
}

/// Virtual bones: a few vertices' multi-weights; every vertex on the nearest `z`.
fn compressed(z: usize) -> DdmRig {
    let full = sample();
    let picked: Vec<usize> = (0..full.vertex_count()).step_by(9).collect();
    let (mut starts, mut bones, mut values, mut centres) = (vec![0u32], vec![], vec![], vec![]);
    for &i in &picked {
        for (j, v) in full.weights.of(i) {
            bones.push(j as u16);
            values.extend_from_slice(v);
        }
        starts.push(bones.len() as u32);
        centres.push(full.weights.centres()[i]);
    }
    let mut layer = SparseWeights::new(full.vertex_count(), z);
    for (i, u) in full.rig.rest.iter().enumerate() {
        let mut near: Vec<(usize, f64)> =
            picked.iter().enumerate().map(|(k, &v)| (k, f64::from(u.distance(full.rig.rest[v])))).collect();
        near.sort_by(|a, b| a.1.total_cmp(&b.1));
        let row: Vec<(usize, f64)> = near[..z].iter().map(|&(k, d)| (k, 1.0 / (0.1 + d))).collect();
        layer.set(i, &row);
    }
    let weights =
        bonesmith_core::model::multi_weights::MultiWeights::from_tables(10, starts, bones, values, centres).unwrap();
    let rig = DdmRig { weights, layer: Some(layer), ..full };
    rig.check().unwrap();
    rig
}

fn posed(ddm: &DdmRig) -> Vec<Vec3> {
    ddm_f64(ddm, ddm.rig.clips[0].frame(3))
}

fn nearly(a: &[Vec3], b: &[Vec3], tolerance: f32) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.distance(*b) < tolerance)
}

fn round_trip(ddm: &DdmRig, path: &Path) -> DdmRig {
    save_model(ddm, path).unwrap();
    load_ddm(path).unwrap().unwrap_or_else(|| panic!("{} holds no multi-weights", path.display()))
}

#[test]
fn multi_weights_come_back_from_npz_and_glb() {
    let folder = tempfile::tempdir().unwrap();
    for (what, ddm) in [("full", sample()), ("z4", compressed(4)), ("z8", compressed(7))] {
        for variant in if ddm.layer.is_none() { &Variant::ALL[..] } else { &Variant::ALL[..1] } {
            let ddm = ddm.with_variant(*variant);
            for name in ["a.npz", "a.glb", "a.gltf"] {
                let path = folder.path().join(name);
                let back = round_trip(&ddm, &path);
                assert_eq!(back.weights, ddm.weights, "{what} {name}");
                assert_eq!(back.variant, ddm.variant);
                assert!(back.origin.distance(ddm.origin) < 1e-12, "{what} {name}");
                match (&back.layer, &ddm.layer) {
                    (Some(a), Some(b)) => (0..ddm.vertex_count()).for_each(|i| {
                        let twin = |(k, w): (usize, f32)| a.of(i).any(|(other, v)| other == k && (v - w).abs() < 1e-6);
                        assert!(b.of(i).all(twin), "{what} {name} {i}");
                    }),
                    (a, b) => assert_eq!(a.is_some(), b.is_some()),
                }
                assert!(nearly(&posed(&back), &posed(&ddm), 1e-5), "{what} {variant:?} {name}");
                assert!(matches!(
                    load_model(std::slice::from_ref(&path), &LoadOptions::default()).unwrap(),
                    Model::Ddm(_)
                ));
            }
        }
    }
}

#[test]
fn whoever_asks_for_a_rig_gets_the_baked_or_the_plain_one() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.npz", "a.glb"] {
        let path = folder.path().join(name);
        let small = compressed(4);
        save_model(&small, &path).unwrap();
        let baked = load_rig(&path).unwrap();
        assert_eq!(baked.bone_count(), small.virtual_count());
        let play = |rig: &bonesmith_core::Rig| deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(3));
        assert!(nearly(&play(&baked), &posed(&small), 1e-4), "{name}");
        let full = sample();
        save_model(&full, &path).unwrap();
        let plain = load_rig(&path).unwrap();
        assert!(nearly(&play(&plain), &play(&full.rig), 1e-5), "{name}");
        if name == "a.npz" {
            let frames = load_sequence(&[path], &LoadOptions::default()).unwrap().frames;
            assert!(nearly(&frames[3].positions, &posed(&full), 1e-6));
        }
    }
    // Baked for players that know nothing of it.
    let (small, path) = (compressed(4), folder.path().join("baked.glb"));
    save_rig(&small.bake().unwrap(), &path).unwrap();
    assert!(load_ddm(&path).unwrap().is_none());
    let back = load_rig(&path).unwrap();
    assert!(nearly(&deform::lbs(&back.rest, &back.weights, back.clips[0].frame(3)), &posed(&small), 1e-4));
}

#[test]
fn far_models_survive_files() {
    let folder = tempfile::tempdir().unwrap();
    let mut rig = bar(1, &BarParams { bones: 3, rings: 6, ..BarParams::default() });
    let by = DVec3::new(1000.0, -500.0, 250.0);
    let (there, back) = (DAffine3::from_translation(by), DAffine3::from_translation(-by));
    rig.rest.iter_mut().for_each(|p| *p = (p.as_dvec3() + by).as_vec3());
    rig.bones.iter_mut().for_each(|bone| bone.world_from_bind = there * bone.world_from_bind);
    rig.clips.iter_mut().flat_map(|c| &mut c.posed_from_rest).for_each(|m| *m = there * *m * back);
    let ddm = precompute(&rig, &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap();
    for name in ["far.npz", "far.glb"] {
        let read = round_trip(&ddm, &folder.path().join(name));
        assert!(nearly(&posed(&read), &posed(&ddm), 4e-4), "{name}");
    }
}

#[test]
fn other_axes_and_units_survive_files() {
    use bonesmith_core::{Space, UpAxis};
    let folder = tempfile::tempdir().unwrap();
    let mut ddm = sample();
    let mut surface = bonesmith_core::Surface::clone(&ddm.rig.surface);
    surface.space = Space { up: Some(UpAxis::Z), metres_per_unit: Some(0.01) };
    ddm.rig.surface = surface.into();
    let back = round_trip(&ddm, &folder.path().join("turned.glb"));
    assert_eq!(back.rig.surface.space, ddm.rig.surface.space);
    assert!(nearly(&posed(&back), &posed(&ddm), 1e-5));
}

#[test]
fn a_reader_without_the_extension_sees_a_sound_rig() {
    let folder = tempfile::tempdir().unwrap();
    let (ddm, path) = (sample(), folder.path().join("a.gltf"));
    save_model(&ddm, &path).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(json["extensionsUsed"], serde_json::json!(["BONESMITH_ddm"]));
    assert!(json.get("extensionsRequired").is_none());
    json["skins"][0].as_object_mut().unwrap().remove("extensions");
    std::fs::write(&path, json.to_string()).unwrap();
    assert!(load_ddm(&path).unwrap().is_none());
    assert!(load_rig(&path).unwrap().weights.max_influences() <= 4);
}

#[test]
fn damaged_files_are_refused_and_never_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.gltf");
    let damage = |ddm: &DdmRig, change: &dyn Fn(&mut serde_json::Value)| {
        save_model(ddm, &path).unwrap();
        let mut json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut json["skins"][0]["extensions"]["BONESMITH_ddm"]);
        std::fs::write(&path, json.to_string()).unwrap();
        load_ddm(&path).map(|_| ()).unwrap_err().to_string()
    };
    for (key, value) in
        [("variant", 9u32), ("width", 7), ("starts", 9999), ("joints", 0), ("weights", 1), ("centers", 9999)]
    {
        let message = damage(&sample(), &|extension| extension[key] = value.into());
        assert!(message.contains("BONESMITH_ddm"), "{key}: {message}");
    }
    assert!(damage(&sample(), &|extension| *extension = "nonsense".into()).contains("not as specified"));
    for name in ["b.npz", "b.glb"] {
        let path = folder.path().join(name);
        save_model(&compressed(4), &path).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for cut in (0..whole.len()).step_by(whole.len() / 80 + 1) {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let _ = load_ddm(&path);
            let mut flipped = whole.clone();
            flipped[cut] ^= 0x55;
            std::fs::write(&path, &flipped).unwrap();
            if let Ok(Some(rig)) = load_ddm(&path) {
                rig.check().unwrap();
                assert!(posed(&rig).len() == rig.vertex_count());
            }
        }
    }
}

#[test]
fn maps_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("maps.npz");
    save_model(&sample(), &path).unwrap();
    assert!(load_ddm_maps(&path).unwrap_err().to_string().contains("rotation_smooth"));
}
