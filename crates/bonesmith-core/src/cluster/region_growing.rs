//! Clusters that grow from seed triangles over the mesh [Kavan2010 s.4.1].
//!
//! Seeds are spread evenly over the rest pose ([`spread`](crate::cluster::spread)). Each seed triangle's deformation gradient predicts
//! the motion of its surroundings; the vertex beside any cluster whose motion that cluster predicts best joins it, until none is left.
//!
//! Deviations, all for meshes that the paper does not mention: triangles too thin to have a gradient are no seeds;
//! where triangles run out (point clouds), vertices are seeds that predict a translation; what no cluster can reach
//! (isolated vertices, components without a seed) joins the cluster that predicts it best; a cluster whose seed was
//! taken by others gets the vertex that is predicted worst. So every vertex has a cluster and every cluster a vertex.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use glam::{DAffine3, DMat3, DVec3};
use rayon::prelude::*;

use crate::cluster::labels::fill_empty;
use crate::cluster::spread::{farthest_points, to_the_middle};
use crate::cluster::triangles;
use crate::mesh::topology::{Adjacency, Topology};
use crate::observer::{Cancelled, Check};
use crate::skinning::motion::Motion;
use crate::skinning::problem::Problem;
use crate::solve::kernels::{squared, subtract4};

/// Clusters of vertices, each with the motion of its seed.
pub(crate) struct Regions {
    /// [N] cluster of each vertex.
    pub labels: Vec<u16>,
    /// What each cluster's seed predicts.
    pub motion: Motion,
}

/// Where a cluster starts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seed {
    Triangle([usize; 3]),
    Vertex(usize),
}

/// No cluster yet.
const NONE: u32 = u32::MAX;

/// Vertices that are handled between two reports of progress.
const VERTICES_AT_ONCE: usize = 4096;

/// Divides the vertices into `count` clusters, `1 <= count <= N`, `count` at most 2^16.
pub(crate) fn grow(
    problem: &Problem,
    topology: &Topology,
    count: usize,
    check: Check<'_>,
) -> Result<Regions, Cancelled> {
    debug_assert!((1..=problem.vertices().min(1 << 16)).contains(&count));
    let seeds = spread_seeds(problem, topology, count, check)?;
    let motion = seed_motion(problem, &seeds);
    let predictor = Predictor { problem, motion: &motion };
    let adjacency = Adjacency::new(topology, problem.vertices());
    let mut labels = flood(&predictor, &adjacency, &seeds, check)?;
    assign_unreached(&predictor, &mut labels, check)?;
    let mut labels: Vec<u16> = labels.into_iter().map(|j| j as u16).collect();
    let mut scratch = vec![0f32; problem.length];
    fill_empty(&mut labels, count, |i, j| predictor.error(i, usize::from(j), &mut scratch));
    Ok(Regions { labels, motion })
}

/// `count` sites spread evenly: triangles, then vertices where there are not enough of them.
fn spread_seeds(
    problem: &Problem,
    topology: &Topology,
    count: usize,
    check: Check<'_>,
) -> Result<Vec<Seed>, Cancelled> {
    let triangles = triangles::sound(&problem.rest, topology);
    let center = |triangle: &[usize; 3]| triangle.map(|i| problem.rest[i]).iter().sum::<DVec3>() / 3.0;
    let centers: Vec<DVec3> = triangles.iter().map(center).collect();
    let picked = farthest_points(&centers, count.min(centers.len()), &[], check)?;
    let picked = to_the_middle(&centers, picked, check)?;
    let mut seeds: Vec<Seed> = picked.iter().map(|&at| Seed::Triangle(triangles[at])).collect();
    if seeds.len() < count {
        let present: Vec<DVec3> = picked.iter().map(|&at| centers[at]).collect();
        let mut more = farthest_points(&problem.rest, count - seeds.len(), &present, check)?;
        if present.is_empty() {
            more = to_the_middle(&problem.rest, more, check)?;
        }
        seeds.extend(more.into_iter().map(Seed::Vertex));
    }
    Ok(seeds)
}

/// Affine motion of every seed over all frames.
fn seed_motion(problem: &Problem, seeds: &[Seed]) -> Motion {
    let mut motion = Motion::identity(seeds.len(), problem.frames());
    for (j, seed) in seeds.iter().enumerate() {
        let (origin, linear): (usize, Box<dyn Fn(usize) -> DMat3>) = match *seed {
            Seed::Triangle(triangle) => (triangle[0], Box::new(triangles::gradient(problem, triangle))),
            Seed::Vertex(i) => (i, Box::new(|_| DMat3::IDENTITY)),
        };
        for t in 0..problem.frames() {
            let matrix3 = linear(t);
            let translation = problem.position(origin, t) - matrix3 * problem.rest[origin];
            motion.set_transform(j, t, &DAffine3 { matrix3, translation });
        }
    }
    motion
}

/// How well clusters' seeds predict vertices.
struct Predictor<'a> {
    problem: &'a Problem,
    motion: &'a Motion,
}

impl Predictor<'_> {
    /// Squared error over all frames of vertex `i` if it moved with cluster `j`; `scratch` has L entries.
    fn error(&self, i: usize, j: usize, scratch: &mut [f32]) -> f64 {
        let (length, rows) = (self.problem.length, self.motion.rows32());
        let u = self.problem.rest[i];
        scratch.copy_from_slice(self.problem.trajectory(i));
        let rows = std::array::from_fn(|c| &rows[(c * self.motion.bones + j) * length..][..length]);
        subtract4(scratch, [u.x, u.y, u.z, 1.0].map(|x| x as f32), rows);
        squared(scratch)
    }

    /// The cluster that predicts vertex `i` best.
    fn best(&self, i: usize, scratch: &mut [f32]) -> u32 {
        let mut best = (f64::INFINITY, 0);
        for j in 0..self.motion.bones {
            let error = self.error(i, j, scratch);
            if error < best.0 {
                best = (error, j);
            }
        }
        best.1 as u32
    }
}

/// Grows all clusters at once from their seeds; vertices that none reaches stay [`NONE`].
///
/// One queue for all clusters gives the same order as the paper's queue for each cluster with all fronts compared.
fn flood(
    predictor: &Predictor<'_>,
    adjacency: &Adjacency,
    seeds: &[Seed],
    check: Check<'_>,
) -> Result<Vec<u32>, Cancelled> {
    let mut labels = vec![NONE; adjacency.len()];
    let mut scratch = vec![0f32; predictor.problem.length];
    let mut queue = BinaryHeap::new();
    for (j, seed) in seeds.iter().enumerate() {
        let vertices: &[usize] = match seed {
            Seed::Triangle(triangle) => triangle,
            Seed::Vertex(i) => std::slice::from_ref(i),
        };
        for &i in vertices {
            // Ahead of everything that has to be predicted; where seeds touch, the first has the vertex.
            queue.push(Reverse((0u64, j as u32, i as u32)));
        }
    }
    let mut reached = 0usize;
    while let Some(Reverse((_, j, i))) = queue.pop() {
        if labels[i as usize] != NONE {
            continue;
        }
        if reached.is_multiple_of(VERTICES_AT_ONCE) {
            check()?;
        }
        reached += 1;
        labels[i as usize] = j;
        for &next in adjacency.of(i as usize) {
            if labels[next as usize] == NONE {
                let error = predictor.error(next as usize, j as usize, &mut scratch);
                // Bits of non-negative floats are ordered like the floats; +1 keeps seeds first.
                queue.push(Reverse((error.to_bits().saturating_add(1), j, next)));
            }
        }
    }
    Ok(labels)
}

fn assign_unreached(predictor: &Predictor<'_>, labels: &mut [u32], check: Check<'_>) -> Result<(), Cancelled> {
    let unreached: Vec<usize> = (0..labels.len()).filter(|&i| labels[i] == NONE).collect();
    for block in unreached.chunks(VERTICES_AT_ONCE) {
        check()?;
        let scratch = || vec![0f32; predictor.problem.length];
        let best: Vec<u32> = block.par_iter().map_init(scratch, |scratch, &i| predictor.best(i, scratch)).collect();
        block.iter().zip(best).for_each(|(&i, j)| labels[i] = j);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::{MeshSequence, RawSequence};
    use crate::synthetic::{PosedRigParams, awkward, clownfish, posed_rig};
    use glam::{DQuat, Vec3};

    fn sequence(raw: RawSequence) -> MeshSequence {
        MeshSequence::try_from(raw).unwrap()
    }

    fn regions(sequence: &MeshSequence, count: usize) -> Regions {
        grow(&Problem::new(sequence), &sequence.surface().topology, count, &mut || Ok(())).unwrap()
    }

    fn sizes(labels: &[u16], count: usize) -> Vec<usize> {
        let mut sizes = vec![0; count];
        labels.iter().for_each(|&j| sizes[j as usize] += 1);
        sizes
    }

    #[test]
    fn every_vertex_has_a_cluster_and_every_cluster_a_vertex() {
        for (name, raw) in awkward::all() {
            let sequence = sequence(raw);
            let n = sequence.vertex_count();
            for count in [1, 2, 3, 4, n / 2, n - 1, n] {
                let regions = regions(&sequence, count.max(1));
                assert_eq!(regions.labels.len(), n);
                let sizes = sizes(&regions.labels, count.max(1));
                assert!(sizes.iter().all(|&s| s > 0), "{name} {count}: {sizes:?}");
                assert!(regions.motion.rows().iter().all(|x| x.is_finite()), "{name} {count}");
            }
        }
    }

    #[test]
    fn clusters_of_a_connected_mesh_are_contiguous() {
        let rig = posed_rig(3, &PosedRigParams::default());
        let sequence = sequence(rig.sequence);
        let adjacency = Adjacency::new(&sequence.surface().topology, sequence.vertex_count());
        assert_eq!(adjacency.components().1, 1);
        let count = 9;
        let labels = regions(&sequence, count).labels;
        for j in 0..count as u16 {
            let first = labels.iter().position(|&l| l == j).unwrap();
            let (mut seen, mut stack) = (vec![false; labels.len()], vec![first]);
            seen[first] = true;
            while let Some(i) = stack.pop() {
                for &next in adjacency.of(i) {
                    if labels[next as usize] == j && !std::mem::replace(&mut seen[next as usize], true) {
                        stack.push(next as usize);
                    }
                }
            }
            let reached = seen.iter().filter(|s| **s).count();
            assert_eq!(reached, sizes(&labels, count)[j as usize], "cluster {j} has pieces");
        }
    }

    #[test]
    fn two_stiff_halves_are_two_clusters() {
        // A tube whose upper half turns as one piece: no vertex beyond the seam may cross over.
        let mut raw = awkward::bending_tube();
        let rest = raw.frames[0].positions.clone();
        let middle = rest.iter().map(|p| p.y).fold(0.0, f32::max) / 2.0;
        for (t, frame) in raw.frames.iter_mut().enumerate() {
            let turn = DAffine3::from_quat(DQuat::from_rotation_x(0.1 * t as f64));
            let moved = |p: Vec3| if p.y > middle { turn.transform_point3(p.as_dvec3()).as_vec3() } else { p };
            frame.positions = rest.iter().map(|p| moved(*p)).collect();
        }
        let labels = regions(&sequence(raw), 2).labels;
        let upper: Vec<u16> = (0..rest.len()).filter(|&i| rest[i].y > middle).map(|i| labels[i]).collect();
        let lower: Vec<u16> = (0..rest.len()).filter(|&i| rest[i].y <= middle).map(|i| labels[i]).collect();
        assert!(upper.iter().all(|j| *j == upper[0]) && lower.iter().all(|j| *j == lower[0]) && upper[0] != lower[0]);
    }

    #[test]
    fn seeds_predict_their_triangle_exactly_and_lie_apart() {
        let sequence = sequence(clownfish());
        let problem = Problem::new(&sequence);
        let seeds = spread_seeds(&problem, &sequence.surface().topology, 12, &mut || Ok(())).unwrap();
        let motion = seed_motion(&problem, &seeds);
        let predictor = Predictor { problem: &problem, motion: &motion };
        let mut scratch = vec![0f32; problem.length];
        let mut centers = Vec::new();
        for (j, seed) in seeds.iter().enumerate() {
            let Seed::Triangle(triangle) = *seed else { panic!("{seed:?}") };
            for i in triangle {
                let error = predictor.error(i, j, &mut scratch) / problem.length as f64;
                assert!(error.sqrt() < 1e-4, "seed {j}: {error}");
            }
            centers.push(triangle.map(|i| problem.rest[i]).iter().sum::<DVec3>() / 3.0);
        }
        let apart = |j: usize| centers[..j].iter().map(|c| c.distance(centers[j])).fold(f64::INFINITY, f64::min);
        let gaps: Vec<f64> = (1..12).map(apart).collect();
        assert!(gaps.iter().all(|&gap| gap > 0.1), "{gaps:?}");
    }
}
