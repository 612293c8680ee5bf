//! Files appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::IoError;

/// Writes `bytes` to a temporary beside `path`, then renames it: a crash or a full disk never leaves half a file
/// or eats the old one.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), IoError> {
    write_with(path, |file| file.write_all(bytes))
}

/// As [`write`], for content that is made piece by piece.
pub fn write_with(path: &Path, make: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> Result<(), IoError> {
    let os = |source| IoError::Os { path: path.to_owned(), source };
    let folder = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let temporary = new_temporary(folder).map_err(os)?;
    let (file, temporary) = temporary.into_parts();
    let mut file = BufWriter::new(file);
    make(&mut file).map_err(os)?;
    let file = file.into_inner().map_err(|e| os(e.into_error()))?;
    file.sync_all().map_err(os)?;
    temporary.persist(path).map_err(|e| os(e.error))?;
    Ok(())
}

/// A temporary with the permissions of an ordinary new file: by default only the owner could read the output.
fn new_temporary(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".bonesmith-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666)); // less the umask
    builder.tempfile_in(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_keeps_the_old_file_and_leaves_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        write(&path, b"old").unwrap();
        let failed = write_with(&path, |file| {
            file.write_all(b"half of the new")?;
            Err(io::Error::other("disk full"))
        });
        assert!(matches!(failed, Err(IoError::Os { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
