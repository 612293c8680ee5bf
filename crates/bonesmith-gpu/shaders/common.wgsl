// What all kernels share: bindings, how rows are found, how results leave. docs/runtime.md shows the layouts.
//
// Before it stand the constants of a kernel (`kernel.rs`):
//   WORKGROUP  threads of a workgroup, a multiple of 32
//   TILE       instances that one thread poses, one after the other: tables and rest pose are then at hand for all but the
//              first; at most 4, side by side, in `ddm_moments.wgsl`
//   PLANES     numbers per row in `rows`
//   CENTRE     plane of the centres of rotation in `rows`
//   VARIANT    of Direct Delta Mush
//   RIGID      whether linear parts are rotations
//   KEPT       most influences of linear blending that a row has, if those are few enough to keep in registers; 0 if not
//   EQUAL      whether all rows have as many
//   BONES      bones of each instance that workgroup memory holds, if CACHED
//   CACHED     whether all bones of the workgroup's instances are put there first
//   STAGED     whether results leave through workgroup memory: whole cache lines are written then
//   INSTANCE_ORIGINS  instances that `instance_origins` has room for
// and `to_vertex.wgsl` or one of `to_bone_*.wgsl`, one of `bones_*.wgsl`, and one of `held_*.wgsl`.
//
// A row is a vertex, or a virtual bone. 32 of them are a slice, as wide as what a GPU runs in step: all have as many
// influences, the missing ones with weight 0, and number `n` of row `r` lies beside that of row `r + 1`.

const SLICE = 32u;

struct Params {
    // Slices and instances of this dispatch.
    slices: u32,
    instances: u32,
    // Where the slices begin in `starts`, and the instances in `instance_origins`.
    first_slice: u32,
    first_origin: u32,
    // First influence, counted in slices of them, that is bound.
    first_influence: u32,
    // Bones from one instance to the next, in `bones`.
    bone_stride: u32,
    // Rows from one instance to the next, in `posed`.
    row_stride: u32,
    // Of a packed influence.
    index_bits: u32,
    weight_unit: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// [slices + 1] first influence of each slice, counted in slices of them.
@group(0) @binding(1) var<storage, read> starts: array<u32>;
// [influences, numbers, 32]
@group(0) @binding(2) var<storage, read> influences: array<u32>;
// [slices, PLANES, 32]
@group(0) @binding(3) var<storage, read> rows: array<f32>;
// [instances, bone_stride] posed_from_rest between the origins.
@group(0) @binding(4) var<storage, read> bones: array<Bone>;
// [INSTANCE_ORIGINS] where the origin of each instance goes. Uniform: it does not take the way of the other loads, which is the
// narrow one.
@group(0) @binding(5) var<uniform> instance_origins: array<vec4<f32>, INSTANCE_ORIGINS>;
// [instances, row_stride, PIECES]
@group(0) @binding(6) var<storage, read_write> posed: array<Piece>;

// Where a thread finds its row.
struct Place {
    slice: u32,
    within: u32,
    // Influences, counted in slices of them: from `start` to before `end`.
    start: u32,
    end: u32,
}

fn place_of(group: u32, lane: u32) -> Place {
    let row = group * WORKGROUP + lane;
    // Threads beyond the last slice do its work again and write nothing.
    let slice = min(row / SLICE, params.slices - 1u);
    let at = params.first_slice + slice;
    var start = KEPT * at;
    var end = start + KEPT;
    if (!EQUAL) {
        start = starts[at];
        end = starts[at + 1u];
    }
    return Place(slice, row % SLICE, start - params.first_influence, end - params.first_influence);
}

fn number(place: Place, plane: u32) -> f32 {
    return rows[(place.slice * PLANES + plane) * SLICE + place.within];
}

fn vector(place: Place, plane: u32) -> vec3<f32> {
    return vec3(number(place, plane), number(place, plane + 1u), number(place, plane + 2u));
}

// Instances beyond the last do its work again and write nothing.
fn known(instance: u32) -> u32 {
    return min(instance, params.instances - 1u);
}

// Where the bones of an instance begin in the buffers of all.
fn stored_bones_of(instance: u32) -> u32 {
    return known(instance) * params.bone_stride;
}

// Bones that workgroup memory has room for.
const BONE_CACHE = select(1u, TILE * BONES, CACHED);

// [HELD_ROWS, TILE, BONES] Rows of a bone lie apart, so that threads that read different bones meet in fewer banks.
var<workgroup> bone_cache: array<vec4<f32>, HELD_ROWS * BONE_CACHE>;

// Puts the bones of the workgroup's instances into the cache, as `held` wants them. All threads of a workgroup come here
// together, before they read a bone.
fn fill_bone_cache(group: u32, lane: u32) {
    if (CACHED) {
        for (var at = lane; at < BONE_CACHE; at += WORKGROUP) {
            store_cached(at, held(bones[stored_bones_of(group * TILE + at / BONES) + at % BONES]));
        }
        workgroupBarrier();
    }
}

// Where the bones of an instance begin, number `t` of its workgroup, for `bone_at`.
fn bones_of(instance: u32, t: u32) -> u32 {
    return select(stored_bones_of(instance), t * BONES, CACHED);
}

fn bone_at(at: u32) -> Held {
    if (CACHED) {
        return cached(at);
    }
    return held(bones[at]);
}

fn origin_of(instance: u32) -> vec3<f32> {
    return instance_origins[params.first_origin + known(instance)].xyz;
}

// A result in pieces as large as a thread writes at once.
alias Row = array<Piece, PIECES>;

// Rows of the workgroup.
var<workgroup> stage: array<Piece, select(1u, PIECES * WORKGROUP, STAGED)>;

// Writes this thread's row of an instance. All threads of a workgroup come here together.
fn emit(group: u32, lane: u32, instance: u32, row: Row) {
    if (!STAGED) {
        write_row(group, lane, instance, row);
        return;
    }
    let first = (instance * params.row_stride + group * WORKGROUP) * PIECES;
    // Pieces of the workgroup that there are.
    let rows_left = params.slices * SLICE - min(group * WORKGROUP, params.slices * SLICE);
    let end = select(0u, rows_left * PIECES, instance < params.instances);
    var pieces = row;
    for (var n = 0u; n < PIECES; n++) {
        stage[lane * PIECES + n] = pieces[n];
    }
    workgroupBarrier();
    for (var at = lane; at < PIECES * WORKGROUP; at += WORKGROUP) {
        if (at < end) {
            posed[first + at] = stage[at];
        }
    }
    workgroupBarrier();
}

// The same at once, for any thread.
fn write_row(group: u32, lane: u32, instance: u32, row: Row) {
    let at = group * WORKGROUP + lane;
    if (at < params.slices * SLICE && instance < params.instances) {
        var pieces = row;
        for (var n = 0u; n < PIECES; n++) {
            posed[(instance * params.row_stride + at) * PIECES + n] = pieces[n];
        }
    }
}
