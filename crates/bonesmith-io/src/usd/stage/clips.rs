//! Value clips: values of a prim and those below it that lie in other layers, one layer after the other.
//!
//! `active` says from which stage time on which layer counts, `times` which time of the layer a stage time is: linear between its pairs, and a jump where
//! two pairs have one stage time. A template names layers by their times. Clips are weaker than what the layers say that name them, and stronger than what
//! those refer to.

use crate::IoError;
use crate::usd::layer::{Layer, ValueRef};

use super::attribute::Sample;
use super::{Site, Stage};

/// Samples that are placed in time, over all clips of an attribute: they multiply, so a small file could ask for any amount of work.
const MAX_WORK: usize = 1 << 26;

/// Samples of one attribute that are kept.
const MAX_KEPT: usize = 1 << 17;

/// Layers of one set of clips that a template may name.
const MAX_TEMPLATED: f64 = 1000.0;

/// Samples of an attribute with their times.
type Samples<'a> = Vec<(f64, Sample<'a>)>;

/// Digits of a number in the name of a layer, before and behind the point.
const MAX_DIGITS: (usize, usize) = (32, 9);

/// Fields of a set of clips, and the layers that they are in; those of the strongest layer first.
type Fields = Vec<(String, usize, ValueRef)>;

/// One set of clips.
pub struct Clips {
    /// The opinion that names them: its times, and how strong they are.
    pub site: Site,
    /// The prim in the clips that stands for this one.
    prim_path: String,
    layers: Vec<usize>,
    /// What clips may have values for; all that they have, where there is none.
    manifest: Option<usize>,
    /// Stage times and the layer from then on, rising.
    active: Vec<(f64, usize)>,
    /// Stage times and those of the layers, rising. Empty: the same.
    times: Vec<(f64, f64)>,
}

impl Stage {
    /// The sets of clips of a prim, in the order of their names. The layers of a stack may each say a part of a set.
    pub(super) fn read_clips(&mut self, path: &str, sites: &[Site]) -> Result<Vec<Clips>, IoError> {
        let mut sets: Vec<(Site, String, Fields)> = Vec::new();
        for site in sites {
            let layer = &self.layers[site.layer];
            let Some(value) = layer.prim_field(site.prim, "clips") else { continue };
            for (name, set) in layer.dictionary(value, "clips")? {
                let what = described(&name, path);
                let own = layer.dictionary(set, &what)?.into_iter().map(|(key, value)| (key, site.layer, value));
                let known = sets.iter().position(|(first, known, _)| first.map == site.map && *known == name);
                let Some(at) = known else {
                    sets.push((*site, name, own.collect()));
                    continue;
                };
                let (first, _, fields) = &mut sets[at];
                if (first.offset, first.scale) != (site.offset, site.scale) {
                    return Err(self.unsupported(format!("{what} are in several layers, which differ in their times")));
                }
                fields.extend(own);
            }
        }
        sets.sort_by(|a, b| (a.0.map, &a.1).cmp(&(b.0.map, &b.1)));
        sets.into_iter().map(|(site, name, fields)| self.clip_set(path, &site, &name, &fields)).collect()
    }

    fn clip_set(&mut self, path: &str, site: &Site, name: &str, fields: &Fields) -> Result<Clips, IoError> {
        let what = described(name, path);
        let field = |key: &str| fields.iter().find(|(own, ..)| own == key).map(|&(_, layer, value)| (layer, value));
        let text = |key: &str| -> Result<Option<(usize, String)>, IoError> {
            let Some((layer, value)) = field(key) else { return Ok(None) };
            Ok(Some((layer, self.layers[layer].text(value, &what)?)))
        };
        let numbers =
            |key: &str| field(key).map_or(Ok(Vec::new()), |(layer, value)| self.layers[layer].f64s(value, &what));
        let pairs = |key: &str| -> Result<Vec<(f64, f64)>, IoError> {
            Ok(numbers(key)?.as_chunks::<2>().0.iter().map(|&[a, b]| (a, b)).collect())
        };
        let number = |key: &str| -> Result<Option<f64>, IoError> {
            Ok(numbers(key)?.first().copied().filter(|x| x.is_finite()))
        };
        let prim_path = text("primPath")?.map_or_else(|| path.to_owned(), |(_, own)| own);
        let (mut active, mut times) = (pairs("active")?, pairs("times")?);
        let (mut from, mut assets) = (site.layer, Vec::new());
        if let Some((layer, value)) = field("assetPaths") {
            (from, assets) = (layer, self.layers[layer].texts(value, &what)?);
        }
        if let Some((layer, template)) = text("templateAssetPath")?.filter(|_| assets.is_empty()) {
            from = layer;
            let wanted = (number("templateStartTime")?, number("templateEndTime")?, number("templateStride")?);
            let (Some(start), Some(end), Some(stride)) = wanted else {
                return Err(self.malformed(format!("{what}: a template without start, end and stride")));
            };
            let offset = number("templateActiveOffset")?.unwrap_or(0.0);
            let count = ((end - start) / stride + 1e-6).floor();
            if !(stride > 0.0 && (0.0..MAX_TEMPLATED).contains(&count)) {
                return Err(self.unsupported(format!("{what}: {count} layers from {start} to {end} by {stride}")));
            }
            let stage_times: Vec<f64> = (0..=count as usize).map(|k| start + k as f64 * stride).collect();
            assets = stage_times.iter().filter_map(|&time| templated(&template, time)).collect();
            if assets.len() != stage_times.len() {
                return Err(self.malformed(format!(
                    "{what}: the template {template:?} has no place for a number, or a very long one"
                )));
            }
            active = stage_times.iter().enumerate().map(|(k, time)| (time + offset, k as f64)).collect();
            times = stage_times.iter().map(|time| (*time, *time)).collect();
        }
        let manifest = text("manifestAssetPath")?.filter(|(_, asset)| !asset.is_empty());
        let mut layers = Vec::with_capacity(assets.len());
        for asset in &assets {
            layers.push(self.clip_layer(from, asset, &what)?);
        }
        let manifest = manifest.map(|(layer, asset)| self.clip_layer(layer, &asset, &what)).transpose()?;
        let finite = |&(a, b): &(f64, f64)| a.is_finite() && b.is_finite();
        if !active.iter().chain(&times).all(finite) {
            return Err(self.malformed(format!("{what}: a time is not finite")));
        }
        active.sort_by(|a, b| a.0.total_cmp(&b.0));
        // Stable: where two pairs have one stage time, the later one is from there on.
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let known = |&(time, at): &(f64, f64)| (at >= 0.0 && at < layers.len() as f64).then_some((time, at as usize));
        let active = active.iter().filter_map(known).collect();
        Ok(Clips { site: *site, prim_path, layers, manifest, active, times })
    }

    fn clip_layer(&mut self, from: usize, asset: &str, what: &str) -> Result<usize, IoError> {
        let place = self.resolve(from, asset);
        self.load(place).map_err(|e| {
            let path = self.layers[from].blob.path();
            IoError::unsupported(path, format!("{what}: the layer {asset:?} cannot be read: {e}"))
        })
    }

    /// Samples that clips of a prim or of one above it have for an attribute, in stage times; and the opinion that names the clips.
    pub(super) fn clip_samples(
        &self,
        prim: usize,
        name: &str,
        what: &str,
    ) -> Result<Option<(usize, Samples<'_>)>, IoError> {
        for above in self.ancestry(prim) {
            for clips in &self.prims[above].clips {
                let below = self.prims[prim].path.strip_prefix(self.prims[above].path.as_str()).unwrap_or_default();
                let path = format!("{}{below}", clips.prim_path);
                let samples = self.of_clips(clips, &path, name, what)?;
                if !samples.is_empty() {
                    return Ok(Some((clips.site.map, samples)));
                }
            }
        }
        Ok(None)
    }

    fn of_clips(&self, clips: &Clips, path: &str, name: &str, what: &str) -> Result<Samples<'_>, IoError> {
        if let Some(manifest) = clips.manifest {
            let layer = &self.layers[manifest];
            let known = self.find(manifest, path).is_some_and(|prim| layer.has_property(prim, name));
            if !known {
                return Ok(Vec::new());
            }
        }
        let mut out: Samples<'_> = Vec::new();
        let mut stored = vec![0; clips.layers.len()];
        for (at, &(start, which)) in clips.active.iter().enumerate() {
            let start = if at == 0 { f64::NEG_INFINITY } else { start };
            let end = clips.active.get(at + 1).map_or(f64::INFINITY, |next| next.0);
            let number = clips.layers[which];
            let layer = &self.layers[number];
            let Some(value) = self.find(number, path).and_then(|prim| layer.property_field(prim, name, "timeSamples"))
            else {
                continue;
            };
            let samples = layer.samples(value, what)?;
            if samples.is_empty() {
                continue;
            }
            stored[which] = samples.len();
            let work = clips.active.len().saturating_mul(clips.times.len() + 1).saturating_mul(samples.len());
            let few = (work <= MAX_WORK).then(|| placed(layer, &samples, &clips.times, start, end)).flatten();
            let Some(mut own) = few.filter(|own| out.len() + own.len() <= MAX_KEPT) else {
                let (active, times) = (clips.active.len(), clips.times.len());
                let count = samples.len();
                return Err(self.unsupported(format!(
                    "{what}: {active} clips of {count} samples at {times} times are too many; write the stage as one file"
                )));
            };
            // Clips do not blend into each other: each begins with its own value.
            if start.is_finite() && own.first().is_none_or(|(time, _)| *time > start) {
                own.insert(0, (start, value_at(layer, &samples, layer_time(&clips.times, start))));
            }
            out.extend(own);
        }
        self.count_made(out.len().saturating_sub(stored.iter().sum()), what)?;
        clips.site.to_stage(&mut out);
        Ok(out)
    }
}

/// How messages name a set of clips.
fn described(name: &str, path: &str) -> String {
    format!("the clips {name:?} of {path}")
}

/// The samples of a layer, and those at the pairs of `times`, in stage times from `start` to before `end`; `None` where they are more than are kept.
fn placed<'a>(
    layer: &'a Layer,
    samples: &[(f64, ValueRef)],
    times: &[(f64, f64)],
    start: f64,
    end: f64,
) -> Option<Vec<(f64, Sample<'a>)>> {
    let mut out: Vec<(f64, Sample<'a>)> = Vec::new();
    let counts = |s: f64| s >= start && s < end;
    if times.is_empty() {
        out.extend(samples.iter().map(|&(time, value)| (time, Sample::Stored(layer, value))));
    }
    for pair in times.windows(2) {
        let ((s0, c0), (s1, c1)) = (pair[0], pair[1]);
        if s1 <= s0 || c0 == c1 {
            continue;
        }
        let place = |c: f64| s0 + (c - c0) / (c1 - c0) * (s1 - s0);
        let inside = samples.iter().map(|&(c, value)| (place(c), Sample::Stored(layer, value)));
        out.extend(inside.filter(|(s, _)| *s >= s0 && *s < s1 && counts(*s)));
        if out.len() > MAX_KEPT {
            return None;
        }
    }
    out.extend(times.iter().map(|&(s, c)| (s, value_at(layer, samples, c))));
    out.retain(|(s, _)| counts(*s));
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of several at one time the last, which is the pair's own, or what it jumps to.
    out.reverse();
    out.dedup_by(|earlier, later| earlier.0 == later.0);
    out.reverse();
    Some(out)
}

/// The time of a layer at a stage time.
fn layer_time(times: &[(f64, f64)], stage: f64) -> f64 {
    let next = times.partition_point(|(s, _)| *s <= stage);
    match (next.checked_sub(1).map(|at| times[at]), times.get(next)) {
        (Some((s0, c0)), Some(&(s1, c1))) => c0 + (stage - s0) / (s1 - s0) * (c1 - c0),
        (Some((_, c)), None) | (None, Some(&(_, c))) => c,
        (None, None) => stage,
    }
}

/// The value of a layer, which has one sample at least, at one of its times.
fn value_at<'a>(layer: &'a Layer, samples: &[(f64, ValueRef)], time: f64) -> Sample<'a> {
    let next = samples.partition_point(|(t, _)| *t <= time);
    let stored = |at: usize| Sample::Stored(layer, samples[at].1);
    match (next.checked_sub(1), samples.get(next)) {
        (None, _) => stored(0),
        (Some(before), None) => stored(before),
        (Some(before), Some(_)) if samples[before].0 == time => stored(before),
        (Some(before), Some(&(t1, v1))) => {
            let (t0, v0) = samples[before];
            Sample::Between(layer, v0, v1, (time - t0) / (t1 - t0))
        }
    }
}

/// `clip.###.usd`, or with a second group for the digits behind the point.
fn templated(template: &str, time: f64) -> Option<String> {
    let first = template.find('#')?;
    let whole = template[first..].find(|c| c != '#').unwrap_or(template.len() - first);
    let (before, after) = (&template[..first], &template[first + whole..]);
    let decimals = after.strip_prefix('.').map_or(0, |rest| rest.find(|c| c != '#').unwrap_or(rest.len()));
    if whole > MAX_DIGITS.0 || decimals > MAX_DIGITS.1 {
        return None;
    }
    if decimals == 0 {
        return Some(format!("{before}{:0whole$}{after}", time.round()));
    }
    let width = whole + 1 + decimals;
    Some(format!("{before}{time:0width$.decimals$}{}", &after[1 + decimals..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_name_layers_by_their_times() {
        assert_eq!(templated("a.###.usd", 7.0).as_deref(), Some("a.007.usd"));
        assert_eq!(templated("a.##.##.usd", 7.25).as_deref(), Some("a.07.25.usd"));
        assert_eq!(templated("a.##.##.usd", -7.25).as_deref(), Some("a.-7.25.usd"));
        assert_eq!(templated("a.#.#########.usd", 0.5).as_deref(), Some("a.0.500000000.usd"));
        assert_eq!(templated("a.usd", 7.0), None);
        assert_eq!(templated(&"#".repeat(70_000), 7.0), None);
        assert_eq!(templated("a.#.##########.usd", 7.0), None);
    }

    #[test]
    fn a_jump_goes_to_the_later_pair() {
        let times = [(0.0, 0.0), (4.0, 4.0), (4.0, 0.0), (8.0, 2.0)];
        assert_eq!([-1.0, 2.0, 4.0, 6.0, 9.0].map(|s| layer_time(&times, s)), [0.0, 2.0, 0.0, 1.0, 2.0]);
    }
}
