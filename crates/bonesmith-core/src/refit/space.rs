//! Between a rig in model units and the unit space of the fit.

use crate::model::{Bone, Clip, Rig, SparseWeights};
use crate::refit::helpers;
use crate::refit::params::{Locks, Subject};
use crate::skinning::alternation::Alternation;
use crate::skinning::{Problem, UnitSpace};

/// All subjects in the unit of the first.
pub(super) fn problems(subjects: &[Subject]) -> Vec<Problem> {
    let sequence = subjects[0].sequence;
    let first = Problem::held_in(sequence, UnitSpace::new(sequence));
    let others: Vec<Problem> = subjects[1..]
        .iter()
        .map(|Subject { sequence, .. }| {
            Problem::held_in(sequence, UnitSpace::with_sphere(sequence, first.space.sphere))
        })
        .collect();
    std::iter::once(first).chain(others).collect()
}

/// A rig for each subject. What was not fitted is the input's, to the bit.
pub(super) fn rigs(rig: &Rig, subjects: &[Subject], locks: &Locks, fitting: &mut Alternation) -> Vec<Rig> {
    let weights = weights(rig, locks, fitting);
    let helpers = helpers::bones(rig, fitting);
    let (free, given_bones) = (&fitting.bones.free, rig.bone_count());
    let kind = if free.contains(&true) { fitting.bones.model.kind.max(rig.kind) } else { rig.kind };
    let rig_of = |((s, subject), helpers): ((usize, &Subject), Vec<Bone>)| {
        let (motion, given) = (&fitting.motions[s], subject.motion.unwrap_or_default());
        let transform = |t: usize, j: usize| match given.get(t * given_bones + j) {
            Some(given) if j < given_bones && !free[j] => *given,
            _ => fitting.problems[s].space.model_transform(t, &motion.get(j, t)),
        };
        let all = (0..motion.frames()).flat_map(|t| (0..motion.bones).map(move |j| (t, j)));
        let clip = Clip {
            name: subject.sequence.name().to_owned(),
            times_secs: subject.sequence.times_secs().to_vec(),
            posed_from_rest: all.map(|(t, j)| transform(t, j)).collect(),
        };
        Rig {
            name: rig.name.clone(),
            rest: subject.sequence.rest().to_vec(),
            surface: rig.surface.clone(),
            weights: weights.clone(),
            bones: bones(rig, subject, helpers),
            kind,
            clips: vec![clip],
            params_json: String::new(),
        }
    };
    subjects.iter().enumerate().zip(helpers).map(rig_of).collect()
}

fn bones(rig: &Rig, subject: &Subject, helpers: Vec<Bone>) -> Vec<Bone> {
    let mut bones = rig.bones.clone();
    for (bone, bind) in bones.iter_mut().zip(subject.binds.unwrap_or_default()) {
        bone.world_from_bind = *bind;
    }
    bones.extend(helpers);
    bones
}

/// Fitted weights in no more slots than are used; those of locked vertices as given, to the bit.
fn weights(rig: &Rig, locks: &Locks, fitting: &Alternation) -> SparseWeights {
    if !fitting.weigh {
        return rig.weights.clone();
    }
    let fitted = fitting.skin.to_weights();
    let locked = |i: usize| locks.vertices.get(i).is_some_and(|m| *m >= 1.0);
    let rows: Vec<Vec<(usize, f32)>> = (0..rig.vertex_count())
        .map(|i| if locked(i) { rig.weights.of(i).collect() } else { fitted.of(i).collect() })
        .collect();
    let slots = rows.iter().map(Vec::len).max().unwrap_or(0).max(1);
    let slot = |at: usize| rows[at / slots].get(at % slots).copied().unwrap_or((0, 0.0));
    let (bones, values) = (0..rows.len() * slots).map(slot).map(|(j, w)| (j as u16, w)).unzip();
    SparseWeights::from_tables(slots, bones, values).unwrap_or(fitted)
}
