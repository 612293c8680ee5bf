//! What lies on a mesh: faces, texture coordinates, normals, colours, materials.

use std::path::Path;

use bonesmith_core::Surface;
use bonesmith_core::mesh::surface::{AlphaMode, CornerAttribute, Material, Texture, Wrap};
use glam::Vec3;

use crate::texture::mime_of;
use crate::usd::extras::{self, MaterialExtras, MeshExtras};

use super::doc::{Prim, Property, Value};
use super::names::Names;

/// Where shading normals go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Normals {
    /// Renderers use them; a skeleton turns them along.
    Shown,
    /// Of the rest pose alone: points that are animated would be shaded wrongly.
    Kept,
}

/// Name of the primvar of a set of texture coordinates.
pub fn uv_name(set: usize) -> String {
    if set == 0 { "st".into() } else { format!("st{set}") }
}

/// A mesh prim without points.
pub fn mesh_prim<'a>(prim_name: String, name: &str, surface: &'a Surface, rest: &[Vec3], normals: Normals) -> Prim<'a> {
    let mut prim = Prim::new("Mesh", prim_name);
    let sizes = surface.topology.faces().map(|face| face.len() as i32).collect();
    let corners = surface.topology.corners().iter().map(|c| *c as i32).collect();
    prim = prim
        .with(Property::of("int[]", "faceVertexCounts", Value::Ints(sizes)))
        .with(Property::of("int[]", "faceVertexIndices", Value::Ints(corners)))
        .with(Property::uniform("token", "subdivisionScheme", Value::Token("none".into())))
        .with(Property::of("float3[]", "extent", Value::Float3s(extent(rest))));
    if surface.materials.iter().any(|m| m.double_sided) {
        prim = prim.with(Property::uniform("bool", "doubleSided", Value::Bool(true)));
    }
    for (set, uv) in surface.uv_sets.iter().enumerate() {
        let name = format!("primvars:{}", uv_name(set));
        prim = corner_values(prim, "texCoord2f[]", name, Value::Float2s(&uv.values), &uv.indices);
    }
    if let Some(own) = &surface.normals {
        let name = if normals == Normals::Shown { "primvars:normals" } else { "primvars:bonesmith:restNormals" };
        prim = corner_values(prim, "normal3f[]", name.into(), Value::Float3s(own.values.clone()), &own.indices);
    }
    if let Some(CornerAttribute { values, indices, .. }) = &surface.colors {
        let rgb = values.iter().map(|&[r, g, b, _]| [r, g, b]).collect();
        let alpha: Vec<f32> = values.iter().map(|v| v[3]).collect();
        prim = corner_values(prim, "color3f[]", "primvars:displayColor".into(), Value::Float3s(rgb), indices);
        prim = corner_values(prim, "float[]", "primvars:displayOpacity".into(), Value::Floats(alpha), indices);
    }
    let own = MeshExtras {
        name: (prim.name != name).then(|| name.to_owned()),
        uv_names: surface.uv_sets.iter().map(|uv| uv.name.clone()).collect(),
        color_name: surface.colors.as_ref().map(|c| c.name.clone()),
        normals_name: surface.normals.as_ref().map(|n| n.name.clone()),
        unknown_up: surface.space.up.is_none(),
        unknown_unit: surface.space.metres_per_unit.is_none(),
        materials: Vec::new(),
        images: Vec::new(),
        part: None,
    };
    if !name.is_empty() && prim.name != name {
        prim = prim.meta("displayName", Value::Text(name.to_owned()));
    }
    set_extras(prim, &own)
}

/// Puts JSON into a prim's custom data; a second call replaces the first.
pub fn set_extras<'a>(mut prim: Prim<'a>, own: &impl serde::Serialize) -> Prim<'a> {
    prim.metadata.retain(|(key, _)| *key != "customData");
    match serde_json::to_string(own) {
        Ok(json) => prim.meta("customData", Value::Dictionary(vec![(extras::KEY, json)])),
        Err(_) => prim,
    }
}

fn corner_values<'a>(
    prim: Prim<'a>,
    type_name: &'static str,
    name: String,
    values: Value<'a>,
    indices: &[u32],
) -> Prim<'a> {
    if indices.is_empty() {
        return prim;
    }
    let indices = Value::Ints(indices.iter().map(|i| *i as i32).collect());
    let index_name = format!("{name}:indices");
    prim.with(Property::of(type_name, name, values).interpolated("faceVarying"))
        .with(Property::of("int[]", index_name, indices))
}

/// Corners of the box around points.
pub fn extent(points: &[Vec3]) -> Vec<[f32; 3]> {
    let low = points.iter().copied().fold(Vec3::INFINITY, Vec3::min);
    let high = points.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
    vec![low.to_array(), high.to_array()]
}

/// A picture to be written beside the layer or into the archive.
pub struct Picture<'a> {
    /// Path relative to the layer.
    pub name: String,
    /// Encoded bytes.
    pub bytes: &'a [u8],
}

/// Where pictures of `surface` go: names relative to the layer, `None` for what is no picture.
pub fn pictures<'a>(surface: &'a Surface, path: &Path) -> Vec<Option<Picture<'a>>> {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut names = Names::default();
    let picture = |image: &'a bonesmith_core::mesh::surface::Image| {
        let ending = match mime_of(&image.bytes)? {
            "image/png" => "png",
            _ => "jpg",
        };
        let name = names.unique(&image.name, "picture");
        Some(Picture { name: format!("{stem}_{name}.{ending}"), bytes: &image.bytes })
    };
    surface.images.iter().map(picture).collect()
}

/// The materials of a file, to which its meshes are bound.
#[derive(Default)]
pub struct Materials {
    /// [materials] their prims.
    paths: Vec<String>,
    /// (file, name) of pictures.
    images: Vec<(String, String)>,
}

/// Materials below `root` (a path), and the prim that holds them; none where the surface has none.
pub fn materials<'a>(root: &str, surface: &Surface, pictures: &[Option<Picture>]) -> (Materials, Option<Prim<'a>>) {
    if surface.materials.is_empty() {
        return Default::default();
    }
    let mut names = Names::default();
    let mut scope = Prim::new("Scope", "materials");
    let mut paths = Vec::new();
    for material in &surface.materials {
        let name = names.unique(&material.name, "material");
        let path = format!("{root}/materials/{name}");
        scope.children.push(material_prim(material, name, &path, surface, pictures));
        paths.push(path);
    }
    let stem = |file: &str| file.rsplit_once('.').map_or(file, |(stem, _)| stem).to_owned();
    let named = pictures.iter().zip(&surface.images);
    let images = named.filter_map(|(p, image)| p.as_ref().map(|p| (stem(&p.name), image.name.clone()))).collect();
    (Materials { paths, images }, Some(scope))
}

/// Binds the faces of `mesh` to materials.
pub fn bind<'a>(mut mesh: Prim<'a>, surface: &Surface, materials: &Materials, apis: &mut Vec<String>) -> Prim<'a> {
    let Materials { paths, images } = materials;
    if paths.is_empty() {
        return mesh;
    }
    apis.push("MaterialBindingAPI".into());
    let used: Vec<u32> = {
        let mut used = surface.face_materials.clone();
        used.sort_unstable();
        used.dedup();
        used
    };
    if let [only] = used.as_slice() {
        mesh = mesh.with(Property::rel("material:binding", paths[*only as usize].clone()));
    } else if !used.is_empty() {
        let family =
            Property::uniform("token", "subsetFamily:materialBind:familyType", Value::Token("partition".into()));
        mesh = mesh.with(family);
        let mut subset_names = Names::default();
        for material in used {
            let faces = surface.face_materials.iter().enumerate().filter(|(_, m)| **m == material);
            let faces = faces.map(|(f, _)| f as i32).collect();
            let name = subset_names.unique(&surface.materials[material as usize].name, "subset");
            let subset = Prim::new("GeomSubset", name)
                .meta("apiSchemas", Value::Prepend(vec!["MaterialBindingAPI".into()]))
                .with(Property::uniform("token", "elementType", Value::Token("face".into())))
                .with(Property::uniform("token", "familyName", Value::Token("materialBind".into())))
                .with(Property::of("int[]", "indices", Value::Ints(faces)))
                .with(Property::rel("material:binding", paths[material as usize].clone()));
            mesh.children.push(subset);
        }
    }
    let own = own_extras(&mesh).map(|own| MeshExtras { materials: paths.clone(), images: images.clone(), ..own });
    if let Some(own) = own {
        mesh = set_extras(mesh, &own);
    }
    mesh
}

/// The extras of a mesh.
pub fn own_extras(prim: &Prim) -> Option<MeshExtras> {
    prim.metadata.iter().find_map(|(_, value)| match value {
        Value::Dictionary(entries) => serde_json::from_str(&entries.first()?.1).ok(),
        _ => None,
    })
}

/// A preview surface, and a reader of texture coordinates for each picture.
fn material_prim<'a>(
    material: &Material,
    name: String,
    path: &str,
    surface: &Surface,
    pictures: &[Option<Picture>],
) -> Prim<'a> {
    let file = |t: Option<Texture>| {
        let texture = t.filter(|t| (t.uv_set as usize) < surface.uv_sets.len())?;
        let picture = pictures.get(texture.image as usize)?.as_ref()?;
        Some((picture.name.clone(), texture))
    };
    let color = |name: &str, [r, g, b]: [f32; 3]| Property::of("color3f", name, Value::Float3([r, g, b]));
    let number = |name: &str, x: f32| Property::of("float", name, Value::Float(x));
    let [r, g, b, alpha] = material.base_color;
    let textures = &material.textures;
    let mut shader = Prim::new("Shader", "surface")
        .with(Property::uniform("token", "info:id", Value::Token("UsdPreviewSurface".into())))
        .with(Property::new("token", "outputs:surface"));
    let mut nodes = Vec::new();
    // Input, its type, the picture's channel, the picture, the value without one.
    type Role<'a> = (&'a str, &'static str, &'a str, Option<Texture>, Option<Property<'a>>);
    let roles: [Role; 6] = [
        ("diffuseColor", "color3f", "rgb", textures.base_color, Some(color("inputs:diffuseColor", [r, g, b]))),
        ("emissiveColor", "color3f", "rgb", textures.emissive, Some(color("inputs:emissiveColor", material.emissive))),
        ("roughness", "float", "g", textures.metallic_roughness, Some(number("inputs:roughness", material.roughness))),
        ("metallic", "float", "b", textures.metallic_roughness, Some(number("inputs:metallic", material.metallic))),
        ("normal", "normal3f", "rgb", textures.normal, None),
        ("occlusion", "float", "r", textures.occlusion, None),
    ];
    for (role, type_name, channel, texture, plain) in roles {
        match file(texture) {
            Some((picture, texture)) => {
                let source = format!("{path}/{role}_texture.outputs:{channel}");
                shader = shader.with(Property::connected(type_name, format!("inputs:{role}"), source));
                nodes.extend(texture_prims(role, channel, picture, texture, path));
            }
            None => shader.properties.extend(plain),
        }
    }
    let opacity = if material.alpha == AlphaMode::Opaque { 1.0 } else { alpha };
    shader = shader.with(number("inputs:opacity", opacity));
    if let AlphaMode::Mask(cutoff) = material.alpha {
        shader = shader.with(number("inputs:opacityThreshold", cutoff));
    }
    let source = format!("{path}/surface.outputs:surface");
    let shown = material.name.clone();
    let mut prim = Prim::new("Material", name).with(Property::connected("token", "outputs:surface", source));
    if !shown.is_empty() && shown != prim.name {
        prim = prim.meta("displayName", Value::Text(shown));
    }
    prim = set_extras(prim, &MaterialExtras::new(material));
    prim.children.push(shader);
    prim.children.extend(nodes);
    prim
}

fn texture_prims<'a>(role: &str, channel: &str, picture: String, own: Texture, path: &str) -> [Prim<'a>; 2] {
    let [wrap_s, wrap_t] = own.wrap.map(|wrap| match wrap {
        Wrap::Repeat => "repeat",
        Wrap::Clamp => "clamp",
        Wrap::Mirror => "mirror",
    });
    let reader_name = format!("{role}_st");
    let linear = role != "diffuseColor" && role != "emissiveColor";
    let mut texture = Prim::new("Shader", format!("{role}_texture"))
        .with(Property::uniform("token", "info:id", Value::Token("UsdUVTexture".into())))
        .with(Property::of("asset", "inputs:file", Value::Asset(picture)))
        .with(Property::of(
            "token",
            "inputs:sourceColorSpace",
            Value::Token(if linear { "raw" } else { "sRGB" }.into()),
        ))
        .with(Property::of("token", "inputs:wrapS", Value::Token(wrap_s.into())))
        .with(Property::of("token", "inputs:wrapT", Value::Token(wrap_t.into())))
        .with(Property::connected("float2", "inputs:st", format!("{path}/{reader_name}.outputs:result")));
    if role == "normal" {
        // From the picture's 0 to 1 to -1 to 1.
        texture = texture
            .with(Property::of("float4", "inputs:scale", Value::Float4([2.0, 2.0, 2.0, 1.0])))
            .with(Property::of("float4", "inputs:bias", Value::Float4([-1.0, -1.0, -1.0, 0.0])));
    }
    let output = if channel == "rgb" { "float3" } else { "float" };
    texture = texture.with(Property::new(output, format!("outputs:{channel}")));
    let reader = Prim::new("Shader", reader_name)
        .with(Property::uniform("token", "info:id", Value::Token("UsdPrimvarReader_float2".into())))
        .with(Property::of("string", "inputs:varname", Value::Text(uv_name(own.uv_set as usize))))
        .with(Property::new("float2", "outputs:result"));
    [texture, reader]
}
