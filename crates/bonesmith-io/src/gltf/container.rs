//! The binary container: a header, a JSON chunk and a chunk of bytes.

const MAGIC: &[u8; 4] = b"glTF";
const JSON_CHUNK: u32 = 0x4E4F_534A;
const BIN_CHUNK: u32 = 0x004E_4942;
const HEADER_BYTES: usize = 12;
const CHUNK_HEADER_BYTES: usize = 8;

/// Packs JSON and bytes into a GLB; `None` when it would exceed the 4 GiB that the header can state.
pub fn pack(mut json: Vec<u8>, mut bin: Vec<u8>) -> Option<Vec<u8>> {
    // Chunks end on multiples of 4: JSON filled with spaces, bytes with zeros.
    json.resize(json.len().next_multiple_of(4), b' ');
    bin.resize(bin.len().next_multiple_of(4), 0);
    let bin_chunk = if bin.is_empty() { 0 } else { CHUNK_HEADER_BYTES + bin.len() };
    let total = HEADER_BYTES + CHUNK_HEADER_BYTES + json.len() + bin_chunk;
    let mut out = Vec::with_capacity(total);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&2u32.to_le_bytes());
    out.extend_from_slice(&u32::try_from(total).ok()?.to_le_bytes());
    out.extend_from_slice(&(json.len() as u32).to_le_bytes());
    out.extend_from_slice(&JSON_CHUNK.to_le_bytes());
    out.append(&mut json);
    if !bin.is_empty() {
        out.extend_from_slice(&(bin.len() as u32).to_le_bytes());
        out.extend_from_slice(&BIN_CHUNK.to_le_bytes());
        out.append(&mut bin);
    }
    Some(out)
}
