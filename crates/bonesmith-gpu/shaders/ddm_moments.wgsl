// Direct Delta Mush, variants 0 and 1: the linear part from Q - q p^T [LeLewis2019 eq. 12, Le2021 eq. 13c].
//
// With p in the last row and column, [A t] [S + p x^T, x + p w; x^T, w] is [Q - q p^T, q]: one product of 3x4 and 4x4
// per bone.

const_assert TILE <= 4u;

// A multi-weight: its bone, w, x y z, xx xy xz, yy yz zz.
struct Multi {
    bone: u32,
    w: f32,
    x: vec3<f32>,
    upper: vec3<f32>,
    lower: vec3<f32>,
}

fn multi(at: u32, within: u32) -> Multi {
    return Multi(
        multi_bone(at, within),
        multi_number(at, within, 0u),
        vec3(multi_number(at, within, 1u), multi_number(at, within, 2u), multi_number(at, within, 3u)),
        vec3(multi_number(at, within, 4u), multi_number(at, within, 5u), multi_number(at, within, 6u)),
        vec3(multi_number(at, within, 7u), multi_number(at, within, 8u), multi_number(at, within, 9u)),
    );
}

// Its 4x4 matrix, row by row.
fn multi_matrix(m: Multi, p: vec3<f32>) -> mat4x4<f32> {
    let last = vec4(m.x, m.w);
    return mat4x4(
        vec4(m.upper, m.x.x) + p.x * last,
        vec4(m.upper.y, m.lower.xy, m.x.y) + p.y * last,
        vec4(m.upper.z, m.lower.yz, m.x.z) + p.z * last,
        last,
    );
}

fn moved(sum: mat3x4<f32>, bone: mat3x4<f32>, by: mat4x4<f32>) -> mat3x4<f32> {
    return mat3x4(sum[0] + by * bone[0], sum[1] + by * bone[1], sum[2] + by * bone[2]);
}

// Q - q p^T of a sum, and q.
fn moments(sum: mat3x4<f32>) -> mat3x3<f32> {
    let t = transpose(sum);
    return mat3x3(t[0], t[1], t[2]);
}

fn centre(sum: mat3x4<f32>) -> vec3<f32> {
    return vec3(sum[0].w, sum[1].w, sum[2].w);
}

// Sums of up to four instances: their multi-weights are read once. Four names, not an array: those stay in registers.
struct Sums {
    a: mat3x4<f32>,
    b: mat3x4<f32>,
    c: mat3x4<f32>,
    d: mat3x4<f32>,
}

// `firsts`: where the bones of each instance begin. As many are added up as the tile has.
fn blended(place: Place, p: vec3<f32>, firsts: vec4<u32>) -> Sums {
    var sums = Sums();
    var next = multi(place.start, place.within);
    for (var k = place.start; k < place.end; k++) {
        let own = next;
        // Asked for while this one is worked on.
        next = multi(min(k + 1u, place.end - 1u), place.within);
        let matrix = multi_matrix(own, p);
        sums.a = moved(sums.a, bone_at(firsts.x + own.bone), matrix);
        if (TILE > 1u) {
            sums.b = moved(sums.b, bone_at(firsts.y + own.bone), matrix);
        }
        if (TILE > 2u) {
            sums.c = moved(sums.c, bone_at(firsts.z + own.bone), matrix);
        }
        if (TILE > 3u) {
            sums.d = moved(sums.d, bone_at(firsts.w + own.bone), matrix);
        }
    }
    return sums;
}

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    fill_bone_cache(group.y, lane);
    let place = place_of(group.x, lane);
    let p = vector(place, CENTRE);
    let shape = shape_of(place);
    let instance = group.y * TILE;
    let firsts = vec4(
        bones_of(instance, 0u),
        bones_of(instance + 1u, 1u),
        bones_of(instance + 2u, 2u),
        bones_of(instance + 3u, 3u),
    );
    let sums = blended(place, p, firsts);
    // One bit per instance.
    var unclear = pose(group.x, lane, instance, sums.a, place, p, shape);
    if (TILE > 1u) {
        unclear |= pose(group.x, lane, instance + 1u, sums.b, place, p, shape) << 1u;
    }
    if (TILE > 2u) {
        unclear |= pose(group.x, lane, instance + 2u, sums.c, place, p, shape) << 2u;
    }
    if (TILE > 3u) {
        unclear |= pose(group.x, lane, instance + 3u, sums.d, place, p, shape) << 3u;
    }
    // What other threads wrote for this one comes first.
    if (STAGED) {
        storageBarrier();
    }
    // Once more from the beginning: kept until here, sums would take registers from everything above.
    while (unclear != 0u) {
        let t = firstTrailingBit(unclear);
        unclear &= unclear - 1u;
        pose_again(group.x, lane, instance + t, bones_of(instance + t, t), place, p, shape);
    }
}

// 1 where the linear part is not what it should be.
fn pose(group: u32, lane: u32, instance: u32, sum: mat3x4<f32>, place: Place, p: vec3<f32>, shape: Shape) -> u32 {
    let h = moments(sum);
    var found = Nearest(h, true);
    if (VARIANT == 1u) {
        let u = vector(place, CENTRE + 3u);
        let v = vector(place, CENTRE + 6u);
        found.rotation = h * mat3x3(u, vec3(u.y, v.x, v.y), vec3(u.z, v.y, v.z));
    } else {
        found = nearest_rotation(of_length_1(h));
    }
    emit(group, lane, instance, finish_about(found.rotation, p, centre(sum), origin_of(instance), shape));
    return u32(!found.clear);
}

// The rare ones.
fn pose_again(group: u32, lane: u32, instance: u32, first: u32, place: Place, p: vec3<f32>, shape: Shape) {
    var sum = mat3x4<f32>();
    for (var k = place.start; k < place.end; k++) {
        let own = multi(k, place.within);
        sum = moved(sum, bone_at(first + own.bone), multi_matrix(own, p));
    }
    let rotation = rotation_near(of_length_1(moments(sum)), first + multi_bone(place.start, place.within));
    write_row(group, lane, instance, finish_about(rotation, p, centre(sum), origin_of(instance), shape));
}
