//! One primitive as it stands in the file: attributes per file vertex, faces over file vertices.

use glam::Vec3;
use gltf_json::mesh::{Mode, Primitive, Semantic};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index};

use super::document::Document;
use super::texture_transform;
use crate::IoError;
use crate::gltf::extras::{self, PrimitiveExtras, VERTEX_ATTRIBUTE, from_runs};

/// A primitive; n vertices.
#[derive(Default)]
pub struct RawPrimitive {
    /// [n].
    pub positions: Vec<Vec3>,
    /// [n].
    pub normals: Option<Vec<[f32; 3]>>,
    /// [n] direction and sign.
    pub tangents: Option<Vec<[f32; 4]>>,
    /// [sets][n] with the origin in the lower left corner.
    pub uvs: Vec<Vec<[f32; 2]>>,
    /// [n] linear RGBA.
    pub colors: Option<Vec<[f32; 4]>>,
    /// [sets of 4][n] joint of each influence, an index into the skin's joints.
    pub joints: Vec<Vec<[u32; 4]>>,
    /// [sets of 4][n].
    pub weights: Vec<Vec<[f32; 4]>>,
    /// [targets][n] displacements.
    pub targets: Vec<Vec<Vec3>>,
    /// [n] original vertex, in files of our own.
    pub originals: Option<Vec<u32>>,
    /// Corners of each face.
    pub face_sizes: Vec<u32>,
    /// Concatenated corners, as vertices of this primitive.
    pub corners: Vec<u32>,
    /// Index into the file's materials.
    pub material: Option<usize>,
    /// Vertices that are points on their own, not parts of a surface: never merged.
    pub points: bool,
}

impl RawPrimitive {
    /// Reads a primitive; `None` for lines, which have no surface to skin.
    pub fn read(document: &Document, primitive: &Primitive, place: &str) -> Result<Option<Self>, IoError> {
        let Checked::Valid(mode) = primitive.mode else {
            return Err(document.malformed(format!("{place} has an unknown mode")));
        };
        if matches!(mode, Mode::Lines | Mode::LineLoop | Mode::LineStrip) {
            return Ok(None);
        }
        let reader = Reader { document, primitive, place };
        let positions = reader.required_positions()?;
        let n = positions.len();
        let mut out = Self {
            positions,
            normals: reader.optional(Semantic::Normals, n)?,
            tangents: reader.optional(Semantic::Tangents, n)?,
            uvs: reader.uvs(n)?,
            colors: reader.colors(n)?,
            targets: reader.targets(n)?,
            originals: reader.originals(n)?,
            material: primitive.material.map(|m| m.value()),
            points: mode == Mode::Points,
            ..Self::default()
        };
        (out.joints, out.weights) = reader.influences(n)?;
        let indices = reader.indices(n)?;
        let triangles = triangles(mode, &indices);
        (out.face_sizes, out.corners) = polygons(primitive, &triangles)
            .unwrap_or_else(|| (vec![3; triangles.len()], triangles.as_flattened().to_vec()));
        Ok(Some(out))
    }
}

/// Attributes that have no place here.
pub fn unread_attributes(primitive: &Primitive) -> Vec<String> {
    let unread = |semantic: &Checked<Semantic>| match semantic {
        Checked::Valid(Semantic::Extras(name)) => (!name.starts_with("BONESMITH_")).then(|| format!("_{name}")),
        Checked::Valid(Semantic::Colors(set)) => (*set > 0).then(|| format!("COLOR_{set}")),
        Checked::Valid(_) => None,
        Checked::Invalid => Some("of unknown meaning".into()),
    };
    primitive.attributes.keys().filter_map(unread).collect()
}

struct Reader<'a> {
    document: &'a Document,
    primitive: &'a Primitive,
    place: &'a str,
}

impl Reader<'_> {
    fn find(&self, semantic: Semantic) -> Option<Index<Accessor>> {
        self.primitive.attributes.get(&Checked::Valid(semantic)).copied()
    }

    fn what(&self, semantic: &Semantic) -> String {
        format!("{}, {}", self.place, semantic.to_string())
    }

    fn same_count<T>(&self, values: Vec<T>, n: usize, what: &str) -> Result<Vec<T>, IoError> {
        if values.len() == n {
            return Ok(values);
        }
        Err(self.document.malformed(format!("{what} has {} elements for {n} vertices", values.len())))
    }

    fn required_positions(&self) -> Result<Vec<Vec3>, IoError> {
        let accessor = self.find(Semantic::Positions);
        let accessor = accessor.ok_or_else(|| self.document.malformed(format!("{} has no positions", self.place)))?;
        let positions = self.document.floats::<3>(accessor, &self.what(&Semantic::Positions))?;
        Ok(positions.into_iter().map(Vec3::from_array).collect())
    }

    fn optional<const D: usize>(&self, semantic: Semantic, n: usize) -> Result<Option<Vec<[f32; D]>>, IoError> {
        let what = self.what(&semantic);
        let Some(accessor) = self.find(semantic) else { return Ok(None) };
        Ok(Some(self.same_count(self.document.floats::<D>(accessor, &what)?, n, &what)?))
    }

    fn uvs(&self, n: usize) -> Result<Vec<Vec<[f32; 2]>>, IoError> {
        let mut uvs = Vec::new();
        while let Some(uv) = self.optional::<2>(Semantic::TexCoords(uvs.len() as u32), n)? {
            uvs.push(uv);
        }
        texture_transform::apply(self.document, self.primitive.material.map(|m| m.value()), &mut uvs);
        uvs.iter_mut().flatten().for_each(|uv| uv[1] = 1.0 - uv[1]);
        Ok(uvs)
    }

    fn colors(&self, n: usize) -> Result<Option<Vec<[f32; 4]>>, IoError> {
        let semantic = Semantic::Colors(0);
        let Some(accessor) = self.find(semantic.clone()) else { return Ok(None) };
        if self.document.components(accessor, &self.what(&semantic))? == 4 {
            return self.optional::<4>(semantic, n);
        }
        let opaque = self.optional::<3>(semantic, n)?;
        Ok(opaque.map(|colors| colors.into_iter().map(|[r, g, b]| [r, g, b, 1.0]).collect()))
    }

    #[allow(clippy::type_complexity)] // the two arrays of influences, side by side
    fn influences(&self, n: usize) -> Result<(Vec<Vec<[u32; 4]>>, Vec<Vec<[f32; 4]>>), IoError> {
        let (mut joints, mut weights) = (Vec::new(), Vec::new());
        while let Some(accessor) = self.find(Semantic::Joints(joints.len() as u32)) {
            let set = joints.len() as u32;
            let what = self.what(&Semantic::Joints(set));
            joints.push(self.same_count(self.document.integers::<4>(accessor, &what)?, n, &what)?);
            let set_weights = self.optional::<4>(Semantic::Weights(set), n)?;
            weights
                .push(set_weights.ok_or_else(|| self.document.malformed(format!("{what} has no weights beside it")))?);
        }
        Ok((joints, weights))
    }

    fn targets(&self, n: usize) -> Result<Vec<Vec<Vec3>>, IoError> {
        let targets = self.primitive.targets.iter().flatten().enumerate();
        targets
            .map(|(t, target)| {
                let what = format!("{}, morph target {t}", self.place);
                let Some(accessor) = target.positions else { return Ok(vec![Vec3::ZERO; n]) };
                let deltas = self.same_count(self.document.floats::<3>(accessor, &what)?, n, &what)?;
                Ok(deltas.into_iter().map(Vec3::from_array).collect())
            })
            .collect()
    }

    fn originals(&self, n: usize) -> Result<Option<Vec<u32>>, IoError> {
        let semantic = Semantic::Extras(VERTEX_ATTRIBUTE.into());
        let what = self.what(&semantic);
        let Some(accessor) = self.find(semantic) else { return Ok(None) };
        // Rewritten by a program that changed its type, it is of no use any more.
        let halves = self.document.integers::<2>(accessor, &what).ok();
        Ok(halves.filter(|h| h.len() == n).map(|h| h.into_iter().map(|[low, high]| high << 16 | low).collect()))
    }

    fn indices(&self, n: usize) -> Result<Vec<u32>, IoError> {
        let Some(accessor) = self.primitive.indices else { return Ok((0..n as u32).collect()) };
        let indices = self.document.integers::<1>(accessor, &format!("{}, indices", self.place))?.into_flattened();
        match indices.iter().position(|&v| v as usize >= n) {
            Some(at) => Err(self.document.malformed(format!(
                "{}: index {at} names vertex {}, but there are {n} vertices",
                self.place, indices[at]
            ))),
            None => Ok(indices),
        }
    }
}

/// Triangles of a list, strip or fan; the empty ones that strips are sewn together with are dropped.
fn triangles(mode: Mode, indices: &[u32]) -> Vec<[u32; 3]> {
    let flat = |[a, b, c]: &[u32; 3]| a == b || b == c || c == a;
    match mode {
        Mode::Triangles => indices.as_chunks::<3>().0.to_vec(),
        Mode::TriangleStrip => {
            let turned = |(at, w): (usize, &[u32])| if at % 2 == 0 { [w[0], w[1], w[2]] } else { [w[1], w[0], w[2]] };
            indices.windows(3).enumerate().map(turned).filter(|t| !flat(t)).collect()
        }
        Mode::TriangleFan if indices.len() >= 3 => {
            indices[1..].windows(2).map(|w| [indices[0], w[0], w[1]]).filter(|t| !flat(t)).collect()
        }
        _ => Vec::new(),
    }
}

/// Face sizes and corners of the polygons that the triangles are fans of, if extras say so and the triangles agree.
fn polygons(primitive: &Primitive, triangles: &[[u32; 3]]) -> Option<(Vec<u32>, Vec<u32>)> {
    let runs = extras::unpack::<PrimitiveExtras>(&primitive.extras)?.polygons;
    // Runs may claim anything: count before making lists of them.
    let wanted: u64 = runs.iter().map(|(size, count)| u64::from(size.saturating_sub(2)) * u64::from(*count)).sum();
    let faces: u64 = runs.iter().map(|(_, count)| u64::from(*count)).sum();
    if wanted != triangles.len() as u64 || faces > wanted || runs.iter().any(|(size, _)| *size < 3) {
        return None;
    }
    let sizes = from_runs(&runs, faces as usize)?;
    let mut corners = Vec::with_capacity(triangles.len() + 2 * sizes.len());
    let mut at = 0;
    for &size in &sizes {
        let fan = fan_of(&triangles[at..at + size as usize - 2])?;
        corners.extend_from_slice(&fan[0][..2]);
        corners.extend(fan.iter().map(|t| t[2]));
        at += fan.len();
    }
    Some((sizes, corners))
}

/// The triangles as a fan about their first corner. Compression keeps triangles and their winding, but not which corner is first.
fn fan_of(triangles: &[[u32; 3]]) -> Option<Vec<[u32; 3]>> {
    let turned = |[a, b, c]: [u32; 3]| [[a, b, c], [b, c, a], [c, a, b]];
    turned(triangles[0]).into_iter().find_map(|first| {
        let mut fan = vec![first];
        for &triangle in &triangles[1..] {
            let [apex, _, last] = fan[fan.len() - 1];
            fan.push(turned(triangle).into_iter().find(|t| t[0] == apex && t[1] == last)?);
        }
        Some(fan)
    })
}

#[cfg(test)]
mod tests {
    use super::fan_of;

    #[test]
    fn fans_are_found_whatever_corner_is_first() {
        let fan = [[7, 1, 2], [7, 2, 3], [7, 3, 4]];
        assert_eq!(fan_of(&fan).unwrap(), fan);
        assert_eq!(fan_of(&[[1, 2, 7], [3, 7, 2], [7, 3, 4]]).unwrap(), fan);
        assert_eq!(fan_of(&[[1, 2, 7], [3, 2, 7]]), None);
    }
}
