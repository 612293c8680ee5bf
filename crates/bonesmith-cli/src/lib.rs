//! The command line of `bonesmith`: args (parse) -> settings (resolve) -> commands (run, by the library `bonesmith`).
//!
//! A library, so that the binary and the Python package have the same command. [`main`] runs one command and is all there is.

mod args;
mod commands;
mod errors;
mod limit;
mod output;
mod session;
mod settings;
mod sheet;
mod tables;

use std::ffi::OsString;
use std::sync::OnceLock;

use anyhow::Context;
use clap::FromArgMatches;

use crate::args::{BenchCommand, Cli, Command, SizeArg};
use crate::commands::batch::worker::Worker;
use crate::errors::Outcome;
use crate::session::Session;

/// How the program starts itself again, for benches that measure processes.
static PROGRAM: OnceLock<Vec<OsString>> = OnceLock::new();

/// Runs the command line: `arguments` begin with the name of the program. `program` starts the same program in another process: an
/// executable and its first arguments; empty for this executable. Ctrl-C is handled from here on. Returns the exit code.
pub fn main(arguments: impl IntoIterator<Item = OsString>, program: Vec<OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let parsed = args::command().try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        // Help and versions are no failures. A closed pipe is no reason to fail.
        Err(shown) => {
            let _ = shown.print();
            if shown.use_stderr() {
                args::hint(&arguments).iter().for_each(|hint| output::emit(&format!("hint: {hint}")));
            }
            return u8::try_from(shown.exit_code()).unwrap_or(2);
        }
    };
    if !program.is_empty() {
        // One command per process; a second one has the same program.
        let _ = PROGRAM.set(program);
    }
    session::fail_on_full_files();
    let mut session = Session::new(&cli.global);
    let result = run(cli, &mut session);
    session.finish_progress();
    errors::finish(result)
}

/// This program, to be run in another process.
fn another_process() -> std::io::Result<std::process::Command> {
    let Some([program, first @ ..]) = PROGRAM.get().map(Vec::as_slice) else {
        return Ok(std::process::Command::new(std::env::current_exe()?));
    };
    let mut command = std::process::Command::new(program);
    command.args(first);
    Ok(command)
}

fn run(cli: Cli, session: &mut Session) -> anyhow::Result<Outcome> {
    if let Some(threads) = settings::threads(cli.global.threads)? {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build_global().context("--threads")?;
    }
    session.catch_ctrl_c();
    if let Some(task) = &cli.global.worker {
        session.worker = Some(Worker::start(task, session.cancel())?);
    }
    // Workers write; this process writes pages of what is there, also when it is cancelled.
    if let Command::Batch(args) = cli.command {
        return commands::batch::run(args, cli.global.threads, cli.global.memory, session);
    }
    session.limit_memory(cli.global.memory.map(|SizeArg(limit)| limit));
    if let Command::Bench(args) = cli.command {
        let report = args.report.map(settings::bench_report).transpose()?;
        let outcome = bench(args.what, cli.global.threads, session)?;
        report.map(|target| commands::bench::report::write(&target, session)).transpose()?;
        return Ok(outcome);
    }
    // A bench writes for other processes to read; all others change files when they have succeeded.
    session.begin();
    let outcome = work(cli.command, session).map_err(|error| session.cause(error))?;
    session.finish_worker(outcome)?;
    session.commit()?;
    Ok(outcome)
}

fn work(command: Command, session: &mut Session) -> anyhow::Result<Outcome> {
    match command {
        Command::Demo(args) => commands::demo::run(args, session),
        Command::Fit(args) => commands::fit::run(args, session),
        Command::Sweep(args) => commands::sweep::run(args, session),
        Command::Lod(args) => commands::lod::run(args, session),
        Command::Shapes(args) => commands::shapes::run(args, session),
        Command::Reduce(args) => commands::reduce::run(args, session),
        Command::Compress(args) => commands::compress::run(args, session),
        Command::Ddm(args) => commands::ddm::run(args, session),
        Command::Eval(args) => commands::eval::run(args, session),
        Command::View(args) => commands::view::run(args, session),
        Command::Compare(args) => commands::compare::run(args, session),
        Command::Info(args) => commands::info::run(args, session),
        Command::Check(args) => commands::check::run(args, session),
        Command::Convert(args) => commands::convert::run(args, session),
        Command::Batch(args) => commands::batch::run(args, None, None, session),
        Command::Bench(args) => bench(args.what, None, session),
        Command::Completions { shell } => commands::shell::completions(shell),
        Command::Man => commands::shell::man(),
    }
}

fn bench(what: BenchCommand, threads: Option<usize>, session: &mut Session) -> anyhow::Result<Outcome> {
    match what {
        BenchCommand::Fit(bench) => commands::bench::run(bench, threads, session),
        BenchCommand::Files(bench) => commands::bench::files::run(bench, session),
        BenchCommand::Limits(bench) => commands::bench::limits::run(bench, session),
        BenchCommand::Skeleton2(bench) => commands::bench::skeleton2::run(bench, threads, session),
        BenchCommand::Kavan2(bench) => commands::bench::methods::kavan2(bench, threads, session),
        BenchCommand::Ssdr1(bench) => commands::bench::methods::ssdr1(bench, threads, session),
        BenchCommand::Reduction3(bench) => commands::bench::reduction::table3(bench, session),
        BenchCommand::Weights42(bench) => commands::bench::reduction::table42(bench, session),
        BenchCommand::Shapes(bench) => commands::bench::shapes::run(bench, session),
        BenchCommand::Ddm(bench) => commands::bench::ddm::run(bench, session),
        BenchCommand::TwoLayer(bench) => commands::bench::two_layer::run(bench, session),
        #[cfg(feature = "gpu")]
        BenchCommand::Gpu(bench) => commands::bench::gpu::run(bench, session),
        #[cfg(not(feature = "gpu"))]
        BenchCommand::Gpu(_) => Err(commands::without_gpu("bench gpu").into()),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use bonesmith_core::MeshSequence;
    use bonesmith_core::synthetic::{PosedRigParams, posed_rig};

    use clap::Parser;

    use super::*;

    /// Runs a command in this process; returns how many files it has opened.
    fn opened(folder: &Path, command: &[&str]) -> usize {
        let path =
            |word: &&str| if word.contains('.') { folder.join(word).into() } else { std::ffi::OsString::from(word) };
        let words = ["bonesmith", "--quiet"].iter().map(std::ffi::OsString::from).chain(command.iter().map(path));
        let cli = Cli::try_parse_from(words).unwrap();
        let mut session = Session::new(&cli.global);
        let before = bonesmith_io::files_opened();
        run(cli, &mut session).unwrap();
        bonesmith_io::files_opened() - before
    }

    #[test]
    fn every_file_is_opened_and_parsed_once() {
        let folder = tempfile::tempdir().unwrap();
        let made = posed_rig(1, &PosedRigParams { frames: 3, detail: 1, ..PosedRigParams::default() });
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        for rig in ["rig.glb", "rig.npz", "rig.usdc", "rig.fbx"] {
            let opened = |command: &[&str]| opened(folder.path(), command);
            bonesmith_io::save_model(&made.rig, &folder.path().join(rig)).unwrap();
            bonesmith_io::save_model(&sequence, &folder.path().join("walk.npz")).unwrap();
            assert_eq!(opened(&["info", rig]), 1, "info {rig}");
            assert_eq!(opened(&["convert", rig, "copy.npz"]), 1, "convert {rig}");
            assert_eq!(opened(&["view", rig, "--no-open", "--output", "page.html"]), 1, "view {rig}");
            // The rig, and the animation.
            assert_eq!(opened(&["eval", rig, "walk.npz", "--json", "eval.json"]), 2, "eval {rig}");
            assert_eq!(opened(&["compare", rig, "--against", "walk.npz"]), 2, "compare {rig}");
        }
    }
}
