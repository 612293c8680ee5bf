// Two words per influence: the bone, and a weight of any sign.

struct Influence {
    bone: u32,
    weight: f32,
}

fn influence(at: u32, within: u32) -> Influence {
    let first = at * 2u * SLICE + within;
    return Influence(influences[first], bitcast<f32>(influences[first + SLICE]));
}
