//! All free bones of a frame at once, where joints only rotate: a bone stays attached to its parent, so that its length is kept.
//!
//! Levenberg-Marquardt as in `bone_newton`, with other parameters. A bone that a joint attaches to its parent has the three of a
//! rotation about the joint, any other free bone six. Each moves the bones that are attached below it too. With `(omega, v)` a
//! spatial motion `dM = omega x M + v e_4^T`, bone k has the sum of those of the joints above it,
//!
//! ```text
//! joint g at x_g:  (omega, x_g x omega)          free bone: (omega, x_g x omega + v)
//! ```
//!
//! The normal equations are sums over pairs of bones that share vertices (6x6 blocks from moments), summed up the tree. They are
//! solved by conjugate gradients, preconditioned by the blocks of single joints. A step composes rotations about the joints, from the
//! root down, so that joints hold exactly; it is taken if the error, which the moments give exactly, falls.

// Rows and columns of small matrices are written with indices.
#![allow(clippy::needless_range_loop)]

use glam::{DAffine3, DMat3, DQuat, DVec3};
use rayon::prelude::*;

use crate::observer::Cancelled;
use crate::skinning::bone_newton::{Columns, Frame, add_product, columns, inner, linear_part, set};
use crate::skinning::{Moments, Motion, Run};
use crate::solve::{conjugate, definite};

/// Frames that are solved between two reports.
const BETWEEN_REPORTS: usize = 64;
/// Rounds of conjugate gradients at most, for each bone; and in all.
const ROUNDS_PER_BONE: usize = 3;
const MAX_ROUNDS: usize = 400;

/// A spatial motion or force: rotation part, translation part.
type Spatial = [f64; 6];
type SpatialBlock = [[f64; 6]; 6];

/// How bones hang together.
pub(crate) struct Chain<'a> {
    /// [B].
    pub parents: &'a [Option<usize>],
    /// [B] parents first.
    pub order: &'a [usize],
    /// [B] joint to the parent at rest; `None` where the bone is not attached.
    pub joints: &'a [Option<DVec3>],
    /// [B] whether the bone may move.
    pub free: &'a [bool],
}

impl Chain<'_> {
    /// The parent that bone `j` is attached to and moves with.
    fn carrier(&self, j: usize) -> Option<usize> {
        self.parents[j].filter(|_| self.free[j] && self.joints[j].is_some())
    }

    /// Moves every attached bone to its joint, without a rotation.
    pub fn attach(&self, motion: &mut Motion) {
        for &j in self.order {
            let (Some(p), Some(joint)) = (self.carrier(j), self.joints[j]) else { continue };
            for t in 0..motion.frames() {
                let (parent, mut own) = (motion.transform(p, t), motion.transform(j, t));
                own.translation = parent.transform_point3(joint) - own.matrix3 * joint;
                motion.set_transform(j, t, &own);
            }
        }
    }
}

/// Moves the free bones to where the error is least; returns by how much it falls. Bones must be attached already, and `moments` be
/// those of the present motion, with the errors of frames.
pub(crate) fn solve(
    motion: &mut Motion,
    moments: &Moments,
    chain: &Chain,
    steps: usize,
    tolerance: f64,
    run: &mut Run<'_>,
) -> Result<f64, Cancelled> {
    let mut gain = 0.0;
    let all: Vec<usize> = (0..motion.frames()).collect();
    for part in all.chunks(BETWEEN_REPORTS) {
        let mut frames: Vec<Frame> = part.par_iter().map(|&t| Frame::new(motion, moments, t)).collect();
        for _ in 0..steps {
            let step = |frame: &mut Frame| descend(frame, moments, chain, tolerance);
            run.timed("motion", || frames.par_iter_mut().filter(|frame| !frame.done).for_each(step));
            run.report()?;
            if frames.iter().all(|frame| frame.done) {
                break;
            }
        }
        for frame in &frames {
            gain += moments.per_frame[frame.t] - frame.error;
            (0..motion.bones).filter(|&j| chain.free[j]).for_each(|j| set(motion, j, frame.t, &frame.pose[j]));
        }
    }
    Ok(gain)
}

/// One step of a frame, with as much damping as it needs.
fn descend(frame: &mut Frame, moments: &Moments, chain: &Chain, tolerance: f64) {
    let system = System::new(frame, moments, chain);
    let mut gain = 0.0;
    for _ in 0..8 {
        let moved = system.moved(frame, &system.solve(frame.damping));
        gain = frame.try_step(moments, &moved);
        if gain > 0.0 {
            frame.damping = (frame.damping * 0.1).max(1e-9);
            break;
        }
        frame.damping = (frame.damping * 20.0).max(1e-4);
    }
    frame.done = gain <= tolerance * frame.error || frame.error <= 0.0;
}

/// Normal equations of one frame about its present pose.
struct System<'a> {
    chain: &'a Chain<'a>,
    /// [B] what a bone turns about: its joint, or where its vertices are.
    pivots: Vec<DVec3>,
    /// [B] (other bone, block of the normal matrix in spatial motions).
    blocks: Vec<Vec<(usize, SpatialBlock)>>,
    /// [B] block of a bone's own parameters.
    own: Vec<SpatialBlock>,
    /// [B].
    gradient: Vec<Spatial>,
}

impl<'a> System<'a> {
    fn new(frame: &Frame, moments: &Moments, chain: &'a Chain<'a>) -> Self {
        let b = frame.pose.len();
        let pivot = |j: usize| {
            let centre = moments.second.of[j].centre();
            let rest =
                chain.carrier(j).and(chain.joints[j]).unwrap_or(if centre.is_finite() { centre } else { DVec3::ZERO });
            linear_part(&frame.pose[j]) * rest + DVec3::from_array(frame.pose[j][3])
        };
        let derivatives: Vec<[Columns; 6]> = frame.pose.iter().map(derivatives).collect();
        let of_bone = |j: usize| {
            let others = moments.second.blocks(j).filter(|(k, _)| chain.free[j] && chain.free[*k]);
            others.map(|(k, second)| (k, block(&derivatives[j], second, &derivatives[k]))).collect()
        };
        let mut this = Self {
            chain,
            pivots: (0..b).map(pivot).collect(),
            blocks: (0..b).map(of_bone).collect(),
            own: vec![SpatialBlock::default(); b],
            gradient: Vec::new(),
        };
        let forces: Vec<Spatial> =
            derivatives.iter().zip(&frame.residual).map(|(m, d)| std::array::from_fn(|p| inner(&m[p], d))).collect();
        this.gradient = this.to_parameters(forces);
        this.own = this.own_blocks();
        this
    }

    /// Parameters of bone `j`: 3, 6, or none.
    fn count(&self, j: usize) -> usize {
        match (self.chain.free[j], self.chain.carrier(j)) {
            (false, _) => 0,
            (true, Some(_)) => 3,
            (true, None) => 6,
        }
    }

    /// Spatial motion of the parameters of bone `j` alone.
    fn spatial(&self, j: usize, x: &Spatial) -> Spatial {
        let omega = DVec3::new(x[0], x[1], x[2]);
        let v = self.pivots[j].cross(omega) + DVec3::new(x[3], x[4], x[5]);
        [x[0], x[1], x[2], v.x, v.y, v.z]
    }

    /// [B] spatial motions of all bones, from the parameters of all.
    fn to_motions(&self, parameters: &[Spatial]) -> Vec<Spatial> {
        let mut motions = vec![Spatial::default(); parameters.len()];
        for &j in self.chain.order {
            motions[j] = self.spatial(j, &parameters[j]);
            if let Some(p) = self.chain.carrier(j) {
                let above = motions[p];
                motions[j].iter_mut().zip(above).for_each(|(x, y)| *x += y);
            }
        }
        motions
    }

    /// The transpose: [B] forces on all bones as forces on their parameters.
    fn to_parameters(&self, mut forces: Vec<Spatial>) -> Vec<Spatial> {
        for &j in self.chain.order.iter().rev() {
            if let Some(p) = self.chain.carrier(j) {
                let below = forces[j];
                forces[p].iter_mut().zip(below).for_each(|(x, y)| *x += y);
            }
        }
        for (j, force) in forces.iter_mut().enumerate() {
            let f = DVec3::new(force[3], force[4], force[5]);
            let torque = DVec3::new(force[0], force[1], force[2]) - self.pivots[j].cross(f);
            let all = [torque.x, torque.y, torque.z, f.x, f.y, f.z];
            *force = std::array::from_fn(|p| if p < self.count(j) { all[p] } else { 0.0 });
        }
        forces
    }

    /// [B] the block of each bone's parameters: the sum over all pairs of bones that it moves.
    fn own_blocks(&self) -> Vec<SpatialBlock> {
        let mut sums = vec![SpatialBlock::default(); self.blocks.len()];
        let above = |j: usize| std::iter::successors(Some(j), |&at| self.chain.carrier(at));
        for (j, row) in self.blocks.iter().enumerate() {
            for (k, block) in row {
                for g in above(j).filter(|g| above(*k).any(|h| h == *g)) {
                    let to = sums[g].as_flattened_mut().iter_mut();
                    to.zip(block.as_flattened()).for_each(|(to, x)| *to += x);
                }
            }
        }
        let reduce = |(j, sum): (usize, &SpatialBlock)| {
            let mut own = SpatialBlock::default();
            for p in 0..self.count(j) {
                let motion = self.spatial(j, &std::array::from_fn(|q| f64::from(p == q)));
                let force: Spatial = std::array::from_fn(|q| (0..6).map(|r| sum[q][r] * motion[r]).sum());
                for q in 0..self.count(j) {
                    let other = self.spatial(j, &std::array::from_fn(|r| f64::from(r == q)));
                    own[p][q] = (0..6).map(|r| other[r] * force[r]).sum();
                }
            }
            own
        };
        sums.iter().enumerate().map(reduce).collect()
    }

    /// The normal matrix with `added` on its diagonal, times `x`.
    fn times(&self, x: &[Spatial], added: &[Spatial]) -> Vec<Spatial> {
        let motions = self.to_motions(x);
        let force = |row: &Vec<(usize, SpatialBlock)>| {
            let mut sum = Spatial::default();
            for (k, block) in row {
                for (sum, line) in sum.iter_mut().zip(block) {
                    *sum += line.iter().zip(&motions[*k]).map(|(a, b)| a * b).sum::<f64>();
                }
            }
            sum
        };
        let mut out = self.to_parameters(self.blocks.iter().map(force).collect());
        for (out, (x, added)) in out.iter_mut().zip(x.iter().zip(added)) {
            out.iter_mut().zip(x.iter().zip(added)).for_each(|(out, (x, a))| *out += a * x);
        }
        out
    }

    /// Damped step by preconditioned conjugate gradients, to a thousandth of the gradient.
    fn solve(&self, damping: f64) -> Vec<Spatial> {
        let largest = self.own.iter().flat_map(|own| (0..6).map(|p| own[p][p])).fold(0.0, f64::max);
        let added: Vec<Spatial> =
            self.own.iter().map(|own| std::array::from_fn(|p| damping * own[p][p] + 1e-9 * largest + 1e-14)).collect();
        let factor = |(j, (own, added)): (usize, (&SpatialBlock, &Spatial))| {
            let (mut own, mut kept) = (*own, [0.0; definite::triangle(6)]);
            (0..6).for_each(|p| own[p][p] += added[p]);
            definite::factor(&own, self.count(j), &mut kept);
            kept
        };
        let factors: Vec<_> = self.own.iter().zip(&added).enumerate().map(factor).collect();
        let precondition = |right: &[Spatial]| -> Vec<Spatial> {
            let mut steps = right.to_vec();
            for (j, (x, kept)) in steps.iter_mut().zip(&factors).enumerate() {
                definite::solve_factored(kept, &mut x[..self.count(j)]);
            }
            steps
        };
        let rounds = (ROUNDS_PER_BONE * self.own.len() + 10).min(MAX_ROUNDS);
        conjugate::solve(&self.gradient, rounds, |x| self.times(x, &added), precondition)
    }

    /// Matrices of the free bones after a step: rotations about the joints, from the root down.
    fn moved(&self, frame: &Frame, step: &[Spatial]) -> Vec<(usize, Columns)> {
        let mut changes = vec![DAffine3::IDENTITY; step.len()];
        let mut moved = Vec::with_capacity(step.len());
        for &j in self.chain.order.iter().filter(|&&j| self.chain.free[j]) {
            let [x, y, z, tx, ty, tz] = step[j];
            let turn = DMat3::from_quat(DQuat::from_scaled_axis(DVec3::new(x, y, z)));
            let pivot = self.pivots[j];
            let own = DAffine3 { matrix3: turn, translation: pivot - turn * pivot + DVec3::new(tx, ty, tz) };
            changes[j] = self.chain.carrier(j).map_or(own, |p| changes[p] * own);
            let pose = &frame.pose[j];
            let place = changes[j].transform_point3(DVec3::from_array(pose[3]));
            moved.push((j, columns(&(changes[j].matrix3 * linear_part(pose)), place)));
        }
        moved
    }
}

/// `dM` by each spatial motion.
fn derivatives(pose: &Columns) -> [Columns; 6] {
    std::array::from_fn(|p| match p {
        0..3 => pose.map(|column| DVec3::AXES[p].cross(DVec3::from_array(column)).to_array()),
        _ => columns(&DMat3::ZERO, DVec3::AXES[p - 3]),
    })
}

/// `<M_p S_jk, M_q>`.
fn block(m: &[Columns; 6], second: &[[f64; 4]; 4], other: &[Columns; 6]) -> SpatialBlock {
    let mut block = SpatialBlock::default();
    for (m, row) in m.iter().zip(&mut block) {
        let mut product = [[0.0; 3]; 4];
        add_product(&mut product, 1.0, m, second);
        row.iter_mut().zip(other).for_each(|(entry, other)| *entry = inner(&product, other));
    }
    block
}
