//! Rigs of any size, at random.

use std::sync::Arc;

use bonesmith_core::model::ddm::Variant;
use bonesmith_core::model::multi_weights::MultiWeights;
use bonesmith_core::model::two_layer::Blends;
use bonesmith_core::{Bone, BoneKind, Clip, DdmRig, Rig, SparseWeights, Surface, Topology, TwoLayerRig};
use glam::{DAffine3, DMat3, DQuat, DVec3, Vec3};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Each coordinate in [-1, 1).
    pub fn vector(&mut self) -> DVec3 {
        DVec3::new(self.unit(), self.unit(), self.unit()) * 2.0 - 1.0
    }

    fn bone(&mut self, affine: f64) -> DAffine3 {
        let turn = DQuat::from_scaled_axis(self.vector() * 1.2);
        let stretch = DMat3::from_cols(self.vector(), self.vector(), self.vector()) * affine;
        DAffine3 { matrix3: DMat3::from_quat(turn) * (DMat3::IDENTITY + stretch), translation: self.vector() * 0.5 }
    }

    /// Different bones.
    fn bones(&mut self, count: usize, of: usize) -> Vec<usize> {
        let mut chosen = Vec::new();
        while chosen.len() < count.min(of) {
            let j = self.below(of);
            if !chosen.contains(&j) {
                chosen.push(j);
            }
        }
        chosen
    }
}

/// What a random rig is like.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    pub vertices: usize,
    pub bones: usize,
    pub influences: usize,
    pub frames: usize,
}

/// Vertices in a cube, faces between neighbours in the list, 1 to K influences each, bones that stretch a little.
pub fn lbs(seed: u64, size: Size) -> Rig {
    let mut random = Random(seed);
    let rest: Vec<Vec3> = (0..size.vertices).map(|_| random.vector().as_vec3()).collect();
    let mut topology = Topology::empty();
    for i in 0..size.vertices.saturating_sub(2) as u32 {
        topology.push_face(&[i, i + 1, i + 2]);
    }
    let weights = weights(&mut random, size.vertices, size.influences, size.bones);
    let bone = |j: usize| Bone { name: format!("{j}"), parent: None, world_from_bind: DAffine3::IDENTITY, tip: None };
    let clip = Clip {
        name: "random".into(),
        times_secs: (0..size.frames).map(|t| t as f64).collect(),
        posed_from_rest: (0..size.frames * size.bones).map(|_| random.bone(0.2)).collect(),
    };
    let rig = Rig {
        name: "random".into(),
        rest,
        surface: Arc::new(Surface::bare(topology)),
        weights,
        bones: (0..size.bones).map(bone).collect(),
        kind: BoneKind::Affine,
        clips: vec![clip],
        params_json: String::new(),
    };
    rig.check().unwrap();
    rig
}

/// The same with bones that turn, move and scale evenly.
pub fn rigid(seed: u64, size: Size) -> Rig {
    let mut rig = lbs(seed, size);
    let mut random = Random(seed ^ 3);
    for m in &mut rig.clips[0].posed_from_rest {
        let (turn, scale) = (DQuat::from_scaled_axis(random.vector() * 3.0), 0.5 + random.unit());
        *m = DAffine3::from_scale_rotation_translation(DVec3::splat(scale), turn, random.vector() * 0.5);
    }
    rig
}

fn weights(random: &mut Random, vertices: usize, influences: usize, bones: usize) -> SparseWeights {
    let mut weights = SparseWeights::new(vertices, influences);
    for i in 0..vertices {
        let count = 1 + random.below(influences);
        let row: Vec<(usize, f64)> =
            random.bones(count, bones).into_iter().map(|j| (j, 0.05 + random.unit())).collect();
        weights.set(i, &row);
    }
    weights
}

/// Virtual bones of up to 5 bones, some weights negative; two of them per vertex.
pub fn two_layer(seed: u64, size: Size, virtual_bones: usize) -> TwoLayerRig {
    let master = lbs(seed, size);
    let mut random = Random(seed ^ 1);
    let slots = 5.min(size.bones);
    let (mut bones, mut numbers) = (Vec::new(), Vec::new());
    for _ in 0..virtual_bones {
        let chosen = random.bones(slots, size.bones);
        let others: Vec<f32> = (1..slots).map(|_| (0.6 * random.unit() - 0.2) as f32).collect();
        numbers.push((1.0 - others.iter().map(|w| f64::from(*w)).sum::<f64>()) as f32);
        numbers.extend(others);
        bones.extend(chosen.iter().map(|j| *j as u16));
    }
    let blends = Blends::from_tables(slots, bones, numbers).unwrap();
    let weights = weights(&mut random, size.vertices, 2, virtual_bones);
    let rig = TwoLayerRig { master, blends, weights };
    rig.check().unwrap();
    rig
}

/// Multi-weights of random points around centres near `places`.
fn multi_weights(random: &mut Random, places: &[DVec3], size: Size) -> MultiWeights {
    let (mut starts, mut bones, mut values, mut centres) = (vec![0u32], Vec::new(), Vec::new(), Vec::new());
    for place in places {
        let count = 1 + random.below(size.influences);
        let chosen = random.bones(count, size.bones);
        // Some of them along the axes: no row is flat, so that variant 1 has something to invert.
        let axes = [DVec3::X, DVec3::Y, DVec3::Z, DVec3::NEG_X, DVec3::NEG_Y, DVec3::NEG_Z];
        let points: Vec<(usize, f64, DVec3)> = (0..6 * chosen.len())
            .map(|n| (n % chosen.len(), 0.2 + random.unit(), 0.15 * axes[n % 6] + 0.1 * random.vector()))
            .collect();
        let total: f64 = points.iter().map(|p| p.1).sum();
        let mean = points.iter().map(|p| p.2 * p.1).sum::<DVec3>() / total;
        for (k, j) in chosen.iter().enumerate() {
            let mut sums = [0.0; 10];
            for (_, c, at) in points.iter().filter(|p| p.0 == k) {
                let (c, d) = (c / total, *at - mean);
                let row = [1.0, d.x, d.y, d.z, d.x * d.x, d.x * d.y, d.x * d.z, d.y * d.y, d.y * d.z, d.z * d.z];
                sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += c * value);
            }
            bones.push(*j as u16);
            values.extend(sums.map(|v| v as f32));
        }
        starts.push(bones.len() as u32);
        centres.push((*place + random.vector() * 0.1).as_vec3());
    }
    MultiWeights::from_tables(10, starts, bones, values, centres).unwrap()
}

/// Direct Delta Mush of variant 0 with random multi-weights; compressed with virtual bones.
pub fn ddm(seed: u64, size: Size, virtual_bones: usize) -> DdmRig {
    let mut rig = lbs(seed, size);
    let mut random = Random(seed ^ 2);
    // Rotations, as the method has it; turning at most a right angle, so that the nearest rotation is clear.
    for m in &mut rig.clips[0].posed_from_rest {
        let turn = DQuat::from_scaled_axis(random.vector() * 0.8);
        *m = DAffine3::from_rotation_translation(turn, random.vector() * 0.5);
    }
    let origin = DVec3::new(0.1, -0.2, 0.3);
    let rows = if virtual_bones > 0 { virtual_bones } else { size.vertices };
    let places: Vec<DVec3> = (0..rows).map(|row| rig.rest[row % size.vertices].as_dvec3() - origin).collect();
    let weights = multi_weights(&mut random, &places, size);
    let layer = (virtual_bones > 0).then(|| self::weights(&mut random, size.vertices, 8, virtual_bones));
    let rig = DdmRig { rig, origin, weights, layer, variant: Variant::V0 };
    rig.check().unwrap();
    rig
}
