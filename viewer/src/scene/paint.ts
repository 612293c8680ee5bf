// Vertex colours and values of the colour modes, written when the mode or the pick changes, not per frame.
import type { ModelContent, WeightArrays } from "../content";
import type { State } from "../state";
import type { Source } from "./source";

/** Modes of the surface shader. */
const PLAIN = 0;
const MAP = 1;
const TINT = 2;

export function paint(source: Source, state: Readonly<State>): void {
  const model = source.model;
  source.uniforms["frameError"].value = 0;
  source.uniforms["mode"].value = PLAIN;
  if (!model) return;
  if (state.color === "error" && model.error) {
    source.uniforms["mode"].value = MAP;
    source.uniforms["frameError"].value = state.errorKind === "frame" ? 1 : 0;
    (source.value.array as Float32Array).set(state.errorKind === "max" ? model.error.worst : model.error.rms);
    source.value.needsUpdate = true;
  } else if (state.color === "shading" && source.hasStoredNormals && model.error) {
    source.uniforms["mode"].value = MAP;
    source.uniforms["frameError"].value = 2;
  } else if (state.color === "bones" && model.weights) {
    source.uniforms["mode"].value = TINT;
    blendColors(model, model.weights, source.tint.array as Uint8Array);
    source.tint.needsUpdate = true;
  } else if (state.color === "weights" && model.weights) {
    source.uniforms["mode"].value = MAP;
    weightsOf(model.weights, state.bone ?? 0, source.value.array as Float32Array);
    source.value.needsUpdate = true;
  }
}

/** Each vertex the mean of its bones' colours (linear light), by weight. */
function blendColors(model: ModelContent, { influences: k, indices, weights }: WeightArrays, out: Uint8Array): void {
  for (let v = 0; 3 * v < out.length; v++) {
    let r = 0;
    let g = 0;
    let b = 0;
    for (let i = v * k; i < (v + 1) * k; i++) {
      const color = model.colors[indices[i]];
      if (weights[i] === 0 || !color) continue;
      r += weights[i] * color[0];
      g += weights[i] * color[1];
      b += weights[i] * color[2];
    }
    out[3 * v] = Math.round(r / 257);
    out[3 * v + 1] = Math.round(g / 257);
    out[3 * v + 2] = Math.round(b / 257);
  }
}

function weightsOf({ influences: k, indices, weights }: WeightArrays, bone: number, out: Float32Array): void {
  out.fill(0);
  for (let i = 0; i < indices.length; i++) {
    if (indices[i] === bone) out[Math.floor(i / k)] += weights[i] / 65535;
  }
}
