//! Why a file could not be read or written.

use std::path::PathBuf;

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
