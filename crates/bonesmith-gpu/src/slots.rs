//! Which of a row's influences comes first, second and so on.
//!
//! The order within a row is free. Threads in step read one influence of each row of a slice at a time: the fewer different
//! bones those are, the fewer cache lines the load touches.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::layout::SLICE;

/// Influences of a slice as [slots, 32], the same bone in the same slot wherever possible; the first `pinned` of each row stay
/// where they are. `least`: slots there are at least. The bone is in those bits of the first word that `bone_mask` has.
///
/// A slot that a row does not need has weight 0 and a bone of its neighbours, where one of them needs it: it costs no line of its own.
pub(crate) fn aligned<const WORDS: usize>(
    slice: &[Vec<[u32; WORDS]>],
    bone_mask: u32,
    pinned: usize,
    least: usize,
) -> Vec<[[u32; WORDS]; SLICE]> {
    let count = slice.iter().map(Vec::len).max().unwrap_or(0).max(least).max(1);
    let mut slots = vec![Slot { bones: Vec::new(), rows: [None; SLICE] }; count];
    let mut users: BTreeMap<u32, usize> = BTreeMap::new();
    slice.iter().flatten().for_each(|influence| *users.entry(influence[0] & bone_mask).or_default() += 1);
    for (lane, row) in slice.iter().enumerate() {
        let (fixed, loose) = row.split_at(pinned.min(row.len()));
        fixed.iter().zip(&mut slots).for_each(|(influence, slot)| slot.put(lane, influence, bone_mask));
        // Bones that many rows have choose first.
        let mut loose: Vec<&[u32; WORDS]> = loose.iter().collect();
        loose.sort_by_key(|influence| Reverse(users[&(influence[0] & bone_mask)]));
        let mut free: Vec<usize> = (fixed.len()..count).collect();
        loose.retain(|influence| {
            let place = free.iter().position(|k| slots[*k].bones.contains(&(influence[0] & bone_mask)));
            place.map(|at| slots[free.remove(at)].put(lane, influence, bone_mask)).is_none()
        });
        free.sort_by_key(|k| slots[*k].bones.len());
        free.iter().zip(loose).for_each(|(k, influence)| slots[*k].put(lane, influence, bone_mask));
    }
    slots.iter().map(Slot::filled).collect()
}

#[derive(Clone)]
struct Slot<const WORDS: usize> {
    /// Different ones, as they came.
    bones: Vec<u32>,
    rows: [Option<[u32; WORDS]>; SLICE],
}

impl<const WORDS: usize> Slot<WORDS> {
    fn put(&mut self, lane: usize, influence: &[u32; WORDS], bone_mask: u32) {
        let bone = influence[0] & bone_mask;
        if !self.bones.contains(&bone) {
            self.bones.push(bone);
        }
        self.rows[lane] = Some(*influence);
    }

    fn filled(&self) -> [[u32; WORDS]; SLICE] {
        let mut nothing = [0; WORDS];
        nothing[0] = self.bones.first().copied().unwrap_or(0);
        self.rows.map(|row| row.unwrap_or(nothing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bone in the low byte, a number that distinguishes influences above it.
    fn slice(rows: &[&[u32]]) -> Vec<Vec<[u32; 1]>> {
        let row = |(i, bones): (usize, &&[u32])| bones.iter().map(|b| [b | (1 + i as u32) << 8]).collect();
        rows.iter().enumerate().map(row).collect()
    }

    fn different(slot: &[[u32; 1]; SLICE]) -> usize {
        let mut bones: Vec<u32> = slot.iter().map(|word| word[0] & 0xff).collect();
        bones.sort_unstable();
        bones.dedup();
        bones.len()
    }

    #[test]
    fn like_bones_share_a_slot_and_nothing_is_lost() {
        let rows = slice(&[&[3, 5, 7], &[7, 3], &[5], &[7, 5, 3], &[9, 7, 3]]);
        let slots = aligned(&rows, 0xff, 0, 0);
        assert_eq!(slots.iter().map(different).collect::<Vec<_>>(), [1, 1, 2]);
        for (lane, row) in rows.iter().enumerate() {
            let mut kept: Vec<_> = slots.iter().map(|slot| slot[lane]).filter(|word| word[0] > 0xff).collect();
            let mut given = row.clone();
            kept.sort_unstable();
            given.sort_unstable();
            assert_eq!(kept, given);
        }
    }

    #[test]
    fn pinned_ones_stay_first() {
        let slots = aligned(&slice(&[&[3, 5], &[5, 3], &[7]]), 0xff, 1, 0);
        assert_eq!([slots[0][0][0] & 0xff, slots[0][1][0] & 0xff, slots[0][2][0] & 0xff], [3, 5, 7]);
    }

    #[test]
    fn there_are_as_many_slots_as_asked_for() {
        let slots = aligned(&slice(&[&[3, 5], &[5]]), 0xff, 0, 4);
        assert_eq!(slots.len(), 4);
        assert_eq!(slots.iter().flatten().filter(|word| word[0] > 0xff).count(), 3);
    }

    #[test]
    fn an_empty_slice_has_one_slot_of_nothing() {
        assert_eq!(aligned::<2>(&[Vec::new()], u32::MAX, 1, 0), [[[0; 2]; SLICE]]);
    }
}
