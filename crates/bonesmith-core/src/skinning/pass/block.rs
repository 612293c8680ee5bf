//! A block of vertices: its trajectories, residuals and products with the bones that it works with.

use std::ops::Range;

use super::BLOCK;
use crate::skinning::device::{Cpu, Device, Terms};
use crate::skinning::motion::Motion;
use crate::skinning::near::{BlockBones, Near, NearBlock};
use crate::skinning::problem::Problem;
use crate::skinning::products::BonePairs;
use crate::skinning::skin::SkinView;
use crate::skinning::smooth::MeanWeights;
use crate::skinning::vertex_step::{BatchView, Pull};
use crate::solve::kernels::Term;
use crate::solve::lanes::Mat4;

/// Which bones residuals are multiplied with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Onto {
    /// All that the block works with.
    All,
    /// Those that each vertex has.
    Own,
}

/// Buffers of one task, and the block of vertices in them.
pub(super) struct Block<'a> {
    pub(super) problem: &'a Problem,
    motion: &'a Motion,
    /// The blocks, where they do not work with all bones.
    near: Option<&'a Near>,
    pub(super) bones: BlockBones<'a>,
    pub(super) device: &'static dyn Device,
    /// The vertices.
    pub(super) range: Range<usize>,
    /// [n, L] trajectories that are not stored.
    read: Vec<f32>,
    /// [n, L]
    pub(super) residuals: Vec<f32>,
    /// [n] squared lengths of the residuals.
    pub(super) errors: Vec<f64>,
    /// [n, 4 B] products of the residuals with all bones.
    pub(super) along: Vec<f32>,
    /// What the residuals were found with.
    pub(super) terms: Terms,
    /// [n, L] true normals, where they count.
    pub(super) normals: Vec<f32>,
    /// [n, 3 B] their products with all bones.
    normals_along: Vec<f32>,
}

impl<'a> Block<'a> {
    pub(super) fn new(problem: &'a Problem, motion: &'a Motion, near: Option<&'a Near>, slots: usize) -> Self {
        let shaded = if problem.normals.is_some() { BLOCK } else { 0 };
        let bones = if near.is_some() { 0 } else { motion.bones };
        Self {
            problem,
            motion,
            near,
            bones: BlockBones::All(motion),
            device: &Cpu,
            range: 0..0,
            read: Vec::new(),
            residuals: vec![0.0; BLOCK * problem.length],
            errors: vec![0.0; BLOCK],
            along: vec![0.0; BLOCK * 4 * bones],
            terms: Terms { terms: Vec::with_capacity(BLOCK * 4 * slots), ends: Vec::with_capacity(BLOCK) },
            normals: vec![0.0; shaded * problem.length],
            normals_along: vec![0.0; shaded * 3 * bones],
        }
    }

    /// Residuals of some vertices and their products with bones, for rows that stay.
    pub(super) fn look(&mut self, range: Range<usize>, near: Option<&'a NearBlock>, rows: &SkinView<'_>, onto: Onto) {
        self.load(range, near);
        self.find_residuals(rows);
        self.project(onto);
    }

    /// Takes up the trajectories of some vertices, and the bones that they work with.
    pub(super) fn load(&mut self, range: Range<usize>, near: Option<&'a NearBlock>) {
        if let (Some(all), Some(block)) = (self.near, near) {
            self.bones = all.bones(self.motion, block);
        }
        self.problem.load(range.clone(), &mut self.read);
        let (n, bones) = (range.len(), self.bones.count());
        self.along.resize(self.along.len().max(n * 4 * bones), 0.0);
        if let Some(normals) = &self.problem.normals {
            self.normals_along.resize(self.normals_along.len().max(n * 3 * bones), 0.0);
            normals.load(range.start, &mut self.normals[..n * self.problem.length]);
        }
        self.range = range;
    }

    /// `r = v - sum_j w_j T_j u`, weighed by the frames' shares.
    pub(super) fn find_residuals(&mut self, rows: &SkinView<'_>) {
        let (n, length) = (self.range.len(), self.problem.length);
        let (residuals, errors) = (&mut self.residuals[..n * length], &mut self.errors[..n]);
        set_terms(&mut self.terms, &self.bones, rows, |at| rows.rest[at].extend(1.0).to_array());
        let trajectories = self.problem.loaded(self.range.clone(), &self.read);
        self.device.residuals(residuals, errors, trajectories, self.bones.rows32(), &self.terms);
        self.problem.loss.weigh(self.range.start, residuals, errors);
    }

    /// `along = residuals * T^T`, and the same of the normals, where they count.
    pub(super) fn project(&mut self, onto: Onto) {
        let (n, side, length) = (self.range.len(), 4 * self.bones.count(), self.problem.length);
        let (along, residuals) = (&mut self.along[..n * side], &self.residuals[..n * length]);
        match onto {
            Onto::All => self.device.project(along, residuals, self.bones.rows32(), n),
            Onto::Own => self.device.project_own(along, residuals, self.bones.rows32(), &self.terms),
        }
        self.project_normals(onto);
    }

    /// Products of the normals with the bones, where normals count.
    pub(super) fn project_normals(&mut self, onto: Onto) {
        if self.problem.normals.is_none() {
            return;
        }
        let (n, side, length) = (self.range.len(), 3 * self.bones.count(), self.problem.length);
        let (along, normals) = (&mut self.normals_along[..n * side], &self.normals[..n * length]);
        match onto {
            Onto::All => self.device.project(along, normals, &self.bones.rows32()[..side * length], n),
            Onto::Own => self.device.project_own(along, normals, self.bones.rows32(), &self.terms),
        }
    }

    /// Squared error of the normals of vertex number `at`.
    pub(super) fn normal_error(&self, rows: &SkinView<'_>, at: usize) -> f64 {
        let side = 3 * self.bones.count();
        let truth = self.problem.normals.as_ref().map_or(0.0, |normals| normals.squared(self.range.start + at));
        let along = &self.normals_along[at * side..(at + 1) * side];
        let normal = rows.normals[at].extend(0.0).to_array();
        (truth + normal_cost(self.bones.pairs(), rows.of(at), along, &normal)).max(0.0)
    }

    /// What vertices number `part` of the block are solved from.
    ///
    /// `smooth`: strength, and the neighbours' mean weights of the block's vertices in the block's numbers.
    pub(super) fn view<'b>(&'b self, part: Range<usize>, smooth: Option<(f64, &'b [MeanWeights])>) -> BatchView<'b> {
        let side = 4 * self.bones.count();
        let pull = |(strength, means): (f64, &'b [MeanWeights])| Pull { means: &means[part.clone()], strength };
        let of_normals = |side: usize| &self.normals_along[part.start * side..part.end * side];
        BatchView {
            pairs: self.bones.pairs(),
            along: &self.along[part.start * side..part.end * side],
            normals: self.problem.normals.is_some().then(|| of_normals(3 * self.bones.count())),
            keeps_normals: self.problem.normals.as_ref().is_some_and(|normals| normals.keeps_rest()),
            errors: &self.errors[part.clone()],
            pull: smooth.map(pull),
        }
    }
}

impl Block<'_> {
    /// Terms with the rows of all bones; `buffer` holds them where the block does not work with all.
    pub(super) fn numbered_back<'b>(&self, terms: &'b Terms, buffer: &'b mut Terms) -> &'b Terms {
        let Some(bones) = self.bones.numbers() else { return terms };
        let (b, length) = (self.motion.bones, self.motion.length);
        let start = |start: usize| {
            let row = start / length;
            (row / bones.len() * b + bones[row % bones.len()] as usize) * length
        };
        buffer.terms.clear();
        buffer.terms.extend(terms.terms.iter().map(|term| Term { start: start(term.start), ..*term }));
        buffer.ends.clone_from(&terms.ends);
        buffer
    }
}

/// Sparse rows of the present prediction of vertices with these rest vectors: three or four numbers.
pub(super) fn set_terms<const C: usize>(
    to: &mut Terms,
    bones: &BlockBones<'_>,
    rows: &SkinView<'_>,
    rest: impl Fn(usize) -> [f64; C],
) {
    let (count, length) = (bones.count(), bones.length());
    to.terms.clear();
    to.ends.clear();
    for at in 0..rows.rest.len() {
        let rest = rest(at);
        for (j, w) in rows.of(at) {
            for (c, x) in rest.into_iter().enumerate() {
                to.terms.push(Term { start: (c * count + j) * length, scale: (w * x) as f32 });
            }
        }
        to.ends.push(to.terms.len());
    }
}

/// `|m - M n|^2 - |m|^2` from the products of the normals with all bones.
pub(super) fn normal_cost(
    pairs: &BonePairs,
    influences: impl Iterator<Item = (usize, f64)> + Clone,
    along: &[f32],
    n: &[f64; 4],
) -> f64 {
    let b = pairs.bones;
    let (mut mixed, mut linear) = (Mat4::default(), 0.0);
    for (j, w) in influences.clone() {
        linear += w * (0..3).map(|c| n[c] * f64::from(along[c * b + j])).sum::<f64>();
        influences.clone().for_each(|(k, w2)| mixed.add_scaled(w * w2, pairs.block(j, k)));
    }
    mixed.dot(&Mat4::outer(n, n)) - 2.0 * linear
}
