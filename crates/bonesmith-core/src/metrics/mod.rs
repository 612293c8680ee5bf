//! The measures of quality, each implemented once.
//!
//! | measure | definition |
//! |---|---|
//! | `e_rms` | `1000 |A - A~|_F / sqrt(3 N F)` in units of the rest pose's smallest enclosing sphere [Kavan2010 s.5] |
//! | `rmse_percent` | `100 sqrt(mean squared vertex distance) / bounding box diagonal of the rest pose` [Le2014 s.3.10, table 3.1] |
//! | `max_error` | largest vertex distance, in thousandths of the sphere radius and in model units |
//! | `normal_degrees` | mean angle between true and reconstructed vertex normals, both from positions |
//! | `skinned_normals` | mean angle between true normals and stored ones deformed as engines do (`skinned`) |

mod skinned;
mod spread;

use glam::{DVec3, Vec3};
use rayon::prelude::*;
use serde::Serialize;

use crate::deform::posed;
use crate::mesh::normals::vertex_normals;
use crate::mesh::sequence::MeshSequence;
use crate::mesh::sphere::unit_radius;
use crate::model::{ModelError, ModelRef};

pub use skinned::SkinnedNormals;
use skinned::{Angles, Skinned};
use spread::FrameSpread;
pub use spread::{FrameSpreads, Histogram, Percentiles, Spread};

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
    /// Mean angle between vertex normals, in degrees; `None` for a point cloud.
    pub normal_degrees: Option<f64>,
    /// Normals as engines compute them; `None` without faces, and for models other than rigs.
    pub skinned_normals: Option<SkinnedNormals>,
    /// Radius of the rest pose's smallest enclosing sphere, the unit of `e_rms` and `max_error`.
    pub radius_model_units: f64,
    /// [F] E_RMS of each frame alone.
    pub per_frame: Vec<f64>,
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
    let model = model.into();
    let clips = model.clips();
    let of_model = clips.get(clip).ok_or(MetricsError::NoClip)?;
    let (n, f) = (sequence.vertex_count(), sequence.frame_count());
    if model.vertex_count() != n {
        return Err(MetricsError::VertexCount { rig: model.vertex_count(), sequence: n });
    }
    if of_model.frame_count() != f {
        let clip = of_model.name.to_owned();
        return Err(MetricsError::FrameCount { clip, rig: of_model.frame_count(), sequence: f });
    }
    model.check()?;
    Ok(compare_shaded(sequence, |t| posed(model, clip, t), Skinned::new(model, clip, sequence).as_ref()))
}

/// Compares a sequence with reconstructed frames.
pub fn compare(sequence: &MeshSequence, reconstruct: impl Fn(usize) -> Vec<Vec3> + Sync) -> Metrics {
    compare_shaded(sequence, reconstruct, None)
}

fn compare_shaded(
    sequence: &MeshSequence,
    reconstruct: impl Fn(usize) -> Vec<Vec3> + Sync,
    skinned: Option<&Skinned<'_>>,
) -> Metrics {
    let (n, f) = (sequence.vertex_count(), sequence.frame_count());
    let triangles = sequence.surface().topology.vertex_triangles();
    let radius = unit_radius(sequence.rest());
    let source = sequence.frames();
    // A block of frames at a time, reduced in frame order: the same sums with any number of threads.
    let mut total = Sums::new(n);
    for block in (0..f as u32).collect::<Vec<_>>().chunks(FRAME_BLOCK) {
        let mut truth = Vec::with_capacity(block.len());
        source.read(block, 0..n, &mut |_, positions| truth.push(positions.to_vec()));
        let frame = |(&t, truth): (&u32, &Vec<Vec3>)| {
            let angles = skinned.map(|skinned| skinned.angles(t as usize, truth)).unwrap_or_default();
            FrameErrors { angles, ..FrameErrors::new(t as usize, truth, &reconstruct(t as usize), &triangles) }
        };
        let frames: Vec<FrameErrors> = block.par_iter().zip(&truth).map(frame).collect();
        frames.into_iter().for_each(|frame| total.add(frame));
    }
    total.finish(f, radius, diagonal(sequence.rest()), !triangles.is_empty())
}

/// Squared errors of one frame.
struct FrameErrors {
    frame: usize,
    /// [N] squared distance.
    squared: Vec<f32>,
    sum: f64,
    worst: (f64, usize),
    angle_sum: f64,
    angle_count: usize,
    angles: Angles,
    spread: FrameSpread,
    histogram: Histogram,
}

impl FrameErrors {
    fn new(frame: usize, truth: &[Vec3], posed: &[Vec3], triangles: &[[u32; 3]]) -> Self {
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
        let (angle_sum, angle_count) = angles(&vertex_normals(truth, triangles), &vertex_normals(posed, triangles));
        let spread = FrameSpread::new(&squared, sum, worst.0);
        let histogram = Histogram::of_roots(&squared, worst.0);
        let angles = Angles::default();
        Self { frame, squared, sum, worst, angle_sum, angle_count, angles, spread, histogram }
    }
}

/// Errors of all frames so far.
struct Sums {
    per_frame: Vec<f64>,
    per_vertex: Vec<f64>,
    /// [N] largest squared distance.
    largest: Vec<f32>,
    worst: (f64, usize, usize),
    angle_sum: f64,
    angle_count: usize,
    angles: Angles,
    frames: FrameSpreads,
    histogram: Histogram,
}

impl Sums {
    fn new(n: usize) -> Self {
        Self {
            per_frame: Vec::new(),
            per_vertex: vec![0.0; n],
            largest: vec![0.0; n],
            worst: (0.0, 0, 0),
            angle_sum: 0.0,
            angle_count: 0,
            angles: Angles::default(),
            frames: FrameSpreads::default(),
            histogram: Histogram::default(),
        }
    }

    fn add(&mut self, frame: FrameErrors) {
        self.per_frame.push(frame.sum);
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
        self.frames.push(&frame.spread);
        self.histogram.add(frame.histogram);
    }

    fn finish(self, f: usize, radius: f64, diagonal: f64, has_faces: bool) -> Metrics {
        let n = self.per_vertex.len();
        let e_rms = |sum: f64, points: usize| 1000.0 / radius * (sum / (3 * points) as f64).sqrt();
        let total: f64 = self.per_frame.iter().sum();
        let diagonal = if diagonal > 0.0 { diagonal } else { 1.0 };
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
            rmse_percent: 100.0 * (total / (n * f) as f64).sqrt() / diagonal,
            max_error: 1000.0 * self.worst.0.sqrt() / radius,
            max_error_model_units: self.worst.0.sqrt(),
            max_error_at: (self.worst.1, self.worst.2),
            normal_degrees: (has_faces && self.angle_count > 0)
                .then(|| (self.angle_sum / self.angle_count as f64).to_degrees()),
            skinned_normals: self.angles.finish(),
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

/// Sum of angles in radians, and how many vertices have a normal in both.
fn angles(a: &[DVec3], b: &[DVec3]) -> (f64, usize) {
    let pairs = a.iter().zip(b).filter(|(a, b)| a.length_squared() > 0.0 && b.length_squared() > 0.0);
    // atan2 keeps full precision near 0, where acos of a dot product loses half the digits.
    pairs.fold((0.0, 0), |(sum, count), (a, b)| (sum + a.cross(*b).length().atan2(a.dot(*b)), count + 1))
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
