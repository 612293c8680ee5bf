// Direct Delta Mush, variants 0 and 1: the linear part from Q - q p^T [LeLewis2019 eq. 12, Le2021 eq. 13c].
//
// With p in the last row and column, [A t] [S + p x^T, x + p w; x^T, w] is [Q - q p^T, q]: one product of 3x4 and 4x4
// per bone.

fn linear_part(sum: mat3x4<f32>, place: Place, instance: u32) -> mat3x3<f32> {
    let t = transpose(sum);
    let h = mat3x3(t[0].xyz, t[1].xyz, t[2].xyz);
    if (VARIANT == 1u) {
        let u = vector(place, CENTRE + 3u);
        let v = vector(place, CENTRE + 6u);
        return h * mat3x3(u, vec3(u.y, v.x, v.y), vec3(u.z, v.y, v.z));
    }
    return nearest_rotation(h * params.moment_unit, bones_of(instance) + multi_bone(place.start, place.within));
}

// Sums of two instances: what their multi-weights are read for once.
struct Pair {
    one: mat3x4<f32>,
    other: mat3x4<f32>,
}

// The 4x4 matrix of a multi-weight, row by row.
fn multi_matrix(at: u32, within: u32, p: vec3<f32>) -> mat4x4<f32> {
    let last = vec4(multi_number(at, within, 1u), multi_number(at, within, 2u), multi_number(at, within, 3u), multi_number(at, within, 0u));
    let xx_xy_xz = vec3(multi_number(at, within, 4u), multi_number(at, within, 5u), multi_number(at, within, 6u));
    let yy_yz = vec2(multi_number(at, within, 7u), multi_number(at, within, 8u));
    let zz = multi_number(at, within, 9u);
    return mat4x4(
        vec4(xx_xy_xz, last.x) + p.x * last,
        vec4(xx_xy_xz.y, yy_yz, last.y) + p.y * last,
        vec4(xx_xy_xz.z, yy_yz.y, zz, last.z) + p.z * last,
        last,
    );
}

fn moved(sum: mat3x4<f32>, bone: mat3x4<f32>, by: mat4x4<f32>) -> mat3x4<f32> {
    return mat3x4(sum[0] + by * bone[0], sum[1] + by * bone[1], sum[2] + by * bone[2]);
}

fn blended(place: Place, p: vec3<f32>, one: u32, other: u32) -> Pair {
    var sums = Pair();
    for (var k = place.start; k < place.end; k++) {
        let matrix = multi_matrix(k, place.within, p);
        let bone = multi_bone(k, place.within);
        sums.one = moved(sums.one, bones[one + bone], matrix);
        if (TILE > 1u) {
            sums.other = moved(sums.other, bones[other + bone], matrix);
        }
    }
    return sums;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let p = vector(place, CENTRE);
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t += 2u) {
        let instance = group.y * TILE + t;
        let sums = blended(place, p, bones_of(instance), bones_of(instance + 1u));
        let q = vec3(sums.one[0].w, sums.one[1].w, sums.one[2].w);
        let m = about_centre(linear_part(sums.one, place, instance), q, p);
        emit(group.x, lane, instance, finish(m, home_of(instance), shape));
        if (t + 1u < TILE) {
            let q = vec3(sums.other[0].w, sums.other[1].w, sums.other[2].w);
            let m = about_centre(linear_part(sums.other, place, instance + 1u), q, p);
            emit(group.x, lane, instance + 1u, finish(m, home_of(instance + 1u), shape));
        }
    }
}
