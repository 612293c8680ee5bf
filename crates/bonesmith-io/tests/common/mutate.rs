//! Mutators that know the structure of a format: the container stays whole, what it holds does not.

use std::io::{Cursor, Read, Write};

use serde_json::Value;

use super::random::Random;

/// A changed copy of a file with this ending.
pub fn mutate(ending: &str, bytes: &[u8], random: &mut Random) -> Vec<u8> {
    match ending {
        "glb" => glb(bytes, random),
        "gltf" => gltf(bytes, random),
        "npz" | "usdz" => zip(bytes, random),
        "usda" | "obj" | "ply" => text(bytes, random),
        "usdc" => usd_crate(bytes, random),
        "abc" => ogawa(bytes, random),
        "fbx" => fbx(bytes, random),
        _ => words(bytes, [1, 4, 8][random.below(3)], 8, random),
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(8)?)?;
    usize::try_from(u64::from_le_bytes(word.try_into().ok()?)).ok()
}

fn u32_at(bytes: &[u8], at: usize) -> Option<usize> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?) as usize)
}

fn put(bytes: &mut [u8], at: usize, value: u64, width: usize) {
    if let Some(place) = bytes.get_mut(at..at + width) {
        place.copy_from_slice(&value.to_le_bytes()[..width]);
    }
}

/// A number near `present`, or an extreme one.
fn number(present: u64, random: &mut Random) -> u64 {
    let extremes = [0, 1, 2, 0x7fff_ffff, 0xffff_ffff, u64::MAX, 1 << 40, i64::MAX as u64];
    match random.below(4) {
        0 => present.wrapping_add(1),
        1 => present.wrapping_sub(1),
        2 => present.wrapping_mul(2),
        _ => extremes[random.below(extremes.len())],
    }
}

/// Copies words over others, or sets them to extremes; the first `keep` bytes stay.
pub fn words(bytes: &[u8], width: usize, keep: usize, random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let count = out.len().saturating_sub(keep) / width;
    if count < 2 {
        return out;
    }
    for _ in 0..1 + random.below(4) {
        let [from, to] = [0; 2].map(|_| keep + width * random.below(count));
        match random.below(3) {
            0 => out.copy_within(from..from + width, to),
            1 => out[to..to + width].fill(if random.below(2) == 0 { 0xff } else { 0 }),
            _ => out[to] = out[to].wrapping_add(1),
        }
    }
    out
}

/// Changes bytes anywhere, whatever they mean: bits, extremes, parts left out, doubled or moved, an early end.
pub fn any_bytes(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..1 + random.below(6) {
        if out.len() < 16 {
            break;
        }
        let at = random.offset(out.len());
        match random.below(8) {
            0..=2 => out[at] ^= 1 << random.below(8),
            3 | 4 => {
                let width = [1, 2, 4, 8][random.below(4)];
                let value = number(u64_at(&out, at).unwrap_or(0) as u64, random);
                put(&mut out, at, value, width);
            }
            5 => out.truncate(at.max(1)),
            6 => {
                let end = (at + 1 + random.below(64)).min(out.len());
                out.drain(at..end);
            }
            _ => {
                let from = random.below(out.len());
                let part: Vec<u8> = out[from..(from + 1 + random.below(64)).min(out.len())].to_vec();
                out.splice(at..at, part);
            }
        }
    }
    out
}

/// Changes one member of a JSON tree: the way down is drawn at random.
fn json(value: &mut Value, random: &mut Random) {
    let down = random.below(8) > 0;
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = random.below(items.len());
            match (down, random.below(3)) {
                (true, _) => json(&mut items[at], random),
                (false, 0) => _ = items.remove(at),
                (false, 1) => items.push(items[at].clone()),
                _ => items.clear(),
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let key = members.keys().nth(random.below(members.len())).cloned().unwrap_or_default();
            match down {
                true => members.get_mut(&key).into_iter().for_each(|member| json(member, random)),
                false => _ = members.remove(&key),
            }
        }
        Value::Number(_) => {
            let numbers = [
                "0",
                "-1",
                "1",
                "3",
                "5",
                "5126",
                "1e39",
                "-1e308",
                "65536",
                "4294967295",
                "1e-300",
                "4",
                "8",
                "12",
                "16",
            ];
            *value = serde_json::from_str(numbers[random.below(numbers.len())]).unwrap();
        }
        Value::String(text) => {
            let texts = [
                "",
                "pointer",
                "rotation",
                "VEC3",
                "MAT4",
                "SCALAR",
                "a/../b",
                "data:,",
                "\u{1b}[2J",
                "ATTRIBUTES",
                "TRIANGLES",
                "INDICES",
                "OCTAHEDRAL",
                "QUATERNION",
                "EXPONENTIAL",
            ];
            *text = texts[random.below(texts.len())].into();
        }
        other => *other = Value::Null,
    }
}

fn gltf(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut tree: Value = serde_json::from_slice(bytes).unwrap();
    (0..1 + random.below(3)).for_each(|_| json(&mut tree, random));
    tree.to_string().into_bytes()
}

fn glb(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let end = 20 + u32_at(bytes, 12).unwrap();
    let mut text = gltf(&bytes[20..end], random);
    text.resize(text.len().next_multiple_of(4), b' ');
    let rest = if random.below(2) == 0 {
        bytes[end..].to_vec()
    } else {
        words(&bytes[end..], [1, 4][random.below(2)], 8, random)
    };
    let mut out = b"glTF\x02\0\0\0".to_vec();
    out.extend(((20 + text.len() + rest.len()) as u32).to_le_bytes());
    out.extend((text.len() as u32).to_le_bytes());
    out.extend(b"JSON");
    out.extend(text);
    out.extend(rest);
    out
}

/// One member of an archive changed, and packed anew with the right checksum. Layers inside are changed as layers.
fn zip(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut out = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let chosen = random.below(archive.len());
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for at in 0..archive.len() {
        let mut member = archive.by_index(at).unwrap();
        let name = member.name().unwrap().into_owned();
        let mut content = Vec::new();
        member.read_to_end(&mut content).unwrap();
        if at == chosen {
            match random.below(7) {
                0 => continue,
                1 => content.truncate(random.below(content.len())),
                _ if name.ends_with(".usdc") => content = usd_crate(&content, random),
                2 | 3 => content = npy_header(&content, random),
                _ => content = words(&content, [4, 8][random.below(2)], 128.min(content.len()), random),
            }
        }
        out.start_file(name, options.with_alignment(64)).unwrap();
        out.write_all(&content).unwrap();
    }
    out.finish().unwrap().into_inner()
}

/// A digit, a sign or a letter of the type in an array's header.
fn npy_header(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    let places: Vec<usize> = (10..out.len().min(128)).filter(|&at| out[at].is_ascii_alphanumeric()).collect();
    if let Some(&at) = places.get(random.below(places.len())) {
        out[at] = b"0123489fiubUSTrue<>"[random.below(19)];
    }
    out
}

/// Words of a text exchanged for others of it or for extremes; lines left out, doubled or moved.
fn text(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    const ODD: [&str; 12] = ["0", "-1", "1e39", "nan", "-inf", "99999999999", "1/2/3", "None", "\"", "(", "[]", "</a>"];
    let whole = String::from_utf8_lossy(bytes).into_owned();
    let mut lines: Vec<String> = whole.lines().map(str::to_owned).collect();
    for _ in 0..1 + random.below(3) {
        let [at, other] = [0; 2].map(|_| random.below(lines.len()));
        match random.below(8) {
            0 if lines.len() > 1 => _ = lines.remove(at),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            _ => {
                let words: Vec<&str> = lines[at].split(' ').collect();
                let theirs: Vec<&str> = lines[other].split(' ').collect();
                let mut new: Vec<&str> = words.clone();
                let place = random.below(new.len());
                new[place] = match random.below(2) {
                    0 => ODD[random.below(ODD.len())],
                    _ => theirs[random.below(theirs.len())],
                };
                lines[at] = new.join(" ");
            }
        }
    }
    lines.join("\n").into_bytes()
}

/// Table of contents, counts at the starts of sections, and values of a USD crate.
fn usd_crate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    const HEAD: usize = 88;
    const ENTRY: usize = 32;
    let mut out = bytes.to_vec();
    let Some((toc, sections)) = u64_at(bytes, 16).and_then(|toc| Some((toc, u64_at(bytes, toc)?))) else { return out };
    for _ in 0..1 + random.below(3) {
        let entry = |at: usize| toc + 8 + ENTRY * at;
        let chosen = entry(random.below(sections.min(64)));
        let Some((start, size)) = u64_at(bytes, chosen + 16).zip(u64_at(bytes, chosen + 24)) else { continue };
        match random.below(6) {
            // Start or size of a section.
            0 => {
                let at = chosen + 16 + 8 * random.below(2);
                put(&mut out, at, number(u64_at(bytes, at).unwrap_or(0) as u64, random), 8);
            }
            // One section in the place of another.
            1 => {
                let from = entry(random.below(sections.min(64)));
                if from + ENTRY <= out.len() && chosen + ENTRY <= out.len() {
                    out.copy_within(from + 16..from + ENTRY, chosen + 16);
                }
            }
            // Counts and packed sizes at its start.
            2 | 3 => {
                let at = start + 8 * random.below(4);
                put(&mut out, at, number(u64_at(bytes, at).unwrap_or(0) as u64, random), 8);
            }
            // A byte of its content.
            4 => {
                let at = start + random.below(size);
                let byte = random.below(256) as u64;
                put(&mut out, at, byte, 1);
            }
            // A value before the sections.
            _ => {
                let at = HEAD + random.below(toc.saturating_sub(HEAD));
                let value = number(u64_at(bytes, at).unwrap_or(0) as u64, random);
                put(&mut out, at, value, [1, 4, 8][random.below(3)]);
            }
        }
    }
    out
}

/// Children, counts and data of Ogawa groups.
fn ogawa(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    /// Marks a child that is data.
    const DATA: usize = 1 << 63;
    let (mut groups, mut data, mut children) = (Vec::new(), Vec::new(), Vec::new());
    let mut queue: Vec<usize> = u64_at(bytes, 8).into_iter().collect();
    while let Some(at) = queue.pop().filter(|_| groups.len() < 4096) {
        let count = u64_at(bytes, at).unwrap_or(0).min(65536);
        groups.push(at);
        for slot in (0..count).map(|c| at + 8 + 8 * c) {
            let Some(child) = u64_at(bytes, slot) else { break };
            children.push(slot);
            match child {
                0 | DATA => {}
                child if child & DATA != 0 => data.push(child & !DATA),
                child => queue.push(child),
            }
        }
    }
    let mut out = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        match random.below(6) {
            // A child becomes another one, or nothing.
            0 | 1 if !children.is_empty() => {
                let [to, from] = [0; 2].map(|_| children[random.below(children.len())]);
                let child = u64_at(bytes, from).unwrap_or(0) as u64;
                let odd = [child, child, 0, DATA as u64, child ^ DATA as u64, u64::MAX];
                put(&mut out, to, odd[random.below(odd.len())], 8);
            }
            // Number of children, length of data.
            2 => {
                let at = groups[random.below(groups.len())];
                put(&mut out, at, number(u64_at(bytes, at).unwrap_or(0) as u64, random), 8);
            }
            3 if !data.is_empty() => {
                let at = data[random.below(data.len())];
                put(&mut out, at, number(u64_at(bytes, at).unwrap_or(0) as u64, random), 8);
            }
            // A byte or a word of data.
            _ if !data.is_empty() => {
                let at = data[random.below(data.len())];
                let length = u64_at(bytes, at).unwrap_or(0);
                let place = at + 8 + random.below(length);
                let (value, width) =
                    (number(u64_at(bytes, place).unwrap_or(0) as u64, random), [1, 4, 8][random.below(3)]);
                put(&mut out, place, value, width);
            }
            _ => {}
        }
    }
    out
}

/// Names and properties of FBX records.
fn fbx(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let wide = u32_at(bytes, 23).unwrap_or(0) >= 7500;
    let size = if wide { 8 } else { 4 };
    let word = |at: usize| if wide { u64_at(bytes, at) } else { u32_at(bytes, at) };
    // Offsets of names (with their lengths) and of properties (with their bytes).
    let (mut names, mut properties) = (Vec::new(), Vec::new());
    let mut queue = vec![27];
    while let Some(at) = queue.pop() {
        let Some((end, list)) = word(at).zip(word(at + 2 * size)) else { continue };
        let Some(&length) = bytes.get(at + 3 * size) else { continue };
        let first = at + 3 * size + 1 + usize::from(length);
        if end <= at || end > bytes.len() || list > bytes.len() {
            continue;
        }
        names.push((at + 3 * size + 1, usize::from(length)));
        if list > 0 {
            properties.push((first, list));
        }
        queue.extend([end, first + list].into_iter().filter(|next| *next < bytes.len()));
        if names.len() > 65536 {
            break;
        }
    }
    let mut out = bytes.to_vec();
    for _ in 0..1 + random.below(3) {
        match random.below(4) {
            // A record takes the name of another that is as long.
            0 if !names.is_empty() => {
                let (to, length) = names[random.below(names.len())];
                let alike: Vec<_> = names.iter().filter(|(_, other)| *other == length).collect();
                let (from, _) = *alike[random.below(alike.len())];
                out.copy_within(from..from + length, to);
            }
            // A number in a list of properties; array lengths and encodings among them.
            1 | 2 if !properties.is_empty() => {
                let (start, length) = properties[random.below(properties.len())];
                let at = start + random.below(length.min(24));
                let value = number(u64_at(bytes, at).unwrap_or(0) as u64, random);
                put(&mut out, at, value, [1, 4, 8][random.below(3)]);
            }
            // One list over another.
            3 if !properties.is_empty() => {
                let [(to, length), (from, other)] = [0; 2].map(|_| properties[random.below(properties.len())]);
                let length = length.min(other);
                out.copy_within(from..from + length, to);
            }
            _ => {}
        }
    }
    out
}
