//! Published figures of [Kavan2010 table 2], which `--method fsd` has to come near.

mod common;

use bonesmith_core::fit::{BoneCount, FitParams, Method, fit};
use bonesmith_core::{BoneKind, MeshSequence, Silent, metrics};
use bonesmith_io::{LoadOptions, load_sequence};

/// E_RMS of `sequences/{name}.npz` with this many bones.
fn fsd(name: &str, bones: usize) -> Option<f64> {
    let path = common::data()?.join(format!("sequences/{name}.npz"));
    let raw = load_sequence(&[path], &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    let sequence = MeshSequence::try_from(raw).unwrap();
    let params = FitParams {
        bones: BoneCount::Exact(bones),
        bone_kind: BoneKind::Affine,
        tolerance: Some(0.0),
        method: Method::Fsd,
        ..FitParams::default()
    };
    let fitted = fit(&sequence, &params, &mut Silent).unwrap();
    fitted.rig.check().unwrap();
    let measured = metrics::evaluate(&fitted.rig, &sequence).unwrap().e_rms;
    println!("{name} {bones}: {measured:.3}, {:.2} + {:.2} s", fitted.info.prepare_secs, fitted.info.fit_secs);
    let reported = fitted.info.history.last().unwrap().e_rms;
    assert!((measured - reported).abs() < 1e-3 * measured, "{name}: {reported} reported, {measured} measured");
    Some(measured)
}

/// At most 15 % above the published figure.
fn within(name: &str, bones: usize, published: f64) {
    if let Some(e_rms) = fsd(name, bones) {
        assert!(e_rms <= 1.15 * published, "{name} with {bones} bones: {e_rms}, published {published}");
    }
}

#[test]
fn horse_gallop() {
    within("horse-gallop", 30, 1.3);
}

#[test]
fn elastic_cow() {
    within("pcow", 18, 3.6);
}

#[test]
fn collapsing_horse() {
    within("horse-collapse", 6, 8.3);
}

#[test]
fn samba() {
    within("samba", 30, 1.5);
}
