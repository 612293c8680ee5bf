//! Rig and sequence must share space and time: what to say, and what to do, when they do not.

use bonesmith_core::fit::Warning;
use bonesmith_core::refit::align::{Correction, Finding, SignedAxes, examine};
use bonesmith_core::{Clip, MeshSequence, Rig};
use glam::DAffine3;

use super::plan::Plan;
use crate::args::AlignArg;
use crate::errors::Usage;
use crate::output::figure;

/// Above this E_RMS on the sample the rig's motion explains a sequence poorly, which is worth a word.
const POOR: f64 = 30.0;

/// What brings a sequence into the space and frames of the rig: as the flags say, and as far as is allowed as is found.
pub fn settle(
    plan: &Plan,
    rig: &Rig,
    clip: Option<&Clip>,
    sequence: &MeshSequence,
    own_rest: bool,
    label: &str,
    warnings: &mut Vec<Warning>,
) -> anyhow::Result<Correction> {
    let told = plan.correction;
    if plan.align == AlignArg::Off {
        return Ok(told);
    }
    let placed;
    let seen = if told.keeps_space() {
        sequence
    } else {
        placed = sequence.clone().placed(told.rig_from_sequence())?;
        &placed
    };
    // A clip without frames is told later; there is nothing to compare with.
    let clip = clip.filter(|clip| clip.frame_count() > 0).map(|clip| (clip, told.frame_offset));
    let found = match clip {
        Some(_) => examine(rig, clip, seen, own_rest),
        None => without_clip(rig, seen, own_rest),
    };
    let whole = together(&told, &found.correction);
    match (found.is_mistake(), plan.align) {
        (true, AlignArg::Auto) => {
            let text = format!("{label}: {}; applied", in_words(&found.correction));
            warnings.push(Warning::Note { text });
            Ok(whole)
        }
        (true, _) => Err(refusal(label, &found, &whole).into()),
        (false, _) if found.is_hopeless() => Err(hopeless(label, &found).into()),
        (false, _) => {
            if found.by_motion && found.as_given > POOR {
                let e_rms = figure(found.as_given);
                let text =
                    format!("{label}: at best E_RMS {e_rms} with the rig's motion, on a sample; is it the right clip?");
                warnings.push(Warning::Note { text });
            }
            Ok(told)
        }
    }
}

/// Where the motion is looked for, the rig's animations are only witnesses: one that explains the sequence well, once
/// axes or units are put right, gives a mistake away; one that does not says nothing.
fn without_clip(rig: &Rig, sequence: &MeshSequence, own_rest: bool) -> Finding {
    const WITNESS: f64 = 5.0;
    let found = examine(rig, None, sequence, own_rest);
    if found.is_mistake() {
        return found;
    }
    let clips = rig.clips.iter().filter(|clip| clip.frame_count() > 0);
    let witnesses = clips.map(|clip| examine(rig, Some((clip, 0)), sequence, own_rest));
    let mut convincing = witnesses.filter(|f| f.is_mistake() && !f.correction.keeps_space() && f.corrected < WITNESS);
    match convincing.next() {
        // When it starts does not matter here.
        Some(other) => Finding { correction: Correction { frame_offset: 0, ..other.correction }, ..other },
        None => found,
    }
}

/// Which of the rig's animations a sequence looks like, as the end of a hint; empty where none does.
pub fn best_clip(rig: &Rig, sequence: &MeshSequence, own_rest: bool) -> String {
    let clips = rig.clips.iter().filter(|clip| clip.frame_count() > 0);
    let judged = clips.map(|clip| (examine(rig, Some((clip, 0)), sequence, own_rest).as_given, clip));
    match judged.min_by(|a, b| a.0.total_cmp(&b.0)) {
        Some((e_rms, clip)) if e_rms < POOR => format!("; {} explains it best (E_RMS {})", clip.name, figure(e_rms)),
        _ => String::new(),
    }
}

/// First one, then the other.
fn together(first: &Correction, then: &Correction) -> Correction {
    let turn = then.axes.matrix() * first.axes.matrix();
    let axes = SignedAxes::all().find(|axes| axes.matrix() == turn).unwrap_or(then.axes);
    let moved: DAffine3 = then.rig_from_sequence() * first.rig_from_sequence();
    Correction {
        scale: first.scale * then.scale,
        axes,
        shift: moved.translation,
        frame_offset: first.frame_offset + then.frame_offset,
    }
}

/// "it is 100 times too large, its axes are x,-z,y, it starts 3 frames later"
fn in_words(correction: &Correction) -> String {
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

fn refusal(label: &str, found: &Finding, whole: &Correction) -> Usage {
    let (words, before, after) = (in_words(&found.correction), figure(found.as_given), figure(found.corrected));
    let message = format!("{label} does not fit the rig: {words} (E_RMS of a sample {before} as it is, {after} if so)");
    let mut flags = Vec::new();
    if whole.scale != 1.0 {
        flags.push(format!("--input-scale {}", whole.scale));
    }
    if whole.axes != SignedAxes::SAME {
        flags.push(format!("--input-axes {}", whole.axes));
    }
    if whole.frame_offset != 0 {
        flags.push(format!("--frame-offset {}", whole.frame_offset));
    }
    let auto = "--align auto applies it by itself, --align off goes on as it is";
    if flags.is_empty() || found.correction.shift.length() > 0.0 {
        return Usage::new(message).hint(auto);
    }
    Usage::new(message).hint(format!("{} puts it right; {auto}", flags.join(" ")))
}

fn hopeless(label: &str, found: &Finding) -> Usage {
    let e_rms = figure(found.as_given);
    let message = format!(
        "the rig's motion does not explain {label}: E_RMS {e_rms} on a sample, and no units, axes or frames help"
    );
    Usage::new(message).hint(
        "is it the same mesh in the same vertex order, and the right animation (--rig-clip)? --rig-clip none leaves the \
         rig's animation out, --align off goes on as it is",
    )
}
