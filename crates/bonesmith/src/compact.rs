//! Small files: a bound on the additional error, kept by the file that is written.
//!
//! The writer chooses keys and steps within a bound on how far posed vertices move. Here the file is read back, posed and compared with the
//! animation like every other file; where it exceeds the bound, it is written again with a smaller one.

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use bonesmith_core::deform::Poser;
use bonesmith_core::mesh::sphere::unit_radius;
use bonesmith_core::{MeshSequence, ModelRef, Observer, Stage};
use bonesmith_io::Compact;
use glam::Vec3;
use serde::Serialize;

use crate::error::Error;
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

/// What a small file may forget.
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
    /// Whether arrays are compressed too (`EXT_meshopt_compression`), which some readers do not know.
    pub compressed: bool,
}

impl Default for CompactOptions {
    fn default() -> Self {
        Self { allowed: None, compressed: true }
    }
}

impl CompactOptions {
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
    /// Bytes of the file that forgets nothing.
    pub bytes_before: u64,
    /// Bytes.
    pub bytes: u64,
    /// E_RMS of the file that forgets nothing; 0 where the model is compared with itself.
    pub e_rms_before: f64,
    /// E_RMS.
    pub e_rms: f64,
    /// The bound on it.
    pub bound: f64,
    /// Whether arrays are compressed.
    pub compressed: bool,
    /// Seconds of all tries.
    pub seconds: f64,
}

impl CompactPart {
    /// In one line.
    pub fn text(&self) -> String {
        let kilobytes = |bytes: u64| bytes as f64 / 1e3;
        format!(
            "small file: {:.1} kB instead of {:.1} kB, E_RMS {:.4} instead of {:.4} (bound {:.4})",
            kilobytes(self.bytes),
            kilobytes(self.bytes_before),
            self.e_rms,
            self.e_rms_before,
            self.bound
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

    /// E_RMS of a model.
    fn e_rms(&self, read: ModelRef<'_>) -> Result<f64, Error> {
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
        if places.is_empty() {
            let square = squares(read.rest(), self.rest());
            return Ok(self.scaled(square, read.vertex_count()));
        }
        let (mut sum, mut poser, mut own) = (0.0, Poser::new(read), self.model().map(Poser::new));
        for (at, &(clip, t)) in places.iter().enumerate() {
            let posed = poser.posed(clip, t);
            sum += match (&mut own, self) {
                (Some(own), _) => squares(&posed, &own.posed(clip, t)),
                (None, Self::Animation(against)) => squares(&posed, &against.sequence.frame(at)),
                (None, Self::Model(_)) => 0.0,
            };
        }
        Ok(self.scaled(sum, places.len() * read.vertex_count()))
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

    fn scaled(&self, square: f64, count: usize) -> f64 {
        1000.0 * (square / (3 * count.max(1)) as f64).sqrt() / self.radius()
    }
}

fn squares(a: &[Vec3], b: &[Vec3]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a.as_dvec3() - b.as_dvec3()).length_squared()).sum()
}

impl Saved {
    /// Writes a small file and reads it back. Its error is measured against an animation, or against the model itself. Where no small
    /// file keeps the bound, the file forgets nothing.
    pub fn write_compact<'a>(
        model: impl Into<ModelRef<'a>>,
        path: impl AsRef<Path>,
        options: &CompactOptions,
        against: Option<Against<'a>>,
        observer: &mut dyn Observer,
    ) -> Result<Self, Error> {
        options.validate()?;
        let (model, path) = (model.into(), path.as_ref());
        let whole = Self::write(model, path, Layout::Skin, observer)?;
        let started = Instant::now();
        let judge = against.map_or(Judge::Model(model), Judge::Animation);
        let before = judge.e_rms(whole.model.view())?;
        let additional = match options.allowed {
            Some(Allowed::ERms(e_rms)) => e_rms,
            Some(Allowed::Share(share)) => share * before,
            None if matches!(judge, Judge::Model(_)) => DEFAULT_E_RMS,
            None => DEFAULT_SHARE * before,
        };
        let bound = before + additional;
        let mut best: Option<(Compact, Saved, f64)> = None;
        let mut last = None;
        // What is forgotten is as good as independent of the error that is there: squares add up.
        let mut rms = (bound * bound - before * before).sqrt();
        for _ in 0..TRIES {
            Error::unless_cancelled(observer, Stage::Writing)?;
            let compact = Compact { rms: rms / 1000.0 * judge.radius(), compressed: options.compressed };
            let written = Self::small(model, path, &compact)?;
            last = Some(compact);
            let reached = judge.e_rms(written.model.view())?;
            if reached <= bound {
                let smaller = best.as_ref().is_none_or(|(_, best, _)| written.file_bytes < best.file_bytes);
                if smaller {
                    best = Some((compact, written, reached));
                }
                if !smaller || reached - before >= USED * additional {
                    break;
                }
            }
            let used = (reached * reached - before * before).max(0.0) / (bound * bound - before * before);
            rms *= (0.95 / used.sqrt().max(0.3)).clamp(0.3, 2.0);
        }
        let best = best.filter(|(_, small, _)| small.file_bytes < whole.file_bytes);
        let (mut saved, e_rms) = match best {
            Some((compact, small, e_rms)) if Some(compact) == last => (small, e_rms),
            // Another one was written after it.
            Some((compact, _, e_rms)) => (Self::small(model, path, &compact)?, e_rms),
            None => (Self::write(model, path, Layout::Skin, observer)?, before),
        };
        saved.compact = Some(CompactPart {
            bytes_before: whole.file_bytes,
            bytes: saved.file_bytes,
            e_rms_before: before,
            e_rms,
            bound,
            compressed: options.compressed && saved.file_bytes < whole.file_bytes,
            seconds: started.elapsed().as_secs_f64(),
        });
        Ok(saved)
    }

    fn small(model: ModelRef<'_>, path: &Path, compact: &Compact) -> Result<Self, Error> {
        let started = Instant::now();
        let mut done = Noted::collect(|| bonesmith_io::save_compact(model, path, compact))?;
        done.warnings.extend(model.rig().and_then(|rig| influence_warning(rig, path)));
        done.warnings.dedup();
        Self::read(model, path, done.warnings, started.elapsed().as_secs_f64())
    }
}
