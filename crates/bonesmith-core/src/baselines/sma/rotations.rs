//! How triangles rotate relative to the rest pose over the frames, as points.

use rayon::prelude::*;

use crate::cluster::labels::majority;
use crate::cluster::mean_shift::Points;
use crate::cluster::triangles;
use crate::mesh::Topology;
use crate::skinning::{FitError, Problem};
use crate::solve::transform::nearest_rotation;

/// Triangles that make a bone: with so many the published bandwidth gives the published numbers of bones.
const MIN_TRIANGLES: f64 = 40.0;

/// Of a large mesh at least so many of those that were picked, or chance decides.
const MIN_PICKED: f64 = 5.0;

/// The same for small meshes, as a share.
const MIN_SHARE: f64 = 0.01;

/// Triangles and the points that stand for their rotations.
pub(super) struct TriangleRotations {
    /// [M] vertices of each triangle.
    triangles: Vec<[usize; 3]>,
    /// [M, d] entries of the triangles' rotation matrices.
    pub points: Points,
    /// Triangles of the mesh that have a rotation.
    all: usize,
}

impl TriangleRotations {
    /// Of at most `max_triangles` triangles and `max_frames` frames, evenly picked.
    pub fn new(
        problem: &Problem,
        topology: &Topology,
        max_triangles: usize,
        max_frames: usize,
    ) -> Result<Self, FitError> {
        let sound = triangles::sound(&problem.rest, topology);
        if sound.is_empty() {
            let text = "the method sma needs triangles that can rotate: this mesh has no face with an area";
            return Err(FitError::Unsuited(text.into()));
        }
        let picked = |of: usize, most: usize| (0..of.min(most)).map(move |k| k * of / of.min(most));
        let triangles: Vec<[usize; 3]> = picked(sound.len(), max_triangles).map(|k| sound[k]).collect();
        let frames: Vec<usize> = picked(problem.frames(), max_frames).collect();
        let rotations = |triangle: &[usize; 3]| {
            let gradient = triangles::gradient(problem, *triangle);
            frames.iter().flat_map(move |&t| nearest_rotation(&gradient(t)).to_cols_array()).map(|x| x as f32)
        };
        let points = triangles.par_iter().flat_map_iter(rotations).collect();
        Ok(Self { points: Points::new(points, 9 * frames.len()), triangles, all: sound.len() })
    }

    /// Share of the triangles that a cluster needs.
    pub fn large_share(&self) -> f64 {
        let share = (MIN_TRIANGLES / self.all as f64).min(MIN_SHARE);
        if self.triangles.len() < self.all { share.max(MIN_PICKED / self.triangles.len() as f64) } else { share }
    }

    /// Distance between points that stands for a bandwidth: `h = 9 F e` [Le2014 s.3.10.2].
    pub fn reach(&self, bandwidth: f64) -> f64 {
        bandwidth * self.points.dimension() as f64
    }

    /// [N] cluster of most triangles of a vertex, of the first `count` clusters; `None` where there is none.
    pub fn vertex_labels(&self, vertices: usize, labels: &[usize], count: usize) -> Vec<Option<u16>> {
        let labelled = self.triangles.iter().zip(labels).filter(|(_, label)| **label < count);
        majority(vertices, labelled.map(|(&triangle, &label)| (triangle, label as u16)))
    }
}
