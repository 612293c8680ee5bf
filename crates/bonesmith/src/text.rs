//! Numbers and counts for people.

pub use bonesmith_io::bytes_text as bytes;
pub use bonesmith_report::figure;

/// "1 bone", "2 bones", "2 vertices".
pub fn count(n: usize, noun: &str) -> String {
    match (n, noun) {
        (1, _) => format!("1 {noun}"),
        (_, "vertex") => format!("{n} vertices"),
        _ => format!("{n} {noun}s"),
    }
}

/// The last part of a path.
pub fn file_name(path: &std::path::Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_bytes() {
        assert_eq!([count(1, "vertex"), count(2, "vertex"), count(0, "bone")], ["1 vertex", "2 vertices", "0 bones"]);
        let shown = [0, 999, 1000, 4_200_000, u64::MAX].map(bytes);
        assert_eq!(shown, ["0 B", "999 B", "1.00 kB", "4.20 MB", "18.45 EB"]);
    }
}
