//! Numbering equal things, for splitting and merging vertices.

use std::collections::HashMap;
use std::hash::Hash;

/// Numbers things by first appearance.
pub fn intern<T: Hash + Eq>(things: impl Iterator<Item = T>) -> Vec<u32> {
    let mut numbers: HashMap<T, u32> = HashMap::new();
    things
        .map(|thing| {
            let next = numbers.len() as u32;
            *numbers.entry(thing).or_insert(next)
        })
        .collect()
}

/// Splits classes further: equal afterwards are those that were equal and have equal `things`.
pub fn refine<T: Hash + Eq>(classes: &mut Vec<u32>, things: impl Iterator<Item = T>) {
    *classes = intern(classes.iter().copied().zip(things));
}

/// Bits to compare floats by: -0 is 0.
pub fn bits<const D: usize>(value: [f32; D]) -> [u32; D] {
    value.map(|x| (x + 0.0).to_bits())
}
