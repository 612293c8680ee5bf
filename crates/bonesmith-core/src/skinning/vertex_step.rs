//! The vertex step for fixed bones: which bones, which weights, which rest position. Eight vertices at a time.
//!
//! For vertex `v` (trajectory of length L) with homogeneous rest `u` and bones `T_j` the error is
//!
//! ```text
//! E(w, u) = |v|^2 - 2 sum_j w_j Y_j . u + sum_jk w_j w_k u^T K_jk u
//! Y_j = T_j^T v (4 numbers a bone and vertex)      K_jk = T_j^T T_k (4x4, shared by all vertices)
//! ```
//!
//! (and the same again for the normals, with the homogeneous coordinate 0, where they count: `normals`),
//! so after one product with the trajectories everything is arithmetic on tiny matrices, whatever the number of
//! frames. Choice of influences: [Kavan2010 s.4.4] takes the K bones that alone predict best, [Le2014 s.3.7] solves
//! with all bones and drops the least. We start from the present set, admit the bones with the best line search
//! towards them, solve on the simplex, and drop one at a time whose loss is least; a new set is taken only if it is
//! better. Repeated over the outer rounds this is greedy selection with refitting and swaps.
//!
//! Candidates and rest positions are found vertex by vertex (vectorised over bones and matrix entries), the simplex problems are
//! solved side by side (`solve::simplices`). `choice` is the plain version of the same step, for one vertex in float64.

// Loops over lanes are written with indices: that is the shape the compiler vectorises.
#![allow(clippy::needless_range_loop)]

use glam::{DMat3, DVec3};
use multiversion::multiversion;

use crate::skinning::products::{BonePairs, Forms, PAIRS};
use crate::skinning::skin::{SkinRows, SkinView};
use crate::solve::lanes::{Floats, LANES, Lanes, Mat4, steps};
use crate::solve::simplices::Simplices;

/// Settings of the vertex step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VertexParams {
    /// K: maximum influences.
    pub slots: usize,
    /// Bones admitted besides the present ones, each round.
    pub newcomers: usize,
    /// Least gain of an admitted bone, as a share of the vertex's error.
    pub min_gain: f64,
    /// Move the rest position too.
    pub move_rest: bool,
    /// Alternations between weights and rest position.
    pub rounds: usize,
}

/// What up to eight vertices are solved from.
#[derive(Clone, Copy)]
pub(crate) struct BatchView<'a> {
    pub pairs: &'a BonePairs,
    /// [n, 4 B] products of the residuals with each row of the motion.
    pub along: &'a [f32],
    /// [n, 3 B] products of the true normals with the bones, where they count.
    pub normals: Option<&'a [f32]>,
    /// Rest normals stay as they are.
    pub keeps_normals: bool,
    /// [n] squared lengths of the residuals.
    pub errors: &'a [f64],
    /// Smoothness, if any.
    pub pull: Option<Pull<'a>>,
}

/// Smoothness of weights: `strength |w - mean|^2` is added to the error.
#[derive(Clone, Copy)]
pub(crate) struct Pull<'a> {
    /// [n] (bone, mean weight of the neighbours).
    pub means: &'a [Vec<(u16, f32)>],
    pub strength: f64,
}

impl Pull<'_> {
    /// Mean weight of bone `j` around vertex `l`.
    #[inline(always)]
    fn of(&self, l: usize, j: usize) -> f64 {
        self.means[l].iter().find(|(bone, _)| *bone as usize == j).map_or(0.0, |(_, w)| f64::from(*w))
    }
}

/// Rest vectors of a vertex, homogeneous.
#[derive(Clone, Copy)]
struct Rest {
    position: [f64; 4],
    /// Zero where normals do not count.
    normal: [f64; 4],
}

impl Rest {
    #[inline(always)]
    fn new(position: DVec3, normal: DVec3) -> Self {
        Self { position: position.extend(1.0).to_array(), normal: normal.extend(0.0).to_array() }
    }

    /// `u u^T + n n^T`.
    #[inline(always)]
    fn outer(&self) -> Mat4 {
        let mut outer = Mat4::outer(&self.position, &self.position);
        outer.add_scaled(1.0, &Mat4::outer(&self.normal, &self.normal));
        outer
    }
}

/// Products of a vertex's trajectories with each row of the motion.
#[derive(Clone, Copy)]
struct Along<'a> {
    /// [4 B] of the position's residual.
    position: &'a [f32],
    /// [3 B] of the true normal, where normals count.
    normal: Option<&'a [f32]>,
}

impl<'a> BatchView<'a> {
    /// Whether normals count and may move.
    #[inline(always)]
    fn moves_normals(&self) -> bool {
        self.normals.is_some() && !self.keeps_normals
    }

    #[inline(always)]
    fn along(&self, l: usize) -> Along<'a> {
        let b = self.pairs.bones;
        let normal = self.normals.map(|normals| &normals[l * 3 * b..(l + 1) * 3 * b]);
        Along { position: &self.along[l * 4 * b..(l + 1) * 4 * b], normal }
    }
}

/// Bones that one vertex chooses from.
#[derive(Clone, Default)]
struct Candidates {
    bones: Vec<usize>,
    weights: Vec<f64>,
    /// `Y_j` of each.
    y: Vec<[f64; 4]>,
    /// `T_j^T m` of the true normal, where normals count.
    z: Vec<[f64; 3]>,
    /// How many of them, the first ones, are influences of the vertex already.
    present: usize,
}

/// Solves batches of vertices one after another with shared buffers.
pub(crate) struct VertexSolver {
    params: VertexParams,
    simplices: Simplices,
    /// [8]
    candidates: Vec<Candidates>,
    /// [B / 8] slope of the error towards each bone.
    slopes: Vec<Floats>,
    /// [B / 8] squared distance of each bone's prediction from the present one.
    distances: Vec<Floats>,
    /// [B / 8] minus the product of each bone's normal with the present one, where normals count.
    normal_crosses: Vec<Floats>,
    /// [B / 8] gain of a line search towards each bone.
    gains: Vec<Floats>,
}

/// Improves influences and rest positions of up to eight vertices.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn solve_vertices(solver: &mut VertexSolver, view: BatchView<'_>, skin: SkinRows<'_>) {
    solver.solve(view, skin);
}

/// The best rest normals of up to eight vertices for their weights.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn solve_normals(solver: &mut VertexSolver, view: BatchView<'_>, skin: SkinRows<'_>) {
    for l in 0..skin.rest.len() {
        let own = &mut solver.candidates[0];
        own.load_present(skin.view().of(l));
        own.find_y(view.pairs, view.along(l), &Rest::new(skin.rest[l], skin.normals[l]), 0);
        skin.normals[l] = own.best_rest(view.pairs, skin.rest[l], skin.normals[l]).1;
    }
}

/// Adds to `costs[j]` by how much the error of up to eight vertices would rise without bone `j`, times the vertex's importance.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn add_removal_costs(
    solver: &mut VertexSolver,
    view: BatchView<'_>,
    rows: &SkinView<'_>,
    importance: &dyn Fn(usize) -> f64,
    costs: &mut [f64],
) {
    solver.removal_costs(view, rows, importance, costs);
}

/// A vertex with fewer influences.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fewer {
    /// (bone, weight), falling.
    pub row: Vec<(usize, f64)>,
    /// Rest position and normal for this row.
    pub rest: DVec3,
    pub normal: DVec3,
    /// Squared error, less that of the present row.
    pub rise: f64,
}

/// What a vertex becomes with fewer and fewer influences, and what it is off now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Removals {
    /// The cheapest influence removed, then the next one, until one is left.
    pub fewer: Vec<Fewer>,
    /// Squared error of the present position.
    pub position_error: f64,
    /// Squared error of the present normal, where normals count.
    pub normal_error: f64,
}

/// The removals of up to eight vertices, without their errors.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
pub(crate) fn removal_chains(solver: &mut VertexSolver, view: BatchView<'_>, rows: &SkinView<'_>) -> Vec<Removals> {
    solver.removal_chains(view, rows)
}

impl VertexSolver {
    pub fn new(params: VertexParams) -> Self {
        let capacity = (params.slots + params.newcomers).max(2);
        Self {
            params,
            simplices: Simplices::new(capacity),
            candidates: vec![Candidates::default(); LANES],
            slopes: Vec::new(),
            distances: Vec::new(),
            normal_crosses: Vec::new(),
            gains: Vec::new(),
        }
    }

    #[inline(always)]
    fn solve(&mut self, view: BatchView<'_>, skin: SkinRows<'_>) {
        for l in 0..skin.rest.len() {
            self.gather(view, l, &skin.view());
        }
        let SkinRows { slots, bones, weights, rest, normals } = skin;
        self.load(view, rest, normals);
        self.choose(rest.len());
        self.unload(rest.len());
        if self.params.move_rest || view.moves_normals() {
            for round in 0..self.params.rounds {
                self.find_rest(view, rest, normals);
                if round + 1 < self.params.rounds {
                    self.load(view, rest, normals);
                    self.simplices.center();
                    self.simplices.solve(Lanes::ONE);
                    self.simplices.take_out_zeros(Lanes::ONE);
                    self.unload(rest.len());
                }
            }
        }
        bones.fill(0);
        weights.fill(0.0);
        for l in 0..rest.len() {
            let Candidates { bones: chosen, weights: found, .. } = &self.candidates[l];
            for (k, (&j, &w)) in chosen.iter().zip(found).enumerate() {
                bones[l * slots + k] = j as u16;
                weights[l * slots + k] = w;
            }
        }
    }

    /// Candidates of vertex `l`: its bones and those of largest gain. A vertex without bones gets its best one.
    #[inline(always)]
    fn gather(&mut self, view: BatchView<'_>, l: usize, rows: &SkinView<'_>) {
        let (b, rest, along) = (view.pairs.bones, Rest::new(rows.rest[l], rows.normals[l]), view.along(l));
        let mut own = std::mem::take(&mut self.candidates[l]);
        own.load_present(rows.of(l));
        if self.params.newcomers == 0 && self.params.slots > 1 && own.present > 0 {
            own.find_y(view.pairs, along, &rest, 0);
            self.candidates[l] = own;
            return;
        }
        self.measure(view.pairs, along, &own, &rest);
        if own.bones.is_empty() || self.params.slots == 1 {
            let best = self.best_single(b, own.bones.first().copied());
            own.bones.push(best);
            own.find_y(view.pairs, along, &rest, own.bones.len() - 1);
            own.bones.drain(..own.bones.len() - 1);
            own.weights.clear();
            own.weights.push(1.0);
        } else {
            if let Some(pull) = view.pull {
                self.add_pull(pull, l);
            }
            self.admit(&mut own, b, self.params.min_gain * view.errors[l]);
            own.find_y(view.pairs, along, &rest, 0);
        }
        self.candidates[l] = own;
    }

    /// Slope, distance and gain of every bone: of a line search from the present prediction p towards the bone alone,
    /// `(r . d)^2 / |d|^2` with `d = a_j - p`, going at most the whole way.
    #[inline(always)]
    fn measure(&mut self, pairs: &BonePairs, along: Along<'_>, own: &Candidates, rest: &Rest) {
        // Distances of nearly equal predictions are rounding errors.
        const LEAST_DISTANCE: f32 = 1e-6;
        const NONE: [f32; 4] = [0.0, 0.0, 0.0, -1e30];
        let (b, groups) = (pairs.bones, pairs.own().len());
        let (u, n) = (&rest.position, &rest.normal);
        let monomials: [f64; 10] = PAIRS.map(|(c, d)| u[c] * u[d] + n[c] * n[d]);
        // -a_j . p for now.
        self.distances.clear();
        self.distances.resize(groups, Floats::ZERO);
        self.normal_crosses.clear();
        self.normal_crosses.resize(groups, Floats::ZERO);
        for (&k, &w) in own.bones.iter().zip(&own.weights) {
            let x: [f32; 10] = monomials.map(|m| (-w * m) as f32);
            let forms = &pairs.forms(k)[..groups];
            let crosses = &mut self.distances[..groups];
            for group in steps(groups) {
                crosses[group] += evaluate(&forms[group], &x);
            }
            if along.normal.is_some() {
                let x: [f32; 10] = PAIRS.map(|(c, d)| (-w * n[c] * n[d]) as f32);
                for group in steps(groups) {
                    self.normal_crosses[group] += evaluate(&forms[group], &x);
                }
            }
        }
        self.slopes.clear();
        for group in steps(groups) {
            let start = group * LANES;
            // Lanes without a bone have no slope.
            let cut = |along: &[f32], c: usize, none: f32| {
                Floats::from_fn(|l| if start + l < b { along[c * b + start + l] } else { none })
            };
            let row = |c: usize| cut(along.position, c, NONE[c]);
            let [x, y, z] = [0, 1, 2].map(|c| Floats::splat(u[c] as f32));
            let mut slope = (x * row(0) + y * row(1)) + (z * row(2) + row(3));
            if let Some(along) = along.normal {
                // The residual's product: that of the true normal less that of the present one.
                slope += self.normal_crosses[group];
                (0..3).for_each(|c| slope += Floats::splat(n[c] as f32) * cut(along, c, 0.0));
            }
            self.slopes.push(slope);
        }
        let (mut slope_pred, mut pred_pred) = (0.0, 0.0);
        for (&k, &w) in own.bones.iter().zip(&own.weights) {
            slope_pred += w as f32 * self.slopes[k / LANES].0[k % LANES];
            pred_pred -= w as f32 * self.distances[k / LANES].0[k % LANES];
        }
        let (slope_pred, pred_pred) = (Floats::splat(slope_pred), Floats::splat(pred_pred));
        let x: [f32; 10] = monomials.map(|m| m as f32);
        self.gains.clear();
        let own = pairs.own();
        for group in steps(groups) {
            let size = evaluate(&own[group], &x);
            let least = Floats::splat(LEAST_DISTANCE) * (size + pred_pred) + Floats::splat(f32::MIN_POSITIVE);
            let slope = self.slopes[group] - slope_pred;
            let distance = self.distances[group] + self.distances[group] + (size + pred_pred);
            let distance = distance.max(least);
            let step = (slope / distance).max(Floats::ZERO).min(Floats::splat(1.0));
            self.gains.push(step * (slope + slope - step * distance));
            self.slopes[group] = slope;
            self.distances[group] = distance;
        }
    }

    /// Gains with smoothness: bones that neighbours use gain more than by the error alone.
    #[inline(always)]
    fn add_pull(&mut self, pull: Pull<'_>, l: usize) {
        for &(bone, mean) in &pull.means[l] {
            self.gains[bone as usize / LANES].0[bone as usize % LANES] += pull.strength as f32 * mean * mean;
        }
    }

    /// Adds the bones of best gain to the candidates.
    #[inline(always)]
    fn admit(&mut self, own: &mut Candidates, b: usize, least_gain: f64) {
        for &j in &own.bones {
            self.gains[j / LANES].0[j % LANES] = 0.0;
        }
        let least = least_gain.max(0.0) as f32;
        for _ in 0..self.params.newcomers {
            let best = self.gains.iter().fold(Floats::splat(least), |best, gains| best.max(*gains));
            let best = best.0.into_iter().fold(least, f32::max);
            if best <= least {
                break;
            }
            let all = self.gains.iter_mut().flat_map(|gains| &mut gains.0).take(b);
            if let Some((j, gain)) = all.enumerate().find(|(_, gain)| **gain == best) {
                own.bones.push(j);
                own.weights.push(0.0);
                *gain = 0.0;
            }
        }
    }

    /// The single best bone; the present one if none is better.
    #[inline(always)]
    fn best_single(&self, b: usize, present: Option<usize>) -> usize {
        // |v - a_j|^2 - |r|^2 = |d|^2 - 2 r . d
        let error = |j: usize| self.distances[j / LANES].0[j % LANES] - 2.0 * self.slopes[j / LANES].0[j % LANES];
        let mut best = present.unwrap_or(0);
        for j in 0..b {
            if error(j) < error(best) {
                best = j;
            }
        }
        best
    }

    /// Loads the candidates into the simplex solver.
    #[inline(always)]
    fn load(&mut self, view: BatchView<'_>, rest: &[DVec3], normals: &[DVec3]) {
        let simplices = &mut self.simplices;
        simplices.size = self.candidates[..rest.len()].iter().map(|c| c.bones.len()).max().unwrap_or(0);
        simplices.clear();
        for (l, (rest, normal)) in rest.iter().zip(normals).enumerate() {
            let rest = Rest::new(*rest, *normal);
            let (u, outer) = (&rest.position, rest.outer());
            let own = &self.candidates[l];
            for (p, &j) in own.bones.iter().enumerate() {
                let y = &own.y[p];
                simplices.weights[p].0[l] = own.weights[p];
                simplices.allowed[p].0[l] = 1.0;
                simplices.linear[p].0[l] = (u[0] * y[0] + u[1] * y[1]) + (u[2] * y[2] + y[3]);
                if view.normals.is_some() {
                    simplices.linear[p].0[l] += (0..3).map(|c| rest.normal[c] * own.z[p][c]).sum::<f64>();
                }
                for q in steps(p + 1) {
                    let at = simplices.at(p, q);
                    simplices.gram[at].0[l] = view.pairs.block(j, own.bones[q]).dot(&outer);
                }
                if let Some(pull) = view.pull {
                    let at = simplices.at(p, p);
                    simplices.gram[at].0[l] += pull.strength;
                    simplices.linear[p].0[l] += pull.strength * pull.of(l, j);
                }
            }
        }
    }

    /// Best weights over all candidates, then without the least useful ones until K are left; where that is worse than before, best
    /// weights over the previous bones.
    #[inline(always)]
    fn choose(&mut self, n: usize) {
        let simplices = &mut self.simplices;
        simplices.center();
        simplices.keep_start();
        simplices.solve(Lanes::ONE);
        let most = Lanes::splat(self.params.slots as f64);
        simplices.thin_out(Lanes::ONE, most);
        let worse = Lanes::ZERO.below(simplices.value());
        if worse.any() {
            for p in 0..simplices.size {
                let present = Lanes::from_fn(|l| if l < n && p < self.candidates[l].present { 1.0 } else { 0.0 });
                simplices.allowed[p] = worse.select(present, simplices.allowed[p]);
            }
            simplices.take_start(worse);
            simplices.solve(worse);
            simplices.take_out_zeros(worse);
        }
    }

    /// Reads the weights back; bones without any are removed.
    #[inline(always)]
    fn unload(&mut self, n: usize) {
        for (l, own) in self.candidates[..n].iter_mut().enumerate() {
            let mut used = 0;
            for p in 0..own.bones.len() {
                let w = self.simplices.weights[p].0[l];
                if w > 0.0 {
                    own.bones[used] = own.bones[p];
                    own.y[used] = own.y[p];
                    if !own.z.is_empty() {
                        own.z[used] = own.z[p];
                    }
                    own.weights[used] = w;
                    used += 1;
                }
            }
            own.bones.truncate(used);
            own.weights.truncate(used);
        }
    }

    /// Adds to `costs[j]` by how much the error would rise without bone `j`, the others and the admitted bones refitted; a vertex with one
    /// bone gets the best mix of admitted bones.
    #[inline(always)]
    fn removal_costs(
        &mut self,
        view: BatchView<'_>,
        rows: &SkinView<'_>,
        importance: &dyn Fn(usize) -> f64,
        costs: &mut [f64],
    ) {
        let (rest, b) = (rows.rest, view.pairs.bones);
        if b < 2 {
            return;
        }
        for (l, (position, normal)) in rest.iter().zip(rows.normals).enumerate() {
            let (along, rest) = (view.along(l), Rest::new(*position, *normal));
            let mut own = std::mem::take(&mut self.candidates[l]);
            own.load_present(rows.of(l));
            self.measure(view.pairs, along, &own, &rest);
            self.admit(&mut own, b, 0.0);
            if own.bones.len() == 1 {
                own.bones.push(usize::from(own.bones[0] == 0));
                own.weights.push(0.0);
            }
            own.find_y(view.pairs, along, &rest, 0);
            self.candidates[l] = own;
        }
        self.load(view, rest, rows.normals);
        self.simplices.center();
        self.simplices.keep_start();
        let most = self.candidates[..rest.len()].iter().map(|own| own.present).max().unwrap_or(0);
        for out in 0..most {
            self.simplices.take_start(Lanes::ONE);
            let affected = Lanes::from_fn(|l| match l < rest.len() && out < self.candidates[l].present {
                true => 1.0,
                false => 0.0,
            });
            self.simplices.forbid(out, affected);
            self.simplices.solve(affected);
            let rise = self.simplices.value() * self.simplices.unit;
            for (l, own) in self.candidates[..rest.len()].iter().enumerate() {
                if out < own.present {
                    costs[own.bones[out]] += rise.0[l].max(0.0) * importance(l);
                }
            }
            self.simplices.allow(out, affected);
        }
    }
}

impl VertexSolver {
    /// Rows with one influence less, then two, until one is left: the influence goes first whose loss is estimated to cost least; the weights of the
    /// others, rest position and normal are solved again.
    #[inline(always)]
    fn removal_chains(&mut self, view: BatchView<'_>, rows: &SkinView<'_>) -> Vec<Removals> {
        let n = rows.rest.len();
        let (mut rest, mut normals) = (rows.rest.to_vec(), rows.normals.to_vec());
        let (mut before, mut most) = ([0.0; LANES], Lanes::ZERO);
        for (l, own) in self.candidates[..n].iter_mut().enumerate() {
            let present = Rest::new(rest[l], normals[l]);
            own.load_present(rows.of(l));
            own.find_y(view.pairs, view.along(l), &present, 0);
            before[l] = own.cost(view.pairs, &present);
            most.0[l] = own.present as f64 - 1.0;
        }
        let mut found = vec![Removals::default(); n];
        loop {
            let todo = Lanes::splat(0.5).below(most);
            if !todo.any() {
                return found;
            }
            self.solve_with(view, &rest, &normals, todo, most);
            self.find_rest(view, &mut rest, &mut normals);
            self.solve_with(view, &rest, &normals, todo, most);
            for (l, removals) in found.iter_mut().enumerate().filter(|(l, _)| todo.0[*l] > 0.0) {
                let own = &self.candidates[l];
                let mut row: Vec<(usize, f64)> = own.bones.iter().copied().zip(own.weights.iter().copied()).collect();
                row.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                most.0[l] = row.len() as f64 - 1.0;
                let rise = own.cost(view.pairs, &Rest::new(rest[l], normals[l])) - before[l];
                removals.fewer.push(Fewer { row, rest: rest[l], normal: normals[l], rise });
            }
        }
    }

    /// Best weights over the candidates in the lanes of `todo`, then without the least useful ones until at most `most` are left.
    #[inline(always)]
    fn solve_with(&mut self, view: BatchView<'_>, rest: &[DVec3], normals: &[DVec3], todo: Lanes, most: Lanes) {
        self.load(view, rest, normals);
        self.simplices.center();
        self.simplices.solve(todo);
        self.simplices.thin_out(todo, most);
        self.unload(rest.len());
    }

    /// The best rest positions and normals for the weights of the candidates, where they may move.
    #[inline(always)]
    fn find_rest(&self, view: BatchView<'_>, rest: &mut [DVec3], normals: &mut [DVec3]) {
        for ((u, n), own) in rest.iter_mut().zip(normals).zip(&self.candidates) {
            let best = own.best_rest(view.pairs, *u, *n);
            if self.params.move_rest {
                *u = best.0;
            }
            if view.moves_normals() {
                *n = best.1;
            }
        }
    }
}

impl Candidates {
    /// The bones that the vertex has.
    #[inline(always)]
    fn load_present(&mut self, influences: impl Iterator<Item = (usize, f64)>) {
        self.bones.clear();
        self.weights.clear();
        for (j, w) in influences {
            self.bones.push(j);
            self.weights.push(w);
        }
        self.present = self.bones.len();
    }

    /// `Y_j = T_j^T v = T_j^T residual + T_j^T pred` of the candidates from number `from` on.
    #[inline(always)]
    fn find_y(&mut self, pairs: &BonePairs, along: Along<'_>, rest: &Rest, from: usize) {
        self.y.clear();
        self.z.clear();
        for &j in &self.bones[from..] {
            let mut mixed = Mat4::default();
            for k in steps(self.present) {
                mixed.add_scaled(self.weights[k], pairs.block(j, self.bones[k]));
            }
            let mut y = mixed.times(&rest.position);
            (0..4).for_each(|c| y[c] += f64::from(along.position[c * pairs.bones + j]));
            self.y.push(y);
            let of_normal = |along: &[f32]| std::array::from_fn(|c| f64::from(along[c * pairs.bones + j]));
            self.z.extend(along.normal.map(of_normal));
        }
    }

    /// `|v - sum_j w_j T_j u|^2 - |v|^2`, and the same of the normals, where they count.
    #[inline(always)]
    fn cost(&self, pairs: &BonePairs, rest: &Rest) -> f64 {
        let (mut mixed, mut linear) = (Mat4::default(), 0.0);
        for (p, (&j, &wj)) in self.bones.iter().zip(&self.weights).enumerate() {
            linear += wj * (0..4).map(|c| self.y[p][c] * rest.position[c]).sum::<f64>();
            linear += self.z.get(p).map_or(0.0, |z| wj * (0..3).map(|c| z[c] * rest.normal[c]).sum::<f64>());
            for k in steps(self.bones.len()) {
                mixed.add_scaled(wj * self.weights[k], pairs.block(j, self.bones[k]));
            }
        }
        mixed.dot(&rest.outer()) - 2.0 * linear
    }

    /// Rest position and normal of least error for given weights: `(sum w_j w_k K_jk) u = sum w_j Y_j` [Kavan2010 s.4.3].
    ///
    /// A small ridge keeps the vertex in place in directions that no frame determines.
    #[inline(always)]
    fn best_rest(&self, pairs: &BonePairs, rest: DVec3, normal: DVec3) -> (DVec3, DVec3) {
        let mut system = Mat4::default();
        let (mut right, mut normal_right) = (DVec3::ZERO, DVec3::ZERO);
        for (p, (&j, &wj)) in self.bones.iter().zip(&self.weights).enumerate() {
            right += wj * DVec3::from_slice(&self.y[p]);
            normal_right += self.z.get(p).map_or(DVec3::ZERO, |z| wj * DVec3::from_slice(z));
            for k in steps(self.bones.len()) {
                system.add_scaled(wj * self.weights[k], pairs.block(j, self.bones[k]));
            }
        }
        let column = |d: usize| DVec3::new(system.get(0, d), system.get(1, d), system.get(2, d));
        let matrix = DMat3::from_cols(column(0), column(1), column(2));
        let ridge = 1e-6 * (matrix.x_axis.x + matrix.y_axis.y + matrix.z_axis.z) + 1e-12;
        let inverse = (matrix + DMat3::from_diagonal(DVec3::splat(ridge))).inverse();
        (rest + inverse * (right - matrix * rest - column(3)), normal + inverse * (normal_right - matrix * normal))
    }
}

/// Quadratic forms of eight bones.
#[inline(always)]
fn evaluate(forms: &Forms, x: &[f32; 10]) -> Floats {
    let term = |p: usize| Floats::splat(x[p]) * forms[p];
    let (first, second) = ((term(0) + term(1)) + (term(2) + term(3)), (term(4) + term(5)) + (term(6) + term(7)));
    (first + second) + (term(8) + term(9))
}
