//! Layers in binary form, version 0.8.0: what readers since 2018 know.
//!
//! Values first, as they come; then tokens, strings, fields, field sets, paths and specs, compressed; then the table of
//! contents, to which the header points.

use std::collections::HashMap;
use std::io::{self, Seek, SeekFrom, Write};

use crate::usd::half::half_bits;
use crate::usd::layer::NONE;
use crate::usd::write::doc::{Doc, Prim, Property, Value, Variants};

use super::codec::{fold, fold_ints};
use super::value::kind;
use super::{ATTRIBUTE, HEADER_BYTES, PRIM, RELATIONSHIP, ROOT, VARIANT, VARIANT_SET};

const ARRAY: u64 = 1 << 63;
const INLINED: u64 = 1 << 62;
const COMPRESSED: u64 = 1 << 61;
/// Shorter arrays are stored plainly.
const MIN_COMPRESSED: usize = 16;
/// Most numbers of a table.
const MAX_TABLE: usize = 1024;
const VERSION: [u8; 3] = [0, 8, 0];

/// The path of a child; below a variant there is no slash.
fn below(above: &str, name: &str) -> String {
    let slash = if above.ends_with('}') { "" } else { "/" };
    format!("{above}{slash}{name}")
}

/// Writes a layer from where `out` starts.
pub fn to_bytes<W: Write + Seek>(doc: &Doc, out: &mut W) -> io::Result<()> {
    let mut writer = Writer::new(out);
    // Token 0 cannot be a property's name: paths mark properties by the sign of their token.
    writer.token("");
    writer.zeros(HEADER_BYTES)?;
    writer.layer(doc)?;
    writer.finish()
}

/// A node of the tree of paths, in the order of the tree.
struct Node {
    token: i32,
    /// Nodes of its subtree, itself included.
    size: usize,
    has_sibling: bool,
}

struct Writer<'w, W> {
    out: &'w mut W,
    at: u64,
    tokens: Vec<String>,
    token_of: HashMap<String, u32>,
    strings: Vec<u32>,
    fields: Vec<(u32, u64)>,
    field_of: HashMap<(u32, u64), u32>,
    field_sets: Vec<u32>,
    set_of: HashMap<Vec<u32>, u32>,
    nodes: Vec<Node>,
    /// Paths of nodes, for relationships.
    path_of: HashMap<String, u32>,
    /// (path, field set, kind).
    specs: Vec<(u32, u32, i64)>,
}

impl<'w, W: Write + Seek> Writer<'w, W> {
    fn new(out: &'w mut W) -> Self {
        Self {
            out,
            at: 0,
            tokens: Vec::new(),
            token_of: HashMap::new(),
            strings: Vec::new(),
            fields: Vec::new(),
            field_of: HashMap::new(),
            field_sets: Vec::new(),
            set_of: HashMap::new(),
            nodes: Vec::new(),
            path_of: HashMap::new(),
            specs: Vec::new(),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn zeros(&mut self, count: u64) -> io::Result<()> {
        self.bytes(&vec![0; count as usize])
    }

    /// Starts a value: readers map arrays without a copy where they are aligned.
    fn align(&mut self) -> io::Result<u64> {
        self.zeros(self.at.next_multiple_of(8) - self.at)?;
        Ok(self.at)
    }

    fn token(&mut self, text: &str) -> u32 {
        // A null ends a token in the file.
        let text = text.replace('\0', " ");
        if let Some(&token) = self.token_of.get(&text) {
            return token;
        }
        let token = self.tokens.len() as u32;
        self.tokens.push(text.clone());
        self.token_of.insert(text, token);
        token
    }

    fn string(&mut self, text: &str) -> u32 {
        let token = self.token(text);
        if let Some(at) = self.strings.iter().position(|s| *s == token) {
            return at as u32;
        }
        self.strings.push(token);
        self.strings.len() as u32 - 1
    }

    fn set(&mut self, fields: Vec<(&str, u64)>) -> u32 {
        let mut set = Vec::with_capacity(fields.len());
        for (key, value) in fields {
            let field = (self.token(key), value);
            let next = self.fields.len() as u32;
            let index = *self.field_of.entry(field).or_insert(next);
            if index == next {
                self.fields.push(field);
            }
            set.push(index);
        }
        if let Some(&start) = self.set_of.get(&set) {
            return start;
        }
        let start = self.field_sets.len() as u32;
        self.field_sets.extend(&set);
        self.field_sets.push(NONE);
        self.set_of.insert(set, start);
        start
    }

    fn layer(&mut self, doc: &Doc) -> io::Result<()> {
        self.nodes.push(Node { token: 0, size: 1, has_sibling: false });
        self.path_of.insert("/".into(), 0);
        for (at, prim) in doc.prims.iter().enumerate() {
            self.place(prim, "", at + 1 < doc.prims.len());
        }
        self.nodes[0].size = self.nodes.len();
        let mut fields = Vec::new();
        for (key, value) in &doc.metadata {
            fields.push((*key, self.value(value)?));
        }
        let names: Vec<String> = doc.prims.iter().map(|p| p.name.clone()).collect();
        fields.push(("primChildren", self.token_vector(&names)?));
        let set = self.set(fields);
        self.specs.push((0, set, ROOT));
        doc.prims.iter().try_for_each(|prim| self.prim(prim, ""))
    }

    /// Numbers the paths of a prim, its properties, its children, its variants.
    fn place(&mut self, prim: &Prim, above: &str, has_sibling: bool) {
        self.place_at(prim, &below(above, &prim.name), &prim.name, has_sibling);
    }

    fn place_at(&mut self, prim: &Prim, path: &str, element: &str, has_sibling: bool) {
        let at = self.nodes.len();
        let token = self.token(element) as i32;
        self.nodes.push(Node { token, size: 1, has_sibling });
        self.path_of.insert(path.to_owned(), at as u32);
        let variants = prim.variants.as_ref().map_or(0, |variants| 1 + variants.of.len());
        let mut left = prim.properties.len() + prim.children.len() + variants;
        for property in &prim.properties {
            left -= 1;
            let token = -(self.token(&property.name) as i32);
            self.path_of.insert(format!("{path}.{}", property.name), self.nodes.len() as u32);
            self.nodes.push(Node { token, size: 1, has_sibling: left > 0 });
        }
        for child in &prim.children {
            left -= 1;
            self.place(child, path, left > 0);
        }
        if let Some(Variants { set, of }) = &prim.variants {
            let element = format!("{{{set}=}}");
            left -= 1;
            self.path_of.insert(format!("{path}{element}"), self.nodes.len() as u32);
            let token = self.token(&element) as i32;
            self.nodes.push(Node { token, size: 1, has_sibling: left > 0 });
            for variant in of {
                left -= 1;
                let element = format!("{{{set}={}}}", variant.name);
                self.place_at(variant, &format!("{path}{element}"), &element, left > 0);
            }
        }
        self.nodes[at].size = self.nodes.len() - at;
    }

    fn prim(&mut self, prim: &Prim, above: &str) -> io::Result<()> {
        self.prim_at(prim, &below(above, &prim.name), PRIM)
    }

    fn prim_at(&mut self, prim: &Prim, path: &str, spec: i64) -> io::Result<()> {
        let over = u64::from(prim.over || spec == VARIANT);
        let mut fields = vec![("specifier", INLINED | u64::from(kind::SPECIFIER) << 48 | over)];
        if !prim.type_name.is_empty() {
            let token = self.token(prim.type_name);
            fields.push(("typeName", inlined(kind::TOKEN, token)));
        }
        for (key, value) in &prim.metadata {
            fields.push((*key, self.value(value)?));
        }
        if !prim.properties.is_empty() {
            let names: Vec<String> = prim.properties.iter().map(|p| p.name.clone()).collect();
            fields.push(("properties", self.token_vector(&names)?));
        }
        if !prim.children.is_empty() {
            let names: Vec<String> = prim.children.iter().map(|p| p.name.clone()).collect();
            fields.push(("primChildren", self.token_vector(&names)?));
        }
        if let Some(variants) = &prim.variants {
            self.variant_fields(variants, &mut fields)?;
        }
        let (set, place) = (self.set(fields), self.path_of[path]);
        self.specs.push((place, set, spec));
        for property in &prim.properties {
            self.property(property, path)?;
        }
        prim.children.iter().try_for_each(|child| self.prim(child, path))?;
        let Some(Variants { set, of }) = &prim.variants else { return Ok(()) };
        let names: Vec<String> = of.iter().map(|variant| variant.name.clone()).collect();
        let children = self.token_vector(&names)?;
        let fields = self.set(vec![("variantChildren", children)]);
        let place = self.path_of[&format!("{path}{{{set}=}}")];
        self.specs.push((place, fields, VARIANT_SET));
        of.iter().try_for_each(|variant| self.prim_at(variant, &format!("{path}{{{set}={}}}", variant.name), VARIANT))
    }

    /// Fields of a prim with variants: the names of its sets, and which variant is selected.
    fn variant_fields(&mut self, variants: &Variants, fields: &mut Vec<(&'static str, u64)>) -> io::Result<()> {
        let set = self.string(variants.set);
        let at = self.align()?;
        self.bytes(&[1 << 5])?;
        self.bytes(&1u64.to_le_bytes())?;
        self.u32s([set])?;
        fields.push(("variantSetNames", u64::from(kind::STRING_LIST) << 48 | at));
        if let Some(first) = variants.of.first() {
            let selected = self.string(&first.name);
            let at = self.align()?;
            self.bytes(&1u64.to_le_bytes())?;
            self.u32s([set, selected])?;
            fields.push(("variantSelection", u64::from(kind::VARIANT_SELECTIONS) << 48 | at));
        }
        let names = self.token_vector(&[variants.set.to_owned()])?;
        fields.push(("variantSetChildren", names));
        Ok(())
    }

    fn property(&mut self, property: &Property, prim: &str) -> io::Result<()> {
        let is_rel = property.type_name.is_empty();
        let mut fields = Vec::new();
        if !is_rel {
            let token = self.token(property.type_name);
            fields.push(("typeName", inlined(kind::TOKEN, token)));
        }
        fields.push(("custom", inlined(kind::BOOL, u32::from(property.custom))));
        fields.push(("variability", inlined(kind::VARIABILITY, u32::from(property.uniform))));
        for (key, value) in &property.metadata {
            fields.push((*key, self.value(value)?));
        }
        if let Some(value) = &property.default {
            fields.push(("default", self.value(value)?));
        }
        if !property.samples.is_empty() {
            fields.push(("timeSamples", self.samples(&property.samples)?));
        }
        if !property.targets.is_empty() {
            let key = if is_rel { "targetPaths" } else { "connectionPaths" };
            fields.push((key, self.path_list(&property.targets)?));
        }
        let place = self.path_of[&format!("{prim}.{}", property.name)];
        let set = self.set(fields);
        self.specs.push((place, set, if is_rel { RELATIONSHIP } else { ATTRIBUTE }));
        Ok(())
    }

    /// An explicit list of paths.
    fn path_list(&mut self, targets: &[String]) -> io::Result<u64> {
        let at = self.align()?;
        self.bytes(&[0b11])?;
        let paths: Vec<u32> = targets.iter().filter_map(|t| self.path_of.get(t).copied()).collect();
        self.bytes(&(paths.len() as u64).to_le_bytes())?;
        self.u32s(paths)?;
        Ok(u64::from(kind::PATH_LIST) << 48 | at)
    }

    /// A prepended list of one prim of this layer: no file, its path, no shift of time, no data.
    fn reference(&mut self, path: &str) -> io::Result<u64> {
        let Some(&target) = self.path_of.get(path) else {
            return Err(io::Error::other(format!("{path}, which a prim refers to, is not in the layer")));
        };
        let no_file = self.string("");
        let at = self.align()?;
        self.bytes(&[1 << 5])?;
        self.bytes(&1u64.to_le_bytes())?;
        self.u32s([no_file, target])?;
        self.bytes([0.0f64, 1.0].map(f64::to_le_bytes).as_flattened())?;
        self.bytes(&0u64.to_le_bytes())?;
        Ok(u64::from(kind::REFERENCE_LIST) << 48 | at)
    }

    fn token_vector(&mut self, names: &[String]) -> io::Result<u64> {
        let at = self.align()?;
        self.bytes(&(names.len() as u64).to_le_bytes())?;
        let tokens: Vec<u32> = names.iter().map(|name| self.token(name)).collect();
        self.u32s(tokens)?;
        Ok(u64::from(kind::TOKENS) << 48 | at)
    }

    fn u32s(&mut self, values: impl IntoIterator<Item = u32>) -> io::Result<()> {
        values.into_iter().try_for_each(|v| self.bytes(&v.to_le_bytes()))
    }

    fn samples(&mut self, samples: &[(f64, Value)]) -> io::Result<u64> {
        let mut values = Vec::with_capacity(samples.len());
        for (_, value) in samples {
            values.push(self.value(value)?);
        }
        let times = self.align()?;
        self.bytes(&(samples.len() as u64).to_le_bytes())?;
        for (time, _) in samples {
            self.bytes(&time.to_le_bytes())?;
        }
        let at = self.at;
        // Jumps to what follows right behind them.
        self.bytes(&8i64.to_le_bytes())?;
        self.bytes(&(u64::from(kind::DOUBLES) << 48 | times).to_le_bytes())?;
        self.bytes(&8i64.to_le_bytes())?;
        self.bytes(&(values.len() as u64).to_le_bytes())?;
        for value in values {
            self.bytes(&value.to_le_bytes())?;
        }
        Ok(u64::from(kind::TIME_SAMPLES) << 48 | at)
    }

    /// Head and content of an array.
    fn array<const N: usize>(&mut self, kind: u8, items: impl ExactSizeIterator<Item = [u8; N]>) -> io::Result<u64> {
        if items.len() == 0 {
            return Ok(ARRAY | u64::from(kind) << 48);
        }
        let at = self.align()?;
        self.bytes(&(items.len() as u64).to_le_bytes())?;
        for item in items {
            self.bytes(&item)?;
        }
        Ok(ARRAY | u64::from(kind) << 48 | at)
    }

    fn value(&mut self, value: &Value) -> io::Result<u64> {
        Ok(match value {
            Value::Token(s) => inlined(kind::TOKEN, self.token(s)),
            Value::Text(s) => inlined(kind::STRING, self.string(s)),
            Value::Asset(s) => inlined(kind::ASSET, self.token(s)),
            Value::Bool(b) => inlined(kind::BOOL, u32::from(*b)),
            Value::Int(i) => inlined(kind::INT, *i as u32),
            Value::Float(x) => inlined(kind::FLOAT, x.to_bits()),
            Value::Double(x) if f64::from(*x as f32) == *x => inlined(kind::DOUBLE, (*x as f32).to_bits()),
            Value::Double(x) => self.plain(kind::DOUBLE, &x.to_le_bytes())?,
            Value::Float3(v) => self.plain(kind::VEC3F, v.map(f32::to_le_bytes).as_flattened())?,
            Value::Float4(v) => self.plain(kind::VEC4F, v.map(f32::to_le_bytes).as_flattened())?,
            Value::Double3(v) => self.plain(kind::VEC3D, v.map(f64::to_le_bytes).as_flattened())?,
            // Stored with the imaginary part first.
            Value::Quat([w, x, y, z]) => self.plain(kind::QUATF, &packed4([*x, *y, *z, *w]))?,
            Value::Matrix(m) => self.plain(kind::MATRIX4D, m.map(f64::to_le_bytes).as_flattened())?,
            Value::Tokens(list) => {
                let tokens: Vec<u32> = list.iter().map(|s| self.token(s)).collect();
                self.array(kind::TOKEN, tokens.iter().map(|t| t.to_le_bytes()))?
            }
            Value::Prepend(list) => {
                let at = self.align()?;
                self.bytes(&[1 << 5])?;
                self.bytes(&(list.len() as u64).to_le_bytes())?;
                let tokens: Vec<u32> = list.iter().map(|s| self.token(s)).collect();
                self.u32s(tokens)?;
                u64::from(kind::TOKEN_LIST) << 48 | at
            }
            Value::Reference(path) => self.reference(path)?,
            Value::Ints(list) => self.ints(list)?,
            Value::Floats(list) => self.floats(list)?,
            Value::Float2s(list) => self.array(kind::VEC2F, list.iter().map(|v| packed2(*v)))?,
            Value::Float3s(list) => self.array(kind::VEC3F, list.iter().map(|v| packed3(*v)))?,
            Value::Points(list) => self.array(kind::VEC3F, list.iter().map(|p| packed3(p.to_array())))?,
            Value::Frame(sequence, t, vertices) => {
                self.value(&Value::Points(&sequence.part_of_frame(*t, vertices.clone())))?
            }
            Value::Half3s(list) => self.array(kind::VEC3H, list.iter().map(|v| packed_halves(*v)))?,
            // Stored with the imaginary part first.
            Value::Quats(list) => self.array(kind::QUATF, list.iter().map(|&[w, x, y, z]| packed4([x, y, z, w])))?,
            Value::Matrices(list) => self.array(kind::MATRIX4D, list.iter().map(packed_matrix))?,
            Value::Dictionary(entries) => self.dictionary(entries)?,
        })
    }

    fn plain(&mut self, kind: u8, bytes: &[u8]) -> io::Result<u64> {
        let at = self.align()?;
        self.bytes(bytes)?;
        Ok(u64::from(kind) << 48 | at)
    }

    fn ints(&mut self, list: &[i32]) -> io::Result<u64> {
        let block = if list.len() < MIN_COMPRESSED { None } else { fold_ints(list.iter().copied()) };
        let Some(block) = block else { return self.array(kind::INT, list.iter().map(|i| i.to_le_bytes())) };
        let at = self.align()?;
        self.bytes(&(list.len() as u64).to_le_bytes())?;
        self.bytes(&(block.len() as u64).to_le_bytes())?;
        self.bytes(&block)?;
        Ok(ARRAY | COMPRESSED | u64::from(kind::INT) << 48 | at)
    }

    /// Numbers of which there are few: a table, and which of it each is.
    fn floats(&mut self, list: &[f32]) -> io::Result<u64> {
        let mut table: Vec<f32> = Vec::new();
        let mut places: HashMap<u32, i32> = HashMap::new();
        let mut indices = Vec::with_capacity(list.len());
        for x in list {
            let next = table.len() as i32;
            let place = *places.entry(x.to_bits()).or_insert(next);
            if place == next {
                table.push(*x);
            }
            indices.push(place);
            if table.len() > MAX_TABLE.min(list.len() / 4) {
                return self.array(kind::FLOAT, list.iter().map(|x| x.to_le_bytes()));
            }
        }
        let block = if list.len() < MIN_COMPRESSED { None } else { fold_ints(indices.into_iter()) };
        let Some(block) = block else { return self.array(kind::FLOAT, list.iter().map(|x| x.to_le_bytes())) };
        let at = self.align()?;
        self.bytes(&(list.len() as u64).to_le_bytes())?;
        self.bytes(b"t")?;
        self.bytes(&(table.len() as u32).to_le_bytes())?;
        for x in table {
            self.bytes(&x.to_le_bytes())?;
        }
        self.bytes(&(block.len() as u64).to_le_bytes())?;
        self.bytes(&block)?;
        Ok(ARRAY | COMPRESSED | u64::from(kind::FLOAT) << 48 | at)
    }

    fn dictionary(&mut self, entries: &[(&'static str, String)]) -> io::Result<u64> {
        let at = self.align()?;
        self.bytes(&(entries.len() as u64).to_le_bytes())?;
        for (key, value) in entries {
            let (key, value) = (self.string(key), self.string(value));
            self.bytes(&key.to_le_bytes())?;
            self.bytes(&8i64.to_le_bytes())?;
            self.bytes(&inlined(kind::STRING, value).to_le_bytes())?;
        }
        Ok(u64::from(kind::DICTIONARY) << 48 | at)
    }

    fn finish(mut self) -> io::Result<()> {
        let mut sections: Vec<(&str, u64, u64)> = Vec::new();
        type Make<'w, W> = fn(&mut Writer<'w, W>) -> io::Result<Vec<u8>>;
        let makers: [(&str, Make<'w, W>); 6] = [
            ("TOKENS", Self::token_section),
            ("STRINGS", Self::string_section),
            ("FIELDS", Self::field_section),
            ("FIELDSETS", Self::field_set_section),
            ("PATHS", Self::path_section),
            ("SPECS", Self::spec_section),
        ];
        for (name, make) in makers {
            let content = make(&mut self)?;
            sections.push((name, self.at, content.len() as u64));
            self.bytes(&content)?;
        }
        let toc = self.at;
        self.bytes(&(sections.len() as u64).to_le_bytes())?;
        for (name, start, size) in sections {
            let mut padded = [0; 16];
            padded[..name.len()].copy_from_slice(name.as_bytes());
            self.bytes(&padded)?;
            self.bytes(&start.to_le_bytes())?;
            self.bytes(&size.to_le_bytes())?;
        }
        let end = self.out.stream_position()?;
        self.out.seek(SeekFrom::Current(-(self.at as i64)))?;
        self.out.write_all(b"PXR-USDC")?;
        self.out.write_all(&[VERSION[0], VERSION[1], VERSION[2], 0, 0, 0, 0, 0])?;
        self.out.write_all(&toc.to_le_bytes())?;
        self.out.seek(SeekFrom::Start(end))?;
        Ok(())
    }

    fn token_section(&mut self) -> io::Result<Vec<u8>> {
        let text: Vec<u8> = self.tokens.iter().flat_map(|t| t.bytes().chain([0])).collect();
        let block = folded(fold(&text))?;
        let heads = [self.tokens.len(), text.len(), block.len()].map(|n| (n as u64).to_le_bytes());
        Ok([heads.as_flattened(), &block].concat())
    }

    fn string_section(&mut self) -> io::Result<Vec<u8>> {
        let strings = self.strings.iter().flat_map(|s| s.to_le_bytes());
        Ok((self.strings.len() as u64).to_le_bytes().into_iter().chain(strings).collect())
    }

    fn field_section(&mut self) -> io::Result<Vec<u8>> {
        let keys = int_block(self.fields.iter().map(|(key, _)| *key as i32))?;
        let values: Vec<u8> = self.fields.iter().flat_map(|(_, value)| value.to_le_bytes()).collect();
        let values = folded(fold(&values))?;
        let count = (self.fields.len() as u64).to_le_bytes();
        Ok([&count[..], &keys, &(values.len() as u64).to_le_bytes(), &values].concat())
    }

    fn field_set_section(&mut self) -> io::Result<Vec<u8>> {
        let sets = int_block(self.field_sets.iter().map(|f| *f as i32))?;
        Ok([&(self.field_sets.len() as u64).to_le_bytes()[..], &sets].concat())
    }

    fn path_section(&mut self) -> io::Result<Vec<u8>> {
        let count = (self.nodes.len() as u64).to_le_bytes();
        let jump = |node: &Node| match (node.size > 1, node.has_sibling) {
            (true, true) => node.size as i32,
            (true, false) => -1,
            (false, true) => 0,
            (false, false) => -2,
        };
        let indices = int_block(0..self.nodes.len() as i32)?;
        let elements = int_block(self.nodes.iter().map(|node| node.token))?;
        let jumps = int_block(self.nodes.iter().map(jump))?;
        Ok([&count[..], &count, &indices, &elements, &jumps].concat())
    }

    fn spec_section(&mut self) -> io::Result<Vec<u8>> {
        let count = (self.specs.len() as u64).to_le_bytes();
        let paths = int_block(self.specs.iter().map(|s| s.0 as i32))?;
        let sets = int_block(self.specs.iter().map(|s| s.1 as i32))?;
        let kinds = int_block(self.specs.iter().map(|s| s.2 as i32))?;
        Ok([&count[..], &paths, &sets, &kinds].concat())
    }
}

fn inlined(kind: u8, payload: u32) -> u64 {
    INLINED | u64::from(kind) << 48 | u64::from(payload)
}

fn folded(block: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
    block.ok_or_else(|| io::Error::other("more than 2 GB in one table of a USD file"))
}

/// Size and content.
fn int_block(values: impl ExactSizeIterator<Item = i32>) -> io::Result<Vec<u8>> {
    let block = folded(fold_ints(values))?;
    Ok([&(block.len() as u64).to_le_bytes()[..], &block].concat())
}

fn packed2([x, y]: [f32; 2]) -> [u8; 8] {
    (u64::from(x.to_bits()) | u64::from(y.to_bits()) << 32).to_le_bytes()
}

fn packed3(v: [f32; 3]) -> [u8; 12] {
    let mut out = [0; 12];
    out.copy_from_slice(v.map(f32::to_le_bytes).as_flattened());
    out
}

fn packed4(v: [f32; 4]) -> [u8; 16] {
    let mut out = [0; 16];
    out.copy_from_slice(v.map(f32::to_le_bytes).as_flattened());
    out
}

fn packed_halves(v: [f32; 3]) -> [u8; 6] {
    let mut out = [0; 6];
    out.copy_from_slice(v.map(|x| half_bits(x).to_le_bytes()).as_flattened());
    out
}

fn packed_matrix(m: &[f64; 16]) -> [u8; 128] {
    let mut out = [0; 128];
    out.copy_from_slice(m.map(f64::to_le_bytes).as_flattened());
    out
}
