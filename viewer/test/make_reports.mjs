// Synthetic reports of every kind, with references, for the tests of the page alone: `node make_reports.mjs OUT_DIR [stress]`.
// They follow docs/formats/report.md, and nothing of the Rust side takes part.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Blob, page, quantise } from "./pack.mjs";
import { bend, segmentMatrix, skin, tube, weights } from "./tentacle.mjs";

const [out, extra] = process.argv.slice(2);
if (!out) {
  console.error("usage: node make_reports.mjs OUT_DIR [stress]");
  process.exit(2);
}
const template = readFileSync(join(dirname(fileURLToPath(import.meta.url)), "../../crates/bonesmith-report/page/report.html"), "utf8");
mkdirSync(out, { recursive: true });

function sequence(rest, frames) {
  return Array.from({ length: frames }, (_, f) => bend(rest, f / frames));
}

function sorted(values) {
  return Float64Array.from(values).sort();
}

function quantile(ordered, q) {
  const at = q * (ordered.length - 1);
  const i = Math.floor(at);
  return ordered[i] + (ordered[Math.min(i + 1, ordered.length - 1)] - ordered[i]) * (at - i);
}

/** Distances and all that a report tells of them. */
function errors(blob, original, fit) {
  const n = original[0].length / 3;
  const squares = new Float64Array(n);
  const worst = new Float32Array(n);
  const per_frame = { rms: [], median: [], q1: [], q3: [], max: [] };
  const max = { value: 0, frame: 0, vertex: 0 };
  const all = original.map((a, f) =>
    Float64Array.from({ length: n }, (_, v) => Math.hypot(a[3 * v] - fit[f][3 * v], a[3 * v + 1] - fit[f][3 * v + 1], a[3 * v + 2] - fit[f][3 * v + 2])),
  );
  all.forEach((distances, frame) => {
    distances.forEach((d, v) => {
      squares[v] += d * d;
      worst[v] = Math.max(worst[v], d);
      if (d > max.value) Object.assign(max, { value: d, frame, vertex: v });
    });
    const ordered = sorted(distances);
    per_frame.rms.push(Math.sqrt(distances.reduce((sum, d) => sum + d * d, 0) / n));
    for (const [name, q] of [["median", 0.5], ["q1", 0.25], ["q3", 0.75], ["max", 1]]) per_frame[name].push(quantile(ordered, q));
  });
  const rms = Float32Array.from(squares, (s) => Math.sqrt(s / original.length));
  const ordered = sorted(rms);
  const bins = 40;
  const edges = Array.from({ length: bins + 1 }, (_, i) => (i / bins) * max.value);
  const counts = new Array(bins).fill(0);
  for (const distances of all) for (const d of distances) counts[Math.min(bins - 1, Math.floor((d / max.value) * bins))]++;
  const percentiles = Object.fromEntries([50, 90, 95, 99].map((p) => [`p${p}`, quantile(ordered, p / 100)]));
  return { per_vertex_rms: blob.add(rms), per_vertex_max: blob.add(worst), max, percentiles, per_frame, histogram: { edges, counts }, radius: 1.05 };
}

/** Unit normals weighted by area. */
function vertexNormals({ rest, triangles }) {
  const out = new Float32Array(rest.length);
  const at = (v) => rest.slice(3 * v, 3 * v + 3);
  for (let t = 0; t < triangles.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => at(triangles[t + k]));
    const [u, v] = [b, c].map((p) => p.map((x, i) => x - a[i]));
    const n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]];
    for (let k = 0; k < 3; k++) for (let i = 0; i < 3; i++) out[3 * triangles[t + k] + i] += n[i];
  }
  for (let i = 0; i < out.length; i += 3) {
    const length = Math.hypot(out[i], out[i + 1], out[i + 2]) || 1;
    for (let k = 0; k < 3; k++) out[i + k] /= length;
  }
  return out;
}

function pack(blob, { influences, indices, weights: values }) {
  return { influences, indices: blob.add(indices), weights: blob.add(values) };
}

function poses(count, frames) {
  const matrices = new Float32Array(frames * count * 12);
  for (let f = 0; f < frames; f++) for (let j = 0; j < count; j++) segmentMatrix((j + 0.5) / count, f / frames, matrices, 12 * (f * count + j));
  return matrices;
}

/** A model of `count` bones: skinned by them, by 4 x as many virtual ones, or baked. */
function model(blob, mesh, original, { name, kind, count, keep }) {
  const frames = original.length;
  const bones = Array.from({ length: count }, (_, b) => ({
    name: ["root", "stalk", "tip"][b] && count === 3 ? ["root", "stalk", "tip"][b] : `seg_${String(b).padStart(2, "0")}`,
    parent: b - 1,
    kind: "bone",
    head: [0, (2 * b) / count, 0],
    tip: [0, (2 * (b + 1)) / count, 0],
  }));
  const onBones = weights(mesh.rest, count, Math.min(keep, count));
  const joints = kind === "two_layer" ? 4 * count : count;
  const skinning = kind === "two_layer" ? weights(mesh.rest, joints, keep) : onBones;
  const matrices = poses(joints, frames);
  const fit = original.map((_, f) => skin(mesh.rest, skinning, matrices, joints, f));
  const baked = kind !== "lbs" && kind !== "two_layer";
  const counts = new Array(skinning.influences + 1).fill(0);
  const usage = new Array(count).fill(0);
  for (let v = 0; v < mesh.vertices; v++) {
    const row = (w, i) => w.weights[v * w.influences + i];
    counts[Array.from({ length: skinning.influences }, (_, i) => row(skinning, i)).filter((w) => w > 0).length]++;
    for (let i = 0; i < onBones.influences; i++) usage[onBones.indices[v * onBones.influences + i]] += row(onBones, i) / 65535 / mesh.vertices;
  }
  const error = errors(blob, original, fit);
  const rms = Math.sqrt(error.per_frame.rms.reduce((sum, e) => sum + e * e, 0) / frames);
  const built = {
    name,
    kind,
    rest: blob.add(mesh.rest),
    normals: baked ? null : blob.add(vertexNormals(mesh)),
    skin: baked ? null : { ...pack(blob, skinning), joints, matrices: blob.add(matrices) },
    positions: baked ? quantise(blob, fit, "delta") : null,
    bones,
    bone_matrices: blob.add(poses(count, frames)),
    bone_weights: kind === "lbs" ? null : pack(blob, weights(mesh.rest, count, Math.min(4, count))),
    virtual_heads: kind === "two_layer" ? blob.add(Float32Array.from({ length: 3 * joints }, (_, i) => (i % 3 === 1 ? (2 * (Math.floor(i / 3) + 0.5)) / joints : 0))) : null,
    error,
    verdict: {
      visibility: "visible",
      text: `visible on ${bones[count - 1].name} in frames 3-9`,
      places: [{ region: bones[count - 1].name, cause: "shape", frames: [[3, 9]], throughout: false, excess: 1.5 }],
    },
    plots: {
      iterations: Array.from({ length: 30 }, (_, i) => ({ iteration: i + 1, error: rms * (1 + 3 * Math.exp(-i / 4)), stage: i < 8 ? "first bones" : i < 20 ? "weights and motion" : "polish" })),
      influence_counts: counts,
      bone_usage: usage,
      timings: [["read", 0.04], ["first bones", 0.31], ["weights", 1.27], ["motion", 0.82], ["write", 0.02]].map(([stage, secs]) => ({ stage, secs })),
    },
    figures: [
      { name: "E_RMS", value: rms, text: (100 * rms).toPrecision(3), unit: "", meaning: "Root mean square distance to the original in hundredths of the model's size: below 1 the eye hardly sees it." },
      { name: "Largest error", value: error.max.value, text: error.max.value.toPrecision(3), unit: "units", meaning: `The worst vertex anywhere: ${error.max.vertex} in frame ${error.max.frame}.` },
      { name: "Bones", value: count, text: String(count), meaning: "Transforms that the model moves per frame." },
      { name: "Bones per vertex", value: skinning.influences, text: String(skinning.influences), meaning: "At most so many bones hold one vertex." },
    ],
    storage: [
      { what: "Vertices per frame, 32-bit floats", bytes: frames * mesh.vertices * 12 },
      { what: "Model, weights and motion", bytes: mesh.vertices * (12 + 4 * keep) + frames * count * 48 },
    ],
    warnings: keep > 4 ? [{ text: `Some vertices hang on ${keep} bones`, meaning: "Game engines often take four only; `bonesmith reduce --max-influences 4` brings the number down." }] : [],
  };
  return { built, fit, error, onBones };
}

function reference(made, original) {
  const frames = [0, Math.floor(original.length / 2), original.length - 1];
  const triples = (p) => Array.from({ length: p.length / 3 }, (_, v) => [p[3 * v], p[3 * v + 1], p[3 * v + 2]]);
  const shots = (list) => frames.map((frame) => ({ frame, source: frame, positions: triples(list[frame]) }));
  const models = made.map(({ built, fit, error, onBones }) => {
    const bones = {};
    for (let v = 0; v < fit[0].length / 3; v += Math.ceil(fit[0].length / 60)) {
      const at = v * onBones.influences;
      if (onBones.weights[at] > 0.6 * 65535) bones[v] = built.bones[onBones.indices[at]].name;
    }
    return { name: built.name, kind: built.kind, max: error.max, bones, frames: shots(fit) };
  });
  return { size: 2.1, models, original: shots(original) };
}

function report(title, command, mesh, original, blob, models, more = {}) {
  const frames = original.length;
  return {
    format: 1,
    version: "0.0.0-test",
    title,
    command,
    command_line: `bonesmith ${command} tentacle.npz`,
    up: "y",
    file: { limit_bytes: 64_000_000, kept_frames_every: 1, frames_total: frames },
    mesh: { vertices: mesh.vertices, triangles: blob.add(mesh.triangles), edges: blob.add(mesh.edges) },
    frames: { count: frames, fps: 24, indices: original.map((_, f) => f), clips: [{ name: "curl", start: 0, count: frames }] },
    original: quantise(blob, original, frames > 100 ? "delta" : undefined), // both codings are read
    models,
    done: {
      text: `Fitted ${models.map((m) => `${m.bones.length} bones`).join(" and ")} to ${frames} frames of ${mesh.vertices} vertices.`,
      params: [
        { name: "bones", value: models[0].bones.length, meaning: "How many bones to look for." },
        { name: "max influences", value: 4, meaning: "Bones that may share a vertex." },
        { name: "effort", value: "balanced" },
      ],
      seconds: { total: 2.46 },
    },
    table: null,
    ...more,
  };
}

function write(kind, json, blob, judge, level) {
  const name = `synthetic-${kind}`;
  const html = page(template, json, blob, level);
  writeFileSync(join(out, `${name}.html`), html);
  if (judge) writeFileSync(join(out, `${name}.json`), JSON.stringify(judge));
  console.log(`${name}.html ${(html.length / 1e6).toFixed(2)} MB`);
}

function single(name, title, settings, { rings = 60, sides = 20, frames = 48 } = {}) {
  const mesh = tube(rings, sides);
  const original = sequence(mesh.rest, frames);
  const blob = new Blob();
  const made = model(blob, mesh, original, settings);
  write(name, report(title, "fit", mesh, original, blob, [made.built]), blob, reference([made], original));
}

single("fit", "tentacle.npz → tentacle.glb", { name: "tentacle.glb", kind: "lbs", count: 3, keep: 2 });
single("wide", "tentacle.npz → wide.glb", { name: "wide.glb", kind: "lbs", count: 18, keep: 16 });
single("two_layer", "tentacle.npz → two layers", { name: "two-layer.npz", kind: "two_layer", count: 4, keep: 4 });
single("ddm", "tentacle.npz → Direct Delta Mush", { name: "mush.npz", kind: "ddm", count: 6, keep: 2 });

{
  const mesh = tube(60, 20);
  const original = sequence(mesh.rest, 48);
  const blob = new Blob();
  const made = [3, 8].map((count) => model(blob, mesh, original, { name: `${count}-bones.glb`, kind: "lbs", count, keep: 2 }));
  const columns = ["model", { name: "E_RMS", meaning: "Root mean square error" }, "largest", "bones"];
  const rows = made.map(({ built, error }) => [built.name, built.figures[0].text, Number(error.max.value.toPrecision(3)), built.bones.length]);
  write("compare", report("tentacle.npz: two fits", "compare", mesh, original, blob, made.map((m) => m.built), { table: { columns, rows } }), blob, reference(made, original));
}

{
  // A face: twelve shapes, of which one is the product of two others and one an in-between.
  const mesh = tube(60, 20);
  const original = sequence(mesh.rest, 12);
  const blob = new Blob();
  const made = model(blob, mesh, original, { name: "face.glb", kind: "lbs", count: 6, keep: 2 });
  made.built.kind = "shape_bones";
  made.built.verdict.places[0].frames = [[3, 3]];
  const shapes = original.map((_, s) => ({ name: `shape${"ABCDEFGHIJKL"[s]}`, of: { 2: [0, 1], 3: [0] }[s] ?? [], range: s === 3 ? [0.2, 0.5, 0.8] : null }));
  const mixed = (list, weights) => {
    const tent = Math.min(Math.max(weights[0] <= 0.5 ? (weights[0] - 0.2) / 0.3 : (0.8 - weights[0]) / 0.3, 0), 1);
    const all = weights.map((w, s) => ({ 2: weights[0] * weights[1], 3: tent })[s] ?? w);
    const at = (i) => mesh.rest[i] + all.reduce((sum, w, s) => sum + w * (list[s][i] - mesh.rest[i]), 0);
    return Array.from({ length: mesh.vertices }, (_, v) => [at(3 * v), at(3 * v + 1), at(3 * v + 2)]);
  };
  const sets = [{}, { 0: 0.4, 1: 0.5, 7: 0.2 }, { 5: 1 }].map((set) => shapes.map((_, s) => set[s] ?? 0));
  const mixes = sets.map((weights) => ({ weights, model: mixed(made.fit, weights), original: mixed(original, weights) }));
  write("face", report("face.npz → face.glb", "shapes", mesh, original, blob, [made.built], { shapes }), blob, { ...reference([made], original), mixes });
}

{
  // Every third of 46 frames and a cloud of points instead of faces; nothing to compare with.
  const mesh = tube(40, 16);
  const all = sequence(mesh.rest, 46);
  const kept = all.filter((_, f) => f % 3 === 0);
  const blob = new Blob();
  const built = { name: "points.npz", kind: "sequence", rest: blob.add(mesh.rest), skin: null, positions: quantise(blob, kept), bones: [], bone_matrices: null, error: null, plots: {}, figures: [], storage: [], warnings: [] };
  const json = report("points.npz", "view", { ...mesh, triangles: new Uint32Array(), edges: new Uint32Array() }, kept, blob, [built], { original: null });
  json.file = { limit_bytes: 1_000_000, kept_frames_every: 3, frames_total: 46 };
  json.frames.indices = kept.map((_, f) => 3 * f);
  json.mesh.edges = null;
  write("points", json, blob);
}

write("tables", {
  format: 1, version: "0.0.0-test", title: "bench fit", command: "bench", mesh: null, models: [], done: { text: "Measured two sequences on one thread." },
  tables: [{ title: "Fit", columns: ["sequence", "bones", "E_RMS", "seconds"], rows: [["horse", 30, "1.92", 4.1], ["elephant", 25, "0.97", 12.25], ["camel", 23, null, 0.8]] }],
}, new Blob());

if (extra === "stress") {
  const mesh = tube(500, 100);
  const original = sequence(mesh.rest, 200);
  const blob = new Blob();
  const made = model(blob, mesh, original, { name: "large.glb", kind: "lbs", count: 40, keep: 8 });
  write("stress", report("50 000 vertices, 200 frames", "fit", mesh, original, blob, [made.built]), blob, null, 1);
}
