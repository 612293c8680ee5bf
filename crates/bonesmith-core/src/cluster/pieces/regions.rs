//! Rigid regions of one connected component: the links of a robot, pieces that are welded to each other.
//!
//! A region is grown from a vertex whose neighbours move rigidly with it: a neighbour joins where the region's motion predicts it in
//! every frame. Soft surfaces have regions as well that are rigid within any tolerance, but the error rises gradually across their
//! border; between links it jumps. So a component is taken apart only if regions with sharp borders cover all of it. The first
//! region without one ends the work.

use glam::{DMat3, DVec3};

use crate::cluster::pieces::body::{Body, Form, Source};
use crate::mesh::topology::Adjacency;

/// Vertices of a component that are looked at before anything else, and the share of them that must have stiff edges enough.
const FIRST_LOOK: usize = 512;
const STIFF_SHARE: f64 = 0.5;

/// Change of a stiff edge, as a share of its length.
const STIFF: f64 = 1e-2;

/// How far a vertex may be from where its region puts it, in units of the seed's own error and at least and at most of the unit space.
const REACH: f64 = 8.0;
const REACH_RANGE: (f64, f64) = (1e-5, 1e-3);

/// Errors just outside of a region over those inside it.
const JUMP: f64 = 10.0;

/// Fewest vertices of a region.
const MIN_VERTICES: usize = 4;

/// Vertices of a region in the mean, at least.
const MEAN_VERTICES: usize = 8;

/// A component whose regions are looked for.
pub(crate) struct Component<'a> {
    pub source: Source<'a>,
    pub adjacency: &'a Adjacency,
    /// Its vertices.
    pub members: &'a [u32],
    /// All frames.
    pub frames: &'a [u32],
    /// A few of them, which are looked at first.
    pub probes: &'a [u32],
}

/// The motion of a region.
struct Track {
    rest: DVec3,
    /// [F] linear part and centre.
    poses: Vec<(DMat3, DVec3)>,
}

impl Track {
    fn new(body: &Body) -> Self {
        let mut poses = Vec::with_capacity(body.frames.len());
        body.follow(&Form::Rigid, |t, linear| {
            poses.push((*linear, body.frames[t].mean));
            true
        });
        Self { rest: body.rest, poses }
    }

    fn pick(&self, frames: &[u32]) -> Self {
        Self { rest: self.rest, poses: frames.iter().map(|&t| self.poses[t as usize]).collect() }
    }

    /// [n] largest distance of each vertex from where the track puts it; poses are those of `frames`.
    fn distances(&self, source: Source<'_>, members: &[u32], frames: &[u32]) -> Vec<f64> {
        let offsets: Vec<DVec3> = members.iter().map(|&i| source.rest(i) - self.rest).collect();
        let mut worst = vec![0f64; members.len()];
        source.read(members, frames, &mut |at, position| {
            let (linear, mean) = &self.poses[at];
            for ((&i, u), worst) in members.iter().zip(&offsets).zip(&mut worst) {
                *worst = worst.max((position(i) - (*linear * *u + *mean)).length_squared());
            }
        });
        worst.into_iter().map(f64::sqrt).collect()
    }
}

impl Component<'_> {
    /// Rigid regions that cover the component, each with sharp borders; `None` where there are none, or only one.
    pub fn regions(&self) -> Option<Vec<Vec<u32>>> {
        if self.members.len() < 2 * MEAN_VERTICES || !self.looks_stiff() {
            return None;
        }
        let seeds = self.seeds();
        let mut taken = vec![false; self.adjacency.len()];
        let (mut regions, mut covered): (Vec<Vec<u32>>, usize) = (Vec::new(), 0);
        for seed in seeds {
            if taken[seed[0] as usize] {
                continue;
            }
            let region = self.grow(seed, &taken)?;
            region.iter().for_each(|&i| taken[i as usize] = true);
            covered += region.len();
            regions.push(region);
            if regions.len() * MEAN_VERTICES > self.members.len() {
                return None;
            }
        }
        (covered == self.members.len() && regions.len() > 1).then_some(regions)
    }

    /// Whether many vertices have enough edges that keep their lengths in the probed frames.
    fn looks_stiff(&self) -> bool {
        let stride = self.members.len().div_ceil(FIRST_LOOK);
        let looked: Vec<u32> = self.members.iter().copied().step_by(stride).collect();
        let stiff = self.rings(&looked).iter().filter(|ring| ring.len() >= MIN_VERTICES).count();
        stiff as f64 >= STIFF_SHARE * looked.len() as f64
    }

    /// [n] some vertices, each with its neighbours along edges that keep their lengths in the probed frames.
    fn rings(&self, vertices: &[u32]) -> Vec<Vec<u32>> {
        let with_neighbours = |&i: &u32| [&[i], self.adjacency.of(i as usize)].concat();
        let mut rings: Vec<Vec<u32>> = vertices.iter().map(with_neighbours).collect();
        self.source.read(self.members, self.probes, &mut |_, position| {
            for ring in &mut rings {
                let (u, p) = (self.source.rest(ring[0]), position(ring[0]));
                ring.retain(|&k| {
                    let before = self.source.rest(k).distance(u);
                    (position(k).distance(p) - before).abs() <= STIFF * before + REACH_RANGE.0
                });
            }
        });
        rings
    }

    /// Stiff surroundings of vertices by how rigidly they move in the probed frames, best first.
    fn seeds(&self) -> Vec<Vec<u32>> {
        let error = |ring: &[u32]| {
            if ring.len() < MIN_VERTICES {
                return f64::INFINITY;
            }
            let body = Body::gather(self.source, ring, self.probes);
            body.total_error(&Form::Rigid) / body.count
        };
        let mut seeds: Vec<(f64, Vec<u32>)> =
            self.rings(self.members).into_iter().map(|ring| (error(&ring), ring)).collect();
        seeds.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        seeds.into_iter().map(|(_, ring)| ring).collect()
    }

    /// The region around a seed among vertices that are not taken; `None` where its border is not sharp.
    fn grow(&self, seed: Vec<u32>, taken: &[bool]) -> Option<Vec<u32>> {
        let free = |i: &u32| !taken[*i as usize];
        let mut region: Vec<u32> = seed.into_iter().filter(free).collect();
        if region.len() < MIN_VERTICES {
            return None;
        }
        let mut body = Body::gather(self.source, &region, self.frames);
        let reach = (REACH * body.errors(&Form::Rigid).1).clamp(REACH_RANGE.0, REACH_RANGE.1);
        let mut track = Track::new(&body);
        let mut seen: std::collections::BTreeSet<u32> = region.iter().copied().collect();
        let (mut outside, mut border) = (Vec::new(), region.clone());
        while !border.is_empty() {
            let mut next: Vec<u32> = border.iter().flat_map(|&i| self.adjacency.of(i as usize)).copied().collect();
            next.sort_unstable();
            next.dedup();
            next.retain(|i| seen.insert(*i));
            border = self.within(&track, &next, reach, &mut outside);
            border.retain(free);
            region.extend_from_slice(&border);
            if region.len() as f64 >= 2.0 * body.count {
                body = Body::gather(self.source, &region, self.frames);
                track = Track::new(&body);
            }
        }
        self.is_sharp(&region, outside).then_some(region)
    }

    /// Those of some vertices that a track predicts; distances of the others go to `outside`.
    fn within(&self, track: &Track, vertices: &[u32], reach: f64, outside: &mut Vec<f64>) -> Vec<u32> {
        let mut left = vertices.to_vec();
        for (frames, track) in [(self.probes, &track.pick(self.probes)), (self.frames, track)] {
            let distances = track.distances(self.source, &left, frames);
            outside.extend(distances.iter().copied().filter(|d| *d > reach));
            left = left.into_iter().zip(distances).filter(|(_, d)| *d <= reach).map(|(i, _)| i).collect();
        }
        left
    }

    /// Whether the error jumps at the border of a region, given the distances of the vertices just outside.
    fn is_sharp(&self, region: &[u32], mut outside: Vec<f64>) -> bool {
        let track = Track::new(&Body::gather(self.source, region, self.frames));
        let mut inside = track.distances(self.source, region, self.frames);
        let quantile = |values: &mut Vec<f64>, share: f64| {
            values.sort_by(f64::total_cmp);
            values.get(((values.len() - 1) as f64 * share) as usize).copied()
        };
        // Nothing outside: the rest of the component was taken before, across borders that were sharp.
        if outside.is_empty() {
            return true;
        }
        let (inside, outside) = (quantile(&mut inside, 0.9), quantile(&mut outside, 0.5));
        outside.unwrap_or(0.0) >= JUMP * inside.unwrap_or(0.0).max(0.2 * REACH_RANGE.0)
    }
}
