// Direct Delta Mush, variants 2 and 4: rotations of the bones blended with w; 2 knows the levers x y z, 4 does not.

// [instances, bone_stride] rotations of the bones, x y z w.
@group(0) @binding(7) var<storage, read> turns: array<vec4<f32>>;

// On the side of the first bone, the strongest; its own rotation where all cancel.
fn blended_rotation(sum: vec4<f32>, strongest: vec4<f32>) -> mat3x3<f32> {
    let size = dot(sum, sum);
    return rotation_of(select(strongest, sum * inverseSqrt(max(size, 1e-37)), size > 1e-24));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let first = group.y * TILE;
    let p = vector(place, CENTRE);
    let strongest = multi_bone(place.start, place.within);
    var turned: array<vec4<f32>, TILE>;
    var centres: array<vec3<f32>, TILE>;
    for (var k = place.start; k < place.end; k++) {
        let j = multi_bone(k, place.within);
        let lever = multi_lever(k, place.within, p);
        for (var t = 0u; t < TILE; t++) {
            let base = bones_of(first + t);
            let turn = turns[base + j];
            centres[t] += lever * bones[base + j];
            turned[t] += select(lever.w, -lever.w, dot(turns[base + strongest], turn) < 0.0) * turn;
        }
    }
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        let linear = blended_rotation(turned[t], turns[bones_of(first + t) + strongest]);
        emit(group.x, lane, first + t, finish(about_centre(linear, centres[t], p), home_of(first + t), shape));
    }
}
