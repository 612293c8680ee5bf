// Multi-weights of Direct Delta Mush about the centre of their row [Le2021 eq. 13]: the bone, then the first WIDTH of
// w, x y z, xx xy xz yy yz zz.

fn multi_number(at: u32, within: u32, n: u32) -> f32 {
    return bitcast<f32>(influences[(at * (1u + WIDTH) + 1u + n) * SLICE + within]);
}

fn multi_bone(at: u32, within: u32) -> u32 {
    return influences[at * (1u + WIDTH) * SLICE + within];
}

// Where the centre p goes with a bone, as [A t] times this: x + p w, and w; without levers p w, and w.
fn multi_lever(at: u32, within: u32, p: vec3<f32>) -> vec4<f32> {
    let w = multi_number(at, within, 0u);
    if (WIDTH == 1u) {
        return vec4(p * w, w);
    }
    return vec4(p * w + vec3(multi_number(at, within, 1u), multi_number(at, within, 2u), multi_number(at, within, 3u)), w);
}

// Of a unit quaternion x y z w.
fn rotation_of(q: vec4<f32>) -> mat3x3<f32> {
    let v = q.xyz + q.xyz;
    let s = q.xyz * v;
    let c = vec3(q.x * v.y, q.x * v.z, q.y * v.z);
    let w = q.w * v;
    return mat3x3(
        vec3(1.0 - s.y - s.z, c.x + w.z, c.y - w.y),
        vec3(c.x - w.z, 1.0 - s.x - s.z, c.z + w.x),
        vec3(c.y + w.y, c.z - w.x, 1.0 - s.x - s.y),
    );
}
