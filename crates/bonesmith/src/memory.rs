//! Peak memory of this process, as the operating system counts it.
//!
//! The resident high-water mark holds everything: heap, allocator slack, stacks, the program itself. A counting
//! allocator would show less than what a user's machine has to provide. Pages of the program and its libraries are
//! counted apart: they are shared, can be dropped at any time, and are the same whatever is fitted.

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// Largest resident size so far, in bytes.
    pub peak: u64,
    /// Pages of files among them: the program and its libraries, in bytes.
    pub program: u64,
}

impl Memory {
    /// Of this process so far; `None` where the system does not report it.
    pub fn so_far() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/self/status").ok()?)
    }

    /// Lines like "VmHWM:   12345 kB" of /proc/self/status.
    fn parse(status: &str) -> Option<Self> {
        let bytes = |name: &str| -> Option<u64> {
            let line = status.lines().find_map(|line| line.strip_prefix(name))?;
            let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
            kibibytes.checked_mul(1024)
        };
        Some(Self { peak: bytes("VmHWM:")?, program: bytes("RssFile:").unwrap_or(0) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_high_water_mark() {
        let status = "VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\nRssFile:\t 512 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { peak: 2048 * 1024, program: 512 * 1024 }));
        assert_eq!(Memory::parse("nothing"), None);
    }
}
