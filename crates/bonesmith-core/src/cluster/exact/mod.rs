//! The bones that an animation was made with.
//!
//! An animation that linear blend skinning made is `v_it = sum_j w_ij T_jt u_i` exactly, but for the rounding of its numbers. Then bones need
//! not be searched for by descent, which ends in minima where bones are mixtures of true ones: they follow from the data one by one.
//!
//! 1. *Rigid patches*: where a vertex and its neighbours move as one rigid body down to rounding, that is a bone (`points`). All vertices that
//!    it moves down to rounding are its own.
//! 2. *One more bone* (`unmix`): a small patch beside explained vertices, which few known bones and one unknown bone move. Its equations
//!    outnumber the unknowns by far (8 vertices in F frames: `24 F` against `6 F + 8 k`), so Gauss-Newton steps from the patch's own rigid motion either end
//!    at the rounding of the input, or the guess of the known bones was wrong. A bone is accepted if it
//!    explains vertices outside of the patch too.
//! 3. Each new bone explains more vertices (`explained`): those which the known bones move down to rounding with convex weights. It is fitted to all that it
//!    moves, and step 2 goes on from there until no patch has one unknown bone only.
//!
//! What is not explained is left to others. Bones that scale, rest poses that are not those of the skinning and noise are not
//! handled: there, few patches are rigid and the search ends at once.

mod explained;
mod points;
#[cfg(test)]
mod tests;
mod unmix;

use glam::DAffine3;
use rayon::prelude::*;

use crate::observer::{Cancelled, Check};
use crate::solve::random::Random;
use explained::Explained;
pub(crate) use points::Points;
use unmix::{Patch, unmix, unmix_rigid};

/// [F] of one bone.
pub(crate) type Path = Vec<DAffine3>;

/// Largest rounding of the input that is dealt with, per coordinate in units of the sphere.
const MAX_ROUNDING: f64 = 1e-6;

/// Errors up to so many times the rounding are rounding: of rigid patches, of an unknown bone in its patch, and of vertices that bones explain.
const RIGID_LIMIT: f64 = 2.0;
const BONE_LIMIT: f64 = 1.4;
const VERTEX_LIMIT: f64 = 2.2;

/// Blends are less exact than rigid parts, because weights are rounded too, and what is found from inexact bones is less exact still. So the search
/// begins with the rounding of rigid parts; each step that follows has so many times the rounding of the step before.
const LADDER: [f64; 4] = [1.0, 2.0, 2.0, 2.0];

/// A new bone is fitted to more and more vertices around its patch, `GROWTH` of them at most. It is less exact farther away, so a vertex may miss `VERTEX_LIMIT` by so many
/// times; a smaller factor is tried where the fit fails, because another unknown bone moves some of the vertices.
const LOOSE: [f64; 3] = [10.0, 4.0, 1.5];
const GROWTH: [usize; 3] = [16, 48, AROUND];

/// Vertices of a rigid patch.
const RIGID_PATCH: usize = 8;

/// Vertices that a rigid patch must move beside its own.
const MIN_MORE: usize = 2;

/// Vertices of a patch with one unknown bone, first to last try.
const PATCHES: [usize; 2] = [8, 6];

/// Frames of such a patch: enough to tell whether there is one unknown bone.
const FRAMES: usize = 20;

/// How many of the known bones nearest to a patch are tried beside the unknown one.
const SETS: [usize; 4] = [1, 2, 3, 6];

/// Patches that are tried at once, and how often before the size of patches changes.
const BATCH: usize = 32;
const MAX_BATCHES: usize = 12;

/// The search ends after so many patches, and so many more for each share of the blended vertices that is explained.
const WORK: (f64, f64) = (2200.0, 12000.0);

/// Vertices around a patch that a bone is checked on.
const AROUND: usize = 150;

/// Vertices around a patch's centre of which one must be explained.
const RIM: usize = 80;

/// Vertices outside of its patch that a bone must help to explain: to be accepted at once, and when there is no better one.
const CONFIRMED: (usize, usize) = (60, 4);

/// Weight from which a bone counts as moving a vertex.
const MIN_WEIGHT: f64 = 0.02;

/// A bone is another one if it moves a patch elsewhere by so many times the rounding.
const DISTINCT: f64 = 50.0;

/// Vertices that a bone is fitted to once it is known, and other bones there.
const REFINED: (usize, usize) = (40, 6);

/// Vertices that a bone may take with it when it is removed in the end.
const FEW: usize = 3;

/// Bones and weights that explain an animation.
pub(crate) struct Exact {
    /// [B] motions.
    pub bones: Vec<Path>,
    /// [N] bones and weights of each vertex, largest first; empty where bones do not explain it.
    pub weights: Vec<Vec<(usize, f64)>>,
    /// The share of the vertices which no single bone moves that are explained.
    pub share: f64,
}

/// Finds at most `max_bones` bones that explain vertices down to rounding; `None` where there are none.
pub(crate) fn find(points: &Points, max_bones: usize, seed: u64, check: Check<'_>) -> Result<Option<Exact>, Cancelled> {
    let Some(mut search) = Search::new(points, seed, check)? else { return Ok(None) };
    for factor in LADDER {
        search.relax(factor, check)?;
        while search.explained.bones.len() < 2 * max_bones && !search.is_over() && search.next(check)? {}
    }
    let explained = search.explained.without_needless(FEW);
    let share = explained.share();
    let Explained { bones, weights, .. } = explained;
    Ok((2..=max_bones).contains(&bones.len()).then_some(Exact { bones, weights, share }))
}

/// The search in progress.
struct Search<'a> {
    points: &'a Points,
    explained: Explained<'a>,
    /// RMS rounding per coordinate.
    rounding: f64,
    /// All frames, and the few that patches are tried in.
    frames: (Vec<usize>, Vec<usize>),
    /// Of the order in which patches are tried.
    random: Random,
    /// [N] what was tried around a vertex so far: the size of the patch and the known bones, as one number.
    tried: Vec<Vec<u64>>,
    /// Patches that were tried.
    patches: usize,
    /// Bones that explained too little outside of their patches to be accepted at once.
    pending: Vec<Candidate>,
}

/// A bone that was found in a patch.
struct Candidate {
    path: Path,
    /// The patch, its centre first.
    members: Vec<usize>,
    /// Vertices outside of the patch that it helps to explain.
    confirmed: usize,
}

impl<'a> Search<'a> {
    /// Starts with the bones of rigid patches.
    fn new(points: &'a Points, seed: u64, check: Check<'_>) -> Result<Option<Self>, Cancelled> {
        let rigid = points.rigid_errors(RIGID_PATCH);
        check()?;
        let rounding = points.rounding(&rigid);
        if rounding > MAX_ROUNDING {
            return Ok(None);
        }
        let mut explained = Explained::new(points, VERTEX_LIMIT * rounding);
        let mut order: Vec<usize> = (0..points.len()).filter(|&i| rigid[i] < RIGID_LIMIT * rounding).collect();
        order.sort_by(|&a, &b| rigid[a].total_cmp(&rigid[b]).then(a.cmp(&b)));
        let mut seen = vec![false; points.len()];
        for i in order {
            if seen[i] {
                continue;
            }
            check()?;
            let patch = points.around(i, RIGID_PATCH, |_| true);
            let (path, members) = points.grown(&patch, RIGID_LIMIT * rounding);
            patch.iter().chain(&members).for_each(|&k| seen[k] = true);
            if members.len() >= patch.len() + MIN_MORE {
                explained.add(path);
            }
        }
        if explained.bones.is_empty() {
            return Ok(None);
        }
        let f = points.frames();
        let few = FRAMES.min(f);
        let frames = ((0..f).collect(), (0..few).map(|t| (2 * t + 1) * f / (2 * few)).collect());
        let (tried, pending) = (vec![Vec::new(); points.len()], Vec::new());
        Ok(Some(Self { points, explained, rounding, frames, random: Random::new(seed), tried, patches: 0, pending }))
    }

    /// Goes on with a rounding that is so many times as large.
    fn relax(&mut self, factor: f64, check: Check<'_>) -> Result<(), Cancelled> {
        self.rounding *= factor;
        self.explained.relax(VERTEX_LIMIT * self.rounding, check)?;
        self.tried.iter_mut().for_each(Vec::clear);
        self.pending.clear();
        Ok(())
    }

    /// Whether everything is explained, or too little for so much work.
    fn is_over(&self) -> bool {
        let share = self.explained.share();
        share == 1.0 || self.patches as f64 > WORK.0 + WORK.1 * share
    }

    /// Finds one more bone; false where there is none.
    fn next(&mut self, check: Check<'_>) -> Result<bool, Cancelled> {
        let centres = self.rim();
        for (at, size) in PATCHES.into_iter().enumerate() {
            if at > 0 {
                self.polish(check)?;
            }
            for batch in centres.chunks(BATCH).take(MAX_BATCHES) {
                check()?;
                let tries: Vec<(Vec<Candidate>, Vec<u64>)> =
                    batch.par_iter().map(|&i| self.try_patch(i, size)).collect();
                self.patches += tries.iter().filter(|(_, keys)| !keys.is_empty()).count();
                for (&i, (found, keys)) in batch.iter().zip(tries) {
                    self.tried[i].extend(keys);
                    self.pending.extend(found);
                }
                if self.pending.iter().any(|candidate| candidate.confirmed >= CONFIRMED.0) {
                    return Ok(self.accept_best());
                }
            }
        }
        Ok(self.accept_best())
    }

    /// Vertices that are not explained, near to some that are, in random order.
    fn rim(&mut self) -> Vec<usize> {
        let (points, explained) = (self.points, &self.explained);
        let is_rim =
            |&i: &usize| !explained.has(i) && points.around(i, RIM, |_| true).iter().any(|&k| explained.has(k));
        let mut centres: Vec<usize> = (0..points.len()).into_par_iter().filter(is_rim).collect();
        (1..centres.len()).for_each(|at| centres.swap(at, self.random.next() as usize % (at + 1)));
        centres
    }

    /// Accepts the bone that is confirmed most, checked again beside what is known now; false where there is none.
    fn accept_best(&mut self) -> bool {
        let is_open = |candidate: &Candidate| candidate.members.iter().any(|&i| !self.explained.has(i));
        self.pending.retain(is_open);
        self.pending.sort_by_key(|candidate| std::cmp::Reverse(candidate.confirmed));
        while !self.pending.is_empty() {
            let Candidate { path, members, confirmed } = self.pending.remove(0);
            self.polish_around(&members);
            if members.iter().all(|&i| self.explained.has(i)) {
                continue;
            }
            let Some(again) = self.confirmed(path, members) else { continue };
            let next = self.pending.first().map_or(0, |next| next.confirmed);
            if again.confirmed >= confirmed.min(CONFIRMED.0) || again.confirmed >= next.max(CONFIRMED.1) {
                let j = self.explained.add(again.path);
                self.refine(j, again.members[0]);
                return true;
            }
            if again.confirmed >= CONFIRMED.1 {
                let at = self.pending.partition_point(|other| other.confirmed > again.confirmed);
                self.pending.insert(at, again);
            }
        }
        false
    }

    /// Bones from the patch around a vertex, and what was tried.
    fn try_patch(&self, centre: usize, size: usize) -> (Vec<Candidate>, Vec<u64>) {
        let points = self.points;
        let members = points.around(centre, size, |i| !self.explained.has(i));
        let (mut found, mut keys) = (Vec::new(), Vec::new());
        if members.len() < size {
            return (found, keys);
        }
        let near = self.explained.nearest(&members, SETS[3]);
        let few = |path: &Path| -> Path { self.frames.1.iter().map(|&t| path[t]).collect() };
        let start = few(&points.rigid(&members));
        for set in SETS {
            let Some(numbers) = near.get(..set) else { break };
            let mut sorted = numbers.to_vec();
            sorted.sort_unstable();
            let key = sorted.iter().fold(size as u64, |key, &j| key << 8 ^ j as u64);
            if self.tried[centre].contains(&key) || keys.contains(&key) {
                continue;
            }
            keys.push(key);
            let known: Vec<&Path> = numbers.iter().map(|&j| &self.explained.bones[j]).collect();
            let limit = BONE_LIMIT * self.rounding;
            let patch = Patch::new(points, &members, &known, &self.frames.1);
            let Some(guess) = unmix_rigid(&patch, &start, &few(known[0]), limit) else { continue };
            let patch = Patch::new(points, &members, &known, &self.frames.0);
            let Some(guess) = unmix(&patch, patch.path(&guess.weights), limit) else { continue };
            let moved = |j: usize| points.distance(&guess.path, &self.explained.bones[j], &members);
            if (0..self.explained.bones.len()).any(|j| moved(j) < DISTINCT * self.rounding) {
                continue;
            }
            let candidate = self.confirmed(guess.path, members.clone());
            found.extend(candidate.filter(|candidate| candidate.confirmed >= CONFIRMED.1));
            if !found.is_empty() {
                break;
            }
        }
        (found, keys)
    }

    /// A bone fitted to the vertices around its patch that it helps to explain, and how many these are; `None` where that fails.
    fn confirmed(&self, mut path: Path, members: Vec<usize>) -> Option<Candidate> {
        let around = self.points.around(members[0], AROUND, |_| true);
        let open: Vec<usize> = around.into_iter().filter(|&i| !self.explained.has(i)).collect();
        let b = self.explained.bones.len();
        let weight = |row: &[(usize, f64)]| row.iter().find(|(k, _)| *k == b).map_or(0.0, |(_, w)| *w);
        let helped = |path: &Path, count: usize, times: f64| {
            let row = |&i: &usize| {
                self.explained.with(path, i, times).filter(|row| weight(row) > MIN_WEIGHT).map(|row| (i, row))
            };
            open.iter().take(count).filter_map(row).collect::<Vec<_>>()
        };
        for count in GROWTH {
            let grown = LOOSE.iter().find_map(|&times| {
                let rows = helped(&path, count, times);
                (rows.len() > members.len()).then(|| self.fitted(b, path.clone(), rows)).flatten()
            });
            path = grown?;
        }
        let confirmed = helped(&path, AROUND, 1.0).iter().filter(|(i, _)| !members.contains(i)).count();
        Some(Candidate { path, members, confirmed })
    }

    /// Bone `j`, fitted to those of some vertices (with their weights) that it moves most; `None` where it does not explain them.
    fn fitted(&self, j: usize, path: Path, mut rows: Vec<(usize, Vec<(usize, f64)>)>) -> Option<Path> {
        let own = |row: &[(usize, f64)]| row.iter().find(|(k, _)| *k == j).map_or(0.0, |(_, w)| *w);
        rows.retain(|(_, row)| own(row) > MIN_WEIGHT);
        rows.sort_by(|x, y| own(&y.1).total_cmp(&own(&x.1)).then(x.0.cmp(&y.0)));
        // Half of them where it moves most, half of them anywhere else.
        let (most, more) = (REFINED.0 / 2, rows.len().saturating_sub(REFINED.0 / 2));
        let stride = more.div_ceil(REFINED.0 - most).max(1);
        rows = rows
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at < most || (at - most) % stride == 0)
            .map(|(_, row)| row)
            .collect();
        if rows.len() < PATCHES[1] {
            return None;
        }
        let mut shares = vec![0.0; self.explained.bones.len()];
        rows.iter().flat_map(|(_, row)| row).filter(|(k, _)| *k != j).for_each(|(k, w)| shares[*k] += w);
        let mut known: Vec<usize> = (0..shares.len()).filter(|&k| shares[k] > 0.0).collect();
        known.sort_by(|&a, &b| shares[b].total_cmp(&shares[a]).then(a.cmp(&b)));
        known.truncate(REFINED.1);
        let known: Vec<&Path> = known.into_iter().map(|k| &self.explained.bones[k]).collect();
        let members: Vec<usize> = rows.iter().map(|(i, _)| *i).collect();
        let patch = Patch::new(self.points, &members, &known, &self.frames.0);
        unmix(&patch, path, BONE_LIMIT * self.rounding).map(|guess| guess.path)
    }

    /// Fits the bones next to a patch again, to vertices that they move and to those that they would move if they were less exact: a bone that is a little
    /// off explains what is near, and another one seems to be needed farther away.
    fn polish_around(&mut self, members: &[usize]) {
        let around = self.points.around(members[0], 4 * AROUND, |_| true);
        for j in self.explained.nearest(members, 4) {
            let rows = self.explained.loose(&around, j, LOOSE[0]);
            if let Some(path) = self.fitted(j, self.explained.bones[j].clone(), rows) {
                self.explained.replace(j, path);
            }
        }
    }

    /// Fits all bones again, each to vertices that it moves and to those that it would move if it were less exact.
    fn polish(&mut self, check: Check<'_>) -> Result<(), Cancelled> {
        let all: Vec<usize> = (0..self.points.len()).collect();
        for j in 0..self.explained.bones.len() {
            check()?;
            let rows = self.explained.loose(&all, j, LOOSE[1]);
            if let Some(path) = self.fitted(j, self.explained.bones[j].clone(), rows) {
                self.explained.replace(j, path);
            }
        }
        Ok(())
    }

    /// Fits a bone to vertices that it moves.
    fn refine(&mut self, j: usize, centre: usize) {
        let is_own = |i: usize| self.explained.weights[i].iter().any(|(k, w)| *k == j && *w > MIN_WEIGHT);
        let around = self.points.around(centre, 8 * AROUND, |_| true).into_iter().filter(|&i| is_own(i));
        let rows = around.map(|i| (i, self.explained.weights[i].clone())).collect();
        if let Some(path) = self.fitted(j, self.explained.bones[j].clone(), rows) {
            self.explained.replace(j, path);
        }
    }
}
