//! Coarse and fine: most of the work is done on a sample of vertices and frames.

use glam::DVec3;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::topology::Adjacency;
use crate::observer::{Cancelled, Check};
use crate::skinning::descent::State;
use crate::skinning::motion::Motion;
use crate::skinning::normals::Normals;
use crate::skinning::problem::Problem;
use crate::skinning::skin::Skin;
use crate::skinning::{bone_step, pass};

/// Frames that bones are fitted in at once when a sample is lifted.
const FRAMES_AT_ONCE: usize = 128;

/// A sample of vertices and frames.
pub(crate) struct Sample {
    /// Vertices in the sample.
    vertices: Vec<u32>,
    /// Frames in the sample.
    frames: Vec<u32>,
    /// [N] position in `vertices` of the nearest vertex of the sample.
    stand_in: Vec<u32>,
}

impl Sample {
    /// At least `vertices` vertices (all, where there are fewer than twice as many) spread evenly over the rest pose, and at most `frames` frames spread over time.
    /// The seed decides where along the curve the sample begins.
    pub fn new(problem: &Problem, vertices: usize, frames: usize, seed: u64) -> Self {
        let n = problem.vertices();
        let order = morton_order(&problem.rest);
        let stride = (n / vertices.max(1)).max(1);
        let first = ((stride as u64 / 2 + seed) % stride as u64) as usize;
        let is_picked = |at: usize| at % stride == first && at >= first;
        let sample = Self::along(problem, &order, is_picked);
        sample.with_frames(problem, frames)
    }

    /// The vertices of an order along a curve that are picked, and every frame.
    fn along(problem: &Problem, order: &[u32], is_picked: impl Fn(usize) -> bool) -> Self {
        let at: Vec<usize> = (0..order.len()).filter(|&at| is_picked(at)).collect();
        let vertices: Vec<u32> = at.iter().map(|&at| order[at]).collect();
        let mut stand_in = vec![0u32; order.len()];
        let mut next = 0;
        for (here, &i) in order.iter().enumerate() {
            // The sample's neighbours along the curve; the nearer one in space.
            while next + 1 < at.len() && at[next] < here {
                next += 1;
            }
            let distance = |k: usize| problem.rest[i as usize].distance_squared(problem.rest[vertices[k] as usize]);
            let around = next.saturating_sub(2)..(next + 2).min(vertices.len());
            let nearest = around.min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
            stand_in[i as usize] = nearest.unwrap_or(next) as u32;
        }
        Self { vertices, frames: (0..problem.frames() as u32).collect(), stand_in }
    }

    /// The same with more vertices.
    pub fn with_vertices(&self, problem: &Problem, more: &[u32]) -> Self {
        let mut is_in = vec![false; problem.vertices()];
        self.vertices.iter().chain(more).for_each(|&i| is_in[i as usize] = true);
        let order = morton_order(&problem.rest);
        let sample = Self::along(problem, &order, |at| is_in[order[at] as usize]);
        Self { frames: self.frames.clone(), ..sample }
    }

    /// At most `most` frames instead, spread over time.
    pub fn with_frames(self, problem: &Problem, most: usize) -> Self {
        let count = self.frames.len().min(most.max(1));
        let frames = (0..count).map(|t| ((2 * t + 1) * problem.frames() / (2 * count)) as u32).collect();
        Self { frames, ..self }
    }

    /// Vertices and frames in the sample.
    pub fn picked(&self) -> (&[u32], &[u32]) {
        (&self.vertices, &self.frames)
    }

    /// Which vertices of the sample are neighbours: those whose surroundings touch.
    pub fn neighbours(&self, adjacency: &Adjacency) -> Adjacency {
        let mut pairs = Vec::new();
        for (i, &a) in self.stand_in.iter().enumerate() {
            let around = adjacency.of(i).iter().map(|&k| self.stand_in[k as usize]);
            pairs.extend(around.filter(|&b| b != a).map(|b| (a, b)));
        }
        Adjacency::from_pairs(pairs, self.vertices.len())
    }

    /// Positions in the sample.
    pub fn size(&self) -> usize {
        self.vertices.len() * self.frames.len()
    }

    /// The sampled problem.
    pub fn problem(&self, problem: &Problem, sequence: &MeshSequence) -> Problem {
        problem.subset(sequence, &self.vertices, &self.frames)
    }

    /// The sampled normals.
    pub fn normals(&self, normals: &Normals) -> Normals {
        normals.pick(&self.vertices, &self.frames)
    }

    /// A state for the whole problem from one for the sample.
    pub fn lift(
        &self,
        problem: &Problem,
        sequence: &MeshSequence,
        mut state: State,
        check: Check<'_>,
    ) -> Result<State, Cancelled> {
        self.all_frames(problem, sequence, &mut state, check)?;
        state.skin = self.all_vertices(problem, &state.skin);
        Ok(state)
    }

    /// The part of a state for the whole problem that this sample sees.
    pub fn lower(&self, problem: &Problem, state: &State) -> State {
        let f = problem.frames();
        let columns: Vec<usize> = (0..3).flat_map(|a| self.frames.iter().map(move |&t| a * f + t as usize)).collect();
        let rows = state.motion.rows().chunks_exact(state.motion.length);
        let rows = rows.flat_map(|row| columns.iter().map(move |&l| row[l])).collect();
        let motion = Motion::from_rows(state.motion.bones, columns.len(), rows);
        State { motion, skin: state.skin.pick(&self.vertices), model: state.model.clone() }
    }

    /// Bones in all frames: those outside the sample start from the nearest one in it and are fitted to the
    /// sampled vertices.
    fn all_frames(
        &self,
        problem: &Problem,
        sequence: &MeshSequence,
        state: &mut State,
        check: Check<'_>,
    ) -> Result<(), Cancelled> {
        if self.frames.len() == problem.frames() {
            return Ok(());
        }
        let every: Vec<u32> = (0..problem.frames() as u32).collect();
        // A few vertices per bone are enough to place it: a sample of the sample saves memory.
        let enough = state.motion.bones * crate::skinning::params::VERTICES_PER_BONE;
        let stride = (self.vertices.len() / enough.max(500)).max(1);
        let few: Vec<u32> = (0..self.vertices.len() as u32).step_by(stride).collect();
        let vertices: Vec<u32> = few.iter().map(|&k| self.vertices[k as usize]).collect();
        let skin = state.skin.pick(&few);
        let mut motion = Motion::identity(state.motion.bones, problem.frames());
        let mut from = 0;
        // Frames are independent of each other: some at a time spare memory, too.
        for frames in every.chunks(FRAMES_AT_ONCE) {
            let dense = problem.subset(sequence, &vertices, frames);
            let mut part = Motion::identity(motion.bones, frames.len());
            for (at, &t) in frames.iter().enumerate() {
                let off = |k: usize| self.frames[k].abs_diff(t);
                while from + 1 < self.frames.len() && off(from + 1) <= off(from) {
                    from += 1;
                }
                (0..part.bones).for_each(|j| part.set(j, at, &state.motion.get(j, from)));
            }
            for _ in 0..3 {
                check()?;
                let moments = pass::gather(&dense, &part, &skin);
                bone_step::update(&mut part, &moments, &state.model);
            }
            for (at, &t) in frames.iter().enumerate() {
                (0..part.bones).for_each(|j| motion.set(j, t as usize, &part.get(j, at)));
            }
        }
        state.motion = motion;
        Ok(())
    }

    /// Weights for all vertices: each starts with those of its stand-in; rest positions start with its correction.
    pub fn all_vertices(&self, problem: &Problem, skin: &Skin) -> Skin {
        let slots = skin.slots;
        let mut full = Skin {
            slots,
            bones: Vec::with_capacity(problem.vertices() * slots),
            weights: Vec::with_capacity(problem.vertices() * slots),
            rest: Vec::with_capacity(problem.vertices()),
            normals: vec![DVec3::ZERO; problem.vertices()],
        };
        for (i, &k) in self.stand_in.iter().enumerate() {
            let k = k as usize;
            full.bones.extend_from_slice(&skin.bones[k * slots..(k + 1) * slots]);
            full.weights.extend_from_slice(&skin.weights[k * slots..(k + 1) * slots]);
            let correction = skin.rest[k] - problem.rest[self.vertices[k] as usize];
            full.rest.push(problem.rest[i] + correction);
        }
        full
    }
}

/// Vertices along a space-filling curve through the rest pose.
pub(crate) fn morton_order(rest: &[DVec3]) -> Vec<u32> {
    let spread = |x: f64| {
        let mut bits = ((x * 0.5 + 0.5).clamp(0.0, 1.0) * 1023.0) as u64;
        bits = (bits | bits << 16) & 0x0300_00ff;
        bits = (bits | bits << 8) & 0x0300_f00f;
        bits = (bits | bits << 4) & 0x030c_30c3;
        (bits | bits << 2) & 0x0924_9249
    };
    let code = |p: &DVec3| spread(p.x) | spread(p.y) << 1 | spread(p.z) << 2;
    let mut keyed: Vec<(u64, u32)> = rest.iter().enumerate().map(|(i, p)| (code(p), i as u32)).collect();
    // Within a cell by position, so that the order does not depend on how a file numbers its vertices.
    let place = |i: u32| rest[i as usize].to_array();
    let by_place = |a: u32, b: u32| {
        let (a, b) = (place(a), place(b));
        (0..3).map(|c| a[c].total_cmp(&b[c])).find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    };
    keyed.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| by_place(a.1, b.1)).then(a.1.cmp(&b.1)));
    keyed.into_iter().map(|(_, i)| i).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::jointed_body;

    /// A denser sample has the vertices of both, each once, and each of them stands for itself.
    #[test]
    fn a_denser_sample_has_the_vertices_of_both() {
        let sequence = MeshSequence::try_from(jointed_body(3, 9, 1).sequence).unwrap();
        let problem = Problem::new(&sequence);
        let sample = Sample::new(&problem, problem.vertices() / 4, 5, 0);
        let more: Vec<u32> = (10..40).collect();
        let denser = sample.with_vertices(&problem, &more);
        let mut wanted: Vec<u32> = sample.picked().0.iter().chain(&more).copied().collect();
        wanted.sort_unstable();
        wanted.dedup();
        let mut found = denser.picked().0.to_vec();
        found.sort_unstable();
        assert!(found.len() > sample.picked().0.len() && found == wanted);
        assert_eq!(denser.picked().1, sample.picked().1);
        let at_rest = |&i: &u32| problem.rest[denser.vertices[denser.stand_in[i as usize] as usize] as usize];
        assert!(found.iter().all(|i| at_rest(i) == problem.rest[*i as usize]));
    }
}
