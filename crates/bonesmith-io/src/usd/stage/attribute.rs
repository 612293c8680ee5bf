//! Values of one attribute.

use crate::IoError;
use crate::usd::layer::{Layer, ValueRef};

/// The opinions about one attribute that count.
pub struct Attribute<'a> {
    pub(super) layer: &'a Layer,
    /// The value without time.
    pub default: Option<ValueRef>,
    /// Stage times and values, rising.
    pub samples: Vec<(f64, ValueRef)>,
    /// For messages: path and name.
    pub what: String,
}

impl Attribute<'_> {
    /// Numbers of the value without time, else of the first sample.
    pub fn f64s(&self) -> Result<Vec<f64>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.f64s(value, &self.what))
    }

    /// As [`Attribute::f64s`] in float32.
    pub fn f32s(&self) -> Result<Vec<f32>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.f32s(value, &self.what))
    }

    /// Whole numbers without time.
    pub fn ints(&self) -> Result<Vec<i64>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.ints(value, &self.what))
    }

    /// Names without time.
    pub fn texts(&self) -> Result<Vec<String>, IoError> {
        self.any().map_or(Ok(Vec::new()), |value| self.layer.texts(value, &self.what))
    }

    /// Decodes one of its values.
    pub fn decode_f32s(&self, value: ValueRef) -> Result<Vec<f32>, IoError> {
        self.layer.f32s(value, &self.what)
    }

    /// Decodes one of its values.
    pub fn decode_f64s(&self, value: ValueRef) -> Result<Vec<f64>, IoError> {
        self.layer.f64s(value, &self.what)
    }

    fn any(&self) -> Option<ValueRef> {
        self.default.or(self.samples.first().map(|(_, value)| *value))
    }

    /// Values around `time` and how far it lies from the first to the second: held before the first and after the last.
    pub fn around(&self, time: f64) -> Option<(ValueRef, ValueRef, f64)> {
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
