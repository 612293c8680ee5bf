// The key of the colours: the heat map with numbers and percentiles and how many vertices lie where, weights, or bones by name.
import { css, heatGradient } from "../color";
import { heatTop, largest, SHADING_TOP, sizeOf, type Content, type ErrorArrays } from "../content";
import type { State, Store } from "../state";
import { choices, toggle } from "./controls";
import { h, num, svg } from "./dom";

const BINS = 48;

export function legend(content: Content, store: Store): HTMLElement {
  const body = h("div", { class: "legend-body" });
  const frames = content.shapes ? "shapes" : "frames";
  const options = h(
    "div",
    { class: "legend-options" },
    choices(store, "errorKind", "Which error", [
      { value: "rms", label: "RMS", hint: `Root mean square over all ${frames}` },
      { value: "max", label: "Worst", hint: `Largest over all ${frames}` },
      ...(content.original ? [{ value: "frame" as const, label: content.shapes ? "Now" : "Frame", hint: content.shapes ? "In what is shown" : "In the frame shown" }] : []),
    ]),
    choices(store, "errorTop", "Scale up to", [
      ...(sizeOf(content.models) === null ? [] : [{ value: "absolute" as const, label: "10 ‰", hint: "10 thousandths of the model's size, in every report" }]),
      { value: "p99", label: "99 %", hint: "99 % of the vertices lie below the top" },
      { value: "max", label: "Largest", hint: "Top of the scale is the largest value" },
    ]),
    toggle(store, "contours", "Contour lines", "C", "A line at each quarter of the scale"),
  );
  const box = h("section", { class: "legend", "aria-label": "Key of the colours" }, body, options);
  store.on(["color", "errorKind", "errorTop", "model", "bone"], (state) => {
    box.dataset["mode"] = state.color;
    options.hidden = state.color !== "error";
    body.replaceChildren(...bodyOf(content, state));
  });
  return box;
}

function bodyOf(content: Content, state: Readonly<State>): Node[] {
  const model = content.models[state.model];
  if (!model) return [];
  if (state.color === "error" && model.error) return errorKey(content, model.error, state);
  if (state.color === "error") return [h("p", { class: "soft" }, "This report has no original to measure the error against.")];
  if (state.color === "shading" && model.normals && model.error) {
    const ends = [0, 0.5, 1].map((x): [number, string] => [x, `${x * SHADING_TOP}°`]);
    const what = "Angle between the original's normals as shown and the stored normals, deformed by the bones as engines do.";
    return [h("h3", {}, content.shapes ? "Skinned normals" : "Skinned normals in this frame"), bar(), ticks(ends), h("p", { class: "soft" }, what)];
  }
  if (state.color === "shading") return [h("p", { class: "soft" }, "This model stores no normals that the page could deform.")];
  if (state.color === "weights" && model.weights) {
    const name = model.bones[state.bone ?? 0]?.name ?? "";
    return [h("h3", {}, "Weight of ", h("b", {}, name)), bar(), ticks([0, 0.5, 1].map((x) => [x, `${Math.round(100 * x)} %`]))];
  }
  if (state.color === "bones" && model.weights) {
    return [h("p", { class: "soft" }, "Each vertex has the mixed colour of its bones, by weight. Pick a bone below or a vertex in the picture.")];
  }
  if (state.color !== "surface") return [h("p", { class: "soft" }, "This model has no weights to show.")];
  return [];
}

function errorKey(content: Content, error: ErrorArrays, state: Readonly<State>): Node[] {
  const top = heatTop(content.models, state.errorKind, state.errorTop);
  const values = state.errorKind === "rms" ? error.rms : error.worst;
  const title = { rms: "RMS error per vertex", max: "Worst error per vertex", frame: content.shapes ? "Error of what is shown" : "Error in this frame" }[state.errorKind];
  if (top === 0) return [h("h3", {}, title), h("p", { class: "soft" }, "There is none: every vertex lies where the original has it.")];
  const size = sizeOf(content.models);
  const absolute = state.errorTop === "absolute" && size !== null;
  const unit = absolute ? "‰ of the size" : "model units";
  const nodes: Node[] = [h("h3", {}, title, h("span", { class: "unit" }, unit))];
  if (state.errorKind !== "frame") nodes.push(distribution(values, top));
  nodes.push(bar(), ticks([0, 0.5, 1].map((x) => [x, num(absolute ? (1000 * x * top) / size : x * top, 3)])));
  if (state.errorKind !== "frame") nodes.push(percentiles(values, error, state, absolute ? 1000 / size : 1));
  return nodes;
}

function bar(): HTMLElement {
  const cells = [1, 2, 3].map((i) => h("i", { style: `left:${25 * i}%` }));
  return h("div", { class: "bar", style: `background:${heatGradient("to right")}` }, ...cells);
}

function ticks(labels: [number, string][]): HTMLElement {
  return h("div", { class: "ticks" }, ...labels.map(([at, text]) => h("span", { style: `left:${100 * at}%` }, text)));
}

/** How many vertices have which value, above the bar. */
function distribution(values: Float32Array, top: number): SVGSVGElement {
  const counts = new Array<number>(BINS).fill(0);
  for (const value of values) counts[Math.min(BINS - 1, Math.floor(top > 0 ? (value / top) * BINS : 0))]++;
  const most = largest(counts) || 1;
  const points = counts.map((c, i) => `${i},${(24 - 22 * Math.sqrt(c / most)).toFixed(2)} ${i + 1},${(24 - 22 * Math.sqrt(c / most)).toFixed(2)}`);
  return svg(
    "svg",
    { viewBox: `0 0 ${BINS} 24`, preserveAspectRatio: "none", class: "distribution", role: "img", "aria-label": "How many vertices have which error" },
    svg("polygon", { points: `0,24 ${points.join(" ")} ${BINS},24` }),
  );
}

function percentiles(values: Float32Array, error: ErrorArrays, state: Readonly<State>, scale: number): HTMLElement {
  const sorted = values.slice().sort();
  const at = (q: number): number => sorted[Math.round(q * (sorted.length - 1))] ?? 0;
  const given = error.percentiles;
  const rows: [string, number][] =
    state.errorKind === "rms"
      ? [["half", given.p50], ["90 %", given.p90], ["95 %", given.p95], ["99 %", given.p99], ["all", at(1)]]
      : [["half", at(0.5)], ["90 %", at(0.9)], ["95 %", at(0.95)], ["99 %", at(0.99)], ["all", error.max.value]];
  const cells = rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, num(scale * value, 3))));
  return h("dl", { class: "percentiles", "aria-label": "Share of the vertices whose error is at most" }, ...cells);
}

/** A colour chip; its text stands beside it. */
export function chip(rgb: [number, number, number]): HTMLElement {
  return h("i", { class: "chip", style: `background:${css(rgb)}`, "aria-hidden": "true" });
}
