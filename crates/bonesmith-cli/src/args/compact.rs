//! `--compact`: small files.

use std::ffi::OsString;
use std::str::FromStr;

use bonesmith::{Allowed, CompactOptions};

/// What was typed behind `--compact=`: an error, `plain`, `unnumbered`, or several of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompactArg(pub CompactOptions);

impl FromStr for CompactArg {
    type Err = String;

    /// Nothing, `plain`, `unnumbered`, `0.05` (E_RMS), `5%` (of the model's own), `plain,0.05`.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut options = CompactOptions::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part {
                "plain" => {
                    options.compressed = false;
                    continue;
                }
                "unnumbered" => {
                    options.numbered = false;
                    continue;
                }
                _ => {}
            }
            let (number, share) = part.strip_suffix('%').map_or((part, false), |number| (number, true));
            let number: f64 = number.trim().parse().map_err(|_| {
                format!(
                    "{part} is neither plain nor unnumbered nor an additional error, such as 0.05 (E_RMS) or 5% (of the model's own)"
                )
            })?;
            options.allowed = Some(if share { Allowed::Share(number / 100.0) } else { Allowed::ERms(number) });
        }
        options.validate().map_err(|e| e.to_string())?;
        Ok(Self(options))
    }
}

/// What was meant by a value that stands beside `--compact`, not behind a `=`.
pub fn hint(arguments: &[OsString]) -> Option<String> {
    let value = |pair: &&[OsString]| {
        let word = pair[1].to_string_lossy();
        pair[0] == "--compact" && !word.is_empty() && word.parse::<CompactArg>().is_ok()
    };
    let pair = arguments.windows(2).find(value)?;
    Some(format!("a value of --compact is written with =: --compact={}", pair[1].to_string_lossy()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_and_plain() {
        let options = |text: &str| text.parse::<CompactArg>().map(|arg| (arg.0.allowed, arg.0.compressed));
        assert_eq!(options(""), Ok((None, true)));
        assert_eq!(options("plain"), Ok((None, false)));
        assert_eq!(options("0.05"), Ok((Some(Allowed::ERms(0.05)), true)));
        assert_eq!(options("plain,5%"), Ok((Some(Allowed::Share(0.05)), false)));
        for bad in ["0", "-1", "nan", "inf", "1e9", "small", "0%"] {
            assert!(options(bad).is_err(), "{bad}");
        }
    }
}
