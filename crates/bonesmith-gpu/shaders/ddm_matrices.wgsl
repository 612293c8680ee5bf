// Direct Delta Mush, variant 3: matrices of the bones blended with w, about a centre that knows the levers x y z.

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    fill_bone_cache(group.y, lane);
    let place = place_of(group.x, lane);
    let p = vector(place, CENTRE);
    let shape = shape_of(place);
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let first = bones_of(instance, t);
        // Rows of the linear part; the centre in the fourth column.
        var sum = mat3x4<f32>();
        for (var k = place.start; k < place.end; k++) {
            let lever = multi_lever(k, place.within, p);
            let bone = bone_at(first + multi_bone(k, place.within));
            sum = mat3x4(
                sum[0] + vec4(lever.w * bone[0].xyz, dot(lever, bone[0])),
                sum[1] + vec4(lever.w * bone[1].xyz, dot(lever, bone[1])),
                sum[2] + vec4(lever.w * bone[2].xyz, dot(lever, bone[2])),
            );
        }
        let columns = transpose(sum);
        let linear = mat3x3(columns[0], columns[1], columns[2]);
        emit(group.x, lane, instance, finish_about(linear, p, columns[3], origin_of(instance), shape));
    }
}
