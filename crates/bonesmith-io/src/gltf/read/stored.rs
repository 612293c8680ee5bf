//! Skins and weights as a file stores them, before anything is interpreted: numbers that an importer sees.

use std::path::Path;

use gltf_json::accessor::ComponentType;
use gltf_json::mesh::Semantic;
use gltf_json::validation::Checked;

use super::document::Document;
use crate::IoError;

/// Float weights may be off by this: what float32 sums of eight numbers lose.
const FLOAT_SLACK: f64 = 2e-6;

/// Skins and weights as stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoredSkins {
    /// Name and number of joints of each skin.
    pub skins: Vec<(String, usize)>,
    /// Weights of each primitive that has any.
    pub weights: Vec<StoredWeights>,
}

/// Weights of one primitive.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredWeights {
    /// Name of the mesh.
    pub mesh: String,
    /// Bits of one weight: 8, 16, or 32 for floats.
    pub bits: u32,
    /// Sets of four influences.
    pub sets: usize,
    /// Vertices whose stored weights do not sum to one exactly; of floats, within rounding.
    pub off: usize,
    /// The vertex with the worst sum, and the sum in units of the largest weight: 255, 65535, or 1.
    pub worst: (usize, f64),
}

/// Reads them from a `.glb` or `.gltf`.
pub fn stored_skins(path: &Path) -> Result<StoredSkins, IoError> {
    of_document(&Document::open(path)?)
}

/// Those of a file that is open.
pub fn of_document(document: &Document) -> Result<StoredSkins, IoError> {
    let mut stored = StoredSkins::default();
    for (s, skin) in document.root.skins.iter().enumerate() {
        let name = skin.name.clone().unwrap_or_else(|| format!("skin {s}"));
        stored.skins.push((name, skin.joints.len()));
    }
    for (m, mesh) in document.root.meshes.iter().enumerate() {
        let name = mesh.name.clone().unwrap_or_else(|| format!("mesh {m}"));
        for primitive in &mesh.primitives {
            if let Some(weights) = weights_of(document, primitive, &name)? {
                stored.weights.push(weights);
            }
        }
    }
    Ok(stored)
}

fn weights_of(
    document: &Document,
    primitive: &gltf_json::mesh::Primitive,
    mesh: &str,
) -> Result<Option<StoredWeights>, IoError> {
    let mut sums: Vec<f64> = Vec::new();
    let (mut sets, mut bits) = (0, 32);
    for (semantic, &accessor) in &primitive.attributes {
        let Checked::Valid(Semantic::Weights(_)) = semantic else { continue };
        let kind = document.root.accessors.get(accessor.value()).map(|accessor| &accessor.component_type);
        bits = match kind {
            Some(Checked::Valid(kind)) => match kind.0 {
                ComponentType::U8 => 8,
                ComponentType::U16 => 16,
                _ => 32,
            },
            _ => 32,
        };
        let values = document.floats::<4>(accessor, "weights")?;
        sums.resize(values.len().max(sums.len()), 0.0);
        let whole = largest(bits);
        // Stored integers are recovered from the normalised floats.
        let exact = |w: f32| if bits == 32 { f64::from(w) } else { (f64::from(w) * whole).round() };
        sums.iter_mut().zip(&values).for_each(|(sum, row)| *sum += row.iter().map(|&w| exact(w)).sum::<f64>());
        sets += 1;
    }
    if sets == 0 {
        return Ok(None);
    }
    let whole = largest(bits);
    let distance = |sum: &f64| (sum - whole).abs();
    let slack = if bits == 32 { FLOAT_SLACK } else { 0.0 };
    let off = sums.iter().filter(|sum| distance(sum) > slack).count();
    let worst = sums.iter().enumerate().max_by(|a, b| distance(a.1).total_cmp(&distance(b.1)));
    let worst = worst.map_or((0, whole), |(vertex, sum)| (vertex, *sum));
    Ok(Some(StoredWeights { mesh: mesh.to_owned(), bits, sets, off, worst }))
}

/// What one is stored as.
fn largest(bits: u32) -> f64 {
    match bits {
        8 => 255.0,
        16 => 65535.0,
        _ => 1.0,
    }
}
