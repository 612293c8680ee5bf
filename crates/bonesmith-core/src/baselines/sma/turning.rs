//! How triangles turn: rotations relative to the rest pose over the frames, as points.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::cluster::mean_shift::Points;
use crate::cluster::region_growing::{THINNEST, thinness, triangle_frame};
use crate::mesh::topology::Topology;
use crate::skinning::params::FitError;
use crate::skinning::problem::Problem;
use crate::solve::transform::nearest_rotation;

/// Triangles that make a bone: with so many the published bandwidth gives the published numbers of bones.
const LEAST_TRIANGLES: f64 = 40.0;

/// Of a large mesh at least so many of those that are looked at, or chance decides.
const LEAST_PICKED: f64 = 5.0;

/// The same for small meshes, as a share.
const LEAST_SHARE: f64 = 0.01;

/// Triangles and the points that stand for their rotations.
pub(super) struct Turning {
    /// [M] vertices of each triangle.
    triangles: Vec<[usize; 3]>,
    /// [M, d] entries of the triangles' rotation matrices.
    pub points: Points,
    /// Triangles of the mesh that can turn.
    all: usize,
}

impl Turning {
    /// Looks at `most` triangles and `most_frames` frames at most, evenly picked.
    pub fn new(problem: &Problem, topology: &Topology, most: usize, most_frames: usize) -> Result<Self, FitError> {
        let corners = |triangle: [usize; 3]| triangle.map(|i| problem.rest[i]);
        let sound: Vec<[usize; 3]> = topology
            .vertex_triangles()
            .into_iter()
            .map(|triangle| triangle.map(|i| i as usize))
            .filter(|&triangle| thinness(corners(triangle)) > THINNEST)
            .collect();
        if sound.is_empty() {
            let text = "the method sma needs triangles that can turn: this mesh has no face with an area";
            return Err(FitError::Unsuited(text.into()));
        }
        let picked = |of: usize, most: usize| (0..of.min(most)).map(move |k| k * of / of.min(most));
        let triangles: Vec<[usize; 3]> = picked(sound.len(), most).map(|k| sound[k]).collect();
        let frames: Vec<usize> = picked(problem.frames(), most_frames).collect();
        let points = triangles.par_iter().flat_map_iter(|&t| rotations(problem, t, &frames)).collect();
        Ok(Self { triangles, points: Points::new(points, 9 * frames.len()), all: sound.len() })
    }

    /// Share of the triangles that a cluster needs.
    pub fn large_share(&self) -> f64 {
        let share = (LEAST_TRIANGLES / self.all as f64).min(LEAST_SHARE);
        if self.triangles.len() < self.all { share.max(LEAST_PICKED / self.triangles.len() as f64) } else { share }
    }

    /// Distance between points that stands for a bandwidth: `h = 9 F e` [Le2014 s.3.10.2].
    pub fn reach(&self, bandwidth: f64) -> f64 {
        bandwidth * self.points.dimension() as f64
    }

    /// [N] cluster that most triangles of a vertex are in, of the first `count`; `None` where none is.
    pub fn vertex_labels(&self, vertices: usize, labels: &[usize], count: usize) -> Vec<Option<u16>> {
        let mut votes: Vec<Vec<(u16, u32)>> = vec![Vec::new(); vertices];
        for (triangle, &label) in self.triangles.iter().zip(labels).filter(|(_, label)| **label < count) {
            for &i in triangle {
                match votes[i].iter_mut().find(|(known, _)| usize::from(*known) == label) {
                    Some((_, votes)) => *votes += 1,
                    None => votes[i].push((label as u16, 1)),
                }
            }
        }
        let most = |votes: &Vec<(u16, u32)>| votes.iter().max_by_key(|(j, n)| (*n, std::cmp::Reverse(*j))).map(|v| v.0);
        votes.iter().map(most).collect()
    }
}

/// [9 F] entries of a triangle's rotations.
fn rotations(problem: &Problem, triangle: [usize; 3], frames: &[usize]) -> Vec<f32> {
    let f = problem.frames();
    let frame_from_rest = triangle_frame(triangle.map(|i| problem.rest[i])).inverse();
    let posed = |i: usize, t: usize| {
        let v = problem.trajectory(i);
        DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]))
    };
    let turned =
        |t: usize| -> DMat3 { nearest_rotation(&(triangle_frame(triangle.map(|i| posed(i, t))) * frame_from_rest)) };
    frames.iter().flat_map(|&t| turned(t).to_cols_array()).map(|x| x as f32).collect()
}
