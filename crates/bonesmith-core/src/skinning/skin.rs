//! Weights and rest positions of all vertices while they are fitted.

use std::ops::Range;

use glam::DVec3;
use rayon::prelude::*;

use crate::model::weights::{Row, SparseWeights, keep_largest};

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
    /// [N] rest normals, times their weight `h` (`normals`); zero where they do not count.
    pub normals: Vec<DVec3>,
}

impl Skin {
    /// No weights yet.
    pub fn empty(slots: usize, rest: Vec<DVec3>) -> Self {
        let n = rest.len();
        Self { slots, bones: vec![0; n * slots], weights: vec![0.0; n * slots], normals: vec![DVec3::ZERO; n], rest }
    }

    /// Every vertex on one bone.
    pub fn rigid(slots: usize, labels: &[u16], rest: Vec<DVec3>) -> Self {
        let mut skin = Self::empty(slots, rest);
        labels.iter().enumerate().for_each(|(i, &label)| skin.set(i, [(label as usize, 1.0)]));
        skin
    }

    /// The weights of a model, at most `slots` of each vertex.
    pub fn from_weights(weights: &SparseWeights, slots: usize, rest: Vec<DVec3>) -> Self {
        let mut skin = Self::empty(slots, rest);
        (0..skin.rest.len()).for_each(|i| skin.set(i, weights.of(i).map(|(j, w)| (j, f64::from(w)))));
        skin
    }

    /// The weights as a model has them.
    pub fn to_weights(&self) -> SparseWeights {
        let mut weights = SparseWeights::new(self.rest.len(), self.slots);
        (0..self.rest.len()).for_each(|i| weights.set(i, &self.of(i).collect::<Vec<_>>()));
        weights
    }

    /// Replaces the weights of vertex `i` by positive ones, as many as there are slots.
    pub fn set(&mut self, i: usize, influences: impl IntoIterator<Item = (usize, f64)>) {
        let row = i * self.slots..(i + 1) * self.slots;
        let (bones, weights) = (&mut self.bones[row.clone()], &mut self.weights[row]);
        bones.fill(0);
        weights.fill(0.0);
        for ((bone, weight), (j, w)) in bones.iter_mut().zip(weights).zip(influences) {
            (*bone, *weight) = (j as u16, w);
        }
    }

    /// Only some vertices, in the order given.
    pub fn pick(&self, vertices: &[u32]) -> Self {
        let row = |i: u32| i as usize * self.slots..(i as usize + 1) * self.slots;
        Self {
            slots: self.slots,
            bones: vertices.iter().flat_map(|&i| &self.bones[row(i)]).copied().collect(),
            weights: vertices.iter().flat_map(|&i| &self.weights[row(i)]).copied().collect(),
            rest: vertices.iter().map(|&i| self.rest[i as usize]).collect(),
            normals: vertices.iter().map(|&i| self.normals[i as usize]).collect(),
        }
    }

    /// With another number of slots; with fewer, the largest weights of each vertex.
    pub fn with_slots(&self, slots: usize) -> Self {
        let mut out = Self { normals: self.normals.clone(), ..Self::empty(slots, self.rest.clone()) };
        for i in 0..self.rest.len() {
            let mut own: Row = self.of(i).collect();
            let mut total = 1.0;
            if slots < self.slots {
                keep_largest(&mut own, slots);
                total = own.iter().map(|(_, w)| w).sum();
            }
            out.set(i, own.into_iter().map(|(j, w)| (j, w / total)));
        }
        out
    }

    /// Takes some of `bones` bones out and numbers the others in order; weights still sum to 1. A vertex left without bones
    /// gets its best one in the next pass.
    pub fn remove(&mut self, bones: usize, gone: &[usize]) {
        let mut numbers = vec![0; bones];
        gone.iter().for_each(|&j| numbers[j] = u16::MAX);
        let stay = numbers.iter_mut().filter(|number| **number != u16::MAX);
        stay.enumerate().for_each(|(to, number)| *number = to as u16);
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
        let (slots, rest, normals) = (self.slots, &self.rest[range.clone()], &self.normals[range.clone()]);
        let table = range.start * slots..range.end * slots;
        SkinView { slots, bones: &self.bones[table.clone()], weights: &self.weights[table], rest, normals }
    }

    /// All vertices, `count` at a time.
    pub fn par_chunks_mut(&mut self, count: usize) -> impl IndexedParallelIterator<Item = SkinRows<'_>> {
        self.rows_mut().into_par_chunks(count)
    }

    /// All vertices, to be changed.
    pub fn rows_mut(&mut self) -> SkinRows<'_> {
        let Self { slots, bones, weights, rest, normals } = self;
        SkinRows { slots: *slots, bones, weights, rest, normals }
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
    /// [n] rest normals.
    pub normals: &'a [DVec3],
}

impl<'a> SkinView<'a> {
    /// Some of them.
    pub fn part(&self, range: Range<usize>) -> SkinView<'a> {
        let table = range.start * self.slots..range.end * self.slots;
        SkinView {
            slots: self.slots,
            bones: &self.bones[table.clone()],
            weights: &self.weights[table],
            rest: &self.rest[range.clone()],
            normals: &self.normals[range],
        }
    }

    /// Slots in use of vertex `at`.
    #[inline(always)]
    pub fn of(&self, at: usize) -> impl Iterator<Item = (usize, f64)> + Clone + use<'a> {
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
    /// [n] rest normals.
    pub normals: &'a mut [DVec3],
}

impl<'a> SkinRows<'a> {
    /// `count` at a time.
    pub fn into_par_chunks(self, count: usize) -> impl IndexedParallelIterator<Item = SkinRows<'a>> {
        let slots = self.slots;
        let tables = self.bones.par_chunks_mut(count * slots).zip(self.weights.par_chunks_mut(count * slots));
        let rest = self.rest.par_chunks_mut(count).zip(self.normals.par_chunks_mut(count));
        tables.zip(rest).map(move |((bones, weights), (rest, normals))| SkinRows {
            slots,
            bones,
            weights,
            rest,
            normals,
        })
    }

    /// As they are.
    pub fn view(&self) -> SkinView<'_> {
        let Self { slots, bones, weights, rest, normals } = self;
        SkinView { slots: *slots, bones, weights, rest, normals }
    }

    /// Some of them.
    pub fn part(&mut self, range: Range<usize>) -> SkinRows<'_> {
        let table = range.start * self.slots..range.end * self.slots;
        SkinRows {
            slots: self.slots,
            bones: &mut self.bones[table.clone()],
            weights: &mut self.weights[table],
            rest: &mut self.rest[range.clone()],
            normals: &mut self.normals[range],
        }
    }
}
