//! `--compact`: small files.

use std::ffi::OsString;

use bonesmith::CompactOptions;

/// What was meant by a value that stands beside `--compact`, not behind a `=`.
pub fn hint(arguments: &[OsString]) -> Option<String> {
    let value = |pair: &&[OsString]| {
        let word = pair[1].to_string_lossy();
        pair[0] == "--compact" && !word.is_empty() && word.parse::<CompactOptions>().is_ok()
    };
    let pair = arguments.windows(2).find(value)?;
    Some(format!("a value of --compact is written with =: --compact={}", pair[1].to_string_lossy()))
}
