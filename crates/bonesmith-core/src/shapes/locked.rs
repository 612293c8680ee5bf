//! Locked regions: parts that every shape moves rigidly, such as eyeballs and teeth, have a bone of their own, and their vertices no other.
//!
//! Such a piece is a small least squares problem by itself: with second moments `C` of its vertices at rest and `H` between rest and shape
//! (`cluster::pieces::body`) the normal equations of `system` are known. Numbers are removed as long as the piece stays where it is.

use glam::DMat3;

use crate::cluster::pieces::{self, Piece, Pieces, SOFT};
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::{Bone, BoneKind};
use crate::model::shape_bones::{ShapeBones, ShapeKind, ShapeNumber, component};
use crate::model::weights::SparseWeights;
use crate::observer::Cancelled;
use crate::shapes::mirror::Mirror;
use crate::shapes::select::removals;
use crate::shapes::system::{Support, System, conditioned};
use crate::skinning::{Run, UnitSpace};

/// What a piece may be off by for fewer numbers: root mean square in units of the radius, and as a share of its own error with all of them.
const DISTANCE: f64 = 1e-5;
const OWN_SHARE: f64 = 0.01;

/// Fewest soft vertices.
const MIN_SOFT: usize = 4;

/// Pieces of a face with their numbers.
pub(super) struct Locked {
    pieces: Pieces,
    /// Vertices that are in no piece, ascending.
    pub soft: Vec<u32>,
    kind: ShapeKind,
    /// [S] unknowns `piece Q + a`, and their numbers.
    support: Support,
    numbers: Vec<Vec<f64>>,
}

impl Locked {
    /// The pieces of a face; none where it has none, or nothing but them.
    pub fn find(
        shapes: &MeshSequence,
        space: &UnitSpace,
        kind: ShapeKind,
        run: &mut Run<'_>,
    ) -> Result<Option<Self>, Cancelled> {
        let find = |run: &mut Run<'_>| pieces::find(shapes, space, BoneKind::Rigid, &mut || run.report());
        let pieces = run.observed("pieces", find)?;
        let soft: Vec<u32> = (0..).zip(&pieces.labels).filter(|(_, label)| **label == SOFT).map(|(i, _)| i).collect();
        // A part that is a point in the neutral has no shape that a matrix could move.
        if pieces.pieces.is_empty() || soft.len() < MIN_SOFT || pieces.rest.is_some() {
            return Ok(None);
        }
        let mut locked = Self { pieces, soft, kind, support: Vec::new(), numbers: Vec::new() };
        locked.support = locked.choose(shapes.frame_count());
        locked.solve();
        Ok(Some(locked))
    }

    /// Pieces.
    pub fn count(&self) -> usize {
        self.pieces.pieces.len()
    }

    /// Numbers of all pieces.
    pub fn number_count(&self) -> usize {
        self.support.iter().map(Vec::len).sum()
    }

    /// Numbers that keep every piece where all of them would put it.
    fn choose(&self, shapes: usize) -> Support {
        let (q, mut support) = (self.kind.numbers(), vec![Vec::new(); shapes]);
        for (p, piece) in self.pieces.pieces.iter().enumerate() {
            let system = system(piece, self.kind);
            let all: Vec<u32> = (0..q as u32).collect();
            for (s, support) in support.iter_mut().enumerate() {
                let path = removals(&system, s, all.clone());
                let own = (still(piece, s) - path.iter().map(|(cost, _)| cost).sum::<f64>()).max(0.0);
                let allowed = DISTANCE * DISTANCE * piece.body.count + OWN_SHARE * own;
                let mut lost = 0.0;
                let gone = |(cost, _): &&(f64, u32)| {
                    lost += cost;
                    lost <= allowed
                };
                let gone = path.iter().take_while(gone).count();
                support.extend(path[gone..].iter().map(|(_, a)| (p * q) as u32 + a));
            }
        }
        support.iter_mut().for_each(|own| own.sort_unstable());
        support
    }

    /// The best numbers on the support.
    fn solve(&mut self) {
        let q = self.kind.numbers();
        let systems: Vec<System> = self.pieces.pieces.iter().map(|piece| system(piece, self.kind)).collect();
        let of_shape = |(s, unknowns): (usize, &Vec<u32>)| {
            let parts = unknowns.chunk_by(|a, b| *a as usize / q == *b as usize / q);
            let solved = parts.flat_map(|part| {
                let own: Vec<u32> = part.iter().map(|x| x % q as u32).collect();
                systems[part[0] as usize / q].solve_shape(s, &own)
            });
            solved.collect()
        };
        self.numbers = self.support.iter().enumerate().map(of_shape).collect();
    }

    /// Pieces in mirrored pairs; one without an image stays as it is.
    pub fn mirror(&mut self, mirror: &Mirror) {
        let first = |p: u32| self.pieces.labels.iter().position(|label| *label == p);
        let image = |p: usize| {
            let k = mirror.vertex(first(p as u32)?)?;
            (self.pieces.labels[k] != SOFT).then(|| self.pieces.labels[k] as usize)
        };
        let images: Vec<Option<usize>> = (0..self.count()).map(image).collect();
        let both = |p: usize| images[p].filter(|&k| images[k] == Some(p)).unwrap_or(p);
        let bones: Vec<usize> = (0..self.count()).map(both).collect();
        let alone: Vec<bool> = (0..self.count()).map(|p| images[p].is_none_or(|k| images[k] != Some(p))).collect();
        let mirror = mirror.of_bones(bones);
        let q = self.kind.numbers();
        let (before, free) = (self.support.clone(), |x: &u32| alone[*x as usize / q]);
        self.support = mirror.support(std::mem::take(&mut self.support), q);
        for (own, before) in self.support.iter_mut().zip(&before) {
            own.retain(|x| !free(x));
            own.extend(before.iter().filter(|x| free(x)));
            own.sort_unstable();
        }
        self.solve();
        let kept = self.numbers.clone();
        mirror.numbers(&self.support, &mut self.numbers, q);
        for ((numbers, kept), support) in self.numbers.iter_mut().zip(kept).zip(&self.support) {
            for ((x, value), kept) in support.iter().zip(numbers).zip(kept) {
                if free(x) {
                    *value = kept;
                }
            }
        }
        let mut places: Vec<_> = self.pieces.pieces.iter().map(|piece| piece.body.rest).collect();
        mirror.places(&mut places);
        for (p, place) in places.into_iter().enumerate().filter(|(p, _)| !alone[*p]) {
            self.pieces.pieces[p].body.rest = place;
        }
    }

    /// The whole face: bones of the soft vertices, then one for each piece.
    pub fn assembled(self, shapes: &MeshSequence, space: &UnitSpace, soft: ShapeBones) -> ShapeBones {
        let (first, q) = (soft.rig.bone_count(), self.kind.numbers());
        let mut model = soft;
        let mut weights = SparseWeights::new(shapes.vertex_count(), model.rig.weights.slots());
        for (at, &i) in self.soft.iter().enumerate() {
            let row: Vec<(usize, f64)> = model.rig.weights.of(at).map(|(j, w)| (j, f64::from(w))).collect();
            weights.set(i as usize, &row);
        }
        for (i, &label) in self.pieces.labels.iter().enumerate().filter(|(_, label)| **label != SOFT) {
            weights.set(i, &[(first + label as usize, 1.0)]);
        }
        model.rig.weights = weights;
        model.rig.rest = shapes.rest().to_vec();
        model.rig.surface = shapes.surface().clone();
        let digits = self.count().to_string().len().max(2);
        for (p, piece) in self.pieces.pieces.iter().enumerate() {
            let mut world_from_bind = glam::DAffine3::IDENTITY;
            world_from_bind.translation = space.model_point(piece.body.rest);
            let name = format!("piece_{:0digits$}", p + 1);
            model.rig.bones.push(Bone { name, parent: None, world_from_bind, tip: None });
        }
        for (shape, (unknowns, numbers)) in model.shapes.iter_mut().zip(self.support.iter().zip(&self.numbers)) {
            let number = |(x, value): (&u32, &f64)| stored(first + *x as usize / q, *x as usize % q, *value, space);
            shape.numbers.extend(unknowns.iter().zip(numbers).map(number).filter(|x| x.value != 0.0));
        }
        model.set_first_clip();
        model
    }
}

/// A number as models store it: translations are lengths.
pub(super) fn stored(bone: usize, component: usize, value: f64, space: &UnitSpace) -> ShapeNumber {
    let scale = if component < 3 { space.sphere.radius } else { 1.0 };
    ShapeNumber { bone: bone as u16, component: component as u8, value: (value * scale) as f32 }
}

/// Squared error of a piece that does not move.
fn still(piece: &Piece, s: usize) -> f64 {
    let posed = &piece.body.frames[s];
    let (c, h) = (piece.body.scatter, posed.cross);
    let trace = |m: &DMat3| m.x_axis.x + m.y_axis.y + m.z_axis.z;
    let turned = (posed.spread - 2.0 * trace(&h) + trace(&c)).max(0.0);
    turned + piece.body.count * posed.mean.distance_squared(piece.body.rest)
}

/// The normal equations of a piece, about its middle.
fn system(piece: &Piece, kind: ShapeKind) -> System {
    let (q, body) = (kind.numbers(), &piece.body);
    let components: Vec<[[f64; 4]; 3]> = (0..q).map(component).collect();
    let moment = |c: usize, d: usize| match (c, d) {
        (3, 3) => body.count,
        (3, _) | (_, 3) => 0.0,
        _ => body.scatter.col(d)[c],
    };
    let entry = |a: &[[f64; 4]; 3], b: &[[f64; 4]; 3]| {
        let row = |r: usize| (0..4).map(|c| (0..4).map(|d| a[r][c] * moment(c, d) * b[r][d]).sum::<f64>()).sum::<f64>();
        (0..3).map(row).sum::<f64>()
    };
    let mut gram: Vec<f64> = (0..q * q).map(|at| entry(&components[at / q], &components[at % q])).collect();
    conditioned(&mut gram, q);
    let right = body.frames.iter().flat_map(|posed| {
        let (linear, shift) = (posed.cross - body.scatter, (posed.mean - body.rest) * body.count);
        let target = move |r: usize, c: usize| if c == 3 { shift[r] } else { linear.col(c)[r] };
        let components = &components;
        (0..q).map(move |a| {
            let row = |r: usize| (0..4).map(|c| components[a][r][c] * target(r, c)).sum::<f64>();
            (0..3).map(row).sum::<f64>()
        })
    });
    let right = right.collect();
    System { kind, side: q, shapes: body.frames.len(), components, gram, right }
}
