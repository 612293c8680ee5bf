//! One USD layer: prims, properties and metadata, with values that are decoded when they are asked for.
//!
//! Text (`usda`) and binary (`usdc`) files make the same tables; only values differ: a span of the text, or a value
//! representation of the binary file. The tables are flat and small: a file of many tiny prims costs a few times its
//! own size.

use crate::IoError;

use super::blob::Blob;
use super::spline::Spline;
use super::{usda, usdc};

/// Index of a token; [`NONE`] for no token.
pub type Token = u32;
/// No prim, no token, end of a field set.
pub const NONE: u32 = u32::MAX;

/// A value that is not decoded yet: a span of a text (start, end as 32 bits each) or a representation of a binary file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueRef(pub u64);

/// Names, one after the other in one text.
#[derive(Default)]
pub struct Tokens {
    /// All of them.
    pub text: String,
    /// [tokens] where each ends in `text`.
    pub ends: Vec<u32>,
}

impl Tokens {
    /// The token's text; empty if there is no such token.
    pub fn get(&self, token: Token) -> &str {
        let at = token as usize;
        let start = if at == 0 { Some(0) } else { self.ends.get(at - 1).copied() };
        let end = self.ends.get(at).copied();
        start.zip(end).and_then(|(start, end)| self.text.get(start as usize..end as usize)).unwrap_or_default()
    }

    /// Appends a token.
    pub fn push(&mut self, text: &str) -> Token {
        self.text.push_str(text);
        self.ends.push(self.text.len() as u32);
        self.ends.len() as u32 - 1
    }
}

/// A key and its value.
#[derive(Clone, Copy)]
pub struct Field {
    /// Name: "default", "timeSamples", "typeName", "customData"...
    pub key: Token,
    /// Not decoded.
    pub value: ValueRef,
}

/// A prim, or a variant of one (named `{set=variant}`).
#[derive(Clone, Copy)]
pub struct Prim {
    /// Its own name, without parents.
    pub name: Token,
    /// Prim above; [`NONE`] for the root that holds the layer's metadata.
    pub parent: u32,
    /// First entry in `Layer::field_sets`.
    pub fields: u32,
}

/// An attribute or relationship. Text files may have several of one name, each with some of the fields.
#[derive(Clone, Copy)]
pub struct Property {
    /// Its prim.
    pub prim: u32,
    /// Name with namespaces: "primvars:st".
    pub name: Token,
    /// First entry in `Layer::field_sets`.
    pub fields: u32,
}

/// How values are decoded.
pub enum Source {
    /// The whole text.
    Text(String),
    /// What values of a binary file refer to.
    Binary(Box<usdc::Tables>),
}

/// A layer. Prim 0 is the root.
pub struct Layer {
    /// Its bytes.
    pub blob: Blob,
    /// How values are decoded.
    pub source: Source,
    /// Names.
    pub tokens: Tokens,
    /// Keys and values that field sets name.
    pub fields: Vec<Field>,
    /// Runs of indices into `fields`, each ended by [`NONE`].
    pub field_sets: Vec<u32>,
    /// Parents come before their children.
    pub prims: Vec<Prim>,
    /// Sorted by prim.
    pub properties: Vec<Property>,
    /// Prims but the root, sorted by parent.
    pub children: Vec<u32>,
}

/// One layer above or below another, or another layer in its place: what a reference, payload or sublayer names.
#[derive(Clone, Debug, PartialEq)]
pub struct Arc {
    /// File; empty for the layer itself.
    pub asset: String,
    /// Prim in it; empty for the default prim.
    pub prim: String,
    /// Time in this layer = `scale` x time there + `offset`.
    pub offset: f64,
    /// See `offset`.
    pub scale: f64,
}

impl Layer {
    /// Reads the structure of a layer, text or binary.
    pub fn open(blob: Blob) -> Result<Self, IoError> {
        let head = blob.read(0, blob.len().min(8), "the head")?;
        if head.starts_with(b"PXR-USDC") {
            return usdc::open(blob);
        }
        if head.starts_with(b"#usda") {
            return usda::open(blob);
        }
        Err(blob.malformed("is no USD layer: it starts with neither #usda nor PXR-USDC"))
    }

    /// Puts properties and children in the order that lookups rely on.
    pub fn sort(&mut self) {
        self.properties.sort_by_key(|property| property.prim);
        self.children = (1..self.prims.len() as u32).collect();
        let prims = &self.prims;
        self.children.sort_by_key(|&child| prims[child as usize].parent);
    }

    /// Properties of a prim.
    pub fn properties_of(&self, prim: u32) -> &[Property] {
        let start = self.properties.partition_point(|p| p.prim < prim);
        let count = self.properties[start..].partition_point(|p| p.prim == prim);
        &self.properties[start..start + count]
    }

    /// Children of a prim, variants among them.
    pub fn children_of(&self, prim: u32) -> &[u32] {
        let parent = |child: &u32| self.prims[*child as usize].parent;
        let start = self.children.partition_point(|c| parent(c) < prim);
        let count = self.children[start..].partition_point(|c| parent(c) == prim);
        &self.children[start..start + count]
    }

    /// A field of a prim.
    pub fn prim_field(&self, prim: u32, key: &str) -> Option<ValueRef> {
        self.field(self.prims.get(prim as usize)?.fields, key)
    }

    /// Whether a prim has a property of this name.
    pub fn has_property(&self, prim: u32, name: &str) -> bool {
        self.properties_of(prim).iter().any(|p| self.tokens.get(p.name) == name)
    }

    /// A field of a property.
    pub fn property_field(&self, prim: u32, name: &str, key: &str) -> Option<ValueRef> {
        let own = self.properties_of(prim).iter().filter(|p| self.tokens.get(p.name) == name);
        own.filter_map(|p| self.field(p.fields, key)).next()
    }

    fn field(&self, start: u32, key: &str) -> Option<ValueRef> {
        let set = self.field_sets.get(start as usize..)?.iter().take_while(|f| **f != NONE);
        let fields = set.filter_map(|&f| self.fields.get(f as usize));
        fields.filter(|field| self.tokens.get(field.key) == key).map(|field| field.value).next()
    }

    /// All numbers of a value, in order; arrays and tuples flattened. Matrices row by row, quaternions real part first.
    pub fn f64s(&self, value: ValueRef, what: &str) -> Result<Vec<f64>, IoError> {
        match &self.source {
            Source::Text(text) => usda::f64s(self, text, value, what),
            Source::Binary(_) => usdc::f64s(self, value, what),
        }
    }

    /// As [`Layer::f64s`] in float32: positions, texture coordinates, weights.
    pub fn f32s(&self, value: ValueRef, what: &str) -> Result<Vec<f32>, IoError> {
        match &self.source {
            Source::Text(text) => usda::f32s(self, text, value, what),
            Source::Binary(_) => usdc::f32s(self, value, what),
        }
    }

    /// Whole numbers.
    pub fn ints(&self, value: ValueRef, what: &str) -> Result<Vec<i64>, IoError> {
        match &self.source {
            Source::Text(text) => usda::ints(self, text, value, what),
            Source::Binary(_) => usdc::ints(self, value, what),
        }
    }

    /// Tokens, strings, asset paths or prim paths; the items of a list, in order.
    pub fn texts(&self, value: ValueRef, what: &str) -> Result<Vec<String>, IoError> {
        match &self.source {
            Source::Text(text) => usda::texts(self, text, value, what),
            Source::Binary(tables) => usdc::texts(self, tables, value, what),
        }
    }

    /// Times and values of time samples, rising.
    pub fn samples(&self, value: ValueRef, what: &str) -> Result<Vec<(f64, ValueRef)>, IoError> {
        let mut samples = match &self.source {
            Source::Text(text) => usda::samples(self, text, value, what)?,
            Source::Binary(_) => usdc::samples(self, value, what)?,
        };
        if samples.iter().any(|(time, _)| !time.is_finite()) {
            return Err(self.blob.malformed(format!("{what}: a time is not finite")));
        }
        samples.retain(|(_, value)| !self.is_blocked(*value));
        samples.sort_by(|a, b| a.0.total_cmp(&b.0));
        samples.dedup_by(|later, earlier| later.0 == earlier.0);
        Ok(samples)
    }

    /// A curve.
    pub fn spline(&self, value: ValueRef, what: &str) -> Result<Spline, IoError> {
        let spline = match &self.source {
            Source::Text(text) => Spline::from_text(usda::text_of(text, value)),
            Source::Binary(_) => Spline::from_bytes(&usdc::spline(self, value, what)?),
        };
        spline.map_err(|why| {
            self.blob.unsupported(format!(
                "{what} is animated by a spline that is not read ({why}); write it with time samples"
            ))
        })
    }

    /// Entries of a dictionary.
    pub fn dictionary(&self, value: ValueRef, what: &str) -> Result<Vec<(String, ValueRef)>, IoError> {
        match &self.source {
            Source::Text(text) => usda::dictionary(self, text, value, what),
            Source::Binary(tables) => usdc::dictionary(self, tables, value, what),
        }
    }

    /// References, payloads or sublayers.
    pub fn arcs(&self, value: ValueRef, what: &str) -> Result<Vec<Arc>, IoError> {
        match &self.source {
            Source::Text(text) => usda::arcs(self, text, value, what),
            Source::Binary(tables) => usdc::arcs(self, tables, value, what),
        }
    }

    /// Whether the value says "no value".
    pub fn is_blocked(&self, value: ValueRef) -> bool {
        match &self.source {
            Source::Text(text) => usda::is_blocked(text, value),
            Source::Binary(_) => usdc::is_blocked(value),
        }
    }

    /// The first of [`Layer::texts`].
    pub fn text(&self, value: ValueRef, what: &str) -> Result<String, IoError> {
        Ok(self.texts(value, what)?.into_iter().next().unwrap_or_default())
    }
}
