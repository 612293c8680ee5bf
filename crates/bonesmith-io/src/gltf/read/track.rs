//! Animations: key frames and what lies between them.

use bonesmith_core::mesh::sequence::DEFAULT_FPS;
use glam::{DQuat, DVec3};
use gltf_json::animation::{Animation, Interpolation, Property};
use gltf_json::validation::Checked;

use super::document::Document;
use super::scene::{Local, unit};
use crate::IoError;
use crate::gltf::extras::{self, AnimationExtras};

/// Most frames that an animation may be sampled at.
const MAX_FRAMES: usize = 100_000;
/// Keys of different channels closer than this are one.
const SAME_TIME_SECS: f64 = 1e-5;
/// Rates that key times are likely to come from, most likely first; then any whole number is tried.
const USUAL_RATES: [f64; 9] = [24.0, 30.0, 25.0, 60.0, 50.0, 48.0, 120.0, 24000.0 / 1001.0, 30000.0 / 1001.0];

/// One property of one node over time.
#[derive(Clone)]
pub struct Track {
    /// Which node.
    pub node: usize,
    /// Which property.
    pub property: Property,
    interpolation: Interpolation,
    /// [keys] seconds, rising.
    times: Vec<f64>,
    /// [keys, parts, width]; parts is 3 for cubic splines (in-tangent, value, out-tangent), else 1.
    values: Vec<f32>,
    width: usize,
}

/// One animation.
pub struct Motion {
    /// Its name; may be empty.
    pub name: String,
    /// Whether that is the file's.
    pub is_named: bool,
    /// Its channels.
    pub tracks: Vec<Track>,
    /// Added to times gives those of the source.
    pub start_secs: f64,
    /// Frames and frames per second, where a file of our own has fewer keys than frames.
    pub frames: Option<(u32, f64)>,
}

impl Motion {
    /// Reads one animation; channels that move nothing are dropped.
    pub fn read(document: &Document, index: usize, animation: &Animation) -> Result<Self, IoError> {
        let mut tracks = Vec::new();
        for (c, channel) in animation.channels.iter().enumerate() {
            let what = match &animation.name {
                Some(name) => format!("animation {index} ({name:?}), channel {c}"),
                None => format!("animation {index}, channel {c}"),
            };
            let moved = document.root.nodes.get(channel.target.node.value()).and_then(|node| node.name.as_deref());
            let what = moved.map_or(what.clone(), |name| format!("{what} of node {name:?}"));
            let sampler = animation.samplers.get(channel.sampler.value());
            let sampler = sampler.ok_or_else(|| document.malformed(format!("{what} has no sampler")))?;
            let node = channel.target.node.value();
            if node >= document.root.nodes.len() {
                return Err(document.malformed(format!("{what} moves node {node}, which does not exist")));
            }
            let (Checked::Valid(property), Checked::Valid(interpolation)) =
                (channel.target.path, sampler.interpolation)
            else {
                return Err(document.malformed(format!("{what} has an unknown path or interpolation")));
            };
            let times = document.floats::<1>(sampler.input, &what)?;
            let values = match property {
                Property::Translation | Property::Scale => {
                    document.floats::<3>(sampler.output, &what)?.into_flattened()
                }
                Property::Rotation => document.floats::<4>(sampler.output, &what)?.into_flattened(),
                Property::MorphTargetWeights => document.floats::<1>(sampler.output, &what)?.into_flattened(),
            };
            let times: Vec<f64> = times.into_iter().map(|[t]| f64::from(t)).collect();
            let track = Track::new(node, property, interpolation, times, values);
            tracks.push(track.map_err(|why| document.malformed(format!("{what}: {why}")))?);
        }
        let moved: Option<AnimationExtras> = extras::unpack(&animation.extras);
        let start_secs = moved.as_ref().map(|m| m.start_secs).filter(|s| s.is_finite()).unwrap_or(0.0);
        let frames = moved.and_then(|m| m.frames);
        let name = animation.name.clone().unwrap_or_default();
        Ok(Self { is_named: !name.is_empty(), name, tracks, start_secs, frames })
    }

    /// Times to sample at: the union of all keys, or `fps` from the first key to the last.
    pub fn sample_times(&self, fps: Option<f64>) -> Result<Vec<f64>, String> {
        let mut keys: Vec<f64> = self.tracks.iter().flat_map(|track| track.times.iter().copied()).collect();
        keys.sort_by(f64::total_cmp);
        keys.dedup_by(|later, earlier| *later - *earlier <= SAME_TIME_SECS);
        let fps = fps.filter(|fps| fps.is_finite() && *fps > 0.0);
        if let (None, Some(own)) = (fps, self.own_frames(&keys)) {
            return Ok(own);
        }
        if let (Some(fps), Some(&first), Some(&last)) = (fps, keys.first(), keys.last()) {
            // A last frame that the end misses by rounding only is kept.
            let frames = ((last - first) * fps + 1e-3).floor() + 1.0;
            if frames > MAX_FRAMES as f64 {
                return Err(format!("{:.1} s at {fps} fps are more than {MAX_FRAMES} frames", last - first));
            }
            keys = (0..frames as usize).map(|t| first + t as f64 / fps).collect();
        }
        if keys.len() > MAX_FRAMES {
            return Err(format!("animation {:?} has {} keys, more than {MAX_FRAMES}", self.name, keys.len()));
        }
        Ok(keys)
    }

    /// The frames that the file states, if they span its keys.
    fn own_frames(&self, keys: &[f64]) -> Option<Vec<f64>> {
        let (frames, fps) = self.frames.filter(|(frames, _)| (2..=MAX_FRAMES as u32).contains(frames))?;
        let (first, last) = (*keys.first()?, *keys.last()?);
        let end = first + f64::from(frames - 1) / fps;
        let spans = fps.is_finite() && fps > 0.0 && (end - last).abs() <= SAME_TIME_SECS + 1e-6 * last.abs();
        spans.then(|| (0..frames).map(|t| first + f64::from(t) / fps).collect())
    }

    /// Replaces what this motion moves at time `secs`.
    pub fn apply(&self, secs: f64, locals: &mut [Local]) {
        for track in &self.tracks {
            if track.property == Property::MorphTargetWeights {
                continue;
            }
            let mut trs = locals[track.node].to_trs();
            let v = track.sample(secs);
            match track.property {
                Property::Translation => trs.translation = DVec3::from_slice(&v),
                Property::Scale => trs.scale = DVec3::from_slice(&v),
                _ => trs.rotation = DQuat::from_slice(&v),
            }
            locals[track.node] = Local::Trs(trs);
        }
    }

    /// Morph weights of a node at time `secs`, if this motion moves them.
    pub fn morph_weights(&self, node: usize, secs: f64) -> Option<Vec<f64>> {
        let track = self.tracks.iter().find(|t| t.node == node && t.property == Property::MorphTargetWeights);
        track.map(|track| track.sample(secs))
    }
}

impl Track {
    fn new(
        node: usize,
        property: Property,
        interpolation: Interpolation,
        times: Vec<f64>,
        values: Vec<f32>,
    ) -> Result<Self, String> {
        if times.is_empty() {
            return Err("no keys".into());
        }
        if let Some(k) = times.iter().position(|t| !t.is_finite()) {
            return Err(format!("the time of key {k} is {}", times[k]));
        }
        if let Some(k) = (1..times.len()).find(|&k| times[k] <= times[k - 1]) {
            return Err(format!("key {k} at {} s is not after the key before it", times[k]));
        }
        let parts = if interpolation == Interpolation::CubicSpline { 3 } else { 1 };
        let width = match property {
            Property::Translation | Property::Scale => 3,
            Property::Rotation => 4,
            Property::MorphTargetWeights => values.len() / (times.len() * parts),
        };
        if width == 0 || values.len() != times.len() * parts * width {
            return Err(format!("{} values for {} keys", values.len(), times.len()));
        }
        Ok(Self { node, property, interpolation, times, values, width })
    }

    fn part(&self, key: usize, part: usize) -> impl Iterator<Item = f64> + '_ {
        let parts = if self.interpolation == Interpolation::CubicSpline { 3 } else { 1 };
        let start = (key * parts + part) * self.width;
        self.values[start..start + self.width].iter().map(|v| f64::from(*v))
    }

    fn key(&self, key: usize) -> Vec<f64> {
        self.part(key, usize::from(self.interpolation == Interpolation::CubicSpline)).collect()
    }

    /// Value at time `secs`; before the first key and after the last it stands still.
    fn sample(&self, secs: f64) -> Vec<f64> {
        let after = self.times.partition_point(|t| *t <= secs);
        let mut value = if after == 0 {
            self.key(0)
        } else if after == self.times.len() {
            self.key(after - 1)
        } else {
            self.between(after - 1, secs)
        };
        if self.property == Property::Rotation {
            value = unit(DQuat::from_slice(&value)).to_array().to_vec();
        }
        value
    }

    fn between(&self, key: usize, secs: f64) -> Vec<f64> {
        let step = self.times[key + 1] - self.times[key];
        let s = (secs - self.times[key]) / step;
        let (a, b) = (self.key(key), self.key(key + 1));
        match self.interpolation {
            Interpolation::Step => a,
            Interpolation::Linear if self.property == Property::Rotation => {
                unit(DQuat::from_slice(&a)).slerp(unit(DQuat::from_slice(&b)), s).to_array().to_vec()
            }
            Interpolation::Linear => a.iter().zip(&b).map(|(a, b)| a + (b - a) * s).collect(),
            // glTF 2.0, appendix C.5: cubic Hermite spline with tangents per second.
            Interpolation::CubicSpline => {
                let (s2, s3) = (s * s, s * s * s);
                let tangents = self.part(key, 2).zip(self.part(key + 1, 0));
                let hermite = |((a, b), (out_tangent, in_tangent)): ((&f64, &f64), (f64, f64))| {
                    (2.0 * s3 - 3.0 * s2 + 1.0) * a
                        + step * (s3 - 2.0 * s2 + s) * out_tangent
                        + (3.0 * s2 - 2.0 * s3) * b
                        + step * (s3 - s2) * in_tangent
                };
                a.iter().zip(&b).zip(tangents).map(hermite).collect()
            }
        }
    }
}

/// Undoes the rounding of times to float32, where they all come from one usual rate: 0.041666668 is 1/24.
pub fn snap(times: &mut [f64]) {
    let whole = (1..=240).map(f64::from);
    for fps in USUAL_RATES.into_iter().chain(whole) {
        // Exporters that add up float32 steps are off by more than one rounding; 1e-6 s is far below any frame.
        let near = |t: f64| ((t * fps).round() / fps - t).abs() <= 1e-6 + 1.5 * f64::from(f32::EPSILON) * t.abs();
        if times.iter().all(|&t| near(t)) {
            times.iter_mut().for_each(|t| *t = (*t * fps).round() / fps);
            return;
        }
    }
}

/// Time between the end of one clip and the start of the next, when several become one sequence.
pub fn gap_secs(times: &[f64], fps: Option<f64>) -> f64 {
    let last_step = times.windows(2).last().map(|pair| pair[1] - pair[0]);
    fps.map(|fps| 1.0 / fps).or(last_step).unwrap_or(1.0 / DEFAULT_FPS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn track(interpolation: Interpolation, times: &[f64], values: &[f32]) -> Track {
        Track::new(0, Property::Translation, interpolation, times.to_vec(), values.to_vec()).unwrap()
    }

    #[test]
    fn step_linear_and_cubic() {
        let times = [1.0, 3.0];
        let step = track(Interpolation::Step, &times, &[1.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
        assert_eq!(step.sample(2.9)[0], 1.0);
        assert_eq!(step.sample(3.0)[0], 5.0);
        let linear = track(Interpolation::Linear, &times, &[1.0, 0.0, 0.0, 5.0, 0.0, 0.0]);
        assert_eq!(linear.sample(2.5)[0], 4.0);
        assert_eq!((linear.sample(0.0)[0], linear.sample(9.0)[0]), (1.0, 5.0));
        // x(t) = t^3 has tangents 3 and 27 at 1 and 3; a Hermite spline reproduces cubics.
        let mut values = [0.0f32; 18];
        (values[3], values[6], values[9], values[12]) = (1.0, 3.0, 27.0, 27.0);
        let cubic = track(Interpolation::CubicSpline, &times, &values);
        assert!((cubic.sample(2.5)[0] - 15.625).abs() < 1e-12);
    }

    #[test]
    fn rotations_take_the_short_way() {
        let quarter = DQuat::from_rotation_z(std::f64::consts::FRAC_PI_2);
        let values: Vec<f32> = [DQuat::IDENTITY, -quarter].iter().flat_map(|q| q.as_quat().to_array()).collect();
        let track = Track::new(0, Property::Rotation, Interpolation::Linear, vec![0.0, 1.0], values).unwrap();
        let middle = DQuat::from_slice(&track.sample(0.5));
        assert!(middle.dot(DQuat::from_rotation_z(std::f64::consts::FRAC_PI_4)).abs() > 1.0 - 1e-7);
    }

    #[test]
    fn float32_times_become_exact_again() {
        let exact: Vec<f64> = (0..300).map(|t| f64::from(t) / 24.0).collect();
        let mut times: Vec<f64> = exact.iter().map(|t| f64::from(*t as f32)).collect();
        snap(&mut times);
        assert_eq!(times, exact);
        let odd = [0.0, 0.1234567, 0.3];
        let mut times = odd.to_vec();
        snap(&mut times);
        assert_eq!(times, odd);
    }
}
