//! Mirror symmetry of a pose.
//!
//! Planes through the middle of the bounding box, across x, y and z, are tried: models stand along the axes. A pose is as
//! symmetric as the mean distance from its mirrored vertices to the nearest vertex is small.

use glam::{DVec3, Vec3};

use crate::mesh::sequence::RawFrame;
use crate::solve::nearest::Points;

/// Largest mean distance of a symmetric pose, as a share of the radius.
pub(crate) const MAX_MISFIT: f64 = 0.02;

/// Vertices that are mirrored when a plane is tried.
const MAX_TRIED: usize = 400;

/// Poses thinner than this, across a plane, are their own mirror image there: that says nothing.
const MIN_EXTENT: f64 = 0.05;

/// A plane of symmetry: `normal . x = offset`.
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

    /// Distance from the plane, positive where the normal points.
    pub fn side(&self, p: DVec3) -> f64 {
        self.normal.dot(p) - self.offset
    }
}

/// The plane with the smallest mean distance, and that distance. `points` are in units of the radius.
pub(crate) fn best_plane(points: &[DVec3]) -> Option<(f64, Plane)> {
    let low = points.iter().fold(DVec3::INFINITY, |a, b| a.min(*b));
    let high = points.iter().fold(DVec3::NEG_INFINITY, |a, b| a.max(*b));
    let (centre, extent) = (0.5 * (low + high), high - low);
    let near = Points::new(points.iter().copied().zip(0..));
    let stride = points.len().div_ceil(MAX_TRIED).max(1);
    let misfit = |plane: &Plane| {
        let (mut sum, mut tried, mut found) = (0.0, 0, Vec::new());
        for p in points.iter().step_by(stride) {
            near.nearest(plane.mirror(*p), 1, &mut found);
            sum += found.first().map_or(0.0, |(squared, _)| squared.sqrt());
            tried += 1;
        }
        sum / f64::from(tried)
    };
    let planes = DVec3::AXES.map(|normal| Plane { normal, offset: normal.dot(centre) });
    let thick = planes.into_iter().filter(|plane| extent.dot(plane.normal) >= MIN_EXTENT);
    thick.map(|plane| (misfit(&plane), plane)).min_by(|a, b| a.0.total_cmp(&b.0))
}

/// Images that are looked at for a point: vertices of a seam lie on each other.
const CANDIDATES: usize = 6;

/// [N] the mirror image of each point, within a distance; itself on the plane. No two points have the same image.
pub(crate) fn pairs(points: &[DVec3], plane: &Plane, distance: f64) -> Vec<Option<u32>> {
    let near = Points::new(points.iter().copied().zip(0..));
    let (mut images, mut found): (Vec<Option<u32>>, _) = (vec![None; points.len()], Vec::new());
    for i in 0..points.len() {
        if images[i].is_some() {
            continue;
        }
        near.nearest(plane.mirror(points[i]), CANDIDATES, &mut found);
        let free = |(squared, k): &&(f64, u32)| *squared <= distance * distance && images[*k as usize].is_none();
        if let Some(&(_, k)) = found.iter().find(free) {
            images[i] = Some(k);
            images[k as usize] = Some(i as u32);
        }
    }
    images
}

/// The most symmetric of some poses; `None` where none is symmetric at all.
pub fn most_symmetric(frames: &[RawFrame]) -> Option<usize> {
    let misfit = |frame: &RawFrame| {
        let positions = frame.all_positions();
        let low = positions.iter().copied().fold(Vec3::INFINITY, Vec3::min);
        let high = positions.iter().copied().fold(Vec3::NEG_INFINITY, Vec3::max);
        let radius = 0.5 * f64::from((high - low).length());
        let points: Vec<DVec3> = positions.iter().map(|p| p.as_dvec3() / radius).collect();
        let sound = radius > 0.0 && points.iter().all(|p| p.is_finite());
        sound.then(|| best_plane(&points)).flatten().map(|(misfit, _)| misfit)
    };
    let scored = frames.iter().enumerate().filter_map(|(t, frame)| misfit(frame).map(|misfit| (misfit, t)));
    let symmetric = scored.filter(|(misfit, _)| *misfit < MAX_MISFIT);
    symmetric.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1))).map(|(_, t)| t)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pose(lean: f32) -> RawFrame {
        let point = |k: u16| {
            let (s, c) = (f32::from(k) * 0.7).sin_cos();
            let (x, y) = (0.05 + 0.004 * f32::from(k), 0.3 * s * c);
            [Vec3::new(x, y + lean * x, 0.1 * s), Vec3::new(-x, y + 0.2 * lean * x, 0.1 * s)]
        };
        RawFrame { positions: (0..200).flat_map(point).collect(), ..RawFrame::default() }
    }

    #[test]
    fn points_are_paired_with_their_images() {
        let plane = Plane { normal: DVec3::X, offset: 0.5 };
        // A pair, a vertex on the plane, two that lie on each other and their images, and one without.
        let points = [[0.0, 1.0], [1.0, 1.0], [0.5, 0.0], [0.2, 3.0], [0.2, 3.0], [0.8, 3.0], [0.8, 3.0], [0.9, 5.0]];
        let points = points.map(|[x, y]| DVec3::new(x, y, 0.0));
        let images = [Some(1), Some(0), Some(2), Some(5), Some(6), Some(3), Some(4), None];
        assert_eq!(pairs(&points, &plane, 1e-3), images);
    }

    #[test]
    fn the_straight_pose_is_the_most_symmetric() {
        assert_eq!(most_symmetric(&[pose(1.0), pose(0.4), pose(0.0), pose(-0.3)]), Some(2));
        assert_eq!(most_symmetric(&[pose(2.0), pose(1.5)]), None);
        assert_eq!(most_symmetric(&[]), None);
    }
}
