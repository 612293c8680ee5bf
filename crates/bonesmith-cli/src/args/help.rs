//! Help texts of options from the tables of the library, which Python's documentation is made from, too.

use bonesmith::options::{self, OptionInfo};
use clap::{Command, CommandFactory};

use super::Cli;

/// All commands and options, with their help. Texts that name formats are in `formats`, those of other options beside their definition.
pub fn command() -> Command {
    let names: Vec<String> = Cli::command().get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    names.iter().fold(Cli::command(), |all, name| all.mut_subcommand(name, documented))
}

/// The tables that a command's options are in; the first one that has an option counts.
fn tables(command: &str) -> [&'static [OptionInfo]; 6] {
    let fit = if ["fit", "demo", "sweep"].contains(&command) { options::FIT } else { &[] };
    let refit = if command == "fit" { options::REFIT } else { &[] };
    [options::of_command(command), fit, refit, &options::MOTION, options::LOAD, options::REPORT]
}

/// A command with help for the options that have none.
fn documented(command: Command) -> Command {
    let of_command = tables(command.get_name());
    command.mut_args(|arg| {
        let option = of_command.iter().copied().flatten().find(|option| arg.get_id() == option.name);
        let Some(option) = option.filter(|_| arg.get_help().is_none()) else { return arg };
        // clap adds the defaults that it knows.
        let shows_default = !arg.get_default_values().is_empty();
        arg.help(text(option, &of_command, !shows_default))
    })
}

fn text(option: &OptionInfo, of_command: &[&'static [OptionInfo]], with_default: bool) -> String {
    let mut text = option.help.to_owned();
    if let Some(default) = option.default_text().filter(|_| with_default) {
        text += &format!(" [default: {default}]");
    }
    // Options are in backquotes, and so are names in files.
    for name in of_command.iter().copied().flatten().map(|option| option.name) {
        text = text.replace(&format!("`{name}`"), &format!("--{}", name.replace('_', "-")));
    }
    text
}

#[cfg(test)]
mod tests {
    use bonesmith::{FitOptions, FitParams};
    use clap::{Arg, FromArgMatches};

    use super::*;
    use crate::args::Command as Parsed;
    use crate::settings;

    fn find<'a>(command: &'a Command, option: &OptionInfo) -> &'a Arg {
        let found = command.get_arguments().find(|arg| arg.get_id() == option.name);
        found.unwrap_or_else(|| panic!("{} has no --{}", command.get_name(), option.name))
    }

    /// "fast, balanced or best" as a list.
    fn choices(values: &str) -> Vec<String> {
        values.replace(" or ", ", ").split(", ").map(str::to_owned).collect()
    }

    #[test]
    fn every_option_of_the_tables_is_one_of_the_command_line() {
        let all = command();
        let tables = options::COMMANDS.iter().copied().chain([("fit", options::REFIT), ("fit", options::LOAD)]);
        let mut looked_at = 0;
        for (name, options) in tables {
            let command = all.find_subcommand(name).unwrap();
            for option in options {
                let arg = find(command, option);
                assert_eq!(arg.get_long(), Some(option.name.replace('_', "-").as_str()));
                let takes_value = arg.get_action().takes_values();
                assert_eq!(takes_value, option.hint != "bool", "{name} {}", option.name);
                let values: Vec<String> = arg.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
                if takes_value && !values.is_empty() && !option.hint.starts_with("Sequence") {
                    assert_eq!(values, choices(option.values), "{name} {}", option.name);
                }
                if let [default] = arg.get_default_values() {
                    let default = default.to_string_lossy();
                    let expected = option.default.trim_matches(['"', '[', ']']).replace(", ", ",");
                    assert_eq!(default, expected, "{name} {}", option.name);
                }
                looked_at += 1;
            }
        }
        assert!(looked_at > 70, "{looked_at}");
    }

    /// The other way round: what the command line has and the tables do not is about files, and is listed here.
    #[test]
    fn every_option_of_the_command_line_is_in_a_table_or_is_about_files() {
        let files = [
            "help",
            "output",
            "report",
            "json",
            "rig",
            "subject",
            "parts",
            "pieces",
            "max_joints",
            "picture",
            "shape",
            "target",
            "compact",
        ];
        let inputs = ["examples", "normalise", "delta_mush", "mesh_lod", "separate"];
        for (name, _) in options::COMMANDS {
            let all = command();
            let command = all.find_subcommand(name).unwrap();
            for arg in command.get_arguments().filter(|arg| !arg.is_positional() && !arg.is_global_set()) {
                let id = arg.get_id().as_str();
                let known = tables(name).iter().copied().flatten().any(|option| option.name == id);
                assert!(known || files.contains(&id) || inputs.contains(&id), "{name} --{id} is in no table");
            }
        }
    }

    #[test]
    fn every_option_has_help() {
        fn check(command: &Command) {
            for arg in command.get_arguments() {
                assert!(arg.get_help().is_some(), "{} --{} has no help", command.get_name(), arg.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }

    #[test]
    fn help_names_flags_and_defaults() {
        let mut all = command();
        let help = |all: &mut Command, name: &str| {
            all.find_subcommand_mut(name)
                .unwrap()
                .render_long_help()
                .to_string()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let fit = help(&mut all, "fit");
        for text in [
            "at most 100 [default: auto]",
            "instead of --bones",
            "[default: rigid; affine with --method fsd, sma and sad]",
            "an npz with `mask`",
            "[default: 0.4]",
        ] {
            assert!(fit.contains(text), "{text}: {fit}");
        }
        assert!(!help(&mut all, "ddm").contains("[default: []]"));
    }

    /// Nothing typed is nothing changed: the defaults of the command line are those of the library.
    #[test]
    fn defaults_of_the_command_line_are_those_of_the_library() {
        let matches = command().try_get_matches_from(["bonesmith", "fit", "walk.npz", "-o", "walk.glb"]).unwrap();
        let Parsed::Fit(args) = Cli::from_arg_matches(&matches).unwrap().command else { panic!() };
        let mut options = settings::fit_options(&args.solver).unwrap();
        options.skeleton = settings::skeleton(&args.skeleton, &options.params).unwrap();
        options.eigenskin = settings::eigenskin(args.eigenskin).unwrap();
        options.motion = args.motion.options();
        assert_eq!(options, FitOptions::default());
        assert_eq!(options.params, FitParams::default());
    }
}
