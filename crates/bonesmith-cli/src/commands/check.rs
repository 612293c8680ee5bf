//! `bonesmith check`: what engines object to in a file.

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
        print(&table(&findings, &chosen))?;
    }
    Ok(if exceeded { Outcome::QualityMissed } else { Outcome::Done })
}

/// One block for each engine.
fn table(findings: &[Finding], chosen: &[&'static Target]) -> String {
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
                text += &format!("          helps: {}\n", in_words(help));
            }
            let source = if finding.url.is_empty() { "convention" } else { finding.url };
            text += &format!("          source: {}, {source}\n", finding.source);
        }
    }
    text
}

/// A remedy as it is typed.
fn in_words(help: &Remedy) -> String {
    match help.option {
        "output" => format!("bonesmith {} to .{}", help.command, help.value),
        option => format!("bonesmith {} --{option} {}", help.command, help.value),
    }
}
