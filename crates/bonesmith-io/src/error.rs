//! Why a file could not be read or written.

use std::path::{Path, PathBuf};

use bonesmith_core::SequenceError;

/// Every message names the file.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "fields are the file and what is wrong with it")]
#[non_exhaustive]
pub enum IoError {
    /// An error of the operating system.
    #[error("{}: {source}", path.display())]
    Os { path: PathBuf, source: std::io::Error },
    /// The file is not what it claims, or broken.
    #[error("{}: {what}", path.display())]
    Malformed { path: PathBuf, what: String },
    /// Weights that are negative or do not sum to 1: [`crate::load_rig_normalised`] accepts those of an npz.
    #[error("{}: {what}", path.display())]
    Weights { path: PathBuf, what: String },
    /// A sound file that is not read or written, with advice.
    #[error("{}: {what}", path.display())]
    Unsupported { path: PathBuf, what: String },
    /// An animation that cannot be used.
    #[error("{}: {source}", path.display())]
    Sequence { path: PathBuf, source: SequenceError },
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

    /// An error of the operating system about `path`.
    pub fn os(path: impl AsRef<Path>, source: std::io::Error) -> Self {
        Self::Os { path: path.as_ref().to_owned(), source }
    }
}
