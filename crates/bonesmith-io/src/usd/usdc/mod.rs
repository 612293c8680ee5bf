//! Binary USD ("crate" files, `usdc`): structure and values. What is known of the format is in docs/formats/usd.md.

mod codec;
mod value;
mod write;

use crate::IoError;

use super::blob::Blob;
use super::layer::{Field, Layer, NONE, Prim, Property, Source, Tokens, ValueRef};

pub use value::{arcs, dictionary, f32s, f64s, ints, is_blocked, samples, spline, texts};
pub use write::to_bytes;

/// Oldest version with compressed structure (2016); those before are refused.
const OLDEST: [u8; 3] = [0, 4, 0];
/// Major and minor beyond this may hold values that we misread.
const NEWEST_MINOR: u8 = 13;
const HEADER_BYTES: u64 = 88;
/// Memory that a path takes in all tables together, while they are made.
const BYTES_PER_PATH: u64 = 64;
/// Sections of real files are 6.
const MAX_SECTIONS: u64 = 64;

/// Kinds of specs that matter.
const ATTRIBUTE: i64 = 1;
const PRIM: i64 = 6;
const ROOT: i64 = 7;
const RELATIONSHIP: i64 = 8;
const VARIANT: i64 = 10;
const VARIANT_SET: i64 = 11;

/// What values refer to.
pub struct Tables {
    /// Major, minor, patch.
    version: [u8; 3],
    /// [strings] token of each.
    strings: Vec<u32>,
    /// [paths] where they hang and their last element.
    paths: Vec<PathNode>,
}

#[derive(Clone, Copy)]
struct PathNode {
    /// Path above; [`NONE`] for the root, and for a path that the table leaves out.
    parent: u32,
    /// Last element; [`NONE`] for the root.
    token: u32,
    is_property: bool,
}

impl Tables {
    /// A path as text: `/a/b{set=variant}c.property`.
    fn path_text(&self, tokens: &Tokens, path: u32) -> String {
        let mut elements = Vec::new();
        let mut at = path;
        while let Some(node) = self.paths.get(at as usize).filter(|node| node.token != NONE) {
            elements.push((tokens.get(node.token), node.is_property));
            // No path is longer than there are paths: parents were made before their children.
            at = node.parent;
        }
        let mut text = String::new();
        for (element, is_property) in elements.into_iter().rev() {
            let joined = element.starts_with('{') || text.ends_with('}');
            text.push_str(if is_property {
                "."
            } else if joined {
                ""
            } else {
                "/"
            });
            text.push_str(element);
        }
        if text.is_empty() { "/".into() } else { text }
    }
}

/// One section of the file, read from front to back.
struct Section<'a> {
    blob: &'a Blob,
    bytes: Vec<u8>,
    at: usize,
    name: &'static str,
}

impl Section<'_> {
    fn take(&mut self, size: u64) -> Result<&[u8], IoError> {
        let end =
            usize::try_from(size).ok().and_then(|size| self.at.checked_add(size)).filter(|e| *e <= self.bytes.len());
        let end = end.ok_or_else(|| self.blob.malformed(format!("section {} is cut off", self.name)))?;
        let start = std::mem::replace(&mut self.at, end);
        Ok(&self.bytes[start..end])
    }

    fn u64(&mut self) -> Result<u64, IoError> {
        Ok(self.take(8)?.first_chunk().map_or(0, |b| u64::from_le_bytes(*b)))
    }

    /// A count of things that take `size` bytes of memory each, within what the file may unfold to.
    fn count(&mut self, size: u64) -> Result<usize, IoError> {
        let count = self.u64()?;
        let fits =
            count.checked_mul(size).is_some_and(|bytes| bytes <= self.blob.most_unfolded()) && count < u64::from(NONE);
        let count = usize::try_from(count).ok().filter(|_| fits);
        count.ok_or_else(|| {
            self.blob.malformed(format!("section {} claims more entries than the file can hold", self.name))
        })
    }

    fn ints(&mut self, count: usize) -> Result<Vec<i64>, IoError> {
        let (blob, name) = (self.blob, self.name);
        let size = self.u64()?;
        let block = self.take(size)?;
        codec::unfold_ints::<4>(block, count).map_err(|why| blob.malformed(format!("section {name}: {why}")))
    }

    fn unfolded(&mut self, compressed: u64, size: u64) -> Result<Vec<u8>, IoError> {
        let (blob, name) = (self.blob, self.name);
        let fits = usize::try_from(size).ok().filter(|_| size <= blob.most_unfolded());
        let size = fits.ok_or_else(|| blob.malformed(format!("section {name} is larger than the file can hold")))?;
        let block = self.take(compressed)?;
        codec::unfold(block, size).map_err(|why| blob.malformed(format!("section {name}: {why}")))
    }
}

/// Reads the structure of a binary layer.
pub fn open(blob: Blob) -> Result<Layer, IoError> {
    let header = blob.read(0, HEADER_BYTES, "the header")?;
    let version = [header[8], header[9], header[10]];
    if version < OLDEST {
        return Err(blob.unsupported("is a USD file of before 2017; write it anew with `usdcat in.usdc -o out.usdc`"));
    }
    if version[0] > 0 || version[1] > NEWEST_MINOR {
        let [major, minor, patch] = version;
        return Err(blob.unsupported(format!(
            "is USD binary {major}.{minor}.{patch}, newer than what we know (0.{NEWEST_MINOR}); write it as .usda"
        )));
    }
    let toc = u64::from_le_bytes(*header[16..].first_chunk().unwrap_or(&[0; 8]));
    let tokens = read_tokens(section(&blob, toc, "TOKENS")?)?;
    let strings = read_strings(section(&blob, toc, "STRINGS")?)?;
    let fields = read_fields(section(&blob, toc, "FIELDS")?)?;
    let field_sets = read_field_sets(section(&blob, toc, "FIELDSETS")?)?;
    let (paths, order) = read_paths(section(&blob, toc, "PATHS")?)?;
    let specs = read_specs(section(&blob, toc, "SPECS")?, paths.len())?;
    let (prims, properties) = place(&paths, &order, &specs);
    let tables = Box::new(Tables { version, strings, paths });
    let mut layer = Layer {
        blob,
        source: Source::Binary(tables),
        tokens,
        fields,
        field_sets,
        prims,
        properties,
        children: Vec::new(),
    };
    layer.sort();
    layer.order_children();
    Ok(layer)
}

impl Layer {
    /// Children in the order that their parent lists; the table of paths is sorted by other rules.
    fn order_children(&mut self) {
        for parent in 0..self.prims.len() as u32 {
            let start = self.children.partition_point(|c| self.prims[*c as usize].parent < parent);
            let count = self.children_of(parent).len();
            let reported =
                self.prim_field(parent, "primChildren").and_then(|value| self.texts(value, "primChildren").ok());
            let Some(reported) = reported.filter(|_| count > 1) else { continue };
            let place: std::collections::HashMap<&str, usize> =
                reported.iter().enumerate().map(|(at, name)| (name.as_str(), at)).collect();
            let mut children = self.children[start..start + count].to_vec();
            children.sort_by_key(|c| {
                place.get(self.tokens.get(self.prims[*c as usize].name)).copied().unwrap_or(usize::MAX)
            });
            self.children[start..start + count].copy_from_slice(&children);
        }
    }
}

/// Finds a section in the table of contents and reads it.
fn section<'a>(blob: &'a Blob, toc: u64, name: &'static str) -> Result<Section<'a>, IoError> {
    let count = blob.u64(toc, "the table of contents")?;
    if count > MAX_SECTIONS {
        return Err(blob.malformed(format!("the table of contents claims {count} sections")));
    }
    let table = blob.read(toc.saturating_add(8), count * 32, "the table of contents")?;
    for entry in table.as_chunks::<32>().0 {
        let own = entry[..16].split(|b| *b == 0).next().unwrap_or_default();
        if own == name.as_bytes() {
            let number = |at: usize| u64::from_le_bytes(*entry[at..].first_chunk().unwrap_or(&[0; 8]));
            let bytes = blob.read(number(16), number(24), &format!("section {name}"))?;
            return Ok(Section { blob, bytes, at: 0, name });
        }
    }
    Err(blob.malformed(format!("section {name} is missing")))
}

fn read_tokens(mut section: Section) -> Result<Tokens, IoError> {
    let count = section.count(1)?;
    let (size, compressed) = (section.u64()?, section.u64()?);
    let bytes = section.unfolded(compressed, size)?;
    let mut tokens = Tokens { text: String::with_capacity(bytes.len()), ends: Vec::with_capacity(count) };
    for token in bytes.split(|b| *b == 0).take(count) {
        // Names that are not UTF-8 match nothing that we look for.
        tokens.push(std::str::from_utf8(token).unwrap_or_default());
    }
    Ok(tokens)
}

fn read_strings(mut section: Section) -> Result<Vec<u32>, IoError> {
    let count = section.count(4)?;
    let bytes = section.take(4 * count as u64)?;
    Ok(bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect())
}

fn read_fields(mut section: Section) -> Result<Vec<Field>, IoError> {
    let count = section.count(8)?;
    let keys = section.ints(count)?;
    let compressed = section.u64()?;
    let values = section.unfolded(compressed, 8 * count as u64)?;
    let values = values.as_chunks::<8>().0.iter().map(|b| ValueRef(u64::from_le_bytes(*b)));
    Ok(keys.into_iter().zip(values).map(|(key, value)| Field { key: key as u32, value }).collect())
}

fn read_field_sets(mut section: Section) -> Result<Vec<u32>, IoError> {
    let count = section.count(8)?;
    Ok(section.ints(count)?.into_iter().map(|f| f as u32).collect())
}

/// The paths, and their order from parents to children.
fn read_paths(mut section: Section) -> Result<(Vec<PathNode>, Vec<u32>), IoError> {
    let blob = section.blob;
    let paths = section.count(BYTES_PER_PATH)?;
    let count = section.count(BYTES_PER_PATH)?;
    let (indices, elements, jumps) = (section.ints(count)?, section.ints(count)?, section.ints(count)?);
    let mut nodes = vec![PathNode { parent: NONE, token: NONE, is_property: false }; paths];
    let mut order = Vec::with_capacity(count);
    let bad = |what: &str| blob.malformed(format!("the table of paths {what}"));
    // (entry, parent) still to visit. Each entry is visited once: entries only lead to later ones.
    let mut todo = vec![(0usize, NONE)];
    let mut visited = 0;
    while let Some((mut at, mut parent)) = todo.pop() {
        while at < count {
            visited += 1;
            if visited > count {
                return Err(bad("runs in circles"));
            }
            let index = indices[at] as u32;
            let node = nodes.get_mut(index as usize).ok_or_else(|| bad("names a path that does not exist"))?;
            if parent != NONE {
                let element = elements[at];
                *node = PathNode { parent, token: element.unsigned_abs() as u32, is_property: element < 0 };
            }
            order.push(index);
            let jump = jumps[at];
            if jump > 0 {
                todo.push((at + jump as usize, parent));
            }
            if jump > 0 || jump == -1 {
                // The root's children hang on it, though its parent is none.
                parent = index;
            } else if jump != 0 {
                break;
            }
            at += 1;
        }
    }
    check_parents(&nodes, &order).map_err(bad)?;
    Ok((nodes, order))
}

/// Every parent comes before its children, so that no walk up can go on for ever.
fn check_parents(nodes: &[PathNode], order: &[u32]) -> Result<(), &'static str> {
    let mut seen = vec![false; nodes.len()];
    for &path in order {
        let node = &nodes[path as usize];
        if std::mem::replace(&mut seen[path as usize], true) {
            return Err("names a path twice");
        }
        if node.parent != NONE && (node.parent == path || !seen[node.parent as usize]) {
            return Err("has a path before its parent");
        }
    }
    Ok(())
}

/// [paths] field set and kind of each path that has a spec.
fn read_specs(mut section: Section, paths: usize) -> Result<Vec<(u32, i64)>, IoError> {
    let blob = section.blob;
    let count = section.count(BYTES_PER_PATH)?;
    let (indices, sets, kinds) = (section.ints(count)?, section.ints(count)?, section.ints(count)?);
    let mut specs = vec![(NONE, 0); paths];
    for ((path, set), kind) in indices.into_iter().zip(sets).zip(kinds) {
        let place = specs.get_mut(path as u32 as usize);
        *place.ok_or_else(|| blob.malformed("a spec names a path that does not exist"))? = (set as u32, kind);
    }
    Ok(specs)
}

/// Prims and properties in tree order; what hangs on nothing is left out.
fn place(paths: &[PathNode], order: &[u32], specs: &[(u32, i64)]) -> (Vec<Prim>, Vec<Property>) {
    let mut prims = vec![Prim { name: NONE, parent: NONE, fields: NONE }];
    let mut properties = Vec::new();
    let mut prim_of = vec![NONE; paths.len()];
    for &path in order {
        let (fields, kind) = specs[path as usize];
        let node = paths[path as usize];
        let parent = prim_of.get(node.parent as usize).copied();
        match (kind, parent) {
            (ROOT, None) => {
                prims[0].fields = fields;
                prim_of[path as usize] = 0;
            }
            (PRIM | VARIANT, Some(parent)) if parent != NONE => {
                prim_of[path as usize] = prims.len() as u32;
                prims.push(Prim { name: node.token, parent, fields });
            }
            (ATTRIBUTE | RELATIONSHIP, Some(prim)) if prim != NONE => {
                properties.push(Property { prim, name: node.token, fields });
            }
            _ => {}
        }
    }
    (prims, properties)
}
