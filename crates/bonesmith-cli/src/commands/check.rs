//! `bonesmith check`: what engines object to in a file.

use std::path::Path;

use bonesmith::io::Format;
use bonesmith::targets::{self, Finding, Remedy, Severity, TARGETS, Target};
use bonesmith_core::Stage;
use serde_json::json;

use crate::args::CheckArgs;
use crate::errors::Outcome;
use crate::output::{print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};

pub fn run(args: CheckArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let input = settings::input(vec![args.file.clone()], Default::default())?;
    let json_target = settings::json(args.json)?;
    session.claim(&input.files(), &[], json_target.as_ref(), None)?;
    let chosen: Vec<&'static Target> = match args.target.is_empty() {
        true => TARGETS.iter().collect(),
        false => args.target.iter().filter_map(|name| Target::named(name)).collect(),
    };
    session.stage(Stage::Reading)?;
    let findings = session.take(targets::check_file(&args.file, &chosen)?);
    session.check_outputs()?;
    session.finish_progress();
    let exceeded = findings.iter().any(|finding| finding.severity == Severity::Limit);
    if let Some(target) = &json_target {
        let names: Vec<&str> = chosen.iter().map(|target| target.name).collect();
        let value = json!({
            "version": bonesmith::VERSION,
            "command": "check",
            "file": args.file.to_string_lossy(),
            "targets": names,
            "exceeded": exceeded,
            "findings": findings,
        });
        write_json(target, &session.with_losses(value))?;
    }
    if json_target != Some(JsonTarget::Stdout) {
        print(&table(&findings, &chosen, &args.file))?;
    }
    Ok(if exceeded { Outcome::QualityMissed } else { Outcome::Done })
}

/// One block for each engine.
fn table(findings: &[Finding], chosen: &[&'static Target], file: &Path) -> String {
    let mut text = String::new();
    for target in chosen {
        let own: Vec<&Finding> = findings.iter().filter(|finding| finding.target == target.name).collect();
        if own.is_empty() {
            text += &format!("{}: nothing to object to\n", target.title);
            continue;
        }
        text += &format!("{}:\n", target.title);
        for finding in own {
            let word = if finding.severity == Severity::Limit { "limit " } else { "advice" };
            let at = if finding.at.is_empty() { String::new() } else { format!(" ({})", finding.at) };
            text += &format!("  {word}  {}: {}{at}\n          {}\n", finding.limit, finding.value, finding.effect);
            if let Some(help) = &finding.help {
                text += &format!("          helps: {}\n", command(help, target, file));
            }
            let source = if finding.url.is_empty() { "convention" } else { finding.url };
            text += &format!("          source: {}, {source}\n", finding.source);
        }
    }
    text
}

/// A remedy as a command that can be run: it writes another file, named after the engine, in a format that the engine imports.
fn command(help: &Remedy, target: &Target, file: &Path) -> String {
    let (own, kinds) = (Format::from_extension(file), target.files());
    let divides = help.option == "max-joints";
    let possible = |format: &Format| kinds.contains(format) && (!divides || Format::writing_skins().contains(format));
    let format = own.filter(possible).or_else(|| kinds.iter().copied().find(possible)).or(own);
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let ending = format.map_or("glb", Format::ending);
    let output = file.with_file_name(format!("{stem}_{}.{ending}", target.name)).display().to_string();
    let mut words = vec![help.command.to_owned(), file.display().to_string()];
    match help.command {
        "convert" => words.push(output),
        _ => words.extend(["-o".to_owned(), output]),
    }
    if help.option != "output" {
        words.extend([format!("--{}", help.option), help.value.clone()]);
    }
    super::quoted_line(words.into_iter())
}
