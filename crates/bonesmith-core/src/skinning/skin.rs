//! Weights and rest positions of all vertices while they are fitted.

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

/// Weights and rest positions of all vertices while they are being fitted.
#[derive(Clone)]
pub(crate) struct Skin {
    /// K: slots per vertex.
    pub slots: usize,
    /// [N, K] bone of each slot; slots in use come first.
    pub bones: Vec<u16>,
    /// [N, K] weight of each slot; 0 = not in use.
    pub weights: Vec<f64>,
    /// [N] rest positions.
    pub rest: Vec<DVec3>,
}

impl Skin {
    /// Every vertex on one bone.
    pub fn rigid(slots: usize, labels: &[u16], rest: Vec<DVec3>) -> Self {
        let n = rest.len();
        let mut skin = Self { slots, bones: vec![0; n * slots], weights: vec![0.0; n * slots], rest };
        for (i, &label) in labels.iter().enumerate() {
            skin.bones[i * slots] = label;
            skin.weights[i * slots] = 1.0;
        }
        skin
    }

    /// Only some vertices, in the order given.
    pub fn pick(&self, vertices: &[u32]) -> Self {
        let row = |i: u32| i as usize * self.slots..(i as usize + 1) * self.slots;
        Self {
            slots: self.slots,
            bones: vertices.iter().flat_map(|&i| &self.bones[row(i)]).copied().collect(),
            weights: vertices.iter().flat_map(|&i| &self.weights[row(i)]).copied().collect(),
            rest: vertices.iter().map(|&i| self.rest[i as usize]).collect(),
        }
    }

    /// With another number of slots; with fewer, the largest weights of each vertex.
    pub fn with_slots(&self, slots: usize) -> Self {
        let n = self.rest.len();
        let mut out = Self { slots, bones: vec![0; n * slots], weights: vec![0.0; n * slots], rest: self.rest.clone() };
        for i in 0..n {
            let mut own: Vec<(usize, f64)> = self.of(i).collect();
            let mut total = 1.0;
            if slots < self.slots {
                own.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
                own.truncate(slots);
                total = own.iter().map(|(_, w)| w).sum();
            }
            for (k, (j, w)) in own.into_iter().enumerate() {
                (out.bones[i * slots + k], out.weights[i * slots + k]) = (j as u16, w / total);
            }
        }
        out
    }

    /// Takes some of `bones` bones out and numbers the others in order; weights still sum to 1. A vertex left without bones
    /// gets its best one in the next pass.
    pub fn remove(&mut self, bones: usize, gone: &[usize]) {
        let mut numbers = vec![u16::MAX; bones];
        (0..bones).filter(|j| !gone.contains(j)).enumerate().for_each(|(to, from)| numbers[from] = to as u16);
        for (bones, weights) in self.bones.chunks_exact_mut(self.slots).zip(self.weights.chunks_exact_mut(self.slots)) {
            let mut used = 0;
            for k in 0..bones.len() {
                let to = numbers[bones[k] as usize];
                if weights[k] > 0.0 && to != u16::MAX {
                    (bones[used], weights[used]) = (to, weights[k]);
                    used += 1;
                }
            }
            bones[used..].fill(0);
            weights[used..].fill(0.0);
            let total: f64 = weights.iter().sum();
            if total > 0.0 {
                weights.iter_mut().for_each(|w| *w /= total);
            }
        }
    }

    /// Numbers bones by their place in `order` [B].
    pub fn renumber(&mut self, order: &[usize]) {
        let mut numbers = vec![0; order.len()];
        order.iter().enumerate().for_each(|(to, &from)| numbers[from] = to as u16);
        self.bones.iter_mut().for_each(|j| *j = numbers[*j as usize]);
    }

    /// [B] middle of the vertices of each bone, weighted by the square of their weights; the origin where there are none.
    pub fn centroids(&self, bones: usize) -> Vec<DVec3> {
        let mut sums = vec![(DVec3::ZERO, 0.0); bones];
        for (i, u) in self.rest.iter().enumerate() {
            for (j, w) in self.of(i) {
                sums[j].0 += *u * (w * w);
                sums[j].1 += w * w;
            }
        }
        sums.into_iter().map(|(sum, weight)| if weight > 0.0 { sum / weight } else { DVec3::ZERO }).collect()
    }

    /// Slots in use of vertex `i`.
    pub fn of(&self, i: usize) -> impl Iterator<Item = (usize, f64)> + '_ {
        self.rows(i..i + 1).of(0)
    }

    /// Some vertices.
    pub fn rows(&self, range: Range<usize>) -> SkinView<'_> {
        let (slots, rest) = (self.slots, &self.rest[range.clone()]);
        let table = range.start * slots..range.end * slots;
        SkinView { slots, bones: &self.bones[table.clone()], weights: &self.weights[table], rest }
    }

    /// All vertices, `count` at a time.
    pub fn par_chunks_mut(&mut self, count: usize) -> impl IndexedParallelIterator<Item = SkinRows<'_>> {
        let slots = self.slots;
        let tables = self.bones.par_chunks_mut(count * slots).zip(self.weights.par_chunks_mut(count * slots));
        let chunks = tables.zip(self.rest.par_chunks_mut(count));
        chunks.map(move |((bones, weights), rest)| SkinRows { slots, bones, weights, rest })
    }
}

/// Some vertices of a skin.
#[derive(Clone, Copy)]
pub(crate) struct SkinView<'a> {
    /// K.
    pub slots: usize,
    /// [n, K] bones; slots in use come first.
    pub bones: &'a [u16],
    /// [n, K] weights; 0 = not in use.
    pub weights: &'a [f64],
    /// [n] rest positions.
    pub rest: &'a [DVec3],
}

impl<'a> SkinView<'a> {
    /// Slots in use of vertex `at`.
    #[inline(always)]
    pub fn of(&self, at: usize) -> impl Iterator<Item = (usize, f64)> + use<'a> {
        let row = at * self.slots..(at + 1) * self.slots;
        let pairs = self.bones[row.clone()].iter().zip(&self.weights[row]);
        pairs.take_while(|(_, w)| **w > 0.0).map(|(&j, &w)| (j as usize, w))
    }
}

/// Some vertices of a skin, to be changed.
pub(crate) struct SkinRows<'a> {
    /// K.
    pub slots: usize,
    /// [n, K] bones; slots in use come first.
    pub bones: &'a mut [u16],
    /// [n, K] weights; 0 = not in use.
    pub weights: &'a mut [f64],
    /// [n] rest positions.
    pub rest: &'a mut [DVec3],
}

impl SkinRows<'_> {
    /// As they are.
    pub fn view(&self) -> SkinView<'_> {
        SkinView { slots: self.slots, bones: self.bones, weights: self.weights, rest: self.rest }
    }

    /// Some of them.
    pub fn part(&mut self, range: Range<usize>) -> SkinRows<'_> {
        let table = range.start * self.slots..range.end * self.slots;
        SkinRows {
            slots: self.slots,
            bones: &mut self.bones[table.clone()],
            weights: &mut self.weights[table],
            rest: &mut self.rest[range],
        }
    }
}
