//! MurmurHash3, x64, 128 bits (Austin Appleby, public domain): what Alembic puts before every sample. Readers do not check
//! it, but they take samples of one hash for the same.

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

fn scramble_1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn scramble_2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finish(mut k: u64) -> u64 {
    k = (k ^ k >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    k = (k ^ k >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ k >> 33
}

/// The hash of some bytes.
pub fn hash(bytes: &[u8], seed: u32) -> [u8; 16] {
    let (mut a, mut b) = (u64::from(seed), u64::from(seed));
    let (blocks, tail) = bytes.as_chunks::<16>();
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
    for block in blocks {
        let halves = block.as_chunks::<8>().0;
        a ^= scramble_1(u64::from_le_bytes(halves[0]));
        a = a.rotate_left(27).wrapping_add(b).wrapping_mul(5).wrapping_add(0x52dc_e729);
        b ^= scramble_2(u64::from_le_bytes(halves[1]));
        b = b.rotate_left(31).wrapping_add(a).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    if tail.len() > 8 {
        b ^= scramble_2(number(&tail[8..]));
    }
    if !tail.is_empty() {
        a ^= scramble_1(number(&tail[..tail.len().min(8)]));
    }
    a ^= bytes.len() as u64;
    b ^= bytes.len() as u64;
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    (a, b) = (finish(a), finish(b));
    a = a.wrapping_add(b);
    b = b.wrapping_add(a);
    let mut hash = [0; 16];
    hash[..8].copy_from_slice(&a.to_le_bytes());
    hash[8..].copy_from_slice(&b.to_le_bytes());
    hash
}

#[cfg(test)]
mod tests {
    use super::hash;

    /// Known values of the reference implementation.
    #[test]
    fn known_hashes() {
        let text = |bytes: &[u8]| hash(bytes, 0).iter().rev().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(text(b""), "0".repeat(32));
        let (low, high) = (0xe34b_bc7b_bc07_1b6c_u64, 0x7a43_3ca9_c49a_9347_u64);
        let fox = hash(b"The quick brown fox jumps over the lazy dog", 0);
        assert_eq!(u64::from_le_bytes(fox[..8].try_into().unwrap()), low);
        assert_eq!(u64::from_le_bytes(fox[8..].try_into().unwrap()), high);
    }
}
