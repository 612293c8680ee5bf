//! Numbers of joints for small files: bones that follow each other in a slot of a vertex have neighbouring numbers, because the codec writes a difference
//! of one in two bits and a larger one in a byte more.
//!
//! Where a bone of a vertex is none of the next vertex, each bone that is new there may take its slot. Pairs are joined into chains, the most
//! frequent first: each bone has two neighbours at most, and no chain closes.

use std::collections::BTreeMap;

use bonesmith_core::{Bone, Clip, Rig, SparseWeights};

/// [B] the bone of each new number, for vertices in the order of the file.
pub fn of_joints(rig: &Rig, order: &[u32]) -> Vec<usize> {
    let mut counts: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    let bones = |v: u32| rig.weights.of(v as usize).map(|(j, _)| j).collect::<Vec<usize>>();
    let mut before = Vec::new();
    for &v in order {
        let after = bones(v);
        let gone: Vec<usize> = before.iter().copied().filter(|j| !after.contains(j)).collect();
        for &new in after.iter().filter(|j| !before.contains(j)) {
            for &old in &gone {
                *counts.entry((old.min(new), old.max(new))).or_default() += 1.0 / gone.len() as f64;
            }
        }
        before = after;
    }
    let mut pairs: Vec<((usize, usize), f64)> = counts.into_iter().collect();
    pairs.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    chained(rig.bone_count(), pairs.into_iter().map(|(pair, _)| pair))
}

/// Chains of pairs, one after the other.
fn chained(count: usize, pairs: impl Iterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut beside: Vec<Vec<usize>> = vec![Vec::new(); count];
    // A bone of the same chain for each.
    let mut chain: Vec<usize> = (0..count).collect();
    let first = |chain: &[usize], mut j: usize| {
        while chain[j] != j {
            j = chain[j];
        }
        j
    };
    for (a, b) in pairs {
        let (of_a, of_b) = (first(&chain, a), first(&chain, b));
        if of_a != of_b && beside[a].len() < 2 && beside[b].len() < 2 {
            beside[a].push(b);
            beside[b].push(a);
            chain[of_b] = of_a;
        }
    }
    let mut order = Vec::with_capacity(count);
    let mut done = vec![false; count];
    for start in (0..count).filter(|&j| beside[j].len() < 2) {
        let mut next = Some(start);
        while let Some(j) = next.filter(|&j| !std::mem::replace(&mut done[j], true)) {
            order.push(j);
            next = beside[j].iter().copied().find(|&other| !done[other]);
        }
    }
    order
}

/// The rig with its bones in another order: `bones[new]` is the number so far.
pub fn renumbered(rig: &Rig, bones: &[usize]) -> Rig {
    let mut new = vec![0; bones.len()];
    bones.iter().enumerate().for_each(|(at, &j)| new[j] = at);
    let mut weights = SparseWeights::new(rig.vertex_count(), rig.weights.slots());
    for i in 0..rig.vertex_count() {
        let row: Vec<(usize, f64)> = rig.weights.of(i).map(|(j, w)| (new[j], f64::from(w))).collect();
        weights.set(i, &row);
    }
    let bone = |&j: &usize| Bone { parent: rig.bones[j].parent.map(|p| new[p]), ..rig.bones[j].clone() };
    let clip = |clip: &Clip| {
        let frames = (0..clip.frame_count()).flat_map(|t| bones.iter().map(move |&j| clip.frame(t)[j]));
        Clip { posed_from_rest: frames.collect(), ..clip.clone() }
    };
    Rig { weights, bones: bones.iter().map(bone).collect(), clips: rig.clips.iter().map(clip).collect(), ..rig.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_pairs_are_neighbours() {
        let order = chained(6, [(4, 1), (1, 5), (4, 5), (1, 2), (0, 3)].into_iter());
        let at = |j: usize| order.iter().position(|&own| own == j).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [0, 1, 2, 3, 4, 5]);
        for (a, b) in [(4, 1), (1, 5), (0, 3)] {
            assert_eq!(at(a).abs_diff(at(b)), 1, "{order:?}");
        }
    }
}
