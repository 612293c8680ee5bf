//! One mesh: faces, what lies on them, and its points over time.

use bonesmith_core::mesh::surface::CornerAttribute;
use glam::Vec3;

use crate::classes::shared;
use crate::usd::stage::{Attribute, Stage};
use crate::{IoError, warning};

use super::xform::Place;

/// What the names of primvars start with that are read by others, or define how the mesh is shown.
const READ_ELSEWHERE: [&str; 6] = ["skel:", "normals", "displayColor", "displayOpacity", "bonesmith:", "tangents"];

/// A mesh prim.
pub struct Mesh<'a> {
    /// Its prim.
    pub prim: usize,
    /// Positions over time.
    pub points: Attribute<'a>,
    /// Where it is.
    pub place: Place<'a>,
    /// [faces] corners of each.
    pub sizes: Vec<u32>,
    /// [corners] vertex of each.
    pub corners: Vec<u32>,
    /// Texture coordinates.
    pub uv_sets: Vec<CornerAttribute<2>>,
    /// Shading normals.
    pub normals: Option<CornerAttribute<3>>,
    /// Linear vertex colours.
    pub colors: Option<CornerAttribute<4>>,
    /// Faces are seen from the other side.
    left_handed: bool,
}

impl<'a> Mesh<'a> {
    /// Reads all but the positions.
    pub fn read(stage: &'a Stage, prim: usize) -> Result<Option<Self>, IoError> {
        let Some(points) = stage.attribute(prim, "points")? else { return Ok(None) };
        let path = &stage.prims[prim].path;
        let ints = |name: &str| -> Result<Vec<u32>, IoError> {
            let values = stage.attribute(prim, name)?.map_or(Ok(Vec::new()), |a| a.ints())?;
            let positive = |(at, v): (usize, i64)| {
                u32::try_from(v).map_err(|_| stage.malformed(format!("{path}.{name}: entry {at} is {v}")))
            };
            values.into_iter().enumerate().map(positive).collect()
        };
        let (sizes, corners) = (ints("faceVertexCounts")?, ints("faceVertexIndices")?);
        let total: u64 = sizes.iter().map(|s| u64::from(*s)).sum();
        if total != corners.len() as u64 {
            let found = corners.len();
            return Err(stage.malformed(format!("{path}: its faces have {total} corners, but {found} indices")));
        }
        let left_handed = stage.attribute(prim, "orientation")?.map_or(Ok(Vec::new()), |a| a.texts())?;
        let mut mesh = Self {
            prim,
            points,
            place: Place::new(stage, prim)?,
            sizes,
            corners,
            uv_sets: Vec::new(),
            normals: None,
            colors: None,
            left_handed: left_handed.first().is_some_and(|o| o == "leftHanded"),
        };
        mesh.read_primvars(stage)?;
        Ok(Some(mesh))
    }

    /// Positions at a time, [N].
    pub fn positions(&self, time: Option<f64>) -> Result<Vec<Vec3>, IoError> {
        let values = super::sample::numbers_f32(&self.points, time)?;
        Ok(values.as_chunks::<3>().0.iter().map(|p| Vec3::from_array(*p)).collect())
    }

    fn read_primvars(&mut self, stage: &Stage) -> Result<(), IoError> {
        let mut others = Vec::new();
        for name in stage.property_names(self.prim) {
            let Some(short) = name.strip_prefix("primvars:").filter(|short| !short.ends_with(":indices")) else {
                continue;
            };
            let kind = stage.attribute_text(self.prim, name, "typeName").unwrap_or_default();
            if kind.starts_with("texCoord2") || (kind.starts_with("float2") && !short.contains(':')) {
                let set = self.corner_attribute::<2>(stage, name, short)?;
                others.extend(set.is_none().then(|| short.to_owned()));
                self.uv_sets.extend(set);
            } else if !READ_ELSEWHERE.iter().any(|known| short.starts_with(known)) {
                others.push(short.to_owned());
            }
        }
        let what = format!("{}: the primvars", stage.prims[self.prim].path);
        warning::left_out_all(stage.file(), &what, others);
        // Properties have no order of their own in binary files: "st" is the main set by custom.
        self.uv_sets.sort_by(|a, b| (a.name != "st", &a.name).cmp(&(b.name != "st", &b.name)));
        for name in ["primvars:normals", "normals", "primvars:bonesmith:restNormals"] {
            if self.normals.is_none() {
                self.normals = self.corner_attribute::<3>(stage, name, "normals")?;
            }
        }
        let opaque = self.corner_attribute::<3>(stage, "primvars:displayColor", "displayColor")?;
        let opacity = self.corner_attribute::<1>(stage, "primvars:displayOpacity", "displayOpacity")?;
        // One colour for all is how programs show a mesh, not something painted on it.
        let how = stage.attribute_text(self.prim, "primvars:displayColor", "interpolation");
        let painted = opaque.filter(|_| how.is_some_and(|how| how != "constant"));
        self.colors = painted.map(|color| with_opacity(color, opacity));
        Ok(())
    }

    /// A primvar as values on corners; `None` where it is not there, or does not fit the faces.
    fn corner_attribute<const D: usize>(
        &self,
        stage: &Stage,
        name: &str,
        short: &str,
    ) -> Result<Option<CornerAttribute<D>>, IoError> {
        let Some(attribute) = stage.attribute(self.prim, name)? else { return Ok(None) };
        let flat = attribute.f32s()?;
        let values: Vec<[f32; D]> = flat.as_chunks::<D>().0.to_vec();
        let indices = match stage.attribute(self.prim, &format!("{name}:indices"))? {
            Some(indices) => Some(indices.ints()?),
            None => None,
        };
        let fallback = if short == "normals" { "vertex" } else { "constant" };
        let interpolation = stage.attribute_text(self.prim, name, "interpolation");
        let element = self.elements(interpolation.as_deref().unwrap_or(fallback));
        let place = |corner: usize| -> Option<u32> {
            let at = element(corner);
            let at = match &indices {
                Some(indices) => usize::try_from(*indices.get(at)?).ok()?,
                None => at,
            };
            (at < values.len()).then_some(at as u32)
        };
        let places: Option<Vec<u32>> = (0..self.corners.len()).map(place).collect();
        let Some(places) = places.filter(|p| !p.is_empty()) else { return Ok(None) };
        let name = short.to_owned();
        if indices.is_some() {
            return Ok(Some(CornerAttribute { name, values, indices: places }));
        }
        let on_corners: Vec<[f32; D]> = places.iter().map(|&at| values[at as usize]).collect();
        Ok(Some(shared(name, &on_corners)))
    }

    /// Which element of an array each corner has.
    fn elements(&self, interpolation: &str) -> Box<dyn Fn(usize) -> usize + '_> {
        match interpolation {
            "constant" => Box::new(|_| 0),
            "uniform" => {
                let sizes = self.sizes.iter().enumerate();
                let faces: Vec<u32> =
                    sizes.flat_map(|(f, size)| std::iter::repeat_n(f as u32, *size as usize)).collect();
                Box::new(move |corner| faces[corner] as usize)
            }
            "faceVarying" => Box::new(|corner| corner),
            _ => Box::new(|corner| self.corners[corner] as usize),
        }
    }

    /// Turns faces so that counter-clockwise is outside; also for a mesh that its place mirrors.
    pub fn face_outwards(&mut self, mirrored: bool) {
        if self.left_handed == mirrored {
            return;
        }
        let mut start = 0;
        for &size in &self.sizes {
            let rest = start + 1..start + size as usize;
            if size > 1 {
                self.corners[rest.clone()].reverse();
                self.uv_sets.iter_mut().for_each(|uv| uv.indices[rest.clone()].reverse());
                self.normals.iter_mut().for_each(|n| n.indices[rest.clone()].reverse());
                self.colors.iter_mut().for_each(|c| c.indices[rest.clone()].reverse());
            }
            start += size as usize;
        }
    }
}

fn with_opacity(color: CornerAttribute<3>, opacity: Option<CornerAttribute<1>>) -> CornerAttribute<4> {
    let rgba = |[r, g, b]: [f32; 3], a: f32| [r, g, b, a];
    match opacity {
        None => CornerAttribute {
            name: color.name,
            values: color.values.into_iter().map(|c| rgba(c, 1.0)).collect(),
            indices: color.indices,
        },
        Some(opacity) if opacity.indices == color.indices && opacity.values.len() == color.values.len() => {
            let values = color.values.into_iter().zip(opacity.values).map(|(c, [a])| rgba(c, a)).collect();
            CornerAttribute { name: color.name, values, indices: color.indices }
        }
        Some(opacity) => {
            let corner = |(c, o): (&u32, &u32)| rgba(color.values[*c as usize], opacity.values[*o as usize][0]);
            let per_corner: Vec<[f32; 4]> = color.indices.iter().zip(&opacity.indices).map(corner).collect();
            shared(color.name, &per_corner)
        }
    }
}
