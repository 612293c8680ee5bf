//! Pieces: parts of a mesh that move rigidly as they are, found before anything is fitted. Debris, machines, props.
//!
//! 1. Components of the mesh, vertices that lie on each other in all frames counted as one (`component`).
//! 2. A component is a piece if one bone moves it within a tolerance in every frame. Bones that scale, or affine ones, allow pieces
//!    that do as well. A component that is none is taken apart into rigid regions where these cover it (`regions`).
//! 3. Pieces that never part from each other share one bone (`shared`).
//!
//! A few frames are looked at first, so that a soft mesh costs little. All of it is linear in vertices times frames. Where there are
//! to be fewer bones, `merge` says which pieces go together.

pub(crate) mod body;
mod component;
pub(crate) mod merge;
mod regions;
mod shared;
#[cfg(test)]
mod tests;

use glam::{DAffine3, DMat3, DVec3, Vec3};
use rayon::prelude::*;

use crate::cluster::pieces::body::{Body, Form, Source};
use crate::cluster::pieces::component::Components;
use crate::mesh::sequence::MeshSequence;
use crate::model::rig::BoneKind;
use crate::observer::{Cancelled, Check};
use crate::skinning::unit::UnitSpace;

/// Root mean square error of a piece in a frame, at most, in the unit space.
const TOLERANCE: f64 = 5e-4;

/// The same as a share of the piece's own size.
const OWN_TOLERANCE: f64 = 3e-2;

/// Error of a single vertex of a piece, at most.
const MAX_DISTANCE: f64 = 4.0 * TOLERANCE;

/// Fewest vertices of a piece: two alone can always be moved by one bone, but for their distance.
const MIN_VERTICES: usize = 3;

/// Pieces smaller than this are points.
const MIN_EXTENT: f64 = 1e-6;

/// Components larger than this at rest are no points.
const MAX_POINT: f64 = 1e-4;

/// Frames that are looked at first.
const PROBES: usize = 4;

/// Components that are looked at between two looks for a cancel.
const AT_ONCE: usize = 1024;

/// No piece: a soft vertex.
pub(crate) const SOFT: u32 = u32::MAX;

/// A piece.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub body: Body,
    pub form: Form,
    /// Squared error over all vertices and frames.
    pub squared_error: f64,
    /// Largest root mean square error in a frame.
    pub noise: f64,
}

/// Pieces of a mesh.
pub(crate) struct Pieces {
    /// [N] the piece of each vertex, or [`SOFT`].
    pub labels: Vec<u32>,
    pub pieces: Vec<Piece>,
    /// [N] rest pose, where it is not that of the sequence: components that are a point there have the shape of a later frame.
    pub rest: Option<Vec<Vec3>>,
}

/// Finds the pieces of a sequence for bones of a kind; `space` is its unit space. None: an empty list.
pub(crate) fn find(
    sequence: &MeshSequence,
    space: &UnitSpace,
    kind: BoneKind,
    check: Check<'_>,
) -> Result<Pieces, Cancelled> {
    let frames = sequence.frames();
    let mut source = Source { rest: sequence.rest(), frames: &*frames, space };
    let all: Vec<u32> = (0..sequence.frame_count() as u32).collect();
    let probes = probes(all.len());
    let components = Components::new(source, &sequence.surface().topology);
    let rest = unfolded(source, &components, &all);
    source.rest = rest.as_deref().unwrap_or(sequence.rest());
    let candidates: Vec<usize> = (0..components.count()).filter(|&c| components.of(c).len() >= MIN_VERTICES).collect();
    let look = Look { source, kind, all: &all, probes: &probes, components: &components };
    let mut found: Vec<(Vec<u32>, Piece)> = Vec::new();
    for block in candidates.chunks(AT_ONCE) {
        check()?;
        found.extend(block.par_iter().flat_map_iter(|&c| look.pieces(c)).collect::<Vec<_>>());
    }
    let mut labels = vec![SOFT; sequence.vertex_count()];
    let mut pieces = Vec::with_capacity(found.len());
    for (at, (members, piece)) in found.into_iter().enumerate() {
        members.iter().for_each(|&i| labels[i as usize] = at as u32);
        pieces.push(piece);
    }
    shared::share(&mut labels, &mut pieces, kind, check)?;
    Ok(Pieces { labels, pieces, rest })
}

/// The rest pose with a shape for components that are a point there: that of the first frame in which they have their size.
fn unfolded(source: Source<'_>, components: &Components, all: &[u32]) -> Option<Vec<Vec3>> {
    let mut rest: Option<Vec<Vec3>> = None;
    for members in (0..components.count()).map(|c| components.of(c)).filter(|members| members.len() >= MIN_VERTICES) {
        let first = source.rest(members[0]);
        if members.iter().any(|&i| source.rest(i).distance(first) > MAX_POINT) {
            continue;
        }
        let body = Body::gather(source, members, all);
        let largest = body.frames.iter().map(|posed| posed.spread).fold(0.0, f64::max);
        let size = (largest / body.count).sqrt();
        if size < MIN_EXTENT || body.extent() > body::COLLAPSED * size {
            continue;
        }
        let frame = body.frames.iter().position(|posed| posed.spread >= 0.5 * largest).unwrap_or(0) as u32;
        let rest = rest.get_or_insert_with(|| source.rest.to_vec());
        let (low, high) = (members[0] as usize, members[members.len() - 1] as usize + 1);
        source.frames.read(&[frame], low..high, &mut |_, positions| {
            members.iter().for_each(|&i| rest[i as usize] = positions[i as usize - low]);
        });
    }
    rest
}

impl Pieces {
    /// Makes each of a few vertices a piece: its bone moves without turning.
    pub fn add_points(&mut self, sequence: &MeshSequence, space: &UnitSpace, vertices: &[u32]) {
        let frames = sequence.frames();
        let rest = self.rest.as_deref().unwrap_or(sequence.rest());
        let source = Source { rest, frames: &*frames, space };
        let all: Vec<u32> = (0..sequence.frame_count() as u32).collect();
        for &i in vertices {
            self.labels[i as usize] = self.pieces.len() as u32;
            self.pieces.push(Piece::new(Body::gather(source, &[i], &all), Form::Rigid));
        }
    }
}

/// A few frames spread over all of them, the last one among them.
fn probes(frames: usize) -> Vec<u32> {
    let count = PROBES.min(frames);
    (1..=count).map(|k| (k * frames / count - 1) as u32).collect()
}

/// What components are looked at with.
struct Look<'a> {
    source: Source<'a>,
    kind: BoneKind,
    all: &'a [u32],
    probes: &'a [u32],
    components: &'a Components,
}

impl Look<'_> {
    /// The pieces of a component: one, several regions, or none.
    fn pieces(&self, c: usize) -> Vec<(Vec<u32>, Piece)> {
        let members = self.components.of(c);
        if let Some(piece) = self.piece(members) {
            return vec![(members.to_vec(), piece)];
        }
        let distinct = self.components.distinct(c);
        let component = regions::Component {
            source: self.source,
            adjacency: &self.components.adjacency,
            members: &distinct,
            frames: self.all,
            probes: self.probes,
        };
        let Some(regions) = component.regions() else { return Vec::new() };
        let regions = regions.into_iter().map(|region| {
            let members = self.components.with_twins(c, &region);
            self.piece(&members).map(|piece| (members, piece))
        });
        // All of it, or nothing: what is left over would be soft beside links.
        regions.collect::<Option<Vec<_>>>().unwrap_or_default()
    }

    /// Some vertices as one piece.
    fn piece(&self, members: &[u32]) -> Option<Piece> {
        let first = Body::gather(self.source, members, self.probes);
        let tolerance = TOLERANCE.min(OWN_TOLERANCE * first.extent());
        if first.extent() < MIN_EXTENT || !first.forms(self.kind).iter().any(|form| first.fits(form, tolerance)) {
            return None;
        }
        let body = Body::gather(self.source, members, self.all);
        let (form, squared_error, noise) = body.forms(self.kind).into_iter().find_map(|form| {
            let track = Track::new(&body, &form, tolerance)?;
            let near = track.largest_distance(&body, self.source, members, self.all) <= MAX_DISTANCE;
            near.then_some((form, track.squared_error, track.noise))
        })?;
        Some(Piece { body, form, squared_error, noise })
    }
}

/// A bone that follows a body.
struct Track {
    /// [F]
    linears: Vec<DMat3>,
    squared_error: f64,
    /// Largest root mean square error in a frame.
    noise: f64,
}

impl Track {
    /// `None` where the root mean square error in a frame is above `tolerance`.
    fn new(body: &Body, form: &Form, tolerance: f64) -> Option<Self> {
        let mut track = Self { linears: Vec::with_capacity(body.frames.len()), squared_error: 0.0, noise: 0.0 };
        let fits = body.follow(form, |t, linear| {
            let error = body.error(&body.frames[t], linear, DVec3::ZERO);
            track.squared_error += error;
            track.noise = track.noise.max((error / body.count).sqrt());
            track.linears.push(*linear);
            track.noise <= tolerance
        });
        fits.then_some(track)
    }

    /// The largest distance of a vertex from where the bone puts it, over all frames.
    fn largest_distance(&self, body: &Body, source: Source<'_>, members: &[u32], frames: &[u32]) -> f64 {
        let offsets: Vec<DVec3> = members.iter().map(|&i| source.rest(i) - body.rest).collect();
        let mut worst = 0f64;
        source.read(members, frames, &mut |t, position| {
            let (linear, mean) = (self.linears[t], body.frames[t].mean);
            for (&i, u) in members.iter().zip(&offsets) {
                worst = worst.max((position(i) - (linear * *u + mean)).length_squared());
            }
        });
        worst.sqrt()
    }
}

impl Piece {
    /// The error is found from the body.
    pub fn new(body: Body, form: Form) -> Self {
        let (squared_error, noise) = body.errors(&form);
        Self { body, form, squared_error, noise }
    }

    /// [F] transforms in the unit space, frames not centred.
    pub fn transforms(&self) -> Vec<DAffine3> {
        let mut transforms = Vec::with_capacity(self.body.frames.len());
        self.body.follow(&self.form, |t, linear| {
            let translation = self.body.frames[t].mean - *linear * self.body.rest;
            transforms.push(DAffine3::from_mat3_translation(*linear, translation));
            true
        });
        transforms
    }

    /// Whether it is a point in some frame.
    pub fn is_hidden(&self) -> bool {
        self.body.frames.iter().any(|posed| self.body.is_collapsed(posed))
    }

    /// The axes that the bone scales along.
    pub fn axes(&self) -> DMat3 {
        if let Form::Scaled(axes) = self.form { axes } else { DMat3::IDENTITY }
    }
}
