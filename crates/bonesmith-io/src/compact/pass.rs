//! One way over all vertices in the order of the file: for each, the row of weights with the least bytes and error together.
//!
//! The codec gives 16 differences of a byte one width. A vertex by itself gains nothing by a smaller difference in a group of wide ones, so that groups
//! are tried as a whole: with the widths of the pass before, and with narrower ones (`narrower`). The shortest by its own bytes and error stays.

use super::lattice::{nearest_whole, solved, whole_weights};
use super::weights::{BYTES, Chooser, Form, MAX_SLOTS, Placed, Placer, plain_row, with_reference};
use crate::gltf::meshopt::attributes::{self, Version};

/// Rows that are kept of the nearest ones.
const KEPT: usize = 3;
/// Bytes for a row that exceeds the limit of a vertex, times by how much.
const BEYOND: f64 = 1e3;
/// Halvings of the step for a vertex that exceeds the limit with the step of all.
const FINER: [u32; 4] = [2, 4, 6, 8];
/// Bytes for the square of a step of difference to the row before, by which rows near it are found.
const PULLS: [f64; 3] = [0.0, 0.005, 0.1];
/// The same for influences whose difference has a width: about a byte for the least that does not fit.
const WIDTH_PULLS: [f64; WIDTHS] = [3.0, 1.0, 0.4, 0.02, 0.0, 0.0];

/// Planes of bytes: joints, lower and upper bytes of the weights.
const PLANES: usize = 3 * MAX_SLOTS;
/// Elements of a group, which has one width.
const GROUP: usize = 16;
/// Widths of a group: as in the codec, and one that is not known yet.
const WIDTHS: usize = 6;
const UNKNOWN: u8 = 5;

/// Steps of a row, the reference first, and their sum.
pub type Row = ([u32; MAX_SLOTS], u32);
type Widths = [u8; PLANES];

/// [width][difference] bits of a difference in a group, about; a group of zeros would become one of two bits.
static BITS: [[f32; 256]; WIDTHS] = bits();

const fn bits() -> [[f32; 256]; WIDTHS] {
    let mut table = [[0.0; 256]; WIDTHS];
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
        table[1][delta] = if delta == 0 { 1.0 } else { 9.0 };
        table[2][delta] = if small { 2.0 } else { 10.0 };
        table[3][delta] = if medium { 4.0 } else { 12.0 };
        table[4][delta] = 8.0;
        table[5][delta] = if delta == 0 {
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
    /// [groups] widths of the pass before.
    widths: Vec<Widths>,
    /// Bytes of joints and weights of the last pass.
    pub bytes: f64,
}

/// What the next vertex depends on.
#[derive(Clone)]
struct Place {
    placer: Placer,
    /// The vertex before; none before the first.
    before: Option<Placed>,
}

/// A group as it was tried.
struct Tried {
    /// Vertices whose rows were chosen.
    rows: Vec<(usize, Row)>,
    after: Place,
    widths: Widths,
    /// Bytes, without those that say which widths.
    bytes: usize,
    /// Of the errors.
    price: f64,
}

impl<'a> Pass<'a> {
    /// With weights whose sum is `one`, at a price of error.
    pub fn new(chooser: &'a Chooser<'a>, one: u32, price: f64) -> Self {
        let groups = chooser.order.len().div_ceil(GROUP);
        Self { chooser, one, price: price * chooser.frames, widths: vec![[UNKNOWN; PLANES]; groups], bytes: 0.0 }
    }

    /// [N] rows at the price; `None` for vertices without a choice. The widths of the groups are first those of the nearest
    /// rows.
    pub fn rows(&mut self) -> Vec<Option<Row>> {
        self.run(&PULLS[..1]);
        self.run(&PULLS)
    }

    fn run(&mut self, pulls: &[f64]) -> Vec<Option<Row>> {
        let rig = self.chooser.rig;
        let mut rows: Vec<Option<Row>> = vec![None; rig.vertex_count()];
        let mut place = Place { placer: Placer::new(rig.weights.max_influences()), before: None };
        let slots = place.placer.slots;
        let mut total = 0.0;
        for (g, vertices) in self.chooser.order.chunks(GROUP).enumerate() {
            let own = self.widths[g];
            let chosen = self.group(vertices, &place, &own, pulls, &rows);
            total += chosen.bytes as f64;
            // Steps with which a vertex exceeds its limit are for files in which all of them do.
            total += if chosen.price >= BEYOND { BEYOND } else { 0.0 };
            self.widths[g] = chosen.widths;
            chosen.rows.iter().for_each(|(i, row)| rows[*i] = Some(*row));
            place = chosen.after;
        }
        let columns = slots * if self.one == BYTES { 2 } else { 5 };
        self.bytes = total + (columns * self.widths.len()) as f64 / 4.0;
        rows
    }

    /// Chooses the rows of a group whose differences have these widths.
    fn group(&self, vertices: &[u32], place: &Place, widths: &Widths, pulls: &[f64], rows: &[Option<Row>]) -> Tried {
        let rig = self.chooser.rig;
        let mut tried =
            Tried { rows: Vec::with_capacity(GROUP), after: place.clone(), widths: *widths, bytes: 0, price: 0.0 };
        let mut deltas = [[0u8; GROUP]; PLANES];
        for (at, &v) in vertices.iter().enumerate() {
            let i = v as usize;
            let known = rows[i].or_else(|| tried.rows.iter().find(|(own, _)| *own == i).map(|(_, row)| *row));
            let Place { placer, before } = &mut tried.after;
            let placed = match (&self.chooser.forms[i], known) {
                (Some(form), None) => {
                    let (row, placed, price) = self.best(form, placer, before, widths, pulls);
                    tried.rows.push((i, row));
                    tried.price += price;
                    placed
                }
                (Some(form), Some((row, _))) => placer.peek(&pairs_of(form, &row)),
                (None, _) => {
                    let joints = rig.weights.of(i).map(|(j, _)| j as u16);
                    let pairs: Vec<(u16, u32)> = joints.zip(plain_row(rig, i, self.one)).collect();
                    placer.peek(&pairs)
                }
            };
            placer.keep(&placed);
            let own = self.differences(before, &placed);
            deltas.iter_mut().zip(own).for_each(|(plane, delta)| plane[at] = delta);
            *before = Some(placed);
        }
        for (width, plane) in tried.widths.iter_mut().zip(&deltas) {
            let (bytes, shortest) = attributes::shortest(plane, self.chooser.version);
            tried.bytes += bytes;
            *width = shortest;
        }
        tried
    }

    /// What the codec writes of a vertex after another one, plane by plane.
    fn differences(&self, before: &Option<Placed>, after: &Placed) -> [u8; PLANES] {
        let mut deltas = [0; PLANES];
        let Some(before) = before else { return deltas };
        let halves = self.chooser.version == Version::One && self.one != BYTES;
        for (k, ((joint, weight), (last_joint, last_weight))) in after.iter().zip(before).enumerate() {
            deltas[k] = attributes::zigzag((*joint as u8).wrapping_sub(*last_joint as u8));
            let [low, high] = match halves {
                true => attributes::zigzag16((*weight as u16).wrapping_sub(*last_weight as u16)).to_le_bytes(),
                false => [0, 8].map(|shift| {
                    attributes::zigzag(((weight >> shift) as u8).wrapping_sub((last_weight >> shift) as u8))
                }),
            };
            (deltas[MAX_SLOTS + k], deltas[2 * MAX_SLOTS + k]) = (low, high);
        }
        deltas
    }

    /// The best row of a vertex after another one, and the price of its error.
    fn best(
        &self,
        form: &Form,
        placer: &Placer,
        before: &Option<Placed>,
        widths: &Widths,
        pulls: &[f64],
    ) -> (Row, Placed, f64) {
        let mut best: Option<(f64, [u32; MAX_SLOTS], Placed, f64)> = None;
        self.candidates(form, placer, before, widths, pulls, |row| {
            let placed = placer.peek(&pairs_of(form, &row));
            let deltas = self.differences(before, &placed);
            let bits: f32 = deltas.iter().zip(widths).map(|(d, w)| BITS[usize::from(*w)][usize::from(*d)]).sum();
            let cost = form.cost(&row, f64::from(self.one));
            let beyond = if cost > self.chooser.limit { BEYOND * cost / self.chooser.limit } else { 0.0 };
            let price = self.price * cost + beyond;
            let total = f64::from(bits) / 8.0 + price;
            if best.as_ref().is_none_or(|(least, ..)| total < *least) {
                best = Some((total, row, placed, price));
            }
        });
        match best {
            Some((_, row, placed, price)) if price < BEYOND => ((row, self.one), placed, price),
            Some((_, row, placed, price)) => match self.finer(form) {
                Some(row) => (row, placer.peek(&pairs_of(form, &row.0)), 0.0),
                None => ((row, self.one), placed, price),
            },
            None => {
                let weights: Vec<f32> = form.row.iter().map(|(_, w, _)| *w as f32).collect();
                let mut row = [0; MAX_SLOTS];
                row.iter_mut().zip(whole_weights(&weights, self.one)).for_each(|(own, w)| *own = w);
                ((row, self.one), placer.peek(&pairs_of(form, &row)), 0.0)
            }
        }
    }

    /// The nearest row in the coarsest steps within the limit: of a vertex between bones that are far apart. Floats hold any.
    fn finer(&self, form: &Form) -> Option<Row> {
        let sums = FINER.into_iter().filter(|_| self.one != BYTES).map(|halvings| self.one << halvings);
        let rows = sums.filter_map(|sum| self.chooser.nearest_row(form, sum).map(|row| (row, sum)));
        let cost = |(row, sum): &Row| form.cost(row, f64::from(*sum));
        let rows: Vec<Row> = rows.collect();
        let within = rows.iter().find(|row| cost(row) <= self.chooser.limit);
        within.or_else(|| rows.iter().min_by(|a, b| cost(a).total_cmp(&cost(b)))).copied()
    }

    /// Rows near the exact one, and near the row before where that costs little.
    fn candidates(
        &self,
        form: &Form,
        placer: &Placer,
        before: &Option<Placed>,
        widths: &Widths,
        pulls: &[f64],
        mut consider: impl FnMut([u32; MAX_SLOTS]),
    ) {
        let (free, one) = (form.free(), f64::from(self.one));
        let slots = slots_of(form, placer);
        let (mut last, mut exact) = ([0.0; MAX_SLOTS], [0.0; MAX_SLOTS]);
        for a in 0..free {
            let weight = |k: usize| before.map_or(0.0, |before| f64::from(before[k].1));
            last[a] = slots[a + 1].map_or(0.0, weight);
            exact[a] = form.row[a + 1].1 * one;
        }
        let scale = self.price / (one * one);
        // Of the reference and the others.
        let by_width = slots.map(|slot| slot.map_or(0.0, |k| WIDTH_PULLS[usize::from(widths[MAX_SLOTS + k])]));
        let by_width = by_width.iter().any(|pull| *pull > 0.0).then_some(by_width);
        for pulls in pulls.iter().map(|pull| [*pull; MAX_SLOTS]).chain(by_width) {
            let pull = |a: usize, b: usize| if a == b { pulls[0] + pulls[a + 1] } else { pulls[0] };
            let with_pulls =
                |a: usize, b: usize| form.square[a][b] * scale + if a < free && b < free { pull(a, b) } else { 0.0 };
            let square = std::array::from_fn(|a| std::array::from_fn(|b| with_pulls(a, b)));
            let (mut centre, is_pulled) = (exact, pulls.iter().any(|pull| *pull > 0.0));
            if is_pulled {
                // (scale Q + P) c = scale Q exact + P last.
                let entry = |a: usize, b: usize| form.square[a][b] * scale * exact[b] + pull(a, b) * last[b];
                let sum = |a: usize| if a < free { (0..free).map(|b| entry(a, b)).sum() } else { 0.0 };
                let Some(found) = solved(&square, free, &std::array::from_fn(sum)) else { continue };
                centre = found;
            }
            for whole in nearest_whole(&square, &centre[..free], self.one, if is_pulled { 2 } else { KEPT }) {
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
