// Packs a report into the page as docs/formats/report.md says: JSON and one gzip blob in place of the marker.
import { gzipSync } from "node:zlib";

const MARKER = "<!--BONESMITH-DATA-->";

export class Blob {
  parts = [];
  bytes = 0;

  /** Appends a typed array, aligned to 4 bytes; returns where it lies. */
  add(array) {
    const type = { Uint8Array: "u8", Uint16Array: "u16", Uint32Array: "u32", Float32Array: "f32" }[array.constructor.name];
    const part = { type, offset: this.bytes, length: array.length };
    const padding = (4 - (array.byteLength % 4)) % 4;
    this.parts.push(Buffer.from(array.buffer, array.byteOffset, array.byteLength), Buffer.alloc(padding));
    this.bytes += array.byteLength + padding;
    return part;
  }
}

export function page(template, report, blob, level = 6) {
  const halves = template.split(MARKER);
  if (halves.length !== 2) throw new Error(`the template has the marker ${halves.length - 1} times`);
  const json = JSON.stringify({ ...report, blob: { bytes: blob.bytes, encoding: "gzip" } }).replaceAll("<", "\\u003c");
  const data = gzipSync(Buffer.concat(blob.parts), { level }).toString("base64");
  return halves.join(`<script type="application/json" id="bonesmith-report">${json}</script>\n<script type="text/plain" id="bonesmith-data">${data}</script>`);
}

/** Positions [frames][3 N] to 16 bits with a box per frame. */
export function quantise(blob, frames, coding) {
  const n3 = frames[0].length;
  const positions = new Uint16Array(frames.length * n3);
  const boxes = new Float32Array(6 * frames.length);
  frames.forEach((frame, f) => {
    for (let c = 0; c < 3; c++) {
      let min = Infinity;
      let max = -Infinity;
      for (let i = c; i < n3; i += 3) {
        min = Math.min(min, frame[i]);
        max = Math.max(max, frame[i]);
      }
      boxes[6 * f + c] = min;
      boxes[6 * f + 3 + c] = max;
      const low = boxes[6 * f + c];
      const span = boxes[6 * f + 3 + c] - low || 1;
      for (let i = c; i < n3; i += 3) positions[f * n3 + i] = Math.min(Math.max(Math.round(((frame[i] - low) / span) * 65535), 0), 65535);
    }
  });
  if (coding === "delta") return { positions: blob.add(delta(positions, frames.length)), boxes: blob.add(boxes), coding };
  return { positions: blob.add(positions), boxes: blob.add(boxes) };
}

/** Differences in time and along the vertices, zigzag, low bytes before high ones. */
function delta(q, frames) {
  const n = q.length / frames / 3;
  const out = new Uint8Array(2 * q.length);
  let at = 0;
  for (let f = 0; f < frames; f++) {
    for (let c = 0; c < 3; c++) {
      let last = 0;
      for (let v = 0; v < n; v++) {
        const i = 3 * (f * n + v) + c;
        const d = q[i] - (f > 0 ? q[i - 3 * n] : 0);
        const e = ((d - last) << 16) >> 16;
        const z = ((e << 1) ^ (e >> 15)) & 0xffff;
        out[at] = z & 255;
        out[q.length + at++] = z >> 8;
        last = d;
      }
    }
  }
  return out;
}
