//! Instances that move: meshes of a scene that are one mesh several times, each with bones of its own.

use bonesmith_core::{Rig, Surface};
use glam::{DAffine3, DMat3, DVec3, Vec3, Vec4};

use crate::merge::{turned, turned_tangent};
use crate::parts::{PartMesh, Places};

/// Vertices of instances are in the same place within this share of the mesh and what float32 rounds, weights within it.
const SAME: f64 = 1e-5;
/// Steps of float32 that a coordinate may be off.
const STEPS: f64 = 4.0;
/// A mesh whose second moments have a determinant below this share of their trace cubed is flat.
const FLAT: f64 = 1e-9;

/// A mesh that is another instance of an earlier one and hangs on its bones in the same way.
pub(crate) struct Twin {
    /// The earlier mesh.
    pub of: usize,
    /// Where a vertex of the earlier mesh is in this one.
    pub place: DAffine3,
    /// [B] the bone in place of each bone of the earlier mesh.
    bones: Vec<Option<usize>>,
}

/// [meshes] those that move and are the same as an earlier mesh but for their place and their bones. `rig` is relative to `origin`; `may` says which meshes
/// may be shared.
pub(crate) fn twins(
    rig: &Rig,
    meshes: &[PartMesh],
    places: &Places,
    origin: Option<DVec3>,
    may: impl Fn(usize) -> bool,
) -> Vec<Option<Twin>> {
    let parts = &rig.surface.parts.meshes;
    let base = DAffine3::from_translation(origin.unwrap_or(DVec3::ZERO));
    let twin = |at: usize| {
        let of = parts[at].instance_of?;
        // The earlier mesh may be an instance itself, with the bones of another.
        let possible = parts[of].instance_of.is_none() && [at, of].iter().all(|&m| places.still[m].is_none() && may(m));
        if !possible {
            return None;
        }
        // Nodes of meshes with skins may be anywhere: then their bones or their vertices say where they are.
        let world = |mesh: usize| rig.surface.parts.nodes[parts[mesh].node].world_from_node;
        let by_nodes = || Some(base.inverse() * world(at) * world(of).inverse() * base);
        let first = |mesh: usize| Some(meshes[mesh].vertices.clone().next().and_then(|i| rig.weights.of(i).next())?.0);
        let bind = |mesh: usize| Some(rig.bones[first(mesh)?].world_from_bind);
        let by_bones = || Some(bind(at)? * bind(of)?.inverse());
        let by_vertices = || nearest_place(&meshes[of].rest, &meshes[at].rest);
        let places: [&dyn Fn() -> Option<DAffine3>; 3] = [&by_nodes, &by_bones, &by_vertices];
        places.into_iter().find_map(|place| Twin::new(rig, meshes, of, at, place()?))
    };
    (0..meshes.len()).map(twin).collect()
}

/// The affine map that takes the vertices of a mesh nearest to those of another; `None` for flat meshes, and for others.
fn nearest_place(from: &[Vec3], to: &[Vec3]) -> Option<DAffine3> {
    if from.len() != to.len() || from.is_empty() {
        return None;
    }
    let middle = |points: &[Vec3]| points.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / points.len() as f64;
    let (a, b) = (middle(from), middle(to));
    let (mut own, mut both) = (DMat3::ZERO, DMat3::ZERO);
    for (p, q) in from.iter().zip(to) {
        let (p, q) = (p.as_dvec3() - a, q.as_dvec3() - b);
        own += DMat3::from_cols(p * p.x, p * p.y, p * p.z);
        both += DMat3::from_cols(q * p.x, q * p.y, q * p.z);
    }
    let spread = own.x_axis.x + own.y_axis.y + own.z_axis.z;
    let linear = both * own.inverse();
    let flat = own.determinant() <= FLAT * spread.powi(3);
    (!flat && linear.is_finite()).then(|| DAffine3::from_mat3_translation(linear, b - linear * a))
}

impl Twin {
    /// `None` where the two differ in more than their place and their bones.
    fn new(rig: &Rig, meshes: &[PartMesh], of: usize, at: usize, place: DAffine3) -> Option<Self> {
        let (first, second) = (&meshes[of], &meshes[at]);
        let bounds = |points: &[Vec3]| {
            points.iter().fold((Vec3::INFINITY, Vec3::NEG_INFINITY), |(low, high), p| (low.min(*p), high.max(*p)))
        };
        let (low, high) = bounds(&second.rest);
        let size = f64::from((high - low).max_element());
        let largest = first.rest.iter().chain(&second.rest).map(|p| p.abs().max_element()).fold(0.0f32, f32::max);
        let most = SAME * size + STEPS * f64::from(f32::EPSILON) * f64::from(largest);
        let near = |(a, b): (&Vec3, &Vec3)| place.transform_point3(a.as_dvec3()).distance(b.as_dvec3()) <= most;
        let same = first.rest.len() == second.rest.len()
            && place.matrix3.determinant() > 0.0
            && first.rest.iter().zip(&second.rest).all(near)
            && same_surface(&first.surface, &second.surface, place);
        if !same {
            return None;
        }
        let (mut bones, mut taken) = (vec![None; rig.bone_count()], vec![false; rig.bone_count()]);
        for i in 0..first.rest.len() {
            if first.weights.of(i).count() != second.weights.of(i).count() {
                return None;
            }
            for ((from, w), (to, v)) in first.weights.of(i).zip(second.weights.of(i)) {
                let known = *bones[from].get_or_insert(to);
                if known != to || f64::from((w - v).abs()) > SAME {
                    return None;
                }
            }
        }
        // Each bone stands for one other: also those that no vertex of the earlier mesh follows, which stay.
        let twin = Self { of, place, bones };
        let every = first.weights.usage(rig.bone_count());
        for j in (0..rig.bone_count()).filter(|&j| every[j] > 0) {
            if std::mem::replace(&mut taken[twin.bone(j)], true) {
                return None;
            }
        }
        Some(twin)
    }

    /// The bone in place of one of the earlier mesh.
    pub fn bone(&self, j: usize) -> usize {
        self.bones[j].unwrap_or(j)
    }
}

/// Whether two meshes that do not move are the same, each in the space of its node.
pub(crate) fn same_mesh(a: &PartMesh, b: &PartMesh) -> bool {
    let size = a.rest.iter().map(|p| p.abs().max_element()).fold(0.0f32, f32::max);
    let near = |(p, q): (&Vec3, &Vec3)| f64::from(p.distance(*q)) <= SAME * f64::from(size);
    a.rest.len() == b.rest.len()
        && a.rest.iter().zip(&b.rest).all(near)
        && same_surface(&a.surface, &b.surface, DAffine3::IDENTITY)
}

/// Whether two meshes have the same faces, and the same on them; the second is moved by `place`.
fn same_surface(a: &Surface, b: &Surface, place: DAffine3) -> bool {
    let turn = |n: &[f32; 3]| Vec3::from_array(turned(*n, place.matrix3));
    let normals = match (&a.normals, &b.normals) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let near = |(x, y): (&u32, &u32)| {
                turn(&a.values[*x as usize]).distance(Vec3::from_array(b.values[*y as usize])) < 1e-3
            };
            a.indices.len() == b.indices.len() && a.indices.iter().zip(&b.indices).all(near)
        }
        _ => false,
    };
    let tangents = match (&a.tangents, &b.tangents) {
        (None, None) => true,
        (Some(a), Some(b)) => {
            let near = |(x, y): (&u32, &u32)| {
                let moved = turned_tangent(a.values[*x as usize], place.matrix3);
                Vec4::from_array(moved).distance(Vec4::from_array(b.values[*y as usize])) < 1e-3
            };
            a.indices.len() == b.indices.len() && a.indices.iter().zip(&b.indices).all(near)
        }
        _ => false,
    };
    normals
        && tangents
        && a.topology == b.topology
        && a.face_materials == b.face_materials
        && a.uv_sets == b.uv_sets
        && a.colors == b.colors
}
