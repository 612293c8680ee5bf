//! Which vertex of a cache is which vertex of a rig, where an exporter split, merged or reordered them.
//!
//! A program that bakes a rig into a cache may write a vertex once for each normal and texture coordinate at its place, or
//! merge such vertices, and may write objects in another order. The places stay the same. Each vertex of the rig takes the
//! nearest vertex of the cache in a pose that both have. Where several are equally near, such as on surfaces that touch, the
//! one counts whose neighbours are where those of the rig's vertex are.

use std::collections::HashMap;

use glam::{IVec3, Vec3};

use crate::deform;
use crate::mesh::{Adjacency, MeshSequence, unit_radius};
use crate::model::{Clip, Rig};
use crate::refit::resample::{self, Timing};

/// A vertex of the cache further away than this, as a share of the radius, is another vertex.
const TOLERANCE: f64 = 1e-3;
/// Distances that differ by less than this share of the radius are the same.
const SAME: f64 = 1e-5;

/// A mesh in one pose.
#[derive(Clone, Copy)]
pub struct Posed<'a> {
    /// [N] positions.
    pub positions: &'a [Vec3],
    /// Neighbours of each vertex.
    pub adjacency: &'a Adjacency,
}

/// The result of [`correspond`].
#[derive(Clone, Debug, PartialEq)]
pub struct Correspondence {
    /// [N of the rig] vertex of the cache.
    pub vertices: Vec<u32>,
    /// Vertices of the cache that are at no vertex of the rig.
    pub unused: usize,
    /// Maximum distance of a pair, as a share of the rig's radius.
    pub max_distance: f64,
}

/// Finds the vertex of `cache` for each vertex of `rig`; `None` if one of them has none.
pub fn correspond(rig: Posed<'_>, cache: Posed<'_>) -> Option<Correspondence> {
    let radius = unit_radius(rig.positions) as f32;
    let (tolerance, same) = (TOLERANCE as f32 * radius, SAME as f32 * radius);
    let grid = Grid::new(cache.positions, tolerance)?;
    let mut found = Correspondence { vertices: Vec::with_capacity(rig.positions.len()), unused: 0, max_distance: 0.0 };
    for (i, p) in rig.positions.iter().enumerate() {
        let near = grid.near(*p, tolerance);
        let least = near.iter().map(|&(_, d)| d).min_by(f32::total_cmp)?;
        let tied = near.iter().filter(|(_, d)| *d <= least + same);
        let agreement = |v: u32| neighbours_agree(rig, i, cache, v as usize, tolerance);
        // Lowest number first, so that later ones must be better.
        let mut best: Option<(f64, u32)> = None;
        for &(v, _) in tied {
            let score = agreement(v);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, v));
            }
        }
        found.vertices.push(best?.1);
        found.max_distance = found.max_distance.max(f64::from(least / radius));
    }
    let places = Grid::new(rig.positions, tolerance)?;
    found.unused = cache.positions.iter().filter(|p| places.near(**p, tolerance).is_empty()).count();
    Some(found)
}

/// A sequence in the vertices of a rig, with its faces, where a pose shows which vertex is which: the rest pose, or a pose of
/// the rig in one of `clips` in the first frame of the sequence. `own_rest` says whether the sequence's rest pose is more than
/// its first frame.
pub fn in_rig_order(
    rig: &Rig,
    clips: &[&Clip],
    sequence: &MeshSequence,
    own_rest: bool,
) -> Option<(MeshSequence, Correspondence)> {
    let (own, theirs) = (
        Adjacency::new(&rig.surface.topology, rig.vertex_count()),
        Adjacency::new(&sequence.surface().topology, sequence.vertex_count()),
    );
    let compare = |rig_pose: &[Vec3], cache: &[Vec3]| {
        let rig = Posed { positions: rig_pose, adjacency: &own };
        correspond(rig, Posed { positions: cache, adjacency: &theirs })
    };
    let first = &*sequence.frame(0);
    let at_rest = || own_rest.then(|| compare(&rig.rest, sequence.rest())).flatten();
    let found = at_rest().or_else(|| compare(&rig.rest, first)).or_else(|| {
        let posed = |pose: &[glam::DAffine3]| compare(&deform::lbs(&rig.rest, &rig.weights, pose), first);
        let in_clip = |clip: &&Clip| {
            let start = sequence.times_secs().first().copied().unwrap_or(0.0);
            // Times count from the first one: that is the clip's own start.
            let times = [clip.times_secs[0], start];
            let timed = resample::sample(rig, clip, &times, Timing::Seconds { offset: 0 });
            posed(&timed[rig.bone_count()..]).or_else(|| (0..clip.frame_count()).find_map(|t| posed(clip.frame(t))))
        };
        clips.iter().filter(|clip| clip.frame_count() > 0).find_map(in_clip)
    })?;
    let surface = (*rig.surface).clone();
    Some((sequence.in_order(&found.vertices, surface, own_rest).ok()?, found))
}

/// Share of the neighbours of vertex `v` of the cache that are at a neighbour of vertex `i` of the rig.
fn neighbours_agree(rig: Posed<'_>, i: usize, cache: Posed<'_>, v: usize, tolerance: f32) -> f64 {
    let around = cache.adjacency.of(v);
    let is_near = |n: &&u32| {
        let p = cache.positions[**n as usize];
        rig.adjacency.of(i).iter().any(|&m| rig.positions[m as usize].distance(p) <= tolerance)
    };
    around.iter().filter(is_near).count() as f64 / around.len().max(1) as f64
}

/// Points by cells of a grid.
struct Grid<'a> {
    points: &'a [Vec3],
    cell: f32,
    /// Points of each cell, rising.
    cells: HashMap<IVec3, Vec<u32>>,
}

impl<'a> Grid<'a> {
    /// `None` if cells cannot be numbered: points far away from each other, or no extent.
    fn new(points: &'a [Vec3], cell: f32) -> Option<Self> {
        let mut grid = Self { points, cell, cells: HashMap::new() };
        for (i, p) in points.iter().enumerate() {
            let place = (*p / cell).floor();
            if !(place.is_finite() && place.abs().max_element() < 1e9) {
                return None;
            }
            grid.cells.entry(place.as_ivec3()).or_default().push(i as u32);
        }
        Some(grid)
    }

    /// Points within `distance`, at most the size of a cell, of `p`, and how far they are.
    fn near(&self, p: Vec3, distance: f32) -> Vec<(u32, f32)> {
        let center = (p / self.cell).floor().as_ivec3();
        let mut found = Vec::new();
        for at in 0..27 {
            let offset = IVec3::new(at % 3 - 1, at / 3 % 3 - 1, at / 9 - 1);
            for &v in self.cells.get(&(center + offset)).into_iter().flatten() {
                let d = self.points[v as usize].distance(p);
                if d <= distance {
                    found.push((v, d));
                }
            }
        }
        found.sort_unstable_by_key(|(v, _)| *v);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::Topology;
    use crate::mesh::sequence::{RawFrame, RawSequence};
    use crate::solve::random::Random;
    use crate::synthetic::jointed_body;

    fn posed<'a>(positions: &'a [Vec3], adjacency: &'a Adjacency) -> Posed<'a> {
        Posed { positions, adjacency }
    }

    /// A mesh with its vertices written once for every third face, in another order; `origin` is where each came from.
    fn split(topology: &Topology, positions: &[Vec3]) -> (Topology, Vec<Vec3>, Vec<u32>) {
        let mut random = Random::new(7);
        let mut faces: Vec<Vec<u32>> = topology.faces().map(<[u32]>::to_vec).collect();
        let (mut number, mut origin) = (HashMap::new(), Vec::new());
        (1..faces.len()).rev().for_each(|at| faces.swap(at, (random.next() % (at as u64 + 1)) as usize));
        let mut out = Topology::empty();
        for (f, face) in faces.iter().enumerate() {
            let own = |v: &u32| {
                let next = number.len() as u32;
                *number.entry((*v, f % 3)).or_insert_with(|| {
                    origin.push(*v);
                    next
                })
            };
            out.push_face(&face.iter().map(own).collect::<Vec<_>>());
        }
        let moved = origin.iter().map(|&v| positions[v as usize]).collect();
        (out, moved, origin)
    }

    /// Split and shuffled vertices are found again, as a comparison of all pairs finds them; and merged ones the other way round.
    #[test]
    fn split_and_merged_vertices_are_found() {
        let known = jointed_body(4, 3, 2);
        let (topology, rest) = (&known.rig.surface.topology, &known.rig.rest);
        let (other, positions, origin) = split(topology, rest);
        assert!(positions.len() > rest.len());
        let (own, theirs) = (Adjacency::new(topology, rest.len()), Adjacency::new(&other, positions.len()));
        let found = correspond(posed(rest, &own), posed(&positions, &theirs)).unwrap();
        assert_eq!((found.unused, found.max_distance), (0, 0.0));
        for (i, &v) in found.vertices.iter().enumerate() {
            assert_eq!(origin[v as usize], i as u32);
            let nearest = positions.iter().map(|p| p.distance(rest[i])).fold(f32::INFINITY, f32::min);
            assert_eq!(positions[v as usize].distance(rest[i]), nearest);
        }
        let back = correspond(posed(&positions, &theirs), posed(rest, &own)).unwrap();
        assert_eq!(back.vertices, origin);
    }

    /// Two squares that touch: corners at the same places belong to their own square. Another mesh is no match; a part more is.
    #[test]
    fn surfaces_that_touch_stay_apart() {
        let square = |x: f32| [[x, 0., 0.], [x + 1., 0., 0.], [x + 1., 1., 0.], [x, 1., 0.]].map(Vec3::from);
        let mesh = |order: [u32; 2]| {
            let mut topology = Topology::empty();
            order.iter().for_each(|q| topology.push_face(&[4 * q, 4 * q + 1, 4 * q + 2, 4 * q + 3]));
            topology
        };
        let rest: Vec<Vec3> = square(0.0).into_iter().chain(square(1.0)).collect();
        let swapped: Vec<Vec3> = square(1.0).into_iter().chain(square(0.0)).collect();
        let adjacency = Adjacency::new(&mesh([0, 1]), 8);
        let found = correspond(posed(&rest, &adjacency), posed(&swapped, &adjacency)).unwrap();
        assert_eq!(found.vertices, [4, 5, 6, 7, 0, 1, 2, 3]);
        let more: Vec<Vec3> = swapped.iter().copied().chain([Vec3::splat(9.0)]).collect();
        let wider = Adjacency::new(&mesh([0, 1]), 9);
        assert_eq!(correspond(posed(&rest, &adjacency), posed(&more, &wider)).unwrap().unused, 1);
        let other: Vec<Vec3> = rest.iter().map(|p| *p * 1.01).collect();
        assert_eq!(correspond(posed(&rest, &adjacency), posed(&other, &adjacency)), None);
    }

    /// A cache of a rig with split vertices in another order, without a rest pose, from the middle of a clip: every frame is
    /// the rig's own.
    #[test]
    fn a_cache_is_put_into_the_rigs_order() {
        let rig = jointed_body(4, 6, 2).rig;
        let clip = &rig.clips[0];
        let frame = |t: usize| deform::lbs(&rig.rest, &rig.weights, clip.frame(t));
        let (topology, _, origin) = split(&rig.surface.topology, &rig.rest);
        let cache = |t: usize| RawFrame::from(origin.iter().map(|&v| frame(t)[v as usize]).collect::<Vec<_>>());
        let surface = crate::mesh::surface::Surface { topology, ..Default::default() };
        let raw = RawSequence { frames: (2..6).map(cache).collect(), surface, fps: 24.0, ..RawSequence::default() };
        let sequence = MeshSequence::try_from(raw).unwrap();
        assert!(in_rig_order(&rig, &[], &sequence, false).is_none(), "no pose in common");
        let (found, how) = in_rig_order(&rig, &[clip], &sequence, false).unwrap();
        assert_eq!((found.vertex_count(), how.unused), (rig.vertex_count(), 0));
        assert_eq!(found.times_secs(), sequence.times_secs());
        (0..4).for_each(|t| assert_eq!(*found.frame(t), *frame(t + 2)));
        // Between two keys, as a cache of another rate is: at the same time of the clip.
        let secs = 0.3 * clip.times_secs[1] + 0.7 * clip.times_secs[2];
        let times = [clip.times_secs[0], secs];
        let between = resample::sample(&rig, clip, &times, Timing::Seconds { offset: 0 });
        let pose = deform::lbs(&rig.rest, &rig.weights, &between[rig.bone_count()..]);
        let positions = origin.iter().map(|&v| pose[v as usize]).collect::<Vec<_>>();
        let surface = (**sequence.surface()).clone();
        let raw =
            RawSequence { frames: vec![positions.into()], times_secs: vec![secs], surface, ..RawSequence::default() };
        let (found, _) = in_rig_order(&rig, &[clip], &MeshSequence::try_from(raw).unwrap(), false).unwrap();
        assert_eq!(*found.frame(0), *pose);
    }
}
