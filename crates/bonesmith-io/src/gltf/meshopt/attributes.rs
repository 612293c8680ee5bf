//! Mode `ATTRIBUTES`: elements as differences of bytes, plane by plane, in groups of 16.
//!
//! A block holds up to 256 elements. For each byte of an element there is a plane of differences to the byte of the element before; a
//! group of 16 differences takes 0, 1 (version 1), 2 or 4 bits each, with larger ones as whole bytes behind them, or 16 bytes.

/// First bytes of a stream.
const HEADERS: [u8; 2] = [0xa0, 0xa1];
/// Least bytes of the tail, by version.
const TAILS: [usize; 2] = [32, 24];
const GROUP: usize = 16;
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
    fn plane(&mut self, widths: [usize; 4], groups: usize, out: &mut [u8]) -> Result<(), String> {
        let header = self.take(groups.div_ceil(4))?;
        for (g, out) in out.chunks_mut(GROUP).take(groups).enumerate() {
            self.group(widths[usize::from(header[g / 4] >> (2 * (g % 4)) & 3)], out)?;
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
                None => source.plane([0, 2, 4, 8], groups, plane)?,
                Some(0) => source.plane([0, 1, 2, 4], groups, plane)?,
                Some(1) => source.plane([1, 2, 4, 8], groups, plane)?,
                Some(2) => plane.fill(0),
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

/// Bytes of a group of differences, and which of the four widths is the shortest.
pub fn shortest(group: &[u8]) -> (usize, u8) {
    if group.iter().all(|delta| *delta == 0) {
        return (0, 0);
    }
    let large = |limit: u8| group.iter().filter(|delta| **delta >= limit).count();
    let choices = [(4 + large(3), 1), (8 + large(15), 2), (GROUP, 3)];
    choices.into_iter().min().unwrap_or((GROUP, 3))
}

/// Version 0 of `bytes`, whose elements have `stride` bytes.
pub fn encode(bytes: &[u8], stride: usize) -> Vec<u8> {
    let mut out = vec![HEADERS[0]];
    let first = bytes.get(..stride).map_or_else(|| vec![0; stride], <[u8]>::to_vec);
    let mut last = first.clone();
    for block in bytes.chunks(block_elements(stride) * stride) {
        let groups = (block.len() / stride).div_ceil(GROUP);
        for k in 0..stride {
            let mut plane = vec![0u8; groups * GROUP];
            for (delta, element) in plane.iter_mut().zip(block.chunks_exact(stride)) {
                *delta = zigzag(element[k].wrapping_sub(last[k]));
                last[k] = element[k];
            }
            write_plane(&plane, &mut out);
        }
    }
    out.resize(out.len() + TAILS[0].saturating_sub(stride), 0);
    out.extend_from_slice(&first);
    out
}

fn write_plane(plane: &[u8], out: &mut Vec<u8>) {
    let header = out.len();
    out.resize(header + (plane.len() / GROUP).div_ceil(4), 0);
    for (g, group) in plane.chunks_exact(GROUP).enumerate() {
        let (_, mode) = shortest(group);
        out[header + g / 4] |= mode << (2 * (g % 4));
        match mode {
            0 => {}
            3 => out.extend_from_slice(group),
            mode => {
                let bits = 2 * usize::from(mode);
                let sentinel = (1u8 << bits) - 1;
                for packed in group.chunks_exact(8 / bits) {
                    out.push(packed.iter().fold(0, |byte, &delta| byte << bits | delta.min(sentinel)));
                }
                out.extend(group.iter().filter(|delta| **delta >= sentinel));
            }
        }
    }
}

/// Bytes that elements take in a stream of many: without header and tail.
pub fn encoded_len(bytes: &[u8], stride: usize) -> usize {
    let mut total = 0;
    let elements = bytes.len() / stride;
    for k in 0..stride {
        let byte = |e: usize| bytes[e * stride + k];
        for group in (0..elements).step_by(GROUP) {
            let mut deltas = [0u8; GROUP];
            for (delta, e) in deltas.iter_mut().zip(group..elements) {
                *delta = zigzag(byte(e).wrapping_sub(if e == 0 { byte(0) } else { byte(e - 1) }));
            }
            total += shortest(&deltas).0;
        }
    }
    total + (stride * elements.div_ceil(GROUP)).div_ceil(4)
}
