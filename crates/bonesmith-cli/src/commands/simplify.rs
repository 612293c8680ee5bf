//! What `reduce`, `compress` and `ddm` have in common: a rig and examples in, a file out, figures of the file.

use std::path::PathBuf;
use std::time::Instant;

use bonesmith::{CompactOptions, Input, Shape, Simplified, SourceRig};
use bonesmith_core::Stage;

use crate::errors::{Outcome, Usage};
use crate::session::Session;
use crate::settings::{self, JsonTarget, ReportTarget};

/// Where the results go.
pub struct Target {
    pub output: PathBuf,
    pub shape: Shape,
    pub compact: Option<CompactOptions>,
    pub report: Option<ReportTarget>,
    pub json: Option<JsonTarget>,
}

/// Reads the rig and the examples; returns the seconds that took too.
pub fn read(
    rig: PathBuf,
    examples: &Input,
    normalise: bool,
    session: &mut Session,
) -> anyhow::Result<(SourceRig, f64)> {
    if examples.paths.is_empty() {
        let Input { rest, fps, frames, mesh, clips, .. } = examples;
        let given = [("--rest", rest.is_some()), ("--fps", fps.is_some()), ("--frames", frames.is_some())];
        let more = [("--mesh", mesh.is_some()), ("--clips", !clips.is_empty())];
        if let Some((option, _)) = given.into_iter().chain(more).find(|(_, given)| *given) {
            let message = format!("{option} is about --examples, and there are none");
            return Err(Usage::new(message).hint("convert --clips and convert --mesh pick from a rig").into());
        }
    }
    let input = settings::input(vec![rig], Default::default())?;
    session.stage(Stage::Reading)?;
    let started = Instant::now();
    let rig = session.take(if normalise { input.rig_normalised()? } else { input.rig()? });
    let examples = match examples.paths.is_empty() {
        true => None,
        false => Some(session.take(examples.animation()?)),
    };
    session.check_outputs()?;
    Ok((SourceRig::new(rig, examples)?, started.elapsed().as_secs_f64()))
}

/// Writes the model, measures the file, shows the result.
pub fn finish(
    mut made: Simplified,
    source: &SourceRig,
    load_secs: f64,
    target: &Target,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    let saved = match &target.compact {
        Some(compact) => made.save_compact(&target.output, target.shape, compact, source, session)?,
        None => made.save(&target.output, target.shape, session)?,
    };
    let mut summary = made.summary(&saved, source)?;
    summary.seconds.add_load(load_secs);
    let notes = match &target.report {
        Some(target) => super::write_page(&made.scene(&summary, &saved, source), target, session)?,
        None => None,
    };
    super::report(&summary, notes.as_slice(), target.json.as_ref(), !session.quiet, session)?;
    Ok(super::outcome(&summary))
}
