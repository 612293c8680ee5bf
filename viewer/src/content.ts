// The report's arrays unpacked, and the few quantities that several parts of the page derive from them.
import { boneColors, type Rgb } from "./color";
import type { Blobs, Loaded } from "./data";
import type { ShapeRow } from "./mix";
import type { Bone, Buf, ErrorPart, Model, Quantised, Report, Weights } from "./types";

/** Weights [N, K] unpacked; K = `influences`. */
export interface WeightArrays {
  influences: number;
  indices: Uint16Array;
  weights: Uint16Array;
}

export interface Baked {
  /** [frames, N, 3]. */
  positions: Uint16Array;
  /** [frames, 6]: least and greatest x, y, z. */
  boxes: Float32Array;
}

export interface ErrorArrays extends Omit<ErrorPart, "per_vertex_rms" | "per_vertex_max"> {
  rms: Float32Array;
  worst: Float32Array;
}

export interface ModelContent {
  source: Model;
  name: string;
  rest: Float32Array;
  /** Stored normals [N, 3]; null where the page does not skin. */
  normals: Float32Array | null;
  /** Skinned on the GPU when present, else `baked`. */
  skin: (WeightArrays & { joints: number; matrices: Float32Array }) | null;
  baked: Baked | null;
  /** Bones that are drawn and coloured, without virtual ones. */
  bones: Bone[];
  boneMatrices: Float32Array | null;
  /** Weights on `bones`, for colours and for what a pick tells. */
  weights: WeightArrays | null;
  /** Virtual bones' rest positions [J, 3]. */
  virtualHeads: Float32Array | null;
  colors: Rgb[];
  error: ErrorArrays | null;
}

export interface Content {
  report: Report;
  fileBytes: number;
  vertices: number;
  /** Frames that can be played. A face has one for each shape kept, and one more behind them: the mix (`mix.ts`). */
  frames: number;
  /** What the frames are, where they are the shapes of a face: all of the source. */
  shapes: ShapeRow[] | null;
  fps: number;
  triangles: Uint32Array;
  edges: Uint32Array;
  original: Baked | null;
  models: ModelContent[];
}

export function unpack({ report, blobs, fileBytes }: Loaded): Content {
  const mesh = report.mesh ?? null;
  const triangles = mesh ? blobs.u32(mesh.triangles) : new Uint32Array();
  const frames = report.frames?.count ?? 0;
  const shapes = report.shapes ?? null;
  const room = shapes ? frames + 1 : frames;
  return {
    report,
    fileBytes,
    vertices: mesh?.vertices ?? 0,
    frames,
    shapes,
    fps: (report.frames?.fps || 24) / (report.file?.kept_frames_every || 1),
    triangles,
    edges: mesh?.edges ? blobs.u32(mesh.edges) : edgesOf(triangles),
    original: report.original ? baked(blobs, report.original, room) : null,
    models: report.models.map((model) => modelContent(blobs, model, room)),
  };
}

/** With room for `room` frames. */
function baked(blobs: Blobs, part: Quantised, room: number): Baked {
  const boxes = blobs.f32(part.boxes);
  const frames = boxes.length / 6;
  const positions = part.coding === "delta" ? undelta(blobs.u8(part.positions), frames) : blobs.u16(part.positions);
  if (room === frames) return { positions, boxes };
  return { positions: grown(positions, (positions.length / frames) * room, Uint16Array), boxes: grown(boxes, 6 * room, Float32Array) };
}

function grown<T extends Uint16Array | Float32Array>(values: T, length: number, Make: new (length: number) => T): T {
  const out = new Make(length);
  out.set(values);
  return out;
}

/** Matrices of [frames, count, 12] with room for `room` frames. */
function matricesOf(blobs: Blobs, buffer: Buf, count: number, room: number): Float32Array {
  const found = blobs.f32(buffer);
  const length = 12 * count * room;
  return length > found.length ? grown(found, length, Float32Array) : found;
}

/**
 * Positions [frames, N, 3] from differences in time and along the vertices, as zigzag numbers: a plane of low bytes [frames, 3, N], then one
 * of high bytes. All arithmetic is modulo 65536.
 */
export function undelta(bytes: Uint8Array, frames: number): Uint16Array {
  const size = bytes.length / 2;
  const n = frames > 0 ? size / frames / 3 : 0;
  const out = new Uint16Array(size);
  for (let f = 0, at = 0; f < frames; f++) {
    for (let c = 0; c < 3; c++) {
      let moved = 0;
      for (let v = 0, i = 3 * n * f + c; v < n; v++, at++, i += 3) {
        const z = bytes[at] | (bytes[size + at] << 8);
        moved += (z >>> 1) ^ -(z & 1);
        out[i] = moved + (f > 0 ? out[i - 3 * n] : 0);
      }
    }
  }
  return out;
}

function weightArrays(blobs: Blobs, part: Weights): WeightArrays {
  return { influences: part.influences, indices: blobs.u16(part.indices), weights: blobs.u16(part.weights) };
}

function modelContent(blobs: Blobs, model: Model, room: number): ModelContent {
  const skin = model.skin ? { ...weightArrays(blobs, model.skin), joints: model.skin.joints, matrices: matricesOf(blobs, model.skin.matrices, model.skin.joints, room) } : null;
  const bones = model.bones ?? [];
  const weights = model.bone_weights ? weightArrays(blobs, model.bone_weights) : skin && skin.joints <= bones.length ? skin : null;
  const error = model.error;
  return {
    source: model,
    name: model.name,
    rest: blobs.f32(model.rest),
    normals: model.normals ? blobs.f32(model.normals) : null,
    skin,
    baked: model.positions ? baked(blobs, model.positions, room) : null,
    bones,
    boneMatrices: model.bone_matrices ? matricesOf(blobs, model.bone_matrices, bones.length, room) : null,
    weights,
    virtualHeads: model.virtual_heads ? blobs.f32(model.virtual_heads) : null,
    colors: boneColors(bones.length, weights ? sharedWeights(weights, bones.length) : new Map()),
    error: error ? { ...error, rms: blobs.f32(error.per_vertex_rms), worst: blobs.f32(error.per_vertex_max) } : null,
  };
}

/** Pairs of bones that hold a vertex together, by key `a * bones + b`. */
function sharedWeights({ influences: k, indices, weights }: WeightArrays, bones: number): Map<number, number> {
  const pairs = new Map<number, number>();
  for (let at = 0; at < indices.length; at += k) {
    for (let i = at; i < at + k; i++) {
      for (let j = i + 1; j < at + k; j++) {
        if (weights[i] === 0 || weights[j] === 0) continue;
        const key = indices[i] * bones + indices[j];
        pairs.set(key, (pairs.get(key) ?? 0) + weights[i] * weights[j]);
      }
    }
  }
  return pairs;
}

/** Each edge once, in ascending order. */
function edgesOf(triangles: Uint32Array): Uint32Array {
  const keys = new Float64Array(triangles.length);
  for (let t = 0; t < triangles.length; t += 3) {
    for (let e = 0; e < 3; e++) {
      const a = triangles[t + e];
      const b = triangles[t + ((e + 1) % 3)];
      keys[t + e] = Math.min(a, b) * 0x100000000 + Math.max(a, b);
    }
  }
  keys.sort();
  const edges: number[] = [];
  keys.forEach((key, i) => {
    if (i === 0 || key !== keys[i - 1]) edges.push(Math.floor(key / 0x100000000), key % 0x100000000);
  });
  return Uint32Array.from(edges);
}

export interface Influence {
  bone: number;
  weight: number;
}

/** Bones of a vertex, the strongest first; empty where the model has no weights. */
export function influencesOf(model: ModelContent, vertex: number): Influence[] {
  const w = model.weights;
  if (!w) return [];
  const found: Influence[] = [];
  for (let i = vertex * w.influences; i < (vertex + 1) * w.influences; i++) {
    if (w.weights[i] > 0) found.push({ bone: w.indices[i], weight: w.weights[i] / 65535 });
  }
  return found.sort((a, b) => b.weight - a.weight);
}

/** Top of the absolute scale, in thousandths of the size. */
export const ABSOLUTE_TOP = 10;

/** Top of the map of shading errors, in degrees. */
export const SHADING_TOP = 30;

/** The size that thousandths are of; null in reports that do not have it. */
export function sizeOf(models: ModelContent[]): number | null {
  return models.map(({ error }) => error?.radius ?? 0).find((radius) => radius > 0) ?? null;
}

/** Top of the heat map in model units, one for all models so that they compare. */
export function heatTop(models: ModelContent[], kind: "rms" | "max" | "frame", top: "absolute" | "p99" | "max"): number {
  const size = sizeOf(models);
  if (top === "absolute" && size !== null) return (ABSOLUTE_TOP * size) / 1000;
  const tops = models.map(({ error }) => {
    if (!error) return 0;
    if (kind === "rms") return top === "max" ? largest(error.rms) : error.percentiles.p99;
    return top === "max" ? error.max.value : quantile(error.worst, 0.99);
  });
  return Math.max(...tops, 0);
}

export function largest(values: ArrayLike<number>): number {
  let most = 0;
  for (let i = 0; i < values.length; i++) most = Math.max(most, values[i]);
  return most;
}

export function quantile(values: Float32Array, q: number): number {
  if (values.length === 0) return 0;
  const sorted = values.slice().sort();
  const at = q * (sorted.length - 1);
  const i = Math.floor(at);
  const next = sorted[Math.min(i + 1, sorted.length - 1)];
  return sorted[i] + (next - sorted[i]) * (at - i);
}
