//! What a correction leaves unexplained, judged by rest poses, by the rig's motion, or by the sizes of its parts.

use glam::{DAffine3, DMat3, DVec3, Vec3};

use crate::mesh::sequence::typical_step;
use crate::mesh::{MeshSequence, Sphere, smallest_enclosing_sphere};
use crate::model::{Clip, Rig};
use crate::refit::align::{Correction, SignedAxes};
use crate::refit::resample::{self, Timing};
use crate::skinning::alternation::PULL;
use crate::skinning::weights::{Prior, Search, Subject, Task, solve};
use crate::skinning::{Problem, Skin, UnitSpace};
use crate::solve::transform::{nearest_rotation, rotation_svd};

/// Maximum number of vertices of a sample.
const VERTICES: usize = 128;

/// Maximum number of frames of a sample.
const FRAMES: usize = 12;

/// Influences of a sampled vertex.
const INFLUENCES: usize = 4;

/// Maximum number of offsets tried at once; longer clips are searched coarsely first.
const OFFSETS: usize = 128;

/// Units that people mix up: the ratios of metre, decimetre, centimetre, millimetre, inch and foot.
const RATIOS: [f64; 15] = [
    1.0,
    10.0,
    100.0,
    1000.0,
    0.1,
    0.01,
    0.001,
    2.54,
    0.0254,
    39.370_078_74,
    0.393_700_787,
    0.3048,
    3.280_839_895,
    30.48,
    0.032_808_399,
];

/// A known ratio where one is near, else four digits.
pub(super) fn tidy_scale(scale: f64) -> f64 {
    let near = |ratio: &&f64| (scale / **ratio - 1.0).abs() < 0.03;
    if let Some(ratio) = RATIOS.iter().find(near) {
        return *ratio;
    }
    if !(scale.is_finite() && scale > 0.0) {
        return 1.0;
    }
    let unit = 10f64.powf(scale.log10().floor() - 3.0);
    (scale / unit).round() * unit
}

/// Root mean square distance per axis of rest poses, in thousandths of `radius`.
pub(super) fn rest_error(rig: &[Vec3], own: &[Vec3], correction: &Correction, radius: f64) -> f64 {
    let m = correction.rig_from_sequence();
    let pairs = rig.iter().zip(own);
    let sum: f64 = pairs.map(|(u, p)| m.transform_point3(p.as_dvec3()).distance_squared(u.as_dvec3())).sum();
    1000.0 / radius * (sum / (3 * rig.len()) as f64).sqrt()
}

/// Best scale and shift for one naming of axes, and what it leaves. No shift, where none is needed.
pub(super) fn rest_fit(rig: &[Vec3], own: &[Vec3], axes: SignedAxes, radius: f64) -> (Correction, f64) {
    let turn = axes.matrix();
    let (to, from) = (mean(rig), turn * mean(own));
    let (mut product, mut squared) = (0.0, 0.0);
    for (u, p) in rig.iter().zip(own) {
        let (u, p) = (u.as_dvec3() - to, turn * p.as_dvec3() - from);
        product += u.dot(p);
        squared += p.length_squared();
    }
    let scale = tidy_scale(if squared > 0.0 { product / squared } else { 1.0 });
    let plain = Correction { scale, axes, ..Correction::NONE };
    let moved = Correction { shift: to - scale * from, ..plain };
    let (plain_error, moved_error) = (rest_error(rig, own, &plain, radius), rest_error(rig, own, &moved, radius));
    if plain_error <= 2.0 * moved_error + 1.0 { (plain, plain_error) } else { (moved, moved_error) }
}

fn mean(points: &[Vec3]) -> DVec3 {
    points.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / points.len() as f64
}

/// As [`rest_error`], of the frame that is nearest to the rest pose, wherever it is.
pub(super) fn upright_error(rig: &[Vec3], sequence: &MeshSequence, axes: SignedAxes, radius: f64) -> f64 {
    let turn = DAffine3::from_mat3(axes.matrix());
    let frames = sequence.frame_count().min(FRAMES);
    let error = |at: usize| {
        let frame = sequence.frame(at * sequence.frame_count() / frames);
        let shift = mean(rig) - turn.transform_point3(mean(&frame));
        rest_error(rig, &frame, &Correction { axes, shift, ..Correction::NONE }, radius)
    };
    (0..frames).map(error).fold(f64::INFINITY, f64::min)
}

/// A sample of a sequence beside the motion that a rig has for it.
pub(super) struct Track<'a> {
    sequence: &'a MeshSequence,
    sphere: Sphere,
    bones: usize,
    /// [sample] vertices, ascending, their rest positions in sphere units, and their weights in the rig.
    vertices: Vec<u32>,
    rest: Vec<DVec3>,
    weights: Vec<Vec<(u16, f32)>>,
    /// [clip frames at the sequence's rate, B].
    transforms: Vec<DAffine3>,
    /// Frame of `transforms` that the sequence starts at.
    offset: i64,
}

impl<'a> Track<'a> {
    pub fn new(rig: &Rig, clip: &Clip, sequence: &'a MeshSequence, offset: i64) -> Self {
        let mut sphere = smallest_enclosing_sphere(rig.rest.iter().map(|p| p.as_dvec3()));
        if sphere.radius <= 0.0 {
            sphere.radius = 1.0;
        }
        let n = rig.vertex_count();
        let count = n.min(VERTICES);
        let vertices: Vec<u32> = (0..count).map(|at| (at * n / count) as u32).collect();
        let own_weights = |&i: &u32| rig.weights.of(i as usize).map(|(j, w)| (j as u16, w)).collect();
        Self {
            sequence,
            sphere,
            bones: rig.bone_count(),
            rest: vertices.iter().map(|&i| (rig.rest[i as usize].as_dvec3() - sphere.center) / sphere.radius).collect(),
            weights: vertices.iter().map(own_weights).collect(),
            vertices,
            transforms: at_rate(rig, clip, sequence),
            offset,
        }
    }

    fn clip_frames(&self) -> i64 {
        (self.transforms.len() / self.bones) as i64
    }

    /// (frame of the sequence, frame of the clip) of the sample, with a correction's shift in time.
    fn pairs(&self, correction: &Correction) -> Vec<(usize, usize)> {
        let start = self.offset + correction.frame_offset;
        let first = (-start).max(0);
        let last = (self.clip_frames() - start).min(self.sequence.frame_count() as i64);
        let count = (last - first).max(0);
        let wanted = count.min(FRAMES as i64);
        (0..wanted).map(|at| first + at * count / wanted).map(|t| (t as usize, (t + start) as usize)).collect()
    }

    /// Sampled vertices in frame `t` of the sequence, in sphere units.
    fn sampled(&self, correction: &DAffine3, t: usize) -> Vec<DVec3> {
        let (frames, mut points) = (self.sequence.frames(), Vec::with_capacity(self.vertices.len()));
        let point = |p: Vec3| (correction.transform_point3(p.as_dvec3()) - self.sphere.center) / self.sphere.radius;
        frames
            .pick(&[t as u32], &self.vertices, &mut |_, positions| points.extend(positions.iter().copied().map(point)));
        points
    }

    /// E_RMS of the sample with weights fitted to the rig's motion.
    pub fn error(&self, correction: &Correction) -> f64 {
        let pairs = self.pairs(correction);
        if pairs.is_empty() {
            return f64::INFINITY;
        }
        let (n, b, f) = (self.rest.len(), self.bones, pairs.len());
        let (length, place) = (3 * f, correction.rig_from_sequence());
        let mut trajectories = vec![0f32; n * length];
        for (at, &(t, _)) in pairs.iter().enumerate() {
            for (row, p) in trajectories.chunks_exact_mut(length).zip(self.sampled(&place, t)) {
                // Far apart is far apart: no need for numbers that float32 cannot hold.
                let p = p.clamp(DVec3::splat(-1e6), DVec3::splat(1e6));
                (0..3).for_each(|a| row[a * f + at] = p[a] as f32);
            }
        }
        let unit = UnitSpace::fixed(self.sphere);
        let problem = Problem::stored(length, self.rest.clone(), trajectories, unit.clone());
        let frames = pairs.iter().flat_map(|&(_, t)| self.transforms[t * b..(t + 1) * b].iter().copied());
        let motion = unit.motion(&frames.collect::<Vec<_>>(), b);
        let limit = INFLUENCES.min(b);
        let prior = Prior { weights: &self.weights, strength: PULL * length as f64 };
        let task = Task { limit, search: Search::Whole, prior, free: &vec![true; n] };
        let mut skin = Skin::empty(limit, self.rest.clone());
        let errors = solve(&[Subject::new(&problem, &motion)], &mut skin, 0..n, &task);
        problem.e_rms(errors.iter().sum())
    }

    /// Size of the rig over that of the sequence, by the rig's own weights.
    pub fn scale(&self) -> f64 {
        let (mut rig, mut own) = (0.0, 0.0);
        for (t, clip_frame) in self.pairs(&Correction::NONE) {
            own += spread(&self.sampled(&DAffine3::IDENTITY, t));
            rig += spread(&self.posed(clip_frame));
        }
        tidy_scale(if own > 0.0 { (rig / own).sqrt() } else { 1.0 })
    }

    /// Sampled vertices as the rig poses them, in sphere units.
    fn posed(&self, t: usize) -> Vec<DVec3> {
        let pose = &self.transforms[t * self.bones..(t + 1) * self.bones];
        let (center, radius) = (self.sphere.center, self.sphere.radius);
        let blend = |(u, weights): (&DVec3, &Vec<(u16, f32)>)| {
            let u = *u * radius + center;
            let sum: DVec3 = weights.iter().map(|&(j, w)| f64::from(w) * pose[j as usize].transform_point3(u)).sum();
            (sum - center) / radius
        };
        self.rest.iter().zip(&self.weights).map(blend).collect()
    }

    /// The scale that explains most beside the one guessed.
    pub fn refined(&self, correction: Correction) -> Correction {
        if RATIOS.contains(&correction.scale) {
            return correction;
        }
        let scales = [0.8, 0.9, 1.0, 1.1, 1.25].map(|f| tidy_scale(f * correction.scale));
        let tried = scales.map(|scale| Correction { scale, ..correction });
        let best = tried.iter().min_by(|a, b| self.error(a).total_cmp(&self.error(b)));
        best.copied().unwrap_or(correction)
    }

    /// The shift in time that explains most, and its error: at least half of the shorter must overlap.
    pub fn best_offset(&self, correction: &Correction) -> Option<(Correction, f64)> {
        let (own, clip) = (self.sequence.frame_count() as i64, self.clip_frames());
        let overlap = (own.min(clip) / 2).max(2);
        let (low, high) = (overlap - own, clip - overlap);
        if low > high {
            return None;
        }
        let mut stride = ((high - low) as usize / OFFSETS + 1) as i64;
        let at = |start: i64| Correction { frame_offset: start - self.offset, ..*correction };
        let judge = |start: i64| (start, self.error(&at(start)));
        let least = |a: &(i64, f64), b: &(i64, f64)| a.1.total_cmp(&b.1).then(a.0.abs().cmp(&b.0.abs()));
        let mut best = (low..=high).step_by(stride as usize).map(judge).min_by(least)?;
        while stride > 1 {
            stride = (stride / 4).max(1);
            let near = (best.0 - 4 * stride).max(low)..=(best.0 + 4 * stride).min(high);
            best = near.step_by(stride as usize).map(judge).min_by(least)?;
        }
        (best.0 != self.offset).then(|| (at(best.0), best.1))
    }
}

/// The clip at the rate of the sequence: its own frames where rates agree or frames are counted.
fn at_rate(rig: &Rig, clip: &Clip, sequence: &MeshSequence) -> Vec<DAffine3> {
    let (step, clip_step) = (typical_step(sequence.times_secs()), typical_step(&clip.times_secs));
    if clip.frame_count() == sequence.frame_count() || (step - clip_step).abs() <= 0.02 * step {
        return clip.posed_from_rest.clone();
    }
    let length = clip.times_secs.last().zip(clip.times_secs.first()).map_or(0.0, |(last, first)| last - first);
    // No more frames than the two could have in common.
    let frames = ((length / step) as usize + 1).min(4 * (clip.frame_count() + sequence.frame_count()));
    let times: Vec<f64> = (0..frames).map(|t| t as f64 * step).collect();
    resample::sample(rig, clip, &times, Timing::Seconds { offset: 0 })
}

/// Sum of squared distances from the centre.
fn spread(points: &[DVec3]) -> f64 {
    let center = points.iter().sum::<DVec3>() / points.len() as f64;
    points.iter().map(|p| p.distance_squared(center)).sum()
}

/// Groups of vertices with mostly one bone: rest pose and some frames of a sequence.
pub(super) struct Parts {
    /// Covariance of rest and frame, and their spreads, of each group in each frame.
    groups: Vec<(DMat3, f64, f64)>,
    points: usize,
    radius: f64,
}

impl Parts {
    pub fn new(rig: &Rig, sequence: &MeshSequence, radius: f64) -> Self {
        let mut members: Vec<Vec<usize>> = vec![Vec::new(); rig.bone_count()];
        for i in 0..rig.vertex_count() {
            if let Some((j, _)) = rig.weights.of(i).next().filter(|(_, w)| *w > 0.7) {
                members[j].push(i);
            }
        }
        members.retain(|members| members.len() >= 4);
        let frames = sequence.frame_count().min(FRAMES);
        let mut parts = Self { groups: Vec::new(), points: 0, radius };
        for at in 0..frames {
            let frame = sequence.frame(at * sequence.frame_count() / frames);
            for members in &members {
                parts.add(members, &rig.rest, &frame);
            }
        }
        parts
    }

    fn add(&mut self, members: &[usize], rest: &[Vec3], frame: &[Vec3]) {
        let n = members.len() as f64;
        let mean = |points: &[Vec3]| members.iter().map(|&i| points[i].as_dvec3()).sum::<DVec3>() / n;
        let (to, from) = (mean(rest), mean(frame));
        let (mut covariance, mut own, mut moved) = (DMat3::ZERO, 0.0, 0.0);
        for &i in members {
            let (u, p) = (rest[i].as_dvec3() - to, frame[i].as_dvec3() - from);
            covariance += DMat3::from_cols(u * p.x, u * p.y, u * p.z);
            own += u.length_squared();
            moved += p.length_squared();
        }
        self.groups.push((covariance, own, moved));
        self.points += members.len();
    }

    /// Size of the rig's parts over that of the sequence's.
    pub fn scale(&self) -> f64 {
        let (own, moved) = self.groups.iter().fold((0.0, 0.0), |sum, group| (sum.0 + group.1, sum.1 + group.2));
        if moved > 0.0 { (own / moved).sqrt() } else { 1.0 }
    }

    /// Y up and Z up exchanged, where all groups in all frames agree: rotated about x by about a right angle.
    pub fn tipped(&self) -> Option<SignedAxes> {
        let (mut mean, mut total) = (DMat3::ZERO, 0.0);
        for (covariance, own, _) in &self.groups {
            mean += nearest_rotation(covariance) * *own;
            total += own;
        }
        // 1 where every group is rotated exactly so, 1/3 a right angle away.
        let agreement = |axes: &SignedAxes| {
            let product = axes.matrix().transpose() * mean;
            (product.x_axis.x + product.y_axis.y + product.z_axis.z) / (3.0 * total.max(1e-300))
        };
        let upright = agreement(&SignedAxes::SAME);
        SignedAxes::TIPPED.into_iter().find(|axes| agreement(axes) > 0.75 && upright < 0.45)
    }

    /// The error after the best scale, translation and rotation of every group, optionally mirrored first.
    pub fn error(&self, scale: f64, mirrored: bool) -> f64 {
        if self.points == 0 {
            return 0.0;
        }
        let left = |&(covariance, own, moved): &(DMat3, f64, f64)| {
            let sigma = rotation_svd(&covariance).sigma;
            // The best rotation reaches the sum of the signed singular values, the best reflection the other sign.
            let last = if mirrored { -sigma.z } else { sigma.z };
            own + scale * scale * moved - 2.0 * scale * (sigma.x + sigma.y + last)
        };
        let sum: f64 = self.groups.iter().map(left).sum();
        1000.0 / self.radius * (sum.max(0.0) / (3 * self.points) as f64).sqrt()
    }
}
