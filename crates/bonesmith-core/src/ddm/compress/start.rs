//! A first solution: farthest points, then k-means [Le2021 s.4.1].

use glam::DVec3;
use rayon::prelude::*;

use crate::ddm::compress::metric::Mat;
use crate::ddm::compress::model::{Model, VirtualBone};

/// Rounds of k-means.
const ROUNDS: usize = 6;
/// Virtual bones that are looked at for a vertex.
const NEAREST: usize = 12;

impl Model<'_> {
    /// Places `count` virtual bones and binds each vertex to the best.
    pub fn start(&mut self, count: usize) {
        self.farthest_points(count);
        for _ in 0..ROUNDS {
            self.average();
            self.assign();
        }
        self.average();
        self.measure();
    }

    /// Each new bone does what the worst vertex does.
    fn farthest_points(&mut self, count: usize) {
        let n = self.points.len();
        let first = (0..n).fold(0, |a, b| {
            let height = |i: usize| self.points[i].truncate().length_squared();
            if height(b) > height(a) { b } else { a }
        });
        let mut best = vec![(f64::INFINITY, 0usize, f64::INFINITY); n];
        let mut next = first;
        for k in 0..count.min(n) {
            let bone = self.bone_of_vertex(next);
            let this = &*self;
            best.par_iter_mut().enumerate().for_each(|(i, best)| {
                // Far beyond the bone that serves it now, a vertex will not be served better.
                let apart = this.points[i].truncate().distance_squared(bone.place);
                if apart < 6.0 * best.2 {
                    let distance = this.distance(&bone, i);
                    if distance < best.0 {
                        *best = (distance, k, apart);
                    }
                }
            });
            self.bones.push(bone);
            // A bone leaves out what hardly matters, so that it need not serve its own vertex exactly.
            best[next] = (0.0, k, 0.0);
            next = (0..n).fold(0, |a, b| if best[b].0 > best[a].0 { b } else { a });
            if best[next].0 <= 0.0 {
                break;
            }
        }
        self.weights = best.iter().map(|&(_, k, _)| vec![(k, 1.0)]).collect();
    }

    /// Each bone becomes the mean of its vertices; one without any stays.
    fn average(&mut self) {
        let users = self.users();
        let this = &*self;
        let bones: Vec<VirtualBone> = users
            .par_iter()
            .zip(&self.bones)
            .map(|(users, old)| if users.is_empty() { old.clone() } else { this.mean_bone(users) })
            .collect();
        self.bones = bones;
    }

    /// The mean of some vertices' multi-weights.
    pub fn mean_bone(&self, users: &[(usize, f64)]) -> VirtualBone {
        let mut sums: Vec<(usize, Mat)> = Vec::new();
        let (mut place, mut mass) = (DVec3::ZERO, 0.0);
        for &(i, a) in users {
            place += self.points[i].truncate() * a;
            mass += a;
            for (j, m) in &self.given[i] {
                match sums.iter_mut().find(|(other, _)| other == j) {
                    Some((_, sum)) => *sum += *m * a,
                    None => sums.push((*j, *m * a)),
                }
            }
        }
        self.bone(sums, place / mass)
    }

    /// Each vertex goes to the best of the bones near it.
    fn assign(&mut self) {
        let places: Vec<DVec3> = self.bones.iter().map(|bone| bone.place).collect();
        let this = &*self;
        let assigned = (0..self.points.len())
            .into_par_iter()
            .map(|i| {
                let mut near = nearest(&places, this.points[i].truncate(), NEAREST);
                near.extend(this.weights[i].iter().map(|(k, _)| *k));
                for &other in this.adjacency.of(i) {
                    near.extend(this.weights[other as usize].iter().map(|(k, _)| *k));
                }
                near.sort_unstable();
                near.dedup();
                let distance = |k: usize| this.distance(&this.bones[k], i);
                let best = near.into_iter().map(|k| (distance(k), k)).min_by(|a, b| a.0.total_cmp(&b.0));
                vec![(best.map_or(0, |(_, k)| k), 1.0)]
            })
            .collect();
        self.weights = assigned;
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
