//! Many bones: each block of vertices works with the bones near it.
//!
//! A vertex has a few bones and tries a few others, all of them near it. So where there are many bones, products of vertices with
//! bones and of bones with each other are made for blocks of vertices and the bones that they have or that are near them; the work
//! grows with the number of vertices, whatever the number of bones. With at most [`MANY_BONES`] every vertex looks at all of them.

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

use crate::skinning::motion::Motion;
use crate::skinning::products::{BonePairs, SomePairs};
use crate::skinning::skin::{Skin, SkinView};
use crate::skinning::smooth::MeanWeights;
use crate::solve::nearest::Points;

/// With more bones than this, vertices look at those near them only.
pub(crate) const MANY_BONES: usize = 128;

/// Bones near a vertex that it may try.
const NEAR: usize = 8;

/// A block with more bones than this is divided: vertices in an order that has nothing to do with where they are.
const MAX_BONES: usize = 96;

/// The fewest vertices of a divided block.
const MIN_BLOCK: usize = 8;

/// A block of vertices and the bones that it works with, ascending.
pub(crate) struct NearBlock {
    pub vertices: Range<usize>,
    pub bones: Vec<u16>,
}

/// All blocks, and the products of the bones that they work with.
pub(crate) struct Near {
    pub blocks: Vec<NearBlock>,
    /// None where no block needs them.
    pairs: Option<SomePairs>,
}

/// The bones that a block works with.
pub(crate) enum BlockBones<'a> {
    All(&'a Motion),
    Some {
        /// Their numbers, ascending.
        numbers: &'a [u16],
        /// L.
        length: usize,
        /// [4 B, L]
        rows32: Vec<f32>,
        pairs: BonePairs,
    },
}

impl BlockBones<'_> {
    /// B: how many.
    pub fn count(&self) -> usize {
        match self {
            Self::All(motion) => motion.bones,
            Self::Some { numbers, .. } => numbers.len(),
        }
    }

    /// L.
    pub fn length(&self) -> usize {
        match self {
            Self::All(motion) => motion.length,
            Self::Some { length, .. } => *length,
        }
    }

    /// [4 B, L] their motion.
    pub fn rows32(&self) -> &[f32] {
        match self {
            Self::All(motion) => motion.rows32(),
            Self::Some { rows32, .. } => rows32,
        }
    }

    /// `K_jk`; of no bones where the blocks were made without.
    pub fn pairs(&self) -> &BonePairs {
        match self {
            Self::All(motion) => motion.pairs(),
            Self::Some { pairs, .. } => pairs,
        }
    }

    /// Their numbers, where that is not all of them.
    pub fn numbers(&self) -> Option<&[u16]> {
        match self {
            Self::All(_) => None,
            Self::Some { numbers, .. } => Some(numbers),
        }
    }
}

/// Which bones a block works with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Those that its vertices have.
    Own,
    /// Those near its vertices, too.
    Around,
}

impl Near {
    /// All vertices in blocks of at most `size`, where there are many bones. `paired`: whether products of bones are needed.
    pub fn new(motion: &Motion, skin: &Skin, size: usize, reach: Reach, paired: bool) -> Option<Self> {
        (motion.bones > MANY_BONES).then(|| {
            let blocks = blocks(motion, skin, size, reach);
            let lists = || blocks.iter().map(|block| block.bones.as_slice());
            let pairs = paired.then(|| SomePairs::new(motion, lists()));
            motion.rows32();
            Self { blocks, pairs }
        })
    }

    /// The bones of one of the blocks.
    pub fn bones<'a>(&self, motion: &Motion, block: &'a NearBlock) -> BlockBones<'a> {
        let (all, length, numbers) = (motion.rows32(), motion.length, block.bones.as_slice());
        let mut rows32 = Vec::with_capacity(4 * numbers.len() * length);
        for c in 0..4 {
            for &j in numbers {
                rows32.extend_from_slice(&all[(c * motion.bones + j as usize) * length..][..length]);
            }
        }
        let pairs = self.pairs.as_ref().map(|pairs| pairs.within(numbers)).unwrap_or_default();
        BlockBones::Some { numbers, length, rows32, pairs }
    }
}

fn blocks(motion: &Motion, skin: &Skin, size: usize, reach: Reach) -> Vec<NearBlock> {
    let places = match reach {
        Reach::Own => Points::new([]),
        Reach::Around => Points::new(places(motion, skin)),
    };
    let n = skin.rest.len();
    let starts: Vec<usize> = (0..n).step_by(size).collect();
    let of_block = |&start: &usize| {
        let vertices = start..(start + size).min(n);
        let mut own: Vec<Vec<u16>> = vec![Vec::new(); vertices.len()];
        let mut found = Vec::new();
        for (own, i) in own.iter_mut().zip(vertices.clone()) {
            own.extend(skin.of(i).map(|(j, _)| j as u16));
            if reach == Reach::Around {
                places.nearest(skin.rest[i], NEAR, &mut found);
                own.extend(found.iter().map(|(_, j)| *j as u16));
            }
        }
        let mut out = Vec::new();
        divide(vertices, &own, &mut out);
        out
    };
    starts.par_iter().flat_map_iter(of_block).collect()
}

/// Where bones are: in the middle of their vertices; one without any where it was planted.
fn places(motion: &Motion, skin: &Skin) -> Vec<(DVec3, u32)> {
    let mut sums = vec![(DVec3::ZERO, 0.0); motion.bones];
    for (i, u) in skin.rest.iter().enumerate() {
        for (j, w) in skin.of(i) {
            sums[j].0 += *u * (w * w);
            sums[j].1 += w * w;
        }
    }
    let place = |j: usize, (sum, weight): (DVec3, f64)| match weight > 0.0 {
        true => Some(sum / weight),
        false => motion.planted_at(j),
    };
    sums.into_iter().enumerate().filter_map(|(j, sum)| Some((place(j, sum)?, j as u32))).collect()
}

/// The vertices as one block, or as two that are divided again, where they have too many bones for one.
fn divide(vertices: Range<usize>, own: &[Vec<u16>], out: &mut Vec<NearBlock>) {
    let mut bones: Vec<u16> = own.iter().flatten().copied().collect();
    bones.sort_unstable();
    bones.dedup();
    if bones.len() <= MAX_BONES || vertices.len() <= MIN_BLOCK {
        // A vertex without any bone still has to be shown with one.
        if bones.is_empty() {
            bones.push(0);
        }
        out.push(NearBlock { vertices, bones });
        return;
    }
    let half = (vertices.len() / 2).next_multiple_of(MIN_BLOCK);
    let (first, second) = own.split_at(half);
    divide(vertices.start..vertices.start + half, first, out);
    divide(vertices.start + half..vertices.end, second, out);
}

impl NearBlock {
    /// The vertices' rows with bones by their place in the block's list.
    pub fn local<'a>(&self, rows: SkinView<'a>, numbers: &'a mut Vec<u16>) -> SkinView<'a> {
        numbers.clear();
        numbers.extend(rows.bones);
        self.enter(numbers, rows.weights);
        SkinView { bones: numbers, ..rows }
    }

    /// Numbers bones by their place in the block's list.
    pub fn enter(&self, bones: &mut [u16], weights: &[f64]) {
        for (bone, w) in bones.iter_mut().zip(weights) {
            *bone = if *w > 0.0 { self.bones.partition_point(|j| j < bone) as u16 } else { 0 };
        }
    }

    /// The neighbours' mean weights of the block's vertices with bones by their place in the list; those of other bones are left out,
    /// because no vertex of the block can have them.
    pub fn local_means(&self, means: &[MeanWeights]) -> Vec<MeanWeights> {
        let number = |(bone, w): &(u16, f32)| self.bones.binary_search(bone).ok().map(|at| (at as u16, *w));
        means.iter().map(|mean| mean.iter().filter_map(number).collect()).collect()
    }

    /// Undoes [`NearBlock::enter`].
    pub fn leave(&self, bones: &mut [u16], weights: &[f64]) {
        for (bone, w) in bones.iter_mut().zip(weights) {
            *bone = if *w > 0.0 { self.bones[*bone as usize] } else { 0 };
        }
    }
}
