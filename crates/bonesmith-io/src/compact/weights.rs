//! Weights in whole steps whose sum is exact, for the least of bytes and error together; the rest pose makes up for what it can of the error.
//!
//! A change of a row moves the posed vertex by a quadratic form of the change (`Form`). The codec writes differences to the vertex before, a
//! byte of a value at a time. Vertices are taken in the order of the file: for each, rows near the exact one and near the row before are compared by
//! the error and the bits of their differences (`Pass`).

use bonesmith_core::{Rig, SparseWeights};
use glam::{DMat3, DVec3, Vec3};
use rayon::prelude::*;

use super::Compact;
use super::lattice::{Square, nearest_whole, whole_weights};
use super::pass::{Pass, Row};
use crate::gltf::meshopt::attributes::Version;

/// Poses in which roundings are compared.
const POSES: usize = 64;
/// The sum of weights of 8 bits.
pub const BYTES: u32 = 255;
/// Of 16 bits.
pub const SHORTS: u32 = 65535;
/// Most influences.
pub const MAX_SLOTS: usize = 8;
/// Largest root mean square of a vertex over the poses, in that of the whole file: few vertices that are far off would be cheap otherwise.
const MAX_RATIO: f64 = 3.0;

/// Joint and weight in each slot of a vertex.
pub type Placed = [(u16, u32); MAX_SLOTS];

/// Mean square by which a vertex, or the vertices of a bone, may be off in a file within a root mean square per coordinate.
pub fn max_square(rms: f64) -> f64 {
    3.0 * (MAX_RATIO * rms).powi(2)
}

/// (clip, frame) of poses spread over all clips.
fn poses(rig: &Rig) -> Vec<(usize, usize)> {
    let all: Vec<(usize, usize)> =
        rig.clips.iter().enumerate().flat_map(|(c, clip)| (0..clip.frame_count()).map(move |t| (c, t))).collect();
    let step = all.len().div_ceil(POSES).max(1);
    all.into_iter().step_by(step).collect()
}

/// Puts influences into slots, vertex by vertex. Up to four stay in the slot in which the vertex before had them: columns that change
/// little are short. More fall along the slots, for readers that use the first four.
#[derive(Clone)]
pub struct Placer {
    /// Joint and weight that each slot had last; its weight is 0 where the vertex before had none in it.
    last: Placed,
    pub slots: usize,
}

impl Placer {
    /// For vertices with at most so many influences.
    pub fn new(influences: usize) -> Self {
        Self { last: [(0, 0); MAX_SLOTS], slots: if influences > 4 { MAX_SLOTS } else { 4 } }
    }

    /// The slots of the next vertex; weights of zero have none.
    pub fn place(&mut self, pairs: &[(u16, u32)]) -> Placed {
        let placed = self.peek(pairs);
        self.keep(&placed);
        placed
    }

    /// Goes on to the next vertex.
    pub fn keep(&mut self, placed: &Placed) {
        for (last, (joint, weight)) in self.last.iter_mut().zip(placed) {
            *last = (if *weight > 0 { *joint } else { last.0 }, *weight);
        }
    }

    /// The slots that the next vertex would have.
    pub fn peek(&self, pairs: &[(u16, u32)]) -> Placed {
        let mut placed = [(0, 0); MAX_SLOTS];
        if self.slots > 4 {
            let used = pairs.iter().filter(|(_, weight)| *weight > 0);
            placed.iter_mut().zip(used).for_each(|(own, pair)| *own = *pair);
            return placed;
        }
        let mut waiting = [(0, 0); MAX_SLOTS];
        let mut count = 0;
        for &(joint, weight) in pairs.iter().filter(|(_, weight)| *weight > 0).take(4) {
            match (0..4).find(|&k| self.last[k].0 == joint && placed[k].1 == 0) {
                Some(k) => placed[k] = (joint, weight),
                None => {
                    waiting[count] = (joint, weight);
                    count += 1;
                }
            }
        }
        for &(joint, weight) in &waiting[..count] {
            // A joint of the next number takes no byte of its own; else the slot whose weight is the nearest.
            let free = (0..4).filter(|&k| placed[k].1 == 0);
            let far = |k: usize| (self.last[k].0.abs_diff(joint) > 1, self.last[k].1.abs_diff(weight), k);
            if let Some(k) = free.min_by_key(|&k| far(k)) {
                placed[k] = (joint, weight);
            }
        }
        placed
    }
}

/// How a vertex moves when its weights and its rest position change.
///
/// With changes d_a of the weights and e of the rest position the vertex moves by sum_a d_a (p_a - p_0) + B e in a pose, where p_a is where
/// bone a takes it and B is its blended matrix. The best e is linear in d; what is left is a quadratic form of d. That B changes too is of second
/// order, and counted for large changes: without a bone a vertex may be where it was in one pose only.
pub struct Form {
    /// Influences, the reference first: bone, exact weight, place in the rig's row.
    pub row: Vec<(usize, f64, usize)>,
    /// Mean over poses of the square, for changes of the weights but the first.
    pub square: Square,
    /// The rest position moves by -moves[a] d_a.
    moves: [DVec3; MAX_SLOTS],
    /// Root mean square over poses of how far bone a takes a displacement of length 1 from where the reference takes it.
    apart: [f64; MAX_SLOTS],
}

impl Form {
    fn new(rig: &Rig, i: usize, poses: &[(usize, usize)], masses: &[f64]) -> Option<Self> {
        let all: Vec<(usize, f32)> = rig.weights.of(i).collect();
        if all.len() < 2 || all.len() > MAX_SLOTS || poses.is_empty() {
            return None;
        }
        let sum: f64 = all.iter().map(|(_, w)| f64::from(*w)).sum();
        let mut row: Vec<(usize, f64, usize)> =
            all.iter().enumerate().map(|(at, (j, w))| (*j, f64::from(*w) / sum, at)).collect();
        // What the others leave is taken by the bone that moves most: neighbours then agree in which it is.
        row.sort_by(|a, b| masses[b.0].total_cmp(&masses[a.0]).then(a.0.cmp(&b.0)));
        let (free, u) = (row.len() - 1, rig.rest[i].as_dvec3());
        let mut square = [[0.0f64; MAX_SLOTS]; MAX_SLOTS];
        let (mut normal, mut mixed) = (DMat3::ZERO, [DVec3::ZERO; MAX_SLOTS]);
        let mut apart = [0.0f64; MAX_SLOTS];
        for &(c, t) in poses {
            let frame = rig.clips[c].frame(t);
            let first = frame[row[0].0].transform_point3(u);
            let mut matrix = frame[row[0].0].matrix3 * row[0].1;
            let mut moves = [DVec3::ZERO; MAX_SLOTS];
            for a in 0..free {
                let (j, w, _) = row[a + 1];
                moves[a] = frame[j].transform_point3(u) - first;
                let d = frame[j].matrix3 - frame[row[0].0].matrix3;
                apart[a] += (d.x_axis.length_squared() + d.y_axis.length_squared() + d.z_axis.length_squared()) / 3.0;
                matrix += frame[j].matrix3 * w;
            }
            let across = matrix.transpose();
            normal += across * matrix;
            for a in 0..free {
                mixed[a] += across * moves[a];
                for b in 0..=a {
                    square[a][b] += moves[a].dot(moves[b]);
                }
            }
        }
        let inverse =
            Some(normal.inverse()).filter(|m| m.is_finite() && normal.determinant() > 1e-9).unwrap_or(DMat3::ZERO);
        let count = poses.len() as f64;
        for a in 0..free {
            for b in 0..=a {
                square[a][b] = (square[a][b] - mixed[a].dot(inverse * mixed[b])) / count;
                square[b][a] = square[a][b];
            }
        }
        let sound = square.as_flattened().iter().all(|x| x.is_finite());
        let apart = apart.map(|square| (square / count).sqrt());
        sound.then_some(Self { row, square, moves: mixed.map(|m| inverse * m), apart })
    }

    /// Influences but the reference.
    pub fn free(&self) -> usize {
        self.row.len() - 1
    }

    /// Mean over poses of the square for whole weights, the reference first.
    pub fn cost(&self, whole: &[u32; MAX_SLOTS], one: f64) -> f64 {
        let d: [f64; MAX_SLOTS] =
            std::array::from_fn(
                |a| if a < self.free() { f64::from(whole[a + 1]) / one - self.row[a + 1].1 } else { 0.0 },
            );
        let first: f64 =
            (0..self.free()).map(|a| d[a] * (0..self.free()).map(|b| self.square[a][b] * d[b]).sum::<f64>()).sum();
        let shift: DVec3 = (0..self.free()).map(|a| self.moves[a] * d[a]).sum();
        let apart: f64 = (0..self.free()).map(|a| d[a].abs() * self.apart[a]).sum();
        first.max(0.0) + apart * apart * shift.length_squared()
    }

    /// The rest position that goes with whole weights.
    fn rest(&self, whole: &[u32; MAX_SLOTS], one: f64, rest: Vec3) -> Vec3 {
        let change = (0..self.free()).map(|a| self.moves[a] * (f64::from(whole[a + 1]) / one - self.row[a + 1].1));
        (rest.as_dvec3() - change.sum::<DVec3>()).as_vec3()
    }
}

/// Weights of a vertex as stored.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeRow {
    /// In the order of the rig's influences.
    pub steps: Vec<u32>,
    /// Their sum.
    pub sum: u32,
}

/// Weights of all vertices as stored.
pub struct WeightOffer {
    /// The sum of a row; of a few rows of floats it is a multiple.
    pub one: u32,
    /// [N].
    pub rows: Vec<WholeRow>,
    /// [N] rest pose that goes with them.
    pub rest: Vec<Vec3>,
    /// Bytes of joints and weights.
    pub bytes: f64,
    /// Sum of squares over vertices and frames.
    pub cost: f64,
    /// The price of error for which they were made.
    pub price: Option<f64>,
}

/// What weights are chosen from.
pub struct Chooser<'a> {
    pub rig: &'a Rig,
    /// [N].
    pub forms: Vec<Option<Form>>,
    /// Vertices in the order of the file; one that is split comes several times.
    pub order: &'a [u32],
    pub frames: f64,
    /// Mean over poses of the square of a vertex that no row may exceed where another one does not.
    pub limit: f64,
    /// Of the streams of joints and weights.
    pub version: Version,
}

impl<'a> Chooser<'a> {
    /// For a rig whose vertices are written in this order.
    pub fn new(rig: &'a Rig, order: &'a [u32], compact: &Compact) -> Self {
        let poses = poses(rig);
        let frames = rig.clips.iter().map(|clip| clip.frame_count()).sum::<usize>().max(1) as f64;
        let mut masses = vec![0.0f64; rig.bone_count()];
        (0..rig.vertex_count()).flat_map(|i| rig.weights.of(i)).for_each(|(j, w)| masses[j] += f64::from(w));
        let forms = (0..rig.vertex_count()).into_par_iter().map(|i| Form::new(rig, i, &poses, &masses)).collect();
        let version = compact.packing.version().unwrap_or(Version::Zero);
        Self { rig, forms, order, frames, limit: max_square(compact.rms), version }
    }

    /// The nearest weights, without compression.
    pub fn nearest(&self, one: u32) -> WeightOffer {
        let nearest = |i: usize| self.nearest_row(self.forms[i].as_ref()?, one).map(|row| (row, one));
        let rows: Vec<Option<Row>> = (0..self.forms.len()).into_par_iter().map(nearest).collect();
        let bytes =
            self.order.len() * self.rig.weights.max_influences().div_ceil(4).max(1) * if one == BYTES { 4 } else { 8 };
        self.offer(&rows, one, bytes as f64)
    }

    /// The nearest row of a vertex, the reference first.
    pub fn nearest_row(&self, form: &Form, one: u32) -> Option<[u32; MAX_SLOTS]> {
        let exact: Vec<f64> = form.row[1..].iter().map(|(_, w, _)| w * f64::from(one)).collect();
        let found = nearest_whole(&form.square, &exact, one, 1).next()?;
        Some(with_reference(&found, form.free(), one))
    }

    /// Weights with about the least bytes + `price` x cost.
    pub fn coded(&self, one: u32, price: f64) -> WeightOffer {
        let mut pass = Pass::new(self, one, price);
        let rows = pass.rows();
        WeightOffer { price: Some(price), ..self.offer(&rows, one, pass.bytes) }
    }

    fn offer(&self, rows: &[Option<Row>], one: u32, bytes: f64) -> WeightOffer {
        let mut offer =
            WeightOffer { one, rows: Vec::with_capacity(rows.len()), rest: Vec::new(), bytes, cost: 0.0, price: None };
        for (i, row) in rows.iter().enumerate() {
            let known = row.as_ref().zip(self.forms[i].as_ref());
            let Some(((row, sum), form)) = known else {
                offer.rest.push(self.rig.rest[i]);
                offer.rows.push(WholeRow { steps: plain_row(self.rig, i, one), sum: one });
                continue;
            };
            offer.rest.push(form.rest(row, f64::from(*sum), self.rig.rest[i]));
            offer.cost += form.cost(row, f64::from(*sum)) * self.frames;
            offer.rows.push(WholeRow { steps: in_rig_order(row, form), sum: *sum });
        }
        offer
    }
}

/// The nearest row of a vertex of which nothing else is known.
pub fn plain_row(rig: &Rig, i: usize, one: u32) -> Vec<u32> {
    whole_weights(&rig.weights.of(i).map(|(_, w)| w).collect::<Vec<f32>>(), one)
}

fn in_rig_order(row: &[u32; MAX_SLOTS], form: &Form) -> Vec<u32> {
    let mut stored = vec![0; form.row.len()];
    for (n, (_, _, at)) in row.iter().zip(&form.row) {
        stored[*at] = *n;
    }
    stored
}

/// Weights but the first, and the first, which is what they leave.
pub fn with_reference(whole: &[i32; MAX_SLOTS], free: usize, one: u32) -> [u32; MAX_SLOTS] {
    let mut row = [0; MAX_SLOTS];
    for a in 0..free {
        row[a + 1] = whole[a] as u32;
    }
    row[0] = one - row[1..].iter().sum::<u32>();
    row
}

/// Weights as they are stored.
pub fn stored(weights: &SparseWeights, rows: &[WholeRow]) -> SparseWeights {
    let mut out = SparseWeights::new(weights.vertex_count(), weights.slots());
    for (i, whole) in rows.iter().enumerate() {
        let pairs = weights.of(i).zip(&whole.steps).filter(|(_, w)| **w > 0);
        let row: Vec<(usize, f64)> = pairs.map(|((j, _), w)| (j, f64::from(*w) / f64::from(whole.sum))).collect();
        out.set(i, &row);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn influences_stay_in_their_slots() {
        let mut placer = Placer::new(4);
        assert_eq!(placer.place(&[(7, 10), (3, 20)])[..4], [(7, 10), (3, 20), (0, 0), (0, 0)]);
        // 3 stays where it was; 9 takes a free slot, and zeros none.
        let placed = placer.place(&[(9, 5), (3, 25), (7, 0)]);
        assert_eq!(placed[1], (3, 25));
        assert_eq!(placed.iter().filter(|(_, w)| *w > 0).count(), 2);
        // More than four fall along the slots.
        assert_eq!(Placer::new(5).place(&[(1, 9), (2, 8), (3, 7), (4, 6), (5, 5)])[4], (5, 5));
    }
}
