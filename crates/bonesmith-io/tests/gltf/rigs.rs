//! Rigs made here: a tube of quads along x, bones along it, every kind of motion.

use std::sync::Arc;

use bonesmith_core::mesh::surface::{CornerAttribute, Image, Material, Texture, Textures};
use bonesmith_core::{Bone, BoneKind, Clip, Rig, SparseWeights, Surface, Topology};
use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};

const RINGS: usize = 17;
const SEGMENTS: usize = 12;
const LENGTH: f64 = 4.0;

/// What to build.
#[derive(Clone)]
pub struct Recipe {
    pub name: &'static str,
    pub kind: BoneKind,
    pub bones: usize,
    pub influences: usize,
    pub chained: bool,
    pub seams: bool,
    pub offset: DVec3,
    pub frames: usize,
}

impl Recipe {
    pub fn new(name: &'static str, kind: BoneKind) -> Self {
        let (bones, influences, offset) = (5, 4, DVec3::ZERO);
        Self { name, kind, bones, influences, chained: false, seams: false, offset, frames: 25 }
    }

    pub fn build(&self) -> Rig {
        let rest = tube(self.offset);
        let bones = self.bones();
        let world = |t: usize| self.pose(t as f64 / 24.0, &bones);
        let clip = Clip {
            name: "wave".into(),
            times_secs: (0..self.frames).map(|t| t as f64 / 24.0).collect(),
            posed_from_rest: (0..self.frames).flat_map(world).collect(),
        };
        let rig = Rig {
            name: self.name.into(),
            weights: self.weights(&rest, &bones),
            surface: Arc::new(if self.seams { seamed_surface() } else { Surface::bare(quads()) }),
            rest,
            bones,
            kind: self.kind,
            clips: vec![clip],
            params_json: r#"{"bones":5, "note":"kept as it is"}"#.into(),
        };
        rig.check().unwrap();
        rig
    }

    fn bones(&self) -> Vec<Bone> {
        let spacing = LENGTH / self.bones as f64;
        (0..self.bones)
            .map(|j| {
                let place = DVec3::X * (spacing * (j as f64 + 0.5)) + self.offset;
                let turn = DQuat::from_rotation_y(0.3 * j as f64) * DQuat::from_rotation_x(0.2);
                Bone {
                    name: format!("bone_{j:03}"),
                    parent: if self.chained { j.checked_sub(1) } else { None },
                    world_from_bind: DAffine3::from_rotation_translation(turn, place),
                    tip: None,
                }
            })
            .collect()
    }

    /// [B] posed_from_rest: each bone bends about its own place; chains pass it on.
    fn pose(&self, secs: f64, bones: &[Bone]) -> Vec<DAffine3> {
        let mut posed = Vec::new();
        for (j, bone) in bones.iter().enumerate() {
            let phase = std::f64::consts::TAU * secs + 0.6 * j as f64;
            let turn = DQuat::from_rotation_z(0.35 * phase.sin()) * DQuat::from_rotation_x(0.5 * phase.cos());
            let shift = DVec3::new(0.1, 0.3, -0.2) * phase.sin();
            let shape = match self.kind {
                BoneKind::Rigid => DMat3::IDENTITY,
                BoneKind::Trs => DMat3::from_diagonal(DVec3::new(1.0, 0.8, 1.2) + 0.3 * DVec3::ONE * phase.sin()),
                BoneKind::Affine => DMat3::from_cols(
                    DVec3::new(1.0 + 0.3 * phase.sin(), 0.2, 0.0),
                    DVec3::new(0.3 * phase.cos(), 0.9, 0.1),
                    DVec3::new(0.0, -0.2 * phase.sin(), 1.1),
                ),
            };
            let local = DAffine3::from_rotation_translation(turn, shift) * DAffine3::from_mat3(shape);
            let bind = bone.world_from_bind;
            let own = bind * local * bind.inverse();
            posed.push(bone.parent.map_or(own, |p: usize| posed[p] * own));
        }
        posed
    }

    fn weights(&self, rest: &[Vec3], bones: &[Bone]) -> SparseWeights {
        let mut weights = SparseWeights::new(rest.len(), self.influences);
        for (i, p) in rest.iter().enumerate() {
            let closeness =
                |bone: &Bone| 1.0 / (0.05 + (p.as_dvec3() - bone.world_from_bind.translation).length_squared());
            let all: Vec<(usize, f64)> = bones.iter().map(closeness).enumerate().collect();
            weights.set(i, &all);
        }
        weights
    }
}

fn tube(offset: DVec3) -> Vec<Vec3> {
    let point = |ring: usize, segment: usize| {
        let x = LENGTH * ring as f64 / (RINGS - 1) as f64;
        let angle = std::f64::consts::TAU * segment as f64 / SEGMENTS as f64;
        let radius = 0.4 + 0.1 * (3.0 * x).sin();
        (DVec3::new(x, radius * angle.cos(), radius * angle.sin()) + offset).as_vec3()
    };
    (0..RINGS).flat_map(|ring| (0..SEGMENTS).map(move |segment| point(ring, segment))).collect()
}

fn vertex(ring: usize, segment: usize) -> u32 {
    (ring * SEGMENTS + segment % SEGMENTS) as u32
}

/// Quads around, and one polygon of all segments at each end.
fn quads() -> Topology {
    let mut topology = Topology::empty();
    for ring in 0..RINGS - 1 {
        for s in 0..SEGMENTS {
            topology.push_face(&[vertex(ring, s), vertex(ring, s + 1), vertex(ring + 1, s + 1), vertex(ring + 1, s)]);
        }
    }
    topology.push_face(&(0..SEGMENTS).rev().map(|s| vertex(0, s)).collect::<Vec<_>>());
    topology.push_face(&(0..SEGMENTS).map(|s| vertex(RINGS - 1, s)).collect::<Vec<_>>());
    topology
}

/// Two UV sets with a seam along the tube, normals with a hard edge at the caps, colours, three materials taking
/// turns (one of them unused), one image.
fn seamed_surface() -> Surface {
    let topology = quads();
    let (mut uv, mut uv2, mut normals, mut colors) = Default::default();
    let mut face_materials = Vec::new();
    for (f, face) in topology.faces().enumerate() {
        let cap = face.len() > 4;
        for (c, &v) in face.iter().enumerate() {
            let (ring, s) = (v as usize / SEGMENTS, v as usize % SEGMENTS);
            // The last quad of a ring ends at u = 1, not at 0.
            let s_unrolled = if !cap && f % SEGMENTS == SEGMENTS - 1 && (c == 1 || c == 2) { SEGMENTS } else { s };
            let angle = std::f32::consts::TAU * s as f32 / SEGMENTS as f32;
            push(&mut uv, [s_unrolled as f32 / SEGMENTS as f32, ring as f32 / (RINGS - 1) as f32]);
            push(&mut uv2, [0.25 * s as f32, 0.5]);
            let sign = if ring == 0 { -1.0 } else { 1.0 };
            push(&mut normals, if cap { [sign, 0.0, 0.0] } else { [0.0, angle.cos(), angle.sin()] });
            push(&mut colors, [ring as f32 / RINGS as f32, 0.5, 1.0, 1.0]);
        }
        face_materials.push(if cap { 2 } else { u32::from(f / SEGMENTS % 3 == 1) * 2 });
    }
    uv.name = "TEXCOORD_0".into();
    uv2.name = "TEXCOORD_1".into();
    normals.name = "NORMAL".into();
    colors.name = "COLOR_0".into();
    let texture = |uv_set| Some(Texture { image: 0, uv_set, wrap: Default::default() });
    let material = |name: &str, textures| Material { name: name.into(), textures, ..Material::default() };
    Surface {
        topology,
        uv_sets: vec![uv, uv2],
        normals: Some(normals),
        tangents: None,
        colors: Some(colors),
        face_materials,
        materials: vec![
            material("skin", Textures { base_color: texture(0), normal: texture(1), ..Textures::default() }),
            material("unused", Textures::default()),
            Material { base_color: [0.9, 0.2, 0.1, 1.0], double_sided: true, ..material("bands", Textures::default()) },
        ],
        images: vec![Image { name: "dot".into(), mime: "image/png".into(), bytes: PNG.to_vec() }],
        ..Surface::default()
    }
}

fn push<const D: usize>(attribute: &mut CornerAttribute<D>, value: [f32; D]) {
    let index = attribute.values.iter().position(|v| *v == value).unwrap_or_else(|| {
        attribute.values.push(value);
        attribute.values.len() - 1
    });
    attribute.indices.push(index as u32);
}

/// One grey pixel.
const PNG: [u8; 67] = [
    0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 0x0D, 0x49, 0x48, 0x44, 0x52, 0, 0, 0, 1, 0, 0, 0, 1, 8,
    0, 0, 0, 0, 0x3A, 0x7E, 0x9B, 0x55, 0, 0, 0, 0x0A, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9C, 0x63, 0x68, 0, 0, 0, 0x82,
    0, 0x81, 0x77, 0xCD, 0x72, 0xB6, 0, 0, 0, 0, 0x49, 0x45, 0x4E, 0x44, 0xAE, 0x42, 0x60, 0x82,
];

/// One of each kind that a reader may treat differently.
pub fn all() -> Vec<Rig> {
    let far = DVec3::new(1000.0, -500.0, 800.0);
    let recipes = [
        Recipe::new("rigid", BoneKind::Rigid),
        Recipe::new("trs", BoneKind::Trs),
        Recipe::new("affine", BoneKind::Affine),
        Recipe { influences: 8, bones: 9, ..Recipe::new("influences8", BoneKind::Rigid) },
        Recipe { influences: 1, ..Recipe::new("influences1", BoneKind::Rigid) },
        Recipe { chained: true, ..Recipe::new("chain_rigid", BoneKind::Rigid) },
        Recipe { chained: true, ..Recipe::new("chain_trs", BoneKind::Trs) },
        Recipe { chained: true, ..Recipe::new("chain_affine", BoneKind::Affine) },
        Recipe { seams: true, ..Recipe::new("seams", BoneKind::Rigid) },
        Recipe { offset: far, ..Recipe::new("far", BoneKind::Rigid) },
        Recipe { offset: far, chained: true, ..Recipe::new("far_chain", BoneKind::Rigid) },
        Recipe { offset: far, ..Recipe::new("far_affine", BoneKind::Affine) },
        Recipe { bones: 300, ..Recipe::new("bones300", BoneKind::Rigid) },
    ];
    let mut rigs: Vec<Rig> = recipes.iter().map(Recipe::build).collect();
    rigs.push(still());
    rigs
}

/// Nothing moves.
pub fn still() -> Rig {
    let mut rig = Recipe::new("still", BoneKind::Rigid).build();
    rig.clips[0].posed_from_rest.fill(DAffine3::IDENTITY);
    rig
}
