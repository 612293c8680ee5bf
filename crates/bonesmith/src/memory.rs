//! Memory: the peak of this process as the operating system counts it, what is free, and sizes as people write them.
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

/// Share of the free memory that is used where nobody has set a limit.
pub const DEFAULT_SHARE: f64 = 0.7;

/// A number of bytes as people write it: 500M, 4G, 1.5GiB, 2000000B. Prefixes are decimal, with `i` binary. A number without a unit is none: 4 may be meant
/// as 4G.
pub fn parse_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_lowercase();
    if unit.is_empty() {
        return None;
    }
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (prefix, base) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, 1024.0f64),
        None => (unit, 1000.0),
    };
    let power = match (prefix, base > 1000.0) {
        ("", false) => 0,
        ("k", _) => 1,
        ("m", _) => 2,
        ("g", _) => 3,
        ("t", _) => 4,
        _ => return None,
    };
    let value = number.parse::<f64>().ok()? * base.powi(power);
    (1.0..1e18).contains(&value).then_some(value as u64)
}

/// What a process may use where no limit is set: a share of what is free. `None` where the system does not report that.
pub fn default_limit() -> Option<u64> {
    free_memory().map(|free| (free as f64 * DEFAULT_SHARE) as u64)
}

/// Bytes that this process may still use: what the machine has free, or less where a container (cgroup) has a limit. `None` where the
/// system does not report it.
pub fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes.saturating_mul(1024).min(cgroup_free().unwrap_or(u64::MAX)))
}

/// What the limits of this process's cgroup and of those around it leave.
fn cgroup_free() -> Option<u64> {
    let own = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let mut free = None;
    for line in own.lines() {
        let mut parts = line.splitn(3, ':');
        let (_, kinds, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (root, limit, usage) = match kinds {
            "" => ("/sys/fs/cgroup", "memory.max", "memory.current"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path is the one outside: then the root of what is mounted counts.
        let own = std::path::Path::new(root).join(path.trim_start_matches('/'));
        for folder in own.ancestors().take_while(|folder| folder.starts_with(root)) {
            let left = cgroup_left(folder, limit, usage);
            free = match (free, left) {
                (Some(a), Some(b)) => Some(u64::min(a, b)),
                (a, b) => a.or(b),
            };
        }
    }
    free
}

fn cgroup_left(folder: &std::path::Path, limit: &str, usage: &str) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    let number = |name: &str| read(name)?.trim().parse::<u64>().ok();
    let (limit, usage) = (number(limit)?, number(usage)?);
    // Pages of files that nobody uses are dropped when memory is needed.
    let inactive = read("memory.stat")
        .and_then(|stat| stat.lines().find_map(|line| line.strip_prefix("inactive_file "))?.trim().parse::<u64>().ok());
    Some(limit.saturating_sub(usage.saturating_sub(inactive.unwrap_or(0))))
}

impl Memory {
    /// Resident bytes of this process now.
    pub fn now() -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }

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
    fn sizes_are_written_as_people_do() {
        let parsed =
            ["4G", "500M", "1.5GiB", "2kB", " 7 b ", "3 tb", "7", "0", "-1", "4X", "G", "", "1.2.3", "i", "9e9"]
                .map(parse_bytes);
        let expected = [4e9, 5e8, 1.5 * 1024f64.powi(3), 2e3, 7.0, 3e12];
        let expected = expected.map(|bytes| Some(bytes as u64)).into_iter().chain([None; 9]).collect::<Vec<_>>();
        assert_eq!(parsed.to_vec(), expected);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn some_memory_is_free() {
        let (free, now) = (free_memory().unwrap(), Memory::now().unwrap());
        assert!(free > 1_000_000 && now > 1_000_000, "{free} {now}");
    }

    #[test]
    fn a_cgroup_leaves_what_it_does_not_use() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let left = || cgroup_left(folder.path(), "memory.max", "memory.current");
        assert_eq!(left(), None);
        write("memory.max", "max\n");
        write("memory.current", "600\n");
        assert_eq!(left(), None);
        write("memory.max", "1000\n");
        assert_eq!(left(), Some(400));
        write("memory.stat", "anon 300\ninactive_file 250\n");
        assert_eq!(left(), Some(650));
    }

    #[test]
    fn reads_the_high_water_mark() {
        let status = "VmPeak:\t 9 kB\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\nRssFile:\t 512 kB\n";
        assert_eq!(Memory::parse(status), Some(Memory { peak: 2048 * 1024, program: 512 * 1024 }));
        assert_eq!(Memory::parse("nothing"), None);
    }
}
