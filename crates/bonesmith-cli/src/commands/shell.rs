//! `bonesmith completions` and `bonesmith man`, made from the command line's own definitions.

use crate::args;
use crate::errors::Outcome;
use crate::output::print;

pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "bonesmith", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

/// One page: the program, then each command with its options.
pub fn man() -> anyhow::Result<Outcome> {
    let mut command = args::command();
    command.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let man = clap_mangen::Man::new(sub.clone());
        page.extend(format!(".SH \"BONESMITH {}\"\n", sub.get_name().to_uppercase()).bytes());
        man.render_synopsis_section(&mut page)?;
        man.render_description_section(&mut page)?;
        man.render_options_section(&mut page)?;
    }
    print(&String::from_utf8_lossy(&page))?;
    Ok(Outcome::Done)
}
