//! Objects and properties: what Alembic puts into an Ogawa container.
//!
//! | group | children |
//! |---|---|
//! | root | file version, library version, top object (group), metadata, time samplings, shared metadata strings |
//! | object | its properties (group, a compound), child objects (groups), names of the child objects (data) |
//! | compound property | properties (groups), their headers (data) |
//! | scalar property | one data per stored sample |
//! | array property | two data per stored sample: values, dimensions (empty: one dimension) |
//!
//! Values follow a hash of 16 bytes. Equal samples at the start and at the end of a property are stored once.

use std::path::Path;
use std::rc::Rc;

use super::ogawa::{Data, Group, Ogawa};
use crate::IoError;

/// Bytes of the hash before the values of a sample, and of the hashes behind the names of child objects.
const SAMPLE_HASH: u64 = 16;
const OBJECT_HASH: usize = 32;
/// Time per cycle of samplings that list all times.
const ACYCLIC: f64 = f64::MAX / 32.0;

/// An open Alembic file.
pub struct Archive {
    /// The container.
    pub ogawa: Ogawa,
    samplings: Vec<TimeSampling>,
    /// Strings that headers name by number.
    metadata: Vec<MetaData>,
    /// Objects that may still be opened: a small file can name one object many times.
    budget: std::cell::Cell<u64>,
}

/// `key=value;key=value`. Shared: many headers name one string.
#[derive(Clone, Debug, Default)]
pub struct MetaData(Rc<str>);

/// When samples are.
#[derive(Clone, Debug)]
pub enum TimeSampling {
    /// All times, in seconds.
    Acyclic(Vec<f64>),
    /// Times within one cycle, and its length.
    Cyclic(Vec<f64>, f64),
}

/// An object with its children's headers.
pub struct Object {
    /// Its own name; empty at the top.
    pub name: String,
    /// `/a/b`.
    pub path: String,
    /// Schema and more.
    pub metadata: MetaData,
    group: Group,
    children: Vec<(String, MetaData)>,
}

/// Number types, in the order of the file format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pod {
    /// Integers and booleans of 1, 2, 4 or 8 bytes.
    Integer(u8),
    /// Floats of 2, 4 or 8 bytes.
    Float(u8),
    /// Text, ended by zeros.
    Text,
}

/// What a property is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A folder of properties.
    Compound,
    /// One value, of `extent` numbers, per sample.
    Scalar,
    /// Any number of values per sample.
    Array,
}

/// A property.
#[derive(Clone, Debug)]
pub struct Property {
    /// `P`, `.faceIndices`.
    pub name: String,
    /// Interpretation and scope.
    pub metadata: MetaData,
    /// Folder, value or array.
    pub kind: Kind,
    /// Type of its numbers.
    pub pod: Option<Pod>,
    /// Numbers per value.
    pub extent: usize,
    /// Samples, stored or repeated.
    pub samples: usize,
    first_changed: usize,
    last_changed: usize,
    sampling: usize,
    group: Group,
    /// For messages.
    place: String,
}

/// The properties of a compound, by position.
pub struct Compound {
    properties: Vec<Header>,
    group: Group,
    place: String,
}

struct Header {
    name: String,
    metadata: MetaData,
    kind: Kind,
    pod: Option<Pod>,
    extent: usize,
    samples: usize,
    first_changed: usize,
    last_changed: usize,
    sampling: usize,
}

impl Archive {
    /// Opens a file; the top object too.
    pub fn open(path: &Path) -> Result<(Self, Object), IoError> {
        let (ogawa, root) = Ogawa::open(path)?;
        if root.len() < 6 {
            return Err(ogawa.malformed(format!("the root has {} children, an Alembic file has 6", root.len())));
        }
        let samplings = read_samplings(&ogawa.all(&root, 4, "the time samplings")?)
            .ok_or_else(|| ogawa.malformed("the time samplings are cut off"))?;
        let metadata = read_shared_metadata(&ogawa.all(&root, 5, "the shared metadata")?)
            .ok_or_else(|| ogawa.malformed("the shared metadata is cut off"))?;
        let budget = std::cell::Cell::new(ogawa.bytes() / 8);
        let archive = Self { ogawa, samplings, metadata, budget };
        let group = archive.ogawa.group(&root, 2, "the top object")?;
        let top = archive.object(group, String::new(), String::new(), MetaData::default())?;
        Ok((archive, top))
    }

    fn object(&self, group: Group, name: String, path: String, metadata: MetaData) -> Result<Object, IoError> {
        let left = self.budget.get().checked_sub(1);
        self.budget.set(left.ok_or_else(|| self.ogawa.malformed("objects are named over and over"))?);
        let place = format!("object {path:?}");
        let last = group.len().wrapping_sub(1);
        let children = match group.has_data(last) {
            true => {
                let bytes = self.ogawa.all(&group, last, &place)?;
                let names = bytes.get(..bytes.len().saturating_sub(OBJECT_HASH)).unwrap_or_default();
                self.object_headers(names).ok_or_else(|| self.ogawa.malformed(format!("{place}: bad child names")))?
            }
            false => Vec::new(),
        };
        Ok(Object { name, path, metadata, group, children })
    }

    fn object_headers(&self, bytes: &[u8]) -> Option<Vec<(String, MetaData)>> {
        let mut at = Cursor(bytes);
        let mut headers = Vec::new();
        while !at.0.is_empty() {
            let length = at.u32()?;
            let name = at.text(length)?;
            let metadata = match at.take(1)?[0] {
                0xff => {
                    let length = at.u32()?;
                    MetaData::parse(&at.text(length)?)
                }
                shared => self.metadata.get(usize::from(shared))?.clone(),
            };
            headers.push((name, metadata));
        }
        Some(headers)
    }

    /// Number of child objects.
    pub fn child_count(&self, object: &Object) -> usize {
        object.children.len()
    }

    /// Child object `at`.
    pub fn child(&self, object: &Object, at: usize) -> Result<Object, IoError> {
        let (name, metadata) = &object.children[at];
        let path = format!("{}/{name}", object.path);
        // The properties come first.
        let group = self.ogawa.group(&object.group, at + 1, &format!("object {path:?}"))?;
        self.object(group, name.clone(), path, metadata.clone())
    }

    /// The properties of an object.
    pub fn properties(&self, object: &Object) -> Result<Compound, IoError> {
        let place = object.path.clone();
        match object.group.has_group(0) {
            true => {
                let group = self.ogawa.group(&object.group, 0, &place)?;
                self.compound(group, place)
            }
            false => Ok(Compound { properties: Vec::new(), group: Group::default(), place }),
        }
    }

    fn compound(&self, group: Group, place: String) -> Result<Compound, IoError> {
        let last = group.len().wrapping_sub(1);
        let properties = match group.has_data(last) {
            true => {
                let bytes = self.ogawa.all(&group, last, &place)?;
                self.property_headers(&bytes)
                    .ok_or_else(|| self.ogawa.malformed(format!("{place}: its list of properties is damaged")))?
            }
            false => Vec::new(),
        };
        Ok(Compound { properties, group, place })
    }

    fn property_headers(&self, bytes: &[u8]) -> Option<Vec<Header>> {
        let mut at = Cursor(bytes);
        let mut headers = Vec::new();
        while !at.0.is_empty() {
            headers.push(self.property_header(&mut at)?);
        }
        Some(headers)
    }

    /// Bits: 0-1 kind, 2-3 width of the numbers that follow, 4-7 number type, 8 sampling given, 9 first and last change
    /// given, 10 homogeneous, 11 constant, 12-19 extent, 20-27 shared metadata.
    fn property_header(&self, at: &mut Cursor) -> Option<Header> {
        let info = at.u32()?;
        let width = 1usize << (info >> 2 & 3).min(2);
        let kind = match info & 3 {
            0 => Kind::Compound,
            1 => Kind::Scalar,
            _ => Kind::Array,
        };
        let (mut samples, mut first_changed, mut last_changed, mut sampling) = (0, 0, 0, 0);
        if kind != Kind::Compound {
            samples = at.number(width)?;
            (first_changed, last_changed) = match () {
                () if info >> 9 & 1 == 1 => (at.number(width)?, at.number(width)?),
                () if info >> 11 & 1 == 1 => (0, 0),
                () => (1, samples.saturating_sub(1)),
            };
            if info >> 8 & 1 == 1 {
                sampling = at.number(width)?;
            }
        }
        let length = at.number(width)?;
        let name = at.text(length as u32)?;
        let metadata = match info >> 20 & 0xff {
            0xff => {
                let length = at.number(width)?;
                MetaData::parse(&at.text(length as u32)?)
            }
            shared => self.metadata.get(shared as usize)?.clone(),
        };
        let pod = Pod::from_code(info >> 4 & 15).filter(|_| kind != Kind::Compound);
        let extent = (info >> 12 & 0xff) as usize;
        Some(Header { name, metadata, kind, pod, extent, samples, first_changed, last_changed, sampling })
    }

    /// The property of this name, if it is there.
    pub fn property(&self, compound: &Compound, name: &str) -> Result<Option<Property>, IoError> {
        match compound.properties.iter().position(|header| header.name == name) {
            Some(at) => self.property_at(compound, at).map(Some),
            None => Ok(None),
        }
    }

    /// Property `at`.
    pub fn property_at(&self, compound: &Compound, at: usize) -> Result<Property, IoError> {
        let Header { name, metadata, kind, pod, extent, samples, first_changed, last_changed, sampling } =
            &compound.properties[at];
        let place = format!("{}/{name}", compound.place);
        let group = self.ogawa.group(&compound.group, at, &place)?;
        Ok(Property {
            name: name.clone(),
            metadata: metadata.clone(),
            kind: *kind,
            pod: *pod,
            extent: *extent,
            samples: *samples,
            first_changed: *first_changed,
            last_changed: *last_changed,
            sampling: *sampling,
            group,
            place,
        })
    }

    /// What lies in a compound property.
    pub fn inside(&self, property: &Property) -> Result<Compound, IoError> {
        self.compound(property.group.clone(), property.place.clone())
    }

    /// Seconds of each sample of a property; `most` of them at most.
    pub fn times(&self, property: &Property, most: usize) -> Result<Vec<f64>, IoError> {
        let sampling = self.samplings.get(property.sampling).ok_or_else(|| {
            let (place, which) = (&property.place, property.sampling);
            self.ogawa.malformed(format!("{place} names time sampling {which}, but there are {}", self.samplings.len()))
        })?;
        let count = property.samples.min(most);
        (0..count)
            .map(|t| sampling.time(t))
            .collect::<Option<_>>()
            .ok_or_else(|| self.ogawa.malformed(format!("{}: {count} samples, but fewer times", property.place)))
    }

    /// Where the values of sample `t` are, behind their hash.
    pub fn values(&self, property: &Property, t: usize) -> Result<Data, IoError> {
        let at = property.stored(t);
        let what = || format!("{}, sample {t}", property.place);
        let at = if property.kind == Kind::Array { 2 * at } else { at };
        let data = self.ogawa.data(&property.group, at, &what())?;
        if data.bytes == 0 {
            return Ok(data);
        }
        if data.bytes < SAMPLE_HASH {
            return Err(self.ogawa.malformed(format!("{}: {} bytes, too few for its hash", what(), data.bytes)));
        }
        Ok(Data { place: data.place + SAMPLE_HASH, bytes: data.bytes - SAMPLE_HASH })
    }

    /// The values of sample `t` as bytes.
    pub fn bytes(&self, property: &Property, t: usize) -> Result<Vec<u8>, IoError> {
        let data = self.values(property, t)?;
        let mut bytes = vec![0; data.bytes as usize];
        self.ogawa.fill(data, 0, &mut bytes, &property.place)?;
        Ok(bytes)
    }

    /// The values of sample `t` as numbers.
    pub fn floats(&self, property: &Property, t: usize) -> Result<Vec<f64>, IoError> {
        let bytes = self.bytes(property, t)?;
        match property.pod {
            Some(Pod::Float(4)) => Ok(bytes.as_chunks().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()),
            Some(Pod::Float(8)) => Ok(bytes.as_chunks().0.iter().map(|b| f64::from_le_bytes(*b)).collect()),
            other => Err(self.ogawa.malformed(format!("{} holds {other:?}, floats are expected", property.place))),
        }
    }

    /// The values of sample `t` as indices.
    pub fn indices(&self, property: &Property, t: usize) -> Result<Vec<u32>, IoError> {
        let bytes = self.bytes(property, t)?;
        match property.pod {
            Some(Pod::Integer(4)) => Ok(bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b)).collect()),
            other => Err(self.ogawa.malformed(format!("{} holds {other:?}, integers are expected", property.place))),
        }
    }

    /// An error about a property.
    pub fn wrong(&self, property: &Property, what: impl std::fmt::Display) -> IoError {
        self.ogawa.malformed(format!("{}: {what}", property.place))
    }
}

impl Compound {
    /// Number of properties.
    pub fn len(&self) -> usize {
        self.properties.len()
    }
}

impl Property {
    /// Which stored sample stands for sample `t`.
    fn stored(&self, t: usize) -> usize {
        if t < self.first_changed || self.is_constant() {
            0
        } else if t >= self.last_changed {
            self.last_changed - self.first_changed + 1
        } else {
            t - self.first_changed + 1
        }
    }

    /// Whether all samples are the same.
    pub fn is_constant(&self) -> bool {
        self.samples < 2
            || (self.first_changed == 0 && self.last_changed == 0)
            || self.last_changed < self.first_changed
    }

    /// Samples that are in the file.
    pub fn stored_samples(&self) -> usize {
        if self.kind == Kind::Array { self.group.len() / 2 } else { self.group.len() }
    }

    /// Whether samples `a` and `b` are the same bytes of the file.
    pub fn is_same(&self, a: usize, b: usize) -> bool {
        self.stored(a) == self.stored(b)
    }
}

impl MetaData {
    fn parse(text: &str) -> Self {
        Self(text.into())
    }

    /// The value of a key; empty where there is none.
    pub fn get(&self, key: &str) -> &str {
        let mut pairs = self.0.split(';').filter_map(|pair| pair.split_once('='));
        pairs.find(|(name, _)| *name == key).map_or("", |(_, value)| value)
    }
}

impl TimeSampling {
    fn time(&self, t: usize) -> Option<f64> {
        match self {
            Self::Acyclic(times) => times.get(t).copied(),
            Self::Cyclic(times, cycle) => {
                let place = times.get(t.checked_rem(times.len())?)?;
                Some(place + (t / times.len()) as f64 * cycle)
            }
        }
    }
}

impl Pod {
    fn from_code(code: u32) -> Option<Self> {
        Some(match code {
            0..=2 => Self::Integer(1),
            3 | 4 => Self::Integer(2),
            5 | 6 => Self::Integer(4),
            7 | 8 => Self::Integer(8),
            9 => Self::Float(2),
            10 => Self::Float(4),
            11 => Self::Float(8),
            12 | 13 => Self::Text,
            _ => return None,
        })
    }
}

/// Samplings: most samples (u32), time per cycle (f64), times per cycle (u32), times (f64).
fn read_samplings(bytes: &[u8]) -> Option<Vec<TimeSampling>> {
    let mut at = Cursor(bytes);
    let mut samplings = Vec::new();
    while !at.0.is_empty() {
        at.u32()?;
        let cycle = at.f64()?;
        let count = at.u32()? as usize;
        if count > at.0.len() / 8 {
            return None;
        }
        let times = (0..count).map(|_| at.f64()).collect::<Option<Vec<f64>>>()?;
        samplings.push(if cycle >= ACYCLIC {
            TimeSampling::Acyclic(times)
        } else {
            TimeSampling::Cyclic(times, cycle)
        });
    }
    Some(samplings)
}

/// Strings of at most 255 bytes behind their lengths; number 0 is the empty one.
fn read_shared_metadata(bytes: &[u8]) -> Option<Vec<MetaData>> {
    let mut at = Cursor(bytes);
    let mut list = vec![MetaData::default()];
    while !at.0.is_empty() {
        let length = at.take(1)?[0];
        list.push(MetaData::parse(&at.text(u32::from(length))?));
    }
    Some(list)
}

/// Takes numbers off the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn f64(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// A number of 1, 2 or 4 bytes.
    fn number(&mut self, width: usize) -> Option<usize> {
        let bytes = self.take(width)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    }

    fn text(&mut self, length: u32) -> Option<String> {
        Some(String::from_utf8_lossy(self.take(length as usize)?).into_owned())
    }
}
