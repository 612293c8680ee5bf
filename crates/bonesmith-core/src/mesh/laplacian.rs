//! Laplacians of a triangle mesh, for smooth and Poisson reduction.

use glam::DVec3;
use serde::{Deserialize, Serialize};

use crate::mesh::topology::{Adjacency, Topology};

/// Weights of the edges in a Laplacian.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Laplacian {
    /// Cotangents of the opposite angles [Course2014 s.3.2], clamped: obtuse triangles give no negative weights, and
    /// slivers no huge ones.
    #[default]
    Cotangent,
    /// All edges equal.
    Uniform,
}

/// Cotangent weights stay between these: angles of about 3 and 89 degrees.
const COTANGENT_RANGE: (f64, f64) = (0.02, 20.0);

/// Sparse rows `(L x)_i = x_i - sum_k c_ik x_k / sum_k c_ik`. Of a vertex without neighbours: `(L x)_i = x_i`.
pub(crate) struct LaplacianRows {
    /// [N] (column, value), own column first.
    pub rows: Vec<Vec<(u32, f64)>>,
}

impl LaplacianRows {
    pub fn new(kind: Laplacian, topology: &Topology, rest: &[glam::Vec3]) -> Self {
        let adjacency = Adjacency::new(topology, rest.len());
        let weights = match kind {
            Laplacian::Uniform => None,
            Laplacian::Cotangent => Some(cotangents(topology, rest, &adjacency)),
        };
        let mut start = 0;
        let row = |i: usize| {
            let neighbours = adjacency.of(i);
            let own = weights.as_ref().map(|w| &w[start..start + neighbours.len()]);
            start += neighbours.len();
            let weight = |at: usize| own.map_or(1.0, |own| own[at].clamp(COTANGENT_RANGE.0, COTANGENT_RANGE.1));
            let sum: f64 = (0..neighbours.len()).map(weight).sum();
            let mut row = Vec::with_capacity(neighbours.len() + 1);
            row.push((i as u32, 1.0));
            row.extend(neighbours.iter().enumerate().map(|(at, &k)| (k, -weight(at) / sum)));
            row
        };
        Self { rows: (0..rest.len()).map(row).collect() }
    }

    /// Upper bound of the entries of [`LaplacianRows::squared`]: row r adds at most its length squared.
    pub fn squared_entries(&self) -> usize {
        self.rows.iter().map(|row| row.len() * row.len()).sum()
    }

    /// Rows of `L^T L + anchor I`, columns rising.
    pub fn squared(&self, anchor: f64) -> Vec<Vec<(u32, f64)>> {
        let n = self.rows.len();
        let mut columns: Vec<Vec<(u32, f64)>> = vec![Vec::new(); n];
        for (i, row) in self.rows.iter().enumerate() {
            row.iter().for_each(|&(k, value)| columns[k as usize].push((i as u32, value)));
        }
        let mut sums = vec![0.0; n];
        let mut seen = vec![false; n];
        let mut touched = Vec::new();
        let row = |(i, column): (usize, &Vec<(u32, f64)>)| {
            touched.clear();
            for &(r, left) in column {
                for &(k, right) in &self.rows[r as usize] {
                    if !std::mem::replace(&mut seen[k as usize], true) {
                        touched.push(k);
                    }
                    sums[k as usize] += left * right;
                }
            }
            touched.sort_unstable();
            let entry = |&k: &u32| {
                seen[k as usize] = false;
                let own = if k as usize == i { anchor } else { 0.0 };
                (k, std::mem::take(&mut sums[k as usize]) + own)
            };
            touched.iter().map(entry).collect()
        };
        columns.iter().enumerate().map(row).collect()
    }
}

/// Half sums of cotangents, in the order of the adjacency's neighbours.
fn cotangents(topology: &Topology, rest: &[glam::Vec3], adjacency: &Adjacency) -> Vec<f64> {
    let mut starts = Vec::with_capacity(rest.len());
    let mut total = 0;
    for i in 0..rest.len() {
        starts.push(total);
        total += adjacency.of(i).len();
    }
    let mut weights = vec![0.0; total];
    let mut add = |a: u32, b: u32, value: f64| {
        // Diagonals of polygons are no edges: the inner edges of the fan are skipped.
        if let Ok(at) = adjacency.of(a as usize).binary_search(&b) {
            weights[starts[a as usize] + at] += value;
        }
    };
    for triangle in topology.vertex_triangles() {
        for corner in 0..3 {
            let [o, a, b] = [0, 1, 2].map(|step| triangle[(corner + step) % 3]);
            let at = |v: u32| rest[v as usize].as_dvec3();
            let (x, y): (DVec3, DVec3) = (at(a) - at(o), at(b) - at(o));
            let area = x.cross(y).length();
            let cotangent = if area > 0.0 { 0.5 * x.dot(y) / area } else { 0.0 };
            add(a, b, cotangent);
            add(b, a, cotangent);
        }
    }
    weights
}

#[cfg(test)]
mod tests {
    use super::*;
    use glam::Vec3;

    #[test]
    fn rows_sum_to_zero_and_the_square_is_right() {
        let mut topology = Topology::from_triangles(&[[0, 1, 2], [1, 3, 2]]);
        topology.push_face(&[2, 3, 5, 4]);
        let rest = [(0., 0.), (1., 0.), (0., 1.), (1., 1.2), (0.1, 2.), (1., 2.), (9., 9.)];
        let rest: Vec<Vec3> = rest.iter().map(|&(x, y)| Vec3::new(x, y, 0.0)).collect();
        for kind in [Laplacian::Cotangent, Laplacian::Uniform] {
            let laplacian = LaplacianRows::new(kind, &topology, &rest);
            let mut dense = vec![vec![0.0; 7]; 7];
            for (i, row) in laplacian.rows.iter().enumerate() {
                let sum: f64 = row.iter().map(|(_, v)| v).sum();
                assert!((sum - f64::from(i == 6)).abs() < 1e-12);
                row.iter().for_each(|&(k, v)| dense[i][k as usize] += v);
            }
            for (i, row) in laplacian.squared(0.5).iter().enumerate() {
                for k in 0..7 {
                    let expected: f64 =
                        (0..7).map(|r| dense[r][i] * dense[r][k]).sum::<f64>() + if i == k { 0.5 } else { 0.0 };
                    let found = row.iter().find(|(c, _)| *c as usize == k).map_or(0.0, |(_, v)| *v);
                    assert!((found - expected).abs() < 1e-12, "{kind:?} {i} {k}: {found} {expected}");
                }
            }
        }
    }

    #[test]
    fn a_right_isosceles_triangle_has_known_cotangents() {
        let topology = Topology::from_triangles(&[[0, 1, 2]]);
        let rest = [Vec3::ZERO, Vec3::X, Vec3::Y];
        let rows = LaplacianRows::new(Laplacian::Cotangent, &topology, &rest).rows;
        // Opposite the legs 45 degrees: half a cotangent is 0.5. Opposite the hypotenuse 90: 0, clamped to 0.02.
        assert!((rows[1][1].1 + 0.5 / 0.52).abs() < 1e-12 && (rows[1][2].1 + 0.02 / 0.52).abs() < 1e-12, "{rows:?}");
    }
}
