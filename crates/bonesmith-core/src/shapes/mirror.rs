//! Faces that are symmetric: bones, weights and numbers in mirrored pairs.
//!
//! Vertices are paired by their rest positions, shapes by their offsets; offsets of pairs are replaced by their mean. Bones come in pairs `j`, `j'`:
//!
//! ```text
//! w_i'j' = w_ij          x_j's'a = +-x_jsa          o_j' = mirror(o_j)
//! ```
//!
//! with `i'`, `s'` the images of a vertex and a shape, and the sign of component `a` under the mirror. A bone in the middle is its own image. First bones are those
//! of one half. After every step one side is copied to the other, so that pairs are exact.
//!
//! Weights of a pair of vertices serve both sides, so that all shapes have to count on both: a shape without an image is given one for the
//! fit, which is not stored. A vertex without an image is fitted as it is.

use glam::DVec3;
use rayon::prelude::*;

use crate::mesh::sequence::MeshSequence;
use crate::mesh::symmetry::{Plane, pairs};
use crate::shapes::system::Support;
use crate::skinning::params::{FitError, Warning};
use crate::skinning::{BoneModel, Motion, Problem, Skin, State};

/// Distance of an image from its vertex, in units of the radius.
const DISTANCE: f64 = 1e-3;

/// Difference between a shape and the image of another, as a share of its offsets.
const DIFFERENCE: f64 = 0.1;

/// Share of the vertices that must have an image.
const LEAST_PAIRED: f64 = 0.5;

/// How much the weights of a bone have to be like those of another's image for the two to be a pair: the cosine of the angle between them.
const ALIKE: f64 = 0.5;

/// Sums that shapes are compared by before all their vertices are.
const SUMS: usize = 8;

/// Images of vertices, shapes and bones.
#[derive(Clone)]
pub(super) struct Mirror {
    plane: Plane,
    /// Across which the face is mirrored: 0 x, 1 y, 2 z.
    axis: usize,
    /// [N] image of each vertex; itself on the plane.
    vertices: Vec<Option<u32>>,
    /// [S] image of each shape; itself where it is symmetric.
    shapes: Vec<Option<usize>>,
    /// [B] image of each bone.
    bones: Vec<usize>,
}

impl Mirror {
    /// The symmetry of offsets across an axis, and what has no image. The plane is at 0 or in the middle of the face.
    pub fn find(offsets: &Problem, names: &[String], axis: usize) -> Result<(Self, Option<Warning>), FitError> {
        let normal = DVec3::AXES[axis];
        let low = offsets.rest.iter().map(|p| p[axis]).fold(f64::INFINITY, f64::min);
        let high = offsets.rest.iter().map(|p| p[axis]).fold(f64::NEG_INFINITY, f64::max);
        let origin = -offsets.space.sphere.center[axis] / offsets.space.sphere.radius;
        let paired = |offset: f64| {
            let plane = Plane { normal, offset };
            let found = pairs(&offsets.rest, &plane, DISTANCE);
            (found.iter().flatten().count(), plane, found)
        };
        let (at_origin, in_middle) = (paired(origin), paired(0.5 * (low + high)));
        let (count, plane, vertices) = if at_origin.0 >= in_middle.0 { at_origin } else { in_middle };
        let n = offsets.vertices();
        if (count as f64) < LEAST_PAIRED * n as f64 {
            let what = format!(
                "mirror: {count} of {n} vertices have a mirror image across {}: the face is not symmetric",
                ["x", "y", "z"][axis]
            );
            return Err(FitError::Unsupported(what));
        }
        let mut mirror = Self { plane, axis, vertices, shapes: Vec::new(), bones: Vec::new() };
        mirror.shapes = mirror.pair_shapes(offsets);
        let alone = mirror.shapes.iter().zip(names).filter(|(image, _)| image.is_none());
        let shapes: Vec<String> = alone.map(|(_, name)| name.clone()).collect();
        let vertices = n - count;
        let warning = (vertices > 0 || !shapes.is_empty()).then_some(Warning::NotSymmetric { vertices, shapes });
        Ok((mirror, warning))
    }

    /// Sign of axis `a` under the mirror.
    fn sign(&self, a: usize) -> f64 {
        if a == self.axis { -1.0 } else { 1.0 }
    }

    /// Sign of a component (`model::shape_bones`): rotations and shears change theirs where the mirrored axis is one of two.
    fn component_sign(&self, component: usize) -> f64 {
        let own = component % 3 == self.axis;
        match component / 3 {
            0 => self.sign(component),
            2 => 1.0,
            _ if own => 1.0,
            _ => -1.0,
        }
    }

    fn pair_shapes(&self, offsets: &Problem) -> Vec<Option<usize>> {
        let f = offsets.frames();
        let pairs: Vec<(usize, usize)> =
            self.vertices.iter().enumerate().filter_map(|(i, k)| k.map(|k| (i, k as usize))).collect();
        let at = |i: usize, a: usize, s: usize| f64::from(offsets.trajectory(i)[a * f + s]);
        // Sums of offsets with fixed random factors, of each shape as it is and mirrored.
        let sums = |s: usize| {
            let mut sums = [[0.0; SUMS]; 2];
            for &(i, k) in &pairs {
                for a in 0..3 {
                    let (own, image) = (at(i, a, s), self.sign(a) * at(k, a, s));
                    if own != 0.0 || image != 0.0 {
                        for (number, factor) in factors(3 * i + a).into_iter().enumerate() {
                            sums[0][number] += factor * own;
                            sums[1][number] += factor * image;
                        }
                    }
                }
            }
            sums
        };
        let sums: Vec<[[f64; SUMS]; 2]> = (0..f).into_par_iter().map(sums).collect();
        let nearest = |s: usize| {
            let off = |u: usize| sums[u][0].iter().zip(&sums[s][1]).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
            // A shape that is nearly its own image is symmetric, whatever others are like it.
            let best = (0..f).min_by(|&a, &b| off(a).total_cmp(&off(b)).then(a.cmp(&b)))?;
            if off(s) <= off(best) * (1.0 + 1e-9) { Some(s) } else { Some(best) }
        };
        let alike = |s: usize, u: usize| {
            let (mut off, mut size) = (0.0, 0.0);
            for &(i, k) in &pairs {
                for a in 0..3 {
                    let (own, image) = (at(i, a, u), self.sign(a) * at(k, a, s));
                    off += (own - image).powi(2);
                    size += own * own + image * image;
                }
            }
            off <= 0.5 * DIFFERENCE * DIFFERENCE * size
        };
        let found: Vec<Option<usize>> = (0..f).into_par_iter().map(|s| nearest(s).filter(|&u| alike(s, u))).collect();
        (0..f).map(|s| found[s].filter(|&u| found[u] == Some(s))).collect()
    }

    /// The shapes and images of those that have none, after them. A vertex without an image does not move in these.
    pub fn closed(&mut self, shapes: &MeshSequence) -> MeshSequence {
        let alone: Vec<usize> = (0..self.shapes.len()).filter(|&s| self.shapes[s].is_none()).collect();
        let count = self.shapes.len();
        for (at, &s) in alone.iter().enumerate() {
            self.shapes[s] = Some(count + at);
            self.shapes.push(Some(s));
        }
        let rest = shapes.rest();
        let image = |s: &usize| {
            let frame = shapes.frame(*s);
            let mirrored = |(i, k): (usize, &Option<u32>)| {
                let Some(k) = k.map(|k| k as usize) else { return rest[i] };
                let mut offset = frame[k] - rest[k];
                offset[self.axis] = -offset[self.axis];
                rest[i] + offset
            };
            self.vertices.iter().enumerate().map(mirrored).collect::<Vec<_>>()
        };
        shapes.with_more_frames(alone.iter().map(image).collect())
    }

    /// The problem with the mean of both sides for all that has an image.
    pub fn symmetrised(&self, offsets: &Problem) -> Problem {
        let (f, length) = (offsets.frames(), offsets.length);
        let mut rows = offsets.trajectories.to_vec();
        for (i, k) in self.vertex_pairs() {
            for (s, u) in self.shapes.iter().enumerate().filter_map(|(s, u)| u.map(|u| (s, u))) {
                for a in 0..3 {
                    let sign = self.sign(a) as f32;
                    let (own, image) = (offsets.trajectory(i)[a * f + s], offsets.trajectory(k)[a * f + u]);
                    let mean = 0.5 * (own + sign * image);
                    rows[i * length + a * f + s] = mean;
                    rows[k * length + a * f + u] = sign * mean;
                }
            }
        }
        let symmetric = Problem::stored(length, offsets.rest.clone(), rows, offsets.space.clone());
        symmetric.with_loss(offsets.loss.clone())
    }

    /// Pairs of vertices, each once; a vertex on the plane with itself.
    fn vertex_pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let pair = |(i, k): (usize, &Option<u32>)| k.map(|k| (i, k as usize));
        self.vertices.iter().enumerate().filter_map(pair).filter(|(i, k)| i <= k)
    }

    /// Vertices of one half, those on the plane included.
    pub fn half(&self, offsets: &Problem) -> Vec<u32> {
        let is_own = |i: &u32| {
            let (at, image) = (*i as usize, self.vertices[*i as usize]);
            let side = self.plane.side(offsets.rest[at]);
            match image {
                Some(k) if k != *i => side > 0.0 || (side == 0.0 && *i < k),
                Some(_) => true,
                None => side >= 0.0,
            }
        };
        (0..offsets.vertices() as u32).filter(is_own).collect()
    }

    /// [B] share of each bone's weights that is on the plane; of the bones of a half.
    pub fn plane_shares(&self, half: &[u32], state: &State) -> Vec<f64> {
        let mut sums = vec![(0.0, 0.0); state.bones()];
        for (at, &i) in half.iter().enumerate() {
            let on_plane = self.vertices[i as usize] == Some(i);
            for (j, w) in state.skin.of(at) {
                sums[j].0 += if on_plane { w } else { 0.0 };
                sums[j].1 += w;
            }
        }
        sums.iter().map(|(on_plane, all)| if *all > 0.0 { on_plane / all } else { 0.0 }).collect()
    }

    /// A state of the whole face from one of a half, as offsets: every bone and its image. Bones `in_middle` are their own image.
    pub fn doubled(&mut self, offsets: &Problem, half: &[u32], state: &State, in_middle: &[bool]) -> State {
        let (own, f) = (state.motion.bones, state.motion.frames());
        let mut all = own;
        self.bones = (0..own).collect();
        for j in (0..own).filter(|&j| !in_middle[j]) {
            self.bones[j] = all;
            self.bones.push(j);
            all += 1;
        }
        let mut motion = Motion::from_rows(all, 3 * f, vec![0.0; 4 * all * 3 * f]);
        for (j, &is_in_middle) in in_middle.iter().enumerate().take(own) {
            let matrices: Vec<_> = (0..f).map(|s| state.motion.get(j, s)).collect();
            let image = |s: usize| self.shapes[s].map(|u| self.image(&matrices[u]));
            if is_in_middle {
                let both = |s: usize| image(s).map_or(matrices[s], |image| mean(&matrices[s], &image));
                motion.set_bone(j, &(0..f).map(both).collect::<Vec<_>>());
                continue;
            }
            let images: Vec<_> = (0..f).map(|s| image(s).unwrap_or([[0.0; 4]; 3])).collect();
            motion.set_bone(j, &matrices);
            motion.set_bone(self.bones[j], &images);
        }
        let mut skin = Skin::empty(state.skin.slots, offsets.rest.clone());
        for (at, &i) in half.iter().enumerate() {
            skin.set(i as usize, state.skin.of(at));
            if let Some(k) = self.vertices[i as usize].filter(|k| *k != i) {
                skin.set(k as usize, state.skin.of(at).map(|(j, w)| (self.bones[j], w)));
            }
        }
        self.skin(&mut skin);
        State { motion, skin, model: BoneModel::new(state.model.kind, all, state.model.sweeps) }
    }

    /// A state with its bones in pairs, as offsets: each with the one whose weights are most like those of its image, itself in the middle, or with a new one.
    pub fn paired(&mut self, offsets: &Problem, state: &State) -> State {
        let (b, f) = (state.bones(), state.motion.frames());
        let (mut common, mut own) = (vec![0.0; b * b], vec![0.0; b]);
        for (i, k) in self.vertices.iter().enumerate().filter_map(|(i, k)| k.map(|k| (i, k as usize))) {
            for (j, w) in state.skin.of(i) {
                own[j] += w * w;
                state.skin.of(k).for_each(|(l, x)| common[j * b + l] += w * x);
            }
        }
        let alike = |j: usize, l: usize| common[j * b + l] / (own[j] * own[l]).sqrt().max(1e-300);
        let nearest = |j: usize| (0..b).max_by(|&a, &b| alike(j, a).total_cmp(&alike(j, b))).unwrap_or(j);
        let nearest: Vec<usize> = (0..b).map(nearest).collect();
        let mut all = b;
        self.bones = (0..b).collect();
        for j in 0..b {
            let image = nearest[j];
            match nearest[image] == j && alike(j, image) > ALIKE {
                true => self.bones[j] = image,
                false => {
                    self.bones[j] = all;
                    self.bones.push(j);
                    all += 1;
                }
            }
        }
        let matrices = |j: usize| (0..f).map(|s| state.motion.get(j, s)).collect::<Vec<_>>();
        let mirrored = |of: &[[[f64; 4]; 3]]| {
            (0..f).map(|s| self.shapes[s].map_or([[0.0; 4]; 3], |u| self.image(&of[u]))).collect::<Vec<_>>()
        };
        let mut motion = Motion::from_rows(all, 3 * f, vec![0.0; 4 * all * 3 * f]);
        for j in (0..b).filter(|&j| j <= self.bones[j]) {
            let (image, mut own) = (self.bones[j], matrices(j));
            if image < b {
                let other = mirrored(&matrices(image));
                own.iter_mut().zip(&other).for_each(|(own, other)| *own = mean(own, other));
            }
            motion.set_bone(image, &mirrored(&own));
            motion.set_bone(j, &own);
        }
        let mut skin = Skin::empty(state.skin.slots, offsets.rest.clone());
        for i in 0..self.vertices.len() {
            let mut row: Vec<(usize, f64)> = state.skin.of(i).collect();
            if let Some(k) = self.vertices[i] {
                for (j, w) in state.skin.of(k as usize).map(|(j, w)| (self.bones[j], w)) {
                    match row.iter_mut().find(|(other, _)| *other == j) {
                        Some((_, sum)) => *sum += w,
                        None => row.push((j, w)),
                    }
                }
            }
            row.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            row.truncate(skin.slots);
            let total: f64 = row.iter().map(|(_, w)| w).sum();
            skin.set(i, row.into_iter().map(|(j, w)| (j, w / total.max(1e-300))));
        }
        self.skin(&mut skin);
        State { motion, skin, model: BoneModel::new(state.model.kind, all, state.model.sweeps) }
    }

    /// [B] costs of removing bones, of pairs in the mean.
    pub fn shared_costs(&self, costs: &[f64]) -> Vec<f64> {
        self.bones.iter().enumerate().map(|(j, &image)| 0.5 * (costs[j] + costs[image])).collect()
    }

    /// The first of some bones and their images, until there are `least`; one more where the last is a pair.
    pub fn with_images(&self, bones: &[usize], least: usize) -> Vec<usize> {
        let mut all: Vec<usize> = Vec::new();
        for &j in bones {
            if all.len() < least && !all.contains(&j) {
                all.push(j);
                all.extend(Some(self.bones[j]).filter(|image| *image != j));
            }
        }
        all.sort_unstable();
        all
    }

    /// Without some bones, their images included.
    pub fn remove(&mut self, gone: &[usize]) {
        let mut numbers = vec![None; self.bones.len()];
        (0..self.bones.len()).filter(|j| !gone.contains(j)).enumerate().for_each(|(at, j)| numbers[j] = Some(at));
        let images = self.bones.iter().enumerate().filter(|(j, _)| numbers[*j].is_some());
        self.bones = images.map(|(j, &image)| numbers[image].or(numbers[j]).unwrap_or(0)).collect();
    }

    /// Offsets of a bone as its image moves: mirrored points, mirrored offsets.
    fn image(&self, m: &[[f64; 4]; 3]) -> [[f64; 4]; 3] {
        std::array::from_fn(|r| {
            let row = m[r];
            let shift = row[3] + 2.0 * self.plane.offset * row[self.axis];
            std::array::from_fn(|c| self.sign(r) * if c == 3 { shift } else { self.sign(c) * row[c] })
        })
    }

    /// Copies weights to the other side; vertices on the plane have as much of a bone as of its image.
    pub fn skin(&self, skin: &mut Skin) {
        for (i, k) in self.vertex_pairs() {
            let row: Vec<(usize, f64)> = skin.of(i).collect();
            if i != k {
                skin.set(k, row.iter().map(|(j, w)| (self.bones[*j], *w)));
                continue;
            }
            if skin.slots < 2 {
                continue;
            }
            // Weights of pairs together, and of bones in the middle.
            let mut sums: Vec<(usize, f64)> = Vec::new();
            for (j, w) in row {
                let least = j.min(self.bones[j]);
                match sums.iter_mut().find(|(other, _)| *other == least) {
                    Some((_, sum)) => *sum += w,
                    None => sums.push((least, w)),
                }
            }
            sums.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let mut slots = 0;
            sums.retain(|(j, _)| {
                let needed = if self.bones[*j] == *j { 1 } else { 2 };
                let fits = slots + needed <= skin.slots;
                slots += if fits { needed } else { 0 };
                fits
            });
            let total: f64 = sums.iter().map(|(_, w)| w).sum();
            let mut both: Vec<(usize, f64)> = Vec::new();
            for (j, w) in sums {
                match self.bones[j] == j {
                    true => both.push((j, w / total)),
                    false => both.extend([(j, 0.5 * w / total), (self.bones[j], 0.5 * w / total)]),
                }
            }
            both.sort_by(|a, b| b.1.total_cmp(&a.1));
            skin.set(i, both);
        }
    }

    /// Puts bones where the images of their images are.
    pub fn places(&self, places: &mut [DVec3]) {
        for (j, &image) in self.bones.iter().enumerate() {
            if j < image {
                places[image] = self.plane.mirror(places[j]);
            } else if j == image {
                places[j] -= self.plane.side(places[j]) * self.plane.normal;
            }
        }
    }

    /// A support whose shapes have the same numbers on both sides; `q` numbers for each bone.
    pub fn support(&self, mut support: Support, q: usize) -> Support {
        for (s, u) in self.shape_pairs() {
            let mut image: Vec<u32> = support[s].iter().map(|x| self.unknown(*x, q)).collect();
            image.sort_unstable();
            match s == u {
                // What a symmetric shape does to a bone in the middle has no part that changes its sign.
                true => support[s].retain(|x| {
                    let vanishes = self.unknown(*x, q) == *x && self.component_sign(*x as usize % q) < 0.0;
                    image.binary_search(x).is_ok() && !vanishes
                }),
                false => support[u] = image,
            }
        }
        support
    }

    /// Copies numbers on a support of this kind to the other side.
    pub fn numbers(&self, support: &Support, numbers: &mut [Vec<f64>], q: usize) {
        for (s, u) in self.shape_pairs() {
            let sign = |x: u32| self.component_sign(x as usize % q);
            let images: Vec<(usize, f64)> = support[s]
                .iter()
                .zip(&numbers[s])
                .filter_map(|(x, value)| {
                    let at = support[u].binary_search(&self.unknown(*x, q)).ok()?;
                    Some((at, sign(*x) * value))
                })
                .collect();
            for (at, value) in images {
                numbers[u][at] = if s == u { 0.5 * (numbers[u][at] + value) } else { value };
            }
            if s == u {
                // The mean of both, the same on both sides to the last bit.
                for (at, x) in support[s].iter().enumerate() {
                    if let Ok(image) = support[s].binary_search(&self.unknown(*x, q)) {
                        match at.cmp(&image) {
                            std::cmp::Ordering::Less => numbers[s][image] = sign(*x) * numbers[s][at],
                            std::cmp::Ordering::Equal if sign(*x) < 0.0 => numbers[s][at] = 0.0,
                            _ => {}
                        }
                    }
                }
            }
        }
    }

    /// The image of an unknown `j Q + a`.
    fn unknown(&self, x: u32, q: usize) -> u32 {
        (self.bones[x as usize / q] * q + x as usize % q) as u32
    }

    fn shape_pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.shapes.iter().enumerate().filter_map(|(s, u)| u.map(|u| (s, u))).filter(|(s, u)| s <= u)
    }

    /// The same for other bones: [B] the image of each.
    pub fn of_bones(&self, bones: Vec<usize>) -> Self {
        Self { bones, ..self.clone() }
    }

    /// The image of a vertex.
    pub fn vertex(&self, i: usize) -> Option<usize> {
        self.vertices[i].map(|k| k as usize)
    }
}

fn mean(a: &[[f64; 4]; 3], b: &[[f64; 4]; 3]) -> [[f64; 4]; 3] {
    std::array::from_fn(|r| std::array::from_fn(|c| 0.5 * (a[r][c] + b[r][c])))
}

/// Numbers between -1 and 1 that follow from `seed` alone.
fn factors(seed: usize) -> [f64; SUMS] {
    let mut x = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    std::array::from_fn(|_| {
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    })
}
