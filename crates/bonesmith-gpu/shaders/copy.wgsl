// Copies 16 bytes per thread: the bandwidth that everything is held against.

@group(0) @binding(0) var<storage, read> source: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> copied: array<vec4<f32>>;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let n = (group.y * groups.x + group.x) * 256u + lane;
    if (n < arrayLength(&source)) {
        copied[n] = source[n];
    }
}
