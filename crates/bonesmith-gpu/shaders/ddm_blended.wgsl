// Direct Delta Mush, variants 2 and 4: rotations of the bones blended with w; 2 knows the levers x y z, 4 does not.

// On the side of the first bone, the strongest; its own rotation where all cancel.
fn blended_rotation(sum: vec4<f32>, strongest: vec4<f32>) -> mat3x3<f32> {
    let size = dot(sum, sum);
    return rotation_of(select(strongest, sum * inverseSqrt(max(size, 1e-37)), size > 1e-24));
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    fill_bone_cache(group.y, lane);
    let place = place_of(group.x, lane);
    let p = vector(place, CENTRE);
    let shape = shape_of(place);
    let strongest = multi_bone(place.start, place.within);
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let first = bones_of(instance, t);
        let stored = stored_bones_of(instance);
        let side = turn_of(bone_at(first + strongest), stored + strongest);
        var turned = vec4<f32>();
        var centre = vec3<f32>();
        for (var k = place.start; k < place.end; k++) {
            let j = multi_bone(k, place.within);
            let bone = bone_at(first + j);
            let lever = multi_lever(k, place.within, p);
            let turn = turn_of(bone, stored + j);
            centre += lever * matrix_of(bone);
            turned += select(lever.w, -lever.w, dot(side, turn) < 0.0) * turn;
        }
        let linear = blended_rotation(turned, side);
        emit(group.x, lane, instance, finish_about(linear, p, centre, origin_of(instance), shape));
    }
}
