//! The binary `bonesmith`.

fn main() {}
