// One word per influence: the bone in the low bits, as many as it takes, and a weight from 0 to 1 in the others.

struct Influence {
    bone: u32,
    weight: f32,
}

fn influence(at: u32, within: u32) -> Influence {
    let word = influences[at * SLICE + within];
    let weight = f32(word >> params.index_bits) * params.weight_unit;
    return Influence(word & ((1u << params.index_bits) - 1u), weight);
}
