//! Values of binary USD.
//!
//! A representation is 64 bits: array, inlined, compressed (bits 63 to 61), type (bits 55 to 48), and 48 bits that are
//! the value itself, an index of a token, string or path, or the place of the value in the file.

use crate::IoError;
use crate::usd::half::half_to_f32;
use crate::usd::layer::{Arc, Layer, ValueRef};

use super::{Tables, codec};

const ARRAY: u64 = 1 << 63;
const INLINED: u64 = 1 << 62;
const COMPRESSED: u64 = 1 << 61;
/// Shorter arrays are stored plainly even where they say compressed.
const MIN_COMPRESSED: u64 = 16;

/// Type numbers.
pub mod kind {
    pub const BOOL: u8 = 1;
    pub const UCHAR: u8 = 2;
    pub const INT: u8 = 3;
    pub const UINT: u8 = 4;
    pub const INT64: u8 = 5;
    pub const UINT64: u8 = 6;
    pub const HALF: u8 = 7;
    pub const FLOAT: u8 = 8;
    pub const DOUBLE: u8 = 9;
    pub const STRING: u8 = 10;
    pub const TOKEN: u8 = 11;
    pub const ASSET: u8 = 12;
    pub const MATRIX4D: u8 = 15;
    pub const QUATF: u8 = 17;
    pub const VEC2F: u8 = 20;
    pub const VEC3D: u8 = 23;
    pub const VEC3F: u8 = 24;
    pub const VEC3H: u8 = 25;
    pub const VEC4F: u8 = 28;
    pub const DICTIONARY: u8 = 31;
    pub const TOKEN_LIST: u8 = 32;
    pub const STRING_LIST: u8 = 33;
    pub const PATH_LIST: u8 = 34;
    pub const REFERENCE_LIST: u8 = 35;
    pub const PATHS: u8 = 40;
    pub const TOKENS: u8 = 41;
    pub const SPECIFIER: u8 = 42;
    pub const VARIABILITY: u8 = 44;
    pub const VARIANT_SELECTIONS: u8 = 45;
    pub const TIME_SAMPLES: u8 = 46;
    pub const PAYLOAD: u8 = 47;
    pub const DOUBLES: u8 = 48;
    pub const LAYER_OFFSETS: u8 = 49;
    pub const STRINGS: u8 = 50;
    pub const BLOCK: u8 = 51;
    pub const PAYLOAD_LIST: u8 = 55;
    pub const TIME_CODE: u8 = 56;
    pub const SPLINE: u8 = 59;
}

/// How the numbers of a type are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scalar {
    U8,
    I32,
    U32,
    I64,
    U64,
    F16,
    F32,
    F64,
}

impl Scalar {
    fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::F16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

/// Stored type and numbers per element; `None` for what is not numbers.
fn numeric(kind: u8) -> Option<(Scalar, usize)> {
    Some(match kind {
        kind::BOOL | kind::UCHAR => (Scalar::U8, 1),
        kind::INT | kind::SPECIFIER | kind::VARIABILITY => (Scalar::I32, 1),
        kind::UINT => (Scalar::U32, 1),
        kind::INT64 => (Scalar::I64, 1),
        kind::UINT64 => (Scalar::U64, 1),
        kind::HALF => (Scalar::F16, 1),
        kind::FLOAT => (Scalar::F32, 1),
        kind::DOUBLE | kind::TIME_CODE => (Scalar::F64, 1),
        13 => (Scalar::F64, 4),
        14 => (Scalar::F64, 9),
        kind::MATRIX4D => (Scalar::F64, 16),
        16 | 27 => (Scalar::F64, 4),
        kind::QUATF | kind::VEC4F => (Scalar::F32, 4),
        18 | 29 => (Scalar::F16, 4),
        19 => (Scalar::F64, 2),
        kind::VEC2F => (Scalar::F32, 2),
        21 => (Scalar::F16, 2),
        22 => (Scalar::I32, 2),
        kind::VEC3D => (Scalar::F64, 3),
        kind::VEC3F => (Scalar::F32, 3),
        kind::VEC3H => (Scalar::F16, 3),
        26 => (Scalar::I32, 3),
        30 => (Scalar::I32, 4),
        _ => return None,
    })
}

impl ValueRef {
    fn kind(self) -> u8 {
        (self.0 >> 48) as u8
    }

    fn payload(self) -> u64 {
        self.0 & ((1 << 48) - 1)
    }

    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }
}

/// A number type that values are wanted in.
pub trait Number: Copy {
    /// From any stored number.
    fn from_f64(x: f64) -> Self;
    /// From a stored integer.
    fn from_i64(x: i64) -> Self;
    /// From a stored float32, exactly.
    fn from_f32(x: f32) -> Self;
}

impl Number for f32 {
    fn from_f64(x: f64) -> Self {
        x as f32
    }
    fn from_i64(x: i64) -> Self {
        x as f32
    }
    fn from_f32(x: f32) -> Self {
        x
    }
}

impl Number for f64 {
    fn from_f64(x: f64) -> Self {
        x
    }
    fn from_i64(x: i64) -> Self {
        x as f64
    }
    fn from_f32(x: f32) -> Self {
        x.into()
    }
}

impl Number for i64 {
    fn from_f64(x: f64) -> Self {
        x as i64
    }
    fn from_i64(x: i64) -> Self {
        x
    }
    fn from_f32(x: f32) -> Self {
        x as i64
    }
}

/// All numbers of a value; see [`Layer::f64s`].
pub fn f64s(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<f64>, IoError> {
    numbers(layer, value, what)
}

/// See [`Layer::f32s`].
pub fn f32s(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<f32>, IoError> {
    numbers(layer, value, what)
}

/// See [`Layer::ints`].
pub fn ints(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<i64>, IoError> {
    numbers(layer, value, what)
}

/// Whether this is a value block.
pub fn is_blocked(value: ValueRef) -> bool {
    value.kind() == kind::BLOCK
}

fn numbers<T: Number>(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<T>, IoError> {
    let mut out = plain_numbers(layer, value, what)?;
    if matches!(value.kind(), 16..=18) {
        // Stored with the imaginary part first.
        out.as_chunks_mut::<4>().0.iter_mut().for_each(|q| q.rotate_right(1));
    }
    Ok(out)
}

fn plain_numbers<T: Number>(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<T>, IoError> {
    let blob = &layer.blob;
    if matches!(value.kind(), kind::DOUBLES | kind::LAYER_OFFSETS) {
        let count = blob.u64(value.payload(), what)?;
        let width = if value.kind() == kind::DOUBLES { 8 } else { 16 };
        let size = count.checked_mul(width).ok_or_else(|| blob.malformed(format!("{what}: {count} numbers")))?;
        return Ok(decode(&blob.read(value.payload() + 8, size, what)?, Scalar::F64));
    }
    let Some((scalar, width)) = numeric(value.kind()) else {
        return Err(blob.malformed(format!("{what} has values of type {}, not numbers", value.kind())));
    };
    if !value.has(ARRAY) {
        if value.has(INLINED) {
            return Ok(inlined(value, scalar, width));
        }
        return Ok(decode(&blob.read(value.payload(), (scalar.size() * width) as u64, what)?, scalar));
    }
    if value.payload() == 0 {
        return Ok(Vec::new());
    }
    let (count, start) = array_head(layer, value, what)?;
    if value.has(COMPRESSED) && count >= MIN_COMPRESSED && width == 1 {
        return compressed(layer, scalar, count, start, what);
    }
    let size = count.checked_mul((scalar.size() * width) as u64);
    let size = size.ok_or_else(|| blob.malformed(format!("{what}: {count} values")))?;
    Ok(decode(&blob.read(start, size, what)?, scalar))
}

/// Elements of an array and where they start.
fn array_head(layer: &Layer, value: ValueRef, what: &str) -> Result<(u64, u64), IoError> {
    let version = layer.tables().map_or([0; 3], |tables| tables.version);
    let mut at = value.payload();
    if version < [0, 5, 0] {
        at += 4; // a rank that was always 1
    }
    if version < [0, 7, 0] {
        let count = layer.blob.read(at, 4, what)?;
        return Ok((count.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)).into(), at + 4));
    }
    Ok((layer.blob.u64(at, what)?, at + 8))
}

/// A value in the representation itself: small numbers as they are, wide ones as float32 or int32 when that is exact,
/// vectors as bytes, matrices as their diagonal in bytes.
fn inlined<T: Number>(value: ValueRef, scalar: Scalar, width: usize) -> Vec<T> {
    let bytes = (value.payload() as u32).to_le_bytes();
    let signed = |at: usize| T::from_i64(i64::from(bytes.get(at).copied().unwrap_or(0) as i8));
    match (width, value.kind()) {
        (1, _) => vec![match scalar {
            Scalar::U8 => T::from_i64(bytes[0].into()),
            Scalar::I32 | Scalar::I64 => T::from_i64(i32::from_le_bytes(bytes).into()),
            Scalar::U32 | Scalar::U64 => T::from_i64(u32::from_le_bytes(bytes).into()),
            Scalar::F16 => T::from_f32(half_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]))),
            Scalar::F32 | Scalar::F64 => T::from_f32(f32::from_le_bytes(bytes)),
        }],
        (_, 13..=15) => {
            let side = width.isqrt();
            let entry = |at: usize| if at / side == at % side { signed(at / side) } else { T::from_i64(0) };
            (0..width).map(entry).collect()
        }
        _ => (0..width).map(signed).collect(),
    }
}

fn compressed<T: Number>(layer: &Layer, scalar: Scalar, count: u64, start: u64, what: &str) -> Result<Vec<T>, IoError> {
    let blob = &layer.blob;
    let bad = |why: &str| blob.malformed(format!("{what}: {why}"));
    let fits = count.checked_mul(8).is_some_and(|bytes| bytes <= blob.most_unfolded());
    let count =
        usize::try_from(count).ok().filter(|_| fits).ok_or_else(|| bad("more values than the file can hold"))?;
    let block = |at: u64| -> Result<Vec<u8>, IoError> {
        let size = blob.u64(at, what)?;
        blob.read(at + 8, size, what)
    };
    let convert = |values: Vec<i64>| values.into_iter().map(T::from_i64).collect();
    match scalar {
        Scalar::I32 => Ok(convert(codec::unfold_ints::<4>(&block(start)?, count).map_err(bad)?)),
        Scalar::U32 => {
            let values = codec::unfold_ints::<4>(&block(start)?, count).map_err(bad)?;
            Ok(values.into_iter().map(|v| T::from_i64((v as u32).into())).collect())
        }
        Scalar::I64 | Scalar::U64 => Ok(convert(codec::unfold_ints::<8>(&block(start)?, count).map_err(bad)?)),
        Scalar::F16 | Scalar::F32 | Scalar::F64 => {
            let code = blob.read(start, 1, what)?[0];
            if code == b'i' {
                return Ok(convert(codec::unfold_ints::<4>(&block(start + 1)?, count).map_err(bad)?));
            }
            if code != b't' {
                return Err(bad("an unknown compression"));
            }
            let entries = blob.read(start + 1, 4, what)?;
            let entries = u64::from(entries.first_chunk().map_or(0, |b| u32::from_le_bytes(*b)));
            let table_size = entries * scalar.size() as u64;
            let table: Vec<T> = decode(&blob.read(start + 5, table_size, what)?, scalar);
            let indices = codec::unfold_ints::<4>(&block(start + 5 + table_size)?, count).map_err(bad)?;
            let value = |i: i64| table.get(i as u32 as usize).copied().ok_or_else(|| bad("an index beyond its table"));
            indices.into_iter().map(value).collect()
        }
        Scalar::U8 => Err(bad("compressed bytes")),
    }
}

fn decode<T: Number>(bytes: &[u8], scalar: Scalar) -> Vec<T> {
    match scalar {
        Scalar::U8 => bytes.iter().map(|b| T::from_i64((*b).into())).collect(),
        Scalar::I32 => bytes.as_chunks().0.iter().map(|b| T::from_i64(i32::from_le_bytes(*b).into())).collect(),
        Scalar::U32 => bytes.as_chunks().0.iter().map(|b| T::from_i64(u32::from_le_bytes(*b).into())).collect(),
        Scalar::I64 | Scalar::U64 => bytes.as_chunks().0.iter().map(|b| T::from_i64(i64::from_le_bytes(*b))).collect(),
        Scalar::F16 => bytes.as_chunks().0.iter().map(|b| T::from_f32(half_to_f32(u16::from_le_bytes(*b)))).collect(),
        Scalar::F32 => bytes.as_chunks().0.iter().map(|b| T::from_f32(f32::from_le_bytes(*b))).collect(),
        Scalar::F64 => bytes.as_chunks().0.iter().map(|b| T::from_f64(f64::from_le_bytes(*b))).collect(),
    }
}

/// A place in the file, read on.
struct Cursor<'a> {
    layer: &'a Layer,
    tables: &'a Tables,
    at: u64,
    what: &'a str,
}

impl Cursor<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], IoError> {
        let bytes = self.layer.blob.read(self.at, N as u64, self.what)?;
        self.at += N as u64;
        Ok(bytes.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u32(&mut self) -> Result<u32, IoError> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, IoError> {
        self.bytes().map(f64::from_le_bytes)
    }

    /// A number of items that take `size` bytes each here.
    fn count(&mut self, size: u64) -> Result<u64, IoError> {
        let count = self.bytes().map(u64::from_le_bytes)?;
        let left = self.layer.blob.len().saturating_sub(self.at);
        if count > left / size {
            return Err(self.layer.blob.malformed(format!("{}: {count} items do not fit the file", self.what)));
        }
        Ok(count)
    }

    /// Follows a jump to a representation that lies behind what it refers to.
    fn nested(&mut self) -> Result<ValueRef, IoError> {
        let start = self.at;
        let jump = self.bytes().map(i64::from_le_bytes)?;
        let target = start.checked_add_signed(jump).filter(|t| *t > start);
        self.at = target.ok_or_else(|| self.layer.blob.malformed(format!("{}: a jump backwards", self.what)))?;
        self.bytes().map(|b| ValueRef(u64::from_le_bytes(b)))
    }

    fn string(&mut self) -> Result<String, IoError> {
        let index = self.u32()?;
        Ok(self.tables.string(self.layer, index))
    }

    fn arc(&mut self, with_offset: bool) -> Result<Arc, IoError> {
        let asset = self.string()?;
        let path = self.u32()?;
        let prim = self.tables.path_text(&self.layer.tokens, path);
        let (offset, scale) = if with_offset { (self.f64()?, self.f64()?) } else { (0.0, 1.0) };
        Ok(Arc { asset, prim: if prim == "/" { String::new() } else { prim }, offset, scale })
    }

    /// Passes over a dictionary.
    fn skip_dictionary(&mut self) -> Result<(), IoError> {
        for _ in 0..self.count(20)? {
            self.u32()?;
            self.nested()?;
        }
        Ok(())
    }
}

impl Tables {
    fn string(&self, layer: &Layer, index: u32) -> String {
        let token = self.strings.get(index as usize).copied();
        token.map(|token| layer.tokens.get(token).to_owned()).unwrap_or_default()
    }
}

impl Layer {
    fn tables(&self) -> Option<&Tables> {
        match &self.source {
            crate::usd::layer::Source::Binary(tables) => Some(tables),
            crate::usd::layer::Source::Text(_) => None,
        }
    }
}

/// See [`Layer::texts`].
pub fn texts(layer: &Layer, tables: &Tables, value: ValueRef, what: &str) -> Result<Vec<String>, IoError> {
    let token = |index: u32| layer.tokens.get(index).to_owned();
    let string = |index: u32| tables.string(layer, index);
    let path = |index: u32| tables.path_text(&layer.tokens, index);
    let of_kind: &dyn Fn(u32) -> String = match value.kind() {
        // A single one is a token.
        kind::ASSET if value.has(ARRAY) => &string,
        kind::TOKEN | kind::ASSET | kind::TOKENS | kind::TOKEN_LIST => &token,
        kind::STRING | kind::STRINGS | kind::STRING_LIST => &string,
        kind::PATHS | kind::PATH_LIST => &path,
        other => return Err(layer.blob.malformed(format!("{what} has values of type {other}, not names"))),
    };
    let mut cursor = Cursor { layer, tables, at: value.payload(), what };
    match value.kind() {
        kind::TOKENS | kind::STRINGS | kind::PATHS => {
            let count = cursor.count(4)?;
            (0..count).map(|_| cursor.u32().map(of_kind)).collect()
        }
        kind::TOKEN_LIST | kind::STRING_LIST | kind::PATH_LIST => list(&mut cursor, 4, |c| c.u32().map(of_kind)),
        _ if value.has(ARRAY) => {
            if value.payload() == 0 {
                return Ok(Vec::new());
            }
            let (count, start) = array_head(layer, value, what)?;
            let size = count.checked_mul(4).ok_or_else(|| layer.blob.malformed(format!("{what}: {count} names")))?;
            let bytes = layer.blob.read(start, size, what)?;
            // The same long name a million times over is no list of names.
            let indices: Vec<u32> = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect();
            let total: u64 = indices.iter().map(|i| of_kind(*i).len() as u64 + 24).sum();
            if total > layer.blob.most_unfolded() {
                return Err(layer.blob.malformed(format!("{what}: {count} names are more than the file can hold")));
            }
            Ok(indices.into_iter().map(of_kind).collect())
        }
        _ => Ok(vec![of_kind(value.payload() as u32)]),
    }
}

/// Items of a list operation: the explicit ones, or those prepended, added and appended.
fn list<T>(
    cursor: &mut Cursor,
    item_size: u64,
    read: impl Fn(&mut Cursor) -> Result<T, IoError>,
) -> Result<Vec<T>, IoError> {
    // Bits 1 to 6: explicit, added, deleted, ordered, prepended, appended, in this order in the file.
    let [head] = cursor.bytes()?;
    let mut parts: [Vec<T>; 6] = Default::default();
    for (bit, part) in parts.iter_mut().enumerate() {
        if head >> (bit + 1) & 1 == 1 {
            for _ in 0..cursor.count(item_size)? {
                part.push(read(cursor)?);
            }
        }
    }
    let [explicit, added, _, _, prepended, appended] = parts;
    Ok(prepended.into_iter().chain(explicit).chain(added).chain(appended).collect())
}

/// See [`Layer::samples`].
pub fn samples(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<(f64, ValueRef)>, IoError> {
    let Some(tables) = layer.tables().filter(|_| value.kind() == kind::TIME_SAMPLES) else {
        return Err(layer.blob.malformed(format!("{what} are no time samples")));
    };
    let mut cursor = Cursor { layer, tables, at: value.payload(), what };
    let times = cursor.nested()?;
    let times: Vec<f64> = numbers(layer, times, what)?;
    let start = cursor.at;
    let jump = cursor.bytes().map(i64::from_le_bytes)?;
    let target = start.checked_add_signed(jump);
    cursor.at = target.ok_or_else(|| layer.blob.malformed(format!("{what}: a jump out of the file")))?;
    let count = cursor.count(8)?;
    if count != times.len() as u64 {
        return Err(layer.blob.malformed(format!("{what}: {count} values at {} times", times.len())));
    }
    let values = layer.blob.read(cursor.at, 8 * count, what)?;
    let values = values.as_chunks().0.iter().map(|b| ValueRef(u64::from_le_bytes(*b)));
    Ok(times.into_iter().zip(values).collect())
}

/// The bytes of a curve; none for an empty one.
pub fn spline(layer: &Layer, value: ValueRef, what: &str) -> Result<Vec<u8>, IoError> {
    if value.kind() != kind::SPLINE {
        return Err(layer.blob.malformed(format!("{what} is no spline")));
    }
    if value.has(INLINED) {
        return Ok(Vec::new());
    }
    let size = layer.blob.u64(value.payload(), what)?;
    layer.blob.read(value.payload() + 8, size, what)
}

/// See [`Layer::dictionary`]. Entries only: what is nested in them is decoded when it is asked for.
pub fn dictionary(
    layer: &Layer,
    tables: &Tables,
    value: ValueRef,
    what: &str,
) -> Result<Vec<(String, ValueRef)>, IoError> {
    let mut cursor = Cursor { layer, tables, at: value.payload(), what };
    if value.kind() == kind::VARIANT_SELECTIONS {
        // Strings beside strings: as if they were values of type string.
        let string = |index: u32| ValueRef(INLINED | u64::from(kind::STRING) << 48 | u64::from(index));
        let count = cursor.count(8)?;
        return (0..count).map(|_| Ok((cursor.string()?, string(cursor.u32()?)))).collect();
    }
    if value.kind() != kind::DICTIONARY {
        return Err(layer.blob.malformed(format!("{what} is no dictionary")));
    }
    let count = cursor.count(20)?;
    (0..count).map(|_| Ok((cursor.string()?, cursor.nested()?))).collect()
}

/// See [`Layer::arcs`].
pub fn arcs(layer: &Layer, tables: &Tables, value: ValueRef, what: &str) -> Result<Vec<Arc>, IoError> {
    let mut cursor = Cursor { layer, tables, at: value.payload(), what };
    let payload_offsets = tables.version >= [0, 8, 0];
    match value.kind() {
        kind::REFERENCE_LIST => list(&mut cursor, 24, |c| {
            let arc = c.arc(true)?;
            c.skip_dictionary()?;
            Ok(arc)
        }),
        kind::PAYLOAD_LIST => list(&mut cursor, 8, |c| c.arc(payload_offsets)),
        kind::PAYLOAD => Ok(vec![cursor.arc(payload_offsets)?]),
        kind::STRINGS => {
            let plain = |asset: String| Arc { asset, prim: String::new(), offset: 0.0, scale: 1.0 };
            Ok(texts(layer, tables, value, what)?.into_iter().map(plain).collect())
        }
        kind::BLOCK => Ok(Vec::new()),
        other => Err(layer.blob.malformed(format!("{what} has values of type {other}, not references"))),
    }
}
