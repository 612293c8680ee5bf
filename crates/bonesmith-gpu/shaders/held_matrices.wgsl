// Kernels work with matrices, and hold those in workgroup memory.

alias Held = mat3x4<f32>;
const HELD_ROWS = 3u;

fn held(bone: Bone) -> Held {
    return matrix_of(bone);
}

fn shelve(at: u32, bone: Held) {
    shelf[at] = bone[0];
    shelf[at + SHELF] = bone[1];
    shelf[at + 2u * SHELF] = bone[2];
}

fn shelved(at: u32) -> Held {
    return Held(shelf[at], shelf[at + SHELF], shelf[at + 2u * SHELF]);
}
