//! Masks: one number per vertex, from an npz array or from vertex colours.

use std::path::Path;

use bonesmith_core::{RawFrame, Surface};

use crate::load::{Content, load_content};
use crate::{Format, IoError, detect, npz};

/// Reads a mask: the array `mask` of an npz file, else the red of the vertex colours of anything that has them.
pub fn load_mask(path: &Path) -> Result<Vec<f32>, IoError> {
    if path.extension().is_some_and(|ending| ending == "txt" || ending == "csv") {
        return numbers(path);
    }
    if detect(path)? == Format::Npz
        && let Some(mask) = npz::load_mask(path)?
    {
        return Ok(mask);
    }
    let (surface, vertices) = match load_content(path)? {
        Content::Model(model) => (Surface::clone(model.view().surface()), model.view().vertex_count()),
        Content::Sequence(raw) => {
            let vertices = raw.frames.first().map_or(0, RawFrame::count);
            (raw.surface, vertices)
        }
    };
    surface_mask(&surface, vertices).ok_or_else(|| {
        IoError::unsupported(path, "there is no mask in it: no array \"mask\" (npz) and no vertex colours on faces")
    })
}

/// Numbers separated by space, commas or lines.
fn numbers(path: &Path) -> Result<Vec<f32>, IoError> {
    let text = std::fs::read_to_string(path).map_err(|error| IoError::os(path, error))?;
    let words = text.split(|c: char| c.is_whitespace() || c == ',').filter(|word| !word.is_empty());
    let number = |(at, word): (usize, &str)| {
        let shown: String = word.chars().take(40).collect();
        word.parse().map_err(|_| IoError::malformed(path, format!("value {at} is {shown:?}, which is no number")))
    };
    words.enumerate().map(number).collect()
}

/// The red of the vertex colours, 0 to 1, mean over the corners of each vertex; `None` where there are no colours.
pub fn surface_mask(surface: &Surface, vertices: usize) -> Option<Vec<f32>> {
    let colors = surface.colors.as_ref()?;
    let red = colors.on_vertices(&surface.topology, vertices, 0);
    Some(red.into_iter().map(|value| value.clamp(0.0, 1.0)).collect())
}
