//! `KHR_texture_transform`, applied to the texture coordinates: quantised ones are far from the image without it.

use gltf_json::material::Material;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::document::Document;
use crate::warning;

const NAME: &str = "KHR_texture_transform";

/// Offset x rotation x scale, in the file's coordinates (origin upper left).
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct UvTransform {
    offset: [f32; 2],
    rotation: f32,
    scale: [f32; 2],
    tex_coord: Option<u32>,
}

impl Default for UvTransform {
    fn default() -> Self {
        Self { offset: [0.0; 2], rotation: 0.0, scale: [1.0; 2], tex_coord: None }
    }
}

impl UvTransform {
    fn of(extensions: &Map<String, Value>) -> Option<Self> {
        extensions.get(NAME).and_then(|value| Self::deserialize(value).ok())
    }

    fn apply(&self, [u, v]: [f32; 2]) -> [f32; 2] {
        let (u, v) = (u * self.scale[0], v * self.scale[1]);
        let (sin, cos) = self.rotation.sin_cos();
        [cos * u + sin * v + self.offset[0], cos * v - sin * u + self.offset[1]]
    }
}

/// Which set a texture uses: the transform can name another one.
pub fn uv_set(extensions: Option<&Map<String, Value>>, set: u32) -> u32 {
    extensions.and_then(UvTransform::of).and_then(|transform| transform.tex_coord).unwrap_or(set)
}

/// [sets, vertices] coordinates as the textures of a material use them. Where two textures use one set in different ways, the first
/// one's is applied and the other is reported.
pub fn apply(document: &Document, material: Option<usize>, uvs: &mut [Vec<[f32; 2]>]) {
    let Some(material) = material.and_then(|m| document.root.materials.get(m)) else { return };
    let used = transforms(material);
    for (set, uvs) in uvs.iter_mut().enumerate() {
        let mut own = used.iter().filter(|(of, _)| *of as usize == set).map(|(_, transform)| *transform);
        let Some(first) = own.next() else { continue };
        if own.any(|other| other != first) {
            let name = material.name.as_deref().unwrap_or("");
            let what = format!("a second {NAME} of coordinates that two textures of material {name:?} share");
            warning::left_out(document.path(), what);
        }
        if let Some(transform) = first {
            uvs.iter_mut().for_each(|uv| *uv = transform.apply(*uv));
        }
    }
}

/// (set, transform) of every texture.
fn transforms(material: &Material) -> Vec<(u32, Option<UvTransform>)> {
    let pbr = &material.pbr_metallic_roughness;
    let plain = [&pbr.base_color_texture, &pbr.metallic_roughness_texture, &material.emissive_texture];
    let mut found: Vec<(u32, Option<&Map<String, Value>>)> = Vec::new();
    found.extend(plain.into_iter().flatten().map(|t| (t.tex_coord, t.extensions.as_ref().map(|e| &e.others))));
    found.extend(material.normal_texture.iter().map(|t| (t.tex_coord, t.extensions.as_ref().map(|e| &e.others))));
    found.extend(material.occlusion_texture.iter().map(|t| (t.tex_coord, t.extensions.as_ref().map(|e| &e.others))));
    let own = |(set, extensions): (u32, Option<&Map<String, Value>>)| {
        let transform = extensions.and_then(UvTransform::of);
        (uv_set(extensions, set), transform.map(|t| UvTransform { tex_coord: None, ..t }))
    };
    found.into_iter().map(own).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_then_rotation_then_offset() {
        let quarter = std::f32::consts::FRAC_PI_2;
        let transform = UvTransform { offset: [0.5, 0.25], rotation: quarter, scale: [2.0, 4.0], tex_coord: None };
        let [u, v] = transform.apply([0.5, 0.25]);
        assert!((u - 1.5).abs() < 1e-6 && (v + 0.75).abs() < 1e-6, "{u} {v}");
    }
}
