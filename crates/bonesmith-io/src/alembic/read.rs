//! From the objects of a file to a sequence: positions go straight from the file into frames, one frame after the other.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use bonesmith_core::transform::nearest_rotation;
use bonesmith_core::{Part, PartNode, Parts, RawFrame, RawSequence, Space, Surface, UpAxis};
use glam::{DAffine3, Vec3};

use super::archive::{Archive, Object};
use super::mesh::Mesh;
use super::xform::{Xform, between, merged};
use crate::load::{Content, FileContent, Request, missing};
use crate::sink::Sink;
use crate::{IoError, MeshEntry, merge, warning};

/// Schemas of geometry that is not read.
const OTHER_GEOMETRY: [&str; 3] = ["AbcGeom_Curve", "AbcGeom_Points", "AbcGeom_NuPatch"];
/// Deepest nesting of objects.
const MAX_DEPTH: usize = 256;
/// Frames that repeat others cost nothing in the file: at most this many for each that is stored.
const MAX_REPEATS: usize = 4;
/// Most bytes of positions, unless the file is large too: frames that share bytes multiply.
const MAX_BYTES: u64 = 1 << 30;
const MAX_GROWTH: u64 = 16;

/// A mesh under its transforms, outermost first.
struct Instance {
    mesh: Mesh,
    xforms: Vec<std::rc::Rc<Xform>>,
}

/// Reads all meshes of a file as one, or the one that is named.
pub fn load(path: &Path, request: &Request<'_>) -> Result<FileContent, IoError> {
    let (archive, top) = Archive::open(path)?;
    let mut found = Vec::new();
    collect(&archive, &top, &mut Vec::new(), &mut found)?;
    let meshes = request.list(|| entries(&archive, &found))?;
    let instances = pick(&archive, found, request.options.mesh.as_deref())?;
    let times_secs = times(&archive, &instances)?;
    check_size(&archive, &instances, times_secs.len())?;
    let name = match &instances[..] {
        [one] => one.mesh.name.clone(),
        _ => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let mut frames = read_frames(&archive, &instances, &times_secs)?;
    note_other_faces(&archive, &instances, &times_secs, &mut frames)?;
    let mut surface = surface(&archive, instances, &times_secs)?;
    surface.space = Space { up: Some(UpAxis::Y), metres_per_unit: None };
    let fps = request.options.fps.unwrap_or(0.0);
    let raw = RawSequence { name, frames, times_secs, fps, surface, ..RawSequence::default() };
    let content = Content::Sequence(raw);
    Ok(FileContent { content, meshes, stored: None, shared_names: Vec::new() })
}

/// The meshes of a file.
pub fn list_meshes(path: &Path) -> Result<Vec<MeshEntry>, IoError> {
    let (archive, top) = Archive::open(path)?;
    let mut found = Vec::new();
    collect(&archive, &top, &mut Vec::new(), &mut found)?;
    entries(&archive, &found)
}

fn entries(archive: &Archive, found: &[Instance]) -> Result<Vec<MeshEntry>, IoError> {
    let entry = |instance: &Instance| {
        let name = short_name(found, &instance.mesh).to_owned();
        Ok(MeshEntry { name, vertices: instance.mesh.vertex_count(archive, 0)? })
    };
    found.iter().map(entry).collect()
}

/// The name of the object, or its path where there are several of that name.
fn short_name<'a>(all: &[Instance], mesh: &'a Mesh) -> &'a str {
    let alike = all.iter().filter(|other| other.mesh.name == mesh.name).count();
    if alike > 1 { &mesh.path } else { &mesh.name }
}

/// Walks down from an object. `xforms` are those above it.
fn collect(
    archive: &Archive,
    object: &Object,
    xforms: &mut Vec<std::rc::Rc<Xform>>,
    found: &mut Vec<Instance>,
) -> Result<(), IoError> {
    for at in 0..archive.child_count(object) {
        let child = archive.child(object, at)?;
        if child.path.len() > 1 << 16 || child.path.bytes().filter(|b| *b == b'/').count() > MAX_DEPTH {
            return Err(archive.ogawa.malformed(format!("objects are nested deeper than {MAX_DEPTH}")));
        }
        let schema = child.metadata.get("schema");
        if schema.starts_with("AbcGeom_Xform") {
            let Some(xform) = Xform::read(archive, &child)? else { continue };
            xforms.push(std::rc::Rc::new(xform));
            collect(archive, &child, xforms, found)?;
            xforms.pop();
            continue;
        }
        if OTHER_GEOMETRY.iter().any(|other| schema.starts_with(other)) {
            warning::left_out(archive.ogawa.path(), format!("objects that are no meshes: {schema}"));
        }
        if (schema.starts_with("AbcGeom_PolyMesh") || schema.starts_with("AbcGeom_SubD"))
            && let Some(mesh) = Mesh::read(archive, &child)?
        {
            found.push(Instance { mesh, xforms: xforms.clone() });
        }
        collect(archive, &child, xforms, found)?;
    }
    Ok(())
}

fn pick(archive: &Archive, mut found: Vec<Instance>, only: Option<&str>) -> Result<Vec<Instance>, IoError> {
    if found.is_empty() {
        return Err(archive.ogawa.unsupported("there is no polygon mesh in it"));
    }
    let Some(only) = only else { return Ok(found) };
    let names: Vec<String> = found.iter().map(|i| short_name(&found, &i.mesh).to_owned()).collect();
    // An object goes by its own name, that of the transform above it, or its whole path.
    let parent = |mesh: &Mesh| mesh.path.rsplit('/').nth(1).unwrap_or_default().to_owned();
    let is_named = |i: &Instance, one: &str| i.mesh.name == one || i.mesh.path == one || parent(&i.mesh) == one;
    if let Some(lost) = missing(only, |one| found.iter().any(|i| is_named(i, one))) {
        return Err(archive.ogawa.unsupported(format!("no mesh is named {lost:?}; there are {names:?}")));
    }
    found.retain(|i| is_named(i, only) || only.split(',').any(|one| is_named(i, one.trim())));
    Ok(found)
}

/// Times of all samples of positions, and of all changes of the transforms above them.
fn times(archive: &Archive, instances: &[Instance]) -> Result<Vec<f64>, IoError> {
    let mut times = Vec::new();
    for Instance { mesh, xforms } in instances {
        let (samples, stored) = mesh.samples();
        let moves = xforms.iter().map(|x| x.stored_samples).max().unwrap_or(1);
        let most = stored.max(moves).saturating_mul(MAX_REPEATS);
        if samples > most {
            return Err(archive
                .ogawa
                .malformed(format!("{}: {samples} samples, of which only {stored} are in the file", mesh.path)));
        }
        if samples > 1 {
            times.extend(mesh.times(archive, samples)?);
        }
        xforms.iter().for_each(|xform| times.extend(xform.changes()));
    }
    if times.is_empty() {
        let first = &instances[0].mesh;
        times = first.times(archive, 1)?;
    }
    if let Some(bad) = times.iter().find(|t| !t.is_finite()) {
        return Err(archive.ogawa.malformed(format!("a sample is at {bad} seconds")));
    }
    Ok(merged(times))
}

/// What is asked of memory, before it is.
fn check_size(archive: &Archive, instances: &[Instance], frames: usize) -> Result<(), IoError> {
    let mut vertices = 0u64;
    for instance in instances {
        vertices += instance.mesh.vertex_count(archive, 0)? as u64;
    }
    let bytes = vertices.saturating_mul(12).saturating_mul(frames as u64);
    if bytes > MAX_BYTES.max(archive.ogawa.bytes().saturating_mul(MAX_GROWTH)) {
        let what = format!("{frames} frames of {vertices} vertices are {bytes} bytes, far more than the file has");
        return Err(archive.ogawa.unsupported(what));
    }
    Ok(())
}

fn world(xforms: &[std::rc::Rc<Xform>], secs: f64) -> DAffine3 {
    xforms.iter().fold(DAffine3::IDENTITY, |world, xform| {
        let above = if xform.inherits { world } else { DAffine3::IDENTITY };
        above * xform.at(secs)
    })
}

fn read_frames(archive: &Archive, instances: &[Instance], times: &[f64]) -> Result<Vec<RawFrame>, IoError> {
    let mut known = Vec::with_capacity(instances.len());
    for Instance { mesh, .. } in instances {
        let mut still = Vec::new();
        if mesh.is_constant() {
            mesh.positions(archive, 0, &mut still)?;
        }
        known.push((mesh.times(archive, mesh.samples().0)?, mesh.vertex_count(archive, 0)?, still));
    }
    let all = known.iter().map(|of| of.1).sum();
    let mut frames = Sink::new(archive.ogawa.path(), times.len());
    for secs in times {
        let mut positions = Vec::with_capacity(all);
        for (Instance { mesh, xforms }, (own_times, vertices, still)) in instances.iter().zip(&known) {
            let first = positions.len();
            if mesh.is_constant() {
                positions.extend(still);
            } else {
                read_between(archive, mesh, between(own_times, *secs), *vertices, &mut positions)?;
            }
            place(&world(xforms, *secs), &mut positions[first..]);
        }
        frames.push(positions)?;
    }
    frames.finish()
}

/// Positions of one sample, or between two.
fn read_between(
    archive: &Archive,
    mesh: &Mesh,
    (a, b, s): (usize, usize, f64),
    vertices: usize,
    into: &mut Vec<Vec3>,
) -> Result<(), IoError> {
    for sample in [a, b] {
        let found = mesh.vertex_count(archive, sample)?;
        if found != vertices {
            return Err(archive.ogawa.unsupported(format!(
                "{}: sample {sample} has {found} vertices, the first has {vertices}; only a mesh that keeps its \
                 vertices can be fitted",
                mesh.path
            )));
        }
    }
    let first = into.len();
    mesh.positions(archive, a, into)?;
    if s > 0.0 {
        let mut next = Vec::with_capacity(vertices);
        mesh.positions(archive, b, &mut next)?;
        into[first..].iter_mut().zip(next).for_each(|(p, q)| *p = p.lerp(q, s as f32));
    }
    Ok(())
}

/// In float64: models far from their origin would lose what they are made of.
fn place(world: &DAffine3, positions: &mut [Vec3]) {
    if *world == DAffine3::IDENTITY {
        return;
    }
    positions.iter_mut().for_each(|p| *p = world.transform_point3(p.as_dvec3()).as_vec3());
}

/// Faces that change over time are left to the door of the core to refuse: it names the frame. With several meshes the
/// first one that changes is named here.
fn note_other_faces(
    archive: &Archive,
    instances: &[Instance],
    times: &[f64],
    frames: &mut [RawFrame],
) -> Result<(), IoError> {
    for Instance { mesh, .. } in instances {
        let (samples, _) = mesh.samples();
        let own_times = mesh.times(archive, samples)?;
        for t in 1..samples {
            let Some(faces) = mesh.new_faces(archive, t)?.filter(|faces| *faces != mesh.surface.topology) else {
                continue;
            };
            let frame = times.iter().position(|secs| between(&own_times, *secs).0 == t).unwrap_or(t);
            if instances.len() > 1 || frame >= frames.len() {
                let what = format!("{}: sample {t} has other faces than the first", mesh.path);
                return Err(archive.ogawa.unsupported(what));
            }
            frames[frame].topology = Some(Arc::new(faces));
            return Ok(());
        }
    }
    Ok(())
}

/// Faces of all meshes; normals stand as in the first frame.
fn surface(archive: &Archive, instances: Vec<Instance>, times: &[f64]) -> Result<Surface, IoError> {
    let mut parts = merge::Parts::default();
    let start = times.first().copied().unwrap_or_default();
    let scene = scene(&instances, start);
    for Instance { mesh, xforms } in instances {
        let vertices = mesh.vertex_count(archive, 0)?;
        let world = world(&xforms, start);
        let mut surface = mesh.surface;
        surface.turn(nearest_rotation(&world.matrix3));
        parts.add(surface, vertices);
    }
    Ok(parts.finish_scene(archive.ogawa.path(), scene))
}

/// The nodes of the meshes: a mesh is shown by the transform above it, or by a node of its own where that shows another already.
fn scene(instances: &[Instance], start: f64) -> impl FnOnce(Vec<Part>) -> Parts + use<> {
    let mut parts = Parts::default();
    let (mut places, mut taken): (HashMap<String, usize>, HashSet<usize>) = (HashMap::new(), HashSet::new());
    let mut shown: Vec<(usize, String)> = Vec::new();
    for Instance { mesh, xforms } in instances {
        let names: Vec<&str> = mesh.path.split('/').filter(|name| !name.is_empty()).collect();
        let (mut parent, mut path) = (None, String::new());
        for (depth, name) in names.iter().enumerate() {
            path += &format!("/{name}");
            let is_mesh = depth + 1 == names.len();
            if is_mesh && parent.is_some_and(|above| taken.insert(above)) {
                break;
            }
            // Transforms are those of the objects above, where each of them is one.
            let above = if xforms.len() + 1 == names.len() { &xforms[..(depth + 1).min(xforms.len())] } else { xforms };
            let node = PartNode { name: (*name).to_owned(), parent, world_from_node: world(above, start) };
            let place = *places.entry(path.clone()).or_insert_with(|| {
                parts.nodes.push(node);
                parts.nodes.len() - 1
            });
            if is_mesh {
                taken.insert(place);
            }
            parent = Some(place);
        }
        shown.push((parent.unwrap_or_default(), mesh.name.clone()));
    }
    move |meshes| {
        let of = |(part, (node, mesh)): (Part, (usize, String))| Part { node, mesh, ..part };
        Parts { meshes: meshes.into_iter().zip(shown).map(of).collect(), ..parts }
    }
}
