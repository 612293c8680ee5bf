//! Values of text USD, decoded from their span.

use crate::IoError;
use crate::usd::layer::{Arc, Layer, ValueRef};

use super::scan::{Scanner, Unexpected};

fn scanner(text: &str, value: ValueRef) -> Scanner<'_> {
    Scanner::new(text, (value.0 >> 32) as usize, value.0 as u32 as usize)
}

/// A value as it stands in the text.
pub fn text_of(text: &str, value: ValueRef) -> &str {
    scanner(text, value).rest()
}

fn span(from: usize, to: usize) -> ValueRef {
    ValueRef((from as u64) << 32 | to as u64)
}

/// Whether the value is `None`.
pub fn is_blocked(text: &str, value: ValueRef) -> bool {
    scanner(text, value).rest().trim() == "None"
}

/// Words of numbers, brackets and commas left out.
fn words<T>(
    layer: &Layer,
    text: &str,
    value: ValueRef,
    what: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, IoError> {
    let mut scan = scanner(text, value);
    let mut out = Vec::new();
    loop {
        scan.skip_space();
        match scan.peek() {
            0 if scan.done() => return Ok(out),
            b'[' | b']' | b'(' | b')' | b',' => scan.at += 1,
            _ => {
                let word = scan.word();
                let number = if word.is_empty() { None } else { read(word) };
                let Some(number) = number else {
                    let at = scan.at - word.len();
                    return Err(bad(layer, text, what, &Unexpected { expected: "a number", at }));
                };
                out.push(number);
            }
        }
    }
}

fn bad(layer: &Layer, text: &str, what: &str, error: &Unexpected) -> IoError {
    let line = text.as_bytes().iter().take(error.at).filter(|b| **b == b'\n').count() + 1;
    layer.blob.malformed(format!("line {line}, {what}: {} is expected", error.expected))
}

/// See [`Layer::f64s`].
pub fn f64s(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<f64>, IoError> {
    words(layer, text, value, what, |word| match word {
        "true" => Some(1.0),
        "false" => Some(0.0),
        word => fast_float2::parse(word).ok(),
    })
}

/// See [`Layer::f32s`].
pub fn f32s(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<f32>, IoError> {
    words(layer, text, value, what, |word| fast_float2::parse(word).ok())
}

/// See [`Layer::ints`].
pub fn ints(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<i64>, IoError> {
    words(layer, text, value, what, |word| match word {
        "true" => Some(1),
        "false" => Some(0),
        word => word.parse().ok(),
    })
}

/// See [`Layer::texts`].
pub fn texts(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<String>, IoError> {
    let mut scan = scanner(text, value);
    let mut out = Vec::new();
    loop {
        scan.skip_space();
        if scan.done() {
            return Ok(out);
        }
        let item = match scan.peek() {
            b'[' | b']' | b',' => {
                scan.at += 1;
                continue;
            }
            b'"' | b'\'' => scan.string().map(unescaped),
            b'@' => scan.asset().map(str::to_owned),
            b'<' => scan.path().map(str::to_owned),
            _ => match scan.word() {
                "" => scan.expected("a name"),
                "None" => continue,
                word => Ok(word.to_owned()),
            },
        };
        out.push(item.map_err(|e| bad(layer, text, what, &e))?);
    }
}

/// Text between quotes with its escapes resolved.
fn unescaped(raw: &str) -> String {
    if !raw.contains('\\') {
        return raw.to_owned();
    }
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes().peekable();
    while let Some(b) = bytes.next() {
        if b != b'\\' {
            out.push(b);
            continue;
        }
        match bytes.next() {
            Some(b'n') => out.push(b'\n'),
            Some(b't') => out.push(b'\t'),
            Some(b'r') => out.push(b'\r'),
            Some(b'x') => {
                let mut digit = || bytes.next_if(u8::is_ascii_hexdigit).and_then(|d| char::from(d).to_digit(16));
                let (high, low) = (digit(), digit());
                out.push(match (high, low) {
                    (Some(high), Some(low)) => (16 * high + low) as u8,
                    (Some(high), None) => high as u8,
                    _ => b'x',
                });
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// See [`Layer::samples`].
pub fn samples(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<(f64, ValueRef)>, IoError> {
    let fail = |e: Unexpected| bad(layer, text, what, &e);
    let mut scan = scanner(text, value);
    let mut out = Vec::new();
    scan.need(b'{', "\"{\"").map_err(fail)?;
    while !scan.take(b'}') {
        let word = scan.word();
        let number = word.split(':').next().unwrap_or_default();
        scan.at -= word.len() - number.len();
        let Ok(time) = fast_float2::parse(number) else {
            return Err(fail(Unexpected { expected: "a time", at: scan.at }));
        };
        scan.need(b':', "\":\"").map_err(fail)?;
        let (from, to) = scan.value().map_err(fail)?;
        out.push((time, span(from, to)));
        scan.take(b',');
    }
    Ok(out)
}

/// See [`Layer::dictionary`]: `{ type name = value ... }`.
pub fn dictionary(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<(String, ValueRef)>, IoError> {
    let fail = |e: Unexpected| bad(layer, text, what, &e);
    let mut scan = scanner(text, value);
    let mut out = Vec::new();
    scan.need(b'{', "\"{\"").map_err(fail)?;
    while !scan.take(b'}') {
        if scan.take(b',') {
            continue;
        }
        if scan.word().is_empty() {
            return Err(fail(Unexpected { expected: "a type", at: scan.at }));
        }
        if scan.take(b'[') {
            scan.need(b']', "\"]\"").map_err(fail)?;
        }
        scan.skip_space();
        let key = match scan.peek() {
            b'"' | b'\'' => unescaped(scan.string().map_err(fail)?),
            _ => scan.word().to_owned(),
        };
        scan.need(b'=', "\"=\"").map_err(fail)?;
        let (from, to) = scan.value().map_err(fail)?;
        out.push((key, span(from, to)));
    }
    Ok(out)
}

/// See [`Layer::arcs`]: `@asset@</prim> (offset = 1; scale = 2)`, one or a list.
pub fn arcs(layer: &Layer, text: &str, value: ValueRef, what: &str) -> Result<Vec<Arc>, IoError> {
    let fail = |e: Unexpected| bad(layer, text, what, &e);
    let mut scan = scanner(text, value);
    let mut out: Vec<Arc> = Vec::new();
    loop {
        scan.skip_space();
        let plain = || Arc { asset: String::new(), prim: String::new(), offset: 0.0, scale: 1.0 };
        match scan.peek() {
            0 if scan.done() => return Ok(out),
            b'[' | b']' | b',' => scan.at += 1,
            b'@' => {
                let mut arc = Arc { asset: scan.asset().map_err(fail)?.to_owned(), ..plain() };
                scan.skip_space();
                if scan.peek() == b'<' && !scan.done() {
                    arc.prim = scan.path().map_err(fail)?.to_owned();
                }
                out.push(arc);
            }
            b'<' => out.push(Arc { prim: scan.path().map_err(fail)?.to_owned(), ..plain() }),
            b'(' => {
                let start = scan.at;
                scan.brackets().map_err(fail)?;
                let inside = text.get(start + 1..scan.at - 1).unwrap_or_default();
                if let Some(arc) = out.last_mut() {
                    offsets(inside, arc);
                }
            }
            _ if scan.word() == "None" => {}
            _ => return Err(fail(Unexpected { expected: "a reference", at: scan.at })),
        }
    }
}

/// `offset = 1; scale = 2`.
fn offsets(inside: &str, arc: &mut Arc) {
    for part in inside.split([';', '\n', ',']) {
        let Some((key, number)) = part.split_once('=') else { continue };
        let Ok(number) = fast_float2::parse(number.trim()) else { continue };
        match key.trim() {
            "offset" => arc.offset = number,
            "scale" => arc.scale = number,
            _ => {}
        }
    }
}
