//! Values of one attribute.

use crate::IoError;
use crate::usd::layer::{Layer, ValueRef};

/// A value at one time.
#[derive(Clone, Copy)]
pub enum Sample<'a> {
    /// As a layer has it.
    Stored(&'a Layer, ValueRef),
    /// Between two values of a layer, and how far from the first to the second.
    Between(&'a Layer, ValueRef, ValueRef, f64),
    /// Computed.
    Number(f64),
}

/// Numbers of a value, or of the two that it lies between and how far it is from the first to the second.
pub type Ends = (Vec<f64>, Option<(Vec<f64>, f64)>);

/// The opinions about one attribute that count.
pub struct Attribute<'a> {
    /// The value without time.
    pub default: Option<Sample<'a>>,
    /// Stage times and values, rising.
    pub samples: Vec<(f64, Sample<'a>)>,
    /// For messages: path and name.
    pub what: String,
}

impl<'a> Attribute<'a> {
    /// Numbers of the value without time, else of the first sample.
    pub fn f64s(&self) -> Result<Vec<f64>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.decode_f64s(value))
    }

    /// As [`Attribute::f64s`] in float32.
    pub fn f32s(&self) -> Result<Vec<f32>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.decode_f32s(value))
    }

    /// Whole numbers without time.
    pub fn ints(&self) -> Result<Vec<i64>, IoError> {
        match self.any() {
            Some(Sample::Stored(layer, value) | Sample::Between(layer, value, ..)) => layer.ints(value, &self.what),
            Some(Sample::Number(x)) => Ok(vec![x as i64]),
            None => Ok(Vec::new()),
        }
    }

    /// Names without time.
    pub fn texts(&self) -> Result<Vec<String>, IoError> {
        match self.any() {
            Some(Sample::Stored(layer, value) | Sample::Between(layer, value, ..)) => layer.texts(value, &self.what),
            Some(Sample::Number(_)) | None => Ok(Vec::new()),
        }
    }

    /// Decodes one of its values.
    pub fn decode_f32s(&self, value: Sample<'a>) -> Result<Vec<f32>, IoError> {
        match value {
            Sample::Stored(layer, value) => layer.f32s(value, &self.what),
            Sample::Between(layer, a, b, share) => {
                let (a, b) = (layer.f32s(a, &self.what)?, layer.f32s(b, &self.what)?);
                Ok(blended(a, b, |a, b| a + share as f32 * (b - a)))
            }
            Sample::Number(x) => Ok(vec![x as f32]),
        }
    }

    /// Decodes one of its values.
    pub fn decode_f64s(&self, value: Sample<'a>) -> Result<Vec<f64>, IoError> {
        Ok(match self.ends(value)? {
            (a, None) => a,
            (a, Some((b, share))) => blended(a, b, |a, b| a + share * (b - a)),
        })
    }

    /// Numbers of one of its values; of one between two those of the first, and those of the second with how far it is.
    pub fn ends(&self, value: Sample<'a>) -> Result<Ends, IoError> {
        Ok(match value {
            Sample::Stored(layer, value) => (layer.f64s(value, &self.what)?, None),
            Sample::Between(layer, a, b, share) => {
                (layer.f64s(a, &self.what)?, Some((layer.f64s(b, &self.what)?, share)))
            }
            Sample::Number(x) => (vec![x], None),
        })
    }

    /// The value without time, else the first sample.
    pub fn any(&self) -> Option<Sample<'a>> {
        self.default.or(self.samples.first().map(|(_, value)| *value))
    }

    /// Values around `time` and how far it lies from the first to the second: held before the first and after the last.
    pub fn around(&self, time: f64) -> Option<(Sample<'a>, Sample<'a>, f64)> {
        let next = self.samples.partition_point(|(t, _)| *t <= time);
        let (Some(last), Some(&(_, first))) = (self.samples.len().checked_sub(1), self.samples.first()) else {
            return self.default.map(|value| (value, value, 0.0));
        };
        if next == 0 {
            return Some((first, first, 0.0));
        }
        let (t0, v0) = self.samples[next - 1];
        if next > last {
            return Some((v0, v0, 0.0));
        }
        let (t1, v1) = self.samples[next];
        Some((v0, v1, (time - t0) / (t1 - t0)))
    }
}

/// Arrays of other lengths cannot be blended: the first is held.
fn blended<T: Copy>(mut a: Vec<T>, b: Vec<T>, blend: impl Fn(T, T) -> T) -> Vec<T> {
    if a.len() == b.len() {
        a.iter_mut().zip(b).for_each(|(a, b)| *a = blend(*a, b));
    }
    a
}
