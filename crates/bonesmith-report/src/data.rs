//! The binary part of a report: buffers in one blob, positions and weights in 16 bits.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bonesmith_core::SparseWeights;
use flate2::Compression;
use flate2::write::GzEncoder;
use glam::{DAffine3, DVec3, Vec3};
use rayon::prelude::*;
use serde::Serialize;

/// Buffers begin at multiples of this: WebGL and typed arrays want them so.
const ALIGNMENT: usize = 4;

/// Largest 16-bit number: weights sum to it, coordinates span it.
const FULL: u16 = u16::MAX;

/// Of gzip: the lowest with codes made for the data. Low bits of coordinates are noise, which no level makes much smaller.
const LEVEL: u32 = 2;

/// Where a buffer lies in the blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Buffer {
    /// Type of the elements.
    #[serde(rename = "type")]
    pub kind: ElementKind,
    /// Bytes from the start of the unpacked blob.
    pub offset: usize,
    /// Elements.
    pub length: usize,
}

/// Types of elements, little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum ElementKind {
    U8,
    U16,
    U32,
    F32,
}

/// Numbers that a buffer can hold.
pub trait Element: Copy {
    /// As in [`Buffer::kind`].
    const KIND: ElementKind;
    /// Appends it, little-endian.
    fn push(self, bytes: &mut Vec<u8>);
}

macro_rules! element {
    ($type:ty, $kind:ident) => {
        impl Element for $type {
            const KIND: ElementKind = ElementKind::$kind;
            fn push(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    };
}
element!(u8, U8);
element!(u16, U16);
element!(u32, U32);
element!(f32, F32);

/// Buffers one after the other.
#[derive(Debug, Default)]
pub struct Blob {
    bytes: Vec<u8>,
}

impl Blob {
    /// Appends a buffer.
    pub fn push<T: Element>(&mut self, values: &[T]) -> Buffer {
        self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        let offset = self.bytes.len();
        self.bytes.reserve(size_of_val(values));
        values.iter().for_each(|value| value.push(&mut self.bytes));
        Buffer { kind: T::KIND, offset, length: values.len() }
    }

    /// Bytes so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Packed and as text.
    pub fn to_base64(&self) -> String {
        let mut packer = GzEncoder::new(Vec::with_capacity(self.bytes.len() / 2), Compression::new(LEVEL));
        let packed = packer.write_all(&self.bytes).and_then(|()| packer.finish());
        STANDARD.encode(packed.unwrap_or_else(|error| unreachable!("a Vec takes all bytes: {error}")))
    }
}

/// Positions in 16 bits per coordinate, each frame in a box of its own: a walk of many lengths costs no precision.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Positions {
    /// How `positions` are written.
    pub coding: Coding,
    /// [2, f, 3, N] low and high bytes of the differences of q, where `position = min + q / 65535 (max - min)` of the
    /// frame's box.
    pub positions: Buffer,
    /// [f, 6] corners of each box in model units: min x y z, max x y z.
    pub boxes: Buffer,
}

/// How positions are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Coding {
    /// Differences.
    Delta,
}

impl Positions {
    /// Quantises [f] frames of [N] positions. What is not finite lands on the box.
    pub fn new(frames: &[Vec<Vec3>], blob: &mut Blob) -> Self {
        let one = |frame: &Vec<Vec3>| {
            let (min, max) = bounds(frame);
            let quantised: Vec<u16> = frame.iter().flat_map(|p| quantise(*p, min, max)).collect();
            (quantised, [min.to_array(), max.to_array()])
        };
        let (quantised, boxes): (Vec<Vec<u16>>, Vec<[[f32; 3]; 2]>) = frames.par_iter().map(one).unzip();
        let before = |t: usize| t.checked_sub(1).map_or(&[][..], |t| &quantised[t]);
        let coded = |t: usize| differences(before(t), &quantised[t]);
        let (low, high): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (0..frames.len()).into_par_iter().map(coded).unzip();
        let positions = blob.push(&[low.concat(), high.concat()].concat());
        Self { coding: Coding::Delta, positions, boxes: blob.push(boxes.as_flattened().as_flattened()) }
    }
}

/// Low and high bytes, [3, N] each, of how a frame's [N, 3] numbers differ from the frame before and there from the vertex
/// before: neighbours move alike, so that most high bytes are 0 and pack well. Signs are folded into the lowest bit.
fn differences(before: &[u16], frame: &[u16]) -> (Vec<u8>, Vec<u8>) {
    let mut codes = Vec::with_capacity(frame.len());
    for axis in 0..3 {
        let mut last = 0u16;
        for at in (axis..frame.len()).step_by(3) {
            let step = frame[at].wrapping_sub(before.get(at).copied().unwrap_or(0));
            let signed = step.wrapping_sub(last) as i16;
            codes.push(((signed << 1) ^ (signed >> 15)) as u16);
            last = step;
        }
    }
    codes.into_iter().map(|code| (code as u8, (code >> 8) as u8)).unzip()
}

/// The box around finite points; a point at 0 without any.
fn bounds(points: &[Vec3]) -> (Vec3, Vec3) {
    let start = (Vec3::INFINITY, Vec3::NEG_INFINITY);
    let (min, max) = points.iter().filter(|p| p.is_finite()).fold(start, |(low, high), p| (low.min(*p), high.max(*p)));
    if min.x <= max.x { (min, max) } else { (Vec3::ZERO, Vec3::ZERO) }
}

fn quantise(p: Vec3, min: Vec3, max: Vec3) -> [u16; 3] {
    // Float64: the span of a box may exceed float32, and its place may hide its size.
    let (low, span) = (min.as_dvec3(), max.as_dvec3() - min.as_dvec3());
    let share = (p.as_dvec3() - low) / span.max(DVec3::splat(f64::MIN_POSITIVE)) * f64::from(FULL);
    // A float cast saturates, and takes NaN to 0.
    share.to_array().map(|q| q.round() as u16)
}

/// Weights in 16 bits that sum to 65535 exactly.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
pub struct Influences {
    /// K.
    pub influences: usize,
    /// [N, K] bone, or virtual bone.
    pub indices: Buffer,
    /// [N, K] weight in 65535ths.
    pub weights: Buffer,
}

impl Influences {
    /// Of rows of (bone, weight); each keeps its K largest.
    pub fn new(slots: usize, rows: impl Iterator<Item = Vec<(usize, f64)>>, blob: &mut Blob) -> Self {
        let (mut indices, mut weights) = (Vec::new(), Vec::new());
        for mut row in rows {
            row.retain(|(_, w)| *w > 0.0 && w.is_finite());
            row.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            row.truncate(slots);
            if row.is_empty() {
                row.push((0, 1.0));
            }
            let parts = whole_parts(&row.iter().map(|(_, w)| *w).collect::<Vec<_>>());
            indices.extend((0..slots).map(|k| row.get(k).map_or(0, |(j, _)| *j as u16)));
            weights.extend((0..slots).map(|k| parts.get(k).copied().unwrap_or(0)));
        }
        Self { influences: slots, indices: blob.push(&indices), weights: blob.push(&weights) }
    }

    /// Of all slots that are used.
    pub fn of(weights: &SparseWeights, blob: &mut Blob) -> Self {
        let row = |i| weights.of(i).map(|(j, w)| (j, f64::from(w))).collect();
        Self::new(weights.max_influences().max(1), (0..weights.vertex_count()).map(row), blob)
    }
}

/// Positive weights as whole 65535ths: rounded down, and what is left goes to the largest remainders.
fn whole_parts(weights: &[f64]) -> Vec<u16> {
    let sum: f64 = weights.iter().sum();
    let exact: Vec<f64> = weights.iter().map(|w| w / sum * f64::from(FULL)).collect();
    let mut parts: Vec<u16> = exact.iter().map(|w| *w as u16).collect();
    let given: u32 = parts.iter().map(|&p| u32::from(p)).sum();
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()).then(a.cmp(&b)));
    let left = u32::from(FULL).saturating_sub(given) as usize;
    order.into_iter().cycle().take(left).for_each(|k| parts[k] += 1);
    parts
}

/// Row-major 3x4 matrices in float32.
pub fn rows_of(matrices: impl IntoIterator<Item = DAffine3>) -> Vec<f32> {
    let row = |m: &DAffine3, r: usize| {
        [m.matrix3.x_axis[r], m.matrix3.y_axis[r], m.matrix3.z_axis[r], m.translation[r]].map(finite)
    };
    matrices.into_iter().flat_map(|m| (0..3).flat_map(move |r| row(&m, r))).collect()
}

/// Coordinates one after the other.
pub fn flat(points: impl IntoIterator<Item = DVec3>) -> Vec<f32> {
    points.into_iter().flat_map(|p| p.to_array().map(finite)).collect()
}

/// float32 without infinities, which JSON and shaders do not forgive.
fn finite(x: f64) -> f32 {
    let most = f64::from(f32::MAX);
    if x.is_nan() { 0.0 } else { x.clamp(-most, most) as f32 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use proptest::prelude::*;
    use std::io::Read;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let mut blob = Blob::default();
        let shorts = blob.push(&[1u16, 2, 3]);
        let longs = blob.push(&[70_000u32]);
        let floats = blob.push(&[0.5f32, -1.0]);
        assert_eq!((shorts.offset, longs.offset, floats.offset, blob.len()), (0, 8, 12, 20));
        assert_eq!((shorts.kind, longs.kind, floats.kind), (ElementKind::U16, ElementKind::U32, ElementKind::F32));
        let mut unpacked = Vec::new();
        let packed = STANDARD.decode(blob.to_base64()).unwrap();
        GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).unwrap();
        assert_eq!(unpacked, [1, 0, 2, 0, 3, 0, 0, 0, 0x70, 0x11, 1, 0, 0, 0, 0, 0x3f, 0, 0, 0x80, 0xbf]);
    }

    #[test]
    fn a_flat_or_empty_or_broken_box_is_no_accident() {
        let (low, high) = (Vec3::new(1.0, 2.0, 3.0), Vec3::new(2.0, 2.0, 3.0));
        assert_eq!(bounds(&[low, high]), (low, high));
        assert_eq!((quantise(low, low, high), quantise(high, low, high)), ([0, 0, 0], [65535, 0, 0]));
        assert_eq!(bounds(&[Vec3::NAN, Vec3::X, Vec3::INFINITY]), (Vec3::X, Vec3::X));
        assert_eq!(bounds(&[]), (Vec3::ZERO, Vec3::ZERO));
        let two = Positions::new(&[vec![low], vec![high]], &mut Blob::default());
        assert_eq!((two.positions.length, two.boxes.length), (12, 12));
        assert!(rows_of([DAffine3::from_translation(DVec3::new(1e300, f64::NAN, 0.0))]).iter().all(|x| x.is_finite()));
    }

    #[test]
    fn matrices_are_row_major() {
        let m = DAffine3::from_cols_array(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]);
        assert_eq!(rows_of([m]), [1.0, 4.0, 7.0, 10.0, 2.0, 5.0, 8.0, 11.0, 3.0, 6.0, 9.0, 12.0]);
    }

    proptest! {
        #[test]
        fn positions_are_off_by_half_a_step(
            points in prop::collection::vec(prop::array::uniform3(-1e3f32..1e3), 1..50),
            scale in -20i32..20,
            far in prop::array::uniform3(-1e4f32..1e4),
        ) {
            let place = |p: [f32; 3]| Vec3::from(p) * (scale as f32).exp2() + Vec3::from(far);
            let points: Vec<Vec3> = points.into_iter().map(place).collect();
            let (min, max) = bounds(&points);
            for p in &points {
                let q = quantise(*p, min, max);
                for axis in 0..3 {
                    let (low, span) = (f64::from(min[axis]), f64::from(max[axis]) - f64::from(min[axis]));
                    let found = low + f64::from(q[axis]) / 65535.0 * span;
                    // Half a step, and the rounding of float64 at this distance.
                    let most = span / 65535.0 * (0.5 + 1e-9) + 1e-15 * low.abs();
                    prop_assert!((found - f64::from(p[axis])).abs() <= most);
                }
            }
        }

        #[test]
        fn weights_sum_to_one_and_are_off_by_one_part(weights in prop::collection::vec(1e-6f64..1.0, 1..17)) {
            let parts = whole_parts(&weights);
            prop_assert_eq!(parts.iter().map(|&p| u32::from(p)).sum::<u32>(), 65535);
            let sum: f64 = weights.iter().sum();
            for (part, w) in parts.iter().zip(&weights) {
                prop_assert!((f64::from(*part) - w / sum * 65535.0).abs() <= 1.0);
            }
        }
    }
}
