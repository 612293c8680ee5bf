//! Mesh animations as points with time samples; the meshes of a scene as they were, several clips as variants.
//!
//! A prim's own opinions are stronger than those of its variants: points and extents of what moves in several clips are in the variants alone.

use std::ops::Range;
use std::path::Path;

use bonesmith_core::{MeshSequence, Surface};
use glam::{DAffine3, Vec3};

use super::doc::{Prim, Property, Value, Variants};
use super::names::Names;
use super::scene::{layout, numbered, tree};
use super::surface::{Materials, Normals, bind, extent, materials, mesh_prim, pictures, set_extras};
use super::{CLIP_SET, Clock, layer, write};
use crate::parts::{Places, part_surface, still_in, to_node};
use crate::usd::extras::ClipExtras;
use crate::{IoError, texture};

/// One mesh of an animation.
struct Mesh {
    /// Its vertices.
    vertices: Range<usize>,
    rest: Vec<Vec3>,
    surface: Surface,
    moves: bool,
}

/// Writes a mesh animation as points with time samples over the rest pose.
pub fn save_sequence(sequence: &MeshSequence, path: &Path) -> Result<(), IoError> {
    let (surface, spans) = (sequence.surface(), sequence.clips());
    let clock = match spans.len() > 1 {
        true => Clock::new(spans.iter().map(|span| span.times_secs.as_slice())),
        false => Clock::new(std::iter::once(sequence.times_secs())),
    };
    texture::warn_of_unwritable(surface, path);
    let pictures = pictures(surface, path);
    let name = Names::default().unique(sequence.name(), "animation");
    let (materials, scope) = materials(&format!("/{name}"), surface, &pictures);
    let (meshes, places) = meshes(sequence);
    let mut root = Prim::new("Xform", name.clone());
    // Paths below the root of what moves.
    let mut moving: Vec<(String, &Mesh)> = Vec::new();
    match &places {
        None => {
            let mesh_name = format!("{name}_mesh");
            root.children.push(mesh(&meshes[0], mesh_name.clone(), sequence.name(), &materials));
            moving.push((mesh_name, &meshes[0]));
        }
        Some(places) => {
            let parts = &surface.parts;
            let mut top = Names::default();
            top.unique("materials", "materials");
            let layout = layout(parts, &format!("/{name}"), top, std::iter::empty());
            root.children = tree(parts, &layout, &places.locals, Vec::new(), |at, prim_name, _| {
                let part = &parts.meshes[at];
                numbered(mesh(&meshes[at], prim_name.to_owned(), parts.name(part), &materials), at, part)
            });
            let path = |at: usize| layout.path(parts.meshes[at].node)[1 + name.len()..].to_owned();
            moving.extend(meshes.iter().enumerate().filter(|(_, mesh)| mesh.moves).map(|(at, mesh)| (path(at), mesh)));
        }
    }
    if spans.len() > 1 {
        root = with_clips(root, sequence, &moving, &clock);
    } else {
        let codes: Vec<f64> = sequence.times_secs().iter().map(|t| clock.code(*t)).collect();
        for (path, mesh) in &moving {
            animate(root.below(path), mesh, &codes, sequence, 0);
        }
    }
    root.children.extend(scope);
    let doc = match spans.len() > 1 {
        true => layer(root, &surface.space, &clock, spans.iter().flat_map(|span| &span.times_secs)),
        false => layer(root, &surface.space, &clock, sequence.times_secs().iter()),
    };
    write(&doc, &pictures, path)
}

/// The meshes of an animation, and where the nodes of its scene are; one mesh without a scene.
fn meshes(sequence: &MeshSequence) -> (Vec<Mesh>, Option<Places>) {
    let surface = sequence.surface();
    let parts = &surface.parts;
    if parts.is_empty() {
        let all = Mesh {
            vertices: 0..sequence.vertex_count(),
            rest: sequence.rest().to_vec(),
            surface: Surface::clone(surface),
            moves: true,
        };
        return (vec![all], None);
    }
    let mut still = still_in(sequence);
    // Something must hold the keys of the clips.
    if sequence.frame_count() > 1 && !still.contains(&false) {
        still[0] = false;
    }
    let places = Places::of(parts, still, DAffine3::IDENTITY, true);
    let faces: Vec<u32> = (0..surface.topology.face_count() as u32).collect();
    let mesh = |(at, (part, vertices, own)): (usize, (_, Range<usize>, Range<usize>))| {
        let mut surface = part_surface(surface, part, vertices.start as u32, &faces[own]);
        let mut rest = sequence.rest()[vertices.clone()].to_vec();
        if let Some(place) = places.still[at] {
            rest.copy_from_slice(&sequence.part_of_frame(0, vertices.clone()));
            to_node(&mut rest, &mut surface, place);
        }
        Mesh { vertices, rest, surface, moves: places.still[at].is_none() }
    };
    let meshes = parts.ranges().enumerate().map(mesh).collect();
    (meshes, Some(places))
}

/// A mesh without points if it moves, as they come with the frames.
fn mesh<'a>(own: &'a Mesh, prim_name: String, name: &str, materials: &Materials) -> Prim<'a> {
    let normals = if own.moves { Normals::Kept } else { Normals::Shown };
    let mut prim = mesh_prim(prim_name, name, &own.surface, &own.rest, normals);
    prim = prim.with(match own.moves {
        true => Property::new("point3f[]", "points"),
        false => Property::of("point3f[]", "points", Value::Points(&own.rest)),
    });
    let mut apis = Vec::new();
    prim = bind(prim, &own.surface, materials, &mut apis);
    match apis.is_empty() {
        true => prim,
        false => prim.meta("apiSchemas", Value::Prepend(apis)),
    }
}

/// Points and extents of a mesh in the frames from `first` on, at these times.
fn animate<'a>(prim: &mut Prim<'a>, mesh: &'a Mesh, codes: &[f64], sequence: &'a MeshSequence, first: usize) {
    let own = || codes.iter().zip(first..).map(|(code, t)| (*code, t, mesh.vertices.clone()));
    let extent = |t, vertices| Value::Float3s(extent(&sequence.part_of_frame(t, vertices)));
    let boxes = own().map(|(code, t, vertices)| (code, extent(t, vertices))).collect();
    let points = own().map(|(code, t, vertices)| (code, Value::Frame(sequence, t, vertices))).collect();
    property(prim, "float3[]", "extent").samples = boxes;
    let property = property(prim, "point3f[]", "points");
    (property.default, property.samples) = (Some(Value::Points(&mesh.rest)), points);
}

/// A property of a prim, which is made where it is not there.
fn property<'p, 'a>(prim: &'p mut Prim<'a>, type_name: &'static str, name: &str) -> &'p mut Property<'a> {
    let at = prim.properties.iter().position(|property| property.name == name).unwrap_or_else(|| {
        prim.properties.push(Property::new(type_name, name));
        prim.properties.len() - 1
    });
    &mut prim.properties[at]
}

/// A root whose variants are the clips.
fn with_clips<'a>(
    mut root: Prim<'a>,
    sequence: &'a MeshSequence,
    moving: &[(String, &'a Mesh)],
    clock: &Clock,
) -> Prim<'a> {
    for (path, _) in moving {
        root.below(path).properties.retain(|property| property.name != "extent" && property.name != "points");
    }
    let (mut names, mut of, mut clips) = (Names::default(), Vec::new(), Vec::new());
    for span in sequence.clips() {
        let name = names.unique(&span.name, "clip");
        let mut variant = Prim::over(name.clone());
        let codes: Vec<f64> = span.times_secs.iter().map(|t| clock.code(*t)).collect();
        for (path, mesh) in moving {
            animate(variant.below(path), mesh, &codes, sequence, span.frames.start);
        }
        clips.push((name, span.name.clone()));
        of.push(variant);
    }
    root.variants = Some(Variants { set: CLIP_SET, of });
    set_extras(root, &ClipExtras { clips })
}
