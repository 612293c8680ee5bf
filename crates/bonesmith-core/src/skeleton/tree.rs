//! The tree of bones: the parent of each, and where the joints are.

use glam::DVec3;

/// A rooted tree of bones.
///
/// Invariants, by construction and checked in debug builds:
/// 1. Exactly one root; following parents ends there.
/// 2. `order` lists every bone once, parents before children.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    /// [B] parent of each bone; `None` for the root.
    pub parents: Vec<Option<usize>>,
    /// [B] rest position of the joint that bone `j` turns about; for the root, the point whose path is its translation.
    pub joints: Vec<DVec3>,
    /// [B] parents before children.
    pub order: Vec<usize>,
}

/// An undirected edge: two bones and the joint they share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Edge {
    pub bones: (usize, usize),
    pub joint: DVec3,
}

impl Tree {
    /// `bones` bones, connected by `edges`, below `root`.
    pub fn new(bones: usize, edges: &[Edge], root: usize, root_joint: DVec3) -> Self {
        debug_assert_eq!(edges.len() + 1, bones);
        let mut tree = Self { parents: vec![None; bones], joints: vec![root_joint; bones], order: vec![root] };
        let mut seen = vec![false; bones];
        seen[root] = true;
        let mut at = 0;
        while at < tree.order.len() {
            let j = tree.order[at];
            at += 1;
            for edge in edges {
                let k = match edge.bones {
                    (a, b) if a == j => b,
                    (a, b) if b == j => a,
                    _ => continue,
                };
                if !seen[k] {
                    seen[k] = true;
                    tree.parents[k] = Some(j);
                    tree.joints[k] = edge.joint;
                    tree.order.push(k);
                }
            }
        }
        debug_assert_eq!(tree.order.len(), bones, "the edges span all bones");
        tree
    }

    /// B.
    pub fn bones(&self) -> usize {
        self.parents.len()
    }

    /// The root.
    pub fn root(&self) -> usize {
        self.order[0]
    }

    /// Edges without a direction.
    pub fn edges(&self) -> Vec<Edge> {
        let edge = |j: usize| self.parents[j].map(|p| Edge { bones: (p, j), joint: self.joints[j] });
        self.order.iter().filter_map(|&j| edge(j)).collect()
    }

    /// The same tree with another root.
    pub fn rooted_at(&self, root: usize, root_joint: DVec3) -> Self {
        Self::new(self.bones(), &self.edges(), root, root_joint)
    }

    /// [B] children of each bone, ascending.
    pub fn children(&self) -> Vec<Vec<usize>> {
        let mut children = vec![Vec::new(); self.bones()];
        for (j, parent) in self.parents.iter().enumerate() {
            if let Some(p) = parent {
                children[*p].push(j);
            }
        }
        children
    }

    /// Takes bones out; their children go to the nearest ancestor that stays, at the joints they had. A root that
    /// is taken out is replaced by the child with the most bones below it. Bones are renumbered in ascending order.
    pub fn without(&self, gone: &[usize]) -> Self {
        let mut tree = self.clone();
        if gone.contains(&tree.root()) {
            let sizes = tree.sizes();
            let stays = |j: &&usize| !gone.contains(j);
            // Ties go to the lower number: `order` is fixed by the edges.
            let heir = tree.order.iter().filter(stays).max_by_key(|&&j| (sizes[j], std::cmp::Reverse(j)));
            if let Some(&heir) = heir {
                let place = tree.joints[heir];
                tree = tree.rooted_at(heir, place);
            }
        }
        for &j in &tree.order {
            // Parents come first, so theirs are replaced already.
            if let Some(p) = tree.parents[j].filter(|p| gone.contains(p)) {
                tree.parents[j] = tree.parents[p];
            }
        }
        let kept: Vec<usize> = (0..tree.bones()).filter(|j| !gone.contains(j)).collect();
        tree.order.retain(|j| !gone.contains(j));
        tree.renumbered(&kept)
    }

    /// The bones `kept`, numbered in this order; their parents are among them.
    pub fn renumbered(&self, kept: &[usize]) -> Self {
        let mut numbers = vec![usize::MAX; self.bones()];
        kept.iter().enumerate().for_each(|(to, &from)| numbers[from] = to);
        Self {
            parents: kept.iter().map(|&j| self.parents[j].map(|p| numbers[p])).collect(),
            joints: kept.iter().map(|&j| self.joints[j]).collect(),
            order: self.order.iter().map(|&j| numbers[j]).collect(),
        }
    }

    /// Adds bones below existing ones.
    pub fn push(&mut self, parent: usize, joint: DVec3) {
        self.order.push(self.bones());
        self.parents.push(Some(parent));
        self.joints.push(joint);
    }

    /// [B] bones in the subtree of each, itself included.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes = vec![1; self.bones()];
        for &j in self.order.iter().rev() {
            if let Some(p) = self.parents[j] {
                sizes[p] += sizes[j];
            }
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain() -> Tree {
        let edge = |a: usize, b: usize| Edge { bones: (a, b), joint: DVec3::X * (a + b) as f64 };
        Tree::new(5, &[edge(3, 4), edge(0, 1), edge(2, 1), edge(2, 3)], 2, DVec3::ZERO)
    }

    #[test]
    fn the_root_is_on_top_and_edges_survive_rerooting() {
        let tree = chain();
        assert_eq!(tree.parents, [Some(1), Some(2), None, Some(2), Some(3)]);
        assert_eq!(tree.sizes(), [1, 2, 5, 2, 1]);
        let other = tree.rooted_at(4, DVec3::ZERO);
        assert_eq!(other.parents, [Some(1), Some(2), Some(3), Some(4), None]);
        let sorted = |tree: &Tree| {
            let mut edges: Vec<_> =
                tree.edges().iter().map(|e| (e.bones.0.min(e.bones.1), e.bones.0.max(e.bones.1), e.joint.x)).collect();
            edges.sort_by(|a, b| a.partial_cmp(b).unwrap());
            edges
        };
        assert_eq!(sorted(&tree), sorted(&other));
    }

    #[test]
    fn children_of_a_bone_that_goes_move_up() {
        let tree = chain().without(&[1]);
        assert_eq!(tree.parents, [Some(1), None, Some(1), Some(2)]);
        assert_eq!(tree.joints[0].x, 1.0, "the joint stays where it was");
        // The root goes: one of its children takes over, the others hang on it.
        let tree = chain().without(&[2]);
        assert_eq!(tree.parents.iter().filter(|p| p.is_none()).count(), 1);
        assert_eq!(tree.order.len(), 4);
    }
}
