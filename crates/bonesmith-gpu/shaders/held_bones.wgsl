// Kernels work with bones as `bones_similar.wgsl` has them, and hold those in workgroup memory.

alias Held = Bone;
const HELD_ROWS = 2u;

fn held(bone: Bone) -> Held {
    return bone;
}

fn store_cached(at: u32, bone: Held) {
    bone_cache[at] = bone.turn;
    bone_cache[at + BONE_CACHE] = bone.moved;
}

fn cached(at: u32) -> Held {
    return Held(bone_cache[at], bone_cache[at + BONE_CACHE]);
}
