//! Errors of motion: what pops from frame to frame, edges in time, and contacts that slide.
//!
//! Frames arrive in blocks. Of the frames before only the last one is kept, and for each vertex where its present rest began.

use std::ops::Range;

use glam::Vec3;
use rayon::prelude::*;
use serde::Serialize;

use crate::metrics::edges::STED_DT;

/// A vertex rests while it stays within this share of the radius of where it was when the rest began.
pub const CONTACT_RADIUS: f64 = 1e-3;

/// Frames that a rest lasts at least.
pub const CONTACT_FRAMES: u32 = 5;

/// Vertices per task; also the order of sums.
const CHUNK: usize = 1024;

/// How far vertices move in the result that rest in the original. Distances in thousandths of the radius.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Contacts {
    /// Rests: a vertex over at least [`CONTACT_FRAMES`] frames.
    pub count: usize,
    /// Mean over the rests of the largest distance from where the rest began.
    pub mean_drift: f64,
    /// The largest of them.
    pub max_drift: f64,
    /// Where that is: (frame, vertex).
    pub max_at: (usize, usize),
}

/// Sums over all frames so far.
pub(super) struct Motion {
    limit: f32,
    /// Square of one over the diagonal.
    unit: f64,
    /// The last frame: truth and result.
    last: Option<[Vec<Vec3>; 2]>,
    /// [N]
    rests: Vec<Rest>,
    frames: usize,
    /// Of squared differences between steps.
    velocity: f64,
    /// Of relative differences of edges in time.
    time_edges: f64,
}

/// The present rest of a vertex, and sums of those that ended.
#[derive(Clone, Copy, Default)]
struct Rest {
    /// Truth and result where it began.
    start: [Vec3; 2],
    frames: u32,
    /// Largest squared drift, and its frame.
    drift: (f32, u32),
    ended: u32,
    sum: f32,
    /// Largest drift of those that ended, and its frame.
    largest: (f32, u32),
}

impl Rest {
    fn step(&mut self, t: u32, [truth, posed]: [Vec3; 2], limit_squared: f32) {
        if self.frames == 0 || truth.distance_squared(self.start[0]) > limit_squared {
            self.end();
            (self.start, self.frames, self.drift) = ([truth, posed], 1, (0.0, t));
            return;
        }
        self.frames += 1;
        // The result less what the original does within the limit.
        let drift = ((posed - self.start[1]) - (truth - self.start[0])).length_squared();
        if drift > self.drift.0 {
            self.drift = (drift, t);
        }
    }

    fn end(&mut self) {
        if self.frames >= CONTACT_FRAMES {
            let drift = self.drift.0.sqrt();
            self.ended += 1;
            self.sum += drift;
            if drift > self.largest.0 {
                self.largest = (drift, self.drift.1);
            }
        }
        self.frames = 0;
    }
}

impl Motion {
    pub fn new(vertices: usize, radius: f64, diagonal: f64) -> Self {
        Self {
            limit: (CONTACT_RADIUS * radius) as f32,
            unit: diagonal.powi(-2),
            last: None,
            rests: vec![Rest::default(); vertices],
            frames: 0,
            velocity: 0.0,
            time_edges: 0.0,
        }
    }

    /// Starts anew: the next frame does not follow the last one.
    pub fn cut(&mut self) {
        self.last = None;
        self.rests.iter_mut().for_each(Rest::end);
    }

    /// Adds frames that follow the last one.
    pub fn add(&mut self, truth: Vec<Vec<Vec3>>, mut posed: Vec<Vec<Vec3>>) {
        let (limit, unit, first) = (self.limit * self.limit, self.unit, self.frames as u32);
        let last = self.last.as_ref();
        let one = |(chunk, rests): (usize, &mut [Rest])| {
            let range = chunk * CHUNK..chunk * CHUNK + rests.len();
            let mut sums = (0.0, 0.0);
            for (t, (truth_now, posed_now)) in truth.iter().zip(&posed).enumerate() {
                let now = [&truth_now[range.clone()], &posed_now[range.clone()]];
                for (k, rest) in rests.iter_mut().enumerate() {
                    rest.step(first + t as u32, now.map(|frame| frame[k]), limit);
                }
                let before = match t {
                    0 => last.map(|[truth, posed]| [truth, posed]),
                    _ => Some([&truth[t - 1], &posed[t - 1]]),
                };
                if let Some(before) = before {
                    let (velocity, edges) = steps(before.map(|frame| &frame[range.clone()]), now, unit);
                    sums = (sums.0 + velocity, sums.1 + edges);
                }
            }
            sums
        };
        let sums: Vec<(f64, f64)> = self.rests.par_chunks_mut(CHUNK).enumerate().map(one).collect();
        for (velocity, edges) in sums {
            self.velocity += velocity;
            self.time_edges += edges;
        }
        self.frames += truth.len();
        let mut truth = truth;
        self.last = truth.pop().zip(posed.pop()).map(|(truth, posed)| [truth, posed]);
    }

    /// Root mean square of the difference between steps per coordinate in model units; `None` without a step.
    pub fn velocity_error(&self, steps: usize) -> Option<f64> {
        let count = 3 * steps * self.rests.len();
        (count > 0).then(|| (self.velocity / count as f64).sqrt())
    }

    /// Mean relative difference of edges in time; 0 without a step.
    pub fn time_edges(&self, steps: usize) -> f64 {
        self.time_edges / (steps * self.rests.len()).max(1) as f64
    }

    /// Contacts, in thousandths of the radius; `None` where nothing rests.
    pub fn contacts(mut self, radius: f64) -> Option<Contacts> {
        self.rests.iter_mut().for_each(Rest::end);
        let scale = 1000.0 / radius;
        let count: usize = self.rests.iter().map(|rest| rest.ended as usize).sum();
        let sum: f64 = self.rests.iter().map(|rest| f64::from(rest.sum)).sum();
        let mut worst = (0.0, (0, 0));
        for (i, rest) in self.rests.iter().enumerate() {
            if rest.largest.0 > worst.0 {
                worst = (rest.largest.0, (rest.largest.1 as usize, i));
            }
        }
        (count > 0).then(|| Contacts {
            count,
            mean_drift: scale * sum / count as f64,
            max_drift: scale * f64::from(worst.0),
            max_at: worst.1,
        })
    }
}

/// Squared differences between steps, and relative differences of edges in time, of some vertices.
fn steps(before: [&[Vec3]; 2], now: [&[Vec3]; 2], unit: f64) -> (f64, f64) {
    let (mut velocity, mut edges) = (0.0, 0.0);
    let lists = before[0].iter().zip(before[1]).zip(now[0].iter().zip(now[1]));
    for ((truth_before, posed_before), (truth, posed)) in lists {
        let (step, posed_step) = (*truth - *truth_before, *posed - *posed_before);
        velocity += f64::from(step.distance_squared(posed_step));
        let length = |step: Vec3| (f64::from(step.length_squared()) * unit + STED_DT * STED_DT).sqrt();
        let original = length(step);
        edges += (original - length(posed_step)).abs() / original;
    }
    (velocity, edges)
}

/// Consecutive frames: [`Motion::cut`] lies between them.
pub(super) fn pieces(frames: usize, cuts: &[usize]) -> Vec<Range<usize>> {
    let mut ends: Vec<usize> = cuts.iter().copied().filter(|t| *t > 0 && *t < frames).collect();
    ends.sort_unstable();
    ends.dedup();
    ends.push(frames);
    let mut first = 0;
    let range = |end: usize| std::mem::replace(&mut first, end)..end;
    ends.into_iter().map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    const N: usize = 1500;
    const F: usize = 23;

    /// Vertices that rest, move slowly, move fast, and a result that is off.
    fn frames() -> (Vec<Vec<Vec3>>, Vec<Vec<Vec3>>) {
        let mut random = Random::new(4);
        let start: Vec<Vec3> = (0..N).map(|_| random.vector().as_vec3()).collect();
        let mut truth = Vec::new();
        let mut posed = Vec::new();
        for t in 0..F {
            let place = |i: usize| match i % 4 {
                0 => start[i],
                1 => start[i] + Vec3::X * 0.00028 * t as f32,
                2 if (4..12).contains(&t) => start[i] + Vec3::Y,
                _ => start[i] + Vec3::Z * (t * t) as f32 * 0.01,
            };
            let now: Vec<Vec3> = (0..N).map(place).collect();
            posed.push(now.iter().map(|p| *p + random.vector().as_vec3() * 0.01).collect());
            truth.push(now);
        }
        (truth, posed)
    }

    /// All measures by their definitions, with blocks of any length and a cut.
    #[test]
    fn sums_are_those_of_the_definitions() {
        let (truth, posed) = frames();
        let (radius, diagonal) = (1.5, 2.0);
        let cut = 17;
        for block in [1, 5, 64] {
            let mut motion = Motion::new(N, radius, diagonal);
            for piece in pieces(F, &[cut, 0, cut, 99]) {
                motion.cut();
                for first in piece.clone().step_by(block) {
                    let range = first..piece.end.min(first + block);
                    motion.add(truth[range.clone()].to_vec(), posed[range].to_vec());
                }
            }
            let (mut velocity, mut edges) = (0.0, 0.0);
            for t in (1..F).filter(|t| *t != cut) {
                for i in 0..N {
                    let step = |p: &[Vec<Vec3>]| (p[t][i] - p[t - 1][i]).as_dvec3();
                    velocity += (step(&truth) - step(&posed)).length_squared();
                    let length = |p: &[Vec<Vec3>]| ((step(p) / diagonal).length_squared() + 1e-4).sqrt();
                    edges += (length(&truth) - length(&posed)).abs() / length(&truth);
                }
            }
            let steps = F - 2;
            let count = (steps * N) as f64;
            let found = motion.velocity_error(steps).unwrap();
            assert!((found - (velocity / (3.0 * count)).sqrt()).abs() < 1e-6, "{found}");
            assert!((motion.time_edges(steps) - edges / count).abs() < 1e-6);
            let (found, truth) = (motion.contacts(radius).unwrap(), contacts(&truth, &posed, radius, cut));
            assert_eq!((found.count, found.max_at), (truth.count, truth.max_at));
            assert!((found.mean_drift - truth.mean_drift).abs() < 1e-4 * truth.mean_drift, "{found:?} {truth:?}");
            assert!((found.max_drift - truth.max_drift).abs() < 1e-4 * truth.max_drift, "{found:?} {truth:?}");
        }
    }

    /// Every vertex and every run of frames, in float64.
    fn contacts(truth: &[Vec<Vec3>], posed: &[Vec<Vec3>], radius: f64, cut: usize) -> Contacts {
        let mut all: Vec<(f64, (usize, usize))> = Vec::new();
        for i in 0..N {
            let mut first = 0;
            while first < F {
                let stop = if first < cut { cut } else { F };
                let away = |p: &[Vec<Vec3>], t: usize| p[t][i].as_dvec3() - p[first][i].as_dvec3();
                let end = (first..stop).find(|&t| away(truth, t).length() > 1e-3 * radius).unwrap_or(stop);
                if end - first >= 5 {
                    let drift = |t: usize| (away(posed, t) - away(truth, t)).length();
                    let worst = (first..end).max_by(|a, b| drift(*a).total_cmp(&drift(*b))).unwrap();
                    all.push((1000.0 / radius * drift(worst), (worst, i)));
                }
                first = end;
            }
        }
        let (max_drift, max_at) = all.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
        Contacts {
            count: all.len(),
            mean_drift: all.iter().map(|x| x.0).sum::<f64>() / all.len() as f64,
            max_drift,
            max_at,
        }
    }

    #[test]
    fn one_frame_has_no_motion_and_nothing_rests() {
        let mut motion = Motion::new(3, 1.0, 1.0);
        motion.add(vec![vec![Vec3::X; 3]], vec![vec![Vec3::Y; 3]]);
        assert_eq!((motion.velocity_error(0), motion.time_edges(0)), (None, 0.0));
        assert_eq!(motion.contacts(1.0), None);
    }
}
