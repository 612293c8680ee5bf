//! The binary container: records of a name, properties and records within.
//!
//! | part | bytes |
//! |---|---|
//! | head | `Kaydara FBX Binary  \0`, 1a 00, version (u32) |
//! | record | end of the record, number of properties, their bytes (u32 each; u64 from version 7500 on), length of the name (u8), name, properties, records within and an empty one to end them |
//! | property | a letter for its type, then its value; texts and raw bytes behind their length (u32); arrays behind length, encoding, bytes (u32 each) |
//! | foot | fixed bytes, padding to 16, version, 120 zeros, fixed bytes |

use std::cell::RefCell;
use std::io::{self, Write};

use flate2::{Compress, Compression, FlushCompress, Status};

/// From here on offsets have 64 bits.
const WIDE: u32 = 7500;
/// Arrays of fewer bytes are not compressed.
const SMALL: usize = 128;
/// The Autodesk SDK takes files whose identity, time of creation and foot belong together; these do.
pub const FILE_ID: [u8; 16] = *b"\x28\xb3\x2a\xeb\xb6\x24\xcc\xc2\xbf\xc8\xb0\x2a\xa9\x2b\xfc\xf1";
/// Belongs to [`FILE_ID`].
pub const CREATION_TIME: &str = "1970-01-01 10:00:00:000";
const FOOT: [u8; 16] = *b"\xfa\xbc\xab\x09\xd0\xc8\xd4\x66\xb1\x76\xfb\x83\x1c\xf7\x26\x7e";
const END: [u8; 16] = *b"\xf8\x5a\x8c\x6a\xde\xf5\xd9\x7e\xec\xe9\x0c\xe3\x75\x8f\x29\x0b";

thread_local! {
    /// One for all arrays: it is some 300 kB, and a file has many small arrays.
    static DEFLATER: RefCell<Compress> = RefCell::new(Compress::new(Compression::fast(), true));
}

/// Bytes as a zlib stream.
fn deflated(bytes: &[u8]) -> io::Result<Vec<u8>> {
    DEFLATER.with_borrow_mut(|deflater| {
        deflater.reset();
        let mut out = Vec::with_capacity(bytes.len() / 2 + 64);
        loop {
            let rest = &bytes[deflater.total_in() as usize..];
            let flush = if rest.is_empty() { FlushCompress::Finish } else { FlushCompress::None };
            if deflater.compress_vec(rest, &mut out, flush).map_err(io::Error::other)? == Status::StreamEnd {
                out.shrink_to_fit();
                return Ok(out);
            }
            out.reserve(out.capacity().max(64));
        }
    })
}

/// A record.
pub struct Record {
    name: &'static str,
    properties: Vec<u8>,
    count: usize,
    children: Vec<Record>,
}

impl Record {
    /// Without properties yet.
    pub fn new(name: &'static str) -> Self {
        Self { name, properties: Vec::new(), count: 0, children: Vec::new() }
    }

    fn push(mut self, kind: u8, bytes: &[u8]) -> Self {
        self.properties.push(kind);
        self.properties.extend_from_slice(bytes);
        self.count += 1;
        self
    }

    fn sized(mut self, kind: u8, bytes: &[u8]) -> Self {
        self.properties.push(kind);
        self.properties.extend((bytes.len() as u32).to_le_bytes());
        self.properties.extend_from_slice(bytes);
        self.count += 1;
        self
    }

    /// A truth value.
    pub fn bool(self, value: bool) -> Self {
        self.push(b'C', &[u8::from(value)])
    }

    /// A whole number.
    pub fn i32(self, value: i32) -> Self {
        self.push(b'I', &value.to_le_bytes())
    }

    /// A whole number of 64 bits: ids and times.
    pub fn i64(self, value: i64) -> Self {
        self.push(b'L', &value.to_le_bytes())
    }

    /// A number.
    pub fn f64(self, value: f64) -> Self {
        self.push(b'D', &value.to_le_bytes())
    }

    /// A text.
    pub fn text(self, value: &str) -> Self {
        self.sized(b'S', value.as_bytes())
    }

    /// The name of an object and its class, as binary files write them.
    pub fn object(self, name: &str, class: &str) -> Self {
        // A zero would end the name.
        self.text(&format!("{}\0\u{1}{class}", name.replace('\0', " ")))
    }

    /// Bytes.
    pub fn raw(self, value: &[u8]) -> Self {
        self.sized(b'R', value)
    }

    fn array(mut self, kind: u8, count: usize, bytes: Vec<u8>) -> io::Result<Self> {
        let (encoding, bytes) = match bytes.len() < SMALL {
            true => (0u32, bytes),
            false => (1, deflated(&bytes)?),
        };
        self.properties.push(kind);
        for number in [count as u32, encoding, bytes.len() as u32] {
            self.properties.extend(number.to_le_bytes());
        }
        self.properties.extend(bytes);
        self.count += 1;
        Ok(self)
    }

    /// An array of numbers.
    pub fn f64s(self, values: impl IntoIterator<Item = f64>) -> io::Result<Self> {
        let bytes: Vec<u8> = values.into_iter().flat_map(f64::to_le_bytes).collect();
        self.array(b'd', bytes.len() / 8, bytes)
    }

    /// An array of short numbers.
    pub fn f32s(self, values: impl IntoIterator<Item = f32>) -> io::Result<Self> {
        let bytes: Vec<u8> = values.into_iter().flat_map(f32::to_le_bytes).collect();
        self.array(b'f', bytes.len() / 4, bytes)
    }

    /// An array of whole numbers.
    pub fn i32s(self, values: impl IntoIterator<Item = i32>) -> io::Result<Self> {
        let bytes: Vec<u8> = values.into_iter().flat_map(i32::to_le_bytes).collect();
        self.array(b'i', bytes.len() / 4, bytes)
    }

    /// An array of times.
    pub fn i64s(self, values: impl IntoIterator<Item = i64>) -> io::Result<Self> {
        let bytes: Vec<u8> = values.into_iter().flat_map(i64::to_le_bytes).collect();
        self.array(b'l', bytes.len() / 8, bytes)
    }

    /// A record within.
    pub fn child(mut self, child: Record) -> Self {
        self.children.push(child);
        self
    }

    /// Records within.
    pub fn children(mut self, children: impl IntoIterator<Item = Record>) -> Self {
        self.children.extend(children);
        self
    }

    /// Bytes of this record and all within; the tree is a few levels deep.
    fn size(&self, wide: bool) -> u64 {
        let within: u64 = self.children.iter().map(|child| child.size(wide)).sum();
        head_size(wide) + self.name.len() as u64 + self.properties.len() as u64 + within + self.end_size(wide)
    }

    fn end_size(&self, wide: bool) -> u64 {
        if self.children.is_empty() && self.count > 0 { 0 } else { head_size(wide) }
    }

    /// Writes the record, which starts at `place`; returns where it ends.
    fn write(&self, to: &mut impl Write, place: u64, wide: bool) -> io::Result<u64> {
        let end = place + self.size(wide);
        for number in [end, self.count as u64, self.properties.len() as u64] {
            match wide {
                true => to.write_all(&number.to_le_bytes())?,
                false => to.write_all(&(number as u32).to_le_bytes())?,
            }
        }
        to.write_all(&[self.name.len() as u8])?;
        to.write_all(self.name.as_bytes())?;
        to.write_all(&self.properties)?;
        let mut at = place + head_size(wide) + self.name.len() as u64 + self.properties.len() as u64;
        for child in &self.children {
            at = child.write(to, at, wide)?;
        }
        to.write_all(&vec![0; self.end_size(wide) as usize])?;
        Ok(end)
    }
}

fn head_size(wide: bool) -> u64 {
    if wide { 25 } else { 13 }
}

/// Version of a file with these records: 7400, or 7500 where offsets do not fit 32 bits.
pub fn version(records: &[Record]) -> u32 {
    let bytes: u64 = records.iter().map(|record| record.size(false)).sum();
    if bytes < u64::from(u32::MAX) - 4096 { 7400 } else { WIDE }
}

/// Writes a whole file.
pub fn write(records: &[Record], version: u32, to: &mut impl Write) -> io::Result<()> {
    let wide = version >= WIDE;
    to.write_all(b"Kaydara FBX Binary  \0\x1a\0")?;
    to.write_all(&version.to_le_bytes())?;
    let mut at = 27;
    for record in records {
        at = record.write(to, at, wide)?;
    }
    to.write_all(&vec![0; head_size(wide) as usize])?;
    to.write_all(&FOOT)?;
    to.write_all(&[0; 4])?;
    at += head_size(wide) + 20;
    to.write_all(&vec![0; 16 - (at % 16) as usize])?;
    to.write_all(&version.to_le_bytes())?;
    to.write_all(&[0; 120])?;
    to.write_all(&END)
}

/// A property of an object, as it stands in `Properties70`.
pub struct Properties(Record);

impl Properties {
    /// None yet.
    pub fn new() -> Self {
        Self(Record::new("Properties70"))
    }

    fn with(self, name: &str, kind: &str, label: &str, flags: &str, value: impl FnOnce(Record) -> Record) -> Self {
        let record = Record::new("P").text(name).text(kind).text(label).text(flags);
        Self(self.0.child(value(record)))
    }

    /// A whole number.
    pub fn int(self, name: &str, value: i32) -> Self {
        self.with(name, "int", "Integer", "", |p| p.i32(value))
    }

    /// A choice.
    pub fn choice(self, name: &str, value: i32) -> Self {
        self.with(name, "enum", "", "", |p| p.i32(value))
    }

    /// A number.
    pub fn number(self, name: &str, value: f64) -> Self {
        self.with(name, "double", "Number", "", |p| p.f64(value))
    }

    /// A number that curves may move.
    pub fn animated(self, name: &str, value: f64) -> Self {
        self.with(name, "Number", "", "A", |p| p.f64(value))
    }

    /// A time in ticks.
    pub fn time(self, name: &str, ticks: i64) -> Self {
        self.with(name, "KTime", "Time", "", |p| p.i64(ticks))
    }

    /// A colour.
    pub fn color(self, name: &str, rgb: [f64; 3]) -> Self {
        self.with(name, "Color", "", "A", |p| rgb.into_iter().fold(p, Record::f64))
    }

    /// A text.
    pub fn string(self, name: &str, value: &str) -> Self {
        self.with(name, "KString", "", "", |p| p.text(value))
    }

    /// A text of the user's own.
    pub fn user_string(self, name: &str, value: &str) -> Self {
        self.with(name, "KString", "", "U", |p| p.text(value))
    }

    /// Translation, rotation or scale of a node: the name is the type too.
    pub fn local(self, name: &str, value: [f64; 3]) -> Self {
        self.with(name, name, "", "A", |p| value.into_iter().fold(p, Record::f64))
    }

    /// All of them.
    pub fn done(self) -> Record {
        self.0
    }
}
