// Kernels work with bones as `bones_similar.wgsl` has them, and hold those in workgroup memory.

alias Held = Bone;
const HELD_ROWS = 2u;

fn held(bone: Bone) -> Held {
    return bone;
}

fn shelve(at: u32, bone: Held) {
    shelf[at] = bone.turn;
    shelf[at + SHELF] = bone.moved;
}

fn shelved(at: u32) -> Held {
    return Held(shelf[at], shelf[at + SHELF]);
}
