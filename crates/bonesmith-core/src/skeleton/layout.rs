//! The layout of a skeleton: its root, the order and direction of bones, where leaves end.

use glam::{DMat3, DQuat, DVec3};

use crate::mesh::Topology;
use crate::skeleton::pose::Pose;
use crate::skeleton::tree::Tree;
use crate::skinning::Skin;

/// Weight above which a vertex counts as part of a bone when its end is looked for.
const DOMINANT: f64 = 0.5;

/// Bones shorter than this (in units of the sphere) have no direction of their own.
const MIN_LENGTH: f64 = 1e-3;

/// Places on a surface with their areas: the middles of its triangles, or its vertices where there are no faces.
pub(crate) fn areas(rest: &[DVec3], topology: &Topology) -> Vec<(DVec3, f64)> {
    let of = |triangle: [u32; 3]| {
        let [a, b, c] = triangle.map(|v| rest[v as usize]);
        ((a + b + c) / 3.0, (b - a).cross(c - a).length())
    };
    let areas: Vec<(DVec3, f64)> = topology.vertex_triangles().iter().map(|triangle| of(*triangle)).collect();
    match areas.iter().any(|(_, area)| *area > 0.0) {
        true => areas,
        false => rest.iter().map(|p| (*p, 1.0)).collect(),
    }
}

/// Middle of a surface.
pub(crate) fn middle(areas: &[(DVec3, f64)]) -> DVec3 {
    let (sum, area) = areas.iter().fold((DVec3::ZERO, 0.0), |(sum, all), (p, area)| (sum + *area * *p, all + area));
    if area > 0.0 { sum / area } else { DVec3::ZERO }
}

/// The bone nearest a place.
pub(crate) fn nearest_bone(centroids: &[DVec3], place: DVec3) -> usize {
    let away = |j: &usize| centroids[*j].distance_squared(place);
    (0..centroids.len()).min_by(|a, b| away(a).total_cmp(&away(b)).then(a.cmp(b))).unwrap_or(0)
}

/// A pose with another root, whose joint goes to the middle of the joints around it, or of what it moves.
pub(crate) fn rooted(pose: &Pose, root: usize, centroids: &[DVec3]) -> Pose {
    let around: Vec<DVec3> =
        pose.tree.edges().iter().filter(|e| e.bones.0 == root || e.bones.1 == root).map(|e| e.joint).collect();
    let place = if around.len() > 1 { around.iter().sum::<DVec3>() / around.len() as f64 } else { centroids[root] };
    pose.with_tree(pose.tree.rooted_at(root, place))
}

/// [B] bones depth first, each followed by the child that continues its chain: chains are numbered along.
pub(crate) fn chain_order(tree: &Tree) -> Vec<usize> {
    let children = main_child_first(tree);
    let mut order = Vec::with_capacity(tree.bones());
    let mut stack = vec![tree.root()];
    while let Some(j) = stack.pop() {
        order.push(j);
        stack.extend(children[j].iter().rev());
    }
    order
}

/// [B] children, the one with the most bones below it first; among equals the one that bends least.
fn main_child_first(tree: &Tree) -> Vec<Vec<usize>> {
    let sizes = tree.sizes();
    let mut children = tree.children();
    for (j, children) in children.iter_mut().enumerate() {
        let line = tree.parents[j].map_or(DVec3::ZERO, |p| tree.joints[j] - tree.joints[p]);
        let straight = |k: usize| (tree.joints[k] - tree.joints[j]).normalize_or_zero().dot(line);
        children.sort_by(|&a, &b| sizes[b].cmp(&sizes[a]).then(straight(b).total_cmp(&straight(a))).then(a.cmp(&b)));
    }
    children
}

/// [B] where leaves end: as far as what they move reaches, away from the joint. `None` for bones with children.
pub(crate) fn tips(tree: &Tree, skin: &Skin, centroids: &[DVec3]) -> Vec<Option<DVec3>> {
    let children = tree.children();
    let mut reach = vec![0.0f64; tree.bones()];
    let direction = |j: usize| {
        let inherited = tree.parents[j].map_or(DVec3::Y, |p| (tree.joints[j] - tree.joints[p]).normalize_or(DVec3::Y));
        let own = centroids[j] - tree.joints[j];
        if own.length() > MIN_LENGTH { own.normalize() } else { inherited }
    };
    let directions: Vec<DVec3> = (0..tree.bones()).map(direction).collect();
    for (i, u) in skin.rest.iter().enumerate() {
        for (j, w) in skin.of(i) {
            if w > DOMINANT && children[j].is_empty() {
                reach[j] = reach[j].max((*u - tree.joints[j]).dot(directions[j]));
            }
        }
    }
    let tip = |j: usize| {
        let length = reach[j].max((centroids[j] - tree.joints[j]).length()).max(10.0 * MIN_LENGTH);
        children[j].is_empty().then(|| tree.joints[j] + directions[j] * length)
    };
    (0..tree.bones()).map(tip).collect()
}

/// [B] axes of each bone in the rest pose: y along the bone to the child that continues its chain, or to the tip.
///
/// Roll is carried along chains by the smallest rotation, so neighbours' axes agree and small changes of the joints
/// change it little.
pub(crate) fn axes(tree: &Tree, tips: &[Option<DVec3>]) -> Vec<DMat3> {
    let children = main_child_first(tree);
    let mut axes = vec![DMat3::IDENTITY; tree.bones()];
    for &j in &tree.order {
        let above = tree.parents[j].map_or(DMat3::IDENTITY, |p| axes[p]);
        let end = children[j].first().map(|&k| tree.joints[k]).or(tips[j]).unwrap_or(tree.joints[j]);
        let along = end - tree.joints[j];
        axes[j] = if along.length() > MIN_LENGTH { turned_to(above, along.normalize()) } else { above };
    }
    axes
}

/// A frame turned the short way until its y axis points along `y`.
fn turned_to(frame: DMat3, y: DVec3) -> DMat3 {
    // Turning right round has no shortest way: about x then.
    if frame.y_axis.dot(y) < -1.0 + 1e-9 {
        return DMat3::from_cols(frame.x_axis, -frame.y_axis, -frame.z_axis);
    }
    let turned = DMat3::from_quat(DQuat::from_rotation_arc(frame.y_axis, y)) * frame;
    // Rounding must not add up along chains.
    let x = (turned.x_axis - y * y.dot(turned.x_axis)).normalize();
    DMat3::from_cols(x, y, x.cross(y))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skeleton::tree::Edge;

    /// A trunk 0-1-2 with a long arm 3-4-5 and a short one 6.
    fn tree() -> Tree {
        let places =
            [(0, 1, [0.0, 1.0, 0.0]), (1, 2, [0.0, 2.0, 0.0]), (1, 3, [1.0, 1.5, 0.0]), (3, 4, [2.0, 1.5, 0.0])];
        let more = [(4, 5, [3.0, 1.0, 0.0]), (1, 6, [-1.0, 1.5, 0.0])];
        let edges: Vec<Edge> = places
            .iter()
            .chain(&more)
            .map(|&(a, b, at)| Edge { bones: (a, b), joint: DVec3::from_array(at) })
            .collect();
        Tree::new(7, &edges, 0, DVec3::ZERO)
    }

    #[test]
    fn chains_are_numbered_along() {
        assert_eq!(chain_order(&tree()), [0, 1, 3, 4, 5, 2, 6]);
    }

    #[test]
    fn axes_are_rotations_along_the_bone_and_roll_is_stable() {
        let tree = tree();
        let tips: Vec<Option<DVec3>> =
            (0..7).map(|j| [2, 5, 6].contains(&j).then(|| tree.joints[j] + DVec3::new(0.1, 1.0, 0.2))).collect();
        let axes = axes(&tree, &tips);
        for (j, frame) in axes.iter().enumerate() {
            assert!((*frame * frame.transpose()).abs_diff_eq(DMat3::IDENTITY, 1e-12), "{j}");
            assert!(frame.determinant() > 0.0);
        }
        assert!(axes[0].y_axis.abs_diff_eq(DVec3::Y, 1e-12));
        assert!(axes[3].y_axis.abs_diff_eq(DVec3::X, 1e-12));
        // A hair's breadth elsewhere, a hair's breadth of roll.
        let mut moved = tree.clone();
        moved.joints.iter_mut().for_each(|p| *p += DVec3::new(1e-6, -1e-6, 1e-6) * p.x);
        for (a, b) in axes.iter().zip(super::axes(&moved, &tips)) {
            assert!(a.abs_diff_eq(b, 1e-4));
        }
    }

    #[test]
    fn a_bone_that_turns_right_round_still_has_axes() {
        let turned = turned_to(DMat3::IDENTITY, -DVec3::Y);
        assert!(turned.y_axis.abs_diff_eq(-DVec3::Y, 1e-12) && (turned.determinant() - 1.0).abs() < 1e-12);
    }
}
