//! `bonesmith info`: what a file holds.

use bonesmith_core::mesh::sphere::smallest_enclosing_sphere;
use bonesmith_core::{Adjacency, Clip, ModelRef, Rig};
use bonesmith_io::{Inspection, LoadOptions, MeshEntry};
use glam::Vec3;
use serde::Serialize;
use serde_json::json;

use crate::args::InfoArgs;
use crate::errors::Outcome;
use crate::output::{Table, count, figure, print, write_json};
use crate::session::Session;
use crate::settings::{self, JsonTarget};

/// What is known about any file.
#[derive(Debug, Serialize)]
struct Info {
    name: String,
    format: String,
    /// "animation" or "rig".
    holds: &'static str,
    vertices: usize,
    faces: usize,
    triangles: usize,
    quads: usize,
    /// Faces with more than 4 corners.
    polygons: usize,
    components: usize,
    isolated_vertices: usize,
    bounds: Bounds,
    sphere_radius: f64,
    uv_sets: Vec<String>,
    has_normals: bool,
    has_colors: bool,
    materials: Vec<String>,
    images: usize,
    /// Axes and unit, as far as the file states them.
    space: bonesmith_core::Space,
    /// Meshes of the file, where it can hold several: what --mesh takes.
    meshes: Vec<MeshInfo>,
    frames: usize,
    times: Option<Times>,
    #[serde(flatten)]
    rig: Option<RigInfo>,
    /// Of trajectories that vertices mix.
    #[serde(skip_serializing_if = "Option::is_none")]
    basis: Option<BasisInfo>,
}

#[derive(Debug, Serialize)]
struct BasisInfo {
    clusters: usize,
    columns: usize,
    bytes: usize,
    params: serde_json::Value,
}

#[derive(Debug, Serialize)]
struct MeshInfo {
    name: String,
    vertices: usize,
}

#[derive(Debug, Serialize)]
struct Bounds {
    min: [f32; 3],
    max: [f32; 3],
}

/// Seconds of the first and last frame, and the rate between them.
#[derive(Clone, Debug, Serialize)]
struct Times {
    start: f64,
    end: f64,
    fps: Option<f64>,
}

#[derive(Debug, Serialize)]
struct RigInfo {
    bones: usize,
    roots: usize,
    bone_kind: bonesmith_core::BoneKind,
    clips: Vec<ClipInfo>,
    /// [K + 1] vertices with 0, 1, .. K influences.
    influence_histogram: Vec<usize>,
    unused_bones: usize,
    params: serde_json::Value,
    /// Names of the shapes that are added before bones move them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shapes: Vec<String>,
    /// Of a Direct Delta Mush rig.
    #[serde(skip_serializing_if = "Option::is_none")]
    ddm: Option<DdmInfo>,
    /// Of a two-layer rig; influences are then those on virtual bones.
    #[serde(skip_serializing_if = "Option::is_none")]
    layers: Option<LayerInfo>,
}

#[derive(Debug, Serialize)]
struct LayerInfo {
    virtual_bones: usize,
    master_influences: usize,
    blends_per_vertex: f64,
}

#[derive(Debug, Serialize)]
struct DdmInfo {
    variant: u8,
    multi_weights: usize,
    numbers: usize,
    /// 0 where it is not compressed.
    virtual_bones: usize,
    bytes: usize,
}

#[derive(Debug, Serialize)]
struct ClipInfo {
    name: String,
    frames: usize,
    times: Option<Times>,
}

pub fn run(args: InfoArgs, session: &mut Session) -> anyhow::Result<Outcome> {
    let options = LoadOptions { fps: settings::fps(args.fps)?, mesh: args.mesh };
    let input = settings::input(args.inputs, Default::default())?;
    let json_target = settings::json(args.json)?;
    session.claim(&input.files(), &[], json_target.as_ref(), None)?;
    let found = session.heed(|| bonesmith_io::inspect(&input.paths, &options))?;
    session.check_outputs()?;
    let info = Info::new(&found);
    session.finish_progress();
    if let Some(target) = &json_target {
        write_json(target, &session.with_losses(json!(info)))?;
    }
    if json_target != Some(JsonTarget::Stdout) {
        print(&info.to_table())?;
    }
    Ok(Outcome::Done)
}

impl Info {
    fn new(found: &Inspection) -> Self {
        let model = found.model.view();
        let (rest, surface, topology) = (model.rest(), model.surface(), &model.surface().topology);
        let corners =
            |wanted: std::ops::RangeInclusive<usize>| topology.faces().filter(|f| wanted.contains(&f.len())).count();
        let adjacency = Adjacency::new(topology, rest.len());
        let low = rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
        let high = rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
        let clips = model.clips();
        let first = clips.first();
        let mesh = |MeshEntry { name, vertices }: &MeshEntry| MeshInfo { name: name.clone(), vertices: *vertices };
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
            meshes: found.meshes.iter().map(mesh).collect(),
            frames: first.map_or(0, |clip| clip.frame_count()),
            times: first.and_then(|clip| Times::new(clip.times_secs)),
            rig: model.rig().map(|rig| RigInfo::new(model, rig)),
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

    fn to_table(&self) -> String {
        let mut table = Table::new(format!("{}: {} ({})", self.name, self.holds, self.format));
        let parts = match self.components {
            1 => "in one piece".to_owned(),
            n => format!("in {n} pieces"),
        };
        table.row("vertices", format!("{}, {parts}", self.vertices));
        if self.isolated_vertices > 0 {
            table.row("", format!("{} in no face", self.isolated_vertices));
        }
        let corners = [(self.triangles, "triangle"), (self.quads, "quad"), (self.polygons, "polygon")];
        let corners: Vec<String> = corners.iter().filter(|(n, _)| *n > 0).map(|(n, what)| count(*n, what)).collect();
        table.row(
            "faces",
            format!(
                "{} ({})",
                self.faces,
                if corners.is_empty() { "a point cloud".into() } else { corners.join(", ") }
            ),
        );
        let point = |p: [f32; 3]| p.map(|x| figure(f64::from(x))).join(" ");
        table.row("bounds", format!("{}  to  {}", point(self.bounds.min), point(self.bounds.max)));
        table.row("radius", figure(self.sphere_radius));
        let list = |names: &[String]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        if let Some(text) = space_text(&self.space) {
            table.row("space", text);
        }
        if self.meshes.len() > 1 {
            let meshes = self.meshes.iter().map(|mesh| format!("{} ({})", mesh.name, mesh.vertices));
            table.row("meshes", meshes.collect::<Vec<_>>().join(", "));
        }
        table.row("UV sets", list(&self.uv_sets));
        table.row("materials", list(&self.materials));
        match &self.rig {
            Some(rig) => rig.rows(&mut table),
            None => table.row("frames", frames_text(self.frames, self.times.as_ref())),
        }
        if let Some(BasisInfo { clusters, columns, bytes, .. }) = &self.basis {
            let (clusters, columns) = (count(*clusters, "cluster"), count(*columns, "column"));
            table.row("basis", format!("{clusters} of {columns}, {}", crate::output::bytes(*bytes as u64)));
        }
        table.to_string()
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
            unused_bones: if matches!(model, ModelRef::Rig(_) | ModelRef::Corrective(_)) { unused } else { 0 },
            params: serde_json::from_str(&rig.params_json).unwrap_or_default(),
            shapes: match model {
                ModelRef::Corrective(own) => own.shapes.iter().map(|shape| shape.name.clone()).collect(),
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

    fn rows(&self, table: &mut Table) {
        let kind = format!("{:?}", self.bone_kind).to_lowercase();
        let unused = match self.unused_bones {
            0 => String::new(),
            n => format!(", {n} move nothing"),
        };
        table.row("bones", format!("{} {kind}, {}{unused}", self.bones, count(self.roots, "root")));
        if let Some(LayerInfo { virtual_bones, master_influences, blends_per_vertex }) = &self.layers {
            let cost = figure(*blends_per_vertex);
            let text = format!("{virtual_bones} of at most {master_influences} bones, {cost} blends per vertex");
            table.row("virtual bones", text);
        }
        if let Some(DdmInfo { variant, multi_weights, numbers, virtual_bones, bytes }) = &self.ddm {
            let size = crate::output::bytes(*bytes as u64);
            let text = match virtual_bones {
                0 => format!("variant {variant}, {multi_weights} multi-weights of {numbers} numbers, {size}"),
                count => format!("compressed, {count} virtual bones, {multi_weights} multi-weights, {size}"),
            };
            table.row("Delta Mush", text);
        }
        if !self.shapes.is_empty() {
            table.row("shapes", self.shapes.join(", "));
        }
        let pairs = self.influence_histogram.iter().enumerate().filter(|(_, n)| **n > 0);
        table.row("influences", pairs.map(|(k, n)| format!("{k}: {n}")).collect::<Vec<_>>().join("  "));
        for clip in &self.clips {
            table.row("animation", format!("{}: {}", clip.name, frames_text(clip.frames, clip.times.as_ref())));
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

/// "y up, 1 unit = 0.01 m"; `None` where the file states nothing.
fn space_text(space: &bonesmith_core::Space) -> Option<String> {
    let up = space.up.map(|up| match up {
        bonesmith_core::UpAxis::Y => "y up".to_owned(),
        bonesmith_core::UpAxis::Z => "z up".to_owned(),
    });
    let unit = space.metres_per_unit.map(|metres| format!("1 unit = {} m", figure(metres)));
    let parts: Vec<String> = up.into_iter().chain(unit).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn frames_text(frames: usize, times: Option<&Times>) -> String {
    let mut text = count(frames, "frame");
    if let Some(Times { start, end, fps }) = times {
        text += &format!(", {} to {} s", figure(*start), figure(*end));
        if let Some(fps) = fps {
            text += &format!(", {} per second", figure(*fps));
        }
    }
    text
}
