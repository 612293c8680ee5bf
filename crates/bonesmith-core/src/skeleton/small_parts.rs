//! Small parts on their own.
//!
//! A finger bone is four vertices of the sample and a thousandth of the error: the search on the sample does not separate it from its
//! neighbours. So a part of the tree that is small, and off by much for its size, is cut out of the mesh and gets a search of its own: all of its
//! vertices, in its own unit space. What is found there takes the place of the part's bones, on a sample with more vertices there, and bones that
//! are not needed are removed from the whole.

use glam::DVec3;

use crate::mesh::sphere::smallest_enclosing_sphere;
use crate::observer::Cancelled;
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::graph::{Gap, JointGraph};
use crate::skeleton::multipass::{Budget, searched};
use crate::skeleton::pose::Pose;
use crate::skeleton::tree::Tree;
use crate::skeleton::tree_search::{KeepRule, ROUNDS_AFTER, TreeSearch, subtree};
use crate::skeleton::weed::Region;
use crate::skeleton::{Input, Prepared};
use crate::skinning::{BoneCount, FitParams, Motion, Problem, Run, Sample, Skin, VertexParams, pass};

/// Largest radius of a part, in units of the sphere.
const MAX_RADIUS: f64 = 0.25;

/// Weight below a joint from which a vertex belongs to the part.
const INSIDE: f64 = 0.9;

/// Fewest vertices of a part.
const MIN_VERTICES: usize = 48;

/// A part of radius `r` is searched if its E_RMS, times `sqrt(r)`, is above so many times the floor of the `KeepRule`, and so many times the E_RMS of
/// the whole: a soft body is off everywhere, and its parts are no worse.
const MIN_ERROR: (f64, f64) = (2.0, 3.0);

/// Where the animation was made with linear blend skinning, errors can vanish everywhere: there its E_RMS alone is above so many times the floor,
/// and so many times the E_RMS of the whole as above.
const MIN_SKINNED: f64 = 3.0;

/// Rounds after parts were put in their places.
const JOINED_ROUNDS: usize = 4 * ROUNDS_AFTER;

/// Times that bones which are not needed are removed then.
const WEEDS: usize = 2;

/// By how much share and floor of the `KeepRule` are larger for a part in its place than for it alone.
const IN_PLACE: (f64, f64) = (4.0, 2.0);

/// A subtree and the vertices that follow it.
struct Part {
    bone: usize,
    /// Bones of the subtree.
    bones: usize,
    /// E_RMS in its own unit space.
    e_rms: f64,
    /// Of its enclosing sphere.
    radius: f64,
    vertices: Vec<u32>,
}

/// The bones of a part, as found on its own.
struct Found {
    part: Part,
    tree: Tree,
    motion: Motion,
    /// Of the part's vertices.
    skin: Skin,
    /// The vertices that it was searched on.
    picked: Vec<u32>,
    keep: KeepRule,
}

/// Searches small parts; a sample with more vertices there and the skeleton on it, or `None` where nothing was gained.
pub(super) fn search(
    input: &Input<'_>,
    search: &mut TreeSearch<'_>,
    budget: &Budget,
    run: &mut Run<'_>,
) -> Result<Option<(Sample, SkinnedPose)>, Cancelled> {
    let whole = input.problem.of_all_vertices(input.sequence, input.sample.picked().1);
    let SkinnedPose { pose, skin } = &search.body;
    let mut skin = input.sample.all_vertices(input.problem, skin);
    let motion = pose.to_motion();
    let moments = run.timed("vertices", || pass::solve(&whole, &motion, &mut skin, input.local, None));
    let mut all = Vec::new();
    let (floor, e_rms) = (search.keep.floor, search.descent.e_rms());
    let is_off = |e: f64, radius: f64| match input.local.move_rest {
        true => e * radius.sqrt() > (MIN_ERROR.0 * floor).max(MIN_ERROR.1 * e_rms),
        false => e > (MIN_SKINNED * floor).max(MIN_ERROR.1 * e_rms),
    };
    for part in parts(&pose.tree, &skin, &moments.per_vertex, &whole, is_off) {
        if run.is_over() {
            break;
        }
        all.extend(better(input, part, budget, run)?);
    }
    if all.is_empty() {
        return Ok(None);
    }
    let picked: Vec<u32> = all.iter().flat_map(|found| found.picked.iter().copied()).collect();
    let sample = input.sample.with_vertices(input.problem, &picked);
    let mut regions = Vec::new();
    let mut body = SkinnedPose { pose: pose.clone(), skin };
    while let Some(found) = all.pop() {
        if body.pose.bones() + found.tree.bones() > search.max_bones + found.part.bones {
            continue;
        }
        regions.push(region(&found, &sample));
        let numbers = graft(&whole, input.local, &mut body, found);
        all.iter_mut().for_each(|other| other.part.bone = numbers[other.part.bone]);
    }
    body.skin = body.skin.pick(sample.picked().0);
    let (coarse, near) = (sample.problem(input.problem, input.sequence), sample.neighbours(input.adjacency));
    let descent = SkeletonDescent::new(&coarse, input.local, None);
    let mut joined = TreeSearch {
        descent,
        body,
        info: search.info.clone(),
        max_bones: search.max_bones,
        keep: search.keep,
        near: &near,
    };
    joined.descend(JOINED_ROUNDS, run)?;
    for _ in 0..WEEDS {
        joined.weed(0..joined.bones(), input.params.detail, &regions, run)?;
    }
    joined.regraft(run)?;
    search.info = joined.info;
    let body = joined.body;
    Ok(Some((sample, body)))
}

/// The vertices of a part in a sample.
fn region(found: &Found, sample: &Sample) -> Region {
    let own = &found.part.vertices;
    let is_own = |i: &u32| own.binary_search(i).is_ok();
    let vertices = (0..).zip(sample.picked().0).filter(|(_, i)| is_own(i)).map(|(at, _)| at).collect();
    Region { vertices, radius: found.part.radius, keep: found.keep }
}

/// The largest of the small parts that are off by much, by E_RMS and radius; `errors` [N] are sums over frames.
fn parts(tree: &Tree, skin: &Skin, errors: &[f32], problem: &Problem, is_off: impl Fn(f64, f64) -> bool) -> Vec<Part> {
    let mut found: Vec<Part> = Vec::new();
    let mut inside = vec![false; tree.bones()];
    for &j in &tree.order[1..] {
        inside[j] = tree.parents[j].is_some_and(|p| inside[p]);
        if inside[j] {
            continue;
        }
        let below = subtree(tree, j);
        let weight = |i: usize| skin.of(i).filter(|(k, _)| below[*k]).map(|(_, w)| w).sum::<f64>();
        let vertices: Vec<u32> = (0..skin.rest.len()).filter(|&i| weight(i) > INSIDE).map(|i| i as u32).collect();
        let sphere = smallest_enclosing_sphere(vertices.iter().map(|&i| skin.rest[i as usize]));
        if sphere.radius > MAX_RADIUS || vertices.len() < MIN_VERTICES {
            continue;
        }
        let error: f64 = vertices.iter().map(|&i| f64::from(errors[i as usize])).sum();
        let e_rms = 1000.0 * (error / (vertices.len() * problem.length) as f64).sqrt() / sphere.radius;
        let bones = below.iter().filter(|below| **below).count();
        if is_off(e_rms, sphere.radius) {
            inside[j] = true;
            found.push(Part { bone: j, bones, e_rms, radius: sphere.radius, vertices });
        }
    }
    found
}

/// The skeleton of some vertices on their own.
pub(super) struct Alone {
    pub tree: Tree,
    /// In the space of the whole, as everything else.
    pub motion: Motion,
    /// Of the vertices.
    pub skin: Skin,
    /// The vertices that they were searched on.
    pub picked: Vec<u32>,
    /// What the search ended at, and the rule of its prices, in their own unit.
    price: f64,
    keep: KeepRule,
}

/// Searches some vertices on their own, in their own unit space.
pub(super) fn alone(
    input: &Input<'_>,
    vertices: &[u32],
    budget: &Budget,
    run: &mut Run<'_>,
) -> Result<Alone, Cancelled> {
    let sequence = input.sequence.of_vertices(vertices);
    let prepared = Prepared::new(&sequence, input.sample.picked().1.len(), input.fit.seed);
    let fit = FitParams { bones: BoneCount::Auto, ..input.fit.clone() };
    let own = prepared.input(&sequence, &fit, input.params);
    let own = if input.local.move_rest { own } else { own.with_rest_held() };
    let search = searched(&own, None, &budget.of_part(), run)?;
    let SkinnedPose { pose, skin } = &search.body;
    // From its own unit space to that of the whole.
    let (from, to) = (&own.coarse.space, &input.coarse.space);
    let place = |u: DVec3| (from.model_point(u) - to.sphere.center) / to.sphere.radius;
    let motion = to.motion(&from.transforms(&pose.to_motion()), pose.bones());
    let mut tree = pose.tree.clone();
    tree.joints.iter_mut().for_each(|joint| *joint = place(*joint));
    let mut skin = own.sample.all_vertices(own.problem, skin);
    skin.rest.iter_mut().for_each(|u| *u = place(*u));
    let picked = own.sample.picked().0.iter().map(|&i| vertices[i as usize]).collect();
    Ok(Alone { tree, motion, skin, picked, price: search.price(), keep: search.keep })
}

/// The skeleton of a part on its own, if it is better than what the tree has for it.
fn better(input: &Input<'_>, part: Part, budget: &Budget, run: &mut Run<'_>) -> Result<Option<Found>, Cancelled> {
    let Alone { tree, motion, skin, picked, price, keep } = alone(input, &part.vertices, budget, run)?;
    if price >= keep.limit(part.e_rms, part.bones) {
        return Ok(None);
    }
    let keep = KeepRule { share: keep.share * IN_PLACE.0, floor: keep.floor * IN_PLACE.1 };
    Ok(Some(Found { part, tree, motion, skin, picked, keep }))
}

/// Puts the bones of a part in the place of those that the tree has for it. Returns [B] the new numbers of the old bones.
///
/// First they move freely beside the others, so that vertices around the border share both; then the pair that holds best is joined.
fn graft(problem: &Problem, local: VertexParams, body: &mut SkinnedPose, found: Found) -> Vec<usize> {
    let Found { part, tree: own, motion, skin, .. } = found;
    let tree = &body.pose.tree;
    let b = tree.bones();
    let gone = subtree(tree, part.bone);
    let kept: Vec<usize> = (0..b).filter(|&k| !gone[k]).collect();
    let lost: Vec<usize> = (0..b).filter(|&k| gone[k]).collect();
    let before = body.pose.to_motion();
    let first = kept.len();
    let mut all = Motion::identity(first + own.bones(), before.frames());
    for t in 0..before.frames() {
        kept.iter().enumerate().for_each(|(to, &from)| all.set(to, t, &before.get(from, t)));
        (0..own.bones()).for_each(|k| all.set(first + k, t, &motion.get(k, t)));
    }
    // Vertices at the border keep their weight on the part: its root has it for now.
    let top = first + own.root();
    let number = |k: usize| kept.iter().position(|&kept| kept == k).unwrap_or(top);
    let renumbered: Vec<usize> = (0..b).map(number).collect();
    let slots = body.skin.slots;
    for i in 0..body.skin.rest.len() {
        let mut row: Vec<(usize, f64)> = Vec::new();
        for (k, w) in body.skin.of(i).map(|(k, w)| (renumbered[k], w)) {
            match row.iter_mut().find(|(other, _)| *other == k) {
                Some((_, sum)) => *sum += w,
                None => row.push((k, w)),
            }
        }
        body.skin.set(i, row);
    }
    for (from, &i) in part.vertices.iter().enumerate() {
        body.skin.set(i as usize, skin.of(from).take(slots).map(|(k, w)| (first + k, w)));
        body.skin.rest[i as usize] = skin.rest[from];
    }
    // Twice: newcomers are let in two at a time.
    pass::solve(problem, &all, &mut body.skin, local, None);
    let moments = pass::solve(problem, &all, &mut body.skin, local, None);
    let graph = JointGraph::new(&all, &moments.second, Gap::Stiffness);
    let pairs = (0..first).flat_map(|p| (first..all.bones).map(move |k| (p, k)));
    let best = pairs.min_by(|&x, &y| graph.tension(x.0, x.1).total_cmp(&graph.tension(y.0, y.1)));
    let (parent, root) = best.unwrap_or((0, top));
    let own = own.rooted_at(root - first, graph.joint(parent, root).place);
    let mut merged = tree.without(&lost);
    let mut places = vec![0; own.bones()];
    for &k in &own.order {
        places[k] = merged.bones();
        let above = own.parents[k].map_or(parent, |p| places[p]);
        merged.push(above, own.joints[k]);
    }
    // The tree numbers the bones of the part in its own order.
    let order: Vec<usize> = (0..first).chain(own.order.iter().map(|k| first + k)).collect();
    body.pose = Pose::from_motion(merged, &all.select(&order));
    body.skin.renumber(&order);
    renumbered.iter().map(|&k| if k < first { k } else { places[k - first] }).collect()
}
