// Faces: frames that are shapes, and the frame after the last that mixes them by weights.
//
// Everything here is linear in the weights: positions of the original, and matrices of the bones.
import type { Baked, Content } from "./content";
import type { Report } from "./types";

export type ShapeRow = NonNullable<Report["shapes"]>[number];

/** Weights of all shapes from those with a weight of their own; weights of driven shapes are ignored. */
export function driven(rows: readonly ShapeRow[], own: ArrayLike<number>): number[] {
  return rows.map(({ of, range }, s) => {
    if (of.length === 0) return own[s] ?? 0;
    if (!range) return of.reduce((product, other) => product * (own[other] ?? 0), 1);
    const [from, peak, to] = range;
    const w = own[of[0]] ?? 0;
    return Math.min(Math.max(w <= peak ? (w - from) / (peak - from) : (to - w) / (to - peak), 0), 1);
  });
}

/** Own weights that show a shape by weight `w`: its own, or those of the shapes that drive it. */
export function ownWeights(rows: readonly ShapeRow[], shape: number, w: number): number[] {
  const weights = new Array<number>(rows.length).fill(0);
  const { of, range } = rows[shape];
  if (of.length === 0) weights[shape] = w;
  for (const other of of) weights[other] = range ? w * range[1] : w;
  return weights;
}

/** Weights of all shapes in the frame shown: one alone, or the mix. */
export function shownWeights(content: Content, frame: number, own: ArrayLike<number>): number[] {
  const rows = content.shapes!;
  if (frame >= content.frames) return driven(rows, own);
  const alone = new Array<number>(rows.length).fill(0);
  alone[content.report.frames.indices[frame]] = 1;
  return alone;
}

/** Writes the mix of the shapes into the frame after the last, of the original and of all models. */
export function mix(content: Content, own: ArrayLike<number>): void {
  const weights = driven(content.shapes!, own);
  const parts: Part[] = [];
  content.report.frames.indices.forEach((shape, frame) => {
    if (weights[shape] !== 0) parts.push({ frame, weight: weights[shape] });
  });
  const rest = content.models[0].rest;
  if (content.original) mixPositions(content.original, rest, parts, content.frames);
  for (const model of content.models) {
    if (model.baked) mixPositions(model.baked, model.rest, parts, content.frames);
    if (model.skin) mixMatrices(model.skin.matrices, model.skin.joints, parts, content.frames);
    if (model.boneMatrices) mixMatrices(model.boneMatrices, model.bones.length, parts, content.frames);
  }
}

interface Part {
  frame: number;
  weight: number;
}

function mixPositions({ positions, boxes }: Baked, rest: Float32Array, parts: Part[], target: number): void {
  const sum = rest.slice();
  for (const { frame, weight } of parts) {
    const step = [0, 1, 2].map((c) => (boxes[6 * frame + 3 + c] - boxes[6 * frame + c]) / 65535);
    const low = [0, 1, 2].map((c) => boxes[6 * frame + c]);
    for (let i = 0, at = frame * rest.length; i < rest.length; i++, at++) {
      const c = i % 3;
      const offset = low[c] + positions[at] * step[c] - rest[i];
      // Vertices that the shape does not move stay where they are, whatever the rounding.
      if (Math.abs(offset) > 0.75 * step[c]) sum[i] += weight * offset;
    }
  }
  const box = [Infinity, Infinity, Infinity, -Infinity, -Infinity, -Infinity];
  for (let i = 0; i < sum.length; i++) {
    box[i % 3] = Math.min(box[i % 3], sum[i]);
    box[3 + (i % 3)] = Math.max(box[3 + (i % 3)], sum[i]);
  }
  boxes.set(box, 6 * target);
  const scale = [0, 1, 2].map((c) => (box[3 + c] > box[c] ? 65535 / (box[3 + c] - box[c]) : 0));
  for (let i = 0, at = target * rest.length; i < sum.length; i++, at++) positions[at] = Math.round((sum[i] - box[i % 3]) * scale[i % 3]);
}

/** I + sum w (M - I) of matrices 3x4, row-major. */
function mixMatrices(matrices: Float32Array, count: number, parts: Part[], target: number): void {
  const size = 12 * count;
  const sum = new Float64Array(size);
  for (let j = 0; j < size; j += 12) for (const diagonal of [0, 5, 10]) sum[j + diagonal] = 1;
  const identity = sum.slice();
  for (const { frame, weight } of parts) {
    for (let i = 0, at = frame * size; i < size; i++, at++) sum[i] += weight * (matrices[at] - identity[i]);
  }
  matrices.set(sum, target * size);
}
