//! Numbering equal things, for splitting and merging vertices.

use std::collections::HashMap;
use std::hash::Hash;

use bonesmith_core::mesh::surface::CornerAttribute;

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

/// Values of all corners as an attribute in which equal values are one.
pub fn shared<const D: usize>(name: String, per_corner: &[[f32; D]]) -> CornerAttribute<D> {
    let indices = intern(per_corner.iter().map(|value| bits(*value)));
    let mut values = Vec::new();
    for (value, &index) in per_corner.iter().zip(&indices) {
        if index as usize == values.len() {
            values.push(*value);
        }
    }
    CornerAttribute { name, values, indices }
}
