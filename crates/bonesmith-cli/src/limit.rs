//! A limit of memory: positions that do not fit are read in blocks or refused before the work, and the limit is kept during it.
//!
//! Without `--memory` the limit for positions is a share of what is free, and nothing is ended. With it the resident size is looked at
//! all the time, and the program ends when it exceeds the limit; nothing is written then.

use std::time::Duration;

use bonesmith::Memory;
use bonesmith::io::{Beyond, limit_positions};
use bonesmith::text::bytes;

use crate::output::emit;

/// Between two looks at the memory.
const INTERVAL: Duration = Duration::from_millis(25);

/// From now on positions that need more than the limit are refused.
pub fn refuse(limit: u64) {
    limit_positions(limit, Beyond::Refuse);
}

/// From now on positions that take more than two fifths of the limit are put into a scratch file: a fit in memory needs up to 2.5 times
/// what they take.
pub fn read_in_blocks(limit: u64) {
    limit_positions(limit / 5 * 2, Beyond::Store { buffer: limit / 8 });
}

/// Ends the program with this code when it uses more, from now on.
pub fn keep(limit: u64, code: u8) {
    std::thread::spawn(move || {
        while let Some(used) = Memory::now() {
            if used > limit {
                emit(&format!(
                    "error: {} of memory are used, and the limit is {}; nothing was written",
                    bytes(used),
                    bytes(limit)
                ));
                bonesmith::io::remove_temporaries();
                std::process::exit(code.into());
            }
            std::thread::sleep(INTERVAL);
        }
    });
}
