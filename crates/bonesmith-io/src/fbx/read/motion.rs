//! Animation stacks: at which times they are sampled.

use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use ufbx::AnimStack;

use super::document::Document;
use crate::{IoError, warning};

/// Seconds within which two keys are at the same time: FBX counts in 1/46186158000 s.
const SAME_TIME: f64 = 1e-6;
/// Frames that a stack may always have, and for each key of its densest curve: a few bytes can claim any length of time.
const FRAMES: usize = 4096;
const FRAMES_PER_KEY: usize = 64;
/// Keys that are at most this many frames apart need nothing in between.
const NEAR_KEYS: f64 = 1.5;

/// One animation of a file.
pub struct Motion {
    /// Which stack; `None` for geometry caches without one.
    pub stack: Option<usize>,
    /// Its name.
    pub name: String,
    /// [F] seconds.
    pub times_secs: Vec<f64>,
}

/// All stacks that have keys. `relevant` says which elements matter.
pub fn motions(
    document: &Document,
    fps: Option<f64>,
    relevant: impl Fn(&ufbx::Element) -> bool,
) -> Result<Vec<Motion>, IoError> {
    let mut motions = Vec::new();
    for (s, stack) in document.scene().anim_stacks.iter().enumerate() {
        let Some(keys) = Keys::of(stack, &relevant) else { continue };
        let name = match stack.element.name.to_string() {
            empty if empty.is_empty() => format!("animation_{s}"),
            name => name,
        };
        let times_secs = keys.times(document, fps, &name)?;
        motions.push(Motion { stack: Some(s), name, times_secs });
    }
    Ok(motions)
}

/// Key times of a stack's curves.
struct Keys {
    /// All times once, in order.
    union: Vec<f64>,
    /// Keys of the densest curve.
    densest: usize,
    /// Whether every curve that moves has a key at each of them.
    dense: bool,
}

impl Keys {
    fn of(stack: &AnimStack, relevant: &impl Fn(&ufbx::Element) -> bool) -> Option<Self> {
        let mut lengths = Vec::new();
        let mut union: Vec<f64> = Vec::new();
        for property in stack.layers.iter().flat_map(|layer| layer.anim_props.iter()) {
            if !relevant(&property.element) {
                continue;
            }
            for curve in property.anim_value.curves.iter().flatten() {
                let before = union.len();
                union.extend(curve.keyframes.iter().map(|key| key.time).filter(|time| time.is_finite()));
                lengths.push(union.len() - before);
                // Many curves of a few keys each: merge now and then, so that memory follows the distinct times.
                if union.len() > 1 << 16 {
                    union = merged(union);
                }
            }
        }
        let union = merged(union);
        let moving = || lengths.iter().filter(|n| **n > 1);
        let dense = union.len() > 1 && moving().all(|n| *n == union.len());
        let densest = lengths.iter().copied().max().unwrap_or(0);
        (!union.is_empty()).then_some(Self { union, densest, dense })
    }

    /// Its own keys where all curves share them and they are near each other; else frames at `fps` or at the file's rate, over the time that has keys.
    fn times(&self, document: &Document, fps: Option<f64>, name: &str) -> Result<Vec<f64>, IoError> {
        let own = document.scene().settings.frames_per_second;
        let own = if own.is_finite() && own > 0.0 { own } else { DEFAULT_FPS };
        let rate = fps.unwrap_or(own);
        // Our own files have a key wherever something happens. Others may be keyed from pose to pose.
        let near = |pair: &[f64]| (pair[1] - pair[0]) * rate <= NEAR_KEYS;
        let is_own = document.scene().metadata.creator.starts_with("Bonesmith");
        let complete = is_own || (self.dense && self.union.windows(2).all(near));
        if fps.is_none() && (self.union.len() == 1 || complete) {
            return Ok(self.union.clone());
        }
        let (start, end) = (self.union[0], self.union[self.union.len() - 1]);
        let steps = ((end - start) * rate + 1e-6).floor();
        let most = FRAMES.max(self.densest.saturating_mul(FRAMES_PER_KEY));
        if !(steps >= 0.0 && steps < most as f64) {
            if fps.is_none() && self.dense {
                let what = format!("what animation {name:?} does between its keys: it is {:.0} s long", end - start);
                warning::left_out(document.path(), what);
                return Ok(self.union.clone());
            }
            return Err(document.unsupported(format!(
                "animation {name:?} goes from {start} to {end} s, too long for {} keys; use fewer frames per second",
                self.densest
            )));
        }
        Ok((0..=steps as usize).map(|t| start + t as f64 / rate).collect())
    }
}

fn merged(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times.dedup_by(|a, b| (*a - *b).abs() <= SAME_TIME);
    times
}
