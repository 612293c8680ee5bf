//! One array of an archive: the `.npy` header and the coding of its numbers.
//!
//! The header is a Python dictionary of three known keys. It is read here rather than by a crate because a general
//! Python-literal parser brings a parser generator and big integers along for one line of text (docs/decisions/010).

use std::io::{self, Read};

/// `\x93NUMPY`, then major and minor version.
const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// NumPy itself refuses headers beyond 10,000 characters; ours are about 100.
const MAX_HEADER: usize = 10_000;

/// What the values of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Float,
    Int,
    Uint,
    Bool,
    /// UTF-32 text, padded with NUL.
    Unicode,
    /// Bytes, padded with NUL.
    Bytes,
}

/// Type of the values: NumPy's `descr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DType {
    pub kind: Kind,
    /// Bytes per value.
    pub size: usize,
    pub big_endian: bool,
}

/// Type, order and shape of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub dtype: DType,
    pub fortran_order: bool,
    pub shape: Vec<usize>,
}

impl DType {
    /// From NumPy's short form: "<f4", "|u1", "<U12".
    fn parse(descr: &str) -> Result<Self, String> {
        let unsupported = || format!("values of type {descr:?} are not supported");
        let (order, rest) = match descr.split_at_checked(1) {
            Some((order @ ("<" | ">" | "|" | "="), rest)) => (order, rest),
            _ => ("|", descr),
        };
        let (kind, size) = rest.split_at_checked(1).ok_or_else(unsupported)?;
        let size: usize = size.parse().map_err(|_| unsupported())?;
        let (kind, size) = match (kind, size) {
            ("f", 2 | 4 | 8) => (Kind::Float, size),
            ("i", 1 | 2 | 4 | 8) => (Kind::Int, size),
            ("u", 1 | 2 | 4 | 8) => (Kind::Uint, size),
            ("b", 1) => (Kind::Bool, 1),
            ("U", _) => (Kind::Unicode, size.checked_mul(4).ok_or_else(unsupported)?),
            ("S", _) => (Kind::Bytes, size),
            _ => return Err(unsupported()),
        };
        Ok(Self { kind, size, big_endian: order == ">" })
    }

    /// Hands every value in `bytes` to `sink` as float64: exact for everything but integers beyond 2^53, which no
    /// index or coordinate is. Text has no values.
    pub fn decode(self, bytes: &[u8], mut sink: impl FnMut(f64)) {
        macro_rules! numbers {
            ($t:ty, $to:expr) => {
                for value in bytes.as_chunks::<{ size_of::<$t>() }>().0 {
                    let number =
                        if self.big_endian { <$t>::from_be_bytes(*value) } else { <$t>::from_le_bytes(*value) };
                    sink($to(number));
                }
            };
        }
        match (self.kind, self.size) {
            (Kind::Float, 2) => numbers!(u16, |bits| f64::from(f32_from_half(bits))),
            (Kind::Float, 4) => numbers!(f32, f64::from),
            (Kind::Float, 8) => numbers!(f64, |v| v),
            (Kind::Int, 1) => numbers!(i8, f64::from),
            (Kind::Int, 2) => numbers!(i16, f64::from),
            (Kind::Int, 4) => numbers!(i32, f64::from),
            (Kind::Int, 8) => numbers!(i64, |v| v as f64),
            (Kind::Uint | Kind::Bool, 1) => numbers!(u8, f64::from),
            (Kind::Uint, 2) => numbers!(u16, f64::from),
            (Kind::Uint, 4) => numbers!(u32, f64::from),
            (Kind::Uint, 8) => numbers!(u64, |v| v as f64),
            _ => {}
        }
    }
}

/// IEEE binary16 to binary32, exact.
pub fn f32_from_half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f32::from(bits & 0x3ff));
    match exponent {
        0 => sign * mantissa * 2f32.powi(-24),
        31 if mantissa == 0.0 => sign * f32::INFINITY,
        31 => f32::NAN,
        _ => sign * (1024.0 + mantissa) * 2f32.powi(exponent - 25),
    }
}

impl Header {
    /// Number of values; `None` when it overflows.
    pub fn count(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |product, &side| product.checked_mul(side))
    }

    /// Reads the header and says how many bytes it took.
    pub fn read(reader: &mut impl Read) -> io::Result<(Self, usize)> {
        let bad = |what: String| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut start = [0u8; 8];
        reader.read_exact(&mut start)?;
        if &start[..6] != MAGIC {
            return Err(bad("not an .npy array".into()));
        }
        let mut length = [0u8; 4];
        let length_bytes = if start[6] == 1 { 2 } else { 4 };
        reader.read_exact(&mut length[..length_bytes])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_HEADER {
            return Err(bad(format!("its header is {length} bytes long, at most {MAX_HEADER} are plausible")));
        }
        let mut text = vec![0u8; length];
        reader.read_exact(&mut text)?;
        let text = std::str::from_utf8(&text).map_err(|_| bad("its header is not text".into()))?;
        Ok((Self::parse(text).map_err(bad)?, 8 + length_bytes + length))
    }

    /// `{'descr': '<f4', 'fortran_order': False, 'shape': (48, 8431, 3), }`
    fn parse(text: &str) -> Result<Self, String> {
        let value_of = |key: &str| {
            let at = text.find(&format!("'{key}'")).or_else(|| text.find(&format!("\"{key}\"")));
            let rest = at.map(|at| text[at + key.len() + 2..].trim_start());
            let value = rest.and_then(|rest| rest.strip_prefix(':')).map(str::trim_start);
            value.ok_or_else(|| format!("its header has no {key:?}"))
        };
        let descr = value_of("descr")?;
        let quoted = descr.strip_prefix(['\'', '"']).and_then(|d| d.split(['\'', '"']).next());
        let dtype = DType::parse(quoted.ok_or("structured or pickled values are not supported")?)?;
        let fortran_order = value_of("fortran_order")?.starts_with("True");
        let sides = value_of("shape")?.strip_prefix('(').and_then(|s| s.split(')').next());
        let sides = sides.ok_or("its shape is not a tuple")?.split(',').map(str::trim).filter(|s| !s.is_empty());
        let shape = sides.map(|side| side.parse().map_err(|_| format!("its shape has the side {side:?}")));
        Ok(Self { dtype, fortran_order, shape: shape.collect::<Result<_, _>>()? })
    }

    /// Bytes of a version 1.0 header for C order, padded to a multiple of 64 as NumPy does.
    pub fn encode(descr: &str, shape: &[usize]) -> Vec<u8> {
        let sides: String = shape.iter().map(|side| format!("{side},")).collect();
        let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sides}), }}");
        let padding = (10 + text.len() + 1).next_multiple_of(64) - (10 + text.len() + 1);
        text.extend(std::iter::repeat_n(' ', padding));
        text.push('\n');
        let mut bytes = MAGIC.to_vec();
        bytes.extend([1, 0]);
        bytes.extend((text.len() as u16).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for shape in [&[][..], &[0], &[7], &[48, 8431, 3]] {
            let bytes = Header::encode(">f8", shape);
            assert_eq!(bytes.len() % 64, 0);
            let (header, length) = Header::read(&mut bytes.as_slice()).unwrap();
            let dtype = DType { kind: Kind::Float, size: 8, big_endian: true };
            assert_eq!((header, length), (Header { dtype, fortran_order: false, shape: shape.to_vec() }, bytes.len()));
        }
    }

    #[test]
    fn other_spellings_are_read_and_nonsense_is_refused() {
        let header = Header::parse("{\"shape\": (2 , 3), 'fortran_order' : True, \"descr\":\"|u1\"}").unwrap();
        assert!(header.fortran_order && header.shape == [2, 3] && header.dtype.kind == Kind::Uint);
        for text in [
            "",
            "{}",
            "{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': 3}",
            "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
            "{'descr': 'é', 'fortran_order': False, 'shape': (1,)}",
        ] {
            assert!(Header::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn halves() {
        let known = [(0x0000, 0.0), (0x3c00, 1.0), (0xc000, -2.0), (0x7bff, 65504.0), (0x0001, 5.960_464_5e-8)];
        for (bits, value) in known {
            assert_eq!(f32_from_half(bits), value);
        }
        assert!(f32_from_half(0x8000).is_sign_negative());
        assert_eq!(f32_from_half(0xfc00), f32::NEG_INFINITY);
        assert!(f32_from_half(0x7e00).is_nan());
    }
}
