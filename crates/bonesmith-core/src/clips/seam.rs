//! Clips that loop: the last pose equals the first.
//!
//! Two kinds of clips nearly loop. In one the last frame shows the first pose again: then the difference between them is taken out. In the
//! other the first frame follows the last one, as frame 25 would follow frame 24: then a copy of the first frame is added, and nothing
//! else changes. The second kind is recognised by its steps: the ends are half a typical step apart or more, and the second differences
//! of the poses across the seam are about as small as those within the clip.
//!
//! Corrections. Each bone is taken relative to its parent (relative to the root bone, where there is one for the common motion: the root goes
//! on), as rotation `R_t`, stretch `S_t` and the place `p_t` of a pivot. With `s_t` from -1/2 at the first frame to 1/2 at the last one
//!
//! ```text
//! R'_t = exp(s_t log(R_0 R_l^-1)) R_t      S'_t = S_t + s_t (S_0 - S_l)      p'_t = p_t + s_t (p_0 - p_l)
//! ```
//!
//! has equal ends. `s_t` falls to 0 by a smooth step within a window at each end, so that other frames stay as they are. The window
//! is as short as the motion allows: a narrow one changes few frames, a wide one changes the velocity less. It is chosen so that the
//! correction's largest step is a tenth of a typical step of the vertices, within 4 frames and half of the clip.
//!
//! The pivot is the joint where that keeps its place relative to the parent (bone lengths stay), else the middle of the bone's
//! vertices.

use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};
use serde::Serialize;

use crate::deform;
use crate::mesh::sequence::typical_step;
use crate::mesh::sphere::unit_radius;
use crate::model::{Clip, Rig};
use crate::solve::transform::nearest_rotation;

/// The correction's largest step, as a share of a typical step of the vertices.
const STEP_SHARE: f64 = 0.1;
/// Frames at each end over which a correction is spread at least.
const MIN_WINDOW: usize = 4;
/// A clip whose ends differ by more than this share of the largest difference from the first pose does not loop.
const NEARLY: f64 = 0.25;
/// A joint that moves by less than this share of the radius relative to its parent is fixed there.
const FIXED_JOINT: f64 = 1e-4;
/// Ends that are closer than this share of a typical step show the same pose.
const SAME_POSE: f64 = 0.5;
/// At the seam of a clip whose first frame follows its last one, second differences are at most this many times the largest of the clip.
const AS_SMOOTH: f64 = 1.25;
/// Vertices that steps are measured on, about.
const SAMPLE: usize = 4096;
/// Parents whose transforms are closer to singular than this are no frame of reference.
const MIN_VOLUME: f64 = 1e-6;

/// A clip that was made to loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Seam {
    /// The clip.
    pub clip: String,
    /// Distance of the last pose from the first one before, as E_RMS.
    pub before: f64,
    /// The largest distance of any pose from the first one, as E_RMS.
    pub range: f64,
    /// Whether the clip nearly looped, so that the correction is small.
    pub loops: bool,
    /// Frames at each end that were changed; 0 where a closing frame was added.
    pub window: usize,
    /// Whether a copy of the first frame was added at the end.
    pub closing_frame: bool,
    /// Frames before.
    #[serde(skip)]
    frames: usize,
}

impl Seam {
    /// Weight of the correction in frame `t`.
    fn share(&self, t: usize) -> f64 {
        let fall = |steps: usize| {
            let x = (steps as f64 / self.window.max(1) as f64).min(1.0);
            0.5 * (1.0 - x * x * (3.0 - 2.0 * x))
        };
        // The halves do not overlap: the window is half of the clip at most.
        fall(self.frames - 1 - t) - fall(t)
    }

    /// Makes other values of the frames loop alike, such as weights of shapes.
    pub fn close_values(&self, values: &mut Vec<f32>) {
        let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return };
        if self.closing_frame {
            values.push(first);
            return;
        }
        if values.len() != self.frames {
            return;
        }
        let corrected = |(t, x): (usize, &mut f32)| *x += self.share(t) as f32 * (first - last);
        values.iter_mut().enumerate().for_each(corrected);
        let end = values.len() - 1;
        values[end] = values[0];
    }
}

/// Makes a clip loop; `root` is the bone with the model's common motion, which goes on. `None` where there is nothing to do: fewer than three
/// frames.
pub fn close_loop(rig: &mut Rig, clip: usize, root: Option<usize>) -> Option<Seam> {
    let frames = rig.clips[clip].frame_count();
    if frames < 3 {
        return None;
    }
    let poses = Measured::new(rig, &rig.clips[clip], root);
    let before = poses.exact(frames - 1, 0);
    let closing_frame = poses.continues();
    let range = (0..frames).map(|t| poses.apart(t, 0)).fold(0.0, f64::max);
    let mut seam = Seam {
        clip: rig.clips[clip].name.clone(),
        before,
        range,
        loops: closing_frame || before <= NEARLY * range || range == 0.0,
        window: 0,
        closing_frame,
        frames,
    };
    if closing_frame {
        add_closing_frame(rig, clip, root);
        return Some(seam);
    }
    seam.window = window(before, poses.typical_step(), frames);
    if before > 0.0 {
        spread(rig, clip, root, &seam);
    }
    Some(seam)
}

/// Distance of the last pose from the first one as E_RMS, relative to the root bone where there is one.
pub fn seam_error(rig: &Rig, clip: &Clip, root: Option<usize>) -> f64 {
    match clip.frame_count() {
        0 => 0.0,
        frames => Measured::new(rig, clip, root).exact(frames - 1, 0),
    }
}

/// Frames at each end over which a difference is spread.
fn window(difference: f64, step: f64, frames: usize) -> usize {
    // A smooth step is 1.5 times as steep as a straight line, and covers half of the difference.
    let slow = 0.75 * difference / (STEP_SHARE * step).max(f64::MIN_POSITIVE);
    let most = (frames / 2).max(1);
    (slow.min(most as f64).ceil() as usize).clamp(MIN_WINDOW.min(most), most)
}

/// Poses of one clip, to be compared.
struct Measured<'a> {
    rig: &'a Rig,
    clip: &'a Clip,
    root: Option<usize>,
    radius: f64,
    /// Positions of some vertices in every frame.
    sample: Vec<Vec<Vec3>>,
}

impl<'a> Measured<'a> {
    fn new(rig: &'a Rig, clip: &'a Clip, root: Option<usize>) -> Self {
        let stride = rig.vertex_count().div_ceil(SAMPLE).max(1);
        let sample = (0..clip.frame_count())
            .map(|t| {
                let pose = relative(clip.frame(t), root);
                let some = (0..rig.vertex_count()).step_by(stride);
                some.map(|i| deform::lbs_vertex(&rig.rest, &rig.weights, &pose, i)).collect()
            })
            .collect();
        Self { rig, clip, root, radius: unit_radius(&rig.rest), sample }
    }

    /// Distance of two poses as E_RMS, of all vertices.
    fn exact(&self, a: usize, b: usize) -> f64 {
        let posed = |t: usize| deform::lbs(&self.rig.rest, &self.rig.weights, &relative(self.clip.frame(t), self.root));
        self.e_rms(posed(a).iter().zip(&posed(b)).map(|(p, q)| p.as_dvec3() - q.as_dvec3()), self.rig.vertex_count())
    }

    /// As [`Measured::exact`], of the sample.
    fn apart(&self, a: usize, b: usize) -> f64 {
        let pairs = self.sample[a].iter().zip(&self.sample[b]);
        self.e_rms(pairs.map(|(p, q)| p.as_dvec3() - q.as_dvec3()), self.sample[a].len())
    }

    fn e_rms(&self, differences: impl Iterator<Item = DVec3>, count: usize) -> f64 {
        let sum: f64 = differences.map(|d| d.length_squared()).sum();
        1000.0 * (sum / (3 * count.max(1)) as f64).sqrt() / self.radius
    }

    /// Median distance between frames.
    fn typical_step(&self) -> f64 {
        let mut steps: Vec<f64> = (1..self.sample.len()).map(|t| self.apart(t - 1, t)).collect();
        let middle = steps.len() / 2;
        *steps.select_nth_unstable_by(middle, f64::total_cmp).1
    }

    /// Whether the first frame follows the last one: they are about a step apart, and at the seam the motion changes no faster than within
    /// the clip.
    fn continues(&self) -> bool {
        let last = self.sample.len() - 1;
        if last < 3 || self.apart(last, 0) < SAME_POSE * self.typical_step() {
            return false;
        }
        let within = (1..last).map(|t| self.bend(t - 1, t, t + 1)).fold(0.0, f64::max);
        self.bend(last - 1, last, 0).max(self.bend(last, 0, 1)) <= AS_SMOOTH * within
    }

    /// Second difference of three poses, as E_RMS.
    fn bend(&self, a: usize, b: usize, c: usize) -> f64 {
        let off = |((p, q), r): ((&Vec3, &Vec3), &Vec3)| p.as_dvec3() - 2.0 * q.as_dvec3() + r.as_dvec3();
        let poses = self.sample[a].iter().zip(&self.sample[b]).zip(&self.sample[c]);
        self.e_rms(poses.map(off), self.sample[b].len())
    }
}

/// A pose relative to its root bone.
fn relative(pose: &[DAffine3], root: Option<usize>) -> Vec<DAffine3> {
    match root {
        Some(root) => {
            let back = pose[root].inverse();
            pose.iter().map(|m| back * *m).collect()
        }
        None => pose.to_vec(),
    }
}

/// A copy of the first frame, one step after the last one; the root goes on as it went.
fn add_closing_frame(rig: &mut Rig, clip: usize, root: Option<usize>) {
    let clip = &mut rig.clips[clip];
    let last = clip.frame_count() - 1;
    let pose = match root {
        None => clip.frame(0).to_vec(),
        Some(root) => {
            let [before, end, start] = [last - 1, last, 0].map(|t| clip.frame(t)[root]);
            let next = end * (before.inverse() * end);
            let next = DAffine3::from_mat3_translation(nearest_rotation(&next.matrix3), next.translation);
            let back = start.inverse();
            clip.frame(0).iter().map(|m| next * (back * *m)).collect()
        }
    };
    clip.times_secs.push(clip.times_secs[last] + typical_step(&clip.times_secs));
    clip.posed_from_rest.extend(pose);
}

/// Takes the difference of the ends out, spread over a window at each end.
fn spread(rig: &mut Rig, clip: usize, root: Option<usize>, seam: &Seam) {
    let frames = seam.frames;
    let parents = parents(rig, &rig.clips[clip]);
    let order = parents_first(&parents);
    let middles = middles(rig);
    let source = rig.clips[clip].clone();
    let mut world = source.posed_from_rest.clone();
    let bones = rig.bone_count();
    let reach = unit_radius(&rig.rest);
    for j in order.into_iter().filter(|j| Some(*j) != root) {
        let local = |t: usize| match parents[j] {
            Some(p) => source.frame(t)[p].inverse() * source.frame(t)[j],
            None => source.frame(t)[j],
        };
        let joint = rig.bones[j].world_from_bind.translation;
        let fixed = parents[j].is_some_and(|p| Some(p) != root)
            && (0..frames).all(|t| local(t).transform_point3(joint).distance(joint) <= FIXED_JOINT * reach);
        let correction = Correction::new(local(0), local(frames - 1), if fixed { joint } else { middles[j] });
        for t in 0..frames {
            let share = seam.share(t);
            let own = if share == 0.0 { local(t) } else { correction.apply(local(t), share) };
            world[t * bones + j] = match parents[j] {
                Some(p) => world[t * bones + p] * own,
                None => own,
            };
        }
        // Equal to the bit, relative to a root that went on.
        let first = world[j];
        world[(frames - 1) * bones + j] = match root {
            Some(root) => source.frame(frames - 1)[root] * (source.frame(0)[root].inverse() * first),
            None => first,
        };
    }
    rig.clips[clip].posed_from_rest = world;
}

/// What takes the difference of two transforms of a bone out.
struct Correction {
    pivot: DVec3,
    rotation: DVec3,
    stretch: DMat3,
    shift: DVec3,
}

impl Correction {
    fn new(first: DAffine3, last: DAffine3, pivot: DVec3) -> Self {
        let (turn, turned) = (nearest_rotation(&first.matrix3), nearest_rotation(&last.matrix3));
        let rotation = DQuat::from_mat3(&(turn * turned.transpose())).normalize();
        let rotation = if rotation.w < 0.0 { -rotation } else { rotation };
        Self {
            pivot,
            rotation: rotation.to_scaled_axis(),
            stretch: turn.transpose() * first.matrix3 - turned.transpose() * last.matrix3,
            shift: first.transform_point3(pivot) - last.transform_point3(pivot),
        }
    }

    fn apply(&self, transform: DAffine3, share: f64) -> DAffine3 {
        let turn = nearest_rotation(&transform.matrix3);
        let stretch = turn.transpose() * transform.matrix3 + self.stretch * share;
        let matrix = DMat3::from_quat(DQuat::from_scaled_axis(self.rotation * share)) * turn * stretch;
        let place = transform.transform_point3(self.pivot) + self.shift * share;
        DAffine3::from_mat3_translation(matrix, place - matrix * self.pivot)
    }
}

/// [B] the parent that a bone is taken relative to: none where the parent vanishes in some frame.
fn parents(rig: &Rig, clip: &Clip) -> Vec<Option<usize>> {
    let sound = |p: usize| (0..clip.frame_count()).all(|t| clip.frame(t)[p].matrix3.determinant().abs() > MIN_VOLUME);
    let sound: Vec<bool> = (0..rig.bone_count()).map(sound).collect();
    rig.bones.iter().map(|bone| bone.parent.filter(|&p| sound[p])).collect()
}

fn parents_first(parents: &[Option<usize>]) -> Vec<usize> {
    let mut placed = vec![false; parents.len()];
    let mut order = Vec::with_capacity(parents.len());
    for start in 0..parents.len() {
        let mut chain = Vec::new();
        let mut at = Some(start);
        while let Some(j) = at.filter(|&j| !placed[j]) {
            placed[j] = true;
            chain.push(j);
            at = parents[j];
        }
        order.extend(chain.into_iter().rev());
    }
    order
}

/// [B] weighted middle of each bone's vertices; its own place where it has none.
fn middles(rig: &Rig) -> Vec<DVec3> {
    let mut sums = vec![(0.0, DVec3::ZERO); rig.bone_count()];
    for (i, p) in rig.rest.iter().enumerate() {
        for (j, w) in rig.weights.of(i) {
            sums[j].0 += f64::from(w);
            sums[j].1 += f64::from(w) * p.as_dvec3();
        }
    }
    let middle = |(j, (weight, sum)): (usize, (f64, DVec3))| match weight > 0.0 {
        true => sum / weight,
        false => rig.bones[j].world_from_bind.translation,
    };
    sums.into_iter().enumerate().map(middle).collect()
}

#[cfg(test)]
mod tests {
    use std::f64::consts::TAU;

    use super::*;
    use crate::clips::{RootMotion, root_motion};
    use crate::mesh::space::UpAxis;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// A known rig that swings `turns` times, with a drift of its first bone.
    fn swinging(frames: usize, span: f64, drift: f64) -> Rig {
        let mut rig = posed_rig(3, &PosedRigParams::default()).rig;
        let bones = rig.bone_count();
        let pose = |t: usize, j: usize| {
            let phase = TAU * t as f64 / span;
            let turn = DMat3::from_rotation_x(0.4 * (phase + j as f64).sin() + drift * t as f64 / frames as f64);
            DAffine3::from_mat3_translation(turn, DVec3::new(0.1 * phase.cos(), drift * t as f64 / frames as f64, 0.0))
        };
        let clip = &mut rig.clips[0];
        clip.times_secs = (0..frames).map(|t| t as f64 / 30.0).collect();
        clip.posed_from_rest = (0..frames * bones).map(|at| pose(at / bones, at % bones)).collect();
        rig.check().unwrap();
        rig
    }

    fn ends_apart(rig: &Rig, root: Option<usize>) -> f64 {
        let poses = Measured::new(rig, &rig.clips[0], root);
        poses.exact(rig.clips[0].frame_count() - 1, 0)
    }

    #[test]
    fn a_small_drift_is_taken_out_near_the_ends() {
        let before = swinging(61, 60.0, 0.02);
        let mut rig = before.clone();
        let seam = close_loop(&mut rig, 0, None).unwrap();
        assert!(seam.loops && !seam.closing_frame && seam.before > 0.1, "{seam:?}");
        assert_eq!(ends_apart(&rig, None), 0.0);
        assert_eq!(rig.clips[0].frame(0), rig.clips[0].frame(60));
        // Outside the window every frame stays to the bit, and no step is much larger than it was.
        assert!((1..=30).contains(&seam.window), "{seam:?}");
        for t in seam.window..61 - seam.window {
            assert_eq!(rig.clips[0].frame(t), before.clips[0].frame(t), "frame {t}");
        }
        let (own, was) = (Measured::new(&rig, &rig.clips[0], None), Measured::new(&before, &before.clips[0], None));
        for t in 1..61 {
            assert!(own.apart(t - 1, t) < 1.3 * was.apart(t - 1, t) + 0.2, "frame {t}");
        }
    }

    #[test]
    fn a_clip_without_its_closing_frame_gets_one() {
        let before = swinging(60, 60.0, 0.0);
        let mut rig = before.clone();
        let seam = close_loop(&mut rig, 0, None).unwrap();
        assert!(seam.closing_frame && seam.loops, "{seam:?}");
        assert_eq!(rig.clips[0].frame_count(), 61);
        assert_eq!(
            rig.clips[0].posed_from_rest[..before.clips[0].posed_from_rest.len()],
            before.clips[0].posed_from_rest
        );
        assert_eq!(rig.clips[0].frame(60), rig.clips[0].frame(0));
        assert!((rig.clips[0].times_secs[60] - 2.0).abs() < 1e-9);
        rig.check().unwrap();
        let mut weights: Vec<f32> = vec![1.0, 2.0];
        seam.close_values(&mut weights);
        assert_eq!(weights, [1.0, 2.0, 1.0]);
    }

    #[test]
    fn what_does_not_loop_is_closed_all_the_same_and_marked() {
        let mut rig = swinging(40, 1e9, 1.0);
        let seam = close_loop(&mut rig, 0, None).unwrap();
        assert!(!seam.loops, "{seam:?}");
        assert!(ends_apart(&rig, None) < 1e-3);
    }

    #[test]
    fn the_root_goes_on() {
        let mut rig = swinging(61, 60.0, 0.02);
        let bones = rig.bone_count();
        for (at, m) in rig.clips[0].posed_from_rest.iter_mut().enumerate() {
            *m = DAffine3::from_translation(DVec3::X * 0.3 * (at / bones) as f64) * *m;
        }
        let root = root_motion(&mut rig, RootMotion::Plane, UpAxis::Y).unwrap().bone;
        let travelled = rig.clips[0].frame(60)[root].translation.x - rig.clips[0].frame(0)[root].translation.x;
        let seam = close_loop(&mut rig, 0, Some(root)).unwrap();
        assert!(seam.loops, "{seam:?}");
        assert!(ends_apart(&rig, Some(root)) < 1e-3);
        assert!((travelled - 18.0).abs() < 0.5, "{travelled}");
        let end = rig.clips[0].frame(60)[root].translation.x - rig.clips[0].frame(0)[root].translation.x;
        assert_eq!(end, travelled);
    }

    #[test]
    fn joints_keep_their_places() {
        let mut rig = swinging(61, 60.0, 0.05);
        let bones = rig.bone_count();
        // A chain: each bone turns about a joint of its parent.
        for j in 0..bones {
            rig.bones[j].parent = j.checked_sub(1);
            rig.bones[j].world_from_bind = DAffine3::from_translation(DVec3::new(j as f64 * 0.2, 0.0, 0.0));
        }
        for t in 0..61 {
            for j in 1..bones {
                let joint = rig.bones[j].world_from_bind.translation;
                let turn =
                    DMat3::from_rotation_z(0.2 * (TAU * t as f64 / 60.0 + j as f64).sin() + 1e-3 * t as f64 / 61.0);
                let own = DAffine3::from_mat3_translation(turn, joint - turn * joint);
                let parent = rig.clips[0].frame(t)[j - 1];
                rig.clips[0].posed_from_rest[t * bones + j] = parent * own;
            }
        }
        close_loop(&mut rig, 0, None).unwrap();
        for t in 0..61 {
            for j in 1..bones {
                let joint = rig.bones[j].world_from_bind.translation;
                let pose = rig.clips[0].frame(t);
                let gap = pose[j].transform_point3(joint).distance(pose[j - 1].transform_point3(joint));
                assert!(gap < 1e-9, "frame {t}, bone {j}: {gap}");
            }
        }
        assert!(ends_apart(&rig, None) < 1e-9);
    }
}
