//! Materials as Phong, the one shading model that every FBX reader knows, with their images inside the file.

use std::collections::HashSet;
use std::path::Path;

use bonesmith_core::Surface;
use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture, Wrap};

use super::Scene;
use super::binary::{Properties, Record};
use super::mesh::uv_name;
use crate::{texture, warning};

/// Writes all materials and connects them, in order, with the nodes of the meshes that `models` gives for each.
pub fn write(scene: &mut Scene, surface: &Surface, models: impl Fn(usize) -> Vec<i64>) {
    if surface.face_materials.is_empty() {
        return;
    }
    let names = file_names(&surface.images);
    let mut videos = Vec::new();
    for (image, name) in surface.images.iter().zip(names) {
        videos.push((write_image(scene, image, &name), name));
    }
    for (m, material) in surface.materials.iter().enumerate() {
        let id = scene.id();
        scene.object("Material", record(id, material));
        models(m).into_iter().for_each(|model| scene.connect(id, model));
        let textures = &material.textures;
        for (texture, property) in [
            (textures.base_color, "DiffuseColor"),
            (textures.normal, "NormalMap"),
            (textures.emissive, "EmissiveColor"),
        ] {
            if let Some(texture) = texture {
                write_texture(scene, surface, texture, &videos, id, property);
            }
        }
    }
}

/// Warns of what Phong has no place for.
pub fn warn_of_losses(surface: &Surface, path: &Path) {
    texture::warn_of_unwritable(surface, path);
    for material in &surface.materials {
        let t = &material.textures;
        for (texture, what) in [(t.occlusion, "occlusion"), (t.metallic_roughness, "metal and roughness")] {
            let image = texture.and_then(|texture| surface.images.get(texture.image as usize));
            if let Some(image) = image {
                let why = format!("FBX materials have no picture for {what}");
                warning::texture(path, &material.name, &image.name, why);
            }
        }
        if let AlphaMode::Mask(cutoff) = material.alpha {
            warning::left_out(path, format!("the alpha cutoff {cutoff} of material {:?}", material.name));
        }
    }
}

/// Blender's reading of Phong, so that roughness and metal come back there: shininess is 100 (1 - roughness)^2.
fn record(id: i64, material: &Material) -> Record {
    let [r, g, b, a] = material.base_color.map(f64::from);
    let opaque = if material.alpha == AlphaMode::Opaque { 1.0 } else { a };
    let smooth = 1.0 - f64::from(material.roughness);
    let properties = Properties::new()
        .color("DiffuseColor", [r, g, b])
        .animated("DiffuseFactor", 1.0)
        .color("EmissiveColor", material.emissive.map(f64::from))
        .animated("EmissiveFactor", 1.0)
        .color("TransparentColor", [1.0; 3])
        .animated("TransparencyFactor", 1.0 - opaque)
        .number("Opacity", opaque)
        .color("SpecularColor", [0.8; 3])
        .animated("SpecularFactor", 0.25)
        .animated("Shininess", 100.0 * smooth * smooth)
        .animated("ShininessExponent", 100.0 * smooth * smooth)
        .color("ReflectionColor", [r, g, b])
        .animated("ReflectionFactor", f64::from(material.metallic));
    Record::new("Material").i64(id).object(&material.name, "Material").text("").children([
        Record::new("Version").i32(102),
        Record::new("ShadingModel").text("Phong"),
        Record::new("MultiLayer").i32(0),
        properties.done(),
    ])
}

/// A file name for each image, no two the same on any system: readers identify images by them.
fn file_names(images: &[Image]) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut name = |image: &Image| {
        let usual = if image.mime == "image/jpeg" { "jpg" } else { "png" };
        let (stem, ending) = image.name.rsplit_once('.').unwrap_or((&image.name, usual));
        let stem = if stem.is_empty() { "image" } else { stem };
        let numbered = (2..).map(|n| format!("{stem}_{n}.{ending}"));
        let mut names = std::iter::once(format!("{stem}.{ending}")).chain(numbered);
        names.find(|name| taken.insert(name.to_lowercase())).unwrap_or_default()
    };
    images.iter().map(&mut name).collect()
}

fn write_image(scene: &mut Scene, image: &Image, name: &str) -> i64 {
    let id = scene.id();
    let record = Record::new("Video").i64(id).object(name, "Video").text("Clip").children([
        Record::new("Type").text("Clip"),
        Properties::new().string("Path", name).done(),
        Record::new("UseMipMap").i32(0),
        Record::new("Filename").text(name),
        Record::new("RelativeFilename").text(name),
        Record::new("Content").raw(&image.bytes),
    ]);
    scene.object("Video", record);
    id
}

fn write_texture(
    scene: &mut Scene,
    surface: &Surface,
    texture: Texture,
    videos: &[(i64, String)],
    material: i64,
    property: &str,
) {
    let Some((video, name)) = videos.get(texture.image as usize) else { return };
    let id = scene.id();
    // FBX repeats or clamps; a mirrored image is repeated.
    let mut properties = Properties::new();
    for (name, wrap) in ["WrapModeU", "WrapModeV"].into_iter().zip(texture.wrap) {
        if wrap == Wrap::Clamp {
            properties = properties.int(name, 1);
        }
    }
    let record = Record::new("Texture").i64(id).object(name, "Texture").text("").children([
        Record::new("Type").text("TextureVideoClip"),
        Record::new("Version").i32(202),
        Record::new("TextureName").object(name, "Texture"),
        properties.string("UVSet", &uv_name(surface, texture.uv_set as usize)).int("UseMaterial", 1).done(),
        Record::new("Media").object(name, "Video"),
        Record::new("FileName").text(name),
        Record::new("RelativeFilename").text(name),
    ]);
    scene.object("Texture", record);
    scene.connect_property(id, material, property);
    scene.connect(*video, id);
}
