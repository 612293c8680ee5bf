//! The binary container: a header, a JSON chunk and a chunk of bytes.

const MAGIC: &[u8; 4] = b"glTF";
const JSON_CHUNK: u32 = 0x4E4F_534A;
const BIN_CHUNK: u32 = 0x004E_4942;
const HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 8;

/// What a GLB with this JSON and a buffer of `bin` bytes, a multiple of 4, has before the buffer; `None` when it would exceed the 4 GiB that the
/// header can state.
pub fn head(mut json: Vec<u8>, bin: u64) -> Option<Vec<u8>> {
    // Chunks end on multiples of 4: JSON filled with spaces.
    json.resize(json.len().next_multiple_of(4), b' ');
    let bin_chunk = if bin == 0 { 0 } else { CHUNK_HEADER_BYTES as u64 + bin };
    let total = (HEADER_BYTES + CHUNK_HEADER_BYTES + json.len()) as u64 + bin_chunk;
    let mut out = Vec::with_capacity(HEADER_BYTES + 2 * CHUNK_HEADER_BYTES + json.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&2u32.to_le_bytes());
    out.extend_from_slice(&u32::try_from(total).ok()?.to_le_bytes());
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&JSON_CHUNK.to_le_bytes());
    out.append(&mut json);
    if bin > 0 {
        out.extend_from_slice(&(bin as u32).to_le_bytes());
        out.extend_from_slice(&BIN_CHUNK.to_le_bytes());
    }
    Some(out)
}

/// A GLB taken apart; slices of the input.
pub struct Unpacked<'a> {
    /// The JSON chunk.
    pub json: &'a [u8],
    /// The bytes, if there are any.
    pub bin: Option<&'a [u8]>,
}

/// True for the first bytes of a GLB.
pub fn is_glb(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC)
}

/// Takes a GLB apart; the error says what is wrong with it.
pub fn unpack(bytes: &[u8]) -> Result<Unpacked<'_>, String> {
    let word = |at: usize| bytes.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let truncated = |at: usize| format!("truncated: the file ends within the header at byte {at}");
    let version = word(4).ok_or_else(|| truncated(4))?;
    if version != 2 {
        return Err(format!("GLB version {version}; only version 2 can be read"));
    }
    let total = word(8).ok_or_else(|| truncated(8))? as usize;
    if total > bytes.len() {
        return Err(format!("truncated: the header says {total} bytes, the file has {}", bytes.len()));
    }
    let mut at = HEADER_BYTES;
    let (mut json, mut bin) = (None, None);
    while at + CHUNK_HEADER_BYTES <= total {
        let (length, kind) = (word(at).ok_or_else(|| truncated(at))? as usize, word(at + 4));
        at += CHUNK_HEADER_BYTES;
        let end = at.checked_add(length).filter(|end| *end <= total);
        let end =
            end.ok_or_else(|| format!("truncated: a chunk of {length} bytes at byte {at} ends after the file"))?;
        match kind {
            Some(JSON_CHUNK) => json = json.or(Some(&bytes[at..end])),
            Some(BIN_CHUNK) => bin = bin.or(Some(&bytes[at..end])),
            _ => {} // other chunks are allowed and mean nothing here
        }
        at = end.next_multiple_of(4);
    }
    Ok(Unpacked { json: json.ok_or("the GLB has no JSON chunk")?, bin })
}
