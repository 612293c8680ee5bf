//! Layers as text.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::usd::write::doc::{Doc, Prim, Property, Value, Variants};

/// Writes a layer. Numbers are as short as they can be and still come back bit for bit.
pub fn to_text(doc: &Doc, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "#usda 1.0")?;
    metadata(&doc.metadata, 0, out)?;
    writeln!(out)?;
    for prim in &doc.prims {
        writeln!(out)?;
        write_prim(prim, 0, out)?;
    }
    Ok(())
}

fn indent(depth: usize) -> String {
    " ".repeat(4 * depth)
}

/// `( ... )`, or nothing.
fn metadata(entries: &[(&'static str, Value)], depth: usize, out: &mut impl Write) -> io::Result<()> {
    if entries.is_empty() {
        return Ok(());
    }
    writeln!(out, "(")?;
    self::entries(entries, depth, out)?;
    write!(out, "{})", indent(depth))
}

fn entries(entries: &[(&'static str, Value)], depth: usize, out: &mut impl Write) -> io::Result<()> {
    for (key, value) in entries {
        let list = if matches!(value, Value::Prepend(_) | Value::Reference(_)) { "prepend " } else { "" };
        // The text form has a word of its own for this one.
        let key = if *key == "documentation" { "doc" } else { key };
        writeln!(out, "{}{list}{key} = {}", indent(depth + 1), text(value))?;
    }
    Ok(())
}

fn write_prim(prim: &Prim, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let space = if prim.type_name.is_empty() { "" } else { " " };
    let specifier = if prim.over { "over" } else { "def" };
    write!(out, "{}{specifier}{space}{} \"{}\" ", indent(depth), prim.type_name, prim.name)?;
    match &prim.variants {
        None => metadata(&prim.metadata, depth, out)?,
        Some(Variants { set, of }) => {
            let (inner, selected) = (indent(depth + 1), of.first().map_or("", |variant| &variant.name));
            writeln!(out, "(")?;
            entries(&prim.metadata, depth, out)?;
            writeln!(out, "{inner}prepend variantSets = \"{set}\"")?;
            writeln!(out, "{inner}variants = {{ string {set} = \"{selected}\" }}")?;
            write!(out, "{})", indent(depth))?;
        }
    }
    writeln!(out, "\n{}{{", indent(depth))?;
    write_content(prim, depth, out)?;
    if let Some(Variants { set, of }) = &prim.variants {
        writeln!(out, "\n{}variantSet \"{set}\" = {{", indent(depth + 1))?;
        for variant in of {
            writeln!(out, "{}\"{}\" {{", indent(depth + 2), variant.name)?;
            write_content(variant, depth + 2, out)?;
            writeln!(out, "{}}}", indent(depth + 2))?;
        }
        writeln!(out, "{}}}", indent(depth + 1))?;
    }
    writeln!(out, "{}}}", indent(depth))
}

/// Properties and children.
fn write_content(prim: &Prim, depth: usize, out: &mut impl Write) -> io::Result<()> {
    for property in &prim.properties {
        write_property(property, depth + 1, out)?;
    }
    for (at, child) in prim.children.iter().enumerate() {
        if at > 0 || !prim.properties.is_empty() {
            writeln!(out)?;
        }
        write_prim(child, depth + 1, out)?;
    }
    Ok(())
}

fn write_property(property: &Property, depth: usize, out: &mut impl Write) -> io::Result<()> {
    let Property { name, type_name, .. } = property;
    let custom = if property.custom { "custom " } else { "" };
    let uniform = if property.uniform && !type_name.is_empty() { "uniform " } else { "" };
    let kind = if type_name.is_empty() { "rel" } else { type_name };
    let head = format!("{}{custom}{uniform}{kind} {name}", indent(depth));
    let targets: Vec<String> = property.targets.iter().map(|target| format!("<{target}>")).collect();
    let targets = if targets.len() == 1 { targets[0].clone() } else { format!("[{}]", targets.join(", ")) };
    match (&property.default, property.targets.is_empty()) {
        (Some(value), _) => write!(out, "{head} = {}", text(value))?,
        (None, false) if type_name.is_empty() => write!(out, "{head} = {targets}")?,
        (None, false) => write!(out, "{head}.connect = {targets}")?,
        (None, true) => write!(out, "{head}")?,
    }
    if !property.metadata.is_empty() {
        write!(out, " ")?;
        metadata(&property.metadata, depth, out)?;
    }
    writeln!(out)?;
    if !property.samples.is_empty() {
        writeln!(out, "{head}.timeSamples = {{")?;
        for (time, value) in &property.samples {
            writeln!(out, "{}{time}: {},", indent(depth + 1), text(value))?;
        }
        writeln!(out, "{}}}", indent(depth))?;
    }
    Ok(())
}

fn text(value: &Value) -> String {
    match value {
        Value::Token(s) | Value::Text(s) => quoted(s),
        Value::Reference(path) => format!("<{path}>"),
        Value::Asset(s) => format!("@{}@", s.replace('@', "_")),
        Value::Bool(b) => b.to_string(),
        Value::Int(i) => i.to_string(),
        Value::Float(x) => x.to_string(),
        Value::Double(x) => x.to_string(),
        Value::Float3(v) => tuple(v),
        Value::Float4(v) => tuple(v),
        Value::Double3(v) => tuple(v),
        Value::Quat(q) => tuple(q),
        Value::Matrix(m) => matrix(m),
        Value::Tokens(list) | Value::Prepend(list) => array(list.iter(), |s, out| out.push_str(&quoted(s))),
        Value::Ints(list) => array(list.iter(), |i, out| _ = write!(out, "{i}")),
        Value::Floats(list) => array(list.iter(), |x, out| _ = write!(out, "{x}")),
        Value::Float2s(list) => array(list.iter(), |v, out| push_tuple(v, out)),
        Value::Float3s(list) | Value::Half3s(list) => array(list.iter(), |v, out| push_tuple(v, out)),
        Value::Points(list) => array(list.iter(), |p, out| push_tuple(&p.to_array(), out)),
        Value::Frame(sequence, t, vertices) => text(&Value::Points(&sequence.part_of_frame(*t, vertices.clone()))),
        Value::Quats(list) => array(list.iter(), |q, out| push_tuple(q, out)),
        Value::Matrices(list) => array(list.iter(), |m, out| out.push_str(&matrix(m))),
        Value::Dictionary(entries) => {
            let entry = |(key, value): &(&str, String)| format!("string {key} = {}", quoted(value));
            format!("{{ {} }}", entries.iter().map(entry).collect::<Vec<_>>().join("; "))
        }
    }
}

fn array<T>(items: impl Iterator<Item = T>, mut push: impl FnMut(T, &mut String)) -> String {
    let mut out = String::from("[");
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push_str(", ");
        }
        push(item, &mut out);
    }
    out.push(']');
    out
}

fn push_tuple<T: std::fmt::Display>(values: &[T], out: &mut String) {
    out.push('(');
    for (at, value) in values.iter().enumerate() {
        let separator = if at > 0 { ", " } else { "" };
        _ = write!(out, "{separator}{value}");
    }
    out.push(')');
}

fn tuple<T: std::fmt::Display>(values: &[T]) -> String {
    let mut out = String::new();
    push_tuple(values, &mut out);
    out
}

fn matrix(m: &[f64; 16]) -> String {
    let rows: Vec<String> = m.as_chunks::<4>().0.iter().map(|row| tuple(row)).collect();
    format!("({})", rows.join(", "))
}

fn quoted(s: &str) -> String {
    let mut out = String::from("\"");
    for c in s.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() && (c as u32) < 256 => _ = write!(out, "\\x{:02x}", c as u32),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
