//! How many bones an error takes.
//!
//! A number is estimated by a search on the sample that adds bones until they reach the error. Fits with that number and with others around
//! it follow, each the same as a fit with a given number, until the smallest one is known that gets there. So a goal is never worse than
//! the number that it ends with, and the number depends on the errors of whole fits, not on the steps of one search.
//!
//! A root mean square hides what happens in one place: a blink, a finger, a fin. So the mesh is divided into regions, and in each 99.9 % of the
//! distances have to stay below [`LOCAL`] times the goal. Where they do not, vertices of the region count more, and bones are added.

use crate::observer::Cancelled;
use crate::skinning::descent::State;
use crate::skinning::loss::Loss;
use crate::skinning::params::{AUTO_MAX_BONES, AUTO_TARGET, BoneCount, VERTICES_PER_BONE, Warning};
use crate::skinning::pass;
use crate::skinning::problem::Problem;
use crate::skinning::run::Run;
use crate::skinning::sample::morton_order;
use crate::skinning::search::{Explorer, Growth};

use super::{Fit, Refined, first_bones};

/// Maximum number of bones for a target error, as a share of the vertices: beyond it a rig is no smaller than the animation.
const MAX_BONE_SHARE: usize = 8;

/// Maximum number of bones for a target error: each attempt is a fit of its own.
const MAX_TARGET_BONES: usize = 2048;

/// Fits with different numbers of bones, at most.
const ATTEMPTS: usize = 6;

/// So far below the target, fewer bones are worth a try.
const SLACK: f64 = 0.97;

/// So many times the bones that leave more than this share of the error do not help.
const MORE: f64 = 1.2;
const STALL: f64 = 0.98;

/// A search on the sample that ended without reaching the target is the last word where the fit is so far above it.
const FAR: f64 = 1.25;

/// `E ~ bones^-SLOPE`, until two fits are known.
const SLOPE: f64 = 0.8;

/// Distance that 999 of 1000 stay below in every region, as a multiple of the goal: errors spread evenly reach about half of it.
const LOCAL: f64 = 10.0;

/// Regions of a mesh, and vertices of each at least.
const REGIONS: usize = 64;
const REGION_VERTICES: usize = 16;

/// Fits for the sake of regions, at most.
const LOCAL_ATTEMPTS: usize = 5;

/// How many bones to fit, resolved for a mesh.
#[derive(Clone, Copy, Debug)]
pub(super) enum Goal {
    Count(usize),
    /// The fewest for an E_RMS, at most `limit`.
    Error {
        target: f64,
        limit: usize,
    },
}

impl Goal {
    pub fn new(bones: BoneCount, vertices: usize) -> Self {
        match bones {
            BoneCount::Exact(count) => Self::Count(count),
            BoneCount::TargetError(target) => {
                Self::Error { target, limit: vertices.div_ceil(MAX_BONE_SHARE).min(MAX_TARGET_BONES) }
            }
            BoneCount::Auto => Self::Error { target: AUTO_TARGET, limit: vertices.div_ceil(4).min(AUTO_MAX_BONES) },
        }
    }

    /// The same goal where errors are counted in another unit: `factor` times as large.
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Error { target, limit } => Self::Error { target: target * factor, limit },
            count => count,
        }
    }
}

/// What to report where an error was the goal and was not reached.
pub(super) fn missed(goal: BoneCount, reached: f64, bones: usize) -> Option<Warning> {
    match goal {
        BoneCount::TargetError(target) if reached > target => Some(Warning::TargetMissed { target, reached, bones }),
        BoneCount::Auto if reached > AUTO_TARGET => Some(Warning::AutoMissed { target: AUTO_TARGET, reached, bones }),
        _ => None,
    }
}

/// The region that is worst, where one misses the goal. Distances in thousandths of the sphere's radius.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalMiss {
    pub goal: f64,
    pub reached: f64,
    /// The vertex of the region that is farthest off.
    pub vertex: usize,
}

impl LocalMiss {
    /// In words; `vertex` as the whole mesh counts it.
    pub fn warning(&self, vertex: usize, bones: usize) -> Warning {
        Warning::LocalMissed { goal: self.goal, reached: self.reached, vertex, bones }
    }
}

/// A fit that a goal may end with.
struct Found {
    state: State,
    refined: Refined,
}

impl Fit<'_> {
    /// Fits the smallest number of bones that reaches an error, at most `limit`, in every region.
    pub(super) fn error(&self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<(State, Refined), Cancelled> {
        let mut best = self.fewest(target, limit, run)?;
        if best.refined.e_rms <= target {
            self.in_every_region(target, limit, &mut best, run)?;
        }
        Ok((best.state, best.refined))
    }

    /// The fewest bones that reach the error in the mean.
    fn fewest(&self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<Found, Cancelled> {
        let (mut next, growth) = self.estimate(target, limit, run)?;
        let mut best: Option<Found> = None;
        // The largest number that missed, the smallest that reached it.
        let (mut low, mut high) = (0, limit + 1);
        let mut last: Option<(usize, f64)> = None;
        for _ in 0..ATTEMPTS {
            let (state, mut refined) = self.count(next, run)?;
            refined.e_rms = self.e_rms(&refined, &state);
            let (reached, hit) = (refined.e_rms, refined.e_rms <= target);
            if hit {
                high = high.min(next)
            } else {
                low = low.max(next)
            }
            // The fewest bones that reach the target; failing that, the least error.
            let better = |found: &Found| match (hit, found.refined.e_rms <= target) {
                (true, true) => state.bones() < found.state.bones(),
                (false, false) => reached < found.refined.e_rms,
                (hit, _) => hit,
            };
            if best.as_ref().is_none_or(better) {
                best = Some(Found { state, refined });
            }
            let stalled = match last {
                None => growth == Growth::Stalled && reached > FAR * target,
                Some((bones, error)) => MORE * bones as f64 <= next as f64 && reached > STALL * error,
            };
            let close = hit && reached > SLACK * target;
            if run.is_over() || close || low + 1 >= high || (!hit && high > limit && stalled) {
                break;
            }
            let slope = match last {
                Some((bones, error)) if bones != next && error > 0.0 && reached > 0.0 => {
                    ((error / reached).ln() / (next as f64 / bones as f64).ln()).clamp(0.4, 3.0)
                }
                _ => SLOPE,
            };
            last = Some((next, reached));
            let wanted = next as f64 * (reached / target).powf(1.0 / slope).clamp(0.5, 3.0);
            // Towards the middle, so that a number is not tried one by one.
            let wanted = if hit { wanted.ceil() } else { wanted.floor() } as usize;
            next = wanted.clamp(low + 1, high - 1);
        }
        let Some(best) = best else { unreachable!("at least one attempt is made") };
        Ok(best)
    }

    /// A number of bones that may reach an error, from a search on the sample.
    fn estimate(&self, target: f64, limit: usize, run: &mut Run<'_>) -> Result<(usize, Growth), Cancelled> {
        let Self { params, plan, .. } = self;
        let allowed = limit.min(plan.sample.vertices / VERTICES_PER_BONE).max(1);
        let sample = self.sample(allowed);
        let coarse = run.timed("sample", || sample.problem(self.problem, self.sequence));
        let first = first_bones(&coarse, 1, run)?;
        let mut explorer =
            Explorer::new(&coarse, first, params.bone_kind, plan.vertices(limit), plan.search, params.seed);
        let growth = explorer.search_for_error(target, allowed, run)?;
        let (bones, promised) = (explorer.state.bones(), explorer.e_rms());
        let wanted = match growth {
            Growth::Full => (bones as f64 * (promised / target).powf(1.0 / SLOPE).clamp(1.0, 3.0)) as usize,
            Growth::Reached | Growth::Stalled => bones,
        };
        Ok((wanted.clamp(1, limit), growth))
    }

    /// More bones, and more weight, where a region misses the goal.
    fn in_every_region(&self, target: f64, limit: usize, best: &mut Found, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let goal = LOCAL * target;
        let plain = self.problem.with_loss(Loss::default());
        let mut regions = Regions::new(&plain, &best.state, goal);
        best.refined.local = regions.miss();
        let mut loss = self.problem.loss.clone();
        for _ in 0..LOCAL_ATTEMPTS {
            let failing = regions.failing();
            if failing == 0 || best.state.bones() >= limit || run.is_over() {
                break;
            }
            loss = regions.weigh(&loss);
            let more = failing.clamp(1, (best.state.bones() / 6).max(2));
            let problem = self.problem.with_loss(loss.clone());
            let fit = Fit { problem: &problem, normals: self.normals.clone(), plan: self.plan.clone(), ..*self };
            let (state, mut refined) = fit.count((best.state.bones() + more).min(limit), run)?;
            refined.e_rms = fit.e_rms(&refined, &state);
            let found = Regions::new(&plain, &state, goal);
            refined.local = found.miss();
            let better = found.failing() < failing || found.worst() < regions.worst();
            if refined.e_rms > target || !better {
                break;
            }
            regions = found;
            *best = Found { state, refined };
        }
        Ok(())
    }
}

/// Distances in regions of neighbouring vertices.
struct Regions {
    goal: f64,
    /// [N] region of each vertex.
    of_vertex: Vec<u32>,
    /// [regions] distance that 999 of 1000 stay below, in bars of the goal.
    bars: Vec<u32>,
    /// [N] largest distance of each vertex.
    largest: Vec<f32>,
}

/// Bars that the goal is divided into; four times the goal is the last one.
const GOAL_BARS: f64 = 63.0;

impl Regions {
    fn new(problem: &Problem, state: &State, goal: f64) -> Self {
        let n = problem.vertices();
        let count = (n / REGION_VERTICES).clamp(1, REGIONS);
        let mut of_vertex = vec![0u32; n];
        for (at, &i) in morton_order(&problem.rest).iter().enumerate() {
            of_vertex[i as usize] = (at * count / n) as u32;
        }
        let (frames, scale) = (problem.frames(), GOAL_BARS * 1000.0 / goal);
        let of_block = |_: usize, residuals: &[f32]| {
            let (mut bars, mut largest) = (Vec::new(), Vec::new());
            for row in residuals.chunks_exact(3 * frames) {
                let distance = |t: usize| {
                    let [x, y, z] = [row[t], row[frames + t], row[2 * frames + t]];
                    (x * x + y * y + z * z).sqrt()
                };
                bars.extend((0..frames).map(|t| (f64::from(distance(t)) * scale).ceil().min(255.0) as u8));
                largest.push((0..frames).map(distance).fold(0f32, f32::max));
            }
            (bars, largest)
        };
        let mut counts = vec![[0u64; 256]; count];
        let mut largest = Vec::with_capacity(n);
        for (bars, of_block) in pass::survey(problem, &state.motion, &state.skin, of_block) {
            for (row, most) in bars.chunks_exact(frames).zip(of_block) {
                let counts = &mut counts[of_vertex[largest.len()] as usize];
                row.iter().for_each(|&bar| counts[bar as usize] += 1);
                largest.push(most);
            }
        }
        let bars = counts.iter().map(|counts| {
            let (all, mut above) = (counts.iter().sum::<u64>(), 0);
            // The highest bar with more than one in a thousand at or above it.
            (0..256).rev().find(|&bar| {
                above += counts[bar];
                1000 * above > all
            })
        });
        let bars = bars.map(|bar| bar.unwrap_or(0) as u32).collect();
        Self { goal, of_vertex, bars, largest }
    }

    /// Regions that miss the goal.
    fn failing(&self) -> usize {
        self.bars.iter().filter(|&&bar| f64::from(bar) > GOAL_BARS).count()
    }

    /// The distance of the worst region, in bars.
    fn worst(&self) -> u32 {
        self.bars.iter().copied().max().unwrap_or(0)
    }

    fn miss(&self) -> Option<LocalMiss> {
        let region = (0..self.bars.len()).max_by_key(|&region| self.bars[region])?;
        let within = (0..self.largest.len()).filter(|&i| self.of_vertex[i] as usize == region);
        let vertex = within.max_by(|&a, &b| self.largest[a].total_cmp(&self.largest[b]))?;
        let reached = match self.bars[region] {
            // Beyond the last bar the largest distance is all that is known.
            255 => 1000.0 * f64::from(self.largest[vertex]),
            bar => f64::from(bar) / GOAL_BARS * self.goal,
        };
        (self.failing() > 0).then_some(LocalMiss { goal: self.goal, reached, vertex })
    }

    /// Vertices of failing regions count by the square of how far they miss the goal, besides what they count already.
    fn weigh(&self, loss: &Loss) -> Loss {
        let of = |i: usize| {
            let excess = f64::from(self.bars[self.of_vertex[i] as usize]) / GOAL_BARS;
            loss.of(i) * excess.max(1.0).powi(2)
        };
        let weights: Vec<f64> = (0..self.of_vertex.len()).map(of).collect();
        let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
        Loss::of_vertices(weights.iter().map(|weight| (weight / mean) as f32).collect())
    }
}
