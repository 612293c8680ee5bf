//! The two compressions of binary USD: blocks of LZ4, and integers as differences in one, two or four bytes before it.
//!
//! A block is a byte with the number of chunks (0: one chunk without a head), then LZ4 data. Integers are a common
//! difference (4 bytes), a 2-bit code for each (0: the common difference, 1, 2, 3: an own one of 1, 2, 4 bytes), then the
//! own differences; with 64 bits: 8 bytes, and 2, 4, 8. Every size is checked against what the caller expects before
//! memory is asked for.

/// Why bytes could not be unfolded.
pub type Broken = &'static str;

/// Largest input of one LZ4 chunk.
const MAX_CHUNK: usize = 0x7E00_0000;

/// Unfolds a block into exactly `size` bytes.
pub fn unfold(block: &[u8], size: usize) -> Result<Vec<u8>, Broken> {
    let (&chunks, mut rest) = block.split_first().ok_or("a compressed block is empty")?;
    if chunks == 0 {
        let mut out = vec![0; size];
        let found = lz4_flex::block::decompress_into(rest, &mut out).map_err(|_| "a compressed block is damaged")?;
        return if found == size { Ok(out) } else { Err("a compressed block has another size than it should") };
    }
    let mut out = vec![0; size];
    let mut at = 0;
    for _ in 0..chunks {
        let (head, tail) = rest.split_first_chunk::<4>().ok_or("a compressed chunk is cut off")?;
        let length =
            usize::try_from(i32::from_le_bytes(*head)).map_err(|_| "a compressed chunk has a negative size")?;
        let chunk = tail.get(..length).ok_or("a compressed chunk is cut off")?;
        let room = out.get_mut(at..).ok_or("compressed chunks are too long")?;
        at += lz4_flex::block::decompress_into(chunk, room).map_err(|_| "a compressed chunk is damaged")?;
        rest = &tail[length..];
    }
    if at == size { Ok(out) } else { Err("compressed chunks have another size than they should") }
}

/// Packs bytes into a block; `None` beyond what one chunk holds.
pub fn fold(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() > MAX_CHUNK {
        return None;
    }
    let mut out = vec![0];
    out.extend(lz4_flex::block::compress(bytes));
    Some(out)
}

/// Unfolds `count` integers; `WIDTH` is 4 or 8, the bytes of the widest difference.
pub fn unfold_ints<const WIDTH: usize>(block: &[u8], count: usize) -> Result<Vec<i64>, Broken> {
    if count == 0 {
        return Ok(Vec::new());
    }
    // LZ4 gives at most 255 bytes for one: with that and 4 codes in a byte, the count is bounded by the block's size.
    let codes_size = count.div_ceil(4);
    if codes_size / 255 > block.len() {
        return Err("more integers are claimed than the block can hold");
    }
    let most = WIDTH + codes_size + count * WIDTH;
    let bytes = unfold_up_to(block, most)?;
    let cut = "compressed integers are cut off";
    let common = number(bytes.get(..WIDTH).ok_or(cut)?);
    let codes = bytes.get(WIDTH..WIDTH + codes_size).ok_or(cut)?;
    let mut own = &bytes[WIDTH + codes_size..];
    let mut out = Vec::with_capacity(count);
    let mut value = 0i64;
    for i in 0..count {
        let difference = match codes[i / 4] >> (2 * (i % 4)) & 3 {
            0 => common,
            code => {
                let size = (WIDTH / 4) << (code - 1);
                let (head, tail) = own.split_at_checked(size).ok_or(cut)?;
                own = tail;
                number(head)
            }
        };
        value = value.wrapping_add(difference);
        if WIDTH == 4 {
            value = i64::from(value as i32);
        }
        out.push(value);
    }
    Ok(out)
}

/// As [`unfold`], into whatever size there is up to `most`.
fn unfold_up_to(block: &[u8], most: usize) -> Result<Vec<u8>, Broken> {
    let (&chunks, rest) = block.split_first().ok_or("a compressed block is empty")?;
    if chunks != 0 {
        return Err("compressed integers in several chunks are more than we read");
    }
    // One LZ4 byte stands for at most 255.
    let mut out = vec![0; most.min(rest.len().saturating_mul(255).saturating_add(16))];
    let found = lz4_flex::block::decompress_into(rest, &mut out).map_err(|_| "compressed integers are damaged")?;
    out.truncate(found);
    Ok(out)
}

/// A little-endian signed number of 1, 2, 4 or 8 bytes.
fn number(bytes: &[u8]) -> i64 {
    let mut wide = [if bytes.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 }; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    i64::from_le_bytes(wide)
}

/// Packs 32-bit integers.
pub fn fold_ints(values: impl ExactSizeIterator<Item = i32>) -> Option<Vec<u8>> {
    let mut last = 0i32;
    let differences: Vec<i32> = values.map(|v| v.wrapping_sub(std::mem::replace(&mut last, v))).collect();
    let common = most_common(&differences);
    let mut codes = vec![0u8; differences.len().div_ceil(4)];
    let mut own = Vec::new();
    for (i, &d) in differences.iter().enumerate() {
        let code = if d == common {
            0
        } else if let Ok(d) = i8::try_from(d) {
            own.extend(d.to_le_bytes());
            1
        } else if let Ok(d) = i16::try_from(d) {
            own.extend(d.to_le_bytes());
            2
        } else {
            own.extend(d.to_le_bytes());
            3
        };
        codes[i / 4] |= code << (2 * (i % 4));
    }
    fold(&[&common.to_le_bytes()[..], &codes, &own].concat())
}

/// The most frequent value; the larger of equals, so that the result does not depend on any order.
fn most_common(values: &[i32]) -> i32 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let runs = sorted.chunk_by(|a, b| a == b).map(|run| (run.len(), run[0]));
    runs.max().map_or(0, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn integers_come_back(values in prop::collection::vec(prop_oneof![-3..3i32, any::<i32>(), -200..40000i32], 0..300)) {
            let block = fold_ints(values.iter().copied()).unwrap();
            let back = unfold_ints::<4>(&block, values.len()).unwrap();
            prop_assert_eq!(back, values.iter().map(|v| i64::from(*v)).collect::<Vec<_>>());
        }

        #[test]
        fn damaged_blocks_are_errors_or_numbers(mut block in prop::collection::vec(any::<u8>(), 0..200), count in 0..100_000usize) {
            let _ = unfold_ints::<4>(&block, count);
            let _ = unfold_ints::<8>(&block, count);
            if let Some(first) = block.first_mut() {
                *first %= 3;
            }
            let _ = unfold(&block, count);
            let _ = unfold_ints::<4>(&block, count);
        }
    }

    #[test]
    fn bytes_come_back() {
        for size in [0, 1, 15, 70_000] {
            let bytes: Vec<u8> = (0..size).map(|i: usize| (i * i / 7) as u8).collect();
            assert_eq!(unfold(&fold(&bytes).unwrap(), size).unwrap(), bytes);
            assert!(unfold(&fold(&bytes).unwrap(), size + 1).is_err());
        }
    }

    #[test]
    fn a_small_block_cannot_ask_for_much() {
        let block = fold_ints((0..64).map(|_| 7)).unwrap();
        assert!(unfold_ints::<4>(&block, usize::MAX / 16).is_err());
    }
}
