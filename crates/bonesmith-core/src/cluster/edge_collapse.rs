//! Rigid parts by merging neighbours [Schaefer2007 s.3, as described in Course2014 s.2.2].
//!
//! Every face is a cluster at first; the two neighbours whose union moves most rigidly are merged, again and again. The
//! rigid error of a cluster in one frame is `sum |v|^2 + sum |u|^2 - 2 tr(R^T H)` about its centres, with `R` the best
//! rotation, so only sums are kept and a merge adds them. Deviation: at most [`MAX_FRAMES`] frames decide.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use glam::{DMat3, DVec3};

use crate::cluster::labels::majority;
use crate::mesh::topology::Topology;
use crate::observer::{Cancelled, Check};
use crate::skinning::problem::Problem;
use crate::solve::transform::rotation_svd;

/// Most frames that decide about merging.
const MAX_FRAMES: usize = 16;

/// Clusters that are handled between two reports of progress.
const MERGES_AT_ONCE: usize = 1024;

/// Sums over the vertices of a cluster, corners counted by face.
#[derive(Clone)]
struct Sums {
    count: f64,
    u: DVec3,
    /// `sum |u|^2` in every frame plus `sum |v|^2`.
    squares: f64,
    /// [F] `sum v`.
    v: Vec<DVec3>,
    /// [F] `sum v u^T`.
    h: Vec<DMat3>,
}

impl Sums {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.u += other.u;
        self.squares += other.squares;
        self.v.iter_mut().zip(&other.v).for_each(|(a, b)| *a += *b);
        self.h.iter_mut().zip(&other.h).for_each(|(a, b)| *a += *b);
    }

    /// Squared error of the best rigid motion.
    fn error(&self) -> f64 {
        let mut error = self.squares;
        for (v, h) in self.v.iter().zip(&self.h) {
            let centred = *h - outer(*v, self.u) * (1.0 / self.count);
            error -= (v.length_squared() + self.u.length_squared()) / self.count;
            error -= 2.0 * rotation_svd(&centred).sigma.element_sum();
        }
        error.max(0.0)
    }
}

fn outer(v: DVec3, u: DVec3) -> DMat3 {
    DMat3::from_cols(v * u.x, v * u.y, v * u.z)
}

/// A possible merge; outdated when the version of a cluster has changed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Merge {
    /// Bits of the error: errors are not negative, so they sort as numbers do.
    error: u64,
    clusters: (u32, u32),
    versions: (u32, u32),
}

/// [N] cluster of each vertex, `None` where no face has it; about `count` clusters, more where parts do not touch.
pub(crate) fn collapse(
    problem: &Problem,
    topology: &Topology,
    count: usize,
    check: Check<'_>,
) -> Result<Vec<Option<u16>>, Cancelled> {
    let faces: Vec<&[u32]> = topology.faces().collect();
    let mut sums: Vec<Option<Sums>> = faces.iter().map(|face| Some(face_sums(problem, face))).collect();
    let mut neighbours = face_neighbours(&faces);
    let mut versions = vec![0u32; faces.len()];
    let mut parents: Vec<u32> = (0..faces.len() as u32).collect();
    let mut heap = BinaryHeap::new();
    for (a, around) in neighbours.iter().enumerate() {
        if a.is_multiple_of(MERGES_AT_ONCE) {
            check()?;
        }
        for &b in around.range(a as u32 + 1..) {
            heap.extend(merge(&sums, &versions, a as u32, b));
        }
    }
    let mut left = faces.len();
    while left > count.max(1) {
        let Some(Reverse(Merge { clusters: (a, b), versions: seen, .. })) = heap.pop() else { break };
        if seen != (versions[a as usize], versions[b as usize]) {
            continue;
        }
        let Some(gone) = sums[b as usize].take() else { continue };
        let Some(kept) = &mut sums[a as usize] else { continue };
        kept.add(&gone);
        versions[a as usize] += 1;
        versions[b as usize] += 1;
        parents[b as usize] = a;
        left -= 1;
        if left.is_multiple_of(MERGES_AT_ONCE) {
            check()?;
        }
        for c in std::mem::take(&mut neighbours[b as usize]) {
            neighbours[c as usize].remove(&b);
            if c != a {
                neighbours[c as usize].insert(a);
                neighbours[a as usize].insert(c);
            }
        }
        for &c in &neighbours[a as usize] {
            heap.extend(merge(&sums, &versions, a.min(c), a.max(c)));
        }
    }
    Ok(labels(problem.vertices(), &faces, &parents))
}

fn merge(sums: &[Option<Sums>], versions: &[u32], a: u32, b: u32) -> Option<Reverse<Merge>> {
    let (own, other) = (sums[a as usize].as_ref()?, sums[b as usize].as_ref()?);
    let mut both = own.clone();
    both.add(other);
    let error = both.error().to_bits();
    Some(Reverse(Merge { error, clusters: (a, b), versions: (versions[a as usize], versions[b as usize]) }))
}

fn face_sums(problem: &Problem, face: &[u32]) -> Sums {
    let f = problem.frames();
    let used = f.min(MAX_FRAMES);
    let mut sums =
        Sums { count: 0.0, u: DVec3::ZERO, squares: 0.0, v: vec![DVec3::ZERO; used], h: vec![DMat3::ZERO; used] };
    for &i in face {
        let u = problem.rest[i as usize];
        sums.count += 1.0;
        sums.u += u;
        for k in 0..used {
            let v = problem.position(i as usize, (2 * k + 1) * f / (2 * used));
            sums.squares += u.length_squared() + v.length_squared();
            sums.v[k] += v;
            sums.h[k] += outer(v, u);
        }
    }
    sums
}

/// Faces that share an edge.
fn face_neighbours(faces: &[&[u32]]) -> Vec<BTreeSet<u32>> {
    let mut of_edge: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for (f, face) in faces.iter().enumerate() {
        for (c, &a) in face.iter().enumerate() {
            let b = face[(c + 1) % face.len()];
            of_edge.entry((a.min(b), a.max(b))).or_default().push(f as u32);
        }
    }
    let mut neighbours = vec![BTreeSet::new(); faces.len()];
    for around in of_edge.values() {
        // A fan of many faces on one edge: each with the next is enough to connect them.
        for pair in around.windows(2).filter(|pair| pair[0] != pair[1]) {
            neighbours[pair[0] as usize].insert(pair[1]);
            neighbours[pair[1] as usize].insert(pair[0]);
        }
    }
    neighbours
}

/// The cluster of most faces of each vertex, numbered by first face.
fn labels(vertices: usize, faces: &[&[u32]], parents: &[u32]) -> Vec<Option<u16>> {
    let find = |mut f: u32| {
        while parents[f as usize] != f {
            f = parents[f as usize];
        }
        f
    };
    let mut numbers: BTreeMap<u32, u16> = BTreeMap::new();
    let numbered = faces.iter().enumerate().map(|(f, face)| {
        let next = numbers.len().min(usize::from(u16::MAX)) as u16;
        (face.iter().map(|&i| i as usize), *numbers.entry(find(f as u32)).or_insert(next))
    });
    majority(vertices, numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::synthetic::jointed_body;

    #[test]
    fn the_error_of_sums_is_that_of_the_best_rigid_motion() {
        let problem = Problem::new(&MeshSequence::try_from(jointed_body(1, 6, 1).sequence).unwrap());
        let members: Vec<u32> = (0..40).collect();
        let sums = face_sums(&problem, &members);
        let f = problem.frames();
        let mut direct = 0.0;
        for t in 0..f {
            let v = |i: u32| problem.position(i as usize, t);
            let u = |i: u32| problem.rest[i as usize];
            let n = members.len() as f64;
            let (cu, cv) =
                (members.iter().map(|&i| u(i)).sum::<DVec3>() / n, members.iter().map(|&i| v(i)).sum::<DVec3>() / n);
            let h: DMat3 = members.iter().map(|&i| outer(v(i) - cv, u(i) - cu)).sum();
            let r = crate::solve::transform::nearest_rotation(&h);
            direct += members.iter().map(|&i| (v(i) - cv).distance_squared(r * (u(i) - cu))).sum::<f64>();
        }
        assert!((sums.error() - direct).abs() < 1e-6 * direct.max(1.0), "{} {direct}", sums.error());
    }

    #[test]
    fn limbs_come_out_as_clusters() {
        let known = jointed_body(2, 12, 2);
        let sequence = MeshSequence::try_from(known.sequence).unwrap();
        let problem = Problem::new(&sequence);
        let labels = collapse(&problem, &sequence.surface().topology, 7, &mut || Ok(())).unwrap();
        // Vertices that hang on one true bone alone are in one cluster, mostly.
        for j in 0..7 {
            let own: Vec<u16> = (0..labels.len())
                .filter(|&i| known.rig.weights.of(i).next().is_some_and(|(bone, w)| bone == j && w > 0.999))
                .filter_map(|i| labels[i])
                .collect();
            let most = own.iter().map(|a| own.iter().filter(|b| *b == a).count()).max().unwrap_or(0);
            assert!(2 * most > own.len(), "bone {j}: {own:?}");
        }
    }
}
