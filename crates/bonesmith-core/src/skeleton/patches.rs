//! The over-complete start: rigid clusters, cut into connected patches [Le2014 s.3.4].

use std::collections::BTreeMap;

use crate::cluster::split;
use crate::mesh::topology::Adjacency;
use crate::observer::Cancelled;
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;

/// Patches smaller than this share of the vertices are merged into their neighbours.
const MIN_PATCH: f64 = 2e-3;

/// Rigid bones for connected patches: their motion, and the bone of every vertex.
///
/// `problem` has all vertices. Without faces clusters stay as they are: nothing connects or separates vertices.
pub(super) fn patches(
    problem: &Problem,
    adjacency: &Adjacency,
    clusters: usize,
    run: &mut Run<'_>,
) -> Result<(Motion, Vec<u16>), Cancelled> {
    let (motion, labels) = split::split(problem, clusters, &mut || run.step())?;
    if (0..adjacency.len()).all(|i| adjacency.of(i).is_empty()) {
        return Ok((motion, labels));
    }
    let least = ((MIN_PATCH * problem.vertices() as f64) as usize).max(3);
    let mut labels = connected(adjacency, &labels, least);
    let count = labels.iter().map(|&j| usize::from(j) + 1).max().unwrap_or(1);
    let mut motion = Motion::identity(count, problem.frames());
    for _ in 0..2 {
        split::refit(problem, &mut motion, &mut labels, 0, &mut || run.step())?;
    }
    Ok((motion, labels))
}

/// Connected parts of clusters, numbered by their first vertex; parts below `least` vertices join a neighbour.
fn connected(adjacency: &Adjacency, labels: &[u16], least: usize) -> Vec<u16> {
    let (mut part, sizes) = parts(adjacency, labels);
    // Small parts are taken over from their rims inwards; those without neighbours stay.
    let mut queue: Vec<usize> = (0..labels.len()).filter(|&i| sizes[part[i] as usize] < least).collect();
    loop {
        let large = |i: usize| adjacency.of(i).iter().map(|&k| part[k as usize]).find(|&p| sizes[p as usize] >= least);
        let moved: Vec<(usize, u32)> = queue.iter().filter_map(|&i| large(i).map(|p| (i, p))).collect();
        if moved.is_empty() {
            break;
        }
        moved.iter().for_each(|&(i, p)| part[i] = p);
        queue.retain(|&i| sizes[part[i] as usize] < least);
    }
    renumbered(&part, least, labels)
}

/// Component of each vertex within its cluster, and the sizes of components.
fn parts(adjacency: &Adjacency, labels: &[u16]) -> (Vec<u32>, Vec<usize>) {
    let mut part = vec![u32::MAX; labels.len()];
    let mut sizes = Vec::new();
    let mut stack = Vec::new();
    for seed in 0..labels.len() {
        if part[seed] != u32::MAX {
            continue;
        }
        let own = sizes.len() as u32;
        sizes.push(0);
        part[seed] = own;
        stack.push(seed);
        while let Some(i) = stack.pop() {
            sizes[own as usize] += 1;
            for &k in adjacency.of(i) {
                let k = k as usize;
                if part[k] == u32::MAX && labels[k] == labels[seed] {
                    part[k] = own;
                    stack.push(k);
                }
            }
        }
    }
    (part, sizes)
}

/// Parts as bone numbers. Islands that are too small for a bone (a button, an eye) stay together by cluster.
fn renumbered(part: &[u32], least: usize, labels: &[u16]) -> Vec<u16> {
    let mut sizes = BTreeMap::new();
    part.iter().for_each(|p| *sizes.entry(*p).or_insert(0usize) += 1);
    let mut numbers = BTreeMap::new();
    let number = |(p, label): (&u32, &u16)| {
        let key = if sizes[p] >= least { (0, *p) } else { (1, u32::from(*label)) };
        let next = numbers.len() as u16;
        *numbers.entry(key).or_insert(next)
    };
    part.iter().zip(labels).map(number).collect()
}
