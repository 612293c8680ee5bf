//! Smallest enclosing sphere of points: the unit in which errors are reported.

use glam::{DVec3, Vec3};

/// A sphere.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sphere {
    /// Centre in model units.
    pub center: DVec3,
    /// Radius in model units.
    pub radius: f64,
}

impl Sphere {
    fn holds(&self, p: DVec3) -> bool {
        self.radius >= 0.0 && p.distance(self.center) <= self.radius * (1.0 + 1e-12) + 1e-300
    }
}

/// The smallest sphere that encloses all points; exact to rounding, radius 0 for one point.
///
/// Welzl's incremental algorithm with move-to-front, iterative over the farthest outlier: each round adds the
/// farthest point to a small support problem, so that the whole set is scanned only a few times.
pub fn smallest_enclosing_sphere(points: impl Iterator<Item = DVec3> + Clone) -> Sphere {
    let Some(first) = points.clone().next() else {
        return Sphere { center: DVec3::ZERO, radius: 0.0 };
    };
    let mut support = vec![first];
    let mut sphere = Sphere { center: first, radius: 0.0 };
    // Each round raises the radius, so the loop ends; the limit guards against rounding.
    for _ in 0..1000 {
        let far = points
            .clone()
            .max_by(|a, b| a.distance_squared(sphere.center).total_cmp(&b.distance_squared(sphere.center)));
        match far {
            Some(p) if !sphere.holds(p) => support.insert(0, p),
            _ => break,
        }
        sphere = of_few(&support);
        // Only points on the surface can matter next round.
        let radius = sphere.radius;
        support.retain(|p| p.distance(sphere.center) > radius * (1.0 - 1e-6));
        support.truncate(16);
    }
    sphere
}

/// Exact for a handful of points: tries every support set of 1 to 4 in Welzl's order.
fn of_few(points: &[DVec3]) -> Sphere {
    let mut sphere = Sphere { center: points[0], radius: 0.0 };
    for i in 1..points.len() {
        if sphere.holds(points[i]) {
            continue;
        }
        sphere = Sphere { center: points[i], radius: 0.0 };
        for j in 0..i {
            if sphere.holds(points[j]) {
                continue;
            }
            sphere = through(&[points[i], points[j]]);
            for k in 0..j {
                if sphere.holds(points[k]) {
                    continue;
                }
                sphere = through(&[points[i], points[j], points[k]]);
                for l in 0..k {
                    if !sphere.holds(points[l]) {
                        sphere = through(&[points[i], points[j], points[k], points[l]]);
                    }
                }
            }
        }
    }
    sphere
}

/// Sphere with 2 to 4 points on its surface and its centre in their affine hull.
fn through(points: &[DVec3]) -> Sphere {
    let origin = points[0];
    let edges: Vec<DVec3> = points[1..].iter().map(|p| *p - origin).collect();
    // centre = origin + sum x_k e_k with 2 e_m . centre' = |e_m|^2; Gaussian elimination on at most 3 unknowns.
    let n = edges.len();
    let mut a = [[0.0f64; 4]; 3];
    for m in 0..n {
        for k in 0..n {
            a[m][k] = 2.0 * edges[m].dot(edges[k]);
        }
        a[m][3] = edges[m].length_squared();
    }
    let mut x = [0.0f64; 3];
    for c in 0..n {
        let pivot = (c..n).max_by(|&p, &q| a[p][c].abs().total_cmp(&a[q][c].abs())).unwrap_or(c);
        a.swap(c, pivot);
        if a[c][c].abs() < 1e-300 {
            continue;
        }
        for r in c + 1..n {
            let f = a[r][c] / a[c][c];
            let pivot_row = a[c];
            a[r].iter_mut().zip(pivot_row).skip(c).for_each(|(x, p)| *x -= f * p);
        }
    }
    for c in (0..n).rev() {
        let sum: f64 = (c + 1..n).map(|k| a[c][k] * x[k]).sum();
        x[c] = if a[c][c].abs() < 1e-300 { 0.0 } else { (a[c][3] - sum) / a[c][c] };
    }
    let center = origin + edges.iter().zip(x).map(|(e, x)| *e * x).sum::<DVec3>();
    let radius = points.iter().map(|p| p.distance(center)).fold(0.0, f64::max);
    Sphere { center, radius }
}

/// Radius of the rest pose's smallest enclosing sphere; 1 when all vertices coincide, so that errors stay finite.
pub fn unit_radius(rest: &[Vec3]) -> f64 {
    let radius = smallest_enclosing_sphere(rest.iter().map(|p| p.as_dvec3())).radius;
    if radius > 0.0 { radius } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn point() -> impl Strategy<Value = DVec3> {
        prop::array::uniform3(-1.0..1.0f64).prop_map(DVec3::from_array)
    }

    proptest! {
        /// Against slow but certain shrinking steps towards the farthest point [Badoiu & Clarkson 2003].
        #[test]
        fn agrees_with_the_core_set_iteration(points in prop::collection::vec(point(), 1..40)) {
            let sphere = smallest_enclosing_sphere(points.iter().copied());
            let far = |c: DVec3| points.iter().map(|p| p.distance(c)).fold(0.0, f64::max);
            prop_assert!(far(sphere.center) <= sphere.radius * (1.0 + 1e-9) + 1e-12);
            let mut center = points[0];
            for step in 1..20_000 {
                let p = points.iter().max_by(|a, b| a.distance(center).total_cmp(&b.distance(center))).unwrap();
                center += (*p - center) / (step as f64 + 1.0);
            }
            prop_assert!(sphere.radius <= far(center) * (1.0 + 1e-9));
            prop_assert!(sphere.radius >= far(center) * (1.0 - 1e-2));
        }
    }

    #[test]
    fn known_spheres() {
        let cube = (0..8).map(|c| DVec3::new((c & 1) as f64, (c >> 1 & 1) as f64, (c >> 2) as f64));
        let sphere = smallest_enclosing_sphere(cube);
        assert!((sphere.radius - 0.75f64.sqrt()).abs() < 1e-12);
        let line = (0..10).map(|c| DVec3::X * c as f64);
        assert!((smallest_enclosing_sphere(line).radius - 4.5).abs() < 1e-12);
    }
}
