//! Weights that others wrote: sorted, repeated bones added up, scaled to 1 where they are nearly that.

use bonesmith_core::SparseWeights;
use bonesmith_core::model::weights::WeightError;

/// How far the weights of a vertex may be from 1 in files that others wrote; they are scaled to 1 then.
const SUM_TOLERANCE: f64 = 1e-3;

/// What to do about weights that are negative or do not sum to 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadWeights {
    /// Refuse them, with the vertex and the number.
    Refuse,
    /// Negative ones become 0, and each vertex is scaled to 1.
    Normalise,
}

/// [N, K] tables of bones and weights: as they are where they are sound, else made so.
pub fn weights_of_tables(stored: SparseWeights, bones: usize, bad: BadWeights) -> Result<SparseWeights, WeightError> {
    if stored.check(bones).is_ok() {
        return Ok(stored);
    }
    let (n, k) = (stored.vertex_count(), stored.slots());
    let mut tidy = SparseWeights::new(n, k);
    for i in 0..n {
        let row = i * k..(i + 1) * k;
        let (bones, weights) = (&stored.bone_table()[row.clone()], &stored.weight_table()[row]);
        let pairs: Vec<(usize, f64)> = bones.iter().zip(weights).map(|(&j, &w)| (j.into(), w.into())).collect();
        check_row(i, &pairs, bad)?;
        tidy.set(i, &pairs);
    }
    Ok(tidy)
}

/// [N, B] weights as rows of those that are not 0.
pub fn weights_of_rows(rows: &[f64], bones: usize, bad: BadWeights) -> Result<SparseWeights, WeightError> {
    let row = |values: &[f64]| -> Vec<(usize, f64)> {
        values.iter().copied().enumerate().filter(|(_, w)| *w != 0.0).collect()
    };
    let used = |values: &[f64]| values.iter().filter(|w| **w != 0.0).count();
    let all = || rows.chunks_exact(bones.max(1));
    let slots = all().map(used).max().unwrap_or(1).max(1);
    let mut weights = SparseWeights::new(all().len(), slots);
    for (i, values) in all().enumerate() {
        let row = row(values);
        check_row(i, &row, bad)?;
        weights.set(i, &row);
    }
    Ok(weights)
}

/// Whether the weights of vertex `i` can be used, after scaling them to 1.
fn check_row(vertex: usize, pairs: &[(usize, f64)], bad: BadWeights) -> Result<(), WeightError> {
    if let Some(&(bone, w)) = pairs.iter().find(|(_, w)| !w.is_finite() || (*w < 0.0 && bad == BadWeights::Refuse)) {
        return Err(WeightError::BadWeight { vertex, bone, weight: w as f32 });
    }
    let sum = pairs.iter().fold(0.0, |sum, (_, w)| sum + w.max(0.0));
    let tolerance = if bad == BadWeights::Refuse { SUM_TOLERANCE } else { f64::INFINITY };
    match (sum - 1.0).abs() > tolerance || sum <= 0.0 {
        true => Err(WeightError::BadSum { vertex, sum }),
        false => Ok(()),
    }
}
