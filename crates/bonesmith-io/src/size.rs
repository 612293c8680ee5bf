//! How much memory the positions of an animation need, without reading them.

use std::path::{Path, PathBuf};

use crate::{Format, detect, inputs, npz};

/// Bytes of one position in memory.
const POSITION: u64 = 12;

/// Bytes that the positions of these inputs need at least, as far as headers say: npz, PC2 and MDD. Other formats, and files that cannot be read, count as
/// nothing; what is wrong with them is reported when they are read.
pub fn positions_bytes(inputs: &[PathBuf]) -> u64 {
    inputs::named_files(inputs).iter().map(|path| of_file(path).unwrap_or(0)).sum()
}

fn of_file(path: &Path) -> Option<u64> {
    match detect(path).ok()? {
        // Float32 with a short header.
        Format::Pc2 | Format::Mdd => std::fs::metadata(path).ok().map(|found| found.len().saturating_sub(64)),
        Format::Npz => {
            let [frames, vertices] = npz::animation_size(path)?;
            (frames as u64).checked_mul(vertices as u64)?.checked_mul(POSITION)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonesmith_core::MeshSequence;
    use bonesmith_core::synthetic::clownfish;

    #[test]
    fn headers_have_the_size_of_positions() {
        let folder = tempfile::tempdir().unwrap();
        let fish = MeshSequence::try_from(clownfish()).unwrap();
        let [npz, missing, other] = ["fish.npz", "none.npz", "fish.glb"].map(|name| folder.path().join(name));
        crate::save_sequence(&fish, &npz).unwrap();
        crate::save_model(&fish, &other).unwrap();
        let expected = 12 * (fish.frame_count() * fish.vertex_count()) as u64;
        assert_eq!(positions_bytes(&[npz, missing, other]), expected);
    }
}
