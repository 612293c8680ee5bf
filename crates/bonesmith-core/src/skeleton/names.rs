//! Names of bones: `root`, `bone_01`, `bone_02`... along chains; mirror pairs end in `_l` and `_r`.

use glam::DVec3;

use crate::skeleton::tree::Tree;

/// Mean distance, in units of the sphere, from a mirrored vertex to the nearest vertex of a symmetric model.
const MAX_MISFIT: f64 = 0.02;

/// Farthest apart, in units of the sphere, that a bone and the mirror image of its twin may be.
const MAX_TWIN_DISTANCE: f64 = 0.12;

/// Vertices that are mirrored when a plane is tried.
const MAX_TRIED: usize = 400;

/// A plane of symmetry: `normal . x = offset`; what lies on the positive side is left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Plane {
    pub normal: DVec3,
    pub offset: f64,
}

impl Plane {
    /// The mirror image of a point.
    pub fn mirror(&self, p: DVec3) -> DVec3 {
        p - 2.0 * self.side(p) * self.normal
    }

    /// Distance from the plane, positive on the left.
    pub fn side(&self, p: DVec3) -> f64 {
        self.normal.dot(p) - self.offset
    }
}

/// The plane that mirrors the rest pose onto itself, if there is one: through the middle of the bounding box, across
/// x, y or z. Models stand along the axes; other planes are not tried.
pub(crate) fn symmetry(rest: &[DVec3]) -> Option<Plane> {
    let low = rest.iter().fold(DVec3::INFINITY, |a, b| a.min(*b));
    let high = rest.iter().fold(DVec3::NEG_INFINITY, |a, b| a.max(*b));
    let centre = 0.5 * (low + high);
    let stride = rest.len().div_ceil(MAX_TRIED).max(1);
    let misfit = |plane: &Plane| {
        let tried: Vec<DVec3> = rest.iter().step_by(stride).map(|p| plane.mirror(*p)).collect();
        let nearest = |q: &DVec3| rest.iter().map(|p| p.distance_squared(*q)).fold(f64::INFINITY, f64::min).sqrt();
        // A pancake is its own mirror image across its thin side: that says nothing.
        let extent = (high - low).dot(plane.normal.abs());
        let flat = extent < 0.05;
        if flat { f64::INFINITY } else { tried.iter().map(nearest).sum::<f64>() / tried.len() as f64 }
    };
    let planes = DVec3::AXES.map(|normal| Plane { normal, offset: normal.dot(centre) });
    let scored = planes.into_iter().map(|plane| (misfit(&plane), plane)).filter(|(misfit, _)| *misfit < MAX_MISFIT);
    scored.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, plane)| plane)
}

/// [B] mirror twin of each bone: nearest each other by joint and by middle, on opposite sides.
pub(crate) fn twins(tree: &Tree, centroids: &[DVec3], plane: &Plane) -> Vec<Option<usize>> {
    let b = tree.bones();
    let apart = |j: usize, k: usize| {
        let opposite = plane.side(centroids[j]) * plane.side(centroids[k]) < 0.0;
        let away = plane.mirror(centroids[j]).distance(centroids[k]);
        let joints = plane.mirror(tree.joints[j]).distance(tree.joints[k]);
        if opposite { 0.5 * (away + joints) } else { f64::INFINITY }
    };
    let nearest = |j: usize| {
        let best = (0..b).filter(|&k| k != j).min_by(|&x, &y| apart(j, x).total_cmp(&apart(j, y)).then(x.cmp(&y)))?;
        (apart(j, best) < MAX_TWIN_DISTANCE && plane.side(centroids[j]).abs() > 0.25 * MAX_TWIN_DISTANCE)
            .then_some(best)
    };
    let nearest: Vec<Option<usize>> = (0..b).map(nearest).collect();
    (0..b).map(|j| nearest[j].filter(|&k| nearest[k] == Some(j) && tree.root() != j && tree.root() != k)).collect()
}

/// [B] unique names, numbered along `order`; twins share a number.
pub(crate) fn names(order: &[usize], twins: &[Option<usize>], sides: &[f64]) -> Vec<String> {
    let mut numbers: Vec<Option<usize>> = vec![None; order.len()];
    let mut next = 0;
    for &j in order {
        if numbers[j].is_none() {
            numbers[j] = Some(next);
            if let Some(k) = twins[j] {
                numbers[k] = Some(next);
            }
            next += 1;
        }
    }
    let digits = next.saturating_sub(1).to_string().len().max(2);
    let suffix = |j: usize| match (twins[j], sides[j] > 0.0) {
        (None, _) => "",
        (Some(_), true) => "_l",
        (Some(_), false) => "_r",
    };
    let root = order.first().copied();
    let name = |j: usize| match Some(j) == root {
        true => "root".to_owned(),
        false => format!("bone_{:0digits$}{}", numbers[j].unwrap_or(0), suffix(j)),
    };
    (0..order.len()).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::tree::Edge;

    #[test]
    fn a_body_with_two_arms_is_symmetric_and_its_arms_are_twins() {
        let mut rest = Vec::new();
        for k in 0..200 {
            let (s, c) = (k as f64 * 0.7).sin_cos();
            for side in [-1.0, 1.0] {
                rest.push(DVec3::new(
                    side * (0.05 + 0.8 * (k as f64 / 200.0)),
                    0.3 * s * c - 0.001 * k as f64,
                    0.1 * s,
                ));
            }
        }
        let plane = symmetry(&rest).unwrap();
        assert!(plane.normal.abs_diff_eq(DVec3::X, 0.0) && plane.offset.abs() < 1e-12);
        // Root in the middle, an arm of two bones on each side.
        let edge = |a, b, x: f64| Edge { bones: (a, b), joint: DVec3::new(x, 0.0, 0.0) };
        let tree =
            Tree::new(5, &[edge(0, 1, 0.2), edge(1, 2, 0.5), edge(0, 3, -0.21), edge(3, 4, -0.49)], 0, DVec3::ZERO);
        let middles = [0.0, 0.35, 0.7, -0.34, -0.72].map(|x| DVec3::new(x, 0.0, 0.0));
        let twins = twins(&tree, &middles, &plane);
        assert_eq!(twins, [None, Some(3), Some(4), Some(1), Some(2)]);
        let sides: Vec<f64> = middles.iter().map(|p| plane.side(*p)).collect();
        let names = names(&[0, 1, 2, 3, 4], &twins, &sides);
        assert_eq!(names, ["root", "bone_01_l", "bone_02_l", "bone_01_r", "bone_02_r"]);
    }

    #[test]
    fn a_lopsided_body_has_no_plane() {
        let rest: Vec<DVec3> =
            (0..300).map(|k| k as f64 / 300.0).map(|x| DVec3::new(x, x * x, (3.0 * x).sin() * x)).collect();
        assert_eq!(symmetry(&rest), None);
    }

    #[test]
    fn names_without_twins_count_along() {
        let names = names(&[2, 0, 1], &[None; 3], &[0.0; 3]);
        assert_eq!(names, ["bone_01", "bone_02", "root"]);
    }
}
