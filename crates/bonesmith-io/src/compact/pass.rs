//! One way over all vertices in the order of the file: for each, the row of weights with the least bytes and error together.

use super::lattice::{nearest_whole, solved, whole_weights};
use super::weights::{BYTES, Chooser, Form, MAX_SLOTS, Placed, Placer, plain_row, with_reference};
use crate::gltf::meshopt::attributes;

/// Rows that are kept of the nearest ones.
const KEPT: usize = 3;
/// Bytes for a row that exceeds the limit of a vertex, times by how much.
const BEYOND: f64 = 1e3;
/// Bytes for the square of a step of difference to the row before, by which rows near it are found.
const PULLS: [f64; 3] = [0.0, 0.005, 0.1];

/// Planes of bytes: joints, lower and upper bytes of the weights.
const PLANES: usize = 3 * MAX_SLOTS;
/// Elements of a group, which has one width.
const GROUP: usize = 16;
/// Widths of a group: as in the codec, and one that is not known yet.
const UNKNOWN: u8 = 4;

/// [width][difference] bits of a difference in a group, about; a group of zeros would become one of two bits.
static BITS: [[f32; 256]; 5] = bits();

const fn bits() -> [[f32; 256]; 5] {
    let mut table = [[0.0; 256]; 5];
    let mut delta = 0;
    while delta < 256 {
        let (small, medium) = (delta < 3, delta < 15);
        table[0][delta] = if delta == 0 {
            0.0
        } else if small {
            18.0
        } else {
            26.0
        };
        table[1][delta] = if small { 2.0 } else { 10.0 };
        table[2][delta] = if medium { 4.0 } else { 12.0 };
        table[3][delta] = 8.0;
        table[4][delta] = if delta == 0 {
            1.5
        } else if small {
            2.5
        } else if medium {
            4.5
        } else {
            9.5
        };
        delta += 1;
    }
    table
}

/// One way over all vertices in the order of the file.
pub struct Pass<'a> {
    chooser: &'a Chooser<'a>,
    one: u32,
    price: f64,
    /// [groups][planes] widths of the pass before.
    widths: Vec<[u8; PLANES]>,
    /// Bytes of joints and weights of the last pass.
    pub bytes: f64,
}

impl<'a> Pass<'a> {
    /// With weights whose sum is `one`, at a price of error.
    pub fn new(chooser: &'a Chooser<'a>, one: u32, price: f64) -> Self {
        let groups = chooser.order.len().div_ceil(GROUP);
        Self { chooser, one, price: price * chooser.frames, widths: vec![[UNKNOWN; PLANES]; groups], bytes: 0.0 }
    }

    /// [N] rows that were chosen, the reference first; `None` for vertices without a choice.
    fn run(&mut self, pulls: &[f64]) -> Vec<Option<[u32; MAX_SLOTS]>> {
        let rig = self.chooser.rig;
        let mut rows: Vec<Option<[u32; MAX_SLOTS]>> = vec![None; rig.vertex_count()];
        let mut placer = Placer::new(rig.weights.max_influences());
        let slots = placer.slots;
        let one = self.one;
        let mut planes: Vec<[u8; PLANES]> = Vec::with_capacity(self.chooser.order.len());
        let mut before: Placed = [(0, 0); MAX_SLOTS];
        for (at, &v) in self.chooser.order.iter().enumerate() {
            let i = v as usize;
            let widths = &self.widths[at / GROUP];
            let placed = match (&self.chooser.forms[i], rows[i]) {
                (Some(form), None) => {
                    let (row, placed) = self.best(form, &placer, &before, widths, pulls);
                    rows[i] = Some(row);
                    placed
                }
                (Some(form), Some(row)) => placer.peek(&pairs_of(form, &row)),
                (None, _) => {
                    let joints = rig.weights.of(i).map(|(j, _)| j as u16);
                    let pairs: Vec<(u16, u32)> = joints.zip(plain_row(rig, i, one)).collect();
                    placer.peek(&pairs)
                }
            };
            placer.keep(&placed);
            planes.push(bytes_of(&placed));
            before = placed;
        }
        self.measure(&planes, slots);
        rows
    }

    /// Rows at the price: first the widths of the groups, of the nearest rows.
    pub fn rows(&mut self) -> Vec<Option<[u32; MAX_SLOTS]>> {
        self.run(&PULLS[..1]);
        self.run(&PULLS)
    }

    /// Widths and bytes of what was chosen.
    fn measure(&mut self, planes: &[[u8; PLANES]], slots: usize) {
        let mut total = 0usize;
        for (g, group) in planes.chunks(GROUP).enumerate() {
            for k in 0..PLANES {
                let mut deltas = [0u8; GROUP];
                for (at, row) in group.iter().enumerate() {
                    let own = g * GROUP + at;
                    let before = if own == 0 { row[k] } else { planes[own - 1][k] };
                    deltas[at] = attributes::zigzag(row[k].wrapping_sub(before));
                }
                let (bytes, width) = attributes::shortest(&deltas);
                self.widths[g][k] = width;
                total += bytes;
            }
        }
        let columns = slots * if self.one == BYTES { 2 } else { 5 };
        self.bytes = total as f64 + (columns * planes.len().div_ceil(GROUP)) as f64 / 4.0;
    }

    /// The best row of a vertex after another one.
    fn best(
        &self,
        form: &Form,
        placer: &Placer,
        before: &Placed,
        widths: &[u8; PLANES],
        pulls: &[f64],
    ) -> ([u32; MAX_SLOTS], Placed) {
        let mut best: Option<(f64, [u32; MAX_SLOTS], Placed)> = None;
        let bytes = bytes_of(before);
        self.candidates(form, placer, before, pulls, |row| {
            let placed = placer.peek(&pairs_of(form, &row));
            let bits = bits_between(&bytes, &placed, widths, placer.slots);
            let cost = form.cost(&row, f64::from(self.one));
            let beyond = if cost > self.chooser.limit { BEYOND * cost / self.chooser.limit } else { 0.0 };
            let total = bits / 8.0 + self.price * cost + beyond;
            if best.as_ref().is_none_or(|(least, ..)| total < *least) {
                best = Some((total, row, placed));
            }
        });
        match best {
            Some((_, row, placed)) => (row, placed),
            None => {
                let weights: Vec<f32> = form.row.iter().map(|(_, w, _)| *w as f32).collect();
                let mut row = [0; MAX_SLOTS];
                row.iter_mut().zip(whole_weights(&weights, self.one)).for_each(|(own, w)| *own = w);
                (row, placer.peek(&pairs_of(form, &row)))
            }
        }
    }
}

impl Pass<'_> {
    /// Rows near the exact one, and near the row before where that costs little.
    fn candidates(
        &self,
        form: &Form,
        placer: &Placer,
        before: &Placed,
        pulls: &[f64],
        mut consider: impl FnMut([u32; MAX_SLOTS]),
    ) {
        let (free, one) = (form.free(), f64::from(self.one));
        let slots = slots_of(form, placer);
        let (mut last, mut exact) = ([0.0; MAX_SLOTS], [0.0; MAX_SLOTS]);
        for a in 0..free {
            last[a] = slots[a + 1].map_or(0.0, |k| f64::from(before[k].1));
            exact[a] = form.row[a + 1].1 * one;
        }
        let scale = self.price / (one * one);
        for &pull in pulls {
            let pulls = |a: usize, b: usize| if a == b { 2.0 * pull } else { pull };
            let square = std::array::from_fn(|a| std::array::from_fn(|b| form.square[a][b] * scale + pulls(a, b)));
            let mut centre = exact;
            if pull > 0.0 {
                // (scale Q + pull P) c = scale Q exact + pull P last.
                let entry = |a: usize, b: usize| form.square[a][b] * scale * exact[b] + pulls(a, b) * last[b];
                let right = std::array::from_fn(|a| (0..free).map(|b| entry(a, b)).sum());
                let Some(found) = solved(&square, free, &right) else { continue };
                centre = found;
            }
            let kept = if pull == 0.0 { KEPT } else { 2 };
            for whole in nearest_whole(&square, &centre[..free], self.one, kept) {
                consider(with_reference(&whole, free, self.one));
            }
        }
        self.without_smallest(form, &exact, consider);
    }

    /// The nearest row without the smallest influence.
    fn without_smallest(&self, form: &Form, exact: &[f64; MAX_SLOTS], mut consider: impl FnMut([u32; MAX_SLOTS])) {
        let free = form.free();
        let Some(out) = (0..free).min_by(|&a, &b| exact[a].total_cmp(&exact[b])) else { return };
        let others: Vec<usize> = (0..free).filter(|&a| a != out).collect();
        let (mut square, mut right) = ([[0.0; MAX_SLOTS]; MAX_SLOTS], [0.0; MAX_SLOTS]);
        for (a, &from) in others.iter().enumerate() {
            right[a] = form.square[from][out] * exact[out];
            for (b, &to) in others.iter().enumerate() {
                square[a][b] = form.square[from][to];
            }
        }
        let Some(shift) = solved(&square, others.len(), &right) else { return };
        let centre: Vec<f64> = others.iter().zip(shift).map(|(&from, shift)| exact[from] + shift).collect();
        for found in nearest_whole(&square, &centre, self.one, 1) {
            let mut whole = [0i32; MAX_SLOTS];
            others.iter().zip(found).for_each(|(&from, n)| whole[from] = n);
            consider(with_reference(&whole, free, self.one));
        }
    }
}

fn bits_between(before: &[u8; PLANES], after: &Placed, widths: &[u8; PLANES], slots: usize) -> f64 {
    let after = bytes_of(after);
    let bits = |k: usize| {
        let delta = attributes::zigzag(after[k].wrapping_sub(before[k]));
        BITS[usize::from(widths[k])][usize::from(delta)]
    };
    let slot = |k: usize| bits(k) + bits(MAX_SLOTS + k) + bits(2 * MAX_SLOTS + k);
    f64::from((0..slots).map(slot).sum::<f32>())
}

/// The slot that each influence has where all are kept.
fn slots_of(form: &Form, placer: &Placer) -> [Option<usize>; MAX_SLOTS] {
    let mut row = [0; MAX_SLOTS];
    row[..form.row.len()].fill(1);
    let placed = placer.peek(&pairs_of(form, &row));
    std::array::from_fn(|a| {
        let (joint, ..) = *form.row.get(a)?;
        placed.iter().position(|(j, w)| *w > 0 && usize::from(*j) == joint)
    })
}

/// Joints and weights in the order of the rig's influences.
fn pairs_of(form: &Form, row: &[u32; MAX_SLOTS]) -> Placed {
    let mut pairs = [(0u16, 0u32); MAX_SLOTS];
    for ((joint, _, at), n) in form.row.iter().zip(row) {
        pairs[*at] = (*joint as u16, *n);
    }
    pairs
}

fn bytes_of(placed: &Placed) -> [u8; PLANES] {
    let mut bytes = [0; PLANES];
    for (k, (joint, weight)) in placed.iter().enumerate() {
        bytes[k] = *joint as u8;
        bytes[MAX_SLOTS + k] = *weight as u8;
        bytes[2 * MAX_SLOTS + k] = (*weight >> 8) as u8;
    }
    bytes
}
