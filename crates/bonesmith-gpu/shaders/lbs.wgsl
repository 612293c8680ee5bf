// Linear blend skinning: m = sum_j w_j M_j, applied once. Of both layers of two-layer rigs [Le2014 s.4.1], of the second
// layer of compressed Direct Delta Mush [Le2021], and of its variant 5.

// Where all rows have COUNT influences, they are kept: loops of a known length are unrolled, and loads overlap.
const HELD = max(COUNT, 1u);

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let place = place_of(group.x, lane);
    let shape = shape_of(place);
    var held = array<Influence, HELD>();
    for (var k = 0u; k < COUNT; k++) {
        held[k] = influence(place.start + k, place.within);
    }
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let first = bones_of(instance);
        var sum = mat3x4<f32>();
        if (COUNT > 0u) {
            for (var k = 0u; k < COUNT; k++) {
                sum = blend(sum, held[k], first);
            }
        } else {
            for (var k = place.start; k < place.end; k++) {
                sum = blend(sum, influence(k, place.within), first);
            }
        }
        emit(group.x, lane, instance, finish(sum, home_of(instance), shape));
    }
}

fn blend(sum: mat3x4<f32>, found: Influence, first: u32) -> mat3x4<f32> {
    let bone = bones[first + found.bone];
    return mat3x4(
        sum[0] + found.weight * bone[0],
        sum[1] + found.weight * bone[1],
        sum[2] + found.weight * bone[2],
    );
}
