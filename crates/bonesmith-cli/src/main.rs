//! The binary `bonesmith`: see the library `bonesmith_cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    bonesmith_cli::main(std::env::args_os(), Vec::new()).into()
}
