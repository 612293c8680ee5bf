//! Points found by nearness: a k-d tree.

use glam::DVec3;

/// Points of space, ordered as a balanced tree: the middle of each range divides it along one axis.
pub(crate) struct Points {
    /// (point, number, axis that its range is divided along)
    nodes: Vec<(DVec3, u32, u8)>,
}

/// A point that was found: squared distance and number.
pub(crate) type Found = (f64, u32);

impl Points {
    /// From points and their numbers.
    pub fn new(points: impl IntoIterator<Item = (DVec3, u32)>) -> Self {
        let mut nodes: Vec<_> = points.into_iter().map(|(p, number)| (p, number, 0)).collect();
        divide(&mut nodes);
        Self { nodes }
    }

    /// Replaces `out` by the `count` points nearest to `from`, nearest first; equally near ones by their number.
    pub fn nearest(&self, from: DVec3, count: usize, out: &mut Vec<Found>) {
        out.clear();
        if count > 0 {
            visit(&self.nodes, from, count, out);
        }
    }
}

fn divide(nodes: &mut [(DVec3, u32, u8)]) {
    if nodes.len() < 2 {
        return;
    }
    let (low, high) = nodes.iter().fold((nodes[0].0, nodes[0].0), |(low, high), (p, ..)| (low.min(*p), high.max(*p)));
    let extent = high - low;
    let axis = (0..3).max_by(|&a, &b| extent[a].total_cmp(&extent[b])).unwrap_or(0);
    let middle = nodes.len() / 2;
    nodes.select_nth_unstable_by(middle, |a, b| a.0[axis].total_cmp(&b.0[axis]).then(a.1.cmp(&b.1)));
    nodes[middle].2 = axis as u8;
    let (before, rest) = nodes.split_at_mut(middle);
    divide(before);
    divide(&mut rest[1..]);
}

fn visit(nodes: &[(DVec3, u32, u8)], from: DVec3, count: usize, out: &mut Vec<Found>) {
    let middle = nodes.len() / 2;
    let Some(&(p, number, axis)) = nodes.get(middle) else { return };
    let side = from[axis as usize] - p[axis as usize];
    let (near, far) = match side < 0.0 {
        true => (&nodes[..middle], &nodes[middle + 1..]),
        false => (&nodes[middle + 1..], &nodes[..middle]),
    };
    visit(near, from, count, out);
    let found = (p.distance_squared(from), number);
    let before = |a: &Found| a.0.total_cmp(&found.0).then(a.1.cmp(&found.1)).is_lt();
    if out.len() < count || !out.last().is_some_and(before) {
        out.insert(out.partition_point(before), found);
        out.truncate(count);
    }
    if out.len() < count || out.last().is_some_and(|last| side * side <= last.0) {
        visit(far, from, count, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::solve::random::Random;

    #[test]
    fn the_nearest_are_those_of_a_search_through_all() {
        let mut random = Random::new(3);
        for (n, coarse) in [(1, false), (7, false), (200, false), (300, true)] {
            // Coarse coordinates: many points equally far, and some in one place.
            let point = |random: &mut Random| if coarse { (random.vector() * 3.0).round() } else { random.vector() };
            let points: Vec<DVec3> = (0..n).map(|_| point(&mut random)).collect();
            let tree = Points::new(points.iter().copied().zip(0..));
            let mut found = Vec::new();
            for count in [0, 1, 5, n + 1] {
                let from = point(&mut random);
                tree.nearest(from, count, &mut found);
                let mut all: Vec<Found> = points.iter().zip(0..).map(|(p, i)| (p.distance_squared(from), i)).collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                all.truncate(count);
                assert_eq!(found, all);
            }
        }
    }
}
