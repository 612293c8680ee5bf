//! Figures of the fit on real sequences: a change that makes one worse must be seen.
//!
//! Provenance: our own results with seed 0 and effort `fast`, E_RMS as `metrics::evaluate` gives it; each limit is
//! about 7 % above what was seen when it was set. Loosening one needs a line in the changelog.

mod common;

use bonesmith_core::fit::{BoneCount, Effort, FitParams, fit};
use bonesmith_core::{BoneKind, MeshSequence, Silent, metrics};
use bonesmith_io::{LoadOptions, load_sequence};

/// (sequence, bones, kind, E_RMS at most)
const FIGURES: [(&str, usize, BoneKind, f64); 13] = [
    ("horse-gallop", 20, BoneKind::Rigid, 2.3),
    ("horse-gallop", 30, BoneKind::Affine, 0.95),
    ("horse-collapse", 10, BoneKind::Rigid, 6.4),
    ("horse-poses", 20, BoneKind::Rigid, 2.65),
    ("cat-poses", 15, BoneKind::Rigid, 5.0),
    ("lion-poses", 21, BoneKind::Rigid, 3.5),
    ("face-poses", 9, BoneKind::Rigid, 11.0),
    ("chickenCrossing", 20, BoneKind::Rigid, 6.9),
    ("pcow", 10, BoneKind::Rigid, 11.4),
    ("pcow", 18, BoneKind::Affine, 3.65),
    ("pcow", 18, BoneKind::Trs, 5.0),
    ("pdance", 24, BoneKind::Rigid, 0.98),
    ("samba", 20, BoneKind::Rigid, 4.25),
];

#[test]
fn figures_hold() {
    let Some(data) = common::data() else { return };
    let mut missed = Vec::new();
    for (name, bones, kind, limit) in FIGURES {
        let path = data.join(format!("sequences/{name}.npz"));
        let raw = load_sequence(&[path], &LoadOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let sequence = MeshSequence::try_from(raw).unwrap();
        let params =
            FitParams { bones: BoneCount::Exact(bones), bone_kind: kind, effort: Effort::Fast, ..FitParams::default() };
        let fitted = fit(&sequence, &params, &mut Silent).unwrap();
        fitted.rig.check().unwrap();
        let e_rms = metrics::evaluate(&fitted.rig, &sequence).unwrap().e_rms;
        let line = format!("{name}, {bones} {kind:?} bones: E_RMS {e_rms:.3}, at most {limit}");
        println!("{line}, {:.1} s", fitted.info.prepare_secs + fitted.info.fit_secs);
        if e_rms > limit {
            missed.push(line);
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}
