//! Stanford PLY, ascii and binary: one mesh per file.
//!
//! Vertices are `x y z`, with normals (`nx ny nz`) and texture coordinates (`s t`, `u v` or `texture_u texture_v`)
//! where all of them are there; faces are a list `vertex_indices` or `vertex_index`. Other properties and elements are passed
//! over, with a warning.

use std::path::Path;

use bonesmith_core::mesh::surface::CornerAttribute;
use bonesmith_core::{Surface, Topology};
use glam::Vec3;
use ply_rs_bw::parser::{ParseError, Parser, Reader};
use ply_rs_bw::ply::{ElementDef, Property, PropertyAccess, PropertyAccessResult};

use crate::mesh::{Extent, Mesh, srgb_to_linear, vertex_colors};
use crate::{IoError, warning};

/// Names of the texture coordinates in the wild.
const UV_NAMES: [[&str; 2]; 4] = [["s", "t"], ["u", "v"], ["texture_u", "texture_v"], ["texcoord_u", "texcoord_v"]];

/// Properties of vertices that are read, beside texture coordinates.
const KNOWN: [&str; 10] = ["x", "y", "z", "nx", "ny", "nz", "red", "green", "blue", "alpha"];
/// Names of a face's list of vertices.
const CORNERS: [&str; 2] = ["vertex_indices", "vertex_index"];

/// Reads the bytes of a PLY file; `path` is for messages.
pub fn parse(path: &Path, bytes: &[u8], extent: Extent) -> Result<Mesh, IoError> {
    let bad = |what: String| IoError::malformed(path, what);
    let broken = |e: ParseError| bad(e.to_string().lines().map(str::trim).collect::<Vec<_>>().join(" "));
    let mut reader = Reader::new(bytes);
    let header = Parser::<Skipped>::new().read_header(&mut reader).map_err(broken)?;
    let (mut vertices, mut faces, mut layout) = (Vec::<Vertex>::new(), Vec::<Face>::new(), Layout::default());
    for element in header.elements.values() {
        // Every record takes at least one byte: what cannot be there must not be counted through.
        if element.count > 0 && (element.properties.is_empty() || element.count > bytes.len()) {
            let what = format!("{} records of {:?} cannot be in {} bytes", element.count, element.name, bytes.len());
            return Err(bad(what));
        }
        match element.name.as_str() {
            "vertex" => {
                warn_of_others(path, element, extent, &KNOWN);
                layout = Layout::of(element).map_err(bad)?;
                let records = Parser::<Vertex>::new().read_payload_for_element(&mut reader, element, &header);
                vertices = records.map_err(broken)?;
            }
            "face" => {
                warn_of_others(path, element, extent, &CORNERS);
                let records = Parser::<Face>::new().read_payload_for_element(&mut reader, element, &header);
                faces = records.map_err(broken)?;
            }
            "tristrips" => return Err(IoError::unsupported(path, "triangle strips are not read; save plain faces")),
            _ => {
                warn_of_others(path, element, extent, &[]);
                let records = Parser::<Skipped>::new().read_payload_for_element(&mut reader, element, &header);
                records.map_err(broken)?;
            }
        }
    }
    let topology = topology(&faces, vertices.len()).map_err(bad)?;
    Ok(assemble(&vertices, topology, layout, extent))
}

/// Warns of properties that have no place here.
fn warn_of_others(path: &Path, element: &ElementDef, extent: Extent, known: &[&str]) {
    let is_uv = |name: &str| !known.is_empty() && UV_NAMES.as_flattened().contains(&name);
    let others = element.properties.keys().filter(|name| !known.contains(&name.as_str()) && !is_uv(name));
    if extent == Extent::Everything {
        warning::left_out_all(path, &format!("of each {}:", element.name), others.cloned().collect());
    }
}

/// Which vertex attributes the header promises in full.
#[derive(Clone, Copy, Default)]
struct Layout {
    normals: bool,
    uvs: bool,
    colors: bool,
}

impl Layout {
    fn of(vertex: &ElementDef) -> Result<Self, String> {
        let has = |name: &&str| vertex.properties.contains_key(*name);
        if let Some(missing) = ["x", "y", "z"].iter().find(|name| !has(name)) {
            return Err(format!("the vertices have no {missing:?}"));
        }
        Ok(Self {
            normals: ["nx", "ny", "nz"].iter().all(has),
            uvs: UV_NAMES.iter().any(|pair| pair.iter().all(has)),
            colors: ["red", "green", "blue"].iter().all(has),
        })
    }
}

fn topology(faces: &[Face], vertices: usize) -> Result<Topology, String> {
    let mut topology = Topology::empty();
    let mut corners = Vec::new();
    for (at, face) in faces.iter().enumerate() {
        corners.clear();
        for &vertex in &face.corners {
            match u32::try_from(vertex) {
                Ok(v) if (v as usize) < vertices => corners.push(v),
                _ => return Err(format!("face {at} names vertex {vertex}, but there are {vertices} vertices")),
            }
        }
        if corners.len() < 3 {
            return Err(format!("face {at} has {} corners, at least 3 are needed", corners.len()));
        }
        topology.push_face(&corners);
    }
    Ok(topology)
}

fn assemble(vertices: &[Vertex], topology: Topology, layout: Layout, extent: Extent) -> Mesh {
    let mut surface = Surface::bare(topology);
    let corners = surface.topology.corners();
    if extent == Extent::Everything && !corners.is_empty() {
        if layout.uvs {
            let (values, indices) = (vertices.iter().map(|v| v.uv).collect(), corners.to_vec());
            surface.uv_sets.push(CornerAttribute { name: "uv".into(), values, indices });
        }
        if layout.normals {
            let (values, indices) = (vertices.iter().map(|v| v.normal).collect(), corners.to_vec());
            surface.normals = Some(CornerAttribute { name: "normal".into(), values, indices });
        }
        if layout.colors {
            let linear = |[r, g, b, a]: [f32; 4]| [srgb_to_linear(r), srgb_to_linear(g), srgb_to_linear(b), a];
            surface.colors = vertex_colors(vertices.iter().map(|v| linear(v.color)).collect(), corners);
        }
    }
    Mesh { positions: vertices.iter().map(|v| Vec3::from_array(v.position)).collect(), surface }
}

/// What is kept of a vertex record.
struct Vertex {
    position: [f32; 3],
    normal: [f32; 3],
    uv: [f32; 2],
    /// 0 to 1, opaque by default.
    color: [f32; 4],
}

impl PropertyAccess for Vertex {
    fn new() -> Self {
        Self { position: [0.0; 3], normal: [0.0; 3], uv: [0.0; 2], color: [1.0; 4] }
    }

    fn set_property(&mut self, name: &str, property: Property) -> PropertyAccessResult {
        let slot = match name {
            "x" => &mut self.position[0],
            "y" => &mut self.position[1],
            "z" => &mut self.position[2],
            "nx" => &mut self.normal[0],
            "ny" => &mut self.normal[1],
            "nz" => &mut self.normal[2],
            "red" => &mut self.color[0],
            "green" => &mut self.color[1],
            "blue" => &mut self.color[2],
            "alpha" => &mut self.color[3],
            _ if UV_NAMES.iter().any(|pair| pair[0] == name) => &mut self.uv[0],
            _ if UV_NAMES.iter().any(|pair| pair[1] == name) => &mut self.uv[1],
            _ => return PropertyAccessResult::Ignored,
        };
        // Colours are bytes or words of a whole, or plain fractions.
        let whole = match (name, &property) {
            ("red" | "green" | "blue" | "alpha", Property::UChar(_)) => 255.0,
            ("red" | "green" | "blue" | "alpha", Property::UShort(_)) => 65535.0,
            _ => 1.0,
        };
        match property.to_f32_lossy() {
            Some(value) => *slot = value / whole,
            None => return PropertyAccessResult::UnsupportedType,
        }
        PropertyAccessResult::Set
    }
}

/// What is kept of a face record.
#[derive(Default)]
struct Face {
    corners: Vec<i64>,
}

impl PropertyAccess for Face {
    fn new() -> Self {
        Self::default()
    }

    fn set_property(&mut self, name: &str, property: Property) -> PropertyAccessResult {
        if !CORNERS.contains(&name) {
            return PropertyAccessResult::Ignored;
        }
        self.corners = match property {
            Property::ListChar(list) => list.into_iter().map(i64::from).collect(),
            Property::ListUChar(list) => list.into_iter().map(i64::from).collect(),
            Property::ListShort(list) => list.into_iter().map(i64::from).collect(),
            Property::ListUShort(list) => list.into_iter().map(i64::from).collect(),
            Property::ListInt(list) => list.into_iter().map(i64::from).collect(),
            Property::ListUInt(list) => list.into_iter().map(i64::from).collect(),
            _ => return PropertyAccessResult::UnsupportedType,
        };
        PropertyAccessResult::Set
    }
}

/// A record of no interest.
struct Skipped;

impl PropertyAccess for Skipped {
    fn new() -> Self {
        Self
    }
}
