//! Files appear whole or not at all.

use std::io::Write;
use std::path::Path;

use crate::IoError;

/// Writes `bytes` to a temporary beside `path`, then renames it: a crash or a full disk never leaves half a file
/// or eats the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    let os = |source| IoError::Os { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new().prefix(".bonesmith-").tempfile_in(folder).map_err(os)?;
    file.write_all(bytes).map_err(os)?;
    file.as_file().sync_all().map_err(os)?;
    file.persist(path).map_err(|e| os(e.error))?;
    Ok(())
}
