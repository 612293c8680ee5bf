//! Levels of detail: nested subsets of a rig's bones with weights of their own, so that one animation drives all levels.
//!
//! 1. From the finest level to the coarsest: influences are reduced to the level's number, then the bones whose removal costs least are
//!    taken out in batches (`skinning::pass::removal_costs`: the rise of the error with the weights of the others solved again, vertex by
//!    vertex), and weights are solved anew after each batch.
//! 2. Weights of every level are exact for the motion (`skinning::weights`), on the poses of all clips.
//! 3. With `refit_motion` the bones, their motion and a rest pose of each level are fitted too. First from the coarsest level to the finest, each with
//!    the bones of coarser levels locked (`search`): a coarse level has no other bones, a fine one has. Then all levels at once: the moments of each level's
//!    vertices, whose weights use that level's bones, add up (`refit`). Both are done again as long as that pays.

pub mod carry;
mod params;
mod refit;
mod search;

use glam::{DAffine3, DVec3, Vec3};

use crate::mesh::MeshSequence;
use crate::model::{Bone, BoneKind, Rig, SparseWeights};
use crate::observer::{Cancelled, Observer, Stage};
use crate::skinning::bone_step::BoneModel;
use crate::skinning::weights::{self, Prior, Search, Subject, Task};
use crate::skinning::{FitParams, Motion, Poses, Problem, Run, Skin, UnitSpace, VertexParams, pass, plant};

pub use params::{LodError, LodParams};

/// Share of the bones that are too many which is taken out at once.
const BATCH: f64 = 0.3;
/// Pull towards the weights of the batch before, per coordinate and frame: it decides between bones that move alike.
const PULL: f64 = 1e-12;
/// Vertices solved between looks at the clock.
const BLOCK: usize = 4096;
/// Bones that a vertex tries beside its own in a round.
const NEWCOMERS: usize = 2;
/// Sweeps over the bones in a round.
const SWEEPS: usize = 4;

/// One level.
#[derive(Clone, Debug)]
pub struct Level {
    /// Bones of the finest rig that it uses, ascending.
    pub bones: Vec<usize>,
    /// Weights, on bones of the finest rig.
    pub weights: SparseWeights,
    /// Its rest pose; that of the rig, unless the motion was refitted.
    pub rest: Vec<Vec3>,
    /// Against the examples, or the rig's own poses.
    pub e_rms: f64,
}

/// A rig and its levels.
#[derive(Clone, Debug)]
pub struct Lods {
    /// The finest level: its bones, with the motion that all levels share.
    pub rig: Rig,
    /// Finest first.
    pub levels: Vec<Level>,
}

impl Lods {
    /// A level as a rig of its own: its bones only, and a root that moves no vertex where there is one.
    pub fn level_rig(&self, level: usize) -> Rig {
        let Level { bones, weights, rest, .. } = &self.levels[level];
        let root = |j: &usize| self.rig.bones[*j].parent.is_none() && self.is_free(*j);
        let root = (0..self.rig.bone_count()).filter(root);
        let mut kept: Vec<usize> = bones.iter().copied().chain(root).collect();
        kept.sort_unstable();
        kept.dedup();
        let mut rig = subset(&self.rig, &kept);
        let mut own = SparseWeights::new(weights.vertex_count(), weights.slots());
        for i in 0..weights.vertex_count() {
            let row = weights.of(i).filter_map(|(j, w)| Some((kept.binary_search(&j).ok()?, f64::from(w))));
            own.set(i, &row.collect::<Vec<_>>());
        }
        rig.weights = own;
        rig.rest.clone_from(rest);
        rig
    }

    fn is_free(&self, bone: usize) -> bool {
        (0..self.rig.vertex_count()).all(|i| self.rig.weights.of(i).all(|(j, _)| j != bone))
    }
}

/// Makes the levels of a rig. `examples` are the poses of its clips, or of one of them; otherwise its own poses count. `own` [levels], or empty: E_RMS of fits
/// of each level's own size; where the motion is refitted, levels are balanced so that the largest ratio to them is small.
pub fn lod(
    rig: &Rig,
    examples: Option<&MeshSequence>,
    params: &LodParams,
    own: &[f64],
    observer: &mut dyn Observer,
) -> Result<Lods, LodError> {
    params.validate()?;
    rig.check()?;
    let used: Vec<usize> = {
        let usage = rig.weights.usage(rig.bone_count());
        (0..rig.bone_count()).filter(|&j| usage[j] > 0).collect()
    };
    if params.refit_motion
        && let Some((bone, parent)) = rig.rotating_joint()
    {
        let name = |bone: usize| rig.bones[bone].name.clone();
        return Err(LodError::Skeleton { bone: name(bone), parent: name(parent) });
    }
    let poses = Poses::whole(rig, examples)?;
    let fit = FitParams::default();
    let mut run = Run::new(&fit, observer);
    run.stage(Stage::Levels, Some(params.levels.len()))?;
    let mut work = Work::new(rig, &poses, used, params);
    for (level, &(bones, influences)) in params.levels.iter().enumerate() {
        work.add_level(bones, influences, &mut run)?;
        run.round(work.levels[level].bones.len(), work.levels[level].e_rms)?;
    }
    if params.refit_motion {
        work.refit(params, own, &mut run)?;
    }
    Ok(work.finish(rig, &poses, params.refit_motion))
}

/// Some bones of a rig, ascending; parents are the nearest that stay. Weights are left alone.
fn subset(rig: &Rig, kept: &[usize]) -> Rig {
    let parent = |j: usize| {
        let mut above = rig.bones[j].parent;
        while let Some(p) = above {
            if let Ok(at) = kept.binary_search(&p) {
                return Some(at);
            }
            above = rig.bones[p].parent;
        }
        None
    };
    let bones: Vec<Bone> = kept.iter().map(|&j| Bone { parent: parent(j), ..rig.bones[j].clone() }).collect();
    let mut clips = rig.clips.clone();
    for clip in &mut clips {
        let frames = clip.posed_from_rest.chunks_exact(rig.bone_count());
        clip.posed_from_rest = frames.flat_map(|pose| kept.iter().map(|&j| pose[j])).collect::<Vec<DAffine3>>();
    }
    Rig { bones, clips, ..rig.clone() }
}

/// A level in work: its bones among those of the finest level, and weights on its own bones.
#[derive(Clone)]
struct Draft {
    /// Numbers among the bones in work.
    bones: Vec<usize>,
    influences: usize,
    skin: Skin,
    e_rms: f64,
}

impl Draft {
    /// Bones ascending.
    fn sort(&mut self) {
        let mut order: Vec<usize> = (0..self.bones.len()).collect();
        order.sort_by_key(|&at| self.bones[at]);
        self.skin.renumber(&order);
        self.bones.sort_unstable();
    }
}

struct Work<'a> {
    problem: &'a Problem,
    kind: BoneModel,
    /// Bones of the rig that move vertices.
    used: Vec<usize>,
    /// Their motion.
    motion: Motion,
    /// The weights that the next level starts from, on `bones`.
    bones: Vec<usize>,
    skin: Skin,
    levels: Vec<Draft>,
}

impl<'a> Work<'a> {
    fn new(rig: &Rig, poses: &'a Poses, used: Vec<usize>, params: &LodParams) -> Self {
        let slots = params.levels.iter().map(|(_, k)| *k).max().unwrap_or(1);
        let mut skin = Skin::empty(slots.max(rig.weights.max_influences()), poses.problem.rest.clone());
        for i in 0..rig.vertex_count() {
            let row = rig.weights.of(i).filter_map(|(j, w)| Some((used.binary_search(&j).ok()?, f64::from(w))));
            skin.set(i, row.collect::<Vec<_>>());
        }
        let axes = used.iter().map(|&j| rig.bones[j].world_from_bind.matrix3).collect();
        let kind = BoneModel { axes, ..BoneModel::new(rig.kind, used.len(), SWEEPS) };
        let bones = (0..used.len()).collect();
        Self {
            problem: &poses.problem,
            kind,
            motion: poses.motion.select(&used),
            used,
            bones,
            skin,
            levels: Vec::new(),
        }
    }

    /// Takes bones out until the level has as many as it should, and solves its weights.
    fn add_level(&mut self, count: usize, influences: usize, run: &mut Run<'_>) -> Result<(), Cancelled> {
        let mut motion = self.motion.select(&self.bones);
        let fresh = self.levels.is_empty() && self.skin.slots <= influences;
        if !fresh {
            self.skin = self.skin.with_slots(influences);
        }
        let mut error = self.weigh(&motion, influences, Search::Whole, run)?;
        while self.bones.len() > count {
            let excess = self.bones.len() - count;
            let batch = ((excess as f64 * BATCH).ceil() as usize).clamp(1, excess);
            let vertices =
                VertexParams { slots: influences, newcomers: NEWCOMERS, min_gain: 0.0, move_rest: false, rounds: 1 };
            let costs = run.timed("removal costs", || pass::removal_costs(self.problem, &motion, &self.skin, vertices));
            let moments = run.timed("moments", || pass::gather(self.problem, &motion, &self.skin));
            let gone = plant::least_useful(&costs, &moments.second, 0, batch);
            run.report()?;
            motion = plant::remove(&motion, &mut self.skin, &gone);
            let stays = |at: &usize| !gone.contains(at);
            self.bones = (0..self.bones.len()).filter(stays).map(|at| self.bones[at]).collect();
            let last = self.bones.len() == count;
            error = self.weigh(&motion, influences, if last { Search::Whole } else { Search::Nearby }, run)?;
        }
        let (bones, skin) = (self.bones.clone(), self.skin.clone());
        self.levels.push(Draft { bones, influences, skin, e_rms: self.problem.e_rms(error) });
        Ok(())
    }

    /// Exact weights of the present bones; the squared error.
    fn weigh(&mut self, motion: &Motion, k: usize, search: Search, run: &mut Run<'_>) -> Result<f64, Cancelled> {
        weigh(self.problem, motion, &mut self.skin, k, search, run)
    }

    /// Binds bones where their vertices of the finest level are, along the axes they scale in: a search may have put them elsewhere. A bone without
    /// vertices stays.
    fn bind(&self, bones: &mut [Bone], space: &UnitSpace) {
        let Some(finest) = self.levels.first() else { return };
        let (count, skin) = (finest.bones.len(), &finest.skin);
        let mut moves = vec![false; count];
        (0..skin.rest.len()).flat_map(|i| skin.of(i)).for_each(|(j, _)| moves[j] = true);
        let places = finest.bones.iter().zip(skin.centroids(count)).zip(moves);
        for ((&at, place), _) in places.filter(|(_, moves)| *moves) {
            let bone = &mut bones[self.used[at]];
            if self.kind.kind == BoneKind::Trs {
                bone.world_from_bind.matrix3 = self.kind.axes[at];
            }
            bone.world_from_bind.translation = space.model_point(place);
            bone.tip = None;
        }
    }

    fn finish(self, rig: &Rig, poses: &Poses, with_motion: bool) -> Lods {
        let mut moved = rig.clone();
        let (own, all) = (self.used.len(), rig.bone_count());
        if with_motion {
            // Bones that move vertices; others keep their motion.
            let transforms = poses.problem.space.transforms(&self.motion);
            let frames = moved.clips.iter_mut().flat_map(|clip| clip.posed_from_rest.chunks_exact_mut(all));
            for (pose, refitted) in frames.zip(transforms.chunks_exact(own)) {
                self.used.iter().zip(refitted).for_each(|(&j, m)| pose[j] = *m);
            }
            self.bind(&mut moved.bones, &poses.problem.space);
        }
        let finest = self.levels.first().map(|level| level.bones.clone()).unwrap_or_default();
        let usage = rig.weights.usage(all);
        // Bones that move no vertex stay where others hang on them.
        let carries = |j: usize| usage[j] == 0 && rig.bones.iter().any(|bone| bone.parent == Some(j));
        let mut kept: Vec<usize> = finest.iter().map(|&at| self.used[at]).collect();
        kept.extend((0..all).filter(|&j| carries(j)));
        kept.sort_unstable();
        let space = &poses.problem.space;
        let place = |at: usize| kept.binary_search(&self.used[at]).unwrap_or(0);
        let mut out = subset(&moved, &kept);
        let levels: Vec<Level> = self
            .levels
            .iter()
            .map(|level| {
                let n = self.problem.vertices();
                let mut weights = SparseWeights::new(n, level.influences);
                for i in 0..n {
                    let row = level.skin.of(i).map(|(j, w)| (place(level.bones[j]), w));
                    weights.set(i, &row.collect::<Vec<_>>());
                }
                let bones = level.bones.iter().map(|&at| place(at)).collect();
                let position = |(u, own): (&DVec3, &Vec3)| match *u == space.point(*own) {
                    true => *own,
                    false => space.model_point(*u).as_vec3(),
                };
                let rest = level.skin.rest.iter().zip(&rig.rest).map(position).collect();
                Level { bones, weights, rest, e_rms: level.e_rms }
            })
            .collect();
        if let Some(finest) = levels.first() {
            (out.weights, out.rest) = (finest.weights.clone(), finest.rest.clone());
        }
        Lods { rig: out, levels }
    }
}

/// Exact weights on at most `k` bones; the squared error.
fn weigh(
    problem: &Problem,
    motion: &Motion,
    skin: &mut Skin,
    k: usize,
    search: Search,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    let n = problem.vertices();
    let prior: Vec<Vec<(u16, f32)>> = (0..n).map(|i| skin.of(i).map(|(j, w)| (j as u16, w as f32)).collect()).collect();
    let free = vec![true; n];
    let prior = Prior { weights: &prior, strength: PULL * problem.length as f64 };
    let task = Task { limit: k.min(motion.bones), search, prior, free: &free };
    let subjects = [run.timed("weights", || Subject::new(problem, motion))];
    let mut sum = 0.0;
    for start in (0..n).step_by(BLOCK) {
        let range = start..(start + BLOCK).min(n);
        sum += run.timed("weights", || weights::solve(&subjects, skin, range, &task)).iter().sum::<f64>();
        run.report()?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deform;
    use crate::observer::Silent;
    use crate::synthetic::{PosedRigParams, posed_rig};

    fn levels(refit_motion: bool) -> (Rig, Lods) {
        let rig = posed_rig(5, &PosedRigParams { bones: 12, frames: 20, ..PosedRigParams::default() }).rig;
        let params = LodParams { levels: vec![(12, 4), (8, 2), (4, 1)], refit_motion, ..LodParams::default() };
        let lods = lod(&rig, None, &params, &[], &mut Silent).unwrap();
        (rig, lods)
    }

    /// E_RMS of a level as a rig of its own, against the poses of the original.
    fn measured(rig: &Rig, level: &Rig) -> f64 {
        let (mut sum, mut count) = (0.0, 0.0);
        for t in 0..rig.clips[0].frame_count() {
            let posed = |rig: &Rig| deform::lbs(&rig.rest, &rig.weights, rig.clips[0].frame(t));
            for (p, q) in posed(rig).iter().zip(posed(level)) {
                sum += (p.as_dvec3() - q.as_dvec3()).length_squared();
                count += 3.0;
            }
        }
        1000.0 * (sum / count).sqrt() / crate::mesh::unit_radius(&rig.rest)
    }

    #[test]
    fn levels_are_nested_and_keep_the_motion() {
        let (rig, lods) = levels(false);
        assert_eq!(lods.levels.iter().map(|level| level.bones.len()).collect::<Vec<_>>(), [12, 8, 4]);
        for pair in lods.levels.windows(2) {
            assert!(pair[1].bones.iter().all(|bone| pair[0].bones.contains(bone)));
            assert!(pair[0].e_rms <= pair[1].e_rms);
        }
        for (at, (level, most)) in lods.levels.iter().zip([4, 2, 1]).enumerate() {
            level.weights.check(lods.rig.bone_count()).unwrap();
            assert!(level.weights.max_influences() <= most);
            let own = lods.level_rig(at);
            own.check().unwrap();
            for bone in &own.bones {
                let before = rig.bones.iter().position(|other| other.name == bone.name).unwrap();
                let now = own.bones.iter().position(|other| other.name == bone.name).unwrap();
                for t in 0..20 {
                    assert!(own.clips[0].frame(t)[now].abs_diff_eq(rig.clips[0].frame(t)[before], 1e-9));
                }
            }
            let found = measured(&rig, &own);
            assert!((found - level.e_rms).abs() < 0.02 * level.e_rms + 1e-2, "{found} {}", level.e_rms);
        }
        assert!(lods.levels[0].e_rms < 0.1, "{}", lods.levels[0].e_rms);
    }

    #[test]
    fn motion_for_all_levels_lowers_the_coarse_errors() {
        let ((rig, kept), (_, moved)) = (levels(false), levels(true));
        assert!(
            moved.levels[2].e_rms < 0.9 * kept.levels[2].e_rms,
            "{} {}",
            moved.levels[2].e_rms,
            kept.levels[2].e_rms
        );
        for (at, level) in moved.levels.iter().enumerate() {
            let found = measured(&rig, &moved.level_rig(at));
            assert!((found - level.e_rms).abs() < 0.02 * found + 1e-2, "level {at}: {found} {}", level.e_rms);
        }
        assert!(moved.levels.windows(2).all(|pair| pair[0].e_rms <= pair[1].e_rms));
    }

    /// Of what cycles find the best is kept, and it does not end with the first.
    #[test]
    fn more_cycles_lower_the_errors_of_all_levels_together() {
        let rig = posed_rig(5, &PosedRigParams { bones: 16, frames: 20, ..PosedRigParams::default() }).rig;
        let mean_log = |cycles: usize| {
            let levels = vec![(12, 3), (6, 2), (3, 1)];
            let params = LodParams { levels, refit_motion: true, cycles, ..LodParams::default() };
            let lods = lod(&rig, None, &params, &[], &mut Silent).unwrap();
            lods.levels.iter().map(|level| level.e_rms.ln()).sum::<f64>() / 3.0
        };
        let (without, with) = (mean_log(0), mean_log(4));
        assert!(with < without - 1e-3, "{without} {with}");
    }

    /// Errors of fits of their own size decide how much a level counts: of the level that falls behind them most, more is asked.
    #[test]
    fn the_level_that_is_furthest_behind_its_own_fit_counts_most() {
        let rig = posed_rig(5, &PosedRigParams { bones: 16, frames: 20, ..PosedRigParams::default() }).rig;
        let errors = |own: &[f64]| -> Vec<f64> {
            let params =
                LodParams { levels: vec![(12, 3), (6, 2), (3, 1)], refit_motion: true, ..LodParams::default() };
            lod(&rig, None, &params, own, &mut Silent).unwrap().levels.iter().map(|level| level.e_rms).collect()
        };
        let alike = errors(&[]);
        let [fine, coarse] = [0.5, 2.0].map(|share| errors(&[alike[0] * share, alike[1], alike[2] / share]));
        assert!(fine[0] < coarse[0] && fine[2] > coarse[2], "{fine:?} {alike:?} {coarse:?}");
    }

    #[test]
    fn bones_with_joints_keep_their_motion() {
        let (mut rig, _) = levels(false);
        // A chain: each bone rotates about its own place, which its parent carries along.
        for j in 0..rig.bone_count() {
            rig.bones[j].parent = j.checked_sub(1);
        }
        for clip in &mut rig.clips {
            for (t, pose) in clip.posed_from_rest.chunks_exact_mut(rig.bones.len()).enumerate() {
                let mut above = DAffine3::IDENTITY;
                for (bone, posed) in rig.bones.iter().zip(pose) {
                    let joint = bone.world_from_bind.translation;
                    let turn = DAffine3::from_axis_angle(DVec3::Z, 0.05 * t as f64);
                    above *= DAffine3::from_translation(joint) * turn * DAffine3::from_translation(-joint);
                    *posed = above;
                }
            }
        }
        let params = LodParams { levels: vec![(12, 4), (4, 1)], refit_motion: true, ..LodParams::default() };
        let error = lod(&rig, None, &params, &[], &mut Silent).unwrap_err();
        assert!(matches!(&error, LodError::Skeleton { .. }), "{error}");
        assert!(error.to_string().contains(&rig.bones[0].name), "{error}");
        lod(&rig, None, &LodParams { refit_motion: false, ..params }, &[], &mut Silent).unwrap();
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        let rig = posed_rig(5, &PosedRigParams::default()).rig;
        for levels in [vec![], vec![(4, 1), (8, 2)], vec![(0, 1)], vec![(4, 0)], vec![(4, 17)]] {
            let params = LodParams { levels: levels.clone(), ..LodParams::default() };
            assert!(lod(&rig, None, &params, &[], &mut Silent).is_err(), "{levels:?}");
        }
    }
}
