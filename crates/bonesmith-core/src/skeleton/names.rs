//! Names of bones: `root`, `bone_01`, `bone_02`... along chains; mirror pairs end in `_l` and `_r`.

use glam::DVec3;

use crate::mesh::symmetry::{MAX_MISFIT, Plane, best_plane};
use crate::skeleton::tree::Tree;

/// Farthest apart, in units of the sphere, that a bone and the mirror image of its twin may be.
const MAX_TWIN_DISTANCE: f64 = 0.12;

/// The plane that mirrors the rest pose onto itself, if there is one; in units of the sphere.
pub(crate) fn symmetry(rest: &[DVec3]) -> Option<Plane> {
    best_plane(rest).filter(|(misfit, _)| *misfit < MAX_MISFIT).map(|(_, plane)| plane)
}

/// Feet must reach out by more than this share of the height to show where a model faces.
const MIN_FOOT: f64 = 0.01;

/// A path must lead away by more than this, in units of the sphere, to show it.
const MIN_TRAVEL: f64 = 0.5;

/// The plane with its normal to the left of the model, y up. It faces where its feet point: the lowest twentieth of the
/// surface lies ahead of what is just above it. Where that says nothing, it faces where it goes (`travel`, from the first frame to
/// the last); where that says nothing either, along z, or along x for a plane across z.
pub(crate) fn oriented(plane: Plane, surface: &[(DVec3, f64)], travel: DVec3) -> Plane {
    let ahead = plane.normal.cross(DVec3::Y);
    if ahead.length() < 0.5 {
        return plane;
    }
    let low = surface.iter().map(|(p, _)| p.y).fold(f64::INFINITY, f64::min);
    let high = surface.iter().map(|(p, _)| p.y).fold(f64::NEG_INFINITY, f64::max);
    let height = high - low;
    let mean = |from: f64, to: f64| {
        let band = surface.iter().filter(|(p, _)| (low + from * height..low + to * height).contains(&p.y));
        let (sum, area) = band.fold((0.0, 0.0), |(s, w), (p, area)| (s + area * p.dot(ahead), w + area));
        (area > 0.0).then(|| sum / area)
    };
    let foot = mean(0.0, 0.05).zip(mean(0.07, 0.14)).map_or(0.0, |(sole, leg)| sole - leg);
    let way = travel.dot(ahead);
    let faces = if foot.abs() > MIN_FOOT * height {
        foot
    } else if way.abs() > MIN_TRAVEL && way.abs() > travel.dot(plane.normal).abs() {
        way
    } else {
        ahead.dot(DVec3::Z) + ahead.dot(DVec3::X)
    };
    // Left is up x ahead.
    let left = DVec3::Y.cross(ahead * faces.signum());
    let sign = plane.normal.dot(left).signum();
    Plane { normal: sign * plane.normal, offset: sign * plane.offset }
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

    /// A leg with a foot on each side: left follows the feet, then the path, then the axes.
    #[test]
    fn left_and_right_follow_the_feet() {
        let model = |foot: f64| -> Vec<(DVec3, f64)> {
            let point = |k: usize| match k % 50 {
                k @ 0..10 => DVec3::new(0.1, 0.002 * k as f64, foot * k as f64 / 10.0),
                k => DVec3::new(0.1, 0.05 * (k - 8) as f64, 0.0),
            };
            (0..100).map(|k| (point(k) * DVec3::new(if k < 50 { 1.0 } else { -1.0 }, 1.0, 1.0), 1.0)).collect()
        };
        let plane = Plane { normal: DVec3::X, offset: 0.0 };
        let left = |foot: f64, travel: DVec3| oriented(plane, &model(foot), travel).side(DVec3::X);
        assert_eq!(left(0.3, DVec3::ZERO), 1.0);
        assert_eq!(left(-0.3, DVec3::ZERO), -1.0);
        assert_eq!(left(-0.3, DVec3::Z), -1.0, "feet come first");
        assert_eq!(left(0.0, DVec3::new(0.1, 0.0, -2.0)), -1.0);
        assert_eq!(left(0.0, DVec3::ZERO), 1.0);
        // Facing x, left is the negative z side.
        let across = oriented(Plane { normal: DVec3::Z, offset: 0.0 }, &[(DVec3::X, 1.0), (DVec3::Y, 1.0)], DVec3::X);
        assert_eq!(across.side(DVec3::Z), -1.0);
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
