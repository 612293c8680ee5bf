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

fn blended(place: Place, p: vec3<f32>, first: u32) -> mat3x4<f32> {
    var sum = mat3x4<f32>();
    for (var k = place.start; k < place.end; k++) {
        let last = vec4(multi_number(k, place.within, 1u), multi_number(k, place.within, 2u),
            multi_number(k, place.within, 3u), multi_number(k, place.within, 0u));
        let xx_xy_xz = vec3(multi_number(k, place.within, 4u), multi_number(k, place.within, 5u), multi_number(k, place.within, 6u));
        let yy_yz = vec2(multi_number(k, place.within, 7u), multi_number(k, place.within, 8u));
        let zz = multi_number(k, place.within, 9u);
        let x = vec4(xx_xy_xz, last.x) + p.x * last;
        let y = vec4(xx_xy_xz.y, yy_yz, last.y) + p.y * last;
        let z = vec4(xx_xy_xz.z, yy_yz.y, zz, last.z) + p.z * last;
        let bone = bones[first + multi_bone(k, place.within)];
        sum = mat3x4(
            sum[0] + bone[0].x * x + bone[0].y * y + bone[0].z * z + bone[0].w * last,
            sum[1] + bone[1].x * x + bone[1].y * y + bone[1].z * z + bone[1].w * last,
            sum[2] + bone[2].x * x + bone[2].y * y + bone[2].z * z + bone[2].w * last,
        );
    }
    return sum;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let p = vector(place, CENTRE);
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let sum = blended(place, p, bones_of(instance));
        let q = vec3(sum[0].w, sum[1].w, sum[2].w);
        let m = about_centre(linear_part(sum, place, instance), q, p);
        emit(group.x, lane, instance, finish(m, home_of(instance), shape));
    }
}
