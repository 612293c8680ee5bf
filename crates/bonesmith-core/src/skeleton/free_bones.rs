//! Bones without joints, to make a tree of: an over-complete start, thinned out.
//!
//! The start is rigid clusters, cut into connected patches [Le2014 s.3.4].

use std::collections::BTreeMap;

use crate::cluster::split;
use crate::mesh::Adjacency;
use crate::model::BoneKind;
use crate::observer::Cancelled;
use crate::skeleton::Input;
use crate::skeleton::tree_search::KeepRule;
use crate::skinning::search::{Explorer, SWEEPS, SearchPlan};
use crate::skinning::{BoneModel, Descent, Motion, Problem, Run, Skin, State, VertexParams};

/// Rounds with each number of influences while these grow [Le2014 s.3.6].
const ROUNDS_PER_INFLUENCE: usize = 3;

/// Vertices per cluster of the start, at least: fewer do not determine a rotation.
const MIN_VERTICES: usize = 6;

/// Patches smaller than this share of the vertices are merged into their neighbours.
const MIN_PATCH: f64 = 2e-3;

/// Rigid bones of connected patches, fitted to the sample with a growing number of influences.
pub(super) fn over_complete(input: &Input<'_>, clusters: usize, run: &mut Run<'_>) -> Result<State, Cancelled> {
    let (vertices, frames) = input.sample.picked();
    let n = input.sequence.vertex_count();
    let (motion, labels) = run.observed("start", |run| {
        let whole = input.problem.of_all_vertices(input.sequence, frames);
        patches(&whole, input.adjacency, clusters.min(n.div_ceil(MIN_VERTICES)), run)
    })?;
    let skin = Skin::rigid(1, &labels, input.problem.rest.clone()).pick(vertices);
    let model = BoneModel::new(BoneKind::Rigid, motion.bones, SWEEPS);
    let mut state = State { motion, skin, model };
    for slots in 1..=input.local.slots {
        state.skin = state.skin.with_slots(slots);
        let mut descent = Descent::new(input.coarse, VertexParams { slots, ..input.local });
        descent.rounds(&mut state, ROUNDS_PER_INFLUENCE, run)?;
    }
    Ok(state)
}

/// Thins a start out to at most `max_bones` bones, further as long as the rule allows it, and searches for better ones;
/// returns the E_RMS too.
pub(super) fn thinned(
    input: &Input<'_>,
    state: State,
    max_bones: usize,
    keep: KeepRule,
    run: &mut Run<'_>,
) -> Result<(State, f64), Cancelled> {
    let resume =
        |state: State| Explorer::resume(input.coarse, state, input.local, SearchPlan::new(input.fit.effort), 0);
    let mut explorer = resume(state);
    explorer.descend(1, run)?;
    explorer.thin_out(max_bones, run)?;
    while explorer.state.bones() > 1 {
        let (before, kept, bones) = (explorer.e_rms(), explorer.state.clone(), explorer.state.bones());
        let batch = (bones / 12).max(1);
        explorer.thin_out(bones - batch, run)?;
        if explorer.e_rms() > keep.limit(before, batch) {
            explorer = resume(kept);
            break;
        }
    }
    explorer.search(run)?;
    let e_rms = explorer.e_rms();
    Ok((explorer.state, e_rms))
}

/// Rigid bones for connected patches: their motion, and the bone of every vertex.
///
/// `problem` has all vertices. Without faces clusters stay as they are: nothing connects or separates vertices.
fn patches(
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

/// Connected parts of clusters, numbered by their first vertex; parts below `least` vertices join a neighbour. Islands that
/// are too small for a bone (a button, an eye) stay together by cluster.
fn connected(adjacency: &Adjacency, labels: &[u16], least: usize) -> Vec<u16> {
    let (mut part, count) = adjacency.components_where(|i, k| labels[i] == labels[k]);
    let mut sizes = vec![0; count];
    part.iter().for_each(|&p| sizes[p as usize] += 1);
    // Small parts are taken over from their rims inwards: they never become large.
    let is_large = |p: u32| sizes[p as usize] >= least;
    let mut small: Vec<usize> = (0..labels.len()).filter(|&i| !is_large(part[i])).collect();
    loop {
        let neighbour = |i: usize| adjacency.of(i).iter().map(|&k| part[k as usize]).find(|&p| is_large(p));
        let moved: Vec<(usize, u32)> = small.iter().filter_map(|&i| neighbour(i).map(|p| (i, p))).collect();
        if moved.is_empty() {
            break;
        }
        moved.iter().for_each(|&(i, p)| part[i] = p);
        small.retain(|&i| !is_large(part[i]));
    }
    let mut numbers = BTreeMap::new();
    let number = |(&p, &label): (&u32, &u16)| {
        let next = numbers.len() as u16;
        *numbers.entry(if is_large(p) { (0, p) } else { (1, u32::from(label)) }).or_insert(next)
    };
    part.iter().zip(labels).map(number).collect()
}
