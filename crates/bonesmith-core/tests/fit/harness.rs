//! Sequences to fit, and what is asked of every result.

use bonesmith_core::fit::{BoneCount, FitError, FitParams, Fitted};
use bonesmith_core::methods::fit;
use bonesmith_core::metrics::{Metrics, evaluate};
use bonesmith_core::synthetic::{PosedRigParams, posed_rig};
use bonesmith_core::{MeshSequence, RawSequence, Silent};

/// Through the door.
#[track_caller]
pub fn sequence(raw: RawSequence) -> MeshSequence {
    MeshSequence::try_from(raw).expect("a sound sequence")
}

/// The animation of a known rig.
pub fn known(seed: u64, params: PosedRigParams) -> MeshSequence {
    sequence(posed_rig(seed, &params).sequence)
}

/// A known animation that is searched whole, never sampled: 4 rigid bones, soft blends, about 270 vertices.
pub fn small(seed: u64) -> MeshSequence {
    known(seed, PosedRigParams { bones: 4, frames: 12, detail: 2, ..PosedRigParams::default() })
}

/// A fit that must work.
#[track_caller]
pub fn fitted(sequence: &MeshSequence, params: &FitParams) -> Fitted {
    let fitted = fit(sequence, params, &mut Silent).unwrap_or_else(|e: FitError| panic!("{params:?}: {e}"));
    assert_eq!(fitted.rig.check(), Ok(()), "{params:?}");
    fitted
}

/// A fit that must work, measured on the rig that came out.
#[track_caller]
pub fn measured(sequence: &MeshSequence, params: &FitParams) -> (Fitted, Metrics) {
    let fitted = fitted(sequence, params);
    let metrics = evaluate(&fitted.rig, 0, sequence).expect("the same mesh");
    (fitted, metrics)
}

/// A number of bones; all else recommended.
pub fn bones(count: usize) -> FitParams {
    FitParams { bones: BoneCount::Exact(count), ..FitParams::default() }
}
