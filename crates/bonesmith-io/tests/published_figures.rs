//! Published figures, which the methods of the papers have to come near: [Kavan2010 table 2], [Course2014 table 1].

mod common;

use bonesmith_core::correct::{self, eigenskin};
use bonesmith_core::fit::{BoneCount, FitInfo, FitParams, Fitted, Method, fit};
use bonesmith_core::{BoneKind, MeshSequence, Silent, basis, metrics};
use bonesmith_io::{LoadOptions, load_sequence};

/// `sequences/{name}.npz`, if it is there.
fn sequence(name: &str) -> Option<MeshSequence> {
    let path = common::data()?.join(format!("sequences/{name}.npz"));
    let raw = load_sequence(&[path], &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
    Some(MeshSequence::try_from(raw).unwrap())
}

/// As `bonesmith fit --method` has it.
fn params(method: Method, bones: usize) -> FitParams {
    let bone_kind = if matches!(method, Method::Ssdr | Method::Lssp) { BoneKind::Rigid } else { BoneKind::Affine };
    let influences = if method == Method::Lssp { None } else { Some(4) };
    FitParams { bones: BoneCount::Exact(bones), bone_kind, influences, method, ..FitParams::default() }
}

/// What was measured is what was told.
fn told(name: &str, measured: f64, info: &FitInfo) {
    println!("{name}: {measured:.3}, {:.2} + {:.2} s", info.prepare_secs, info.fit_secs);
    let reported = info.history.last().unwrap().e_rms;
    assert!((measured - reported).abs() < 1e-3 * measured, "{name}: {reported} reported, {measured} measured");
}

fn rig(sequence: &MeshSequence, name: &str, params: &FitParams) -> (Fitted, f64) {
    let fitted = fit(sequence, params, &mut Silent).unwrap();
    fitted.rig.check().unwrap();
    let measured = metrics::evaluate(&fitted.rig, sequence).unwrap().e_rms;
    told(&format!("{name} {}", params.method.name()), measured, &fitted.info);
    (fitted, measured)
}

/// At most 15 % above the published figure.
fn fsd(name: &str, bones: usize, published: f64) {
    let Some(sequence) = sequence(name) else { return };
    let e_rms = rig(&sequence, name, &FitParams { tolerance: Some(0.0), ..params(Method::Fsd, bones) }).1;
    assert!(e_rms <= 1.15 * published, "{name} with {bones} bones: {e_rms}, published {published}");
}

#[test]
fn fsd_horse_gallop() {
    fsd("horse-gallop", 30, 1.3);
}

#[test]
fn fsd_elastic_cow() {
    fsd("pcow", 18, 3.6);
}

#[test]
fn fsd_collapsing_horse() {
    fsd("horse-collapse", 6, 8.3);
}

#[test]
fn fsd_samba() {
    fsd("samba", 30, 1.5);
}

/// A rig's error and that with shapes, over what was published.
fn ratios(name: &str, method: Method, bones: usize, rank: usize, published: [f64; 2]) -> Option<[f64; 2]> {
    let sequence = sequence(name)?;
    let (fitted, plain) = rig(&sequence, name, &params(method, bones));
    let shaped = eigenskin(&fitted.rig, &sequence, rank, &mut Silent).unwrap();
    let corrected = correct::evaluate(&shaped, 0, &sequence).unwrap().e_rms;
    println!("{name} {}, {rank} shapes: {corrected:.3}", method.name());
    Some([plain / published[0], corrected / published[1]])
}
