// The WGSL in a browser, with tables written by hand. `docs/runtime.md` has the layouts, `../own_engine.rs` the same in Rust.
//
// A strip of 40 vertices between two bones; the second turns about z, each instance further. 40 rows are two slices of 32.

export const VERTICES = 40;
export const INSTANCES = 3;
/** Vertices from one instance to the next. */
export const STRIDE = 64;

const SLICES = STRIDE / 32;
const WORKGROUP = 64;
const TILE = 2;
const BONES = 2;
/** One bit is enough for two bones; 31 are left for the weight. */
const INDEX_BITS = 1;
const STEPS = 2 ** (32 - INDEX_BITS) - 1;

/** How much of vertex i hangs on bone 1. */
export const share = (i) => i / (VERTICES - 1);
/** How far bone 1 of instance t has turned. */
export const angle = (t) => 0.5 * t;

const PARTS = {
  affine: ["to_vertex", "bones_affine", "held_matrices", "common", "influence_packed", "lbs"],
  similar: ["to_vertex", "bones_similar", "held_bones", "common", "influence_packed", "lbs"],
};

/** The lines that stand before the parts. */
export const constants = (numbers, switches) => [
  ...Object.entries(numbers).map(([name, value]) => `const ${name} = ${value}u;`),
  ...Object.entries(switches).map(([name, value]) => `const ${name} = ${value};`),
];

/** Text of the kernel. `part(name)`: text of a file in `shaders/`. */
export async function text(part, form) {
  const numbers = { WORKGROUP, TILE, PLANES: 6, CENTRE: 0, VARIANT: 0, WIDTH: 0, KEPT: 2, BONES, INSTANCE_ORIGINS: INSTANCES };
  const switches = { RIGID: false, EQUAL: true, CACHED: true, STAGED: false };
  return [...constants(numbers, switches), ...(await Promise.all(PARTS[form].map(part)))].join("\n");
}

/** Binding 0. */
function params() {
  const words = new Uint32Array([SLICES, INSTANCES, 0, 0, 0, BONES, STRIDE, INDEX_BITS, 0, 0, 0, 0]);
  new Float32Array(words.buffer)[8] = 1 / STEPS;
  return words;
}

/** Binding 2: [slices, 2 influences, 32]. Rows that are missing are as the last one. */
function influences() {
  const table = new Uint32Array(SLICES * 2 * 32);
  for (let row = 0; row < STRIDE; row++) {
    const second = Math.round(STEPS * share(Math.min(row, VERTICES - 1)));
    const at = (row >> 5) * 64 + (row & 31);
    table[at] = ((STEPS - second) << INDEX_BITS) >>> 0;
    table[at + 32] = ((second << INDEX_BITS) | 1) >>> 0;
  }
  return table;
}

/** Binding 3: [slices, 6, 32], point and normal at rest: a strip along x that faces z. */
function rows() {
  const table = new Float32Array(SLICES * 6 * 32);
  for (let row = 0; row < STRIDE; row++) {
    const at = (row >> 5) * 192 + (row & 31);
    table[at] = Math.min(row, VERTICES - 1) / 10;
    table[at + 5 * 32] = 1;
  }
  return table;
}

/** Binding 4: bone 0 stays, bone 1 turns. */
function bones(form) {
  const matrix = (a) => [Math.cos(a), -Math.sin(a), 0, 0, Math.sin(a), Math.cos(a), 0, 0, 0, 0, 1, 0];
  // The unit quaternion times sqrt(2 s), then translation and the scale s.
  const similar = (a) => [0, 0, Math.SQRT2 * Math.sin(a / 2), Math.SQRT2 * Math.cos(a / 2), 0, 0, 0, 1];
  const bone = form === "affine" ? matrix : similar;
  return new Float32Array([...Array(INSTANCES).keys()].flatMap((t) => [...bone(0), ...bone(angle(t))]));
}

/** [INSTANCES, STRIDE, 6] positions and normals. */
export async function pose(device, part, form) {
  const upload = (data, usage) => {
    const buffer = device.createBuffer({ size: data.byteLength, usage: usage | GPUBufferUsage.COPY_DST });
    device.queue.writeBuffer(buffer, 0, data);
    return buffer;
  };
  const { UNIFORM, STORAGE, COPY_SRC, COPY_DST, MAP_READ } = GPUBufferUsage;
  const size = INSTANCES * STRIDE * 24;
  const posed = device.createBuffer({ size, usage: STORAGE | COPY_SRC });
  const landing = device.createBuffer({ size, usage: MAP_READ | COPY_DST });
  const buffers = [
    upload(params(), UNIFORM),
    upload(new Uint32Array([0, 2, 4]), STORAGE),
    upload(influences(), STORAGE),
    upload(rows(), STORAGE),
    upload(bones(form), STORAGE),
    upload(new Float32Array(4 * INSTANCES), UNIFORM),
    posed,
  ];

  const module = device.createShaderModule({ code: await text(part, form) });
  const pipeline = await device.createComputePipelineAsync({ layout: "auto", compute: { module, entryPoint: "main" } });
  const entries = buffers.map((buffer, binding) => ({ binding, resource: { buffer } }));
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(Math.ceil(STRIDE / WORKGROUP), Math.ceil(INSTANCES / TILE));
  pass.end();
  encoder.copyBufferToBuffer(posed, 0, landing, 0, size);
  device.queue.submit([encoder.finish()]);
  await landing.mapAsync(GPUMapMode.READ);
  return new Float32Array(landing.getMappedRange().slice(0));
}
