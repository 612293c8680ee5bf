//! `bonesmith compare`: several models of one mesh against one animation.

use bonesmith::{COLUMNS, Compared, comparison_json, comparison_scene};
use bonesmith_core::{ModelKind, Stage};

use crate::args::CompareArgs;
use crate::errors::Outcome;
use crate::output::{print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};
use crate::sheet::lines;

pub fn run(args: CompareArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let files = settings::input(args.files, Default::default())?;
    let input = settings::input(args.against, args.input)?;
    let json = settings::json(args.json)?;
    let report = settings::report(&args.report)?;
    session.claim(&[files.files(), input.files()].concat(), &[], json.as_ref(), report.as_ref())?;
    session.read_in_blocks();

    session.stage(Stage::Reading)?;
    let mut read = Vec::new();
    for path in files.paths {
        let model = session.take(settings::with_paths(&input, vec![path.clone()]).model_to_compare()?);
        read.push((path, model));
    }
    let sequence = match read.iter().map(|(_, model)| model.view()).find(|model| model.kind() == ModelKind::ShapeBones)
    {
        Some(face) => session.take(input.reference(face, None)?),
        None => session.take(input.animation()?),
    };
    let mut models = Vec::new();
    for (path, model) in read {
        session.stage(Stage::Measuring)?;
        models.push(Compared::new(path, model, &sequence)?);
    }
    let page = match &report {
        Some(target) => super::write_page(&comparison_scene(&models, &sequence), target, session)?,
        None => None,
    };
    session.finish_progress();
    if let Some(target) = &json {
        write_json(target, &session.with_losses(comparison_json(&models, &sequence)))?;
    }
    if json != Some(JsonTarget::Stdout) {
        let header = COLUMNS.map(|(name, ..)| name);
        let rows: Vec<Vec<String>> = models.iter().map(Compared::shown).collect();
        print(&lines(&header, &rows))?;
        if let Some(written) = page.filter(|_| !session.quiet) {
            print(&format!("  written  {written}\n"))?;
        }
    }
    Ok(Outcome::Done)
}
