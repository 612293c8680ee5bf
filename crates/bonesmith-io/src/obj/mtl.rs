//! OBJ materials: colours, roughness and the base colour texture of `.mtl` files.
//!
//! A missing or odd library is no reason to refuse the mesh: what cannot be read stays at its default, with a warning.

use std::collections::HashMap;
use std::path::Path;

use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture};

use super::{number, numbers, rest_of, words};
use crate::texture::{self, NO_PICTURE, NO_UVS, mime_of};
use crate::warning;

/// Statements that name pictures and have no place in a material here.
const OTHER_PICTURES: [&[u8]; 16] = [
    b"map_Ka",
    b"map_Ks",
    b"map_Ke",
    b"map_Ns",
    b"map_d",
    b"map_Tr",
    b"map_bump",
    b"map_Bump",
    b"map_Pr",
    b"map_Pm",
    b"map_Ps",
    b"bump",
    b"norm",
    b"disp",
    b"decal",
    b"refl",
];

/// Reads the libraries that an OBJ names, beside it; images go into `images`.
pub fn load(obj: &Path, libraries: &[String], has_uvs: bool, images: &mut Vec<Image>) -> HashMap<String, Material> {
    let mut materials = HashMap::new();
    let folder = obj.parent().unwrap_or(Path::new(""));
    for library in libraries {
        let text = match texture::read_file(&folder.join(library.replace('\\', "/"))) {
            Ok(text) => text,
            Err(why) => {
                warning::left_out(obj, format!("materials of {library:?}: {why}"));
                continue;
            }
        };
        let mut current: Option<Material> = None;
        for line in text.split(|&b| b == b'\n') {
            if words(line).next() == Some(b"newmtl") {
                let name = rest_of(line, b"newmtl");
                store(&mut materials, current.replace(Material { name, ..Material::default() }));
            } else if let Some(material) = &mut current {
                statement(material, line, obj, has_uvs, images);
            }
        }
        store(&mut materials, current);
    }
    materials
}

fn store(materials: &mut HashMap<String, Material>, material: Option<Material>) {
    if let Some(material) = material {
        materials.entry(material.name.clone()).or_insert(material);
    }
}

fn statement(material: &mut Material, line: &[u8], obj: &Path, has_uvs: bool, images: &mut Vec<Image>) {
    let mut words = words(line);
    let keyword = words.next().unwrap_or_default();
    let mut scalar = || words.next().and_then(|word| number(word).ok()).filter(|v| v.is_finite());
    match keyword {
        b"Kd" => {
            if let Some([r, g, b]) = color(words) {
                material.base_color = [r, g, b, material.base_color[3]];
            }
        }
        b"Ke" => {
            if let Some(rgb) = color(words) {
                material.emissive = rgb;
            }
        }
        b"d" => scalar().into_iter().for_each(|alpha| set_alpha(material, alpha)),
        b"Tr" => scalar().into_iter().for_each(|clear| set_alpha(material, 1.0 - clear)),
        // Blender's reading of the Phong exponent, so that its own files come back.
        b"Ns" => scalar().into_iter().for_each(|ns| material.roughness = 1.0 - (ns.clamp(0.0, 1000.0) / 1000.0).sqrt()),
        b"Pr" => scalar().into_iter().for_each(|pr| material.roughness = pr.clamp(0.0, 1.0)),
        b"Pm" => scalar().into_iter().for_each(|pm| material.metallic = pm.clamp(0.0, 1.0)),
        b"map_Kd" => {
            let Some(name) = image_name(&rest_of(line, b"map_Kd")) else { return };
            let image = if has_uvs { read_image(obj, &name, images) } else { Err(NO_UVS.into()) };
            let lost = |why: String| warning::texture(obj, &material.name, &name, why);
            if let Ok(image) = image.map_err(lost) {
                material.textures.base_color = Some(Texture { image, uv_set: 0, wrap: Default::default() });
            }
        }
        _ if OTHER_PICTURES.contains(&keyword) => {
            let name = image_name(&rest_of(line, keyword)).unwrap_or_default();
            let why = format!("{} is not read", String::from_utf8_lossy(keyword));
            warning::texture(obj, &material.name, &name, why);
        }
        _ => {}
    }
}

fn color<'a>(mut words: impl Iterator<Item = &'a [u8]>) -> Option<[f32; 3]> {
    let rgb = numbers::<3>(&mut words).ok()?;
    rgb.iter().all(|v| v.is_finite()).then(|| rgb.map(|v| v.clamp(0.0, 1.0)))
}

fn set_alpha(material: &mut Material, alpha: f32) {
    material.base_color[3] = alpha.clamp(0.0, 1.0);
    material.alpha = if alpha < 1.0 { AlphaMode::Blend } else { AlphaMode::Opaque };
}

/// File name of a texture statement; after options (`-s 1 1 1`) it is the last word.
fn image_name(statement: &str) -> Option<String> {
    let name = if statement.starts_with('-') { statement.split_whitespace().last()? } else { statement };
    (!name.is_empty()).then(|| name.replace('\\', "/"))
}

/// Only what really is a PNG or JPEG is carried along: a library must not smuggle other files into the output.
fn read_image(obj: &Path, name: &str, images: &mut Vec<Image>) -> Result<u32, String> {
    if let Some(known) = images.iter().position(|image| image.name == name) {
        return Ok(known as u32);
    }
    let bytes = texture::read_file(&obj.with_file_name(name))?;
    let mime = mime_of(&bytes).ok_or(NO_PICTURE)?.into();
    images.push(Image { name: name.to_owned(), mime, bytes });
    Ok(images.len() as u32 - 1)
}
