//! Direct Delta Mush and its compression on real characters: the paper's claims, with numbers.

use bonesmith_core::ddm::compress::{DdmCompressInfo, DdmCompressParams, RangeOfMotion, compress};
use bonesmith_core::ddm::{DdmMaps, DdmParams, precompute, rigid_bind};
use bonesmith_core::deform::ddm_f64;
use bonesmith_core::{DdmRig, Rig, Silent, deform};
use bonesmith_io::load_rig;
use glam::{DAffine3, Vec3};

use crate::common;

fn soft(rig: &Rig) -> DdmRig {
    precompute(&rigid_bind(rig), &DdmParams::default(), &DdmMaps::default(), &mut Silent).unwrap()
}

/// Root mean square distance over every `step`th frame, in percent of the height.
fn off(rig: &Rig, step: usize, a: impl Fn(&[DAffine3]) -> Vec<Vec3>, b: impl Fn(&[DAffine3]) -> Vec<Vec3>) -> f64 {
    let clip = &rig.clips[0];
    let frames: Vec<usize> = (0..clip.frame_count()).step_by(step).collect();
    let squared: f64 = frames
        .iter()
        .flat_map(|&t| a(clip.frame(t)).into_iter().zip(b(clip.frame(t))).collect::<Vec<_>>())
        .map(|(a, b)| a.as_dvec3().distance_squared(b.as_dvec3()))
        .sum();
    let low = rig.rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rig.rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    100.0 * (squared / (frames.len() * rig.rest.len()) as f64).sqrt() / f64::from((high - low).max_element())
}

fn small(full: &DdmRig, change: impl FnOnce(&mut DdmCompressParams)) -> (DdmRig, DdmCompressInfo) {
    let mut params = DdmCompressParams { virtual_bones: 60, max_rounds: 6, ..DdmCompressParams::default() };
    change(&mut params);
    compress(full, &params, &mut Silent).unwrap()
}

#[test]
fn cesium_man_with_his_own_skeleton() {
    let Some(data) = common::data() else { return };
    let full = soft(&load_rig(&data.join("files/CesiumMan.glb")).unwrap());
    let error = |made: &DdmRig| off(&full.rig, 5, |pose| ddm_f64(&full, pose), |pose| deform::ddm(made, pose));
    let (made, info) = small(&full, |_| ());
    assert!(!info.found_tree && info.history.windows(2).all(|pair| pair[1].error <= pair[0].error));
    let best = error(&made);
    assert!(best < 0.25, "{best}");
    let loose = error(&small(&full, |params| params.maps.hierarchy = false).0);
    let uniform = RangeOfMotion::Uniform { radians: 2.0, units: 0.0 };
    let uniform = error(&small(&full, |params| params.range = uniform).0);
    let stiff = error(&small(&full, |params| params.keep_multi_weights = true).0);
    println!(
        "CesiumMan: {best:.4} %, no hierarchy {loose:.4}, uniform ranges {uniform:.4}, multi-weights kept {stiff:.4}"
    );
    assert!(best < loose && best < uniform, "{best} {loose} {uniform}");
    let plain = |pose: &[DAffine3]| deform::lbs(&full.rig.rest, &full.rig.weights, pose);
    let plain = off(&full.rig, 5, |pose| ddm_f64(&full, pose), plain);
    // He moves little: even the hard binding is off by 0.16 % only.
    assert!(best < 0.7 * plain, "{best} {plain}");
}

#[test]
fn michelle_reaches_the_targets_of_size_and_error() {
    let Some(data) = common::data() else { return };
    let (rig, _) = common::truth::known(&data, "gt_michelle_samba");
    let full = soft(&rig);
    let (made, info) = small(&full, |params| {
        params.virtual_bones = 100;
        params.max_rounds = 4;
    });
    assert!(info.found_tree && info.history.windows(2).all(|pair| pair[1].error <= pair[0].error));
    let error = off(&full.rig, 6, |pose| ddm_f64(&full, pose), |pose| deform::ddm(&made, pose));
    let ratio = full.bytes() as f64 / made.bytes() as f64;
    println!("Michelle: {error:.4} %, {ratio:.1} x smaller");
    assert!(error < 0.25 && ratio > 8.0, "{error} {ratio}");
}
