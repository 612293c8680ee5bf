//! The unknowns of a fit that starts from a rig, and the rounds over them.

use glam::DMat3;

use crate::mesh::topology::Adjacency;
use crate::model::rig::{BoneKind, Rig};
use crate::observer::Cancelled;
use crate::refit::moments::Moments;
use crate::refit::motion::{self, EMPTY, Freedom};
use crate::refit::params::{Locks, RefitParams, Solve, Subject};
use crate::refit::weights::{self, Part, Prior, Search};
use crate::refit::{converged, space};
use crate::skinning::bone_step::{self, BoneModel};
use crate::skinning::descent::State;
use crate::skinning::finish;
use crate::skinning::motion::Motion;
use crate::skinning::params::StopReason;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::skin::Skin;
use crate::skinning::smooth::Smoothness;

/// Price of leaving the rig's own weights, per coordinate and frame in squared sphere units: a hundredth of an E_RMS
/// unit. Bones that move alike to within that are told apart by it.
const PULL: f64 = 1e-10;

/// Every so many rounds bones are chosen anew at each vertex; between, they are swapped where that helps.
const WHOLE_EVERY: usize = 8;

/// Passes over the vertices when weights are smoothed: neighbours see the weights of the pass before.
const SMOOTH_PASSES: usize = 4;

/// Influences of fitted vertices when nothing is said: at least so many, and as many as the rig has up to what files
/// and engines take. More mean that nobody has chosen yet.
const INFLUENCES: std::ops::RangeInclusive<usize> = 4..=8;

/// Rig and subjects in units of the first subject's smallest enclosing sphere.
pub(super) struct Fitting {
    /// [subjects].
    pub problems: Vec<Problem>,
    /// [subjects] motion of all bones, helpers last.
    pub motions: Vec<Motion>,
    /// [subjects] motion of the rig's bones as given, or at rest.
    pub given: Vec<Motion>,
    /// [subjects] whether `given` is more than bones at rest.
    known: Vec<bool>,
    /// Weights; its rest pose is the first subject's.
    pub skin: Skin,
    /// Weights as given, in `skin`'s slots.
    held: Skin,
    /// [N] as [`Locks::vertices`].
    mask: Vec<f32>,
    /// [N] weights that a vertex is pulled to.
    prior: Vec<Vec<(u16, f32)>>,
    smoothness: Option<Smoothness>,
    pub kind: BoneKind,
    /// [B] axes of scale.
    pub axes: Vec<DMat3>,
    /// [B] whether the bone's motion is fitted.
    pub free: Vec<bool>,
    /// [B] parents; helpers have none yet.
    pub parents: Vec<Option<usize>>,
    /// Whether weights are fitted.
    pub weigh: bool,
    /// K.
    limit: usize,
    /// Squared errors of all vertices, after the last weights.
    pub errors: Vec<f64>,
    /// Squared error over all subjects.
    pub squared_error: f64,
}

impl Fitting {
    pub fn new(rig: &Rig, subjects: &[Subject], locks: &Locks, params: &RefitParams) -> Self {
        let problems = space::problems(subjects);
        let given: Vec<Motion> = subjects
            .iter()
            .zip(&problems)
            .map(|(s, p)| space::motion(s.motion, rig.bone_count(), p.frames(), &p.space))
            .collect();
        let (b, n) = (rig.bone_count(), rig.vertex_count());
        let own = Some(rig.weights.max_influences()).filter(|k| INFLUENCES.contains(k)).unwrap_or(*INFLUENCES.start());
        let limit = params.influences.unwrap_or(own).min(b + params.add_bones);
        let slots = limit.max(rig.weights.max_influences());
        let skin = space::skin(&rig.weights, slots, problems[0].rest.clone());
        let prior = (0..n).map(|i| rig.weights.of(i).map(|(j, w)| (j as u16, w)).collect()).collect();
        let locked = |j: usize| locks.bones.get(j).copied().unwrap_or(false);
        let smoothness = (params.smooth > 0.0).then(|| {
            let adjacency = Adjacency::new(&subjects[0].sequence.surface().topology, n);
            Smoothness::new(&problems[0], adjacency, params.smooth)
        });
        let mut fitting = Self {
            motions: given.clone(),
            given,
            known: subjects.iter().map(|s| s.motion.is_some()).collect(),
            held: skin.clone(),
            skin,
            mask: if locks.vertices.is_empty() { vec![0.0; n] } else { locks.vertices.clone() },
            prior,
            smoothness,
            kind: params.bone_kind.unwrap_or(rig.kind),
            axes: rig.bones.iter().map(|bone| bone.world_from_bind.matrix3).collect(),
            free: (0..b).map(|j| params.solve != Solve::Weights && !locked(j)).collect(),
            parents: rig.bones.iter().map(|bone| bone.parent).collect(),
            weigh: params.solve != Solve::Motion,
            limit,
            errors: Vec::new(),
            squared_error: f64::INFINITY,
            problems,
        };
        if fitting.kind == BoneKind::Rigid {
            fitting.make_rigid();
        }
        fitting
    }

    /// Free bones start without the scale they may not have.
    fn make_rigid(&mut self) {
        for motion in &mut self.motions {
            for j in (0..motion.bones).filter(|&j| self.free[j]) {
                (0..motion.frames()).for_each(|t| space::remove_scale(motion, j, t));
            }
        }
    }

    /// B, helpers included.
    pub fn bones(&self) -> usize {
        self.free.len()
    }

    /// Rounds over what is to be fitted, as the parameters say.
    pub fn descend(&mut self, params: &RefitParams, run: &mut Run<'_>) -> Result<StopReason, Cancelled> {
        match params.solve {
            Solve::Weights => {
                run.stage("weights", Some(self.passes()))?;
                self.fit_weights(run)?;
                Ok(StopReason::Converged)
            }
            Solve::Motion => {
                run.stage("motion", Some(1))?;
                self.fit_motion(true, 60, run);
                run.round(self.bones(), self.e_rms())?;
                Ok(StopReason::Converged)
            }
            Solve::Both => {
                let rounds = params.max_iterations.unwrap_or(12);
                run.stage("weights and motion", Some(rounds))?;
                if self.known.contains(&false) {
                    self.fit_motion(true, 30, run);
                }
                self.rounds(rounds, params.tolerance, run)
            }
        }
    }

    /// Alternates between weights and motion.
    ///
    /// Turn by turn creeps along curved valleys, so the bones are carried on in the direction they moved, as in
    /// [`crate::fit`]. Weights are optimal for any motion, so this is safe: where the error rises, it is taken back.
    pub fn rounds(&mut self, rounds: usize, tolerance: f64, run: &mut Run<'_>) -> Result<StopReason, Cancelled> {
        let mut momentum = Momentum::default();
        let mut last = f64::INFINITY;
        let mut poor = 0;
        let mut stop = StopReason::MaxIterations;
        for round in 0..rounds {
            let before = self.squared_error;
            let whole = round % WHOLE_EVERY == 0 || round + 1 == rounds;
            let search = if whole { Search::Whole } else { Search::Nearby };
            self.solve_weights(search, run);
            if self.squared_error > before && momentum.take_back(&mut self.motions) {
                self.solve_weights(search, run);
            }
            // Motion that was given may be far from the sequence: the first round may start anew.
            self.fit_motion(round == 0 && !self.known.contains(&false) && self.bones() == self.given[0].bones, 8, run);
            let now = self.e_rms();
            run.round(self.bones(), now)?;
            let verdict = converged(last, now, tolerance);
            // Two poor rounds in a row: momentum makes single ones look worse than they are.
            poor = if verdict.is_some() { poor + 1 } else { 0 };
            last = now;
            match verdict {
                Some(verdict) if poor == 2 || verdict == StopReason::Exact => {
                    stop = verdict;
                    break;
                }
                _ if run.is_over() => {
                    stop = StopReason::MaxSeconds;
                    break;
                }
                _ => {}
            }
            if round + 1 < rounds && self.smoothness.is_none() {
                momentum.look_ahead(&mut self.motions, &self.free, self.kind, &self.axes);
            }
        }
        momentum.take_back(&mut self.motions);
        Ok(stop)
    }

    fn passes(&self) -> usize {
        if self.smoothness.is_some() { SMOOTH_PASSES } else { 1 }
    }

    fn fit_weights(&mut self, run: &mut Run<'_>) -> Result<(), Cancelled> {
        for _ in 0..self.passes() {
            self.solve_weights(Search::Whole, run);
            run.round(self.bones(), self.e_rms())?;
        }
        Ok(())
    }

    /// Weights of all vertices that are not locked, then blends of those that are in part.
    pub fn solve_weights(&mut self, search: Search, run: &mut Run<'_>) {
        let parts: Vec<Part> =
            self.problems.iter().zip(&self.motions).map(|(problem, motion)| Part { problem, motion }).collect();
        let means = self.smoothness.as_ref().map(|smoothness| (smoothness.means(&self.skin), smoothness.strength));
        let samples: usize = self.problems.iter().map(|problem| problem.length).sum();
        let prior = match &means {
            Some((means, strength)) => Prior { weights: means, strength: *strength },
            None => Prior { weights: &self.prior, strength: PULL * samples as f64 },
        };
        let free: Vec<bool> = self.mask.iter().map(|&m| self.weigh && m < 1.0).collect();
        self.errors = run.timed("weights", || weights::solve(&parts, &mut self.skin, self.limit, search, prior, &free));
        if self.weigh && blend(&mut self.skin, &self.held, &self.mask, self.limit) {
            let none = vec![false; free.len()];
            self.errors =
                run.timed("weights", || weights::solve(&parts, &mut self.skin, self.limit, search, prior, &none));
        }
        self.squared_error = self.errors.iter().sum();
    }

    /// Motion of all free bones; with `anew` frames may leave their present motion for a guess from the vertices.
    pub fn fit_motion(&mut self, anew: bool, steps: usize, run: &mut Run<'_>) {
        let mut squared_error = 0.0;
        for s in 0..self.problems.len() {
            let moments = run.timed("moments", || Moments::new(&self.problems[s], &self.skin, self.bones()));
            let free: Vec<bool> = (0..self.bones()).map(|j| self.free[j] && moments.mass(j) >= EMPTY).collect();
            let freedom = Freedom { kind: self.kind, free: &free, axes: &self.axes, steps, tolerance: 1e-5 };
            let motion = &mut self.motions[s];
            run.timed("motion", || {
                if anew {
                    motion::start(motion, &moments, &freedom, self.known[s]);
                }
                squared_error += motion::solve(motion, &moments, &freedom);
            });
            self.follow(s, &free);
        }
        self.squared_error = squared_error;
    }

    /// Free bones on which nothing hangs keep their place beside their parent.
    fn follow(&mut self, s: usize, fitted: &[bool]) {
        for j in space::parents_first(&self.parents) {
            let Some(p) = self.parents[j].filter(|_| self.free[j] && !fitted[j]) else { continue };
            if j < self.given[s].bones && p < self.given[s].bones {
                space::follow(&mut self.motions[s], &self.given[s], j, p);
            }
        }
    }

    /// [N] squared errors, without the share of locked vertices: new bones cannot help them.
    pub fn errors_to_help(&self) -> Vec<f64> {
        self.errors.iter().zip(&self.mask).map(|(error, &m)| error * f64::from(1.0 - m)).collect()
    }

    /// Error over all subjects [Kavan2010 s.5].
    pub fn e_rms(&self) -> f64 {
        let samples: usize = self.problems.iter().map(|p| p.vertices() * p.length).sum();
        1000.0 * (self.squared_error.max(0.0) / samples as f64).sqrt()
    }

    /// As in a fit from nothing, of the first subject.
    pub fn jitter_ratio(&self) -> Option<f64> {
        let model = BoneModel::new(self.kind, self.bones(), 1);
        let state = State { motion: self.motions[0].clone(), skin: self.skin.clone(), model };
        finish::jitter_ratio(&self.problems[0], &state)
    }
}

/// How far ahead of the last step the next one starts.
#[derive(Default)]
struct Momentum {
    /// Motions after the last round.
    last: Option<Vec<Motion>>,
    /// Motions after the last round while the present ones are ahead of them.
    plain: Option<Vec<Motion>>,
    /// Rounds since it started.
    age: f64,
}

impl Momentum {
    /// Nesterov's schedule, brought back to what the bones' kind allows.
    fn look_ahead(&mut self, motions: &mut [Motion], free: &[bool], kind: BoneKind, axes: &[DMat3]) {
        const MOST: f64 = 0.97;
        self.age += 1.0;
        let share = ((self.age - 1.0) / (self.age + 2.0)).min(MOST);
        let now = motions.to_vec();
        if let Some(last) = self.last.take().filter(|_| share > 0.0) {
            let axes = if kind == BoneKind::Trs { axes.to_vec() } else { vec![DMat3::IDENTITY; axes.len()] };
            let model = BoneModel { axes, ..BoneModel::new(kind, free.len(), 1) };
            for ((motion, now), last) in motions.iter_mut().zip(&now).zip(last) {
                *motion = bone_step::extrapolate(now, last, share, &model);
                for j in (0..free.len()).filter(|&j| !free[j]) {
                    (0..4).for_each(|c| motion.row_mut(c, j).copy_from_slice(now.row(c, j)));
                }
            }
            self.plain = Some(now.clone());
        }
        self.last = Some(now);
    }

    /// Back to where the last round ended; false if nothing was ahead.
    fn take_back(&mut self, motions: &mut [Motion]) -> bool {
        let Some(plain) = self.plain.take() else { return false };
        motions.iter_mut().zip(plain).for_each(|(motion, plain)| *motion = plain);
        (self.last, self.age) = (None, 0.0);
        true
    }
}

/// Mixes given and fitted weights where the mask is between 0 and 1; false where there is nothing to mix.
fn blend(skin: &mut Skin, held: &Skin, mask: &[f32], limit: usize) -> bool {
    let mut any = false;
    for (i, &m) in mask.iter().enumerate().filter(|(_, m)| **m > 0.0 && **m < 1.0) {
        any = true;
        let share = f64::from(m);
        let mut mixed: Vec<(usize, f64)> = held.of(i).map(|(j, w)| (j, share * w)).collect();
        for (j, w) in skin.of(i) {
            match mixed.iter_mut().find(|(other, _)| *other == j) {
                Some((_, sum)) => *sum += (1.0 - share) * w,
                None => mixed.push((j, (1.0 - share) * w)),
            }
        }
        mixed.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        mixed.truncate(limit);
        let total: f64 = mixed.iter().map(|(_, w)| w).sum();
        let row = i * skin.slots..(i + 1) * skin.slots;
        skin.bones[row.clone()].fill(0);
        skin.weights[row.clone()].fill(0.0);
        for (at, (j, w)) in row.zip(mixed) {
            (skin.bones[at], skin.weights[at]) = (j as u16, w / total);
        }
    }
    any
}
