//! Whether a rig and a sequence share space and time; if not, what brings them together.
//!
//! The usual mistakes: centimetres against metres, Y up against Z up, a mirrored handedness, a clip that starts some
//! frames later. Each turns a fit into garbage that looks like a poor fit. So before fitting, three comparisons:
//!
//! 1. Rest poses, where the sequence has its own: the same mesh in the same pose, so the best scale, axes and shift are
//!    a closed form for each of the 48 ways to name axes.
//! 2. The rig's motion, where it is known: weights of some vertices are fitted to it under each correction, and the
//!    correction with the least error is right. Nothing is assumed about the rig's own weights.
//! 3. Otherwise: sizes of the parts of each bone, which no motion of rigid bones changes, and their handedness;
//!    and whether all of them are rotated by a right angle in all frames, as when Y up meets Z up.
//!
//! A correction is reported only where it explains much more than no correction: at most half the error.

mod axes;
mod evidence;

use glam::{DAffine3, DVec3};

pub use axes::SignedAxes;
use evidence::{Parts, Track, rest_fit};

use crate::mesh::{MeshSequence, unit_radius};
use crate::model::{Clip, Rig};

/// Below this E_RMS rig and sequence agree; nothing is searched.
const FINE: f64 = 2.0;

/// Rest poses further apart than this, in thousandths of the radius, are not in one space or not one pose.
const REST_FINE: f64 = 20.0;

/// A correction must leave at most this share of the error.
const SHARE: f64 = 0.5;

/// A correction that leaves more than this E_RMS explains nothing: two unrelated clips may be less unlike the other way
/// round.
const CREDIBLE: f64 = 50.0;

/// A shift in time must leave at most this share: any two clips of one body have similar poses in some frames.
const TIME_SHARE: f64 = 0.2;

/// Above this E_RMS, a tenth of the radius, a rig does not explain a sequence at all.
pub const UNRELATED: f64 = 100.0;

/// What brings a sequence into the space and the frames of a rig: `p_rig = scale * axes(p_sequence) + shift`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Correction {
    /// Model units of the rig per unit of the sequence.
    pub scale: f64,
    /// Which axis of the sequence is which of the rig.
    pub axes: SignedAxes,
    /// In units of the rig.
    pub shift: DVec3,
    /// Frames of the rig's clip by which the sequence starts later than assumed.
    pub frame_offset: i64,
}

impl Correction {
    /// Nothing to correct.
    pub const NONE: Self = Self { scale: 1.0, axes: SignedAxes::SAME, shift: DVec3::ZERO, frame_offset: 0 };

    /// As a transform of positions.
    pub fn rig_from_sequence(&self) -> DAffine3 {
        DAffine3 { matrix3: self.axes.matrix() * self.scale, translation: self.shift }
    }

    /// Whether positions stay as they are.
    pub fn keeps_space(&self) -> bool {
        self.scale == 1.0 && self.axes == SignedAxes::SAME && self.shift == DVec3::ZERO
    }
}

/// The result of [`examine`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finding {
    /// E_RMS of a sample as rig and sequence were given.
    pub as_given: f64,
    /// E_RMS of the sample with the best correction.
    pub corrected: f64,
    /// The best correction; [`Correction::NONE`] where none is much better.
    pub correction: Correction,
    /// Whether the rig's own motion was compared, so that a large error means that it does not explain the sequence.
    pub by_motion: bool,
}

impl Finding {
    /// Whether rig and sequence should not be fitted as they are.
    pub fn is_mistake(&self) -> bool {
        self.correction != Correction::NONE
    }

    /// Whether nothing that was tried makes the rig explain the sequence.
    pub fn is_unrelated(&self) -> bool {
        self.by_motion && self.corrected > UNRELATED
    }
}

/// Compares a sequence with a rig. `clip` is the rig's motion for it, at the frames of the sequence from `frame_offset` of
/// the clip on; `own_rest` says whether the sequence's rest pose is more than its first frame.
///
/// Vertex counts must agree.
pub fn examine(rig: &Rig, clip: Option<(&Clip, i64)>, sequence: &MeshSequence, own_rest: bool) -> Finding {
    assert_eq!(rig.vertex_count(), sequence.vertex_count(), "the same mesh");
    let radius = unit_radius(&rig.rest);
    let by_rest = own_rest.then(|| compare_rests(rig, sequence, radius));
    if let Some(finding) = by_rest.filter(Finding::is_mistake) {
        // Space is known; the frames are not.
        return match clip {
            Some((clip, offset)) => frames_too(finding, Track::new(rig, clip, sequence, offset)),
            None => finding,
        };
    }
    match (clip, by_rest) {
        (Some((clip, offset)), rest) => compare_motion(&Track::new(rig, clip, sequence, offset), rest.is_some()),
        (None, Some(finding)) if finding.as_given <= REST_FINE => finding,
        (None, _) => compare_parts(rig, sequence, radius),
    }
}

fn finding(as_given: f64, corrected: f64, correction: Correction, by_motion: bool) -> Finding {
    if corrected <= SHARE * as_given {
        return Finding { as_given, corrected, correction, by_motion };
    }
    Finding { as_given, corrected: as_given, correction: Correction::NONE, by_motion }
}

/// Evidence 1. Differences of pose are no mistake: then nothing is reported.
fn compare_rests(rig: &Rig, sequence: &MeshSequence, radius: f64) -> Finding {
    let fit = |axes| rest_fit(&rig.rest, sequence.rest(), axes, radius);
    let as_given = evidence::rest_error(&rig.rest, sequence.rest(), &Correction::NONE, radius);
    if as_given <= REST_FINE {
        return finding(as_given, as_given, Correction::NONE, false);
    }
    let best = SignedAxes::all().map(fit).min_by(|a, b| a.1.total_cmp(&b.1));
    let Some((correction, corrected)) = best.filter(|best| best.1 <= REST_FINE) else {
        return finding(as_given, as_given, Correction::NONE, false);
    };
    finding(as_given, corrected, correction, false)
}

/// The space is known from the rest poses; looks for a shift in time as well.
fn frames_too(found: Finding, track: Track) -> Finding {
    let as_given = track.error(&found.correction);
    let offset = if as_given > FINE { track.best_offset(&found.correction) } else { None };
    match offset {
        Some((correction, error)) if error <= TIME_SHARE * as_given => {
            Finding { correction, corrected: error, by_motion: true, ..found }
        }
        _ => Finding { corrected: as_given, by_motion: true, ..found },
    }
}

/// Evidence 2.
fn compare_motion(track: &Track, space_is_known: bool) -> Finding {
    let as_given = track.error(&Correction::NONE);
    if as_given <= FINE {
        return finding(as_given, as_given, Correction::NONE, true);
    }
    let mut best = (Correction::NONE, as_given);
    if !space_is_known {
        let scale = track.scale();
        for axes in SignedAxes::all() {
            let correction = track.refined(Correction { scale, axes, ..Correction::NONE });
            let error = track.error(&correction);
            if error < best.1 {
                best = (correction, error);
            }
        }
        if best.1 > SHARE * as_given || best.1 > CREDIBLE {
            best = (Correction::NONE, as_given);
        }
    }
    // Later frames may explain it better, with the axes found or with none.
    for start in [best.0, Correction::NONE] {
        if let Some((correction, error)) = track.best_offset(&start).filter(|(_, error)| *error <= TIME_SHARE * best.1)
        {
            best = (correction, error);
        }
    }
    finding(as_given, best.1, best.0, true)
}

/// Evidence 3: scale and handedness, and whether everything is rotated from Y up to Z up.
fn compare_parts(rig: &Rig, sequence: &MeshSequence, radius: f64) -> Finding {
    let parts = Parts::new(rig, sequence, radius);
    let as_given = parts.error(1.0, false);
    if as_given <= 10.0 * FINE {
        let upright = |axes| evidence::upright_error(&rig.rest, sequence, axes, radius);
        return match parts.tipped() {
            Some(axes) => {
                let correction = Correction { axes, ..Correction::NONE };
                finding(upright(SignedAxes::SAME), upright(axes), correction, false)
            }
            None => finding(as_given, as_given, Correction::NONE, false),
        };
    }
    let scale = evidence::tidy_scale(parts.scale());
    let (turned, mirrored) = (parts.error(scale, false), parts.error(scale, true));
    let axes = if mirrored < SHARE * turned { SignedAxes::MIRRORED_X } else { SignedAxes::SAME };
    finding(as_given, turned.min(mirrored), Correction { scale, axes, ..Correction::NONE }, false)
}
