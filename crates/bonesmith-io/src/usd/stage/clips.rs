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

/// Layers of one set of clips that a template may name.
const MAX_TEMPLATED: f64 = 1000.0;

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
    /// The sets of clips of a prim, in the order of their names.
    pub(super) fn read_clips(&mut self, path: &str, sites: &[Site]) -> Result<Vec<Clips>, IoError> {
        let mut found = Vec::new();
        for site in sites {
            let layer = &self.layers[site.layer];
            let Some(value) = layer.prim_field(site.prim, "clips") else { continue };
            let mut sets = layer.dictionary(value, "clips")?;
            sets.sort_by(|a, b| a.0.cmp(&b.0));
            for (name, set) in sets {
                found.push(self.clip_set(path, site, &name, set)?);
            }
        }
        Ok(found)
    }

    fn clip_set(&mut self, path: &str, site: &Site, name: &str, set: ValueRef) -> Result<Clips, IoError> {
        let what = format!("the clips {name:?} of {path}");
        let layer = &self.layers[site.layer];
        let fields = layer.dictionary(set, &what)?;
        let field = |key: &str| fields.iter().find(|(own, _)| own == key).map(|(_, value)| *value);
        let text = |key: &str| field(key).map(|value| layer.text(value, &what)).transpose();
        let pairs = |key: &str| -> Result<Vec<(f64, f64)>, IoError> {
            let flat = field(key).map_or(Ok(Vec::new()), |value| layer.f64s(value, &what))?;
            Ok(flat.as_chunks::<2>().0.iter().map(|&[a, b]| (a, b)).collect())
        };
        let number = |key: &str| -> Result<Option<f64>, IoError> {
            let found = field(key).map_or(Ok(Vec::new()), |value| layer.f64s(value, &what))?;
            Ok(found.first().copied().filter(|x| x.is_finite()))
        };
        let prim_path = text("primPath")?.unwrap_or_else(|| path.to_owned());
        let (mut active, mut times) = (pairs("active")?, pairs("times")?);
        let mut assets = field("assetPaths").map_or(Ok(Vec::new()), |value| layer.texts(value, &what))?;
        if let Some(template) = text("templateAssetPath")?.filter(|_| assets.is_empty()) {
            let wanted = (number("templateStartTime")?, number("templateEndTime")?, number("templateStride")?);
            let (Some(start), Some(end), Some(stride)) = wanted else {
                return Err(self.malformed(format!("{what}: a template without start, end and stride")));
            };
            let offset = number("templateActiveOffset")?.unwrap_or(0.0);
            let count = ((end - start) / stride + 1e-6).floor();
            if !(stride > 0.0 && count >= 0.0 && count < MAX_TEMPLATED) {
                return Err(self.unsupported(format!("{what}: {count} layers from {start} to {end} by {stride}")));
            }
            let stage_times: Vec<f64> = (0..=count as usize).map(|k| start + k as f64 * stride).collect();
            assets = stage_times.iter().filter_map(|&time| templated(&template, time)).collect();
            if assets.len() != stage_times.len() {
                return Err(self.malformed(format!("{what}: the template {template:?} has no place for a number")));
            }
            active = stage_times.iter().enumerate().map(|(k, time)| (time + offset, k as f64)).collect();
            times = stage_times.iter().map(|time| (*time, *time)).collect();
        }
        let manifest = text("manifestAssetPath")?.filter(|asset| !asset.is_empty());
        let mut layers = Vec::with_capacity(assets.len());
        for asset in &assets {
            layers.push(self.clip_layer(site, asset, &what)?);
        }
        let manifest = manifest.map(|asset| self.clip_layer(site, &asset, &what)).transpose()?;
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

    fn clip_layer(&mut self, site: &Site, asset: &str, what: &str) -> Result<usize, IoError> {
        let place = self.resolve(site.layer, asset);
        self.load(place).map_err(|e| {
            let path = self.layers[site.layer].blob.path();
            IoError::unsupported(path, format!("{what}: the layer {asset:?} cannot be read: {e}"))
        })
    }

    /// Samples that clips of a prim or of one above it have for an attribute, in stage times; and the opinion that names the clips.
    pub(super) fn clip_samples(
        &self,
        prim: usize,
        name: &str,
        what: &str,
    ) -> Result<Option<(usize, Vec<(f64, Sample<'_>)>)>, IoError> {
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

    fn of_clips(&self, clips: &Clips, path: &str, name: &str, what: &str) -> Result<Vec<(f64, Sample<'_>)>, IoError> {
        if let Some(manifest) = clips.manifest {
            let layer = &self.layers[manifest];
            let known = self.find(manifest, path).is_some_and(|prim| layer.has_property(prim, name));
            if !known {
                return Ok(Vec::new());
            }
        }
        let mut out: Vec<(f64, Sample<'_>)> = Vec::new();
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
            let work = clips.active.len().saturating_mul(clips.times.len() + 1).saturating_mul(samples.len());
            if work > MAX_WORK {
                let (active, times) = (clips.active.len(), clips.times.len());
                let count = samples.len();
                return Err(self.unsupported(format!(
                    "{what}: {active} clips of {count} samples at {times} times are too many; write the stage as one file"
                )));
            }
            let mut own = placed(layer, &samples, &clips.times, start, end);
            // Clips do not blend into each other: each begins with its own value.
            if start.is_finite() && own.first().is_none_or(|(time, _)| *time > start) {
                own.insert(0, (start, value_at(layer, &samples, layer_time(&clips.times, start))));
            }
            out.extend(own);
        }
        let Site { offset, scale, .. } = clips.site;
        out.iter_mut().for_each(|(time, _)| *time = scale * *time + offset);
        Ok(out)
    }
}

/// The samples of a layer, and those at the pairs of `times`, in stage times from `start` to before `end`.
fn placed<'a>(
    layer: &'a Layer,
    samples: &[(f64, ValueRef)],
    times: &[(f64, f64)],
    start: f64,
    end: f64,
) -> Vec<(f64, Sample<'a>)> {
    let mut out: Vec<(f64, Sample<'a>)> = Vec::new();
    if samples.is_empty() {
        return out;
    }
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
        out.extend(inside.filter(|(s, _)| *s >= s0 && *s < s1));
    }
    out.extend(times.iter().map(|&(s, c)| (s, value_at(layer, samples, c))));
    out.retain(|(s, _)| *s >= start && *s < end);
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of several at one time the last, which is the pair's own, or what it jumps to.
    out.reverse();
    out.dedup_by(|earlier, later| earlier.0 == later.0);
    out.reverse();
    out
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

fn value_at<'a>(layer: &'a Layer, samples: &[(f64, ValueRef)], time: f64) -> Sample<'a> {
    let next = samples.partition_point(|(t, _)| *t <= time);
    let stored = |at: usize| Sample::Stored(layer, samples[at].1);
    match (next.checked_sub(1), samples.get(next)) {
        (None, _) => samples.first().map_or(Sample::Number(0.0), |_| stored(0)),
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
    if decimals == 0 {
        return Some(format!("{before}{:0whole$}{after}", time.round()));
    }
    let scaled = (time * 10f64.powi(decimals.min(9) as i32)).round() as i64;
    let base = 10i64.pow(decimals.min(9) as u32);
    Some(format!("{before}{:0whole$}.{:0decimals$}{}", scaled / base, scaled % base, &after[1 + decimals..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_name_layers_by_their_times() {
        assert_eq!(templated("a.###.usd", 7.0).as_deref(), Some("a.007.usd"));
        assert_eq!(templated("a.##.##.usd", 7.25).as_deref(), Some("a.07.25.usd"));
        assert_eq!(templated("a.usd", 7.0), None);
    }

    #[test]
    fn a_jump_goes_to_the_later_pair() {
        let times = [(0.0, 0.0), (4.0, 4.0), (4.0, 0.0), (8.0, 2.0)];
        assert_eq!([-1.0, 2.0, 4.0, 6.0, 9.0].map(|s| layer_time(&times, s)), [0.0, 2.0, 0.0, 1.0, 2.0]);
    }
}
