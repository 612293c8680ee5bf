//! Sparse skinning weights with a fixed number of slots per vertex.

use std::ops::AddAssign;

use glam::DVec3;

use crate::solve::check::ensure;

/// The weights of one vertex: (bone, weight).
pub(crate) type Row = Vec<(usize, f64)>;

/// Sorts a row by falling weight and keeps the largest `count`.
pub(crate) fn keep_largest(row: &mut Row, count: usize) {
    row.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    row.truncate(count);
}

/// Adds to the entry of a row with this key; a new one if there is none.
pub(crate) fn add_to<K: PartialEq, V: AddAssign>(row: &mut Vec<(K, V)>, key: K, value: V) {
    match row.iter_mut().find(|(other, _)| *other == key) {
        Some((_, sum)) => *sum += value,
        None => row.push((key, value)),
    }
}

/// Scales the weights of a row to sum 1; if the sum is 0, all become equal.
pub(crate) fn normalise(row: &mut Row) {
    let sum: f64 = row.iter().map(|&(_, w)| w).sum();
    let equal = 1.0 / row.len() as f64;
    row.iter_mut().for_each(|(_, w)| *w = if sum > 1e-12 { *w / sum } else { equal });
}

/// K influence slots for each vertex.
///
/// Invariants, checked by [`SparseWeights::check`]:
/// 1. Weights are finite and not negative; those of a vertex sum to 1 within 1e-5.
/// 2. They fall along the slots of a vertex; unused slots come last, with weight 0 and bone 0.
/// 3. A vertex names no bone twice with a positive weight; every bone is below `bone_count`.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseWeights {
    slots: usize,
    /// [N, K] bone of each slot.
    bones: Vec<u16>,
    /// [N, K] weight of each slot.
    weights: Vec<f32>,
}

/// Why weights were refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum WeightError {
    #[error("vertex {vertex}: weight of bone {bone} is {weight}")]
    BadWeight { vertex: usize, bone: usize, weight: f32 },
    #[error("vertex {vertex}: weights sum to {sum}, not 1")]
    BadSum { vertex: usize, sum: f64 },
    #[error("vertex {vertex}: weights do not fall along the slots")]
    NotSorted { vertex: usize },
    #[error("vertex {vertex}: bone {bone} is named twice")]
    Repeated { vertex: usize, bone: usize },
    #[error("vertex {vertex} names bone {bone}, but there are {bones} bones")]
    NoSuchBone { vertex: usize, bone: usize, bones: usize },
}

/// Refuses a bone that does not exist.
pub(crate) fn check_bone(bone: usize, bones: usize) -> Result<(), String> {
    ensure(bone < bones, || format!("it names bone {bone}, but there are {bones} bones"))
}

/// Checks affine weights: bones exist, none twice; weights are finite, may be negative, and sum to 1 within 1e-4.
pub(crate) fn check_affine_row(row: impl Iterator<Item = (usize, f32)>, bones: usize) -> Result<(), String> {
    let (mut sum, mut size) = (0.0, 0.0);
    let mut seen: Vec<usize> = Vec::new();
    for (j, w) in row {
        check_bone(j, bones)?;
        ensure(!seen.contains(&j), || format!("it names bone {j} twice"))?;
        ensure(w.is_finite(), || format!("its weight of bone {j} is {w}"))?;
        seen.push(j);
        sum += f64::from(w);
        size += f64::from(w.abs());
    }
    ensure((sum - 1.0).abs() <= 1e-4 * size.max(1.0), || format!("its weights sum to {sum}, not 1"))
}

impl SparseWeights {
    /// All slots empty; fill with [`SparseWeights::set`].
    pub fn new(vertices: usize, slots: usize) -> Self {
        Self { slots, bones: vec![0; vertices * slots], weights: vec![0.0; vertices * slots] }
    }

    /// Weights exactly as stored in [N, K] tables, nothing sorted or rescaled; see [`SparseWeights::check`].
    /// `None` if the tables do not have whole rows of the same number.
    pub fn from_tables(slots: usize, bones: Vec<u16>, weights: Vec<f32>) -> Option<Self> {
        let whole = slots > 0 && bones.len() == weights.len() && weights.len().is_multiple_of(slots);
        whole.then_some(Self { slots, bones, weights })
    }

    /// Rows of all vertices; see [`SparseWeights::set`].
    pub(crate) fn from_rows(slots: usize, rows: &[Row]) -> Self {
        let mut weights = Self::new(rows.len(), slots);
        rows.iter().enumerate().for_each(|(i, row)| weights.set(i, row));
        weights
    }

    /// [N] rows.
    pub(crate) fn rows(&self) -> Vec<Row> {
        (0..self.vertex_count()).map(|i| self.of(i).map(|(j, w)| (j, f64::from(w))).collect()).collect()
    }

    /// [N] the largest `count` weights of each vertex, scaled to 1.
    pub(crate) fn largest(&self, count: usize) -> Vec<Row> {
        let mut rows = self.rows();
        for row in &mut rows {
            row.truncate(count);
            normalise(row);
        }
        rows
    }

    /// Weights that are whole multiples of 1 / `levels` and sum to one there, as an engine stores them in 8 bits (255) or 16 (65535): each
    /// is rounded down, and what is missing goes to those with the largest remainders. Order and bones stay; a weight may become 0.
    pub fn quantised(&self, levels: u32) -> Self {
        let mut weights = vec![0.0f32; self.weights.len()];
        for (own, row) in self.weights.chunks_exact(self.slots.max(1)).zip(weights.chunks_exact_mut(self.slots.max(1)))
        {
            let sum: f64 = own.iter().map(|w| f64::from(*w)).sum();
            let exact: Vec<f64> = own.iter().map(|w| f64::from(*w) / sum.max(1e-300) * f64::from(levels)).collect();
            let mut whole: Vec<u32> = exact.iter().map(|x| x.floor() as u32).collect();
            let missing = levels.saturating_sub(whole.iter().sum());
            let mut order: Vec<usize> = (0..own.len()).collect();
            order.sort_by(|&a, &b| {
                (exact[b] - exact[b].floor()).total_cmp(&(exact[a] - exact[a].floor())).then(a.cmp(&b))
            });
            order.iter().cycle().take(missing as usize).for_each(|&k| whole[k] += 1);
            row.iter_mut().zip(&whole).for_each(|(w, n)| *w = (f64::from(*n) / f64::from(levels)) as f32);
        }
        Self { slots: self.slots, bones: self.bones.clone(), weights }
    }

    /// N.
    pub fn vertex_count(&self) -> usize {
        self.weights.len().checked_div(self.slots).unwrap_or(0)
    }

    /// K: slots per vertex.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// [N, K] bones, row by row.
    pub fn bone_table(&self) -> &[u16] {
        &self.bones
    }

    /// [N, K] weights, row by row.
    pub fn weight_table(&self) -> &[f32] {
        &self.weights
    }

    /// Used slots of vertex `i`: (bone, weight), largest weight first.
    pub fn of(&self, i: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let row = i * self.slots..(i + 1) * self.slots;
        let pairs = self.bones[row.clone()].iter().zip(&self.weights[row]);
        pairs.take_while(|(_, w)| **w > 0.0).map(|(&j, &w)| (j as usize, w))
    }

    /// Replaces the weights of vertex `i`: keeps the largest K, sorts them, and scales them to sum to 1 in float32.
    ///
    /// Repeated bones are added up; what is not positive is dropped. With nothing left the vertex follows bone 0.
    pub fn set(&mut self, i: usize, influences: &[(usize, f64)]) {
        let mut sorted = Row::with_capacity(influences.len());
        for &(j, w) in influences.iter().filter(|(_, w)| *w > 0.0 && w.is_finite()) {
            add_to(&mut sorted, j, w);
        }
        keep_largest(&mut sorted, self.slots);
        if sorted.is_empty() {
            sorted.push((0, 1.0));
        }
        let sum: f64 = sorted.iter().map(|(_, w)| w).sum();
        let row = i * self.slots;
        self.bones[row..row + self.slots].fill(0);
        self.weights[row..row + self.slots].fill(0.0);
        // The largest takes the rounding of the others, so that the stored numbers sum to 1 as closely as float32 can.
        let mut rest = 1.0f64;
        for (k, &(j, w)) in sorted.iter().enumerate().skip(1) {
            let w = (w / sum) as f32;
            if w > 0.0 {
                self.bones[row + k] = j as u16;
                self.weights[row + k] = w;
                rest -= f64::from(w);
            }
        }
        self.bones[row] = sorted[0].0 as u16;
        self.weights[row] = rest as f32;
        // Among equals, taking the rounding can leave it slightly below the next: sort it in again.
        for k in row + 1..row + sorted.len() {
            if self.weights[k] > self.weights[k - 1] {
                self.weights.swap(k, k - 1);
                self.bones.swap(k, k - 1);
            }
        }
    }

    /// Maximum number of slots that a vertex uses.
    pub fn max_influences(&self) -> usize {
        (0..self.vertex_count()).map(|i| self.of(i).count()).max().unwrap_or(0)
    }

    /// Slots that a vertex uses, in the mean.
    pub fn mean_influences(&self) -> f64 {
        let all: usize = (0..self.vertex_count()).map(|i| self.of(i).count()).sum();
        all as f64 / self.vertex_count().max(1) as f64
    }

    /// [B] number of vertices each bone moves.
    pub fn usage(&self, bones: usize) -> Vec<usize> {
        let mut usage = vec![0; bones];
        for i in 0..self.vertex_count() {
            for (j, _) in self.of(i) {
                usage[j] += 1;
            }
        }
        usage
    }

    /// [B] sums over the vertices of each bone: of their points [N] and of 1, times their weights.
    pub(crate) fn point_sums(&self, points: impl Iterator<Item = DVec3>, bones: usize) -> Vec<(DVec3, f64)> {
        let mut sums = vec![(DVec3::ZERO, 0.0); bones];
        for (i, p) in points.enumerate() {
            for (j, w) in self.of(i) {
                sums[j].0 += f64::from(w) * p;
                sums[j].1 += f64::from(w);
            }
        }
        sums
    }

    /// Checks invariants 1 to 3.
    pub fn check(&self, bones: usize) -> Result<(), WeightError> {
        for vertex in 0..self.vertex_count() {
            let row = vertex * self.slots..(vertex + 1) * self.slots;
            let (row_bones, row_weights) = (&self.bones[row.clone()], &self.weights[row]);
            let mut sum = 0.0;
            for k in 0..self.slots {
                let (bone, weight) = (row_bones[k] as usize, row_weights[k]);
                ensure(weight.is_finite() && weight >= 0.0, || WeightError::BadWeight { vertex, bone, weight })?;
                ensure(bone < bones, || WeightError::NoSuchBone { vertex, bone, bones })?;
                ensure(k == 0 || weight <= row_weights[k - 1], || WeightError::NotSorted { vertex })?;
                let repeated = weight > 0.0 && row_bones[..k].contains(&(bone as u16));
                ensure(!repeated, || WeightError::Repeated { vertex, bone })?;
                sum += f64::from(weight);
            }
            ensure((sum - 1.0).abs() <= 1e-5, || WeightError::BadSum { vertex, sum })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_weights_sum_to_one_in_whole_steps() {
        let mut weights = SparseWeights::new(3, 4);
        weights.set(0, &[(0, 1.0), (1, 1.0), (2, 1.0)]);
        weights.set(1, &[(3, 0.9989), (1, 0.0004), (2, 0.0004), (0, 0.0003)]);
        weights.set(2, &[(5, 1.0)]);
        for levels in [255u32, 65535] {
            let stored = weights.quantised(levels);
            stored.check(6).unwrap();
            for i in 0..3 {
                let steps: Vec<f64> = stored.of(i).map(|(_, w)| (f64::from(w) * f64::from(levels)).round()).collect();
                assert_eq!(steps.iter().sum::<f64>(), f64::from(levels), "vertex {i}: {steps:?}");
                let moved = weights.of(i).zip(stored.of(i)).map(|((_, a), (_, b))| f64::from((a - b).abs()));
                assert!(moved.fold(0.0, f64::max) <= 1.0 / f64::from(levels) + 1e-7);
            }
        }
        let thirds: Vec<f32> = weights.quantised(255).of(0).map(|(_, w)| (w * 255.0).round()).collect();
        assert_eq!(thirds, [85.0, 85.0, 85.0]);
    }
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn set_establishes_the_invariants(
            slots in 1usize..9,
            pairs in prop::collection::vec((0usize..12, -0.5..2.0f64), 0..16),
        ) {
            let mut weights = SparseWeights::new(3, slots);
            for i in 0..3 {
                weights.set(i, &pairs);
            }
            prop_assert_eq!(weights.check(12), Ok(()));
            prop_assert!(weights.max_influences() <= slots);
        }
    }

    #[test]
    fn equal_weights_stay_sorted() {
        for n in 1..=16usize {
            let mut weights = SparseWeights::new(1, n);
            weights.set(0, &(0..n).map(|j| (j, 1.0)).collect::<Vec<_>>());
            assert_eq!(weights.check(n), Ok(()), "{n} equal weights");
        }
    }

    #[test]
    fn check_names_the_vertex_and_the_number() {
        let mut weights = SparseWeights::new(2, 2);
        weights.set(0, &[(0, 1.0)]);
        weights.set(1, &[(1, 0.5), (3, 0.5)]);
        assert_eq!(weights.check(3), Err(WeightError::NoSuchBone { vertex: 1, bone: 3, bones: 3 }));
        weights.weights[0] = 0.5;
        assert_eq!(weights.check(4), Err(WeightError::BadSum { vertex: 0, sum: 0.5 }));
    }
}
