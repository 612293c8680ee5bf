//! How triangles turn: rotations relative to the rest pose in all frames, as points of a space of few dimensions.

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::cluster::region_growing::{THINNEST, thinness, triangle_frame};
use crate::fit::FitError;
use crate::fit::problem::Problem;
use crate::fit::run::Run;
use crate::prepare::subspace;
use crate::topology::Topology;
use crate::transform::nearest_rotation;

/// What the subspace may leave out of a rotation's entries (root mean square): well below any bandwidth of use.
const TOLERANCE: f64 = 2e-3;

/// Directions between two reports while the subspace grows.
const REPORT_EVERY: usize = 8;

/// Triangles and the points that stand for their rotations.
pub(super) struct Turning {
    /// [M] vertices of each triangle.
    triangles: Vec<[usize; 3]>,
    /// d.
    pub dimension: usize,
    /// [M, d] distances between them are those between the triangles' rotation matrices over all frames.
    pub points: Vec<f32>,
    /// 9 F: numbers that a point stands for.
    length: usize,
}

impl Turning {
    /// Looks at `most` triangles at most, evenly picked.
    pub fn new(problem: &Problem, topology: &Topology, most: usize, run: &mut Run<'_>) -> Result<Self, FitError> {
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
        let count = sound.len().min(most);
        let triangles: Vec<[usize; 3]> = (0..count).map(|k| sound[k * sound.len() / count]).collect();
        let length = 9 * problem.frames();
        let mut rotations: Vec<f32> = triangles.par_iter().flat_map_iter(|&t| rotations(problem, t)).collect();
        centre(&mut rotations, length);
        let epsilon = TOLERANCE * (rotations.len() as f64).sqrt();
        let space = subspace::reduce(&rotations, length, epsilon, |directions| {
            if directions % REPORT_EVERY == 0 { run.step() } else { Ok(()) }
        })?;
        Ok(Self { triangles, dimension: space.dimension, points: space.coordinates, length })
    }

    /// Distance between points that stands for a bandwidth.
    pub fn reach(&self, bandwidth: f64) -> f64 {
        bandwidth * (self.length as f64).sqrt()
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
fn rotations(problem: &Problem, triangle: [usize; 3]) -> Vec<f32> {
    let f = problem.frames();
    let frame_from_rest = triangle_frame(triangle.map(|i| problem.rest[i])).inverse();
    let posed = |i: usize, t: usize| {
        let v = problem.trajectory(i);
        DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]))
    };
    let turned =
        |t: usize| -> DMat3 { nearest_rotation(&(triangle_frame(triangle.map(|i| posed(i, t))) * frame_from_rest)) };
    (0..f).flat_map(|t| turned(t).to_cols_array()).map(|x| x as f32).collect()
}

/// Takes the mean off all rows.
fn centre(rows: &mut [f32], length: usize) {
    let count = (rows.len() / length) as f64;
    let mut mean = vec![0f64; length];
    rows.chunks_exact(length).for_each(|row| mean.iter_mut().zip(row).for_each(|(m, x)| *m += f64::from(*x) / count));
    rows.par_chunks_exact_mut(length).for_each(|row| {
        row.iter_mut().zip(&mean).for_each(|(x, m)| *x = (f64::from(*x) - m) as f32);
    });
}
