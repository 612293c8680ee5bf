//! Parts of the surface: what a bone moves more than all others together, and which of it hangs together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use glam::DVec3;

use crate::mesh::Adjacency;
use crate::skinning::Skin;

/// Weight above which a vertex is part of a bone.
pub(super) const OWN: f64 = 0.5;

/// Vertices of the sample that a part has at least.
const MIN_PART: usize = 3;

/// A part that is smaller counts as this large, in units of the sphere.
const MIN_SIZE: f64 = 0.01;

/// The part of a bone: the vertices that move with it more than with all others, and their RMS distance from the middle.
pub(super) struct Part {
    members: Vec<usize>,
    pub size: f64,
}

impl Part {
    /// [B] the parts of all bones; `None` where too few vertices are left to a bone.
    pub fn all(skin: &Skin, bones: usize) -> Vec<Option<Self>> {
        let mut members = vec![Vec::new(); bones];
        for i in 0..skin.rest.len() {
            if let Some((j, _)) = skin.of(i).find(|(_, w)| *w > OWN) {
                members[j].push(i);
            }
        }
        let part = |members: Vec<usize>| {
            let middle = members.iter().map(|&i| skin.rest[i]).sum::<DVec3>() / members.len().max(1) as f64;
            let spread = members.iter().map(|&i| skin.rest[i].distance_squared(middle)).sum::<f64>();
            let size = (spread / members.len().max(1) as f64).sqrt().max(MIN_SIZE);
            (members.len() >= MIN_PART).then_some(Self { members, size })
        };
        members.into_iter().map(part).collect()
    }

    /// Mean squared error of its vertices; `errors` [N] are sums over frames.
    pub fn error(&self, errors: &[f32], frames: usize) -> f64 {
        let sum: f64 = self.members.iter().map(|&i| f64::from(errors[i])).sum();
        sum / (self.members.len() * frames) as f64
    }
}

/// [P] connected pieces of the parts of all bones, with their bones; those of fewer than [`MIN_PART`] vertices are left out.
pub(super) fn pieces(skin: &Skin, near: &Adjacency) -> Vec<(usize, Vec<usize>)> {
    let owner = |i: usize| skin.of(i).find(|(_, w)| *w > OWN).map(|(j, _)| j);
    let owners: Vec<Option<usize>> = (0..skin.rest.len()).map(owner).collect();
    let (label, count) = near.components_where(|i, k| owners[i].is_some() && owners[i] == owners[k]);
    let mut members = vec![Vec::new(); count];
    label.iter().enumerate().for_each(|(i, &piece)| members[piece as usize].push(i));
    let owned = |members: Vec<usize>| owners[members[0]].map(|j| (j, members));
    members.into_iter().filter(|members| members.len() >= MIN_PART).filter_map(owned).collect()
}

/// Pieces that do not touch others of the same bone on the same surface: those which should be bones of their own. The largest
/// of a bone is not among them.
pub(super) fn apart(skin: &Skin, near: &Adjacency) -> Vec<(usize, Vec<usize>)> {
    let surface = near.components().0;
    let mut all = pieces(skin, near);
    all.sort_by(|x, y| x.0.cmp(&y.0).then(y.1.len().cmp(&x.1.len())).then(x.1.cmp(&y.1)));
    let mut seen: Vec<(usize, u32)> = Vec::new();
    let mut out = Vec::new();
    for (j, members) in all {
        let place = (j, surface[members[0]]);
        match seen.contains(&place) {
            true => out.push((j, members)),
            false => seen.push(place),
        }
    }
    out
}

/// [N] which of some sets of vertices is nearest along the surface; `None` where none can be reached.
pub(super) fn nearest_set(rest: &[DVec3], near: &Adjacency, sets: &[&[usize]]) -> Vec<Option<usize>> {
    let mut label = vec![None; rest.len()];
    let mut queue = BinaryHeap::new();
    for (set, members) in sets.iter().enumerate() {
        members.iter().for_each(|&i| queue.push(Reverse((0u64, set, i))));
    }
    while let Some(Reverse((distance, set, i))) = queue.pop() {
        if label[i].is_some() {
            continue;
        }
        label[i] = Some(set);
        for &k in near.of(i) {
            let k = k as usize;
            if label[k].is_none() {
                // Bits of floats that are not negative are ordered like the floats.
                let farther = f64::from_bits(distance) + rest[i].distance(rest[k]);
                queue.push(Reverse((farther.to_bits(), set, k)));
            }
        }
    }
    label
}
