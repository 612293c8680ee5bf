//! The measures of quality, each implemented once.
//!
//! | measure | definition |
//! |---|---|
//! | `e_rms` | `1000 |A - A~|_F / sqrt(3 N F)` in units of the rest pose's smallest enclosing sphere [Kavan2010 s.5] |
//! | `rmse_percent` | `100 sqrt(mean squared vertex distance) / bounding box diagonal of the rest pose` [Le2014 s.3.10, table 3.1] |
//! | `max_error` | largest vertex distance, in thousandths of the sphere radius and in model units |
//! | `normal_degrees` | mean angle between true and reconstructed vertex normals, both from positions |
//! | `skinned_normals` | mean angle between true normals and stored ones deformed as engines do (`skinned`) |
//! | `skinned_tangents` | the same for tangents, where there are texture coordinates |
//! | `p999_error` | distance that 99.9 % of all vertices and frames stay below (`tail`) |
//! | `kg_error` | `100 |A - A~|_F / |A - E(A)|_F`, `E` the mean of each frame [Karni2004 s.4] |
//! | `sted` | relative differences of edge lengths in space and in time (`edges`) [Vasa2011] |
//! | `velocity_error` | E_RMS of the steps from frame to frame (`motion`) |
//! | `contacts` | how far vertices move that rest in the original (`motion`) |
//! | `verdict` | which regions are visibly off in which frames (`verdict`) |

mod angle;
mod edges;
mod motion;
mod regions;
mod skinned;
mod spread;
mod tail;
mod verdict;

use glam::{DVec3, Vec3};
use rayon::prelude::*;
use serde::Serialize;

use crate::deform::posed;
use crate::mesh::normals::vertex_normals;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::unit_radius;
use crate::model::{ModelError, ModelRef, Rig};

use angle::sum_of_angles;
use edges::Edges;
pub use edges::{STED_C, STED_DT, Sted};
use motion::Motion;
pub use motion::{CONTACT_FRAMES, CONTACT_RADIUS, Contacts};
use regions::Regions;
use skinned::{Angles, Skinned};
pub use skinned::{SkinnedNormals, SkinnedTangents};
use spread::FrameSpread;
pub use spread::{FrameSpreads, Histogram, Percentiles, Spread};
use tail::Tail;
use verdict::Seen;
pub use verdict::{
    Cause, OBVIOUS, VISIBLE_DEGREES, VISIBLE_DISTANCE, VISIBLE_SPIKE, Verdict, Visibility, VisiblePlace,
};

/// Frames read and compared at once.
const FRAME_BLOCK: usize = 16;

/// How well a model reproduces a sequence.
#[derive(Clone, Debug, Serialize)]
pub struct Metrics {
    /// E_RMS, thousandths of the sphere radius.
    pub e_rms: f64,
    /// RMSE in percent of the bounding box diagonal.
    pub rmse_percent: f64,
    /// Largest vertex distance, thousandths of the sphere radius.
    pub max_error: f64,
    /// Largest vertex distance in model units.
    pub max_error_model_units: f64,
    /// Where it is: (frame, vertex).
    pub max_error_at: (usize, usize),
    /// 99.9 % of all distances are at most this, thousandths of the sphere radius; exact to 1 part in 2000.
    pub p999_error: f64,
    /// KG error in percent; `None` where every frame is a single point.
    pub kg_error: Option<f64>,
    /// Edge lengths in space and time; `None` without faces.
    pub sted: Option<Sted>,
    /// E_RMS of the steps from frame to frame, thousandths of the sphere radius per frame; `None` with one frame.
    pub velocity_error: Option<f64>,
    /// Contacts that slide; `None` where nothing rests.
    pub contacts: Option<Contacts>,
    /// What a viewer notices.
    pub verdict: Verdict,
    /// Mean angle between vertex normals, in degrees; `None` for a point cloud.
    pub normal_degrees: Option<f64>,
    /// Normals as engines compute them; `None` without faces, and for models other than rigs.
    pub skinned_normals: Option<SkinnedNormals>,
    /// Tangents as engines compute them; `None` without texture coordinates too.
    pub skinned_tangents: Option<SkinnedTangents>,
    /// Radius of the rest pose's smallest enclosing sphere, the unit of `e_rms` and `max_error`.
    pub radius_model_units: f64,
    /// [F] E_RMS of each frame alone.
    pub per_frame: Vec<f64>,
    /// [F] mean angle of the normals as engines compute them in each frame alone, in degrees; empty where there are none.
    pub shading_per_frame: Vec<f64>,
    /// [N] E_RMS of each vertex alone.
    pub per_vertex: Vec<f64>,
    /// Distances by vertex and frame, in model units.
    pub spread: Spread,
}

/// Why a model and a sequence cannot be compared.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it all")]
#[non_exhaustive]
pub enum MetricsError {
    #[error("the rig has {rig} vertices, the sequence {sequence}")]
    VertexCount { rig: usize, sequence: usize },
    #[error("clip {clip:?} of the rig has {rig} frames, the sequence {sequence}")]
    FrameCount { clip: String, rig: usize, sequence: usize },
    #[error("the rig has no animation to compare")]
    NoClip,
    #[error(transparent)]
    Unsound(#[from] ModelError),
}

/// Compares one clip of a model with a sequence, frame by frame. The unit is the *sequence's* rest pose.
pub fn evaluate<'a>(
    model: impl Into<ModelRef<'a>>,
    clip: usize,
    sequence: &MeshSequence,
) -> Result<Metrics, MetricsError> {
    evaluate_clips(model, &[clip], sequence)
}

/// As [`evaluate`], of several clips: the frames of the sequence are theirs, one clip after the other.
pub fn evaluate_clips<'a>(
    model: impl Into<ModelRef<'a>>,
    clips: &[usize],
    sequence: &MeshSequence,
) -> Result<Metrics, MetricsError> {
    let model = model.into();
    let names = match model {
        ModelRef::ShapeBones(face) if clips == [0] => face.names(),
        _ => Vec::new(),
    };
    comparison(model, clips, sequence, &names, None)
}

/// As [`evaluate_clips`], where the sequence is what another rig shows in the same clips: normals are compared with those that it shows, not with
/// those of its posed surface.
pub fn evaluate_beside<'a>(
    model: impl Into<ModelRef<'a>>,
    clips: &[usize],
    sequence: &MeshSequence,
    source: &Rig,
) -> Result<Metrics, MetricsError> {
    comparison(model.into(), clips, sequence, &[], Some(source))
}

/// `shapes` are the names of the frames, where these are shapes.
fn comparison(
    model: ModelRef<'_>,
    clips: &[usize],
    sequence: &MeshSequence,
    shapes: &[String],
    source: Option<&Rig>,
) -> Result<Metrics, MetricsError> {
    let all = model.clips();
    let (n, f) = (sequence.vertex_count(), sequence.frame_count());
    if clips.is_empty() || clips.iter().any(|&clip| clip >= all.len()) {
        return Err(MetricsError::NoClip);
    }
    if model.vertex_count() != n {
        return Err(MetricsError::VertexCount { rig: model.vertex_count(), sequence: n });
    }
    let frames = |&clip: &usize| (0..all[clip].frame_count()).map(move |t| (clip, t));
    let places: Vec<(usize, usize)> = clips.iter().flat_map(frames).collect();
    if places.len() != f {
        let clip = clips.iter().map(|&clip| all[clip].name).collect::<Vec<_>>().join(", ");
        return Err(MetricsError::FrameCount { clip, rig: places.len(), sequence: f });
    }
    model.check()?;
    let cuts = (0..f).filter(|&t| places[t].1 == 0 || !shapes.is_empty()).collect();
    let skinned = Skinned::new(model, places.clone());
    let skinned = skinned.map(|skinned| match source {
        Some(source) => skinned.beside(source),
        None => skinned,
    });
    let comparison = Comparison { sequence, regions: Regions::new(Some(model), sequence), cuts, shapes, skinned };
    Ok(comparison.run(|t| posed(model, places[t].0, places[t].1)))
}

/// Compares a model with the shapes of a face: frame `s` of the first clip is shape `s` alone. Frames do not follow each other, so that nothing is
/// measured in time; the verdict has the names of the shapes. For bones driven by shapes [`evaluate`] does the same.
pub fn evaluate_shapes<'a>(
    model: impl Into<ModelRef<'a>>,
    names: &[String],
    shapes: &MeshSequence,
) -> Result<Metrics, MetricsError> {
    comparison(model.into(), &[0], shapes, names, None)
}

/// Compares a sequence with reconstructed frames. Steps between the clips of the sequence do not count as motion.
pub fn compare(sequence: &MeshSequence, reconstruct: impl Fn(usize) -> Vec<Vec3> + Sync) -> Metrics {
    let regions = Regions::new(None, sequence);
    let cuts = sequence.clips().iter().map(|clip| clip.frames.start).collect();
    Comparison { sequence, regions, cuts, shapes: &[], skinned: None }.run(reconstruct)
}

/// What is compared.
struct Comparison<'a> {
    sequence: &'a MeshSequence,
    regions: Regions,
    /// Frames that do not follow the one before.
    cuts: Vec<usize>,
    /// [F] names of frames that are shapes.
    shapes: &'a [String],
    skinned: Option<Skinned<'a>>,
}

impl Comparison<'_> {
    fn run(self, reconstruct: impl Fn(usize) -> Vec<Vec3> + Sync) -> Metrics {
        let Self { sequence, regions, cuts, shapes, skinned } = self;
        let (n, f) = (sequence.vertex_count(), sequence.frame_count());
        let topology = &sequence.surface().topology;
        let (triangles, edges) = (topology.vertex_triangles(), Edges::new(topology, n));
        let unit = Unit::new(sequence.rest());
        let source = sequence.frames();
        let mut total = Sums::new(n, Seen::new(regions, unit.radius, shapes));
        let mut motion = Motion::new(n, unit.radius, unit.diagonal);
        let pieces = motion::pieces(f, &cuts);
        // A block of frames at a time, reduced in frame order: the same sums with any number of threads.
        for piece in &pieces {
            motion.cut();
            for block in piece.clone().map(|t| t as u32).collect::<Vec<_>>().chunks(FRAME_BLOCK) {
                let mut truth = Vec::with_capacity(block.len());
                source.read(block, 0..n, &mut |_, positions| truth.push(positions.to_vec()));
                let frame = |(&t, truth): (&u32, &Vec<Vec3>)| {
                    let posed = reconstruct(t as usize);
                    let angles = skinned.as_ref().map(|skinned| skinned.angles(t as usize, truth)).unwrap_or_default();
                    (FrameErrors::new(t as usize, truth, &posed, &triangles, &edges, angles), posed)
                };
                let found: Vec<(FrameErrors, Vec<Vec3>)> = block.par_iter().zip(&truth).map(frame).collect();
                let (frames, posed): (Vec<FrameErrors>, Vec<Vec<Vec3>>) = found.into_iter().unzip();
                let shaded = skinned.as_ref().map_or(&[][..], Skinned::vertices);
                frames.into_iter().for_each(|frame| total.add(frame, shaded));
                motion.add(truth, posed);
            }
        }
        total.finish(f, &unit, !triangles.is_empty(), motion, f - pieces.len().min(f))
    }
}

/// Sizes of the rest pose.
struct Unit {
    radius: f64,
    diagonal: f64,
}

impl Unit {
    fn new(rest: &[Vec3]) -> Self {
        let diagonal = diagonal(rest);
        Self { radius: unit_radius(rest), diagonal: if diagonal > 0.0 { diagonal } else { 1.0 } }
    }
}

/// Squared errors of one frame.
struct FrameErrors {
    frame: usize,
    /// [N] squared distance.
    squared: Vec<f32>,
    sum: f64,
    worst: (f64, usize),
    /// Of squared distances from the mean of the frame.
    extent: f64,
    angle_sum: f64,
    angle_count: usize,
    angles: Angles,
    tangents: Angles,
    /// Sum of deviations of edges, and of how many vertices.
    edges: (f64, usize),
    spread: FrameSpread,
    histogram: Histogram,
}

impl FrameErrors {
    fn new(
        frame: usize,
        truth: &[Vec3],
        posed: &[Vec3],
        triangles: &[[u32; 3]],
        edges: &Edges,
        [angles, tangents]: [Angles; 2],
    ) -> Self {
        let mut worst = (0.0, 0);
        let mut sum = 0.0;
        let squared = truth.iter().zip(posed).enumerate().map(|(i, (a, b))| {
            let d = a.as_dvec3().distance_squared(b.as_dvec3());
            sum += d;
            if d > worst.0 {
                worst = (d, i);
            }
            d as f32
        });
        let squared: Vec<f32> = squared.collect();
        let (angle_sum, angle_count) =
            sum_of_angles(&vertex_normals(truth, triangles), &vertex_normals(posed, triangles));
        let spread = FrameSpread::new(&squared, sum, worst.0);
        let histogram = Histogram::of_roots(&squared, worst.0);
        let (extent, edges) = (extent(truth), edges.deviation(truth, posed));
        Self { frame, squared, sum, worst, extent, angle_sum, angle_count, angles, tangents, edges, spread, histogram }
    }
}

/// Sum of squared distances from the mean position.
fn extent(positions: &[Vec3]) -> f64 {
    let mean = positions.iter().map(|p| p.as_dvec3()).sum::<DVec3>() / positions.len().max(1) as f64;
    positions.iter().map(|p| p.as_dvec3().distance_squared(mean)).sum()
}

/// Errors of all frames so far.
struct Sums<'a> {
    per_frame: Vec<f64>,
    per_vertex: Vec<f64>,
    /// [N] largest squared distance.
    largest: Vec<f32>,
    worst: (f64, usize, usize),
    extent: f64,
    angle_sum: f64,
    angle_count: usize,
    angles: Angles,
    /// [F] mean angles in degrees.
    shading: Vec<f64>,
    tangents: Angles,
    edges: (f64, usize),
    frames: FrameSpreads,
    histogram: Histogram,
    tail: Tail,
    seen: Seen<'a>,
}

impl<'a> Sums<'a> {
    fn new(n: usize, seen: Seen<'a>) -> Self {
        Self {
            per_frame: Vec::new(),
            per_vertex: vec![0.0; n],
            largest: vec![0.0; n],
            worst: (0.0, 0, 0),
            extent: 0.0,
            angle_sum: 0.0,
            angle_count: 0,
            angles: Angles::default(),
            shading: Vec::new(),
            tangents: Angles::default(),
            edges: (0.0, 0),
            frames: FrameSpreads::default(),
            histogram: Histogram::default(),
            tail: Tail::new(),
            seen,
        }
    }

    /// Adds a frame; `shaded` has the vertices of its skinned normals.
    fn add(&mut self, frame: FrameErrors, shaded: &[u32]) {
        self.per_frame.push(frame.sum);
        self.tail.add(&frame.squared);
        self.seen.add(&frame.squared, shaded, &frame.angles.each);
        self.extent += frame.extent;
        self.edges = (self.edges.0 + frame.edges.0, self.edges.1 + frame.edges.1);
        for ((sum, largest), d) in self.per_vertex.iter_mut().zip(&mut self.largest).zip(&frame.squared) {
            *sum += f64::from(*d);
            *largest = largest.max(*d);
        }
        if frame.worst.0 > self.worst.0 {
            self.worst = (frame.worst.0, frame.frame, frame.worst.1);
        }
        self.angle_sum += frame.angle_sum;
        self.angle_count += frame.angle_count;
        self.angles.add(&frame.angles);
        self.shading.push(frame.angles.mean_degrees().unwrap_or(0.0));
        self.tangents.add(&frame.tangents);
        self.frames.push(&frame.spread);
        self.histogram.add(frame.histogram);
    }

    /// With `steps` pairs of frames that follow each other.
    fn finish(self, f: usize, unit: &Unit, has_faces: bool, motion: Motion, steps: usize) -> Metrics {
        let (n, radius) = (self.per_vertex.len(), unit.radius);
        let e_rms = |sum: f64, points: usize| 1000.0 / radius * (sum / (3 * points) as f64).sqrt();
        let total: f64 = self.per_frame.iter().sum();
        let largest = self.worst.0.sqrt();
        let vertex_rms: Vec<f32> = self.per_vertex.iter().map(|&s| (s / f as f64).sqrt() as f32).collect();
        let spread = Spread {
            percentiles: Percentiles::of(&vertex_rms),
            vertex_rms,
            vertex_max: self.largest.iter().map(|d| d.sqrt()).collect(),
            frames: self.frames,
            histogram: self.histogram,
        };
        Metrics {
            e_rms: e_rms(total, n * f),
            rmse_percent: 100.0 * (total / (n * f) as f64).sqrt() / unit.diagonal,
            max_error: 1000.0 * largest / radius,
            max_error_model_units: largest,
            max_error_at: (self.worst.1, self.worst.2),
            p999_error: 1000.0 * self.tail.quantile(0.999, largest) / radius,
            kg_error: (self.extent > 0.0).then(|| 100.0 * (total / self.extent).sqrt()),
            sted: (self.edges.1 > 0).then(|| Sted::new(self.edges.0 / self.edges.1 as f64, motion.time_edges(steps))),
            velocity_error: motion.velocity_error(steps).map(|error| 1000.0 * error / radius),
            contacts: motion.contacts(radius),
            verdict: self.seen.finish(),
            normal_degrees: (has_faces && self.angle_count > 0)
                .then(|| (self.angle_sum / self.angle_count as f64).to_degrees()),
            shading_per_frame: if self.angles.mean_degrees().is_some() { self.shading } else { Vec::new() },
            skinned_normals: self.angles.finish(),
            skinned_tangents: self.tangents.finish_tangents(),
            radius_model_units: radius,
            per_frame: self.per_frame.iter().map(|&s| e_rms(s, n)).collect(),
            per_vertex: self.per_vertex.iter().map(|&s| e_rms(s, f)).collect(),
            spread,
        }
    }
}

fn diagonal(rest: &[Vec3]) -> f64 {
    let low = rest.iter().fold(Vec3::INFINITY, |a, b| a.min(*b));
    let high = rest.iter().fold(Vec3::NEG_INFINITY, |a, b| a.max(*b));
    high.as_dvec3().distance(low.as_dvec3())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::{RawFrame, RawSequence};
    use crate::mesh::surface::Surface;
    use crate::mesh::topology::Topology;

    #[test]
    fn a_known_offset_gives_known_figures() {
        let rest = vec![Vec3::X, -Vec3::X, Vec3::Y, -Vec3::Y];
        let frame = |positions: Vec<Vec3>| RawFrame { positions, ..RawFrame::default() };
        let sequence = MeshSequence::try_from(RawSequence {
            rest: Some(frame(rest.clone())),
            frames: vec![frame(rest.clone()), frame(rest.clone())],
            surface: Surface::bare(Topology::from_triangles(&[[0, 2, 1], [0, 1, 3]])),
            ..RawSequence::default()
        })
        .unwrap();
        // Vertex 2 is off by 0.03 along z in frame 1 only.
        let metrics = compare(&sequence, |t| {
            let mut frame = rest.clone();
            frame[2].z += 0.03 * t as f32;
            frame
        });
        let sum = 0.03f64 * 0.03;
        assert!((metrics.e_rms - 1000.0 * (sum / (3.0 * 8.0)).sqrt()).abs() < 1e-5);
        assert!((metrics.rmse_percent - 100.0 * (sum / 8.0).sqrt() / 8f64.sqrt()).abs() < 1e-6);
        assert!((metrics.max_error - 30.0).abs() < 1e-4);
        assert_eq!(metrics.max_error_at, (1, 2));
        assert!(metrics.normal_degrees.unwrap() > 0.0);
        assert_eq!(metrics.per_frame[0], 0.0);
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        use crate::model::Model;
        use crate::model::rig::RigError;
        let made = crate::synthetic::posed_rig(5, &crate::synthetic::PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let model = Model::from(made.rig.clone());
        assert_eq!(evaluate(&model, 0, &sequence).unwrap().e_rms, evaluate(&made.rig, 0, &sequence).unwrap().e_rms);
        assert_eq!(evaluate(&model, 7, &sequence).unwrap_err(), MetricsError::NoClip);
        assert_eq!(evaluate(&sequence, 0, &sequence).unwrap().max_error, 0.0);
        let short = sequence.clone().with_frames(0..1);
        assert!(matches!(evaluate(&model, 0, &short), Err(MetricsError::FrameCount { sequence: 1, .. })));
        let mut broken = made.rig;
        broken.clips[0].posed_from_rest.pop();
        let refused = evaluate(&broken, 0, &sequence).unwrap_err();
        assert!(matches!(refused, MetricsError::Unsound(ModelError::Rig(RigError::ClipSize { .. }))), "{refused}");
    }

    #[test]
    fn the_spread_is_that_of_all_distances() {
        let made = crate::synthetic::posed_rig(5, &crate::synthetic::PosedRigParams::default());
        let sequence = MeshSequence::try_from(made.sequence).unwrap();
        let off = |t: usize, i: usize| 0.01 * (((t * 37 + i * 11) % 23) as f32).powi(2);
        let posed = |t: usize| sequence.frame(t).iter().enumerate().map(|(i, p)| *p + Vec3::X * off(t, i)).collect();
        let metrics = compare(&sequence, posed);
        let (n, f) = (sequence.vertex_count(), sequence.frame_count());
        let distance = |t: usize, i: usize| f64::from(posed(t)[i].distance(sequence.frame(t)[i]));
        let spread = &metrics.spread;
        for i in [0, 1, n / 2, n - 1] {
            let all: Vec<f64> = (0..f).map(|t| distance(t, i)).collect();
            let rms = (all.iter().map(|d| d * d).sum::<f64>() / f as f64).sqrt();
            assert!((f64::from(spread.vertex_rms[i]) - rms).abs() < 1e-5 * rms.max(1e-3), "vertex {i}");
            let largest = all.iter().fold(0.0f64, |a, &b| a.max(b));
            assert!((f64::from(spread.vertex_max[i]) - largest).abs() < 1e-5 * largest, "vertex {i}");
        }
        let one: Vec<f64> = (0..n).map(|i| distance(1, i)).collect();
        assert!((spread.frames.max[1] - one.iter().fold(0.0, |a: f64, &b| a.max(b))).abs() < 1e-5);
        let below = one.iter().filter(|d| **d < spread.frames.median[1] - 1e-6).count();
        let above = one.iter().filter(|d| **d > spread.frames.median[1] + 1e-6).count();
        assert!(below <= n / 2 && above <= n / 2, "{below} {above} of {n}");
        // The same figures by another way: E_RMS from the frames, the count from the bars.
        let mean = spread.frames.rms.iter().map(|r| r * r).sum::<f64>() / f as f64;
        assert!(
            (1000.0 / metrics.radius_model_units * (mean / 3.0).sqrt() - metrics.e_rms).abs() < 1e-9 * metrics.e_rms
        );
        assert_eq!(spread.histogram.counts.iter().sum::<u64>(), (n * f) as u64);
        assert!(spread.percentiles.p50 <= spread.percentiles.p90 && spread.percentiles.p95 <= spread.percentiles.p99);
    }
}
