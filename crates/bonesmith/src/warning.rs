//! Warnings as data: each has its kind, its numbers and its words, and travels with the value that it is about.

use bonesmith_core::refit::align::Correction;
use bonesmith_report::Remark;
use serde::Serialize;
use serde_json::{Value, json};

use crate::refit::in_words;
use crate::text::figure;

/// Something that the user should know about a result. None is a reason to refuse it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Warning {
    /// More influences than common run times evaluate.
    ManyInfluences {
        /// Maximum number of influences of a vertex.
        influences: usize,
        /// What run times evaluate.
        common: usize,
    },
    /// The rest pose has another size than the frames: likely other units.
    ForeignRest {
        /// The larger size over the smaller.
        ratio: f64,
        /// Whether the rest pose is the larger one.
        larger: bool,
    },
    /// A rig already has as few influences as requested.
    NothingToReduce {
        /// Its maximum.
        influences: usize,
        /// The maximum requested.
        requested: usize,
    },
    /// A reduction ended at its limit of iterations.
    StillImproving {
        /// Iterations done.
        iterations: usize,
    },
    /// Only the motion was solved, of a rig with one bone per vertex.
    OneBonePerVertex,
    /// A file that was compressed before is made small.
    SmallAlready {
        /// The file.
        input: String,
    },
    /// The rig's clip was resampled at the times of an input.
    Resampled {
        /// The input.
        input: String,
        /// The rig's clip.
        clip: String,
    },
    /// The vertices of an input were split, merged or reordered, and matched with the rig's by position.
    MatchedVertices {
        /// The input.
        input: String,
        /// Vertices of the input.
        found: usize,
        /// Vertices of the rig.
        rig: usize,
        /// Vertices of the input that are at no vertex of the rig: left out.
        unused: usize,
    },
    /// Frames that the rig's clip does not cover were left out.
    FramesCut {
        /// The input.
        input: String,
        /// First frame fitted.
        first: usize,
        /// Last frame fitted.
        last: usize,
        /// Frames there were.
        frames: usize,
    },
    /// Units, axes or frames of an input were corrected.
    Aligned {
        /// The input.
        input: String,
        /// What was corrected.
        #[serde(serialize_with = "correction_words")]
        correction: Correction,
    },
    /// The rig's motion describes an input poorly.
    PoorMotion {
        /// The input.
        input: String,
        /// E_RMS on a sample.
        e_rms: f64,
    },
    /// A clip was made to loop whose last pose is far from its first one.
    DoesNotLoop {
        /// The clip.
        clip: String,
        /// Distance of the last pose from the first one before, as E_RMS.
        before: f64,
        /// The largest distance of any pose from the first one, as E_RMS.
        range: f64,
    },
    /// Rigid pieces were to be written as nodes, and there are none: the rig is written as a skin.
    NoPieces,
    /// A report was not written: with a single frame it is larger than allowed.
    ReportTooLarge {
        /// Its file.
        path: std::path::PathBuf,
        /// Bytes with a single frame.
        needed: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A fit.
    #[serde(untagged)]
    Fit(bonesmith_core::fit::Warning),
    /// A file that was read or written: what is not preserved.
    #[serde(untagged)]
    File(bonesmith_io::Warning),
}

fn correction_words<S: serde::Serializer>(correction: &Correction, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&in_words(correction))
}

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ManyInfluences { influences, common } => write!(
                f,
                "up to {influences} influences per vertex: three.js, Bevy and Godot 3 evaluate only the first {common}"
            ),
            Self::ForeignRest { ratio, larger } => {
                let word = if *larger { "larger" } else { "smaller" };
                write!(f, "the rest pose is {} times {word} than the first frame", figure(*ratio))
            }
            Self::NothingToReduce { influences, requested } => write!(
                f,
                "no vertex has more than {influences} influences, {requested} were asked for: nothing to take away"
            ),
            Self::StillImproving { iterations } => write!(f, "stopped after {iterations} iterations, still improving"),
            Self::OneBonePerVertex => write!(f, "every vertex of the rig has one bone only"),
            Self::SmallAlready { input } => {
                write!(f, "{input}: its arrays were compressed before; the error of that is not part of the bound")
            }
            Self::MatchedVertices { input, found, rig, unused } => {
                write!(f, "{input}: its {found} vertices were matched with the rig's {rig} by position")?;
                match unused {
                    0 => Ok(()),
                    n => write!(f, "; left out, because the rig has none there: {n}"),
                }
            }
            Self::Resampled { input, clip } => {
                write!(f, "{input}: the rig's clip {clip:?} was resampled at its times")
            }
            Self::FramesCut { input, first, last, frames } => write!(
                f,
                "{input}: frames {first} to {last} of 0 to {} are fitted, the rig has no others",
                frames.saturating_sub(1)
            ),
            Self::Aligned { input, correction } => write!(f, "{input}: {}; applied", in_words(correction)),
            Self::PoorMotion { input, e_rms } => write!(
                f,
                "{input}: at best E_RMS {} with the rig's motion, on a sample; is it the right clip?",
                figure(*e_rms)
            ),
            Self::DoesNotLoop { clip, before, range } => write!(
                f,
                "clip {clip:?} does not loop: its last pose was E_RMS {} from the first, of at most {} in the clip; frames near its ends are bent to meet",
                figure(*before),
                figure(*range)
            ),
            Self::NoPieces => write!(f, "no part of the rig is a rigid piece: it is written as a skin, not as nodes"),
            Self::ReportTooLarge { path, needed, limit } => {
                let source = bonesmith_report::ReportError::TooLarge { needed: *needed, limit: *limit };
                write!(f, "{} is not written: {source}", path.display())
            }
            Self::Fit(warning) => warning.fmt(f),
            Self::File(warning) => warning.fmt(f),
        }
    }
}

impl Warning {
    /// Its kind, its fields, and its words as `text`.
    pub fn to_json(&self) -> Value {
        let mut value = json!(self);
        value["text"] = json!(self.to_string());
        value
    }

    /// The warning as a report shows it: its words, and what they mean for the user.
    pub fn remark(&self) -> Remark {
        use bonesmith_core::fit::Warning as Fit;
        let meaning = match self {
            Self::ManyInfluences { .. } => {
                "Engines that evaluate four influences drop the others, and vertices with more will move wrongly there."
            }
            Self::NothingToReduce { .. } => {
                "The rig already has as few influences as were asked for; its weights are written unchanged."
            }
            Self::DoesNotLoop { .. } => {
                "A motion that travels loops once its common motion is in a root bone; others need frames that begin and end alike."
            }
            Self::StillImproving { .. } => "More rounds would lower the error a little further.",
            Self::OneBonePerVertex => {
                "With rigid pieces, joints crack or overlap; smooth weights need to be solved for as well."
            }
            Self::SmallAlready { .. } => {
                "The additional error is measured from the file as it is: every time that a file is made small, it may grow by as much again."
            }
            Self::ForeignRest { .. } => "It is likely in other units; no bones describe that well.",
            Self::Fit(Fit::NoMotion) => {
                "Every frame equals the rest pose, so bones have nothing to learn from: was the animation exported with its frames?"
            }
            Self::Fit(Fit::TargetMissed { .. } | Fit::AutoMissed { .. }) => {
                "The best that was found is written all the same. More bones, affine bones or more effort come closer."
            }
            _ => "",
        };
        Remark { text: self.to_string(), meaning: (!meaning.is_empty()).then(|| meaning.to_owned()) }
    }

    /// Whether a quality that was requested was missed.
    pub fn is_missed_target(&self) -> bool {
        matches!(self, Self::Fit(bonesmith_core::fit::Warning::TargetMissed { .. }))
    }
}

impl From<bonesmith_core::fit::Warning> for Warning {
    fn from(warning: bonesmith_core::fit::Warning) -> Self {
        Self::Fit(warning)
    }
}

impl From<bonesmith_io::Warning> for Warning {
    fn from(warning: bonesmith_io::Warning) -> Self {
        Self::File(warning)
    }
}

/// A value, and what should be known about it.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use = "the value is inside"]
pub struct Noted<T> {
    /// The value.
    pub value: T,
    /// Each once, in order.
    pub warnings: Vec<Warning>,
}

impl<T> Noted<T> {
    /// Runs work that reads or writes files, with the warnings of its own.
    pub(crate) fn collect<E>(work: impl FnOnce() -> Result<T, E>) -> Result<Self, E> {
        let (done, warnings) = bonesmith_io::with_warnings(work);
        Ok(Self { value: done?, warnings: warnings.into_iter().map(Warning::File).collect() })
    }

    /// The value alone; its warnings are added to `all`, each once.
    pub fn take(self, all: &mut Vec<Warning>) -> T {
        for warning in self.warnings {
            if !all.contains(&warning) {
                all.push(warning);
            }
        }
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_data_with_words() {
        let warning = Warning::from(bonesmith_core::fit::Warning::TargetMissed { target: 1.0, reached: 2.0, bones: 4 });
        assert_eq!(warning.to_json()["kind"], "target-missed");
        assert_eq!(warning.to_json()["bones"], 4);
        assert!(warning.is_missed_target() && warning.remark().meaning.is_some());
        let many = Warning::ManyInfluences { influences: 8, common: 4 };
        assert_eq!((&many.to_json()["kind"], &many.to_json()["influences"]), (&json!("many-influences"), &json!(8)));
        assert!(many.to_json()["text"].as_str().unwrap().contains("8 influences"));
    }
}
