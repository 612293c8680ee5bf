// Direct Delta Mush, variant 3: matrices of the bones blended with w, about a centre that knows the levers x y z.

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let first = group.y * TILE;
    let p = vector(place, CENTRE);
    // Rows of the linear part; the centre in the fourth column.
    var sums: array<mat3x4<f32>, TILE>;
    for (var k = place.start; k < place.end; k++) {
        let j = multi_bone(k, place.within);
        let lever = multi_lever(k, place.within, p);
        for (var t = 0u; t < TILE; t++) {
            let bone = bones[bones_of(first + t) + j];
            sums[t] = mat3x4(
                sums[t][0] + vec4(lever.w * bone[0].xyz, dot(lever, bone[0])),
                sums[t][1] + vec4(lever.w * bone[1].xyz, dot(lever, bone[1])),
                sums[t][2] + vec4(lever.w * bone[2].xyz, dot(lever, bone[2])),
            );
        }
    }
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        let columns = transpose(sums[t]);
        let m = about_centre(mat3x3(columns[0], columns[1], columns[2]), columns[3], p);
        emit(group.x, lane, first + t, finish(m, home_of(first + t), shape));
    }
}
