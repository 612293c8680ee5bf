//! Materials, textures and images.

use bonesmith_core::Surface;
use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture, Wrap};
use gltf_json::material::{
    AlphaCutoff, AlphaMode as JsonAlphaMode, EmissiveFactor, NormalTexture, OcclusionTexture, PbrBaseColorFactor,
    PbrMetallicRoughness, StrengthFactor,
};
use gltf_json::texture::{Info, MagFilter, MinFilter, Sampler, WrappingMode};
use gltf_json::validation::Checked;
use gltf_json::{Index, image::MimeType, texture};

use super::buffer::Builder;
use crate::gltf::extras::{self, MaterialExtras};
use crate::texture::mime_of;

/// Writes all materials in order, so that material indices stay; one placeholder when there are none.
pub fn write_materials(builder: &mut Builder, surface: &Surface) {
    let used = |image: usize| {
        let all = surface.materials.iter().flat_map(|material| material.textures.all()).flatten();
        let mut wraps: Vec<[Wrap; 2]> = all.filter(|t| t.image as usize == image).map(|t| t.wrap).collect();
        wraps.sort_unstable();
        wraps.dedup();
        if wraps.is_empty() { vec![Default::default()] } else { wraps }
    };
    // [images] a texture for each way to show it.
    let textures: Vec<Vec<([Wrap; 2], Index<texture::Texture>)>> =
        surface.images.iter().enumerate().map(|(i, image)| write_image(builder, image, &used(i))).collect();
    // A texture that cannot be shown (unknown encoding, no texture coordinates) is left out.
    let place = |t: Texture| {
        let index = textures.get(t.image as usize)?.iter().find(|(wrap, _)| *wrap == t.wrap).map(|(_, index)| *index);
        index.filter(|_| (t.uv_set as usize) < surface.uv_sets.len()).map(|index| (index, t.uv_set))
    };
    for material in &surface.materials {
        let json = to_json(material, &place);
        builder.root.push(json);
    }
    if surface.materials.is_empty() && surface.topology.face_count() > 0 {
        let mut json = to_json(&Material::default(), &place);
        json.extras = extras::pack(MaterialExtras { placeholder: true });
        builder.root.push(json);
    }
}

/// An image, and a texture of it for each of `wraps`; none where its encoding is unknown.
fn write_image(builder: &mut Builder, image: &Image, wraps: &[[Wrap; 2]]) -> Vec<([Wrap; 2], Index<texture::Texture>)> {
    let Some(mime) = mime_of(&image.bytes) else { return Vec::new() };
    let view = builder.view(&image.bytes, None, None);
    let source = builder.root.push(gltf_json::Image {
        buffer_view: Some(view),
        mime_type: Some(MimeType(mime.into())),
        name: name(&image.name),
        uri: None,
        extensions: None,
        extras: None,
    });
    let texture = |&wrap: &[Wrap; 2]| {
        let sampler = Some(sampler(builder, wrap));
        (wrap, builder.root.push(texture::Texture { name: None, sampler, source, extensions: None, extras: None }))
    };
    wraps.iter().map(texture).collect()
}

/// The sampler that wraps so, written once.
fn sampler(builder: &mut Builder, wrap: [Wrap; 2]) -> Index<Sampler> {
    let [wrap_s, wrap_t] = wrap.map(|wrap| {
        Checked::Valid(match wrap {
            Wrap::Repeat => WrappingMode::Repeat,
            Wrap::Clamp => WrappingMode::ClampToEdge,
            Wrap::Mirror => WrappingMode::MirroredRepeat,
        })
    });
    let samplers = &builder.root.samplers;
    if let Some(known) = samplers.iter().position(|own| own.wrap_s == wrap_s && own.wrap_t == wrap_t) {
        return Index::new(known as u32);
    }
    builder.root.push(Sampler {
        mag_filter: Some(Checked::Valid(MagFilter::Linear)),
        min_filter: Some(Checked::Valid(MinFilter::LinearMipmapLinear)),
        wrap_s,
        wrap_t,
        ..Sampler::default()
    })
}

fn to_json(
    material: &Material,
    place: &dyn Fn(Texture) -> Option<(Index<texture::Texture>, u32)>,
) -> gltf_json::Material {
    let find = |t: Option<Texture>| t.and_then(place);
    let info = |t| find(t).map(|(index, tex_coord)| Info { index, tex_coord, extensions: None, extras: None });
    let textures = &material.textures;
    let (alpha_mode, alpha_cutoff) = match material.alpha {
        AlphaMode::Opaque => (JsonAlphaMode::Opaque, None),
        AlphaMode::Mask(cutoff) => (JsonAlphaMode::Mask, Some(AlphaCutoff(cutoff.max(0.0)))),
        AlphaMode::Blend => (JsonAlphaMode::Blend, None),
    };
    let unit = |x: f32| if x.is_finite() { x.clamp(0.0, 1.0) } else { 0.0 };
    gltf_json::Material {
        alpha_cutoff,
        alpha_mode: Checked::Valid(alpha_mode),
        double_sided: material.double_sided,
        name: name(&material.name),
        pbr_metallic_roughness: PbrMetallicRoughness {
            base_color_factor: PbrBaseColorFactor(material.base_color.map(unit)),
            base_color_texture: info(textures.base_color),
            metallic_factor: StrengthFactor(unit(material.metallic)),
            roughness_factor: StrengthFactor(unit(material.roughness)),
            metallic_roughness_texture: info(textures.metallic_roughness),
            extensions: None,
            extras: None,
        },
        normal_texture: find(textures.normal).map(|(index, tex_coord)| NormalTexture {
            index,
            scale: 1.0,
            tex_coord,
            extensions: None,
            extras: None,
        }),
        occlusion_texture: find(textures.occlusion).map(|(index, tex_coord)| OcclusionTexture {
            index,
            strength: StrengthFactor(1.0),
            tex_coord,
            extensions: None,
            extras: None,
        }),
        emissive_texture: info(textures.emissive),
        emissive_factor: EmissiveFactor(material.emissive.map(unit)),
        extensions: None,
        extras: None,
    }
}

/// glTF names are optional but not empty.
pub fn name(name: &str) -> Option<String> {
    (!name.is_empty()).then(|| name.to_owned())
}
