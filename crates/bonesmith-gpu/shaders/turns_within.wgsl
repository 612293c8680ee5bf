// Rotations of bones that are rotations, but for their length.

fn turn_at(at: u32) -> vec4<f32> {
    let q = bones[at].turn;
    return q * inverseSqrt(max(dot(q, q), 1e-37));
}
