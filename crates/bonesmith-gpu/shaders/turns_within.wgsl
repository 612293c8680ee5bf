// Rotations of bones that are rotations, but for their length; of one that scales by 0, none.

// Of a bone, and of where it is stored.
fn turn_of(bone: Bone, stored: u32) -> vec4<f32> {
    let squared = 2.0 * bone.moved.w;
    return select(vec4(0.0, 0.0, 0.0, 1.0), bone.turn * inverseSqrt(max(squared, 1e-37)), squared > 1e-37);
}
