//! `bonesmith sweep`: error against the number of bones.

use bonesmith::core::fit::SWEEP_COUNTS;
use bonesmith_core::Stage;
use serde_json::json;

use crate::args::SweepArgs;
use crate::errors::{Outcome, Usage};
use crate::output::{figure, print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};
use crate::sheet::lines;

pub fn run(args: SweepArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    if args.solver.bones.is_some() || args.solver.target_error.is_some() {
        let message = "sweep tries many numbers of bones: --bones and --target-error mean nothing";
        return Err(Usage::new(message).hint("--counts 5,10,20 names the numbers").into());
    }
    let options = settings::fit_options(&args.solver)?;
    let counts = if args.counts.is_empty() { SWEEP_COUNTS.to_vec() } else { args.counts };
    let input = settings::input(args.inputs, args.input)?;
    let json = settings::json(args.json)?;
    let table = args.output.map(settings::sweep_output).transpose()?;
    let page = args.report.map(settings::report_path).transpose()?;
    let files: Vec<_> = input.files().into_iter().chain(options.importance.file()).collect();
    let outputs: Vec<_> = table.iter().chain(&page).cloned().collect();
    session.claim(&files, &outputs, json.as_ref(), None)?;
    session.read_in_blocks();

    session.stage(Stage::Reading)?;
    let sequence = session.take(input.animation()?);
    session.check_outputs()?;
    let swept = bonesmith::sweep(&sequence, &options, &counts, session)?;
    session.finish_progress();
    if let Some(path) = &table {
        bonesmith::io::write_whole(path, swept.csv().as_bytes())?;
    }
    if let Some(path) = &page {
        bonesmith::io::write_whole(path, swept.page().as_bytes())?;
    }
    if let Some(target) = &json {
        write_json(target, &json!({ "version": bonesmith::VERSION, "name": swept.name, "sweep": swept.sweep }))?;
    }
    if !session.quiet && json != Some(JsonTarget::Stdout) {
        let row = |(at, point): (usize, &bonesmith::core::fit::SweepPoint)| {
            let knee = if swept.sweep.knee == Some(at) { "knee" } else { "" };
            vec![point.bones.to_string(), figure(point.e_rms), figure(point.max_error), knee.to_owned()]
        };
        let rows: Vec<Vec<String>> = swept.sweep.points.iter().enumerate().map(row).collect();
        let mut text = lines(&["bones", "E_RMS", "max error", ""], &rows);
        if let Some(knee) = swept.knee() {
            let (bones, e_rms) = (knee.bones, figure(knee.e_rms));
            text += &format!(
                "\nKnee of the curve: {bones} bones (E_RMS {e_rms}). After it each bone lowers the error less.\nFor a given error use fit --target-error.\n"
            );
        }
        print(&text)?;
    }
    Ok(Outcome::Done)
}
