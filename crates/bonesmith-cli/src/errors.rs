//! Errors as a person reads them: one line with the whole chain, a hint where there is one, and an exit code. The library names
//! fields of its options; the flags of the command line are added here.

use bonesmith::core::SequenceError;
use bonesmith::core::compress::CompressError;
use bonesmith::core::fit::FitError;
use bonesmith::core::metrics::MetricsError;
use bonesmith::core::observer::Cancelled;
use bonesmith::core::refit::align::{Correction, SignedAxes};
use bonesmith::core::refit::resample::ResampleError;
use bonesmith::io::IoError;
use bonesmith::refit::RigMismatch;
use bonesmith::report::ReportError;
use bonesmith::text::figure;
use bonesmith::{Error, PickError, Warning};

use crate::output::emit;

/// How a command that did not fail ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Done,
    /// The work was done, but a quality that was asked for was not reached.
    QualityMissed,
}

/// Something wrong with what was asked, and what to do about it.
#[derive(Debug)]
pub struct Usage {
    message: String,
    hint: Option<String>,
}

impl Usage {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// With the option that is the cause.
    pub fn because(mut self, option: &str) -> Self {
        self.message = format!("{} ({option})", self.message);
        self
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Usage {}

/// Prints what went wrong, if anything, and turns it into the exit code of the program.
pub fn finish(result: anyhow::Result<Outcome>) -> u8 {
    let error = match result {
        Ok(Outcome::Done) => return 0,
        Ok(Outcome::QualityMissed) => return 1,
        Err(error) => error,
    };
    if error.chain().any(|cause| cause.is::<Cancelled>()) {
        emit("cancelled");
        return 130;
    }
    emit(&format!("error: {}", one_line(&error)));
    if let Some(hint) = hint(&error) {
        emit(&format!("hint: {hint}"));
    }
    2
}

/// The whole chain on one line; a cause that its parent has already quoted is not repeated.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = text_of(cause).split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = text;
        } else if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

/// The message, with the flag in place of the option's field.
fn text_of(cause: &(dyn std::error::Error + 'static)) -> String {
    let text = cause.to_string();
    let error = cause.downcast_ref::<Error>();
    if let Some(Error::Fit(FitError::Unsupported(what))) = error
        && let Some(rest) = what.strip_prefix("the method ")
    {
        return format!("--method {rest}");
    }
    match error.and_then(Error::option) {
        Some(option) if text.starts_with(option) => flag(option) + &text[option.len()..],
        _ => text,
    }
}

/// The flag of an option of the library.
fn flag(option: &str) -> String {
    match option {
        "start" => "--skeleton-start".to_owned(),
        "rig_clips" => "--rig-clip".to_owned(),
        other => format!("--{}", other.replace('_', "-")),
    }
}

/// A warning with the flag that helps.
pub fn warning_text(warning: &Warning) -> String {
    let more = match warning {
        Warning::ManyInfluences { common, .. } => format!("; use --influences {common} for them"),
        Warning::ForeignRest { .. } => "; --rest first leaves it out".to_owned(),
        Warning::ReportTooLarge { needed, .. } => {
            format!("; --report-max-mb {} is enough for one frame", (*needed as f64 / 1e6).ceil())
        }
        Warning::OneBonePerVertex => "; --solve both fits weights too".to_owned(),
        _ => String::new(),
    };
    format!("{warning}{more}")
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(usage) = cause.downcast_ref::<Usage>() {
            return usage.hint.clone();
        }
        hint_of(cause.downcast_ref::<Error>()?)
    })
}

const SAME_MESH: &str = "rig and animation must be one mesh: the same vertices in the same order";

fn hint_of(error: &Error) -> Option<String> {
    let text = match error {
        Error::Fit(FitError::BoneCount { .. }) => "--bones auto finds a number",
        Error::Fit(FitError::Unsupported(what)) if what.contains("bones only") => "leave --method or --bone-kind out",
        Error::Sequence(source) | Error::Io(IoError::Sequence { source, .. }) => return of_sequence(source),
        Error::Compress(CompressError::NothingToGain { .. }) => {
            "start from a rig with many influences (fit --influences all); --force compresses it all the same"
        }
        Error::Io(IoError::Weights { .. }) => "--normalise sets negative weights to 0 and scales each vertex to 1",
        Error::Metrics { source: MetricsError::FrameCount { .. }, .. } => {
            "--frames and --fps choose the frames of the animation, --clips its clips; --clip (eval, view) the rig's clip"
        }
        Error::Report { source: ReportError::TooLarge { needed, .. }, .. } => {
            return Some(format!("--report-max-mb {} is enough for one frame", (*needed as f64 / 1e6).ceil()));
        }
        Error::Pick(pick) => return of_pick(pick),
        Error::Mismatch(mismatch) => return of_mismatch(mismatch),
        #[cfg(feature = "gpu")]
        Error::Gpu(bonesmith::bonesmith_gpu::GpuError::NoAdapter { .. }) => {
            "a driver for Vulkan is needed; on Debian mesa-vulkan-drivers has one that runs on the processor"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn of_sequence(error: &SequenceError) -> Option<String> {
    let text = "all frames and the rest pose must be the same mesh; export with fixed topology and vertex order";
    matches!(error, SequenceError::FacesDiffer { .. } | SequenceError::VertexCount { .. }).then(|| text.to_owned())
}

fn of_pick(pick: &PickError) -> Option<String> {
    /// Names that a hint lists at most.
    const SHOWN: usize = 60;
    match pick {
        PickError::Clip { available, .. } => Some(format!("it has: {}", available.join(", "))),
        PickError::OfAnimation { .. } => Some("--clip picks one of its animations (eval, view, convert)".to_owned()),
        PickError::Bone { available, .. } => {
            let shown = available.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = match available.len().checked_sub(SHOWN).filter(|more| *more > 0) {
                Some(more) => format!(" and {more} more"),
                None => String::new(),
            };
            Some(format!("the rig has: {shown}{more}"))
        }
        PickError::NoColours { .. } => {
            Some("give a file instead: an npz with `mask`, or a mesh with colours".to_owned())
        }
        _ => None,
    }
}

fn of_mismatch(mismatch: &RigMismatch) -> Option<String> {
    match mismatch {
        RigMismatch::VertexCount { .. } => {
            // A glTF has a vertex for each normal and texture coordinate at a place; they are one here.
            let pose = "or vertices at the same places in a pose of both. In Blender: import the glTF with Merge Vertices, or \
                        let the exported frames start with the rest pose or the start of the rig's clip";
            Some(format!("{SAME_MESH}, {pose}"))
        }
        RigMismatch::Faces { .. } => Some(SAME_MESH.to_owned()),
        RigMismatch::NoClip { available, .. } => Some(format!("it has: {}", available.join(", "))),
        RigMismatch::WhichClip { available, best } => {
            let best = best.as_ref().map(|(name, e_rms)| format!("; {name} explains it best (E_RMS {})", figure(*e_rms)));
            Some(format!("--rig-clip names it: {}, or none{}", available.join(", "), best.unwrap_or_default()))
        }
        RigMismatch::Times { source, .. } => Some(of_times(source)),
        RigMismatch::Misaligned { finding, whole, .. } => {
            let auto = "--align auto applies it by itself, --align off goes on as it is";
            let flags = corrections(whole);
            match flags.is_empty() || finding.correction.shift.length() > 0.0 {
                true => Some(auto.to_owned()),
                false => Some(format!("{} corrects it; {auto}", flags.join(" "))),
            }
        }
        RigMismatch::Unrelated { .. } => Some(
            "is it the same mesh in the same vertex order, and the right animation (--rig-clip)? --rig-clip none leaves \
             the rig's animation out, --align off goes on as it is"
                .to_owned(),
        ),
        _ => None,
    }
}

fn of_times(error: &ResampleError) -> String {
    /// Rates that people use: another one is no likely explanation.
    const RATES: [f64; 12] = [12.0, 15.0, 23.976, 24.0, 25.0, 29.97, 30.0, 48.0, 50.0, 59.94, 60.0, 120.0];
    let cutting = "--frames A..B cuts the sequence, --frame-offset N shifts and cuts it";
    match error {
        ResampleError::Range { fitting_fps: Some(fps), .. } => {
            let off = |rate: &&f64| (fps / **rate - 1.0).abs();
            match RATES.iter().min_by(|a, b| off(a).total_cmp(&off(b))).filter(|rate| off(rate) < 0.01) {
                Some(rate) => format!("if it has no times of its own, --fps {rate} fits; {cutting}"),
                None => cutting.to_owned(),
            }
        }
        ResampleError::Empty { .. } => "--rig-clip names another, or none".to_owned(),
        _ => cutting.to_owned(),
    }
}

/// The flags of a correction.
fn corrections(whole: &Correction) -> Vec<String> {
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
    flags
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn the_chain_is_one_line_without_echoes() {
        let os = std::io::Error::other("disk\nfull");
        let error = Err::<(), _>(os).context("out.glb: disk full").context("writing").unwrap_err();
        assert_eq!(one_line(&error), "writing: out.glb: disk full");
    }

    #[test]
    fn hints_are_found_below_contexts() {
        let error = anyhow::Error::from(Usage::new("no").hint("do this")).context("while resolving");
        assert_eq!(hint(&error).as_deref(), Some("do this"));
        let error = Error::from(FitError::BoneCount { bones: 9, limit: 8, vertices: 8 });
        assert!(hint(&error.into()).is_some());
    }

    #[test]
    fn options_of_the_library_are_flags_here() {
        let range = FitError::OutOfRange { name: "max_iterations", value: "0".into(), range: "1 or more" };
        assert_eq!(one_line(&Error::from(range).into()), "--max-iterations is 0; it must be 1 or more");
        let frames = PickError::Frames { start: 4, end: 11, frames: 10 };
        assert_eq!(one_line(&Error::from(frames).into()), "--frames 4..11: the animation has 10 frames (0 to 9)");
        let clips = RigMismatch::ClipCount { named: 2, inputs: 3 };
        assert_eq!(one_line(&Error::from(clips).into()), "--rig-clip names 2 animations for 3 inputs");
    }
}
