//! Errors as a person reads them: one line with the whole chain, a hint where there is one, and an exit code.

use std::process::ExitCode;

use bonesmith_core::SequenceError;
use bonesmith_core::fit::FitError;
use bonesmith_core::metrics::MetricsError;
use bonesmith_core::observer::Cancelled;

use crate::output::tell;

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
pub fn finish(result: anyhow::Result<Outcome>) -> ExitCode {
    let error = match result {
        Ok(Outcome::Done) => return ExitCode::SUCCESS,
        Ok(Outcome::QualityMissed) => return ExitCode::from(1),
        Err(error) => error,
    };
    if is_cancel(&error) {
        tell("cancelled");
        return ExitCode::from(130);
    }
    tell(&format!("error: {}", one_line(&error)));
    if let Some(hint) = hint(&error) {
        tell(&format!("hint: {hint}"));
    }
    ExitCode::from(2)
}

fn is_cancel(error: &anyhow::Error) -> bool {
    error.chain().any(|e| e.is::<Cancelled>())
}

/// The whole chain on one line; a cause that its parent has already quoted is not said twice.
fn one_line(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() {
            line = text;
        } else if !line.ends_with(&text) {
            line = format!("{line}: {text}");
        }
    }
    line
}

fn hint(error: &anyhow::Error) -> Option<String> {
    error.chain().find_map(|cause| {
        if let Some(usage) = cause.downcast_ref::<Usage>() {
            return usage.hint.clone();
        }
        let text = if let Some(FitError::BoneCount { .. }) = cause.downcast_ref() {
            "--bones auto finds a number"
        } else if let Some(SequenceError::FacesDiffer { .. } | SequenceError::VertexCount { .. }) = cause.downcast_ref()
        {
            "all frames and the rest pose must be the same mesh; export with fixed topology and vertex order"
        } else if let Some(MetricsError::FrameCount { .. }) = cause.downcast_ref() {
            "--frames picks the frames of the animation, --fps the rate it is baked at, --clip the rig's animation"
        } else {
            return None;
        };
        Some(text.to_owned())
    })
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
        let error = anyhow::Error::from(FitError::BoneCount { bones: 9, limit: 8, vertices: 8 });
        assert!(hint(&error).is_some());
    }
}
