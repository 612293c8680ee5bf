//! What a file holds, as data.

use std::ops::Range;

use bonesmith_core::mesh::sequence::Span;
use bonesmith_core::mesh::sphere::smallest_enclosing_sphere;
use bonesmith_core::{Adjacency, Clip, ModelRef, Part, Rig};
use bonesmith_io::{Inspection, MeshEntry};
use glam::Vec3;
use serde::Serialize;

use crate::error::Error;
use crate::input::Input;
use crate::targets::{Finding, Subject, TARGETS, Target, check};
use crate::warning::Noted;

/// What is known about any file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Info {
    /// Its name.
    pub name: String,
    /// Name of the format.
    pub format: String,
    /// "animation" or "rig".
    pub holds: &'static str,
    /// N.
    pub vertices: usize,
    /// Faces of any size.
    pub faces: usize,
    /// Faces with 3 corners.
    pub triangles: usize,
    /// Faces with 4 corners.
    pub quads: usize,
    /// Faces with more than 4 corners.
    pub polygons: usize,
    /// Connected parts.
    pub components: usize,
    /// Vertices in no face.
    pub isolated_vertices: usize,
    /// Of the rest pose.
    pub bounds: Bounds,
    /// Of the smallest sphere around the rest pose.
    pub sphere_radius: f64,
    /// Names of the sets of texture coordinates.
    pub uv_sets: Vec<String>,
    /// Whether it has normals of its own.
    pub has_normals: bool,
    /// Whether it has vertex colours.
    pub has_colors: bool,
    /// Their names.
    pub materials: Vec<String>,
    /// Textures.
    pub images: usize,
    /// Axes and unit, as far as the file states them.
    pub space: bonesmith_core::Space,
    /// Meshes of the file, where it can hold several.
    pub meshes: Vec<MeshInfo>,
    /// F.
    pub frames: usize,
    /// Of the frames.
    pub times: Option<Times>,
    /// Clips of an animation that holds several; those of a rig are its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clips: Vec<ClipInfo>,
    /// Of a rig.
    #[serde(flatten)]
    pub rig: Option<RigInfo>,
    /// What each engine objects to in a rig; limits come before advice.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub engines: Vec<EngineInfo>,
    /// Of trajectories that vertices mix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub basis: Option<BasisInfo>,
}

/// What one engine objects to.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct EngineInfo {
    /// Name of the target.
    pub name: &'static str,
    /// Limits that are exceeded, then advice.
    pub findings: Vec<Finding>,
}

/// Of a basis.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct BasisInfo {
    /// Clusters of vertices.
    pub clusters: usize,
    /// Trajectories of each.
    pub columns: usize,
    /// Size at run time.
    pub bytes: usize,
    /// Parameters stored in the file.
    pub params: serde_json::Value,
}

/// One mesh of a file.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MeshInfo {
    /// Its name.
    pub name: String,
    /// N.
    pub vertices: usize,
    /// Names of the nodes above it, the topmost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parents: Vec<String>,
    /// Names of its materials.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub materials: Vec<String>,
}

/// A box.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Bounds {
    /// Smallest coordinates.
    pub min: [f32; 3],
    /// Largest coordinates.
    pub max: [f32; 3],
}

/// Seconds of the first and last frame, and the rate between them.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// First frame.
    pub start: f64,
    /// Last frame.
    pub end: f64,
    /// Frames per second.
    pub fps: Option<f64>,
}

/// Of a rig.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct RigInfo {
    /// B.
    pub bones: usize,
    /// Bones without a parent.
    pub roots: usize,
    /// Kind of the bones.
    pub bone_kind: bonesmith_core::BoneKind,
    /// Its animations.
    pub clips: Vec<ClipInfo>,
    /// [K + 1] vertices with 0, 1, .. K influences.
    pub influence_histogram: Vec<usize>,
    /// Bones without weights.
    pub unused_bones: usize,
    /// Parameters stored in the file.
    pub params: serde_json::Value,
    /// Names of the shapes that are added before bones move them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shapes: Vec<String>,
    /// Of a Direct Delta Mush rig.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ddm: Option<DdmInfo>,
    /// Of a two-layer rig; influences are then those on virtual bones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layers: Option<LayerInfo>,
}

/// Of a two-layer rig.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LayerInfo {
    /// M.
    pub virtual_bones: usize,
    /// Bones that a virtual bone blends at most.
    pub master_influences: usize,
    /// Cost of a vertex in influences.
    pub blends_per_vertex: f64,
}

/// Of a Direct Delta Mush rig.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct DdmInfo {
    /// 0 to 5.
    pub variant: u8,
    /// Of all vertices or virtual bones.
    pub multi_weights: usize,
    /// Numbers of a multi-weight.
    pub numbers: usize,
    /// 0 where it is not compressed.
    pub virtual_bones: usize,
    /// Size at run time.
    pub bytes: usize,
}

/// One animation.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ClipInfo {
    /// Its name.
    pub name: String,
    /// F.
    pub frames: usize,
    /// Of the frames.
    pub times: Option<Times>,
}

impl Input {
    /// What the files hold, opened and parsed once.
    pub fn info(&self) -> Result<Noted<Info>, Error> {
        Noted::collect(|| Ok(Info::new(&bonesmith_io::inspect(&self.paths, &self.load_options())?)))
    }
}

impl Info {
    /// Of a file that was read.
    pub fn new(found: &Inspection) -> Self {
        let model = found.model.view();
        let (rest, surface, topology) = (model.rest(), model.surface(), &model.surface().topology);
        let corners =
            |wanted: std::ops::RangeInclusive<usize>| topology.faces().filter(|f| wanted.contains(&f.len())).count();
        let adjacency = Adjacency::new(topology, rest.len());
        let low = rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
        let high = rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
        let clips = model.clips();
        let first = clips.first();
        Self {
            name: model.name().to_owned(),
            format: found.format.map_or("files of one animation", |format| format.name()).to_owned(),
            holds: match model {
                ModelRef::Sequence(_) => "animation",
                ModelRef::Basis(_) => "basis",
                _ => "rig",
            },
            vertices: rest.len(),
            faces: topology.face_count(),
            triangles: corners(3..=3),
            quads: corners(4..=4),
            polygons: corners(5..=usize::MAX),
            components: adjacency.components().1,
            isolated_vertices: (0..rest.len()).filter(|&i| adjacency.of(i).is_empty()).count(),
            bounds: Bounds { min: low.to_array(), max: high.to_array() },
            sphere_radius: smallest_enclosing_sphere(rest.iter().map(|p| p.as_dvec3())).radius,
            uv_sets: surface.uv_sets.iter().map(|uv| uv.name.clone()).collect(),
            has_normals: surface.normals.is_some(),
            has_colors: surface.colors.is_some(),
            materials: surface.materials.iter().map(|m| m.name.clone()).collect(),
            images: surface.images.len(),
            space: surface.space,
            meshes: meshes(found),
            frames: first.map_or(0, |clip| clip.frame_count()),
            times: first.and_then(|clip| Times::new(clip.times_secs)),
            clips: match model {
                ModelRef::Sequence(sequence) => sequence.clips().iter().map(ClipInfo::of_span).collect(),
                _ => Vec::new(),
            },
            rig: model.rig().map(|rig| RigInfo::new(model, rig)),
            engines: match model.rig() {
                Some(_) => TARGETS.iter().map(|target| EngineInfo::new(&Subject::of(found), target)).collect(),
                None => Vec::new(),
            },
            basis: match model {
                ModelRef::Basis(basis) => Some(BasisInfo {
                    clusters: basis.cluster_count,
                    columns: basis.dimension,
                    bytes: basis.bytes(),
                    params: serde_json::from_str(&basis.params_json).unwrap_or_default(),
                }),
                _ => None,
            },
        }
    }
}

/// The meshes of the file, with what is above them and on them where that is known.
fn meshes(found: &Inspection) -> Vec<MeshInfo> {
    let surface = found.model.view().surface();
    let parts = &surface.parts;
    if parts.meshes.len() != found.meshes.len() {
        let bare = |MeshEntry { name, vertices }: &MeshEntry| MeshInfo {
            name: name.clone(),
            vertices: *vertices,
            parents: Vec::new(),
            materials: Vec::new(),
        };
        return found.meshes.iter().map(bare).collect();
    }
    let above = |node: usize| parts.nodes[node].parent;
    let of_part = |(part, _, faces): (&Part, _, Range<usize>)| {
        let chain = std::iter::successors(above(part.node), |&node| above(node));
        let mut parents: Vec<String> = chain.map(|node| parts.nodes[node].name.clone()).collect();
        parents.reverse();
        let mut used: Vec<u32> = surface.face_materials.get(faces).unwrap_or_default().to_vec();
        used.sort_unstable();
        used.dedup();
        MeshInfo {
            name: parts.name(part).to_owned(),
            vertices: part.vertices,
            parents,
            materials: used.iter().map(|&m| surface.materials[m as usize].name.clone()).collect(),
        }
    };
    parts.ranges().map(of_part).collect()
}

impl EngineInfo {
    fn new(subject: &Subject<'_>, target: &'static Target) -> Self {
        Self { name: target.name, findings: check(subject, target) }
    }
}

impl ClipInfo {
    fn of_span(span: &Span) -> Self {
        Self { name: span.name.clone(), frames: span.frames.len(), times: Times::new(&span.times_secs) }
    }
}

impl RigInfo {
    fn new(model: ModelRef<'_>, rig: &Rig) -> Self {
        let clip = |clip: &Clip| ClipInfo {
            name: clip.name.clone(),
            frames: clip.frame_count(),
            times: Times::new(&clip.times_secs),
        };
        let weights = model.weights().unwrap_or(&rig.weights);
        let mut influence_histogram = vec![0; weights.max_influences() + 1];
        (0..weights.vertex_count()).for_each(|i| influence_histogram[weights.of(i).count()] += 1);
        let unused = rig.weights.usage(rig.bone_count()).iter().filter(|&&n| n == 0).count();
        Self {
            bones: rig.bone_count(),
            roots: rig.bones.iter().filter(|b| b.parent.is_none()).count(),
            bone_kind: rig.kind,
            clips: rig.clips.iter().map(clip).collect(),
            influence_histogram,
            // Bones of the other kinds move virtual bones or have multi-weights.
            unused_bones: if matches!(model, ModelRef::Rig(_) | ModelRef::Corrective(_) | ModelRef::ShapeBones(_)) {
                unused
            } else {
                0
            },
            params: serde_json::from_str(&rig.params_json).unwrap_or_default(),
            shapes: match model {
                ModelRef::Corrective(own) => own.shapes.iter().map(|shape| shape.name.clone()).collect(),
                ModelRef::ShapeBones(own) => own.shapes.iter().map(|shape| shape.name.clone()).collect(),
                _ => Vec::new(),
            },
            ddm: match model {
                ModelRef::Ddm(ddm) => Some(DdmInfo {
                    variant: ddm.variant.into(),
                    multi_weights: ddm.weights.influences(),
                    numbers: ddm.weights.width(),
                    virtual_bones: ddm.virtual_count(),
                    bytes: ddm.bytes(),
                }),
                _ => None,
            },
            layers: match model {
                ModelRef::TwoLayer(two) => Some(LayerInfo {
                    virtual_bones: two.virtual_count(),
                    master_influences: two.blends.slots(),
                    blends_per_vertex: two.blends_per_vertex(),
                }),
                _ => None,
            },
        }
    }
}

impl Times {
    fn new(times: &[f64]) -> Option<Self> {
        let (&start, &end) = (times.first()?, times.last()?);
        let fps = (end > start).then(|| (times.len() - 1) as f64 / (end - start));
        Some(Self { start, end, fps })
    }
}
