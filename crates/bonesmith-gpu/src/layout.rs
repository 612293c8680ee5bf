//! Tables as the kernels read them. `docs/runtime.md` shows the bytes.
//!
//! Rows (vertices or virtual bones) come in slices of 32, as wide as what GPUs run in step. All rows of a slice have as
//! many influences, the missing ones with weight 0, and the same number of neighbouring rows lies in neighbouring words:
//! loops end together and reads are whole cache lines.

use bonesmith_core::model::multi_weights::MultiWeights;
use bonesmith_core::model::two_layer::Blends;
use bonesmith_core::{Rig, SparseWeights};
use glam::{DVec3, Vec3};

use crate::error::GpuError;
use crate::slots::aligned;

/// Rows per slice.
pub(crate) const SLICE: usize = 32;

/// Influences of linear blending that a thread keeps for all its instances.
pub(crate) const MAX_KEPT: usize = 4;
/// Influences that may be added for that, relative to those there are.
const WORTH_PADDING: f64 = 1.1;

/// Influences of all rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    /// [slices + 1] first influence of each slice, counted in slices of them.
    pub starts: Vec<u32>,
    /// [starts.last(), words, 32]
    pub data: Vec<u32>,
    /// Words per influence.
    pub words: usize,
}

impl Table {
    /// `row(i)` yields the words of each influence of row i; the bone is in the low bits of the first, `bone_mask` says which.
    /// The first `pinned` of each row stay where they are. All slices have `least` influences or more.
    fn new<const WORDS: usize, I: Iterator<Item = [u32; WORDS]>>(
        rows: usize,
        bone_mask: u32,
        pinned: usize,
        least: usize,
        row: impl Fn(usize) -> I,
    ) -> Result<Self, GpuError> {
        let mut table = Self { starts: vec![0], data: Vec::new(), words: WORDS };
        let mut slice: Vec<Vec<[u32; WORDS]>> = Vec::with_capacity(SLICE);
        for first in (0..rows).step_by(SLICE) {
            slice.clear();
            // Rows that are missing do what the last one does: work of a kind that kernels are made for.
            slice.extend((first..first + SLICE).map(|i| row(i.min(rows - 1)).collect()));
            let slots = aligned(&slice, bone_mask, pinned, least);
            let base = table.data.len();
            table.data.resize(base + slots.len() * WORDS * SLICE, 0);
            for (k, slot) in slots.iter().enumerate() {
                for (lane, influence) in slot.iter().enumerate() {
                    for (n, word) in influence.iter().enumerate() {
                        table.data[base + (k * WORDS + n) * SLICE + lane] = *word;
                    }
                }
            }
            let end = u64::from(*table.starts.last().unwrap_or(&0)) + slots.len() as u64;
            let end = u32::try_from(end).map_err(|_| GpuError::Limit {
                what: "influences of all slices".to_owned(),
                needs: end,
                limit: u32::MAX.into(),
            })?;
            table.starts.push(end);
        }
        Ok(table)
    }

    /// One word each: the bone in the low bits, the weight in the others, in units of [`Packing::unit`].
    ///
    /// Where nearly all rows have as many, up to [`MAX_KEPT`], all get as many: kernels are faster with a known number.
    pub fn packed(weights: &SparseWeights, packing: &Packing) -> Result<Self, GpuError> {
        let rows = weights.vertex_count();
        let longest = |first: usize| (first..rows.min(first + SLICE)).map(|i| weights.of(i).count()).max().unwrap_or(0);
        let counts: Vec<usize> = (0..rows).step_by(SLICE).map(|first| longest(first).max(1)).collect();
        let (most, total) = (counts.iter().max().copied().unwrap_or(0), counts.iter().sum::<usize>());
        let worth = most <= MAX_KEPT && (most * counts.len()) as f64 <= WORTH_PADDING * total as f64;
        Self::new(rows, packing.bone_mask(), 0, if worth { most } else { 0 }, |i| {
            packing.row(weights.of(i)).into_iter().map(|word| [word])
        })
    }

    /// Two words each: bone and float32 weight.
    pub fn blends(blends: &Blends) -> Result<Self, GpuError> {
        Self::new(blends.count(), u32::MAX, 0, 0, |m| blends.of(m).map(|(j, w)| [j as u32, w.to_bits()]))
    }

    /// Bone and the first `WORDS - 1` numbers of each multi-weight; the strongest stays first.
    pub fn multi<const WORDS: usize>(weights: &MultiWeights) -> Result<Self, GpuError> {
        let words = |(j, v): (usize, &[f32])| -> [u32; WORDS] {
            std::array::from_fn(|n| if n == 0 { j as u32 } else { v[n - 1].to_bits() })
        };
        Self::new(weights.count(), u32::MAX, 1, 0, |row| weights.of(row).map(words))
    }
}

/// How a bone and a weight share 32 bits: as many as the largest bone takes, at most 16, and the rest for the weight. With
/// 65 bones a weight has 25 bits, one more than a float32 between 0.5 and 1; with 65536 it has 16.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Packing {
    pub index_bits: u32,
}

impl Packing {
    pub fn new(bones: usize) -> Self {
        Self { index_bits: usize::BITS - bones.saturating_sub(1).leading_zeros() }
    }

    fn bone_mask(self) -> u32 {
        (1 << self.index_bits) - 1
    }

    fn steps(self) -> u32 {
        u32::MAX >> self.index_bits
    }

    /// Weight of one step.
    pub fn unit(self) -> f32 {
        (1.0 / f64::from(self.steps())) as f32
    }

    /// Words of one row; the first, the largest, takes the rounding of the others, so that all sum to 1.
    fn row(self, influences: impl Iterator<Item = (usize, f32)>) -> Vec<u32> {
        let steps = self.steps();
        let quantised = influences.map(|(j, w)| (j as u32, (f64::from(w) * f64::from(steps)).round() as u32));
        let mut pairs: Vec<(u32, u32)> = quantised.collect();
        if let [first, others @ ..] = &mut pairs[..] {
            first.1 = steps.saturating_sub(others.iter().map(|(_, w)| *w).fold(0, u32::saturating_add));
        }
        pairs.into_iter().map(|(j, w)| (w << self.index_bits) | j).collect()
    }
}

/// [slices, planes, 32] numbers of each row; missing rows are as the last one.
pub(crate) fn planes<const P: usize>(rows: usize, row: impl Fn(usize) -> [f32; P]) -> Vec<f32> {
    let mut all = vec![0.0; rows.div_ceil(SLICE) * P * SLICE];
    for i in 0..rows.next_multiple_of(SLICE) {
        for (plane, value) in row(i.min(rows - 1)).into_iter().enumerate() {
            all[(i / SLICE * P + plane) * SLICE + i % SLICE] = value;
        }
    }
    all
}

/// Rest pose about the origin, and its unit normals.
pub(crate) struct Shape {
    pub points: Vec<Vec3>,
    pub normals: Vec<Vec3>,
}

impl Shape {
    pub fn new(rig: &Rig, origin: DVec3) -> Self {
        let normals =
            bonesmith_core::mesh::normals::vertex_normals(&rig.rest, &rig.surface.topology.vertex_triangles());
        let unit = |n: &DVec3| n.try_normalize().unwrap_or(DVec3::ZERO).as_vec3();
        Self {
            points: rig.rest.iter().map(|p| (p.as_dvec3() - origin).as_vec3()).collect(),
            normals: normals.iter().map(unit).collect(),
        }
    }

    /// Point and normal of a vertex.
    pub fn row(&self, i: usize) -> [f32; 6] {
        let (p, n) = (self.points[i], self.normals[i]);
        [p.x, p.y, p.z, n.x, n.y, n.z]
    }
}

/// Middle of the bounding box: float32 numbers about it are small wherever the model stands.
pub(crate) fn middle(rest: &[Vec3]) -> DVec3 {
    let low = rest.iter().fold(DVec3::INFINITY, |a, b| a.min(b.as_dvec3()));
    let high = rest.iter().fold(DVec3::NEG_INFINITY, |a, b| a.max(b.as_dvec3()));
    if rest.is_empty() { DVec3::ZERO } else { 0.5 * (low + high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_rows_sum_to_one_and_keep_their_bones() {
        for bones in [1, 2, 65, 256, 257, 65536] {
            let packing = Packing::new(bones);
            let last = bones - 1;
            let row = if last == 0 { vec![(0, 1.0)] } else { vec![(last, 0.5f32), (0, 0.3), (last / 2 + 1, 0.2)] };
            let words = packing.row(row.iter().copied());
            let mask = (1u64 << packing.index_bits) - 1;
            let sum: u64 = words.iter().map(|w| u64::from(*w >> packing.index_bits)).sum();
            assert_eq!(sum, u64::from(packing.steps()), "{bones} bones");
            for (word, (j, w)) in words.iter().zip(row) {
                assert_eq!(u64::from(*word) & mask, j as u64);
                let stored = (*word >> packing.index_bits) as f32 * packing.unit();
                assert!((stored - w).abs() <= 2.0 * packing.unit() + 1e-7, "{bones} bones: {stored} for {w}");
            }
        }
    }

    #[test]
    fn slices_are_padded_to_their_longest_row() {
        let mut weights = SparseWeights::new(33, 3);
        (0..33).for_each(|i| weights.set(i, &[(i % 4, 1.0)]));
        weights.set(7, &[(1, 0.5), (2, 0.25), (3, 0.25)]);
        let table = Table::packed(&weights, &Packing::new(4)).unwrap();
        assert_eq!(table.starts, [0, 3, 4]);
        assert_eq!(table.data.len(), 4 * SLICE);
        let of_row = |lane: usize| (0..3).map(move |k| k * SLICE + lane);
        let mut bones: Vec<u32> = of_row(7).map(|at| table.data[at] & 3).collect();
        bones.sort_unstable();
        assert_eq!(bones, [1, 2, 3]);
        assert_eq!(of_row(8).filter(|at| table.data[*at] >> 2 > 0).count(), 1);
        // The lone row of the last slice, again and again.
        assert_eq!(table.data[3 * SLICE..], [u32::MAX << 2; SLICE]);
    }

    #[test]
    fn nearly_equal_slices_become_equal() {
        let mut weights = SparseWeights::new(32 * 20, 2);
        (0..640).for_each(|i| weights.set(i, &[(i % 4, 0.5), ((i + 1) % 4, 0.5)]));
        (0..64).for_each(|i| weights.set(i, &[(i % 4, 1.0)]));
        let table = Table::packed(&weights, &Packing::new(4)).unwrap();
        assert_eq!(table.starts, (0..=20).map(|s| 2 * s).collect::<Vec<u32>>());
        (0..160).for_each(|i| weights.set(i, &[(i % 4, 1.0)]));
        let table = Table::packed(&weights, &Packing::new(4)).unwrap();
        assert_eq!(table.starts[..7], [0, 1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn planes_put_neighbours_side_by_side() {
        let all = planes(34, |i| [i as f32, -(i as f32)]);
        assert_eq!(
            (all.len(), all[31], all[SLICE + 31], all[2 * SLICE + 1], all[3 * SLICE + 31]),
            (128, 31.0, -31.0, 33.0, -33.0)
        );
    }
}
