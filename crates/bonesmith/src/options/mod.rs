//! Options of the commands: name, type, default and help of each, in one table per command.
//!
//! The command line takes its help texts from these tables, Python its signatures and docstrings. [`Values`] makes the options of the library out
//! of values by name: Python's arguments, a line of a batch file. Tests compare the defaults of the tables with those of the options, with
//! the command line, and with Python's signatures.

mod fit;
mod rig_tables;
mod shapes;
mod simplify;
mod tables;
mod values;

pub use rig_tables::{COMPRESS, DDM, LOD, MOTION, REDUCE, REFIT};
pub use shapes::SHAPES;
pub use tables::{COMMANDS, COMPACT, FIT, LOAD, REPORT, SWEEP};
pub use values::Values;

/// One option of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionInfo {
    /// Its name, as the field and Python's argument have it; the command line writes `-` for `_`.
    pub name: &'static str,
    /// Its type, in the notation of Python's type hints.
    pub hint: &'static str,
    /// Its default, as JSON.
    pub default: &'static str,
    /// What the default stands for, where it does not say it itself; may be empty.
    pub default_note: &'static str,
    /// The values that it may have, in words.
    pub values: &'static str,
    /// What it does. Other options are named in backquotes.
    pub help: &'static str,
}

impl OptionInfo {
    /// The default.
    pub fn default_value(&self) -> serde_json::Value {
        serde_json::from_str(self.default).unwrap_or_default()
    }

    /// The default in words; `None` where there is nothing to say about it.
    pub fn default_text(&self) -> Option<String> {
        match (self.default_note, self.default) {
            ("", "null" | "false" | "[]") => None,
            ("", default) => Some(default.trim_matches('"').to_owned()),
            (note, _) => Some(note.to_owned()),
        }
    }
}

/// The options of a command of the command line; empty for one that has none here.
pub fn of_command(command: &str) -> &'static [OptionInfo] {
    COMMANDS.iter().find(|(name, _)| *name == command).map_or(&[], |(_, options)| options)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::refit::RefitOptions;
    use crate::{Allowed, CompactOptions, DdmOptions, FitOptions, ShapesOptions};
    use bonesmith_core::compress::TwoLayerParams;
    use bonesmith_core::reduce::ReduceParams;

    fn defaults(options: &'static [OptionInfo]) -> Values {
        Values::new(options, options.iter().map(|option| (option.name.to_owned(), option.default_value()))).unwrap()
    }

    /// With every default spelled out, the options are their own `Default`.
    #[test]
    fn defaults_of_the_tables_are_those_of_the_library() {
        assert_eq!(FitOptions::from_values(&defaults(FIT)).unwrap(), FitOptions::default());
        let (refit, default) = (RefitOptions::from_values(&defaults(REFIT)).unwrap(), RefitOptions::default());
        assert_eq!(format!("{refit:?}"), format!("{default:?}"));
        assert_eq!(ShapesOptions::from_values(&defaults(SHAPES)).unwrap(), ShapesOptions::default());
        assert_eq!(defaults(REDUCE).reduce().unwrap(), ReduceParams::default());
        assert_eq!(defaults(COMPRESS).compress().unwrap(), TwoLayerParams::default());
        assert_eq!(DdmOptions::from_values(&defaults(DDM)).unwrap(), DdmOptions::default());
        assert_eq!(CompactOptions::from_values(&defaults(COMPACT)).unwrap(), CompactOptions::default());
    }

    /// Values by name, and what is typed behind one flag, are the same options.
    #[test]
    fn small_files_by_name_and_by_words() {
        let named = |error: Value, plain: bool, unnumbered: bool| {
            let values = [("error", error), ("plain", plain.into()), ("unnumbered", unnumbered.into())];
            let values = Values::new(COMPACT, values.map(|(name, value)| (name.to_owned(), value))).unwrap();
            CompactOptions::from_values(&values).map_err(|error| error.to_string())
        };
        let typed = |text: &str| text.parse::<CompactOptions>().map_err(|error| error.to_string());
        assert_eq!(named(0.05.into(), true, false), typed("plain,0.05"));
        assert_eq!(named("5%".into(), false, true), typed("5%, unnumbered"));
        assert_eq!(typed("5%").unwrap().allowed, Some(Allowed::Share(0.05)));
        assert_eq!(typed(""), Ok(CompactOptions::default()));
        for bad in ["0", "-1", "nan", "inf", "1e9", "small", "0%"] {
            assert!(typed(bad).is_err() && named(bad.into(), false, false).is_err(), "{bad}");
        }
        assert!(named(Value::from(-1), false, false).unwrap_err().contains("-1"));
    }

    /// A default that is written as a number must be the number of the library: not every one is used where it is not given.
    #[test]
    fn numbers_of_the_tables_are_those_of_the_library() {
        let fit = serde_json::to_value(&FitOptions::default().params).unwrap();
        let numbers = FIT.iter().filter(|option| option.default_value().is_number());
        let numbers: Vec<_> = numbers.filter(|option| fit.get(option.name).is_some()).collect();
        assert!(numbers.len() >= 4, "{}", numbers.len());
        for option in numbers {
            assert_eq!(option.default_value().as_f64(), fit[option.name].as_f64(), "{}", option.name);
        }
        let reduce = serde_json::to_value(ReduceParams::default()).unwrap();
        for option in REDUCE {
            assert_eq!(
                reduce[option.name],
                of_same_type(&option.default_value(), &reduce[option.name]),
                "{}",
                option.name
            );
        }
        let refit = serde_json::to_value(&RefitOptions::default().params).unwrap();
        for option in REFIT.iter().filter(|option| refit.get(option.name).is_some()) {
            let found = of_same_type(&option.default_value(), &refit[option.name]);
            // Chosen by other options.
            if !["solve", "add_bones"].contains(&option.name) {
                assert_eq!(refit[option.name], found, "{}", option.name);
            }
        }
    }

    fn of_same_type(value: &Value, other: &Value) -> Value {
        if other.is_f64() { value.as_f64().map_or(Value::Null, Value::from) } else { value.clone() }
    }

    #[test]
    fn names_are_unique_and_defaults_are_json() {
        for (command, options) in COMMANDS {
            for (at, option) in options.iter().enumerate() {
                assert!(options[..at].iter().all(|other| other.name != option.name), "{command} {}", option.name);
                assert!(serde_json::from_str::<Value>(option.default).is_ok(), "{command} {}", option.name);
                assert!(
                    !option.help.is_empty() && !option.help.ends_with('.') && !option.hint.is_empty(),
                    "{}",
                    option.name
                );
            }
        }
        assert_eq!(of_command("reduce").len(), REDUCE.len());
        assert!(of_command("no such command").is_empty());
    }
}
