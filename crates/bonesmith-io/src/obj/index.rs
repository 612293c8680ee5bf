//! Corners of OBJ faces: `7`, `7/1`, `7//3`, `7/1/3`, each from 1, or negative to count back from the last.

use crate::mesh::Extent;

/// Indices of one face corner, from 0.
#[derive(Debug, PartialEq)]
pub struct Corner {
    pub vertex: u32,
    pub uv: Option<u32>,
    pub normal: Option<u32>,
}

impl Corner {
    /// Reads one word; `counts` are the vertices, texture coordinates and normals read so far.
    pub fn parse(word: &[u8], extent: Extent, counts: [usize; 3]) -> Result<Self, String> {
        let mut parts = word.split(|&b| b == b'/');
        let vertex = resolve(parts.next().unwrap_or_default(), "vertex", counts[0])?;
        let vertex = vertex.ok_or_else(|| format!("{:?} names no vertex", String::from_utf8_lossy(word)))?;
        if extent == Extent::Shape {
            return Ok(Self { vertex, uv: None, normal: None });
        }
        let uv = resolve(parts.next().unwrap_or_default(), "texture coordinate", counts[1])?;
        let normal = resolve(parts.next().unwrap_or_default(), "normal", counts[2])?;
        Ok(Self { vertex, uv, normal })
    }
}

/// The vertex that a word names, as written.
pub fn first_number(word: &[u8]) -> Option<i64> {
    integer(word.split(|&b| b == b'/').next()?)
}

/// Index from 0; whether it lies within what the file will have in the end is checked later.
fn resolve(digits: &[u8], what: &str, count: usize) -> Result<Option<u32>, String> {
    if digits.is_empty() {
        return Ok(None);
    }
    let shown = || String::from_utf8_lossy(digits);
    let index = integer(digits).ok_or_else(|| format!("{:?} is not an index", shown()))?;
    let from_zero = match index {
        1.. => index - 1,
        0 => return Err(format!("{what} 0: OBJ counts from 1")),
        _ => count as i64 + index,
    };
    // u32::MAX stands for "none".
    match u32::try_from(from_zero) {
        Ok(index) if index < u32::MAX => Ok(Some(index)),
        _ => Err(format!("{what} {} is out of range, there are {count} so far", shown())),
    }
}

fn integer(digits: &[u8]) -> Option<i64> {
    let (negative, digits) = match digits {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut value = 0i64;
    for &digit in digits {
        value = 10 * value + i64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    Some(if negative { -value } else { value })
}
