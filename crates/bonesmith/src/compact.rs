//! Small files: a bound on the additional error, kept by the file that is written.
//!
//! The writer chooses keys and steps within a bound on how far posed vertices move. Here the file is read back, posed and compared with the
//! animation like every other file; where it exceeds the bound, it is written again with a smaller one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

use bonesmith_core::deform::Poser;
use bonesmith_core::mesh::sphere::unit_radius;
use bonesmith_core::{MeshSequence, ModelRef, Observer, Stage};
use bonesmith_io::{Compact, Packing};
use glam::Vec3;
use serde::Serialize;

use crate::error::Error;
use crate::matching::renumbered;
use crate::options::Values;
use crate::saved::{Layout, Saved, influence_warning};
use crate::warning::Noted;

/// Additional error that a small file may have, as a share of the model's own, where nothing else is asked for.
pub const DEFAULT_SHARE: f64 = 0.02;
/// The same in E_RMS, for a model that is compared with itself.
pub const DEFAULT_E_RMS: f64 = 0.02;
/// Times that a file is written.
const TRIES: usize = 6;
/// More of the bound than this need not be used.
const USED: f64 = 0.8;

/// What a small file may leave out.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Allowed {
    /// A share of the model's own E_RMS.
    Share(f64),
    /// E_RMS.
    ERms(f64),
}

/// How a small file is written.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct CompactOptions {
    /// The additional error. `None`: [`DEFAULT_SHARE`] of the model's own, or [`DEFAULT_E_RMS`] where there is nothing to compare with.
    pub allowed: Option<Allowed>,
    /// Whether arrays are compressed too, and as what: some readers do not know `EXT_meshopt_compression`, fewer `KHR_meshopt_compression`.
    pub packing: Packing,
    /// Whether a compressed file names the model's vertices: it changes their order.
    pub numbered: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { allowed: None, packing: Packing::Ext, numbered: true }
    }
}

impl FromStr for Allowed {
    type Err = Error;

    /// `0.05` (E_RMS) or `5%` (of the model's own).
    fn from_str(text: &str) -> Result<Self, Error> {
        let (number, share) = text.strip_suffix('%').map_or((text, false), |number| (number, true));
        let number: f64 = number.trim().parse().map_err(|_| {
            Error::unsupported(format!(
                "{text} is no additional error, such as 0.05 (E_RMS) or 5% (of the model's own), nor plain, nor unnumbered"
            ))
        })?;
        Ok(if share { Self::Share(number / 100.0) } else { Self::ERms(number) })
    }
}

impl FromStr for CompactOptions {
    type Err = Error;

    /// An additional error, `plain`, `khr`, `unnumbered`, several of them between commas, or nothing.
    fn from_str(text: &str) -> Result<Self, Error> {
        let mut options = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part {
                "plain" => options.packing = Packing::Plain,
                "khr" => options.packing = Packing::Khr,
                "unnumbered" => options.numbered = false,
                error => options.allowed = Some(error.parse()?),
            }
        }
        options.validate()?;
        Ok(options)
    }
}

impl CompactOptions {
    /// Of the values of [`crate::options::COMPACT`]. Ranges are checked.
    pub fn from_values(values: &Values) -> Result<Self, Error> {
        let allowed = match values.text("error") {
            Some(text) => Some(text.parse()?),
            None => values.get("error")?.map(Allowed::ERms),
        };
        let packing = match (values.or("plain", false)?, values.or("khr", false)?) {
            (true, _) => Packing::Plain,
            (false, true) => Packing::Khr,
            (false, false) => Packing::Ext,
        };
        let options = Self { allowed, packing, numbered: !values.or("unnumbered", false)? };
        options.validate()?;
        Ok(options)
    }

    /// Checks the range.
    pub fn validate(&self) -> Result<(), Error> {
        let (value, most) = match self.allowed {
            None => return Ok(()),
            Some(Allowed::Share(share)) => (share, 100.0),
            Some(Allowed::ERms(e_rms)) => (e_rms, 1000.0),
        };
        match value.is_finite() && value > 0.0 && value <= most {
            true => Ok(()),
            false => Err(Error::unsupported(format!(
                "the additional error of a small file is {value}; it must be above 0 and at most {most}"
            ))),
        }
    }
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CompactPart {
    /// Bytes of the file that leaves nothing out.
    pub bytes_before: u64,
    /// Bytes.
    pub bytes: u64,
    /// E_RMS of the file that leaves nothing out; 0 where the model is compared with itself.
    pub e_rms_before: f64,
    /// E_RMS.
    pub e_rms: f64,
    /// The bound on it.
    pub bound: f64,
    /// Maximum error of the file that leaves nothing out, in the unit of E_RMS.
    pub max_before: f64,
    /// Maximum error.
    pub max: f64,
    /// Contacts of the file that leaves nothing out.
    pub contacts_before: Contacts,
    /// Contacts.
    pub contacts: Contacts,
    /// Bytes of the parts of the file that leaves nothing out.
    pub parts_before: BTreeMap<String, u64>,
    /// Bytes of its parts.
    pub parts: BTreeMap<String, u64>,
    /// Share of the additional error, squared, that each part has, as estimated.
    pub shares: BTreeMap<String, f64>,
    /// Whether arrays are compressed.
    pub compressed: bool,
    /// Seconds of all tries.
    pub seconds: f64,
}

/// Vertices that rest from one frame to the next: feet on the ground.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Contacts {
    /// Pairs of a vertex and a frame that it rests until.
    pub count: usize,
    /// How far they slide nevertheless: root mean square per coordinate, in the unit of E_RMS.
    pub slide: f64,
}

impl CompactPart {
    /// Bytes before and after and shares of the error, a line for each part.
    pub fn details(&self) -> Vec<String> {
        let names: BTreeSet<&String> = self.parts_before.keys().chain(self.parts.keys()).collect();
        let line = |name: &String| {
            let bytes = |parts: &BTreeMap<String, u64>| parts.get(name).copied().unwrap_or(0);
            let share =
                self.shares.get(name).map_or(String::new(), |share| format!(", {:.0} % of the error", 100.0 * share));
            format!("{name}: {} of {} bytes{share}", bytes(&self.parts), bytes(&self.parts_before))
        };
        names.into_iter().map(line).collect()
    }

    /// In one line.
    pub fn text(&self) -> String {
        let kilobytes = |bytes: u64| bytes as f64 / 1e3;
        format!(
            "small file: {:.1} kB instead of {:.1} kB, E_RMS {:.4} instead of {:.4} (bound {:.4}), maximum {:.2} instead of {:.2}{}",
            kilobytes(self.bytes),
            kilobytes(self.bytes_before),
            self.e_rms,
            self.e_rms_before,
            self.bound,
            self.max,
            self.max_before,
            match self.contacts.count {
                0 => String::new(),
                _ =>
                    format!(", contacts slide {:.4} instead of {:.4}", self.contacts.slide, self.contacts_before.slide),
            }
        )
    }
}

/// What a file is compared with: some clips of the model, one after the other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Against<'a> {
    /// Positions.
    pub sequence: &'a MeshSequence,
    /// The clips that it shows.
    pub clips: Range<usize>,
}

impl<'a> Against<'a> {
    /// The sequence shows these clips.
    pub fn new(sequence: &'a MeshSequence, clips: Range<usize>) -> Self {
        Self { sequence, clips }
    }
}

/// Frames of a model, compared with those of an animation or of another model.
enum Judge<'a> {
    Animation(Against<'a>),
    Model(ModelRef<'a>),
}

impl Judge<'_> {
    /// Radius of E_RMS's unit.
    fn radius(&self) -> f64 {
        let rest = match self {
            Self::Animation(against) => against.sequence.rest(),
            Self::Model(model) => model.rest(),
        };
        unit_radius(rest)
    }

    /// Figures of a model.
    fn measure(&self, read: ModelRef<'_>) -> Result<Figures, Error> {
        let lengths: Vec<usize> = read.clips().iter().map(|clip| clip.frame_count()).collect();
        let clips = match self {
            Self::Animation(against) => against.clips.clone(),
            Self::Model(model) => 0..model.clips().len(),
        };
        let frames = |clip: usize| (0..lengths.get(clip).copied().unwrap_or(0)).map(move |t| (clip, t));
        let places: Vec<(usize, usize)> = clips.flat_map(frames).collect();
        let expected = match self {
            Self::Animation(against) => against.sequence.frame_count(),
            Self::Model(model) => model.clips().iter().map(|clip| clip.frame_count()).sum(),
        };
        if places.len() != expected || read.vertex_count() != self.vertices() {
            let what = format!("{} frames of {} vertices", places.len(), read.vertex_count());
            return Err(Error::ReadBack(Box::new(Error::Unsupported(what))));
        }
        let unit = 1000.0 / self.radius();
        let mut sums = Sums { rests: RESTS / unit, ..Sums::default() };
        if places.is_empty() {
            sums.add(read.rest(), self.rest());
        }
        let (mut poser, mut own) = (Poser::new(read), self.model().map(Poser::new));
        let mut last: Option<(usize, Vec<Vec3>, Vec<Vec3>)> = None;
        for (at, &(clip, t)) in places.iter().enumerate() {
            let posed = poser.posed(clip, t);
            let truth = match (&mut own, self) {
                (Some(own), _) => own.posed(clip, t),
                (None, Self::Animation(against)) => against.sequence.frame(at).to_vec(),
                (None, Self::Model(_)) => posed.clone(),
            };
            sums.add(&posed, &truth);
            if let Some((_, before, still)) = last.filter(|(of, ..)| *of == clip) {
                sums.add_contacts([&before, &posed], [&still, &truth]);
            }
            last = Some((clip, posed, truth));
        }
        Ok(sums.figures(unit))
    }

    fn model(&self) -> Option<ModelRef<'_>> {
        if let Self::Model(model) = self { Some(*model) } else { None }
    }

    fn rest(&self) -> &[Vec3] {
        match self {
            Self::Animation(against) => against.sequence.rest(),
            Self::Model(model) => model.rest(),
        }
    }

    fn vertices(&self) -> usize {
        self.rest().len()
    }
}

/// Movement of the original from one frame to the next, in the unit of E_RMS, below which a vertex rests.
const RESTS: f64 = 0.1;

#[derive(Clone, Copy, Debug, Default)]
struct Figures {
    e_rms: f64,
    max: f64,
    contacts: Contacts,
}

#[derive(Default)]
struct Sums {
    square: f64,
    count: usize,
    largest: f64,
    rests: f64,
    slides: f64,
    contacts: usize,
}

impl Sums {
    fn add(&mut self, posed: &[Vec3], truth: &[Vec3]) {
        for (a, b) in posed.iter().zip(truth) {
            let square = (a.as_dvec3() - b.as_dvec3()).length_squared();
            self.square += square;
            self.largest = self.largest.max(square);
        }
        self.count += posed.len();
    }

    /// Two frames of the file and of the original.
    fn add_contacts(&mut self, [before, after]: [&[Vec3]; 2], [still, truth]: [&[Vec3]; 2]) {
        for i in 0..before.len() {
            let moved = truth[i].as_dvec3() - still[i].as_dvec3();
            if moved.length() < self.rests {
                self.contacts += 1;
                self.slides += (after[i].as_dvec3() - before[i].as_dvec3() - moved).length_squared();
            }
        }
    }

    fn figures(&self, unit: f64) -> Figures {
        let rms = |square: f64, count: usize| unit * (square / (3 * count.max(1)) as f64).sqrt();
        Figures {
            e_rms: rms(self.square, self.count),
            max: unit * self.largest.sqrt(),
            contacts: Contacts { count: self.contacts, slide: rms(self.slides, self.contacts) },
        }
    }
}

impl Saved {
    /// Writes a small file and reads it back. Its error is measured against an animation, or against the model itself. Where no small
    /// file keeps the bound, the file leaves nothing out.
    pub fn write_compact<'a>(
        model: impl Into<ModelRef<'a>>,
        path: impl AsRef<Path>,
        options: &CompactOptions,
        against: Option<Against<'a>>,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        options.validate()?;
        let (model, path) = (model.into(), path.as_ref());
        bonesmith_io::check_compact(model, path)?;
        let whole = Self::write(model, path, Layout::Skin, observer)?;
        let started = Instant::now();
        let judge = against.map_or(Judge::Model(model), Judge::Animation);
        let plain = judge.measure(whole.model.view())?;
        let before = plain.e_rms;
        let additional = match options.allowed {
            Some(Allowed::ERms(e_rms)) => e_rms,
            Some(Allowed::Share(share)) => share * before,
            None if matches!(judge, Judge::Model(_)) => DEFAULT_E_RMS,
            None => DEFAULT_SHARE * before,
        };
        let bound = before + additional;
        // What is left out is as good as independent of the error that is there: squares add up.
        let mut rms = (bound * bound - before * before).sqrt();
        // From frame to frame it is another.
        let slides = (plain.contacts.slide.powi(2) + 2.0 * rms * rms).sqrt();
        let parts_before = bonesmith_io::bytes_by_part(path);
        let mut best: Option<(Compact, Small, Figures)> = None;
        let mut last = None;
        for _ in 0..TRIES {
            Error::unless_cancelled(observer, Stage::Writing)?;
            let compact =
                Compact { rms: rms / 1000.0 * judge.radius(), packing: options.packing, numbered: options.numbered };
            let written = Self::small(model, path, &compact)?;
            last = Some(compact);
            let found = judge.measure(written.saved.model.view())?;
            if found.e_rms <= bound && found.contacts.slide <= slides {
                let bytes = written.saved.file_bytes;
                let smaller = best.as_ref().is_none_or(|(_, best, _)| bytes < best.saved.file_bytes);
                let used = found.e_rms - before >= USED * additional;
                if smaller {
                    best = Some((compact, written, found));
                }
                if !smaller || used {
                    break;
                }
            }
            let used = (found.e_rms.powi(2) - before * before).max(0.0) / (bound * bound - before * before);
            let slid = (found.contacts.slide / slides.max(f64::MIN_POSITIVE)).powi(2);
            rms *= (0.95 / used.max(slid).sqrt().max(0.3)).clamp(0.3, 2.0);
        }
        let best = best.filter(|(_, small, _)| small.saved.file_bytes < whole.file_bytes);
        let (small, found) = match best {
            Some((compact, small, found)) if Some(compact) == last => (small, found),
            // Another one was written after it.
            Some((compact, _, found)) => (Self::small(model, path, &compact)?, found),
            None => {
                (Small { saved: Self::write(model, path, Layout::Skin, observer)?, shares: BTreeMap::new() }, plain)
            }
        };
        let mut saved = small.saved;
        saved.compact = Some(CompactPart {
            bytes_before: whole.file_bytes,
            bytes: saved.file_bytes,
            e_rms_before: before,
            e_rms: found.e_rms,
            bound,
            max_before: plain.max,
            max: found.max,
            contacts_before: plain.contacts,
            contacts: found.contacts,
            parts_before,
            parts: bonesmith_io::bytes_by_part(path),
            shares: small.shares,
            compressed: bonesmith_io::is_compressed(path) && saved.file_bytes < whole.file_bytes,
            seconds: started.elapsed().as_secs_f64(),
        });
        Ok(saved)
    }

    fn small(model: ModelRef<'_>, path: &Path, compact: &Compact) -> Result<Small, Error> {
        let started = Instant::now();
        let Noted { value: written, mut warnings } =
            Noted::collect(|| bonesmith_io::save_compact(model, path, compact))?;
        warnings.extend(model.rig().and_then(|rig| influence_warning(rig, path)));
        warnings.dedup();
        let mut saved = Self::read(model, path, warnings, started.elapsed().as_secs_f64())?;
        if let Some(order) = written.order.filter(|order| order.len() == saved.model.view().vertex_count()) {
            saved.model = renumbered(saved.model, &order);
        }
        let shares = written.shares.into_iter().map(|(name, share)| (name.to_owned(), share)).collect();
        Ok(Small { saved, shares })
    }
}

/// A small file that was written.
struct Small {
    saved: Saved,
    shares: BTreeMap<String, f64>,
}
