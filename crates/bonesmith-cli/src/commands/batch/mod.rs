//! `bonesmith batch`: the jobs of a file, each in a process of its own.

mod pool;
pub mod worker;

use std::collections::HashSet;
use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use bonesmith::batch::{JobFile, Plan, Record, Results, Status};
use bonesmith::core::observer::Cancelled;
use bonesmith::text::{bytes, count, figure};

use crate::args::{self, BatchArgs, EngineArg, SizeArg};
use crate::errors::{Outcome, Usage};
use crate::output::print;
use crate::session::Session;
use pool::Pool;

pub fn run(
    args: BatchArgs,
    threads: Option<usize>,
    memory: Option<SizeArg>,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    let mut plan = JobFile::read(&args.jobs)?.plan()?;
    plan.memory = memory.map(|size| size.0).or(plan.memory);
    if args.collect {
        let results = plan.write_results()?;
        let all: Vec<usize> = (0..plan.jobs.len()).collect();
        return conclude(&plan, &results, &all, session);
    }
    check_options(&plan)?;
    let selected: Vec<usize> =
        (0..plan.jobs.len()).filter(|at| args.shard.is_none_or(|shard| shard.has(*at))).collect();
    if args.dry_run {
        return show(&plan, &selected);
    }
    match args.engine {
        EngineArg::Ray => hand_over(&args),
        EngineArg::Local => local(&args, &plan, &selected, threads, session),
    }
}

fn local(
    args: &BatchArgs,
    plan: &Plan,
    selected: &[usize],
    threads: Option<usize>,
    session: &mut Session,
) -> anyhow::Result<Outcome> {
    if args.address.is_some() {
        return Err(Usage::new("--address is that of a Ray cluster").hint("--engine ray uses it").into());
    }
    if args.workers == Some(0) {
        return Err(Usage::new("--workers is 0; it must be 1 or more").into());
    }
    plan.remove_temporaries(selected);
    let todo = match args.resume {
        true => not_done(plan, selected, session)?,
        false => selected.to_vec(),
    };
    let pool = Pool::new(plan, &todo, threads, args.workers.or(plan.workers), session.cancel())?;
    if !session.quiet && session.verbose {
        session.note(&pool.words());
    }
    let (skipped, mut ended) = (selected.len() - todo.len(), 0);
    let cancelled = pool.run(&todo, &mut |at, record| {
        ended += 1;
        let line = format!("{}: {}", plan.jobs[at].name, words(record));
        session.job_ended(skipped + ended, selected.len(), &line, record.status != Status::Done);
    });
    session.finish_progress();
    let results = plan.write_results()?;
    if cancelled {
        return Err(Cancelled.into());
    }
    conclude(plan, &results, selected, session)
}

/// The jobs that have to be run: all but those whose record is current.
fn not_done(plan: &Plan, selected: &[usize], session: &mut Session) -> anyhow::Result<Vec<usize>> {
    let mut todo = Vec::new();
    for &at in selected {
        session.check_cancelled()?;
        let job = &plan.jobs[at];
        if !Record::read(&job.record).is_some_and(|record| record.is_current(job, plan)) {
            todo.push(at);
        }
    }
    if todo.len() < selected.len() {
        session.note(&format!("{} of {} are done already", selected.len() - todo.len(), count(selected.len(), "job")));
    }
    Ok(todo)
}

/// How a job ended, in a line.
fn words(record: &Record) -> String {
    let figures = &record.figures;
    let mut text = match (record.status, &record.error) {
        (Status::Done, _) => {
            let e_rms = figures.e_rms.map(|e| format!("E_RMS {}, ", figure(e))).unwrap_or_default();
            format!("{e_rms}{}, {:.1} s", bytes(figures.file_bytes), figures.seconds)
        }
        (status, Some(error)) => format!("{}: {error}", status.words()),
        (status, None) => status.words().to_owned(),
    };
    if record.attempts > 1 {
        text += &format!(", {} attempts", record.attempts);
    }
    text
}

/// Words on stdout, and the exit code.
fn conclude(plan: &Plan, results: &Results, selected: &[usize], session: &Session) -> anyhow::Result<Outcome> {
    let rows = || selected.iter().map(|at| &results.jobs[*at]);
    let done = rows().filter(|row| row.status == Status::Done).count();
    let missed = rows().filter(|row| row.misses()).count();
    let page = plan.output.join("index.html");
    if !session.quiet {
        let quality = if missed > 0 { format!(", {missed} of them miss a limit of quality") } else { String::new() };
        print(&format!("{}: {done} done{quality}\n  results  {}\n", count(selected.len(), "job"), page.display()))?;
    }
    if done < selected.len() {
        let first = rows().find(|row| row.status != Status::Done);
        let why = first.map(|row| format!("{}: {}", row.name, row.error.as_deref().unwrap_or(row.status.words())));
        let message = format!("{} of {} did not succeed", selected.len() - done, count(selected.len(), "job"));
        let why = why.unwrap_or_default().chars().take(150).collect::<String>();
        return Err(Usage::new(format!("{message}; the first: {why}")).hint("--resume runs them again").into());
    }
    Ok(if missed > 0 { Outcome::QualityMissed } else { Outcome::Done })
}

/// Options that the command line would refuse, before anything is run.
fn check_options(plan: &Plan) -> Result<(), Usage> {
    let mut seen = HashSet::new();
    for job in plan.jobs.iter().filter(|job| seen.insert(job.option_words())) {
        let words = std::iter::once(OsString::from("bonesmith")).chain(job.arguments());
        if let Err(error) = args::command().try_get_matches_from(words) {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            return Err(Usage::new(format!("{}: {}: {first}", plan.path.display(), job.name)));
        }
    }
    Ok(())
}

fn show(plan: &Plan, selected: &[usize]) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    for job in selected.iter().map(|at| &plan.jobs[*at]) {
        let words = job.arguments();
        text += &format!(
            "{}: {}\n",
            job.name,
            super::quoted_line(words.iter().map(|word| word.to_string_lossy().into_owned()))
        );
    }
    print(&text)?;
    Ok(Outcome::Done)
}

/// Ray is Python's: the package does the rest, with the same plan and the same pages.
fn hand_over(args: &BatchArgs) -> anyhow::Result<Outcome> {
    let own = crate::PROGRAM.get().and_then(|program| program.first());
    let python: &Path = own.map_or(&args.python, |program| Path::new(program));
    let check = Command::new(python)
        .args(["-c", "import bonesmith; print(bonesmith.__version__)"])
        .stdin(Stdio::null())
        .output();
    let check = check.with_context(|| python.display().to_string())?;
    let version = String::from_utf8_lossy(&check.stdout).trim().to_owned();
    if !check.status.success() {
        let message = format!("{} has no package bonesmith", python.display());
        return Err(Usage::new(message).hint("pip install bonesmith[ray], and --python names that Python").into());
    }
    if version != bonesmith::VERSION {
        let message = format!("{} has bonesmith {version}, this is {}", python.display(), bonesmith::VERSION);
        return Err(Usage::new(message).hint("results depend on the version: install the same one").into());
    }
    let mut command = Command::new(python);
    command.args(["-m", "bonesmith._batch"]).arg(&args.jobs);
    if let Some(address) = &args.address {
        command.args(["--address", address]);
    }
    if let Some(shard) = args.shard {
        command.args(["--shard", &format!("{}/{}", shard.index, shard.count)]);
    }
    if args.resume {
        command.arg("--resume");
    }
    match command.status()?.code() {
        Some(0) => Ok(Outcome::Done),
        Some(1) => Ok(Outcome::QualityMissed),
        Some(130) | None => Err(Cancelled.into()),
        Some(code) => Err(Usage::new(format!("the batch on Ray ended with code {code}")).into()),
    }
}
