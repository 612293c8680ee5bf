// Rotations of affine bones.

// [instances, bone_stride] x y z w.
@group(0) @binding(7) var<storage, read> turns: array<vec4<f32>>;

fn turn_at(at: u32) -> vec4<f32> {
    return turns[at];
}
