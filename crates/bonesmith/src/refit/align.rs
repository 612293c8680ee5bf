//! Rig and sequence must share space and time: what is done when they do not.

use bonesmith_core::refit::align::{Correction, Finding, SignedAxes, examine};
use bonesmith_core::{Clip, MeshSequence, Rig};
use glam::DAffine3;

use super::{Align, RefitOptions, RigMismatch};
use crate::error::Error;
use crate::text::figure;
use crate::warning::Warning;

/// Above this E_RMS on the sample the rig's motion describes a sequence poorly, which is reported.
const POOR: f64 = 30.0;

/// What brings a sequence into the space and frames of the rig: the options, and as far as they allow it what is found.
pub fn correction(
    options: &RefitOptions,
    rig: &Rig,
    clip: Option<&Clip>,
    sequence: &MeshSequence,
    own_rest: bool,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> Result<Correction, Error> {
    let given = options.correction();
    if options.align == Align::Off {
        return Ok(given);
    }
    let placed;
    let seen = if given.keeps_space() {
        sequence
    } else {
        placed = sequence.clone().placed(given.rig_from_sequence())?;
        &placed
    };
    // A clip without frames is refused later; there is nothing to compare with.
    let clip = clip.filter(|clip| clip.frame_count() > 0).map(|clip| (clip, given.frame_offset));
    let found = match clip {
        Some(_) => examine(rig, clip, seen, own_rest),
        None => without_clip(rig, seen, own_rest),
    };
    let whole = together(&given, &found.correction);
    let input = label.to_owned();
    match (found.is_mistake(), options.align) {
        (true, Align::Auto) => {
            warnings.push(Warning::Aligned { input, correction: found.correction });
            Ok(whole)
        }
        (true, _) => Err(RigMismatch::Misaligned { input, finding: found, whole }.into()),
        (false, _) if found.is_unrelated() => Err(RigMismatch::Unrelated { input, e_rms: found.as_given }.into()),
        (false, _) => {
            if found.by_motion && found.as_given > POOR {
                warnings.push(Warning::PoorMotion { input, e_rms: found.as_given });
            }
            Ok(given)
        }
    }
}

/// Where the motion is fitted, the rig's animations are only evidence: one that describes the sequence well, once
/// axes or units are corrected, shows a mistake; one that does not shows nothing.
fn without_clip(rig: &Rig, sequence: &MeshSequence, own_rest: bool) -> Finding {
    const CONVINCING: f64 = 5.0;
    let found = examine(rig, None, sequence, own_rest);
    if found.is_mistake() {
        return found;
    }
    let clips = rig.clips.iter().filter(|clip| clip.frame_count() > 0);
    let findings = clips.map(|clip| examine(rig, Some((clip, 0)), sequence, own_rest));
    let mut convincing = findings.filter(|f| f.is_mistake() && !f.correction.keeps_space() && f.corrected < CONVINCING);
    match convincing.next() {
        // When it starts does not matter here.
        Some(other) => Finding { correction: Correction { frame_offset: 0, ..other.correction }, ..other },
        None => found,
    }
}

/// The rig's animation that describes a sequence best, with its E_RMS; `None` where none does.
pub fn best_clip(rig: &Rig, sequence: &MeshSequence, own_rest: bool) -> Option<(String, f64)> {
    let clips = rig.clips.iter().filter(|clip| clip.frame_count() > 0);
    let judged = clips.map(|clip| (examine(rig, Some((clip, 0)), sequence, own_rest).as_given, clip));
    let (e_rms, clip) = judged.min_by(|a, b| a.0.total_cmp(&b.0))?;
    (e_rms < POOR).then(|| (clip.name.clone(), e_rms))
}

/// First one, then the other.
fn together(first: &Correction, then: &Correction) -> Correction {
    let rotation = then.axes.matrix() * first.axes.matrix();
    let axes = SignedAxes::all().find(|axes| axes.matrix() == rotation).unwrap_or(then.axes);
    let moved: DAffine3 = then.rig_from_sequence() * first.rig_from_sequence();
    Correction {
        scale: first.scale * then.scale,
        axes,
        shift: moved.translation,
        frame_offset: first.frame_offset + then.frame_offset,
    }
}

/// "it is 100 times too large, its axes are x,-z,y, it starts 3 frames later"
pub(crate) fn in_words(correction: &Correction) -> String {
    let mut words = Vec::new();
    match correction.scale {
        1.0 => {}
        s if s < 1.0 => words.push(format!("it is {} times too large", figure(1.0 / s))),
        s => words.push(format!("it is {} times too small", figure(s))),
    }
    if correction.axes != SignedAxes::SAME {
        let mirrored = if correction.axes.mirrors() { " (mirrored)" } else { "" };
        words.push(format!("its axes {} are the rig's x,y,z{mirrored}", correction.axes));
    }
    if correction.shift.length() > 0.0 {
        let [x, y, z] = correction.shift.to_array().map(figure);
        words.push(format!("it lies ({x}, {y}, {z}) away"));
    }
    match correction.frame_offset {
        0 => {}
        n if n > 0 => words.push(format!("it starts {n} frames into the rig's clip")),
        n => words.push(format!("it starts {} frames before the rig's clip", -n)),
    }
    words.join(", ")
}
