// The plots of a model.
import { css } from "../color";
import { largest, type Content, type ErrorArrays, type ModelContent } from "../content";
import type { Store } from "../state";
import type { Histogram, Plots } from "../types";
import { count, num, percent, svg } from "../ui/dom";
import { nameOf } from "../ui/inspector";
import { chart, path, steps, type Chart, type Frame } from "./chart";

const WIDEST = 56; // pixels of a column
/** From here on a linear scale would press all but the largest errors to the ground. */
const WIDE_RANGE = 8;
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "1 4", "12 5"];

/** Nearest kept frame to a frame of the source. */
function keptFrame(content: Content, source: number): number {
  const indices = content.report.frames?.indices ?? [];
  return indices.reduce((best, frame, i) => (Math.abs(frame - source) < Math.abs(indices[best] - source) ? i : best), 0);
}

function frameTicks(frames: number): [number, string][] {
  return steps(0, Math.max(frames - 1, 1), 6)
    .filter(Number.isInteger)
    .map((frame) => [frame, String(frame)]);
}

function series(frame: Frame, values: number[], attributes: Record<string, string>): SVGElement {
  return path(values.map((value, i) => [frame.x(i), frame.y(value)]), { fill: "none", ...attributes });
}

export function perFrame(content: Content, store: Store, error: ErrorArrays): Chart {
  const { rms, median, q1, q3, max } = error.per_frame;
  const top = largest(max);
  const low = Math.min(...q1.filter((value) => value > 0), top);
  const logY = top > WIDE_RANGE * low;
  const made = chart({
    title: "Error per frame",
    caption: `Distance between original and fit over the vertices of each frame, in model units${logY ? ", on a logarithmic scale" : ""}. A click goes there.`,
    wide: true,
    x: [0, Math.max(rms.length - 1, 1)],
    y: logY ? [Math.max(low / 1.3, top / 1e4), top * 1.1] : [0, top * 1.04 || 1],
    logY,
    xTicks: frameTicks(rms.length),
    yFormat: (value) => num(value, 3),
    key: [
      { label: "largest", class: "line-max" },
      { label: "RMS", class: "line-rms" },
      { label: "median", class: "line-median" },
      { label: "middle half of the vertices", class: "band" },
    ],
    draw: (frame) => [
      path([...q3.map((v, i): [number, number] => [frame.x(i), frame.y(v)]), ...q1.map((v, i): [number, number] => [frame.x(i), frame.y(v)]).reverse()], { class: "band" }),
      series(frame, max, { class: "line-max" }),
      series(frame, median, { class: "line-median" }),
      series(frame, rms, { class: "line-rms" }),
    ],
    places: rms.map((_, i) => i),
    read: (i) => `Frame ${i}: RMS ${num(rms[i])}, median ${num(median[i])}, half within ${num(q1[i])} to ${num(q3[i])}, largest ${num(max[i])}`,
    pick: (i) => store.set({ frame: keptFrame(content, i), playing: false }),
  });
  store.on(["frame"], (state) => made.mark(content.report.frames?.indices[state.frame] ?? state.frame));
  return made;
}

/** Errors of the shapes of a face, each alone at weight 1. */
export function perShape(content: Content, store: Store, error: ErrorArrays): Chart {
  const { rms, max } = error.per_frame;
  const names = content.shapes!.map((shape) => shape.name);
  const made = chart({
    title: "Error per shape",
    caption: "Distance between original and fit over the vertices of each shape alone, in model units: root mean square as columns, the largest as lines. A click shows the shape.",
    wide: true,
    x: [-0.5, rms.length - 0.5],
    y: [0, largest(max) * 1.05 || 1],
    xTicks: frameTicks(rms.length),
    yFormat: (value) => num(value, 3),
    key: [
      { label: "largest", class: "line-max" },
      { label: "RMS", class: "line-rms" },
    ],
    draw: (frame) =>
      rms.flatMap((value, s) => [
        columnBar(frame, s - 0.4, s + 0.4, value, "column"),
        path([[frame.x(s - 0.4), frame.y(max[s])], [frame.x(s + 0.4), frame.y(max[s])]], { class: "line-max" }),
      ]),
    places: rms.map((_, s) => s),
    read: (s) => `${names[s]}: RMS ${num(rms[s])}, largest ${num(max[s])}`,
    pick: (s) => store.set({ frame: keptFrame(content, s), playing: false }),
  });
  store.on(["frame"], (state) => made.mark(content.report.frames.indices[state.frame] ?? null));
  return made;
}

/** RMS of every model over the frames, told apart by dashes as well as by the key. */
export function comparedFrames(content: Content, store: Store): Chart | null {
  const models = content.models.filter((model) => model.error);
  if (models.length < 2) return null;
  const all = models.map((model) => model.error!.per_frame.rms);
  const frames = Math.max(...all.map((values) => values.length));
  const made = chart({
    title: `RMS error per ${content.shapes ? "shape" : "frame"}, all models`,
    caption: `The same measure for each model, in model units. A click goes to that ${content.shapes ? "shape" : "frame"} in all of them.`,
    wide: true,
    x: [0, Math.max(frames - 1, 1)],
    y: [0, Math.max(...all.map(largest)) * 1.06 || 1],
    xTicks: frameTicks(frames),
    yFormat: (value) => num(value, 3),
    key: models.map((model, i) => ({ label: model.name, class: `model-line m${i % DASHES.length}` })),
    draw: (frame) => all.map((values, i) => series(frame, values, { class: `model-line m${i % DASHES.length}` })),
    places: Array.from({ length: frames }, (_, i) => i),
    read: (i) => `${content.shapes?.[i]?.name ?? `Frame ${i}`}: ${models.map((model, m) => `${model.name} ${num(all[m][i])}`).join(", ")}`,
    pick: (i) => store.set({ frame: keptFrame(content, i), playing: false }),
  });
  store.on(["frame"], (state) => made.mark(content.report.frames?.indices[state.frame] ?? null));
  return made;
}

export function histogram({ edges, counts }: Histogram): Chart {
  const total = counts.reduce((sum, c) => sum + c, 0) || 1;
  const shares = counts.map((c) => c / total);
  const below = counts.map((_, i) => shares.slice(0, i + 1).reduce((sum, s) => sum + s, 0));
  return chart({
    title: "How large the errors are",
    caption: "Share of all vertices in all frames by the size of their error, in model units.",
    x: [edges[0], edges[edges.length - 1] || 1],
    y: [0, largest(shares) * 1.05 || 1],
    xTicks: steps(edges[0], edges[edges.length - 1], 4).map((v) => [v, num(v, 3)]),
    yFormat: percent,
    draw: (frame) => shares.map((share, i) => columnBar(frame, edges[i], edges[i + 1], share, "column")),
    places: counts.map((_, i) => (edges[i] + edges[i + 1]) / 2),
    read: (i) => `${num(edges[i], 3)} to ${num(edges[i + 1], 3)}: ${percent(shares[i])}; ${percent(below[i])} are at most ${num(edges[i + 1], 3)}`,
  });
}

/** What is there shows: a bar of something is never thinner than a pixel and a half. */
function columnBar(frame: Frame, from: number, to: number, value: number, className: string, fill?: string): SVGElement {
  const gap = Math.min(2, (frame.x(to) - frame.x(from)) * 0.2);
  const height = value > 0 ? Math.max(frame.y(0) - frame.y(value), 1.5) : 0;
  const width = Math.min(Math.max(frame.x(to) - frame.x(from) - gap, 0.6), WIDEST);
  return svg("rect", { x: (frame.x(from) + frame.x(to) - width) / 2, y: frame.y(0) - height, width, height, class: className, fill });
}

export function iterations(list: NonNullable<Plots["iterations"]>): Chart | null {
  const shown = list.filter((entry) => entry.error > 0);
  if (shown.length < 2) return null;
  const errors = shown.map((entry) => entry.error);
  const low = Math.min(...errors);
  const high = Math.max(...errors);
  const starts = shown.map((entry, i) => (i === 0 || entry.stage !== shown[i - 1].stage ? i : -1)).filter((i) => i >= 0);
  return chart({
    title: "Error against iteration",
    caption: "How the error fell while fitting; the vertical scale is logarithmic, dotted lines are where a stage begins.",
    x: [0, shown.length - 1],
    y: [low / 1.05, high * 1.05],
    logY: true,
    xTicks: steps(0, shown.length - 1, 5).filter(Number.isInteger).map((i) => [i, String(shown[i].iteration)]),
    yFormat: (value) => num(value, 3),
    draw: (frame) => [
      ...starts.slice(1).map((i) => svg("line", { class: "stage-line", x1: frame.x(i), x2: frame.x(i), y1: 8, y2: frame.height - 26 })),
      ...stageNames(frame, starts.map((i) => [i, shown[i].stage ?? ""])),
      series(frame, errors, { class: "line-rms" }),
    ],
    places: shown.map((_, i) => i),
    read: (i) => `Iteration ${shown[i].iteration}${shown[i].stage ? ` (${shown[i].stage})` : ""}: ${num(shown[i].error)}`,
  });
}

/** Names of the stages where there is room for them; the reading tells all. */
function stageNames(frame: Frame, starts: [number, string][]): SVGElement[] {
  let free = -Infinity;
  return starts.flatMap(([i, name]) => {
    const x = frame.x(i) + 5;
    const end = x + 6.2 * name.length;
    if (x < free || end > frame.width) return [];
    free = end + 8;
    return [svg("text", { x, y: 18, class: "stage-name" }, name)];
  });
}

export function influenceCounts(counts: number[]): Chart {
  const total = counts.reduce((sum, c) => sum + c, 0) || 1;
  return chart({
    title: "Bones per vertex",
    caption: "How many vertices hang on how many bones; more bones cost more at run time.",
    x: [-0.5, counts.length - 0.5],
    y: [0, largest(counts) * 1.05 || 1],
    xTicks: counts.map((_, k) => [k, String(k)]),
    yFormat: (value) => count(value),
    draw: (frame) => counts.map((c, k) => columnBar(frame, k - 0.36, k + 0.36, c, "column")),
    places: counts.map((_, k) => k),
    read: (k) => `${k} ${k === 1 ? "bone" : "bones"}: ${count(counts[k])} vertices, ${percent(counts[k] / total)}`,
  });
}

export function boneUsage(model: ModelContent, store: Store, usage: number[]): Chart {
  const order = usage.map((_, b) => b).sort((a, b) => usage[b] - usage[a]);
  return chart({
    title: "How much each bone holds",
    caption: "Each bone's share of all weights, the largest first, in the bone's colour. A click picks the bone.",
    x: [-0.5, usage.length - 0.5],
    y: [0, largest(usage) * 1.05 || 1],
    xTicks: steps(0, Math.max(usage.length - 1, 1), 5).filter(Number.isInteger).map((i) => [i, String(i + 1)]),
    yFormat: percent,
    draw: (frame) =>
      order.map((b, i) => columnBar(frame, i - 0.42, i + 0.42, usage[b], "column bone", css(model.colors[b] ?? [0.5, 0.5, 0.5]))),
    places: order.map((_, i) => i),
    read: (i) => `${nameOf(model, order[i])}: ${percent(usage[order[i]])}`,
    pick: (i) => store.set({ bone: order[i], color: "weights" }),
  });
}
