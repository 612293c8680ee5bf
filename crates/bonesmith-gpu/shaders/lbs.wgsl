// Linear blend skinning: m = sum_j w_j M_j, applied once. Of both layers of two-layer rigs [Le2014 s.4.1], of the second
// layer of compressed Direct Delta Mush [Le2021], and of its variant 5.

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    fill_bone_cache(group.y, lane);
    let place = place_of(group.x, lane);
    let shape = shape_of(place);
    let count = place.end - place.start;
    // Loops of a known length are unrolled, and their loads overlap.
    var kept = array<Influence, max(KEPT, 1u)>();
    for (var k = 0u; k < KEPT; k++) {
        if (EQUAL || k < count) {
            kept[k] = influence(place.start + k, place.within);
        }
    }
    for (var t = 0u; t < TILE; t++) {
        let instance = group.y * TILE + t;
        let first = bones_of(instance, t);
        var sum = Sum();
        for (var k = 0u; k < KEPT; k++) {
            if (EQUAL || k < count) {
                sum = blend(sum, kept[k].weight, bone_at(first + kept[k].bone));
            }
        }
        if (KEPT == 0u) {
            for (var k = place.start; k < place.end; k++) {
                let found = influence(k, place.within);
                sum = blend(sum, found.weight, bone_at(first + found.bone));
            }
        }
        emit(group.x, lane, instance, finish(matrix_of_sum(sum), origin_of(instance), shape));
    }
}
