//! Why a file could not be read or written.

use std::path::{Path, PathBuf};

/// Every message names the file.
#[derive(Debug, thiserror::Error)]
pub enum IoError {
    /// The operating system said no.
    #[error("{}: {source}", path.display())]
    Os {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: std::io::Error,
    },
    /// The file is not what it claims, or broken.
    #[error("{}: {what}", path.display())]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// What is wrong and where.
        what: String,
    },
    /// A sound file that we do not read or write, with advice.
    #[error("{}: {what}", path.display())]
    Unsupported {
        /// Which file.
        path: PathBuf,
        /// What is not supported, and what to do instead.
        what: String,
    },
}

impl IoError {
    /// A file that is not what it claims.
    pub(crate) fn malformed(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self::Malformed { path: path.as_ref().to_owned(), what: what.into() }
    }

    /// A sound file that we do not read or write.
    pub(crate) fn unsupported(path: impl AsRef<Path>, what: impl Into<String>) -> Self {
        Self::Unsupported { path: path.as_ref().to_owned(), what: what.into() }
    }

    /// What the operating system said about `path`.
    pub(crate) fn os(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Os { path: path.as_ref().to_owned(), source }
    }
}
