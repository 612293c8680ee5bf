// Direct Delta Mush, variants 2 to 4: rotations (2, 4) or matrices (3) blended with w; 2 and 3 know the levers x y z.

// [instances, bone_stride] rotations of the bones, x y z w.
@group(0) @binding(7) var<storage, read> turns: array<vec4<f32>>;

const QUATERNIONS = VARIANT != 3u;
const LEVERS = VARIANT != 4u;

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
    var linear: array<mat3x3<f32>, TILE>;
    var turned: array<vec4<f32>, TILE>;
    var centres: array<vec3<f32>, TILE>;
    for (var k = place.start; k < place.end; k++) {
        let j = multi_bone(k, place.within);
        let w = multi_number(k, place.within, 0u);
        var lever = w * p;
        if (LEVERS) {
            lever += vec3(multi_number(k, place.within, 1u), multi_number(k, place.within, 2u), multi_number(k, place.within, 3u));
        }
        for (var t = 0u; t < TILE; t++) {
            let base = bones_of(first + t);
            let bone = bones[base + j];
            centres[t] += vec4(lever, w) * bone;
            if (QUATERNIONS) {
                let side = dot(turns[base + strongest], turns[base + j]);
                turned[t] += select(w, -w, side < 0.0) * turns[base + j];
            } else {
                let columns = transpose(bone);
                linear[t] = mat3x3(
                    linear[t][0] + w * columns[0],
                    linear[t][1] + w * columns[1],
                    linear[t][2] + w * columns[2],
                );
            }
        }
    }
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        var part = linear[t];
        if (QUATERNIONS) {
            part = blended_rotation(turned[t], turns[bones_of(first + t) + strongest]);
        }
        emit(group.x, lane, first + t, finish(about_centre(part, centres[t], p), home_of(first + t), shape));
    }
}
