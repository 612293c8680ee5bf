//! What lanes of blocks add up to: the moments that the bones need.

use rayon::prelude::*;

use super::block::{Block, set_terms};
use crate::skinning::device::Terms;
use crate::skinning::moments::{Moments, SecondMoments};
use crate::skinning::motion::Motion;
use crate::skinning::near;
use crate::skinning::problem::Problem;
use crate::skinning::skin::SkinView;
use crate::solve::kernels::add_scaled;
use crate::solve::lanes::Mat4;

/// Numbers that one task adds up over all lanes.
const SUMMED: usize = 4096;

/// What a lane adds to the [`Moments`].
pub(super) struct Sums {
    /// [4 B, L]
    residual: Vec<f32>,
    second: PairSums,
    squared_error: f64,
    /// [n]
    per_vertex: Vec<f32>,
    normals: Option<NormalSums>,
    /// [L] squares of the residuals, where the errors of frames are wanted.
    squares: Vec<f64>,
    /// Terms of a block in the numbers of all bones.
    terms: Terms,
    /// Terms of a block times the importance of its vertices.
    weighed: Terms,
}

impl Sums {
    pub(super) fn new(problem: &Problem, motion: &Motion) -> Self {
        Self {
            residual: vec![0.0; 4 * motion.bones * problem.length],
            second: PairSums::new(motion.bones),
            squared_error: 0.0,
            per_vertex: Vec::new(),
            normals: problem.normals.is_some().then(|| NormalSums::new(motion)),
            squares: Vec::new(),
            terms: Terms::default(),
            weighed: Terms::default(),
        }
    }

    /// With the errors of frames.
    pub(super) fn with_frames(problem: &Problem, motion: &Motion) -> Self {
        Self { squares: vec![0.0; problem.length], ..Self::new(problem, motion) }
    }

    pub(super) fn add(&mut self, block: &Block<'_>, rows: &SkinView<'_>) {
        let n = block.range.len();
        let residuals = &block.residuals[..n * block.problem.length];
        let importance = |at: usize| block.problem.loss.of(block.range.start + at);
        let terms = match block.problem.loss.vertices.is_empty() {
            true => &block.terms,
            false => {
                let rest = |at: usize| (rows.rest[at] * importance(at)).extend(importance(at)).to_array();
                set_terms(&mut self.weighed, &block.bones, rows, rest);
                &self.weighed
            }
        };
        let terms = block.numbered_back(terms, &mut self.terms);
        block.device.add_moments(&mut self.residual, residuals, terms, 4);
        if let Some(normals) = &mut self.normals {
            normals.add(&mut self.residual, block, rows, &mut self.terms);
        }
        if !self.squares.is_empty() {
            for (at, row) in residuals.chunks_exact(block.problem.length).enumerate() {
                let weight = importance(at);
                let squares = row.iter().map(|x| f64::from(*x) * f64::from(*x));
                self.squares.iter_mut().zip(squares).for_each(|(sum, square)| *sum += weight * square);
            }
        }
        self.second.begin(block);
        for (at, u) in rows.rest.iter().enumerate() {
            let (error, weight) = (importance(at) * block.errors[at], importance(at));
            self.per_vertex.push(error as f32);
            self.squared_error += error;
            let (u, weighed) = (u.extend(1.0).to_array(), (*u * weight).extend(weight).to_array());
            self.second.add(rows.of(at), &Mat4::outer(&weighed, &u));
        }
        self.second.end(block);
    }
}

/// What a lane adds for the normals. Their moments are sums of the normals themselves, not of residuals: `D_n = sum_i x_i m_i^T - S_n T`.
struct NormalSums {
    /// `S_n`.
    second: PairSums,
    squared_error: f64,
    terms: Terms,
}

impl NormalSums {
    pub(super) fn new(motion: &Motion) -> Self {
        Self { second: PairSums::new(motion.bones), squared_error: 0.0, terms: Terms::default() }
    }

    /// Adds `x_i m_i^T` to the lane's moments.
    pub(super) fn add(&mut self, moments: &mut [f32], block: &Block<'_>, rows: &SkinView<'_>, buffer: &mut Terms) {
        let bones = &block.bones;
        let (n, length) = (block.range.len(), block.problem.length);
        let importance = |at: usize| block.problem.loss.of(block.range.start + at);
        set_terms(&mut self.terms, bones, rows, |at| (rows.normals[at] * importance(at)).to_array());
        let terms = block.numbered_back(&self.terms, buffer);
        block.device.add_moments(moments, &block.normals[..n * length], terms, 3);
        self.second.begin(block);
        for (at, normal) in rows.normals.iter().enumerate() {
            let normal = normal.extend(0.0).to_array();
            self.squared_error += importance(at) * block.normal_error(rows, at);
            let weighed = normal.map(|x| x * importance(at));
            self.second.add(rows.of(at), &Mat4::outer(&weighed, &normal));
        }
        self.second.end(block);
    }
}

/// Sums of 4x4 matrices over pairs of bones that share vertices.
struct PairSums {
    /// Lower triangle, a matrix for each pair: of all bones, or of those that the block works with.
    triangle: Vec<Mat4>,
    /// The sums of the blocks so far, where they do not work with all bones.
    sums: Option<SecondMoments>,
}

impl PairSums {
    pub(super) fn new(bones: usize) -> Self {
        match bones > near::MANY_BONES {
            true => Self { triangle: Vec::new(), sums: Some(SecondMoments::of_none(bones)) },
            false => Self { triangle: vec![Mat4::default(); bones * (bones + 1) / 2], sums: None },
        }
    }

    pub(super) fn begin(&mut self, block: &Block<'_>) {
        if let Some(bones) = block.bones.numbers() {
            self.triangle.clear();
            self.triangle.resize(bones.len() * (bones.len() + 1) / 2, Mat4::default());
        }
    }

    /// Adds `w_j w_k` times a matrix for all pairs of bones of a vertex.
    #[inline(always)]
    pub(super) fn add(&mut self, influences: impl Iterator<Item = (usize, f64)> + Clone, outer: &Mat4) {
        for (k, (j, w)) in influences.clone().enumerate() {
            for (j2, w2) in influences.clone().take(k + 1) {
                let (row, column) = (j.max(j2), j.min(j2));
                self.triangle[row * (row + 1) / 2 + column].add_scaled(w * w2, outer);
            }
        }
    }

    pub(super) fn end(&mut self, block: &Block<'_>) {
        if let (Some(bones), Some(sums)) = (block.bones.numbers(), &mut self.sums) {
            sums.add_triangle(bones, &self.triangle);
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        match (&mut self.sums, &other.sums) {
            (Some(sums), Some(other)) => sums.merge(other),
            _ => self.triangle.iter_mut().zip(&other.triangle).for_each(|(sum, x)| sum.add_scaled(1.0, x)),
        }
    }

    pub(super) fn finish(self, bones: usize) -> SecondMoments {
        self.sums.unwrap_or_else(|| SecondMoments::from_triangle(bones, &self.triangle))
    }
}

/// Takes the prediction out of the moments of normals: `D -= S_n T`.
fn take_prediction(residual: &mut [f64], second: &SecondMoments, motion: &Motion) {
    let (b, length) = (motion.bones, motion.length);
    residual.par_chunks_mut(length).enumerate().for_each(|(row, sums)| {
        let (c, j) = (row / b, row % b);
        for (k, block) in second.blocks(j) {
            for d in (0..3).filter(|&d| block[c][d] != 0.0) {
                add_scaled(sums, -block[c][d], motion.row(d, k));
            }
        }
    });
}

/// All lanes, in their order. Peak memory: all lanes plus their sum.
pub(super) fn summed(problem: &Problem, motion: &Motion, lanes: Vec<Sums>) -> Moments {
    let b = motion.bones;
    let mut moments = Moments { residual: vec![0.0; 4 * b * problem.length], ..Moments::default() };
    let mut second = PairSums::new(b);
    let mut of_normals = problem.normals.is_some().then(|| PairSums::new(b));
    moments.residual.par_chunks_mut(SUMMED).enumerate().for_each(|(at, sums)| {
        for lane in &lanes {
            let part = &lane.residual[at * SUMMED..][..sums.len()];
            sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += f64::from(*x));
        }
    });
    for lane in lanes {
        second.merge(&lane.second);
        moments.squared_error += lane.squared_error;
        if let (Some(sums), Some(lane)) = (&mut of_normals, &lane.normals) {
            sums.merge(&lane.second);
            moments.normal_error += lane.squared_error;
        }
        moments.per_vertex.extend(lane.per_vertex);
        moments.per_frame.resize(lane.squares.len() / 3, 0.0);
        for axis in lane.squares.chunks_exact(moments.per_frame.len().max(1)) {
            moments.per_frame.iter_mut().zip(axis).for_each(|(sum, x)| *sum += x);
        }
    }
    if let Some(of_normals) = of_normals {
        moments.squared_error += moments.normal_error;
        second.merge(&of_normals);
        take_prediction(&mut moments.residual, &of_normals.finish(b), motion);
    }
    moments.second = second.finish(b);
    moments
}
