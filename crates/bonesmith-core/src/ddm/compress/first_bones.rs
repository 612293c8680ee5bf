//! A first solution: farthest points, then k-means [Le2021 s.4.1].

use glam::DVec3;
use rayon::prelude::*;

use crate::ddm::compress::layers::{Layers, VirtualBone};
use crate::ddm::compress::maps::Mat;
use crate::model::{Row, add_to};
use crate::observer::{Cancelled, Stages};

/// Rounds of k-means.
const ROUNDS: usize = 6;
/// Virtual bones that are tried for a vertex.
const NEAREST: usize = 12;

impl Layers<'_> {
    /// Makes `count` virtual bones and binds each vertex to the best.
    pub fn make_bones(&mut self, count: usize, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        self.farthest_points(count, stages)?;
        for _ in 0..ROUNDS {
            self.average();
            self.assign(stages)?;
        }
        self.average();
        self.measure();
        Ok(())
    }

    /// Each new bone has the multi-weights of the vertex with the largest distance.
    fn farthest_points(&mut self, count: usize, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let n = self.points.len();
        let first = (0..n).fold(0, |a, b| {
            let height = |i: usize| self.points[i].truncate().length_squared();
            if height(b) > height(a) { b } else { a }
        });
        let mut best = vec![(f64::INFINITY, 0usize, f64::INFINITY); n];
        let mut next = first;
        for k in 0..count.min(n) {
            stages.report(None)?;
            let bone = self.bone_of_vertex(next);
            best.par_iter_mut().enumerate().for_each(|(i, best)| {
                // A bone much farther away than the best one so far is not tried.
                let apart = self.points[i].truncate().distance_squared(bone.place);
                if apart < 6.0 * best.2 {
                    let distance = self.distance(&bone, i);
                    if distance < best.0 {
                        *best = (distance, k, apart);
                    }
                }
            });
            self.bones.push(bone);
            // A bone without its smallest influences need not fit its own vertex exactly.
            best[next] = (0.0, k, 0.0);
            next = (0..n).fold(0, |a, b| if best[b].0 > best[a].0 { b } else { a });
            if best[next].0 <= 0.0 {
                break;
            }
        }
        self.weights = best.iter().map(|&(_, k, _)| vec![(k, 1.0)]).collect();
        Ok(())
    }

    /// Each bone becomes the mean of its vertices; one without any stays.
    fn average(&mut self) {
        let mean = |(users, old): (&Row, &VirtualBone)| match users.is_empty() {
            true => old.clone(),
            false => self.mean_bone(users),
        };
        self.bones = self.users().par_iter().zip(&self.bones).map(mean).collect();
    }

    /// The mean of some vertices' multi-weights.
    fn mean_bone(&self, users: &[(usize, f64)]) -> VirtualBone {
        let mut sums: Vec<(usize, Mat)> = Vec::new();
        let (mut place, mut mass) = (DVec3::ZERO, 0.0);
        for &(i, a) in users {
            place += self.points[i].truncate() * a;
            mass += a;
            for (j, m) in &self.multi_weights[i] {
                add_to(&mut sums, *j, *m * a);
            }
        }
        self.bone(sums, place / mass)
    }

    /// Binds each vertex to the best of the bones near it.
    fn assign(&mut self, stages: &mut Stages<'_>) -> Result<(), Cancelled> {
        let places: Vec<DVec3> = self.bones.iter().map(|bone| bone.place).collect();
        let best = |(): &mut (), i: usize| {
            let mut near = nearest(&places, self.points[i].truncate(), NEAREST);
            near.extend(self.weights[i].iter().map(|(k, _)| *k));
            for &other in self.adjacency.of(i) {
                near.extend(self.weights[other as usize].iter().map(|(k, _)| *k));
            }
            near.sort_unstable();
            near.dedup();
            let distances = near.into_iter().map(|k| (self.distance(&self.bones[k], i), k));
            vec![(distances.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0, |(_, k)| k), 1.0)]
        };
        self.weights = stages.map(self.points.len(), || (), best)?;
        Ok(())
    }
}

/// The `count` places nearest to a point, in no order.
pub(super) fn nearest(places: &[DVec3], point: DVec3, count: usize) -> Vec<usize> {
    let mut all: Vec<(f64, usize)> =
        places.iter().enumerate().map(|(k, place)| (place.distance_squared(point), k)).collect();
    let count = count.min(all.len());
    if count < all.len() {
        all.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    }
    all[..count].iter().map(|(_, k)| *k).collect()
}
