//! A two-layer rig: virtual bones blend master bones, vertices blend virtual bones [Le2014 ch. 4].

use glam::{DAffine3, DVec3};
use multiversion::multiversion;
use rayon::prelude::*;

use crate::model::weights::{check_affine_row, check_bone};
use crate::model::{BoneKind, Rig, RigError, SparseWeights, WeightError};
use crate::solve::check::ensure;

/// Maximum number of virtual bones: vertices name them with 16 bits.
pub const MAX_VIRTUAL_BONES: usize = 1 << 16;

/// Virtual bones per task.
const CHUNK: usize = 256;

/// How virtual bones blend master bones: the dictionary D [Le2014 eq. 4.1], column by column.
///
/// Weights are affine: they sum to 1 and may be negative. Slots that are not used have weight 0 and bone 0.
#[derive(Clone, Debug, PartialEq)]
pub struct Blends {
    slots: usize,
    /// [M, c] master bone of each slot.
    bones: Vec<u16>,
    /// [M, c] weight of each slot.
    weights: Vec<f32>,
}

impl Blends {
    /// Tables as they are; [`TwoLayerRig::check`] judges them. `None` if they have no whole rows of the same number.
    pub fn from_tables(slots: usize, bones: Vec<u16>, weights: Vec<f32>) -> Option<Self> {
        let whole = slots > 0 && bones.len() == weights.len() && weights.len().is_multiple_of(slots);
        whole.then_some(Self { slots, bones, weights })
    }

    /// Rows of at most `slots` (bone, weight), largest magnitude first; each is scaled so that what is stored sums to 1.
    pub(crate) fn from_rows<'a>(slots: usize, rows: impl Iterator<Item = &'a [(usize, f64)]>) -> Self {
        let mut blends = Self { slots, bones: Vec::new(), weights: Vec::new() };
        for row in rows {
            let mut row = row.to_vec();
            row.sort_by(|a, b| b.1.abs().total_cmp(&a.1.abs()).then(a.0.cmp(&b.0)));
            row.truncate(slots);
            let sum: f64 = row.iter().map(|(_, w)| w).sum();
            // The first takes the rounding of the others.
            let others: Vec<f32> = row.iter().skip(1).map(|&(_, w)| (w / sum) as f32).collect();
            let first = 1.0 - others.iter().map(|w| f64::from(*w)).sum::<f64>();
            let padding = slots - row.len();
            blends.bones.extend(row.iter().map(|&(j, _)| j as u16).chain(std::iter::repeat_n(0, padding)));
            blends.weights.push(first as f32);
            blends.weights.extend(others.into_iter().chain(std::iter::repeat_n(0.0, padding)));
        }
        blends
    }

    /// M: virtual bones.
    pub fn count(&self) -> usize {
        self.weights.len() / self.slots
    }

    /// c: slots of each virtual bone.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// [M, c] master bones, row by row.
    pub fn bone_table(&self) -> &[u16] {
        &self.bones
    }

    /// [M, c] weights, row by row.
    pub fn weight_table(&self) -> &[f32] {
        &self.weights
    }

    /// Used slots of virtual bone `m`: (master bone, weight).
    pub fn of(&self, m: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let row = m * self.slots..(m + 1) * self.slots;
        let pairs = self.bones[row.clone()].iter().zip(&self.weights[row]);
        pairs.filter(|(_, w)| **w != 0.0).map(|(&j, &w)| (j as usize, w))
    }

    /// Used slots of all virtual bones.
    pub fn used(&self) -> usize {
        self.weights.iter().filter(|w| **w != 0.0).count()
    }

    /// [M] posed_from_rest of the virtual bones for [B] of the master bones, one frame.
    pub fn pose(&self, master: &[DAffine3]) -> Vec<DAffine3> {
        let master: Vec<[f64; 12]> = master.iter().map(DAffine3::to_cols_array).collect();
        let mut posed = vec![DAffine3::ZERO; self.count()];
        let rows = self.bones.par_chunks(CHUNK * self.slots).zip(self.weights.par_chunks(CHUNK * self.slots));
        posed.par_chunks_mut(CHUNK).zip(rows).for_each(|(posed, (bones, weights))| {
            let rows = bones.chunks_exact(self.slots).zip(weights.chunks_exact(self.slots));
            for (out, (bones, weights)) in posed.iter_mut().zip(rows) {
                *out = DAffine3::from_cols_array(&blend(&master, bones, weights));
            }
        });
        posed
    }
}

/// Weighted sum of matrices. Unused slots add zero times bone 0, which is cheaper than a branch.
#[multiversion(targets("x86_64+avx512f+avx512vl+fma", "x86_64+avx2+fma", "aarch64+neon"))]
fn blend(master: &[[f64; 12]], bones: &[u16], weights: &[f32]) -> [f64; 12] {
    let mut sum = [0.0; 12];
    for (&j, &w) in bones.iter().zip(weights) {
        let (w, matrix) = (f64::from(w), &master[j as usize]);
        for (sum, x) in sum.iter_mut().zip(matrix) {
            *sum += w * x;
        }
    }
    sum
}

/// A rig with two layers.
///
/// Invariants, checked by [`TwoLayerRig::check`]:
/// 1. `master` obeys its own; its weights are plain linear blend skinning, for run times without a second layer.
/// 2. 1 to 65536 virtual bones; each names master bones that exist, in unused slots too, none twice, with finite weights
///    that sum to 1 within 1e-4.
/// 3. `weights` cover the same vertices, name virtual bones that exist, and obey their own invariants.
#[derive(Clone, Debug)]
pub struct TwoLayerRig {
    /// Rest pose, surface, bones and clips, and fallback weights for a single layer.
    pub master: Rig,
    /// [M, c] D: virtual bones from master bones.
    pub blends: Blends,
    /// [N, k] A: vertices from virtual bones.
    pub weights: SparseWeights,
}

/// Why a two-layer rig was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum TwoLayerError {
    #[error(transparent)]
    Master(#[from] RigError),
    #[error("the rig has {virtual_bones} virtual bones; 1 to 65536 are possible")]
    VirtualBoneCount { virtual_bones: usize },
    #[error("virtual bone {virtual_bone}: {what}")]
    BadBlend { virtual_bone: usize, what: String },
    #[error("weights on virtual bones: {0}")]
    Weights(#[from] WeightError),
    #[error("weights on virtual bones for {weights} vertices, but the rest pose has {vertices}")]
    VertexCount { weights: usize, vertices: usize },
}

impl TwoLayerRig {
    /// N.
    pub fn vertex_count(&self) -> usize {
        self.master.vertex_count()
    }

    /// M.
    pub fn virtual_count(&self) -> usize {
        self.blends.count()
    }

    /// Blend operations per vertex, over both layers: what the paper calls bones per vertex, `q c / n + 2`, counting
    /// used slots only.
    pub fn blends_per_vertex(&self) -> f64 {
        let n = self.vertex_count().max(1);
        let own: usize = (0..n.min(self.weights.vertex_count())).map(|i| self.weights.of(i).count()).sum();
        (self.blends.used() + own) as f64 / n as f64
    }

    /// The same deformation with one layer: virtual bones as bones, their motion baked. Blends of rotations are affine.
    pub fn bake(&self) -> Rig {
        self.master.baked(self.centers(), self.weights.clone(), BoneKind::Affine, |pose| self.blends.pose(pose))
    }

    /// [M] mean of the rest vertices that follow each virtual bone; of all where none does.
    pub fn centers(&self) -> Vec<DVec3> {
        let points = self.master.rest.iter().map(|p| p.as_dvec3());
        let mean = points.clone().sum::<DVec3>() / self.vertex_count().max(1) as f64;
        let sums = self.weights.point_sums(points, self.virtual_count());
        sums.into_iter().map(|(sum, total)| if total > 0.0 { sum / total } else { mean }).collect()
    }

    /// Checks invariants 1 to 3.
    pub fn check(&self) -> Result<(), TwoLayerError> {
        self.master.check()?;
        let virtual_bones = self.virtual_count();
        let possible = (1..=MAX_VIRTUAL_BONES).contains(&virtual_bones);
        ensure(possible, || TwoLayerError::VirtualBoneCount { virtual_bones })?;
        let bones = self.master.bone_count();
        for (m, slots) in self.blends.bones.chunks_exact(self.blends.slots).enumerate() {
            let bad = |what| TwoLayerError::BadBlend { virtual_bone: m, what };
            // Unused slots too: `pose` reads them.
            slots.iter().try_for_each(|&j| check_bone(j.into(), bones)).map_err(bad)?;
            check_affine_row(self.blends.of(m), bones).map_err(bad)?;
        }
        let (weights, vertices) = (self.weights.vertex_count(), self.vertex_count());
        ensure(weights == vertices, || TwoLayerError::VertexCount { weights, vertices })?;
        Ok(self.weights.check(virtual_bones)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::deform;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// Virtual bone 0 is bone 0; 1 goes beyond bone 1, away from bone 0.
    fn sample() -> TwoLayerRig {
        let params = PosedRigParams { bones: 3, frames: 2, detail: 1, ..PosedRigParams::default() };
        let master = posed_rig(1, &params).rig;
        let blends = Blends::from_tables(2, vec![0, 0, 1, 0], vec![1.0, 0.0, 1.5, -0.5]).unwrap();
        let mut weights = SparseWeights::new(master.vertex_count(), 2);
        (0..master.vertex_count()).for_each(|i| weights.set(i, &[(0, i as f64), (1, 1.0)]));
        TwoLayerRig { master, blends, weights }
    }

    #[test]
    fn layers_multiply() {
        let rig = sample();
        rig.check().unwrap();
        let pose = rig.master.clips[0].frame(1);
        let (i, u) = (3, rig.master.rest[3].as_dvec3());
        let expected = 0.75 * pose[0].transform_point3(u)
            + 0.25 * (1.5 * pose[1].transform_point3(u) - 0.5 * pose[0].transform_point3(u));
        assert!(deform::two_layer(&rig, pose)[i].as_dvec3().distance(expected) < 1e-6);
        assert!(rig.blends_per_vertex() > 1.9);
    }

    #[test]
    fn what_breaks_an_invariant_is_named() {
        let broken = |bones: Vec<u16>, weights: Vec<f32>| {
            let blends = Blends::from_tables(2, bones, weights).unwrap();
            TwoLayerRig { blends, ..sample() }.check().unwrap_err().to_string()
        };
        assert!(broken(vec![0, 0, 7, 0], vec![1.0, 0.0, 1.0, 0.0]).contains("virtual bone 1: it names bone 7"));
        assert!(
            broken(vec![0, 0, 1, 0], vec![1.0, 0.0, 0.75, 0.0]).contains("virtual bone 1: its weights sum to 0.75")
        );
        // Unused slots are read too.
        assert!(broken(vec![0, 0, 1, 60000], vec![1.0, 0.0, 1.0, 0.0]).contains("it names bone 60000"));
        assert!(broken(vec![0, 0, 1, 1], vec![1.0, 0.0, 0.5, 0.5]).contains("bone 1 twice"));
        assert!(broken(vec![0, 0, 1, 0], vec![1.0, 0.0, f32::NAN, 0.0]).contains("NaN"));
        assert!(broken(vec![0, 0], vec![1.0, 0.0]).contains("names bone 1, but there are 1 bones"));
        assert!(Blends::from_tables(2, vec![0; 3], vec![0.0; 3]).is_none());
        let mut short = sample();
        short.weights = SparseWeights::new(1, 1);
        assert!(matches!(short.check(), Err(TwoLayerError::VertexCount { weights: 1, .. })));
    }
}
