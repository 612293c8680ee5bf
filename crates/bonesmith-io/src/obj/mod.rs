//! Wavefront OBJ: one mesh per file.
//!
//! Read here rather than by a crate because vertices must keep their order and number: the frames of a sequence,
//! point caches and rest poses correspond by index (docs/decisions/012). All objects and groups of a file are one
//! mesh. Smoothing groups are passed over; so are lines, points and curves, with a warning.

mod index;
mod mtl;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use bonesmith_core::mesh::surface::{CornerAttribute, Material};
use bonesmith_core::{Surface, Topology};
use glam::Vec3;

use crate::mesh::{Extent, Mesh, srgb_to_linear, vertex_colors};
use crate::{IoError, merge, warning};
use index::Corner;

/// Index of a corner that names no value.
const NONE: u32 = u32::MAX;
/// Statements with geometry that has no faces.
const NO_FACES: [(&[u8], &str); 5] =
    [(b"l", "lines"), (b"p", "points"), (b"curv", "curves"), (b"curv2", "curves"), (b"surf", "free-form surfaces")];

/// Reads the text of an OBJ file; `path` is for messages and to find its materials.
pub fn parse(path: &Path, text: &[u8], extent: Extent) -> Result<Mesh, IoError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text); // byte order mark
    let mut reader = Reader::new(extent);
    let mut lines = Lines { rest: text, number: 0 };
    while let Some((number, line)) = lines.next_line() {
        reader.line(&line).map_err(|what| IoError::malformed(path, format!("line {number}: {what}")))?;
    }
    let vertices = reader.positions.len();
    if vertices == 0 {
        return Err(IoError::malformed(path, "there are no vertices in it"));
    }
    if reader.topology.corners().iter().any(|&v| v as usize >= vertices) {
        return Err(missing_vertex(path, text, vertices));
    }
    Ok(reader.finish(path))
}

/// Names the first face that goes beyond the vertices. Only on the way out, so that faces need not remember lines.
fn missing_vertex(path: &Path, text: &[u8], vertices: usize) -> IoError {
    let mut lines = Lines { rest: text, number: 0 };
    while let Some((number, line)) = lines.next_line() {
        let mut words = words(&line);
        if words.next() != Some(b"f") {
            continue;
        }
        let mut positive = words.filter_map(index::first_number).filter(|&v| v > vertices as i64);
        if let Some(vertex) = positive.next() {
            let what = format!("line {number}: the face names vertex {vertex}, but there are {vertices} vertices");
            return IoError::malformed(path, what);
        }
    }
    IoError::malformed(path, format!("a face names a vertex beyond the {vertices} there are"))
}

/// Lines with their numbers, from 1; a backslash at the end joins the next line.
struct Lines<'a> {
    rest: &'a [u8],
    number: usize,
}

impl<'a> Lines<'a> {
    fn next_line(&mut self) -> Option<(usize, Cow<'a, [u8]>)> {
        let mut line = Cow::Borrowed(self.next_physical()?);
        let number = self.number;
        while line.last() == Some(&b'\\') {
            let joined = line.to_mut();
            joined.pop();
            joined.push(b' ');
            match self.next_physical() {
                Some(more) => joined.extend_from_slice(more),
                None => break,
            }
        }
        Some((number, line))
    }

    fn next_physical(&mut self) -> Option<&'a [u8]> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.iter().position(|&b| b == b'\n').unwrap_or(self.rest.len());
        let line = &self.rest[..end];
        self.rest = self.rest.get(end + 1..).unwrap_or_default();
        self.number += 1;
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// Words of a line up to a comment.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).take_while(|word| word[0] != b'#')
}

/// Exactly `D` numbers; what follows them is left alone.
fn numbers<'a, const D: usize>(words: &mut impl Iterator<Item = &'a [u8]>) -> Result<[f32; D], String> {
    let mut values = [0.0; D];
    for value in &mut values {
        let word = words.next().ok_or_else(|| format!("{D} numbers are expected"))?;
        *value = number(word)?;
    }
    Ok(values)
}

fn number(word: &[u8]) -> Result<f32, String> {
    fast_float2::parse(word).map_err(|_| format!("{:?} is not a number", String::from_utf8_lossy(word)))
}

/// What has been read so far.
struct Reader {
    extent: Extent,
    positions: Vec<Vec3>,
    uvs: Vec<[f32; 2]>,
    normals: Vec<[f32; 3]>,
    /// [vertices so far] linear RGBA; empty while none has a colour.
    colors: Vec<[f32; 4]>,
    topology: Topology,
    /// Statements that make no faces: lines, points, curves.
    others: BTreeSet<&'static str>,
    /// [corners] or `NONE`.
    corner_uvs: Vec<u32>,
    /// [corners] or `NONE`.
    corner_normals: Vec<u32>,
    /// [faces] material, `NONE` before the first `usemtl`.
    face_materials: Vec<u32>,
    material: u32,
    material_names: Vec<String>,
    material_of_name: HashMap<String, u32>,
    libraries: Vec<String>,
    /// Scratch: corners of one face.
    face: Vec<u32>,
}

impl Reader {
    fn new(extent: Extent) -> Self {
        Self {
            extent,
            positions: Vec::new(),
            uvs: Vec::new(),
            normals: Vec::new(),
            colors: Vec::new(),
            topology: Topology::empty(),
            others: BTreeSet::new(),
            corner_uvs: Vec::new(),
            corner_normals: Vec::new(),
            face_materials: Vec::new(),
            material: NONE,
            material_names: Vec::new(),
            material_of_name: HashMap::new(),
            libraries: Vec::new(),
            face: Vec::new(),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let mut words = words(line);
        let everything = self.extent == Extent::Everything;
        match words.next() {
            Some(b"v") => {
                self.positions.push(Vec3::from_array(numbers(&mut words)?));
                if everything {
                    self.color(words);
                }
            }
            Some(b"f") => self.face(words)?,
            Some(b"vt") if everything => {
                // The second coordinate of a texture is optional.
                let u = words.next().map(number).ok_or("2 numbers are expected")??;
                self.uvs.push([u, words.next().map_or(Ok(0.0), number)?]);
            }
            Some(b"vn") if everything => self.normals.push(numbers(&mut words)?),
            Some(b"usemtl") if everything => self.use_material(rest_of(line, b"usemtl")),
            Some(b"mtllib") if everything => self.libraries.push(rest_of(line, b"mtllib")),
            Some(word) if everything => self.others.extend(NO_FACES.iter().find(|(w, _)| *w == word).map(|(_, n)| *n)),
            _ => {}
        }
        Ok(())
    }

    /// What follows a position: red, green, blue, as several programs write it; a single number is a weight.
    fn color<'a>(&mut self, words: impl Iterator<Item = &'a [u8]>) {
        let more: Vec<f32> = words.map(number).collect::<Result<_, _>>().unwrap_or_default();
        let color = match more[..] {
            [r, g, b] | [_, r, g, b] => [r, g, b].map(srgb_to_linear),
            _ if self.colors.is_empty() => return,
            _ => [1.0; 3],
        };
        // Vertices before the first coloured one are white.
        self.colors.resize(self.positions.len() - 1, [1.0; 4]);
        self.colors.push([color[0], color[1], color[2], 1.0]);
    }

    fn face<'a>(&mut self, words: impl Iterator<Item = &'a [u8]>) -> Result<(), String> {
        self.face.clear();
        let counts = [self.positions.len(), self.uvs.len(), self.normals.len()];
        for word in words {
            let corner = Corner::parse(word, self.extent, counts)?;
            self.face.push(corner.vertex);
            if self.extent == Extent::Everything {
                self.corner_uvs.push(corner.uv.unwrap_or(NONE));
                self.corner_normals.push(corner.normal.unwrap_or(NONE));
            }
        }
        if self.face.len() < 3 {
            return Err(format!("a face of {} corners, at least 3 are needed", self.face.len()));
        }
        self.topology.push_face(&self.face);
        if self.extent == Extent::Everything {
            self.face_materials.push(self.material);
        }
        Ok(())
    }

    fn use_material(&mut self, name: String) {
        let next = self.material_names.len() as u32;
        self.material = *self.material_of_name.entry(name.clone()).or_insert(next);
        if self.material == next {
            self.material_names.push(name);
        }
    }

    fn finish(mut self, path: &Path) -> Mesh {
        let mut surface = Surface::bare(std::mem::take(&mut self.topology));
        if self.extent == Extent::Everything {
            surface.uv_sets.extend(self.uv_set());
            surface.normals = self.normal_set(path);
            warning::left_out_all(path, "what makes no faces:", self.others.iter().map(|&n| n.into()).collect());
            surface.colors = vertex_colors(std::mem::take(&mut self.colors), surface.topology.corners());
            self.materials(path, &mut surface);
        }
        Mesh { positions: self.positions, surface }
    }

    /// Corners without texture coordinates get (0, 0).
    fn uv_set(&mut self) -> Option<CornerAttribute<2>> {
        let (mut values, mut indices) = (std::mem::take(&mut self.uvs), std::mem::take(&mut self.corner_uvs));
        if indices.iter().all(|&v| v == NONE) {
            return None;
        }
        if indices.contains(&NONE) {
            values.push([0.0; 2]);
            let filler = values.len() as u32 - 1;
            indices.iter_mut().filter(|v| **v == NONE).for_each(|v| *v = filler);
        }
        Some(CornerAttribute { name: "vt".into(), values, indices })
    }

    /// Normals only count when every corner has one: there is no sensible filler.
    fn normal_set(&mut self, path: &Path) -> Option<CornerAttribute<3>> {
        let (values, indices) = (std::mem::take(&mut self.normals), std::mem::take(&mut self.corner_normals));
        let whole = !indices.is_empty() && !indices.contains(&NONE);
        if !whole && indices.iter().any(|&n| n != NONE) {
            warning::left_out(path, merge::SOME_NORMALS);
        }
        whole.then_some(CornerAttribute { name: "vn".into(), values, indices })
    }

    /// Materials in the order of their first use; faces before the first `usemtl` get one of their own.
    fn materials(&mut self, path: &Path, surface: &mut Surface) {
        if self.face_materials.iter().all(|&m| m == NONE) {
            return;
        }
        let library = mtl::load(path, &self.libraries, !surface.uv_sets.is_empty(), &mut surface.images);
        let material = |name: &String| match library.get(name) {
            Some(material) => material.clone(),
            None => Material { name: name.clone(), ..Material::default() },
        };
        surface.materials = self.material_names.iter().map(material).collect();
        surface.face_materials = std::mem::take(&mut self.face_materials);
        if surface.face_materials.contains(&NONE) {
            let plain = surface.materials.len() as u32;
            surface.materials.push(Material { name: "default".into(), ..Material::default() });
            surface.face_materials.iter_mut().filter(|m| **m == NONE).for_each(|m| *m = plain);
        }
    }
}

/// What follows the keyword: names may have spaces.
fn rest_of(line: &[u8], keyword: &[u8]) -> String {
    let line = line.trim_ascii();
    String::from_utf8_lossy(line.strip_prefix(keyword).unwrap_or(line).trim_ascii()).into_owned()
}

#[cfg(test)]
mod tests;
