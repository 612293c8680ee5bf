// Rotations of affine bones, which have to be given.

// [instances, bone_stride] x y z w.
@group(0) @binding(7) var<storage, read> turns: array<vec4<f32>>;

// Of a bone, and of where it is stored.
fn turn_of(bone: Bone, stored: u32) -> vec4<f32> {
    return turns[stored];
}
