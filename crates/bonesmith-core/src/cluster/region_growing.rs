//! Clusters that grow from seed triangles over the mesh [Kavan2010 s.4.1].
//!
//! Seeds are spread evenly over the rest pose (p-center: the farthest triangle again and again [Gonzalez1985], then
//! each moved to the middle of what is nearest to it [Lloyd1982]). Each seed triangle's deformation gradient predicts the motion of its surroundings; the vertex
//! beside any cluster whose motion that cluster predicts best joins it, until none is left.
//!
//! Deviations, all for meshes that the paper does not speak of: triangles too thin to give a gradient are no seeds;
//! where triangles run out (point clouds), vertices are seeds that predict a translation; what no cluster can reach
//! (isolated vertices, components without a seed) joins the cluster that predicts it best; a cluster whose seed was
//! taken by others gets the vertex that is predicted worst. So every vertex has a cluster and every cluster a vertex.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use glam::{DMat3, DVec3};
use rayon::prelude::*;

use crate::mesh::topology::{Adjacency, Topology};
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

/// Least height of a seed triangle over its longest side.
pub(crate) const THINNEST: f64 = 1e-2;

/// No cluster yet.
const NONE: u32 = u32::MAX;

/// Divides the vertices into `count` clusters, `1 <= count <= N`, `count` at most 2^16.
pub(crate) fn grow(problem: &Problem, topology: &Topology, count: usize) -> Regions {
    debug_assert!((1..=problem.vertices().min(1 << 16)).contains(&count));
    let seeds = spread_seeds(problem, topology, count);
    let motion = seed_motion(problem, &seeds);
    let predictor = Predictor::new(problem, &motion);
    let adjacency = Adjacency::new(topology, problem.vertices());
    let mut labels = flood(&predictor, &adjacency, &seeds);
    assign_unreached(&predictor, &mut labels);
    fill_empty(&predictor, &mut labels);
    Regions { labels: labels.into_iter().map(|j| j as u16).collect(), motion }
}

/// `count` sites spread evenly: triangles, then vertices where there are not enough of them.
fn spread_seeds(problem: &Problem, topology: &Topology, count: usize) -> Vec<Seed> {
    let corners = |triangle: [usize; 3]| triangle.map(|i| problem.rest[i]);
    let triangles: Vec<[usize; 3]> = topology
        .vertex_triangles()
        .into_iter()
        .map(|triangle| triangle.map(|i| i as usize))
        .filter(|&triangle| thinness(corners(triangle)) > THINNEST)
        .collect();
    let centers: Vec<DVec3> = triangles.iter().map(|&t| corners(t).iter().sum::<DVec3>() / 3.0).collect();
    let picked = to_the_middle(&centers, farthest_points(&centers, count.min(centers.len()), &[]));
    let mut seeds: Vec<Seed> = picked.iter().map(|&at| Seed::Triangle(triangles[at])).collect();
    if seeds.len() < count {
        let present: Vec<DVec3> = picked.iter().map(|&at| centers[at]).collect();
        let mut more = farthest_points(&problem.rest, count - seeds.len(), &present);
        if present.is_empty() {
            more = to_the_middle(&problem.rest, more);
        }
        seeds.extend(more.into_iter().map(Seed::Vertex));
    }
    seeds
}

/// `count` vertices spread evenly, `1 <= count <= N`: p-centers of the rest pose, as the seeds are.
pub(crate) fn centers(rest: &[DVec3], count: usize) -> Vec<usize> {
    to_the_middle(rest, farthest_points(rest, count, &[]))
}

/// [N] nearest of some different vertices; each has itself at least.
pub(crate) fn cells(rest: &[DVec3], centers: &[usize]) -> Vec<u16> {
    let nearest = |p: &DVec3| {
        let mut best = (f64::INFINITY, 0);
        for (k, &center) in centers.iter().enumerate() {
            let distance = p.distance_squared(rest[center]);
            if distance < best.0 {
                best = (distance, k);
            }
        }
        best.1 as u16
    };
    let mut cells: Vec<u16> = rest.par_iter().with_min_len(256).map(nearest).collect();
    // Where centers coincide, each still has its own vertex.
    centers.iter().enumerate().for_each(|(k, &center)| cells[center] = k as u16);
    cells
}

/// Height over longest side of a triangle; 0 where it has no extent.
pub(crate) fn thinness([a, b, c]: [DVec3; 3]) -> f64 {
    let longest = a.distance_squared(b).max(b.distance_squared(c)).max(c.distance_squared(a));
    if longest > 0.0 { (b - a).cross(c - a).length() / longest } else { 0.0 }
}

/// Picks `count` different points, each the farthest from `present` and those picked before.
///
/// With none present the first is the nearest to the mean.
fn farthest_points(points: &[DVec3], count: usize, present: &[DVec3]) -> Vec<usize> {
    let mean = points.iter().sum::<DVec3>() / points.len().max(1) as f64;
    let mut distances: Vec<f64> = match present {
        [] => points.iter().map(|p| -p.distance_squared(mean)).collect(),
        _ => points
            .iter()
            .map(|p| present.iter().map(|q| p.distance_squared(*q)).fold(f64::INFINITY, f64::min))
            .collect(),
    };
    let mut picked = Vec::with_capacity(count);
    while picked.len() < count {
        let mut far = 0;
        for (at, &distance) in distances.iter().enumerate() {
            if distance > distances[far] {
                far = at;
            }
        }
        let first = picked.is_empty() && present.is_empty();
        picked.push(far);
        for (distance, p) in distances.iter_mut().zip(points) {
            let new = p.distance_squared(points[far]);
            *distance = if first { new } else { distance.min(new) };
        }
        // Below every distance, so that no point is picked twice, be they all in one place.
        picked.iter().for_each(|&at| distances[at] = -1.0);
    }
    picked
}

/// Most rounds of moving seeds to the middle.
const LLOYD_ROUNDS: usize = 20;

/// Moves each picked point to the one nearest to the mean of all points that are nearest to it, until none moves.
fn to_the_middle(points: &[DVec3], mut picked: Vec<usize>) -> Vec<usize> {
    for _ in 0..LLOYD_ROUNDS {
        let places: Vec<DVec3> = picked.iter().map(|&at| points[at]).collect();
        let nearest = |p: &DVec3| {
            let mut best = (f64::INFINITY, 0);
            for (k, place) in places.iter().enumerate() {
                let distance = p.distance_squared(*place);
                if distance < best.0 {
                    best = (distance, k);
                }
            }
            best.1
        };
        let cells: Vec<usize> = points.par_iter().with_min_len(256).map(nearest).collect();
        let mut sums = vec![(DVec3::ZERO, 0.0); picked.len()];
        for (p, &k) in points.iter().zip(&cells) {
            sums[k].0 += *p;
            sums[k].1 += 1.0;
        }
        // A cell is empty where its point has a twin; it then keeps its place.
        let mut moved: Vec<(f64, usize)> = picked.iter().map(|&at| (f64::INFINITY, at)).collect();
        for (at, (p, &k)) in points.iter().zip(&cells).enumerate() {
            let distance = p.distance_squared(sums[k].0 / sums[k].1);
            if distance < moved[k].0 {
                moved[k] = (distance, at);
            }
        }
        let moved: Vec<usize> = moved.into_iter().map(|(_, at)| at).collect();
        if moved == picked {
            break;
        }
        picked = moved;
    }
    picked
}

/// Edges and scaled normal of a triangle: what a deformation gradient maps [Kavan2010 s.4.1, as in Sumner2004].
pub(crate) fn triangle_frame([a, b, c]: [DVec3; 3]) -> DMat3 {
    let cross = (b - a).cross(c - a);
    let length = cross.length();
    let normal = if length > 0.0 { cross / length.sqrt() } else { DVec3::ZERO };
    DMat3::from_cols(b - a, c - a, normal)
}

/// Affine motion of every seed over all frames.
fn seed_motion(problem: &Problem, seeds: &[Seed]) -> Motion {
    let f = problem.frames();
    let mut motion = Motion::identity(seeds.len(), f);
    let posed = |i: usize, t: usize| {
        let v = problem.trajectory(i);
        DVec3::new(f64::from(v[t]), f64::from(v[f + t]), f64::from(v[2 * f + t]))
    };
    for (j, seed) in seeds.iter().enumerate() {
        let (origin, linear): (usize, Box<dyn Fn(usize) -> DMat3>) = match *seed {
            Seed::Triangle(triangle) => {
                let frame_from_rest = triangle_frame(triangle.map(|i| problem.rest[i])).inverse();
                (triangle[0], Box::new(move |t| triangle_frame(triangle.map(|i| posed(i, t))) * frame_from_rest))
            }
            Seed::Vertex(i) => (i, Box::new(|_| DMat3::IDENTITY)),
        };
        for t in 0..f {
            let linear = linear(t);
            let shift = posed(origin, t) - linear * problem.rest[origin];
            let row = |a: usize| [linear.x_axis[a], linear.y_axis[a], linear.z_axis[a], shift[a]];
            motion.set(j, t, &std::array::from_fn(row));
        }
    }
    motion
}

/// How well clusters' seeds predict vertices.
struct Predictor<'a> {
    problem: &'a Problem,
    clusters: usize,
    /// [4 B, L] motion in float32.
    rows: Vec<f32>,
}

impl<'a> Predictor<'a> {
    fn new(problem: &'a Problem, motion: &Motion) -> Self {
        Self { problem, clusters: motion.bones, rows: motion.rows().iter().map(|&x| x as f32).collect() }
    }

    /// Squared error over all frames of vertex `i` if it moved with cluster `j`; `scratch` has L entries.
    fn error(&self, i: usize, j: usize, scratch: &mut [f32]) -> f64 {
        let length = self.problem.length;
        let u = self.problem.rest[i];
        scratch.copy_from_slice(self.problem.trajectory(i));
        let rows = std::array::from_fn(|c| &self.rows[(c * self.clusters + j) * length..][..length]);
        subtract4(scratch, [u.x, u.y, u.z, 1.0].map(|x| x as f32), rows);
        squared(scratch)
    }

    /// The cluster that predicts vertex `i` best, and how well.
    fn best(&self, i: usize, scratch: &mut [f32]) -> u32 {
        let mut best = (f64::INFINITY, 0);
        for j in 0..self.clusters {
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
/// One queue for all clusters gives the order of the paper's one queue each with all fronts compared.
fn flood(predictor: &Predictor<'_>, adjacency: &Adjacency, seeds: &[Seed]) -> Vec<u32> {
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
    while let Some(Reverse((_, j, i))) = queue.pop() {
        if labels[i as usize] != NONE {
            continue;
        }
        labels[i as usize] = j;
        for &next in adjacency.of(i as usize) {
            if labels[next as usize] == NONE {
                let error = predictor.error(next as usize, j as usize, &mut scratch);
                // Bits of non-negative floats are ordered like the floats; +1 keeps seeds first.
                queue.push(Reverse((error.to_bits().saturating_add(1), j, next)));
            }
        }
    }
    labels
}

fn assign_unreached(predictor: &Predictor<'_>, labels: &mut [u32]) {
    let unreached = labels.par_iter_mut().enumerate().filter(|(_, label)| **label == NONE);
    unreached.for_each_init(
        || vec![0f32; predictor.problem.length],
        |scratch, (i, label)| *label = predictor.best(i, scratch),
    );
}

/// Gives every cluster without vertices the worst predicted vertex of those that have more than one.
fn fill_empty(predictor: &Predictor<'_>, labels: &mut [u32]) {
    let mut sizes = vec![0usize; predictor.clusters];
    labels.iter().for_each(|&j| sizes[j as usize] += 1);
    let empty: Vec<usize> = (0..sizes.len()).filter(|&j| sizes[j] == 0).collect();
    if empty.is_empty() {
        return;
    }
    let mut scratch = vec![0f32; predictor.problem.length];
    let mut worst: Vec<(f64, usize)> =
        (0..labels.len()).map(|i| (predictor.error(i, labels[i] as usize, &mut scratch), i)).collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut candidates = worst.into_iter().map(|(_, i)| i);
    for j in empty {
        // There are at least as many vertices as clusters, so one can be spared.
        if let Some(i) = candidates.find(|&i| sizes[labels[i] as usize] > 1) {
            sizes[labels[i] as usize] -= 1;
            labels[i] = j as u32;
            sizes[j] = 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::sequence::{MeshSequence, RawSequence};
    use crate::synthetic::{PosedRigParams, awkward, clownfish, posed_rig};
    use glam::{DAffine3, DQuat, Vec3};

    fn sequence(raw: RawSequence) -> MeshSequence {
        MeshSequence::try_from(raw).unwrap()
    }

    fn regions(sequence: &MeshSequence, count: usize) -> Regions {
        grow(&Problem::new(sequence), &sequence.surface().topology, count)
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
    fn two_stiff_halves_are_told_apart() {
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
    fn farthest_points_are_different_and_spread() {
        let line: Vec<DVec3> = (0..101).map(|x| DVec3::X * f64::from(x)).collect();
        assert_eq!(farthest_points(&line, 3, &[]), [50, 0, 100]);
        assert_eq!(farthest_points(&line, 2, &[line[0]]), [100, 50]);
        let middles = to_the_middle(&line, vec![0, 1]);
        assert!(middles[0].abs_diff(25) <= 1 && middles[1].abs_diff(75) <= 1, "{middles:?}");
        let mut same = farthest_points(&[DVec3::ONE; 5], 5, &[]);
        same.sort_unstable();
        assert_eq!(same, [0, 1, 2, 3, 4]);
        assert_eq!(to_the_middle(&[DVec3::ONE; 3], vec![0, 1, 2]).len(), 3);
    }

    #[test]
    fn seeds_predict_their_triangle_exactly_and_lie_apart() {
        let sequence = sequence(clownfish());
        let problem = Problem::new(&sequence);
        let seeds = spread_seeds(&problem, &sequence.surface().topology, 12);
        let predictor = Predictor::new(&problem, &seed_motion(&problem, &seeds));
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
