//! Clips as animations: one channel per node and property that moves.

use bonesmith_core::Clip;
use bonesmith_core::transform::Trs;
use gltf_json::accessor::{ComponentType, Type};
use gltf_json::animation::{Animation, Channel, Interpolation, Property, Sampler, Target};
use gltf_json::validation::Checked;
use gltf_json::{Accessor, Index, Node};

use super::buffer::{Builder, Elements, Purpose, bounds};
use super::compact::Coding;
use super::material::name;
use crate::compact::rate;
use crate::gltf::extras::{self, AnimationExtras};
use crate::joints::NodeMotion;

/// Key times as glTF wants them: float32, not negative, rising strictly.
pub struct KeyTimes {
    secs: Vec<[f32; 1]>,
    /// Added to `secs` gives the clip's own times.
    start_secs: f64,
}

impl KeyTimes {
    /// Moves the clip to time 0 only where it must; `None` when keys coincide in float32 even so.
    pub fn new(times_secs: &[f64]) -> Option<Self> {
        let from = |start_secs: f64| {
            let secs: Vec<[f32; 1]> = times_secs.iter().map(|t| [(t - start_secs) as f32]).collect();
            let rising = secs.windows(2).all(|pair| pair[0][0] < pair[1][0]);
            (rising && secs.first().is_none_or(|t| t[0] >= 0.0)).then_some(Self { secs, start_secs })
        };
        from(0.0).or_else(|| from(times_secs.first().copied().unwrap_or(0.0)))
    }
}

/// One animation under construction.
pub struct AnimationBuilder {
    animation: Animation,
    /// [F] times of all frames.
    secs: Vec<[f32; 1]>,
    /// Accessors of the times of some frames, written once.
    times: Vec<(Vec<usize>, Index<Accessor>)>,
    start_secs: f64,
}

impl AnimationBuilder {
    /// The animation of a clip, no channels yet; an error names the clip.
    pub fn of_clip(builder: &mut Builder, clip: &Clip) -> Result<Self, String> {
        let times = KeyTimes::new(&clip.times_secs)
            .ok_or_else(|| format!("clip {:?}: its times do not rise in float32", clip.name))?;
        let mut new = Self::new(&clip.name, times);
        // Curves with fewer keys do not show the frames.
        if let Some(fps) = rate(&clip.times_secs).filter(|_| builder.compact.is_some()) {
            let start_secs = new.start_secs;
            let frames = Some((clip.frame_count() as u32, fps));
            new.animation.extras = extras::pack(AnimationExtras { start_secs, frames });
        }
        Ok(new)
    }

    /// No channels yet.
    pub fn new(clip_name: &str, times: KeyTimes) -> Self {
        let start_secs = times.start_secs;
        let moved = start_secs != 0.0;
        let animation = Animation {
            extensions: None,
            extras: if moved { extras::pack(AnimationExtras { start_secs, frames: None }) } else { None },
            channels: Vec::new(),
            name: name(clip_name),
            samplers: Vec::new(),
        };
        Self { animation, secs: times.secs, times: Vec::new(), start_secs }
    }

    /// The times of some frames.
    fn times(&mut self, builder: &mut Builder, frames: &[usize]) -> Index<Accessor> {
        self.share_times(builder, std::iter::once(frames));
        let known = self.times.iter().find(|(known, _)| known == frames);
        known.expect("times are written before they are used").1
    }

    /// Writes the times of several sets of frames into one view.
    pub fn share_times<'a>(&mut self, builder: &mut Builder, sets: impl Iterator<Item = &'a [usize]>) {
        let mut wanted: Vec<&[usize]> = Vec::new();
        for frames in sets {
            if !wanted.contains(&frames) && !self.times.iter().any(|(known, _)| known == frames) {
                wanted.push(frames);
            }
        }
        if wanted.is_empty() {
            return;
        }
        let of = |frames: &[usize]| frames.iter().map(|&t| self.secs[t]).collect::<Vec<[f32; 1]>>();
        let bytes: Vec<u8> = wanted.iter().flat_map(|frames| of(frames)).flat_map(|[t]| t.to_le_bytes()).collect();
        let view = builder.coded_view(&bytes, None, None, Coding::elements(4));
        let mut start = 0;
        for frames in wanted {
            let own = of(frames);
            let bytes = vec![0; 4 * own.len()];
            let elements =
                Elements { bytes, size: 4, component: ComponentType::F32, kind: Type::Scalar, normalized: false };
            let accessor = builder.accessor(view, start, &elements, Some(bounds(&own)));
            self.times.push((frames.to_vec(), accessor));
            start += 4 * own.len();
        }
    }

    /// Adds a channel whose values are written already.
    pub fn keyed(
        &mut self,
        builder: &mut Builder,
        node: Index<Node>,
        path: Property,
        frames: &[usize],
        output: Index<Accessor>,
    ) {
        let input = self.times(builder, frames);
        let sampler = Index::new(self.animation.samplers.len() as u32);
        self.animation.samplers.push(Sampler {
            extensions: None,
            extras: None,
            input,
            interpolation: Checked::Valid(Interpolation::Linear),
            output,
        });
        let target = Target { extensions: None, extras: None, node, path: Checked::Valid(path) };
        self.animation.channels.push(Channel { sampler, target, extensions: None, extras: None });
    }

    /// Adds one channel; `values` has D-component elements for every key, `per_key` of them each.
    pub fn channel<const D: usize>(
        &mut self,
        builder: &mut Builder,
        node: Index<Node>,
        path: Property,
        values: &[[f32; D]],
        still: bool,
    ) {
        let per_key = values.len() / self.secs.len().max(1);
        let values = if still { &values[..per_key] } else { values };
        let output = builder.floats(values, Purpose::Plain);
        let frames: Vec<usize> = (0..if still { 1 } else { self.secs.len() }).collect();
        self.keyed(builder, node, path, &frames, output);
    }

    /// Adds the channels of one node in clip `clip`. A property that never leaves the node's own value in any clip
    /// gets none, one that stands still gets a single key. `all_keys` forces every key of the translation.
    pub fn node(&mut self, builder: &mut Builder, node: Index<Node>, motion: &NodeMotion, clip: usize, all_keys: bool) {
        let translation = |trs: &Trs| trs.translation.as_vec3().to_array();
        let rotation = |trs: &Trs| trs.rotation.as_quat().to_array();
        let scale = |trs: &Trs| trs.scale.as_vec3().to_array();
        self.property(builder, node, Property::Translation, motion, clip, translation, all_keys);
        self.property(builder, node, Property::Rotation, motion, clip, rotation, false);
        self.property(builder, node, Property::Scale, motion, clip, scale, false);
    }

    #[allow(clippy::too_many_arguments)] // private, and each one is plain
    fn property<const D: usize>(
        &mut self,
        builder: &mut Builder,
        node: Index<Node>,
        path: Property,
        motion: &NodeMotion,
        clip: usize,
        get: impl Fn(&Trs) -> [f32; D],
        all_keys: bool,
    ) {
        let rest = get(&motion.rest);
        if !all_keys && motion.clips.iter().flatten().all(|trs| get(trs) == rest) {
            return;
        }
        let values: Vec<[f32; D]> = motion.clips[clip].iter().map(&get).collect();
        let still = !all_keys && values.iter().all(|value| *value == values[0]);
        self.channel(builder, node, path, &values, still);
    }

    /// Whether no channel has more than one key, of a clip with more than one frame; or there is no channel, which is no animation of a glTF.
    pub fn is_still(&self) -> bool {
        let single = self.times.iter().all(|(frames, _)| frames.len() < 2);
        single && (self.secs.len() > 1 || self.animation.channels.is_empty())
    }

    /// Done.
    pub fn finish(self, builder: &mut Builder) {
        builder.root.push(self.animation);
    }
}
