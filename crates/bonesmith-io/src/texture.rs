//! Pictures of materials: found beside a file, detected from their first bytes.

use std::path::Path;

use bonesmith_core::Surface;
use bonesmith_core::mesh::surface::Texture;

use crate::warning;

/// Largest picture that is read, in bytes.
pub const MAX_BYTES: u64 = 256 << 20;
/// Why other files are not carried along.
pub const NO_PICTURE: &str = "neither PNG nor JPEG";
/// Why a picture cannot be shown.
pub const NO_UVS: &str = "the mesh has no texture coordinates for it";

/// The two encodings that every reader knows.
pub fn mime_of(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        _ => None,
    }
}

/// An ordinary file of sane size: a name like `/dev/zero` must not hang the reader.
pub fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|e| e.to_string())?;
    match metadata.is_file() && metadata.len() <= MAX_BYTES {
        true => crate::opens::read(path).map_err(|e| e.to_string()),
        false => Err("no plain file, or a very large one".into()),
    }
}

/// Warns of pictures that a writer of PNG and JPEG has to leave out, and which texture coordinates are none.
pub fn warn_of_unwritable(surface: &Surface, path: &Path) {
    let unsound = |uv: &[f32; 2]| uv.iter().any(|x| !x.is_finite());
    let count = surface.uv_sets.iter().flat_map(|set| &set.values).filter(|uv| unsound(uv)).count();
    if count > 0 {
        warning::left_out(path, format!("{count} texture coordinates that are no numbers"));
    }
    for material in &surface.materials {
        let t = &material.textures;
        let all = [t.base_color, t.metallic_roughness, t.normal, t.occlusion, t.emissive];
        for Texture { image, uv_set, .. } in all.into_iter().flatten() {
            let picture = surface.images.get(image as usize);
            let name = picture.map_or("", |picture| picture.name.as_str());
            match picture.and_then(|picture| mime_of(&picture.bytes)) {
                None => warning::texture(path, &material.name, name, NO_PICTURE),
                Some(_) if uv_set as usize >= surface.uv_sets.len() => {
                    warning::texture(path, &material.name, name, NO_UVS);
                }
                Some(_) => {}
            }
        }
    }
}
