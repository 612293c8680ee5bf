//! Peak memory of this process, as the operating system counts it.
//!
//! The resident high-water mark holds everything: heap, allocator slack, stacks, the program itself. A counting
//! allocator would show less than what a user's machine has to provide.

/// Largest resident size so far in bytes; `None` where the system does not tell.
pub fn peak_bytes() -> Option<u64> {
    parse(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// The line "VmHWM:   12345 kB" of /proc/self/status.
fn parse(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_high_water_mark() {
        assert_eq!(parse("VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2048 * 1024));
        assert_eq!(parse("nothing"), None);
    }
}
