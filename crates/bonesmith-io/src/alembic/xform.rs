//! Transforms in the hierarchy: stacks of operations, each channel possibly animated.

use bonesmith_core::transform::Trs;
use glam::{DAffine3, DMat4, DVec3};

use super::archive::{Archive, Object, Property};
use crate::IoError;

/// Seconds within which two samples are at the same time.
const SAME_TIME: f64 = 1e-7;
/// Most operations of one transform: Alembic's own limit of an extent.
const MAX_CHANNELS: usize = 4096;

/// One transform over time.
pub struct Xform {
    /// Whether the parents' transforms apply.
    pub inherits: bool,
    operations: Vec<Operation>,
    /// [samples] seconds; one sample holds for all time.
    times_secs: Vec<f64>,
    /// [samples] local transforms.
    locals: Vec<DAffine3>,
    /// Samples that are in the file.
    pub stored_samples: usize,
}

/// What an operation does; the codes are those of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Scale,
    Translate,
    /// About an axis, in degrees.
    Rotate,
    Matrix,
    RotateAxis(usize),
}

impl Operation {
    /// The lower half of a code is a hint for user interfaces.
    fn from_code(code: u8) -> Option<Self> {
        Some(match code >> 4 {
            0 => Self::Scale,
            1 => Self::Translate,
            2 => Self::Rotate,
            3 => Self::Matrix,
            axis @ 4..=6 => Self::RotateAxis(usize::from(axis - 4)),
            _ => return None,
        })
    }

    fn channels(self) -> usize {
        match self {
            Self::Scale | Self::Translate => 3,
            Self::Rotate => 4,
            Self::Matrix => 16,
            Self::RotateAxis(_) => 1,
        }
    }

    fn matrix(self, v: &[f64]) -> DAffine3 {
        match self {
            Self::Scale => DAffine3::from_scale(DVec3::new(v[0], v[1], v[2])),
            Self::Translate => DAffine3::from_translation(DVec3::new(v[0], v[1], v[2])),
            Self::Rotate => {
                let axis = DVec3::new(v[0], v[1], v[2]).try_normalize().unwrap_or(DVec3::Y);
                DAffine3::from_axis_angle(axis, v[3].to_radians())
            }
            // Row vectors, row by row: column vectors, column by column.
            Self::Matrix => {
                let mut columns = [0.0; 16];
                columns.copy_from_slice(&v[..16]);
                DAffine3::from_mat4(DMat4::from_cols_array(&columns))
            }
            Self::RotateAxis(axis) => DAffine3::from_axis_angle(DVec3::AXES[axis], v[0].to_radians()),
        }
    }
}

impl Xform {
    /// Reads the transform of an object; `None` where it has none.
    pub fn read(archive: &Archive, object: &Object) -> Result<Option<Self>, IoError> {
        let properties = archive.properties(object)?;
        let Some(compound) = archive.property(&properties, ".xform")? else { return Ok(None) };
        let inside = archive.inside(&compound)?;
        let inherits = match archive.property(&inside, ".inherits")?.filter(|p| p.samples > 0) {
            Some(property) => archive.bytes(&property, 0)?.first().is_none_or(|byte| *byte != 0),
            None => true,
        };
        let mut xform = Self {
            inherits,
            operations: Vec::new(),
            times_secs: vec![0.0],
            locals: vec![DAffine3::IDENTITY],
            stored_samples: 1,
        };
        let ops = archive.property(&inside, ".ops")?.filter(|p| p.samples > 0);
        let values = archive.property(&inside, ".vals")?.filter(|p| p.samples > 0);
        let (Some(ops), Some(values)) = (ops, values) else { return Ok(Some(xform)) };
        let codes = archive.bytes(&ops, 0)?;
        let operations: Option<Vec<Operation>> = codes.iter().map(|code| Operation::from_code(*code)).collect();
        xform.operations = operations
            .filter(|all| all.iter().map(|op| op.channels()).sum::<usize>() <= MAX_CHANNELS)
            .ok_or_else(|| archive.wrong(&ops, "an operation that Alembic does not have"))?;
        xform.sample(archive, &values)?;
        Ok(Some(xform))
    }

    fn sample(&mut self, archive: &Archive, values: &Property) -> Result<(), IoError> {
        let channels: usize = self.operations.iter().map(|op| op.channels()).sum();
        let samples = match values.is_constant() {
            true => 1,
            false => values.samples.min(values.stored_samples().saturating_mul(4)),
        };
        if samples == 0 {
            return Err(archive.wrong(values, format!("{} samples, and none of them is stored", values.samples)));
        }
        self.times_secs = archive.times(values, samples)?;
        self.stored_samples = if samples > 1 { values.stored_samples() } else { 1 };
        self.locals.clear();
        for t in 0..samples {
            if t > 0 && values.is_same(t - 1, t) {
                self.locals.extend(self.locals.last().copied());
                continue;
            }
            let numbers = archive.floats(values, t)?;
            if numbers.len() < channels {
                let what = format!("sample {t} has {} numbers, its operations take {channels}", numbers.len());
                return Err(archive.wrong(values, what));
            }
            let mut rest = numbers.as_slice();
            let mut local = DAffine3::IDENTITY;
            for operation in &self.operations {
                let (own, others) = rest.split_at(operation.channels());
                local *= operation.matrix(own);
                rest = others;
            }
            self.locals.push(local);
        }
        Ok(())
    }

    /// Seconds at which it changes; empty for one that stands still.
    pub fn changes(&self) -> &[f64] {
        if self.locals.len() > 1 { &self.times_secs } else { &[] }
    }

    /// The local transform at a time: that of a sample, or between two.
    pub fn at(&self, secs: f64) -> DAffine3 {
        let (a, b, s) = between(&self.times_secs, secs);
        let (a, b) = (self.locals[a], self.locals[b]);
        if s == 0.0 || a == b {
            return a;
        }
        match (Trs::from_affine(a, 1e-6), Trs::from_affine(b, 1e-6)) {
            (Some(a), Some(b)) => {
                let rotation = a.rotation.slerp(b.rotation, s);
                let translation = a.translation.lerp(b.translation, s);
                Trs { translation, rotation, scale: a.scale.lerp(b.scale, s) }.to_affine()
            }
            // Shears have no better way than in between the numbers.
            _ => DAffine3 {
                matrix3: a.matrix3 * (1.0 - s) + b.matrix3 * s,
                translation: a.translation.lerp(b.translation, s),
            },
        }
    }
}

/// The samples before and after a time, and how far it is from the first to the second. Times need not be sound:
/// whatever they are, the samples exist as long as there is one.
pub fn between(times: &[f64], secs: f64) -> (usize, usize, f64) {
    let after = times.partition_point(|t| *t < secs - SAME_TIME).min(times.len().saturating_sub(1));
    if after == 0 || (times[after] - secs).abs() <= SAME_TIME || secs > times[after] {
        return (after, after, 0.0);
    }
    let (from, to) = (times[after - 1], times[after]);
    let s = (secs - from) / (to - from);
    if s.is_finite() && s > 0.0 { (after - 1, after, s.min(1.0)) } else { (after, after, 0.0) }
}

/// All times once, in order.
pub fn merged(mut times: Vec<f64>) -> Vec<f64> {
    times.sort_by(f64::total_cmp);
    times.dedup_by(|a, b| (*a - *b).abs() <= SAME_TIME);
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_between_samples() {
        let times = [0.0, 1.0, 3.0];
        assert_eq!(between(&times, -1.0), (0, 0, 0.0));
        assert_eq!(between(&times, 1.0 + 1e-9), (1, 1, 0.0));
        assert_eq!(between(&times, 2.5), (1, 2, 0.75));
        assert_eq!(between(&times, 9.0), (2, 2, 0.0));
        assert_eq!(between(&[5.0], 2.0), (0, 0, 0.0));
        assert_eq!(between(&[f64::NAN, f64::NAN], 2.0).0, 0);
        assert_eq!(merged(vec![1.0, 0.0, 1.0 + 1e-9]), [0.0, 1.0]);
    }

    #[test]
    fn operations_apply_from_the_last_to_the_first() {
        let ops = [(Operation::Translate, vec![1.0, 2.0, 3.0]), (Operation::RotateAxis(2), vec![90.0])];
        let m = ops.iter().fold(DAffine3::IDENTITY, |m, (op, v)| m * op.matrix(v));
        assert!(m.transform_point3(DVec3::X).abs_diff_eq(DVec3::new(1.0, 3.0, 3.0), 1e-12));
    }
}
