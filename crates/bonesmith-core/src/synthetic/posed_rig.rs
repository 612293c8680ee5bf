//! A known rig and its animation: what a fit should find again.

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::ops::Range;
use std::sync::Arc;

use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};

use crate::deform::lbs;
use crate::mesh::sequence::RawSequence;
use crate::mesh::surface::Surface;
use crate::mesh::topology::Topology;
use crate::model::rig::{Bone, BoneKind, Clip, Rig};
use crate::model::weights::SparseWeights;
use crate::solve::random::Random;
use crate::synthetic::mesh::frame;

/// Parameters of [`posed_rig`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PosedRigParams {
    /// B, at least 1.
    pub bones: usize,
    /// K: largest number of influences per vertex, at least 1.
    pub influences: usize,
    /// What a bone's transform may do.
    pub kind: BoneKind,
    /// F.
    pub frames: usize,
    /// How far a bone reaches, over the distance between bones: 0.2 is nearly rigid pieces, 0.5 a soft blend all over.
    pub softness: f64,
    /// Cells across a limb, at least 1; the mesh has about 65 times its square vertices.
    pub detail: usize,
}

impl Default for PosedRigParams {
    fn default() -> Self {
        Self { bones: 6, influences: 4, kind: BoneKind::Rigid, frames: 24, softness: 0.3, detail: 3 }
    }
}

/// A rig and the animation it makes.
#[derive(Clone, Debug)]
pub struct PosedRig {
    /// The truth.
    pub rig: Rig,
    /// Its first clip, baked: float32 positions, the rig's rest pose.
    pub sequence: RawSequence,
}

/// A branching body of quads with `params.bones` bones at random places, weights that fall off smoothly with
/// distance, and a smooth random motion of each bone. The same seed gives the same rig.
pub fn posed_rig(seed: u64, params: &PosedRigParams) -> PosedRig {
    let mut random = Random::new(seed);
    let (rest, topology) = branching_body(params.detail.max(1));
    let centers = spread_centers(&rest, params.bones.max(1), &mut random);
    let weights = smooth_weights(&rest, &centers, params);
    let bones: Vec<Bone> = centers
        .iter()
        .enumerate()
        .map(|(j, center)| Bone {
            name: format!("bone_{j:03}"),
            parent: None,
            world_from_bind: DAffine3::from_rotation_translation(random.rotation(), *center),
            tip: None,
        })
        .collect();
    let motions: Vec<Motion> = bones.iter().map(|_| Motion::new(&mut random)).collect();
    let mut posed_from_rest = Vec::with_capacity(params.frames * bones.len());
    for t in 0..params.frames {
        let phase = TAU * t as f64 / params.frames as f64;
        let transform = |(bone, motion): (&Bone, &Motion)| motion.posed_from_rest(bone, phase, params.kind);
        posed_from_rest.extend(bones.iter().zip(&motions).map(transform));
    }
    let clip = clip("known", 30.0, params.frames, posed_from_rest);
    PosedRig::new(Rig { kind: params.kind, ..rig("posed_rig", (rest, topology), weights, bones, vec![clip]) })
}

/// A rig with rigid bones and a bare surface.
pub(super) fn rig(
    name: &str,
    (rest, topology): (Vec<Vec3>, Topology),
    weights: SparseWeights,
    bones: Vec<Bone>,
    clips: Vec<Clip>,
) -> Rig {
    let (name, surface) = (name.to_owned(), Arc::new(Surface::bare(topology)));
    let rig = Rig { name, rest, surface, weights, bones, kind: BoneKind::Rigid, clips, params_json: String::new() };
    debug_assert_eq!(rig.check(), Ok(()));
    rig
}

/// A clip of [F, B] transforms.
pub(super) fn clip(name: &str, fps: f64, frames: usize, posed_from_rest: Vec<DAffine3>) -> Clip {
    Clip { name: name.into(), times_secs: (0..frames).map(|t| t as f64 / fps).collect(), posed_from_rest }
}

impl PosedRig {
    /// The first clip, baked.
    pub(super) fn new(rig: Rig) -> Self {
        let clip = &rig.clips[0];
        let sequence = RawSequence {
            name: rig.name.clone(),
            rest: Some(frame(rig.rest.clone())),
            frames: (0..clip.frame_count()).map(|t| frame(lbs(&rig.rest, &rig.weights, clip.frame(t)))).collect(),
            times_secs: clip.times_secs.clone(),
            fps: 30.0,
            surface: (*rig.surface).clone(),
            ..RawSequence::default()
        };
        Self { rig, sequence }
    }
}

/// Amplitudes and phases of one bone's motion: two sines each for turning, moving and stretching.
struct Motion {
    turn: [(DVec3, f64); 2],
    shift: [(DVec3, f64); 2],
    stretch: [(DMat3, f64); 2],
}

impl Motion {
    fn new(random: &mut Random) -> Self {
        let mut vector = |scale: f64| (random.vector() * scale, random.unit() * TAU);
        let (turn, shift) = ([vector(0.5), vector(0.25)], [vector(0.4), vector(0.2)]);
        let mut matrix = |scale: f64| {
            let columns = [random.vector(), random.vector(), random.vector()];
            (DMat3::from_cols(columns[0], columns[1], columns[2]) * scale, random.unit() * TAU)
        };
        Self { turn, shift, stretch: [matrix(0.2), matrix(0.1)] }
    }

    /// posed_from_rest of `bone`: turns and stretches about its own place and axes, then shifts.
    fn posed_from_rest(&self, bone: &Bone, phase: f64, kind: BoneKind) -> DAffine3 {
        let wave = |k: usize, offset: f64| ((k + 1) as f64 * phase + offset).sin();
        let sum = |parts: &[(DVec3, f64); 2]| parts[0].0 * wave(0, parts[0].1) + parts[1].0 * wave(1, parts[1].1);
        let stretch = self.stretch[0].0 * wave(0, self.stretch[0].1) + self.stretch[1].0 * wave(1, self.stretch[1].1);
        let rotation = DMat3::from_quat(DQuat::from_scaled_axis(sum(&self.turn)));
        let in_bind = match kind {
            BoneKind::Rigid => rotation,
            BoneKind::Trs => {
                let scale = DVec3::new(stretch.x_axis.x, stretch.y_axis.y, stretch.z_axis.z);
                rotation * DMat3::from_diagonal(DVec3::ONE + scale)
            }
            BoneKind::Affine => rotation * (DMat3::IDENTITY + stretch),
        };
        let shift = DAffine3::from_translation(sum(&self.shift));
        shift * bone.world_from_bind * DAffine3::from_mat3(in_bind) * bone.world_from_bind.inverse()
    }
}

/// A trunk with two arms on its sides, as the skin of small cubes, gently warped: connected, closed, branching.
pub(super) fn branching_body(detail: usize) -> (Vec<Vec3>, Topology) {
    let c = detail as i32;
    let solid = |[x, y, z]: [i32; 3]| {
        let inside = |v: i32, low: i32, high: i32| (low * c..high * c).contains(&v);
        inside(z, 0, 1) && (inside(x, 0, 1) && inside(y, 0, 8) || inside(x, -4, 5) && inside(y, 5, 6))
    };
    let place = |cell: [i32; 3]| warped(cell.map(|v| f64::from(v) / f64::from(c)));
    skin_of_cubes([-4 * c..5 * c, 0..8 * c, 0..c], solid, place)
}

/// The skin of all solid cubes within some ranges of x, y and z: connected where cubes are.
pub(super) fn skin_of_cubes(
    [xs, ys, zs]: [Range<i32>; 3],
    solid: impl Fn([i32; 3]) -> bool,
    place: impl Fn([i32; 3]) -> Vec3,
) -> (Vec<Vec3>, Topology) {
    let mut ids = BTreeMap::new();
    let mut rest = Vec::new();
    let mut topology = Topology::empty();
    for y in ys {
        for x in xs.clone() {
            for z in zs.clone() {
                if !solid([x, y, z]) {
                    continue;
                }
                for (normal, square) in CUBE_SIDES {
                    if solid([x + normal[0], y + normal[1], z + normal[2]]) {
                        continue;
                    }
                    let corners = square.map(|[dx, dy, dz]| {
                        let cell = [x + dx, y + dy, z + dz];
                        *ids.entry(cell).or_insert_with(|| {
                            rest.push(place(cell));
                            rest.len() as u32 - 1
                        })
                    });
                    topology.push_face(&corners);
                }
            }
        }
    }
    (rest, topology)
}

/// Each side of a cube: where its neighbour is, and its corners seen from outside.
const CUBE_SIDES: [([i32; 3], [[i32; 3]; 4]); 6] = [
    ([1, 0, 0], [[1, 0, 0], [1, 1, 0], [1, 1, 1], [1, 0, 1]]),
    ([-1, 0, 0], [[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 1, 0]]),
    ([0, 1, 0], [[0, 1, 0], [0, 1, 1], [1, 1, 1], [1, 1, 0]]),
    ([0, -1, 0], [[0, 0, 0], [1, 0, 0], [1, 0, 1], [0, 0, 1]]),
    ([0, 0, 1], [[0, 0, 1], [1, 0, 1], [1, 1, 1], [0, 1, 1]]),
    ([0, 0, -1], [[0, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0]]),
];

/// No two parts of the body alike.
fn warped([x, y, z]: [f64; 3]) -> Vec3 {
    let p =
        DVec3::new(x + 0.12 * (1.3 * y + z).sin(), y + 0.10 * (0.9 * x).cos(), z + 0.15 * (0.8 * x + 0.6 * y).sin());
    p.as_vec3()
}

/// A random vertex, then always the one farthest from those chosen.
fn spread_centers(rest: &[Vec3], bones: usize, random: &mut Random) -> Vec<DVec3> {
    let mut chosen = vec![rest[(random.next() % rest.len() as u64) as usize].as_dvec3()];
    while chosen.len() < bones {
        let distance = |p: &Vec3| chosen.iter().map(|c| c.distance_squared(p.as_dvec3())).fold(f64::INFINITY, f64::min);
        let far = rest.iter().max_by(|a, b| distance(a).total_cmp(&distance(b)));
        chosen.push(far.copied().unwrap_or_default().as_dvec3());
    }
    chosen
}

/// Gaussians around the bones.
fn smooth_weights(rest: &[Vec3], centers: &[DVec3], params: &PosedRigParams) -> SparseWeights {
    let nearest = |j: usize| {
        let others = centers.iter().enumerate().filter(|(other, _)| *other != j);
        others.map(|(_, c)| c.distance(centers[j])).fold(f64::INFINITY, f64::min)
    };
    let spacing = (0..centers.len()).map(nearest).filter(|d| d.is_finite()).fold(0.0, f64::max);
    let width = (params.softness * spacing).max(1e-3);
    let mut weights = SparseWeights::new(rest.len(), params.influences.max(1));
    for (i, p) in rest.iter().enumerate() {
        let closest = centers.iter().map(|c| c.distance_squared(p.as_dvec3())).fold(f64::INFINITY, f64::min);
        // Relative to the closest, so that far vertices do not underflow to nothing.
        let weight = |c: &DVec3| (-(c.distance_squared(p.as_dvec3()) - closest) / (2.0 * width * width)).exp();
        let all: Vec<(usize, f64)> = centers.iter().map(weight).enumerate().filter(|(_, w)| *w > 1e-3).collect();
        weights.set(i, &all);
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::mesh::topology::Adjacency;
    use crate::metrics::evaluate;
    use crate::solve::transform::Trs;

    #[test]
    fn the_rig_is_sound_and_makes_its_sequence() {
        for kind in [BoneKind::Rigid, BoneKind::Trs, BoneKind::Affine] {
            let known = posed_rig(7, &PosedRigParams { kind, ..PosedRigParams::default() });
            assert_eq!(known.rig.check(), Ok(()));
            assert_eq!(known.rig.bone_count(), 6);
            assert!(known.rig.weights.max_influences() > 1);
            let sequence = MeshSequence::try_from(known.sequence).unwrap();
            assert_eq!(evaluate(&known.rig, 0, &sequence).unwrap().e_rms, 0.0);
            let (first, middle) = (sequence.frame(0), sequence.frame(12));
            assert!(first.iter().zip(middle.iter()).any(|(a, b)| a.distance(*b) > 0.2), "it moves");
        }
    }

    #[test]
    fn bones_do_what_their_kind_allows() {
        let transforms = |kind| posed_rig(3, &PosedRigParams { kind, ..PosedRigParams::default() }).rig;
        let rigid = transforms(BoneKind::Rigid);
        let scale = |m: &DAffine3| Trs::from_affine(*m, 1e-9).map(|trs| trs.scale);
        assert!(
            rigid.clips[0].posed_from_rest.iter().all(|m| scale(m).is_some_and(|s| s.abs_diff_eq(DVec3::ONE, 1e-9)))
        );
        // Scale along the bone's own axes: orthogonal columns seen from the bind frame, and not all 1.
        let trs = transforms(BoneKind::Trs);
        let in_bind =
            |rig: &Rig, at: usize| rig.clips[0].posed_from_rest[at] * rig.bones[at % rig.bone_count()].world_from_bind;
        assert!((0..24 * 6).all(|at| scale(&in_bind(&trs, at)).is_some()));
        assert!((0..24 * 6).any(|at| scale(&in_bind(&trs, at)).is_some_and(|s| !s.abs_diff_eq(DVec3::ONE, 0.05))));
        let affine = transforms(BoneKind::Affine);
        assert!((0..24 * 6).any(|at| scale(&in_bind(&affine, at)).is_none()));
    }

    #[test]
    fn the_body_is_one_closed_piece() {
        let (rest, topology) = branching_body(2);
        assert_eq!(topology.check(rest.len()), Ok(()));
        assert_eq!(Adjacency::new(&topology, rest.len()).components().1, 1);
        let mut edges: BTreeMap<(u32, u32), i32> = BTreeMap::new();
        for face in topology.faces() {
            for (c, &a) in face.iter().enumerate() {
                let b = face[(c + 1) % face.len()];
                *edges.entry((a.min(b), a.max(b))).or_default() += if a < b { 1 } else { -1 };
            }
        }
        assert!(edges.values().all(|&sum| sum == 0), "every edge is used once each way");
    }

    #[test]
    fn the_seed_decides() {
        let rest_pose = |seed| posed_rig(seed, &PosedRigParams::default()).sequence.frames[5].positions.clone();
        assert_eq!(rest_pose(1), rest_pose(1));
        assert_ne!(rest_pose(1), rest_pose(2));
    }
}
