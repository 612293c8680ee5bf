// Kernels work with matrices, and hold those in workgroup memory.

alias Held = mat3x4<f32>;
const HELD_ROWS = 3u;

fn held(bone: Bone) -> Held {
    return matrix_of(bone);
}

fn store_cached(at: u32, bone: Held) {
    bone_cache[at] = bone[0];
    bone_cache[at + BONE_CACHE] = bone[1];
    bone_cache[at + 2u * BONE_CACHE] = bone[2];
}

fn cached(at: u32) -> Held {
    return Held(bone_cache[at], bone_cache[at + BONE_CACHE], bone_cache[at + 2u * BONE_CACHE]);
}
