// What all kernels share: bindings, how rows are found, how results leave. docs/runtime.md shows the layouts.
//
// Before it stand the constants of a kernel (`kernel.rs`):
//   WORKGROUP  threads of a workgroup, a multiple of 32
//   TILE       instances that one thread poses, one after the other: tables and rest pose are then at hand for all but the first
//   PLANES     numbers per row in `rows`
//   CENTRE     plane of the centres of rotation in `rows`
//   VARIANT    of Direct Delta Mush
//   RIGID      whether linear parts are rotations
//   COUNT      influences of linear blending that every row has; 0 where they differ
//   STAGED     whether results leave through workgroup memory, of STAGE pieces: whole cache lines are written then
// and `to_vertex.wgsl` or `to_bone.wgsl`.
//
// A row is a vertex, or a virtual bone. 32 of them are a slice, as wide as what a GPU runs in step: all have as many
// influences, the missing ones with weight 0, and number `n` of row `r` lies beside that of row `r + 1`.

const SLICE = 32u;

struct Params {
    // Slices and instances of this dispatch.
    slices: u32,
    instances: u32,
    // Where they begin.
    first_slice: u32,
    first_instance: u32,
    // First influence, counted in slices of them, that is bound.
    first_influence: u32,
    // Bones from one instance to the next, in `bones`.
    bone_stride: u32,
    // Rows from one instance to the next, in `posed`.
    row_stride: u32,
    // Of a packed influence.
    index_bits: u32,
    weight_unit: f32,
    // 1 / radius^2 of the model: moments become numbers that float32 likes.
    moment_unit: f32,
}

@group(0) @binding(0) var<uniform> params: Params;
// [slices + 1] first influence of each slice, counted in slices of them.
@group(0) @binding(1) var<storage, read> starts: array<u32>;
// [influences, numbers, 32]
@group(0) @binding(2) var<storage, read> influences: array<u32>;
// [slices, PLANES, 32]
@group(0) @binding(3) var<storage, read> rows: array<f32>;
// [instances, bone_stride] three rows of posed_from_rest each, between the origins.
@group(0) @binding(4) var<storage, read> bones: array<mat3x4<f32>>;
// [instances] where the origin goes.
@group(0) @binding(5) var<storage, read> homes: array<vec4<f32>>;
// [instances, row_stride, 3]
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
    return Place(slice, row % SLICE, starts[at] - params.first_influence, starts[at + 1u] - params.first_influence);
}

fn number(place: Place, plane: u32) -> f32 {
    return rows[(place.slice * PLANES + plane) * SLICE + place.within];
}

fn vector(place: Place, plane: u32) -> vec3<f32> {
    return vec3(number(place, plane), number(place, plane + 1u), number(place, plane + 2u));
}

// First bone of an instance; instances beyond the last do its work again and write nothing.
fn bones_of(instance: u32) -> u32 {
    return min(instance, params.instances - 1u) * params.bone_stride;
}

fn home_of(instance: u32) -> vec3<f32> {
    return homes[params.first_instance + min(instance, params.instances - 1u)].xyz;
}

// Three of each row of the workgroup.
var<workgroup> stage: array<Piece, STAGE>;

// Writes this thread's row of an instance. All threads of a workgroup come here together.
fn emit(group: u32, lane: u32, instance: u32, row: Row) {
    // Pieces of this instance from the workgroup's first row to the end.
    let first = (instance * params.row_stride + group * WORKGROUP) * 3u;
    let end = select(0u, (params.slices * SLICE - min(group * WORKGROUP, params.slices * SLICE)) * 3u, instance < params.instances);
    let own = lane * 3u;
    if (STAGED) {
        stage[own] = row.a;
        stage[own + 1u] = row.b;
        stage[own + 2u] = row.c;
        workgroupBarrier();
        for (var at = lane; at < 3u * WORKGROUP; at += WORKGROUP) {
            if (at < end) {
                posed[first + at] = stage[at];
            }
        }
        workgroupBarrier();
    } else if (own < end) {
        posed[first + own] = row.a;
        posed[first + own + 1u] = row.b;
        posed[first + own + 2u] = row.c;
    }
}
