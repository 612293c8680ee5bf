//! Pieces that never part from each other share one bone: a wall is one until it breaks.
//!
//! Two pieces on one bone must be moved as well as each alone, up to the noise that each has. Which pairs are tried: those whose
//! bones take one point to the same cell of a grid, in a mixture of several frames. So pieces far apart are found as well, and
//! there are few trials for thousands of pieces.

use std::collections::HashMap;

use glam::DVec3;

use crate::cluster::pieces::body::{Body, Form};
use crate::cluster::pieces::{Piece, SOFT};
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Check};
use crate::solve::random::Random;

/// Side of a cell: bones of small noisy pieces take a point far away to within about this.
const CELL: f64 = 0.02;

/// Frames in the mixture.
const MIXED: usize = 8;

/// Error of a piece on a shared bone over its own noise.
const WORSE: f64 = 3.0;

/// Least noise: rounding of float32 positions.
const LEAST_NOISE: f64 = 5e-6;

/// Pieces between two looks for a cancel.
const AT_ONCE: usize = 256;

/// Joins pieces that never part, and numbers them anew, in order of their first.
pub(crate) fn share(
    labels: &mut [u32],
    pieces: &mut Vec<Piece>,
    kind: BoneKind,
    check: Check<'_>,
) -> Result<(), Cancelled> {
    let mut groups: Vec<Group> = Vec::new();
    let mut cells: HashMap<[i64; 3], Vec<usize>> = HashMap::new();
    let mut numbers = Vec::with_capacity(pieces.len());
    let mixture = Mixture::new(pieces.first().map_or(0, |piece| piece.body.frames.len()));
    for (at, piece) in std::mem::take(pieces).into_iter().enumerate() {
        if at % AT_ONCE == 0 {
            check()?;
        }
        let cell = mixture.cell(&piece);
        let own = Group { piece };
        let mut near: Vec<usize> = around(cell).filter_map(|cell| cells.get(&cell)).flatten().copied().collect();
        near.sort_unstable();
        let joined = near.into_iter().find_map(|g| groups[g].with(&own, kind).map(|joined| (g, joined)));
        match joined {
            Some((g, joined)) => {
                groups[g] = joined;
                numbers.push(g as u32);
            }
            None => {
                numbers.push(groups.len() as u32);
                cells.entry(cell).or_default().push(groups.len());
                groups.push(own);
            }
        }
    }
    labels.iter_mut().filter(|label| **label != SOFT).for_each(|label| *label = numbers[*label as usize]);
    pieces.extend(groups.into_iter().map(|group| group.piece));
    Ok(())
}

/// Cells around a cell, itself among them.
fn around(cell: [i64; 3]) -> impl Iterator<Item = [i64; 3]> {
    (0..27).map(move |k| [cell[0] + k % 3 - 1, cell[1] + k / 3 % 3 - 1, cell[2] + k / 9 - 1])
}

/// Where bones take the origin in several frames, mixed into three numbers.
struct Mixture {
    /// (frame, what each coordinate of each axis counts).
    terms: Vec<(usize, [DVec3; 3])>,
}

impl Mixture {
    fn new(frames: usize) -> Self {
        let mut random = Random::new(1);
        let count = MIXED.min(frames);
        let factor = 1.0 / (3.0 * count.max(1) as f64).sqrt();
        let term = |k: usize| (k * frames / count - 1, std::array::from_fn(|_| random.vector() * factor));
        Self { terms: (1..=count).map(term).collect() }
    }

    fn cell(&self, piece: &Piece) -> [i64; 3] {
        let Piece { body, form, .. } = piece;
        let mut sum = [0.0; 3];
        for (t, factors) in &self.terms {
            let posed = &body.frames[*t];
            let moved = posed.mean - body.linear(form, posed, &glam::DMat3::IDENTITY) * body.rest;
            (0..3).for_each(|k| sum[k] += factors[k].dot(moved));
        }
        sum.map(|x| (x / CELL).floor() as i64)
    }
}

/// Pieces on one bone.
struct Group {
    piece: Piece,
}

impl Group {
    /// Squared error that the vertices may have in a frame on a shared bone.
    fn limit(&self) -> f64 {
        self.piece.body.count * (WORSE * self.piece.noise).max(LEAST_NOISE).powi(2)
    }

    /// Both on one bone, if that is as good.
    fn with(&self, other: &Self, kind: BoneKind) -> Option<Self> {
        let (a, b) = (&self.piece.body, &other.piece.body);
        let frames = a.frames.len();
        let rigid = [self, other].iter().all(|group| group.piece.form == Form::Rigid);
        let fits = |body: &Body, form: &Form, of: &dyn Fn(usize) -> usize| {
            body.follow(form, |at, linear| {
                let (t, mean) = (of(at), body.frames[at].mean);
                [(self, a), (other, b)].iter().all(|(group, part)| {
                    let posed = &part.frames[t];
                    let offset = posed.mean - mean - *linear * (part.rest - body.rest);
                    part.error(posed, linear, offset) <= group.limit()
                })
            })
        };
        if rigid {
            let few: Vec<usize> = (1..=MIXED.min(frames)).map(|k| k * frames / MIXED.min(frames) - 1).collect();
            if !fits(&a.joined(b, few.iter().copied()), &Form::Rigid, &|at| few[at]) {
                return None;
            }
        }
        let body = a.joined(b, 0..frames);
        let forms = if rigid { vec![Form::Rigid] } else { body.forms(kind) };
        let form = forms.into_iter().find(|form| fits(&body, form, &|t| t))?;
        let (noise, squared_error) = (self.piece.noise.max(other.piece.noise), body.total_error(&form));
        Some(Self { piece: Piece { body, form, squared_error, noise } })
    }
}
