//! Small files without streams (USD, FBX): fewer keys, and numbers whose arrays are short.
//!
//! A key is left out where the line between its neighbours is within a tolerance in every frame between them. A tolerance is a share of the bound: of
//! translations its length, of rotations and scales the change that moves the farthest vertex below the bone by that length. What comes of all keys together is
//! measured on the file, as everywhere.

use bonesmith_core::Rig;

use super::tables::Tables;
use super::weights::{self, Chooser};
use super::{Compact, Packing, rounded};
use crate::skinned::depths;

/// Weights below this do not say how far a bone reaches.
const HELD: f32 = 0.05;
/// Frames between two keys, at most.
const MAX_GAP: usize = 64;
/// Tolerance of a key as a share of the root mean square of the bound.
const SHARE: f64 = 1.0;
/// A rounded value is a multiple of a power of two up to this share of its tolerance.
const STEP: f64 = 0.5;

/// How far values of curves may be off.
pub struct Tolerance {
    /// Of translations, in model units.
    pub shift: f64,
    /// [B] of rotations in radians, and of scales.
    pub turn: Vec<f64>,
}

impl Tolerance {
    /// Of a bound.
    pub fn new(rig: &Rig, compact: &Compact) -> Self {
        let shift = SHARE * compact.rms;
        let turn = reaches(rig).into_iter().map(|reach| if reach > 0.0 { shift / reach } else { shift }).collect();
        Self { shift, turn }
    }
}

/// [B] distance of the farthest vertex that a bone or one below it moves.
fn reaches(rig: &Rig) -> Vec<f64> {
    let parents: Vec<Option<usize>> = rig.bones.iter().map(|bone| bone.parent).collect();
    let depths = depths(&parents);
    let place = |j: usize| rig.bones[j].world_from_bind.translation;
    let mut reach = vec![0.0f64; parents.len()];
    for (i, p) in rig.rest.iter().enumerate() {
        for (j, _) in rig.weights.of(i).filter(|(_, w)| *w >= HELD) {
            reach[j] = reach[j].max(p.as_dvec3().distance(place(j)));
        }
    }
    let mut order: Vec<usize> = (0..parents.len()).collect();
    order.sort_by_key(|&j| std::cmp::Reverse(depths[j]));
    for j in order {
        if let Some(p) = parents[j] {
            reach[p] = reach[p].max(reach[j] + place(j).distance(place(p)));
        }
    }
    reach
}

/// Frames that are keys. `within` says whether all frames between two are near the line between them.
pub fn kept(frames: usize, within: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    let mut keys = vec![0];
    let mut last = 0;
    while last + 1 < frames {
        let farthest = (frames - 1).min(last + MAX_GAP);
        let mut next = last + 1;
        while next < farthest && within(last, next + 1) {
            next += 1;
        }
        keys.push(next);
        last = next;
    }
    keys.truncate(frames);
    keys
}

/// The multiple of a power of two nearest to a value, within its tolerance.
pub fn stepped(value: f64, tolerance: f64) -> f64 {
    let step = (STEP * tolerance).log2().floor().exp2();
    if step.is_normal() { (value / step).round() * step } else { value }
}

/// The rig with positions in steps and weights in whole steps, within the bound.
pub fn with_steps(rig: &Rig, compact: &Compact) -> Rig {
    // What numbers take after a deflater, and in a table, is nearest to what the codec of streams makes of them.
    let compact = &Compact { packing: Packing::Ext, ..*compact };
    let order: Vec<u32> = (0..rig.vertex_count() as u32).collect();
    let chooser = Chooser::new(rig, &order, compact);
    let mut tables = Tables::of_mesh(rig, &order, compact, &chooser);
    let picked = tables.refined(compact.rms, None);
    let offer = tables.weights_of(&picked);
    Rig {
        rest: offer.rest.iter().map(|p| rounded(*p, picked.positions.level)).collect(),
        weights: weights::stored(&rig.weights, &offer.rows),
        ..rig.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_left_out_where_a_line_is_near() {
        let values: Vec<f64> = (0..40).map(|t| if t < 20 { f64::from(t) } else { 20.0 - f64::from(t - 20) }).collect();
        let within = |a: usize, b: usize| {
            let line = |t: usize| values[a] + (values[b] - values[a]) * (t - a) as f64 / (b - a) as f64;
            (a + 1..b).all(|t| (line(t) - values[t]).abs() <= 1e-9)
        };
        assert_eq!(kept(40, within), [0, 20, 39]);
        assert_eq!(kept(1, within), [0]);
        assert_eq!(kept(2, within), [0, 1]);
        assert_eq!(kept(0, within), Vec::<usize>::new());
        assert_eq!(kept(200, |_, _| true), [0, 64, 128, 192, 199]);
    }

    #[test]
    fn steps_are_within_their_tolerance() {
        for (value, tolerance) in [(0.3, 0.01), (-7.77, 1.0), (1e6 + 0.1, 1e-3), (5.0, 0.0), (5.0, f64::INFINITY)] {
            let read = stepped(value, tolerance);
            assert!((read - value).abs() <= 0.5 * tolerance && read.is_finite(), "{value} {tolerance}: {read}");
        }
    }
}
