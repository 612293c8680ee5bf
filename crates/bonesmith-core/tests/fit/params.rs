//! Parameters out of range are refused, with the name and the number.

use bonesmith_core::Silent;
use bonesmith_core::fit::{BoneCount, FitError, FitParams};
use bonesmith_core::methods::fit;

use crate::harness::{bones, small};

#[track_caller]
fn refused(params: FitParams, words: &[&str]) {
    let error = fit(&small(0), &params, &mut Silent).expect_err("out of range");
    let message = error.to_string();
    assert!(words.iter().all(|word| message.contains(word)), "{message:?} lacks one of {words:?}");
}

#[test]
fn numbers_out_of_range_are_named() {
    let vertices = small(0).vertex_count().to_string();
    refused(bones(0), &["0 bones", &vertices]);
    refused(bones(100_000), &["100000 bones", &vertices]);
    refused(FitParams { influences: Some(0), ..bones(3) }, &["influences", "0", "1 to 16"]);
    refused(FitParams { influences: Some(17), ..bones(3) }, &["influences", "17", "1 to 16"]);
    for bad in [0.0, -1.5, f64::NAN, f64::INFINITY] {
        let number = bad.to_string();
        refused(FitParams { bones: BoneCount::TargetError(bad), ..bones(3) }, &["target_error", &number]);
    }
    for bad in [-0.5, f64::NAN, f64::INFINITY] {
        refused(FitParams { smooth: bad, ..bones(3) }, &["smooth", &bad.to_string()]);
    }
    for bad in [-0.5, 1.0, f64::NAN] {
        refused(FitParams { tolerance: Some(bad), ..bones(3) }, &["tolerance", &bad.to_string()]);
    }
    for bad in [0.0, -2.0, f64::NAN] {
        refused(FitParams { max_seconds: Some(bad), ..bones(3) }, &["max_seconds", &bad.to_string()]);
    }
    refused(FitParams { max_iterations: Some(0), ..bones(3) }, &["max_iterations", "0", "1 or more"]);
}

/// The ends of the ranges are inside.
#[test]
fn numbers_at_the_limits_are_fine() {
    let vertices = small(0).vertex_count();
    for params in [
        bones(1),
        FitParams { influences: Some(16), ..bones(20) },
        FitParams { max_seconds: Some(f64::INFINITY), ..bones(2) },
        FitParams { max_seconds: Some(1e300), tolerance: Some(0.0), max_iterations: Some(1), ..bones(2) },
        FitParams { max_seconds: Some(1e-9), ..bones(2) },
        FitParams { max_seconds: Some(0.5), influences: Some(1), ..bones(vertices) },
    ] {
        fit(&small(0), &params, &mut Silent).unwrap_or_else(|e| panic!("{params:?}: {e}"));
    }
    let over = fit(&small(0), &bones(vertices + 1), &mut Silent).expect_err("one too many");
    assert_eq!(over, FitError::BoneCount { bones: vertices + 1, limit: vertices, vertices });
}
