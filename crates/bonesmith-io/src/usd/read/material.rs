//! Materials: which faces have which, and the preview surface of each.

use std::collections::HashMap;

use bonesmith_core::mesh::surface::{AlphaMode, Image, Material, Texture, Textures, Wrap};

use crate::texture::{MAX_BYTES, NO_PICTURE, mime_of};
use crate::usd::stage::Stage;
use crate::{IoError, warning};

use super::binding::inherited;

/// Materials found so far, in the order of their use.
#[derive(Default)]
pub struct Materials {
    /// Materials.
    pub list: Vec<Material>,
    /// Pictures that they name.
    pub images: Vec<Image>,
    by_prim: HashMap<usize, u32>,
    by_file: HashMap<String, u32>,
}

impl Materials {
    /// The number of a material, read when it is met first. `uv_sets` are the primvars of the mesh that has it.
    pub fn number(&mut self, stage: &Stage, prim: usize, uv_sets: &[String]) -> u32 {
        if let Some(&number) = self.by_prim.get(&prim) {
            return number;
        }
        let material = self.read(stage, prim, uv_sets);
        self.list.push(material);
        let number = self.list.len() as u32 - 1;
        self.by_prim.insert(prim, number);
        number
    }

    /// [faces] materials of a mesh; `None` where a face has none.
    pub fn of_faces(
        &mut self,
        stage: &Stage,
        mesh: usize,
        faces: usize,
        uv_sets: &[String],
    ) -> Result<Vec<Option<u32>>, IoError> {
        let whole = inherited(stage, mesh, "material:binding").map(|prim| self.number(stage, prim, uv_sets));
        let mut of_faces = vec![whole; faces];
        for &child in &stage.prims[mesh].children {
            let is_subset = stage.prims[child].type_name == "GeomSubset";
            let Some(&bound) = stage.targets(child, "material:binding").first().filter(|_| is_subset) else { continue };
            let number = self.number(stage, bound, uv_sets);
            let indices = stage.attribute(child, "indices")?.map_or(Ok(Vec::new()), |a| a.ints())?;
            for face in indices {
                if let Some(place) = usize::try_from(face).ok().and_then(|f| of_faces.get_mut(f)) {
                    *place = Some(number);
                }
            }
        }
        Ok(of_faces)
    }

    /// What a preview surface says; other shaders leave a name only. A picture that is missing is no reason to refuse.
    fn read(&mut self, stage: &Stage, prim: usize, uv_sets: &[String]) -> Material {
        let mut material = Material { name: stage.display_name(prim), ..Material::default() };
        let shader = stage.connection(prim, "outputs:surface").map(|(shader, _)| shader);
        let preview = |shader: usize| {
            let id = stage.attribute(shader, "info:id").ok().flatten().and_then(|id| id.texts().ok());
            id.is_none_or(|id| id.first().is_none_or(|id| id == "UsdPreviewSurface"))
        };
        if !shader.map_or(stage.prims[prim].children.is_empty(), preview) {
            let what = format!("the shader of material {:?}, which is no preview surface", material.name);
            warning::left_out(stage.file(), what);
        }
        let Some(shader) = shader else { return material };
        let numbers = |name: &str| stage.attribute(shader, name).ok().flatten().and_then(|a| a.f64s().ok());
        let number = |name: &str| numbers(name).and_then(|v| v.first().map(|x| *x as f32));
        let color =
            |name: &str| numbers(name).filter(|v| v.len() == 3).map(|v| [v[0] as f32, v[1] as f32, v[2] as f32]);
        if let Some([r, g, b]) = color("inputs:diffuseColor") {
            material.base_color = [r, g, b, material.base_color[3]];
        }
        material.metallic = number("inputs:metallic").unwrap_or(material.metallic);
        material.roughness = number("inputs:roughness").unwrap_or(material.roughness);
        material.emissive = color("inputs:emissiveColor").unwrap_or(material.emissive);
        if let Some(opacity) = number("inputs:opacity") {
            material.base_color[3] = opacity;
        }
        let threshold = number("inputs:opacityThreshold").unwrap_or(0.0);
        material.alpha = match material.base_color[3] {
            _ if threshold > 0.0 => AlphaMode::Mask(threshold),
            opacity if opacity < 1.0 => AlphaMode::Blend,
            _ => AlphaMode::Opaque,
        };
        let mut texture = |input: &str| self.texture(stage, &material.name, shader, input, uv_sets);
        material.textures = Textures {
            base_color: texture("inputs:diffuseColor"),
            normal: texture("inputs:normal"),
            emissive: texture("inputs:emissiveColor"),
            occlusion: texture("inputs:occlusion"),
            metallic_roughness: texture("inputs:roughness"),
        };
        if let Some(own) = crate::usd::extras::unpack::<crate::usd::extras::MaterialExtras>(stage, prim) {
            own.apply(&mut material);
        }
        material
    }

    fn texture(
        &mut self,
        stage: &Stage,
        material: &str,
        shader: usize,
        input: &str,
        uv_sets: &[String],
    ) -> Option<Texture> {
        let (texture, _) = stage.connection(shader, input)?;
        let (name, bytes) = stage.asset(texture, "inputs:file", MAX_BYTES)?;
        let image = match self.by_file.get(&name) {
            Some(&image) => image,
            None => {
                let picture = bytes.and_then(|bytes| match mime_of(&bytes) {
                    Some(mime) => Ok((mime.to_owned(), bytes)),
                    None => Err(NO_PICTURE.to_owned()),
                });
                let (mime, bytes) = picture.map_err(|why| warning::texture(stage.file(), material, &name, why)).ok()?;
                let stem = std::path::Path::new(&name).file_stem().unwrap_or_default().to_string_lossy().into_owned();
                self.images.push(Image { name: stem, mime, bytes });
                self.by_file.insert(name, self.images.len() as u32 - 1);
                self.images.len() as u32 - 1
            }
        };
        let reader = stage.connection(texture, "inputs:st").map(|(reader, _)| reader);
        let varname = reader.and_then(|r| stage.attribute(r, "inputs:varname").ok().flatten()?.texts().ok());
        let set = varname.and_then(|names| uv_sets.iter().position(|set| Some(set) == names.first()));
        let wrap = ["inputs:wrapS", "inputs:wrapT"].map(|input| {
            let mode = stage.attribute(texture, input).ok().flatten().and_then(|mode| mode.texts().ok());
            match mode.as_ref().and_then(|mode| mode.first()).map(String::as_str) {
                // Black outside has no counterpart; a border is nearest to it.
                Some("clamp" | "black") => Wrap::Clamp,
                Some("mirror") => Wrap::Mirror,
                _ => Wrap::Repeat,
            }
        });
        Some(Texture { image, uv_set: set.unwrap_or(0) as u32, wrap })
    }
}
