//! A tree and pivots for free bones, so that their curves are short: relative to a neighbour a bone moves little, and about the point that the two
//! share it only turns.
//!
//! Bone c under bone p moves by L_t = P_t^-1 C_t. With its origin at x, the translation changes by (L_t+1 - L_t) x from one frame to the next, which is
//! what the codec writes; the least of that is a linear system for x. An origin far from the vertices needs finer rotations. Bits, up to a
//! constant, are 3/2 log2 of the squares of both, with the bound as the least that is seen. Each bone takes the parent with which it needs the fewest bits, the one
//! that saves most first, unless that would close a circle or lead it astray between frames: where two bones turn against each other, the child's way from one
//! frame to the next is a detour. What is compared is the middle of its vertices half a frame later, with the cubic through four frames. Only the [`NEAR`] bones around it are tried, so that the work grows with the number of bones.

use bonesmith_core::{BoneKind, Rig};
use glam::{DAffine3, DMat3, DQuat, DVec3};
use rayon::prelude::*;

/// Pairs of frames that are compared.
const MAX_PAIRS: usize = 256;
/// Bones around a bone that may be its parent.
const NEAR: usize = 32;
/// Shares of the distance to the middle that pull the origin there.
const PULLS: [f64; 5] = [1e-4, 1e-3, 1e-2, 1e-1, 1.0];
/// A bone may be so many times as far from the cubic between frames as without the parent, and by the bound farther.
const ASTRAY: f64 = 1.25;
/// Bits in a frame that a parent must save.
const LEAST_GAIN: f64 = 0.25;

/// Where a bone's vertices are.
struct Mass {
    middle: DVec3,
    /// Mean square of the distance to it.
    square: f64,
}

/// A bone under a parent, or under none.
#[derive(Clone, Copy)]
struct Link {
    parent: Option<usize>,
    bits: f64,
    origin: DVec3,
}

/// The rig with parents and origins for its bones, where they are free: rigid, without parents.
pub fn linked(rig: &Rig, rms: f64) -> Option<Rig> {
    let frames: usize = rig.clips.iter().map(|clip| clip.frame_count()).sum();
    let is_free = rig.kind == BoneKind::Rigid && rig.bones.iter().all(|bone| bone.parent.is_none());
    if !is_free || rig.bone_count() < 2 || frames < 3 {
        return None;
    }
    let step = frames.div_ceil(MAX_PAIRS).max(1);
    let pairs: Vec<[&[DAffine3]; 2]> = (rig.clips.iter())
        .flat_map(|clip| (1..clip.frame_count()).map(move |t| [clip.frame(t - 1), clip.frame(t)]))
        .step_by(step)
        .collect();
    if pairs.is_empty() {
        return None;
    }
    let quads: Vec<[&[DAffine3]; 4]> = (rig.clips.iter())
        .flat_map(|clip| (3..clip.frame_count()).map(move |t| [t - 3, t - 2, t - 1, t].map(|t| clip.frame(t))))
        .step_by(step)
        .collect();
    let masses = masses(rig);
    let least = 3.0 * rms * rms;
    let count = rig.bone_count();
    let link = |c: usize, parent: Option<usize>| link(c, parent, &pairs, &masses[c], least);
    let free: Vec<Link> = (0..count).into_par_iter().map(|c| link(c, None)).collect();
    let mut gains: Vec<(f64, usize, Link)> = (0..count)
        .into_par_iter()
        .flat_map_iter(|c| nearest(&masses, c).into_iter().map(move |p| (c, p)))
        .map(|(c, p)| (c, link(c, Some(p))))
        .map(|(c, under)| (free[c].bits - under.bits, c, under))
        .filter(|(gain, ..)| *gain > LEAST_GAIN)
        .filter(|(_, c, under)| {
            let [alone, under] = [&free[*c], under].map(|link| between(*c, link, &quads, &masses));
            under <= ASTRAY * alone + least.sqrt()
        })
        .collect();
    gains.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2.parent).cmp(&(b.1, b.2.parent))));
    let mut links = free;
    for (_, c, under) in gains {
        let mut above = under.parent;
        while let Some(at) = above.filter(|&at| at != c) {
            above = links[at].parent;
        }
        if links[c].parent.is_none() && above.is_none() {
            links[c] = under;
        }
    }
    let mut bones = rig.bones.clone();
    for (bone, link) in bones.iter_mut().zip(links) {
        bone.parent = link.parent;
        bone.world_from_bind.translation = link.origin;
    }
    Some(Rig { bones, ..rig.clone() })
}

/// How far the middle of a bone's vertices is from the cubic through four frames, half way between two of them: root mean square.
fn between(c: usize, link: &Link, quads: &[[&[DAffine3]; 4]], masses: &[Mass]) -> f64 {
    let middle = masses[c].middle;
    let half = |a: DAffine3, b: DAffine3, pivot: DVec3, point: DVec3| {
        let [p, q] = [a, b].map(|m| DQuat::from_mat3(&m.matrix3));
        a.transform_point3(pivot).midpoint(b.transform_point3(pivot)) + p.slerp(q, 0.5) * (point - pivot)
    };
    let off = |quad: &[&[DAffine3]; 4]| {
        let own = quad.map(|frame| frame[c]);
        let [before, start, end, after] = own.map(|m| m.transform_point3(middle));
        let cubic = (9.0 * (start + end) - before - after) / 16.0;
        let found = match link.parent {
            None => half(own[1], own[2], link.origin, middle),
            Some(p) => {
                let (a, b) = (quad[1][p], quad[2][p]);
                half(a, b, masses[p].middle, half(a.inverse() * own[1], b.inverse() * own[2], link.origin, middle))
            }
        };
        found.distance_squared(cubic)
    };
    (quads.iter().map(off).sum::<f64>() / quads.len().max(1) as f64).sqrt()
}

/// The bones whose vertices are nearest to those of a bone.
fn nearest(masses: &[Mass], c: usize) -> Vec<usize> {
    let distance = |p: usize| masses[p].middle.distance_squared(masses[c].middle);
    let mut others: Vec<(f64, usize)> = (0..masses.len()).filter(|&p| p != c).map(|p| (distance(p), p)).collect();
    if others.len() > NEAR {
        others.select_nth_unstable_by(NEAR, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        others.truncate(NEAR);
    }
    others.into_iter().map(|(_, p)| p).collect()
}

fn masses(rig: &Rig) -> Vec<Mass> {
    let mut sums = vec![(0.0, DVec3::ZERO, 0.0); rig.bone_count()];
    for (i, p) in rig.rest.iter().enumerate() {
        for (j, w) in rig.weights.of(i) {
            let (w, p) = (f64::from(w).powi(2), p.as_dvec3());
            sums[j].0 += w;
            sums[j].1 += w * p;
            sums[j].2 += w * p.length_squared();
        }
    }
    let of = |(mass, first, second): (f64, DVec3, f64)| {
        let middle = first / mass.max(f64::MIN_POSITIVE);
        Mass { middle, square: (second / mass.max(f64::MIN_POSITIVE) - middle.length_squared()).max(0.0) }
    };
    sums.into_iter().map(of).collect()
}

/// A bone under another one, or under none.
fn link(c: usize, parent: Option<usize>, pairs: &[[&[DAffine3]; 2]], mass: &Mass, least: f64) -> Link {
    let (mut normal, mut right, mut constant, mut turn) = (DMat3::ZERO, DVec3::ZERO, 0.0, 0.0);
    for pair in pairs {
        let [a, b] = pair.map(|frame| parent.map_or(frame[c], |p| frame[p].inverse() * frame[c]));
        let d = b.matrix3 - a.matrix3;
        // About the middle of the vertices.
        let e = b.transform_point3(mass.middle) - a.transform_point3(mass.middle);
        normal += d.transpose() * d;
        right += d.transpose() * e;
        constant += e.length_squared();
        turn += d.x_axis.length_squared() + d.y_axis.length_squared() + d.z_axis.length_squared();
    }
    let count = pairs.len() as f64;
    // Every axis moves by the angle, on two of three.
    let turn = turn / 2.0 / count;
    let trace = normal.x_axis.x + normal.y_axis.y + normal.z_axis.z;
    let at = |offset: DVec3| {
        let shift = (constant + 2.0 * offset.dot(right) + offset.dot(normal * offset)).max(0.0) / count;
        let reach = mass.square + offset.length_squared();
        let bits = 1.5 * ((shift + least).log2() + (reach * turn + least).log2());
        Link { parent, bits, origin: mass.middle + offset }
    };
    let pulled = PULLS.into_iter().filter_map(|pull| {
        let system = normal + DMat3::from_diagonal(DVec3::splat(pull * trace + f64::MIN_POSITIVE));
        let offset = -(system.inverse() * right);
        offset.is_finite().then(|| at(offset))
    });
    pulled.fold(at(DVec3::ZERO), |best, link| if link.bits < best.bits { link } else { best })
}
