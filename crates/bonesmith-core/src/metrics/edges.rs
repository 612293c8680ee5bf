//! STED: how far edges change their lengths, in space and in time [Vasa2011].
//!
//! Eyes see local stretching and trembling, not that a whole limb is a little off. In space, with the length `e` of an edge in the original
//! and `e~` in the result, `d = |e - e~| / e` is its relative difference. At a vertex and a frame, the deviation of `d` over the edges around
//! it, weighted by `e`; the mean of that is `space`. In time, a vertex and the same vertex one frame later are ends of an edge of length
//! `sqrt(|v_t - v_(t-1)|^2 / D^2 + DT^2)`, `D` the diagonal of the rest pose's bounding box; the mean of their relative differences
//! is `time`. Both together: `sqrt(space^2 + C^2 time^2)`.

use glam::Vec3;
use serde::Serialize;

use crate::mesh::topology::{Adjacency, Topology};

/// Length in time of one frame, as a share of the diagonal: a vertex that stands still has an edge this long.
pub const STED_DT: f64 = 0.01;

/// How much edges in time count beside edges in space.
pub const STED_C: f64 = 0.127;

/// Relative differences of edge lengths; 0 is perfect.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Sted {
    /// Both together.
    pub total: f64,
    /// Edges of the mesh.
    pub space: f64,
    /// From frame to frame; 0 with one frame.
    pub time: f64,
}

impl Sted {
    pub(super) fn new(space: f64, time: f64) -> Self {
        Self { total: (space * space + (STED_C * time).powi(2)).sqrt(), space, time }
    }
}

/// Edges of a mesh, each once.
pub(super) struct Edges {
    pairs: Vec<[u32; 2]>,
    vertices: usize,
}

impl Edges {
    pub fn new(topology: &Topology, vertices: usize) -> Self {
        let around = Adjacency::new(topology, vertices);
        let after = |i: usize| around.of(i).iter().filter(move |&&k| k as usize > i).map(move |&k| [i as u32, k]);
        Self { pairs: (0..vertices).flat_map(after).collect(), vertices }
    }

    /// Sum of deviations over the vertices of one frame, and how many have edges.
    pub fn deviation(&self, truth: &[Vec3], posed: &[Vec3]) -> (f64, usize) {
        // [N] length, length times difference, length times squared difference.
        let mut sums = vec![[0.0f32; 4]; self.vertices];
        for &[a, b] in &self.pairs {
            let [a, b] = [a as usize, b as usize];
            let length = truth[a].distance(truth[b]);
            if length > 0.0 {
                let difference = ((length - posed[a].distance(posed[b])) / length).abs();
                let moment = length * difference;
                for end in [a, b] {
                    let sum = &mut sums[end];
                    sum[0] += length;
                    sum[1] += moment;
                    sum[2] += moment * difference;
                }
            }
        }
        let deviation = |[length, first, second, _]: &[f32; 4]| {
            let (length, first, second) = (f64::from(*length), f64::from(*first), f64::from(*second));
            // Rounding may leave a square just below zero.
            (second / length - (first / length).powi(2)).max(0.0).sqrt()
        };
        let with_edges = sums.iter().filter(|sum| sum[0] > 0.0);
        with_edges.fold((0.0, 0), |(sum, count), one| (sum + deviation(one), count + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::MeshSequence;
    use crate::solve::random::Random;
    use crate::synthetic::{PosedRigParams, posed_rig};

    /// The deviation at every vertex by its definition, over the edges of all faces.
    #[test]
    fn deviations_are_those_of_the_definition() {
        let sequence = MeshSequence::try_from(posed_rig(5, &PosedRigParams::default()).sequence).unwrap();
        let topology = &sequence.surface().topology;
        let mut random = Random::new(9);
        let truth = &*sequence.frame(2);
        let posed: Vec<Vec3> = truth.iter().map(|p| *p + random.vector().as_vec3() * 0.02).collect();
        let (found, count) = Edges::new(topology, truth.len()).deviation(truth, &posed);
        let (mut sum, mut with_edges) = (0.0, 0);
        for i in 0..truth.len() {
            let mut ends: Vec<usize> = Vec::new();
            for face in topology.faces() {
                for c in 0..face.len() {
                    let (a, b) = (face[c] as usize, face[(c + 1) % face.len()] as usize);
                    ends.extend(
                        [(a, b), (b, a)].iter().filter(|(from, to)| *from == i && to != from).map(|(_, to)| *to),
                    );
                }
            }
            ends.sort_unstable();
            ends.dedup();
            let edge = |p: &[Vec3], k: usize| p[i].as_dvec3().distance(p[k].as_dvec3());
            let all: Vec<(f64, f64)> =
                ends.iter().map(|&k| (edge(truth, k), (1.0 - edge(&posed, k) / edge(truth, k)).abs())).collect();
            let weight: f64 = all.iter().map(|(w, _)| w).sum();
            let mean = all.iter().map(|(w, d)| w * d).sum::<f64>() / weight;
            sum += (all.iter().map(|(w, d)| w * (d - mean).powi(2)).sum::<f64>() / weight).sqrt();
            with_edges += 1;
        }
        assert_eq!(count, with_edges);
        assert!((found - sum).abs() < 1e-5 * sum && sum > 0.0, "{found} {sum}");
        let (same, _) = Edges::new(topology, truth.len()).deviation(truth, truth);
        assert_eq!(same, 0.0);
    }

    #[test]
    fn edges_without_length_and_points_do_not_count() {
        let topology = Topology::from_triangles(&[[0, 1, 2]]);
        let edges = Edges::new(&topology, 4);
        assert_eq!(edges.deviation(&[Vec3::ZERO; 4], &[Vec3::ONE; 4]), (0.0, 0));
        let (sum, count) = edges.deviation(&[Vec3::ZERO, Vec3::ZERO, Vec3::X, Vec3::Y], &[Vec3::X; 4]);
        assert!(sum.is_finite() && count == 3);
        assert_eq!(Edges::new(&Topology::empty(), 4).deviation(&[Vec3::X; 4], &[Vec3::X; 4]), (0.0, 0));
    }
}
