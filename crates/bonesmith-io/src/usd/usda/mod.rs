//! Text USD (`usda`): structure and values. Values stay text until they are asked for.

mod scan;
mod value;
mod write;

use std::collections::HashMap;

use crate::IoError;

use self::scan::{Scanner, Unexpected};
use super::blob::Blob;
use super::layer::{Field, Layer, NONE, Prim, Property, Source, Token, Tokens, ValueRef};

pub use value::{arcs, dictionary, f32s, f64s, ints, is_blocked, samples, text_of, texts};
pub use write::to_text;

/// Deepest nesting of prims; real stages stay below 50.
const MAX_DEPTH: usize = 512;

/// Reads the structure of a text layer.
pub fn open(blob: Blob) -> Result<Layer, IoError> {
    if blob.len() > u64::from(u32::MAX) {
        return Err(blob.unsupported("is a text of more than 4 GiB; write it as .usdc"));
    }
    let bytes = blob.read(0, blob.len(), "the text")?;
    let text = String::from_utf8(bytes)
        .map_err(|e| blob.malformed(format!("is no UTF-8 text (byte {})", e.utf8_error().valid_up_to())))?;
    let mut parser = Parser::new(&text);
    parser.layer().map_err(|e| unexpected(&blob, &text, &e))?;
    let Parser { tokens, fields, field_sets, prims, properties, .. } = parser;
    let source = Source::Text(text);
    let mut layer = Layer { blob, source, tokens, fields, field_sets, prims, properties, children: Vec::new() };
    layer.sort();
    Ok(layer)
}

/// The message for what was not there, with its line.
fn unexpected(blob: &Blob, text: &str, error: &Unexpected) -> IoError {
    let line = text.as_bytes().iter().take(error.at).filter(|b| **b == b'\n').count() + 1;
    blob.malformed(format!("line {line}: {} is expected", error.expected))
}

/// What braces are open.
#[derive(Clone, Copy)]
enum Open {
    Prim(u32),
    /// Variants of a set of this prim.
    VariantSet(u32, usize, usize),
}

struct Parser<'a> {
    scan: Scanner<'a>,
    known: HashMap<&'a str, Token>,
    /// Field sets of prims without metadata, by specifier and type: most prims share a few.
    plain_sets: HashMap<(&'a str, &'a str), u32>,
    tokens: Tokens,
    fields: Vec<Field>,
    field_sets: Vec<u32>,
    prims: Vec<Prim>,
    properties: Vec<Property>,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            scan: Scanner::new(text, 0, text.len()),
            known: HashMap::new(),
            plain_sets: HashMap::new(),
            tokens: Tokens::default(),
            fields: Vec::new(),
            field_sets: Vec::new(),
            prims: Vec::new(),
            properties: Vec::new(),
        }
    }

    fn token(&mut self, text: &'a str) -> Token {
        if let Some(&token) = self.known.get(text) {
            return token;
        }
        let token = self.tokens.push(text);
        self.known.insert(text, token);
        token
    }

    /// Stores fields as a set; its first entry.
    fn set(&mut self, fields: &[(&'a str, (usize, usize))]) -> u32 {
        if fields.is_empty() {
            return NONE;
        }
        let start = self.field_sets.len() as u32;
        for &(key, (from, to)) in fields {
            let key = self.token(key);
            self.field_sets.push(self.fields.len() as u32);
            self.fields.push(Field { key, value: ValueRef((from as u64) << 32 | to as u64) });
        }
        self.field_sets.push(NONE);
        start
    }

    fn layer(&mut self) -> Result<(), Unexpected> {
        self.scan.skip_space(); // the first line is a comment
        let mut fields = Vec::new();
        self.metadata(&mut fields)?;
        let fields = self.set(&fields);
        self.prims.push(Prim { name: NONE, parent: NONE, fields });
        let mut open = vec![Open::Prim(0)];
        while let Some(&inside) = open.last() {
            self.scan.skip_space();
            if self.scan.done() {
                return if open.len() == 1 { Ok(()) } else { self.scan.expected("a closing brace") };
            }
            if open.len() > 1 && self.scan.take(b'}') {
                open.pop();
                continue;
            }
            let opened = match inside {
                Open::Prim(prim) => self.statement(prim)?,
                Open::VariantSet(prim, start, end) => Some(self.variant(prim, start, end)?),
            };
            open.extend(opened);
            if open.len() > MAX_DEPTH {
                return self.scan.expected("fewer nested prims");
            }
        }
        Ok(())
    }

    /// One statement of a prim; what it opened.
    fn statement(&mut self, prim: u32) -> Result<Option<Open>, Unexpected> {
        let start = self.scan.at;
        let mut word = self.scan.word();
        let first = (start, self.scan.at);
        match word {
            "def" | "over" | "class" => return self.prim(prim, first).map(Some),
            "variantSet" => {
                let name = self.scan.string()?;
                let from = name.as_ptr() as usize - self.scan.text.as_ptr() as usize;
                self.scan.need(b'=', "\"=\"")?;
                self.scan.need(b'{', "\"{\"")?;
                return Ok(Some(Open::VariantSet(prim, from, from + name.len())));
            }
            _ => {}
        }
        let mut deleted = false;
        let mut type_span = first;
        while matches!(
            word,
            "custom" | "uniform" | "varying" | "config" | "prepend" | "append" | "add" | "delete" | "reorder"
        ) {
            deleted |= matches!(word, "delete" | "reorder");
            word = self.scan.word();
            type_span = (self.scan.at - word.len(), self.scan.at);
        }
        if matches!(word, "nameChildren" | "properties") {
            self.scan.need(b'=', "\"=\"")?;
            self.scan.value()?;
            return Ok(None);
        }
        if word.is_empty() {
            return self.scan.expected("a prim or a property");
        }
        if self.scan.take(b'[') {
            self.scan.need(b']', "\"]\"")?;
        }
        let is_relationship = word == "rel";
        let name = self.scan.word();
        if name.is_empty() {
            return self.scan.expected("the name of a property");
        }
        let mut fields = Vec::new();
        // Types matter where they distinguish texture coordinates from other pairs; values suffice for the rest.
        if name.starts_with("primvars:") && !name.contains('.') {
            fields.push(("typeName", type_span));
        }
        self.property(prim, name, fields, is_relationship, deleted)?;
        Ok(None)
    }

    fn property(
        &mut self,
        prim: u32,
        name: &'a str,
        mut fields: Vec<(&'a str, (usize, usize))>,
        is_rel: bool,
        deleted: bool,
    ) -> Result<(), Unexpected> {
        let (name, key) = match name.rsplit_once('.') {
            Some((name, "timeSamples")) => (name, "timeSamples"),
            Some((name, "connect")) => (name, "connectionPaths"),
            Some((name, "spline")) => (name, "spline"),
            Some(_) => return self.scan.expected("a property"),
            None if is_rel => (name, "targetPaths"),
            None => (name, "default"),
        };
        if self.scan.take(b'=') {
            let span = self.scan.value()?;
            if !deleted {
                fields.push((key, span));
            }
        }
        self.metadata(&mut fields)?;
        let set = self.set(&fields);
        if set != NONE {
            let name = self.token(name);
            self.properties.push(Property { prim, name, fields: set });
        }
        Ok(())
    }

    /// After `def`: type, name, metadata, an open brace.
    fn prim(&mut self, parent: u32, specifier: (usize, usize)) -> Result<Open, Unexpected> {
        let mut fields = vec![("specifier", specifier)];
        self.scan.skip_space();
        let start = self.scan.at;
        if !self.scan.word().is_empty() {
            fields.push(("typeName", (start, self.scan.at)));
        }
        let name = self.scan.string()?;
        self.open_prim(parent, name, fields)
    }

    fn open_prim(
        &mut self,
        parent: u32,
        name: &'a str,
        mut fields: Vec<(&'a str, (usize, usize))>,
    ) -> Result<Open, Unexpected> {
        let before = fields.len();
        self.metadata(&mut fields)?;
        self.scan.need(b'{', "\"{\"")?;
        let word = |at: usize| fields.get(at).map_or("", |(_, (from, to))| &self.scan.text[*from..*to]);
        let kind = (word(0), word(1));
        let known = self.plain_sets.get(&kind).copied().filter(|_| fields.len() == before);
        let fields = match known {
            Some(known) => known,
            None => {
                let plain = fields.len() == before;
                let set = self.set(&fields);
                if plain {
                    self.plain_sets.insert(kind, set);
                }
                set
            }
        };
        let name = self.token(name);
        self.prims.push(Prim { name, parent, fields });
        Ok(Open::Prim(self.prims.len() as u32 - 1))
    }

    /// One variant, as a prim named `{set=variant}` below its own.
    fn variant(&mut self, prim: u32, set_start: usize, set_end: usize) -> Result<Open, Unexpected> {
        let variant = self.scan.string()?;
        let set = &self.scan.text[set_start..set_end];
        let opened = self.open_prim(prim, variant, Vec::new())?;
        // The name is made here, not in the text: it is not among the known ones, and does not need to be.
        let name = self.tokens.push(&format!("{{{set}={variant}}}"));
        if let Some(own) = self.prims.last_mut() {
            own.name = name;
        }
        Ok(opened)
    }

    /// `( key = value ... )`, if it comes next.
    fn metadata(&mut self, fields: &mut Vec<(&'a str, (usize, usize))>) -> Result<(), Unexpected> {
        if !self.scan.take(b'(') {
            return Ok(());
        }
        loop {
            self.scan.skip_space();
            match self.scan.peek() {
                b')' => {
                    self.scan.at += 1;
                    return Ok(());
                }
                b'"' | b'\'' => _ = self.scan.string()?, // a comment
                b',' => self.scan.at += 1,
                _ => self.metadatum(fields)?,
            }
        }
    }

    fn metadatum(&mut self, fields: &mut Vec<(&'a str, (usize, usize))>) -> Result<(), Unexpected> {
        let mut key = self.scan.word();
        let mut deleted = false;
        while matches!(key, "prepend" | "append" | "add" | "delete" | "reorder") {
            deleted |= matches!(key, "delete" | "reorder");
            key = self.scan.word();
        }
        if key.is_empty() {
            return self.scan.expected("metadata");
        }
        self.scan.need(b'=', "\"=\"")?;
        let span = self.scan.value()?;
        if !deleted {
            // As the binary form names them.
            let key = match key {
                "variants" => "variantSelection",
                "inherits" => "inheritPaths",
                key => key,
            };
            fields.push((key, span));
        }
        Ok(())
    }
}
