// Linear blend skinning: m = sum_j w_j M_j, applied once. Of both layers of two-layer rigs [Le2014 s.4.1], of the second
// layer of compressed Direct Delta Mush [Le2021], and of its variant 5.

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let first = group.y * TILE;
    var sums: array<mat3x4<f32>, TILE>;
    for (var k = place.start; k < place.end; k++) {
        let found = influence(k, place.within);
        for (var t = 0u; t < TILE; t++) {
            let bone = bones[bones_of(first + t) + found.bone];
            sums[t] = mat3x4(
                sums[t][0] + found.weight * bone[0],
                sums[t][1] + found.weight * bone[1],
                sums[t][2] + found.weight * bone[2],
            );
        }
    }
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        emit(group.x, lane, first + t, finish(sums[t], home_of(first + t), shape));
    }
}
