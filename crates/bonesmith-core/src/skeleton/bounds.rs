//! Joints near the surface that they split, and parts that slide.
//!
//! A joint that hardly turns may lie anywhere: from far away a small rotation is a translation. Such a joint is of no use to an animator,
//! so one that ends farther than [`MAX_AWAY`] from the surface that it splits is moved to within [`NEAR`] of it and held there, as long
//! as the error rises by less than [`MAX_RISE`]. Otherwise the motion demands it, and it is reported. The usual
//! reason is a part that slides along an axis, which no rotation does: those are found from the motion of the parts alone and
//! reported by name.

use glam::{DAffine3, DMat3, DVec3};

use crate::observer::Cancelled;
use crate::skeleton::descend::{SkeletonDescent, SkinnedPose};
use crate::skeleton::parts::OWN;
use crate::skeleton::tree::Tree;
use crate::skinning::{Problem, Run, Skin, Warning, plant};

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

/// Vertices that the motion of a part is found from, at most and at least.
const PART: usize = 48;
const MIN_MEMBERS: usize = 4;

/// A part slides if it travels at least this share of the extent, and what it turns, bends or strays from the line is at most
/// [`STRAY`] of that.
const MIN_TRAVEL: f64 = 0.02;
const STRAY: f64 = 0.1;

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

/// Warnings about joints that are far away and parts that slide; `names` [B] of the bones.
pub(super) fn warnings(problem: &Problem, tree: &Tree, skin: &Skin, names: &[&str]) -> Vec<Warning> {
    let name = |j: usize| names[j].to_owned();
    let far = away(tree, skin).into_iter().enumerate().filter_map(|(j, away)| {
        let share = away?.share;
        (share > MAX_AWAY).then(|| Warning::FarJoint { bone: name(j), away: share })
    });
    let radius = problem.space.sphere.radius;
    let slides = (0..tree.bones()).filter_map(|j| {
        let own = RigidPart::new(problem, skin, j)?;
        // Bones without a part of their own, which only make up for what a joint cannot do, are passed over.
        let above = std::iter::successors(tree.parents[j], |&p| tree.parents[p]);
        let above = above.filter_map(|p| RigidPart::new(problem, skin, p)).next()?;
        let Slide { axis, travel } = slide(problem, &own, &above)?;
        Some(Warning::SlidingPart { bone: name(j), axis: axis.to_array(), travel: travel * radius })
    });
    far.chain(slides).collect()
}

/// A part that moves along a line.
struct Slide {
    axis: DVec3,
    travel: f64,
}

/// How a part slides along another one, if it does.
fn slide(problem: &Problem, own: &RigidPart, above: &RigidPart) -> Option<Slide> {
    // The input's rest pose: that of the fit is bent to what joints can do.
    let rest = &problem.rest;
    let middle = own.members.iter().map(|&i| rest[i]).sum::<DVec3>() / own.members.len() as f64;
    let size = own.members.iter().map(|&i| rest[i].distance(middle)).fold(0.0, f64::max);
    let relative: Vec<DAffine3> = above.motion.iter().zip(&own.motion).map(|(p, j)| p.inverse() * *j).collect();
    let places: Vec<DVec3> = relative.iter().map(|m| m.transform_point3(middle)).collect();
    let mean = places.iter().sum::<DVec3>() / places.len() as f64;
    let farthest = places.iter().map(|x| *x - mean).max_by(|a, b| a.length().total_cmp(&b.length()))?;
    let axis = farthest.try_normalize()?;
    let along = places.iter().map(|x| (*x - mean).dot(axis));
    let (low, high) = along.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let travel = high - low;
    let strays = places.iter().map(|x| (*x - mean).reject_from_normalized(axis).length()).fold(0.0, f64::max);
    let first = relative[0].matrix3.transpose();
    let turned = relative.iter().map(|m| {
        let turn = m.matrix3 * first - DMat3::IDENTITY;
        turn.x_axis.length().max(turn.y_axis.length()).max(turn.z_axis.length())
    });
    let turned = turned.fold(0.0, f64::max) * size;
    let limit = STRAY * travel;
    let slides = travel > MIN_TRAVEL * extent(rest)
        && strays.max(turned) < limit
        && own.bends(problem).max(above.bends(problem)) < limit;
    slides.then_some(Slide { axis, travel })
}

/// Vertices of a bone, and their best rigid motion.
struct RigidPart {
    members: Vec<usize>,
    /// [F]
    motion: Vec<DAffine3>,
}

impl RigidPart {
    fn new(problem: &Problem, skin: &Skin, bone: usize) -> Option<Self> {
        let is_own = |i: &usize| skin.of(*i).any(|(k, w)| k == bone && w > OWN);
        let own: Vec<usize> = (0..skin.rest.len()).filter(is_own).collect();
        let step = own.len().div_ceil(PART).max(1);
        let members: Vec<usize> = own.into_iter().step_by(step).collect();
        let column = |m: &[[f64; 4]; 3], c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
        let affine = |m: &[[f64; 4]; 3]| DAffine3 {
            matrix3: DMat3::from_cols(column(m, 0), column(m, 1), column(m, 2)),
            translation: column(m, 3),
        };
        (members.len() >= MIN_MEMBERS).then(|| {
            let motion = plant::rigid_motion(problem, &problem.rest, &members).iter().map(affine).collect();
            Self { members, motion }
        })
    }

    /// Largest distance of a vertex from where the rigid motion takes it.
    fn bends(&self, problem: &Problem) -> f64 {
        let off = |i: usize| {
            let path = self.motion.iter().enumerate();
            path.map(|(t, m)| m.transform_point3(problem.rest[i]).distance(problem.position(i, t))).fold(0.0, f64::max)
        };
        self.members.iter().map(|&i| off(i)).fold(0.0, f64::max)
    }
}
