//! Fewer bones than pieces: those go together whose union costs least.
//!
//! What a union costs is exact: the squared error of one bone for both, less that of the two alone, from the bodies' moments. A heap
//! holds pairs of neighbours: pieces that stay close to each other over the clip, whether or not edges join them. A pair enters
//! with its cost in a few frames, which is a lower bound, and is costed in all of them when it comes first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeSet, BinaryHeap};

use glam::DVec3;
use rayon::prelude::*;

use crate::cluster::pieces::body::{Body, Form};
use crate::cluster::pieces::{Piece, Pieces, SOFT};
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Check};

/// Up to so many groups every pair is a pair of neighbours.
const ALL_PAIRS: usize = 160;

/// Neighbours of a group otherwise.
const NEIGHBOURS: usize = 24;

/// Most neighbours that a group keeps.
const MAX_NEIGHBOURS: usize = 64;

/// Frames of the lower bound.
const FEW: usize = 8;

/// Two groups become one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Pieces are numbered first, then groups in order of their making.
    pub groups: (usize, usize),
    /// Squared error of all pieces after the step, over that before the first one.
    pub cost: f64,
}

/// Joins groups until `enough`, asked with their number and with the cost of the next step, says so, or one is left.
pub(crate) fn merge(
    pieces: &[Piece],
    kind: BoneKind,
    mut enough: impl FnMut(usize, f64) -> bool,
    check: Check<'_>,
) -> Result<Vec<Step>, Cancelled> {
    let mut merging = Merging::new(pieces, kind);
    let (mut steps, mut cost): (Vec<Step>, f64) = (Vec::new(), 0.0);
    while merging.alive > 1 && !enough(merging.alive, cost) {
        if steps.len() % 16 == 0 {
            check()?;
        }
        let Some((more, a, b)) = merging.cheapest(check)? else { break };
        cost += more;
        if enough(merging.alive, cost) {
            break;
        }
        merging.join(a, b);
        steps.push(Step { groups: (a, b), cost });
    }
    Ok(steps)
}

impl Pieces {
    /// The pieces after some steps, numbered by their first.
    pub fn merged(&self, steps: &[Step], kind: BoneKind) -> Self {
        let count = self.pieces.len();
        let mut bodies: Vec<Option<Piece>> = self.pieces.iter().cloned().map(Some).collect();
        let mut above: Vec<usize> = (0..count + steps.len()).collect();
        for (at, step) in steps.iter().enumerate() {
            let (a, b) = step.groups;
            (above[a], above[b]) = (count + at, count + at);
            let pair = bodies[a].take().zip(bodies[b].take());
            bodies.push(pair.map(|(a, b)| {
                let body = a.body.joined(&b.body, 0..a.body.frames.len());
                let form = body.best_form(kind).0;
                Piece::new(body, form)
            }));
        }
        let top = |mut at: usize| {
            while above[at] != at {
                at = above[at];
            }
            at
        };
        let (mut numbers, mut pieces) = (vec![SOFT; bodies.len()], Vec::new());
        let of_piece: Vec<u32> = (0..count)
            .map(|at| {
                let top = top(at);
                if let Some(piece) = bodies[top].take() {
                    numbers[top] = pieces.len() as u32;
                    pieces.push(piece);
                }
                numbers[top]
            })
            .collect();
        let relabel = |&label: &u32| if label == SOFT { SOFT } else { of_piece[label as usize] };
        Self { labels: self.labels.iter().map(relabel).collect(), pieces, rest: self.rest.clone() }
    }
}

/// A pair in the heap.
#[derive(PartialEq)]
struct Pair {
    cost: f64,
    /// Whether the cost is that of all frames.
    exact: bool,
    groups: (usize, usize),
}

impl Eq for Pair {}

impl Ord for Pair {
    fn cmp(&self, other: &Self) -> Ordering {
        self.cost.total_cmp(&other.cost).then(self.groups.cmp(&other.groups)).then(self.exact.cmp(&other.exact))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A group of pieces.
struct Group {
    body: Body,
    /// Squared error of its own bone, in all frames and in each of the few.
    error: f64,
    few: Vec<f64>,
    neighbours: BTreeSet<usize>,
}

struct Merging {
    kind: BoneKind,
    /// `None`: joined to another.
    groups: Vec<Option<Group>>,
    alive: usize,
    heap: BinaryHeap<Reverse<Pair>>,
    /// The few frames.
    frames: Vec<usize>,
}

impl Merging {
    fn new(pieces: &[Piece], kind: BoneKind) -> Self {
        let frames = pieces.first().map_or(0, |piece| piece.body.frames.len());
        let count = FEW.min(frames);
        let mut merging = Self {
            kind,
            groups: Vec::with_capacity(2 * pieces.len()),
            alive: pieces.len(),
            heap: BinaryHeap::new(),
            frames: (1..=count).map(|k| k * frames / count - 1).collect(),
        };
        let groups: Vec<Option<Group>> =
            pieces.par_iter().map(|piece| Some(merging.group(piece.body.clone(), &piece.form))).collect();
        merging.groups = groups;
        merging
    }

    fn group(&self, body: Body, form: &Form) -> Group {
        let mut errors = Vec::with_capacity(body.frames.len());
        body.follow(form, |t, linear| {
            errors.push(body.error(&body.frames[t], linear, DVec3::ZERO));
            true
        });
        let few = self.frames.iter().map(|&t| errors[t]).collect();
        Group { error: errors.iter().sum(), body, few, neighbours: BTreeSet::new() }
    }

    /// The least error that any form of bone can have in a frame.
    fn bound(&self, body: &Body, t: usize) -> f64 {
        let form = if self.kind == BoneKind::Rigid { Form::Rigid } else { Form::Affine };
        let posed = &body.frames[t];
        body.error(posed, &body.linear(&form, posed, &glam::DMat3::IDENTITY), DVec3::ZERO)
    }

    fn alive(&self) -> Vec<usize> {
        (0..self.groups.len()).filter(|&g| self.groups[g].is_some()).collect()
    }

    /// The pair that costs least, with its cost.
    fn cheapest(&mut self, check: Check<'_>) -> Result<Option<(f64, usize, usize)>, Cancelled> {
        loop {
            let Some(Reverse(pair)) = self.heap.pop() else {
                if self.alive < 2 {
                    return Ok(None);
                }
                check()?;
                self.find_neighbours();
                continue;
            };
            let (a, b) = pair.groups;
            let (Some(first), Some(second)) = (&self.groups[a], &self.groups[b]) else { continue };
            if pair.exact {
                return Ok(Some((pair.cost, a, b)));
            }
            let body = first.body.joined(&second.body, 0..first.body.frames.len());
            let cost = (body.best_form(self.kind).1 - first.error - second.error).max(0.0);
            self.heap.push(Reverse(Pair { cost, exact: true, groups: (a, b) }));
        }
    }

    fn join(&mut self, a: usize, b: usize) {
        let (Some(first), Some(second)) = (self.groups[a].take(), self.groups[b].take()) else { return };
        let body = first.body.joined(&second.body, 0..first.body.frames.len());
        let form = body.best_form(self.kind).0;
        let new = self.groups.len();
        let mut group = self.group(body, &form);
        let mut near: Vec<usize> = first.neighbours.union(&second.neighbours).copied().collect();
        near.retain(|&g| g != a && g != b);
        for &g in &near {
            if let Some(other) = &mut self.groups[g] {
                other.neighbours.remove(&a);
                other.neighbours.remove(&b);
            }
        }
        if near.len() > MAX_NEIGHBOURS {
            let distance =
                |g: usize| self.groups[g].as_ref().map_or(f64::INFINITY, |other| self.distance(&group, other));
            let mut keyed: Vec<(f64, usize)> = near.iter().map(|&g| (distance(g), g)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            near = keyed[..MAX_NEIGHBOURS].iter().map(|(_, g)| *g).collect();
        }
        for &g in &near {
            if let Some(other) = &mut self.groups[g] {
                other.neighbours.insert(new);
            }
        }
        group.neighbours = near.iter().copied().collect();
        self.groups.push(Some(group));
        self.alive -= 1;
        self.push(near.into_iter().map(|g| (g, new)).collect());
    }

    /// How far two groups are from each other in the few frames.
    fn distance(&self, a: &Group, b: &Group) -> f64 {
        let apart = |&t: &usize| a.body.frames[t].mean.distance_squared(b.body.frames[t].mean);
        a.body.rest.distance_squared(b.body.rest) + self.frames.iter().map(apart).sum::<f64>()
    }

    /// Pairs of all groups with those that stay closest to them.
    fn find_neighbours(&mut self) {
        let alive = self.alive();
        let near = |&g: &usize| -> Vec<(usize, usize)> {
            let Some(group) = &self.groups[g] else { return Vec::new() };
            let others = alive.iter().filter(|&&other| other != g);
            let mut keyed: Vec<(f64, usize)> =
                others.filter_map(|&other| Some((self.distance(group, self.groups[other].as_ref()?), other))).collect();
            let count = if alive.len() <= ALL_PAIRS { keyed.len() } else { NEIGHBOURS.min(keyed.len()) };
            if count < keyed.len() {
                keyed.select_nth_unstable_by(count - 1, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            }
            keyed[..count].iter().map(|&(_, other)| (g.min(other), g.max(other))).collect()
        };
        let mut pairs: Vec<(usize, usize)> = alive.par_iter().flat_map_iter(near).collect();
        pairs.sort_unstable();
        pairs.dedup();
        for &(a, b) in &pairs {
            for (g, other) in [(a, b), (b, a)] {
                if let Some(group) = &mut self.groups[g] {
                    group.neighbours.insert(other);
                }
            }
        }
        self.push(pairs);
    }

    /// Puts pairs into the heap with their costs in the few frames.
    fn push(&mut self, pairs: Vec<(usize, usize)>) {
        let cost = |&(a, b): &(usize, usize)| {
            let (Some(first), Some(second)) = (&self.groups[a], &self.groups[b]) else { return f64::INFINITY };
            let joined = first.body.joined(&second.body, self.frames.iter().copied());
            let own: f64 = first.few.iter().chain(&second.few).sum();
            ((0..self.frames.len()).map(|at| self.bound(&joined, at)).sum::<f64>() - own).max(0.0)
        };
        let costs: Vec<f64> = pairs.par_iter().map(cost).collect();
        let entry = |(groups, cost): ((usize, usize), f64)| Reverse(Pair { cost, exact: false, groups });
        self.heap.extend(pairs.into_iter().zip(costs).map(entry));
    }
}
