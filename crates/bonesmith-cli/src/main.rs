//! The binary `bonesmith`: args (parse) -> settings (resolve) -> commands (run).

mod args;
mod commands;
mod errors;
mod load;
mod memory;
mod models;
mod output;
mod pipeline;
mod reports;
mod rigs;
mod session;
mod settings;
mod summary;

use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use crate::args::{BenchCommand, Cli, Command};
use crate::errors::Outcome;
use crate::session::Session;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut session = Session::new(&cli.global);
    let result = run(cli, &mut session);
    session.finish_progress();
    errors::finish(result)
}

fn run(cli: Cli, session: &mut Session) -> anyhow::Result<Outcome> {
    if let Some(threads) = settings::threads(cli.global.threads)? {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        pool.build_global().context("--threads")?;
    }
    session.catch_ctrl_c();
    match cli.command {
        Command::Demo(args) => commands::demo::run(args, session),
        Command::Fit(args) => commands::fit::run(args, session),
        Command::Reduce(args) => commands::reduce::run(args, session),
        Command::Compress(args) => commands::compress::run(args, session),
        Command::Ddm(args) => commands::ddm::run(args, session),
        Command::Eval(args) => commands::eval::run(args, session),
        Command::View(args) => commands::view::run(args, session),
        Command::Compare(args) => commands::compare::run(args, session),
        Command::Info(args) => commands::info::run(args, session),
        Command::Convert(args) => commands::convert::run(args, session),
        Command::Bench(args) => {
            let report = args.report.map(settings::bench_report).transpose()?;
            let outcome = bench(args.what, cli.global.threads, session)?;
            report.map(|target| commands::bench::report::write(&target, session)).transpose()?;
            Ok(outcome)
        }
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
        BenchCommand::Ddm(bench) => commands::bench::ddm::run(bench, session),
        BenchCommand::TwoLayer(bench) => commands::bench::two_layer::run(bench, session),
        #[cfg(feature = "gpu")]
        BenchCommand::Gpu(bench) => commands::bench::gpu::run(bench, session),
    }
}
