//! Mode `ATTRIBUTES`: elements as differences of bytes, plane by plane, in groups of 16.
//!
//! A block holds up to 256 elements. For each byte of an element there is a plane of differences to the byte of the element before; a
//! group of 16 differences takes 0, 1 (version 1), 2 or 4 bits each, with larger ones as whole bytes behind them, or 16 bytes.

/// Version of a stream: `EXT_meshopt_compression` has the first one only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Differences of bytes.
    Zero,
    /// Differences of bytes or of 16 bits, for each 4 bytes of an element; constant planes take nothing.
    One,
}

/// First bytes of a stream.
const HEADERS: [u8; 2] = [0xa0, 0xa1];
/// Least bytes of the tail, by version.
const TAILS: [usize; 2] = [32, 24];
const GROUP: usize = 16;
/// Bits of a difference, by width.
const WIDTHS: [usize; 5] = [0, 1, 2, 4, 8];
/// Widths that a group of version 0 may have; of version 1, by the plane's control bits.
const CHOICES: [u8; 4] = [0, 2, 3, 4];
const CONTROLLED: [[u8; 4]; 2] = [[0, 1, 2, 3], [1, 2, 3, 4]];
/// Control bits of a plane of zeros, and of one that is written as it is.
const ZEROS: u8 = 2;
const LITERAL: u8 = 3;
/// Most bytes that one byte of a stream can stand for: a byte that says that four planes of 256 elements are constant.
const MAX_GROWTH: usize = 1024;

/// Elements of one block.
pub fn block_elements(stride: usize) -> usize {
    ((8192 / stride) & !15).min(256)
}

fn unzigzag(v: u8) -> u8 {
    if v & 1 == 1 { !(v >> 1) } else { v >> 1 }
}

pub fn zigzag(v: u8) -> u8 {
    if v & 0x80 != 0 { !(v << 1) } else { v << 1 }
}

pub fn zigzag16(v: u16) -> u16 {
    if v & 0x8000 != 0 { !(v << 1) } else { v << 1 }
}

fn unzigzag16(v: u16) -> u16 {
    if v & 1 == 1 { !(v >> 1) } else { v >> 1 }
}

/// Bytes of a stream, in order.
struct Source<'a> {
    bytes: &'a [u8],
}

impl<'a> Source<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (head, rest) = self.bytes.split_at_checked(count).ok_or("the stream ends too early")?;
        self.bytes = rest;
        Ok(head)
    }

    /// A group of 16 differences of `bits` bits each.
    fn group(&mut self, bits: usize, out: &mut [u8]) -> Result<(), String> {
        match bits {
            0 => out.fill(0),
            8 => out.copy_from_slice(self.take(GROUP)?),
            _ => {
                let packed = self.take(2 * bits)?;
                let sentinel = (1u8 << bits) - 1;
                let per_byte = 8 / bits;
                for (at, value) in out.iter_mut().enumerate() {
                    // The first of a byte has the highest bits; with one bit each, the lowest.
                    let place = if bits == 1 { at % 8 } else { 8 - bits * (at % per_byte + 1) };
                    *value = packed[at / per_byte] >> place & sentinel;
                }
                for value in out.iter_mut().filter(|value| **value == sentinel) {
                    *value = self.take(1)?[0];
                }
            }
        }
        Ok(())
    }

    /// A plane of `groups` groups with 2 bits each that choose one of `widths`.
    fn plane(&mut self, widths: [u8; 4], groups: usize, out: &mut [u8]) -> Result<(), String> {
        let header = self.take(groups.div_ceil(4))?;
        for (g, out) in out.chunks_mut(GROUP).take(groups).enumerate() {
            let width = widths[usize::from(header[g / 4] >> (2 * (g % 4)) & 3)];
            self.group(WIDTHS[usize::from(width)], out)?;
        }
        Ok(())
    }
}

/// `count` elements of `stride` bytes.
pub fn decode(bytes: &[u8], count: usize, stride: usize) -> Result<Vec<u8>, String> {
    let version = bytes.first().and_then(|first| HEADERS.iter().position(|header| header == first));
    let version = version.ok_or("the stream does not start as attributes of version 0 or 1 do")?;
    let channels = if version == 1 { stride / 4 } else { 0 };
    let tail = stride + channels;
    let body =
        bytes.len().checked_sub(tail.max(TAILS[version])).filter(|end| *end >= 1).ok_or("the stream has no tail")?;
    let (mut last, modes) = {
        let (first, modes) = bytes[bytes.len() - tail..].split_at(stride);
        (first.to_vec(), modes)
    };
    if modes.iter().any(|mode| mode & 15 > 2 || (mode & 15 < 2 && mode >> 4 != 0)) {
        return Err("the stream has a channel of an unknown mode".into());
    }
    let mut source = Source { bytes: &bytes[1..body] };
    let mut out = Vec::with_capacity(count.saturating_mul(stride).min(bytes.len().saturating_mul(MAX_GROWTH)));
    let mut planes = vec![[0u8; 256]; stride];
    let mut left = count;
    while left > 0 {
        let elements = left.min(block_elements(stride));
        let groups = elements.div_ceil(GROUP);
        let control = source.take(channels)?.to_vec();
        for (k, plane) in planes.iter_mut().enumerate() {
            let control = control.get(k / 4).map(|byte| byte >> (2 * (k % 4)) & 3);
            match control {
                None => source.plane(CHOICES, groups, plane)?,
                Some(control @ 0..=1) => source.plane(CONTROLLED[usize::from(control)], groups, plane)?,
                Some(ZEROS) => plane.fill(0),
                Some(_) => plane[..elements].copy_from_slice(source.take(elements)?),
            }
        }
        for e in 0..elements {
            add(&planes, e, modes, &mut last);
            out.extend_from_slice(&last);
        }
        left -= elements;
    }
    if !source.bytes.is_empty() {
        return Err(format!("{} bytes of the stream are left over", source.bytes.len()));
    }
    Ok(out)
}

/// Adds the differences of element `e` to the element before it.
fn add(planes: &[[u8; 256]], e: usize, modes: &[u8], last: &mut [u8]) {
    for (c, last) in last.chunks_exact_mut(4).enumerate() {
        let delta: [u8; 4] = std::array::from_fn(|b| planes[4 * c + b][e]);
        let mode = modes.get(c).copied().unwrap_or(0);
        match mode & 15 {
            0 => last.iter_mut().zip(delta).for_each(|(last, delta)| *last = last.wrapping_add(unzigzag(delta))),
            1 => {
                for (last, delta) in last.chunks_exact_mut(2).zip(delta.chunks_exact(2)) {
                    let sum = u16::from_le_bytes([last[0], last[1]])
                        .wrapping_add(unzigzag16(u16::from_le_bytes([delta[0], delta[1]])));
                    last.copy_from_slice(&sum.to_le_bytes());
                }
            }
            _ => {
                let before = u32::from_le_bytes([last[0], last[1], last[2], last[3]]);
                let value = before ^ u32::from_le_bytes(delta).rotate_right(u32::from(mode >> 4));
                last.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
}

/// Bytes of a group of differences in each width, without its 2 bits.
fn sizes(group: &[u8]) -> [usize; WIDTHS.len()] {
    let from = |limit: u8| group.iter().filter(|delta| **delta >= limit).count();
    let used = from(1);
    [if used == 0 { 0 } else { usize::MAX }, 2 + used, 4 + from(3), 8 + from(15), GROUP]
}

fn least(sizes: &[usize; WIDTHS.len()], choices: &[u8]) -> (usize, u8) {
    choices.iter().map(|&width| (sizes[usize::from(width)], width)).min().unwrap_or((GROUP, 4))
}

/// Bytes of a group of differences, and which width is the shortest.
pub fn shortest(group: &[u8], version: Version) -> (usize, u8) {
    let sizes = sizes(group);
    match version {
        Version::Zero => least(&sizes, &CHOICES),
        Version::One => least(&sizes, &[0, 1, 2, 3, 4]),
    }
}

/// Differences of four bytes to those before: of each byte, or of two halves of 16 bits.
fn differences(before: &[u8], after: &[u8], halves: bool) -> [u8; 4] {
    if !halves {
        return std::array::from_fn(|b| zigzag(after[b].wrapping_sub(before[b])));
    }
    let half = |bytes: &[u8], h: usize| u16::from_le_bytes([bytes[2 * h], bytes[2 * h + 1]]);
    let [low, high] = [0, 1].map(|h| zigzag16(half(after, h).wrapping_sub(half(before, h))).to_le_bytes());
    [low[0], low[1], high[0], high[1]]
}

/// Four bytes of element `e`.
fn channel(bytes: &[u8], stride: usize, c: usize, e: usize) -> &[u8] {
    &bytes[e * stride + 4 * c..][..4]
}

/// Four planes of differences of a channel, for some elements; those of the first of all are 0.
fn planes(bytes: &[u8], stride: usize, c: usize, elements: std::ops::Range<usize>, halves: bool) -> [Vec<u8>; 4] {
    let length = elements.len().next_multiple_of(GROUP);
    let mut planes: [Vec<u8>; 4] = std::array::from_fn(|_| vec![0; length]);
    for (at, e) in elements.enumerate() {
        let before = channel(bytes, stride, c, e.saturating_sub(1));
        let deltas = differences(before, channel(bytes, stride, c, e), halves);
        planes.iter_mut().zip(deltas).for_each(|(plane, delta)| plane[at] = delta);
    }
    planes
}

/// Elements of each block.
fn blocks(elements: usize, stride: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    let size = block_elements(stride);
    (0..elements).step_by(size).map(move |start| start..(start + size).min(elements))
}

/// `bytes`, whose elements have `stride` bytes, as a stream.
pub fn encode(bytes: &[u8], stride: usize, version: Version) -> Vec<u8> {
    let (elements, channels) = (bytes.len() / stride, stride / 4);
    let first = bytes.get(..stride).map_or_else(|| vec![0; stride], <[u8]>::to_vec);
    let (mut out, halves) = match version {
        Version::Zero => (vec![HEADERS[0]], vec![false; channels]),
        Version::One => (vec![HEADERS[1]], (0..channels).map(|c| has_halves(bytes, stride, c)).collect()),
    };
    for block in blocks(elements, stride) {
        let all = (0..channels).map(|c| planes(bytes, stride, c, block.clone(), halves[c]));
        let all: Vec<[Vec<u8>; 4]> = all.collect();
        if version == Version::One {
            let control = |planes: &[Vec<u8>; 4]| {
                let of = |(b, plane): (usize, &Vec<u8>)| control_of(plane, block.len()) << (2 * b);
                planes.iter().enumerate().map(of).sum::<u8>()
            };
            out.extend(all.iter().map(control));
        }
        for plane in all.iter().flatten() {
            match (version, control_of(plane, block.len())) {
                (Version::Zero, _) => write_plane(plane, &CHOICES, &mut out),
                (_, ZEROS) => {}
                (_, LITERAL) => out.extend_from_slice(&plane[..block.len()]),
                (_, control) => write_plane(plane, &CONTROLLED[usize::from(control)], &mut out),
            }
        }
    }
    let modes: Vec<u8> = match version {
        Version::Zero => Vec::new(),
        Version::One => halves.iter().map(|halves| u8::from(*halves)).collect(),
    };
    let tail = TAILS[usize::from(version == Version::One)];
    out.resize(out.len() + tail.saturating_sub(stride + modes.len()), 0);
    out.extend_from_slice(&first);
    out.extend_from_slice(&modes);
    out
}

/// Whether a channel is shorter as differences of 16 bits.
fn has_halves(bytes: &[u8], stride: usize, c: usize) -> bool {
    let [apart, halves] = [false, true].map(|halves| channel_len(bytes, stride, c, Version::One, halves));
    halves < apart
}

/// The control bits with which a plane is the shortest.
fn control_of(plane: &[u8], elements: usize) -> u8 {
    if plane.iter().all(|delta| *delta == 0) {
        return ZEROS;
    }
    let sizes: Vec<[usize; WIDTHS.len()]> = plane.chunks_exact(GROUP).map(sizes).collect();
    let with =
        |choices: &[u8; 4]| sizes.len().div_ceil(4) + sizes.iter().map(|sizes| least(sizes, choices).0).sum::<usize>();
    let options = [(with(&CONTROLLED[0]), 0), (with(&CONTROLLED[1]), 1), (elements, LITERAL)];
    options.into_iter().min().map_or(LITERAL, |(_, control)| control)
}

fn write_plane(plane: &[u8], choices: &[u8; 4], out: &mut Vec<u8>) {
    let header = out.len();
    out.resize(header + (plane.len() / GROUP).div_ceil(4), 0);
    for (g, group) in plane.chunks_exact(GROUP).enumerate() {
        let (_, width) = least(&sizes(group), choices);
        let chosen = choices.iter().position(|choice| *choice == width).unwrap_or(3) as u8;
        out[header + g / 4] |= chosen << (2 * (g % 4));
        match WIDTHS[usize::from(width)] {
            0 => {}
            8 => out.extend_from_slice(group),
            bits => {
                let sentinel = (1u8 << bits) - 1;
                for packed in group.chunks_exact(8 / bits) {
                    // The first has the highest bits; with one bit each, the lowest.
                    let place = |at: usize| if bits == 1 { at } else { 8 - bits * (at + 1) };
                    let add = |byte: u8, (at, delta): (usize, &u8)| byte | (*delta).min(sentinel) << place(at);
                    out.push(packed.iter().enumerate().fold(0, add));
                }
                out.extend(group.iter().filter(|delta| **delta >= sentinel));
            }
        }
    }
}

/// Bytes that elements take in a stream of many, about: without header and tail.
pub fn encoded_len(bytes: &[u8], stride: usize, version: Version) -> usize {
    let len = |c: usize, halves: bool| channel_len(bytes, stride, c, version, halves);
    let channel = |c: usize| match version {
        Version::Zero => len(c, false),
        Version::One => len(c, false).min(len(c, true)),
    };
    (0..stride / 4).map(channel).sum()
}

fn channel_len(bytes: &[u8], stride: usize, c: usize, version: Version, halves: bool) -> usize {
    let elements = bytes.len() / stride;
    let (mut total, mut used) = (0, [version == Version::Zero; 4]);
    for group in (0..elements).step_by(GROUP) {
        let mut deltas = [[0u8; GROUP]; 4];
        for e in group..(group + GROUP).min(elements) {
            let before = channel(bytes, stride, c, e.saturating_sub(1));
            let own = differences(before, channel(bytes, stride, c, e), halves);
            (0..4).for_each(|b| deltas[b][e - group] = own[b]);
        }
        for (deltas, used) in deltas.iter().zip(&mut used) {
            let (bytes, width) = shortest(deltas, version);
            total += bytes;
            *used |= width > 0;
        }
    }
    let headers = used.iter().filter(|used| **used).count() * elements.div_ceil(GROUP);
    total + headers.div_ceil(4)
}
