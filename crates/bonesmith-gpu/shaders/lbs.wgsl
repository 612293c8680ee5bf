// Linear blend skinning: m = sum_j w_j M_j, applied once. Of both layers of two-layer rigs [Le2014 s.4.1], of the second
// layer of compressed Direct Delta Mush [Le2021], and of its variant 5.

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let first = bones_of(instance);
        var sum = mat3x4<f32>();
        for (var k = place.start; k < place.end; k++) {
            let found = influence(k, place.within);
            let bone = bones[first + found.bone];
            sum = mat3x4(
                sum[0] + found.weight * bone[0],
                sum[1] + found.weight * bone[1],
                sum[2] + found.weight * bone[2],
            );
        }
        emit(group.x, lane, instance, finish(sum, home_of(instance), shape));
    }
}
