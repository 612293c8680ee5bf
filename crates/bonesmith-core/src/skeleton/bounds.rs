//! Joints near the surface that they split.
//!
//! A joint that hardly turns may lie anywhere: from far away a small rotation is a translation. Such a joint is of no use to an animator,
//! so one that ends farther than [`MAX_AWAY`] from the surface that it splits is moved to within [`NEAR`] of it and held there, as long
//! as the error rises by less than [`MAX_RISE`]. Otherwise the motion demands it, and it is reported. The usual
//! reason is a part that slides along an axis, which no rotation does (`slides`).

use glam::DVec3;

use crate::observer::Cancelled;
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::parts::OWN;
use crate::skeleton::pose::Pose;
use crate::skeleton::slides::Slide;
use crate::skeleton::tree::Tree;
use crate::skinning::{Run, Skin, Warning};

/// Largest distance of a joint from the surface that it splits, as a share of the largest extent of the rest pose.
const MAX_AWAY: f64 = 0.25;

/// Where a joint that is farther is moved to.
const NEAR: f64 = 0.2;

/// A joint stays where it is if the error would rise by more than this share, above [`LOW`].
const MAX_RISE: f64 = 0.1;

/// E_RMS below which a rise is no reason to leave a joint far away.
const LOW: f64 = 0.5;

/// Rounds with the joint held.
const ROUNDS: usize = 4;

/// Joints that are moved at most, the farthest first.
const MAX_MOVED: usize = 8;

/// Weights below and above which a vertex is on one side of a joint.
const RIM: (f64, f64) = (0.05, 0.95);

/// The distance of a joint from the surface that it splits, over the largest extent, and the nearest place there.
#[derive(Clone, Copy)]
pub(super) struct Away {
    pub share: f64,
    pub nearest: DVec3,
}

/// Largest extent of some places along an axis.
fn extent(rest: &[DVec3]) -> f64 {
    let low = rest.iter().copied().fold(DVec3::INFINITY, DVec3::min);
    let high = rest.iter().copied().fold(DVec3::NEG_INFINITY, DVec3::max);
    (high - low).max_element().max(1e-12)
}

/// [B] how far joints are away; `None` for the root and where a joint splits nothing. The surface that a joint splits: vertices that
/// move with both sides; where there are none, those of its two bones.
pub(super) fn away(tree: &Tree, skin: &Skin) -> Vec<Option<Away>> {
    let (b, extent) = (tree.bones(), extent(&skin.rest));
    let mut nearest = vec![[(f64::INFINITY, DVec3::ZERO); 2]; b];
    let mut below = vec![0.0; b];
    for (i, u) in skin.rest.iter().enumerate() {
        below.fill(0.0);
        let mut own = None;
        for (j, w) in skin.of(i) {
            let mut at = Some(j);
            while let Some(k) = at {
                below[k] += w;
                at = tree.parents[k];
            }
            own = own.or((w > OWN).then_some(j));
        }
        for j in 0..b {
            let is_near = own.is_some_and(|k| k == j || tree.parents[j] == Some(k));
            for (found, counts) in nearest[j].iter_mut().zip([RIM.0 < below[j] && below[j] < RIM.1, is_near]) {
                let distance = u.distance(tree.joints[j]);
                if counts && distance < found.0 {
                    *found = (distance, *u);
                }
            }
        }
    }
    let away = |j: usize| {
        let (distance, nearest) = nearest[j].into_iter().find(|(distance, _)| distance.is_finite())?;
        tree.parents[j].map(|_| Away { share: distance / extent, nearest })
    };
    (0..b).map(away).collect()
}

/// Moves joints that are too far to the surface that they split, one by one, where the error allows it.
pub(super) fn draw_in(
    descent: &mut SkeletonDescent<'_>,
    body: &mut SkinnedPose,
    run: &mut Run<'_>,
) -> Result<(), Cancelled> {
    let mut far: Vec<(usize, Away)> = away(&body.pose.tree, &body.skin)
        .into_iter()
        .enumerate()
        .filter_map(|(j, away)| away.filter(|away| away.share > MAX_AWAY).map(|away| (j, away)))
        .collect();
    far.sort_by(|x, y| y.1.share.total_cmp(&x.1.share).then(x.0.cmp(&y.0)));
    let extent = extent(&body.skin.rest);
    descent.held = vec![false; body.pose.bones()];
    for (j, Away { nearest, .. }) in far.into_iter().take(MAX_MOVED) {
        if run.is_over() {
            break;
        }
        let (error, kept) = (descent.e_rms(), body.clone());
        let direction = (body.pose.tree.joints[j] - nearest).normalize_or_zero();
        body.pose.tree.joints[j] = nearest + direction * (NEAR * extent);
        descent.held[j] = true;
        descent.restart();
        descent.rounds(body, ROUNDS, run)?;
        if descent.e_rms() > error.max(LOW) * (1.0 + MAX_RISE) {
            *body = kept;
            descent.held[j] = false;
            descent.restart();
            descent.rounds(body, 1, run)?;
        }
    }
    Ok(())
}

/// Warnings about joints that are far away; `names` [B] of the bones, `unit` the length of a unit of the pose.
pub(super) fn warnings(pose: &Pose, skin: &Skin, names: &[&str], unit: f64) -> Vec<Warning> {
    let far = |(j, away): (usize, Option<Away>)| {
        let (bone, away) = (names[j].to_owned(), away.filter(|away| away.share > MAX_AWAY)?.share);
        Some(match Slide::of(pose, skin, j) {
            Some(Slide { axis, travel }) => {
                let parent = pose.tree.parents[j].map_or(String::new(), |p| names[p].to_owned());
                Warning::SlidingPart { bone, parent, axis: axis.to_array(), travel: travel * unit, away }
            }
            None => Warning::FarJoint { bone, away },
        })
    };
    away(&pose.tree, skin).into_iter().enumerate().filter_map(far).collect()
}
