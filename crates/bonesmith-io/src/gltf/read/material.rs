//! Materials, textures and images.

use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture, Textures, Wrap};
use gltf_json::material::{AlphaMode as JsonAlphaMode, Material as JsonMaterial};
use gltf_json::texture::{Sampler, Texture as JsonTexture, WrappingMode};
use gltf_json::validation::Checked;
use gltf_json::{Image as JsonImage, Index};

use super::document::Document;
use super::texture_transform::uv_set;
use crate::gltf::extras::{self, MaterialExtras};
use crate::texture::{MAX_BYTES, NO_PICTURE, mime_of};
use crate::warning;

/// All materials of a file.
pub struct Materials {
    /// [file materials] place in `list`; `None` for our own placeholder.
    pub places: Vec<Option<u32>>,
    /// Materials.
    pub list: Vec<Material>,
    /// Images that they use.
    pub images: Vec<Image>,
}

impl Materials {
    /// Reads what can be read. A picture that is missing or of an unknown kind is no reason to refuse a rig: the
    /// material goes without it.
    pub fn read(document: &Document) -> Self {
        let mut out = Self { places: Vec::new(), list: Vec::new(), images: Vec::new() };
        let images = &document.root.images;
        let places: Vec<Result<u32, String>> = images.iter().map(|image| out.read_image(document, image)).collect();
        for material in &document.root.materials {
            let placeholder = extras::unpack::<MaterialExtras>(&material.extras).is_some_and(|m| m.placeholder);
            out.places.push((!placeholder).then_some(out.list.len() as u32));
            if !placeholder {
                let find = |texture: Index<JsonTexture>, uv_set: u32| {
                    let json = document.root.textures.get(texture.value());
                    let source = json.map(|texture| texture.source.value());
                    let sampler = json.and_then(|texture| texture.sampler);
                    let wrap = sampler.and_then(|sampler| document.root.samplers.get(sampler.value())).map(wrap_of);
                    let place = source.and_then(|source| places.get(source).cloned());
                    let place = place.unwrap_or_else(|| Err("it names no picture that is read".into()));
                    let name = source.and_then(|source| images.get(source)).map_or("", image_name);
                    let lost =
                        |why| warning::texture(document.path(), material.name.as_deref().unwrap_or(""), name, why);
                    place.map_err(lost).ok().map(|image| Texture { image, uv_set, wrap: wrap.unwrap_or_default() })
                };
                out.list.push(from_json(material, &find));
            }
        }
        out
    }

    /// Its place in the list, or why it has none.
    fn read_image(&mut self, document: &Document, image: &JsonImage) -> Result<u32, String> {
        let bytes = match (image.buffer_view, &image.uri) {
            (Some(view), _) => document.view_bytes(view).map(<[u8]>::to_vec),
            (None, Some(uri)) => document.resolve(uri, MAX_BYTES as usize),
            (None, None) => return Err("it has no bytes".into()),
        };
        let bytes = bytes.map_err(|e| e.to_string())?;
        let mime = mime_of(&bytes).ok_or(NO_PICTURE)?.into();
        self.images.push(Image { name: image.name.clone().unwrap_or_default(), mime, bytes });
        Ok(self.images.len() as u32 - 1)
    }
}

/// Along u and v; unknown modes repeat, which is the default.
fn wrap_of(sampler: &Sampler) -> [Wrap; 2] {
    [sampler.wrap_s, sampler.wrap_t].map(|mode| match mode {
        Checked::Valid(WrappingMode::ClampToEdge) => Wrap::Clamp,
        Checked::Valid(WrappingMode::MirroredRepeat) => Wrap::Mirror,
        _ => Wrap::Repeat,
    })
}

/// What a user knows it by.
fn image_name(image: &JsonImage) -> &str {
    let beside = image.uri.as_deref().filter(|uri| !uri.starts_with("data:"));
    beside.or(image.name.as_deref()).unwrap_or("")
}

fn from_json(material: &JsonMaterial, find: &dyn Fn(Index<JsonTexture>, u32) -> Option<Texture>) -> Material {
    let pbr = &material.pbr_metallic_roughness;
    // 1e39 is sound JSON, and infinity here.
    let sound = |x: f32, otherwise: f32| if x.is_finite() { x } else { otherwise };
    let alpha = match material.alpha_mode {
        Checked::Valid(JsonAlphaMode::Mask) => AlphaMode::Mask(material.alpha_cutoff.map_or(0.5, |c| sound(c.0, 0.5))),
        Checked::Valid(JsonAlphaMode::Blend) => AlphaMode::Blend,
        _ => AlphaMode::Opaque,
    };
    Material {
        name: material.name.clone().unwrap_or_default(),
        base_color: pbr.base_color_factor.0.map(|x| sound(x, 1.0)),
        metallic: sound(pbr.metallic_factor.0, 1.0),
        roughness: sound(pbr.roughness_factor.0, 1.0),
        emissive: material.emissive_factor.0.map(|x| sound(x, 0.0)),
        double_sided: material.double_sided,
        alpha,
        textures: Textures {
            base_color: pbr
                .base_color_texture
                .as_ref()
                .and_then(|t| find(t.index, uv_set(t.extensions.as_ref().map(|e| &e.others), t.tex_coord))),
            metallic_roughness: pbr
                .metallic_roughness_texture
                .as_ref()
                .and_then(|t| find(t.index, uv_set(t.extensions.as_ref().map(|e| &e.others), t.tex_coord))),
            normal: material
                .normal_texture
                .as_ref()
                .and_then(|t| find(t.index, uv_set(t.extensions.as_ref().map(|e| &e.others), t.tex_coord))),
            occlusion: material
                .occlusion_texture
                .as_ref()
                .and_then(|t| find(t.index, uv_set(t.extensions.as_ref().map(|e| &e.others), t.tex_coord))),
            emissive: material
                .emissive_texture
                .as_ref()
                .and_then(|t| find(t.index, uv_set(t.extensions.as_ref().map(|e| &e.others), t.tex_coord))),
        },
    }
}
