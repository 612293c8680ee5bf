//! The zip archive around the arrays.
//!
//! Arrays are decoded while they are inflated: no array is ever held as bytes and as numbers at once. What an array
//! asks for is bounded by the bytes that are really there (see [`Archive::array`]), so a small file cannot ask for
//! much memory.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

use zip::read::ZipFile;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::npy::{Header, Kind};
use crate::IoError;

/// Deflate cannot pack more than 1032 bytes into one.
const MAX_INFLATION: u64 = 1032;
/// Arrays up to this size may be packed as tightly as they can.
const MAX_PACKED: u64 = 256 << 20;
/// Larger ones may be at most this many times as large as in the file: positions pack to about a half.
const MAX_GROWTH: u64 = 100;
/// Bytes decoded at a time.
const BLOCK: usize = 1 << 16;

/// An archive opened for reading.
pub struct Archive {
    path: PathBuf,
    zip: ZipArchive<BufReader<File>>,
    file_bytes: u64,
}

/// One array of an archive, its header read, its values not yet.
pub struct Array<'a> {
    path: &'a Path,
    key: &'a str,
    pub header: Header,
    reader: ZipFile<'a, BufReader<File>>,
}

impl Archive {
    /// Opens an archive and reads its table of contents.
    pub fn open(path: &Path) -> Result<Self, IoError> {
        let os = |source| IoError::Os { path: path.to_owned(), source };
        let file = crate::opens::open(path).map_err(os)?;
        crate::opens::count();
        let file_bytes = file.metadata().map_err(os)?.len();
        if file_bytes == 0 {
            return Err(IoError::malformed(path, "the file is empty"));
        }
        let zip = ZipArchive::new(BufReader::new(file))
            .map_err(|e| IoError::malformed(path, format!("not a whole npz archive, perhaps cut off ({e})")))?;
        Ok(Self { path: path.to_owned(), zip, file_bytes })
    }

    /// Whose file it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether there is an array of this name.
    pub fn has(&self, key: &str) -> bool {
        self.zip.index_for_name(&format!("{key}.npy")).is_some()
    }

    /// Names of all arrays, for messages.
    pub fn keys(&self) -> Vec<String> {
        let names = self.zip.file_names().filter_map(Result::ok);
        names.map(|name| name.strip_suffix(".npy").unwrap_or(&name).to_owned()).collect()
    }

    /// Opens an array; `None` if there is none of this name.
    ///
    /// Its shape must agree with the archive's table of contents, and that with the bytes in the file.
    pub fn array<'a>(&'a mut self, key: &'a str) -> Result<Option<Array<'a>>, IoError> {
        let Some(index) = self.zip.index_for_name(&format!("{key}.npy")) else { return Ok(None) };
        let path = self.path.as_path();
        let bad = |what: String| IoError::malformed(path, format!("array {key:?}: {what}"));
        let mut reader = self.zip.by_index(index).map_err(|e| bad(e.to_string()))?;
        let (inflated, deflated) = (reader.size(), reader.compressed_size());
        if deflated > self.file_bytes || inflated > deflated.saturating_mul(MAX_INFLATION).saturating_add(64) {
            return Err(bad(format!("claims {inflated} bytes, which cannot be in this file")));
        }
        if inflated > MAX_PACKED && inflated > deflated.saturating_mul(MAX_GROWTH) {
            let (from, to) = (deflated as f64 / 1e6, inflated as f64 / 1e6);
            let what =
                format!("{from:.1} MB in the file would become {to:.0} MB, more than {MAX_GROWTH} times as much");
            return Err(bad(what));
        }
        let (header, header_bytes) = Header::read(&mut reader).map_err(|e| bad(e.to_string()))?;
        let bytes = header.count().and_then(|n| n.checked_mul(header.dtype.size)).map(|n| n as u64);
        if bytes.and_then(|bytes| bytes.checked_add(header_bytes as u64)) != Some(inflated) {
            let (shape, size) = (&header.shape, header.dtype.size);
            return Err(bad(format!("shape {shape:?} of {size}-byte values does not fit its {inflated} bytes")));
        }
        Ok(Some(Array { path, key, header, reader }))
    }

    /// Opens an array that must be there.
    pub fn required<'a>(&'a mut self, key: &'a str) -> Result<Array<'a>, IoError> {
        let keys = self.keys().join(", ");
        let missing = IoError::malformed(&self.path, format!("there is no array {key:?}, only: {keys}"));
        self.array(key)?.ok_or(missing)
    }
}

impl Array<'_> {
    /// The file that it is in.
    pub fn path(&self) -> &Path {
        self.path
    }

    /// An error about this array.
    pub fn bad(&self, what: impl std::fmt::Display) -> IoError {
        IoError::malformed(self.path, format!("array {:?}: {what}", self.key))
    }

    /// Sides of the array, where it has `D` of them.
    pub fn shape<const D: usize>(&self) -> Result<[usize; D], IoError> {
        let shape = self.header.shape.as_slice();
        shape.try_into().map_err(|_| self.bad(format!("shape {shape:?}, but {D} sides are expected")))
    }

    /// Number of rows of a table whose rows are `row` long, in any number of leading sides.
    pub fn rows(&self, row: &[usize]) -> Result<usize, IoError> {
        let shape = self.header.shape.as_slice();
        match shape.strip_suffix(row) {
            Some(&[rows]) => Ok(rows),
            _ => Err(self.bad(format!("shape {shape:?}, but rows of {row:?} are expected"))),
        }
    }

    /// Hands all values to `sink` in the order in which they are stored.
    pub fn for_each(mut self, mut sink: impl FnMut(f64)) -> Result<(), IoError> {
        if matches!(self.header.dtype.kind, Kind::Unicode | Kind::Bytes) {
            return Err(self.bad("holds text, but numbers are expected"));
        }
        let dtype = self.header.dtype;
        let values_left = self.header.count().unwrap_or(0);
        self.for_each_block(values_left * dtype.size, |block| dtype.decode(block, &mut sink))
    }

    fn for_each_block(&mut self, bytes: usize, mut take: impl FnMut(&[u8])) -> Result<(), IoError> {
        let mut block = vec![0u8; BLOCK.min(bytes)];
        let mut left = bytes;
        while left > 0 {
            let now = left.min(BLOCK);
            self.reader.read_exact(&mut block[..now]).map_err(|e| self.bad(e))?;
            take(&block[..now]);
            left -= now;
        }
        // Reading on to the end makes the archive compare its checksum.
        match self.reader.read(&mut [0u8; 1]) {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.bad("goes on after its last value")),
            Err(e) => Err(self.bad(e)),
        }
    }

    /// All values in C order.
    fn collect<T: Copy + Default>(self, mut to: impl FnMut(f64) -> T) -> Result<Vec<T>, IoError> {
        let (shape, fortran) = (self.header.shape.clone(), self.header.fortran_order);
        let mut values = Vec::with_capacity(self.header.count().unwrap_or(0));
        self.for_each(|value| values.push(to(value)))?;
        Ok(if fortran { c_from_fortran(&values, &shape) } else { values })
    }

    /// All values as float32, C order.
    pub fn f32s(self) -> Result<Vec<f32>, IoError> {
        self.collect(|v| v as f32)
    }

    /// All values as float64, C order.
    pub fn f64s(self) -> Result<Vec<f64>, IoError> {
        self.collect(|v| v)
    }

    /// All values as whole numbers from `min` to `max`, C order.
    pub fn integers(self, min: i64, max: i64) -> Result<Vec<i64>, IoError> {
        let (path, key) = (self.path, self.key);
        let values = self.f64s()?;
        let convert = |(at, &v): (usize, &f64)| {
            if v.fract() == 0.0 && v >= min as f64 && v <= max as f64 {
                return Ok(v as i64);
            }
            let what = format!("array {key:?}: value {at} is {v}, not a whole number from {min} to {max}");
            Err(IoError::malformed(path, what))
        };
        values.iter().enumerate().map(convert).collect()
    }

    /// All values as indices, C order.
    pub fn indices(self) -> Result<Vec<u32>, IoError> {
        Ok(self.integers(0, i64::from(u32::MAX))?.into_iter().map(|v| v as u32).collect())
    }

    /// The only value.
    pub fn scalar(self) -> Result<f64, IoError> {
        if self.header.count() != Some(1) {
            return Err(self.bad(format!("shape {:?}, but one number is expected", self.header.shape)));
        }
        Ok(self.f64s()?[0])
    }

    /// A byte array as it is.
    pub fn bytes(mut self) -> Result<Vec<u8>, IoError> {
        if self.header.dtype.size != 1 || self.header.shape.len() != 1 {
            return Err(self.bad("a row of bytes is expected"));
        }
        let count = self.header.count().unwrap_or(0);
        let mut bytes = Vec::with_capacity(count);
        self.for_each_block(count, |block| bytes.extend_from_slice(block))?;
        Ok(bytes)
    }

    /// A row of NumPy strings, or one text with a list of them as JSON.
    pub fn texts(mut self) -> Result<Vec<String>, IoError> {
        let dtype = self.header.dtype;
        let is_row = self.header.shape.len() == 1 && matches!(dtype.kind, Kind::Unicode | Kind::Bytes);
        if !is_row {
            let (path, key) = (self.path.to_owned(), self.key.to_owned());
            let text = self.text()?;
            return serde_json::from_str(&text)
                .map_err(|e| IoError::malformed(path, format!("array {key:?}: a list of names is expected: {e}")));
        }
        let count = self.header.count().unwrap_or(0);
        let mut bytes = Vec::new();
        self.for_each_block(count * dtype.size, |block| bytes.extend_from_slice(block))?;
        let text = |part: &[u8]| match dtype.kind {
            Kind::Unicode => utf32(part, dtype.big_endian),
            _ => String::from_utf8(part.to_vec()).ok(),
        };
        let trimmed = |text: String| text.trim_end_matches('\0').to_owned();
        let texts: Option<Vec<String>> =
            bytes.chunks_exact(dtype.size.max(1)).map(|part| text(part).map(trimmed)).collect();
        texts.ok_or_else(|| self.bad("is not valid text"))
    }

    /// Text: one NumPy string, or UTF-8 as bytes.
    pub fn text(mut self) -> Result<String, IoError> {
        let dtype = self.header.dtype;
        let count = self.header.count().unwrap_or(0);
        let one = count == 1 && matches!(dtype.kind, Kind::Unicode | Kind::Bytes);
        let row = dtype.kind == Kind::Uint && dtype.size == 1 && self.header.shape.len() == 1;
        if !one && !row {
            return Err(self.bad("one text is expected"));
        }
        let mut bytes = Vec::new();
        self.for_each_block(count * dtype.size, |block| bytes.extend_from_slice(block))?;
        let text = match dtype.kind {
            Kind::Unicode => utf32(&bytes, dtype.big_endian),
            _ => String::from_utf8(bytes).ok(),
        };
        let text = text.ok_or_else(|| self.bad("is not valid text"))?;
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

fn utf32(bytes: &[u8], big_endian: bool) -> Option<String> {
    let code = |c: &[u8; 4]| if big_endian { u32::from_be_bytes(*c) } else { u32::from_le_bytes(*c) };
    bytes.as_chunks::<4>().0.iter().map(|c| char::from_u32(code(c))).collect()
}

/// Reorders values from first-index-fastest to last-index-fastest.
fn c_from_fortran<T: Copy + Default>(values: &[T], shape: &[usize]) -> Vec<T> {
    let mut out = vec![T::default(); values.len()];
    let mut index = vec![0usize; shape.len()];
    for &value in values {
        let at = index.iter().zip(shape).fold(0, |at, (&i, &side)| at * side + i);
        out[at] = value;
        for (i, &side) in index.iter_mut().zip(shape) {
            *i += 1;
            if *i < side {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// A number type that can be written.
pub trait Scalar: Copy {
    const DESCR: &'static str;
    fn append(self, bytes: &mut Vec<u8>);
}

macro_rules! scalar {
    ($($t:ty => $descr:literal),*) => {
        $(impl Scalar for $t {
            const DESCR: &'static str = $descr;
            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        })*
    };
}
scalar!(f32 => "<f4", f64 => "<f8", i32 => "<i4", u32 => "<u4", u16 => "<u2", u8 => "|u1");

/// Writes arrays into a new archive.
pub struct Writer<W: Write + Seek> {
    zip: ZipWriter<W>,
}

impl<W: Write + Seek> Writer<W> {
    pub fn new(inner: W) -> Self {
        Self { zip: ZipWriter::new(inner) }
    }

    /// Writes an array of `shape`, C order; `values` must be as many as the shape says.
    pub fn array<T: Scalar>(
        &mut self,
        key: &str,
        shape: &[usize],
        values: impl IntoIterator<Item = T>,
    ) -> io::Result<()> {
        self.start(key, T::DESCR, shape, shape.iter().product::<usize>() * size_of::<T>())?;
        let mut block = Vec::with_capacity(BLOCK + 8);
        for value in values {
            value.append(&mut block);
            if block.len() >= BLOCK {
                self.zip.write_all(&block)?;
                block.clear();
            }
        }
        self.zip.write_all(&block)
    }

    /// Writes one text as a NumPy string. It must not end in NUL, which NumPy would drop.
    pub fn text(&mut self, key: &str, text: &str) -> io::Result<()> {
        // NumPy has no strings of length 0: its empty string is one NUL.
        let codes: Vec<u32> = if text.is_empty() { vec![0] } else { text.chars().map(u32::from).collect() };
        self.start(key, &format!("<U{}", codes.len()), &[], 4 * codes.len())?;
        let bytes: Vec<u8> = codes.iter().flat_map(|code| code.to_le_bytes()).collect();
        self.zip.write_all(&bytes)
    }

    fn start(&mut self, key: &str, descr: &str, shape: &[usize], bytes: usize) -> io::Result<()> {
        // Level 1: float positions hardly pack, at any level.
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(1))
            .large_file(bytes > 1 << 31);
        self.zip.start_file(format!("{key}.npy"), options).map_err(io::Error::from)?;
        self.zip.write_all(&Header::encode(descr, shape))
    }

    /// Writes the table of contents.
    pub fn finish(self) -> io::Result<()> {
        self.zip.finish().map(drop).map_err(io::Error::from)
    }
}
