// Bones from the weights of shapes: one thread for each bone of an instance. Bones are `I + sum_s c_s N_s`, about the model's origin.

struct Params {
    bones: u32,
    instances: u32,
    // From one instance to the next.
    bone_stride: u32,
    shapes: u32,
    first_instance: u32,
    unused_a: u32,
    unused_b: u32,
    unused_c: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// [B + 1] first number of each bone.
@group(0) @binding(1) var<storage, read> starts: array<u32>;
// [M] place, 12 times the shape and the component; bits of the number.
@group(0) @binding(2) var<storage, read> numbers: array<vec2<u32>>;
// [B, 4] axes of the bone as columns, and from its place to the model's origin.
@group(0) @binding(3) var<storage, read> places: array<vec4<f32>>;
// [instances, S]
@group(0) @binding(4) var<storage, read> weights: array<f32>;
// [instances, bone_stride, 3] rows of matrices.
@group(0) @binding(5) var<storage, read_write> bones: array<vec4<f32>>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let j = id.x;
    let t = params.first_instance + id.y;
    if j >= params.bones || t >= params.instances {
        return;
    }
    // Translation, rotation, stretch, shear: three components each.
    var sums = array<vec3<f32>, 4>();
    for (var at = starts[j]; at < starts[j + 1u]; at++) {
        let number = numbers[at];
        let component = number.x % 12u;
        let x = weights[t * params.shapes + number.x / 12u] * bitcast<f32>(number.y);
        sums[component / 3u][component % 3u] += x;
    }
    let turn = sums[1];
    let stretch = sums[2];
    let shear = sums[3];
    let own = mat3x3<f32>(
        vec3<f32>(stretch.x, shear.z + turn.z, shear.y - turn.y),
        vec3<f32>(shear.z - turn.z, stretch.y, shear.x + turn.x),
        vec3<f32>(shear.y + turn.y, shear.x - turn.x, stretch.z),
    );
    let axes = mat3x3<f32>(places[4u * j].xyz, places[4u * j + 1u].xyz, places[4u * j + 2u].xyz);
    let linear = axes * own * transpose(axes);
    let moved = axes * sums[0] + linear * places[4u * j + 3u].xyz;
    let first = 3u * (t * params.bone_stride + j);
    bones[first] = vec4<f32>(1.0 + linear[0].x, linear[1].x, linear[2].x, moved.x);
    bones[first + 1u] = vec4<f32>(linear[0].y, 1.0 + linear[1].y, linear[2].y, moved.y);
    bones[first + 2u] = vec4<f32>(linear[0].z, linear[1].z, 1.0 + linear[2].z, moved.z);
}
