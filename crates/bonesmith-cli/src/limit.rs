//! A limit of memory: refused before the work where that is certain, and kept during it.
//!
//! What a file will need is known from its header where it has one: the positions of an animation are held in memory whole. Beyond that the resident
//! size is looked at all the time, and the program ends when it exceeds the limit; nothing is written then.

use std::path::PathBuf;
use std::time::Duration;

use bonesmith::Memory;
use bonesmith::text::bytes;

use crate::errors::Usage;
use crate::output::emit;

/// Between two looks at the memory.
const INTERVAL: Duration = Duration::from_millis(25);

/// Fails if the positions of `inputs` alone exceed the limit, as far as their headers say.
pub fn check(inputs: &[PathBuf], limit: u64) -> Result<(), Usage> {
    let needed = bonesmith::io::positions_bytes(inputs);
    if needed <= limit {
        return Ok(());
    }
    let message = format!("positions need {} of memory, and the limit is {}", bytes(needed), bytes(limit));
    Err(Usage::new(message).hint("--memory sets the limit; --frames and fewer vertices need less"))
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
