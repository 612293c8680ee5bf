//! USDZ: a zip archive of stored (never compressed) files, of which the first is the root layer.

use std::collections::HashMap;
use std::path::Path;

use crate::IoError;

use super::blob::Blob;

/// Most files of an archive; real ones have a few layers and pictures.
const MAX_FILES: usize = 4096;

/// The directory of an archive.
pub struct Package {
    blob: Blob,
    /// Where each file's bytes lie: start, length.
    files: HashMap<String, (u64, u64)>,
    first: String,
}

impl Package {
    /// Reads the directory.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let blob = Blob::open(path)?;
        let file = crate::opens::open(path).map_err(|e| IoError::os(path, e))?;
        let bad = |e: zip::result::ZipError| IoError::malformed(path, format!("is no sound USDZ archive: {e}"));
        let mut archive = zip::ZipArchive::new(std::io::BufReader::new(file)).map_err(bad)?;
        if archive.is_empty() || archive.len() > MAX_FILES {
            return Err(blob.malformed(format!("a USDZ archive of {} files", archive.len())));
        }
        let mut files = HashMap::new();
        let mut starts = Vec::new();
        for index in 0..archive.len() {
            let entry = archive.by_index_raw(index).map_err(bad)?;
            let name = entry.name().map_err(bad)?.into_owned();
            if entry.compression() != zip::CompressionMethod::Stored {
                return Err(blob.malformed(format!(
                    "{name:?} is compressed, which USDZ does not allow; zip it anew with `usdzip`"
                )));
            }
            let start = entry.data_start().ok_or_else(|| blob.malformed(format!("{name:?} lies nowhere")))?;
            starts.push((start, name.clone()));
            files.insert(name, (start, entry.size()));
        }
        // The directory may list them in another order than they lie in.
        starts.sort();
        let first = starts.into_iter().map(|(_, name)| name).find(|name| is_layer(name));
        let first = first.ok_or_else(|| blob.malformed("there is no USD layer in the archive"))?;
        Ok(Self { blob, files, first })
    }

    /// Name of the root layer.
    pub fn root(&self) -> &str {
        &self.first
    }

    /// One of its files.
    pub fn file(&self, name: &str) -> Result<Option<Blob>, IoError> {
        self.files.get(name).map(|&(start, len)| self.blob.part(name, start, len)).transpose()
    }
}

/// Whether a name is one of a layer.
pub fn is_layer(name: &str) -> bool {
    let ending = Path::new(name).extension().and_then(|e| e.to_str()).unwrap_or_default();
    ["usd", "usda", "usdc"].iter().any(|known| ending.eq_ignore_ascii_case(known))
}
