// Reads a report's JSON and blob on its own, as a second opinion on what the page shows.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";

export function readReport(file) {
  const html = readFileSync(file, "utf8");
  const inside = (id) => html.split(`id="${id}">`)[1]?.split("</script>")[0] ?? "";
  const report = JSON.parse(inside("bonesmith-report"));
  const packed = Buffer.from(inside("bonesmith-data"), "base64");
  const bytes = packed.length === 0 ? packed : report.blob.encoding === "gzip" ? gunzipSync(packed) : packed;
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  return { report, buffer };
}

export function array(buffer, { type, offset, length }) {
  const Kind = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array }[type];
  return new Kind(buffer, offset, length);
}

/** Name of the bone that holds a vertex most; null where nothing says so. */
export function strongestBone(buffer, model, vertex) {
  const skin = model.bone_weights ?? model.skin;
  const bones = (model.bones ?? []).filter((bone) => bone.kind !== "virtual");
  if (!skin || bones.length === 0) return null;
  const k = skin.influences;
  const indices = array(buffer, skin.indices).subarray(vertex * k, (vertex + 1) * k);
  const weights = array(buffer, skin.weights).subarray(vertex * k, (vertex + 1) * k);
  let best = 0;
  for (let i = 1; i < k; i++) if (weights[i] > weights[best]) best = i;
  return bones[indices[best]]?.name ?? null;
}
