//! Connected components, with vertices that lie on each other in all frames as one: files split vertices at seams and hard edges.

use glam::Vec3;

use crate::cluster::pieces::body::Source;
use crate::mesh::topology::{Adjacency, Topology};

/// The components of a mesh.
pub(crate) struct Components {
    /// Neighbours, of the first of each set of twins only.
    pub adjacency: Adjacency,
    /// [N] the first vertex that lies on this one in all frames.
    first: Vec<u32>,
    /// [components + 1] starts in `members`.
    starts: Vec<u32>,
    /// Vertices of one component after another, ascending.
    members: Vec<u32>,
}

impl Components {
    pub fn new(source: Source<'_>, topology: &Topology) -> Self {
        let first = twins(source);
        let counts: Vec<u32> = topology.faces().map(|face| face.len() as u32).collect();
        let corners = topology.corners().iter().map(|&i| first[i as usize]).collect();
        let adjacency = Adjacency::new(&Topology::from_counts(&counts, corners), first.len());
        let (labels, count) = adjacency.components();
        let label = |i: usize| labels[first[i] as usize] as usize;
        let mut starts = vec![0u32; count + 1];
        (0..first.len()).for_each(|i| starts[label(i) + 1] += 1);
        (0..count).for_each(|c| starts[c + 1] += starts[c]);
        let (mut next, mut members) = (starts.clone(), vec![0; first.len()]);
        for i in 0..first.len() {
            let at = &mut next[label(i)];
            members[*at as usize] = i as u32;
            *at += 1;
        }
        Self { adjacency, first, starts, members }
    }

    /// How many; a twin leaves an empty one where it would have been alone.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Vertices of a component, ascending.
    pub fn of(&self, c: usize) -> &[u32] {
        &self.members[self.starts[c] as usize..self.starts[c + 1] as usize]
    }

    /// Its vertices without twins.
    pub fn distinct(&self, c: usize) -> Vec<u32> {
        self.of(c).iter().copied().filter(|&i| self.first[i as usize] == i).collect()
    }

    /// Some of its distinct vertices and their twins, ascending.
    pub fn with_twins(&self, c: usize, distinct: &[u32]) -> Vec<u32> {
        let mut sorted = distinct.to_vec();
        sorted.sort_unstable();
        let is_in = |i: &u32| sorted.binary_search(&self.first[*i as usize]).is_ok();
        self.of(c).iter().copied().filter(is_in).collect()
    }
}

/// [N] the lowest vertex that lies on each vertex in the rest pose and in all frames.
fn twins(source: Source<'_>) -> Vec<u32> {
    let n = source.rest.len();
    let bits = |p: Vec3| (p + Vec3::ZERO).to_array().map(f32::to_bits);
    let mut first: Vec<u32> = (0..n as u32).collect();
    let mut order = first.clone();
    let keys: Vec<[u32; 3]> = source.rest.iter().map(|p| bits(*p)).collect();
    // The last frame, then the others: pieces that touch in the rest pose have parted there.
    let count = source.frames.frame_count() as u32;
    let mut last: Vec<[u32; 3]> = Vec::new();
    source.frames.read(&[count - 1], 0..n, &mut |_, positions| last = positions.iter().map(|p| bits(*p)).collect());
    let key = |i: u32| (keys[i as usize], last[i as usize]);
    order.sort_unstable_by_key(|&i| (key(i), i));
    let mut pairs: Vec<(u32, u32)> = Vec::new();
    for group in order.chunk_by(|&a, &b| key(a) == key(b)) {
        pairs.extend(group[1..].iter().map(|&i| (group[0], i)));
    }
    let frames: Vec<u32> = (0..count - 1).collect();
    if !pairs.is_empty() {
        source.frames.read(&frames, 0..n, &mut |_, positions| {
            pairs.retain(|&(head, i)| positions[head as usize] == positions[i as usize]);
        });
    }
    pairs.into_iter().for_each(|(head, i)| first[i as usize] = head);
    first
}
