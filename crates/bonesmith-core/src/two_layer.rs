//! A two-layer rig: virtual bones blend master bones, vertices blend virtual bones [Le2014 ch. 4].

use glam::{DAffine3, DVec3};

use crate::rig::{Bone, BoneKind, Clip, Rig, RigError};
use crate::weights::{SparseWeights, WeightError};

/// Most virtual bones: vertices name them with 16 bits.
pub const MAX_VIRTUAL_BONES: usize = 1 << 16;

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

    /// Blends that are used, over all virtual bones.
    pub fn used(&self) -> usize {
        self.weights.iter().filter(|w| **w != 0.0).count()
    }

    /// [M] posed_from_rest of the virtual bones for [B] of the master bones, one frame.
    pub fn pose(&self, master: &[DAffine3]) -> Vec<DAffine3> {
        let blend = |m: usize| {
            let mut sum = [0.0; 12];
            for (j, w) in self.of(m) {
                let columns = master[j].to_cols_array();
                sum.iter_mut().zip(columns).for_each(|(sum, x)| *sum += f64::from(w) * x);
            }
            DAffine3::from_cols_array(&sum)
        };
        (0..self.count()).map(blend).collect()
    }
}

/// A rig with two layers.
///
/// Invariants, checked by [`TwoLayerRig::check`]:
/// 1. `master` obeys its own; its weights are plain linear blend skinning for players that know no layers.
/// 2. 1 to 65536 virtual bones; each names master bones that exist, none twice, with finite weights that sum to 1
///    within 1e-4.
/// 3. `weights` cover the same vertices, name virtual bones that exist, and obey their own invariants.
#[derive(Clone, Debug)]
pub struct TwoLayerRig {
    /// Rest pose, surface, bones and clips, and single-layer weights to fall back to.
    pub master: Rig,
    /// [M, c] D: virtual bones from master bones.
    pub blends: Blends,
    /// [N, k] A: vertices from virtual bones.
    pub weights: SparseWeights,
}

/// Why a two-layer rig was refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TwoLayerError {
    /// The master rig is wrong.
    #[error(transparent)]
    Master(#[from] RigError),
    /// No virtual bones, or too many.
    #[error("the rig has {virtual_bones} virtual bones; 1 to 65536 are possible")]
    VirtualBoneCount {
        /// Virtual bones it has.
        virtual_bones: usize,
    },
    /// A virtual bone that blends what is not there, or not soundly.
    #[error("virtual bone {virtual_bone}: {what}")]
    BadBlend {
        /// Which.
        virtual_bone: usize,
        /// What is wrong.
        what: String,
    },
    /// Weights on virtual bones are wrong.
    #[error("weights on virtual bones: {0}")]
    Weights(#[from] WeightError),
    /// Layers of different meshes.
    #[error("weights on virtual bones for {weights} vertices, but the rest pose has {vertices}")]
    VertexCount {
        /// Vertices that have weights.
        weights: usize,
        /// Vertices of the rest pose.
        vertices: usize,
    },
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

    /// The same deformation with one layer: virtual bones as bones, their motion baked.
    pub fn bake(&self) -> Rig {
        let centers = self.centers();
        let bones = centers.into_iter().enumerate().map(|(m, center)| Bone {
            name: format!("virtual_{m}"),
            parent: None,
            world_from_bind: DAffine3::from_translation(center),
            tip: None,
        });
        let clips = self.master.clips.iter().map(|clip| Clip {
            name: clip.name.clone(),
            times_secs: clip.times_secs.clone(),
            posed_from_rest: (0..clip.frame_count()).flat_map(|t| self.blends.pose(clip.frame(t))).collect(),
        });
        Rig {
            name: self.master.name.clone(),
            rest: self.master.rest.clone(),
            surface: self.master.surface.clone(),
            weights: self.weights.clone(),
            bones: bones.collect(),
            // Blends of rotations are no rotations.
            kind: BoneKind::Affine,
            clips: clips.collect(),
            params_json: self.master.params_json.clone(),
        }
    }

    /// [M] mean of the rest vertices that follow each virtual bone; of all where none does.
    fn centers(&self) -> Vec<DVec3> {
        let mut sums = vec![(DVec3::ZERO, 0.0); self.virtual_count()];
        for (i, p) in self.master.rest.iter().enumerate() {
            for (m, w) in self.weights.of(i) {
                sums[m].0 += f64::from(w) * p.as_dvec3();
                sums[m].1 += f64::from(w);
            }
        }
        let all: DVec3 = self.master.rest.iter().map(|p| p.as_dvec3()).sum();
        let mean = all / self.vertex_count().max(1) as f64;
        sums.into_iter().map(|(sum, total)| if total > 0.0 { sum / total } else { mean }).collect()
    }

    /// Checks invariants 1 to 3.
    pub fn check(&self) -> Result<(), TwoLayerError> {
        self.master.check()?;
        let virtual_bones = self.virtual_count();
        if virtual_bones == 0 || virtual_bones > MAX_VIRTUAL_BONES {
            return Err(TwoLayerError::VirtualBoneCount { virtual_bones });
        }
        for m in 0..virtual_bones {
            self.check_blend(m).map_err(|what| TwoLayerError::BadBlend { virtual_bone: m, what })?;
        }
        let (weights, vertices) = (self.weights.vertex_count(), self.vertex_count());
        if weights != vertices {
            return Err(TwoLayerError::VertexCount { weights, vertices });
        }
        Ok(self.weights.check(virtual_bones)?)
    }

    fn check_blend(&self, m: usize) -> Result<(), String> {
        let bones = self.master.bone_count();
        let row: Vec<(usize, f32)> = self.blends.of(m).collect();
        let mut sum = 0.0;
        let mut size = 0.0;
        for (at, &(j, w)) in row.iter().enumerate() {
            if j >= bones {
                return Err(format!("it names bone {j}, but there are {bones} bones"));
            }
            if !w.is_finite() {
                return Err(format!("its weight of bone {j} is {w}"));
            }
            if row[..at].iter().any(|(other, _)| *other == j) {
                return Err(format!("it names bone {j} twice"));
            }
            sum += f64::from(w);
            size += f64::from(w.abs());
        }
        match (sum - 1.0).abs() <= 1e-4 * size.max(1.0) {
            true => Ok(()),
            false => Err(format!("its weights sum to {sum}, not 1")),
        }
    }
}
