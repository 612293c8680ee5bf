//! The over-complete start: rigid clusters, cut into connected patches [Le2014 s.3.4].

use crate::cluster::split;
use crate::mesh::topology::Adjacency;
use crate::model::rig::BoneKind;
use crate::observer::Cancelled;
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::motion::Motion;
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;

/// Patches smaller than this share of the vertices go to their neighbours.
const LEAST_PATCH: f64 = 2e-3;

/// Rigid bones for connected patches: their motion, and the bone of every vertex.
///
/// `problem` has all vertices. Without faces clusters stay as they are: there is nothing to tell parts by.
pub(crate) fn patches(
    problem: &Problem,
    adjacency: &Adjacency,
    clusters: usize,
    run: &mut Run<'_>,
) -> Result<(Motion, Vec<u16>), Cancelled> {
    let (motion, labels) = split::split(problem, clusters, &mut || run.step())?;
    let faces = (0..adjacency.len()).any(|i| !adjacency.of(i).is_empty());
    if !faces {
        return Ok((motion, labels));
    }
    let least = ((LEAST_PATCH * problem.vertices() as f64) as usize).max(3);
    let mut labels = connected(adjacency, &labels, least);
    let count = labels.iter().map(|&j| j as usize + 1).max().unwrap_or(1);
    // What was too small goes with the cluster it was cut from, here the nearest patch in motion.
    let mut motion = Motion::identity(count, problem.frames());
    let model = BoneModel::new(BoneKind::Rigid, count, 1);
    let skin = Skin::rigid(1, &labels, problem.rest.clone());
    for _ in 0..2 {
        let moments = pass::gather(problem, &motion, &skin);
        bone_step::update(&mut motion, &moments, &model);
    }
    labels.copy_from_slice(&skin.bones);
    Ok((motion, labels))
}

/// Connected parts of clusters, numbered by their first vertex; parts below `least` vertices join a neighbour.
fn connected(adjacency: &Adjacency, labels: &[u16], least: usize) -> Vec<u16> {
    let (mut part, sizes) = parts(adjacency, labels);
    // Small parts are swallowed from their rims inwards; those without neighbours stay.
    let mut queue: Vec<usize> = (0..labels.len()).filter(|&i| sizes[part[i] as usize] < least).collect();
    loop {
        let mut moved = Vec::new();
        for &i in &queue {
            let big = adjacency.of(i).iter().map(|&k| part[k as usize]).find(|&p| sizes[p as usize] >= least);
            if let Some(p) = big {
                moved.push((i, p));
            }
        }
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

/// Parts as bone numbers. Islands too small to be a bone stay together by the cluster they came from.
fn renumbered(part: &[u32], least: usize, labels: &[u16]) -> Vec<u16> {
    let mut sizes = std::collections::BTreeMap::new();
    part.iter().for_each(|p| *sizes.entry(*p).or_insert(0usize) += 1);
    let mut numbers = std::collections::BTreeMap::new();
    let mut out = Vec::with_capacity(part.len());
    for (p, label) in part.iter().zip(labels) {
        // An island that is a model of its own (a button, an eye) keeps its cluster's company.
        let key = if sizes[p] >= least { (0, *p) } else { (1, u32::from(*label)) };
        let next = numbers.len() as u16;
        out.push(*numbers.entry(key).or_insert(next));
    }
    out
}
