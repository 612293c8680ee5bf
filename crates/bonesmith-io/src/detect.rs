//! What a file holds: by content first, then by extension.

use std::io::Read;
use std::path::Path;

use crate::IoError;
use crate::formats::FORMATS;

/// Bytes looked at; long comments at the head of an OBJ may fill them, then the extension decides.
const HEAD: usize = 4096;

/// File formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Wavefront OBJ.
    Obj,
    /// Stanford PLY.
    Ply,
    /// NumPy archive: a sequence or a rig.
    Npz,
    /// PC2 point cache.
    Pc2,
    /// MDD point cache.
    Mdd,
    /// Binary glTF.
    Glb,
    /// glTF as JSON.
    Gltf,
    /// Alembic cache (Ogawa).
    Alembic,
    /// Autodesk FBX, binary or ascii.
    Fbx,
    /// USD as text.
    Usda,
    /// USD, binary.
    Usdc,
    /// USD in an archive.
    Usdz,
}

/// The result of a first look.
enum Guess {
    Known(Format),
    /// A format we know of but do not read: its name, and what to do.
    Foreign(&'static str),
    Unknown,
}

/// Finds the format of an existing file.
pub fn detect(path: &Path) -> Result<Format, IoError> {
    let os = |source| IoError::os(path, source);
    let file = crate::opens::open(path).map_err(os)?;
    let metadata = file.metadata().map_err(os)?;
    if metadata.is_dir() {
        return Err(IoError::unsupported(path, "is a folder, a file is expected"));
    }
    let mut head = Vec::with_capacity(HEAD);
    file.take(HEAD as u64).read_to_end(&mut head).map_err(os)?;
    if head.is_empty() {
        return Err(IoError::malformed(path, "the file is empty"));
    }
    let by_extension = Format::from_extension(path);
    match look(&head, metadata.len(), by_extension) {
        Guess::Known(format) => Ok(format),
        Guess::Foreign(what) => Err(IoError::unsupported(path, format!("{what} not read yet; {}", readable()))),
        Guess::Unknown => by_extension.ok_or_else(|| {
            IoError::unsupported(path, format!("neither content nor extension is known; {}", readable()))
        }),
    }
}

fn readable() -> String {
    let names: Vec<&str> = FORMATS.iter().map(|row| row.name).collect();
    format!("readable are {}", names.join(", "))
}

fn look(head: &[u8], file_bytes: u64, by_extension: Option<Format>) -> Guess {
    use Guess::{Foreign, Known, Unknown};
    let starts = |magic: &[u8]| head.starts_with(magic);
    if starts(b"glTF") {
        Known(Format::Glb)
    } else if starts(b"POINTCACHE2\0") {
        Known(Format::Pc2)
    } else if starts(b"ply\n") || starts(b"ply\r") {
        Known(Format::Ply)
    } else if starts(b"PK\x03\x04") || starts(b"PK\x05\x06") {
        look_into_zip(head, by_extension)
    } else if starts(b"\x93NUMPY") {
        Foreign("a single .npy array: save a sequence as .npz with `verts`, `rest`, `faces`. Bare arrays are")
    } else if starts(b"Ogawa") {
        Known(Format::Alembic)
    } else if starts(b"\x89HDF\r\n\x1a\n") {
        Foreign(
            "an HDF5 file: if it is an old Alembic cache, export it again as Ogawa, or run \
             `abcconvert -toOgawa in.abc out.abc`. HDF5 is",
        )
    } else if starts(b"#usda") {
        Known(Format::Usda)
    } else if starts(b"PXR-USDC") {
        Known(Format::Usdc)
    } else if starts(b"Kaydara FBX Binary") || starts(b"; FBX") {
        Known(Format::Fbx)
    } else if is_mdd(head, file_bytes) {
        Known(Format::Mdd)
    } else {
        match first_word(head) {
            Some(word) if word.starts_with(b"{") => Known(Format::Gltf),
            Some(b"v" | b"vt" | b"vn" | b"f" | b"o" | b"g" | b"s" | b"mtllib" | b"usemtl") => Known(Format::Obj),
            _ => Unknown,
        }
    }
}

/// The name of the first entry distinguishes npz from USDZ and other archives.
fn look_into_zip(head: &[u8], by_extension: Option<Format>) -> Guess {
    let length = head.get(26..28).map_or(0, |l| usize::from(u16::from_le_bytes([l[0], l[1]])));
    let name = head.get(30..30 + length).unwrap_or_default();
    if name.ends_with(b".npy") || by_extension == Some(Format::Npz) {
        Guess::Known(Format::Npz)
    } else if [&b".usd"[..], b".usda", b".usdc"].iter().any(|end| name.ends_with(end)) {
        Guess::Known(Format::Usdz)
    } else {
        Guess::Unknown
    }
}

/// MDD has no magic: frame and point counts must give exactly the file's length.
fn is_mdd(head: &[u8], file_bytes: u64) -> bool {
    let Some(&[f0, f1, f2, f3, n0, n1, n2, n3]) = head.first_chunk::<8>() else { return false };
    let frames = u64::from(u32::from_be_bytes([f0, f1, f2, f3]));
    let points = u64::from(u32::from_be_bytes([n0, n1, n2, n3]));
    let expected = (frames.checked_mul(points)).and_then(|n| n.checked_mul(12)?.checked_add(8 + 4 * frames));
    frames > 0 && points > 0 && expected == Some(file_bytes)
}

/// First word that is not in a comment, if it ends within the head.
fn first_word(head: &[u8]) -> Option<&[u8]> {
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    for line in text.split(|&b| b == b'\n') {
        match line.trim_ascii_start() {
            [] | [b'#', ..] => {}
            line => return line.split(u8::is_ascii_whitespace).next(),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detected(name: &str, content: &[u8]) -> Result<Format, IoError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        detect(&path)
    }

    #[test]
    fn content_wins_over_the_extension() {
        let mdd = [&1u32.to_be_bytes()[..], &1u32.to_be_bytes(), &[0; 16]].concat();
        let cases: [(&str, &[u8], Format); 15] = [
            ("a.obj", b"Kaydara FBX Binary  \0", Format::Fbx),
            ("a.txt", b"; FBX 7.4.0 project file\n", Format::Fbx),
            ("a.obj", b"Ogawa\xff", Format::Alembic),
            ("a.ply", b"# made by hand\n\nv 0 0 0\n", Format::Obj),
            ("a.obj", b"ply\nformat ascii 1.0\n", Format::Ply),
            ("a.obj", b"glTF\x02\0\0\0", Format::Glb),
            ("a.bin", b"POINTCACHE2\0\x01\0\0\0", Format::Pc2),
            ("a.bin", &mdd, Format::Mdd),
            ("a.txt", b"\xef\xbb\xbf {\"asset\": {}}", Format::Gltf),
            ("a.bin", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaa\x05\0\0\0a.npyrest", Format::Npz),
            ("a.obj", b"# only a comment", Format::Obj),
            ("a.mdd", b"cut off", Format::Mdd),
            ("a.obj", b"#usda 1.0\n", Format::Usda),
            ("a.usda", b"PXR-USDC", Format::Usdc),
            ("a.zip", b"PK\x03\x04aaaaaaaaaaaaaaaaaaaaaa\x06\0\0\0a.usdcrest", Format::Usdz),
        ];
        for (name, content, format) in cases {
            assert_eq!(detected(name, content).unwrap(), format, "{name}");
        }
    }

    #[test]
    fn foreign_formats_are_named() {
        let cases: [(&str, &[u8], &str); 2] =
            [("a.abc", b"\x89HDF\r\n\x1a\n", "abcconvert -toOgawa"), ("a.npy", b"\x93NUMPY", "npz")];
        for (name, content, word) in cases {
            let message = detected(name, content).unwrap_err().to_string();
            assert!(message.contains(word) && message.contains("not read yet"), "{message}");
        }
        assert!(detected("a.xyz", b"1 2 3").unwrap_err().to_string().contains("neither content nor extension"));
        assert!(detected("a.obj", b"").unwrap_err().to_string().ends_with("the file is empty"));
    }
}
