//! Between a rig in model units and the numbers of the fit.

use glam::{DAffine3, DMat3, DVec3};

use crate::model::rig::{Bone, Clip, Rig};
use crate::model::weights::SparseWeights;
use crate::refit::fitting::Fitting;
use crate::refit::helpers;
use crate::refit::params::{Locks, Subject};
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::skinning::unit::UnitSpace;
use crate::solve::transform::nearest_rotation;

/// All subjects in the unit of the first.
pub(super) fn problems(subjects: &[Subject]) -> Vec<Problem> {
    let first = Problem::new(subjects[0].sequence);
    let others: Vec<Problem> = subjects[1..]
        .iter()
        .map(|Subject { sequence, .. }| {
            Problem::in_space(sequence, UnitSpace::with_sphere(sequence, first.space.sphere))
        })
        .collect();
    std::iter::once(first).chain(others).collect()
}

/// A clip's transforms in the unit space; bones at rest where there are none.
pub(super) fn motion(transforms: Option<&[DAffine3]>, bones: usize, frames: usize, space: &UnitSpace) -> Motion {
    Motion::of_transforms(transforms.unwrap_or_default(), bones, frames, space)
}

/// Rows `[a][c]` as a transform.
pub(super) fn affine(m: &[[f64; 4]; 3]) -> DAffine3 {
    let column = |c: usize| DVec3::new(m[0][c], m[1][c], m[2][c]);
    DAffine3 { matrix3: DMat3::from_cols(column(0), column(1), column(2)), translation: column(3) }
}

/// A transform as rows `[a][c]`.
pub(super) fn rows(m: &DAffine3) -> [[f64; 4]; 3] {
    let columns = [m.matrix3.x_axis, m.matrix3.y_axis, m.matrix3.z_axis, m.translation];
    std::array::from_fn(|a| columns.map(|c| c[a]))
}

/// Weights with `slots` slots in float64.
pub(super) fn skin(weights: &SparseWeights, slots: usize, rest: Vec<DVec3>) -> Skin {
    let n = rest.len();
    let mut skin = Skin { slots, bones: vec![0; n * slots], weights: vec![0.0; n * slots], rest };
    for i in 0..n {
        for (k, (j, w)) in weights.of(i).enumerate() {
            skin.bones[i * slots + k] = j as u16;
            skin.weights[i * slots + k] = f64::from(w);
        }
    }
    skin
}

/// Keeps the rotation and where the origin of the bone's own space goes.
pub(super) fn remove_scale(motion: &mut Motion, j: usize, t: usize) {
    let m = affine(&motion.get(j, t));
    motion.set(j, t, &rows(&DAffine3 { matrix3: nearest_rotation(&m.matrix3), ..m }));
}

/// Bone `j` keeps the place beside its parent `p` that it has in `given`.
pub(super) fn follow(motion: &mut Motion, given: &Motion, j: usize, p: usize) {
    for t in 0..motion.frames() {
        let parent_from_own = affine(&given.get(p, t)).inverse() * affine(&given.get(j, t));
        if parent_from_own.is_finite() {
            motion.set(j, t, &rows(&(affine(&motion.get(p, t)) * parent_from_own)));
        }
    }
}

/// Bones in an order in which every parent comes before its children.
pub(super) fn parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let depth = |j: usize| std::iter::successors(parents[j], |&p| parents[p]).count();
    let mut order: Vec<usize> = (0..parents.len()).collect();
    order.sort_by_cached_key(|&j| depth(j));
    order
}

/// A rig for each subject. What was not fitted is the input's, to the bit.
pub(super) fn rigs(rig: &Rig, subjects: &[Subject], locks: &Locks, fitting: &Fitting) -> Vec<Rig> {
    let weights = weights(rig, locks, fitting);
    let given_bones = rig.bone_count();
    let rig_of = |(s, (subject, motion)): (usize, (&Subject, &Motion))| {
        let given = subject.motion.unwrap_or_default();
        let transform = |t: usize, j: usize| match given.get(t * given_bones + j) {
            Some(given) if j < given_bones && !fitting.free[j] => *given,
            _ => fitting.problems[s].space.model_transform(t, &motion.get(j, t)),
        };
        let frames = subject.sequence.frame_count();
        let posed_from_rest =
            (0..frames).flat_map(|t| (0..motion.bones).map(move |j| (t, j))).map(|(t, j)| transform(t, j)).collect();
        let clip = Clip {
            name: subject.sequence.name().to_owned(),
            times_secs: subject.sequence.times_secs().to_vec(),
            posed_from_rest,
        };
        Rig {
            name: rig.name.clone(),
            rest: subject.sequence.rest().to_vec(),
            surface: rig.surface.clone(),
            weights: weights.clone(),
            bones: bones(rig, subject, helpers::bones(rig, fitting, s)),
            kind: if fitting.free.iter().any(|free| *free) { fitting.kind.max(rig.kind) } else { rig.kind },
            clips: vec![clip],
            params_json: String::new(),
        }
    };
    subjects.iter().zip(&fitting.motions).enumerate().map(rig_of).collect()
}

fn bones(rig: &Rig, subject: &Subject, helpers: Vec<Bone>) -> Vec<Bone> {
    let mut bones = rig.bones.clone();
    for (bone, bind) in bones.iter_mut().zip(subject.binds.unwrap_or_default()) {
        bone.world_from_bind = *bind;
    }
    bones.extend(helpers);
    bones
}

/// Fitted weights; those of locked vertices as given, to the bit.
fn weights(rig: &Rig, locks: &Locks, fitting: &Fitting) -> SparseWeights {
    if !fitting.weigh {
        return rig.weights.clone();
    }
    let slots = fitting.skin.slots;
    let n = rig.vertex_count();
    let mut fitted = SparseWeights::new(n, slots);
    for i in 0..n {
        fitted.set(i, &fitting.skin.of(i).collect::<Vec<_>>());
    }
    let (mut bones, mut values) = (fitted.bone_table().to_vec(), fitted.weight_table().to_vec());
    for i in (0..n).filter(|&i| locks.vertices.get(i).is_some_and(|m| *m >= 1.0)) {
        let row = i * slots..(i + 1) * slots;
        bones[row.clone()].fill(0);
        values[row.clone()].fill(0.0);
        for (at, (j, w)) in row.zip(rig.weights.of(i)) {
            (bones[at], values[at]) = (j as u16, w);
        }
    }
    let used = slots_in_use(&values, slots);
    let cut = |at: &usize| at % slots < used;
    let picked: Vec<usize> = (0..n * slots).filter(cut).collect();
    let tables =
        (picked.iter().map(|&at| bones[at]).collect::<Vec<_>>(), picked.iter().map(|&at| values[at]).collect());
    SparseWeights::from_tables(used, tables.0, tables.1).unwrap_or(fitted)
}

fn slots_in_use(values: &[f32], slots: usize) -> usize {
    values.iter().enumerate().filter(|(_, w)| **w > 0.0).map(|(at, _)| at % slots + 1).max().unwrap_or(1)
}
